/* SPDX-License-Identifier: Apache-2.0
 *
 * Wall-clock time as text for people and logs: RFC 3339 in UTC, without any clock, zone or locale
 * of the process.
 */
#ifndef FOLIOT_LIB_BASE_CALENDAR_H
#define FOLIOT_LIB_BASE_CALENDAR_H

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

#endif
