/* SPDX-License-Identifier: Apache-2.0
 *
 * What the histogram of a benchmark promises: quantiles from above within 1/128, ends exact, as a
 * sorted array says.
 */
#include "client/cli/bench_hist.h"

#include "lib/base/prng.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_COUNT 20000

static struct hist hist;
static struct hist other;

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

Test(bench_hist, agrees_with_a_sorted_array_within_a_128th)
{
    static const uint32_t permyriads[] = {1, 100, 2500, 5000, 9000, 9900, 9990, 10000};
    static int64_t values[VALUE_COUNT];
    struct prng prng;

    prng_init(&prng, 29);
    for (size_t i = 0; i < VALUE_COUNT; i++) {
        values[i] = prng_between(&prng, 0, (int64_t)1 << prng_below(&prng, 40));
        hist_record(&hist, values[i]);
    }
    qsort(values, VALUE_COUNT, sizeof(values[0]), compare);
    for (size_t i = 0; i < sizeof(permyriads) / sizeof(permyriads[0]); i++) {
        int64_t exact = values[(VALUE_COUNT * permyriads[i] + 9999) / 10000 - 1];
        int64_t got = hist_quantile(&hist, permyriads[i]);

        cr_assert(got >= exact && got <= exact + exact / 128, "%u: %lld for %lld", permyriads[i],
                  (long long)got, (long long)exact);
    }
    cr_assert_eq(hist.min, values[0]);
    cr_assert_eq(hist.max, values[VALUE_COUNT - 1]);
    cr_assert_eq(hist_count_to(&hist, INT64_MAX), VALUE_COUNT);
}

Test(bench_hist, small_values_have_a_bucket_each)
{
    for (int64_t value = 0; value < 256; value++) {
        hist_record(&hist, value);
        cr_assert_eq(hist_quantile(&hist, 10000), value);
        cr_assert_eq(hist_count_to(&hist, value), (uint64_t)value + 1);
    }
}

Test(bench_hist, what_is_early_keeps_its_minimum)
{
    cr_assert_eq(hist_quantile(&hist, 5000), 0);
    hist_record(&hist, -5);
    hist_record_many(&hist, INT64_MAX, 2);
    hist_record_many(&hist, 7, 0);
    cr_assert_eq(hist.min, -5);
    cr_assert_eq(hist.max, INT64_MAX);
    cr_assert_eq(hist.count, 3U);
    cr_assert_eq(hist_quantile(&hist, 3000), 0);
    cr_assert_eq(hist_quantile(&hist, 9000), ((int64_t)1 << HIST_RANGE_BITS) - 1);
}

Test(bench_hist, merged_ones_are_as_one)
{
    static struct hist whole;
    struct prng prng;

    prng_init(&prng, 7);
    for (int i = 0; i < 1000; i++) {
        int64_t value = prng_between(&prng, -10, 1000000);

        hist_record(i % 3 == 0 ? &hist : &other, value);
        hist_record(&whole, value);
    }
    hist_merge(&hist, &other);
    cr_assert_eq(memcmp(&hist, &whole, sizeof(hist)), 0);
    memset(&other, 0, sizeof(other));
    hist_merge(&hist, &other);
    cr_assert_eq(memcmp(&hist, &whole, sizeof(hist)), 0);
    hist_merge(&other, &whole);
    cr_assert_eq(memcmp(&other, &whole, sizeof(hist)), 0);
}
