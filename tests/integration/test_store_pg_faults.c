/* SPDX-License-Identifier: Apache-2.0
 *
 * PostgreSQL that is away, full, restarted, badly configured or somebody else's: what is answered
 * is true, nothing in memory is dropped, and recovery needs no restart. source: RELIABILITY P-1 …
 * P-15
 */
#include "tests/integration/pg_world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Longest time for the store to notice that its database is back, on a busy machine. */
#define RECOVERY_MS 20000

static void until_writable(struct world *world, struct store *store, int64_t counter)
{
    int64_t end_ms = must_now_ms() + RECOVERY_MS;
    int result;

    do {
        result = world_insert(world, store, 0, 1, counter);
    } while (result == ERR_UNAVAILABLE && must_now_ms() < end_ms);
    MUST_OK(result);
}

static void until_health(struct world *world, int wanted)
{
    int64_t end_ms = must_now_ms() + RECOVERY_MS;

    while (world->health != wanted) {
        loop_turn(world->loop, true);
        MUST_LE(must_now_ms(), end_ms);
    }
}

static void until_log(struct world *world, const char *words)
{
    int64_t end_ms = must_now_ms() + RECOVERY_MS;

    while (strstr(world->last_log, words) == NULL) {
        loop_turn(world->loop, true);
        if (must_now_ms() > end_ms) {
            must_fail(MUST_HERE, "\"%s\" does not say \"%s\"", world->last_log, words);
        }
    }
}

static void until_all_are_lost(struct world *world, const struct store *store)
{
    while (world_stats(store).connections_lost < WORLD_CONNECTION_COUNT) {
        loop_turn(world->loop, true);
    }
}

/* It has been told that the database is away: it does not begin what would end in vain. */
static void must_refuse_queues(struct store *store)
{
    struct store_queue_put put = {.expected_version = 0};
    struct store_queue_drop drop = {.id = 1};
    struct store_queue_list list = {.row_count = 0};

    MUST_ERR(store->queue_put(store, &put), ERR_UNAVAILABLE);
    MUST_ERR(store->queue_drop(store, &drop), ERR_UNAVAILABLE);
    MUST_ERR(store->queue_list(store, &list), ERR_UNAVAILABLE);
}

static void database_that_is_away_refuses_and_comes_back(void)
{
    struct world world;
    struct store *store;
    int64_t start;

    world_open(&world, "away");
    world.command_ms = WORLD_COMMAND_MS;
    store = world_store(&world, true);
    MUST_OK(world_bump(&world, store, 0, 1));
    until_health(&world, 1);
    world_until_connected(&world, store);
    pg_proxy_set_up(world.proxy, false);
    until_all_are_lost(&world, store);
    start = must_now_ms();
    MUST_ERR(world_insert(&world, store, 0, 1, 1), ERR_UNAVAILABLE);
    MUST_LE(must_now_ms() - start, 5 * WORLD_COMMAND_MS);
    until_health(&world, 0);
    MUST_EQ(world_table_rows(&world, 0), 0);
    must_refuse_queues(store);
    pg_proxy_set_up(world.proxy, true);
    until_writable(&world, store, 2);
    until_health(&world, 1);
    MUST_EQ(world.changes, 0);
    world_end(&world, store);
    world_close(&world);
}

static void database_without_connections_left_is_waited_for(void)
{
    struct world world;
    struct store *store;
    char sql[256];

    world_open(&world, "connections");
    world.command_ms = WORLD_COMMAND_MS;
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    world_until_connected(&world, store);
    (void)snprintf(sql, sizeof(sql), "ALTER DATABASE \"%s\" CONNECTION LIMIT 0",
                   world.fixture.name);
    world_ask(&world, sql);
    world_ask(&world, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                      " WHERE application_name LIKE 'foliot/%' AND datname = current_database()");
    until_all_are_lost(&world, store);
    until_log(&world, "too many connections");
    MUST_ERR(world_insert(&world, store, 0, 1, 1), ERR_UNAVAILABLE);
    (void)snprintf(sql, sizeof(sql), "ALTER DATABASE \"%s\" CONNECTION LIMIT -1",
                   world.fixture.name);
    world_ask(&world, sql);
    until_writable(&world, store, 2);
    MUST_EQ(world_rows(&world, store, 0, 1), 1);
    world_end(&world, store);
    world_close(&world);
}

