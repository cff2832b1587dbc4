/* SPDX-License-Identifier: Apache-2.0
 *
 * Claims and their ends.
 */
#include "broker/core/claim.h"

#include "broker/core/dispatch.h"
#include "broker/core/entry.h"
#include "broker/core/fetch.h"
#include "broker/core/line.h"
#include "broker/core/order.h"
#include "broker/core/retry.h"
#include "broker/core/shard.h"
#include "broker/core/task_life.h"
#include "broker/core/visit.h"
#include "broker/core/window.h"
#include "broker/core/writer.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

/* A zeroed flight in the list of all. NULL: there are too many. */
static struct flight *flight_take(struct broker *broker)
{
    struct flight *flight = pool_take(&broker->flights);

    if (flight != NULL) {
        list_init(&flight->attempt.link);
        list_add(&broker->all_flights, &flight->link);
    }
    return flight;
}

static struct flight *flight_new(struct shard *shard, struct entry *entry)
{
    struct broker *broker = shard->broker;
    struct queue_state *queue = entry_queue(broker, entry);
    struct flight *flight;
    wall_ms claim_ms = upper_ms(broker, shard->database);
    wall_ms start_by_ms;
    wall_ms expire_ms;

    if (!queue_has_room(queue) || claim_ms == WALL_NEVER) {
        return NULL;
    }
    flight = flight_take(broker);
    if (flight == NULL) {
        return NULL;
    }
    flight->entry = entry;
    flight->block = entry->body.block;
    flight->attempt.id = (struct task_id){.seq = entry->seq, .slot = entry->slot};
    flight->attempt.shard = shard->id;
    flight->attempt.database = shard->database;
    flight->attempt.queue = queue->queue.id;
    flight->attempt.attempt = entry->attempt + 1;
    flight->attempt.due_ms = entry->due_ms;
    start_by_ms = time_max(entry->due_ms, claim_ms) + broker->databases[shard->database].start_ms;
    expire_ms = block_expire_ms(entry->body.block);
    if (expire_ms != 0) {
        start_by_ms = time_min(start_by_ms, expire_ms);
    }
    flight->attempt.expire_ms = expire_ms;
    flight->attempt.start_by_ms = start_by_ms;
    flight->attempt.timeout_ms = queue->queue.attempt_timeout_ms;
    flight->attempt.deadline_ms = start_by_ms + flight->attempt.timeout_ms + DEADLINE_MARGIN_MS;
    flight->attempt.payload = block_payload(flight->block);
    flight->attempt.key = block_key(flight->block);
    flight->attempt.tags = block_tags(flight->block);
    flight->attempt.order_key = block_order_key(flight->block);
    entry->body.flight = flight;
    entry->flying = 1;
    queue->flights++;
    return flight;
}

/* A claim of a row of ours has ended, known to us or not. */
static void group_leave(struct broker *broker, uint32_t database, struct group *group, bool known)
{
    if (group == NULL) {
        return;
    }
    REQUIRE(group->live > 0);
    group->live--;
    group->is_tainted = group->is_tainted || !known;
    if (group->live == 0) {
        if (!group->is_tainted) {
            writer_drop_row(&broker->databases[database].writer, group->row);
        }
        pool_give(&broker->groups, group);
    }
}

/* The target's words, if it ended as one of the two; bytes, may hold anything. */
static struct slice flight_text(const struct flight *flight, bool is_done)
{
    if (is_done != (flight->attempt.outcome == OUTCOME_DONE)) {
        return (struct slice){NULL, 0};
    }
    return (struct slice){(const uint8_t *)flight->text, flight->text_len};
}

static struct slice flight_error(const struct flight *flight)
{
    return flight_text(flight, false);
}

