/* SPDX-License-Identifier: Apache-2.0
 *
 * Order keys: never two attempts of one at once, across owners; none starts while a task that is
 * due before it, by what its users have asked for, is known and pending. Which place a task has
 * follows from the calls and the policy here, and not from what a broker says.
 */
#include "lib/base/check.h"
#include "tests/sim/check_parts.h"
#include "tests/sim/sim_load.h"
#include "tests/sim/sim_policy.h"

#define PROMISE "order"

/* The tasks of one order key that matter: pending, or perhaps still running. */
static struct list *tasks_of(struct check *check, uint32_t queue, uint64_t order)
{
    uint64_t key = (uint64_t)queue << 32 | order;
    struct list *tasks = map_find(&check->orders, key);
    int err;

    if (tasks == NULL) {
        tasks = sim_need(1, sizeof(*tasks));
        list_init(tasks);
        err = map_put(&check->orders, key, tasks);
        REQUIRE(err == 0);
    }
    return tasks;
}

/* Its place is written by this operation. */
static void set_place(struct check *check, struct check_task *task, const struct store_op *op,
                      wall_ms order_ms)
{
    if (op->task.order_ms != order_ms) {
        sim_fail(check->sim, SIM_UNSAFE, PROMISE, "%s: its place is %lld, not %lld",
                 check_name(task).text, (long long)op->task.order_ms, (long long)order_ms);
    }
    // Until its owner knows, or a new one reads it, it is where it was.
    task->order_known_ms = task->is_order_known ? task->order_ms : WALL_NEVER;
    task->order_ms = op->task.order_ms;
    task->order_epoch = op->epoch;
    task->is_order_known = false;
}

void check_order_insert(struct check *check, struct check_task *task, const struct store_op *op)
{
    task->order = check_token(op->task.order_key);
    if (task->order == 0) {
        return;
    }
    if (list_is_empty(&task->order_link)) {
        list_add(tasks_of(check, task->queue, task->order), &task->order_link);
    }
    task->is_order_known = false;
    set_place(check, task, op, op->task.due_ms);
}

/* A retry, an update, a claim given back. */
void check_order_change(struct check *check, struct check_task *task, const struct store_op *op)
{
    uint32_t skip = sim_load_order_skip(check->sim->load, task->queue);
    bool is_skipped = op->set_counts && skip != 0 && op->task.failures + op->task.unknowns >= skip;
    bool is_moved = is_skipped || (op->set_due && !op->set_counts);
    wall_ms place_ms = op->task.due_ms;

    if (task->order == 0) {
        return;
    }
    if (op->set_order != is_moved) {
        sim_fail(check->sim, SIM_UNSAFE, PROMISE, "%s: its place was %s", check_name(task).text,
                 is_moved ? "kept" : "changed");
        return;
    }
    if (!op->set_order) {
        return;
    }
    // What is to run at once does not lose an earlier place.
    if (!is_skipped && op->task.order_ms == task->order_ms && task->order_ms < place_ms) {
        place_ms = task->order_ms;
    }
    set_place(check, task, op, place_ms);
}

/* Limits of retries do not end what blocks its order key. */
void check_order_dead(struct check *check, const struct check_task *task, bool is_refused)
{
    if (task->order != 0 && sim_load_order_blocks(check->sim->load, task->queue) && !is_refused &&
        !sim_policies_bounds(check->sim->policies, task->queue)->was_at_most_once) {
        sim_fail(check->sim, SIM_UNSAFE, PROMISE,
                 "%s: it was made a dead letter after %u failures, though it blocks its order key",
                 check_name(task).text, task->failures);
    }
}

/* A call that has put a task where it is was answered. */
void check_order_known(struct check_task *task)
{
    if (task != NULL) {
        task->is_order_known = true;
    }
}

/* Its row is as it was before a promotion. */
void check_order_restore(struct check *check, struct check_task *task, const struct check_task *row)
{
    task->order_ms = row->order_ms;
    task->order_known_ms = row->order_known_ms;
    task->order_epoch = row->order_epoch;
    task->is_order_known = row->is_order_known;
    task->claim_epoch = row->claim_epoch;
    task->claimed_at = row->claimed_at;
    task->claim_since = row->claim_since;
    task->end_epoch = row->end_epoch;
    if (task->order != 0 && list_is_empty(&task->order_link)) {
        list_add(tasks_of(check, task->queue, task->order), &task->order_link);
    }
}

