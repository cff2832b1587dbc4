/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks asleep: what waits for its due time and has no past takes 64 bytes and its payload, index
 * and all, instead of twice that. An entry falls asleep on its way into the wheel and wakes when
 * its time comes or somebody asks for it; nobody else sees a packed one, but for those who only
 * look (entry_peek, entry_next). source: DESIGN 10; ADR 0031
 */
#ifndef FOLIOT_BROKER_CORE_SLEEP_H
#define FOLIOT_BROKER_CORE_SLEEP_H

#include "broker/core/state.h"

/* Shorter waits than this are not worth the packing. */
#define NAP_MS 1000

/*
 * Pack an entry that waits, if it may be: never attempted, waits for its due time and nothing else,
 * no read of it under way. Without memory it stays as it is.
 *
 * shape: WAITING, in the wheel. It is no longer there afterwards unless it stayed.
 */
void sleep_begin(struct shard *shard, struct entry *entry);

/*
 * Bring a task into memory asleep, without ever having been awake.
 *
 * shape:  inside the window; no claim of it is live.
 * result: false: it may not sleep, is in memory already, or memory is short; nothing has changed.
 */
MUST_USE bool sleep_new(struct shard *shard, const struct task *task);

/*
 * Make a packed entry whole again: WAITING, in its place in the wheel if it is in it.
 *
 * result: the entry, elsewhere in memory than before; NULL when memory is short, and then it sleeps
 *         on.
 */
struct entry *sleep_end(struct shard *shard, struct entry *asleep);

/* Bytes of payload in a packed entry. */
size_t sleep_payload_len(const struct entry *asleep);

#endif
