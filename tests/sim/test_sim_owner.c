/* SPDX-License-Identifier: Apache-2.0
 *
 * Stories of ownership: who may write and who may call when brokers, the coordinator or a database
 * fail at the worst moment.
 */
#include "broker/core/inspect.h"
#include "lib/base/list.h"
#include "tests/sim/story.h"

#include <string.h>

static void a_task_fires_once_and_on_time(void)
{
    struct sim *sim = story_open_quiet(1);
    struct check_known task = story_create(sim, 1, 1000);

    story_wait_end(sim, &task);
    MUST_EQ(check_start_count(sim->check, 1, task.id), 1);
    MUST_LE(check_late_us(sim->check, 1), 5000);
    story_close(sim);
}

static void a_killed_owner_is_replaced_in_time(void)
{
    struct sim *sim = story_open_quiet(2);
    struct check_known task = story_create(sim, 1, 2000);
    struct sim_node *owner = story_owner(sim, 1);

    sim_node_kill(owner, -1);
    MUST_LE(story_wait_owner(sim, 1, owner, STORY_GAP_US), STORY_GAP_US);
    story_wait_end(sim, &task);
    story_close(sim);
}

/* SIGSTOP with claims in hand; the woken process finds out by itself, and starts nothing. */
static void a_paused_owner_is_replaced_and_starts_nothing(void)
{
    struct sim *sim = story_open_quiet(3);
    struct sim_node *owner = story_owner(sim, 1);
    struct check_known tasks[20];

    for (size_t i = 0; i < ARRAY_COUNT(tasks); i++) {
        tasks[i] = story_create(sim, 1, 300);
    }
    story_pass(sim, 280 * US_PER_MS);
    sim_node_pause(owner, 10 * US_PER_S);
    MUST_LE(story_wait_owner(sim, 1, owner, STORY_GAP_US), STORY_GAP_US);
    for (size_t i = 0; i < ARRAY_COUNT(tasks); i++) {
        story_wait_end(sim, &tasks[i]);
    }
    story_pass(sim, 12 * US_PER_S);
    MUST_EQ(owner->is_paused, false);
    story_close(sim);
}

/* Its transaction stays open with its locks: the take-over ends it, and the write never shows. */
static void an_owner_frozen_in_a_transaction_does_not_stop_the_take_over(void)
{
    struct sim *sim = story_open_quiet(4);
    struct sim_node *owner = story_owner(sim, 1);
    struct sim_ask ask = {.kind = CALL_CREATE, .shard = 1, .delay_ms = 5000};
    const struct sim_answer *answer;

    sim_store_doom(sim->store, owner, SIM_FATE_FREEZE);
    answer = sim_load_ask(sim->load, owner, &ask);
    story_pass(sim, 2 * US_PER_MS);
    sim_node_pause(owner, 15 * US_PER_S);
    MUST_LE(story_wait_owner(sim, 1, owner, STORY_GAP_US), STORY_GAP_US);
    (void)story_wait(sim, answer);
    MUST(answer->call.result != 0);
    story_close(sim);
}

/* Nobody could be told how its attempts end, so it stays until it knows; its successor, which comes
 * later, repeats none. */
static void who_leaves_last_records_what_it_has_begun(void)
{
    struct sim_options options;
    struct sim *sim;
    struct check_known task;

    sim_options_quiet(&options, 16);
    options.node_count = 1;
    options.target_us = US_PER_S;
    sim = story_open(&options);
    task = story_create(sim, 1, 100);
    story_wait_starts(sim, &task, 1);
    sim_node_drain(story_owner(sim, 1)); // It is back a second after it has gone.
    story_wait_end(sim, &task);
    story_pass(sim, 20 * US_PER_S);
    MUST_EQ(check_start_count(sim->check, 1, task.id), 1);
    story_close(sim);
}

static void a_session_that_ends_during_the_bump_costs_nothing(void)
{
    struct sim *sim = story_open_quiet(5);
    struct sim_node *owner = story_owner(sim, 1);
    struct check_known task = story_create(sim, 1, 8000);
    struct sim_node *other = &sim->nodes[1 - owner->number];
    struct shard_view view = {.state = ""};

    sim_node_kill(owner, 6 * US_PER_S);
    while (strcmp(view.state, "bumping") != 0) {
        MUST(sim_step(sim));
        broker_inspect_shard(other->broker, 1, &view);
    }
    sim_coord_expire(sim->coord, other);
    story_wait_end(sim, &task);
    MUST_EQ(check_start_count(sim->check, 1, task.id), 1);
    story_close(sim);
}

