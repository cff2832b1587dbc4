/* SPDX-License-Identifier: Apache-2.0
 *
 * The history, and what must hold of every commit: K-3, K-5, and that nothing is written without a
 * reason.
 */
#include "tests/sim/check.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/sim/check_parts.h"
#include "tests/sim/check_reads.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_load.h"

#include <stdio.h>
#include <string.h>

#define TASKS_MAX (UINT64_C(1) << 30)

/* A key that travels as text: eight digits. No other number looks like it. */
static bool read_text(struct slice bytes, uint64_t *out)
{
    uint64_t number = 0;

    if (bytes.len != 8) {
        return false;
    }
    for (size_t i = 0; i < bytes.len; i++) {
        uint8_t byte = bytes.data[i];

        if (byte >= '0' && byte <= '9') {
            number = number * 16 + byte - '0';
        } else if (byte >= 'a' && byte <= 'f') {
            number = number * 16 + byte - 'a' + 10;
        } else {
            return false;
        }
    }
    *out = number;
    return true;
}

uint64_t check_token(struct slice bytes)
{
    uint64_t number = 0;

    if (read_text(bytes, &number)) {
        return number;
    }
    if (bytes.len >= sizeof(number)) {
        memcpy(&number, bytes.data, sizeof(number));
    }
    return number;
}

int64_t check_clock(const struct check *check, uint32_t shard)
{
    return sim_clock(check->sim, check->sim->cluster.database_of[shard]);
}

int64_t check_latest(const struct check *check, uint32_t shard)
{
    return sim_clock_latest_of_all(check->sim, check->sim->cluster.database_of[shard]);
}

struct check_text check_name(const struct check_task *task)
{
    struct check_text name;
    char id[TASK_ID_TEXT_LEN + 1];

    task_id_format(task->id, id);
    (void)snprintf(name.text, sizeof(name.text), "task %s of shard %u", id, task->shard);
    return name;
}

struct check_task *check_task_find(const struct check *check, uint32_t shard, struct task_id id)
{
    return map_find(&check->tasks_by_seq[shard], (uint64_t)id.seq);
}

void check_changed(struct check *check, struct check_task *task)
{
    list_del(&task->place);
    list_add_first(task->end == CHECK_PENDING || check_is_letter(task) ? &check->rows[task->shard]
                                                                       : &check->ended[task->shard],
                   &task->place);
    task->changed = check->sim->now;
}

struct check_attempt *check_attempt_find(const struct check_task *task, uint32_t attempt)
{
    for (size_t i = 0; i < task->attempt_count; i++) {
        if (task->attempts[i].attempt == attempt && !task->attempts[i].is_lost) {
            return &task->attempts[i];
        }
    }
    return NULL;
}

bool check_may_run(const struct check *check, const struct check_task *task,
                   const struct check_attempt *attempt)
{
    bool is_known = attempt->reported != 0 && attempt->reported != OUTCOME_UNKNOWN;

    return !is_known && check_latest(check, task->shard) < attempt->deadline_ms * US_PER_MS;
}

struct check_key *check_key_find(struct check *check, uint32_t queue, uint64_t number)
{
    uint64_t key = (uint64_t)queue << 32 | number;
    struct check_key *found = map_find(&check->keys, key);
    int err;

    if (found == NULL) {
        found = sim_need(1, sizeof(*found));
        err = map_put(&check->keys, key, found);
        REQUIRE(err == 0);
    }
    return found;
}

void check_numbers_add(uint64_t **numbers, size_t *count, uint64_t number)
{
    *numbers = mem_resize(*numbers, (*count + 1) * sizeof(**numbers));
    REQUIRE(*numbers != NULL);
    (*numbers)[(*count)++] = number;
}

bool check_numbers_del(uint64_t *numbers, size_t *count, uint64_t number)
{
    for (size_t i = 0; i < *count; i++) {
        if (numbers[i] == number) {
            numbers[i] = numbers[--*count];
            return true;
        }
    }
    return false;
}

