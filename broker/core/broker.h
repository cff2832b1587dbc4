/* SPDX-License-Identifier: Apache-2.0
 *
 * The deterministic broker: everything that decides. It is told what happened (broker_on_…), each
 * time with `now`, and answers by requests to the coordinator and the store and by attempts handed
 * to the outbound. Single-threaded, no I/O, no clock. One loop turn at the edge is: deliver inputs,
 * broker_tick(), arm one timer for broker_next_wake(), poll.
 */
#ifndef FOLIOT_BROKER_CORE_BROKER_H
#define FOLIOT_BROKER_CORE_BROKER_H

#include "broker/core/call.h"
#include "broker/core/env.h"
#include "lib/base/attr.h"

struct broker;

struct broker_options {
    struct cluster cluster;  /* read at start */
    uint32_t database_count; /* of the configuration, 1 … DATABASE_COUNT_MAX */
    struct member self;      /* name, instance, addresses; owns, cannot and config are the core's */
    int64_t writer;          /* random, above 0: names the claim rows of our first streams; the
                                number above it those of the second ones */
    span_ms session_timeout_ms; /* the negotiated one */
    uint32_t entry_count_max;   /* tasks held in memory; the window shrinks to fit */
    span_ms window_ms;          /* how far ahead of now due times are kept in memory */
    span_ms audit_ms;           /* from one turn of the auditor to the next; 0: there is none */
    int64_t settle_wait_us;     /* longest wait of an outcome for others to leave with; 0: none */
    int64_t claim_wait_us;      /* the same of a claim that is ahead of its time */
    /* The simulator chooses these; 0: as large as there is room for, or as a server has it. */
    uint32_t batch_op_max; /* operations of one commit, BROKER_BATCH_OP_MIN … BATCH_OP_COUNT_MAX */
    uint32_t waiting_op_max; /* that wait for commits, of each class in each half of a database's
                                shards; a power of two from BROKER_WAITING_OP_MIN on */
    uint32_t split_op_min;   /* so many operations are two batches, beside each other */
    int64_t retry_us;        /* after a refusal by store or coordinator, before the next try */
};

/* A batch has room for what one piece of work adds, in an eighth of it; a class, for some of those.
 */
#define BROKER_BATCH_OP_MIN   32U
#define BROKER_WAITING_OP_MIN 64U

#define BROKER_WINDOW_MS_DEFAULT 600000

/* Longer, and more attempts are repeated when a broker is killed; shorter, and each commit deletes
 * from most tables, a few rows of each. source: docs/adr/0038 */
#define BROKER_SETTLE_WAIT_US (50 * US_PER_MS)

/* Claims are made so much earlier. Longer, and more of what may run at once is claimed and does not
 * run yet; shorter, and there are more commits with a few claims each. */
#define BROKER_CLAIM_WAIT_US INT64_C(2500)

/* More, and one connection carries everything until its process in the database is busy all the
 * time; fewer, and the same tasks are more commits. source: docs/adr/0041 */
#define BROKER_SPLIT_OP_MIN 256U

/*
 * Make a broker that owns nothing yet.
 *
 * shape:  env and options are copied; what env points to outlives the broker.
 * errors: ERR_NO_MEMORY.
 */
MUST_USE int broker_new(const struct broker_env *env, const struct broker_options *options,
                        struct broker **out);

/* Free at once. shape: no request of ours is in flight any more (store and coord are closed), or
 * the process is simulated and has crashed. Callbacks that are owed are not called. */
void broker_free(struct broker *broker);

/* Once per loop turn, after the inputs: expire, claim, start, load, and send what has gathered. */
void broker_tick(struct broker *broker, const struct now *now);

/* When to tick again if no input comes: boot time, BOOT_NEVER if nothing is planned. May be early
 * by a bounded amount, never late. */
boot_us broker_next_wake(const struct broker *broker, const struct now *now);

