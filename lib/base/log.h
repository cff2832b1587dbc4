/* SPDX-License-Identifier: Apache-2.0
 *
 * Structured log lines: JSON for machines, one readable line for people. A line is formatted into a
 * buffer and handed to a sink; nothing is written here and no clock is read. Repeats are limited.
 * Payloads and secrets never go into a field.
 */
#ifndef FOLIOT_LIB_BASE_LOG_H
#define FOLIOT_LIB_BASE_LOG_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_BYTES_MAX  8192U /* a longer line is replaced by its head */
#define LOG_VALUE_BYTES_MAX 1024U /* a longer text value is cut */
#define LOG_FIELD_COUNT_MAX 16U   /* further fields are left out */
#define LOG_REPEAT_MAX      20U   /* lines of one message per window … */
#define LOG_REPEAT_WINDOW_S 10    /* … the rest is counted and reported with the next window */
#define LOG_REPEAT_SLOTS    64U   /* messages watched at a time */

enum log_level {
    LOG_LEVEL_DEBUG = 1,
    LOG_LEVEL_INFO,
    LOG_LEVEL_WARN,
    LOG_LEVEL_ERROR,
    LOG_LEVEL_OFF /* as a threshold only */
};

enum log_format {
    LOG_FORMAT_JSON = 1,
    LOG_FORMAT_HUMAN
};

/* Where lines go: called on the loop, with a line that ends in a line feed, borrowed. */
typedef void (*log_sink_fn)(void *ctx, enum log_level level, struct slice line);

/* How often one message has come. */
struct log_repeat {
    uint64_t hash; /* of component and message; 0 if the slot is free */
    const char *component;
    const char *message;
    int64_t window_us;   /* start of the window */
    uint32_t count;      /* lines written in this window */
    uint32_t suppressed; /* lines left out since the last one */
};

/* One per process, shared by the loggers of its components. */
struct log {
    enum log_level threshold; /* lines below it are not formatted; may be changed at any time */
    enum log_format format;
    const char *broker; /* put into every line; NULL leaves it out; outlives the log */
    log_sink_fn sink;
    void *sink_ctx;
    struct buf line;
    uint64_t suppressed_total; /* lines left out as repeats */
    uint64_t lost_total;       /* lines lost for want of memory */
    struct log_repeat repeats[LOG_REPEAT_SLOTS];
};

/* A component's door to the log. A zeroed one writes nothing. */
struct logger {
    struct log *log;
    const char *component; /* constant */
};

enum log_kind {
    LOG_KIND_INT = 1,
    LOG_KIND_UINT,
    LOG_KIND_TEXT,
    LOG_KIND_BOOL
};

/* One named value. Make it by the functions below. */
struct log_field {
    const char *name; /* constant, [a-z0-9_] */
    enum log_kind kind;
    int64_t number;
    struct slice text;
};

struct log_field log_int(const char *name, int64_t value);
struct log_field log_uint(const char *name, uint64_t value);
struct log_field log_bool(const char *name, bool value);
struct log_field log_text(const char *name, const char *value);   /* NULL is "" */
struct log_field log_slice(const char *name, struct slice value); /* invalid UTF-8 is replaced */
struct log_field log_err(int code);                               /* "err": "ERR_FENCED" */

/* Start a log. shape: sink is not NULL. */
void log_init(struct log *log, enum log_format format, enum log_level threshold, log_sink_fn sink,
              void *sink_ctx);

void log_fini(struct log *log);

/* Parse "debug", "info", "warn", "error", "off"; false if it is none of them. */
bool log_level_parse(const char *text, enum log_level *level);
const char *log_level_name(enum log_level level);

/* Whether a line of this level would be written: for fields that are dear to make. */
bool log_is_on(const struct logger *logger, enum log_level level);

/*
 * Write a line.
 *
 * shape: message is a constant text, lower case, no final stop; what varies goes into fields.
 * units: now in microseconds since 1970 UTC, for the line and for the limit of repeats.
 */
void log_write(const struct logger *logger, enum log_level level, int64_t now_wall_us,
               const char *message, const struct log_field *fields, size_t field_count);

/* Report repeats whose window has ended and that did not come again. Call now and then. */
void log_report_repeats(struct log *log, int64_t now_wall_us);

/* log_write with the fields listed: LOG_WRITE(logger, level, now, "message", log_int("a", 1)) */
#define LOG_WRITE(logger, level, now, message, ...)                                         \
    log_write((logger), (level), (now), (message), (const struct log_field[]){__VA_ARGS__}, \
              sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

#endif
