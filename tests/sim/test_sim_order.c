/* SPDX-License-Identifier: Apache-2.0
 *
 * Stories of order keys: one at a time, in due order, past failures, cancels and new owners. What
 * must never be is seen by check_order.c; here is seen what must be.
 */
#include "broker/core/inspect.h"
#include "lib/base/list.h"
#include "tests/sim/story.h"

/* Queues by their policy: see sim_load.c. */
#define QUEUE_SKIP  1
#define QUEUE_DEAD  2
#define QUEUE_BLOCK 3

static struct sim *open_with(uint64_t seed, int64_t target_us, uint32_t retry_permille)
{
    struct sim_options options;

    sim_options_quiet(&options, seed);
    options.queue_count = 3;
    options.target_us = target_us;
    options.target_retry_permille = retry_permille;
    return story_open(&options);
}

/* A task of order key 7, in shard 1. */
static struct check_known create(struct sim *sim, uint32_t queue, span_ms delay_ms)
{
    struct sim_ask ask = {
        .kind = CALL_CREATE, .shard = 1, .queue = queue, .delay_ms = delay_ms, .order = 7};
    struct call call = story_ask(sim, &ask);

    MUST_OK(call.result);
    return (struct check_known){.id = call.found, .queue = queue, .due_ms = call.found_due_ms};
}

static struct call ask_for(struct sim *sim, enum call_kind kind, const struct check_known *task,
                           span_ms delay_ms)
{
    struct sim_ask ask = {.kind = kind, .task = *task, .delay_ms = delay_ms};
    struct call call = story_ask(sim, &ask);

    MUST_OK(call.result);
    return call;
}

static uint32_t starts(struct sim *sim, const struct check_known *task)
{
    return check_start_count(sim->check, 1, task->id);
}

static bool has_ended(struct sim *sim, const struct check_known *task)
{
    return check_has_ended(sim->check, 1, task->id);
}

static void a_task_runs_when_the_one_before_it_has_ended(void)
{
    struct sim *sim = open_with(40, 300 * US_PER_MS, 0);
    struct check_known first = create(sim, QUEUE_BLOCK, 500);
    struct check_known second = create(sim, QUEUE_BLOCK, 510);
    struct check_known other = story_create(sim, 1, 500); // Of no order key.

    story_wait_starts(sim, &first, 1);
    story_pass(sim, 20 * US_PER_MS);
    MUST_EQ(starts(sim, &other), 1);
    while (!has_ended(sim, &first)) {
        MUST_EQ(starts(sim, &second), 0);
        story_pass(sim, US_PER_MS);
    }
    story_pass(sim, 100 * US_PER_MS);
    MUST_EQ(starts(sim, &second), 1);
    story_close(sim);
}

static void what_is_due_before_one_that_waits_goes_first(void)
{
    struct sim *sim = open_with(41, 300 * US_PER_MS, 0);
    struct check_known running = create(sim, QUEUE_BLOCK, 0);
    struct check_known late = create(sim, QUEUE_BLOCK, 20);
    struct check_known early;

    story_wait_starts(sim, &running, 1);
    early = create(sim, QUEUE_BLOCK, 10);
    story_wait_end(sim, &early);
    MUST_EQ(starts(sim, &late), 0);
    story_close(sim);
}

/* The claim of the first is made some milliseconds ahead of its time; it is given back. */
static void what_comes_between_claim_and_start_goes_first(void)
{
    struct sim *sim = open_with(42, 5 * US_PER_MS, 0);

    for (int i = 0; i < 300; i++) {
        struct check_known first = create(sim, QUEUE_BLOCK, 40);
        struct check_known second;

        story_pass(sim, 20 * US_PER_MS + i * 60);
        second = create(sim, QUEUE_BLOCK, 0);
        story_wait_end(sim, &second);
        story_wait_end(sim, &first);
    }
    story_close(sim);
}

static void a_failing_task_blocks_until_it_is_cancelled(void)
{
    struct sim *sim = open_with(43, 5 * US_PER_MS, 1000);
    struct check_known head = create(sim, QUEUE_BLOCK, 0);
    struct check_known follower = create(sim, QUEUE_BLOCK, 1);

    story_pass(sim, 60 * US_PER_S);
    MUST_LE(20, starts(sim, &head)); // The limit of failures is 6.
    MUST_EQ(starts(sim, &follower), 0);
    MUST_EQ(ask_for(sim, CALL_CANCEL, &head, 0).cancel, CANCEL_STOPPED);
    story_wait_starts(sim, &follower, 1);
    (void)ask_for(sim, CALL_CANCEL, &follower, 0);
    story_close(sim);
}

static void a_failing_task_that_gets_a_later_time_lets_the_next_go(void)
{
    struct sim *sim = open_with(44, 5 * US_PER_MS, 1000);
    struct check_known head = create(sim, QUEUE_BLOCK, 0);
    struct check_known follower = create(sim, QUEUE_BLOCK, 1);

    story_pass(sim, 5 * US_PER_S);
    MUST_EQ(starts(sim, &follower), 0);
    (void)ask_for(sim, CALL_UPDATE, &head, 60000);
    story_wait_starts(sim, &follower, 1);
    (void)ask_for(sim, CALL_UPDATE, &head, 0); // At once, and yet behind the one that has begun.
    sim->options.target_retry_permille = 0;
    story_wait_end(sim, &head);
    MUST(has_ended(sim, &follower));
    story_close(sim);
}

