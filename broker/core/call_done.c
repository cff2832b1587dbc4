/* SPDX-License-Identifier: Apache-2.0
 *
 * What the results of a call's operations mean: for the task in memory, and for the caller. Never
 * says that nothing happened where something may have, nor the other way round.
 */
#include "broker/core/call_life.h"

#include "broker/core/call_keep.h"
#include "broker/core/call_task.h"
#include "broker/core/claim.h"
#include "broker/core/dispatch.h"
#include "broker/core/entry.h"
#include "broker/core/order.h"
#include "broker/core/recent.h"
#include "broker/core/shard.h"
#include "broker/core/shed.h"
#include "broker/core/sleep.h"
#include "broker/core/task_life.h"
#include "broker/core/visit.h"
#include "broker/core/window.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

/* A write of a call came to nothing for sure: the task goes on as it was. */
static void restore(struct shard *shard, struct entry *entry)
{
    if ((entry->flags & ENTRY_TOUCHED) != 0) {
        entry->flags &= (unsigned)~ENTRY_TOUCHED & 7U;
        if (entry->state == ENTRY_RUNNING && entry->body.flight->is_ended) {
            dispatch_ended(shard, entry);
        }
    } else if (entry->flying) { // A claim that was about to be given back still is to be.
        entry->body.flight->is_ended = true;
        entry->body.flight->attempt.outcome = OUTCOME_NOT_STARTED;
        claim_settle(shard, entry);
    } else {
        entry_place(shard, entry);
    }
}

/* The row is deleted: forget the task, let a running attempt end by itself. */
static void remove_entry(struct shard *shard, struct entry *entry)
{
    struct flight *flight = entry->flying ? entry->body.flight : NULL;

    order_on_gone(shard, entry);
    entry->flags &= (unsigned)~ENTRY_TOUCHED & 7U;
    if (flight != NULL && flight->is_started && !flight->is_ended) {
        entry->body.block = NULL;
        entry->flying = 0;
        flight->entry = NULL; // Freed when its outcome comes.
    } else if (flight != NULL) {
        claim_land(shard->broker, entry, true);
    }
    entry_free(shard, entry);
}

/* Memory and database do not agree on the row: memory gives way. */
static void forget_entry(struct shard *shard, struct entry *entry, int64_t what)
{
    tell(shard->broker, "stale-row", shard, entry->seq, what, 0);
    remove_entry(shard, entry);
}

/* The outcome of a call's write is unknown: look as soon as the shard has a new epoch. If it has
 * been taken again since, its tasks have gone on, and their rows tell nothing about the write. */
static void look_later(struct shard *shard, struct call *call, bool is_fresh)
{
    if (!is_fresh || shard->state == SHARD_IDLE || shard->state == SHARD_ACQUIRING ||
        shard->state == SHARD_RELEASING) {
        call_answer(shard->broker, call, ERR_OUTCOME_UNKNOWN);
        return;
    }
    list_add(&shard->unknown, &call->link);
}

/* Into memory with a new task if it is due inside the window. */
static void take_in(struct shard *shard, const struct call *call)
{
    struct entry *entry;

    if (!window_has(shard, call->task.queue, call->task.due_ms, call->task.id.seq)) {
        return;
    }
    if ((shed_is_short(shard->broker) && window_leave_early(shard, &call->task)) ||
        sleep_new(shard, &call->task)) {
        return;
    }
    entry = entry_new(shard, &call->task);
    if (entry == NULL) {
        window_rewind(shard, call->task.queue, call->task.due_ms, call->task.id.seq);
    } else {
        entry_place(shard, entry);
    }
}

/* The key is taken. Who keeps its task is told when that is due, who replaces it goes on with it.
 */
