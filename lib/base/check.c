/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a broken invariant ends the process. One of the two places that may call abort().
 */
#include "lib/base/check.h"

#include <stdio.h>
#include <stdlib.h>

static check_hook_fn check_hook;

void check_set_hook(check_hook_fn hook)
{
    check_hook = hook;
}

_Noreturn void check_fail(const char *condition, const char *file, int line)
{
    check_hook_fn hook = check_hook;

    check_hook = NULL; // A hook that itself fails must not loop.
    if (hook != NULL) {
        hook(condition, file, line);
    } else {
        (void)fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
    }
    abort();
}