/* --- commits --- */

/* A key names one task of its queue; another may take it only when that has ended, or from it. */
static void take_key(struct check *check, struct check_task *task, const struct store_op *op)
{
    struct check_key *key = check_key_find(check, task->queue, task->key);
    const struct check_task *holder = key->holder == task ? NULL : key->holder;

    if (holder != NULL && holder->end == CHECK_PENDING && holder->id.seq != op->key_replaces.seq) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s took the key of a pending task",
                 check_name(task).text);
    }
    if (holder != NULL && holder->end != CHECK_PENDING && holder->id.seq != op->key_replaces.seq &&
        check_latest(check, task->shard) < holder->key_until_ms * US_PER_MS) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s took a key that is still remembered",
                 check_name(task).text);
    }
    check_undo_key(check, key);
    key->holder = task;
}

/* Its key is remembered from now on, for as long as the queue says, or given to the next task. */
static void remember_key(struct check *check, struct check_task *task, const struct store_op *op)
{
    span_ms memory_ms = sim_load_key_memory_ms(check->sim->load, task->queue);

    // 0: the next operation takes it over; for anybody else it is held as long as ever.
    task->key_until_ms = time_max(op->key_until_ms, op->now_ms + memory_ms);
    if (op->is_keyless && task->key != 0) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s: its key is not looked for at its end",
                 check_name(task).text);
    }
    if (task->key != 0 && op->key_until_ms != 0 && op->key_until_ms < op->now_ms + memory_ms) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s: its key is forgotten %lld ms too soon",
                 check_name(task).text, (long long)(op->now_ms + memory_ms - op->key_until_ms));
    }
}

static void commit_insert(struct check *check, const struct store_op *op)
{
    struct check_task *task;
    struct check_call *call = check_call_find(check, check_token(op->task.payload));
    int err;

    if (check_task_find(check, op->shard, op->task.id) != NULL ||
        check_lost_find(check, op->shard, op->task.id) != NULL) {
        sim_fail(check->sim, SIM_UNSAFE, "K-3", "an id was given twice: shard %u, %llx", op->shard,
                 (unsigned long long)op->task.id.seq);
        return;
    }
    task = sim_need(1, sizeof(*task));
    task->shard = op->shard;
    task->id = op->task.id;
    task->queue = op->task.queue;
    task->key = check_token(op->task.key);
    task->token = check_token(op->task.payload);
    task->payload_len = op->task.payload.len;
    task->creator = task->token;
    task->inserted = check->sim->now;
    task->due_ms = op->task.due_ms;
    task->expire_ms = op->task.expire_ms;
    task->attempt = op->task.attempt;
    list_init(&task->order_link);
    list_init(&task->place);
    check_order_insert(check, task, op);
    err = map_put(&check->tasks_by_seq[op->shard], (uint64_t)op->task.id.seq, task);
    REQUIRE(err == 0);
    list_add(&check->tasks, &task->link);
    check_changed(check, task);
    check->task_count++;
    check->pending_count++;
    check_undo_insert(check, task);
    check_undo_call(check, task->token);
    if (task->key != 0) {
        take_key(check, task, op);
    }
    if (call->is_in_effect) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "one create made two tasks, the second is %s",
                 check_name(task).text);
    }
    call->is_in_effect = true;
    call->task = task;
    if (call->state == CALL_STATE_ANSWERED && call->result != ERR_OUTCOME_UNKNOWN) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s was created after its create was answered %s",
                 check_name(task).text, err_name(call->result));
    }
}

static void commit_claim(struct check *check, struct check_task *task, const struct store_op *op)
{
    if (op->attempt <= task->claimed) {
        sim_fail(check->sim, SIM_UNSAFE, "K-2", "%s: attempt %u was claimed after attempt %u",
                 check_name(task).text, op->attempt, task->claimed);
    }
    if (op->attempt <= task->attempt) {
        sim_fail(check->sim, SIM_UNSAFE, "K-2", "%s: attempt %u was claimed when %u was over",
                 check_name(task).text, op->attempt, task->attempt);
    }
    check_order_claim(check, task, op);
    task->claim_epoch = op->epoch;
    task->claimed_at = check->sim->now;
    task->claim_since = check->epoch_at[op->shard];
    task->claimed = op->attempt;
    task->claim_deadline_ms = op->deadline_ms;
    if (op->raise_attempt) {
        task->attempt = op->attempt - 1;
    }
}

