/* SPDX-License-Identifier: Apache-2.0
 *
 * The `foliot` command.
 */
#include "client/cli/command.h"
#include "lib/io/signals.h"

int main(int argc, char **argv)
{
    signals_ignore_pipe();
    return command_main(argc, argv);
}
