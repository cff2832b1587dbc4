/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a user's call inside the core: it waits for its shard or for a write of its task, reads
 * what memory does not know, adds its operations, and is answered when they are known. A refusal is
 * an answer too: it is given only after a fenced read. source: DESIGN 7, 11; K-8
 */
#ifndef FOLIOT_BROKER_CORE_CALL_LIFE_H
#define FOLIOT_BROKER_CORE_CALL_LIFE_H

#include "broker/core/state.h"

/* Begin, or begin again. */
void call_run(struct broker *broker, struct call *call);

/* The result of an operation of a call. note.entry is valid if is_fresh. */
void call_op_done(struct shard *shard, const struct store_op *op, const struct note *note,
                  int result, bool is_fresh);

/* Wait for something that is on its way; at most for as long as a call may. */
void call_wait(struct shard *shard, struct call *call);

/* The operation of a call was taken out before it was sent, because its shard is dropped. */
void call_cut(struct shard *shard, struct call *call, bool keep);

/* Run the waiting calls of a shard again: its state, or a write in it, is known now. */
void call_wake(struct shard *shard);

/* The shard is ours again under a new epoch: look what became of unknown writes. */
void call_look(struct shard *shard);

/* The shard is not ours any more: answer whoever waits for it. */
void call_abandon(struct shard *shard);

/* As far as unknown writes go: what became of them cannot be told any more. */
void call_abandon_unknown(struct shard *shard);

/* Answer waiting calls whose time is up. Once per scan. */
void call_expire(struct shard *shard);

/* Run the callbacks that are owed. Once per tick. */
void call_answer_all(struct broker *broker);

/* Owe a call its callback. */
void call_answer(struct broker *broker, struct call *call, int result);

#endif