/* An outcome that we cannot record because the shard has gone: its owner may want to know. */
static void report(struct broker *broker, const struct flight *flight)
{
    struct outbound *outbound = broker->env.outbound;
    enum shard_state state = broker->shards[flight->attempt.shard].state;
    struct report report = {.id = flight->attempt.id,
                            .shard = flight->attempt.shard,
                            .attempt = flight->attempt.attempt,
                            .outcome = flight->attempt.outcome,
                            .retry_after_ms = flight->attempt.retry_after_ms,
                            .deadline_ms = flight->attempt.deadline_ms,
                            .error_text = flight_error(flight),
                            .response = flight_text(flight, true)};

    if (outbound->report != NULL && flight->is_started && flight->is_ended &&
        report.outcome != OUTCOME_UNKNOWN && report.outcome != OUTCOME_NOT_STARTED &&
        (state == SHARD_IDLE || state == SHARD_RELEASING)) {
        outbound->report(outbound, &report);
    }
}

void flight_keep_text(struct broker *broker, struct flight *flight, struct slice text)
{
    const struct queue *queue = broker_queue_find(broker, flight->attempt.queue);
    bool is_done = flight->attempt.outcome == OUTCOME_DONE;
    size_t max = is_done ? RESPONSE_BYTES_MAX : ERROR_TEXT_BYTES_MAX;

    if (text.len == 0 || flight->text != NULL ||
        (is_done && (queue == NULL || queue->result_memory_ms == 0))) {
        return;
    }
    if (is_done && text.len > max) {
        return; // Half a response is of no use.
    }
    text.len = text.len < max ? text.len : max;
    flight->text = mem_copy(text.data, text.len);
    flight->text_len = flight->text == NULL ? 0 : (uint32_t)text.len;
}

void flight_end(struct broker *broker, struct flight *flight, bool known)
{
    struct queue_state *queue = map_find(&broker->queue_index, flight->attempt.queue);

    REQUIRE(queue != NULL && queue->flights > 0 && flight->entry == NULL);
    if (!known) {
        report(broker, flight);
    }
    order_on_flight_end(broker, flight);
    queue->flights--;
    list_del(&flight->link);
    group_leave(broker, flight->attempt.database, flight->group, known);
    mem_free(flight->block);
    mem_free(flight->text);
    pool_give(&broker->flights, flight);
}

/* Whether a shard is what it will be for a while: not on its way to find its flights again, or to
 * leave them to its next owner. */
static bool is_settled(const struct shard *shard)
{
    return shard->state == SHARD_IDLE || shard->state == SHARD_RELEASING ||
           (shard->state == SHARD_ACTIVE && shard->is_loaded);
}

void flight_check(struct broker *broker, struct flight *flight)
{
    struct shard *shard = &broker->shards[flight->attempt.shard];

    if (flight->entry != NULL || flight->is_sent || (flight->is_started && !flight->is_ended) ||
        (flight->is_adrift && !is_settled(shard))) {
        return;
    }
    if (flight->is_adrift && visit_home(shard, flight)) {
        return;
    }
    if (flight->is_adrift) {
        (void)map_del(&shard->adrift, (uint64_t)flight->attempt.id.seq);
    }
    flight_end(broker, flight, false);
}

void claim_clear_adrift(struct shard *shard)
{
    struct flight *over[64];
    size_t count;

    do {
        struct map_iter iter = {0};
        struct flight *flight;

        count = 0;
        while (count < ARRAY_COUNT(over) && (flight = map_next(&shard->adrift, &iter)) != NULL) {
            if (!flight->is_sent && (!flight->is_started || flight->is_ended) &&
                flight->visit_serial != shard->serial) {
                over[count++] = flight;
            }
        }
        for (size_t i = 0; i < count; i++) {
            flight_check(shard->broker, over[i]);
        }
    } while (count == ARRAY_COUNT(over));
}

struct flight *claim_adopt(struct shard *shard, struct entry *entry, const struct report *report)
{
    struct broker *broker = shard->broker;
    struct queue_state *queue = entry_queue(broker, entry);
    struct flight *flight = flight_take(broker);

