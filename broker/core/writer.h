/* SPDX-License-Identifier: Apache-2.0
 *
 * Group commit, one writer per database: while a commit is in flight the next batch fills, and it
 * leaves when the answer comes. No timer. Keeps the rules that a batch must obey (storage/store.h)
 * and hands each operation's result back to who asked for it. Claims, outcomes and calls wait in
 * lanes of their own: each has a share of a batch, and claims come first in what is left, then
 * outcomes, then calls. source: DESIGN 3
 */
#ifndef FOLIOT_BROKER_CORE_WRITER_H
#define FOLIOT_BROKER_CORE_WRITER_H

#include "broker/core/state.h"

/* errors: ERR_NO_MEMORY. */
MUST_USE int writer_init(struct writer *writer, struct broker *broker, uint32_t database);

void writer_fini(struct writer *writer);

/* Whether one more piece of work of this class finds room. */
bool writer_has_room(const struct writer *writer, enum writer_class class);

/* Operations that wait or are in flight. */
uint32_t writer_count(const struct writer *writer);

/*
 * Add an operation of a shard under its present epoch.
 *
 * shape:  there is room; note is copied, its serial is filled in. The caller fills in the rest of
 *         the operation returned; what it points to lives until the result.
 */
struct store_op *writer_add(struct writer *writer, struct shard *shard, const struct note *note);

/* A claim row of ours has no live member any more: delete it with the next batch. */
void writer_drop_row(struct writer *writer, struct claim_row row);

/* The database may have lost commits: what we know of our claim rows may be untrue. Those that were
 * to be dropped, and those that are still to come to their end, are left for the sweep. */
void writer_doubt_rows(struct writer *writer);

/* The shard is being dropped: take its waiting operations out; calls are told by call_cut(). */
void writer_cut(struct writer *writer, struct shard *shard, bool keep);

/* Send the next batch if none is in flight and something waits. Once per tick. */
void writer_step(struct writer *writer);

/* When writer_step has work although nothing happens. */
boot_us writer_next_wake(const struct writer *writer);

#endif
