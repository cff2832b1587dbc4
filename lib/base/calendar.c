/* SPDX-License-Identifier: Apache-2.0
 *
 * Days to dates. Years are counted from 1 March, so that the leap day is the last of its year, and
 * in eras of 400 years, which all have the same number of days.
 */
#include "lib/base/calendar.h"

#include "lib/base/instant.h"

#define DAYS_PER_ERA     INT64_C(146097) /* of 400 years */
#define DAYS_PER_CENTURY INT64_C(36524)
#define DAYS_PER_FOUR    INT64_C(1461)
#define DAYS_TO_1970     INT64_C(719468) /* from 0000-03-01 */
#define S_PER_DAY        INT64_C(86400)
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

void calendar_text(int64_t wall_us, char *out)
{
    int64_t us = time_clamp(wall_us, US_FIRST, US_LAST);
    int64_t seconds = floor_div(us, US_PER_S);
    int64_t days = floor_div(seconds, S_PER_DAY);
    int64_t of_day = seconds - days * S_PER_DAY;
    struct date date = date_of(days);

    out = put_char(put_digits(out, date.year, 4), '-');
    out = put_char(put_digits(out, date.month, 2), '-');
    out = put_char(put_digits(out, date.day, 2), 'T');
    out = put_char(put_digits(out, of_day / 3600, 2), ':');
    out = put_char(put_digits(out, of_day / 60 % 60, 2), ':');
    out = put_char(put_digits(out, of_day % 60, 2), '.');
    out = put_char(put_digits(out, us - seconds * US_PER_S, 6), 'Z');
    *out = '\0';
}
