/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines and summary of the sample receiver.
 */
#include "client/cli/receive_report.h"

#include "client/cli/json.h"
#include "client/cli/timetext.h"
#include "lib/base/calendar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Lines of one loop turn; more are written in between. */
#define OUT_BYTES_MAX   ((size_t)1 << 20U)
#define OUT_BYTES_FLUSH ((size_t)1 << 18U)

void report_init(struct report *report, bool is_json, bool is_summary)
{
    memset(report, 0, sizeof(*report));
    buf_init(&report->out, OUT_BYTES_MAX);
    report->is_json = is_json;
    report->is_summary = is_summary;
}

bool report_fini(struct report *report)
{
    report_flush(report);
    buf_fini(&report->out);
    return !report->is_broken;
}

void report_flush(struct report *report)
{
    struct slice text = buf_slice(&report->out);

    if (text.len == 0) {
        return;
    }
    if (report->out.failed || fwrite(text.data, 1, text.len, stdout) != text.len ||
        fflush(stdout) != 0) {
        report->is_broken = true;
    }
    buf_clear(&report->out);
}

void report_listening(struct report *report, const char *address, uint16_t port)
{
    struct json json;

    if (report->is_json) {
        json_init(&json, &report->out);
        json_open(&json, NULL, '{');
        json_text(&json, "address", address);
        json_int(&json, "port", port);
        json_close(&json, '}');
        (void)buf_append_text(&report->out, "\n");
    } else {
        (void)buf_printf(&report->out, "receiving at receiver://%s:%u\n", address, port);
    }
    report_flush(report);
}

static void add_json(struct report *report, const struct attempt_line *line)
{
    struct json json;

    json_init(&json, &report->out);
    json_open(&json, NULL, '{');
    json_text(&json, "taskId", line->task_id);
    json_text(&json, "namespace", line->queue.tenant);
    json_text(&json, "queue", line->queue.name);
    json_slice(&json, "key", line->key);
    if (line->order_key.len > 0) {
        json_slice(&json, "orderKey", line->order_key);
    }
    json_int(&json, "attempt", line->attempt);
    if (line->due_ms != WALL_NEVER) {
        json_int(&json, "dueMs", line->due_ms);
        json_int(&json, "latenessUs", line->actual_us - line->due_ms * US_PER_MS);
    }
    json_int(&json, "actualUs", line->actual_us);
    if (line->deadline_ms != WALL_NEVER) {
        json_int(&json, "deadlineMs", line->deadline_ms);
    }
    json_bool(&json, "failed", line->is_failure);
    json_close(&json, '}');
    (void)buf_append_text(&report->out, "\n");
}

static void add_row(struct report *report, const struct attempt_line *line)
{
    char due[TIMETEXT_BYTES];
    char actual[CALENDAR_TEXT_LEN + 1];
    char lateness[32] = "-";

    if (!report->has_heading) {
        report->has_heading = true;
        (void)buf_printf(&report->out, "%-24s  %-27s  %10s  %7s  %-20s  %s\n", "DUE", "ACTUAL",
                         "LATENESS", "ATTEMPT", "TASK", "QUEUE");
    }
    timetext_write(line->due_ms, due);
    calendar_text(line->actual_us, actual);
    if (line->due_ms != WALL_NEVER) {
        int64_t us = line->actual_us - line->due_ms * US_PER_MS;

        (void)snprintf(lateness, sizeof(lateness), "%s%" PRId64 ".%03d ms", us < 0 ? "-" : "",
                       (us < 0 ? -us : us) / 1000, (int)((us < 0 ? -us : us) % 1000));
    }
    (void)buf_printf(&report->out, "%-24s  %-27s  %10s  %7" PRIu32 "  %-20s  %s%s\n", due, actual,
                     lateness, line->attempt, line->task_id, line->queue.name,
                     line->is_failure ? "  (answered with a failure)" : "");
}

void report_add(struct report *report, const struct attempt_line *line)
{
    report->count++;
    report->repeats += line->attempt > 1;
    report->failures += line->is_failure;
    report->late_for_deadline +=
        line->deadline_ms != WALL_NEVER && line->actual_us > line->deadline_ms * US_PER_MS;
    if (line->due_ms != WALL_NEVER) {
        int64_t lateness_us = line->actual_us - line->due_ms * US_PER_MS;

        report->early += lateness_us < 0;
        if (report->lateness_us.count == 0 || lateness_us < report->lateness_min_us) {
            report->lateness_min_us = lateness_us;
        }
        metric_record(&report->lateness_us, lateness_us);
    }
    if (!report->is_summary) {
        (report->is_json ? add_json : add_row)(report, line);
        if (buf_len(&report->out) >= OUT_BYTES_FLUSH) {
            report_flush(report);
        }
    }
}

static void write_summary_json(const struct report *report, struct buf *out)
{
    const struct metric_histogram *lateness = &report->lateness_us;
    struct json json;

    json_init(&json, out);
    json_open(&json, NULL, '{');
    json_int(&json, "count", (int64_t)report->count);
    json_int(&json, "early", (int64_t)report->early);
    json_int(&json, "repeats", (int64_t)report->repeats);
    json_int(&json, "failures", (int64_t)report->failures);
    json_int(&json, "afterDeadline", (int64_t)report->late_for_deadline);
    json_int(&json, "latenessMinUs", report->lateness_min_us);
    json_int(&json, "latenessP50Us", metric_quantile(lateness, 5000));
    json_int(&json, "latenessP99Us", metric_quantile(lateness, 9900));
    json_int(&json, "latenessMaxUs", lateness->max);
    json_close(&json, '}');
    (void)buf_append_text(out, "\n");
}

static void write_summary_text(const struct report *report, struct buf *out)
{
    const struct metric_histogram *lateness = &report->lateness_us;
    int64_t p50_us = metric_quantile(lateness, 5000);
    int64_t p99_us = metric_quantile(lateness, 9900);

    (void)buf_printf(out,
                     "attempts %" PRIu64 ", early %" PRIu64 ", repeats %" PRIu64
                     ", failures asked for %" PRIu64 ", after their deadline %" PRIu64 "\n",
                     report->count, report->early, report->repeats, report->failures,
                     report->late_for_deadline);
    (void)buf_printf(
        out, "lateness p50 %" PRId64 ".%03d ms, p99 %" PRId64 ".%03d ms, max %" PRId64 ".%03d ms\n",
        p50_us / 1000, (int)(p50_us % 1000), p99_us / 1000, (int)(p99_us % 1000),
        lateness->max / 1000, (int)(lateness->max % 1000));
}

void report_summary(struct report *report)
{
    struct buf text;

    report_flush(report);
    buf_init(&text, OUT_BYTES_MAX);
    (report->is_json ? write_summary_json : write_summary_text)(report, &text);
    if (report->is_summary) {
        (void)buf_append(&report->out, buf_slice(&text).data, buf_len(&text));
        report_flush(report);
    } else {
        (void)fputs(buf_text(&text), stderr);
    }
    buf_fini(&text);
}
