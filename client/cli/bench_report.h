/* SPDX-License-Identifier: Apache-2.0
 *
 * How the result of a benchmark is shown: rows of a table, one JSON object for each run, a
 * histogram of lines.
 */
#ifndef FOLIOT_CLIENT_CLI_BENCH_REPORT_H
#define FOLIOT_CLIENT_CLI_BENCH_REPORT_H

#include "client/cli/bench_run.h"
#include "client/cli/output.h"

extern const struct output_layout BENCH_LAYOUT;

/* Add a run to an output of this layout: a row for each kind of call, or an object. */
void bench_report_add(struct output *output, const struct plan *plan,
                      const struct bench_result *result);

/* Append the histogram of a run to a table for people: lateness, or answers if nothing came. */
void bench_report_histogram(struct output *output, const struct plan *plan,
                            const struct bench_result *result);

#endif
