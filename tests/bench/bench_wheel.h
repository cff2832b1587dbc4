/* SPDX-License-Identifier: Apache-2.0
 *
 * What the structures of bench_wheel share: the same timers, measured alike.
 */
#ifndef FOLIOT_TESTS_BENCH_BENCH_WHEEL_H
#define FOLIOT_TESTS_BENCH_BENCH_WHEEL_H

#include "lib/base/instant.h"
#include "lib/base/prng.h"

#include <stddef.h>
#include <stdint.h>

/* Results of one structure at one size, nanoseconds per operation. */
struct figures {
    double add;
    double cancel;
    double expire;
};

/* Processor time of this thread: other work on the machine does not count. */
int64_t timer_now_ns(void);

/* ns per operation since `from`. */
double timer_per_op(int64_t from, size_t count);

/* A due time within the hour. */
wall_ms timer_draw_due(struct prng *prng);

/* A tenth of the timers, at random, each one once: those with i mod 10 = 3, in a scattered order.
 */
size_t timer_victim(size_t i, size_t count);

/* A red-black tree by due time. */
struct figures bench_tree(size_t count);

#endif
