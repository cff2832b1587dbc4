/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the noun "task" share.
 */
#ifndef FOLIOT_CLIENT_CLI_TASK_CMD_H
#define FOLIOT_CLIENT_CLI_TASK_CMD_H

#include "client/cli/args.h"
#include "client/cli/run.h"
#include "proto/codec_task.h"

#define TASK_GET_PATH "/foliot.v1.TaskService/Get"

/* Cancel all tasks that the options match, after asking. Returns an exit code. */
int task_cancel_many(const struct args *args);

#endif
