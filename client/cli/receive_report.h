/* SPDX-License-Identifier: Apache-2.0
 *
 * What `foliot receive` prints: a line for each attempt, and a summary.
 */
#ifndef FOLIOT_CLIENT_CLI_RECEIVE_REPORT_H
#define FOLIOT_CLIENT_CLI_RECEIVE_REPORT_H

#include "lib/base/buf.h"
#include "lib/base/metric.h"
#include "proto/codec.h"

#include <stdbool.h>
#include <stdint.h>

/* One attempt that came. */
struct attempt_line {
    char task_id[TASK_ID_TEXT_LEN + 1]; /* "" if the caller is not Foliot */
    struct queue_name queue;
    struct slice key;
    struct slice order_key;
    uint32_t attempt;
    wall_ms due_ms; /* WALL_NEVER: not said */
    wall_ms deadline_ms;
    int64_t actual_us; /* when it came, by this machine's wall clock */
    bool is_failure;   /* it is answered with a failure, as asked for */
};

struct report {
    struct buf out;
    bool is_json;
    bool is_summary; /* no lines */
    bool is_broken;  /* standard output is gone */
    bool has_heading;
    uint64_t count;   /* attempts */
    uint64_t early;   /* that came before they were due */
    uint64_t repeats; /* whose attempt number is above 1 */
    uint64_t failures;
    uint64_t late_for_deadline; /* that came after their deadline */
    int64_t lateness_min_us;    /* of those with a due time: the first of a burst */
    struct metric_histogram lateness_us;
};

void report_init(struct report *report, bool is_json, bool is_summary);

/* Write what is left and free; false if standard output did not take everything. */
bool report_fini(struct report *report);

/* The first line: where it listens. Written at once. */
void report_listening(struct report *report, const char *address, uint16_t port);

void report_add(struct report *report, const struct attempt_line *line);

/* Write the lines gathered so far to standard output. */
void report_flush(struct report *report);

/* The summary: to standard output if it was asked for, else to standard error. */
void report_summary(struct report *report);

#endif
