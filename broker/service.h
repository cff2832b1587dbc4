/* SPDX-License-Identifier: Apache-2.0
 *
 * The RPC methods of foliot.v1: calls to core inputs and back. Any broker takes any call; what is
 * not ours is passed on to the owner, once. UNAVAILABLE and RESOURCE_EXHAUSTED mean that nothing
 * happened; when that is not certain the answer is UNKNOWN with reason OUTCOME_UNKNOWN. source: K-8
 */
#ifndef FOLIOT_BROKER_SERVICE_H
#define FOLIOT_BROKER_SERVICE_H

#include "broker/config.h"
#include "broker/core/broker.h"
#include "broker/queue_sync.h"
#include "lib/rpc/rpc_method.h"

struct loop;
struct resolver;
struct service;

#define SERVICE_METHOD_COUNT 26

/* How long a call waits for its shard to have an owner. source: DESIGN 6 */
#define SERVICE_OWNER_WAIT_MS 1000

/* All borrowed until the close callback. */
struct service_options {
    struct loop *loop;
    struct tls *tls; /* for the other brokers; NULL: cleartext */
    struct resolver *resolver;
    struct broker *broker;
    const struct now *now; /* the time of the turn */
    /* Bring *now up to this moment, if not NULL: a call is read later than its turn began. */
    void (*sample)(void *ctx);
    void *sample_ctx;
    struct store *store;
    struct coord *coord;
    struct queue_sync *queues;
    const struct config *config;
    const struct cluster *cluster;
    const char *name; /* ours, as registered */
    /* We are asked to leave; called inside a handler. */
    void (*on_drain)(void *ctx);
    /* Which server a database is on; zeroes if none is known. NULL: the store has no servers. */
    void (*server_of)(void *ctx, uint32_t database, uint64_t *system_id, uint32_t *timeline);
    void *ctx;
};

/* errors: ERR_NO_MEMORY. */
MUST_USE int service_open(const struct service_options *options, struct service **out);

/* The methods of all services, SERVICE_METHOD_COUNT rows that live as long as the service. */
const struct rpc_method *service_methods(const struct service *service);

struct service_stats {
    uint64_t forwarded;     /* calls passed on to owners */
    uint64_t owner_waits;   /* times a call waited for an owner */
    uint64_t unknown;       /* answers OUTCOME_UNKNOWN */
    uint32_t tasks_waiting; /* gauge: tasks in calls that wait for their answer */
    /* outcomes of attempts whose shard has moved */
    uint64_t reports_told;    /* ours: the owner has taken it */
    uint64_t reports_useless; /* ours: no longer the live claim, or nobody who knows the method */
    uint64_t reports_dropped; /* ours: never told: too late, too many, or we close */
    uint64_t reports_taken;   /* by us, of others */
    uint64_t reports_refused; /* by us, of others */
    uint32_t reports_waiting; /* gauge: ours, on their way */
};

void service_get_stats(const struct service *service, struct service_stats *out);

/*
 * Tell the owner of a shard how an attempt ended that we began. Best effort, in the background.
 *
 * shape: as outbound.report of the core; may be called inside any of the core's functions.
 */
void service_tell(struct service *service, const struct report *report);

typedef void (*service_cb)(void *ctx);

/*
 * Free, then the callback.
 *
 * shape: no call comes in any more; calls that are open are answered first, so the core, the store
 *        and the coordinator still work.
 */
void service_close(struct service *service, service_cb cb, void *ctx);

#endif
