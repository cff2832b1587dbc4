/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels to the other brokers of the cluster, for calls that are passed on to the owner.
 */
#ifndef FOLIOT_BROKER_PEERS_H
#define FOLIOT_BROKER_PEERS_H

#include "lib/base/attr.h"
#include "lib/rpc/rpc_client.h"
#include "lib/rpc/rpc_method.h"

struct loop;
struct resolver;
struct tls;
struct peers;

/* Metadata of a call that was passed on once already; the value is the name of who did it. */
#define METADATA_FORWARDED RPC_HEADER_FORWARDED

/* A call that is passed on ends after this long, whether its client set a deadline or not. */
#define FORWARD_TIMEOUT_MS 30000

/* Everything is borrowed. */
struct peers_options {
    struct loop *loop;
    struct resolver *resolver;
    struct tls *tls;  /* NULL: cleartext */
    const char *name; /* ours */
};

/* errors: ERR_NO_MEMORY. */
MUST_USE int peers_open(const struct peers_options *options, struct peers **out);

/*
 * Pass a call on to the broker at an address.
 *
 * shape:  request has path, payload, deadline, cb and ctx; metadata is set here.
 * errors: as rpc_channel_call; nothing follows then.
 */
MUST_USE int peers_call(struct peers *peers, const char *address, struct rpc_request *request);

typedef void (*peers_cb)(void *ctx);

/* End all calls, free, then the callback. */
void peers_close(struct peers *peers, peers_cb cb, void *ctx);

#endif
