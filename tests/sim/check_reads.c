/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists, counts, dead letters, results, explanations.
 */
#include "tests/sim/check_reads.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "tests/sim/check_parts.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_node.h"

#include <string.h>

/* Bounds in the order of a shard's rows. */
struct bounds {
    int64_t after_bucket;
    int64_t after_seq;
    int64_t to_bucket;
    int64_t to_seq;
};

static bool is_within(const struct bounds *bounds, wall_ms due_ms, int64_t seq)
{
    int64_t bucket = due_bucket(due_ms);

    if (bucket < bounds->after_bucket ||
        (bucket == bounds->after_bucket && seq <= bounds->after_seq)) {
        return false;
    }
    return bucket < bounds->to_bucket || (bucket == bounds->to_bucket && seq <= bounds->to_seq);
}

/* As it was when the read began, and so at its moment. */
static bool is_steady(const struct check_task *task, int64_t begun)
{
    return task->changed < begun;
}

/* A row that was read, of a task that has not changed: all of it. */
static void check_same(struct check *check, const struct check_task *task, const struct task *row)
{
    bool has_payload = row->payload.len == row->payload_len;

    if (row->id.slot != task->id.slot || row->queue != task->queue || row->due_ms != task->due_ms ||
        row->attempt != task->attempt || row->failures != task->failures ||
        row->unknowns != task->unknowns || row->expire_ms != task->expire_ms ||
        row->payload_len != task->payload_len || check_token(row->key) != task->key ||
        (has_payload && check_token(row->payload) != task->token)) {
        sim_fail(check->sim, SIM_UNSAFE, "read", "%s was read otherwise than it is",
                 check_name(task).text);
    }
}

/* One row of a page. True: it counts as steady. */
static bool check_page_row(struct check *check, const struct store_read *read,
                           const struct task *row, int64_t begun)
{
    const struct check_task *task = check_task_find(check, read->shard, row->id);

    if (task == NULL && check_lost_find(check, read->shard, row->id) != NULL) {
        return false;
    }
    if (task == NULL || (task->end != CHECK_PENDING && is_steady(task, begun))) {
        sim_fail(check->sim, SIM_UNSAFE, "read", "a list has task %llx of shard %u, which is none",
                 (unsigned long long)row->id.seq, read->shard);
        return false;
    }
    if (is_steady(task, begun)) {
        check_same(check, task, row);
    }
    return is_steady(task, begun);
}

void check_read_page(struct check *check, const struct store_read *read, int64_t begun)
{
    struct bounds bounds = {read->after_bucket, read->after_seq, read->to_bucket, INT64_MAX};
    size_t steady = 0;
    size_t expected = 0;

    for (size_t i = 0; i < read->row_count; i++) {
        const struct task *row = &read->rows[i];

        if (!is_within(&bounds, row->due_ms, row->id.seq) ||
            (read->queue != 0 && row->queue != read->queue)) {
            sim_fail(check->sim, SIM_UNSAFE, "read", "a list of shard %u is out of order",
                     read->shard);
        }
        bounds.after_bucket = due_bucket(row->due_ms);
        bounds.after_seq = row->id.seq;
        steady += check_page_row(check, read, row, begun);
    }
    if (read->has_more && read->row_count > 0) {
        bounds.to_bucket = bounds.after_bucket;
        bounds.to_seq = bounds.after_seq;
    }
    bounds.after_bucket = read->after_bucket;
    bounds.after_seq = read->after_seq;
    list_foreach (link, &check->rows[read->shard]) {
        const struct check_task *task = CONTAINER_OF(link, struct check_task, place);

        expected += task->end == CHECK_PENDING && is_steady(task, begun) &&
                    (read->queue == 0 || read->queue == task->queue) &&
                    is_within(&bounds, task->due_ms, task->id.seq);
    }
    if (steady != expected) {
        sim_fail(check->sim, SIM_UNSAFE, "read",
                 "a list of shard %u has %zu of %zu tasks that have not changed meanwhile",
                 read->shard, steady, expected);
    }
}

