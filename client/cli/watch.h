/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a command again and again: on a terminal each output is drawn over the one before,
 * elsewhere it follows it.
 */
#ifndef FOLIOT_CLIENT_CLI_WATCH_H
#define FOLIOT_CLIENT_CLI_WATCH_H

#include "client/cli/command.h"
#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"

/* Shortest and longest --interval, and what it is if it was not given. */
#define WATCH_INTERVAL_MS_MIN 100
#define WATCH_INTERVAL_MS_MAX 86400000
#define WATCH_INTERVAL_MS     2000

/*
 * Run until a signal ends the program, or until the command fails in a way that trying again will
 * not mend; what may (no broker, no answer in time) is said and tried again.
 *
 * return: the exit code of that failure.
 */
int watch_run(command_fn run, const struct args *args);

/* Say that --interval is out of range; returns CLI_USAGE. */
int watch_refuse_interval(void);

/* Write to standard output, as the watching wants it. errors: ERR_IO, with errno. */
MUST_USE int watch_write(struct slice text);

/* Wait for so long. */
void watch_sleep(span_ms span);

#endif
