/* SPDX-License-Identifier: Apache-2.0
 *
 * What log lines, times as text, UTF-8 helpers and the trace digest promise.
 */
#include "lib/base/log.h"

#include "lib/base/calendar.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/base/trace.h"
#include "lib/base/utf8.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NOW INT64_C(1767323045678901) /* 2026-01-02T03:04:05.678901Z */

struct lines {
    char last[LOG_LINE_BYTES_MAX + 1];
    enum log_level level;
    int lines;
};

static struct lines caught;
static struct log the_log;

static void sink(void *ctx, enum log_level level, struct slice line)
{
    struct lines *c = ctx;

    cr_assert(line.len <= LOG_LINE_BYTES_MAX);
    cr_assert_eq(line.data[line.len - 1], '\n');
    memcpy(c->last, line.data, line.len);
    c->last[line.len] = '\0';
    c->level = level;
    c->lines++;
}

static struct logger open_log(enum log_format format)
{
    caught.lines = 0;
    log_init(&the_log, format, LOG_LEVEL_INFO, sink, &caught);
    return (struct logger){&the_log, "shard"};
}

Test(log, a_json_line_has_the_agreed_fields)
{
    struct logger logger = open_log(LOG_FORMAT_JSON);

    the_log.broker = "foliot-0";
    LOG_WRITE(&logger, LOG_LEVEL_WARN, NOW, "lost the shard", log_int("shard", 7),
              log_uint("epoch", UINT64_MAX), log_bool("planned", false),
              log_text("task_id", "00f-0123456789abcdef"), log_err(ERR_FENCED));
    cr_assert_str_eq(caught.last,
                     "{\"ts\":\"2026-01-02T03:04:05.678901Z\",\"level\":\"warn\","
                     "\"msg\":\"lost the shard\",\"component\":\"shard\","
                     "\"broker\":\"foliot-0\",\"shard\":7,\"epoch\":18446744073709551615,"
                     "\"planned\":false,\"task_id\":\"00f-0123456789abcdef\","
                     "\"err\":\"ERR_FENCED\"}\n");
    cr_assert_eq(caught.level, LOG_LEVEL_WARN);
    log_fini(&the_log);
    cr_assert_eq(mem_block_count(), 0);
}

Test(log, a_human_line_quotes_only_what_needs_it)
{
    struct logger logger = open_log(LOG_FORMAT_HUMAN);

    LOG_WRITE(&logger, LOG_LEVEL_INFO, NOW, "took the shard", log_int("shard", 7),
              log_text("why", "it was free"), log_text("from", "b1:7001"), log_text("none", NULL));
    cr_assert_str_eq(caught.last, "2026-01-02T03:04:05.678901Z info  shard: took the shard "
                                  "shard=7 why=\"it was free\" from=b1:7001 none=\"\"\n");
    log_fini(&the_log);
}

Test(log, hostile_text_cannot_break_a_line)
{
    struct logger logger = open_log(LOG_FORMAT_JSON);
    const uint8_t hostile[] = "a\"b\\c\nd\x01\x7f\xff\xc3\xa9\xed\xa0\x80";

    LOG_WRITE(&logger, LOG_LEVEL_INFO, NOW, "m",
              log_slice("t", (struct slice){hostile, sizeof(hostile)})); // With its NUL.
    cr_assert_not_null(strstr(caught.last, "\"t\":\"a\\\"b\\\\c\\nd\\u0001\\u007f\\ufffdé"
                                           "\\ufffd\\ufffd\\ufffd\\u0000\"}\n"),
                       "%s", caught.last);
    log_fini(&the_log);
}

Test(log, long_values_and_lines_are_cut_and_say_so)
{
    struct logger logger = open_log(LOG_FORMAT_JSON);
    static char text[2 * LOG_LINE_BYTES_MAX];
    struct log_field fields[LOG_FIELD_COUNT_MAX + 5];

    memset(text, 'x', sizeof(text) - 1);
    text[LOG_VALUE_BYTES_MAX - 1] = '\xc3'; // The cut would split an é.
    text[LOG_VALUE_BYTES_MAX] = '\xa9';
    LOG_WRITE(&logger, LOG_LEVEL_INFO, NOW, "m", log_text("t", text));
    cr_assert_not_null(strstr(caught.last, "xxx…\"}\n"));
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        fields[i] = log_text("t", text);
    }
    log_write(&logger, LOG_LEVEL_INFO, NOW, "m", fields, ARRAY_COUNT(fields));
    cr_assert_not_null(strstr(caught.last, "\"component\":\"shard\",\"cut\":true}\n"));
    log_fini(&the_log);
}

