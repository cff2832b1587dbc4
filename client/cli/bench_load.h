/* SPDX-License-Identifier: Apache-2.0
 *
 * A steady load of creates over several brokers: keeps to a schedule, tries again what may be tried
 * again, and writes a line for each task that was answered.
 */
#ifndef FOLIOT_CLIENT_CLI_BENCH_LOAD_H
#define FOLIOT_CLIENT_CLI_BENCH_LOAD_H

#include "client/cli/channels.h"
#include "lib/base/metric.h"
#include "proto/codec_task.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LOAD_OUTSTANDING_MAX 4096

struct load_options {
    struct queue_name queue;
    int64_t count;       /* tasks */
    int64_t rate;        /* tasks per second; 0: no schedule */
    int64_t outstanding; /* calls in flight, 1 … LOAD_OUTSTANDING_MAX */
    int64_t batch;       /* tasks per call, 1 … BATCH_ITEM_COUNT_MAX */
    int64_t payload_bytes;
    span_ms delay_min_ms;
    span_ms delay_max_ms;
    span_ms patience_ms; /* for one call, with all its tries */
    struct when at;      /* WHEN_DUE: all due then */
    uint64_t seed;       /* delays and keys are drawn from it */
    char key_prefix[64]; /* "": no keys */
    bool is_json;
    FILE *lines;
};

struct load_result {
    uint64_t created;
    uint64_t existing; /* answered with created = false: an earlier try had made it */
    uint64_t failed;
    uint64_t unknown; /* without a key: it may have been made */
    uint64_t retries;
    int64_t elapsed_us;
    struct metric_histogram answer_us; /* first try to answer, per call */
};

/*
 * Run a load to its end.
 *
 * shape:  result is zeroed by the caller.
 * return: an exit code; CLI_OK also if tasks failed: see result.
 */
MUST_USE int load_run(struct channels *channels, const struct load_options *options,
                      struct load_result *result);

#endif
