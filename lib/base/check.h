/* SPDX-License-Identifier: Apache-2.0
 *
 * Assertions that stay on in release builds. A broken invariant stops the process; anything that a
 * peer, a disk or a user can cause is an error and never ends here.
 */
#ifndef FOLIOT_LIB_BASE_CHECK_H
#define FOLIOT_LIB_BASE_CHECK_H

#include <stdbool.h>

/* Called once with the failed condition before the process aborts; must not return to the code. */
typedef void (*check_hook_fn)(const char *condition, const char *file, int line);

/*
 * Set what sees a failed assertion before abort(): the log at the edge, the seed in the simulator.
 *
 * shape: NULL restores the default, which writes one line to standard error.
 */
void check_set_hook(check_hook_fn hook);

/* Report a failed condition and abort. Used by the macros below. */
_Noreturn void check_fail(const char *condition, const char *file, int line);

/* The caller kept its side of the contract. */
#define REQUIRE(condition) ((condition) ? (void)0 : check_fail(#condition, __FILE__, __LINE__))

/* We kept ours. */
#define ENSURE(condition) REQUIRE(condition)

/* If `left` holds then so does `right`. */
#define IMPLIES(left, right) (!(left) || (right))

/* Control flow never comes here. */
#define UNREACHABLE() check_fail("unreachable", __FILE__, __LINE__)

#endif