    if (flight == NULL) {
        return NULL;
    }
    flight->attempt.outcome = report->outcome;
    flight_keep_text(broker, flight,
                     report->outcome == OUTCOME_DONE ? report->response : report->error_text);
    flight->block = entry->body.block;
    flight->entry = entry;
    flight->is_started = true;
    flight->is_ended = true;
    flight->attempt.id = report->id;
    flight->attempt.shard = shard->id;
    flight->attempt.database = shard->database;
    flight->attempt.queue = queue->queue.id;
    flight->attempt.attempt = report->attempt;
    flight->attempt.deadline_ms = report->deadline_ms;
    flight->attempt.retry_after_ms = report->retry_after_ms;
    entry_unlink(shard, entry);
    entry->body.flight = flight;
    entry->flying = 1;
    queue->flights++;
    entry_move(entry, ENTRY_RUNNING);
    return flight;
}

void claim_land(struct broker *broker, struct entry *entry, bool known)
{
    struct flight *flight = entry->body.flight;

    if (flight->is_outdated) {
        flight->block->has_payload = false;
    }
    entry->body.block = block_shed(flight->block);
    entry->flying = 0;
    flight->block = NULL;
    flight->entry = NULL;
    flight_end(broker, flight, known);
}

void claim_note(struct shard *shard, struct flight *flight)
{
    struct note note = {.kind = NOTE_CLAIM, .flight = flight, .entry = flight->entry};
    struct store_op *op = writer_add(shard, &note);

    op->kind = STORE_CLAIM;
    op->task.id = flight->attempt.id;
    op->expected_attempt = flight->attempt.attempt - 1;
    op->attempt = flight->attempt.attempt;
    op->deadline_ms = flight->attempt.deadline_ms;
    op->is_known = flight->entry->state == ENTRY_CLAIMING; // Else it is being inserted.
    flight->is_sent = true;
    if (op->is_known) {
        writer_hurry_claim(shard, flight->attempt.due_ms);
    }
}

/* May the time of a task have passed in which an attempt may start? No attempt is begun then. */
static bool may_be_expired(const struct shard *shard, const struct entry *entry)
{
    wall_ms expire_ms = block_expire_ms(entry_block(entry));

    return expire_ms != 0 && upper_ms(shard->broker, shard->database) > expire_ms;
}

/* What the end of a task says about its key, and about its result if the queue keeps results. */
static void fill_end(const struct shard *shard, const struct entry *entry, enum task_end end,
                     struct store_op *op)
{
    const struct queue *queue = &entry_queue(shard->broker, entry)->queue;

    op->kind = STORE_DELETE;
    op->is_keyless = (entry->flags & ENTRY_KEYED) == 0;
    op->now_ms = lower_ms(shard->broker, shard->database);
    op->key_until_ms = time_add(op->now_ms, queue->key_memory_ms);
    op->end = end;
    if (queue->result_memory_ms > 0) {
        op->keep_until_ms = time_add(op->now_ms, queue->result_memory_ms);
    }
}

/* No attempt starts any more: the task ends. False: no room for that now. */
static bool expire(struct shard *shard, struct entry *entry)
{
    struct note note = {.kind = NOTE_EXPIRE, .entry = entry};
    struct store_op *op;

    // A queue that is not known cannot say how long it remembers.
    if (!entry_queue(shard->broker, entry)->is_known || !writer_has_room(shard, WRITER_SETTLE)) {
        return false;
    }
    op = writer_add(shard, &note);
    op->task.id = (struct task_id){.seq = entry->seq, .slot = entry->slot};
    op->task.queue = entry_queue(shard->broker, entry)->queue.id;
    op->task.failures = entry->failures;
    op->expected_attempt = entry->attempt;
    op->attempt = entry->attempt;
    fill_end(shard, entry, TASK_END_EXPIRED, op);
    writer_hurry_awaited(shard, entry, op);
    entry_move(entry, ENTRY_DELETING);
    return true;
}

/* The clock is not known so well that the end of its time has come for sure, or has not: look again
 * when it has. */
static void look_when_expired(struct shard *shard, struct entry *entry)
{
    span_ms lead_ms = shard->broker->databases[shard->database].lead_ms;

    entry_wait(shard, entry, time_add(block_expire_ms(entry_block(entry)), lead_ms + 1));
}

/* It will not be claimed any more. */
static enum claim_try refuse_expired(struct shard *shard, struct entry *entry)
{
    if (lower_ms(shard->broker, shard->database) > block_expire_ms(entry_block(entry))) {
        return expire(shard, entry) ? CLAIM_SENT : CLAIM_NO_ROOM;
    }
    look_when_expired(shard, entry);
    return CLAIM_SENT;
}