/* How many there are of a queue for sure, and how many besides there may have been. */
struct tally {
    uint64_t pending;
    uint64_t overdue;
    uint64_t dead;
    uint64_t perhaps;
    wall_ms first_due_ms;
};

/* By queue: out has CHECK_QUEUES_MAX. */
static void tally_shard(const struct check *check, const struct store_read *read, int64_t begun,
                        struct tally *out)
{
    struct map_iter iter = {0};
    const struct check_task *task;

    for (uint32_t queue = 0; queue < CHECK_QUEUES_MAX; queue++) {
        out[queue] = (struct tally){.first_due_ms = WALL_NEVER};
    }
    list_foreach (link, &check->rows[read->shard]) {
        struct tally *tally;

        task = CONTAINER_OF(link, struct check_task, place);
        tally = &out[task->queue];
        if (!is_steady(task, begun)) {
            tally->perhaps++;
        } else if (task->end == CHECK_PENDING) {
            tally->pending++;
            tally->overdue += task->due_ms <= read->now_ms;
            tally->first_due_ms = time_min(tally->first_due_ms, task->due_ms);
        } else {
            tally->dead++;
        }
    }
    list_foreach (link, &check->ended[read->shard]) {
        task = CONTAINER_OF(link, struct check_task, place);
        if (is_steady(task, begun)) {
            break; // So are those after it.
        }
        out[task->queue].perhaps++;
    }
    while ((task = map_next(&check->lost_by_seq[read->shard], &iter)) != NULL) {
        out[task->queue].perhaps += task->lost_at >= begun;
    }
}

static bool is_between(uint64_t count, uint64_t sure, uint64_t perhaps)
{
    return count >= sure && count <= sure + perhaps;
}

static void check_queue_count(struct check *check, const struct store_read *read,
                              const struct queue_count *count, const struct tally *tally)
{
    if (!is_between(count->pending, tally->pending, tally->perhaps) ||
        !is_between(count->overdue, tally->overdue, tally->perhaps) ||
        !is_between(count->dead, tally->dead, tally->perhaps) ||
        count->first_due_ms > tally->first_due_ms ||
        (tally->perhaps == 0 && count->first_due_ms != tally->first_due_ms)) {
        sim_fail(check->sim, SIM_UNSAFE, "read",
                 "queue %u has %llu pending, %llu overdue, %llu dead in shard %u; %llu, %llu, %llu "
                 "for sure and %llu perhaps",
                 count->queue, (unsigned long long)count->pending,
                 (unsigned long long)count->overdue, (unsigned long long)count->dead, read->shard,
                 (unsigned long long)tally->pending, (unsigned long long)tally->overdue,
                 (unsigned long long)tally->dead, (unsigned long long)tally->perhaps);
    }
}

void check_read_counts(struct check *check, const struct store_read *read, int64_t begun)
{
    struct tally tallies[CHECK_QUEUES_MAX];

    if (read->is_cut) {
        return;
    }
    tally_shard(check, read, begun, tallies);
    for (uint32_t queue = 1; queue <= check->sim->queue_count; queue++) {
        struct queue_count count = {.queue = queue, .first_due_ms = WALL_NEVER};

        if (read->queue != 0 && read->queue != queue) {
            continue;
        }
        for (size_t i = 0; i < read->count_count; i++) {
            if (read->counts[i].queue == queue) {
                count = read->counts[i];
            }
        }
        check_queue_count(check, read, &count, &tallies[queue]);
    }
}

/* A dead letter that was read, of a task that has not changed. */
static void check_same_letter(struct check *check, const struct check_task *task,
                              const struct ended_task *letter)
{
    if (!check_is_letter(task) || letter->end != TASK_END_DEAD ||
        letter->task.attempt != task->claimed || letter->task.failures != task->failures ||
        letter->task.queue != task->queue || check_token(letter->task.key) != task->key ||
        (letter->task.payload.len > 0 && check_token(letter->task.payload) != task->token)) {
        sim_fail(check->sim, SIM_UNSAFE, "read", "%s is no such dead letter",
                 check_name(task).text);
    }
}