/* A trigger stands for the disk: the server answers as it would, and rolls back. */
static void full_disk_refuses_whole_batches_and_is_reported(void)
{
    struct world world;
    struct store *store;

    world_open(&world, "disk");
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    world_ask(&world, "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
                      " $$BEGIN RAISE disk_full; END$$");
    world_ask(&world, "CREATE TRIGGER t BEFORE INSERT ON foliot_data.task_0000"
                      " EXECUTE FUNCTION full_disk()");
    until_health(&world, 1);
    while (world.health != 0) {
        MUST_ERR(world_insert(&world, store, 0, 1, 1), ERR_UNAVAILABLE);
    }
    MUST_EQ(world_stats(store).write_split, 0);
    world_ask(&world, "DROP TRIGGER t ON foliot_data.task_0000");
    MUST_OK(world_insert(&world, store, 0, 1, 1));
    until_health(&world, 1);
    world_end(&world, store);
    world_close(&world);
}

static void commits_that_a_crash_could_lose_are_refused(void)
{
    struct world world;
    struct store *store;
    char sql[256];

    world_open(&world, "async");
    world.command_ms = WORLD_COMMAND_MS;
    (void)snprintf(sql, sizeof(sql), "ALTER DATABASE \"%s\" SET synchronous_commit = off",
                   world.fixture.name);
    world_ask(&world, sql);
    store = world_store(&world, false);
    until_log(&world, "synchronous_commit is off");
    MUST_ERR(world_insert(&world, store, 0, 1, 1), ERR_UNAVAILABLE);
    until_health(&world, 0);
    world_end(&world, store);
    world_close(&world);
}

static void database_of_another_cluster_is_not_written_to(void)
{
    struct world world;
    struct store *store;

    world_open(&world, "foreign");
    world.command_ms = WORLD_COMMAND_MS;
    world_ask(&world, "UPDATE foliot_data.cluster SET id = 'other'");
    store = world_store(&world, false);
    until_log(&world, "belongs to another cluster");
    MUST_ERR(world_insert(&world, store, 0, 1, 1), ERR_UNAVAILABLE);
    world_end(&world, store);
    world_close(&world);
}

static void names_of_hosts_are_looked_up_beside_the_loop(void)
{
    struct world world;
    struct store *store;

    world_open(&world, "names");
    world.extra = "host=localhost,127.0.0.1 port=1,1";
    store = world_store(&world, false);
    until_log(&world, "refused");
    world_end(&world, store);
    world.extra = "host=localhost";
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    world_end(&world, store);
    world.extra = "host=no-such-host.invalid";
    world.command_ms = WORLD_COMMAND_MS;
    store = world_store(&world, false);
    until_log(&world, "no address");
    MUST_ERR(world_insert(&world, store, 0, 1, 1), ERR_UNAVAILABLE);
    world_end(&world, store);
    // And closed in the middle of it.
    store = world_store(&world, false);
    world_end(&world, store);
    world_close(&world);
}

/* A socket on loopback that takes connections and answers nothing, as a machine that is stuck. */
static int listen_silently(unsigned *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    MUST(bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, 16) == 0 &&
         getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static void silent_host_does_not_hide_the_next_one(void)
{
    struct world world;
    struct store *store;
    char extra[64];
    unsigned port;
    int fd = listen_silently(&port);

    world_open(&world, "silent");
    (void)snprintf(extra, sizeof(extra), "host=127.0.0.1,127.0.0.1 port=%u,%s", port,
                   PQport(world.admin));
    world.extra = extra;
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    world_end(&world, store);
    (void)close(fd); // Now it refuses.
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 2));
    world_end(&world, store);
    world_close(&world);
}

/* Two that lock one row for share make a multixact. */
static void share_a_row(struct world *world, PGconn *other)
{
    static const char *const LOCK = "BEGIN; SELECT FROM foliot_data.shard WHERE id = 0 FOR SHARE";

    PQclear(PQexec(world->admin, LOCK));
    PQclear(PQexec(other, LOCK));
    PQclear(PQexec(world->admin, "COMMIT"));
    PQclear(PQexec(other, "COMMIT"));
}

static uint64_t age_of(const struct store *store)
{
    struct store_pg_stats stats;

    store_pg_stats(store, 0, &stats);
    return stats.multixact_age;
}

static void multixacts_of_a_database_are_counted(void)
{
    struct world world = {0};
    struct store *store;
    PGconn *other;
    uint64_t before;

    world_open(&world, "multixact");
    store = world_store(&world, false);
    other = PQconnectdb(world.fixture.pg_admin);
    share_a_row(&world, other);
    while (age_of(store) == 0) {
        world_turn_ms(&world, 20);
    }
    before = age_of(store);
    for (int i = 0; i < 10; i++) {
        share_a_row(&world, other);
    }
    while (age_of(store) < before + 10) { // Ends, or the case is over time.
        world_turn_ms(&world, 20);
    }
    PQfinish(other);
    world_end(&world, store);
    world_close(&world);
}