void claim_expired(struct shard *shard, struct entry *entry, int result)
{
    struct broker *broker = shard->broker;

    if (result == ERR_UNAVAILABLE) {
        entry_place(shard, entry);
        return;
    }
    if (result == 0) {
        broker->stats.expired++;
        entry_queue(broker, entry)->counts.expired++;
        tell(broker, "expire", shard, entry->seq, entry->attempt, 0);
    } else {
        tell(broker, "mismatch", shard, entry->seq, result, NOTE_EXPIRE);
    }
    visit_forget(shard, entry->seq);
    order_on_gone(shard, entry);
    entry_free(shard, entry);
}

/* It is not its turn by its order key. */
static void step_back(struct shard *shard, struct entry *entry, enum order_verdict verdict)
{
    if (verdict == ORDER_BEHIND) {
        tell(shard->broker, "behind", shard, entry->seq, entry->due_ms, 0);
        entry_free(shard, entry);
        return;
    }
    entry_wait(shard, entry,
               lower_ms(shard->broker, shard->database) + WITHDRAWN_MS +
                   shard->broker->databases[shard->database].lead_ms);
}

enum claim_try claim_ask(struct shard *shard, struct entry *entry)
{
    struct broker *broker = shard->broker;
    struct queue_state *queue = entry_queue(broker, entry);
    enum order_verdict verdict;
    struct flight *flight;

    if (may_be_expired(shard, entry)) {
        return refuse_expired(shard, entry);
    }
    verdict = order_ask(shard, entry);
    if (verdict != ORDER_GO) {
        step_back(shard, entry, verdict);
        return CLAIM_SENT;
    }
    if (!queue_has_room(queue) || !writer_has_room(shard, WRITER_CLAIM)) {
        return CLAIM_NO_ROOM;
    }
    if (!entry->body.block->has_payload) {
        return fetch_payload(shard, entry) == 0 ? CLAIM_FETCHING : CLAIM_NO_ROOM;
    }
    flight = flight_new(shard, entry);
    if (flight == NULL) {
        return CLAIM_NO_ROOM;
    }
    entry_move(entry, ENTRY_CLAIMING);
    claim_note(shard, flight);
    return CLAIM_SENT;
}

struct flight *claim_prepare(struct shard *shard, struct entry *entry)
{
    struct queue_state *queue = entry_queue(shard->broker, entry);
    struct flight *flight;

    if (!line_is_free(queue) || may_be_expired(shard, entry) || entry->body.block->order_len > 0) {
        return NULL; // Others have waited longer, or may be before it; or it will not run at all.
    }
    flight = flight_new(shard, entry);
    if (flight != NULL) {
        entry->state = ENTRY_INSERTING; // Born in this state instead of VISITING.
    }
    return flight;
}

void claim_done(struct shard *shard, struct flight *flight, int result)
{
    struct broker *broker = shard->broker;
    struct entry *entry = flight->entry;
    bool was_inserting = entry->state == ENTRY_INSERTING;

    flight->is_sent = false;
    if (result == 0) {
        broker->stats.claims++;
        tell(broker, "claim", shard, entry->seq, flight->attempt.attempt,
             flight->attempt.deadline_ms);
        entry_move(entry, ENTRY_CLAIMED);
        if (shard->state == SHARD_DRAINING) {
            claim_withdraw(shard, entry);
        } else {
            entry_wake_at(shard, entry, entry->due_ms);
        }
        return;
    }
    claim_land(broker, entry, true); // Certain that it was not claimed: the row does not count it.
    if (was_inserting || result == ERR_NOT_FOUND) {
        // Its insert failed and is answered beside us, or the row is gone, which only a bug does.
        tell(broker, was_inserting ? "insert-failed" : "mismatch", shard, entry->seq, result, 0);
        order_on_gone(shard, entry);
        entry_free(shard, entry);
        return;
    }
    if (shard->state == SHARD_DRAINING) {
        entry_free(shard, entry); // The next owner's to claim.
        return;
    }
    entry_move(entry, ENTRY_READY);
    list_init(&entry->ready);
    line_add(broker, entry);
}