/* The coordinator's events; wire struct coord_events to these. */
void broker_on_session(struct broker *broker, const struct now *now, enum coord_session session);
void broker_on_members(struct broker *broker, const struct now *now, const struct member *members,
                       size_t count);
void broker_on_shard_free(struct broker *broker, const struct now *now, uint32_t shard);
void broker_on_shard_lost(struct broker *broker, const struct now *now, uint32_t shard);

/* The store lost the timeline of a database (failover): every shard in it is taken again. */
void broker_on_timeline(struct broker *broker, const struct now *now, uint32_t database);

/*
 * Replace the known queues: read from home after a config event. Borrowed for the call.
 *
 * shape: by rising id; a queue that is absent keeps its tasks in the database until it is back.
 */
void broker_on_queues(struct broker *broker, const struct now *now, const struct queue *queues,
                      size_t count, int64_t config_version);

/* The outbound reports how an attempt ended; the attempt is invalid after this. */
void broker_on_outcome(struct broker *broker, const struct now *now, struct attempt *attempt);

/*
 * Another broker tells how an attempt of one of our shards ended that it had begun as their owner.
 *
 * errors: ERR_FENCED: not our shard; ERR_UNAVAILABLE: not yet, tell it again; ERR_NOT_FOUND: not
 * the live claim, of no use any more, which is said only after a read under our epoch.
 */
MUST_USE int broker_on_report(struct broker *broker, const struct now *now,
                              const struct report *report);

/*
 * Store and coordinator callbacks come without `now`; the edge sets the turn's time before it
 * delivers them. Every broker_on_… does the same by itself.
 *
 * shape: boot never goes back. A lower bound that goes back is held.
 */
void broker_set_now(struct broker *broker, const struct now *now);

/*
 * A user's call. The callback runs exactly once, later or at the next tick, never inside.
 *
 * shape: call as in call.h, kept until the callback.
 */
void broker_call(struct broker *broker, const struct now *now, struct call *call);

/* Who serves a shard, for forwarding. */
enum route {
    ROUTE_SELF = 1,
    ROUTE_OTHER,
    ROUTE_NOBODY
};

/* shape: address is set for ROUTE_OTHER: borrowed until the next member event. */
enum route broker_route(const struct broker *broker, uint32_t shard, const char **address);

/* A slot for a task without key: of a shard that we serve, the same one run by run so that a commit
 * touches few tables; if we serve none, of any shard. */
uint16_t broker_pick_slot(struct broker *broker);

uint32_t broker_shard_count(const struct broker *broker);

/* A queue by number or by name; NULL if unknown here. Borrowed until the next broker_on_queues().
 */
const struct queue *broker_queue_find(const struct broker *broker, uint32_t id);
const struct queue *broker_queue_by_name(const struct broker *broker, const char *tenant,
                                         const char *name);

/* Members as last heard; borrowed until the next member event. */
const struct member *broker_members(const struct broker *broker, size_t *count);

/*
 * The members that placement counts, ourselves among them even where nobody has heard of us yet:
 * of each name the youngest, and nobody who leaves, unless all do.
 *
 * shape:     out has MEMBER_COUNT_MAX + 1 places; returns how many are set.
 * ownership: borrowed until the next member event.
 * source:    DESIGN 5
 */
size_t broker_placed_members(const struct broker *broker, const struct member **out);

/* The present member of a name: the youngest of those that have it, or ourselves; NULL: nobody.
 * Borrowed until the next member event. */
const struct member *broker_member_named(const struct broker *broker, const char *name);

/* Whether another member could serve the shards of a database when we leave. */
bool broker_has_heir(const struct broker *broker, uint32_t database);

/* Ourselves, as last published or about to be; a young broker is not yet among the members that it
 * has heard of. Borrowed. */
const struct member *broker_self(const struct broker *broker);

/* Stop taking shards and release all; broker_is_drained() says when none is left and no attempt of
 * ours is running. source: DESIGN 14 */
void broker_drain(struct broker *broker, const struct now *now);
bool broker_is_drained(const struct broker *broker);

#endif
