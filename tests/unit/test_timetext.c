/* SPDX-License-Identifier: Apache-2.0
 *
 * What the command promises about times that people write.
 */
#include "client/cli/timetext.h"

#include "lib/base/err.h"

#include <criterion/criterion.h>
#include <inttypes.h>

Test(timetext, reads_spans_exactly)
{
    const struct {
        const char *text;
        span_ms ms;
    } rows[] = {
        {"0s", 0},
        {"500ms", 500},
        {"10s", 10000},
        {"15m", 900000},
        {"2h", 7200000},
        {"1d", 86400000},
        {"2w", 1209600000},
        {"1h30m", 5400000},
        {"1.5s", 1500},
        {"0.001s", 1},
        {"1m30s500ms", 90500},
        {"36525d", INT64_C(3155760000000)},
        {"9223372036854775807ms", INT64_MAX},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        span_ms ms = -1;

        cr_assert_eq(timetext_read_span(rows[i].text, &ms), 0, "%s", rows[i].text);
        cr_assert_eq(ms, rows[i].ms, "%s: %" PRId64, rows[i].text, ms);
    }
}

Test(timetext, refuses_what_is_no_span_and_leaves_the_value_alone)
{
    const char *bad[] = {"",
                         "5",
                         "s",
                         "-5s",
                         "5 s",
                         "5S",
                         "1.s",
                         "1.2.3s",
                         "0.0001s",
                         "1.5ms",
                         "5sx",
                         "5s ",
                         "+5s",
                         "1e3s",
                         "5min",
                         "0.1234567891s",
                         "9223372036854775808ms",
                         "9999999999999999999w",
                         "106751991168d"};

    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        span_ms ms = 77;

        cr_assert_eq(timetext_read_span(bad[i], &ms), ERR_INVALID, "%s", bad[i]);
        cr_assert_eq(ms, 77);
    }
}

Test(timetext, reads_moments)
{
    const struct {
        const char *text;
        enum when_kind kind;
        int64_t ms;
    } rows[] = {
        {"now", WHEN_NONE, 0},
        {"+15m", WHEN_DELAY, 900000},
        {"+0s", WHEN_DELAY, 0},
        {"1970-01-01T00:00:00Z", WHEN_DUE, 0},
        {"1969-12-31T23:59:59.999Z", WHEN_DUE, -1},
        {"2000-02-29T12:00:00Z", WHEN_DUE, 951825600000},
        {"2026-01-02T03:04:05Z", WHEN_DUE, 1767323045000},
        {"2026-01-02t03:04:05z", WHEN_DUE, 1767323045000},
        {"2026-01-02 03:04:05.678Z", WHEN_DUE, 1767323045678},
        {"2026-01-02T03:04:05.6780001Z", WHEN_DUE, 1767323045679},
        {"2026-01-02T03:04:05.6Z", WHEN_DUE, 1767323045600},
        {"2026-01-02T04:34:05+01:30", WHEN_DUE, 1767323045000},
        {"2026-01-01T22:04:05-05:00", WHEN_DUE, 1767323045000},
        {"2016-12-31T23:59:60Z", WHEN_DUE, 1483228800000},
        {"2200-12-31T00:00:00Z", WHEN_DUE, 7289568000000},
        {"0000-03-01T00:00:00Z", WHEN_DUE, -62162035200000},
        {"0000-01-01T00:00:00Z", WHEN_DUE, -62167219200000},
        {"9999-12-31T23:59:59.999Z", WHEN_DUE, 253402300799999},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct when when = {.kind = WHEN_NONE};

        cr_assert_eq(timetext_read_when(rows[i].text, &when), 0, "%s", rows[i].text);
        cr_assert_eq(when.kind, rows[i].kind, "%s", rows[i].text);
        cr_assert_eq(when.kind == WHEN_DUE ? when.due_ms : when.delay_ms, rows[i].ms,
                     "%s: %" PRId64, rows[i].text, when.due_ms);
    }
}

Test(timetext, refuses_what_is_no_moment)
{
    const char *bad[] = {
        "",
        "tomorrow",
        "2026-01-02",
        "2026-01-02T03:04:05",
        "2026-01-02T03:04Z",
        "2026-1-2T03:04:05Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:60:05Z",
        "2026-01-02T03:04:61Z",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05+0100",
        "2026-01-02T03:04:05+24:00",
        "2026-01-02T03:04:05Zx",
        "2026-01-02T03:04:05 Z",
        "-15m",
        "+",
        "+15",
        "15m",
    };

    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct when when = {.kind = WHEN_DELAY, .delay_ms = 77};

        cr_assert_eq(timetext_read_when(bad[i], &when), ERR_INVALID, "%s", bad[i]);
        cr_assert_eq(when.delay_ms, 77);
    }
}

Test(timetext, writes_what_it_reads)
{
    const wall_ms times[] = {0, -1, 1767323045678, 951825600000, 253402300799999, -62135596800000};
    const span_ms spans[] = {1, 999, 1000, 90500, 5400000, 86400000, 1209600000, 3155760000000};
    char text[TIMETEXT_BYTES];

    for (size_t i = 0; i < ARRAY_COUNT(times); i++) {
        struct when when;

        timetext_write(times[i], text);
        cr_assert_eq(timetext_read_when(text, &when), 0, "%s", text);
        cr_assert_eq(when.due_ms, times[i], "%s", text);
    }
    for (size_t i = 0; i < ARRAY_COUNT(spans); i++) {
        span_ms span;

        timetext_write_span(spans[i], text);
        cr_assert_eq(timetext_read_span(text, &span), 0, "%s", text);
        cr_assert_eq(span, spans[i], "%s", text);
    }
    timetext_write(WALL_NEVER, text);
    cr_assert_str_eq(text, "-");
    timetext_write_span(INT64_MAX, text);
    timetext_write_span(0, text);
    cr_assert_str_eq(text, "0ms");
}
