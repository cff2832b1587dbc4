/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of every call that leaves: K-2, K-4, K-6, and the answers to cancel and update.
 */
#include "broker/core/inspect.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "tests/sim/check_parts.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_load.h"
#include "tests/sim/sim_node.h"

#include <string.h>

/* What a claim's deadline leaves between the end of the last attempt that may start and itself,
 * but for what clocks drift meanwhile. source: DESIGN 7 */
#define MARGIN_US (990 * US_PER_MS)

/* A claim is at most so old when its attempt starts. */
#define FORWARD_SINCE_US (10 * US_PER_S)

/* The attempt's own times. */
static void check_times(struct check *check, const struct sim_node *node,
                        const struct check_task *task, const struct attempt *attempt)
{
    int64_t clock_us = check_clock(check, task->shard);
    int64_t latest_us = sim_clock_latest(check->sim, node->number, attempt->database);
    int64_t earliest_us = sim_clock_earliest(check->sim, node->number, attempt->database);

    if (latest_us < attempt->due_ms * US_PER_MS) {
        sim_fail(check->sim, SIM_UNSAFE, "K-4", "%s: attempt %u started %lld us early",
                 check_name(task).text, attempt->attempt,
                 (long long)(attempt->due_ms * US_PER_MS - latest_us));
    }
    check->figures.held_starts += clock_us < attempt->due_ms * US_PER_MS;
    if (earliest_us > attempt->start_by_ms * US_PER_MS) {
        sim_fail(check->sim, SIM_UNSAFE, "K-6", "%s: attempt %u started %lld us after start_by",
                 check_name(task).text, attempt->attempt,
                 (long long)(earliest_us - attempt->start_by_ms * US_PER_MS));
    }
    check->figures.late_starts += clock_us > attempt->start_by_ms * US_PER_MS;
    if (attempt->expire_ms != 0 && earliest_us > attempt->expire_ms * US_PER_MS) {
        sim_fail(check->sim, SIM_UNSAFE, "K-2", "%s: attempt %u started %lld us after its time",
                 check_name(task).text, attempt->attempt,
                 (long long)(earliest_us - attempt->expire_ms * US_PER_MS));
    }
    if (latest_us < sim_load_paused_until(check->sim->load, task->queue) * US_PER_MS) {
        sim_fail(check->sim, SIM_UNSAFE, "K-4", "%s: attempt %u started while its queue was paused",
                 check_name(task).text, attempt->attempt);
    }
    if (attempt->deadline_ms < attempt->start_by_ms + attempt->timeout_ms) {
        sim_fail(check->sim, SIM_UNSAFE, "K-6", "%s: attempt %u may outlive its claim",
                 check_name(task).text, attempt->attempt);
    }
}

/* The claim that it rests on. */
static void check_claim(struct check *check, const struct check_task *task,
                        const struct attempt *attempt)
{
    if (attempt->attempt != task->claimed || attempt->attempt <= task->attempt) {
        sim_fail(check->sim, SIM_UNSAFE, "K-6",
                 "%s: attempt %u started; claimed up to %u, over up to %u", check_name(task).text,
                 attempt->attempt, task->claimed, task->attempt);
    }
    if (attempt->deadline_ms != task->claim_deadline_ms) {
        sim_fail(check->sim, SIM_UNSAFE, "K-6",
                 "%s: attempt %u has another deadline than its claim", check_name(task).text,
                 attempt->attempt);
    }
}

/* By the clock the other one is over: its deadline has passed. Whether it really is depends on how
 * the clock got there. */
static void check_really_over(struct check *check, const struct check_task *task,
                              const struct attempt *attempt, const struct check_attempt *other)
{
    const struct sim *sim = check->sim;
    bool is_known = other->reported != 0 && other->reported != OUTCOME_UNKNOWN;
    int64_t forward_us =
        sim_clock_forward(sim, other->node, attempt->database, other->started - FORWARD_SINCE_US);

    if (is_known || sim->now >= other->started + other->timeout_ms * US_PER_MS) {
        return;
    }
    if (forward_us < MARGIN_US) {
        sim_fail(check->sim, SIM_UNSAFE, "K-6",
                 "%s: attempt %u started while attempt %u was running, and no clock had stepped",
                 check_name(task).text, attempt->attempt, other->attempt);
    }
    check->figures.clock_overlaps++;
}

