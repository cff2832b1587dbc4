/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a user's call: where it goes first, and how it is answered. The operations of each kind
 * are in call_task.c.
 */
#include "broker/core/call_life.h"

#include "broker/core/call_task.h"
#include "broker/core/entry.h"
#include "broker/core/recent.h"
#include "broker/core/shard.h"
#include "broker/core/task_life.h"
#include "broker/core/writer.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

/* A call for a shard that is being taken waits this long. source: DESIGN 6 */
#define CALL_WAIT_US US_PER_S

void call_answer(struct broker *broker, struct call *call, int result)
{
    call->result = result;
    if (result == ERR_FULL || result == ERR_UNAVAILABLE) {
        call->retry_after_ms = broker->options.retry_us / US_PER_MS;
        broker->stats.refused++;
    }
    list_add(&broker->answered, &call->link);
}

void call_answer_all(struct broker *broker)
{
    struct list answered;

    list_init(&answered);
    list_move_all(&answered, &broker->answered); // What callbacks add waits for the next tick.
    for (struct list *link; (link = list_take_first(&answered)) != NULL;) {
        struct call *call = CONTAINER_OF(link, struct call, link);

        broker->call_count--;
        call->cb(call);
    }
}

void broker_call(struct broker *broker, const struct now *now, struct call *call)
{
    broker_set_now(broker, now);
    list_init(&call->link);
    call->core_until = 0;
    call->attempt = 0;
    call->created = false;
    call->found_due_ms = WALL_NEVER;
    broker->call_count++;
    if (broker->call_count > CALLS_MAX) {
        call_answer(broker, call, ERR_FULL);
        return;
    }
    call_run(broker, call);
}

void call_wait(struct shard *shard, struct call *call)
{
    if (call->core_until == 0) {
        call->core_until = shard->broker->now.boot + CALL_WAIT_US;
    }
    shard->broker->scan_at = time_min(shard->broker->scan_at, call->core_until);
    list_add(&shard->waiting, &call->link);
}

void call_run(struct broker *broker, struct call *call)
{
    struct shard *shard = &broker->shards[call->shard];

    switch (shard->state) {
    case SHARD_ACTIVE:
        break;
    case SHARD_ACQUIRING:
    case SHARD_BUMPING:
    case SHARD_LOADING:
        call_wait(shard, call);
        return;
    case SHARD_IDLE:
    case SHARD_DRAINING:
    case SHARD_RELEASING:
        call_answer(broker, call, ERR_FENCED);
        return;
    }
    if (call->kind == CALL_SCAN) {
        call_scan(shard, call);
        return;
    }
    if (!writer_has_room(shard, WRITER_CALL)) {
        call_answer(broker, call, ERR_FULL);
        return;
    }
    if (call->kind == CALL_CREATE) {
        call_create(shard, call);
    } else if (call->kind == CALL_REDRIVE || call->kind == CALL_PURGE) {
        call_dead(shard, call);
    } else if (call->task.id.seq == 0) {
        call_read_key(shard, call);
    } else {
        call_by_id(shard, call, call->task.id);
    }
}

void call_by_id(struct shard *shard, struct call *call, struct task_id id)
{
    // Who only looks wakes nobody.
    struct entry *entry = call->kind == CALL_GET ? NULL : entry_find(shard, id.seq);

    call->found = id;
    if (entry == NULL || entry->slot != id.slot) {
        call_read_task(shard, call, id);
    } else if (entry_is_busy(entry)) {
        if (entry->state == ENTRY_SETTLING || entry->state == ENTRY_DELETING) {
            writer_hurry(shard);
        }
        call_wait(shard, call);
    } else {
        call_act(shard, call, entry);
    }
}

void call_wake(struct shard *shard)
{
    struct list waiting;

    list_init(&waiting);
    list_move_all(&waiting, &shard->waiting);
    for (struct list *link; (link = list_take_first(&waiting)) != NULL;) {
        call_run(shard->broker, CONTAINER_OF(link, struct call, link));
    }
}

void call_expire(struct shard *shard)
{
    list_foreach_safe (link, after, &shard->waiting) {
        struct call *call = CONTAINER_OF(link, struct call, link);

        if (shard->broker->now.boot >= call->core_until) {
            list_del(link);
            call_answer(shard->broker, call, ERR_UNAVAILABLE);
        } else {
            shard->broker->scan_at = time_min(shard->broker->scan_at, call->core_until);
        }
    }
}

