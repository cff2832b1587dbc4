/* SPDX-License-Identifier: Apache-2.0
 *
 * Wall-clock time as text: RFC 3339, without any clock, zone or locale of the process.
 */
#ifndef FOLIOT_LIB_BASE_CALENDAR_H
#define FOLIOT_LIB_BASE_CALENDAR_H

#include "lib/base/attr.h"

#include <stdint.h>

#define CALENDAR_TEXT_LEN 27 /* "2026-01-02T03:04:05.678901Z" */

/*
 * Write a time as "2026-01-02T03:04:05.678901Z".
 *
 * shape: out has CALENDAR_TEXT_LEN + 1 bytes. Times before year 0 or after 9999 are written as the
 *        nearest one inside, since the format has no place for them.
 * units: microseconds since 1970 UTC.
 * source: RFC 3339; proleptic Gregorian calendar, no leap seconds
 */
void calendar_text(int64_t wall_us, char *out);

/* A moment: seconds since 1970 UTC and nanoseconds, 0 … 999 999 999, after it. */
struct calendar_moment {
    int64_t seconds;
    int32_t nanos;
};

#define CALENDAR_MOMENT_LEN 30 /* "2026-01-02T03:04:05.678901234Z" */

/* First and last second that the format has a place for: of the years 0 and 9999. */
#define CALENDAR_SECONDS_MIN INT64_C(-62167219200)
#define CALENDAR_SECONDS_MAX INT64_C(253402300799)

/*
 * Write a moment with 0, 3, 6 or 9 digits of a second, as many as it needs.
 *
 * shape: out has CALENDAR_MOMENT_LEN + 1 bytes; the seconds are in the range above.
 */
void calendar_write(const struct calendar_moment *moment, char *out);

/*
 * Read "2026-01-02T03:04:05.678+01:00".
 *
 * shape:  the whole text. A fraction may have any number of digits: what is below a nanosecond is
 *         rounded up. A leap second is the first one of the next minute. A blank may stand for the
 *         T, letters may be small.
 * errors: ERR_INVALID.
 */
MUST_USE int calendar_parse(const char *text, struct calendar_moment *out);

#endif