void claim_join(struct shard *shard, struct entry *entry, struct flight *flight)
{
    struct block *block = entry->body.block;
    const struct claim *claim = map_find(&shard->inherited, (uint64_t)entry->seq);

    // Ours may have been lost in a failover, and the one that is there be another with its number.
    if (claim != NULL && claim->attempt == flight->attempt.attempt) {
        flight->until_ms = claim->deadline_ms;
    }

    // The row may have been updated since the flight took its bytes: the next attempt reads them.
    if (flight->is_outdated || !slice_equal(block_payload(block), block_payload(flight->block))) {
        flight->is_outdated = true;
        flight->block->payload_len = block->payload_len;
    }
    block_set_order_ms(flight->block, block_order_ms(block));
    mem_free(block);
    entry->body.flight = flight;
    entry->flying = 1;
    flight->entry = entry;
}

void claim_part(struct shard *shard, struct entry *entry, bool keep)
{
    struct broker *broker = shard->broker;
    struct flight *flight = entry->body.flight;
    void *other;

    entry->body.block = NULL;
    entry->flying = 0;
    flight->entry = NULL;
    if (!flight->is_started && !flight->is_sent && (!keep || flight->group == NULL)) {
        flight_end(broker, flight, false); // Not claimed, or the next owner's to find.
        return;
    }
    if (flight->is_started && flight->is_ended && !keep && !flight->is_sent) {
        flight_end(broker, flight, false); // Its outcome is lost with the shard: unknown to all.
        return;
    }
    other = map_find(&shard->adrift, (uint64_t)flight->attempt.id.seq);
    if (other == NULL) {
        flight->is_adrift = map_put(&shard->adrift, (uint64_t)flight->attempt.id.seq, flight) == 0;
        // Without room in the map it floats alone, and is over when nothing is owed to it.
        flight_check(broker, flight);
        return;
    }
    flight->is_adrift = map_change(&shard->adrift, (uint64_t)flight->attempt.id.seq, flight) == 0;
    ((struct flight *)other)->is_adrift = false; // An older attempt: its outcome counts no more.
    flight_check(broker, other);
}

void claim_withdraw(struct shard *shard, struct entry *entry)
{
    struct flight *flight = entry->body.flight;

    REQUIRE(entry->state == ENTRY_CLAIMED && !flight->is_started);
    flight->is_ended = true;
    flight->attempt.outcome = OUTCOME_NOT_STARTED;
    claim_settle(shard, entry);
}

/* One more; what blocks its order key may fail more often than can be counted. */
static uint32_t count_up(uint16_t count)
{
    return count == UINT16_MAX ? count : count + 1U;
}

static void settle_as_dead(struct broker *broker, const struct shard *shard,
                           const struct queue *queue, struct store_op *op, struct slice text)
{
    op->kind = STORE_DEAD;
    op->now_ms = lower_ms(broker, shard->database);
    op->key_until_ms = time_add(op->now_ms, queue->key_memory_ms);
    op->error_text = text;
}

/* What the receiver said no to: again after a while, or never. */
static void settle_as_failed(struct broker *broker, const struct shard *shard,
                             const struct entry *entry, struct store_op *op)
{
    const struct flight *flight = entry->body.flight;
    const struct queue *queue = &entry_queue(broker, entry)->queue;
    struct retry_policy policy = order_retry_policy(queue, flight->block);
    struct retry_state state = {.failures = count_up(entry->failures),
                                .unknowns = entry->unknowns,
                                .first_due_ms = block_created_ms(flight->block),
                                .retry_after_ms = flight->attempt.retry_after_ms};
    wall_ms expire_ms = block_expire_ms(flight->block);
    wall_ms due_ms;

    op->task.failures = state.failures;
    op->task.unknowns = state.unknowns;
    if (retry_next(&policy, &state, lower_ms(broker, shard->database), prng_next(&broker->prng),
                   &due_ms) != RETRY_AGAIN) {
        settle_as_dead(broker, shard, queue, op, flight_error(flight));
        return;
    }
    if (expire_ms != 0 && due_ms > expire_ms) {
        fill_end(shard, entry, TASK_END_EXPIRED, op);
        return;
    }
    op->kind = STORE_CHANGE;
    op->set_due = true;
    op->set_counts = true;
    op->task.due_ms = time_max(due_ms, entry->due_ms); // An update in between holds.
    order_set_place(queue, flight->block, op);
}

