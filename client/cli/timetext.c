/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing of times. The calendar is the proleptic Gregorian one, in UTC; zones are
 * offsets.
 */
#include "client/cli/timetext.h"

#include "lib/base/calendar.h"
#include "lib/base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t ms;
} UNITS[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {"w", 604800000},
};

#define UNIT_COUNT ARRAY_COUNT(UNITS)

/* A run of digits; returns how many there were, 0 also if they are too many. */
static size_t read_digits(const char **at, int64_t *value)
{
    size_t count = 0;

    *value = 0;
    while (**at >= '0' && **at <= '9') {
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, **at - '0', value)) {
            return 0;
        }
        (*at)++;
        count++;
    }
    return count;
}

/* The unit at *at, in milliseconds; 0 if there is none. "m" is no prefix of "ms". */
static int64_t read_unit(const char **at)
{
    size_t len = strspn(*at, "abcdefghijklmnopqrstuvwxyz");

    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (len == strlen(UNITS[i].name) && strncmp(*at, UNITS[i].name, len) == 0) {
            *at += len;
            return UNITS[i].ms;
        }
    }
    return 0;
}

/* One number with its unit, added to *sum. */
static int read_part(const char **at, int64_t *sum)
{
    int64_t whole;
    int64_t fraction = 0;
    int64_t scale = 1;
    int64_t unit;

    if (read_digits(at, &whole) == 0) {
        return ERR_INVALID;
    }
    if (**at == '.') {
        const char *start = ++*at;

        if (read_digits(at, &fraction) == 0 || *at - start > 9) {
            return ERR_INVALID;
        }
        for (ptrdiff_t i = 0; i < *at - start; i++) {
            scale *= 10;
        }
    }
    unit = read_unit(at);
    if (unit == 0 || fraction * unit % scale != 0) {
        return ERR_INVALID;
    }
    if (__builtin_mul_overflow(whole, unit, &whole) ||
        __builtin_add_overflow(whole, fraction * unit / scale, &whole) ||
        __builtin_add_overflow(*sum, whole, sum)) {
        return ERR_INVALID;
    }
    return 0;
}

int timetext_read_span(const char *text, span_ms *out)
{
    int64_t sum = 0;

    do {
        if (read_part(&text, &sum) != 0) {
            return ERR_INVALID;
        }
    } while (*text != '\0');
    *out = sum;
    return 0;
}

/* Rounded up to milliseconds: nothing runs before the moment that was asked for. */
static int read_rfc3339(const char *text, wall_ms *out)
{
    struct calendar_moment moment;
    int err = calendar_parse(text, &moment);

    if (err == 0) {
        *out = moment.seconds * MS_PER_S + (moment.nanos + 999999) / 1000000;
    }
    return err;
}

int timetext_read_when(const char *text, struct when *out)
{
    struct when when = {.kind = WHEN_DELAY};
    int err = 0;

    if (strcmp(text, "now") == 0) {
        when.kind = WHEN_NONE;
    } else if (text[0] == '+') {
        err = timetext_read_span(text + 1, &when.delay_ms);
    } else {
        when.kind = WHEN_DUE;
        err = read_rfc3339(text, &when.due_ms);
    }
    if (err == 0) {
        *out = when;
    }
    return err;
}

void timetext_write(wall_ms time, char *out)
{
    char text[CALENDAR_TEXT_LEN + 1];

    if (time == WALL_NEVER) {
        memcpy(out, "-", 2);
        return;
    }
    calendar_text(time_mul(time, US_PER_MS), text);
    memcpy(text + CALENDAR_TEXT_LEN - 4, "Z", 2); // milliseconds are enough for people
    memcpy(out, text, strlen(text) + 1);
}

void timetext_write_span(span_ms span, char *out)
{
    size_t len = 0;

    if (span <= 0) {
        (void)snprintf(out, TIMETEXT_BYTES, "%" PRId64 "ms", span);
        return;
    }
    // From days down; weeks are for reading only.
    for (size_t i = UNIT_COUNT - 1; i-- > 0 && len < TIMETEXT_BYTES;) {
        int64_t count = span / UNITS[i].ms;

        if (count > 0) {
            len += (size_t)snprintf(out + len, TIMETEXT_BYTES - len, "%" PRId64 "%s", count,
                                    UNITS[i].name);
            span -= count * UNITS[i].ms;
        }
    }
}
