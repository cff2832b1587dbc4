/* SPDX-License-Identifier: Apache-2.0
 *
 * What metrics promise: exact text, exact bounds, quantiles from above within a sixteenth.
 */
#include "lib/base/metric.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"

#include <criterion/criterion.h>
#include <string.h>

static struct metrics registry;
static struct metric_histogram histogram;
static struct metric_histogram total;

static const struct metric_info LATENESS = {"foliot_lateness_seconds", "Start minus due.", NULL, 0,
                                            6};

Test(metric, writes_the_text_that_prometheus_reads)
{
    struct metric_counter done;
    struct metric_counter dead;
    struct metric_gauge owned;
    struct metric_gauge offset;
    struct buf out;
    const struct metric_label label_done = {"result", "done"};
    const struct metric_label label_dead = {"result", "a\"b\\c\nd"};
    struct metric_info fired = {"foliot_tasks_fired_total", "Attempts ended.", &label_done, 1, 0};

    metrics_init(&registry);
    cr_assert_eq(metric_add_counter(&registry, &done, &fired), 0);
    cr_assert_eq(metric_add_gauge(
                     &registry, &owned,
                     &(struct metric_info){"foliot_shards_owned", "Shards served.", NULL, 0, 0}),
                 0);
    fired.labels = &label_dead;
    cr_assert_eq(metric_add_counter(&registry, &dead, &fired), 0);
    cr_assert_eq(metric_add_gauge(&registry, &offset,
                                  &(struct metric_info){"foliot_clock_offset_seconds",
                                                        "Database minus local.", NULL, 0, 6}),
                 0);
    metric_count(&done, 3);
    metric_set(&owned, 128);
    metric_set(&offset, -1500000);
    buf_init(&out, 100000);
    cr_assert_eq(metrics_write(&registry, &out), 0);
    cr_assert_str_eq(buf_text(&out), "# HELP foliot_clock_offset_seconds Database minus local.\n"
                                     "# TYPE foliot_clock_offset_seconds gauge\n"
                                     "foliot_clock_offset_seconds -1.5\n"
                                     "# HELP foliot_shards_owned Shards served.\n"
                                     "# TYPE foliot_shards_owned gauge\n"
                                     "foliot_shards_owned 128\n"
                                     "# HELP foliot_tasks_fired_total Attempts ended.\n"
                                     "# TYPE foliot_tasks_fired_total counter\n"
                                     "foliot_tasks_fired_total{result=\"a\\\"b\\\\c\\nd\"} 0\n"
                                     "foliot_tasks_fired_total{result=\"done\"} 3\n");
    buf_fini(&out);
    metric_del(&dead.metric);
    metric_del(&dead.metric);
    metrics_fini(&registry);
    cr_assert_eq(mem_block_count(), 0);
}

Test(metric, a_histogram_writes_cumulative_bounds_in_seconds)
{
    struct buf out;

    metrics_init(&registry);
    cr_assert_eq(metric_add_histogram(&registry, &histogram, &LATENESS, 1024, 4096), 0);
    metric_record(&histogram, 0);
    metric_record(&histogram, 1024);
    metric_record(&histogram, 1025);
    metric_record(&histogram, 2048);
    metric_record(&histogram, 3000000);
    buf_init(&out, 100000);
    cr_assert_eq(metrics_write(&registry, &out), 0);
    cr_assert_str_eq(buf_text(&out), "# HELP foliot_lateness_seconds Start minus due.\n"
                                     "# TYPE foliot_lateness_seconds histogram\n"
                                     "foliot_lateness_seconds_bucket{le=\"0.001024\"} 2\n"
                                     "foliot_lateness_seconds_bucket{le=\"0.001536\"} 3\n"
                                     "foliot_lateness_seconds_bucket{le=\"0.002048\"} 4\n"
                                     "foliot_lateness_seconds_bucket{le=\"0.003072\"} 4\n"
                                     "foliot_lateness_seconds_bucket{le=\"0.004096\"} 4\n"
                                     "foliot_lateness_seconds_bucket{le=\"+Inf\"} 5\n"
                                     "foliot_lateness_seconds_sum 3.004097\n"
                                     "foliot_lateness_seconds_count 5\n");
    buf_fini(&out);
    metrics_fini(&registry);
}

