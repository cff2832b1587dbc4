/* SPDX-License-Identifier: Apache-2.0
 *
 * The world of the PostgreSQL tests.
 */
#include "tests/integration/pg_world.h"

#include "storage/pg_migrate.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define ERRMSG_SIZE 512

static void on_clock(void *ctx, uint32_t database, boot_us sent, boot_us received,
                     int64_t database_us)
{
    struct world *world = ctx;

    MUST_EQ(database, 0);
    MUST_LE(sent, received);
    MUST_LE(1600000000000000, database_us);
    world->clocks++;
}

static void on_health(void *ctx, uint32_t database, bool writable)
{
    (void)database;
    ((struct world *)ctx)->health = writable;
}

static void on_changed(void *ctx, uint32_t database, uint64_t system_id, uint32_t timeline)
{
    (void)database;
    MUST(system_id != 0 && timeline != 0);
    ((struct world *)ctx)->changes++;
}

static void on_log(void *ctx, uint32_t database, enum log_level level, const char *line)
{
    struct world *world = ctx;

    (void)database;
    (void)level;
    (void)snprintf(world->last_log, sizeof(world->last_log), "%s", line);
}

void world_open(struct world *world, const char *title)
{
    struct pg_migrate_options options = {.shard_count = WORLD_SHARD_COUNT};
    char errmsg[512];
    char target[64];

    memset(world, 0, sizeof(*world));
    world->health = -1;
    world->command_ms = WORLD_PATIENT_MS;
    fixture_open(&world->fixture, title);
    options.conninfo = world->fixture.pg_conninfo;
    options.cluster_id = world->fixture.name;
    if (pg_migrate(&options, errmsg, sizeof(errmsg)) != 0) {
        must_fail(MUST_HERE, "%s", errmsg);
    }
    MUST_OK(loop_open(&world->loop));
    world->admin = PQconnectdb(world->fixture.pg_admin);
    MUST_EQ(PQstatus(world->admin), CONNECTION_OK);
    (void)snprintf(target, sizeof(target), "127.0.0.1:%s", PQport(world->admin));
    world->proxy = pg_proxy_open(world->loop, target);
}

void world_close(struct world *world)
{
    pg_proxy_close(world->proxy);
    loop_close(world->loop);
    PQfinish(world->admin);
    fixture_close(&world->fixture);
}

static int try_store(struct world *world, bool behind_proxy, struct store **store, char *errmsg)
{
    struct store_pg_database database = {.name = "db0"};
    struct store_pg_options options;
    char conninfo[512];

    (void)snprintf(conninfo, sizeof(conninfo), "%s sslmode=disable gssencmode=disable %s",
                   world->fixture.pg_conninfo, world->extra == NULL ? "" : world->extra);
    if (behind_proxy) {
        (void)snprintf(conninfo + strlen(conninfo), sizeof(conninfo) - strlen(conninfo), " port=%u",
                       pg_proxy_port(world->proxy));
    }
    database.conninfo = conninfo;
    store_pg_options_init(&options);
    options.loop = world->loop;
    options.databases = &database;
    options.database_count = 1;
    options.shard_count = WORLD_SHARD_COUNT;
    options.cluster_id = world->fixture.name;
    options.instance = behind_proxy ? "behind" : "straight";
    options.command_ms = world->command_ms;
    options.unwritable_ms = WORLD_COMMAND_MS;
    options.age_poll_ms = 200;
    options.events = (struct store_pg_events){on_clock, on_health, on_changed, on_log, world};
    return store_pg_open(&options, store, errmsg, ERRMSG_SIZE);
}

struct store *world_store(struct world *world, bool behind_proxy)
{
    char errmsg[ERRMSG_SIZE];
    struct store *store;

    if (try_store(world, behind_proxy, &store, errmsg) != 0) {
        must_fail(MUST_HERE, "%s", errmsg);
    }
    return store;
}

struct store *world_try_store(struct world *world)
{
    char errmsg[ERRMSG_SIZE];
    struct store *store;

    return try_store(world, false, &store, errmsg) == 0 ? store : NULL;
}

static void on_close(void *ctx)
{
    *(bool *)ctx = true;
}

void world_end(struct world *world, struct store *store)
{
    bool done = false;

    store->close(store, on_close, &done);
    world_until(world, &done);
}

long world_ask(struct world *world, const char *sql)
{
    PGresult *result = PQexec(world->admin, sql);
    long value;

    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK) {
        must_fail(MUST_HERE, "%s: %s", sql, PQresultErrorMessage(result));
    }
    value = PQntuples(result) > 0 ? strtol(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return value;
}

struct world_stopped world_stop(pid_t pid)
{
    struct world_stopped stopped = {.pid = pid};
    char byte;
    int ends[2];
    pid_t guard;

    MUST(pid > 1 && pipe(ends) == 0);
    guard = fork();
    if (guard == 0) {
        // A group of its own: the runner ends that of the case. Our end of the pipe must go.
        (void)setpgid(0, 0);
        (void)close(ends[1]);
        (void)!read(ends[0], &byte, 1);
        _exit(kill(pid, SIGCONT));
    }
    MUST(guard > 0);
    (void)close(ends[0]);
    stopped.wake = ends[1];
    MUST(kill(pid, SIGSTOP) == 0);
    return stopped;
}

struct world_stopped world_stop_writer(struct world *world, const char *name)
{
    char sql[256];

