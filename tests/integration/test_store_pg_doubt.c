/* SPDX-License-Identifier: Apache-2.0
 *
 * PostgreSQL that says nothing, or says what puts its connection in doubt: our own deadlines end
 * every wait, an answer is given only for what is known, and one connection is all that it costs.
 * source: RELIABILITY P-1 … P-14
 */
#include "tests/integration/pg_world.h"

#include "lib/base/limits.h"

#include <stdio.h>
#include <stdlib.h>

/* Longest time for the store to notice that its database is back, on a busy machine. */
#define RECOVERY_MS 20000

/* Longest turn of the loop: far above what a busy machine adds, and below WORLD_COMMAND_MS. */
#define TURN_MS_MAX 1000

/* Age of the oldest snapshot that must be seen: so many transactions are made. */
#define SNAPSHOT_AGE 20

static void until_writable(struct world *world, struct store *store, int64_t epoch, int64_t counter)
{
    int64_t end_ms = must_now_ms() + RECOVERY_MS;
    int result;

    do {
        result = world_insert(world, store, 0, epoch, counter);
    } while (result == ERR_UNAVAILABLE && must_now_ms() < end_ms);
    MUST_OK(result);
}

/* What is silent is unknown at our deadline, and unavailable from then on: nothing was sent. */
static void must_cost_a_deadline(struct world *world, struct store *store)
{
    int64_t start = must_now_ms();

    MUST_ERR(world_insert(world, store, 0, 1, 2), ERR_OUTCOME_UNKNOWN);
    MUST_ERR(world_insert(world, store, 0, 1, 3), ERR_UNAVAILABLE);
    MUST_LE(must_now_ms() - start, 5 * WORLD_COMMAND_MS);
}

/* The unknown write is whole or void once the epoch has risen, and stays so. */
static void must_be_settled(struct world *world, struct store *store)
{
    size_t rows;

    MUST_OK(world_bump(world, store, 0, 2));
    rows = world_rows(world, store, 0, 2);
    MUST(rows == 1 || rows == 2);
    world_turn_ms(world, 300);
    MUST_EQ(world_rows(world, store, 0, 2), rows);
    until_writable(world, store, 2, 4);
}

static void line_that_swallows_everything_costs_a_deadline(void)
{
    struct world world;
    struct store *store;

    world_open(&world, "deaf");
    world.command_ms = WORLD_COMMAND_MS;
    store = world_store(&world, true);
    MUST_OK(world_bump(&world, store, 0, 1));
    MUST_OK(world_insert(&world, store, 0, 1, 1));
    pg_proxy_set_deaf(world.proxy, true);
    must_cost_a_deadline(&world, store);
    pg_proxy_set_deaf(world.proxy, false);
    must_be_settled(&world, store);
    world_end(&world, store);
    world_close(&world);
}

/* Every process of it, so that connecting meets silence too. */
static void server_that_is_stopped_costs_a_deadline(void)
{
    struct world world;
    struct store *store;

    world_open(&world, "stopped");
    world.command_ms = WORLD_COMMAND_MS;
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    MUST_OK(world_insert(&world, store, 0, 1, 1));
    fixture_servers(&world.fixture, "stop-pg");
    must_cost_a_deadline(&world, store);
    fixture_servers(&world.fixture, "cont-pg");
    must_be_settled(&world, store);
    world_end(&world, store);
    world_close(&world);
}

static void postmaster_that_is_stopped_hurts_new_connections_only(void)
{
    struct world world;
    struct store *store;
    struct world_stopped stopped;

    world_open(&world, "postmaster");
    world.command_ms = WORLD_COMMAND_MS;
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    stopped = world_stop(
        (pid_t)world_ask(&world, "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)"));
    MUST_OK(world_insert(&world, store, 0, 1, 1));
    MUST_EQ(world_ask(&world, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                              " WHERE datname = current_database()"
                              " AND application_name = 'foliot/straight/0'"),
            1);
    while (world_stats(store).connections_lost == 0) {
        loop_turn(world.loop, true);
    }
    MUST_ERR(world_insert(&world, store, 0, 1, 2), ERR_UNAVAILABLE);
    MUST_EQ(world_rows(&world, store, 0, 1), 1);
    world_wake(&stopped);
    until_writable(&world, store, 1, 3);
    MUST_EQ(world_rows(&world, store, 0, 1), 2);
    world_end(&world, store);
    world_close(&world);
}

