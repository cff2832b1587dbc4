/* SPDX-License-Identifier: Apache-2.0
 *
 * The line.
 */
#include "client/cli/bench_progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_MS 500

/* source: ECMA-48: to the beginning of the line, and erase to its end */
#define LINE_AGAIN "\r\x1b[K"

static uint64_t done_count(const struct load_result *load)
{
    uint64_t done = 0;

    for (size_t i = 0; i < LOAD_OP_COUNT; i++) {
        done += load->ops[i].done + load->ops[i].existing;
    }
    return done;
}

static void show(struct bench_progress *progress)
{
    boot_us now_us = loop_now_us(progress->loop);
    int64_t span_us = time_max(now_us - progress->last_us, 1);
    uint64_t done = done_count(progress->load);
    struct arrivals arrivals;

    bench_receiver_peek(progress->receiver, &arrivals);
    (void)fprintf(stderr,
                  LINE_AGAIN "%s %" PRId64 ".%d s: answered %" PRIu64 " (%" PRIu64
                             "/s), received %" PRIu64 " (%" PRIu64 "/s)%s",
                  progress->name, (now_us - progress->start_us) / US_PER_S,
                  (int)((now_us - progress->start_us) / 100000 % 10), done,
                  (done - progress->last_done) * (uint64_t)US_PER_S / (uint64_t)span_us,
                  arrivals.first,
                  (arrivals.first - progress->last_first) * (uint64_t)US_PER_S / (uint64_t)span_us,
                  arrivals.early > 0 ? ", some EARLY" : "");
    (void)fflush(stderr);
    progress->last_us = now_us;
    progress->last_done = done;
    progress->last_first = arrivals.first;
}

static void on_timer(struct loop_timer *timer, void *ctx)
{
    show(ctx);
    loop_timer_start_in(timer, LINE_MS);
}

void bench_progress_start(struct bench_progress *progress)
{
    progress->is_shown = isatty(STDERR_FILENO) == 1;
    progress->start_us = loop_sample_us(progress->loop);
    progress->last_us = progress->start_us;
    loop_timer_init(&progress->timer, progress->loop, on_timer, progress);
    if (progress->is_shown) {
        loop_timer_start_in(&progress->timer, LINE_MS);
    }
}

void bench_progress_stop(struct bench_progress *progress)
{
    loop_timer_stop(&progress->timer);
    if (progress->is_shown) {
        (void)fputs(LINE_AGAIN, stderr);
    }
}
