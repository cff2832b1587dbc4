/* SPDX-License-Identifier: Apache-2.0
 *
 * Stories of tasks: cancels and updates that race with the due time or with a lost reply, attempts
 * without an outcome, memory that is full.
 */
#include "lib/base/list.h"
#include "tests/sim/story.h"

static void an_unknown_create_that_committed_is_answered_with_its_id(void)
{
    struct sim *sim = story_open_quiet(20);
    struct check_known task;

    sim_store_doom(sim->store, story_owner(sim, 1), SIM_FATE_LOSE_COMMITTED);
    task = story_create(sim, 1, 500);
    MUST_EQ(sim_store_doomed_count(sim->store), 1);
    story_wait_end(sim, &task);
    MUST_EQ(check_start_count(sim->check, 1, task.id), 1);
    story_close(sim);
}

/* Due while the reply is lost: it may run at once, but not before the caller's answer is settled.
 */
static void an_unknown_create_that_is_due_is_answered_before_it_runs(void)
{
    struct sim *sim = story_open_quiet(21);

    for (int i = 0; i < 50; i++) {
        struct check_known task;

        sim_store_doom(sim->store, story_owner(sim, 1), SIM_FATE_LOSE_COMMITTED);
        task = story_create(sim, 1, 0);
        story_wait_end(sim, &task);
    }
    story_close(sim);
}

static void an_unknown_create_that_was_rolled_back_did_not_happen(void)
{
    struct sim *sim = story_open_quiet(22);
    struct sim_ask ask = {.kind = CALL_CREATE, .shard = 1, .delay_ms = 500};

    sim_store_doom(sim->store, story_owner(sim, 1), SIM_FATE_LOSE_ABORTED);
    MUST_ERR(story_ask(sim, &ask).result, ERR_UNAVAILABLE);
    story_close(sim);
}

/* The old transaction could still commit: the new epoch ends that before anybody is answered. */
static void an_unknown_create_that_is_still_open_never_commits_later(void)
{
    struct sim_options options;
    struct sim *sim;

    sim_options_quiet(&options, 23);
    options.orphan_us = 5 * US_PER_S;
    sim = story_open(&options);
    for (int i = 0; i < 100; i++) {
        struct sim_ask ask = {.kind = CALL_CREATE, .shard = 1, .delay_ms = 500};
        struct call call;

        (void)story_wait_owner(sim, 1, NULL, US_PER_S);
        sim_store_doom(sim->store, story_owner(sim, 1), SIM_FATE_LOSE_OPEN);
        call = story_ask(sim, &ask);
        MUST(call.result == 0 || call.result == ERR_UNAVAILABLE);
    }
    story_close(sim);
}

/* Create, wait for a moment around the due time, cancel or update; the checkers know the truth. */
static void race(uint64_t seed, enum call_kind kind, int rounds)
{
    struct sim *sim = story_open_quiet(seed);
    struct prng prng;
    uint32_t outcomes[5] = {0};

    prng_init(&prng, seed);
    for (int i = 0; i < rounds; i++) {
        struct check_known task = story_create(sim, (uint32_t)i % 4, 20);
        struct sim_ask ask = {.kind = kind, .task = task, .delay_ms = 50};
        int64_t left_us = task.due_ms * US_PER_MS - sim_clock(sim, 0);
        struct call call;

        story_pass(sim, left_us + prng_between(&prng, -2000, 2000));
        call = story_ask(sim, &ask);
        MUST(call.result == 0 || call.result == ERR_GONE);
        outcomes[kind == CALL_CANCEL ? call.cancel : call.attempt > 0 ? 1 : 2]++;
    }
    MUST_LE(rounds / 20, outcomes[1]); // The race was one: both ends were seen.
    MUST_LE(rounds / 20, outcomes[2]);
    story_close(sim);
}

static void ten_thousand_cancels_race_with_the_due_time(void)
{
    race(24, CALL_CANCEL, 10000);
}

static void ten_thousand_updates_race_with_the_due_time(void)
{
    race(25, CALL_UPDATE, 10000);
}

static void an_update_of_a_running_task_names_the_attempt(void)
{
    struct sim_options options;
    struct sim *sim;
    struct check_known task;
    struct sim_ask ask = {.kind = CALL_UPDATE, .delay_ms = 5000};
    struct call call;

    sim_options_quiet(&options, 26);
    options.target_us = 800 * US_PER_MS;
    sim = story_open(&options);
    task = story_create(sim, 1, 0);
    story_wait_starts(sim, &task, 1);
    ask.task = task;
    call = story_ask(sim, &ask);
    MUST_OK(call.result);
    MUST_EQ(call.attempt, 1);
    story_wait_end(sim, &task); // The outcome of the running attempt counts.
    MUST_EQ(check_start_count(sim->check, 1, task.id), 1);
    story_close(sim);
}

