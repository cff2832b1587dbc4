/* SPDX-License-Identifier: Apache-2.0
 *
 * Order keys: of the tasks of a queue with one order key one attempt runs at a time, in the order
 * of (order_ms, id). Whose turn it is the rows say; here is remembered what they said, for the
 * order keys that have come up, and what makes it worth asking again. A task that is not the head
 * of its order key leaves memory when its time comes, and is read when its turn does. source:
 * docs/adr/0030
 */
#ifndef FOLIOT_BROKER_CORE_ORDER_H
#define FOLIOT_BROKER_CORE_ORDER_H

#include "broker/core/state.h"

/* Whether a task may be claimed, as far as its order key is concerned. */
enum order_verdict {
    ORDER_GO = 1,   /* it is its turn, or it has no order key */
    ORDER_BEHIND,   /* it is read again when its turn comes: free the entry */
    ORDER_NO_MEMORY /* ask again later */
};

/* shape: the entry is quiet, and its time has come. */
enum order_verdict order_ask(struct shard *shard, const struct entry *entry);

/* Whether a claimed task must not start after all: one that is due before it has come meanwhile. */
bool order_is_overtaken(const struct shard *shard, const struct entry *entry);

/* A row has come: it was inserted, or revived. No order key: nothing happens, as everywhere here.
 */
void order_on_added(struct shard *shard, const struct task *task);

/* The row of an entry is gone, or nobody knows where it is. Before the entry is freed. An attempt
 * that may still be running holds its order key until its end, or its deadline. */
void order_on_gone(struct shard *shard, const struct entry *entry);

/* A claim has ended and the row lives on, or its place has changed. The entry has both already. */
void order_on_moved(struct shard *shard, const struct entry *entry);

/* An attempt whose task was cancelled is over. */
void order_on_flight_end(struct broker *broker, const struct flight *flight);

/* A live claim of another epoch was found: its task holds the order key. False: no memory for that.
 */
MUST_USE bool order_hold(struct shard *shard, const struct entry *entry);

/* Id of the task whose turn it is before another one's, as far as it is known; seq 0: not known. */
struct task_id order_head(const struct shard *shard, const struct task *row);

/* Whether it is known to be the turn of a row. False: it is not, or that is not known now. */
bool order_is_head(const struct shard *shard, const struct task *row);

/* The policy for a bad end. Those behind a task with an order key may have to wait until it is
 * over: then no limit ends it. */
struct retry_policy order_retry_policy(const struct queue *queue, const struct block *block);

/* A task is to be tried again after a bad end. After so many of them, its counts say, it has no
 * place before those that are due before its next attempt. */
void order_set_place(const struct queue *queue, const struct block *block, struct store_op *op);

/* Forget what is known of a shard. */
void order_reset(struct shard *shard);

/* Once per step of a shard: when the claims that it inherited are known, what was let go of
 * meanwhile for want of memory comes again. */
void order_shard_step(struct shard *shard);

/* Once per tick: read on for the order keys that wait for it. */
void order_step(struct broker *broker);

#endif
