/* SPDX-License-Identifier: Apache-2.0
 *
 * Results.
 */
#include "client/cli/bench_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Longest bar of a histogram, in characters. */
#define BAR_LEN 50

#define CELL_BYTES 32

static const struct output_column COLUMNS[] = {
    {"MODE", false},       {"COUNT", false},      {"RATE/S", false},    {"ANSWER P50", false},
    {"ANSWER P99", false}, {"ANSWER MAX", false}, {"LATE P50", false},  {"LATE P99", false},
    {"LATE MAX", false},   {"EARLY", false},      {"MISSING", false},   {"FAILED", false},
    {"ANSWER P90", true},  {"ANSWER P999", true}, {"LATE P90", true},   {"LATE P999", true},
    {"RETRIES", true},     {"WAITED", true},      {"CLIENT CPU", true},
};
const struct output_layout BENCH_LAYOUT = {COLUMNS, ARRAY_COUNT(COLUMNS), 0, "runs"};

static const uint32_t PERMYRIADS[] = {5000, 9000, 9900, 9990};
static const char *const QUANTILES[] = {"p50", "p90", "p99", "p999"};

/* What a row of the table says. */
struct row {
    const char *part; /* NULL: the mode alone */
    uint64_t count;
    int64_t rate; /* -1: none */
    const struct hist *answer_us;
    const struct hist *lateness_us;
    uint64_t failed;
    bool has_run; /* also what is said once of a run */
};

static int64_t per_second(uint64_t count, int64_t span_us)
{
    return span_us <= 0 ? 0 : (int64_t)((double)count * 1e6 / (double)span_us);
}

static int64_t op_rate(const struct bench_result *result, enum load_op op)
{
    return per_second(result->load.ops[op].measured, result->load.measured_us);
}

/* From the instant at which all were due to the last arrival. */
static int64_t drain_rate(const struct bench_result *result)
{
    return per_second(result->arrivals.arrivals.first,
                      result->arrivals.arrivals.last_us - result->due_us);
}

/* Were some tasks made after they were due? Then the drain says little. */
static bool is_drain_late(const struct plan *plan, const struct bench_result *result)
{
    return plan->mode == BENCH_DRAIN && result->created_us > result->due_us;
}

/* ---- the table ---- */

static void format_ms(const struct hist *hist, int64_t us, char *cell)
{
    if (hist == NULL || hist->count == 0) {
        (void)snprintf(cell, CELL_BYTES, "-");
    } else {
        (void)snprintf(cell, CELL_BYTES, "%.*f ms",
                       us < 10000    ? 2
                       : us < 100000 ? 1
                                     : 0,
                       (double)us / 1000);
    }
}

static void format_count(int64_t count, char *cell)
{
    if (count < 0) {
        (void)snprintf(cell, CELL_BYTES, "-");
    } else {
        (void)snprintf(cell, CELL_BYTES, "%" PRId64, count);
    }
}

static int64_t client_cpu_tenths_us(const struct bench_result *result)
{
    uint64_t done = 0;

    for (size_t i = 0; i < LOAD_OP_COUNT; i++) {
        done += result->load.ops[i].done;
    }
    return done == 0 ? 0 : result->client_cpu_us * 10 / (int64_t)done;
}

/* Cells of one histogram, p50 p99 max p90 p999: in the order of the columns. */
static void format_hist(const struct hist *hist, char cells[5][CELL_BYTES])
{
    static const uint32_t permyriads[] = {5000, 9900, 10000, 9000, 9990};

    for (size_t i = 0; i < ARRAY_COUNT(permyriads); i++) {
        format_ms(hist, hist == NULL ? 0 : hist_quantile(hist, permyriads[i]), cells[i]);
    }
}

