/* SPDX-License-Identifier: Apache-2.0
 *
 * What a task waits for.
 */
#include "broker/core/explain.h"

#include "broker/core/entry.h"
#include "broker/core/order.h"
#include "broker/core/park.h"
#include "broker/core/window.h"

enum task_state explain_state(const struct entry *entry, const struct task *row)
{
    if (entry != NULL) {
        switch ((enum entry_state)entry->state) {
        case ENTRY_RUNNING:
        case ENTRY_HELD:
        case ENTRY_CLAIMED:
        case ENTRY_CLAIMING:
        case ENTRY_SETTLING:
            return TASK_STATE_RUNNING;
        case ENTRY_READY:
            return TASK_STATE_READY;
        case ENTRY_INSERTING:
        case ENTRY_WAITING:
        case ENTRY_ASLEEP:
        case ENTRY_CHANGING:
        case ENTRY_DELETING:
        case ENTRY_VISITING:
            break;
        }
    }
    return row->failures > 0 ? TASK_STATE_RETRYING : TASK_STATE_WAITING;
}

enum task_state broker_inspect_task(const struct broker *broker, uint32_t shard,
                                    const struct task *row, uint32_t *attempt)
{
    enum task_state state = explain_state(entry_peek(&broker->shards[shard], row->id.seq), row);

    *attempt = state == TASK_STATE_RUNNING ? row->attempt + 1 : 0;
    return state;
}

/* Due, and not claimed: what holds it up. */
static void explain_ready(const struct broker *broker, const struct queue_state *queue,
                          struct task_wait *out)
{
    out->limit = queue->queue.concurrency_max;
    out->running = queue->flights;
    if (!queue->is_known) {
        out->reason = TASK_WAIT_QUEUE_UNKNOWN;
    } else if (queue->is_held) {
        out->reason = TASK_WAIT_PAUSED;
        out->until_ms =
            queue->queue.paused_until_ms == 0 ? WALL_NEVER : queue->queue.paused_until_ms;
    } else if (queue->flights + queue->fetching >= queue->queue.concurrency_max) {
        out->reason = TASK_WAIT_CONCURRENCY;
    } else if (broker->now.boot < queue->full_until) {
        out->reason = TASK_WAIT_TARGET;
    } else {
        out->reason = TASK_WAIT_LINE;
    }
}

/* Not in memory, or waiting there for its time. */
static void explain_waiting(const struct shard *shard, const struct task *row,
                            struct task_wait *out)
{
    const struct broker *broker = shard->broker;
    const struct queue_state *queue = map_find(&broker->queue_index, row->queue);

    if (row->due_ms > lower_ms(broker, shard->database)) {
        out->reason = row->failures + row->unknowns > 0 ? TASK_WAIT_BACKOFF : TASK_WAIT_DUE;
        out->until_ms = row->due_ms;
    } else if (window_is_ahead(shard, place_at(row->due_ms, row->id.seq)) ||
               (queue != NULL && queue->line_len == 0 && !queue->is_held && queue_has_room(queue) &&
                park_find(shard, row->queue) != NULL)) {
        out->reason = TASK_WAIT_LOADING;
    } else if (queue != NULL) {
        explain_ready(broker, queue, out);
    } else {
        out->reason = TASK_WAIT_QUEUE_UNKNOWN;
    }
}

static void explain_flight(const struct broker *broker, const struct entry *entry,
                           struct task_wait *out)
{
    out->reason = TASK_WAIT_ATTEMPT;
    if (!entry->flying) {
        return;
    }
    out->until_ms = entry->body.flight->attempt.deadline_ms;
    if (entry->state == ENTRY_CLAIMED &&
        broker->now.boot < entry_queue(broker, entry)->full_until) {
        out->reason = TASK_WAIT_TARGET;
    }
}

/* Its time has come, and it waits for another one of its order key. */
static bool explain_order(const struct shard *shard, const struct entry *entry,
                          const struct task *row, struct task_wait *out)
{
    bool is_quiet = entry == NULL || entry->state == ENTRY_WAITING || entry->state == ENTRY_READY ||
                    entry->state == ENTRY_VISITING;

    if (!is_quiet || row->due_ms > lower_ms(shard->broker, shard->database)) {
        return false;
    }
    out->behind = order_head(shard, row);
    if (out->behind.seq != 0) {
        out->reason = TASK_WAIT_ORDER;
    }
    return out->behind.seq != 0;
}

void broker_explain(const struct broker *broker, uint32_t shard_id, const struct task *row,
                    struct task_wait *out)
{
    const struct shard *shard = &broker->shards[shard_id];
    const struct entry *entry = entry_peek(shard, row->id.seq);

    *out = (struct task_wait){.until_ms = WALL_NEVER};
    if (explain_order(shard, entry, row, out)) {
        return;
    }
    if (entry == NULL) {
        explain_waiting(shard, row, out);
        return;
    }
    switch ((enum entry_state)entry->state) {
    case ENTRY_WAITING:
    case ENTRY_ASLEEP:
    case ENTRY_VISITING:
        explain_waiting(shard, row, out);
        break;
    case ENTRY_READY:
        explain_ready(broker, entry_queue(broker, entry), out);
        break;
    case ENTRY_INSERTING:
    case ENTRY_CLAIMING:
    case ENTRY_CLAIMED:
    case ENTRY_RUNNING:
        explain_flight(broker, entry, out);
        break;
    case ENTRY_HELD: // Its wheel runs to the deadline.
        out->reason = TASK_WAIT_OUTCOME;
        break;
    case ENTRY_SETTLING:
    case ENTRY_CHANGING:
    case ENTRY_DELETING:
        out->reason = TASK_WAIT_WRITE;
        break;
    }
}
