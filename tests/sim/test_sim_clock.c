/* SPDX-License-Identifier: Apache-2.0
 *
 * Stories of clocks: what a step of the database's clock does, and that no other clock does
 * anything. source: DESIGN 8
 */
#include "tests/sim/sim_clock.h"
#include "tests/sim/story.h"

#define HOUR_MS (3600 * MS_PER_S)
#define HOUR_US (HOUR_MS * US_PER_MS)

static uint32_t starts(const struct sim *sim, const struct check_known *task)
{
    return check_start_count(sim->check, story_shard(sim, task), task->id);
}

static uint64_t digest_of(uint64_t seed, int64_t wall_us)
{
    struct sim_options options;
    struct sim *sim;
    uint64_t digest;

    sim_options_draw(&options, seed, 0);
    options.wall_us = wall_us;
    sim = sim_new(&options, NULL, NULL);
    MUST(sim_run(sim) == SIM_PASSED);
    digest = sim->trace.digest;
    sim_free(sim);
    return digest;
}

static void wall_clocks_of_brokers_that_are_off_by_a_day_change_nothing(void)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        uint64_t digest = digest_of(seed, 0);

        MUST(digest_of(seed, HOUR_US) == digest);
        MUST(digest_of(seed, 24 * HOUR_US) == digest);
    }
}

static void after_a_step_back_the_clock_is_held_until_the_database_has_caught_up(void)
{
    struct sim *sim = story_open_quiet(1);
    struct check_known task = story_create(sim, 1, 1000);

    sim_clock_step(sim, 0, -10 * US_PER_S);
    story_pass(sim, 10 * US_PER_S);
    MUST_EQ(starts(sim, &task), 0);
    story_pass(sim, 1500 * US_PER_MS);
    MUST_EQ(starts(sim, &task), 1);
    story_close(sim);
}

static void a_step_forward_of_half_a_second_counts_at_once(void)
{
    struct sim *sim = story_open_quiet(2);
    struct check_known task = story_create(sim, 1, 1400);

    story_pass(sim, US_PER_S);
    sim_clock_step(sim, 0, 450 * US_PER_MS);
    (void)story_create(sim, 1, 60000); // A reply, if nothing else is asked.
    story_pass(sim, 50 * US_PER_MS);
    MUST_EQ(starts(sim, &task), 1);
    story_close(sim);
}

static void a_step_forward_of_an_hour_counts_after_two_seconds(void)
{
    struct sim *sim = story_open_quiet(3);
    struct check_known task = story_create(sim, 1, HOUR_MS - 1000);

    sim_clock_step(sim, 0, HOUR_US);
    story_pass(sim, 1900 * US_PER_MS);
    MUST_EQ(starts(sim, &task), 0);
    story_pass(sim, 6 * US_PER_S); // Idle replies come seldom; the task has to be read, too.
    MUST_EQ(starts(sim, &task), 1);
    story_close(sim);
}

static void a_clock_that_is_wrong_for_a_second_moves_nothing(void)
{
    struct sim *sim = story_open_quiet(4);
    struct check_known task = story_create(sim, 1, HOUR_MS / 2);

    sim_clock_step(sim, 0, HOUR_US);
    story_pass(sim, US_PER_S);
    sim_clock_step(sim, 0, -HOUR_US);
    story_pass(sim, 10 * US_PER_S);
    MUST_EQ(starts(sim, &task), 0);
    story_close(sim);
}

/* A virtual machine that is stopped with its clock: it wakes up in the past. */
static void a_broker_whose_boot_clock_stood_still_starts_nothing_before_it_has_asked(void)
{
    struct sim *sim = story_open_quiet(5);
    struct sim_node *owner = story_owner(sim, 1);
    struct check_known task = story_create(sim, 1, 1000);
    struct check_figures figures;

    story_pass(sim, 500 * US_PER_MS);
    sim_node_pause(owner, 20 * US_PER_S);
    owner->is_stalled = true;
    story_pass(sim, 30 * US_PER_S);
    MUST_EQ(starts(sim, &task), 1);
    check_get_figures(sim->check, &figures);
    MUST_EQ(figures.late_starts, 0);
    story_close(sim);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(wall_clocks_of_brokers_that_are_off_by_a_day_change_nothing),
        MUST_CASE(after_a_step_back_the_clock_is_held_until_the_database_has_caught_up),
        MUST_CASE(a_step_forward_of_half_a_second_counts_at_once),
        MUST_CASE(a_step_forward_of_an_hour_counts_after_two_seconds),
        MUST_CASE(a_clock_that_is_wrong_for_a_second_moves_nothing),
        MUST_CASE(a_broker_whose_boot_clock_stood_still_starts_nothing_before_it_has_asked),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