/* Whether an attempt that is not in the history, for a promotion revived its claim, was told to
 * have ended so. */
static bool was_told(const struct check_task *task, uint32_t number, enum outcome outcome)
{
    return task->told_attempt == number && task->told == outcome;
}

/* Whether an attempt with this number is known to have ended so. One whose claim was lost, or
 * passed over by a clock, counts as well: nothing tells them apart. */
static bool was_reported(const struct check_task *task, uint32_t number, enum outcome outcome)
{
    for (size_t i = 0; i < task->attempt_count; i++) {
        if (task->attempts[i].attempt == number && task->attempts[i].reported == outcome) {
            return true;
        }
    }
    return outcome != OUTCOME_UNKNOWN && was_told(task, number, outcome);
}

/* Whether an attempt's end may be recorded as a failure or an unknown outcome. */
static bool may_give_up(const struct check *check, const struct check_task *task, uint32_t number,
                        bool for_good)
{
    if (check_latest(check, task->shard) >= task->claim_deadline_ms * US_PER_MS) {
        return true; // It is over, and its outcome may have been lost.
    }
    return was_reported(task, number, OUTCOME_RETRY) ||
           (for_good && (was_reported(task, number, OUTCOME_DEAD) ||
                         was_reported(task, number, OUTCOME_UNKNOWN)));
}

/* Whether the live attempt, by its number, has been done. */
static bool was_done(const struct check_task *task, uint32_t number)
{
    for (size_t i = 0; i < task->attempt_count; i++) {
        const struct check_attempt *attempt = &task->attempts[i];

        if (attempt->attempt == number && number == task->claimed &&
            (attempt->reported == OUTCOME_DONE || attempt->reported == OUTCOME_OBSOLETE) &&
            attempt->receiver == attempt->reported) {
            return true;
        }
    }
    return number == task->claimed &&
           (was_told(task, number, OUTCOME_DONE) || was_told(task, number, OUTCOME_OBSOLETE));
}

/* The call under way that asked for this due time; 0 if there is none, or more than one. */
static uint64_t find_update(struct check *check, const struct check_task *task, wall_ms due_ms)
{
    uint64_t found = 0;
    size_t count = 0;

    for (size_t i = 0; i < task->update_count; i++) {
        const struct check_call *call = check_call_find(check, task->updates[i]);

        if (call->has_due && call->due_ms == due_ms) {
            found = task->updates[i];
            count++;
        }
    }
    return count == 1 ? found : 0;
}

/* Whether an update is under way whose due time nobody but a broker knows. */
static bool has_relative(struct check *check, const struct check_task *task)
{
    for (size_t i = 0; i < task->update_count; i++) {
        if (check_call_find(check, task->updates[i])->is_relative) {
            return true;
        }
    }
    return false;
}

/* An attempt that went wrong counts once, as a failure or as an unknown outcome, also when another
 * broker owns the task by then. */
static void check_counts(struct check *check, struct check_task *task, const struct store_op *op)
{
    uint32_t failures = op->task.failures - task->failures;
    uint32_t unknowns = op->task.unknowns - task->unknowns;

    if (failures + unknowns != 1 || failures > 1) {
        sim_fail(check->sim, SIM_UNSAFE, "K-2",
                 "%s: failures went from %u to %u and unknown outcomes from %u to %u by attempt %u",
                 check_name(task).text, task->failures, op->task.failures, task->unknowns,
                 op->task.unknowns, op->attempt);
    }
    task->failures = op->task.failures;
    task->unknowns = op->task.unknowns;
}

