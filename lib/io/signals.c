/* SPDX-License-Identifier: Apache-2.0
 *
 * Signal dispositions.
 */
#include "lib/io/signals.h"

#include "lib/base/check.h"

#include <signal.h>
#include <string.h>

void signals_ignore_pipe(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = SIG_IGN;
    REQUIRE(sigemptyset(&action.sa_mask) == 0);
    REQUIRE(sigaction(SIGPIPE, &action, NULL) == 0);
}
