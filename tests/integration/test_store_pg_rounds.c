/* SPDX-License-Identifier: Apache-2.0
 *
 * Ten thousand writes whose connection is hurt around their commit: what was answered is true; what
 * is unknown is whole or void once the epoch has risen, and stays so. Long: make check-long runs
 * it; test_store_pg_fence has a few rounds of each. source: RELIABILITY P-3
 */
#include "tests/integration/pg_world.h"

#include <stdio.h>

/* Rows that a read of the shard can return, and a few less. */
#define ROW_COUNT_MAX 80

/* From at once to about two commits later, in steps of one question to the server. */
#define STEP_COUNT 20

struct rounds {
    struct world world;
    struct store *store; /* behind the proxy */
    struct store *other; /* another broker's */
    int64_t epoch;
    int64_t counter;
    long rows; /* as last read under our epoch */
    int count;
    int unknown_count;
    int whole_count; /* unknown, and there */
};

static void open_rounds(struct rounds *rounds, const char *title)
{
    memset(rounds, 0, sizeof(*rounds));
    world_open(&rounds->world, title);
    rounds->store = world_store(&rounds->world, true);
    rounds->other = world_store(&rounds->world, false);
    rounds->epoch = 1;
    MUST_OK(world_bump(&rounds->world, rounds->store, 0, rounds->epoch));
}

/* Nothing that was void has come to life. */
static void check_rows(struct rounds *rounds)
{
    MUST_EQ(world_table_rows(&rounds->world, 0), rounds->rows);
}

static void close_rounds(struct rounds *rounds)
{
    world_turn_ms(&rounds->world, 500);
    check_rows(rounds);
    (void)fprintf(stderr, "%d of %d outcomes were unknown, %d of them had happened\n",
                  rounds->unknown_count, rounds->count, rounds->whole_count);
    world_end(&rounds->world, rounds->store);
    world_end(&rounds->world, rounds->other);
    world_close(&rounds->world);
}

/* Epochs whose own outcome is unknown are not used again. */
static void raise_epoch(struct rounds *rounds, struct store *store)
{
    int result;

    do {
        result = world_bump(&rounds->world, store, 0, ++rounds->epoch);
        MUST(result == 0 || result == ERR_OUTCOME_UNKNOWN);
    } while (result != 0);
}

static void begin(struct rounds *rounds, struct insertion *insertion)
{
    rounds->count++;
    insertion_start(insertion, rounds->store, 0, rounds->epoch, ++rounds->counter);
}

/* The answer has come, and the epoch has risen if it was unknown: what is true now? */
static void judge(struct rounds *rounds, const struct insertion *insertion)
{
    int result = insertion->batch.result;
    long found = (long)world_rows(&rounds->world, rounds->store, 0, rounds->epoch);

    MUST(found == rounds->rows || found == rounds->rows + 1);
    MUST(result == 0 || result == ERR_OUTCOME_UNKNOWN || result == ERR_UNAVAILABLE);
    MUST(result != 0 || insertion->ops[0].result == 0 || insertion->ops[0].result == ERR_FENCED);
    MUST(result != 0 || found == rounds->rows + (insertion->ops[0].result == 0 ? 1 : 0));
    MUST(result != ERR_UNAVAILABLE || found == rounds->rows);
    rounds->unknown_count += result == ERR_OUTCOME_UNKNOWN;
    rounds->whole_count += result == ERR_OUTCOME_UNKNOWN && found > rounds->rows;
    rounds->rows = found;
    if (rounds->rows >= ROW_COUNT_MAX) {
        check_rows(rounds);
        world_ask(&rounds->world, "WITH gone AS (DELETE FROM foliot_data.task_0000 RETURNING 1)"
                                  " SELECT count(*) FROM gone");
        rounds->rows = 0;
    }
}

static void backend_ended_around_its_commit_tells_no_lies(void)
{
    static struct rounds rounds;

    open_rounds(&rounds, "ended");
    for (int i = 0; i < 5000; i++) {
        struct insertion insertion;

        begin(&rounds, &insertion);
        loop_turn(rounds.world.loop, true);
        for (int j = 0; j < i % STEP_COUNT; j++) {
            world_ask(&rounds.world, "SELECT 1");
        }
        world_ask(&rounds.world, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                                 " WHERE datname = current_database()"
                                 " AND application_name = 'foliot/behind/0'");
        world_until(&rounds.world, &insertion.done);
        if (insertion.batch.result == ERR_OUTCOME_UNKNOWN) {
            raise_epoch(&rounds, rounds.store);
        }
        judge(&rounds, &insertion);
    }
    MUST_LE(50, rounds.unknown_count);
    close_rounds(&rounds);
}

static void connection_cut_behind_its_commit_is_unknown_and_found(void)
{
    static struct rounds rounds;

    open_rounds(&rounds, "cut");
    for (int i = 0; i < 4500; i++) {
        struct insertion insertion;

        pg_proxy_arm(rounds.world.proxy, PG_PROXY_MUTE_COMMIT);
        begin(&rounds, &insertion);
        while (!insertion.done && !pg_proxy_is_held(rounds.world.proxy)) {
            loop_turn(rounds.world.loop, true);
        }
        world_turn_ms(&rounds.world,
                      i % 4); // The server has the commit, or loses it with the rest.
        pg_proxy_cut(rounds.world.proxy);
        world_until(&rounds.world, &insertion.done);
        if (insertion.batch.result == ERR_OUTCOME_UNKNOWN) {
            raise_epoch(&rounds, rounds.store);
        }
        judge(&rounds, &insertion);
    }
    MUST_LE(4000, rounds.unknown_count);
    MUST_LE(450, rounds.whole_count); // Of both kinds there were some.
    MUST_LE(rounds.whole_count, 4400);
    close_rounds(&rounds);
}

static void commit_held_back_is_void_once_another_has_taken_over(void)
{
    static struct rounds rounds;

    open_rounds(&rounds, "held");
    for (int i = 0; i < 500; i++) {
        struct insertion insertion;

        pg_proxy_arm(rounds.world.proxy, PG_PROXY_HOLD_COMMIT);
        begin(&rounds, &insertion);
        while (!insertion.done && !pg_proxy_is_held(rounds.world.proxy)) {
            loop_turn(rounds.world.loop, true);
        }
        world_until_executed(&rounds.world);
        raise_epoch(&rounds, rounds.other);
        MUST_EQ(world_rows(&rounds.world, rounds.other, 0, rounds.epoch), (size_t)rounds.rows);
        pg_proxy_release(rounds.world.proxy);
        world_until(&rounds.world, &insertion.done);
        judge(&rounds, &insertion);
    }
    MUST_LE(450, rounds.unknown_count);
    MUST_EQ(rounds.whole_count, 0);
    close_rounds(&rounds);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE_WITHIN(backend_ended_around_its_commit_tells_no_lies, 900),
        MUST_CASE_WITHIN(connection_cut_behind_its_commit_is_unknown_and_found, 900),
        MUST_CASE_WITHIN(commit_held_back_is_void_once_another_has_taken_over, 900),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
