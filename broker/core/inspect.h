/* SPDX-License-Identifier: Apache-2.0
 *
 * Read-only views of a broker, for the admin port and for the simulator's checkers.
 */
#ifndef FOLIOT_BROKER_CORE_INSPECT_H
#define FOLIOT_BROKER_CORE_INSPECT_H

#include "broker/core/broker.h"

#include <stdint.h>

#define LATENESS_BUCKET_COUNT 16

/*
 * What the auditor has found. Gauges that must be 0: of the shards that this broker serves, as of
 * the last look at each, and of all shards for the last one. source: ADR 0027
 */
struct audit_figures {
    uint32_t rows_unheld;     /* rows that are due and in nobody's hands */
    uint32_t claims_overdue;  /* live claims past their deadline that nobody ends */
    uint32_t entries_rowless; /* tasks in memory that the database does not have */
    uint32_t shards_unowned;  /* shards that nobody has served for long */
    uint64_t looks;           /* counter: shards looked at */
    uint64_t rounds;          /* counter: looks at all shards that are served here */
};

/* Counters only rise; gauges say so. */
struct broker_stats {
    uint64_t created;                         /* creates answered with a new task */
    uint64_t cancelled;                       /* tasks ended by cancel */
    uint64_t updated;                         /* tasks changed */
    uint64_t claims;                          /* attempts claimed */
    uint64_t unclaims;                        /* claims given back unstarted */
    uint64_t starts;                          /* attempts handed to the outbound */
    uint64_t done;                            /* settled: done or obsolete */
    uint64_t retried;                         /* settled: to be tried again */
    uint64_t dead;                            /* settled: dead letter */
    uint64_t expired;                         /* ended because their time was over */
    uint64_t redriven;                        /* dead letters that are pending again */
    uint64_t purged;                          /* dead letters that were forgotten */
    uint64_t unknown;                         /* outcomes never learned */
    uint64_t batches;                         /* writes committed */
    uint64_t batch_ops;                       /* operations in them */
    uint64_t batch_unknown;                   /* writes whose outcome was unknown */
    uint64_t fenced;                          /* operations that dropped out */
    uint64_t bumps;                           /* epochs raised */
    uint64_t refused;                         /* calls refused for overload */
    uint64_t lateness[LATENESS_BUCKET_COUNT]; /* by broker_lateness_bound_us() */
    uint64_t lateness_sum_us;
    uint32_t shards_owned;  /* gauge: active */
    uint32_t shards_moving; /* gauge: acquiring, loading, draining */
    uint32_t entries;       /* gauge: tasks in memory */
    uint32_t orders;        /* gauge: order keys that have come up and are remembered */
    uint32_t parks;         /* gauge: (queue, shard) whose due tasks wait in the database */
    uint32_t in_flight;     /* gauge: attempts running */
    uint32_t line_longest;  /* gauge: tasks in one queue's line, due and not claimed */
    uint32_t ops_waiting;   /* gauge: operations gathered for the next commits */
    span_ms claim_lead_ms;  /* gauge */
    int64_t commit_us;      /* gauge: smoothed time of a commit */
    struct audit_figures audit;
};

/* What became of the attempts of one queue here. */
struct queue_counts {
    uint64_t done; /* done or obsolete */
    uint64_t retried;
    uint64_t died;
    uint64_t expired;
    uint64_t unknown; /* outcomes never learned */
};

/* Counts of a queue since this broker has started, and attempts claimed or running now. False: the
 * queue is not known here. */
bool broker_inspect_queue(const struct broker *broker, uint32_t queue, struct queue_counts *counts,
                          uint32_t *running);

/* Where a pending task stands. shape: row is of this shard, as just read under its epoch. *attempt
 * is the one that is claimed or running, 0 if none is. */
enum task_state broker_inspect_task(const struct broker *broker, uint32_t shard,
                                    const struct task *row, uint32_t *attempt);

/* What a pending task waits for; numbered as foliot.v1.WaitReason. */
enum task_wait_reason {
    TASK_WAIT_DUE = 1, /* its due time */
    TASK_WAIT_BACKOFF, /* its next due time after a failure */
    TASK_WAIT_PAUSED,  /* its queue is paused */
    TASK_WAIT_CONCURRENCY,
    TASK_WAIT_TARGET,  /* its target had no room a moment ago */
    TASK_WAIT_ATTEMPT, /* the end of an attempt */
    TASK_WAIT_OUTCOME, /* the deadline of an attempt whose outcome nobody knows */
    TASK_WAIT_LOADING, /* its shard has just been taken, or memory is short */
    TASK_WAIT_WRITE,   /* a write of it */
    TASK_WAIT_QUEUE_UNKNOWN,
    TASK_WAIT_LINE, /* its turn in the line of its queue */
    TASK_WAIT_ORDER /* the end of the one before it of its order key */
};

struct task_wait {
    enum task_wait_reason reason;
    wall_ms until_ms;      /* when it may go on; WALL_NEVER: not known */
    uint32_t running;      /* attempts of its queue, of */
    uint32_t limit;        /* so many that there may be */
    struct task_id behind; /* ORDER: who is before it */
};

/* Why a pending task has not run. shape: as broker_inspect_task. */
void broker_explain(const struct broker *broker, uint32_t shard, const struct task *row,
                    struct task_wait *out);

/* Copy the counters and gauges. */
void broker_inspect(const struct broker *broker, struct broker_stats *out);

/* What a broker holds. Bounds are in state.h unless said. */
struct memory_view {
    uint32_t calls;         /* inside the core: CALLS_MAX, and those above it that are refused */
    uint32_t large_count;   /* tasks that wait for their time with a payload above
                               PAYLOAD_INLINE_BYTES_MAX: none */
    uint32_t fetching;      /* payloads being read for the tasks that are claimed next */
    uint32_t adrift;        /* attempts whose task is not in memory: FLIGHTS_MAX */
    uint32_t recents;       /* cancelled tasks that are remembered: RECENTS_MAX */
    uint64_t payload_bytes; /* of tasks in memory, those under way included */
    uint32_t asleep;        /* tasks in memory that are packed */
};

/* Count what is in memory: a walk over all of it. */
void broker_inspect_memory(const struct broker *broker, struct memory_view *out);

/* Upper bound of a lateness bucket in microseconds; INT64_MAX for the last. */
int64_t broker_lateness_bound_us(uint32_t bucket);

struct shard_view {
    const char *state; /* name of its state */
    int64_t epoch;     /* 0: not ours */
    boot_us since;     /* when it became ours, if it is */
    uint32_t database;
    uint32_t entries;
    bool loaded;           /* what is near is in memory up to the end of the window */
    uint32_t audit_faults; /* tasks that nobody goes on with, at the auditor's last look */
};

/* One shard as this broker sees it. */
void broker_inspect_shard(const struct broker *broker, uint32_t shard, struct shard_view *out);

#endif