static void insert_exists(struct shard *shard, struct call *call, struct task_id holder,
                          bool is_fresh)
{
    call->found = holder;
    if (call->key_policy == KEY_REJECT) {
        call_answer(shard->broker, call, ERR_EXISTS);
    } else if (!is_fresh || shard->state != SHARD_ACTIVE) {
        call_run(shard->broker, call); // Nothing was inserted: from the beginning.
    } else if (call->key_policy == KEY_KEEP) {
        call_keep(shard, call);
    } else {
        call_by_id(shard, call, holder);
    }
}

static void insert_done(struct shard *shard, const struct store_op *op, const struct note *note,
                        int result, bool is_fresh)
{
    struct call *call = note->call;

    if (result == ERR_OUTCOME_UNKNOWN) {
        look_later(shard, call, is_fresh);
        return;
    }
    if (result == ERR_EXISTS) {
        insert_exists(shard, call, op->existing, is_fresh);
        return;
    }
    if (result == 0) {
        call->created = true;
        call->found = call->task.id;
        call->found_due_ms = call->task.due_ms;
        shard->broker->stats.created++;
        tell(shard->broker, "insert", shard, call->task.id.seq, call->task.due_ms, 0);
        if (is_fresh) {
            order_on_added(shard, &call->task);
        }
        if (is_fresh && note->entry == NULL) {
            take_in(shard, call);
        }
    }
    call_answer(shard->broker, call, result);
}

/* A cancel or an update that found no matching row: somebody settled it first. Begin again; the
 * row, or its absence, is then read under the fence. */
static void begin_again(struct shard *shard, const struct note *note, bool is_fresh)
{
    if (is_fresh) {
        forget_entry(shard, note->entry, note->kind);
        call_run(shard->broker, note->call);
    } else {
        call_answer(shard->broker, note->call, ERR_FENCED);
    }
}

static void cancel_done(struct shard *shard, const struct note *note, int result, bool is_fresh)
{
    if (result == ERR_OUTCOME_UNKNOWN) {
        look_later(shard, note->call, is_fresh);
        return;
    }
    if (result == ERR_NOT_FOUND) {
        begin_again(shard, note, is_fresh);
        return;
    }
    if (result == 0) {
        shard->broker->stats.cancelled++;
        tell(shard->broker, "cancel", shard, note->call->core_seq, note->call->attempt, 0);
        if (is_fresh) {
            recent_add(shard, note->call->found, note->call->attempt);
            visit_forget(shard, note->entry->seq);
            remove_entry(shard, note->entry);
        }
    } else if (is_fresh && result != ERR_FENCED) {
        restore(shard, note->entry);
    }
    call_answer(shard->broker, note->call, result);
}

/* Keep a new payload if it is small, else note that it has to be read. */
static void apply_payload(struct entry *entry, const struct call *call)
{
    struct block **place = entry->flying ? &entry->body.flight->block : &entry->body.block;
    struct block *old = *place;
    struct task task = {.payload = call->task.payload,
                        .payload_len = (uint32_t)call->task.payload.len,
                        .key = block_key(old),
                        .tags = block_tags(old),
                        .order_key = block_order_key(old),
                        .order_ms = block_order_ms(old),
                        .expire_ms = block_expire_ms(old),
                        .created_ms = block_created_ms(old)};
    struct block *block = NULL;

    if (entry->flying && entry->body.flight->is_started) {
        entry->body.flight->is_outdated = true; // The old bytes are on their way.
        old->payload_len = task.payload_len;
        return;
    }
    if (task.payload_len <= PAYLOAD_INLINE_BYTES_MAX) {
        block = block_new(&task);
    }
    if (block == NULL) {
        old->has_payload = false;
        old->payload_len = task.payload_len;
        *place = block_shed(old);
    } else {
        mem_free(old);
        *place = block;
    }
}

