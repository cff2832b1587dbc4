/* SPDX-License-Identifier: Apache-2.0
 *
 * The one time zone in which this command reads and shows times: the machine's, or one that was
 * named. The rules are the C library's (tzdata).
 */
#ifndef FOLIOT_CLIENT_CLI_ZONE_H
#define FOLIOT_CLIENT_CLI_ZONE_H

#include "lib/base/attr.h"
#include "lib/base/instant.h"

#include <stdint.h>

/* A moment on the clocks of a place. */
struct zone_time {
    int32_t year;  /* 0 … 9999 */
    int32_t month; /* 1 … 12 */
    int32_t day;   /* 1 … 31 */
    int32_t hour;
    int32_t minute;
    int32_t second;
};

/*
 * Use this zone from now on: "UTC", or a name of the tz database, "Europe/Paris".
 *
 * errors: ERR_INVALID: this machine knows no such zone; ERR_NO_MEMORY.
 */
MUST_USE int zone_use(const char *name);

/* What the clocks show at a moment. shape: years outside of 0 … 9999 are shown as the nearest. */
void zone_read(wall_ms time, struct zone_time *out);

/* How far the zone is ahead of UTC at a moment, in seconds. */
int32_t zone_offset_s(wall_ms time);

/*
 * The moment at which the clocks show this.
 *
 * shape:  a day beyond the end of the month is one of the next month. Where clocks are turned back
 *         and show it twice, the first time.
 * errors: ERR_NOT_FOUND: they never do, because they are turned forward then.
 */
MUST_USE int zone_find(const struct zone_time *shown, wall_ms *out);

#endif