void check_read_letters(struct check *check, const struct store_read *read, int64_t begun)
{
    int64_t last = read->after_seq;
    int64_t end = INT64_MAX;
    const struct check_task *task;
    size_t steady = 0;
    size_t expected = 0;

    for (size_t i = 0; i < read->ended_count; i++) {
        const struct ended_task *letter = &read->ended[i];

        task = check_task_find(check, read->shard, letter->task.id);
        if (task == NULL && check_lost_find(check, read->shard, letter->task.id) != NULL) {
            last = letter->task.id.seq;
            continue;
        }
        if (task == NULL || letter->task.id.seq <= last || letter->task.queue != read->queue) {
            sim_fail(check->sim, SIM_UNSAFE, "read", "dead letters of shard %u are out of order",
                     read->shard);
            return;
        }
        last = letter->task.id.seq;
        if (is_steady(task, begun)) {
            check_same_letter(check, task, letter);
            steady++;
        }
    }
    if (read->ended_count == read->limit) {
        end = last;
    }
    list_foreach (link, &check->rows[read->shard]) {
        task = CONTAINER_OF(link, struct check_task, place);
        expected += check_is_letter(task) && is_steady(task, begun) && task->queue == read->queue &&
                    task->id.seq > read->after_seq && task->id.seq <= end;
    }
    if (steady != expected) {
        sim_fail(check->sim, SIM_UNSAFE, "read",
                 "%zu of %zu dead letters of shard %u that have not changed meanwhile", steady,
                 expected, read->shard);
    }
}

/* The result of one task that has not changed: what is kept of it. */
static void check_result(struct check *check, const struct check_task *task,
                         const struct ended_task *ended, wall_ms now_ms)
{
    bool is_kept =
        check_is_letter(task) || (task->end != CHECK_PENDING && task->keep_until_ms > now_ms);
    enum task_end end = check_is_letter(task) ? TASK_END_DEAD : task->ended_as;
    uint32_t attempt = check_is_letter(task) ? task->claimed : task->last_attempt;
    uint32_t database = check->sim->cluster.database_of[task->shard];

    if (is_kept && ended == NULL && !check_is_letter(task) &&
        sim_clock_highest(check->sim, database) >= task->keep_until_ms * US_PER_MS) {
        return; // The database has stepped over its time, and nobody knows yet.
    }
    if (is_kept != (ended != NULL)) {
        sim_fail(check->sim, SIM_UNSAFE, "read", "%s: its result is %s", check_name(task).text,
                 is_kept ? "not found before its time" : "found, and there is none");
    } else if (is_kept && (ended->end != end || ended->task.attempt != attempt)) {
        sim_fail(check->sim, SIM_UNSAFE, "read", "%s ended as %u at attempt %u, read as %u at %u",
                 check_name(task).text, end, attempt, ended->end, ended->task.attempt);
    }
}

void check_read_results(struct check *check, const struct store_read *read, int64_t begun)
{
    for (size_t i = 0; i < read->id_count; i++) {
        const struct check_task *task = check_task_find(check, read->shard, read->ids[i]);
        const struct ended_task *found = NULL;

        for (size_t j = 0; j < read->ended_count; j++) {
            if (read->ended[j].task.id.seq == read->ids[i].seq) {
                found = &read->ended[j];
            }
        }
        if (task != NULL && is_steady(task, begun)) {
            check_result(check, task, found, read->now_ms);
        }
    }
}

