/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection of the client as a protocol engine: unary calls over h2. Bytes and times in, bytes
 * out; no sockets, no clock. Its channel decides which calls it gets and when.
 */
#ifndef FOLIOT_LIB_RPC_RPC_CALLER_H
#define FOLIOT_LIB_RPC_RPC_CALLER_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"
#include "lib/rpc/rpc_client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_caller;

/* What the connection tells its channel, out of take, written, tick and close only. */
struct rpc_caller_events {
    /* The peer's SETTINGS have come: calls may be started. */
    void (*ready)(void *ctx);
    /* The peer is leaving: no new calls here. Open ones go on, or end as unprocessed. */
    void (*leaving)(void *ctx, bool too_many_pings);
    /* A call ended; it is forgotten here. reply is borrowed. */
    void (*ended)(void *ctx, struct rpc_request *request, const struct rpc_reply *reply);
};

/* Strings are borrowed for the life of the connection. */
struct rpc_caller_options {
    const char *authority;
    const char *scheme; /* "http" or "https" */
    const char *user_agent;
    size_t response_bytes_max;
    size_t header_bytes_max;
    span_ms keepalive_ms;         /* SPAN_NEVER: off */
    span_ms keepalive_timeout_ms; /* no answer to a PING for this long: dead */
};

/* errors: ERR_NO_MEMORY. */
MUST_USE int rpc_caller_open(const struct rpc_caller_options *options,
                             const struct rpc_caller_events *events, void *ctx, boot_us now_us,
                             struct rpc_caller **out);

/* End the open calls as UNAVAILABLE, free. */
void rpc_caller_close(struct rpc_caller *caller);

/* Bytes from the server. errors: close the connection with them. */
MUST_USE int rpc_caller_take(struct rpc_caller *caller, boot_us now_us, struct slice bytes);

/* Bytes for the server; as h2_fill. */
int rpc_caller_fill(struct rpc_caller *caller, uint8_t *space, size_t len);

/* Everything filled so far has gone to the kernel: calls that are out as a whole are told so. */
void rpc_caller_written(struct rpc_caller *caller, boot_us written_us);

/*
 * Put a call into the connection.
 *
 * shape:  rpc_caller_free_count > 0, ready, not leaving; the request stays in place until ended.
 * errors: ERR_TOO_LARGE for the peer's header list, ERR_CLOSED, ERR_NO_MEMORY: nothing was sent.
 */
MUST_USE int rpc_caller_start(struct rpc_caller *caller, boot_us now_us,
                              struct rpc_request *request);

/* Reset a started call; no event follows. */
void rpc_caller_drop(struct rpc_caller *caller, struct rpc_request *request);

/* Leave: told to the peer; done when open calls are. */
void rpc_caller_leave(struct rpc_caller *caller);

/* The oldest call that has not ended, or NULL. */
struct rpc_request *rpc_caller_first(const struct rpc_caller *caller);

/* Calls started and not ended; and how many more the peer allows now. */
uint32_t rpc_caller_open_count(const struct rpc_caller *caller);
uint32_t rpc_caller_free_count(const struct rpc_caller *caller);

bool rpc_caller_is_ready(const struct rpc_caller *caller);
bool rpc_caller_is_leaving(const struct rpc_caller *caller);
bool rpc_caller_is_done(const struct rpc_caller *caller);
bool rpc_caller_wants_write(const struct rpc_caller *caller);

/* Since when there has been no call; BOOT_NEVER while there are some. */
boot_us rpc_caller_idle_since_us(const struct rpc_caller *caller);

/* When rpc_caller_tick has something to do. */
boot_us rpc_caller_next_wake(const struct rpc_caller *caller);

/* Time has passed. errors: ERR_TIMEOUT: the peer is dead, close the connection. */
MUST_USE int rpc_caller_tick(struct rpc_caller *caller, boot_us now_us);

#endif
