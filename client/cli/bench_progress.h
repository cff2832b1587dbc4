/* SPDX-License-Identifier: Apache-2.0
 *
 * How a run of a benchmark goes on, on one line of a terminal that is drawn over again and again.
 */
#ifndef FOLIOT_CLIENT_CLI_BENCH_PROGRESS_H
#define FOLIOT_CLIENT_CLI_BENCH_PROGRESS_H

#include "client/cli/bench_load.h"
#include "client/cli/bench_receiver.h"
#include "lib/io/loop.h"

struct bench_progress {
    struct loop *loop;
    struct loop_timer timer;
    const char *name; /* of the mode */
    const struct load_result *load;
    const struct bench_receiver *receiver; /* NULL: none any more */
    boot_us start_us;
    boot_us last_us; /* of the last line */
    uint64_t last_done;
    uint64_t last_first;
    bool is_shown;
};

/* Begin; nothing is shown unless standard error is a terminal. */
void bench_progress_start(struct bench_progress *progress);

/* Take the line away. */
void bench_progress_stop(struct bench_progress *progress);

#endif
