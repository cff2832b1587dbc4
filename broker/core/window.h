/* SPDX-License-Identifier: Apache-2.0
 *
 * Which due times are in memory. Rows are read page by page in (bucket, seq) order; everything at
 * or before the cursor is in memory, and what a page in flight may or may not contain counts as
 * inside, so that no answered write falls between a snapshot and its reply. A shard that is taken
 * begins with what is near; what was due a while ago has a cursor of its own and comes behind.
 * Memory that runs short shrinks the window instead of losing anything (shed.h), and a queue that
 * cannot keep up, or fills memory, has its rows left in the database, behind a cursor of its own.
 * source: DESIGN 9, 10; RELIABILITY H-9; ADR 0019, 0036, 0043
 */
#ifndef FOLIOT_BROKER_CORE_WINDOW_H
#define FOLIOT_BROKER_CORE_WINDOW_H

#include "broker/core/state.h"

/* Start empty: nothing is in memory. */
void window_reset(struct shard *shard);

/* Whether a row of a queue, by number, at this place is in memory or on its way there: then an
 * entry must exist for it. */
bool window_has(const struct shard *shard, uint32_t queue, wall_ms due_ms, int64_t seq);

/* The park that counts for a queue's row at a place: one that begins behind the shard's past says
 * nothing of it. NULL: the shard's own cursor counts. */
const struct park *window_park_at(const struct shard *shard, uint32_t queue, struct place place);

/* Whether a place is still ahead of the shard's own pages. */
bool window_is_ahead(const struct shard *shard, struct place place);

/* A row inside the window found no room: set the cursor back before it, to be read again later. */
void window_rewind(struct shard *shard, uint32_t queue, wall_ms due_ms, int64_t seq);

/*
 * The line of the entry's queue is too long, or its queue crowds memory: free the entry and leave
 * its row, and those behind it, to the database until there is room.
 *
 * shape:  quiet, without a flight. It may be asleep.
 * result: false when memory is short; nothing has changed then.
 */
bool window_park(struct shard *shard, struct entry *entry);

/*
 * Leave a row that is not in memory to the database, and those of its queue behind it, if it has
 * time and its queue crowds memory.
 *
 * shape:  memory is short.
 * result: false also when memory is short; nothing has changed then.
 */
bool window_leave_early(struct shard *shard, const struct task *row);

/* What is due after a bucket need not be in memory any more. What is, is the caller's to free. */
void window_shrink(struct shard *shard, int64_t bucket);

/* What was let go of may be missing: read everything again. */
void window_reload(struct shard *shard);

/* A task has left memory; a page that is being read must not bring it back. */
void window_forget(struct shard *shard, int64_t seq);

/*
 * Bring a row into memory with what is known of its claims: in state VISITING if none is live, else
 * HELD, or RUNNING or SETTLING if the attempt is ours.
 *
 * shape:  the task is not in memory yet.
 * errors: NULL when memory is short.
 */
MUST_USE struct entry *window_take(struct shard *shard, const struct task *row);

/* Read the next page if the window has moved on, memory allows and none is being read. */
void window_step(struct shard *shard);

/* Once per tick: read on for queues that are parked somewhere, whose line has become short, and for
 * which memory has room. */
void window_refill(struct broker *broker);

/* Whether a page of one part of a shard's own rows is being read, and how many of that part have
 * ended; those of its parks say nothing of its cursors. */
bool window_is_paging(const struct shard *shard, bool of_past);
uint32_t window_pages_ended(const struct shard *shard, bool of_past);

#endif
