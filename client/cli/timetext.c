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

/* Days from 1970-01-01 to a date. shape: month 1 … 12. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t shifted = month > 2 ? year : year - 1; // years that begin in March end in the leap day
    int64_t era = shifted / 400;
    int64_t of_era = shifted - era * 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static int64_t month_days(int64_t year, int64_t month)
{
    static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && is_leap);
}

/* Exactly `width` digits of low … high, and then the separator, unless that is NUL. */
static int read_field(const char **at, size_t width, int64_t low, int64_t high, char separator,
                      int64_t *value)
{
    if (strspn(*at, "0123456789") < width) {
        return ERR_INVALID;
    }
    *value = 0;
    for (size_t i = 0; i < width; i++) {
        *value = *value * 10 + (*(*at)++ - '0');
    }
    if (*value < low || *value > high || (separator != '\0' && *(*at)++ != separator)) {
        return ERR_INVALID;
    }
    return 0;
}

/* Fraction of a second, if there is one: milliseconds, rounded up. */
static int read_fraction(const char **at, int64_t *ms)
{
    int64_t digit_ms = 100;
    bool has_more = false;
    size_t count;

    *ms = 0;
    if (**at != '.') {
        return 0;
    }
    (*at)++;
    count = strspn(*at, "0123456789");
    for (size_t i = 0; i < count; i++, digit_ms /= 10) {
        *ms += digit_ms * (*(*at) - '0');
        has_more = has_more || (digit_ms == 0 && **at != '0');
        (*at)++;
    }
    *ms += has_more;
    return count == 0 ? ERR_INVALID : 0;
}

/* "Z" or "+01:00", as minutes east. */
static int read_zone(const char **at, int64_t *minutes)
{
    int64_t hours;
    int64_t rest;
    int64_t sign = **at == '-' ? -1 : 1;

    *minutes = 0;
    if (**at == 'Z' || **at == 'z') {
        (*at)++;
        return 0;
    }
    if (**at != '+' && **at != '-') {
        return ERR_INVALID;
    }
    (*at)++;
    if (read_field(at, 2, 0, 23, ':', &hours) != 0 || read_field(at, 2, 0, 59, '\0', &rest) != 0) {
        return ERR_INVALID;
    }
    *minutes = sign * (hours * 60 + rest);
    return 0;
}

static int read_date(const char **at, int64_t *days)
{
    int64_t year;
    int64_t month;
    int64_t day;

    if (read_field(at, 4, 0, 9999, '-', &year) != 0 || read_field(at, 2, 1, 12, '-', &month) != 0 ||
        read_field(at, 2, 1, 31, '\0', &day) != 0 || day > month_days(year, month)) {
        return ERR_INVALID;
    }
    *days = year == 0 ? days_of(400, month, day) - 146097 : days_of(year, month, day);
    return 0;
}

static int read_rfc3339(const char *text, wall_ms *out)
{
    int64_t days;
    int64_t hour;
    int64_t minute;
    int64_t second;
    int64_t ms;
    int64_t zone;

    if (read_date(&text, &days) != 0) {
        return ERR_INVALID;
    }
    if (*text != 'T' && *text != 't' && *text != ' ') {
        return ERR_INVALID;
    }
    text++;
    if (read_field(&text, 2, 0, 23, ':', &hour) != 0 ||
        read_field(&text, 2, 0, 59, ':', &minute) != 0 ||
        read_field(&text, 2, 0, 60, '\0', &second) != 0 || read_fraction(&text, &ms) != 0 ||
        read_zone(&text, &zone) != 0 || *text != '\0') {
        return ERR_INVALID;
    }
    *out = ((days * 24 + hour) * 60 + minute - zone) * 60000 + second * 1000 + ms;
    return 0;
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