/* A claim whose outcome nobody will learn any more: its deadline has passed. */
static void settle_as_unknown(struct broker *broker, const struct shard *shard,
                              const struct entry *entry, struct store_op *op)
{
    const struct queue_state *state = entry_queue(broker, entry);
    const struct queue *queue = &state->queue;

    op->task.failures = entry->failures;
    op->task.unknowns = count_up(entry->unknowns);
    if (state->is_known && queue->at_most_once) {
        settle_as_dead(broker, shard, queue, op,
                       slice_of("outcome unknown, not repeated: the queue is at most once"));
        return;
    }
    if (state->is_known &&
        op->task.unknowns >= order_retry_policy(queue, entry->body.block).unknowns_max) {
        settle_as_dead(broker, shard, queue, op, slice_of("outcome unknown too often"));
        return;
    }
    op->kind = STORE_CHANGE;
    op->set_due = true;
    op->set_counts = true;
    op->task.due_ms = time_max(entry->due_ms, lower_ms(broker, shard->database));
    order_set_place(queue, entry->body.block, op);
}

/* Fill in what the outcome asks for. */
static void settle_fill(struct shard *shard, struct entry *entry, struct store_op *op)
{
    struct broker *broker = shard->broker;
    const struct queue *queue = &entry_queue(broker, entry)->queue;

    if (!entry->flying) {
        settle_as_unknown(broker, shard, entry, op);
        return;
    }
    switch (entry->body.flight->attempt.outcome) {
    case OUTCOME_DONE:
        op->task.failures = entry->failures;
        op->response = flight_text(entry->body.flight, true);
        fill_end(shard, entry, TASK_END_DONE, op);
        break;
    case OUTCOME_OBSOLETE:
        op->task.failures = entry->failures;
        fill_end(shard, entry, TASK_END_OBSOLETE, op);
        break;
    case OUTCOME_RETRY:
        settle_as_failed(broker, shard, entry, op);
        break;
    case OUTCOME_DEAD:
        op->task.failures = entry->failures + 1U;
        op->task.unknowns = entry->unknowns;
        settle_as_dead(broker, shard, queue, op, flight_error(entry->body.flight));
        break;
    case OUTCOME_UNKNOWN:
        UNREACHABLE(); // Held until its deadline, and then without a flight.
    case OUTCOME_NOT_STARTED:
        op->kind = STORE_CHANGE;
        break;
    }
}

/* The operation that ends a claim. shape: state SETTLING, and there is room. */
static void settle_note(struct shard *shard, struct entry *entry)
{
    struct broker *broker = shard->broker;
    struct note note = {.kind = NOTE_SETTLE, .entry = entry};
    struct store_op *op;

    if (entry->flying) {
        note.flight = entry->body.flight;
        note.flight->is_sent = true;
    }
    op = writer_add(shard, &note);
    op->task.id = (struct task_id){.seq = entry->seq, .slot = entry->slot};
    op->task.queue = entry_queue(broker, entry)->queue.id;
    op->expected_attempt = entry->attempt;
    op->attempt = entry->attempt + 1;
    settle_fill(shard, entry, op);
    writer_hurry_awaited(shard, entry, op);
}

void claim_settle(struct shard *shard, struct entry *entry)
{
    struct database *database = &shard->broker->databases[shard->database];

    entry_unlink(shard, entry);
    entry_move(entry, ENTRY_SETTLING);
    list_init(&entry->ready);
    if (!list_is_empty(&database->unsettled) || !writer_has_room(shard, WRITER_SETTLE)) {
        list_add(&database->unsettled, &entry->ready); // Behind those that have waited longer.
        return;
    }
    settle_note(shard, entry);
}

