/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of a benchmark: makes a queue of its own whose target is this process, puts the load on
 * it, waits for what was promised, and takes away what is left.
 */
#ifndef FOLIOT_CLIENT_CLI_BENCH_RUN_H
#define FOLIOT_CLIENT_CLI_BENCH_RUN_H

#include "client/cli/bench_plan.h"
#include "client/cli/bench_receiver.h"

#include <stdbool.h>

struct bench_result {
    struct load_result load;
    struct arrival_figures arrivals;
    uint64_t awaited;      /* tasks that were answered and are waited for */
    int64_t due_us;        /* DRAIN: when all were due, wall clock */
    int64_t created_us;    /* when the last create was answered, wall clock */
    int64_t client_cpu_us; /* that this process used, receiver included */
    bool is_interrupted;
};

/* What a run has to be proud of, and what it has not: neither early nor missing nor failed. */
bool bench_result_is_good(const struct bench_result *result);

/* Tasks that were promised and did not come. */
uint64_t bench_result_missing(const struct bench_result *result);

/*
 * Run a plan.
 *
 * shape:  result is zeroed by the caller. A signal to end cuts it short: is_interrupted.
 * errors: an exit code after saying so on standard error; CLI_OK also if tasks failed.
 */
MUST_USE int bench_run(const struct plan *plan, const struct args *args,
                       struct bench_result *result);

#endif
