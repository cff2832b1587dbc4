/* SPDX-License-Identifier: Apache-2.0
 *
 * Migrations: safe to start at once, applied once, and refused where they are not ours.
 */
#include "storage/pg_migrate.h"

#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/io/clock.h"
#include "storage/pg_schema.h"
#include "tests/lib/fixture.h"
#include "tests/lib/must.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fixture fixture;
static char errmsg[512];

static void run(const char *sql)
{
    PGconn *link = PQconnectdb(fixture.pg_conninfo);
    PGresult *result = PQexec(link, sql);

    if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
        must_fail(MUST_HERE, "%s: %s", sql, PQresultErrorMessage(result));
    }
    PQclear(result);
    PQfinish(link);
}

static long ask(const char *sql)
{
    PGconn *link = PQconnectdb(fixture.pg_conninfo);
    PGresult *result = PQexec(link, sql);
    long value;

    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        must_fail(MUST_HERE, "%s: %s", sql, PQresultErrorMessage(result));
    }
    value = strtol(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    PQfinish(link);
    return value;
}

static int migrate_as(const char *cluster_id, uint32_t shard_count)
{
    struct pg_migrate_options options = {
        .conninfo = fixture.pg_conninfo,
        .cluster_id = cluster_id,
        .shard_count = shard_count,
    };

    return pg_migrate(&options, errmsg, sizeof(errmsg));
}

/* The schema as an older program has made it, for a cluster "one" of four shards. */
static void make_steps(size_t count)
{
    PGconn *link = PQconnectdb(fixture.pg_conninfo);

    PQclear(PQexec(link, "SELECT set_config('foliot.cluster_id', 'one', false),"
                         " set_config('foliot.shard_count', '4', false),"
                         " set_config('foliot.shards', '0,1,2,3', false);"
                         "CREATE SCHEMA foliot; CREATE SCHEMA foliot_data;"
                         "CREATE TABLE foliot_data.migration (step integer PRIMARY KEY,"
                         " name text NOT NULL, checksum text NOT NULL,"
                         " applied timestamptz NOT NULL DEFAULT clock_timestamp())"));
    for (size_t i = 0; i < count; i++) {
        const char *text = (const char *)schema_pg_files[i].bytes;
        const char *values[2] = {schema_pg_files[i].name, text};
        PGresult *result = PQexec(link, text);

        MUST_EQ(PQresultStatus(result), PGRES_COMMAND_OK);
        PQclear(result);
        result = PQexecParams(link,
                              "INSERT INTO foliot_data.migration (step, name, checksum)"
                              " SELECT count(*) + 1, $1,"
                              " encode(sha256(convert_to($2, 'UTF8')), 'hex')"
                              " FROM foliot_data.migration",
                              2, NULL, values, NULL, NULL, 0);
        MUST_EQ(PQresultStatus(result), PGRES_COMMAND_OK);
        PQclear(result);
    }
    PQfinish(link);
}

/* Steps of the version before the whole API. */
#define STEPS_BEFORE 4

static void database_of_an_older_program_keeps_what_it_holds(void)
{
    fixture_open(&fixture, "migrate");
    make_steps(STEPS_BEFORE);
    run("INSERT INTO foliot_data.task_0002"
        " VALUES (5, 1700000000123, 0, 7, 0, 0, 0, 2, '\\x00ff', '\\x6b')");
    run("INSERT INTO foliot_data.dead VALUES"
        " (6, 0, 0, 0, 2, 7, 1, 1, 0, 2, '\\x00', NULL, '\\x6e006f')");
    run("INSERT INTO foliot_data.namespace VALUES ('n')");
    run("INSERT INTO foliot_data.queue VALUES (7, 1, 'n', 'mail', 'grpc://h:1/s/m', 1, false, 5,"
        " 10000, 1, 1, 1, 1, 1, 1, 1, 1)");
    MUST_OK(migrate_as("one", 4));
    MUST_EQ(ask("SELECT count(*) FROM foliot_data.migration"), (long)schema_pg_file_count);
    MUST_EQ(ask("SELECT count(*) FROM foliot.pending WHERE id = '002-0000000000000005'"
                " AND key = 'k' AND tags IS NULL AND expires IS NULL"),
            1);
    MUST_EQ(ask("SELECT count(*) FROM foliot.dead WHERE id = '002-0000000000000006'"
                " AND tags IS NULL AND expires IS NULL"),
            1);
    MUST_EQ(ask("SELECT count(*) FROM foliot.queue WHERE name = 'mail' AND NOT paused"
                " AND NOT draining AND paused_until IS NULL AND result_memory = '0'"),
            1);
    fixture_close(&fixture);
}

