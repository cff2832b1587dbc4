/* SPDX-License-Identifier: Apache-2.0
 *
 * What each kind of call does to its task.
 */
#include "broker/core/call_task.h"

#include "broker/core/call_life.h"
#include "broker/core/claim.h"
#include "broker/core/dispatch.h"
#include "broker/core/entry.h"
#include "broker/core/explain.h"
#include "broker/core/order.h"
#include "broker/core/reading.h"
#include "broker/core/recent.h"
#include "broker/core/shard.h"
#include "broker/core/task_life.h"
#include "broker/core/window.h"
#include "broker/core/writer.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

/* call.core_step of a CALL_CREATE. */
enum call_step {
    CALL_STEP_FIRST = 0, /* the key must be free */
    CALL_STEP_TAKE_KEY   /* the key may be taken from call.found */
};

/* A create this near to its due time is claimed in the same batch: within so many leads. */
#define NEAR_LEADS 2

/* The due time that a call asks for: a delay counts from the latest the clock may show. */
static int call_due(const struct shard *shard, const struct call *call, wall_ms *due_ms)
{
    wall_ms upper = upper_ms(shard->broker, shard->database);

    *due_ms = call->task.due_ms;
    if (!call->is_delay) {
        return 0;
    }
    if (upper == WALL_NEVER) {
        return ERR_UNAVAILABLE; // The clock is not known yet.
    }
    *due_ms = time_min(time_add(upper, call->delay_ms), DUE_WALL_MS_MAX);
    return 0;
}

/* The next id of a shard, or 0 if the epoch has none left. */
static int64_t next_seq(struct shard *shard)
{
    if (shard->counter >= TASK_COUNTER_MAX) {
        shard_unknown(shard); // A new epoch has new ids.
        return 0;
    }
    shard->counter++;
    return task_seq(shard->epoch, shard->counter);
}

static void fill_insert(struct shard *shard, const struct call *call, struct store_op *op)
{
    op->kind = STORE_INSERT;
    op->task = call->task;
    op->now_ms = lower_ms(shard->broker, shard->database);
    op->key_replaces = call->core_step == CALL_STEP_TAKE_KEY ? call->found : (struct task_id){0};
}

/* Have the payload at hand, however large: it is needed at once. */
static bool take_payload(struct entry *entry, const struct call *call)
{
    struct block *block;

    if (entry->body.block->has_payload) {
        return true;
    }
    block = block_new(&call->task);
    if (block == NULL) {
        return false;
    }
    mem_free(entry->body.block);
    entry->body.block = block;
    return true;
}

/* The new task's entry, if it is due so soon that its claim goes along. NULL: it does not. */
static struct entry *near_entry(struct shard *shard, const struct call *call)
{
    const struct database *database = &shard->broker->databases[shard->database];
    wall_ms near_ms =
        time_add(lower_ms(shard->broker, shard->database), database->lead_ms * NEAR_LEADS);
    struct entry *entry;

    if (call->task.due_ms > near_ms ||
        shard->broker->now.database[shard->database].lower_us == INT64_MIN) {
        return NULL;
    }
    entry = entry_new(shard, &call->task);
    if (entry != NULL && (!take_payload(entry, call) || claim_prepare(shard, entry) == NULL)) {
        entry_free(shard, entry);
        entry = NULL;
    }
    return entry;
}

/* Add the operations of a create: the old holder's end if it is displaced, the insert, the claim.
 */
static void add_insert(struct shard *shard, struct call *call)
{
    struct entry *entry = near_entry(shard, call);
    struct note note = {
        .kind = NOTE_INSERT, .entry = entry, .call = call, .is_paired = entry != NULL};

    fill_insert(shard, call, writer_add(shard, &note));
    if (entry != NULL) {
        claim_note(shard, entry->body.flight);
    }
}

/* When no attempt may start any more, if the call has not said it. */
static void set_expiry(const struct broker *broker, struct call *call)
{
    const struct queue *queue = broker_queue_find(broker, call->task.queue);

    if (call->task.expire_ms == 0 && queue != NULL && queue->expire_after_ms > 0) {
        call->task.expire_ms = time_add(call->task.due_ms, queue->expire_after_ms);
    }
}

