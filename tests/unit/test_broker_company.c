/* SPDX-License-Identifier: Apache-2.0
 *
 * Outcomes wait for others to be committed with, unless somebody waits for them; and how long a
 * slow commit is remembered. source: docs/adr/0038
 */
#include "tests/unit/broker_rig.h"

#include <inttypes.h>

#define TASKS 8U

/* Until the first of them leave; the parts follow each other so. */
#define FIRST_MS (BROKER_SETTLE_WAIT_US / US_PER_MS / 2)
#define PARTS    4U

/* More than leave together. */
#define MANY 160U

/* All shards are owned, and so many tasks of a queue run: the i-th in slot i modulo SHARDS. */
static void open_running_of(struct rig *rig, const struct queue *queue, size_t tasks)
{
    rig_settle_wait_us = BROKER_SETTLE_WAIT_US;
    rig_open(rig);
    broker_on_queues(rig->broker, &rig->now, queue, 1, 1);
    for (size_t i = 0; i < tasks; i++) {
        struct call call = rig_create(rig, (uint16_t)(i % SHARDS), rig_time(rig));

        rig_ask(rig, &call);
    }
    rig_pass(rig, 60);
    cr_assert_eq(rig->seen_count, tasks);
    cr_assert_eq(rig_entries(rig), tasks);
}

static void open_running(struct rig *rig, size_t tasks, uint32_t concurrency)
{
    struct queue queue = rig_queue(1, concurrency);

    open_running_of(rig, &queue, tasks);
}

static struct broker_stats stats_of(const struct rig *rig)
{
    struct broker_stats stats;

    broker_inspect(rig->broker, &stats);
    return stats;
}

static void end_some(struct rig *rig, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        rig_end(rig, i, OUTCOME_DONE);
    }
}

/* Nothing is written for so long, and the broker sleeps in between. */
static void sleep_for(struct rig *rig, span_ms span)
{
    for (span_ms i = 0; i < span; i++) {
        rig_turn(rig);
        cr_assert_null(rig_write(rig));
        cr_assert_gt(broker_next_wake(rig->broker, &rig->now), rig->now.boot, "it does not sleep");
        rig_set_time(rig, rig_time(rig) + 1);
    }
}

/* What leaves at once has left. */
static void must_have_now(struct rig *rig, uint32_t entries)
{
    rig_turn(rig);
    rig_turn(rig);
    cr_assert_eq(rig_entries(rig), entries, "%u are left", rig_entries(rig));
}

Test(broker_company, few_outcomes_wait_for_each_other_and_leave_together)
{
    static struct rig rig;
    uint64_t batches;

    open_running(&rig, TASKS, 100);
    batches = stats_of(&rig).batches;
    rig_end(&rig, 0, OUTCOME_DONE);
    cr_assert_eq(broker_next_wake(rig.broker, &rig.now), rig.now.boot + FIRST_MS * US_PER_MS);
    sleep_for(&rig, FIRST_MS / 2);
    end_some(&rig, 1, TASKS);
    sleep_for(&rig, FIRST_MS - FIRST_MS / 2);
    cr_assert_eq(rig_entries(&rig), TASKS);
    must_have_now(&rig, 0);
    cr_assert_eq(stats_of(&rig).batches, batches + 1);
    rig_close(&rig);
}

Test(broker_company, many_leave_by_turns_within_the_longest_wait)
{
    static struct rig rig;
    wall_ms ended_ms;
    uint32_t left = MANY;

    open_running(&rig, MANY, 1000);
    end_some(&rig, 0, MANY);
    ended_ms = rig_time(&rig);
    sleep_for(&rig, FIRST_MS);
    for (uint32_t i = 0; i < PARTS; i++) {
        left -= MANY / PARTS;
        must_have_now(&rig, left);
        if (left > 0) {
            sleep_for(&rig, FIRST_MS / PARTS);
            rig_pass(&rig, i == 0); // Steps of 6.25 ms: the first is over after seven.
        }
    }
    cr_assert_leq(rig_time(&rig) - ended_ms, BROKER_SETTLE_WAIT_US / US_PER_MS);
    rig_close(&rig);
}

Test(broker_company, all_have_had_their_turn_after_a_slow_commit)
{
    static struct rig rig;
    struct call call;

    open_running(&rig, MANY, 1000);
    end_some(&rig, 0, MANY);
    call = rig_create(&rig, 2, rig_time(&rig) + 1000000);
    rig_call(&rig, &call);
    broker_tick(rig.broker, &rig.now);
    cr_assert_not_null(rig_write(&rig));
    rig_set_time(&rig, rig_time(&rig) + BROKER_SETTLE_WAIT_US / US_PER_MS);
    must_have_now(&rig, 0);
    rig_close(&rig);
}

