/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching.
 */
#include "client/cli/watch.h"

#include "client/cli/cli.h"
#include "lib/base/err.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Control sequences of terminals. source: ECMA-48 */
#define TERMINAL_CLEAR "\x1b[2J"
#define TERMINAL_HOME  "\x1b[H"
#define TERMINAL_ERASE "\x1b[K" /* to the end of the line */
#define TERMINAL_BELOW "\x1b[J" /* to the end of the screen */

static bool draws_over; // one standard output, one watching

static int write_bytes(const void *bytes, size_t len)
{
    return fwrite(bytes, 1, len, stdout) == len ? 0 : ERR_IO;
}

/* What a longer line of before has left is erased. */
static int draw_lines(struct slice text)
{
    int err = 0;

    for (size_t at = 0; at < text.len && err == 0;) {
        const uint8_t *line = text.data + at;
        const uint8_t *end = memchr(line, '\n', text.len - at);
        size_t len = end == NULL ? text.len - at : (size_t)(end - line);

        err = write_bytes(line, len);
        if (err == 0 && end != NULL) {
            err = write_bytes(TERMINAL_ERASE "\n", strlen(TERMINAL_ERASE "\n"));
        }
        at += len + (end != NULL);
    }
    return err;
}

int watch_write(struct slice text)
{
    return draws_over ? draw_lines(text) : write_bytes(text.data, text.len);
}

void watch_sleep(span_ms span)
{
    (void)poll(NULL, 0, (int)span);
}

static bool may_mend(int code)
{
    return code == CLI_OK || code == CLI_UNAVAILABLE || code == CLI_TIMEOUT;
}

int watch_refuse_interval(void)
{
    return cli_usage("--interval must be 100ms to 1d (WATCH_INTERVAL_MS_MIN, "
                     "WATCH_INTERVAL_MS_MAX)");
}

int watch_run(command_fn run, const struct args *args)
{
    span_ms interval_ms = WATCH_INTERVAL_MS;
    int code = CLI_OK;

    if (args_span(args, "interval", &interval_ms) != 0) {
        return CLI_USAGE;
    }
    if (interval_ms < WATCH_INTERVAL_MS_MIN || interval_ms > WATCH_INTERVAL_MS_MAX) {
        return watch_refuse_interval();
    }
    draws_over = isatty(STDOUT_FILENO) == 1;
    if (draws_over) {
        (void)fputs(TERMINAL_CLEAR, stdout);
    }
    while (may_mend(code)) {
        if (draws_over) {
            (void)fputs(TERMINAL_HOME, stdout);
        }
        code = run(args);
        if (draws_over) {
            (void)fputs(TERMINAL_BELOW, stdout);
            (void)fflush(stdout);
        }
        if (may_mend(code)) {
            watch_sleep(interval_ms);
        }
    }
    return code;
}
