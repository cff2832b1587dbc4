/* SPDX-License-Identifier: Apache-2.0
 *
 * Moments as people say and read them, in the zone of this command: what timetext.h knows, and also
 * "15m", "tomorrow 09:00", "2026-01-02 09:00".
 */
#ifndef FOLIOT_CLIENT_CLI_MOMENT_H
#define FOLIOT_CLIENT_CLI_MOMENT_H

#include "client/cli/args.h"
#include "client/cli/timetext.h"

/*
 * Read a moment.
 *
 * shape:  as timetext_read_when, and: "15m" (a delay); "today", "tomorrow" or a date, then a time
 * of day as 09:00 or 09:00:30, in the zone of zone.h; a time of day alone is the next one that
 *         comes; a date alone is its midnight.
 * units:  now is this machine's wall clock, for words such as "tomorrow".
 * errors: ERR_INVALID: it is none; ERR_NOT_FOUND: clocks in the zone never show it.
 */
MUST_USE int moment_read(const char *text, wall_ms now, struct when *out);

/*
 * An option that is a moment.
 *
 * shape:  kind is WHEN_NONE if it was not given, and for "now".
 * errors: an exit code, after saying so on standard error.
 */
MUST_USE int moment_option(const struct args *args, const char *name, struct when *out);

/* The same as wall-clock time by this machine's clock; *out is left alone if it was not given. */
MUST_USE int moment_option_wall(const struct args *args, const char *name, wall_ms *out);

/* Write "2026-01-02T04:04:05.678+01:00" in the zone, "…Z" where it is UTC; "-" for WALL_NEVER.
 * shape: out has TIMETEXT_BYTES. */
void moment_write(wall_ms time, char *out);

/* Write "in 1h30m", "12s ago", "now": two units at most; "-" for WALL_NEVER.
 * shape: out has TIMETEXT_BYTES. */
void moment_write_relative(wall_ms time, wall_ms now, char *out);

#endif
