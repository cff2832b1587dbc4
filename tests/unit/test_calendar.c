/* SPDX-License-Identifier: Apache-2.0
 *
 * What reading and writing of moments promise.
 */
#include "lib/base/calendar.h"
#include "lib/base/err.h"
#include "lib/base/prng.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <time.h>

Test(calendar, reads_what_it_writes)
{
    struct prng prng;

    prng_init(&prng, 3);
    for (int i = 0; i < 200000; i++) {
        uint64_t range = (uint64_t)(CALENDAR_SECONDS_MAX - CALENDAR_SECONDS_MIN);
        struct calendar_moment moment = {
            .seconds = CALENDAR_SECONDS_MIN + (int64_t)prng_below(&prng, range + 1),
            .nanos = (int32_t)prng_below(&prng, 1000000000),
        };
        struct calendar_moment read;
        char text[CALENDAR_MOMENT_LEN + 1];

        calendar_write(&moment, text);
        cr_assert_eq(calendar_parse(text, &read), 0, "%s", text);
        cr_assert(read.seconds == moment.seconds && read.nanos == moment.nanos, "%s", text);
    }
}

Test(calendar, agrees_with_the_library)
{
    for (int64_t seconds = CALENDAR_SECONDS_MIN; seconds <= CALENDAR_SECONDS_MAX;
         seconds += 86400 * INT64_C(7) - 11) {
        struct calendar_moment moment = {.seconds = seconds};
        time_t time = (time_t)seconds;
        char ours[CALENDAR_MOMENT_LEN + 1];
        char theirs[64];
        struct tm parts;

        cr_assert_not_null(gmtime_r(&time, &parts));
        (void)snprintf(theirs, sizeof(theirs), "%04d-%02d-%02dT%02d:%02d:%02dZ",
                       parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                       parts.tm_min, parts.tm_sec);
        calendar_write(&moment, ours);
        cr_assert_str_eq(ours, theirs);
    }
}

Test(calendar, writes_as_many_digits_as_it_takes)
{
    static const struct {
        int32_t nanos;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00Z"},
        {500000000, "1970-01-01T00:00:00.500Z"},
        {1000, "1970-01-01T00:00:00.000001Z"},
        {1, "1970-01-01T00:00:00.000000001Z"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct calendar_moment moment = {.nanos = rows[i].nanos};
        char text[CALENDAR_MOMENT_LEN + 1];

        calendar_write(&moment, text);
        cr_assert_str_eq(text, rows[i].text);
    }
}

Test(calendar, reads_zones_fractions_and_leap_seconds)
{
    static const struct {
        const char *text;
        int64_t seconds;
        int32_t nanos;
    } rows[] = {
        {"1970-01-01T01:00:00+01:00", 0, 0},
        {"1969-12-31t19:30:00-04:30", 0, 0},
        {"1970-01-01 00:00:00z", 0, 0},
        {"1970-01-01T00:00:00.1Z", 0, 100000000},
        {"1970-01-01T00:00:00.0000000001Z", 0, 1},
        {"1970-01-01T00:00:00.9999999999Z", 1, 0},
        {"2016-12-31T23:59:60Z", 1483228800, 0},
        {"2024-02-29T00:00:00Z", 1709164800, 0},
        {"0000-02-29T00:00:00Z", -62162121600, 0},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct calendar_moment moment;

        cr_assert_eq(calendar_parse(rows[i].text, &moment), 0, "%s", rows[i].text);
        cr_assert_eq(moment.seconds, rows[i].seconds, "%s", rows[i].text);
        cr_assert_eq(moment.nanos, rows[i].nanos, "%s", rows[i].text);
    }
}

Test(calendar, bad_text_is_refused)
{
    static const char *const bad[] = {
        "",
        "2026",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:61Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00+1:00",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00Zx",
        "20260-01-01T00:00:00Z",
        " 2026-01-01T00:00:00Z",
    };

    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct calendar_moment moment;

        cr_assert_eq(calendar_parse(bad[i], &moment), ERR_INVALID, "%s", bad[i]);
    }
}
