/* SPDX-License-Identifier: Apache-2.0
 *
 * Times as people write them: RFC 3339, or "+15m" from now. No clock is read: a time from now comes
 * out as a delay.
 */
#ifndef FOLIOT_CLIENT_CLI_TIMETEXT_H
#define FOLIOT_CLIENT_CLI_TIMETEXT_H

#include "lib/base/attr.h"
#include "lib/base/instant.h"
#include "proto/codec.h"

/* "2026-01-02T03:04:05.678Z" and a NUL. */
#define TIMETEXT_BYTES 32

/*
 * A length of time: one or more of a number and its unit, "1h30m", "500ms". Units are ms, s, m, h,
 * d, w; numbers may have a fraction, "1.5s".
 *
 * errors: ERR_INVALID for anything else, for what has a part below 1 ms, and above 2^63 − 1 ms; out
 *         is then untouched.
 */
MUST_USE int timetext_read_span(const char *text, span_ms *out);

/*
 * A moment: "now", "+15m" (a delay), or RFC 3339 with a zone, "2026-01-02T03:04:05Z",
 * "2026-01-02 03:04:05.678+01:00".
 *
 * shape:  finer digits than milliseconds are rounded up. A leap second :60 is the next minute.
 * errors: ERR_INVALID; out is then untouched.
 */
MUST_USE int timetext_read_when(const char *text, struct when *out);

/* Write "2026-01-02T03:04:05.678Z"; "-" for WALL_NEVER. shape: out has TIMETEXT_BYTES. */
void timetext_write(wall_ms time, char *out);

/* Write "1h30m", "250ms"; exact. shape: out has TIMETEXT_BYTES. */
void timetext_write_span(span_ms span, char *out);

#endif
