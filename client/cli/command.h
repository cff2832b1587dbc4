/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of commands: noun, verb, options, and who runs it.
 */
#ifndef FOLIOT_CLIENT_CLI_COMMAND_H
#define FOLIOT_CLIENT_CLI_COMMAND_H

#include "client/cli/args.h"

#include <stdbool.h>
#include <stddef.h>

/* Runs a command; returns an exit code. */
typedef int (*command_fn)(const struct args *args);

struct command {
    const char *noun;     /* "task" */
    const char *verb;     /* "create"; "" if the noun stands alone */
    const char *operands; /* "ID"; "" for none */
    size_t operand_max;
    const char *summary;  /* one sentence */
    const char *examples; /* lines for the help */
    const struct cli_option *options;
    size_t option_count;
    command_fn run;
};

/* The tables of each file. */
extern const struct command TASK_COMMANDS[];
extern const size_t TASK_COMMAND_COUNT;
extern const struct command QUEUE_COMMANDS[];
extern const size_t QUEUE_COMMAND_COUNT;
extern const struct command CLUSTER_COMMANDS[];
extern const size_t CLUSTER_COMMAND_COUNT;
extern const struct command RECEIVE_COMMANDS[];
extern const size_t RECEIVE_COMMAND_COUNT;
extern const struct command BENCH_COMMANDS[];
extern const size_t BENCH_COMMAND_COUNT;

/* Was JSON asked for by --output? */
bool command_wants_json(const struct args *args);

/* Write a buffer to standard output; returns CLI_OK, or CLI_ERROR after saying so. */
struct buf;
int command_print(const struct buf *out);

/*
 * Run the command that argv names.
 *
 * return: its exit code, or CLI_USAGE after saying what is wrong.
 */
int command_main(int argc, char **argv);

#endif
