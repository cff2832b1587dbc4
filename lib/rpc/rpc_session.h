/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection of the server as a protocol engine: gRPC over h2, its calls, its limits and its
 * timers. Bytes and times in, bytes out; no sockets, no clock.
 */
#ifndef FOLIOT_LIB_RPC_RPC_SESSION_H
#define FOLIOT_LIB_RPC_RPC_SESSION_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prng;
struct rpc_serving;
struct rpc_session;

/* What the connection wants of its owner. */
struct rpc_session_events {
    /* There is something to send, or a nearer time to wake at. May be called from anywhere. */
    void (*flush)(void *ctx);
};

/*
 * A client has connected; our SETTINGS wait to be filled.
 *
 * ownership: serving and events are borrowed; peer is copied.
 * errors:    ERR_NO_MEMORY.
 */
MUST_USE int rpc_session_open(struct rpc_serving *serving, const char *peer, boot_us now_us,
                              struct prng *prng, struct rpc_session **out);

void rpc_session_set_events(struct rpc_session *session, const struct rpc_session_events *events,
                            void *ctx);

/* Cancel the calls and free. Handlers that still work finish their calls as orphans. */
void rpc_session_close(struct rpc_session *session);

/* Bytes from the client. errors: close the connection with them. */
MUST_USE int rpc_session_take(struct rpc_session *session, boot_us now_us, struct slice bytes);

/* Bytes for the client; as h2_fill. */
int rpc_session_fill(struct rpc_session *session, uint8_t *space, size_t len);

/* Nothing more will come or go. */
bool rpc_session_is_done(const struct rpc_session *session);

/* When rpc_session_tick has something to do. */
boot_us rpc_session_next_wake(const struct rpc_session *session);

/* Time has passed. errors: ERR_TIMEOUT, ERR_CANCELLED: close the connection. */
MUST_USE int rpc_session_tick(struct rpc_session *session, boot_us now_us);

/*
 * Send the client elsewhere in two steps, finish the calls, be done by `cut_us`. Of several drains
 * the earliest cut counts.
 */
void rpc_session_drain(struct rpc_session *session, boot_us now_us, boot_us cut_us);

/* Response bytes that wait for the client to take them. */
size_t rpc_session_backlog(const struct rpc_session *session);

#endif
