/* SPDX-License-Identifier: Apache-2.0
 *
 * Only claims that were there at the take-over can be live without an entry: a claim of this epoch
 * is never forgotten.
 */
#include "broker/core/visit.h"

#include "broker/core/claim.h"
#include "broker/core/dispatch.h"
#include "broker/core/entry.h"
#include "broker/core/reading.h"
#include "broker/core/shard.h"
#include "broker/core/task_life.h"
#include "broker/core/window.h"
#include "broker/core/writer.h"
#include "lib/base/err.h"

static int ask_row(struct shard *shard, struct task_id id);

void visit_forget(struct shard *shard, int64_t seq)
{
    (void)map_del(&shard->inherited, (uint64_t)seq);
}

/* Not read after all, or in vain: what waits for it is looked at again. */
static void miss(struct shard *shard, int64_t seq)
{
    struct flight *flight = map_find(&shard->adrift, (uint64_t)seq);

    if (flight != NULL) {
        flight->visit_serial = 0;
    }
    shard_retry_later(shard);
}

/* Nothing is read any more for a flight adrift of this task, if there is one. */
static void look_at_flight(struct shard *shard, int64_t seq)
{
    struct flight *flight = map_find(&shard->adrift, (uint64_t)seq);

    if (flight != NULL) {
        flight->visit_serial = 0; // Should it have to wait once more, it is looked at again.
        flight_check(shard->broker, flight);
    }
}

/* The row as it is: a flight adrift, or the claim's deadline, goes on with it. */
static void meet_row(struct shard *shard, struct task_id id, const struct task *row)
{
    const struct claim *claim = map_find(&shard->inherited, (uint64_t)id.seq);
    struct entry *entry;

    if (entry_peek(shard, id.seq) != NULL) {
        look_at_flight(shard, id.seq); // It came by a way that takes no flight along: a redrive.
        return;
    }
    if (row == NULL || row->id.slot != id.slot || claim == NULL || claim->attempt <= row->attempt) {
        visit_forget(shard, id.seq); // A claim that is dead stays dead.
        look_at_flight(shard, id.seq);
        return;
    }
    entry = window_take(shard, row);
    if (entry == NULL) {
        miss(shard, id.seq);
    } else if (entry->state == ENTRY_VISITING) {
        entry_place(shard, entry);
    }
}

static void visit_done(struct store_read *store_read)
{
    struct call_read *read = store_read->owner;
    struct shard *shard = read->shard;
    struct task_id id = read->id;
    bool is_fresh = read->serial == shard->serial && shard->state == SHARD_ACTIVE;
    bool is_old = reading_end(read);

    if (is_fresh && store_read->result == ERR_FENCED) {
        shard_fenced(shard);
    } else if (is_fresh && (store_read->result != 0 || (is_old && ask_row(shard, id) != 0))) {
        miss(shard, id.seq);
    } else if (is_fresh && !is_old) {
        meet_row(shard, id, store_read->row_count == 1 ? &store_read->rows[0] : NULL);
    }
    pool_give(&shard->broker->reads, read);
}

static int ask_row(struct shard *shard, struct task_id id)
{
    struct broker *broker = shard->broker;
    struct call_read *read = pool_take(&broker->reads);
    int err;

    if (read == NULL) {
        return ERR_FULL;
    }
    reading_fill(read, shard, id, visit_done);
    err = reading_begin(read);
    if (err == 0) {
        err = broker->env.store->read(broker->env.store, &read->read);
        if (err != 0) {
            (void)reading_end(read);
        }
    }
    if (err != 0) {
        pool_give(&broker->reads, read);
    }
    return err;
}

/* Its task is in memory, and its claim was taken for one whose outcome nobody knows. */
static bool join_held(struct shard *shard, struct entry *entry, struct flight *flight)
{
    if (entry->state != ENTRY_HELD || (entry->flags & ENTRY_TOUCHED) != 0 ||
        entry->attempt + 1 != flight->attempt.attempt) {
        return false;
    }
    (void)map_del(&shard->adrift, (uint64_t)entry->seq);
    flight->is_adrift = false;
    entry_unlink(shard, entry);
    claim_join(shard, entry, flight);
    entry_move(entry, ENTRY_RUNNING);
    dispatch_ended(shard, entry);
    return true;
}