/* An update: who asked for it? */
static void commit_update(struct check *check, struct check_task *task, const struct store_op *op)
{
    struct check_call *call;
    uint64_t number = 0;

    check->figures.updates++;
    if (op->set_payload) {
        number = check_token(op->task.payload);
        task->token = number;
        task->payload_len = op->task.payload.len;
    } else {
        number = find_update(check, task, op->task.due_ms);
    }
    if (op->set_due) {
        task->due_ms = op->task.due_ms;
        task->due_call = number;
        task->is_due_nameless = number == 0;
    }
    if (number == 0) {
        return; // A relative time without a payload has no name.
    }
    call = check_call_find(check, number);
    check_undo_call(check, number);
    call->is_in_effect = true;
    call->is_doubtful = !op->set_payload && has_relative(check, task);
    call->task = task;
    if (call->state == CALL_STATE_ANSWERED && call->result != ERR_OUTCOME_UNKNOWN) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s was updated after its update was answered %s",
                 check_name(task).text, err_name(call->result));
    }
}

static void commit_change(struct check *check, struct check_task *task, const struct store_op *op)
{
    bool ends_claim = op->attempt > op->expected_attempt;

    if (op->attempt < task->attempt) {
        sim_fail(check->sim, SIM_UNSAFE, "K-2", "%s: the row's attempt fell from %u to %u",
                 check_name(task).text, task->attempt, op->attempt);
    }
    if (ends_claim && op->attempt != task->claimed) {
        sim_fail(check->sim, SIM_UNSAFE, "K-3", "%s: attempt %u was ended, the live one is %u",
                 check_name(task).text, op->attempt, task->claimed);
    }
    if (op->set_counts && !may_give_up(check, task, op->attempt, false)) {
        sim_fail(check->sim, SIM_UNSAFE, "K-3",
                 "%s: attempt %u was recorded as failed, which no "
                 "receiver said",
                 check_name(task).text, op->attempt);
    }
    if (ends_claim && !op->set_counts && check_attempt_find(task, op->attempt) != NULL) {
        sim_fail(check->sim, SIM_UNSAFE, "K-6", "%s: attempt %u was given back after its start",
                 check_name(task).text, op->attempt);
    }
    if (op->set_counts && op->task.due_ms < task->due_ms) {
        sim_fail(check->sim, SIM_UNSAFE, "K-4", "%s: a retry went before the due time that holds",
                 check_name(task).text);
    }
    check_order_change(check, task, op);
    task->attempt = op->attempt;
    if (op->set_counts) {
        check_counts(check, task, op);
        check_queues_retried(check, task);
        task->due_ms = op->task.due_ms;
        task->due_call = 0;
        task->is_due_nameless = false;
    } else if (op->set_due || op->set_payload) {
        commit_update(check, task, op);
    }
}

void check_count_end(struct check *check, enum check_end_kind end, int by)
{
    uint64_t more = (uint64_t)(int64_t)by;

    switch (end) {
    case CHECK_DONE:
        check->figures.done += more;
        break;
    case CHECK_DEAD:
        check->figures.dead += more;
        break;
    case CHECK_CANCELLED:
        check->figures.cancelled += more;
        break;
    case CHECK_EXPIRED:
        check->figures.expired += more;
        break;
    case CHECK_PENDING:
        check->pending_count += more;
        break;
    case CHECK_LOST:
        break;
    }
}

static void end_task(struct check *check, struct check_task *task, enum check_end_kind end)
{
    task->end = end;
    task->ended = check->sim->now;
    task->end_epoch = check->epoch[task->shard];
    check_count_end(check, CHECK_PENDING, -1);
    check_count_end(check, end, 1);
    if (end == CHECK_DEAD) {
        check->dead = mem_resize(check->dead, (check->dead_count + 1) * sizeof(*check->dead));
        REQUIRE(check->dead != NULL);
        check->dead[check->dead_count++] = task;
    }
}

