/* SPDX-License-Identifier: Apache-2.0
 *
 * Read-only views of a broker, for the admin port and for the simulator's checkers.
 */
#ifndef FOLIOT_BROKER_CORE_INSPECT_H
#define FOLIOT_BROKER_CORE_INSPECT_H

#include "broker/core/broker.h"

#include <stdint.h>

#define LATENESS_BUCKET_COUNT 16

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
    uint32_t in_flight;     /* gauge: attempts running */
    uint32_t ops_waiting;   /* gauge: operations gathered for the next commits */
    span_ms claim_lead_ms;  /* gauge */
    int64_t commit_us;      /* gauge: smoothed time of a commit */
};

/* Copy the counters and gauges. */
void broker_inspect(const struct broker *broker, struct broker_stats *out);

/* Upper bound of a lateness bucket in microseconds; INT64_MAX for the last. */
int64_t broker_lateness_bound_us(uint32_t bucket);

struct shard_view {
    const char *state; /* name of its state */
    int64_t epoch;     /* 0: not ours */
    boot_us since;     /* when it became ours, if it is */
    uint32_t database;
    uint32_t entries;
    bool loaded; /* everything inside the window is in memory */
};

/* One shard as this broker sees it. */
void broker_inspect_shard(const struct broker *broker, uint32_t shard, struct shard_view *out);

#endif
