/* SPDX-License-Identifier: Apache-2.0
 *
 * Help, and manual pages, written from the table of commands.
 */
#ifndef FOLIOT_CLIENT_CLI_HELP_H
#define FOLIOT_CLIENT_CLI_HELP_H

#include "lib/base/buf.h"

#include <stdio.h>

struct command;

/* All commands, to a file. Returns CLI_OK, as the others here, or CLI_ERROR. */
int help_overview(FILE *file);

/* The verbs of a noun, to standard output. */
int help_noun(const char *noun);

/* One command with its options and examples, to standard output. */
int help_command(const struct command *command);

/* The `foliot help` command: overview, noun or command. */
struct args;
int help_run(const struct args *args);

#endif
