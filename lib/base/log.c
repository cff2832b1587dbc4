/* SPDX-License-Identifier: Apache-2.0
 *
 * Formatting of log lines.
 */
#include "lib/base/log.h"

#include "lib/base/calendar.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/instant.h"
#include "lib/base/json_text.h"
#include "lib/base/utf8.h"

#include <inttypes.h>
#include <string.h>

static const char *const LEVEL_NAMES[] = {"?", "debug", "info", "warn", "error", "off"};

/* A line before it is formatted. */
struct line {
    const struct logger *logger;
    enum log_level level;
    int64_t now_us;
    const char *message;
    const struct log_field *fields;
    size_t field_count;
    uint32_t suppressed; /* repeats left out before this line */
    bool is_cut;         /* the fields were too long and are left out */
};

struct log_field log_int(const char *name, int64_t value)
{
    return (struct log_field){name, LOG_KIND_INT, value, {NULL, 0}};
}

struct log_field log_uint(const char *name, uint64_t value)
{
    return (struct log_field){name, LOG_KIND_UINT, (int64_t)value, {NULL, 0}};
}

struct log_field log_bool(const char *name, bool value)
{
    return (struct log_field){name, LOG_KIND_BOOL, value, {NULL, 0}};
}

struct log_field log_text(const char *name, const char *value)
{
    return log_slice(name, slice_of(value == NULL ? "" : value));
}

struct log_field log_slice(const char *name, struct slice value)
{
    return (struct log_field){name, LOG_KIND_TEXT, 0, value};
}

struct log_field log_err(int code)
{
    return log_text("err", err_name(code));
}

void log_init(struct log *log, enum log_format format, enum log_level threshold, log_sink_fn sink,
              void *sink_ctx)
{
    REQUIRE(sink != NULL);
    memset(log, 0, sizeof(*log));
    log->format = format;
    log->threshold = threshold;
    log->sink = sink;
    log->sink_ctx = sink_ctx;
    buf_init(&log->line, LOG_LINE_BYTES_MAX);
}

void log_fini(struct log *log)
{
    buf_fini(&log->line);
}

bool log_level_parse(const char *text, enum log_level *level)
{
    for (int i = LOG_LEVEL_DEBUG; i <= LOG_LEVEL_OFF; i++) {
        if (strcmp(text, LEVEL_NAMES[i]) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

const char *log_level_name(enum log_level level)
{
    return LEVEL_NAMES[level >= LOG_LEVEL_DEBUG && level <= LOG_LEVEL_OFF ? level : 0];
}

bool log_is_on(const struct logger *logger, enum log_level level)
{
    return logger->log != NULL && level >= logger->log->threshold;
}

static void put_quoted(struct buf *buf, struct slice text)
{
    bool is_cut = text.len > LOG_VALUE_BYTES_MAX;

    text.len = is_cut ? utf8_cut(text.data, LOG_VALUE_BYTES_MAX) : text.len;
    (void)buf_append_text(buf, "\"");
    (void)json_text_put(buf, text);
    (void)buf_append_text(buf, is_cut ? "…\"" : "\"");
}

/* Whether a person reads the text as one word. */
static bool is_plain(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];

        if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=') {
            return false;
        }
    }
    return text.len > 0 && text.len <= LOG_VALUE_BYTES_MAX;
}

static void put_value(struct buf *buf, const struct log_field *field, bool is_json)
{
    switch (field->kind) {
    case LOG_KIND_INT:
        (void)buf_printf(buf, "%" PRId64, field->number);
        return;
    case LOG_KIND_UINT:
        (void)buf_printf(buf, "%" PRIu64, (uint64_t)field->number);
        return;
    case LOG_KIND_BOOL:
        (void)buf_append_text(buf, field->number != 0 ? "true" : "false");
        return;
    case LOG_KIND_TEXT:
        if (!is_json && is_plain(field->text)) {
            (void)buf_append(buf, field->text.data, field->text.len);
        } else {
            put_quoted(buf, field->text);
        }
        return;
    }
}

static void put_field(struct buf *buf, const struct log_field *field, bool is_json)
{
    (void)buf_printf(buf, is_json ? ",\"%s\":" : " %s=", field->name);
    put_value(buf, field, is_json);
}

