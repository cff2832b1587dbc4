/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-linear buckets: values below 2^(HIST_SUB_BITS + 1) have one each, then each power of two has
 * 2^HIST_SUB_BITS of equal width.
 */
#include "client/cli/bench_hist.h"

#include "lib/base/check.h"
#include "lib/base/instant.h"

static size_t bucket_of(int64_t value)
{
    uint64_t held = (uint64_t)time_clamp(value, 0, ((int64_t)1 << HIST_RANGE_BITS) - 1);
    unsigned bits = held == 0 ? 0 : 64U - (unsigned)__builtin_clzll(held);
    unsigned shift = bits > HIST_SUB_BITS + 1U ? bits - HIST_SUB_BITS - 1U : 0;

    return ((size_t)shift << HIST_SUB_BITS) + (size_t)(held >> shift);
}

/* Largest value of a bucket. */
static int64_t bucket_end(size_t bucket)
{
    size_t shift = bucket >> HIST_SUB_BITS;

    if (shift < 2) {
        return (int64_t)bucket;
    }
    shift--;
    return (int64_t)(((bucket - (shift << HIST_SUB_BITS) + 1) << shift) - 1);
}

void hist_record_many(struct hist *hist, int64_t value, uint64_t count)
{
    if (count == 0) {
        return;
    }
    hist->min = hist->count == 0 || value < hist->min ? value : hist->min;
    hist->max = hist->count == 0 || value > hist->max ? value : hist->max;
    hist->count += count;
    hist->buckets[bucket_of(value)] += count;
}

void hist_record(struct hist *hist, int64_t value)
{
    hist_record_many(hist, value, 1);
}

int64_t hist_quantile(const struct hist *hist, uint32_t permyriad)
{
    uint64_t wanted = (hist->count * permyriad + 9999) / 10000;
    uint64_t seen = 0;

    REQUIRE(permyriad <= 10000);
    for (size_t i = 0; i < HIST_BUCKET_COUNT && hist->count > 0; i++) {
        seen += hist->buckets[i];
        if (seen >= wanted && seen > 0) {
            return time_min(bucket_end(i), hist->max);
        }
    }
    return 0;
}

uint64_t hist_count_to(const struct hist *hist, int64_t bound)
{
    uint64_t count = 0;

    for (size_t i = 0; i <= bucket_of(bound); i++) {
        count += hist->buckets[i];
    }
    return count;
}

void hist_merge(struct hist *to, const struct hist *from)
{
    if (from->count == 0) {
        return;
    }
    to->min = to->count == 0 ? from->min : time_min(to->min, from->min);
    to->max = to->count == 0 ? from->max : time_max(to->max, from->max);
    to->count += from->count;
    for (size_t i = 0; i < HIST_BUCKET_COUNT; i++) {
        to->buckets[i] += from->buckets[i];
    }
}
