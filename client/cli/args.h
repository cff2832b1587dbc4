/* SPDX-License-Identifier: Apache-2.0
 *
 * A command line against a table of options: long names with "--name value" or "--name=value",
 * letters with "-x value", flags, and operands. What is not in the table is refused, with the
 * nearest name as a hint.
 */
#ifndef FOLIOT_CLIENT_CLI_ARGS_H
#define FOLIOT_CLIENT_CLI_ARGS_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Options and operands of one command line; more are refused. */
#define ARGS_ITEM_COUNT_MAX    128
#define ARGS_OPERAND_COUNT_MAX 512
#define ARGS_GROUP_COUNT_MAX   8

/* A row of an option table. */
struct cli_option {
    const char *name;  /* without dashes */
    char letter;       /* 0: none */
    const char *value; /* what to call the value in the help, "TIME"; "a|b": it is one of these;
                          NULL: a flag */
    const char *help;  /* one phrase; "=name": another name of that option, not shown */
};

struct args_item {
    const char *name;  /* of the option; static */
    const char *value; /* borrowed from argv; "" for a flag */
};

/* A parsed command line; borrows from argv. */
struct args {
    struct args_item items[ARGS_ITEM_COUNT_MAX];
    size_t item_count;
    const char *operands[ARGS_OPERAND_COUNT_MAX];
    size_t operand_count;
};

/* Options that belong together, under one title in the help. */
struct option_group {
    const char *title; /* "options" */
    const struct cli_option *options;
    size_t count;
};

/* What a command knows: its own options, and those it shares with others. */
struct args_tables {
    struct option_group groups[ARGS_GROUP_COUNT_MAX];
    size_t count;
};

/*
 * Parse what follows the command's name.
 *
 * shape:  "--" ends the options. A lone "-" is an operand.
 * errors: ERR_INVALID with errmsg filled in.
 */
MUST_USE int args_parse(const struct args_tables *tables, int argc, char **argv, struct args *out,
                        char *errmsg, size_t errmsg_size);

/* The option of a name, of so many bytes; NULL if there is none. */
const struct cli_option *args_find_option(const struct args_tables *tables, const char *name,
                                          size_t len);
const struct cli_option *args_find_letter(const struct args_tables *tables, char letter);

/*
 * Append an option that was not on the command line.
 *
 * shape:  name is an option's, static; value lives as long as args.
 * errors: ERR_FULL.
 */
MUST_USE int args_add(struct args *args, const char *name, const char *value);

/* Is it another name of an option? */
bool args_is_alias(const struct cli_option *option);

/* Is `word` one of the words of "a|b|c"? */
bool args_is_choice(const char *choices, const char *word);

/* Last value of an option, or `otherwise` if it was not given. */
const char *args_text(const struct args *args, const char *name, const char *otherwise);

/* Was it given? */
bool args_has(const struct args *args, const char *name);

/*
 * A whole number of low … high.
 *
 * shape:  *value is left alone if the option was not given.
 * errors: ERR_INVALID, after saying so on standard error.
 */
MUST_USE int args_number(const struct args *args, const char *name, int64_t low, int64_t high,
                         int64_t *value);

/* A length of time as "10s"; as args_number. */
MUST_USE int args_span(const struct args *args, const char *name, int64_t *value_ms);

/* The word of `words` that is most like `word`, or NULL if none is near. */
const char *args_nearest(const char *word, const char *const *words, size_t count);

#endif