/* Those before it. */
static void check_others(struct check *check, const struct check_task *task,
                         const struct attempt *attempt)
{
    for (size_t i = 0; i < task->attempt_count; i++) {
        const struct check_attempt *other = &task->attempts[i];

        if (other->is_lost ||
            (check_is_doubled(task, other->attempt) && other->attempt < attempt->attempt)) {
            // Its claim is not there, or what ended it may have been the outcome of one that is
            // not.
            check->figures.lost_overlaps += check_may_run(check, task, other);
        } else if (other->attempt >= attempt->attempt) {
            sim_fail(check->sim, SIM_UNSAFE, "K-2", "%s: attempt %u started after attempt %u",
                     check_name(task).text, attempt->attempt, other->attempt);
        } else if (check_may_run(check, task, other)) {
            sim_fail(check->sim, SIM_UNSAFE, "K-6",
                     "%s: attempt %u started while attempt %u may be running",
                     check_name(task).text, attempt->attempt, other->attempt);
        } else if (sim_load_is_at_most_once(check->sim->load, task->queue) &&
                   other->attempt > task->revived &&
                   (other->reported == 0 || other->reported == OUTCOME_UNKNOWN)) {
            sim_fail(check->sim, SIM_UNSAFE, "K-2",
                     "%s: attempt %u started, the outcome of %u is unknown, at most once",
                     check_name(task).text, attempt->attempt, other->attempt);
        } else {
            check_really_over(check, task, attempt, other);
        }
    }
}

/* It starts by a due time that the database has no more: only an update may have changed it, and
 * that has to say so. */
static void check_old_due(struct check *check, const struct check_task *task,
                          const struct attempt *attempt)
{
    struct check_call *update = task->due_call == 0 ? NULL : check_call_find(check, task->due_call);

    if (update == NULL || (update->state == CALL_STATE_ANSWERED && update->result == 0 &&
                           update->named != attempt->attempt)) {
        sim_fail(check->sim, SIM_UNSAFE, "K-4",
                 "%s: attempt %u started %lld us before its due time, by an older one",
                 check_name(task).text, attempt->attempt,
                 (long long)(task->due_ms * US_PER_MS - check_clock(check, task->shard)));
    } else {
        update->started_old = attempt->attempt;
    }
}

/* The bytes that it takes along: what the database has, unless an update since has named it. */
static void check_payload(struct check *check, const struct check_task *task,
                          const struct attempt *attempt)
{
    struct check_call *update = check_call_find(check, task->token);

    if (check_token(attempt->key) != task->key) {
        sim_fail(check->sim, SIM_UNSAFE, "K-1", "%s: attempt %u has another key",
                 check_name(task).text, attempt->attempt);
    }
    if (task->lost_at != 0 && task->lost_at >= task->claim_since &&
        check_token(attempt->payload) != task->token &&
        check_call_find(check, check_token(attempt->payload))->is_lost) {
        check->figures.excused_bytes++;
        return; // The bytes of an update that has never been; its owner has not heard that yet.
    }
    if (check_token(attempt->payload) == task->token) {
        if (attempt->payload.len != task->payload_len) {
            sim_fail(check->sim, SIM_UNSAFE, "K-1", "%s: attempt %u has %zu bytes of %zu",
                     check_name(task).text, attempt->attempt, attempt->payload.len,
                     task->payload_len);
        }
    } else if (update->kind != CALL_UPDATE ||
               (update->state == CALL_STATE_ANSWERED && update->result == 0 &&
                update->named != attempt->attempt)) {
        sim_fail(check->sim, SIM_UNSAFE, "K-1", "%s: attempt %u has bytes from before an update",
                 check_name(task).text, attempt->attempt);
    } else {
        update->started_old = attempt->attempt;
    }
}