void call_create(struct shard *shard, struct call *call)
{
    struct broker *broker = shard->broker;
    const struct queue *queue = broker_queue_find(broker, call->task.queue);
    int64_t seq = 0;
    int err = ERR_CONFLICT;

    // Here as well as at the edge: a call may have waited while its queue began to drain.
    if (queue == NULL || !queue->is_draining) {
        seq = next_seq(shard);
        err = seq == 0 ? ERR_UNAVAILABLE : call_due(shard, call, &call->task.due_ms);
    }
    if (err != 0) {
        call_answer(broker, call, err);
        return;
    }
    if (call->key_policy == KEY_REPLACE && call->replace_latest_ms > 0) {
        call->task.due_ms = time_min(call->task.due_ms, call->replace_latest_ms);
    }
    call->is_delay = false; // Settled once: a second try must not move it.
    call->task.id.seq = seq;
    call->task.attempt = 0;
    call->task.failures = 0;
    call->task.unknowns = 0;
    call->task.created_ms = lower_ms(broker, shard->database);
    call->task.payload_len = (uint32_t)call->task.payload.len;
    call->task.order_ms = call->task.due_ms;
    set_expiry(broker, call);
    call->core_seq = seq;
    call->core_step = CALL_STEP_FIRST;
    add_insert(shard, call);
}

void call_dead(struct shard *shard, struct call *call)
{
    bool is_redrive = call->kind == CALL_REDRIVE;
    struct note note = {.kind = is_redrive ? NOTE_REDRIVE : NOTE_PURGE, .call = call};
    struct store_op *op;
    int err = is_redrive ? call_due(shard, call, &call->task.due_ms) : 0;

    if (err != 0) {
        call_answer(shard->broker, call, err);
        return;
    }
    call->is_delay = false;
    call->task.order_ms = call->task.due_ms;
    call->core_seq = call->task.id.seq;
    op = writer_add(shard, &note);
    op->kind = is_redrive ? STORE_REDRIVE : STORE_PURGE;
    op->task = call->task;
    op->expected_attempt = call->task.attempt;
    op->now_ms = lower_ms(shard->broker, shard->database);
}

/* Reads. */

static int submit_read(struct shard *shard, struct call *call, struct call_read *read,
                       store_read_cb cb)
{
    struct broker *broker = shard->broker;

    read->call = call;
    read->shard = shard;
    read->serial = shard->serial;
    read->read.database = shard->database;
    read->read.shard = shard->id;
    read->read.epoch = shard->epoch;
    read->read.cb = cb;
    read->read.owner = read;
    return broker->env.store->read(broker->env.store, &read->read);
}

/* It cannot be read. read: NULL if there was none to be had. */
static void refuse_read(struct shard *shard, struct call *call, struct call_read *read, int err)
{
    if (read != NULL) {
        pool_give(&shard->broker->reads, read);
    }
    call_answer(shard->broker, call, err);
}

/* What a read's failure means. True if the call is dealt with. */
static bool read_failed(struct shard *shard, struct call *call, const struct call_read *read)
{
    if (read->serial != shard->serial) {
        call_run(shard->broker, call); // The shard has changed hands or epochs: begin again.
        return true;
    }
    if (read->read.result == 0) {
        return false;
    }
    call_answer(shard->broker, call, read->read.result);
    if (read->read.result == ERR_FENCED) {
        shard_fenced(shard);
    }
    return true;
}

static void key_done(struct store_read *store_read)
{
    struct call_read *read = store_read->owner;
    struct shard *shard = read->shard;
    struct call *call = read->call;
    struct task_id id = store_read->existing;

    if (!read_failed(shard, call, read)) {
        if (id.seq == 0) {
            call_absent(shard, call, id);
        } else {
            call_by_id(shard, call, id);
        }
    }
    pool_give(&shard->broker->reads, read);
}