/* A transaction of a broker that is at work: it has some locks, and will want others. */
static PGconn *begin_work(const char *first, const char *then)
{
    PGconn *link = PQconnectdb(fixture.pg_conninfo);

    PQclear(PQexec(link, "BEGIN"));
    PQclear(PQexec(link, first));
    PQclear(PQexec(link, then));
    MUST_EQ(PQtransactionStatus(link), PQTRANS_INTRANS);
    return link;
}

static void end_work(PGconn *link, const char *last)
{
    PGresult *result = PQexec(link, last);

    if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
        must_fail(MUST_HERE, "%s: %s", last, PQresultErrorMessage(result));
    }
    PQclear(result);
    PQclear(PQexec(link, "COMMIT"));
    PQfinish(link);
}

static void until_lock_waits(long count)
{
    int64_t end_ms = must_now_ms() + 20000;

    while (ask("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
               " AND wait_event_type = 'Lock'") < count) {
        MUST_LE(must_now_ms(), end_ms);
        must_nap();
    }
}

/* The server has noticed that its client is gone. */
static void until_lock_waits_are_over(void)
{
    int64_t end_ms = must_now_ms() + 20000;

    while (ask("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
               " AND wait_event_type = 'Lock'") > 0) {
        MUST_LE(must_now_ms(), end_ms);
        must_nap();
    }
}

static void brokers_at_work_meet_a_migration_in_no_deadlock(void)
{
    PGconn *writer;
    PGconn *sweeper;
    pid_t child;
    int status = 0;

    fixture_open(&fixture, "migrate");
    make_steps(STEPS_BEFORE);
    // In an order in which nothing else takes its locks.
    writer = begin_work("SELECT FROM foliot_data.shard WHERE id = 3 FOR SHARE",
                        "DELETE FROM foliot_data.task_0003");
    sweeper = begin_work("SELECT FROM foliot_data.claim", "SELECT FROM foliot_data.task_0002");
    child = fork();
    if (child == 0) {
        _exit(migrate_as("one", 4) == 0 ? 0 : 1);
    }
    MUST(child > 0);
    until_lock_waits(1);
    end_work(sweeper, "SELECT FROM foliot_data.task_0000");
    until_lock_waits(1);
    end_work(writer, "DELETE FROM foliot_data.task_0000");
    MUST(waitpid(child, &status, 0) == child);
    MUST_EQ(status, 0);
    MUST_EQ(ask("SELECT count(*) FROM foliot_data.migration"), (long)schema_pg_file_count);
    fixture_close(&fixture);
}

static void several_brokers_may_start_at_once(void)
{
    enum {
        BROKER_COUNT = 6
    };
    pid_t children[BROKER_COUNT];

    fixture_open(&fixture, "migrate");
    for (int i = 0; i < BROKER_COUNT; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            _exit(migrate_as("one", 32) == 0 ? 0 : 1);
        }
        MUST(children[i] > 0);
    }
    for (int i = 0; i < BROKER_COUNT; i++) {
        int status = 0;

        MUST(waitpid(children[i], &status, 0) == children[i]);
        MUST_EQ(status, 0);
    }
    MUST_EQ(ask("SELECT count(*) FROM foliot_data.migration"), (long)schema_pg_file_count);
    MUST_EQ(ask("SELECT count(*) FROM pg_tables WHERE schemaname = 'foliot_data'"
                " AND tablename LIKE 'task_%'"),
            32);
    MUST_EQ(ask("SELECT count(*) FROM foliot_data.shard WHERE epoch = 0"), 32);
    fixture_close(&fixture);
}

static void only_the_shards_that_live_here_get_a_table(void)
{
    static const uint8_t database_of[4] = {0, 1, 1, 0};
    struct pg_migrate_options options = {
        .cluster_id = "one", .shard_count = 4, .database_of = database_of, .database = 1};

    fixture_open(&fixture, "migrate");
    options.conninfo = fixture.pg_conninfo;
    MUST_OK(pg_migrate(&options, errmsg, sizeof(errmsg)));
    MUST_EQ(ask("SELECT count(*) FROM foliot_data.shard WHERE id IN (1, 2)"), 2);
    MUST_EQ(ask("SELECT count(*) FROM foliot_data.shard"), 2);
    MUST_EQ(ask("SELECT count(*) FROM pg_tables WHERE tablename IN ('task_0001', 'task_0002')"), 2);
    fixture_close(&fixture);
}

