/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics and their text. A histogram's bucket i holds the values in (bound(i − 1), bound(i)], so
 * that the bounds can be written as "le" exactly; values are therefore placed by value − 1.
 */
#include "lib/base/metric.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/instant.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#define METRIC_SUB_COUNT    (INT64_C(1) << METRIC_SUB_BITS)
#define METRIC_LABELS_BYTES 4096U /* most bytes of one metric's labels, escaped */

static const char *const KIND_NAMES[] = {"untyped", "counter", "gauge", "histogram"};

/* Bucket of the values whose predecessor is `v`. shape: v ≥ 0. */
static size_t bucket_of(int64_t v)
{
    unsigned shift;

    if (v < METRIC_SUB_COUNT) {
        return (size_t)v;
    }
    if (v >= INT64_C(1) << METRIC_RANGE_BITS) {
        return METRIC_BUCKET_COUNT - 1;
    }
    shift = 63U - (unsigned)__builtin_clzll((uint64_t)v) - METRIC_SUB_BITS;
    return ((size_t)shift << METRIC_SUB_BITS) + (size_t)(v >> shift);
}

/* Largest value of a bucket; of the last one, the end of the range. */
static int64_t bound_of(size_t bucket)
{
    unsigned shift;
    int64_t sub;

    if (bucket < 2 * (size_t)METRIC_SUB_COUNT) {
        return (int64_t)bucket + 1;
    }
    shift = (unsigned)(bucket >> METRIC_SUB_BITS) - 1;
    sub = (int64_t)(bucket & (METRIC_SUB_COUNT - 1)) + METRIC_SUB_COUNT;
    return (sub + 1) << shift;
}

static bool is_name(const char *name)
{
    for (const char *c = name; *c != '\0'; c++) {
        bool is_digit = *c >= '0' && *c <= '9';

        if (!(*c >= 'a' && *c <= 'z') && *c != '_' && (!is_digit || c == name)) {
            return false;
        }
    }
    return *name != '\0';
}

static bool ends_in(const char *text, const char *end)
{
    size_t len = strlen(text);
    size_t end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static void put_label_value(struct buf *buf, const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value == '\n') {
            (void)buf_append_text(buf, "\\n");
            continue;
        }
        if (*value == '"' || *value == '\\') {
            (void)buf_append_text(buf, "\\");
        }
        (void)buf_append(buf, value, 1);
    }
}

static int render_labels(const struct metric_info *info, char **out)
{
    struct buf buf;

    buf_init(&buf, METRIC_LABELS_BYTES);
    for (size_t i = 0; i < info->label_count; i++) {
        REQUIRE(is_name(info->labels[i].name));
        (void)buf_printf(&buf, "%s%s=\"", i == 0 ? "" : ",", info->labels[i].name);
        put_label_value(&buf, info->labels[i].value);
        (void)buf_append_text(&buf, "\"");
    }
    *out = buf.failed ? NULL : mem_copy(buf_slice(&buf).data, buf_len(&buf));
    buf_fini(&buf);
    return *out == NULL ? ERR_NO_MEMORY : 0;
}

static struct metric *metric_of(struct list *link)
{
    return LIST_ENTRY(link, struct metric, link);
}

static int compare(const struct metric *a, const struct metric *b)
{
    int order = strcmp(a->name, b->name);

    return order != 0 ? order : strcmp(a->labels, b->labels);
}

/* Put the metric in its place; all of one name stand together, as the format asks. */
static int insert(struct metrics *metrics, struct metric *metric)
{
    struct list *after = &metrics->metrics;

    list_foreach (link, &metrics->metrics) {
        struct metric *other = metric_of(link);
        int order = compare(other, metric);

        if (order == 0) {
            return ERR_EXISTS;
        }
        if (strcmp(other->name, metric->name) == 0 &&
            (other->kind != metric->kind || other->decimals != metric->decimals)) {
            return ERR_CONFLICT;
        }
        if (order > 0 && after == &metrics->metrics) {
            after = link;
        }
    }
    list_add(after, &metric->link);
    return 0;
}