/* Its time is over; or it has failed, and its next attempt would come too late. */
static void commit_expire(struct check *check, struct check_task *task, const struct store_op *op)
{
    bool is_over =
        task->expire_ms != 0 && check_latest(check, task->shard) >= task->expire_ms * US_PER_MS;
    bool has_failed = op->attempt > op->expected_attempt && op->attempt == task->claimed &&
                      may_give_up(check, task, op->attempt, false);

    if (task->expire_ms == 0 || (!is_over && !has_failed)) {
        sim_fail(check->sim, SIM_UNSAFE, "K-2", "%s: it expired too soon, at attempt %u",
                 check_name(task).text, op->attempt);
    }
    if (!has_failed && task->claimed > task->attempt) {
        sim_fail(check->sim, SIM_UNSAFE, "K-3", "%s: it expired while attempt %u was claimed",
                 check_name(task).text, task->claimed);
    }
    remember_key(check, task, op);
    end_task(check, task, CHECK_EXPIRED);
}

/* A dead letter is pending again, because a user wanted it. */
static void commit_redrive(struct check *check, struct check_task *task, const struct store_op *op)
{
    struct check_call *call;

    if (task == NULL || task->end != CHECK_DEAD || task->is_purged || task->redrive == 0) {
        sim_fail(check->sim, SIM_UNSAFE, "K-3",
                 "a redrive of a task that is no dead letter, or of "
                 "one that nobody has asked for");
        return;
    }
    if (op->task.attempt < task->claimed) {
        sim_fail(check->sim, SIM_UNSAFE, "K-2", "%s: a redrive set its attempt back from %u to %u",
                 check_name(task).text, task->claimed, op->task.attempt);
    }
    task->end = CHECK_PENDING;
    task->revived = task->claimed;
    task->revived_at = check->sim->now;
    task->attempt = op->task.attempt;
    task->failures = op->task.failures;
    task->unknowns = op->task.unknowns;
    task->due_ms = op->task.due_ms;
    task->expire_ms = op->task.expire_ms;
    task->due_call = 0;
    task->is_due_nameless = false;
    check_order_insert(check, task, op);
    check->pending_count++;
    check->figures.redriven++;
    task->is_picked = false;
    if (task->key != 0) {
        take_key(check, task, op);
    }
    call = check_call_find(check, task->redrive);
    check_undo_call(check, task->redrive);
    call->is_in_effect = true;
    if (call->state == CALL_STATE_ANSWERED && call->result != ERR_OUTCOME_UNKNOWN) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s was redriven after that was answered %s",
                 check_name(task).text, err_name(call->result));
    }
}

/* What is kept of how it ended. */
static void keep_result(struct check *check, struct check_task *task, const struct store_op *op)
{
    span_ms memory_ms = sim_load_result_memory_ms(check->sim->load, task->queue);

    task->keep_until_ms = op->keep_until_ms;
    task->ended_as = op->end;
    task->last_attempt = op->attempt;
    if (op->end != 0 && op->keep_until_ms < (memory_ms == 0 ? 0 : op->now_ms + memory_ms)) {
        sim_fail(check->sim, SIM_UNSAFE, "K-1", "%s: its result is not kept for %lld ms",
                 check_name(task).text, (long long)memory_ms);
    }
    if (op->response.len > 0 &&
        (op->end != TASK_END_DONE || !slice_equal(op->response, slice_of("well")))) {
        sim_fail(check->sim, SIM_UNSAFE, "K-3", "%s: an answer is kept that nobody gave",
                 check_name(task).text);
    }
}

static void commit_delete(struct check *check, struct check_task *task, const struct store_op *op)
{
    uint32_t candidates = (uint32_t)task->cancel_count;

    keep_result(check, task, op);
    if (op->end == TASK_END_EXPIRED) {
        commit_expire(check, task, op);
        return;
    }
    remember_key(check, task, op);
    if (task->key != 0) {
        candidates += check_key_find(check, task->queue, task->key)->open;
    }
    task->candidates = candidates;
    // A cancel's names no attempt; one of that number may have been done before its record was
    // lost.
    if (op->attempt > op->expected_attempt && was_done(task, op->attempt)) {
        end_task(check, task, CHECK_DONE);
        return;
    }
    if (candidates == 0) {
        sim_fail(check->sim, SIM_UNSAFE, "K-1",
                 "%s: its row was deleted at attempt %u, and nobody asked for that",
                 check_name(task).text, op->expected_attempt);
    }
    end_task(check, task, CHECK_CANCELLED);
}