static void database_of_another_cluster_is_refused(void)
{
    fixture_open(&fixture, "migrate");
    MUST_OK(migrate_as("one", 4));
    MUST_OK(migrate_as("one", 4));
    MUST_ERR(migrate_as("two", 4), ERR_CONFLICT);
    MUST(strstr(errmsg, "belongs to cluster one") != NULL);
    MUST_ERR(migrate_as("one", 8), ERR_CONFLICT);
    fixture_close(&fixture);
}

static void step_that_differs_is_refused(void)
{
    fixture_open(&fixture, "migrate");
    MUST_OK(migrate_as("one", 4));
    run("UPDATE foliot_data.migration SET checksum = 'x' WHERE step = 2");
    MUST_ERR(migrate_as("one", 4), ERR_CONFLICT);
    MUST(strstr(errmsg, "0002_task.sql") != NULL);
    fixture_close(&fixture);
}

static void newer_schema_is_refused(void)
{
    fixture_open(&fixture, "migrate");
    MUST_OK(migrate_as("one", 4));
    run("INSERT INTO foliot_data.migration (step, name, checksum) VALUES (999, 'later', 'x')");
    MUST_ERR(migrate_as("one", 4), ERR_CONFLICT);
    MUST(strstr(errmsg, "newer program") != NULL);
    fixture_close(&fixture);
}

static void step_that_fails_leaves_nothing_behind(void)
{
    fixture_open(&fixture, "migrate");
    run("CREATE SCHEMA foliot_data; CREATE TABLE foliot_data.task_0003 (x int)");
    MUST_ERR(migrate_as("one", 4), ERR_IO);
    MUST(strstr(errmsg, "task_0003") != NULL);
    MUST_EQ(ask("SELECT count(*) FROM foliot_data.migration"), 1);
    MUST_EQ(ask("SELECT count(*) FROM pg_tables WHERE tablename = 'task_0000'"), 0);
    run("DROP TABLE foliot_data.task_0003");
    MUST_OK(migrate_as("one", 4));
    fixture_close(&fixture);
}

static void waiting_has_an_end(void)
{
    struct pg_migrate_options options = {.cluster_id = "one", .shard_count = 4, .limit_ms = 700};
    PGconn *holder;
    boot_us start;

    fixture_open(&fixture, "migrate");
    MUST_OK(migrate_as("one", 4));
    holder = PQconnectdb(fixture.pg_conninfo);
    PQclear(PQexec(holder, "BEGIN"));
    PQclear(PQexec(holder, "LOCK TABLE foliot_data.migration"));
    options.conninfo = fixture.pg_conninfo;
    start = clock_boot_us();
    MUST_ERR(pg_migrate(&options, errmsg, sizeof(errmsg)), ERR_UNAVAILABLE);
    MUST_LE(600 * US_PER_MS, clock_boot_us() - start);
    PQfinish(holder);
    MUST_OK(migrate_as("one", 4));
    fixture_close(&fixture);
}

/* Its result, in a process of its own. */
static pid_t migrate_beside(span_ms limit_ms, span_ms step_ms)
{
    struct pg_migrate_options options = {
        .conninfo = fixture.pg_conninfo,
        .cluster_id = "one",
        .shard_count = 4,
        .limit_ms = limit_ms,
        .step_ms = step_ms,
    };
    pid_t child = fork();

    if (child == 0) {
        _exit(-pg_migrate(&options, errmsg, sizeof(errmsg)));
    }
    MUST(child > 0);
    return child;
}

static int result_of(pid_t child)
{
    int status = 0;

    MUST(waitpid(child, &status, 0) == child);
    MUST(WIFEXITED(status));
    return -WEXITSTATUS(status);
}

static bool is_stopped(void)
{
    return true;
}

static void program_that_is_stopped_does_not_wait_for_its_step(void)
{
    struct pg_migrate_options options = {
        .cluster_id = "one", .shard_count = 4, .is_stopped = is_stopped};

    fixture_open(&fixture, "migrate");
    options.conninfo = fixture.pg_conninfo;
    MUST_ERR(pg_migrate(&options, errmsg, sizeof(errmsg)), ERR_UNAVAILABLE);
    fixture_close(&fixture);
}

static void step_may_take_longer_than_everything_else(void)
{
    PGconn *holder;
    pid_t child;
    int64_t start_ms;

    fixture_open(&fixture, "migrate");
    make_steps(STEPS_BEFORE);
    // The step waits for this; one that makes an index works instead.
    holder = begin_work("LOCK TABLE foliot_data.claim", "SELECT");
    MUST_ERR(result_of(migrate_beside(0, 300)), ERR_UNAVAILABLE);
    until_lock_waits_are_over();
    start_ms = must_now_ms();
    child = migrate_beside(4000, 0);
    until_lock_waits(1);
    while (must_now_ms() - start_ms < 4500) {
        must_nap();
    }
    end_work(holder, "SELECT");
    MUST_OK(result_of(child));
    fixture_close(&fixture);
}

