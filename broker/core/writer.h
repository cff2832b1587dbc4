/* SPDX-License-Identifier: Apache-2.0
 *
 * Group commit, one writer per database: while a commit is in flight the next batch fills, and it
 * leaves when the answer comes, or, when there is much, in two halves (broker/core/batch.h). Keeps
 * the rules that a batch must obey (storage/store.h) and hands each operation's result back to who
 * asked for it. Claims, outcomes and calls wait in lanes of their own: each has a share of a batch,
 * and claims come first in what is left, then outcomes, then calls. Outcomes come from all tables,
 * and a statement for a table costs as much as a dozen rows: they wait for others, for a while and
 * unless somebody waits for one of them, and those of a part of the tables leave together. A claim
 * that is ahead of its time waits a little for a commit that leaves anyway. Nothing else waits for
 * a timer. source: DESIGN 3, docs/adr/0038, docs/adr/0041
 */
#ifndef FOLIOT_BROKER_CORE_WRITER_H
#define FOLIOT_BROKER_CORE_WRITER_H

#include "broker/core/state.h"

/* errors: ERR_NO_MEMORY. */
MUST_USE int writer_init(struct writer *writer, struct broker *broker, uint32_t database);

void writer_fini(struct writer *writer);

/* Who writes for a shard: the writer of its database. */
static inline struct writer *writer_of(const struct shard *shard)
{
    return &shard->broker->databases[shard->database].writer;
}

/* Whether one more piece of a shard's work of this class finds room. */
bool writer_has_room(const struct shard *shard, enum writer_class class);

/* Whether this process has written a claim row. */
static inline bool writer_wrote(const struct broker *broker, struct claim_row row)
{
    return (uint64_t)row.writer - (uint64_t)broker->options.writer < WRITER_HALVES;
}

/* Operations that wait or are in flight. */
uint32_t writer_count(const struct writer *writer);

/* Whether a batch that may have operations of a shard, and left by `since`, is in flight yet. */
bool writer_is_awaited(const struct shard *shard, boot_us since);

/*
 * Add an operation of a shard under its present epoch.
 *
 * shape:  there is room; note is copied, its serial is filled in. The caller fills in the rest of
 *         the operation returned; what it points to lives until the result.
 */
struct store_op *writer_add(struct shard *shard, const struct note *note);

/* A claim of a task that is due by then, by the database's clock, has been added: it leaves two
 * commits before, and waits no longer than a claim may. */
void writer_hurry_claim(struct shard *shard, wall_ms due_ms);

/* Somebody waits for an outcome of this shard: let it and those beside it leave with the next
 * batch. */
void writer_hurry(struct shard *shard);

/* Somebody waits for any outcome at all. */
void writer_hurry_all(struct writer *writer);

/*
 * An outcome, or the end of a task that is given up, has been added: hurry if somebody waits for
 * it. That is the task itself, if it goes on soon; the next of its order key; a shard that is to be
 * released; those that could not start soon, because nearly as many are claimed or run as may be;
 * and a queue for which an outcome that is lost with this process is a dead letter.
 */
void writer_hurry_awaited(struct shard *shard, const struct entry *entry,
                          const struct store_op *op);

/* A claim row of ours has no live member any more: delete it with the next batch. */
void writer_drop_row(struct writer *writer, struct claim_row row);

/* The database may have lost commits: what we know of our claim rows may be untrue. Those that were
 * to be dropped, and those that are still to come to their end, are left for the sweep. */
void writer_doubt_rows(struct writer *writer);

/* The shard is being dropped: take its waiting operations out; calls are told by call_cut(). */
void writer_cut(struct shard *shard, bool keep);

/* Send what is to leave and need not wait for what is in flight. Once per tick. */
void writer_step(struct writer *writer);

/* When writer_step has work although nothing happens. */
boot_us writer_next_wake(const struct writer *writer);

#endif
