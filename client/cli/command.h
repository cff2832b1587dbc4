/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of commands: noun, verb, options, and who runs it. Parsing, help, manual pages, shell
 * completion and guesses at misspelt words all come from it.
 */
#ifndef FOLIOT_CLIENT_CLI_COMMAND_H
#define FOLIOT_CLIENT_CLI_COMMAND_H

#include "client/cli/args.h"

#include <stdbool.h>
#include <stddef.h>

/* Options that a command shares with others, besides its own. */
enum command_trait {
    COMMAND_CALLS = 1, /* it asks brokers: --address, --context, --timeout */
    COMMAND_ROWS = 2,  /* it shows things: every -o, --columns, --no-headers, --utc, --tz */
    COMMAND_LINES = 4, /* it writes as it goes: -o table, json or jsonl */
    COMMAND_TIMES = 8, /* times are read or shown without rows: --utc, --tz */
    COMMAND_WATCH = 16 /* it can be repeated: --watch, --interval */
};

/* Runs a command; returns an exit code. */
typedef int (*command_fn)(const struct args *args);

struct command {
    const char *noun;     /* "task" */
    const char *verb;     /* "create"; "" if the noun stands alone */
    const char *operands; /* "ID"; "" for none; "a|b": one of these */
    size_t operand_max;
    const char *summary;  /* one sentence */
    const char *examples; /* lines for the help */
    const struct cli_option *options;
    size_t option_count;
    command_fn run;
    unsigned traits; /* of enum command_trait */
};

/* The tables of each file. */
extern const struct command DEV_COMMANDS[];
extern const size_t DEV_COMMAND_COUNT;
extern const struct command TASK_COMMANDS[];
extern const size_t TASK_COMMAND_COUNT;
extern const struct command TASK_LIST_COMMANDS[];
extern const size_t TASK_LIST_COMMAND_COUNT;
extern const struct command TASK_WATCH_COMMANDS[];
extern const size_t TASK_WATCH_COMMAND_COUNT;
extern const struct command QUEUE_COMMANDS[];
extern const size_t QUEUE_COMMAND_COUNT;
extern const struct command QUEUE_LIFE_COMMANDS[];
extern const size_t QUEUE_LIFE_COMMAND_COUNT;
extern const struct command DEAD_COMMANDS[];
extern const size_t DEAD_COMMAND_COUNT;
extern const struct command CLUSTER_COMMANDS[];
extern const size_t CLUSTER_COMMAND_COUNT;
extern const struct command CLUSTER_LIFE_COMMANDS[];
extern const size_t CLUSTER_LIFE_COMMAND_COUNT;
extern const struct command MEMBERS_COMMANDS[];
extern const size_t MEMBERS_COMMAND_COUNT;
extern const struct command RECEIVE_COMMANDS[];
extern const size_t RECEIVE_COMMAND_COUNT;
extern const struct command BENCH_COMMANDS[];
extern const size_t BENCH_COMMAND_COUNT;
extern const struct command BENCH_RECORD_COMMANDS[];
extern const size_t BENCH_RECORD_COMMAND_COUNT;
extern const struct command OTHER_COMMANDS[];
extern const size_t OTHER_COMMAND_COUNT;

/* All commands, in the order of the help; those of one noun stand together. */
size_t command_count(void);
const struct command *command_at(size_t index);

/* The command of a noun and a verb; a noun that only stands alone takes any verb, one that can
 * stand alone none or an option. NULL if none. */
const struct command *command_find(const char *noun, const char *verb);

/* Is there a command of this noun? */
bool command_is_noun(const char *noun);

/* What a noun is, one phrase; "" if nothing is to be said. */
const char *command_noun_summary(const char *noun);

/* All options that a command knows. */
void command_tables(const struct command *command, struct args_tables *out);

/* Was a form other than a table for people asked for by --output: json or jsonl? */
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