/* Why a broker says that a task waits, against what is known of it. */
static void check_wait(struct check *check, const struct sim_node *node,
                       const struct check_task *task, const struct task_wait *wait)
{
    const struct queue *queue = broker_queue_find(node->broker, task->queue);
    uint32_t database = check->sim->cluster.database_of[task->shard];
    int64_t latest_us = sim_clock_latest(check->sim, node->number, database);
    bool is_wrong = false;

    switch (wait->reason) {
    case TASK_WAIT_DUE:
    case TASK_WAIT_BACKOFF:
        is_wrong = wait->until_ms != task->due_ms ||
                   (wait->reason == TASK_WAIT_BACKOFF) != (task->failures + task->unknowns > 0);
        break;
    case TASK_WAIT_PAUSED:
        is_wrong = queue == NULL || !queue->is_paused ||
                   (queue->paused_until_ms != 0 && queue->paused_until_ms != wait->until_ms);
        break;
    case TASK_WAIT_CONCURRENCY:
        is_wrong = queue == NULL || wait->limit != queue->concurrency_max ||
                   task->due_ms * US_PER_MS > latest_us + US_PER_S;
        break;
    case TASK_WAIT_OUTCOME:
        is_wrong = task->claimed <= task->attempt;
        break;
    case TASK_WAIT_ORDER:
        is_wrong = task->order == 0 || wait->behind.seq == task->id.seq;
        break;
    case TASK_WAIT_QUEUE_UNKNOWN:
        is_wrong = queue != NULL;
        break;
    case TASK_WAIT_TARGET:
    case TASK_WAIT_ATTEMPT:
    case TASK_WAIT_LOADING:
    case TASK_WAIT_WRITE:
    case TASK_WAIT_LINE:
        break;
    }
    if (is_wrong) {
        sim_fail(check->sim, SIM_UNSAFE, "read", "%s does not wait for reason %u, until %lld",
                 check_name(task).text, wait->reason, (long long)wait->until_ms);
    }
}

void check_read_task(struct check *check, const struct sim_node *node, const struct call *call,
                     const struct task_wait *wait, int64_t begun)
{
    const struct check_task *task = check_task_find(check, call->shard, call->row.id);

    if (task == NULL && check_lost_find(check, call->shard, call->row.id) != NULL) {
        return;
    }
    if (task == NULL || (is_steady(task, begun) && task->end != CHECK_PENDING)) {
        sim_fail(check->sim, SIM_UNSAFE, "read", "task %llx of shard %u was read, and is none",
                 (unsigned long long)call->row.id.seq, call->shard);
        return;
    }
    if (!is_steady(task, begun)) {
        return;
    }
    check_same(check, task, &call->row);
    check_wait(check, node, task, wait);
    if (call->state == TASK_STATE_RUNNING && call->attempt != task->attempt + 1) {
        sim_fail(check->sim, SIM_UNSAFE, "read", "%s runs at attempt %u, said to be %u",
                 check_name(task).text, task->attempt + 1, call->attempt);
    }
}

/* --- purges --- */

bool check_pick_letter(struct check *check, struct prng *prng, uint32_t *shard, struct task_id *id)
{
    const struct check_task *task;

    if (check->dead_count == 0) {
        return false;
    }
    task = check->dead[prng_below(prng, check->dead_count)];
    if (task->end == CHECK_LOST) {
        return false;
    }
    *shard = task->shard;
    *id = task->id;
    return true;
}

void check_purge_begin(struct check *check, uint32_t shard, struct task_id id)
{
    struct check_task *task = check_task_find(check, shard, id);

    if (task != NULL) {
        task->purges++;
    }
}

void check_purge_answer(struct check *check, const struct call *call, int64_t begun)
{
    struct check_task *task = check_task_find(check, call->shard, call->task.id);

    if (call->result == ERR_OUTCOME_UNKNOWN) {
        return; // It may still happen.
    }
    if (task == NULL || task->purges == 0) {
        return; // It was lost with its database's last commits.
    }
    task->purges--;
    if (call->result == 0 && !task->was_purged) {
        sim_fail(check->sim, SIM_UNSAFE, "K-1", "%s: a purge was answered, and is not in effect",
                 check_name(task).text);
    } else if (call->result == ERR_NOT_FOUND && check_is_letter(task) && is_steady(task, begun)) {
        sim_fail(check->sim, SIM_UNSAFE, "K-8", "%s: a purge did not find the dead letter",
                 check_name(task).text);
    }
}

void check_purged(struct check *check, struct check_task *task)
{
    if (task == NULL || !check_is_letter(task) || task->purges == 0) {
        sim_fail(check->sim, SIM_UNSAFE, "K-1",
                 "a purge of a task that is no dead letter, or of one that nobody has asked for");
        return;
    }
    task->is_purged = true;
    task->was_purged = true;
    task->purged_at = check->sim->now;
    check->figures.purged++;
}