static void idle_database_is_asked_for_its_clock(void)
{
    struct world world;
    struct store *store;
    unsigned before;

    world_open(&world, "clock");
    store = world_store(&world, false);
    until_health(&world, 1);
    // Ten at best; a busy machine takes its share, and one that stalls all of it: not five times.
    for (int spans = 0, is_asked = 0; !is_asked; spans++) {
        MUST_LE(spans, 4);
        before = world.clocks;
        world_turn_ms(&world, 2000);
        is_asked = world.clocks - before >= 3;
    }
    before = world.clocks;
    MUST_OK(world_bump(&world, store, 0, 1));
    MUST_OK(world_insert(&world, store, 0, 1, 1));
    MUST_LE(3, world.clocks - before); // the bump's, the fence's, and behind the commit
    world_end(&world, store);
    world_close(&world);
}

static void server_that_was_killed_and_restarted_is_used_again(void)
{
    struct world world;
    struct insertion insertion;
    struct store *store;
    size_t rows;

    world_open(&world, "restart");
    world.command_ms = 2 * WORLD_COMMAND_MS; // One wait for it, and a server that has just begun.
    store = world_store(&world, true);
    MUST_OK(world_bump(&world, store, 0, 1));
    MUST_OK(world_insert(&world, store, 0, 1, 1));
    pg_proxy_arm(world.proxy, PG_PROXY_HOLD_COMMIT);
    insertion_start(&insertion, store, 0, 1, 2);
    while (!pg_proxy_is_held(world.proxy)) {
        loop_turn(world.loop, true);
    }
    fixture_servers(&world.fixture, "kill-pg");
    world_until(&world, &insertion.done);
    MUST_ERR(insertion.batch.result, ERR_OUTCOME_UNKNOWN);
    pg_proxy_set_up(world.proxy, false);
    MUST_ERR(world_insert(&world, store, 0, 1, 3), ERR_UNAVAILABLE);
    fixture_servers(&world.fixture, "start-pg");
    pg_proxy_set_up(world.proxy, true);
    MUST_OK(world_bump(&world, store, 0, 2));
    rows = world_rows(&world, store, 0, 2);
    MUST_EQ(rows, 1);
    MUST_OK(world_insert(&world, store, 0, 2, 4));
    MUST_EQ(world.changes, 0); // same server, same timeline: nothing is lost
    PQreset(world.admin);
    world_end(&world, store);
    world_close(&world);
}

/* --- failover --------------------------------------------------------------------------------- */

static char standby_dir[128];

/* Run tests/lib/standby VERB DIR …; true if it went well. */
static bool standby(const char *verb, const char *conninfo, const char *port)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        (void)execl(STANDBY, STANDBY, verb, standby_dir, conninfo, port, (char *)NULL);
        _exit(1);
    }
    MUST(child > 0);
    MUST(waitpid(child, &status, 0) == child);
    return status == 0;
}

static long ask_at(const char *conninfo, const char *sql)
{
    PGconn *link = PQconnectdb(conninfo);
    PGresult *result = PQexec(link, sql);
    long value =
        PQresultStatus(result) == PGRES_TUPLES_OK ? strtol(PQgetvalue(result, 0, 0), NULL, 10) : -1;

    PQclear(result);
    PQfinish(link);
    return value;
}

/* Follow, fall behind by one commit, be promoted. */
static void fail_over(struct world *world, struct store *store, const char *port)
{
    char conninfo[512];

    MUST(standby("start", world->fixture.pg_admin, port));
    (void)snprintf(conninfo, sizeof(conninfo), "%s port=%s", world->fixture.pg_admin, port);
    MUST_OK(world_insert(world, store, 0, 1, 2));
    MUST_SOON(ask_at(conninfo, "SELECT count(*) FROM foliot_data.task_0000") == 2, 20000);
    ask_at(conninfo, "ALTER SYSTEM SET primary_conninfo = ''");
    ask_at(conninfo, "SELECT pg_reload_conf()");
    MUST_SOON(ask_at(conninfo, "SELECT count(*) FROM pg_stat_wal_receiver") == 0, 20000);
    MUST_OK(world_insert(world, store, 0, 1, 3));
    MUST(standby("promote", NULL, NULL));
}

