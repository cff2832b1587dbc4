/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates that keep the task which holds their key: answered with its due time, from memory or by a
 * read under the fence. A batch that is made again has thousands of them, so one read serves many.
 */
#ifndef FOLIOT_BROKER_CORE_CALL_KEEP_H
#define FOLIOT_BROKER_CORE_CALL_KEEP_H

#include "broker/core/state.h"

/* CREATE, KEY_KEEP: call.found holds the key; answer when it is due. shape: shard is active. */
void call_keep(struct shard *shard, struct call *call);

/* Read what has gathered, unless a read is in flight. shape: shard is active. */
void call_keep_step(struct shard *shard);

/* The shard is dropped: those who wait begin again if `again`, else they find its next owner. */
void call_keep_drop(struct shard *shard, bool again);

#endif
