/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue's line: tasks whose time has come and that wait for room, first come first served. How
 * long it may get, so that a queue that is blocked does not fill the memory of the others: what is
 * beyond waits in the database (park.h).
 */
#ifndef FOLIOT_BROKER_CORE_LINE_H
#define FOLIOT_BROKER_CORE_LINE_H

#include "broker/core/state.h"

/* Put a READY entry that is in no list at the end of its queue's line. */
void line_add(struct broker *broker, struct entry *entry);

/* The same, for one that has waited and whose payload has been read: it is served first. */
void line_add_fetched(struct broker *broker, struct entry *entry);

/* Take the first of `list`, one of the queue's two, out of the line; NULL: there is none. Its wheel
 * node is in no wheel. */
struct entry *line_take(struct broker *broker, struct queue_state *queue, struct list *list);

/* Put one that was just taken back to the front of `list`. */
void line_put_back(struct broker *broker, struct entry *entry, struct list *list);

/* Take a READY entry out of its line, if it is in it. */
void line_del(struct broker *broker, struct entry *entry);

/* Whether nobody of a queue waits, here or in the database, before one that comes now. */
bool line_is_free(const struct queue_state *queue);

/* Most entries that a queue may have waiting, whatever brought them here: half of the memory shared
 * by all queues that have a line, and no more than what is left free. */
uint32_t line_max(const struct broker *broker);

/* The same for rows that are only read to wait: a few times what the queue may have running. */
uint32_t line_load_max(const struct broker *broker, const struct queue_state *queue);

#endif
