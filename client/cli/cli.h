/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the `foliot` command share: exit codes, and how it complains. Data goes to
 * standard output, everything else to standard error.
 */
#ifndef FOLIOT_CLIENT_CLI_CLI_H
#define FOLIOT_CLIENT_CLI_CLI_H

#include "lib/base/attr.h"
#include "lib/base/err.h"

#include <stddef.h>

/* Exit codes: documented in docs/CLI.md, part of the API. */
enum cli_exit {
    CLI_OK = 0,
    CLI_ERROR = 1,       /* anything else, also an unknown outcome */
    CLI_USAGE = 2,       /* the command line, or a value in it, is wrong */
    CLI_NOT_FOUND = 3,   /* no such task, queue or method */
    CLI_DENIED = 4,      /* not allowed */
    CLI_CONFLICT = 5,    /* it exists already, or is not in a state that allows this */
    CLI_UNAVAILABLE = 6, /* nothing happened: try again later */
    CLI_TIMEOUT = 7      /* no answer in time */
};

/* Exit code for a gRPC status. */
int cli_exit_of(enum rpc_status status);

/* Write "foliot: …" and a line feed to standard error. */
void cli_say(const char *format, ...) PRINTF_LIKE(1, 2);

/* cli_say, and return CLI_USAGE. */
int cli_usage(const char *format, ...) PRINTF_LIKE(1, 2);

/*
 * Replace what could move the cursor of who reads it, or worse, by question marks: control
 * characters but the line feed, also those of two bytes in UTF-8.
 *
 * shape: text of len bytes, changed in place.
 */
void cli_clean(char *text, size_t len);

/* Value of an environment variable, or NULL. */
const char *cli_variable(const char *name);

#endif