static void add_row(struct output *output, const struct plan *plan,
                    const struct bench_result *result, const struct row *row)
{
    char name[64];
    char answer[5][CELL_BYTES];
    char late[5][CELL_BYTES];
    char counts[7][CELL_BYTES];
    char cpu[CELL_BYTES] = "-";

    (void)snprintf(name, sizeof(name), "%s%s%s", bench_mode_name(plan->mode),
                   row->part == NULL ? "" : ": ", row->part == NULL ? "" : row->part);
    format_hist(row->answer_us, answer);
    format_hist(row->lateness_us, late);
    format_count((int64_t)row->count, counts[0]);
    format_count(row->rate, counts[1]);
    format_count(row->has_run ? (int64_t)result->arrivals.arrivals.early : -1, counts[2]);
    format_count(row->has_run ? (int64_t)bench_result_missing(result) : -1, counts[3]);
    format_count((int64_t)row->failed, counts[4]);
    format_count(row->has_run ? (int64_t)result->load.retries : -1, counts[5]);
    format_count(row->has_run ? (int64_t)result->load.late_starts : -1, counts[6]);
    if (row->has_run) {
        int64_t tenths = client_cpu_tenths_us(result);

        (void)snprintf(cpu, sizeof(cpu), "%" PRId64 ".%d us", tenths / 10, (int)(tenths % 10));
    }
    output_row(output, (const char *const[]){name, counts[0], counts[1], answer[0], answer[1],
                                             answer[2], late[0], late[1], late[2], counts[2],
                                             counts[3], counts[4], answer[3], answer[4], late[3],
                                             late[4], counts[5], counts[6], cpu});
}

static struct row op_row(const struct plan *plan, const struct bench_result *result,
                         enum load_op op)
{
    const struct load_figures *figures = &result->load.ops[op];
    const struct hist *lateness = &result->arrivals.lateness_us;
    bool is_first = op == (plan->mode == BENCH_CANCEL ? LOAD_CANCEL : LOAD_CREATE);
    bool is_named = plan->mode == BENCH_MIXED || plan->mode == BENCH_DRAIN;

    return (struct row){
        .part = is_named ? load_op_name(op) : NULL,
        .count = figures->done + figures->existing,
        .rate = op_rate(result, op),
        .answer_us = &figures->answer_us,
        .lateness_us = is_first && plan->mode != BENCH_DRAIN ? lateness : NULL,
        .failed = figures->failed + figures->unknown,
        .has_run = is_first && plan->mode != BENCH_DRAIN,
    };
}

static void add_rows(struct output *output, const struct plan *plan,
                     const struct bench_result *result)
{
    for (int op = 0; op < LOAD_OP_COUNT; op++) {
        const struct load_figures *figures = &result->load.ops[op];

        if (figures->done + figures->existing + figures->failed + figures->unknown > 0) {
            const struct row row = op_row(plan, result, (enum load_op)op);

            add_row(output, plan, result, &row);
        }
    }
    if (plan->mode == BENCH_DRAIN) {
        const struct row row = {
            .count = result->arrivals.arrivals.first,
            .rate = drain_rate(result),
            .lateness_us = &result->arrivals.lateness_us,
            .has_run = true,
        };

        add_row(output, plan, result, &row);
        if (is_drain_late(plan, result)) {
            output_note(output, "drain: the creates took longer than the time until due, so the "
                                "drain says little; give more --lead");
        }
    }
}

/* ---- JSON ---- */

static void add_hist(struct json *json, const char *name, const struct hist *hist)
{
    json_open(json, name, '{');
    json_int(json, "count", (int64_t)hist->count);
    json_int(json, "minUs", hist->min);
    for (size_t i = 0; i < ARRAY_COUNT(PERMYRIADS); i++) {
        char member[16];

        (void)snprintf(member, sizeof(member), "%sUs", QUANTILES[i]);
        json_int(json, member, hist_quantile(hist, PERMYRIADS[i]));
    }
    json_int(json, "maxUs", hist->max);
    json_close(json, '}');
}

static void add_plan(struct json *json, const struct plan *plan)
{
    json_text(json, "mode", bench_mode_name(plan->mode));
    json_int(json, "rate", plan->load.rate);
    json_int(json, "outstanding", plan->load.outstanding);
    json_int(json, "batch", plan->load.batch);
    json_int(json, "payloadBytes", (int64_t)plan->mix.payload.len);
    json_int(json, "keyedPercent", plan->mix.keyed_permille / 10);
    if (plan->mode != BENCH_DRAIN) {
        json_text(json, "delay", plan->delay);
    }
    json_int(json, "warmupMs", plan->load.warmup_ms);
    json_int(json, "seed", (int64_t)(plan->mix.seed & INT64_MAX));
}