Test(log, lines_below_the_threshold_cost_nothing_and_no_log_is_fine)
{
    struct logger logger = open_log(LOG_FORMAT_JSON);
    struct logger silent = {NULL, NULL};
    enum log_level level = LOG_LEVEL_OFF;

    log_write(&logger, LOG_LEVEL_DEBUG, NOW, "m", NULL, 0);
    log_write(&silent, LOG_LEVEL_ERROR, NOW, "m", NULL, 0);
    cr_assert_eq(caught.lines, 0);
    cr_assert(log_level_parse("debug", &level) && level == LOG_LEVEL_DEBUG);
    cr_assert_not(log_level_parse("loud", &level));
    the_log.threshold = level;
    log_write(&logger, LOG_LEVEL_DEBUG, NOW, "m", NULL, 0);
    cr_assert_eq(caught.lines, 1);
    log_fini(&the_log);
}

Test(log, repeats_are_limited_counted_and_reported)
{
    struct logger logger = open_log(LOG_FORMAT_JSON);
    int64_t later = NOW + LOG_REPEAT_WINDOW_S * 1000000;

    for (int i = 0; i < 1000; i++) {
        log_write(&logger, LOG_LEVEL_WARN, NOW + i, "cannot connect", NULL, 0);
    }
    cr_assert_eq(caught.lines, LOG_REPEAT_MAX);
    cr_assert_eq(the_log.suppressed_total, 1000 - LOG_REPEAT_MAX);
    log_write(&logger, LOG_LEVEL_WARN, NOW, "another message", NULL, 0);
    cr_assert_eq(caught.lines, LOG_REPEAT_MAX + 1);
    log_report_repeats(&the_log, NOW + 5);
    cr_assert_eq(caught.lines, LOG_REPEAT_MAX + 1, "the window is not over");
    log_report_repeats(&the_log, later);
    cr_assert_eq(caught.lines, LOG_REPEAT_MAX + 2);
    cr_assert_not_null(strstr(caught.last, "\"suppressed\":980}"));
    log_report_repeats(&the_log, later + later);
    cr_assert_eq(caught.lines, LOG_REPEAT_MAX + 2);
    log_write(&logger, LOG_LEVEL_WARN, later, "cannot connect", NULL, 0);
    cr_assert_eq(caught.lines, LOG_REPEAT_MAX + 3);
    log_write(&logger, LOG_LEVEL_WARN, NOW - 1, "cannot connect", NULL, 0);
    cr_assert_eq(caught.lines, LOG_REPEAT_MAX + 4, "a clock that went back does not silence");
    log_fini(&the_log);
}

static bool refuse(size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    return false;
}

Test(log, a_line_without_memory_is_counted_as_lost)
{
    struct logger logger = open_log(LOG_FORMAT_JSON);

    mem_set_hook(refuse, NULL);
    log_write(&logger, LOG_LEVEL_INFO, NOW, "m", NULL, 0);
    mem_set_hook(NULL, NULL);
    cr_assert_eq(caught.lines, 0);
    cr_assert_eq(the_log.lost_total, 1);
    log_write(&logger, LOG_LEVEL_INFO, NOW, "m", NULL, 0);
    cr_assert_eq(caught.lines, 1);
    log_fini(&the_log);
}

/* Against the C library's calendar, over all its leap rules. */
Test(calendar, agrees_with_gmtime_and_holds_at_the_ends)
{
    struct prng prng;
    char text[CALENDAR_TEXT_LEN + 1];
    char expected[64];

    prng_init_named(&prng, 1, "calendar");
    for (int i = 0; i < 200000; i++) {
        int64_t us = prng_between(&prng, INT64_C(-62167219200000000), INT64_C(253402300799999999));
        time_t seconds = us / 1000000 - (us % 1000000 < 0);
        struct tm tm;
        size_t len;

        cr_assert_not_null(gmtime_r(&seconds, &tm));
        len = (size_t)snprintf(expected, sizeof(expected), "%04d", tm.tm_year + 1900);
        len += strftime(expected + len, sizeof(expected) - len, "-%m-%dT%H:%M:%S", &tm);
        (void)snprintf(expected + len, sizeof(expected) - len, ".%06dZ",
                       (int)(us - seconds * 1000000));
        calendar_text(us, text);
        cr_assert_str_eq(text, expected);
    }
    calendar_text(INT64_MIN, text);
    cr_assert_str_eq(text, "0000-01-01T00:00:00.000000Z");
    calendar_text(INT64_MAX, text);
    cr_assert_str_eq(text, "9999-12-31T23:59:59.999999Z");
}