static void count_settled(struct broker *broker, const struct flight *flight,
                          const struct entry *entry, const struct store_op *op)
{
    struct queue_counts *counts = &entry_queue(broker, entry)->counts;

    switch (op->kind) {
    case STORE_DELETE:
        if (op->end == TASK_END_EXPIRED) {
            broker->stats.expired++;
            counts->expired++;
        } else {
            broker->stats.done++;
            counts->done++;
        }
        break;
    case STORE_DEAD:
        broker->stats.dead++;
        counts->died++;
        break;
    case STORE_CHANGE:
        if (flight != NULL && flight->attempt.outcome == OUTCOME_NOT_STARTED) {
            broker->stats.unclaims++;
        } else {
            broker->stats.retried++;
            counts->retried++;
        }
        break;
    case STORE_INSERT:
    case STORE_CLAIM:
    case STORE_REDRIVE:
    case STORE_PURGE:
        UNREACHABLE();
    }
}

/* The row lives on: the claim is over, the next attempt is one higher. */
static void settle_go_on(struct shard *shard, struct entry *entry, const struct store_op *op)
{
    bool withdrawn = entry->flying && entry->body.flight->attempt.outcome == OUTCOME_NOT_STARTED;
    bool pause = withdrawn && entry->body.flight->is_started;

    entry->attempt = op->attempt;
    if (op->set_due) {
        entry->due_ms = op->task.due_ms;
    }
    if (op->set_counts) {
        entry->failures = (uint16_t)op->task.failures;
        entry->unknowns = (uint16_t)op->task.unknowns;
    }
    if (entry->flying) {
        claim_land(shard->broker, entry, true);
    }
    if (op->set_order) {
        block_set_order_ms(entry->body.block, op->task.order_ms);
    }
    order_on_moved(shard, entry);
    if (pause && window_has(shard, op->task.queue, entry->due_ms, entry->seq)) {
        // The outbound had no room: not in a hot loop.
        entry_wait(shard, entry,
                   lower_ms(shard->broker, shard->database) + WITHDRAWN_MS +
                       shard->broker->databases[shard->database].lead_ms);
        return;
    }
    entry_place(shard, entry);
}

void claim_settled(struct shard *shard, struct entry *entry, struct flight *flight,
                   const struct store_op *op, int result)
{
    struct broker *broker = shard->broker;

    if (flight != NULL) {
        flight->is_sent = false;
    }
    if (entry == NULL) {
        if (flight != NULL) {
            flight_check(broker, flight);
        }
        return;
    }
    if (result == ERR_UNAVAILABLE) {
        list_add(&broker->databases[shard->database].unsettled, &entry->ready);
        return;
    }
    if (result != 0) {
        tell(broker, "mismatch", shard, entry->seq, result, op->kind);
        if (entry->flying) {
            claim_land(broker, entry, false);
        }
        order_on_gone(shard, entry);
        entry_free(shard, entry);
        return;
    }
    count_settled(broker, flight, entry, op);
    visit_forget(shard, entry->seq);
    tell(broker, "settle", shard, entry->seq, op->attempt, op->kind);
    if (op->kind == STORE_CHANGE) {
        settle_go_on(shard, entry, op);
        return;
    }
    if (entry->flying) {
        claim_land(broker, entry, true);
    }
    order_on_gone(shard, entry);
    entry_free(shard, entry);
}

/* As many as find room: behind a commit that is slow all outcomes of a drain wait here, and most
 * turns of the loop have room for none. */
static void settle_waiting(struct broker *broker, struct database *database)
{
    struct list *link;

    if (broker->now.boot < database->writer.retry_at) {
        return;
    }
    while ((link = list_first(&database->unsettled)) != NULL) {
        struct entry *entry = CONTAINER_OF(link, struct entry, ready);
        struct shard *shard = &broker->shards[entry->shard];

        if (!writer_has_room(shard, WRITER_SETTLE)) {
            return;
        }
        list_del(&entry->ready);
        settle_note(shard, entry);
    }
}

void claim_step(struct broker *broker)
{
    for (uint32_t i = 0; i < broker->options.database_count; i++) {
        settle_waiting(broker, &broker->databases[i]);
    }
}