static void commit_dead(struct check *check, struct check_task *task, const struct store_op *op)
{
    if (op->attempt != task->claimed || !may_give_up(check, task, op->attempt, true)) {
        sim_fail(check->sim, SIM_UNSAFE, "K-3",
                 "%s: attempt %u made it a dead letter without a reason", check_name(task).text,
                 op->attempt);
    }
    check_counts(check, task, op);
    check_queues_given_up(check, task, was_reported(task, op->attempt, OUTCOME_DEAD));
    check_order_dead(check, task, was_reported(task, op->attempt, OUTCOME_DEAD));
    remember_key(check, task, op);
    end_task(check, task, CHECK_DEAD);
}

static void commit_kind(struct check *check, struct check_task *task, const struct store_op *op)
{
    if (op->kind == STORE_PURGE) {
        check_purged(check, task);
        return;
    }
    if (op->kind == STORE_REDRIVE) {
        commit_redrive(check, task, op);
        return;
    }
    if (task == NULL || task->end != CHECK_PENDING) {
        sim_fail(check->sim, SIM_UNSAFE, "K-3", "an operation of kind %u on a task that is not",
                 op->kind);
        return;
    }
    switch (op->kind) {
    case STORE_CLAIM:
        commit_claim(check, task, op);
        break;
    case STORE_CHANGE:
        commit_change(check, task, op);
        break;
    case STORE_DELETE:
        commit_delete(check, task, op);
        break;
    case STORE_DEAD:
        commit_dead(check, task, op);
        break;
    case STORE_INSERT:
    case STORE_REDRIVE:
    case STORE_PURGE:
        break;
    }
}

static void commit_op(struct check *check, const struct store_op *op)
{
    struct check_task *task;

    if (op->epoch != check->epoch[op->shard]) {
        sim_fail(check->sim, SIM_UNSAFE, "K-5",
                 "a write of epoch %lld became visible in shard %u after epoch %lld",
                 (long long)op->epoch, op->shard, (long long)check->epoch[op->shard]);
        return;
    }
    if (op->kind == STORE_INSERT) {
        commit_insert(check, op);
        return;
    }
    task = check_task_find(check, op->shard, op->task.id);
    if (task != NULL) {
        check_undo_task(check, task);
    }
    commit_kind(check, task, op);
    if (task != NULL) {
        check_changed(check, task);
    }
}

static void commit_bump(struct check *check, const struct store_bump *bump,
                        const struct store_mem_commit *commit)
{
    int64_t before = commit->epoch_before;
    int64_t *epoch = &check->epoch[bump->shard];

    TRACE(&check->sim->trace, "epoch", bump->shard, bump->epoch);
    if (bump->epoch <= *epoch || before != *epoch) {
        sim_fail(check->sim, SIM_UNSAFE, "K-5", "the epoch of shard %u went from %lld to %lld",
                 bump->shard, (long long)*epoch, (long long)bump->epoch);
    }
    check_lost_epoch(check, bump->shard, bump->epoch, commit->client);
    check_undo_epoch(check, bump->shard);
    *epoch = bump->epoch;
    check->epoch_at[bump->shard] = check->sim->now;
    check->epoch_client[bump->shard] = commit->client;
}

/* A store need not look at a row that the broker vouches for: an attempt would start for nothing.
 */