void call_cut(struct shard *shard, struct call *call, bool keep)
{
    if (keep) {
        call_wait(shard, call);
    } else {
        call_answer(shard->broker, call, ERR_FENCED);
    }
}

void call_abandon(struct shard *shard)
{
    struct list *link;

    while ((link = list_take_first(&shard->waiting)) != NULL) {
        call_answer(shard->broker, CONTAINER_OF(link, struct call, link), ERR_FENCED);
    }
    call_abandon_unknown(shard);
}

void call_abandon_unknown(struct shard *shard)
{
    struct list *link;

    while ((link = list_take_first(&shard->unknown)) != NULL) {
        call_answer(shard->broker, CONTAINER_OF(link, struct call, link), ERR_OUTCOME_UNKNOWN);
    }
}

/* What the row, or its absence, says about a write whose reply was lost. No write under an older
 * epoch can become visible any more, so absence is final. */
static void judge_unknown(struct shard *shard, struct call *call, const struct task *row)
{
    bool in_effect = false;

    switch (call->kind) {
    case CALL_CREATE:
        in_effect = row != NULL;
        call->created = in_effect;
        call->found = call->task.id;
        call->found_due_ms = call->task.due_ms;
        break;
    case CALL_CANCEL:
        in_effect = row == NULL;
        if (in_effect) {
            recent_add(shard, call->found, call->attempt);
        }
        break;
    case CALL_UPDATE:
        in_effect = row != NULL && call_is_updated(call, row);
        call->found_due_ms = in_effect ? row->due_ms : WALL_NEVER;
        break;
    case CALL_REDRIVE:
        in_effect = row != NULL;
        call->found = call->task.id;
        call->found_due_ms = in_effect ? row->due_ms : WALL_NEVER;
        break;
    case CALL_GET:
    case CALL_SCAN:
    case CALL_PURGE:
        UNREACHABLE(); // Write nothing, or nothing that a row could tell about.
    }
    call_answer(shard->broker, call, in_effect ? 0 : ERR_UNAVAILABLE);
}

static const struct task *find_row(const struct store_read *look, int64_t seq)
{
    for (size_t i = 0; i < look->row_count; i++) {
        if (look->rows[i].id.seq == seq) {
            return &look->rows[i];
        }
    }
    return NULL;
}

static void look_done(struct store_read *look)
{
    struct shard *shard = look->owner;
    bool is_fresh = shard->look_serial == shard->serial;
    size_t left = look->id_count;

    shard->is_looking = false;
    mem_free(shard->look_ids);
    shard->look_ids = NULL;
    if (is_fresh && look->result == ERR_FENCED) {
        shard_fenced(shard); // Answers the callers: unknown for ever.
        return;
    }
    if (!is_fresh || look->result != 0) {
        shard_retry_later(shard);
        return;
    }
    for (struct list *link; left > 0 && (link = list_take_first(&shard->unknown)) != NULL; left--) {
        struct call *call = CONTAINER_OF(link, struct call, link);

        judge_unknown(shard, call, find_row(look, call->core_seq));
    }
    call_look(shard);
    shard_touch(shard); // It may load now.
}

void call_look(struct shard *shard)
{
    struct broker *broker = shard->broker;
    size_t count = 0;

    if (shard->is_looking || list_is_empty(&shard->unknown) || shard->state != SHARD_LOADING ||
        broker->now.boot < shard->retry_at) {
        return;
    }
    shard->look_ids = mem_new(SLICE_ROW_COUNT_MAX, sizeof(*shard->look_ids));
    if (shard->look_ids == NULL) {
        return;
    }
    list_foreach (link, &shard->unknown) {
        const struct call *call = CONTAINER_OF(link, struct call, link);

        if (count < SLICE_ROW_COUNT_MAX) {
            shard->look_ids[count++] =
                (struct task_id){.seq = call->core_seq, .slot = call->task.id.slot};
        }
    }
    shard->look = (struct store_read){
        .kind = STORE_READ_TASKS, .ids = shard->look_ids, .id_count = count, .cb = look_done};
    shard->is_looking = shard_read(shard, &shard->look, &shard->look_serial);
    if (!shard->is_looking) {
        mem_free(shard->look_ids);
        shard->look_ids = NULL;
    }
}