bool visit_home(struct shard *shard, struct flight *flight)
{
    struct entry *entry = entry_find(shard, flight->attempt.id.seq);
    const struct claim *claim = map_find(&shard->inherited, (uint64_t)flight->attempt.id.seq);

    if (shard->state != SHARD_ACTIVE || entry != NULL) {
        return entry != NULL && flight->is_started && join_held(shard, entry, flight);
    }
    if (claim == NULL || claim->attempt != flight->attempt.attempt ||
        (flight->is_started ? flight->attempt.outcome == OUTCOME_UNKNOWN
                            : !writer_wrote(shard->broker, claim->row))) {
        return false;
    }
    if (flight->visit_serial != shard->serial) {
        if (ask_row(shard, flight->attempt.id) != 0) {
            return false;
        }
        flight->visit_serial = shard->serial;
    }
    return true;
}

/* --- refusals --------------------------------------------------------------------------------- */

static struct refusal *refusal_find(struct broker *broker, uint32_t shard, int64_t seq,
                                    uint32_t attempt)
{
    for (uint32_t i = 0; i < REFUSALS_MAX; i++) {
        struct refusal *refusal = &broker->refusals[i];

        if (refusal->seq == seq && refusal->shard == shard && refusal->attempt == attempt) {
            return refusal;
        }
    }
    return NULL;
}

/* The row does not matter: memory is what the database says, as long as we are the owner. */
static void refusal_done(struct store_read *store_read)
{
    struct call_read *read = store_read->owner;
    struct shard *shard = read->shard;
    struct broker *broker = shard->broker;
    struct refusal *refusal = refusal_find(broker, shard->id, read->id.seq, read->attempt);

    if (read->serial == shard->serial && store_read->result == ERR_FENCED) {
        shard_fenced(shard);
    }
    if (refusal != NULL && refusal->serial == read->serial && store_read->result == 0) {
        refusal->is_sure = true;
    } else if (refusal != NULL) {
        refusal->seq = 0; // The next telling asks again.
    }
    pool_give(&broker->reads, read);
}

static int ask_owner(struct shard *shard, const struct report *report)
{
    struct broker *broker = shard->broker;
    struct call_read *read = pool_take(&broker->reads);
    int err;

    if (read == NULL) {
        return ERR_FULL;
    }
    reading_fill(read, shard, report->id, refusal_done);
    read->attempt = report->attempt;
    err = broker->env.store->read(broker->env.store, &read->read);
    if (err != 0) {
        pool_give(&broker->reads, read);
    }
    return err;
}

int visit_refuse(struct shard *shard, const struct report *report)
{
    struct broker *broker = shard->broker;
    struct refusal *refusal = refusal_find(broker, shard->id, report->id.seq, report->attempt);

    if (refusal != NULL && refusal->serial == shard->serial) {
        if (!refusal->is_sure) {
            return ERR_UNAVAILABLE;
        }
        refusal->seq = 0;
        return ERR_NOT_FOUND;
    }
    if (refusal == NULL) {
        refusal = &broker->refusals[broker->refusal_next++ % REFUSALS_MAX];
    }
    *refusal = (struct refusal){.seq = report->id.seq,
                                .shard = shard->id,
                                .serial = shard->serial,
                                .attempt = report->attempt};
    if (ask_owner(shard, report) != 0) {
        refusal->seq = 0;
    }
    return ERR_UNAVAILABLE;
}

int visit_for_report(struct shard *shard, const struct report *report)
{
    const struct claim *claim = map_find(&shard->inherited, (uint64_t)report->id.seq);

    if (claim == NULL || claim->attempt != report->attempt || claim->id.slot != report->id.slot) {
        return visit_refuse(shard, report);
    }
    (void)!ask_row(shard, report->id); // If it cannot be asked now, the next telling asks.
    return ERR_UNAVAILABLE;
}
