/* SPDX-License-Identifier: Apache-2.0
 *
 * The store as one of the rows of bench_store, and what a row measures.
 */
#include "tests/bench/bench_store.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"
#include "storage/pg_migrate.h"
#include "storage/store_pg.h"
#include "tests/lib/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- figures ---------------------------------------------------------------------------------- */

/* Processor seconds of a process. */
static double cpu_s(int pid)
{
    char path[64];
    char text[1024] = "";
    char *fields;
    unsigned long user = 0;
    unsigned long system_time = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "r");
    MUST(file != NULL);
    MUST(fgets(text, sizeof(text), file) != NULL);
    (void)fclose(file);
    fields = strrchr(text, ')');
    MUST(fields != NULL);
    for (int i = 0; i < 12; i++) {
        fields = strchr(fields + 1, ' ');
        MUST(fields != NULL);
    }
    user = strtoul(fields, &fields, 10);
    system_time = strtoul(fields, NULL, 10);
    return (double)(user + system_time) / (double)sysconf(_SC_CLK_TCK);
}

static double own_cpu_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int64_t wal_position(PGconn *link)
{
    PGresult *result = PQexec(link, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn");
    int64_t position = strtoll(PQgetvalue(result, 0, 0), NULL, 10);

    MUST_EQ(PQresultStatus(result), PGRES_TUPLES_OK);
    PQclear(result);
    return position;
}

void figures_begin(struct figures *figures, int backend, PGconn *link)
{
    figures->wal_bytes = -wal_position(link);
    figures->server_s = -cpu_s(backend);
    figures->client_s = -own_cpu_s();
    figures->wall_s = -(double)clock_boot_us() / 1e6;
}

double figures_elapsed_s(const struct figures *figures)
{
    return figures->wall_s + (double)clock_boot_us() / 1e6;
}

void figures_end(struct figures *figures, int backend, PGconn *link)
{
    figures->wall_s = figures_elapsed_s(figures);
    figures->client_s += own_cpu_s();
    figures->server_s += cpu_s(backend);
    figures->wal_bytes += wal_position(link);
}

/* --- the store -------------------------------------------------------------------------------- */

struct store_bench {
    const struct store_load *load;
    int64_t epoch; /* one more for each measurement, so that ids never meet */
    struct loop *loop;
    struct store *store;
    struct store_op *ops;
    struct store_batch batch;
};

static void on_batch(struct store_batch *batch)
{
    *(bool *)batch->owner = true;
}

static void on_bump(struct store_bump *bump)
{
    *(bool *)bump->owner = true;
}

static void on_close(void *ctx)
{
    *(bool *)ctx = true;
}

static void until(struct loop *loop, const bool *done)
{
    while (!*done) {
        loop_turn(loop, true);
    }
}

/* The operations of one cycle of K tasks, as the core would give them. */
static size_t fill_ops(const struct store_bench *bench, int64_t batch, bool with_old)
{
    static const uint8_t payload[PAYLOAD_LEN] = "payload";
    struct store_op *ops = bench->ops;
    int tables = bench->load->tables_per_commit;
    size_t n = 0;

    for (int64_t i = 0; i < TASK_COUNT; i++) {
        uint32_t shard = (uint32_t)((batch * tables + i * tables / TASK_COUNT) % TABLE_COUNT);
        uint32_t old = (uint32_t)(((batch - 200) * tables + i * tables / TASK_COUNT) % TABLE_COUNT);

        ops[n++] = (struct store_op){
            .kind = STORE_INSERT,
            .shard = shard,
            .epoch = bench->epoch,
            .task = {.id = {.seq = task_seq(bench->epoch, batch * TASK_COUNT + i + 1),
                            .slot = (uint16_t)shard},
                     .queue = 1,
                     .due_ms = (batch * 7919 + i * 104729) % 3600000,
                     .payload = {payload, PAYLOAD_LEN},
                     .tags = slice_of(bench->load->has_tags ? "colour=red\nsize=9\n" : ""),
                     .expire_ms = bench->load->has_tags ? DUE_WALL_MS_MAX : 0},
        };
        if (!with_old) {
            continue;
        }
        ops[n] = ops[n - 1];
        ops[n].kind = STORE_CLAIM;
        ops[n].attempt = 1;
        n++;
        ops[n++] = (struct store_op){
            .kind = STORE_DELETE,
            .is_keyless = true,
            .attempt = 1,
            .now_ms = 1,
            .keep_until_ms = bench->load->keeps_result ? DUE_WALL_MS_MAX : 0,
            .end = TASK_END_DONE,
            .response = slice_of("answer"),
            .shard = old,
            .epoch = bench->epoch,
            .task = {.id = {.seq = task_seq(bench->epoch, (batch - 200) * TASK_COUNT + i + 1),
                            .slot = (uint16_t)old}},
        };
    }
    return n;
}

static void write_cycle(struct store_bench *bench, int64_t batch, bool with_old)
{
    struct claim_row old = {.writer = bench->epoch, .seq = batch - 200};
    bool done = false;

    bench->batch = (struct store_batch){
        .ops = bench->ops,
        .op_count = fill_ops(bench, batch, with_old),
        .claim_row = {.writer = bench->epoch, .seq = batch + 1000},
        .drop_rows = &old,
        .drop_count = with_old,
        .cb = on_batch,
        .owner = &done,
    };
    old.seq += 1000;
    MUST_OK(bench->store->write(bench->store, &bench->batch));
    until(bench->loop, &done);
    MUST_OK(bench->batch.result);
    for (size_t i = 0; i < bench->batch.op_count; i++) {
        MUST_OK(bench->ops[i].result);
    }
}

static void open_store(struct store_bench *bench, const struct fixture *fixture)
{
    struct store_pg_database database = {"db0", fixture->pg_conninfo};
    struct store_pg_options options;
    struct pg_migrate_options migrate = {
        .conninfo = fixture->pg_conninfo, .cluster_id = fixture->name, .shard_count = TABLE_COUNT};
    char errmsg[512];

    if (pg_migrate(&migrate, errmsg, sizeof(errmsg)) != 0) {
        must_fail(MUST_HERE, "%s", errmsg);
    }
    MUST_OK(loop_open(&bench->loop));
    store_pg_options_init(&options);
    options.loop = bench->loop;
    options.databases = &database;
    options.database_count = 1;
    options.shard_count = TABLE_COUNT;
    options.cluster_id = fixture->name;
    options.instance = "bench";
    options.command_ms = 60000;
    MUST_OK(store_pg_open(&options, &bench->store, errmsg, sizeof(errmsg)));
    for (uint32_t shard = 0; shard < TABLE_COUNT; shard++) {
        bool done = false;
        struct store_bump bump = {
            .shard = shard, .epoch = bench->epoch, .cb = on_bump, .owner = &done};

        MUST_OK(bench->store->bump(bench->store, &bump));
        until(bench->loop, &done);
        MUST_OK(bump.result);
    }
}

static int writer_backend(PGconn *link)
{
    PGresult *result = PQexec(link, "SELECT pid FROM pg_stat_activity"
                                    " WHERE application_name = 'foliot/bench/0'"
                                    " AND datname = current_database()");
    int pid = PQntuples(result) == 1 ? (int)strtol(PQgetvalue(result, 0, 0), NULL, 10) : 0;

    PQclear(result);
    MUST(pid > 0);
    return pid;
}

struct figures bench_store_itself(const struct fixture *fixture, const struct store_load *load,
                                  double seconds)
{
    static int64_t epoch;
    struct store_bench bench = {.ops = mem_new(3 * (size_t)TASK_COUNT, sizeof(struct store_op)),
                                .load = load,
                                .epoch = ++epoch};
    struct figures figures = {0};
    PGconn *link = PQconnectdb(fixture->pg_admin);
    bool closed = false;
    int64_t batch = 1000;
    int backend;

    open_store(&bench, fixture);
    for (int i = 0; i < 200; i++) {
        write_cycle(&bench, batch++, false);
    }
    backend = writer_backend(link);
    figures_begin(&figures, backend, link);
    while (figures_elapsed_s(&figures) < seconds) {
        write_cycle(&bench, batch++, true);
        figures.tasks += TASK_COUNT;
    }
    figures_end(&figures, backend, link);
    bench.store->close(bench.store, on_close, &closed);
    until(bench.loop, &closed);
    loop_close(bench.loop);
    mem_free(bench.ops);
    PQfinish(link);
    return figures;
}
