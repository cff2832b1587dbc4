/* SPDX-License-Identifier: Apache-2.0
 *
 * Moments in a zone. Two calendars meet here: the C library's for zones, ours for RFC 3339.
 */
#include "client/cli/moment.h"

#include "client/cli/cli.h"
#include "client/cli/zone.h"
#include "lib/base/calendar.h"
#include "lib/base/err.h"
#include "lib/io/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DAY_MS    86400000
#define MINUTE_MS 60000

/* Digits of exactly this width within low … high, then one of `ends`; NUL may be one of them. */
static int read_number(const char **at, size_t width, int32_t low, int32_t high, int32_t *value)
{
    if (strspn(*at, "0123456789") != width) {
        return ERR_INVALID;
    }
    *value = 0;
    for (size_t i = 0; i < width; i++) {
        *value = *value * 10 + (*(*at)++ - '0');
    }
    return *value < low || *value > high ? ERR_INVALID : 0;
}

static int skip(const char **at, char wanted)
{
    return *(*at)++ == wanted ? 0 : ERR_INVALID;
}

/* "09:00" or "09:00:30", to the end of the text. */
static int read_clock(const char *text, struct zone_time *out)
{
    out->second = 0;
    if (read_number(&text, 2, 0, 23, &out->hour) != 0 || skip(&text, ':') != 0 ||
        read_number(&text, 2, 0, 59, &out->minute) != 0) {
        return ERR_INVALID;
    }
    if (*text == ':') {
        text++;
        if (read_number(&text, 2, 0, 59, &out->second) != 0) {
            return ERR_INVALID;
        }
    }
    return *text == '\0' ? 0 : ERR_INVALID;
}

/* "today", "tomorrow", "2026-01-02"; *at is then behind it. */
static int read_day(const char **at, wall_ms now, struct zone_time *out)
{
    zone_read(now, out);
    if (strncmp(*at, "today", strlen("today")) == 0) {
        *at += strlen("today");
        return 0;
    }
    if (strncmp(*at, "tomorrow", strlen("tomorrow")) == 0) {
        *at += strlen("tomorrow");
        out->day++;
        return 0;
    }
    return read_number(at, 4, 0, 9999, &out->year) != 0 || skip(at, '-') != 0 ||
                   read_number(at, 2, 1, 12, &out->month) != 0 || skip(at, '-') != 0 ||
                   read_number(at, 2, 1, 31, &out->day) != 0
               ? ERR_INVALID
               : 0;
}

/* A day of the month that there is not, as 2026-02-30, comes back as another. */
static int find_exact(const struct zone_time *shown, bool is_exact, wall_ms *out)
{
    struct zone_time found;
    wall_ms time;
    int err = zone_find(shown, &time);

    if (err != 0) {
        return err;
    }
    zone_read(time, &found);
    if (is_exact && found.day != shown->day) {
        return ERR_INVALID;
    }
    *out = time;
    return 0;
}

static int read_local(const char *text, wall_ms now, wall_ms *out)
{
    struct zone_time shown;
    bool is_word = text[0] == 't';

    zone_read(now, &shown);
    if (read_clock(text, &shown) == 0) {
        int err = find_exact(&shown, false, out);

        if (err == 0 && *out <= now) {
            shown.day++;
            err = find_exact(&shown, false, out);
        }
        return err;
    }
    if (read_day(&text, now, &shown) != 0) {
        return ERR_INVALID;
    }
    if (*text == '\0') {
        shown.hour = shown.minute = shown.second = 0;
        return find_exact(&shown, !is_word, out);
    }
    if ((*text != ' ' && (is_word || *text != 'T')) || read_clock(text + 1, &shown) != 0) {
        return ERR_INVALID;
    }
    return find_exact(&shown, !is_word, out);
}

