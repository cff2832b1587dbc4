/* SPDX-License-Identifier: Apache-2.0
 *
 * What calls came to of late, so that a repeated cancel is answered as the first one was and not by
 * GONE. Only ever asked after a fenced read has found no row: memory alone refuses nothing. The
 * oldest are forgotten first, and all of a shard when it is given up. source: DESIGN 11
 */
#ifndef FOLIOT_BROKER_CORE_RECENT_H
#define FOLIOT_BROKER_CORE_RECENT_H

#include "broker/core/state.h"

/* errors: ERR_NO_MEMORY. */
MUST_USE int recent_init(struct broker *broker);
void recent_fini(struct broker *broker);

/* A task of ours was cancelled while `attempt` might be running, or had run; 0: none had. */
void recent_add(struct shard *shard, struct task_id id, uint32_t attempt);

/* How a task was cancelled; NULL if that is not remembered. Borrowed until the next add. */
const struct recent *recent_find(const struct shard *shard, struct task_id id);

/* Forget all of a shard; it may be used again. */
void recent_forget(struct shard *shard);

#endif