static void failover_is_reported_before_anything_is_written(void)
{
    struct world world;
    struct insertion insertion;
    struct store *store;
    char target[64];
    char port[16];
    uint64_t system_id;
    uint32_t timeline;

    world_open(&world, "failover");
    (void)snprintf(port, sizeof(port), "%u", fixture_free_port());
    (void)snprintf(target, sizeof(target), "127.0.0.1:%s", port);
    store = world_store(&world, true);
    MUST_OK(world_bump(&world, store, 0, 1));
    MUST_OK(world_insert(&world, store, 0, 1, 1));
    fail_over(&world, store, port);
    MUST_EQ(world.changes, 0);
    pg_proxy_set_target(world.proxy, target);
    pg_proxy_set_up(world.proxy, false);
    world_turn_ms(&world, 50); // the store notices
    insertion_start(&insertion, store, 0, 1, 4);
    pg_proxy_set_up(world.proxy, true);
    while (!insertion.done) {
        loop_turn(world.loop, true);
        MUST(!insertion.done || world.changes == 1);
    }
    store_pg_server(store, 0, &system_id, &timeline);
    MUST_EQ(timeline, 2);
    MUST_EQ(world_stats(store).server_changes, 1);
    // Epochs come from elsewhere, so the new one is above whatever the standby knows.
    MUST_OK(world_bump(&world, store, 0, 2));
    // What waited for the connection was made by the rows of the server before.
    MUST_ERR(insertion.batch.result, ERR_UNAVAILABLE);
    MUST_EQ(world_rows(&world, store, 0, 2), 2);
    MUST_EQ(world.changes, 1);
    world_end(&world, store);
    world_close(&world);
}

/* A wait for a standby that is cut short commits here and says so in a warning only. */
static void commit_that_no_standby_has_is_unknown(void)
{
    struct world world;
    struct insertion insertion;
    struct store *store;

    world_open(&world, "standby");
    world.command_ms = WORLD_COMMAND_MS;
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    world_ask(&world, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    world_ask(&world, "SELECT pg_reload_conf()");
    MUST_SOON(world_ask(&world, "SELECT count(*) FROM pg_settings WHERE setting = 'nobody'") == 1,
              5000);
    // Nobody cuts it short but our own deadline.
    MUST_ERR(world_insert(&world, store, 0, 1, 1), ERR_OUTCOME_UNKNOWN);
    insertion_start(&insertion, store, 0, 1, 2);
    while (!insertion.done) {
        loop_turn(world.loop, true);
        world_ask(&world, "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity"
                          " WHERE wait_event = 'SyncRep' AND datname = current_database()");
    }
    world_ask(&world, "ALTER SYSTEM RESET synchronous_standby_names");
    world_ask(&world, "SELECT pg_reload_conf()");
    MUST_ERR(insertion.batch.result, ERR_OUTCOME_UNKNOWN);
    MUST_SOON(world_table_rows(&world, 0) == 2, 20000); // The first may be waiting still.
    world_end(&world, store);
    world_close(&world);
}

/* A case that fails in the middle must not leave the server waiting for a standby. */
static void restore_server(void)
{
    struct fixture fixture;
    PGconn *link;

    fixture_open(&fixture, "restore");
    link = PQconnectdb(fixture.pg_admin);
    PQclear(PQexec(link, "ALTER SYSTEM RESET synchronous_standby_names"));
    PQclear(PQexec(link, "SELECT pg_reload_conf()"));
    PQfinish(link);
    fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(database_that_is_away_refuses_and_comes_back),
        MUST_CASE(database_without_connections_left_is_waited_for),
        MUST_CASE(full_disk_refuses_whole_batches_and_is_reported),
        MUST_CASE(commits_that_a_crash_could_lose_are_refused),
        MUST_CASE(database_of_another_cluster_is_not_written_to),
        MUST_CASE(names_of_hosts_are_looked_up_beside_the_loop),
        MUST_CASE(silent_host_does_not_hide_the_next_one),
        MUST_CASE(multixacts_of_a_database_are_counted),
        MUST_CASE(idle_database_is_asked_for_its_clock),
        MUST_CASE_WITHIN(server_that_was_killed_and_restarted_is_used_again, 120),
        MUST_CASE_WITHIN(failover_is_reported_before_anything_is_written, 120),
        MUST_CASE(commit_that_no_standby_has_is_unknown),
    };
    int status;

    fixture_need_servers(argv);
    (void)snprintf(standby_dir, sizeof(standby_dir), "/tmp/foliot-standby-%d", (int)getpid());
    status = must_main(argc, argv, cases, ARRAY_COUNT(cases));
    (void)standby("stop", NULL, NULL);
    restore_server();
    return status;
}
