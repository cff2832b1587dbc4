/* SPDX-License-Identifier: Apache-2.0
 *
 * What the deterministic broker knows of the world: interfaces, and time as an argument. The edge
 * fills it with the real ones, the simulator with its own.
 */
#ifndef FOLIOT_BROKER_CORE_ENV_H
#define FOLIOT_BROKER_CORE_ENV_H

#include "coordinator/coord.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"
#include "lib/base/list.h"
#include "lib/model/queue.h"
#include "lib/model/task.h"
#include "storage/store.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Estimate of one database's clock, in microseconds since 1970 UTC. The true clock is never behind
 * lower and never ahead of upper. Unknown: {INT64_MIN, INT64_MAX, INT64_MIN}, and then nothing is
 * due and nothing may start. After a step back lower stands still, ahead of the database: so much
 * has been due already. What others may have written by the clock since then, the deadline of a
 * claim, has passed only when proven has passed it. source: DESIGN 8
 */
struct clock_bounds {
    int64_t lower_us;
    int64_t upper_us;
    int64_t proven_us;
};

/* The time of one loop turn: sampled once at the edge, passed to every input. */
struct now {
    boot_us boot;                                     /* CLOCK_BOOTTIME of this process */
    struct clock_bounds database[DATABASE_COUNT_MAX]; /* by database index */
};

/* How an attempt ended. */
enum outcome {
    OUTCOME_DONE = 1,   /* the target did it */
    OUTCOME_RETRY,      /* the target said no, or was provably not reached: it may run again */
    OUTCOME_DEAD,       /* the target said never */
    OUTCOME_OBSOLETE,   /* the target said that it is no longer wanted */
    OUTCOME_UNKNOWN,    /* sent, and no answer: it may be running until the claim's deadline */
    OUTCOME_NOT_STARTED /* withdrawn before the send, by start_by or for want of room */
};

/*
 * One attempt on its way. Owned by the core; valid until its outcome has been reported.
 * 1. The call may be sent only while the clock's upper bound ≤ start_by_ms, checked just before the
 *    send (outbound's duty) and again after it (late: reset the call, OUTCOME_UNKNOWN).
 * 2. It is over by deadline_ms: the outbound reports an outcome before that.
 */
struct attempt {
    struct list link;   /* the outbound's, from start to outcome */
    void *outbound_ctx; /* the outbound's, from start to outcome */
    struct task_id id;
    uint32_t shard;
    uint32_t database; /* whose clock the times below are read by */
    uint32_t queue;    /* number of the queue: broker_queue_find() */
    uint32_t attempt;  /* 1 for the first */
    wall_ms due_ms;
    wall_ms start_by_ms;    /* see 1 */
    wall_ms deadline_ms;    /* travels with the attempt */
    span_ms timeout_ms;     /* for one call */
    struct slice payload;   /* borrowed until the outcome */
    struct slice key;       /* borrowed until the outcome */
    struct slice tags;      /* borrowed until the outcome; canonical text */
    struct slice order_key; /* borrowed until the outcome */
    wall_ms expire_ms;      /* 0: never; start_by_ms is not above it */
    /* filled in by the outbound before it reports */
    enum outcome outcome;
    span_ms retry_after_ms;  /* RETRY: not before this long from now; 0 if the target did not say */
    struct slice error_text; /* RETRY, DEAD: borrowed during broker_on_outcome() */
    struct slice response;   /* DONE: what the target answered; borrowed the same way */
};

/* How an attempt ended, told to whoever owns its shard by now. */
struct report {
    struct task_id id;
    uint32_t shard;
    uint32_t attempt;
    enum outcome outcome;    /* DONE, RETRY, DEAD or OBSOLETE */
    span_ms retry_after_ms;  /* as in struct attempt */
    wall_ms deadline_ms;     /* of the claim: of no use after it */
    struct slice error_text; /* borrowed for the call */
    struct slice response;   /* DONE: borrowed for the call */
};

/* How attempts leave. */
struct outbound {
    /* 0, and broker_on_outcome() follows exactly once, later, never inside; ERR_FULL: no room now,
     * nothing will follow. */
    int (*start)(struct outbound *outbound, struct attempt *attempt);
    /* The shard has gone to another broker while the attempt ran: tell its owner, who hears it by
     * broker_on_report(). Best effort; NULL: the owner waits for the deadline instead. */
    void (*report)(struct outbound *outbound, const struct report *report);
};

/* Seen by tests and by the log: what happened, in which shard, to which task. */
struct core_event {
    const char *what; /* constant name, as in "claim", "start", "settle" */
    uint32_t shard;
    int64_t epoch;
    int64_t seq; /* task, or 0 */
    int64_t a;   /* by `what` */
    int64_t b;
};

typedef void (*core_event_fn)(void *ctx, const struct core_event *event);

/* Everything the core is given. All pointers outlive the broker. */
struct broker_env {
    uint64_t seed; /* of the core's own draws: jitter, spreading */
    struct coord *coord;
    struct store *store;
    struct outbound *outbound;
    core_event_fn on_event; /* NULL: nobody listens */
    void *on_event_ctx;
};

#endif