static void add_ops(struct json *json, const struct bench_result *result)
{
    json_open(json, "calls", '[');
    for (int i = 0; i < LOAD_OP_COUNT; i++) {
        const struct load_figures *figures = &result->load.ops[i];

        if (figures->done + figures->existing + figures->failed + figures->unknown == 0) {
            continue;
        }
        json_open(json, NULL, '{');
        json_text(json, "call", load_op_name((enum load_op)i));
        json_int(json, "done", (int64_t)figures->done);
        json_int(json, "existing", (int64_t)figures->existing);
        json_int(json, "failed", (int64_t)figures->failed);
        json_int(json, "unknown", (int64_t)figures->unknown);
        json_int(json, "measured", (int64_t)figures->measured);
        json_int(json, "perSecond", op_rate(result, (enum load_op)i));
        add_hist(json, "answer", &figures->answer_us);
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* Counts at or below powers of two, from the first that has some to the last. */
static void add_buckets(struct json *json, const struct hist *hist)
{
    uint64_t before = 0;

    json_open(json, "histogram", '[');
    for (unsigned bits = 4; bits <= HIST_RANGE_BITS && before < hist->count; bits++) {
        uint64_t to = hist_count_to(hist, ((int64_t)1 << bits) - 1);

        if (to > before) {
            json_open(json, NULL, '{');
            json_int(json, "belowUs", (int64_t)1 << bits);
            json_int(json, "count", (int64_t)(to - before));
            json_close(json, '}');
        }
        before = to;
    }
    json_close(json, ']');
}

static void add_json(struct json *json, const struct plan *plan, const struct bench_result *result)
{
    const struct arrivals *arrivals = &result->arrivals.arrivals;

    json_open(json, NULL, '{');
    add_plan(json, plan);
    add_ops(json, result);
    json_int(json, "retries", (int64_t)result->load.retries);
    json_int(json, "waited", (int64_t)result->load.late_starts);
    json_int(json, "elapsedUs", result->load.elapsed_us);
    json_int(json, "measuredUs", result->load.measured_us);
    json_int(json, "awaited", (int64_t)result->awaited);
    json_int(json, "received", (int64_t)arrivals->first);
    json_int(json, "repeats", (int64_t)(arrivals->attempts - arrivals->first));
    json_int(json, "early", (int64_t)arrivals->early);
    json_int(json, "missing", (int64_t)bench_result_missing(result));
    add_hist(json, "lateness", &result->arrivals.lateness_us);
    add_buckets(json, &result->arrivals.lateness_us);
    if (plan->mode == BENCH_DRAIN) {
        json_int(json, "drainPerSecond", drain_rate(result));
        json_int(json, "firstLatenessUs", result->arrivals.first_us - result->due_us);
        json_int(json, "lastLatenessUs", arrivals->last_us - result->due_us);
        json_bool(json, "createdAfterDue", is_drain_late(plan, result));
    }
    json_int(json, "clientCpuUs", result->client_cpu_us);
    json_bool(json, "interrupted", result->is_interrupted);
    json_close(json, '}');
}

void bench_report_add(struct output *output, const struct plan *plan,
                      const struct bench_result *result)
{
    if (output_wants_json(output)) {
        add_json(output_json(output), plan, result);
        output_json_done(output);
    } else {
        add_rows(output, plan, result);
    }
}

/* ---- the histogram ---- */

static void format_bound(int64_t us, char *text)
{
    if (us < 1000) {
        (void)snprintf(text, CELL_BYTES, "%" PRId64 " us", us);
    } else if (us < 1000000) {
        (void)snprintf(text, CELL_BYTES, "%.1f ms", (double)us / 1e3);
    } else {
        (void)snprintf(text, CELL_BYTES, "%.1f s", (double)us / 1e6);
    }
}

void bench_report_histogram(struct output *output, const struct plan *plan,
                            const struct bench_result *result)
{
    static const char bar[BAR_LEN + 1] = "##################################################";
    const struct hist *hist = &result->arrivals.lateness_us;
    enum load_op op = plan->mode == BENCH_CANCEL ? LOAD_CANCEL : LOAD_CREATE;
    const char *what = "lateness";
    uint64_t before = 0;

    if (hist->count == 0) {
        hist = &result->load.ops[op].answer_us;
        what = "time of an answer";
    }
    if (hist->count == 0) {
        return;
    }
    output_note(output, "\n%s: %s of %" PRIu64, bench_mode_name(plan->mode), what, hist->count);
    for (unsigned bits = 4; bits <= HIST_RANGE_BITS && before < hist->count; bits++) {
        uint64_t to = hist_count_to(hist, ((int64_t)1 << bits) - 1);
        char bound[CELL_BYTES];

        if (to > before || before > 0) {
            format_bound((int64_t)1 << bits, bound);
            output_note(output, "  below %8s  %10" PRIu64 "  %7.3f %%  %.*s", bound, to - before,
                        (double)to * 100 / (double)hist->count,
                        (int)(((to - before) * BAR_LEN + hist->count - 1) / hist->count), bar);
        }
        before = to;
    }
}