    (void)snprintf(sql, sizeof(sql),
                   "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                   " AND application_name = 'foliot/%s/0'",
                   name);
    return world_stop((pid_t)world_ask(world, sql));
}

void world_wake(const struct world_stopped *stopped)
{
    MUST(kill(stopped->pid, SIGCONT) == 0);
    (void)close(stopped->wake);
}

void world_until(struct world *world, const bool *done)
{
    while (!*done) {
        loop_turn(world->loop, true);
    }
}

void world_until_connected(struct world *world, const struct store *store)
{
    while (world_stats(store).connections_made < WORLD_CONNECTION_COUNT) {
        loop_turn(world->loop, true);
    }
}

static void on_alarm(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    *(bool *)ctx = true;
}

void world_turn_ms(struct world *world, int64_t ms)
{
    bool done = false;
    struct loop_timer timer;

    (void)loop_sample_us(world->loop);
    loop_timer_init(&timer, world->loop, on_alarm, &done);
    loop_timer_start_in(&timer, ms);
    world_until(world, &done);
}

static void on_batch(struct store_batch *batch)
{
    *(bool *)batch->owner = true;
}

static void insertion_submit(struct insertion *insertion, struct store *store,
                             struct store_op insert, size_t op_count)
{
    *insertion = (struct insertion){.ops = {insert, insert}};
    insertion->ops[1].kind = STORE_CLAIM;
    insertion->ops[1].attempt = 1;
    insertion->ops[1].deadline_ms = 1000;
    insertion->ops[1].raise_attempt = true; // A change of the row has to be looked at.
    insertion->batch = (struct store_batch){
        .ops = insertion->ops,
        .op_count = op_count,
        .claim_row = {.writer = 1, .seq = insert.task.id.seq},
        .cb = on_batch,
        .owner = &insertion->done,
    };
    MUST_OK(store->write(store, &insertion->batch));
}

static struct store_op insert_op(uint32_t shard, int64_t epoch, int64_t counter)
{
    return (struct store_op){
        .kind = STORE_INSERT,
        .shard = shard,
        .epoch = epoch,
        .task = {.id = {.seq = task_seq(1, counter), .slot = (uint16_t)shard},
                 .queue = 1,
                 .payload = slice_of("payload")},
    };
}

void insertion_start(struct insertion *insertion, struct store *store, uint32_t shard,
                     int64_t epoch, int64_t counter)
{
    insertion_submit(insertion, store, insert_op(shard, epoch, counter), 1);
}

void insertion_start_claimed(struct insertion *insertion, struct store *store, uint32_t shard,
                             int64_t epoch, int64_t counter)
{
    insertion_submit(insertion, store, insert_op(shard, epoch, counter), 2);
}

void world_until_executed(struct world *world)
{
    MUST_SOON(world_ask(world, "SELECT count(*) FROM pg_stat_activity"
                               " WHERE datname = current_database()"
                               " AND application_name = 'foliot/behind/0'"
                               " AND backend_xid IS NOT NULL AND wait_event = 'ClientRead'") == 1,
              5000);
}

int world_write(struct world *world, struct store *store, struct store_batch *batch)
{
    bool done = false;

    batch->cb = on_batch;
    batch->owner = &done;
    MUST_OK(store->write(store, batch));
    world_until(world, &done);
    return batch->result;
}

int world_insert(struct world *world, struct store *store, uint32_t shard, int64_t epoch,
                 int64_t counter)
{
    struct insertion insertion;

    insertion_start(&insertion, store, shard, epoch, counter);
    world_until(world, &insertion.done);
    return insertion.batch.result != 0 ? insertion.batch.result : insertion.ops[0].result;
}

static void on_bump(struct store_bump *bump)
{
    *(bool *)bump->owner = true;
}

static int bump_once(struct world *world, struct store *store, uint32_t shard, int64_t epoch)
{
    bool done = false;
    struct store_bump bump = {
        .shard = shard, .epoch = epoch, .instance = "test", .cb = on_bump, .owner = &done};

    MUST_OK(store->bump(store, &bump));
    world_until(world, &done);
    return bump.result;
}

int world_bump(struct world *world, struct store *store, uint32_t shard, int64_t epoch)
{
    int64_t end_ms = must_now_ms() + PATIENCE_MS;
    int result;

    // On a machine that is busy elsewhere a connection may take longer than a command may.
    do {
        result = bump_once(world, store, shard, epoch);
    } while (result == ERR_UNAVAILABLE && must_now_ms() < end_ms);
    return result;
}

static void on_read(struct store_read *read)
{
    *(bool *)read->owner = true;
}

size_t world_rows(struct world *world, struct store *store, uint32_t shard, int64_t epoch)
{
    bool done = false;
    struct store_read read = {
        .kind = STORE_READ_SLICE,
        .shard = shard,
        .epoch = epoch,
        .after_bucket = INT64_MIN,
        .to_bucket = INT64_MAX,
        .limit = 100,
        .cb = on_read,
        .owner = &done,
    };

    MUST_OK(store->read(store, &read));
    world_until(world, &done);
    MUST_OK(read.result);
    return read.row_count;
}

long world_table_rows(struct world *world, uint32_t shard)
{
    char sql[128];

    (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM foliot_data.task_%04u", shard);
    return world_ask(world, sql);
}

struct store_pg_stats world_stats(const struct store *store)
{
    struct store_pg_stats stats;

    store_pg_stats(store, 0, &stats);
    return stats;
}
