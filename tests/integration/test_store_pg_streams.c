/* SPDX-License-Identifier: Apache-2.0
 *
 * Two writers of one store beside each other: neither waits for the other, and a second one that is
 * not there, or hangs, is done without. source: docs/adr/0041
 */
#include "tests/integration/pg_world.h"

#include "storage/pg_streams.h"

#include <stdio.h>

/* The number of the second stream's connection in application_name. source:
 * docs/internals/storage.md */
#define SECOND "'foliot/straight/6'"

struct half {
    struct store_op op;
    struct store_batch batch;
    bool done;
};

static void on_batch(struct store_batch *batch)
{
    *(bool *)batch->owner = true;
}

/* Submit an insert into a shard of the stream's own number. */
static void start(struct half *half, struct store *store, uint32_t stream, int64_t counter)
{
    *half = (struct half){
        .op = {.kind = STORE_INSERT,
               .shard = stream,
               .epoch = 1,
               .task = {.id = {.seq = task_seq(1, counter), .slot = (uint16_t)stream},
                        .queue = 1,
                        .payload = slice_of("payload")}},
        .batch = {.stream = stream,
                  .ops = &half->op,
                  .op_count = 1,
                  .cb = on_batch,
                  .owner = &half->done},
    };
    MUST_OK(store->write(store, &half->batch));
}

static void must_end(struct world *world, const struct half *half)
{
    world_until(world, &half->done);
    MUST_OK(half->batch.result);
    MUST_OK(half->op.result);
}

static struct store *open_two(struct world *world, const char *title, span_ms command_ms)
{
    struct store *store;

    world_open(world, title);
    world->command_ms = command_ms;
    store = world_store(world, false);
    MUST_EQ(store->stream_count, 2);
    MUST_OK(world_bump(world, store, 0, 1));
    MUST_OK(world_bump(world, store, 1, 1));
    world_until_connected(world, store);
    return store;
}

static void neither_waits_for_the_other(void)
{
    struct world world;
    struct store *store = open_two(&world, "beside", WORLD_PATIENT_MS);
    struct half halves[2];

    for (uint32_t held = 0; held < 2; held++) {
        char sql[128];

        (void)snprintf(sql, sizeof(sql),
                       "BEGIN; SELECT id FROM foliot_data.shard WHERE id = %u FOR UPDATE", held);
        PQclear(PQexec(world.admin, sql));
        start(&halves[held], store, held, 10 + held);
        start(&halves[1 - held], store, 1 - held, 20 + held);
        must_end(&world, &halves[1 - held]);
        MUST(!halves[held].done);
        PQclear(PQexec(world.admin, "COMMIT"));
        must_end(&world, &halves[held]);
    }
    MUST_EQ(world_table_rows(&world, 0), 2);
    MUST_EQ(world_table_rows(&world, 1), 2);
    world_end(&world, store);
    world_close(&world);
}

static void without_a_connection_of_its_own_a_stream_is_served_by_the_first(void)
{
    struct world world;
    struct store *store = open_two(&world, "alone", WORLD_PATIENT_MS);
    struct half half;
    char sql[256];

    (void)snprintf(sql, sizeof(sql), "ALTER DATABASE \"%s\" CONNECTION LIMIT 0",
                   world.fixture.name);
    world_ask(&world, sql);
    world_ask(&world, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                      " WHERE application_name = " SECOND " AND datname = current_database()");
    while (world_stats(store).connections_lost == 0) {
        loop_turn(world.loop, true);
    }
    start(&half, store, 1, 1);
    must_end(&world, &half);
    MUST_EQ(world_table_rows(&world, 1), 1);
    MUST_EQ(world.health, 1);
    world_end(&world, store);
    world_close(&world);
}

/* Nothing is written by it, so nothing but a poll can find out. */
static void a_silent_stream_that_hangs_is_found(void)
{
    struct world world;
    struct store *store = open_two(&world, "silent", WORLD_COMMAND_MS);
    struct world_stopped stopped;
    struct half half;

    stopped = world_stop(
        (pid_t)world_ask(&world, "SELECT pid FROM pg_stat_activity WHERE application_name = " SECOND
                                 " AND datname = current_database()"));
    while (world_stats(store).connections_lost == 0) {
        loop_turn(world.loop, true);
    }
    start(&half, store, 1, 1);
    must_end(&world, &half);
    world_wake(&stopped);
    world_end(&world, store);
    world_close(&world);
}

static void close_waits_for_both(void)
{
    struct world world;
    struct store *store = open_two(&world, "close", WORLD_PATIENT_MS);
    struct half halves[2];

    start(&halves[0], store, 0, 1);
    start(&halves[1], store, 1, 1);
    world_end(&world, store);
    MUST(halves[0].done && halves[1].done);
    MUST_OK(halves[0].batch.result);
    MUST_OK(halves[1].batch.result);
    world_close(&world);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(neither_waits_for_the_other),
        MUST_CASE(without_a_connection_of_its_own_a_stream_is_served_by_the_first),
        MUST_CASE_WITHIN(a_silent_stream_that_hangs_is_found, PG_STREAM_SILENT_US / US_PER_S + 30),
        MUST_CASE(close_waits_for_both),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
