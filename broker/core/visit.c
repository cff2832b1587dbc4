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

    if (entry_find(shard, id.seq) != NULL) {
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
    read->shard = shard;
    read->serial = shard->serial;
    read->id = id;
    read->read = (struct store_read){.kind = STORE_READ_TASKS,
                                     .database = shard->database,
                                     .shard = shard->id,
                                     .epoch = shard->epoch,
                                     .ids = &read->id,
                                     .id_count = 1,
                                     .cb = visit_done,
                                     .owner = read};
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
                            : claim->row.writer != shard->broker->options.writer)) {
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

int visit_for_report(struct shard *shard, const struct report *report)
{
    const struct claim *claim = map_find(&shard->inherited, (uint64_t)report->id.seq);

    if (claim == NULL || claim->attempt != report->attempt || claim->id.slot != report->id.slot) {
        return ERR_NOT_FOUND;
    }
    (void)!ask_row(shard, report->id); // If it cannot be asked now, the next telling asks.
    return ERR_UNAVAILABLE;
}