/* An attempt that runs keeps its claim; its outcome finds the new owner. */
static void a_release_lets_running_attempts_run(void)
{
    struct sim_options options;
    struct sim *sim;
    struct sim_node *owner;
    struct check_known task;
    int64_t begin;

    sim_options_quiet(&options, 6);
    options.target_us = US_PER_S;
    sim = story_open(&options);
    owner = story_owner(sim, 1);
    task = story_create(sim, 1, 100);
    story_wait_starts(sim, &task, 1);
    begin = sim->now;
    sim_node_drain(owner);
    MUST_LE(story_wait_owner(sim, 1, owner, US_PER_S), 100 * US_PER_MS);
    story_wait_end(sim, &task);
    MUST_EQ(check_start_count(sim->check, 1, task.id), 1);
    MUST_LE(sim->now - begin, 2 * US_PER_S); // Told, not waited for.
    story_close(sim);
}

/* Nothing to write, and no word from the coordinator: it looks at its epochs by itself. */
/* Tasks for every shard, without pause. */
static void load(struct sim *sim, int64_t span_us)
{
    int64_t end = sim->now + span_us;

    for (uint32_t i = 0; sim->now < end; i++) {
        struct sim_ask ask = {
            .kind = CALL_CREATE, .shard = i % sim->options.shard_count, .delay_ms = 20};
        struct sim_node *node = &sim->nodes[0];

        for (uint32_t n = 0; n < sim->options.node_count; n++) {
            node = story_serves(sim, &sim->nodes[n], ask.shard) ? &sim->nodes[n] : node;
        }
        if (story_serves(sim, node, ask.shard)) {
            (void)sim_load_ask(sim->load, node, &ask);
        }
        story_pass(sim, 2 * US_PER_MS);
    }
}

static void shards_that_do_not_move_never_pause(void)
{
    struct sim_options options;
    struct sim *sim;
    const struct sim_node *before[16];

    sim_options_quiet(&options, 12);
    options.node_count = 3;
    options.shard_count = 16;
    sim = story_open(&options);
    for (uint32_t i = 0; i < 16; i++) {
        before[i] = story_owner(sim, i);
    }
    load(sim, US_PER_S);
    check_reset_late(sim->check);
    sim_node_kill(&sim->nodes[2], 8 * US_PER_S); // And comes back: some shards move once more.
    load(sim, 15 * US_PER_S);
    for (uint32_t i = 0; i < 16; i++) {
        if (before[i] != &sim->nodes[2] && before[i] == story_owner(sim, i)) {
            // A pause would be a session timeout, or at least the quiet time of a member list; a
            // task that is made as it falls due waits for one or two of the store's commits.
            MUST_LE(check_late_us(sim->check, i), 25000);
        }
        MUST_LE(check_late_us(sim->check, i), STORY_GAP_US);
    }
    story_close(sim);
}

static void planned_moves_pause_shortly(void)
{
    struct sim_options options;
    struct sim *sim;

    sim_options_quiet(&options, 13);
    options.node_count = 3;
    options.shard_count = 64;
    sim = story_open(&options);
    check_reset_late(sim->check);
    sim_node_drain(&sim->nodes[1]); // Leaves, and is back a second later.
    load(sim, 10 * US_PER_S);
    for (uint32_t i = 0; i < 64; i++) {
        MUST_LE(check_late_us(sim->check, i), 200000);
    }
    story_close(sim);
}

static void an_idle_owner_that_was_fenced_notices(void)
{
    struct sim *sim = story_open_quiet(7);
    struct sim_node *owner = story_owner(sim, 1);

    sim_coord_cut(sim->coord, owner);
    (void)story_wait_owner(sim, 1, owner, STORY_GAP_US);
    story_pass(sim, sim->options.session_timeout_ms * US_PER_MS);
    for (uint32_t i = 0; i < sim->options.shard_count; i++) {
        MUST(!story_serves(sim, owner, i));
    }
    story_close(sim);
}

