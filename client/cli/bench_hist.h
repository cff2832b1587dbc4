/* SPDX-License-Identifier: Apache-2.0
 *
 * A histogram of times that is fine enough to print: a quantile is at most 1/128 too large. Buckets
 * grow with the values, so that microseconds and minutes fit one table of fixed size. Finer than
 * those of lib/base/metric.h, which are sized for a broker that keeps hundreds of them.
 * source: docs/adr/0029-how-the-benchmarks-measure.md
 */
#ifndef FOLIOT_CLIENT_CLI_BENCH_HIST_H
#define FOLIOT_CLIENT_CLI_BENCH_HIST_H

#include <stddef.h>
#include <stdint.h>

/* 128 buckets per power of two, to 2^40 µs: twelve days. */
#define HIST_SUB_BITS     7U
#define HIST_RANGE_BITS   40U
#define HIST_BUCKET_COUNT ((size_t)(HIST_RANGE_BITS - HIST_SUB_BITS + 1U) << HIST_SUB_BITS)

/* A zeroed one is empty. */
struct hist {
    uint64_t count;
    int64_t min; /* exact; of all values so far, also below 0 */
    int64_t max; /* exact */
    uint64_t buckets[HIST_BUCKET_COUNT];
};

/* Record a value; what is below 0 falls into the first bucket, what is above the range into the
 * last one. */
void hist_record(struct hist *hist, int64_t value);

/* Record a value `count` times. */
void hist_record_many(struct hist *hist, int64_t value, uint64_t count);

/*
 * A quantile, from above: at least `permyriad` of 10 000 values are at or below the result.
 *
 * shape: 0 ≤ permyriad ≤ 10 000. 0 if there are no values; never above the largest value.
 */
int64_t hist_quantile(const struct hist *hist, uint32_t permyriad);

/* Values at or below a bound; whole buckets, so at most those of one bucket too many. */
uint64_t hist_count_to(const struct hist *hist, int64_t bound);

/* Add the values of `from` to `to`. */
void hist_merge(struct hist *to, const struct hist *from);

#endif
