/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks in memory: making, finding and freeing entries and the bytes behind them. Decides nothing
 * about claims or calls.
 */
#ifndef FOLIOT_BROKER_CORE_ENTRY_H
#define FOLIOT_BROKER_CORE_ENTRY_H

#include "broker/core/state.h"

/*
 * Bring a task into memory in state VISITING.
 *
 * shape:  task.id.seq is not in memory yet; key and payload are copied, a large payload is not: it
 *         is read with the claim.
 * errors: NULL when the pool is full or memory is short; nothing has changed then.
 */
MUST_USE struct entry *entry_new(struct shard *shard, const struct task *task);

/* What all forms of an entry have in common, and the place of a task in its queue's count. shape:
 * entry is zeroed. */
void entry_begin(struct entry *entry, const struct shard *shard, struct queue_state *queue,
                 const struct task *task);

/* A task as it is kept in memory: a large payload is read with the claim. Of such a one it is
 * `copy` without it. */
const struct task *task_as_kept(const struct task *task, struct task *copy);

/*
 * Take an entry out of everything and free it with its block.
 *
 * shape: no flight hangs on it any more. It may be asleep.
 * note:  while a page is being read its id is remembered, so that the page does not bring it back.
 */
void entry_free(struct shard *shard, struct entry *entry);

/* The entry of a task, awake, or NULL: it is not in memory, or memory is short. */
struct entry *entry_find(struct shard *shard, int64_t seq);

/* The same to look at, as it is; of one that is asleep nothing from `attempt` on may be read. */
const struct entry *entry_peek(const struct shard *shard, int64_t seq);

/* Due time of an entry, which may be asleep. */
wall_ms entry_due_ms(const struct entry *entry);

/* The next of a shard's entries, asleep or not, as by entry_index_next(). */
struct entry *entry_next(const struct shard *shard, struct entry_iter *iter);

/*
 * A walk over a shard's entries that frees some of them on its way. It goes from the last chain of
 * the index to the first: an index that shrinks joins its last chain to one before.
 */
struct entry_walk {
    uint32_t chain; /* those from here on have been looked at; start with UINT32_MAX */
    uint32_t looks; /* entries and chains that may still be looked at; 0: it pauses */
};

typedef bool (*entry_test)(const struct shard *shard, const struct entry *entry);

/*
 * Collect some of those that pass a test, asleep or not, in broker.collected.
 *
 * shape:  what was collected is freed, or passes the test no more, before the walk goes on.
 * result: how many. The walk is at its end when chain is 0 and the result is 0.
 */
size_t entry_collect(struct shard *shard, struct entry_walk *walk, entry_test test);

/* Tasks in memory, asleep or not, and how many more there may be. */
size_t entry_count(const struct broker *broker);
size_t entry_room(const struct broker *broker);

/* What the target needs, wherever it is kept just now. Borrowed. shape: awake. */
struct block *entry_block(const struct entry *entry);

/* The queue of an entry. */
struct queue_state *entry_queue(const struct broker *broker, const struct entry *entry);

/*
 * A quiet entry without a live claim: into the wheel if its due time is inside the window, else out
 * of memory; the database has it.
 *
 * shape: state VISITING, SETTLING, CHANGING or DELETING, without a flight. The entry may be freed.
 */
void entry_place(struct shard *shard, struct entry *entry);

/* Let an entry that is in no list, and whose attempt has landed, wait until `at_ms`: every way to
 * ENTRY_WAITING leads through here, so that nothing that waits holds a large payload. It may fall
 * asleep: the entry is no longer there then. */
void entry_wait(struct shard *shard, struct entry *entry, wall_ms at_ms);

/* Put an entry that is in no list into the wheel of its database. */
void entry_wake_at(struct shard *shard, struct entry *entry, wall_ms at_ms);

/* Take an entry out of the wheel, the ready list or the unsettled list, whichever holds it. */
void entry_unlink(struct shard *shard, struct entry *entry);

/* Copy of a task's key, and of its payload if the task has it. NULL when memory is short. Freed by
 * mem_free. */
MUST_USE struct block *block_new(const struct task *task);

/* The two halves of it: the head of such a block, and the bytes behind it. */
void block_head(const struct task *task, struct block *head);
void block_fill(uint8_t *place, const struct block *head, const struct task *task);

/* Bytes behind the head of a block. */
size_t block_bytes_len(const struct block *block);

/* A block without its payload, unless it has a small one: large ones are in memory only while an
 * attempt needs them. ownership: block is taken, what is returned replaces it. */
MUST_USE struct block *block_shed(struct block *block);

/* When its task was created, and until when an attempt may start; 0: for ever. */
wall_ms block_created_ms(const struct block *block);
wall_ms block_expire_ms(const struct block *block);

/* Its place among the tasks of its order key; of no meaning without one. */
wall_ms block_order_ms(const struct block *block);
void block_set_order_ms(struct block *block, wall_ms order_ms);

/* Keys, tags and payload of a block, borrowed. The payload is empty if it is not in memory. */
struct slice block_order_key(const struct block *block);
struct slice block_key(const struct block *block);
struct slice block_tags(const struct block *block);
struct slice block_payload(const struct block *block);

/* Whether a queue allows one more attempt: those whose payload is being read count. */
bool queue_has_room(const struct queue_state *queue);

/* A queue by number, made unknown if it is new. Of a queue that home does not know any more, and of
 * which nothing is here, the state is used again. NULL when memory is short. */
struct queue_state *queue_state_get(struct broker *broker, uint32_t number);

#endif