/* What users have been told. */
static void check_answers(struct check *check, const struct sim_node *node, struct check_task *task,
                          const struct attempt *attempt)
{
    if (task->end == CHECK_DONE || task->end == CHECK_DEAD || task->end == CHECK_EXPIRED) {
        sim_fail(check->sim, SIM_UNSAFE, "K-3", "%s: attempt %u started after a recorded outcome",
                 check_name(task).text, attempt->attempt);
    } else if (task->end == CHECK_CANCELLED) {
        task->started_after_end = attempt->attempt;
        if (task->cancel_answers > 0 && task->last_allowed != attempt->attempt) {
            sim_fail(check->sim, SIM_UNSAFE, "K-6",
                     "%s: attempt %u started after cancel was answered, naming attempt %u",
                     check_name(task).text, attempt->attempt, task->last_allowed);
        }
    } else if (sim_clock_latest(check->sim, node->number, attempt->database) <
                   task->due_ms * US_PER_MS &&
               !task->is_due_nameless) {
        check_old_due(check, task, attempt);
    }
}

static void add_attempt(struct check *check, const struct sim_node *node, struct check_task *task,
                        const struct attempt *attempt, bool is_lost)
{
    struct check_attempt *added;

    task->attempts =
        mem_resize(task->attempts, (task->attempt_count + 1) * sizeof(*task->attempts));
    REQUIRE(task->attempts != NULL);
    added = &task->attempts[task->attempt_count++];
    *added = (struct check_attempt){.attempt = attempt->attempt,
                                    .node = node->number,
                                    .deadline_ms = attempt->deadline_ms,
                                    .timeout_ms = attempt->timeout_ms,
                                    .started = check->sim->now,
                                    .is_lost = is_lost};
}

static struct check_task *find_task(const struct check *check, const struct attempt *attempt)
{
    struct check_task *task = check_task_find(check, attempt->shard, attempt->id);

    return task != NULL ? task : check_lost_find(check, attempt->shard, attempt->id);
}

typedef bool (*attempt_test)(const struct check_attempt *attempt, enum outcome outcome);

static bool is_any(const struct check_attempt *attempt, enum outcome outcome)
{
    (void)attempt;
    (void)outcome;
    return true;
}

static bool is_unreceived(const struct check_attempt *attempt, enum outcome outcome)
{
    (void)outcome;
    return attempt->receiver == 0;
}

static bool is_unreported(const struct check_attempt *attempt, enum outcome outcome)
{
    return attempt->reported == 0 && attempt->receiver == outcome;
}

/* Two are alike if one was claimed again while the clock was held: then one that passes the test,
 * and else the one whose claim is in the database. */
static struct check_attempt *find_attempt(const struct check *check, const struct attempt *attempt,
                                          attempt_test test, enum outcome outcome)
{
    const struct check_task *task = find_task(check, attempt);
    struct check_attempt *best = NULL;
    int best_rank = -1;

    for (size_t i = task == NULL ? 0 : task->attempt_count; i > 0; i--) {
        struct check_attempt *found = &task->attempts[i - 1];
        int rank = (test(found, outcome) ? 2 : 0) + (found->is_lost ? 0 : 1);

        if (found->attempt == attempt->attempt && found->deadline_ms == attempt->deadline_ms &&
            rank > best_rank) {
            best = found;
            best_rank = rank;
        }
    }
    return best;
}

void check_start(struct check *check, const struct sim_node *node, const struct attempt *attempt)
{
    struct check_task *task = find_task(check, attempt);

    TRACE(&check->sim->trace, "send", node->number, attempt->shard, attempt->id.seq,
          attempt->attempt);
    if (task == NULL) {
        sim_fail(check->sim, SIM_UNSAFE, "K-6", "a task started that is in no database");
        return;
    }
    check->figures.starts++;
    check_times(check, node, task, attempt);
    if (check_is_lost_claim(task, attempt)) {
        check->figures.lost_starts++;
        add_attempt(check, node, task, attempt, true);
        return;
    }
    if (task->end == CHECK_LOST) {
        sim_fail(check->sim, SIM_UNSAFE, "K-6", "%s: it started, and it was never claimed",
                 check_name(task).text);
        return;
    }
    if (check_latest(check, task->shard) >= attempt->deadline_ms * US_PER_MS) {
        // A step of the clock has passed over its deadline, and is news to its broker: K-6.
        check->figures.clock_overlaps++;
        add_attempt(check, node, task, attempt, true);
        return;
    }
    check_others(check, task, attempt);
    check_answers(check, node, task, attempt);
    check_order_start(check, task, attempt);
    if (task->end == CHECK_PENDING) {
        check_claim(check, task, attempt);
        check_payload(check, task, attempt);
    }
    if (task->attempt_count == 0) {
        int64_t from = time_max(attempt->due_ms * US_PER_MS,
                                check_clock(check, task->shard) - check->sim->now + task->inserted);
        int64_t late_us = check_clock(check, task->shard) - from;

        check->figures.late_us_max = time_max(check->figures.late_us_max, late_us);
        check->late_us[task->shard] = time_max(check->late_us[task->shard], late_us);
    }
    add_attempt(check, node, task, attempt, false);
}