/* Longest turn while a batch as large as there may be is written, of which a stopped backend takes
 * what its socket holds. */
static int64_t longest_turn_ms(void)
{
    enum {
        OP_COUNT = BATCH_BYTES_MAX / PAYLOAD_BYTES_MAX
    };
    static uint8_t payload[PAYLOAD_BYTES_MAX];
    static struct store_op ops[OP_COUNT];
    struct store_batch batch = {.ops = ops, .op_count = OP_COUNT};
    struct world world;
    struct insertion insertion;
    struct store *store;
    struct world_stopped stopped;
    int64_t longest = 0;

    world_open(&world, "large");
    world.command_ms = WORLD_COMMAND_MS;
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    insertion_start(&insertion, store, 0, 1, 1);
    world_until(&world, &insertion.done);
    for (int64_t i = 0; i < OP_COUNT; i++) {
        ops[i] = insertion.ops[0];
        ops[i].task.id.seq = task_seq(1, i + 2);
        ops[i].task.payload = (struct slice){payload, sizeof(payload)};
    }
    stopped = world_stop_writer(&world, "straight");
    insertion.done = false;
    batch.cb = insertion.batch.cb;
    batch.owner = &insertion.done;
    MUST_OK(store->write(store, &batch));
    while (!insertion.done) {
        int64_t start = must_now_ms();

        world_turn_ms(&world, 10);
        longest = must_now_ms() - start > longest ? must_now_ms() - start : longest;
    }
    world_wake(&stopped);
    MUST_ERR(batch.result, ERR_OUTCOME_UNKNOWN);
    MUST_OK(world_bump(&world, store, 0, 2));
    MUST_EQ(world_rows(&world, store, 0, 2), 1);
    world_end(&world, store);
    world_close(&world);
    return longest;
}

static void write_that_the_server_does_not_take_blocks_no_turn(void)
{
    MUST_LE_ONCE(longest_turn_ms(), TURN_MS_MAX);
}

/* The next insert meets an error of this class, once: sequences are not rolled back. */
static void arm_error(struct world *world, const char *state)
{
    char sql[512];

    (void)snprintf(sql, sizeof(sql),
                   "CREATE OR REPLACE FUNCTION doubt() RETURNS trigger LANGUAGE plpgsql SECURITY"
                   " DEFINER AS $$BEGIN IF nextval('doubts') = 1 THEN RAISE SQLSTATE '%s'; END IF;"
                   " RETURN NULL; END$$",
                   state);
    world_ask(world, sql);
    world_ask(world, "SELECT setval('doubts', 1, false)");
}

static void error_that_puts_a_connection_in_doubt_costs_that_one(void)
{
    static const char *const states[] = {"08006", "25006", "25P03", "26000", "57P01", "0A000"};
    struct world world;
    struct store *store;
    int64_t epoch = 1;

    world_open(&world, "doubt");
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, epoch));
    world_ask(&world, "CREATE SEQUENCE doubts");
    arm_error(&world, "53100");
    world_ask(&world, "CREATE TRIGGER t BEFORE INSERT ON foliot_data.task_0000"
                      " EXECUTE FUNCTION doubt()");
    // An error that is about the write costs none.
    MUST_ERR(world_insert(&world, store, 0, epoch, 1), ERR_UNAVAILABLE);
    MUST_EQ(world_stats(store).connections_lost, 0);
    for (size_t i = 0; i < ARRAY_COUNT(states); i++) {
        arm_error(&world, states[i]);
        // Its commit was on its way already.
        MUST_ERR(world_insert(&world, store, 0, epoch, (int64_t)i + 2), ERR_OUTCOME_UNKNOWN);
        MUST_EQ(world_stats(store).connections_lost, i + 1);
        MUST_OK(world_bump(&world, store, 0, ++epoch));
        MUST_EQ(world_rows(&world, store, 0, epoch), i);
        until_writable(&world, store, epoch, (int64_t)i + 2);
    }
    world_end(&world, store);
    world_close(&world);
}

