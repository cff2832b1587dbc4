/* SPDX-License-Identifier: Apache-2.0
 *
 * What each kind of call does to its task.
 */
#ifndef FOLIOT_BROKER_CORE_CALL_TASK_H
#define FOLIOT_BROKER_CORE_CALL_TASK_H

#include "broker/core/state.h"

/* CREATE: insert, with its claim in the same batch if it is due that soon. shape: shard is active
 * and its writer has room. */
void call_create(struct shard *shard, struct call *call);

/* SCAN: read as the edge has prepared it. shape: shard is active. */
void call_scan(struct shard *shard, struct call *call);

/* REDRIVE and PURGE: one dead letter. shape: shard is active and its writer has room. */
void call_dead(struct shard *shard, struct call *call);

/* Find the task of a key, then go on by id. */
void call_read_key(struct shard *shard, struct call *call);

/* Read a task's row: for GET, or because memory does not have it. */
void call_read_task(struct shard *shard, struct call *call, struct task_id id);

/* Go on with a known id: from memory if it is there and quiet. */
void call_by_id(struct shard *shard, struct call *call, struct task_id id);

/* CANCEL, UPDATE, or a CREATE that takes the key over, on a task in memory. shape: quiet entry. */
void call_act(struct shard *shard, struct call *call, struct entry *entry);

/* A fenced read has found no such task: answer so. */
void call_absent(struct shard *shard, struct call *call, struct task_id id);

/* UPDATE: the row says what the call asked for. */
bool call_is_updated(const struct call *call, const struct task *row);

#endif