int moment_read(const char *text, wall_ms now, struct when *out)
{
    struct when when = {.kind = WHEN_DELAY};
    int err;

    if (timetext_read_when(text, out) == 0) {
        return 0;
    }
    if (timetext_read_span(text, &when.delay_ms) == 0) {
        *out = when;
        return 0;
    }
    when.kind = WHEN_DUE;
    err = read_local(text, now, &when.due_ms);
    if (err == 0) {
        *out = when;
    }
    return err;
}

int moment_option(const struct args *args, const char *name, struct when *out)
{
    const char *text = args_text(args, name, NULL);
    int err;

    out->kind = WHEN_NONE;
    if (text == NULL) {
        return CLI_OK;
    }
    err = moment_read(text, clock_wall_ms(), out);
    if (err == ERR_NOT_FOUND) {
        return cli_usage("--%s \"%s\" never comes: clocks are turned forward then; give the zone "
                         "with the time, as 2026-03-29T03:30:00+02:00",
                         name, text);
    }
    if (err != 0) {
        return cli_usage("--%s \"%s\" must be +15m, now, tomorrow 09:00, or a time with its zone "
                         "like 2026-01-02T03:04:05Z",
                         name, text);
    }
    return CLI_OK;
}

int moment_option_wall(const struct args *args, const char *name, wall_ms *out)
{
    struct when when;
    int code = moment_option(args, name, &when);

    if (code != CLI_OK || !args_has(args, name)) {
        return code;
    }
    if (when.kind == WHEN_DUE) {
        *out = when.due_ms;
    } else {
        *out = time_add(clock_wall_ms(), when.kind == WHEN_DELAY ? when.delay_ms : 0);
    }
    return CLI_OK;
}

void moment_write(wall_ms time, char *out)
{
    char text[CALENDAR_TEXT_LEN + 1];
    int32_t minutes;
    size_t len;

    if (time == WALL_NEVER) {
        memcpy(out, "-", 2);
        return;
    }
    minutes = zone_offset_s(time) / 60;
    if (minutes == 0) {
        timetext_write(time, out);
        return;
    }
    calendar_text(time_mul(time_add(time, (int64_t)minutes * MINUTE_MS), US_PER_MS), text);
    len = CALENDAR_TEXT_LEN - 4; // milliseconds are enough for people
    memcpy(out, text, len);
    (void)snprintf(out + len, TIMETEXT_BYTES - len, "%c%02d:%02d", minutes < 0 ? '-' : '+',
                   (minutes < 0 ? -minutes : minutes) / 60 % 100,
                   (minutes < 0 ? -minutes : minutes) % 60);
}

/* The two largest units of a length of time. */
static void write_rough(uint64_t span, char *out, size_t size)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = {{"d", DAY_MS}, {"h", 3600000}, {"m", MINUTE_MS}, {"s", 1000}, {"ms", 1}};
    size_t i = 0;
    uint64_t rest;

    while (span < units[i].ms) {
        i++;
    }
    rest =
        i + 1 < ARRAY_COUNT(units) && units[i].ms > 1000 ? span % units[i].ms / units[i + 1].ms : 0;
    if (rest == 0) {
        (void)snprintf(out, size, "%" PRIu64 "%s", span / units[i].ms, units[i].name);
    } else {
        (void)snprintf(out, size, "%" PRIu64 "%s%" PRIu64 "%s", span / units[i].ms, units[i].name,
                       rest, units[i + 1].name);
    }
}

void moment_write_relative(wall_ms time, wall_ms now, char *out)
{
    char rough[TIMETEXT_BYTES - 4];
    int64_t span = time_sub(time, now);

    if (time == WALL_NEVER) {
        memcpy(out, "-", 2);
        return;
    }
    if (span == 0) {
        memcpy(out, "now", 4);
        return;
    }
    write_rough(span < 0 ? -(uint64_t)span : (uint64_t)span, rough, sizeof(rough));
    (void)snprintf(out, TIMETEXT_BYTES, span < 0 ? "%.27s ago" : "in %.27s", rough);
}