/* One claim of an order key is live. */
void check_order_claim(struct check *check, const struct check_task *task,
                       const struct store_op *op)
{
    if (task->order == 0) {
        return;
    }
    list_foreach (link, tasks_of(check, task->queue, task->order)) {
        const struct check_task *other = CONTAINER_OF(link, struct check_task, order_link);

        if (other != task && other->end == CHECK_PENDING && other->claimed > other->attempt) {
            sim_fail(check->sim, SIM_UNSAFE, PROMISE,
                     "%s: attempt %u was claimed while attempt %u of task %llx is",
                     check_name(task).text, op->attempt, other->claimed,
                     (unsigned long long)other->id.seq);
            return;
        }
    }
}

/* Whether a task with this place, as far as the owner can know it, goes before another one. */
static bool goes_before(const struct check *check, const struct check_task *other,
                        const struct check_task *task)
{
    bool is_known = other->is_order_known || other->order_epoch < check->epoch[other->shard];
    wall_ms place_ms =
        is_known ? other->order_ms : time_max(other->order_ms, other->order_known_ms);

    // What a promotion has taken back since its owner has read it, it may not know of yet.
    return other->end == CHECK_PENDING &&
           (other->lost_at == 0 || other->lost_at < task->claim_since) &&
           (place_ms < task->order_ms ||
            (place_ms == task->order_ms && other->id.seq < task->id.seq));
}

void check_handed(struct check *check, const struct attempt *attempt)
{
    struct check_task *task = check_task_find(check, attempt->shard, attempt->id);

    // What an owner before has claimed may start, for its time: of what comes meanwhile it knows
    // nothing, be it that the task has been claimed again.
    if (task == NULL || task->order == 0 || task->end != CHECK_PENDING ||
        attempt->attempt != task->claimed || check_is_lost_claim(task, attempt) ||
        task->lost_at > task->claim_since || task->claim_epoch != check->epoch[task->shard]) {
        return;
    }
    list_foreach (link, tasks_of(check, task->queue, task->order)) {
        const struct check_task *other = CONTAINER_OF(link, struct check_task, order_link);

        if (other != task && goes_before(check, other, task)) {
            sim_fail(check->sim, SIM_UNSAFE, PROMISE,
                     "%s: attempt %u begins before task %llx, which is due %lld ms before it",
                     check_name(task).text, attempt->attempt, (unsigned long long)other->id.seq,
                     (long long)(task->order_ms - other->order_ms));
            return;
        }
    }
}

/* Whether the row was deleted under an owner who has gone since: the next does not know of it. */
static bool is_forgotten(const struct check *check, const struct check_task *task)
{
    return task->end == CHECK_CANCELLED && task->end_epoch != check->epoch[task->shard];
}

/* The last attempt of another task that may be running; NULL: none may. */
static const struct check_attempt *running(const struct check *check, const struct check_task *task)
{
    for (size_t i = task->attempt_count; i > 0; i--) {
        if (!task->attempts[i - 1].is_lost && check_may_run(check, task, &task->attempts[i - 1])) {
            return &task->attempts[i - 1];
        }
    }
    return NULL;
}

void check_order_start(struct check *check, struct check_task *task, const struct attempt *attempt)
{
    if (task->order == 0) {
        return;
    }
    list_foreach_safe (link, after, tasks_of(check, task->queue, task->order)) {
        struct check_task *other = CONTAINER_OF(link, struct check_task, order_link);
        const struct check_attempt *alive = other == task ? NULL : running(check, other);

        if (alive != NULL && other->end != CHECK_PENDING &&
            check_is_doubled(other, alive->attempt)) {
            // Another attempt of that number, which is lost, may have been what ended it.
            check->figures.lost_overlaps++;
        } else if (alive != NULL && !is_forgotten(check, other) && !is_forgotten(check, task)) {
            sim_fail(check->sim, SIM_UNSAFE, PROMISE,
                     "%s: attempt %u started while attempt %u of task %llx may be running",
                     check_name(task).text, attempt->attempt, alive->attempt,
                     (unsigned long long)other->id.seq);
            return;
        }
        if (alive == NULL && other->end != CHECK_PENDING && other != task) {
            list_del(link); // It does not matter any more; a redrive brings it back.
            list_init(link);
        }
    }
}

size_t check_order_pending(struct check *check, uint32_t queue, uint64_t order)
{
    size_t count = 0;

    list_foreach (link, tasks_of(check, queue, order)) {
        count += CONTAINER_OF(link, struct check_task, order_link)->end == CHECK_PENDING;
    }
    return count;
}

int64_t check_order_longest(const struct check *check)
{
    struct map_iter iter = {0};
    int64_t longest = 0;
    struct list *tasks;

    while ((tasks = map_next(&check->orders, &iter)) != NULL) {
        int64_t count = 0;

        list_foreach (link, tasks) {
            count += CONTAINER_OF(link, struct check_task, order_link)->end == CHECK_PENDING;
        }
        longest = count > longest ? count : longest;
    }
    return longest;
}