void call_read_key(struct shard *shard, struct call *call)
{
    struct call_read *read = pool_take(&shard->broker->reads);
    int err = ERR_FULL;

    if (read != NULL) {
        read->read = (struct store_read){.kind = STORE_READ_KEY,
                                         .queue = call->task.queue,
                                         .key = call->task.key,
                                         .now_ms = lower_ms(shard->broker, shard->database)};
        err = submit_read(shard, call, read, key_done);
    }
    if (err != 0) {
        refuse_read(shard, call, read, err);
    }
}

/* SCAN is answered inside the read's callback: the results are borrowed from it. */
static void scan_done(struct store_read *store_read)
{
    struct call_read *read = store_read->owner;
    struct shard *shard = read->shard;
    struct call *call = read->call;

    if (!read_failed(shard, call, read)) {
        *call->scan = *store_read;
        call->result = 0;
        shard->broker->call_count--;
        call->cb(call);
    }
    pool_give(&shard->broker->reads, read);
}

void call_scan(struct shard *shard, struct call *call)
{
    struct call_read *read = pool_take(&shard->broker->reads);
    int err = ERR_FULL;

    if (read != NULL) {
        read->read = *call->scan;
        read->read.now_ms = lower_ms(shard->broker, shard->database);
        err = submit_read(shard, call, read, scan_done);
    }
    if (err != 0) {
        refuse_read(shard, call, read, err);
    }
}

/* GET is answered inside the read's callback: the row is borrowed from it. */
static void answer_get(struct shard *shard, struct call *call, const struct task *row)
{
    const struct entry *entry = entry_peek(shard, row->id.seq);

    call->row = *row;
    call->state = explain_state(entry, row);
    call->attempt = call->state == TASK_STATE_RUNNING ? row->attempt + 1 : 0;
    call->result = 0;
    shard->broker->call_count--;
    call->cb(call);
}

/* Whether memory has a task meanwhile, and is newer than what was read. */
static bool has_by_now(struct shard *shard, struct task_id id)
{
    const struct entry *entry = entry_find(shard, id.seq);

    return entry != NULL && entry->slot == id.slot;
}

static void task_done(struct store_read *store_read)
{
    struct call_read *read = store_read->owner;
    struct shard *shard = read->shard;
    struct call *call = read->call;
    const struct task *row = store_read->row_count == 1 ? &store_read->rows[0] : NULL;
    bool is_old = reading_end(read);
    bool is_there = row != NULL && row->id.slot == read->id.slot;
    struct entry *entry;

    if (read_failed(shard, call, read)) {
        // Done.
    } else if (is_there && call->kind == CALL_GET) {
        answer_get(shard, call, row);
    } else if (call->kind != CALL_GET && has_by_now(shard, read->id)) {
        // Get goes by what was read: a row that people have deleted stays away, however often it is
        // read.
        call_by_id(shard, call, read->id);
    } else if (is_old) {
        call_read_task(shard, call, read->id);
    } else if (!is_there) {
        call_absent(shard, call, read->id);
    } else {
        entry = window_take(shard, row);
        if (entry == NULL) {
            call_answer(shard->broker, call, ERR_FULL);
        } else if (entry_is_busy(entry)) {
            call_by_id(shard, call, row->id);
        } else {
            call_act(shard, call, entry);
        }
    }
    pool_give(&shard->broker->reads, read);
}

void call_read_task(struct shard *shard, struct call *call, struct task_id id)
{
    struct call_read *read = pool_take(&shard->broker->reads);
    int err = ERR_FULL;

    if (read != NULL) {
        read->id = id;
        read->shard = shard;
        read->read = (struct store_read){.kind = STORE_READ_TASKS, .ids = &read->id, .id_count = 1};
    }
    if (read != NULL && reading_begin(read) == 0) {
        err = submit_read(shard, call, read, task_done);
        if (err != 0) {
            (void)reading_end(read);
        }
    }
    if (err != 0) {
        refuse_read(shard, call, read, err);
    }
}