static void check_vouched(struct check *check, const struct store_op *op)
{
    if (op->kind == STORE_CLAIM && op->is_known && op->result == ERR_NOT_FOUND) {
        sim_fail(check->sim, SIM_UNSAFE, "K-3",
                 "attempt %u of task %llx of shard %u was claimed by memory alone, and it is none",
                 op->attempt, (unsigned long long)op->task.id.seq, op->shard);
    }
}

void check_on_commit(void *ctx, const struct store_mem_commit *commit)
{
    struct check *check = ctx;

    check->commit_database = commit->database;
    check->commit_number = commit->number;
    if (commit->kind == STORE_MEM_BUMP) {
        commit_bump(check, commit->bump, commit);
    }
    if (commit->kind != STORE_MEM_WRITE) {
        return;
    }
    for (size_t i = 0; i < commit->batch->op_count; i++) {
        check_vouched(check, &commit->batch->ops[i]);
    }
    // Inserts first, as the store does: a claim may stand behind its insert.
    for (int inserts = 1; inserts >= 0; inserts--) {
        for (size_t i = 0; i < commit->batch->op_count; i++) {
            const struct store_op *op = &commit->batch->ops[i];

            if (op->result == 0 &&
                (op->kind == STORE_INSERT || op->kind == STORE_REDRIVE) == (inserts == 1)) {
                TRACE(&check->sim->trace, "commit", op->kind, op->shard, op->task.id.seq,
                      op->attempt, op->set_due | op->set_payload << 1 | op->set_counts << 2,
                      op->task.due_ms);
                commit_op(check, op);
            }
        }
    }
}

/* --- life --- */

struct check *check_new(struct sim *sim)
{
    struct check *check = sim_need(1, sizeof(*check));

    check->sim = sim;
    list_init(&check->tasks);
    map_init(&check->keys, TASKS_MAX);
    map_init(&check->orders, TASKS_MAX);
    for (uint32_t i = 0; i < SHARD_COUNT_MAX; i++) {
        map_init(&check->tasks_by_seq[i], TASKS_MAX);
        map_init(&check->lost_by_seq[i], TASKS_MAX);
        list_init(&check->rows[i]);
        list_init(&check->ended[i]);
    }
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        list_init(&check->undo[i]);
        check->promoted_at[i] = INT64_MIN;
    }
    return check;
}

void check_free(struct check *check)
{
    struct map_iter iter = {0};
    struct check_key *key;
    struct list *tasks;
    struct list *link;

    check_undo_free(check);
    while ((link = list_take_first(&check->tasks)) != NULL) {
        struct check_task *task = CONTAINER_OF(link, struct check_task, link);

        mem_free(task->attempts);
        mem_free(task->lost_claims);
        mem_free(task->updates);
        mem_free(task->cancels);
        mem_free(task);
    }
    while ((key = map_next(&check->keys, &iter)) != NULL) {
        mem_free(key);
    }
    map_fini(&check->keys);
    iter = (struct map_iter){0};
    while ((tasks = map_next(&check->orders, &iter)) != NULL) {
        mem_free(tasks);
    }
    map_fini(&check->orders);
    for (uint32_t i = 0; i < SHARD_COUNT_MAX; i++) {
        map_fini(&check->tasks_by_seq[i]);
    }
    mem_free(check->known);
    mem_free(check->dead);
    mem_free(check->calls);
    mem_free(check);
}

void check_get_figures(const struct check *check, struct check_figures *out)
{
    *out = check->figures;
    out->created = check->task_count;
}

void check_reset_late(struct check *check)
{
    memset(check->late_us, 0, sizeof(check->late_us));
}

int64_t check_late_us(const struct check *check, uint32_t shard)
{
    return check->late_us[shard];
}

uint32_t check_start_count(const struct check *check, uint32_t shard, struct task_id id)
{
    const struct check_task *task = check_task_find(check, shard, id);

    return task == NULL ? 0 : (uint32_t)task->attempt_count;
}

bool check_has_ended(const struct check *check, uint32_t shard, struct task_id id)
{
    const struct check_task *task = check_task_find(check, shard, id);

    return task != NULL && task->end != CHECK_PENDING;
}
