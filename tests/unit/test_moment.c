/* SPDX-License-Identifier: Apache-2.0
 *
 * What people may write as a moment, and how it is shown to them.
 */
#include "client/cli/moment.h"
#include "client/cli/zone.h"
#include "lib/base/err.h"

#include <criterion/criterion.h>

#define HOUR_MS INT64_C(3600000)
#define DAY_MS  (24 * HOUR_MS)

/* 2026-01-02T03:04:05.678Z */
#define NOW INT64_C(1767323045678)

static void in_paris(void)
{
    cr_assert_eq(zone_use("Europe/Paris"), 0);
}

static void in_utc(void)
{
    cr_assert_eq(zone_use("UTC"), 0);
}

/* The moment of a text as RFC 3339 in the zone; "delay" for a delay. */
static const char *shown(const char *text, wall_ms now)
{
    static char out[TIMETEXT_BYTES];
    struct when when;
    int err = moment_read(text, now, &when);

    if (err != 0) {
        return err_name(err);
    }
    if (when.kind != WHEN_DUE) {
        return when.kind == WHEN_DELAY ? "delay" : "now";
    }
    moment_write(when.due_ms, out);
    return out;
}

Test(moment, reads_what_people_say, .init = in_utc)
{
    const struct {
        const char *text;
        const char *moment;
    } rows[] = {
        {"now", "now"},
        {"+15m", "delay"},
        {"15m", "delay"},
        {"1h30m", "delay"},
        {"2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"},
        {"today 18:00", "2026-01-02T18:00:00.000Z"},
        {"today", "2026-01-02T00:00:00.000Z"},
        {"tomorrow", "2026-01-03T00:00:00.000Z"},
        {"tomorrow 09:00", "2026-01-03T09:00:00.000Z"},
        {"tomorrow 09:00:30", "2026-01-03T09:00:30.000Z"},
        {"03:05", "2026-01-02T03:05:00.000Z"},
        {"03:04", "2026-01-03T03:04:00.000Z"},
        {"2026-02-28", "2026-02-28T00:00:00.000Z"},
        {"2026-02-28 23:59", "2026-02-28T23:59:00.000Z"},
        {"2026-02-28T23:59:01", "2026-02-28T23:59:01.000Z"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        cr_assert_str_eq(shown(rows[i].text, NOW), rows[i].moment, "%s", rows[i].text);
    }
}

Test(moment, refuses_the_rest, .init = in_utc)
{
    const char *rows[] = {
        "",       "tomorow",    "tomorrow9:00",     "tomorrow 9:00", "today 24:00", "25:00",
        "09:00x", "2026-02-29", "2026-02-30 09:00", "2026-13-01",    "2026-1-1",    "+",
        "-15m",   "15",         "todayT09:00"};

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        cr_assert_str_eq(shown(rows[i], NOW), "ERR_INVALID", "%s", rows[i]);
    }
}

Test(moment, days_and_clocks_are_those_of_the_zone, .init = in_paris)
{
    cr_assert_str_eq(shown("2026-01-02T03:04:05Z", NOW), "2026-01-02T04:04:05.000+01:00");
    cr_assert_str_eq(shown("2026-07-01 09:00", NOW), "2026-07-01T09:00:00.000+02:00");
    // 23:30 in London on the 2nd is the 3rd in Paris.
    cr_assert_str_eq(shown("tomorrow 09:00", NOW + 20 * HOUR_MS + HOUR_MS / 2),
                     "2026-01-04T09:00:00.000+01:00");
    // The last day of a month has a morrow.
    cr_assert_str_eq(shown("tomorrow 09:00", NOW + 29 * DAY_MS), "2026-02-01T09:00:00.000+01:00");
}

Test(moment, a_time_that_clocks_skip_never_comes, .init = in_paris)
{
    cr_assert_str_eq(shown("2026-03-29 02:30", NOW), "ERR_NOT_FOUND");
    cr_assert_str_eq(shown("2026-03-29 03:00", NOW), "2026-03-29T03:00:00.000+02:00");
}

Test(moment, of_a_time_that_comes_twice_it_is_the_first, .init = in_paris)
{
    cr_assert_str_eq(shown("2026-10-25 02:30", NOW), "2026-10-25T02:30:00.000+02:00");
    cr_assert_str_eq(shown("2026-10-25T01:30:00Z", NOW), "2026-10-25T02:30:00.000+01:00");
}

Test(moment, zones_west_and_by_half_hours_are_written_right)
{
    cr_assert_eq(zone_use("America/St_Johns"), 0);
    cr_assert_str_eq(shown("2026-01-02T03:04:05.678Z", NOW), "2026-01-01T23:34:05.678-03:30");
    cr_assert_eq(zone_use("Asia/Kolkata"), 0);
    cr_assert_str_eq(shown("2026-01-02T03:04:05Z", NOW), "2026-01-02T08:34:05.000+05:30");
}

Test(moment, what_is_written_is_read_as_the_same)
{
    const char *zones[] = {"UTC", "Europe/Paris", "America/St_Johns", "Pacific/Kiritimati"};
    char text[TIMETEXT_BYTES];
    struct when when;

    for (size_t i = 0; i < ARRAY_COUNT(zones); i++) {
        cr_assert_eq(zone_use(zones[i]), 0);
        for (wall_ms time = NOW - 400 * DAY_MS; time < NOW + 400 * DAY_MS;
             time += 7 * HOUR_MS + 13) {
            moment_write(time, text);
            cr_assert_eq(moment_read(text, NOW, &when), 0, "%s", text);
            cr_assert_eq(when.due_ms, time, "%s", text);
        }
    }
}

Test(moment, how_far_off_has_two_units)
{
    const struct {
        span_ms span;
        const char *text;
    } rows[] = {
        {0, "now"},
        {1, "in 1ms"},
        {-1500, "1s ago"},
        {59999, "in 59s"},
        {61000, "in 1m1s"},
        {-HOUR_MS, "1h ago"},
        {25 * HOUR_MS + 59 * 60000, "in 1d1h"},
        {INT64_MIN / 2, "53375995583d15h ago"},
    };
    char text[TIMETEXT_BYTES];

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        moment_write_relative(time_add(0, rows[i].span), 0, text);
        cr_assert_str_eq(text, rows[i].text);
    }
    moment_write_relative(WALL_NEVER, NOW, text);
    cr_assert_str_eq(text, "-");
    moment_write(WALL_NEVER, text);
    cr_assert_str_eq(text, "-");
}

Test(zone, names_stay_in_their_folder)
{
    const char *rows[] = {"", "Nowhere/City", "../../../etc/passwd", "/etc/localtime", "UTC+3;x"};

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        cr_assert_eq(zone_use(rows[i]), ERR_INVALID, "%s", rows[i]);
    }
    cr_assert_eq(zone_use("UTC"), 0);
}