Test(broker_company, a_commit_for_others_does_not_take_them_along)
{
    static struct rig rig;
    struct call call;

    open_running(&rig, 1, 100);
    rig_end(&rig, 0, OUTCOME_DONE);
    call = rig_create(&rig, 2, rig_time(&rig) + 1000000);
    rig_ask(&rig, &call);
    cr_assert_eq(rig_entries(&rig), 1, "it is written to a table that the commit does not touch");
    sleep_for(&rig, FIRST_MS);
    must_have_now(&rig, 0);
    rig_close(&rig);
}

Test(broker_company, where_nearly_all_run_that_may_nobody_waits)
{
    static struct rig rig;

    open_running(&rig, TASKS, TASKS + TASKS / 4);
    rig_end(&rig, 0, OUTCOME_DONE);
    must_have_now(&rig, TASKS - 1);
    rig_end(&rig, 1, OUTCOME_DONE);
    must_have_now(&rig, TASKS - 1);
    rig_close(&rig);
}

/* Three of four ended while there was room for more; then more come than find room beside them. */
Test(broker_company, who_finds_no_room_does_not_wait_for_outcomes)
{
    static struct rig rig;

    open_running(&rig, 5, TASKS);
    end_some(&rig, 0, 3);
    must_have_now(&rig, 5);
    for (size_t i = 0; i < 4; i++) {
        struct call call = rig_create(&rig, (uint16_t)(i % SHARDS), rig_time(&rig));

        rig_ask(&rig, &call);
    }
    rig_pass(&rig, 4);
    cr_assert_eq(rig.seen_count, 9);
    rig_close(&rig);
}

Test(broker_company, a_task_that_goes_on_soon_does_not_wait)
{
    static struct rig rig;
    struct queue queue = rig_queue(1, 100);

    queue.retry.initial_ms = BROKER_SETTLE_WAIT_US / US_PER_MS;
    open_running_of(&rig, &queue, TASKS);
    rig_end(&rig, 0, OUTCOME_DONE);
    rig_end(&rig, 1, OUTCOME_DONE);
    rig_end(&rig, SHARDS, OUTCOME_RETRY);
    must_have_now(&rig, TASKS - 1); // With it the other one of its shard.
    cr_assert_eq(stats_of(&rig).retried, 1);
    cr_assert_eq(stats_of(&rig).done, 1);
    rig_close(&rig);
}

Test(broker_company, a_retry_that_is_a_while_off_waits_and_is_on_time)
{
    static struct rig rig;
    struct queue queue = rig_queue(1, 100);
    wall_ms due_ms;

    queue.retry.initial_ms = 3 * BROKER_SETTLE_WAIT_US / US_PER_MS;
    open_running_of(&rig, &queue, 1);
    due_ms = rig_time(&rig) + queue.retry.initial_ms;
    rig_end(&rig, 0, OUTCOME_RETRY);
    sleep_for(&rig, FIRST_MS);
    cr_assert_eq(stats_of(&rig).retried, 0);
    must_have_now(&rig, 1);
    cr_assert_eq(stats_of(&rig).retried, 1);
    rig_pass(&rig, due_ms - rig_time(&rig) - 1);
    cr_assert_eq(rig.seen_count, 1);
    rig_pass(&rig, 2);
    cr_assert_eq(rig.seen_count, 2);
    rig_close(&rig);
}

Test(broker_company, a_dead_letter_waits)
{
    static struct rig rig;

    open_running(&rig, 1, 100);
    rig_end(&rig, 0, OUTCOME_DEAD);
    sleep_for(&rig, FIRST_MS);
    must_have_now(&rig, 0);
    cr_assert_eq(stats_of(&rig).dead, 1);
    rig_close(&rig);
}

Test(broker_company, what_would_be_a_dead_letter_if_it_were_lost_does_not_wait)
{
    static struct rig rig;
    struct queue queue = rig_queue(1, 100);

    queue.at_most_once = true;
    open_running_of(&rig, &queue, TASKS);
    rig_end(&rig, 0, OUTCOME_DONE);
    must_have_now(&rig, TASKS - 1);
    rig_close(&rig);
}

Test(broker_company, the_next_of_an_order_key_does_not_wait)
{
    static struct rig rig;

    open_running(&rig, 0, 100);
    for (size_t i = 0; i < 2; i++) {
        struct call call = rig_create(&rig, 0, rig_time(&rig));

        call.task.order_key = slice_of("line");
        rig_ask(&rig, &call);
    }
    rig_pass(&rig, 40);
    cr_assert_eq(rig.seen_count, 1);
    rig_end(&rig, 0, OUTCOME_DONE);
    rig_pass(&rig, 8);
    cr_assert_eq(rig.seen_count, 2);
    rig_close(&rig);
}

