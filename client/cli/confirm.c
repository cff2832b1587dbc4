/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions before many changes, and their progress.
 */
#include "client/cli/confirm.h"

#include "client/cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int confirm_count(const struct args *args, const char *what, uint64_t count)
{
    char wanted[24];
    char typed[64];

    if (args_has(args, "yes")) {
        return CLI_OK;
    }
    if (isatty(STDIN_FILENO) != 1) {
        return cli_usage("would %s; there is no terminal to ask on: add --yes to do it, or "
                         "--dry-run to look",
                         what);
    }
    (void)snprintf(wanted, sizeof(wanted), "%" PRIu64, count);
    (void)fprintf(stderr, "foliot: about to %s\ntype %s to go on: ", what, wanted);
    (void)fflush(stderr);
    if (fgets(typed, sizeof(typed), stdin) == NULL) {
        typed[0] = '\0';
    }
    typed[strcspn(typed, "\r\n")] = '\0';
    if (strcmp(typed, wanted) != 0) {
        cli_say("that is not %s: nothing was changed", wanted);
        return CLI_ERROR;
    }
    return CLI_OK;
}

void confirm_progress(const char *verb, uint64_t done, uint64_t total)
{
    if (isatty(STDERR_FILENO) == 1) {
        (void)fprintf(stderr, "\r%s %" PRIu64 " of %" PRIu64 "%s", verb, done, total,
                      done >= total ? "\n" : "");
        (void)fflush(stderr);
    }
}