static void put_head(struct buf *buf, const struct line *line, bool is_json)
{
    char time[CALENDAR_TEXT_LEN + 1];
    const struct logger *logger = line->logger;

    calendar_text(line->now_us, time);
    if (!is_json) {
        (void)buf_printf(buf, "%s %-5s %s: %s", time, log_level_name(line->level),
                         logger->component, line->message);
        return;
    }
    (void)buf_printf(buf, "{\"ts\":\"%s\",\"level\":\"%s\",\"msg\":", time,
                     log_level_name(line->level));
    put_quoted(buf, slice_of(line->message));
    (void)buf_append_text(buf, ",\"component\":");
    put_quoted(buf, slice_of(logger->component));
}

static void format(struct buf *buf, const struct line *line)
{
    bool is_json = line->logger->log->format == LOG_FORMAT_JSON;
    const char *broker = line->logger->log->broker;
    struct log_field extra;

    buf_clear(buf);
    put_head(buf, line, is_json);
    if (broker != NULL) {
        extra = log_text("broker", broker);
        put_field(buf, &extra, is_json);
    }
    for (size_t i = 0; !line->is_cut && i < line->field_count; i++) {
        put_field(buf, &line->fields[i], is_json);
    }
    if (line->suppressed > 0) {
        extra = log_uint("suppressed", line->suppressed);
        put_field(buf, &extra, is_json);
    }
    if (line->is_cut) {
        extra = log_bool("cut", true);
        put_field(buf, &extra, is_json);
    }
    (void)buf_append_text(buf, is_json ? "}\n" : "\n");
}

static void emit(struct line *line)
{
    struct log *log = line->logger->log;

    format(&log->line, line);
    if (log->line.failed) {
        line->is_cut = true;
        format(&log->line, line);
    }
    if (log->line.failed) {
        log->lost_total++;
        return;
    }
    log->sink(log->sink_ctx, line->level, buf_slice(&log->line));
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3); // FNV-1a
    }
    return hash * UINT64_C(0x100000001b3); // So that "ab","c" and "a","bc" differ.
}

static struct log_repeat *repeat_of(const struct line *line)
{
    struct log *log = line->logger->log;
    uint64_t hash = hash_text(UINT64_C(0xcbf29ce484222325), line->logger->component);
    struct log_repeat *repeat;

    hash = hash_text(hash, line->message) | 1;
    repeat = &log->repeats[(hash >> 32) % LOG_REPEAT_SLOTS];
    if (repeat->hash != hash) { // Another message had the slot: its count is given up.
        *repeat = (struct log_repeat){.hash = hash, .window_us = line->now_us};
        repeat->component = line->logger->component;
        repeat->message = line->message;
    }
    return repeat;
}

static bool is_window_over(const struct log_repeat *repeat, int64_t now_us)
{
    int64_t age_us = time_sub(now_us, repeat->window_us);

    return age_us < 0 || age_us >= LOG_REPEAT_WINDOW_S * US_PER_S; // Also after a step backwards.
}

/* Count the line; false if it is one repeat too many. */
static bool pass_limit(struct line *line)
{
    struct log_repeat *repeat = repeat_of(line);

    if (is_window_over(repeat, line->now_us)) {
        repeat->window_us = line->now_us;
        repeat->count = 0;
    }
    if (repeat->count >= LOG_REPEAT_MAX) {
        repeat->suppressed++;
        line->logger->log->suppressed_total++;
        return false;
    }
    repeat->count++;
    line->suppressed = repeat->suppressed;
    repeat->suppressed = 0;
    return true;
}

void log_write(const struct logger *logger, enum log_level level, int64_t now_wall_us,
               const char *message, const struct log_field *fields, size_t field_count)
{
    struct line line = {.logger = logger, .level = level, .now_us = now_wall_us};

    if (!log_is_on(logger, level)) {
        return;
    }
    line.message = message;
    line.fields = fields;
    line.field_count = field_count < LOG_FIELD_COUNT_MAX ? field_count : LOG_FIELD_COUNT_MAX;
    if (pass_limit(&line)) {
        emit(&line);
    }
}

void log_report_repeats(struct log *log, int64_t now_wall_us)
{
    for (size_t i = 0; i < LOG_REPEAT_SLOTS; i++) {
        struct log_repeat *repeat = &log->repeats[i];
        struct logger logger = {log, repeat->component};
        struct line line = {.logger = &logger, .level = LOG_LEVEL_WARN, .now_us = now_wall_us};

        if (repeat->suppressed == 0 || !is_window_over(repeat, now_wall_us)) {
            continue;
        }
        line.message = repeat->message;
        line.suppressed = repeat->suppressed;
        repeat->suppressed = 0;
        emit(&line);
    }
}
