/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the noun "queue" share.
 */
#ifndef FOLIOT_CLIENT_CLI_QUEUE_CMD_H
#define FOLIOT_CLIENT_CLI_QUEUE_CMD_H

#include "client/cli/run.h"

/* Show the queue of the reply, and the brokers that do not know of the change yet. Returns an exit
 * code. */
int queue_print(struct run *run);

#endif
