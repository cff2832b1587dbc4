/* SPDX-License-Identifier: Apache-2.0
 *
 * What a failing seed leaves behind: a story of its task, and a smaller run that fails alike.
 */
#include "tests/lib/must.h"
#include "tests/sim/sim_seed.h"
#include "tests/sim/sim_shrink.h"

#include <string.h>

static const struct sim_look quiet = {.is_quiet = true};

/* The first seed that a broken world fails. */
static void find_failure(enum sim_mutant mutant, struct sim_request *request,
                         struct sim_result *result)
{
    *request = (struct sim_request){.mutant = mutant};
    do {
        request->seed++;
        MUST_LE(request->seed, 25);
        MUST(sim_seed_fork(request, &quiet, result));
    } while (result->verdict == SIM_PASSED);
}

static void a_failure_is_made_smaller_and_stays_the_same(void)
{
    struct sim_request request;
    struct sim_result failed;
    struct sim_result again;

    find_failure(SIM_MUTANT_SEND_TWICE, &request, &failed);
    MUST(sim_shrink(&request, &failed, 40) > 1);
    MUST(request.is_quiet);
    MUST_LE(request.set_count, 3); // There have to be calls; for what else differs time may end.
    MUST(sim_seed_fork(&request, &quiet, &again));
    MUST_EQ(again.verdict, failed.verdict);
    MUST_EQ_TEXT(again.promise, failed.promise);
}

static void without_time_a_failure_stays_as_it_is(void)
{
    struct sim_request request;
    struct sim_request before;
    struct sim_result failed;

    find_failure(SIM_MUTANT_SEND_TWICE, &request, &failed);
    before = request;
    (void)sim_shrink(&request, &failed, 0);
    MUST_EQ_UNSIGNED(request.seed, before.seed);
    MUST(request.is_quiet || request.set_count == 0); // Said anew at most.
}

static void looking_on_changes_nothing(void)
{
    struct sim_request request = {.seed = 45}; // Allocations fail in it.
    struct sim_look told = {.is_told = true};
    struct sim_result silent;
    struct sim_result loud;

    told.filter.has_shard = true; // One that there is not: faults are told.
    told.filter.shard = SHARD_COUNT_MAX;
    MUST(sim_request_set(&request, "no_memory=20", 12));
    MUST(sim_request_set(&request, "faults_us=20000000", 18));
    MUST(sim_seed_fork(&request, &quiet, &silent));
    MUST(sim_seed_fork(&request, &told, &loud));
    MUST_EQ_UNSIGNED(silent.digest, loud.digest);
}

static void options_that_there_are_not_are_refused(void)
{
    struct sim_request request = {.seed = 1};

    MUST(!sim_request_set(&request, "nodez=3", 7));
    MUST(!sim_request_set(&request, "nodes", 5));
    MUST(sim_request_set(&request, "nodes=3", 7));
    MUST_EQ(request.set_count, 1);
}

/* Lines that a filter leaves of some events of two tasks. */
static unsigned count_lines(const struct sim_tell_filter *filter)
{
    static const struct {
        const char *what;
        int64_t values[6];
        size_t count;
    } EVENTS[] = {
        {"claim", {0, 1, 256, 0x8000000001, 1, 0}, 6},
        {"claim", {0, 1, 256, 0x8000000002, 1, 0}, 6},
        {"active", {0, 1, 256, 0, 0, 0}, 6},
        {"active", {0, 2, 256, 0, 0, 0}, 6},
        {"kill", {1, 1}, 2},
        {"of nobody's table", {7}, 1},
    };
    struct sim_options options;
    struct sim *sim;
    struct buf out;
    unsigned lines = 0;

    sim_options_quiet(&options, 1);
    sim = sim_new(&options, NULL, NULL);
    buf_init(&out, 4096);
    for (size_t i = 0; i < ARRAY_COUNT(EVENTS); i++) {
        struct sim_told told;

        sim_told_set(&told, sim, EVENTS[i].what, EVENTS[i].values, EVENTS[i].count);
        sim_tell(sim, filter, &told, &out);
    }
    for (const char *place = buf_text(&out); *place != '\0'; place++) {
        lines += *place == '\n';
    }
    buf_fini(&out);
    sim_free(sim);
    return lines;
}

static void a_task_is_told_with_its_shard_and_all_faults(void)
{
    struct sim_tell_filter filter = {0};

    MUST_EQ(count_lines(&filter), 6);
    filter.has_shard = true;
    filter.shard = 1;
    MUST_EQ(count_lines(&filter), 4);
    filter = (struct sim_tell_filter){0};
    MUST(sim_tell_want_task(&filter, "005-0000008000000001", 4)); // Slot 5 is of shard 1.
    MUST(filter.has_shard);
    MUST_EQ(filter.shard, 1);
    MUST_EQ(count_lines(&filter), 3);
    filter = (struct sim_tell_filter){0};
    MUST(sim_tell_want_task(&filter, "8000000002", 4));
    MUST_EQ(count_lines(&filter), 4); // Which shard is not known.
    MUST(!sim_tell_want_task(&filter, "the second", 4));
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_failure_is_made_smaller_and_stays_the_same),
        MUST_CASE(without_time_a_failure_stays_as_it_is),
        MUST_CASE(looking_on_changes_nothing),
        MUST_CASE(options_that_there_are_not_are_refused),
        MUST_CASE(a_task_is_told_with_its_shard_and_all_faults),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