Test(broker_company, a_call_about_it_does_not_wait)
{
    static struct rig rig;
    struct call call;

    open_running(&rig, 1, 100);
    rig_end(&rig, 0, OUTCOME_DONE);
    must_have_now(&rig, 1);
    call = rig_by_id(&rig, CALL_CANCEL, rig.seen[0].id);
    rig_call(&rig, &call);
    must_have_now(&rig, 0);
    rig_close(&rig);
}

Test(broker_company, a_broker_that_leaves_does_not_wait)
{
    static struct rig rig;

    open_running(&rig, TASKS, 100);
    end_some(&rig, 0, TASKS);
    broker_drain(rig.broker, &rig.now);
    must_have_now(&rig, 0);
    cr_assert_eq(stats_of(&rig).done, TASKS);
    rig_close(&rig);
}

/* All are of one shard, whose part has room for a quarter of those that may wait. */
Test(broker_company, half_a_lane_does_not_wait)
{
    static struct rig rig;
    const size_t half = BROKER_WAITING_OP_MIN / PARTS / 2;

    rig_waiting_op_max = BROKER_WAITING_OP_MIN;
    open_running(&rig, half * SHARDS, 1000);
    for (size_t i = 0; i < half; i++) {
        must_have_now(&rig, (uint32_t)(half * SHARDS));
        rig_end(&rig, i * SHARDS, OUTCOME_DONE);
    }
    must_have_now(&rig, (uint32_t)(half * SHARDS - half));
    rig_close(&rig);
}

/* A create whose commit takes so long. */
static void commit_in(struct rig *rig, span_ms span)
{
    struct call call = rig_create(rig, 0, rig_time(rig) + 100000000);

    rig_call(rig, &call);
    broker_tick(rig->broker, &rig->now);
    cr_assert_not_null(rig_write(rig));
    rig_set_time(rig, rig_time(rig) + span);
    rig_turn(rig);
    rig_turn(rig);
}

Test(broker_company, a_slow_commit_is_remembered_by_the_clock)
{
    static struct rig rig;

    open_running(&rig, 0, 100);
    commit_in(&rig, 20);
    cr_assert_eq(stats_of(&rig).claim_lead_ms, 40);
    for (int i = 0; i < 1000; i++) {
        commit_in(&rig, 1);
    }
    cr_assert_geq(stats_of(&rig).claim_lead_ms, 30, "%u ms",
                  (unsigned)stats_of(&rig).claim_lead_ms);
    for (int i = 0; i < 20000; i++) {
        commit_in(&rig, 1);
    }
    cr_assert_leq(stats_of(&rig).claim_lead_ms, 8, "%u ms", (unsigned)stats_of(&rig).claim_lead_ms);
    rig_close(&rig);
}

/* A task that is due so far ahead, and the time until its claim is written; it runs on time. */
static span_ms claimed_after(struct rig *rig, span_ms ahead)
{
    wall_ms due_ms = rig_time(rig) + ahead;
    struct call call = rig_create(rig, 1, due_ms);
    span_ms passed = 0;

    rig_ask(rig, &call);
    while (stats_of(rig).claims == 0) {
        rig_turn(rig);
        rig_set_time(rig, rig_time(rig) + 1);
        passed++;
        cr_assert_leq(passed, ahead);
    }
    rig_pass(rig, due_ms - rig_time(rig));
    rig_turn(rig);
    cr_assert_eq(rig->seen_count, 1);
    return passed;
}

Test(broker_company, a_claim_ahead_of_its_time_waits_a_little)
{
    static struct rig rig;
    span_ms passed;

    rig_claim_wait_us = 20000;
    open_running(&rig, 0, 100);
    commit_in(&rig, 10);
    cr_assert_eq(stats_of(&rig).claim_lead_ms, 40);
    // It may be claimed 40 ms before it is due, and must be 20 ms before.
    passed = claimed_after(&rig, 500);
    cr_assert(passed >= 478 && passed <= 482, "after %" PRId64 " ms", passed);
    rig_close(&rig);
}

Test(broker_company, a_claim_leaves_with_a_commit_that_leaves_anyway)
{
    static struct rig rig;
    struct call call;

    rig_claim_wait_us = 20000;
    open_running(&rig, 0, 100);
    commit_in(&rig, 10);
    call = rig_create(&rig, 1, rig_time(&rig) + 500);
    rig_ask(&rig, &call);
    rig_pass(&rig, 470);
    cr_assert_eq(stats_of(&rig).claims, 0);
    commit_in(&rig, 0);
    cr_assert_eq(stats_of(&rig).claims, 1);
    rig_close(&rig);
}