static void apply_update(struct shard *shard, struct entry *entry, const struct store_op *op,
                         const struct call *call)
{
    if (call->set_due) {
        entry->due_ms = op->task.due_ms;
    }
    if (call->set_payload) {
        apply_payload(entry, call);
    }
    if (op->set_order) {
        block_set_order_ms(entry_block(entry), op->task.order_ms);
    }
    if ((entry->flags & ENTRY_TOUCHED) != 0) {
        order_on_moved(shard, entry);
        restore(shard, entry);
        return;
    }
    entry->attempt = op->attempt;
    if (entry->flying) {
        claim_land(shard->broker, entry, true);
    }
    order_on_moved(shard, entry);
    entry_place(shard, entry);
}

static void update_done(struct shard *shard, const struct store_op *op, const struct note *note,
                        int result, bool is_fresh)
{
    struct call *call = note->call;

    if (result == ERR_OUTCOME_UNKNOWN) {
        look_later(shard, call, is_fresh);
        return;
    }
    if (result == ERR_NOT_FOUND) {
        begin_again(shard, note, is_fresh);
        return;
    }
    if (result == 0) {
        shard->broker->stats.updated++;
        tell(shard->broker, "update", shard, call->core_seq, op->task.due_ms, call->attempt);
        if (call->set_due) {
            call->found_due_ms = op->task.due_ms;
        } else if (is_fresh) {
            call->found_due_ms = note->entry->due_ms;
        }
        if (is_fresh) {
            apply_update(shard, note->entry, op, call);
        }
    } else if (is_fresh && result != ERR_FENCED) {
        restore(shard, note->entry);
    }
    call_answer(shard->broker, call, result);
}

static void displace_done(struct shard *shard, const struct note *note, int result, bool is_fresh)
{
    if (!is_fresh || result == ERR_OUTCOME_UNKNOWN || result == ERR_FENCED) {
        return; // The entry goes, or went, with the shard.
    }
    if (result == 0) {
        shard->broker->stats.cancelled++;
        tell(shard->broker, "cancel", shard, note->entry->seq, 0, 0);
        visit_forget(shard, note->entry->seq);
        remove_entry(shard, note->entry);
    } else if (result == ERR_NOT_FOUND) {
        forget_entry(shard, note->entry, note->kind);
    } else {
        restore(shard, note->entry);
    }
}

/* A dead letter is pending again, or it is not one any more. */
static void redrive_done(struct shard *shard, const struct store_op *op, const struct note *note,
                         int result, bool is_fresh)
{
    struct call *call = note->call;

    if (result == ERR_OUTCOME_UNKNOWN) {
        look_later(shard, call, is_fresh);
        return;
    }
    if (result == ERR_EXISTS) {
        call->found = op->existing;
    }
    if (result == 0) {
        call->found = call->task.id;
        call->found_due_ms = call->task.due_ms;
        shard->broker->stats.redriven++;
        tell(shard->broker, "redrive", shard, call->task.id.seq, call->task.due_ms, 0);
        if (is_fresh) {
            order_on_added(shard, &call->task);
            take_in(shard, call);
        }
    }
    call_answer(shard->broker, call, result);
}

void call_op_done(struct shard *shard, const struct store_op *op, const struct note *note,
                  int result, bool is_fresh)
{
    switch (note->kind) {
    case NOTE_INSERT:
        insert_done(shard, op, note, result, is_fresh);
        break;
    case NOTE_CANCEL:
        cancel_done(shard, note, result, is_fresh);
        break;
    case NOTE_UPDATE:
        update_done(shard, op, note, result, is_fresh);
        break;
    case NOTE_DISPLACE:
        displace_done(shard, note, result, is_fresh);
        break;
    case NOTE_REDRIVE:
        redrive_done(shard, op, note, result, is_fresh);
        break;
    case NOTE_PURGE:
        if (result == 0) {
            shard->broker->stats.purged++;
            tell(shard->broker, "purge", shard, op->task.id.seq, 0, 0);
        }
        call_answer(shard->broker, note->call, result);
        break;
    case NOTE_CLAIM:
    case NOTE_SETTLE:
    case NOTE_EXPIRE:
        UNREACHABLE(); // Not a call's.
    }
}
