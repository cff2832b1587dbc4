/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of every answer: K-1 and K-8.
 */
#include "broker/core/call_task.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/sim/check_parts.h"
#include "tests/sim/sim_policy.h"

uint64_t check_call_new(struct check *check)
{
    if (check->call_count == check->call_capacity) {
        check->call_capacity = 2 * check->call_capacity + 64;
        check->calls = mem_resize(check->calls, check->call_capacity * sizeof(*check->calls));
        REQUIRE(check->calls != NULL);
    }
    check->calls[check->call_count] = (struct check_call){.state = CALL_STATE_NEW};
    return ++check->call_count;
}

struct check_call *check_call_find(struct check *check, uint64_t number)
{
    REQUIRE(number >= 1 && number <= check->call_count);
    return &check->calls[number - 1];
}

/* Whether the call may take a key from its holder, or end it. */
static bool strikes_key(const struct call *call)
{
    return (call->kind == CALL_CANCEL && call->task.id.seq == 0) ||
           (call->kind == CALL_CREATE && call->task.key.len > 0 && call->key_policy == KEY_REPLACE);
}

void check_call_begin(struct check *check, uint64_t number, const struct call *call)
{
    struct check_call *record = check_call_find(check, number);

    TRACE(&check->sim->trace, "ask", (int64_t)number, call->kind, call->shard, call->task.id.seq);
    record->kind = call->kind;
    record->state = CALL_STATE_OPEN;
    record->begun = check->sim->now;
    record->queue = call->task.queue;
    record->key = check_token(call->task.key);
    record->has_due = call->kind == CALL_UPDATE && call->set_due && !call->is_delay;
    record->is_relative =
        call->kind == CALL_UPDATE && call->set_due && call->is_delay && !call->set_payload;
    record->due_ms = call->task.due_ms;
    if (call->kind != CALL_CREATE && call->task.id.seq != 0) {
        record->task = check_task_find(check, call->shard, call->task.id);
        record->came_late = record->task != NULL && record->task->end == CHECK_CANCELLED;
    }
    if (call->kind == CALL_REDRIVE && record->task == NULL) { // Lost since the user has seen it.
        record->task = check_lost_find(check, call->shard, call->task.id);
        REQUIRE(record->task != NULL);
    }
    if (strikes_key(call)) {
        check_key_find(check, record->queue, record->key)->open++;
    } else if (call->kind == CALL_REDRIVE && record->task != NULL) {
        record->task->redrive = number;
    } else if (call->kind == CALL_CANCEL && record->task != NULL) {
        check_numbers_add(&record->task->cancels, &record->task->cancel_count, number);
    } else if (call->kind == CALL_UPDATE && record->task != NULL) {
        check_numbers_add(&record->task->updates, &record->task->update_count, number);
    }
}

/* It is under way no more. */
static void close_call(struct check *check, uint64_t number, const struct call *call)
{
    struct check_call *record = check_call_find(check, number);

    record->state = CALL_STATE_ANSWERED;
    record->result = call->result;
    record->named = call->kind == CALL_UPDATE ? call->attempt : 0;
    if (call->result == ERR_OUTCOME_UNKNOWN) {
        check->figures.unknown_answers++;
        return; // It may still have happened: a candidate for ever.
    }
    if (strikes_key(call)) {
        check_key_find(check, record->queue, record->key)->open--;
    } else if (call->kind == CALL_REDRIVE && record->task != NULL) {
        if (record->task->redrive == number) { // It may have died again, and be wanted again.
            record->task->redrive = 0;
        }
    } else if (call->kind == CALL_CANCEL && record->task != NULL) {
        (void)check_numbers_del(record->task->cancels, &record->task->cancel_count, number);
    } else if (call->kind == CALL_UPDATE && record->task != NULL) {
        (void)check_numbers_del(record->task->updates, &record->task->update_count, number);
    }
}

