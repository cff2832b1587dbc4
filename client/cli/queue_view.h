/* SPDX-License-Identifier: Apache-2.0
 *
 * How a queue is shown: as a row, as lines, as JSON.
 */
#ifndef FOLIOT_CLIENT_CLI_QUEUE_VIEW_H
#define FOLIOT_CLIENT_CLI_QUEUE_VIEW_H

#include "client/cli/output.h"
#include "lib/model/queue.h"

/* Of many queues, and of one, of which everything is shown. */
extern const struct output_layout QUEUE_LIST_LAYOUT;
extern const struct output_layout QUEUE_LAYOUT;

/* Add a queue to an output of one of these layouts: cells, not JSON. */
void queue_view_row(struct output *output, const struct queue *queue);

/* Write a queue as the JSON of foliot.v1.Queue. shape: name NULL inside an array. */
void queue_view_json(struct json *json, const char *name, const struct queue *queue);

/* "ACTIVE", "PAUSED", "DRAINING" or "PAUSED, DRAINING". Static string. */
const char *queue_view_state(const struct queue *queue);

#endif
