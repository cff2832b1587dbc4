/* SPDX-License-Identifier: Apache-2.0
 *
 * Proof that the checkers bite: each way of breaking the simulated world on purpose is caught
 * within a few seeds, by the checker that is there for it, and the same seeds pass unbroken.
 */
#include "lib/base/list.h"
#include "tests/lib/must.h"
#include "tests/sim/sim.h"

#include <stdio.h>
#include <string.h>

/* Seeds that a mutant may survive in a row. */
#define SEEDS_MAX 25

/* needed_by: what that mutant needs to show itself is on. */
static enum sim_verdict run(uint64_t seed, enum sim_mutant mutant, enum sim_mutant needed_by,
                            char *promise, size_t size)
{
    struct sim_options options;
    struct sim *sim;
    enum sim_verdict verdict;

    sim_options_draw(&options, seed, 0);
    sim_options_mutate(&options, needed_by);
    options.mutant = mutant;
    sim = sim_new(&options, NULL, NULL);
    verdict = sim_run(sim);
    (void)snprintf(promise, size, "%s", sim->promise);
    sim_free(sim);
    return verdict;
}

/* The mutant is caught soon, by its checker, and by no other before that. */
static void bites(enum sim_mutant mutant)
{
    const char *promises = sim_mutant_checkers(mutant);
    char promise[16];

    for (uint64_t seed = 1; seed <= SEEDS_MAX; seed++) {
        if (run(seed, mutant, mutant, promise, sizeof(promise)) != SIM_PASSED) {
            if (strstr(promises, promise) == NULL) {
                must_fail(MUST_HERE, "caught as %s, not as one of %s", promise, promises);
            }
            MUST(run(seed, SIM_MUTANT_NONE, mutant, promise, sizeof(promise)) == SIM_PASSED);
            return;
        }
    }
    must_fail(MUST_HERE, "mutant %s survived %d seeds", sim_mutant_name(mutant), SEEDS_MAX);
}

static void a_fence_without_lock_is_caught(void)
{
    bites(SIM_MUTANT_FENCE);
}

static void a_key_share_lock_is_caught(void)
{
    bites(SIM_MUTANT_KEY_SHARE);
}

static void an_epoch_that_the_database_counts_is_caught(void)
{
    bites(SIM_MUTANT_EPOCH);
}

static void a_clock_that_runs_ahead_is_caught(void)
{
    bites(SIM_MUTANT_CLOCK);
}

static void a_start_after_start_by_is_caught(void)
{
    bites(SIM_MUTANT_START_BY);
}

static void a_generation_given_twice_is_caught(void)
{
    bites(SIM_MUTANT_GENERATION);
}

static void an_unknown_write_called_refused_is_caught(void)
{
    bites(SIM_MUTANT_UNKNOWN);
}

static void a_refused_write_called_committed_is_caught(void)
{
    bites(SIM_MUTANT_LOST_WRITE);
}

static void an_attempt_sent_twice_is_caught(void)
{
    bites(SIM_MUTANT_SEND_TWICE);
}

static void a_success_that_nobody_reported_is_caught(void)
{
    bites(SIM_MUTANT_OUTCOME);
}

static void claims_that_a_new_owner_does_not_see_are_caught(void)
{
    bites(SIM_MUTANT_CLAIMS);
}

static void rows_that_a_load_leaves_out_are_caught(void)
{
    bites(SIM_MUTANT_SLICE);
}

static void a_death_that_nobody_hears_of_is_caught(void)
{
    bites(SIM_MUTANT_MEMBERS);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_fence_without_lock_is_caught),
        MUST_CASE(a_key_share_lock_is_caught),
        MUST_CASE(an_epoch_that_the_database_counts_is_caught),
        MUST_CASE(a_clock_that_runs_ahead_is_caught),
        MUST_CASE(a_start_after_start_by_is_caught),
        MUST_CASE(a_generation_given_twice_is_caught),
        MUST_CASE(an_unknown_write_called_refused_is_caught),
        MUST_CASE(a_refused_write_called_committed_is_caught),
        MUST_CASE(an_attempt_sent_twice_is_caught),
        MUST_CASE(a_success_that_nobody_reported_is_caught),
        MUST_CASE(claims_that_a_new_owner_does_not_see_are_caught),
        MUST_CASE(rows_that_a_load_leaves_out_are_caught),
        MUST_CASE(a_death_that_nobody_hears_of_is_caught),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