static void server_that_is_not_there_is_unavailable(void)
{
    struct pg_migrate_options options = {
        .conninfo = "host=127.0.0.1 port=1 dbname=x", .cluster_id = "one", .shard_count = 1};

    MUST_ERR(pg_migrate(&options, errmsg, sizeof(errmsg)), ERR_UNAVAILABLE);
    options.conninfo = "nonsense";
    MUST_ERR(pg_migrate(&options, errmsg, sizeof(errmsg)), ERR_INVALID);
    MUST(errmsg[0] != '\0');
}

static void people_find_results_and_queues(void)
{
    fixture_open(&fixture, "migrate");
    MUST_OK(migrate_as("one", 4));
    run("INSERT INTO foliot_data.ended VALUES"
        " (7, 0, 0, 1700000000123, 9223372036854775, NULL, 2, 7, 3, 2, 1, 2, 3, 'k', 'a=b\n', "
        "'x')");
    run("INSERT INTO foliot_data.ended VALUES"
        " (8, 0, 0, 0, 1, NULL, 2, 7, 3, 2, 1, 2, 1, NULL, NULL, NULL)");
    MUST_EQ(ask("SELECT count(*) FROM foliot.ended WHERE id = '002-0000000000000007'"
                " AND how = 'expired' AND ended = '2023-11-14 22:13:20.123+00' AND tags = 'a=b'"),
            1);
    MUST_EQ(ask("SELECT count(*) FROM foliot.ended"), 1); // the other is past its time
    run("INSERT INTO foliot_data.namespace VALUES ('n')");
    run("INSERT INTO foliot_data.queue VALUES (1, 1, 'n', 'mail', 'grpc://h:1/s/m', 1, false, 5,"
        " 10000, 1, 1, 1, 1, 1, 1, 1, 1, true, 1700000000123, false, 60000, 0)");
    MUST_EQ(ask("SELECT count(*) FROM foliot.queue WHERE name = 'mail' AND NOT paused"
                " AND result_memory = '1 minute' AND expire_after IS NULL"),
            1);
    fixture_close(&fixture);
}

static void people_find_tasks_and_dead_letters(void)
{
    fixture_open(&fixture, "migrate");
    MUST_OK(migrate_as("one", 4));
    run("INSERT INTO foliot_data.task_0002"
        " VALUES (5, 1700000000123, 0, 7, 0, 0, 0, 2, '\\x00ff', '\\x6b')");
    run("UPDATE foliot_data.task_0002 SET tags = 'colour=red\nsize=9\n',"
        " expire_ms = 1800000000000");
    run("INSERT INTO foliot_data.dead VALUES"
        " (6, 0, 0, 0, 2, 7, 1, 1, 0, 2, '\\x00', NULL, '\\x6e006f')");
    MUST_EQ(ask("SELECT count(*) FROM foliot.pending WHERE id = '002-0000000000000005'"
                " AND shard = 2 AND due = '2023-11-14 22:13:20.123+00' AND key = 'k'"),
            1);
    MUST_EQ(ask("SELECT count(*) FROM foliot.pending WHERE tags = 'colour=red, size=9'"
                " AND expires = '2027-01-15 08:00:00+00'"),
            1);
    MUST_EQ(ask("SELECT count(*) FROM foliot.dead WHERE id = '002-0000000000000006'"
                " AND error = 'n\\000o'"),
            1);
    fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(several_brokers_may_start_at_once),
        MUST_CASE(only_the_shards_that_live_here_get_a_table),
        MUST_CASE(database_of_another_cluster_is_refused),
        MUST_CASE(step_that_differs_is_refused),
        MUST_CASE(newer_schema_is_refused),
        MUST_CASE(step_that_fails_leaves_nothing_behind),
        MUST_CASE(waiting_has_an_end),
        MUST_CASE(step_may_take_longer_than_everything_else),
        MUST_CASE(program_that_is_stopped_does_not_wait_for_its_step),
        MUST_CASE(server_that_is_not_there_is_unavailable),
        MUST_CASE(database_of_an_older_program_keeps_what_it_holds),
        MUST_CASE(brokers_at_work_meet_a_migration_in_no_deadlock),
        MUST_CASE(people_find_tasks_and_dead_letters),
        MUST_CASE(people_find_results_and_queues),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
