/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters, gauges and log-linear histograms, owned by the modules that count and listed in a
 * registry, which writes them as Prometheus text. Counting is one addition. All on the loop:
 * another thread gets a written snapshot.
 */
#ifndef FOLIOT_LIB_BASE_METRIC_H
#define FOLIOT_LIB_BASE_METRIC_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/list.h"

#include <stddef.h>
#include <stdint.h>

#define METRIC_LABEL_COUNT_MAX 6U

/* 16 buckets per power of two, to 2^40: the relative error of a quantile is at most 1/16. */
#define METRIC_SUB_BITS     4U
#define METRIC_RANGE_BITS   40U
#define METRIC_BUCKET_COUNT ((METRIC_RANGE_BITS - METRIC_SUB_BITS + 1U) << METRIC_SUB_BITS)

enum metric_kind {
    METRIC_COUNTER = 1,
    METRIC_GAUGE,
    METRIC_HISTOGRAM
};

struct metric_label {
    const char *name;  /* [a-z_][a-z0-9_]* */
    const char *value; /* any UTF-8; copied */
};

/* What a metric is called; texts are constant unless said otherwise. */
struct metric_info {
    const char *name; /* foliot_…, [a-z_][a-z0-9_]*; counters end in _total */
    const char *help; /* one sentence */
    const struct metric_label *labels;
    size_t label_count;
    unsigned decimals; /* values are written divided by 10^decimals: 6 for µs shown as seconds */
};

/* What all kinds share; the registry's. A zeroed one is in no registry. */
struct metric {
    struct list link;
    enum metric_kind kind;
    const char *name;
    const char *help;
    char *labels; /* `a="x",b="y"`, escaped; "" without labels */
    unsigned decimals;
};

struct metric_counter {
    struct metric metric;
    uint64_t value; /* only rises */
};

struct metric_gauge {
    struct metric metric;
    int64_t value;
};

/* Values are whole numbers in a unit that the decimals of the info make into seconds or bytes. */
struct metric_histogram {
    struct metric metric;
    int64_t shown_min; /* least bound that is written */
    int64_t shown_max; /* largest bound that is written, besides +Inf */
    uint64_t count;
    int64_t sum; /* saturates */
    int64_t max; /* largest value so far */
    uint64_t buckets[METRIC_BUCKET_COUNT];
};

struct metrics {
    struct list metrics; /* by name, then labels */
};

void metrics_init(struct metrics *metrics);

/* Take all metrics out. Their owners may be gone already only if they took theirs out before. */
void metrics_fini(struct metrics *metrics);

/*
 * Start a metric at 0 and list it.
 *
 * shape:     info as described there; names that break the rules stop the process.
 * ownership: the struct stays where it is until it is taken out; info->labels are copied.
 * errors:    ERR_EXISTS: same name and labels; ERR_CONFLICT: same name, other kind or decimals;
 *            ERR_NO_MEMORY. The metric can be counted all the same; it is only not listed.
 */
MUST_USE int metric_add_counter(struct metrics *metrics, struct metric_counter *counter,
                                const struct metric_info *info);
MUST_USE int metric_add_gauge(struct metrics *metrics, struct metric_gauge *gauge,
                              const struct metric_info *info);

/*
 * As above.
 *
 * shape: bounds of 2^k and 1.5 · 2^k between shown_min and shown_max are written; 1 ≤ shown_min ≤
 *        shown_max ≤ 2^METRIC_RANGE_BITS.
 */
MUST_USE int metric_add_histogram(struct metrics *metrics, struct metric_histogram *histogram,
                                  const struct metric_info *info, int64_t shown_min,
                                  int64_t shown_max);

/* Take a metric out of its registry; harmless for one that is in none. */
void metric_del(struct metric *metric);

static inline void metric_count(struct metric_counter *counter, uint64_t more)
{
    counter->value += more;
}

static inline void metric_set(struct metric_gauge *gauge, int64_t value)
{
    gauge->value = value;
}

/* Record a value; below 0 counts as 0, above the range as the last bucket. */
void metric_record(struct metric_histogram *histogram, int64_t value);

/*
 * A quantile, from above: at least `permyriad` of 10 000 values are at or below the result.
 *
 * shape: 0 ≤ permyriad ≤ 10 000. 0 if there are no values; never above the largest value.
 */
int64_t metric_quantile(const struct metric_histogram *histogram, uint32_t permyriad);

/* Add the values of `from` to `to`, as for a total over several. */
void metric_merge(struct metric_histogram *to, const struct metric_histogram *from);

/*
 * Append all metrics as text.
 *
 * errors: those of the buffer.
 * source: Prometheus text format 0.0.4
 */
MUST_USE int metrics_write(const struct metrics *metrics, struct buf *out);

#endif
