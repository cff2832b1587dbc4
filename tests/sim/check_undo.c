/* SPDX-License-Identifier: Apache-2.0
 *
 * What the checkers take back when a promotion loses commits: exactly what those did, and nothing
 * else. From then on the history is the one that the new primary has. What users and receivers saw
 * of the lost one is excused where it is met, and counted.
 */
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/sim/check_parts.h"

#include <string.h>

enum undo_kind {
    UNDO_TASK = 1, /* its row was changed */
    UNDO_NEW,      /* its row was inserted */
    UNDO_KEY,      /* it has another holder */
    UNDO_CALL,     /* it has come into effect */
    UNDO_EPOCH     /* it was raised */
};

/* One thing that a commit has done. */
struct undo {
    struct list link; /* in check.undo of its database */
    enum undo_kind kind;
    uint64_t number; /* of the commit */
    struct check_task *task;
    struct check_task row; /* UNDO_TASK: as it was */
    struct check_key *key;
    struct check_task *holder; /* UNDO_KEY: as it was */
    uint64_t call;
    bool was_in_effect; /* UNDO_CALL */
    uint32_t shard;     /* UNDO_EPOCH */
    int64_t epoch;      /* as it was */
};

static struct undo *undo_new(struct check *check, enum undo_kind kind)
{
    struct undo *undo;

    if (check->commit_number == 0) {
        return NULL; // Nothing of this run is ever lost.
    }
    undo = sim_need(1, sizeof(*undo));
    undo->kind = kind;
    undo->number = check->commit_number;
    list_add(&check->undo[check->commit_database], &undo->link);
    return undo;
}

void check_undo_task(struct check *check, struct check_task *task)
{
    struct undo *undo = undo_new(check, UNDO_TASK);

    if (undo != NULL) {
        undo->task = task;
        undo->row = *task;
    }
}

void check_undo_insert(struct check *check, struct check_task *task)
{
    struct undo *undo = undo_new(check, UNDO_NEW);

    if (undo != NULL) {
        undo->task = task;
    }
}

void check_undo_key(struct check *check, struct check_key *key)
{
    struct undo *undo = undo_new(check, UNDO_KEY);

    if (undo != NULL) {
        undo->key = key;
        undo->holder = key->holder;
    }
}

void check_undo_call(struct check *check, uint64_t number)
{
    struct undo *undo = undo_new(check, UNDO_CALL);

    if (undo != NULL) {
        undo->call = number;
        undo->was_in_effect = check_call_find(check, number)->is_in_effect;
    }
}

void check_undo_epoch(struct check *check, uint32_t shard)
{
    struct undo *undo = undo_new(check, UNDO_EPOCH);

    if (undo != NULL) {
        undo->shard = shard;
        undo->epoch = check->epoch[shard];
    }
}

/* --- back --- */

static void lose_claim(struct check_task *task)
{
    task->lost_claims =
        mem_resize(task->lost_claims, (task->lost_claim_count + 1) * sizeof(*task->lost_claims));
    REQUIRE(task->lost_claims != NULL);
    task->lost_claims[task->lost_claim_count++] =
        (struct check_lost_claim){task->claimed, task->claim_deadline_ms};
    for (size_t i = 0; i < task->attempt_count; i++) {
        struct check_attempt *attempt = &task->attempts[i];

        attempt->is_lost = attempt->is_lost || (attempt->attempt == task->claimed &&
                                                attempt->deadline_ms == task->claim_deadline_ms);
    }
}

/* Whether the claim of the row as it was is live in the other one. */
static bool is_live(const struct check_task *task, const struct check_task *row)
{
    return task->end == CHECK_PENDING && task->attempt < row->claimed;
}

/* The row's own part of a task is as it was; what was seen of it from outside stays. */
static void restore(struct check *check, struct check_task *task, const struct check_task *row)
{
    if (is_live(row, row) && !is_live(task, row)) {
        task->reopened = row->claimed;
    }
    if (task->claimed != row->claimed) {
        lose_claim(task);
    }
    if (task->end != row->end) {
        check_count_end(check, task->end, -1);
        if (task->revived_at == row->revived_at) { // Else it counts as dead, and as redriven.
            check_count_end(check, row->end, 1);
        }
        task->cancel_answers = 0;
        task->last_allowed = 0;
        task->started_after_end = 0;
        task->candidates = 0;
    }
    if (task->revived_at != row->revived_at) {
        check->figures.redriven--;
    }
    if (task->is_purged && !row->is_purged) {
        check->figures.purged--;
    }
    task->is_purged = row->is_purged;
    task->keep_until_ms = row->keep_until_ms;
    task->ended_as = row->ended_as;
    task->last_attempt = row->last_attempt;
    task->end = row->end;
    task->ended = row->ended;
    task->token = row->token;
    task->payload_len = row->payload_len;
    task->key_until_ms = row->key_until_ms;
    task->due_ms = row->due_ms;
    task->expire_ms = row->expire_ms;
    task->revived = row->revived;
    task->revived_at = row->revived_at;
    task->attempt = row->attempt;
    task->failures = row->failures;
    task->unknowns = row->unknowns;
    task->claimed = row->claimed;
    task->claim_deadline_ms = row->claim_deadline_ms;
    task->due_call = row->due_call;
    task->is_due_nameless = row->is_due_nameless;
    check_order_restore(check, task, row);
    check_changed(check, task);
}