void check_unreached(struct check *check, const struct sim_node *node,
                     const struct attempt *attempt)
{
    struct check_task *task = find_task(check, attempt);

    // Of a claim that a promotion has lost nothing is left to be told.
    if (task != NULL && find_attempt(check, attempt, is_any, OUTCOME_UNKNOWN) == NULL &&
        attempt->attempt == task->claimed && attempt->deadline_ms == task->claim_deadline_ms) {
        add_attempt(check, node, task, attempt, false);
    }
}

void check_receiver(struct check *check, const struct attempt *attempt, enum outcome outcome)
{
    struct check_attempt *found = find_attempt(check, attempt, is_unreceived, outcome);

    // A rumour may be ahead of a Deliver that is still on its way.
    if (found != NULL && !found->is_told) {
        found->receiver = outcome;
    }
}

void check_reported(struct check *check, const struct sim_node *node, const struct attempt *attempt,
                    enum outcome outcome)
{
    struct check_attempt *found = find_attempt(check, attempt, is_unreported, outcome);

    TRACE(&check->sim->trace, "heard", node->number, attempt->shard, attempt->id.seq,
          attempt->attempt, outcome);
    // Who does not know it takes nothing back that another one has told.
    if (found != NULL && outcome != OUTCOME_NOT_STARTED &&
        !(found->is_told && outcome == OUTCOME_UNKNOWN)) {
        found->reported = outcome;
    }
}

/* The last attempt with a number, also one whose claim was lost or passed over by a clock. */
static struct check_attempt *newest_of(const struct check_task *task, uint32_t number)
{
    for (size_t i = task->attempt_count; i > 0; i--) {
        if (task->attempts[i - 1].attempt == number) {
            return &task->attempts[i - 1];
        }
    }
    return NULL;
}

/* Whether who has taken an outcome may know only the history that a promotion has lost, or goes by
 * a claim that has come back to life. */
static bool is_excused_telling(const struct check *check, const struct check_task *task,
                               const struct report *report)
{
    return check_is_shaken(check, report->shard) ||
           (task != NULL && task->end == CHECK_PENDING && task->claimed == report->attempt &&
            task->attempt < report->attempt);
}

void check_told(struct check *check, const struct sim_node *node, const struct report *report)
{
    struct check_task *task = check_task_find(check, report->shard, report->id);
    struct check_attempt *found = task == NULL ? NULL : newest_of(task, report->attempt);
    struct shard_view view;

    broker_inspect_shard(node->broker, report->shard, &view);
    if (view.epoch != check->epoch[report->shard]) {
        return; // It does not know yet that it is the owner no more, and cannot write it.
    }
    if (found == NULL || task->claimed != report->attempt || task->attempt >= report->attempt ||
        task->end != CHECK_PENDING) {
        if ((task == NULL ? check_lost_find(check, report->shard, report->id) != NULL
                          : task->lost_at != 0) &&
            is_excused_telling(check, task, report)) {
            check->figures.excused_tellings++;
            if (task != NULL) {
                // It does not know yet what was lost in a promotion, or a claim that was given back
                // before its start has come back to life.
                task->told_attempt = report->attempt;
                task->told = report->outcome;
            }
            return;
        }
        sim_fail(check->sim, SIM_UNSAFE, "K-3",
                 "an outcome of attempt %u was taken, which is not the live claim of task %llx of "
                 "shard %u",
                 report->attempt, (unsigned long long)report->id.seq, report->shard);
    } else if (found->reported == 0 || found->reported == OUTCOME_UNKNOWN ||
               found->attempt == task->reopened) {
        // It has been heard after all; or what was recorded of it before is lost.
        found->receiver = report->outcome;
        found->reported = report->outcome;
        found->is_told = true;
    }
}
