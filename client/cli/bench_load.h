/* SPDX-License-Identifier: Apache-2.0
 *
 * A load of calls over several brokers. It keeps to a schedule that does not depend on the answers:
 * with a rate, the time of an answer counts from the moment at which the call was planned, also if
 * it had to wait for room (no coordinated omission). It tries again what may be tried again.
 * source: docs/adr/0029-how-the-benchmarks-measure.md
 */
#ifndef FOLIOT_CLIENT_CLI_BENCH_LOAD_H
#define FOLIOT_CLIENT_CLI_BENCH_LOAD_H

#include "client/cli/bench_hist.h"
#include "client/cli/bench_mix.h"
#include "client/cli/channels.h"

#include <stdbool.h>
#include <stdint.h>

#define LOAD_OUTSTANDING_MAX 4096

/* Most items of one load. */
#define LOAD_COUNT_MAX 100000000

enum load_op {
    LOAD_CREATE,
    LOAD_CANCEL,
    LOAD_GET,
    LOAD_UPDATE, /* moves the due time */
    LOAD_OP_COUNT
};

/* One thing to do. Batches have items of one kind only, which is CREATE or CANCEL. */
struct load_item {
    uint32_t number;   /* CREATE: which task */
    struct task_id id; /* of the others */
};

/* What became of the items of one kind. */
struct load_figures {
    uint64_t done;     /* answered as wished */
    uint64_t existing; /* CREATE: an earlier try had made it; else: the task was gone */
    uint64_t failed;
    uint64_t unknown;      /* it may have happened, and must not be repeated */
    struct hist answer_us; /* per call, from the planned moment, after the warm-up */
    uint64_t measured;     /* items of those calls */
};

struct load_result {
    struct load_figures ops[LOAD_OP_COUNT];
    uint64_t retries;
    uint64_t late_starts; /* calls that found no room when they were planned */
    int64_t elapsed_us;   /* from the start to the last answer */
    int64_t measured_us;  /* of that, after the warm-up */
};

/* Fill in the next item and say what to do with it. Called in the order of the schedule. */
typedef enum load_op (*load_next_fn)(struct load_item *item, void *ctx);

/* A create was answered. */
typedef void (*load_created_fn)(uint32_t number, const struct create_reply *reply, void *ctx);

struct load_options {
    const struct mix *mix;
    int64_t count;           /* items, 1 … LOAD_COUNT_MAX */
    span_ms duration_ms;     /* start no more after so long; 0: no bound */
    span_ms warmup_ms;       /* what is planned within it is not measured; part of the duration */
    int64_t rate;            /* items per second; 0: no schedule */
    int64_t outstanding;     /* calls in flight, 1 … LOAD_OUTSTANDING_MAX */
    int64_t batch;           /* items per call, 1 … BATCH_ITEM_COUNT_MAX */
    bool is_batched;         /* calls of the Batch… methods, also for one item */
    span_ms patience_ms;     /* for one call, with all its tries */
    load_next_fn next;       /* NULL: creates, numbered from 0 */
    load_created_fn created; /* may be NULL */
    void *ctx;               /* theirs */
    const bool *is_over;     /* may be NULL; set by whoever wants no more items to be started */
};

/*
 * Run a load to its end.
 *
 * shape:  result is zeroed by the caller, and kept up to date meanwhile.
 * return: an exit code; CLI_OK also if items failed: see result.
 */
MUST_USE int load_run(struct channels *channels, const struct load_options *options,
                      struct load_result *result);

/* "create". Static string. */
const char *load_op_name(enum load_op op);

#endif