/* It was never there. */
static void lose_task(struct check *check, struct check_task *task)
{
    int err = map_put(&check->lost_by_seq[task->shard], (uint64_t)task->id.seq, task);

    REQUIRE(err == 0 && task->end == CHECK_PENDING);
    if (task->claimed != 0) {
        lose_claim(task);
    }
    (void)map_del(&check->tasks_by_seq[task->shard], (uint64_t)task->id.seq);
    list_del(&task->place);
    check_count_end(check, CHECK_PENDING, -1);
    check->task_count--;
    check->figures.lost_tasks++;
    task->end = CHECK_LOST;
}

static void lose_epoch(struct check *check, uint32_t shard)
{
    check->lost_epochs =
        mem_resize(check->lost_epochs, (check->lost_epoch_count + 1) * sizeof(*check->lost_epochs));
    REQUIRE(check->lost_epochs != NULL);
    check->lost_epochs[check->lost_epoch_count++] =
        (struct check_lost_epoch){shard, check->epoch[shard], check->epoch_client[shard]};
}

static void take_back(struct check *check, const struct undo *undo)
{
    struct check_call *call;

    switch (undo->kind) {
    case UNDO_TASK:
        restore(check, undo->task, &undo->row);
        undo->task->lost_at = check->sim->now;
        break;
    case UNDO_NEW:
        lose_task(check, undo->task);
        undo->task->lost_at = check->sim->now;
        break;
    case UNDO_KEY:
        undo->key->holder = undo->holder;
        break;
    case UNDO_CALL:
        call = check_call_find(check, undo->call);
        call->is_in_effect = undo->was_in_effect;
        call->is_lost = true;
        break;
    case UNDO_EPOCH:
        lose_epoch(check, undo->shard);
        check->epoch[undo->shard] = undo->epoch;
        break;
    }
}

/* The history is right again if the rows are those of the new primary. */
static void compare(struct check *check)
{
    check_all_rows(check);
    for (uint32_t i = 0; i < check->sim->options.shard_count; i++) {
        if (store_mem_epoch(check->sim->mem, i) != check->epoch[i]) {
            sim_fail(check->sim, SIM_UNSAFE, "sum", "shard %u has another epoch", i);
        }
    }
}

void check_on_promote(struct check *check, uint32_t database, uint64_t number)
{
    struct list *undo_list = &check->undo[database];
    uint64_t last = 0;

    check->figures.promotions++;
    check->promoted_at[database] = check->sim->now;
    while (!list_is_empty(undo_list)) {
        struct undo *undo = CONTAINER_OF(undo_list->previous, struct undo, link);

        if (undo->number <= number) {
            break;
        }
        check->figures.lost_commits += undo->number != last;
        last = undo->number;
        list_del(&undo->link);
        take_back(check, undo);
        mem_free(undo);
    }
    compare(check);
}

void check_on_replicated(struct check *check, uint32_t database, uint64_t number)
{
    list_foreach_safe (link, after, &check->undo[database]) {
        struct undo *undo = CONTAINER_OF(link, struct undo, link);

        if (undo->number > number) {
            break;
        }
        list_del(link);
        mem_free(undo);
    }
}

void check_undo_free(struct check *check)
{
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        check_on_replicated(check, i, UINT64_MAX);
    }
    for (uint32_t i = 0; i < SHARD_COUNT_MAX; i++) {
        map_fini(&check->lost_by_seq[i]);
    }
    mem_free(check->lost_epochs);
}

/* --- what is excused --- */

struct check_task *check_lost_find(const struct check *check, uint32_t shard, struct task_id id)
{
    return map_find(&check->lost_by_seq[shard], (uint64_t)id.seq);
}

/* Whether one of its name, whose claim is in the database, has started. */
static bool has_namesake(const struct check_task *task, const struct attempt *attempt)
{
    for (size_t i = 0; i < task->attempt_count; i++) {
        const struct check_attempt *other = &task->attempts[i];

        if (!other->is_lost && other->attempt == attempt->attempt &&
            other->deadline_ms == attempt->deadline_ms) {
            return true;
        }
    }
    return false;
}

bool check_is_lost_claim(const struct check_task *task, const struct attempt *attempt)
{
    // While the clock is held a second claim has the deadline of the first: of the two that may
    // start by it, which are alike, one is the live one.
    if (task->end == CHECK_PENDING && attempt->attempt == task->claimed &&
        attempt->attempt > task->attempt && attempt->deadline_ms == task->claim_deadline_ms &&
        !has_namesake(task, attempt)) {
        return false; // It is the live one, whatever there was besides.
    }
    for (size_t i = 0; i < task->lost_claim_count; i++) {
        if (task->lost_claims[i].attempt == attempt->attempt &&
            task->lost_claims[i].deadline_ms == attempt->deadline_ms) {
            return true;
        }
    }
    return false;
}

bool check_is_doubled(const struct check_task *task, uint32_t number)
{
    for (size_t i = 0; i < task->lost_claim_count; i++) {
        if (task->lost_claims[i].attempt == number) {
            return true;
        }
    }
    return false;
}

bool check_may_be_lost(struct check *check, const struct check_task *task, int64_t begun)
{
    if (task == NULL || task->lost_at == 0 || task->lost_at < begun) {
        return false;
    }
    check->figures.excused_answers++;
    return true;
}

void check_lost_epoch(struct check *check, uint32_t shard, int64_t epoch, uint32_t client)
{
    for (size_t i = 0; i < check->lost_epoch_count; i++) {
        const struct check_lost_epoch *lost = &check->lost_epochs[i];

        if (lost->shard == shard && lost->epoch == epoch && lost->client != client) {
            sim_fail(check->sim, SIM_UNSAFE, "K-5",
                     "epoch %lld of shard %u was given to a second owner after a promotion",
                     (long long)epoch, shard);
        }
    }
}