/* For a minute and more. */
static void without_the_coordinator_owned_shards_go_on_on_time(void)
{
    struct sim *sim = story_open_quiet(8);

    sim_coord_stop(sim->coord);
    check_reset_late(sim->check);
    for (int i = 0; i < 140; i++) {
        (void)story_create(sim, (uint32_t)i % 4, 300);
        story_pass(sim, 500 * US_PER_MS);
    }
    sim_coord_start(sim->coord);
    for (uint32_t i = 0; i < sim->options.shard_count; i++) {
        MUST_LE(check_late_us(sim->check, i), 10000);
        (void)story_owner(sim, i);
    }
    story_close(sim);
}

static void without_the_coordinator_an_unknown_write_is_answered(void)
{
    struct sim *sim = story_open_quiet(11);
    int64_t begin;

    sim_coord_stop(sim->coord);
    story_pass(sim, US_PER_S);
    for (int i = 0; i < 5; i++) {
        (void)story_wait_owner(sim, 1, NULL, US_PER_S);
        sim_store_doom(sim->store, story_owner(sim, 1), SIM_FATE_LOSE_COMMITTED);
        begin = sim->now;
        (void)story_create(sim, 1, 1000);
        MUST_LE(sim->now - begin, 200 * US_PER_MS);
    }
    MUST_EQ(sim_store_doomed_count(sim->store), 5);
    sim_coord_start(sim->coord);
    story_close(sim);
}

static void a_database_that_is_down_delays_no_other(void)
{
    struct sim_options options;
    struct sim *sim;
    struct check_known task;

    sim_options_quiet(&options, 9);
    options.database_count = 2;
    sim = story_open(&options);
    task = story_create(sim, 0, 2000); // Shard 0 is in database 0, shard 1 in database 1.
    sim_store_down(sim->store, 0);
    check_reset_late(sim->check);
    for (int i = 0; i < 50; i++) {
        (void)story_create(sim, 1 + 2 * ((uint32_t)i % 2), 100);
        story_pass(sim, 200 * US_PER_MS);
    }
    MUST_LE(check_late_us(sim->check, 1), 10000);
    MUST_LE(check_late_us(sim->check, 3), 10000);
    sim_store_up(sim->store, 0);
    story_wait_end(sim, &task);
    story_close(sim);
}

/* r of an epoch is used up: a new generation, and nobody notices. */
static void three_hundred_unknown_writes_in_a_row_are_answered(void)
{
    struct sim *sim = story_open_quiet(10);
    struct sim_node *owner = story_owner(sim, 1);
    struct sim_ask ask = {.kind = CALL_CREATE, .shard = 1, .delay_ms = 60000};
    struct shard_view first;
    struct shard_view last;
    uint32_t unknown_count = 0;

    broker_inspect_shard(owner->broker, 1, &first);
    for (int i = 0; i < 300; i++) {
        struct call call;

        sim_store_doom(sim->store, owner, SIM_FATE_LOSE_COMMITTED);
        call = story_wait(sim, sim_load_ask(sim->load, owner, &ask));
        if (call.result == ERR_OUTCOME_UNKNOWN) {
            unknown_count++; // At the change of generation nobody can tell.
        } else {
            MUST_OK(call.result);
            MUST(call.created);
        }
    }
    broker_inspect_shard(owner->broker, 1, &last);
    MUST_LE(unknown_count, 2);
    MUST_LE(first.epoch / EPOCH_BUMP_COUNT + 1, last.epoch / EPOCH_BUMP_COUNT);
    story_close(sim);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_task_fires_once_and_on_time),
        MUST_CASE(a_killed_owner_is_replaced_in_time),
        MUST_CASE(a_paused_owner_is_replaced_and_starts_nothing),
        MUST_CASE(an_owner_frozen_in_a_transaction_does_not_stop_the_take_over),
        MUST_CASE(who_leaves_last_records_what_it_has_begun),
        MUST_CASE(a_session_that_ends_during_the_bump_costs_nothing),
        MUST_CASE(a_release_lets_running_attempts_run),
        MUST_CASE(shards_that_do_not_move_never_pause),
        MUST_CASE(planned_moves_pause_shortly),
        MUST_CASE(an_idle_owner_that_was_fenced_notices),
        MUST_CASE(without_the_coordinator_owned_shards_go_on_on_time),
        MUST_CASE(without_the_coordinator_an_unknown_write_is_answered),
        MUST_CASE(a_database_that_is_down_delays_no_other),
        MUST_CASE(three_hundred_unknown_writes_in_a_row_are_answered),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