static int add(struct metrics *metrics, struct metric *metric, enum metric_kind kind,
               const struct metric_info *info)
{
    int err;

    REQUIRE(is_name(info->name) && info->label_count <= METRIC_LABEL_COUNT_MAX);
    REQUIRE(kind != METRIC_COUNTER || ends_in(info->name, "_total"));
    REQUIRE(info->decimals <= 9);
    metric->kind = kind;
    metric->name = info->name;
    metric->help = info->help;
    metric->decimals = info->decimals;
    err = render_labels(info, &metric->labels);
    if (err != 0) {
        return err;
    }
    err = insert(metrics, metric);
    if (err != 0) {
        mem_free(metric->labels);
        metric->labels = NULL;
    }
    return err;
}

void metrics_init(struct metrics *metrics)
{
    list_init(&metrics->metrics);
}

void metrics_fini(struct metrics *metrics)
{
    struct list *link;

    while ((link = list_first(&metrics->metrics)) != NULL) {
        metric_del(metric_of(link));
    }
}

int metric_add_counter(struct metrics *metrics, struct metric_counter *counter,
                       const struct metric_info *info)
{
    memset(counter, 0, sizeof(*counter));
    return add(metrics, &counter->metric, METRIC_COUNTER, info);
}

int metric_add_gauge(struct metrics *metrics, struct metric_gauge *gauge,
                     const struct metric_info *info)
{
    memset(gauge, 0, sizeof(*gauge));
    return add(metrics, &gauge->metric, METRIC_GAUGE, info);
}

int metric_add_histogram(struct metrics *metrics, struct metric_histogram *histogram,
                         const struct metric_info *info, int64_t shown_min, int64_t shown_max)
{
    REQUIRE(shown_min >= 1 && shown_min <= shown_max);
    REQUIRE(shown_max <= INT64_C(1) << METRIC_RANGE_BITS);
    memset(histogram, 0, sizeof(*histogram));
    histogram->shown_min = shown_min;
    histogram->shown_max = shown_max;
    return add(metrics, &histogram->metric, METRIC_HISTOGRAM, info);
}

void metric_del(struct metric *metric)
{
    if (metric->labels == NULL) {
        return;
    }
    list_del(&metric->link);
    mem_free(metric->labels);
    metric->labels = NULL;
}

void metric_record(struct metric_histogram *histogram, int64_t value)
{
    value = value < 0 ? 0 : value;
    histogram->buckets[bucket_of(value == 0 ? 0 : value - 1)]++;
    histogram->count++;
    histogram->sum = time_add(histogram->sum, value);
    histogram->max = time_max(histogram->max, value);
}

int64_t metric_quantile(const struct metric_histogram *histogram, uint32_t permyriad)
{
    uint64_t needed;
    uint64_t seen = 0;

    REQUIRE(permyriad <= 10000);
    // Rounded up; split so that no count overflows.
    needed = histogram->count / 10000 * permyriad +
             (histogram->count % 10000 * permyriad + 9999) / 10000;
    for (size_t i = 0; i < METRIC_BUCKET_COUNT; i++) {
        seen += histogram->buckets[i];
        if (seen >= needed && seen > 0) {
            bool is_last = i == METRIC_BUCKET_COUNT - 1;

            return is_last ? histogram->max : time_min(bound_of(i), histogram->max);
        }
    }
    return 0;
}

void metric_merge(struct metric_histogram *to, const struct metric_histogram *from)
{
    for (size_t i = 0; i < METRIC_BUCKET_COUNT; i++) {
        to->buckets[i] += from->buckets[i];
    }
    to->count += from->count;
    to->sum = time_add(to->sum, from->sum);
    to->max = time_max(to->max, from->max);
}

