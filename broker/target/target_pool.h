/* SPDX-License-Identifier: Apache-2.0
 *
 * All addresses that attempts go to, each with its own channel and its own room, so that a slow,
 * dead, hanging or unknown one delays nobody else. Knows nothing of queues or of the core.
 */
#ifndef FOLIOT_BROKER_TARGET_TARGET_POOL_H
#define FOLIOT_BROKER_TARGET_TARGET_POOL_H

#include "broker/target/target_call.h"

struct loop;
struct resolver;
struct target_pool;
struct tls;

struct target_pool_options {
    struct loop *loop;         /* borrowed */
    struct resolver *resolver; /* borrowed */
    struct tls *tls;           /* of targets with TLS, borrowed; NULL: they cannot be used */
    span_ms keepalive_ms;      /* PING when silent for so long with open calls; 0: never */
    uint32_t target_count_max; /* addresses with a channel at one time */
    uint32_t concurrency_max;  /* calls in flight per address */
    uint32_t queue_max;        /* attempts waiting per address, besides */
    uint32_t batch_max;        /* attempts in one Deliver */
};

/* errors: ERR_NO_MEMORY. */
MUST_USE int target_pool_open(const struct target_pool_options *options, struct target_pool **out);

/*
 * Start an attempt at an address.
 *
 * shape:  address is borrowed for this call; call->path is set for TARGET_GRPC_METHOD.
 * errors: ERR_FULL no room at this address, or every address is in use; ERR_NO_MEMORY; ERR_INVALID
 *         the address cannot be used. Nothing follows then.
 */
MUST_USE int target_pool_start(struct target_pool *pool, const struct target_address *address,
                               struct target_call *call);

struct target_pool_stats {
    uint32_t targets;     /* addresses with a channel */
    uint32_t unreachable; /* of these, whose last attempts to connect have failed */
    uint32_t attempts;    /* started and not ended */
};

void target_pool_stats(const struct target_pool *pool, struct target_pool_stats *out);

typedef void (*target_pool_cb)(void *ctx);

/* End every attempt (TARGET_UNKNOWN or TARGET_NOT_STARTED), free the pool, then the callback. */
void target_pool_close(struct target_pool *pool, target_pool_cb cb, void *ctx);

#endif