/* Whether the task was cancelled while the call was under way. */
static bool is_candidate(const struct check_call *record)
{
    const struct check_task *task = record->task;

    return task != NULL && task->end == CHECK_CANCELLED &&
           (task->ended > record->begun || (task->ended == record->begun && !record->came_late));
}

/* The answer says that nothing happened. */
static void check_nothing(struct check *check, const struct check_call *record,
                          const struct call *call)
{
    struct check_task *task = record->task;

    if (record->is_in_effect && !record->is_doubtful) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8",
                 "%s: a call of kind %u was answered %s, but it is "
                 "in effect",
                 check_name(task).text, call->kind, err_name(call->result));
    }
    if (call->kind == CALL_CANCEL && is_candidate(record) && !strikes_key(call) &&
        !check_may_be_lost(check, task, record->begun)) {
        REQUIRE(task->candidates > 0);
        if (--task->candidates == 0) {
            sim_fail(check->sim, SIM_UNSAFE, "K-8",
                     "%s: cancel was answered %s, but it is "
                     "cancelled",
                     check_name(task).text, err_name(call->result));
        }
    }
}

static void learn(struct check *check, struct check_task *task)
{
    check->known = mem_resize(check->known, (check->known_count + 1) * sizeof(struct check_task *));
    REQUIRE(check->known != NULL);
    check->known[check->known_count++] = task;
}

/* Pending all the while that a call was under way: a redrive may have come in between. */
static bool is_pending_since(const struct check_task *task, int64_t begun)
{
    return task->end == CHECK_PENDING && (task->revived == 0 || task->revived_at < begun);
}

static void check_created(struct check *check, const struct check_call *record,
                          const struct call *call)
{
    struct check_task *task;

    if (call->created) {
        task = record->task;
        if (record->is_lost) {
            check->figures.excused_answers++;
            learn(check, task); // Users believe in it.
            return;
        }
        if (!record->is_in_effect) {
            sim_fail(check->sim, SIM_UNSAFE, "K-1", "a create was answered, and is not in effect");
            return;
        }
        if (task->id.seq != call->found.seq || task->id.slot != call->found.slot) {
            sim_fail(check->sim, SIM_UNSAFE, "K-1", "%s was answered with another id, %03x-%016llx",
                     check_name(task).text, call->found.slot, (unsigned long long)call->found.seq);
        }
        learn(check, task);
        check_order_known(task);
        return;
    }
    task = check_task_find(check, call->shard, call->found);
    if (task == NULL &&
        check_may_be_lost(check, check_lost_find(check, call->shard, call->found), record->begun)) {
        return;
    }
    if (record->is_in_effect || task == NULL || task->key != record->key || record->key == 0) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "a create found a key's holder that is not one");
    } else if (call->found_due_ms == WALL_NEVER && is_pending_since(task, record->begun) &&
               !check_may_be_lost(check, task, record->begun)) {
        sim_fail(check->sim, SIM_UNSAFE, "K-1", "%s: a create was told that it is over",
                 check_name(task).text);
    }
}