/* Room for one more piece of work: there was some when the call came, but it has read since. */
static bool has_room(const struct shard *shard)
{
    return writer_has_room(shard, WRITER_CALL);
}

/* There is nothing to cancel; a repeat is answered as the cancel before it was. */
static void cancel_absent(struct shard *shard, struct call *call, struct task_id id,
                          bool was_issued)
{
    const struct recent *recent = recent_find(shard, id);

    call->cancel = was_issued ? CANCEL_GONE : CANCEL_NOT_FOUND;
    if (recent != NULL) {
        call->attempt = recent->attempt;
        call->cancel = recent->attempt > 0 ? CANCEL_STOPPED : CANCEL_CANCELLED;
    }
    call_answer(shard->broker, call, 0);
}

void call_absent(struct shard *shard, struct call *call, struct task_id id)
{
    int64_t epoch = id.seq >> TASK_COUNTER_BITS;
    int64_t counter = id.seq & TASK_COUNTER_MAX;
    // Ids are given out in order: above the newest of this epoch none was issued.
    bool was_issued = id.seq > 0 && (epoch < shard->epoch ||
                                     (epoch == shard->epoch && counter <= shard->counter));

    switch (call->kind) {
    case CALL_CREATE: // The key's old holder is over: its key is free to take.
        call->core_step = CALL_STEP_TAKE_KEY;
        if (has_room(shard)) {
            add_insert(shard, call);
        } else {
            call_answer(shard->broker, call, ERR_FULL);
        }
        return;
    case CALL_CANCEL:
        cancel_absent(shard, call, id, was_issued);
        return;
    case CALL_GET:
    case CALL_UPDATE:
        call_answer(shard->broker, call, was_issued ? ERR_GONE : ERR_NOT_FOUND);
        return;
    case CALL_SCAN:
    case CALL_REDRIVE:
    case CALL_PURGE:
        UNREACHABLE(); // Look for no row.
    }
}

/* Acts. */

/* A claim of this task may be running, or may have run: its attempt, else 0. */
static uint32_t running_attempt(const struct entry *entry)
{
    return entry->state == ENTRY_RUNNING || entry->state == ENTRY_HELD ? entry->attempt + 1 : 0;
}

/* Take a quiet entry out of wheel or line while a call's write is in flight. */
static void seize(struct shard *shard, struct entry *entry, enum entry_state state)
{
    entry_unlink(shard, entry);
    entry->flags &= (unsigned)~ENTRY_FETCHED & 7U;
    entry->fetches++;
    entry_move(entry, state);
}

static void fill_delete(const struct shard *shard, const struct entry *entry, struct store_op *op)
{
    const struct broker *broker = shard->broker;
    const struct queue_state *queue = entry_queue(broker, entry);

    op->kind = STORE_DELETE;
    op->is_keyless = (entry->flags & ENTRY_KEYED) == 0;
    op->task.id = (struct task_id){.seq = entry->seq, .slot = entry->slot};
    op->task.queue = queue->queue.id;
    op->expected_attempt = entry->attempt;
    op->now_ms = lower_ms(broker, shard->database);
    op->key_until_ms = time_add(op->now_ms, queue->queue.key_memory_ms);
}

static void act_cancel(struct shard *shard, struct call *call, struct entry *entry)
{
    struct note note = {.kind = NOTE_CANCEL, .entry = entry, .call = call};
    bool is_running = running_attempt(entry) > 0;

    if ((entry->flags & ENTRY_KEYED) != 0 && !entry_queue(shard->broker, entry)->is_known) {
        if (entry->state == ENTRY_VISITING) {
            entry_place(shard, entry);
        }
        call_wait(shard, call); // The queue, once it is known, says how long the key is held.
        return;
    }
    // One that is over may have run, though a redrive has forgotten its failures since: "cancelled"
    // would deny that.
    call->attempt = is_running ? running_attempt(entry) : entry->attempt;
    call->cancel = call->attempt > 0 ? CANCEL_STOPPED : CANCEL_CANCELLED;
    call->core_seq = entry->seq;
    fill_delete(shard, entry, writer_add(shard, &note));
    if (is_running) {
        entry->flags |= ENTRY_TOUCHED;
    } else {
        seize(shard, entry, ENTRY_DELETING);
    }
}