static void a_cancel_of_a_running_task_names_the_attempt(void)
{
    struct sim_options options;
    struct sim *sim;
    struct check_known task;
    struct sim_ask ask = {.kind = CALL_CANCEL};
    struct call call;

    sim_options_quiet(&options, 27);
    options.target_us = 800 * US_PER_MS;
    sim = story_open(&options);
    task = story_create(sim, 1, 0);
    story_wait_starts(sim, &task, 1);
    ask.task = task;
    call = story_ask(sim, &ask);
    MUST_OK(call.result);
    MUST_EQ(call.cancel, CANCEL_STOPPED);
    MUST_EQ(call.attempt, 1);
    story_close(sim);
}

/* Nobody answers: the next attempt waits for the deadline of the claim, and gives up in the end. */
static void attempts_without_an_answer_are_repeated_and_given_up(void)
{
    struct sim_options options;
    struct sim *sim;
    struct check_known task;

    sim_options_quiet(&options, 28);
    options.target_never_permille = 1000;
    sim = story_open(&options);
    task = story_create(sim, 1, 0);
    story_wait_end(sim, &task);
    MUST_EQ(check_start_count(sim->check, 1, task.id), 4); // unknowns_max of the queue.
    story_close(sim);
}

static void at_most_once_is_not_repeated(void)
{
    struct sim_options options;
    struct sim *sim;
    struct sim_ask ask = {.kind = CALL_CREATE, .shard = 1, .queue = 2};
    struct check_known task;
    struct call call;

    sim_options_quiet(&options, 29);
    options.queue_count = 2;
    options.target_never_permille = 1000;
    sim = story_open(&options);
    MUST(sim_load_is_at_most_once(sim->load, 2));
    call = story_ask(sim, &ask);
    MUST_OK(call.result);
    task = (struct check_known){.id = call.found, .queue = 2};
    story_wait_end(sim, &task);
    MUST_EQ(check_start_count(sim->check, 1, task.id), 1);
    story_close(sim);
}

static void more_tasks_than_memory_holds_are_all_done(void)
{
    struct sim_options options;
    struct sim *sim;
    struct check_known task = {0};

    sim_options_quiet(&options, 30);
    options.entry_count_max = 2100;
    sim = story_open(&options);
    for (uint32_t i = 0; i < 6000; i++) {
        struct sim_ask ask = {
            .kind = CALL_CREATE, .shard = i % 4, .delay_ms = 20000 + (span_ms)(i % 100) * 100};

        (void)sim_load_ask(sim->load, story_owner(sim, i % 4), &ask);
        if (i % 100 == 0) {
            story_pass(sim, 10 * US_PER_MS);
        }
    }
    task = story_create(sim, 1, 40000);
    story_wait_end(sim, &task);
    story_pass(sim, 60 * US_PER_S);
    MUST(check_is_settled(sim->check));
    story_close(sim);
}

static void a_key_is_held_kept_refused_and_replaced(void)
{
    struct sim *sim = story_open_quiet(31);
    struct sim_ask ask = {
        .kind = CALL_CREATE, .shard = 1, .delay_ms = 5000, .key = 7, .policy = KEY_KEEP};
    struct call first = story_ask(sim, &ask);
    struct call second = story_ask(sim, &ask);

    MUST_OK(first.result);
    MUST(first.created);
    MUST_OK(second.result);
    MUST(!second.created);
    MUST_EQ(second.found.seq, first.found.seq);
    ask.policy = KEY_REJECT;
    second = story_ask(sim, &ask);
    MUST_ERR(second.result, ERR_EXISTS);
    MUST_EQ(second.found.seq, first.found.seq);
    ask.policy = KEY_REPLACE;
    second = story_ask(sim, &ask);
    MUST_OK(second.result);
    MUST(second.created);
    MUST(check_has_ended(sim->check, 1, first.found));
    story_pass(sim, 6 * US_PER_S);
    MUST_EQ(check_start_count(sim->check, 1, first.found), 0);
    MUST_EQ(check_start_count(sim->check, 1, second.found), 1);
    story_close(sim);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(an_unknown_create_that_committed_is_answered_with_its_id),
        MUST_CASE(an_unknown_create_that_is_due_is_answered_before_it_runs),
        MUST_CASE(an_unknown_create_that_was_rolled_back_did_not_happen),
        MUST_CASE(an_unknown_create_that_is_still_open_never_commits_later),
        MUST_CASE(ten_thousand_cancels_race_with_the_due_time),
        MUST_CASE(ten_thousand_updates_race_with_the_due_time),
        MUST_CASE(an_update_of_a_running_task_names_the_attempt),
        MUST_CASE(a_cancel_of_a_running_task_names_the_attempt),
        MUST_CASE(attempts_without_an_answer_are_repeated_and_given_up),
        MUST_CASE(at_most_once_is_not_repeated),
        MUST_CASE(more_tasks_than_memory_holds_are_all_done),
        MUST_CASE(a_key_is_held_kept_refused_and_replaced),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
