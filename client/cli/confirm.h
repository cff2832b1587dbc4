/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked before many things are changed: the count is shown, and whoever means it types it.
 */
#ifndef FOLIOT_CLIENT_CLI_CONFIRM_H
#define FOLIOT_CLIENT_CLI_CONFIRM_H

#include "client/cli/args.h"
#include "lib/base/attr.h"

#include <stdint.h>

#define OPTION_YES                                  \
    {                                               \
        "yes", 'y', NULL, "do not ask: for scripts" \
    }
#define OPTION_DRY_RUN                                                    \
    {                                                                     \
        "dry-run", 0, NULL, "only say how many there are, change nothing" \
    }

/*
 * Say on standard error what is about to be done to how many, and have the count typed.
 *
 * shape:  what as "cancel 17 tasks: queue mail". --yes answers for the user. There is no question
 *         where standard input is no terminal: that is refused.
 * errors: CLI_USAGE where nobody can be asked, CLI_ERROR if something else was typed, after saying
 *         so.
 */
MUST_USE int confirm_count(const struct args *args, const char *what, uint64_t count);

/* Progress on a terminal: "cancelled 500 of 12000", drawn over the line before. done == total ends
 * it. */
void confirm_progress(const char *verb, uint64_t done, uint64_t total);

#endif