/* A new time is a new place among those of its order key; "at once" does not lose an earlier one.
 */
static void set_place(const struct shard *shard, const struct entry *entry, struct store_op *op)
{
    const struct block *block = entry_block(entry);

    if (block->order_len == 0 || !op->set_due) {
        return;
    }
    op->set_order = true;
    op->task.order_ms = op->task.due_ms;
    if (op->task.due_ms <= upper_ms(shard->broker, shard->database)) {
        op->task.order_ms = time_min(op->task.order_ms, block_order_ms(block));
    }
}

static void act_update(struct shard *shard, struct call *call, struct entry *entry)
{
    struct note note = {.kind = NOTE_UPDATE, .entry = entry, .call = call};
    bool is_claimed = entry->state == ENTRY_CLAIMED;
    struct store_op *op;
    int err = call_due(shard, call, &call->task.due_ms);

    if (err != 0) {
        if (entry->state == ENTRY_VISITING) {
            entry_place(shard, entry);
        }
        call_answer(shard->broker, call, err);
        return;
    }
    call->is_delay = false;
    call->attempt = running_attempt(entry);
    call->core_seq = entry->seq;
    op = writer_add(shard, &note);
    op->kind = STORE_CHANGE;
    op->task.id = (struct task_id){.seq = entry->seq, .slot = entry->slot};
    op->expected_attempt = entry->attempt;
    op->attempt = entry->attempt + (is_claimed ? 1U : 0U); // Ends a claim that has not started.
    op->set_due = call->set_due;
    op->set_payload = call->set_payload;
    op->task.due_ms = call->task.due_ms;
    op->task.payload = call->task.payload;
    op->task.payload_len = (uint32_t)call->task.payload.len;
    set_place(shard, entry, op);
    if (call->attempt > 0) {
        entry->flags |= ENTRY_TOUCHED;
        return;
    }
    seize(shard, entry, ENTRY_CHANGING);
    if (entry->flying) { // The claim is withdrawn by this very write.
        entry->body.flight->is_ended = true;
        entry->body.flight->attempt.outcome = OUTCOME_NOT_STARTED;
    }
}

/* A create takes the key of a pending task over: the old one ends unless it may be running. */
static void act_displace(struct shard *shard, struct call *call, struct entry *entry)
{
    struct note note = {.kind = NOTE_DISPLACE, .entry = entry, .is_paired = true};

    call->core_step = CALL_STEP_TAKE_KEY;
    if (running_attempt(entry) == 0) {
        struct store_op *op = writer_add(shard, &note);

        fill_delete(shard, entry, op);
        op->key_until_ms = 0;
        seize(shard, entry, ENTRY_DELETING);
    }
    add_insert(shard, call);
}

void call_act(struct shard *shard, struct call *call, struct entry *entry)
{
    REQUIRE(!entry_is_busy(entry));
    if (!has_room(shard)) {
        if (entry->state == ENTRY_VISITING) {
            entry_place(shard, entry);
        }
        call_answer(shard->broker, call, ERR_FULL);
        return;
    }
    switch (call->kind) {
    case CALL_CREATE:
        act_displace(shard, call, entry);
        break;
    case CALL_CANCEL:
        act_cancel(shard, call, entry);
        break;
    case CALL_UPDATE:
        act_update(shard, call, entry);
        break;
    case CALL_GET:
    case CALL_SCAN:
    case CALL_REDRIVE:
    case CALL_PURGE:
        UNREACHABLE(); // Act on no task in memory.
    }
}

bool call_is_updated(const struct call *call, const struct task *row)
{
    return (!call->set_due || row->due_ms == call->task.due_ms) &&
           (!call->set_payload || slice_equal(row->payload, call->task.payload));
}