static void pooler_is_refused(void)
{
    struct world world;
    struct store *store;
    int64_t end_ms;

    world_open(&world, "pooler");
    world.command_ms = WORLD_COMMAND_MS;
    pg_proxy_set_pooling(world.proxy, true);
    store = world_store(&world, true);
    end_ms = must_now_ms() + RECOVERY_MS;
    while (strstr(world.last_log, "a connection pooler") == NULL) {
        loop_turn(world.loop, true);
        MUST_LE(must_now_ms(), end_ms);
    }
    MUST_ERR(world_insert(&world, store, 0, 1, 1), ERR_UNAVAILABLE);
    MUST_EQ(world_stats(store).connections_made, 0);
    pg_proxy_set_pooling(world.proxy, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    world_end(&world, store);
    world_close(&world);
}

/* Whoever made the role meant people's queries. */
static void timeouts_of_the_role_end_nothing_of_ours(void)
{
    struct world world;
    struct insertion insertion;
    struct store *store;
    char sql[256];

    world_open(&world, "timeouts");
    (void)snprintf(sql, sizeof(sql), "ALTER DATABASE \"%s\" SET statement_timeout = '100ms'",
                   world.fixture.name);
    world_ask(&world, sql);
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    world_ask(&world, "BEGIN");
    world_ask(&world, "LOCK TABLE foliot_data.task_0000 IN EXCLUSIVE MODE");
    insertion_start(&insertion, store, 0, 1, 1);
    world_turn_ms(&world, 300);
    MUST(!insertion.done);
    world_ask(&world, "COMMIT");
    world_until(&world, &insertion.done);
    MUST_OK(insertion.batch.result);
    MUST_OK(insertion.ops[0].result);
    world_end(&world, store);
    world_close(&world);
}

static void until_snapshot_age(struct world *world, const struct store *store, bool is_old)
{
    while ((world_stats(store).snapshot_age >= SNAPSHOT_AGE) != is_old) {
        world_turn_ms(world, 20); // Ends, or the case is over time.
    }
}

/* A snapshot, then a prepared transaction, which would outlive a case that fails: its name is its
 * own. */
static void what_holds_vacuum_back_is_counted(void)
{
    struct world world;
    struct store *store;
    PGconn *other;
    int64_t counter = 0;
    char prepare[128];
    char rollback[128];

    world_open(&world, "snapshot");
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    other = PQconnectdb(world.fixture.pg_admin);
    PQclear(PQexec(other, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
    PQclear(PQexec(other, "SELECT 1"));
    while (counter < SNAPSHOT_AGE) {
        MUST_OK(world_insert(&world, store, 0, 1, ++counter));
    }
    until_snapshot_age(&world, store, true);
    PQclear(PQexec(other, "COMMIT"));
    until_snapshot_age(&world, store, false);
    (void)snprintf(prepare, sizeof(prepare), "PREPARE TRANSACTION '%s'", world.fixture.name);
    (void)snprintf(rollback, sizeof(rollback), "ROLLBACK PREPARED '%s'", world.fixture.name);
    PQclear(PQexec(other, "BEGIN"));
    PQclear(PQexec(other, "CREATE TABLE forgotten ()"));
    PQclear(PQexec(other, prepare));
    while (counter < 2 * SNAPSHOT_AGE) {
        MUST_OK(world_insert(&world, store, 0, 1, ++counter));
    }
    until_snapshot_age(&world, store, true);
    PQclear(PQexec(other, rollback));
    until_snapshot_age(&world, store, false);
    PQfinish(other);
    world_end(&world, store);
    world_close(&world);
}

/* A case that fails in the middle must not leave the server stopped for those who come after it. */
static void wake_server(void)
{
    struct fixture fixture = {0};

    (void)snprintf(fixture.servers_dir, sizeof(fixture.servers_dir), "%s",
                   getenv("FOLIOT_TEST_DIR"));
    fixture_servers(&fixture, "cont-pg");
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(line_that_swallows_everything_costs_a_deadline),
        MUST_CASE(server_that_is_stopped_costs_a_deadline),
        MUST_CASE(postmaster_that_is_stopped_hurts_new_connections_only),
        MUST_CASE(write_that_the_server_does_not_take_blocks_no_turn),
        MUST_CASE(error_that_puts_a_connection_in_doubt_costs_that_one),
        MUST_CASE(pooler_is_refused),
        MUST_CASE(timeouts_of_the_role_end_nothing_of_ours),
        MUST_CASE(what_holds_vacuum_back_is_counted),
    };
    int status;

    fixture_need_servers(argv);
    status = must_main(argc, argv, cases, ARRAY_COUNT(cases));
    wake_server();
    return status;
}
