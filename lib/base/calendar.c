/* SPDX-License-Identifier: Apache-2.0
 *
 * Days to dates and back. Years are counted from 1 March, so that the leap day is the last of its
 * year, and in eras of 400 years, which all have the same number of days.
 */
#include "lib/base/calendar.h"

#include "lib/base/err.h"
#include "lib/base/instant.h"

#include <stdbool.h>
#include <string.h>

#define DAYS_PER_ERA     INT64_C(146097) /* of 400 years */
#define DAYS_PER_CENTURY INT64_C(36524)
#define DAYS_PER_FOUR    INT64_C(1461)
#define DAYS_TO_1970     INT64_C(719468) /* from 0000-03-01 */
#define S_PER_DAY        INT64_C(86400)
#define NS_PER_S         INT64_C(1000000000)
#define US_FIRST         INT64_C(-62167219200000000) /* 0000-01-01T00:00:00 */
#define US_LAST          INT64_C(253402300799999999) /* 9999-12-31T23:59:59.999999 */

struct date {
    int64_t year;
    int64_t month; /* 1 … 12 */
    int64_t day;   /* 1 … 31 */
};

/* Quotient rounded towards minus infinity. shape: divisor > 0. */
static int64_t floor_div(int64_t value, int64_t divisor)
{
    return value / divisor - (value % divisor < 0);
}

/* Date of a day number. */
static struct date date_of(int64_t days_since_1970)
{
    int64_t days = days_since_1970 + DAYS_TO_1970;
    int64_t era = floor_div(days, DAYS_PER_ERA);
    int64_t of_era = days - era * DAYS_PER_ERA;
    int64_t century = time_min(of_era / DAYS_PER_CENTURY, 3);
    int64_t of_century = of_era - century * DAYS_PER_CENTURY;
    int64_t four = of_century / DAYS_PER_FOUR;
    int64_t of_four = of_century - four * DAYS_PER_FOUR;
    int64_t year = time_min(of_four / 365, 3);
    int64_t of_year = of_four - year * 365;
    int64_t month = (5 * of_year + 2) / 153; // Five months from March or August are 153 days.
    int64_t day = of_year - (153 * month + 2) / 5 + 1;

    return (struct date){era * 400 + century * 100 + four * 4 + year + (month >= 10),
                         month >= 10 ? month - 9 : month + 3, day};
}

/* Write a number as `width` digits and return what is behind them. */
static char *put_digits(char *out, int64_t value, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        out[i] = (char)('0' + value % 10);
        value /= 10;
    }
    return out + width;
}

static char *put_char(char *out, char c)
{
    *out = c;
    return out + 1;
}

/* "2026-01-02T03:04:05"; returns what is behind it. */
static char *put_seconds(char *out, int64_t seconds)
{
    int64_t days = floor_div(seconds, S_PER_DAY);
    int64_t of_day = seconds - days * S_PER_DAY;
    struct date date = date_of(days);

    out = put_char(put_digits(out, date.year, 4), '-');
    out = put_char(put_digits(out, date.month, 2), '-');
    out = put_char(put_digits(out, date.day, 2), 'T');
    out = put_char(put_digits(out, of_day / 3600, 2), ':');
    out = put_char(put_digits(out, of_day / 60 % 60, 2), ':');
    return put_digits(out, of_day % 60, 2);
}

void calendar_text(int64_t wall_us, char *out)
{
    int64_t us = time_clamp(wall_us, US_FIRST, US_LAST);
    int64_t seconds = floor_div(us, US_PER_S);

    out = put_char(put_seconds(out, seconds), '.');
    out = put_char(put_digits(out, us - seconds * US_PER_S, 6), 'Z');
    *out = '\0';
}

void calendar_write(const struct calendar_moment *moment, char *out)
{
    int64_t fraction = moment->nanos;
    int width = 9;

    out = put_seconds(out, moment->seconds);
    while (width > 0 && fraction % 1000 == 0) {
        fraction /= 1000;
        width -= 3;
    }
    if (width > 0) {
        out = put_digits(put_char(out, '.'), fraction, width);
    }
    out = put_char(out, 'Z');
    *out = '\0';
}

/* ---- reading ---- */

/* Days from 1970-01-01 to a date. */
static int64_t days_of(const struct date *date)
{
    int64_t year = date->month > 2 ? date->year : date->year - 1;
    int64_t month = date->month > 2 ? date->month - 3 : date->month + 9;
    int64_t era = floor_div(year, 400);
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * month + 2) / 5 + date->day - 1;

    return era * DAYS_PER_ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - DAYS_TO_1970;
}

static int64_t month_days(const struct date *date)
{
    static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = (date->year % 4 == 0 && date->year % 100 != 0) || date->year % 400 == 0;

    return days[date->month - 1] + (date->month == 2 && is_leap);
}

/* Exactly `width` digits of 0 … high, and then the separator, unless that is NUL. */
static int read_field(const char **at, size_t width, int64_t high, char separator, int64_t *value)
{
    if (strspn(*at, "0123456789") < width) {
        return ERR_INVALID;
    }
    *value = 0;
    for (size_t i = 0; i < width; i++) {
        *value = *value * 10 + (*(*at)++ - '0');
    }
    if (*value > high || (separator != '\0' && *(*at)++ != separator)) {
        return ERR_INVALID;
    }
    return 0;
}

/* Fraction of a second, if there is one: nanoseconds, rounded up, to a whole second at most. */
static int read_fraction(const char **at, int64_t *nanos)
{
    int64_t digit_nanos = 100000000;
    bool has_more = false;
    size_t count;

    *nanos = 0;
    if (**at != '.') {
        return 0;
    }
    (*at)++;
    count = strspn(*at, "0123456789");
    for (size_t i = 0; i < count; i++, digit_nanos /= 10) {
        *nanos += digit_nanos * (*(*at) - '0');
        has_more = has_more || (digit_nanos == 0 && **at != '0');
        (*at)++;
    }
    *nanos += has_more;
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
    if (read_field(at, 2, 23, ':', &hours) != 0 || read_field(at, 2, 59, '\0', &rest) != 0) {
        return ERR_INVALID;
    }
    *minutes = sign * (hours * 60 + rest);
    return 0;
}

static int read_date(const char **at, int64_t *days)
{
    struct date date;

    if (read_field(at, 4, 9999, '-', &date.year) != 0 ||
        read_field(at, 2, 12, '-', &date.month) != 0 ||
        read_field(at, 2, 31, '\0', &date.day) != 0 || date.month == 0 || date.day == 0 ||
        date.day > month_days(&date)) {
        return ERR_INVALID;
    }
    *days = days_of(&date);
    return 0;
}

int calendar_parse(const char *text, struct calendar_moment *out)
{
    int64_t days;
    int64_t hour;
    int64_t minute;
    int64_t second;
    int64_t nanos;
    int64_t zone;

    if (read_date(&text, &days) != 0 || (*text != 'T' && *text != 't' && *text != ' ')) {
        return ERR_INVALID;
    }
    text++;
    if (read_field(&text, 2, 23, ':', &hour) != 0 || read_field(&text, 2, 59, ':', &minute) != 0 ||
        read_field(&text, 2, 60, '\0', &second) != 0 || read_fraction(&text, &nanos) != 0 ||
        read_zone(&text, &zone) != 0 || *text != '\0') {
        return ERR_INVALID;
    }
    out->seconds = ((days * 24 + hour) * 60 + minute - zone) * 60 + second + nanos / NS_PER_S;
    out->nanos = (int32_t)(nanos % NS_PER_S);
    return 0;
}