/* Append value / 10^decimals without trailing zeros. */
static void put_decimal(struct buf *out, int64_t value, unsigned decimals)
{
    uint64_t whole = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    uint64_t scale = 1;
    uint64_t rest;

    for (unsigned i = 0; i < decimals; i++) {
        scale *= 10;
    }
    rest = whole % scale;
    while (decimals > 0 && rest % 10 == 0) {
        rest /= 10;
        decimals--;
    }
    (void)buf_printf(out, "%s%" PRIu64, value < 0 ? "-" : "", whole / scale);
    if (decimals > 0) {
        (void)buf_printf(out, ".%0*" PRIu64, (int)decimals, rest);
    }
}

/* Append `name_suffix{labels}` and a blank. */
static void put_name(struct buf *out, const struct metric *metric, const char *suffix)
{
    (void)buf_printf(out, "%s%s", metric->name, suffix);
    if (metric->labels[0] != '\0') {
        (void)buf_printf(out, "{%s}", metric->labels);
    }
    (void)buf_append_text(out, " ");
}

static void put_bucket_head(struct buf *out, const struct metric *metric)
{
    (void)buf_printf(out, "%s_bucket{%s%sle=\"", metric->name, metric->labels,
                     metric->labels[0] != '\0' ? "," : "");
}

static void put_bucket(struct buf *out, const struct metric_histogram *histogram, int64_t bound,
                       uint64_t below)
{
    put_bucket_head(out, &histogram->metric);
    put_decimal(out, bound, histogram->metric.decimals);
    (void)buf_printf(out, "\"} %" PRIu64 "\n", below);
}

/* Whether a bound is one of those that are written: 2^k or 1.5 · 2^k. */
static bool is_shown(const struct metric_histogram *histogram, int64_t bound)
{
    uint64_t half = (uint64_t)bound;

    if (bound < histogram->shown_min || bound > histogram->shown_max) {
        return false;
    }
    half >>= (unsigned)__builtin_ctzll(half);
    return half == 1 || half == 3;
}

static void put_histogram(struct buf *out, const struct metric_histogram *histogram)
{
    uint64_t below = 0;

    for (size_t i = 0; i < METRIC_BUCKET_COUNT - 1; i++) {
        below += histogram->buckets[i];
        if (is_shown(histogram, bound_of(i))) {
            put_bucket(out, histogram, bound_of(i), below);
        }
    }
    put_bucket_head(out, &histogram->metric);
    (void)buf_printf(out, "+Inf\"} %" PRIu64 "\n", histogram->count);
    put_name(out, &histogram->metric, "_sum");
    put_decimal(out, histogram->sum, histogram->metric.decimals);
    (void)buf_append_text(out, "\n");
    put_name(out, &histogram->metric, "_count");
    (void)buf_printf(out, "%" PRIu64 "\n", histogram->count);
}

static void put_metric(struct buf *out, const struct metric *metric)
{
    uint64_t counted;

    switch (metric->kind) {
    case METRIC_COUNTER:
        counted = ((const struct metric_counter *)(const void *)metric)->value;
        put_name(out, metric, "");
        // Counters of parts, as seconds, stay exact below 2^63; more is shown as that.
        put_decimal(out, counted > INT64_MAX ? INT64_MAX : (int64_t)counted, metric->decimals);
        (void)buf_append_text(out, "\n");
        return;
    case METRIC_GAUGE:
        put_name(out, metric, "");
        put_decimal(out, ((const struct metric_gauge *)(const void *)metric)->value,
                    metric->decimals);
        (void)buf_append_text(out, "\n");
        return;
    case METRIC_HISTOGRAM:
        put_histogram(out, (const struct metric_histogram *)(const void *)metric);
        return;
    }
}

int metrics_write(const struct metrics *metrics, struct buf *out)
{
    const char *family = NULL;

    for (struct list *link = metrics->metrics.next; link != &metrics->metrics; link = link->next) {
        const struct metric *metric = metric_of(link);

        if (family == NULL || strcmp(family, metric->name) != 0) {
            family = metric->name;
            (void)buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", family, metric->help, family,
                             KIND_NAMES[metric->kind]);
        }
        put_metric(out, metric);
    }
    return out->failed ? ERR_TOO_LARGE : 0;
}