static void check_cancelled(struct check *check, const struct check_call *record,
                            const struct call *call)
{
    struct check_task *task = record->task;

    if (strikes_key(call)) {
        task = check_task_find(check, call->shard, call->found);
    }
    if (call->cancel == CANCEL_NOT_FOUND) {
        if (record->task != NULL && record->task->end != CHECK_LOST &&
            !check_may_be_lost(check, record->task, record->begun)) {
            sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s: cancel was answered NOT_FOUND",
                     check_name(task).text);
        }
        return;
    }
    if (task == NULL || task->end == CHECK_LOST || check_may_be_lost(check, task, record->begun)) {
        return;
    }
    if (call->cancel == CANCEL_GONE && task->end == CHECK_PENDING &&
        !is_pending_since(task, record->begun)) {
        return;
    }
    if (task->end == CHECK_PENDING) {
        sim_fail(check->sim, SIM_UNSAFE, "K-1", "%s: cancel was answered %u, but it is pending",
                 check_name(task).text, call->cancel);
        return;
    }
    if (call->cancel == CANCEL_GONE) {
        return;
    }
    if (task->end != CHECK_CANCELLED && task->candidates == 0) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s: cancel was answered %u, but it had ended",
                 check_name(task).text, call->cancel);
    }
    task->cancel_answers++;
    task->last_allowed = call->cancel == CANCEL_STOPPED ? call->attempt : 0;
    if (task->started_after_end != 0 && task->started_after_end != task->last_allowed) {
        sim_fail(check->sim, SIM_UNSAFE, "K-6",
                 "%s: attempt %u started after the cancel that named attempt %u",
                 check_name(task).text, task->started_after_end, task->last_allowed);
    }
    for (size_t i = 0; i < task->attempt_count; i++) {
        if (call->cancel == CANCEL_CANCELLED && !task->attempts[i].is_lost) {
            sim_fail(check->sim, SIM_UNSAFE, "K-8",
                     "%s: cancel was answered CANCELLED, but attempt %u has run",
                     check_name(task).text, task->attempts[i].attempt);
        }
        if (task->attempts[i].attempt != task->last_allowed && !task->attempts[i].is_lost &&
            !check_is_doubled(task, task->attempts[i].attempt) &&
            check_may_run(check, task, &task->attempts[i])) {
            sim_fail(check->sim, SIM_UNSAFE, "K-8",
                     "%s: cancel was answered, naming attempt %u, while attempt %u may be running",
                     check_name(task).text, task->last_allowed, task->attempts[i].attempt);
        }
    }
}

/* An update whose write was lost, of a task that is already as it asked for: to all who look it is
 * in effect, and so it may be answered. */
static bool is_as_asked(const struct check *check, const struct check_task *task,
                        const struct call *call)
{
    const struct task *row = store_mem_row(check->sim->mem, task->shard, task->id);

    return row != NULL && call_is_updated(call, row);
}

static void check_updated(struct check *check, const struct check_call *record,
                          const struct call *call)
{
    struct check_task *task = record->task;

    if (task == NULL) {
        return; // By key: nobody knows which.
    }
    if (record->is_lost) {
        check->figures.excused_answers++;
        return;
    }
    check_order_known(task);
    if (!record->is_in_effect && (record->has_due || call->set_payload) &&
        !is_as_asked(check, task, call)) {
        sim_fail(check->sim, SIM_UNSAFE, "K-1", "%s: an update was answered, and is not in effect",
                 check_name(task).text);
    }
    if (record->started_old != 0 && record->started_old != call->attempt) {
        sim_fail(check->sim, SIM_UNSAFE, "K-4",
                 "%s: attempt %u started by what was updated, the update named attempt %u",
                 check_name(task).text, record->started_old, call->attempt);
    }
}

static void check_absent(struct check *check, const struct check_call *record,
                         const struct call *call)
{
    if (record->task != NULL &&
        (record->task->end == CHECK_LOST || check_may_be_lost(check, record->task, record->begun) ||
         (call->kind == CALL_REDRIVE && record->task->lost_at != 0 &&
          record->task->lost_at >= record->task->picked_at && record->task->end != CHECK_DEAD) ||
         (call->kind == CALL_REDRIVE && record->task->was_purged &&
          record->task->purged_at >= record->task->picked_at))) {
        return;
    }
    if (call->kind == CALL_REDRIVE && record->task != NULL) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s: a redrive did not find the dead letter",
                 check_name(record->task).text);
        return;
    }
    if (record->task != NULL && call->result == ERR_NOT_FOUND) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s: answered NOT_FOUND",
                 check_name(record->task).text);
    }
    if (record->task != NULL && is_pending_since(record->task, record->begun)) {
        sim_fail(check->sim, SIM_UNSAFE, "K-1", "%s: answered GONE, but it is pending",
                 check_name(record->task).text);
    }
}

