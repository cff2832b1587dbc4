/* SPDX-License-Identifier: Apache-2.0
 *
 * How a task is shown: as a row, as lines, as JSON.
 */
#ifndef FOLIOT_CLIENT_CLI_TASK_VIEW_H
#define FOLIOT_CLIENT_CLI_TASK_VIEW_H

#include "client/cli/output.h"
#include "proto/codec_task.h"

/* Of many tasks, and of one, of which everything is shown. */
extern const struct output_layout TASK_LIST_LAYOUT;
extern const struct output_layout TASK_LAYOUT;

/* Add a task to an output of one of these layouts. */
void task_view_add(struct output *output, const struct task_view *view);

/* Write a task as the JSON of foliot.v1.Task. shape: name NULL inside an array. */
void task_view_json(struct json *json, const char *name, const struct task_view *view);

/* "WAITING". Static string. */
const char *task_view_state_name(enum task_view_state state);

/* Is it a state in which nothing more happens? */
bool task_view_has_ended(enum task_view_state state);

#endif
