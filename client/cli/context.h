/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of this command under names, kept in a file of the user's: which brokers to ask, in
 * which namespace. The file holds no secrets, only names of files that may.
 *
 * What is said nearer wins: an option; the context that --context names; the environment; the
 * context that FOLIOT_CONTEXT names, or else the one in use; the default.
 */
#ifndef FOLIOT_CLIENT_CLI_CONTEXT_H
#define FOLIOT_CLIENT_CLI_CONTEXT_H

#include "client/cli/args.h"
#include "client/cli/command.h"
#include "lib/base/attr.h"
#include "lib/base/limits.h"

#include <stdbool.h>
#include <stddef.h>

#define CONTEXT_COUNT_MAX       64
#define CONTEXT_PATH_BYTES      1024
#define CONTEXT_FILE_BYTES_MAX  65536
#define CONTEXT_VALUE_BYTES_MAX 1023
#define CONTEXT_SETTING_MAX     12

struct context {
    char name[NAME_BYTES_MAX + 1];
    char *values[CONTEXT_SETTING_MAX]; /* by number of the setting; NULL: not set */
};

/* What the file holds. */
struct contexts {
    char path[CONTEXT_PATH_BYTES];           /* of the file; empty: there is no place for one */
    char current[NAME_BYTES_MAX + 1];        /* empty: none is in use */
    struct context items[CONTEXT_COUNT_MAX]; /* by name */
    size_t count;
};

/* Settings that a context may have, each named as the option that says the same. */
size_t context_setting_count(void);
const char *context_setting(size_t index);

/*
 * Read the file.
 *
 * shape:  a file that is not there holds nothing.
 * errors: an exit code after saying so; contexts_fini() is right in any case.
 */
MUST_USE int contexts_load(struct contexts *contexts);

/* Write the file, in place of the one before. errors: an exit code after saying so. */
MUST_USE int contexts_save(const struct contexts *contexts);

void contexts_fini(struct contexts *contexts);

/* The context of a name, or NULL. */
struct context *contexts_find(struct contexts *contexts, const char *name);

/*
 * The context of a name, made if there is none.
 *
 * errors: CLI_USAGE after saying so: it is no name, or there are CONTEXT_COUNT_MAX.
 */
MUST_USE int contexts_make(struct contexts *contexts, const char *name, struct context **out);

void contexts_remove(struct contexts *contexts, struct context *context);

/* Set a setting; "" and NULL take it away. errors: CLI_ERROR after saying so: out of memory. */
MUST_USE int context_set(struct context *context, size_t setting, const char *value);

/*
 * Add to a command line what the environment and the context say and the options do not.
 *
 * shape:  only options that the command knows. args then borrows from contexts.
 * errors: an exit code after saying so. contexts_fini() is right in any case.
 */
MUST_USE int context_apply(struct contexts *contexts, const struct args_tables *tables,
                           struct args *args);

extern const struct command CONTEXT_COMMANDS[];
extern const size_t CONTEXT_COMMAND_COUNT;

#endif