static void check_success(struct check *check, const struct check_call *record,
                          const struct call *call)
{
    switch (call->kind) {
    case CALL_CREATE:
        check_created(check, record, call);
        break;
    case CALL_CANCEL:
        check_cancelled(check, record, call);
        break;
    case CALL_UPDATE:
        check_updated(check, record, call);
        break;
    case CALL_GET:
        if (record->task != NULL &&
            (call->row.id.seq != record->task->id.seq || call->row.queue != record->task->queue)) {
            sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s: another row was read",
                     check_name(record->task).text);
        }
        break;
    case CALL_REDRIVE:
        if (!record->is_in_effect && !record->is_lost) {
            sim_fail(check->sim, SIM_UNSAFE, "K-1",
                     "%s: a redrive was answered, and is not in effect",
                     check_name(record->task).text);
        }
        check_order_known(record->task);
        break;
    case CALL_SCAN:
    case CALL_PURGE:
        UNREACHABLE(); // The load makes no such calls.
    }
}

void check_call_answer(struct check *check, uint64_t number, const struct call *call)
{
    const struct check_call *record = check_call_find(check, number);

    TRACE(&check->sim->trace, "answer", (int64_t)number, call->kind, call->result,
          call->kind == CALL_CANCEL ? call->cancel : call->created, call->attempt, call->shard,
          record->task != NULL ? record->task->id.seq : call->found.seq);
    REQUIRE(record->state == CALL_STATE_OPEN);
    close_call(check, number, call);
    switch (call->result) {
    case 0:
        check_success(check, record, call);
        break;
    case ERR_OUTCOME_UNKNOWN:
        break;
    case ERR_NOT_FOUND:
    case ERR_GONE:
        check_absent(check, record, call);
        break;
    case ERR_UNAVAILABLE:
    case ERR_FULL:
    case ERR_FENCED:
    case ERR_EXISTS:
        check->figures.refusals++;
        check_nothing(check, record, call);
        break;
    case ERR_CONFLICT:
        check_nothing(check, record, call);
        if (call->kind != CALL_CREATE ||
            !sim_policies_bounds(check->sim->policies, record->queue)->was_draining) {
            sim_fail(check->sim, SIM_UNSAFE, "K-8",
                     "a call of kind %u was refused, because its queue takes no more tasks",
                     call->kind);
        }
        break;
    default:
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "a call was answered %s", err_name(call->result));
        break;
    }
}

void check_call_lost(struct check *check, uint64_t number)
{
    struct check_call *record = check_call_find(check, number);

    TRACE(&check->sim->trace, "lost", (int64_t)number);
    record->state = CALL_STATE_LOST;
}

bool check_pick(struct check *check, struct prng *prng, struct check_known *out)
{
    const struct check_task *task;
    uint64_t back;

    if (check->known_count == 0) {
        return false;
    }
    back = prng_below(prng, check->known_count);
    if (back > 40 && prng_chance(prng, 800)) {
        back = prng_below(prng, 40);
    }
    task = check->known[check->known_count - 1 - back];
    *out = (struct check_known){task->id, task->queue, task->due_ms, task->key};
    return true;
}

bool check_pick_dead(struct check *check, struct prng *prng, struct check_letter *out)
{
    struct check_task *task;

    if (check->dead_count == 0) {
        return false;
    }
    task = check->dead[prng_below(prng, check->dead_count)];
    if (task->end != CHECK_DEAD || task->is_purged || task->is_picked) {
        return false;
    }
    task->is_picked = true;
    task->picked_at = check->sim->now;
    *out = (struct check_letter){
        .id = task->id,
        .shard = task->shard,
        .queue = task->queue,
        .attempt = task->claimed,
        .key = task->key,
        .order = task->order,
        .token = task->token,
        .payload_len = task->payload_len,
    };
    return true;
}
