/* SPDX-License-Identifier: Apache-2.0
 *
 * The brokers that a client knows: those it was told to begin with and those that the cluster
 * names, a channel to each, and who owns which shard. Picks where a call goes. Belongs to the loop;
 * knows nothing of calls but their slot.
 */
#ifndef FOLIOT_CLIENT_LIB_BROKERS_H
#define FOLIOT_CLIENT_LIB_BROKERS_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"
#include "lib/rpc/rpc_client.h"
#include "proto/fault.h"

#include <stdbool.h>
#include <stdint.h>

struct brokers;
struct broker_link; /* one broker */

/* A call that belongs to no slot: any broker will do. */
#define SLOT_ANY (-1)

/* Most servers that a client is told of; more are learned. */
#define SEED_COUNT_MAX 16

struct brokers_options {
    struct loop *loop;
    struct resolver *resolver;
    const char *servers;           /* "host:port,…" */
    bool is_servers_only;          /* learn no others */
    uint32_t calls_max;            /* that a channel must take */
    struct tls *tls;               /* NULL: cleartext; borrowed */
    const char *tls_name;          /* that all certificates have; NULL: their own hosts. Borrowed */
    void (*on_learned)(void *ctx); /* the table was taken over */
    void *ctx;
};

/*
 * errors: ERR_INVALID (servers), ERR_NO_MEMORY, both with fault filled in. Whatever was opened is
 *         then closed by brokers_close() all the same: *out is set unless it is ERR_NO_MEMORY for
 *         the first struct, when it is NULL.
 */
MUST_USE int brokers_open(const struct brokers_options *options, struct brokers **out,
                          struct fault *fault);

typedef void (*brokers_cb)(void *ctx);

/*
 * Close every channel and free.
 *
 * shape: no call is with a link; cb runs once, later or inside this call.
 */
void brokers_close(struct brokers *brokers, brokers_cb cb, void *ctx);

/*
 * Where a call goes now: to the owner of its slot if it is known and can be reached, else to the
 * others in turn.
 *
 * shape:  slot 0 … SLOT_COUNT − 1 or SLOT_ANY; avoid: the link that has just failed, or NULL, taken
 *         only if there is no other.
 * return: NULL if none can be reached at the moment.
 */
struct broker_link *brokers_pick(struct brokers *brokers, int32_t slot,
                                 const struct broker_link *avoid);

/*
 * Start a call at a link. The link stays until brokers_ended().
 *
 * errors: as rpc_channel_call.
 */
MUST_USE int brokers_call(struct broker_link *link, struct rpc_request *request);

/* A call at a link has ended; the link may be gone after it. */
void brokers_ended(struct broker_link *link, const struct rpc_reply *reply);

/* What we believe of the shards may be wrong: ask again soon. */
void brokers_doubt(struct brokers *brokers);

/* Is there another broker that could be asked at once? */
bool brokers_has_other(const struct brokers *brokers, const struct broker_link *link);

/* The owner of a slot, as far as is known; NULL: none is. To be compared, not followed. */
const struct broker_link *brokers_owner(const struct brokers *brokers, int32_t slot);

/* Does the link go to the owner of the slot, as far as is known? */
bool brokers_is_owner(const struct brokers *brokers, const struct broker_link *link, int32_t slot);

/*
 * Take over what GetTopology answered.
 *
 * errors: ERR_INVALID, ERR_NO_MEMORY: then all stays as it was.
 */
MUST_USE int brokers_learn(struct brokers *brokers, struct slice topology);

/* For figures and tests. */
struct brokers_stats {
    uint32_t member_count; /* brokers that the cluster named */
    uint32_t link_count;
    uint64_t learned_count; /* topologies taken over */
};

void brokers_get_stats(const struct brokers *brokers, struct brokers_stats *out);

/* "host:port" of a link. Borrowed. */
const char *broker_link_target(const struct broker_link *link);

#endif