/* Decode by arithmetic and compare: every sequence of up to three bytes, and all plane borders. */
static bool is_valid_naively(const uint8_t *b, size_t len)
{
    const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code;

    if (len == 1) {
        return b[0] < 0x80;
    }
    if ((len == 2 && b[0] >> 5 != 6) || (len == 3 && b[0] >> 4 != 14) ||
        (len == 4 && b[0] >> 3 != 30)) {
        return false;
    }
    code = b[0] & (0x7fU >> len);
    for (size_t i = 1; i < len; i++) {
        if (b[i] >> 6 != 2) {
            return false;
        }
        code = code << 6 | (b[i] & 0x3fU);
    }
    return code >= least[len] && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
}

Test(utf8, accepts_exactly_what_decodes_to_a_character)
{
    for (uint32_t word = 0; word < 1U << 24; word++) {
        uint8_t bytes[4] = {(uint8_t)(word >> 16), (uint8_t)(word >> 8), (uint8_t)word, 0};
        size_t len = 0;

        for (size_t l = 1; l <= 3; l++) {
            len = is_valid_naively(bytes, l) ? l : len;
        }
        cr_assert_eq(utf8_char_len(bytes, 3), len, "%06x", word);
    }
    for (uint32_t word = 0; word < 1U << 16; word++) {
        uint8_t bytes[4] = {(uint8_t)(0xf0 | word >> 13), (uint8_t)(word >> 5), 0x80, 0x9f};

        cr_assert_eq(utf8_char_len(bytes, 4), is_valid_naively(bytes, 4) ? 4 : 0);
        cr_assert_eq(utf8_char_len(bytes, 3), 0);
    }
    cr_assert(utf8_is_valid(slice_of("höhe 日本 😀")));
    cr_assert(utf8_is_valid((struct slice){NULL, 0}));
    cr_assert_not(utf8_is_valid(slice_of("caf\xe9")));
    for (size_t at = 0; at < 20; at++) {
        uint8_t text[] = "twenty bytes of ASCII";

        text[at] = 0xff;
        cr_assert_not(utf8_is_valid((struct slice){text, 20}), "%zu", at);
    }
}

Test(utf8, never_cuts_inside_a_character)
{
    const char *text = "aé日😀z";
    const size_t cuts[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};

    for (size_t max = 0; max < ARRAY_COUNT(cuts); max++) {
        cr_assert_eq(utf8_cut((const uint8_t *)text, max), cuts[max]);
    }
}

static uint64_t digest_of(const char *what, int64_t a, int64_t b)
{
    struct trace trace;

    trace_init(&trace, NULL, NULL);
    TRACE(&trace, what, a, b);
    return trace.digest;
}

Test(trace, equal_events_give_equal_digests_and_others_do_not)
{
    struct trace one;
    struct trace two;

    trace_init(&one, NULL, NULL);
    trace_init(&two, NULL, NULL);
    cr_assert_eq(digest_of("claim", 1, 2), digest_of("claim", 1, 2));
    cr_assert_neq(digest_of("claim", 1, 2), digest_of("claim", 2, 1));
    cr_assert_neq(digest_of("claim", 1, 2), digest_of("claims", 1, 2));
    cr_assert_neq(digest_of("abcdefgh", 0, 0), digest_of("abcdefg", 0, 0));
    TRACE(&one, "a", 1);
    TRACE(&one, "b", 2);
    TRACE(&two, "b", 2);
    TRACE(&two, "a", 1);
    cr_assert_neq(one.digest, two.digest, "order counts");
    cr_assert_eq(one.count, 2);
    trace_add(NULL, "nobody", NULL, 0);
}