static void a_task_that_has_failed_enough_is_passed_over(void)
{
    struct sim *sim = open_with(45, 5 * US_PER_MS, 1000);
    struct check_known head = create(sim, QUEUE_SKIP, 0);
    struct check_known follower = create(sim, QUEUE_SKIP, 1);

    story_wait_starts(sim, &head, 1);
    MUST_EQ(starts(sim, &follower), 0);
    story_wait_starts(sim, &follower, 1);
    MUST_EQ(starts(sim, &head), 2);
    story_close(sim);
}

static void a_dead_letter_lets_the_next_go_and_comes_back_behind_it(void)
{
    struct sim *sim = open_with(46, 5 * US_PER_MS, 1000);
    struct check_known head = create(sim, QUEUE_DEAD, 0);
    struct check_known follower = create(sim, QUEUE_DEAD, 1);

    story_wait_end(sim, &head);
    MUST_EQ(starts(sim, &head), 6);
    MUST_EQ(starts(sim, &follower), 0);
    story_wait_starts(sim, &follower, 1);
    story_close(sim);
}

/* The back-off of the head is long, so that no page of the new owner brings it. */
static void a_new_owner_knows_who_is_blocked(void)
{
    struct sim *sim = open_with(47, 5 * US_PER_MS, 1000);
    struct sim_node *owner = story_owner(sim, 1);
    struct check_known head = create(sim, QUEUE_BLOCK, 0);
    struct check_known follower = create(sim, QUEUE_BLOCK, 1);

    story_pass(sim, 10 * US_PER_S);
    sim_node_kill(owner, -1);
    (void)story_wait_owner(sim, 1, owner, 20 * US_PER_S);
    story_pass(sim, 10 * US_PER_S);
    MUST_EQ(starts(sim, &follower), 0);
    sim->options.target_retry_permille = 0;
    story_wait_end(sim, &follower);
    MUST(has_ended(sim, &head));
    story_close(sim);
}

/* The one that runs is not the first by its place any more, and its claim does not say whose it is.
 */
static void a_new_owner_waits_for_an_attempt_that_may_be_running(void)
{
    struct sim *sim = open_with(48, 900 * US_PER_MS, 0);
    struct sim_node *owner = story_owner(sim, 1);
    struct check_known running = create(sim, QUEUE_BLOCK, 10);
    struct check_known first;

    story_wait_starts(sim, &running, 1);
    first = create(sim, QUEUE_BLOCK, 0);
    (void)ask_for(sim, CALL_UPDATE, &running, 3600000); // Beyond the window of the new owner.
    sim_node_kill(owner, -1);
    (void)story_wait_owner(sim, 1, owner, 20 * US_PER_S);
    story_wait_end(sim, &first);
    story_close(sim);
}

static void a_cancelled_attempt_holds_its_order_key_until_it_is_over(void)
{
    struct sim *sim = open_with(49, 900 * US_PER_MS, 0);
    struct check_known running = create(sim, QUEUE_BLOCK, 0);
    struct check_known next = create(sim, QUEUE_BLOCK, 1);

    story_wait_starts(sim, &running, 1);
    MUST_EQ(ask_for(sim, CALL_CANCEL, &running, 0).cancel, CANCEL_STOPPED);
    story_pass(sim, 50 * US_PER_MS);
    MUST_EQ(starts(sim, &next), 0);
    story_wait_end(sim, &next);
    story_close(sim);
}

/* Behind a task that blocks: they take no memory, and others of their queue do not wait. */
static void thousands_behind_a_blocked_task_cost_nothing(void)
{
    struct sim *sim = open_with(50, 5 * US_PER_MS, 1000);
    struct check_known head = create(sim, QUEUE_BLOCK, 0);
    struct sim_ask other = {.kind = CALL_CREATE, .shard = 1, .queue = QUEUE_BLOCK, .order = 8};
    struct broker_stats stats;
    struct check_known task;

    for (int i = 0; i < 3000; i++) {
        struct sim_ask ask = {
            .kind = CALL_CREATE, .shard = 1, .queue = QUEUE_BLOCK, .delay_ms = i % 200, .order = 7};

        (void)sim_load_ask(sim->load, story_owner(sim, 1), &ask);
        if (i % 100 == 0) {
            story_pass(sim, 10 * US_PER_MS);
        }
    }
    story_pass(sim, 5 * US_PER_S);
    broker_inspect(story_owner(sim, 1)->broker, &stats);
    MUST_LE(stats.entries, 2);
    MUST_LE(stats.orders, 2);
    task = (struct check_known){.id = story_ask(sim, &other).found, .queue = QUEUE_BLOCK};
    story_wait_starts(sim, &task, 1);
    sim->options.target_retry_permille = 0;
    story_wait_end(sim, &head);
    story_pass(sim, 120 * US_PER_S);
    MUST(check_is_settled(sim->check));
    story_close(sim);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_task_runs_when_the_one_before_it_has_ended),
        MUST_CASE(what_is_due_before_one_that_waits_goes_first),
        MUST_CASE(what_comes_between_claim_and_start_goes_first),
        MUST_CASE(a_failing_task_blocks_until_it_is_cancelled),
        MUST_CASE(a_failing_task_that_gets_a_later_time_lets_the_next_go),
        MUST_CASE(a_task_that_has_failed_enough_is_passed_over),
        MUST_CASE(a_dead_letter_lets_the_next_go_and_comes_back_behind_it),
        MUST_CASE(a_new_owner_knows_who_is_blocked),
        MUST_CASE(a_new_owner_waits_for_an_attempt_that_may_be_running),
        MUST_CASE(a_cancelled_attempt_holds_its_order_key_until_it_is_over),
        MUST_CASE(thousands_behind_a_blocked_task_cost_nothing),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