Test(metric, refuses_doubles_and_mixed_families)
{
    struct metric_counter a;
    struct metric_counter b;
    struct metric_gauge c;
    struct metric_info info = {"foliot_x_total", "X.", NULL, 0, 0};
    struct buf out;

    metrics_init(&registry);
    cr_assert_eq(metric_add_counter(&registry, &a, &info), 0);
    cr_assert_eq(metric_add_counter(&registry, &b, &info), ERR_EXISTS);
    metric_count(&b, 1);
    metric_del(&b.metric);
    info.labels = &(struct metric_label){"k", "v"};
    info.label_count = 1;
    cr_assert_eq(metric_add_gauge(&registry, &c, &info), ERR_CONFLICT);
    buf_init(&out, 20);
    cr_assert_eq(metrics_write(&registry, &out), ERR_TOO_LARGE);
    buf_fini(&out);
    metrics_fini(&registry);
    cr_assert_eq(mem_block_count(), 0);
}

static void start(struct metric_histogram *h)
{
    metrics_init(&registry);
    cr_assert_eq(metric_add_histogram(&registry, h, &LATENESS, 1, 1000), 0);
}

Test(metric, a_quantile_is_never_below_the_truth_and_at_most_a_sixteenth_above)
{
    struct prng prng;

    prng_init_named(&prng, 1, "metric");
    for (unsigned bits = 0; bits <= METRIC_RANGE_BITS; bits++) {
        for (int64_t near = -1; near <= 1; near++) {
            int64_t value = (INT64_C(1) << bits) + near;

            start(&histogram);
            metric_record(&histogram, value);
            metric_record(&histogram, INT64_MAX); // So that the largest value does not cap it.
            if (value <= INT64_C(1) << METRIC_RANGE_BITS && value > 0 && bits < METRIC_RANGE_BITS) {
                int64_t quantile = metric_quantile(&histogram, 5000);

                cr_assert(quantile >= value && quantile <= value + value / 16 + 1, "%ld for %ld",
                          (long)quantile, (long)value);
            }
            cr_assert_eq(metric_quantile(&histogram, 10000), INT64_MAX);
            metrics_fini(&registry);
        }
    }
}

Test(metric, quantiles_of_many_values_agree_with_sorting)
{
    start(&histogram);
    cr_assert_eq(metric_quantile(&histogram, 9900), 0);
    for (int64_t value = 1; value <= 10000; value++) { // Sorted: the k-th value is k.
        metric_record(&histogram, value);
    }
    for (uint32_t permyriad = 1; permyriad <= 10000; permyriad++) {
        int64_t quantile = metric_quantile(&histogram, permyriad);

        cr_assert(quantile >= permyriad && quantile <= permyriad + permyriad / 16 + 1);
    }
    metrics_fini(&registry);
}

Test(metric, a_merge_equals_recording_into_one)
{
    struct prng prng;

    prng_init_named(&prng, 2, "metric");
    start(&histogram);
    total = histogram;
    total.metric = (struct metric){0};
    for (int i = 0; i < 1000; i++) {
        metric_record(&histogram, (int64_t)(prng_next(&prng) >> (24 + prng_below(&prng, 39))));
    }
    metric_merge(&total, &histogram);
    cr_assert_eq(total.count, 1000);
    cr_assert_eq(total.sum, histogram.sum);
    cr_assert_eq(metric_quantile(&total, 9900), metric_quantile(&histogram, 9900));
    metric_record(&total, -5);
    cr_assert_eq(total.sum, histogram.sum, "below 0 counts as 0");
    metrics_fini(&registry);
}
