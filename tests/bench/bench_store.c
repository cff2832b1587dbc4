/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts of the task tables side by side on one PostgreSQL, as bare libpq would drive them, and
 * the store itself beside them. One cycle of a task is an insert, a member of a claim row, and the
 * delete of an older task; K of them are one pipelined transaction. What counts are ratios: wall
 * time on a shared machine says little, processor time of the server's backend says more.
 *
 *   tools/servers run --zk 0 -- build/release/tests/bench/bench_store [seconds per row]
 */
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"
#include "lib/model/task.h"
#include "storage/pg_array.h"
#include "storage/pg_migrate.h"
#include "storage/store_pg.h"
#include "tests/lib/fixture.h"
#include "tests/lib/must.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TASK_COUNT    500 /* K: tasks of one transaction */
#define TABLE_COUNT   128
#define PAYLOAD_LEN   100
#define KEPT_COUNT    100000 /* tasks that are there before the measurement starts */
#define COLUMN_COUNT  6
#define SQL_BYTES_MAX 4096

enum layout {
    LAYOUT_TABLES, /* statements on the tables themselves */
    LAYOUT_PARENT, /* the same tables as partitions, through their parent */
    LAYOUT_ONE,    /* one table for all shards */
    LAYOUT_NEAR    /* one table for all shards without any index, delete by ctid */
};

struct variant {
    const char *name;
    enum layout layout;
    int tables_per_commit;
    const char *due_index; /* expression, or NULL */
    bool random_ids;
    bool no_fence;
    bool claim_per_task;
    bool one_statement; /* PARENT: one insert and one delete for all shards of a commit */
};

#define BUCKET     "(due_ms >> 16)"
#define BUCKET_SEQ "(due_ms >> 16), seq"

static const struct variant variants[] = {
    {.name = "tables, bucket + id, 10 per commit",
     .tables_per_commit = 10,
     .due_index = BUCKET_SEQ},
    {.name = "  index on bucket alone", .tables_per_commit = 10, .due_index = BUCKET},
    {.name = "  index on exact due", .tables_per_commit = 10, .due_index = "due_ms, seq"},
    {.name = "  no due index", .tables_per_commit = 10},
    {.name = "  random ids, exact due",
     .tables_per_commit = 10,
     .due_index = "due_ms, seq",
     .random_ids = true},
    {.name = "  without fence", .tables_per_commit = 10, .due_index = BUCKET_SEQ, .no_fence = true},
    {.name = "  a claim row per task",
     .tables_per_commit = 10,
     .due_index = BUCKET_SEQ,
     .claim_per_task = true},
    {.name = "  1 table per commit", .tables_per_commit = 1, .due_index = BUCKET_SEQ},
    {.name = "  125 tables per commit", .tables_per_commit = 125, .due_index = BUCKET_SEQ},
    {.name = "  125 tables per commit, without fence",
     .tables_per_commit = 125,
     .due_index = BUCKET_SEQ,
     .no_fence = true},
    {.name = "partitions, a statement per partition",
     .layout = LAYOUT_PARENT,
     .tables_per_commit = 10,
     .due_index = BUCKET_SEQ},
    {.name = "partitions, one statement for all",
     .layout = LAYOUT_PARENT,
     .tables_per_commit = 10,
     .due_index = BUCKET_SEQ,
     .one_statement = true},
    {.name = "one table, (shard, id) and bucket",
     .layout = LAYOUT_ONE,
     .tables_per_commit = 10,
     .due_index = BUCKET_SEQ},
    {.name = "near table without index, delete by ctid",
     .layout = LAYOUT_NEAR,
     .tables_per_commit = 10},
};

/* What is measured: tasks that went through, and the processor time that they took. */
struct figures {
    double wall_s;
    double server_s;
    double client_s;
    int64_t tasks;
};

struct bench {
    PGconn *link;
    const struct variant *variant;
    struct prng prng;
    int64_t next_seq;
    int64_t oldest;  /* first batch that is still there */
    int64_t newest;  /* one past the last */
    int64_t *seqs;   /* of the batches that are there, TASK_COUNT each, a ring */
    uint64_t *ctids; /* NEAR: where they lie */
    size_t ring;     /* batches in the ring */
    struct pg_array columns[COLUMN_COUNT];
    double seconds;
};

/* --- small things ----------------------------------------------------------------------------- */

static void sql(PGconn *link, const char *text)
{
    PGresult *result = PQexec(link, text);

    if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
        must_fail(MUST_HERE, "%s: %s", text, PQresultErrorMessage(result));
    }
    PQclear(result);
}

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

static int table_of(const struct bench *bench, int64_t batch, int part)
{
    return (int)((batch * bench->variant->tables_per_commit + part) % TABLE_COUNT);
}

/* --- schema ----------------------------------------------------------------------------------- */

static void make_index(struct bench *bench, const char *table)
{
    char text[512];

    (void)snprintf(text, sizeof(text), "CREATE UNIQUE INDEX ON %s (%sseq)", table,
                   bench->variant->layout == LAYOUT_ONE ? "shard, " : "");
    sql(bench->link, text);
    if (bench->variant->due_index != NULL) {
        (void)snprintf(text, sizeof(text), "CREATE INDEX ON %s (%s)", table,
                       bench->variant->due_index);
        sql(bench->link, text);
    }
}

static void make_schema(struct bench *bench)
{
    static const char columns[] =
        "shard int NOT NULL, seq bigint NOT NULL, due_ms bigint NOT NULL, created_ms bigint NOT "
        "NULL,"
        " queue int NOT NULL, attempt int NOT NULL, failures int NOT NULL, unknowns int NOT NULL,"
        " slot smallint NOT NULL, payload bytea NOT NULL, key bytea";
    const enum layout layout = bench->variant->layout;
    char text[1024];
    char name[32];

    sql(bench->link,
        "DROP SCHEMA IF EXISTS b CASCADE; CREATE SCHEMA b; SET search_path = b;"
        "CREATE TABLE shard (id int PRIMARY KEY, epoch bigint);"
        "INSERT INTO shard SELECT g, 1 FROM generate_series(0, 127) g;"
        "CREATE TABLE claim (writer bigint, seq bigint, seqs bigint[], deadlines bigint[]);"
        "CREATE INDEX ON claim (writer, seq)");
    (void)snprintf(text, sizeof(text), "CREATE TABLE task (%s) %s", columns,
                   layout == LAYOUT_PARENT ? "PARTITION BY LIST (shard)" : "");
    sql(bench->link, text);
    if (layout == LAYOUT_ONE) {
        make_index(bench, "task");
    }
    for (int i = 0; i < TABLE_COUNT && layout <= LAYOUT_PARENT; i++) {
        (void)snprintf(name, sizeof(name), "task_%04d", i);
        if (layout == LAYOUT_PARENT) {
            (void)snprintf(text, sizeof(text),
                           "CREATE TABLE %s PARTITION OF task FOR VALUES IN (%d)", name, i);
        } else {
            (void)snprintf(text, sizeof(text), "CREATE TABLE %s (%s)", name, columns);
        }
        sql(bench->link, text);
        make_index(bench, name);
    }
    sql(bench->link, "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;"
                     "DEALLOCATE ALL; CHECKPOINT");
}

/* --- statements ------------------------------------------------------------------------------- */

static void prepare(struct bench *bench, const char *name, const char *text)
{
    PGresult *result = PQprepare(bench->link, name, text, 0, NULL);

    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        must_fail(MUST_HERE, "%s: %s", text, PQresultErrorMessage(result));
    }
    PQclear(result);
}

/* $1 seqs, $2 dues, $3 payloads, $4 shards. */
static void prepare_table(struct bench *bench, int shard)
{
    const struct variant *v = bench->variant;
    char fence[256];
    char table[32] = "task";
    char where[64] = "";
    char name[32];
    char text[SQL_BYTES_MAX];

    (void)snprintf(fence, sizeof(fence),
                   v->no_fence
                       ? "WITH mine AS MATERIALIZED (SELECT)"
                       : "WITH mine AS MATERIALIZED (SELECT FROM shard WHERE id = %d AND epoch = 1"
                         " FOR SHARE)",
                   shard);
    if (v->layout == LAYOUT_TABLES) {
        (void)snprintf(table, sizeof(table), "task_%04d", shard);
    } else {
        (void)snprintf(where, sizeof(where), " AND t.shard = %d", shard);
    }
    (void)snprintf(name, sizeof(name), "i%d", shard);
    (void)snprintf(text, sizeof(text),
                   "%s INSERT INTO %s (shard, seq, due_ms, created_ms, queue, attempt, failures,"
                   " unknowns, slot, payload) SELECT %d, seq, due, due, 1, 0, 0, 0, 1, payload FROM"
                   " unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS u (seq, due, payload)"
                   " WHERE EXISTS (SELECT FROM mine)%s",
                   fence, table, shard, v->layout == LAYOUT_NEAR ? " RETURNING ctid" : "");
    prepare(bench, name, text);
    (void)snprintf(name, sizeof(name), "d%d", shard);
    if (v->layout == LAYOUT_NEAR) {
        (void)snprintf(
            text, sizeof(text),
            "%s DELETE FROM %s t WHERE EXISTS (SELECT FROM mine) AND t.ctid = ANY ($1::tid[])",
            fence, table);
    } else {
        (void)snprintf(text, sizeof(text),
                       "%s, gone AS (DELETE FROM %s t WHERE EXISTS (SELECT FROM mine)"
                       " AND t.seq = ANY ($1::bigint[]) AND (t.attempt::bigint << 12 | t.slot) ="
                       " ($2::bigint[])[width_bucket(t.seq, $1)]%s RETURNING seq)"
                       " SELECT array_agg(seq) FROM gone",
                       fence, table, where);
    }
    prepare(bench, name, text);
}

/* $1 shards of the fence, $2 shards, $3 seqs, and for the insert $4 dues, $5 payloads. */
static void prepare_parent(struct bench *bench)
{
    prepare(bench, "insert_all",
            "WITH mine AS MATERIALIZED (SELECT s.id FROM shard s WHERE s.id = ANY ($1::integer[])"
            " AND s.epoch = 1 FOR SHARE OF s)"
            " INSERT INTO task (shard, seq, due_ms, created_ms, queue, attempt, failures, unknowns,"
            " slot, payload) SELECT u.shard, seq, due, due, 1, 0, 0, 0, 1, payload"
            " FROM unnest($2::integer[], $3::bigint[], $4::bigint[], $5::bytea[])"
            " AS u (shard, seq, due, payload) WHERE (u.shard IN (SELECT id FROM mine)) IS TRUE");
    prepare(
        bench, "delete_all",
        "WITH mine AS MATERIALIZED (SELECT s.id FROM shard s WHERE s.id = ANY ($1::integer[])"
        " AND s.epoch = 1 FOR SHARE OF s),"
        " gone AS (DELETE FROM task t USING unnest($2::integer[], $3::bigint[]) AS u (shard, seq)"
        " WHERE t.shard = u.shard AND t.seq = u.seq AND t.attempt = 0"
        " AND (u.shard IN (SELECT id FROM mine)) IS TRUE RETURNING t.seq)"
        " SELECT array_agg(seq) FROM gone");
}

static void prepare_all(struct bench *bench)
{
    if (bench->variant->one_statement) {
        prepare_parent(bench);
    }
    for (int i = 0; i < TABLE_COUNT; i++) {
        prepare_table(bench, i);
    }
    prepare(bench, "claim", "INSERT INTO claim VALUES (1, $1, $2, $3)");
    prepare(bench, "drop", "DELETE FROM claim WHERE writer = 1 AND seq = $1::bigint");
    prepare(bench, "claims",
            "INSERT INTO claim SELECT 1, $1, ARRAY[s], ARRAY[d]"
            " FROM unnest($2::bigint[], $3::bigint[]) AS u (s, d)");
}

/* --- one transaction -------------------------------------------------------------------------- */

static void send(struct bench *bench, const char *name, struct pg_array *const *arrays, int count)
{
    const char *values[5];
    int lengths[5];
    static const int formats[5] = {1, 1, 1, 1, 1};

    for (int i = 0; i < count; i++) {
        struct slice value;

        MUST_OK(pg_array_value(arrays[i], &value));
        values[i] = (const char *)value.data;
        lengths[i] = (int)value.len;
    }
    MUST(PQsendQueryPrepared(bench->link, name, count, values, lengths, formats, 1) == 1);
}

static void send_plain(struct bench *bench, const char *text)
{
    MUST(PQsendQueryParams(bench->link, text, 0, NULL, NULL, NULL, NULL, 1) == 1);
}

static int64_t make_seq(struct bench *bench)
{
    bench->next_seq++;
    return bench->variant->random_ids ? (int64_t)(prng_next(&bench->prng) >> 1) : bench->next_seq;
}

static int part_len(const struct bench *bench, int part)
{
    int parts = bench->variant->tables_per_commit;

    return TASK_COUNT * (part + 1) / parts - TASK_COUNT * part / parts;
}

static int compare_seqs(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static void send_inserts(struct bench *bench)
{
    static const uint8_t payload[PAYLOAD_LEN] = "payload";
    int64_t *seqs = &bench->seqs[(size_t)(bench->newest) % bench->ring * TASK_COUNT];
    int n = 0;

    for (int part = 0; part < bench->variant->tables_per_commit; part++) {
        struct pg_array *arrays[3] = {&bench->columns[0], &bench->columns[1], &bench->columns[2]};
        char name[32];
        int len = part_len(bench, part);

        pg_array_start(arrays[0], PG_TYPE_INT8);
        pg_array_start(arrays[1], PG_TYPE_INT8);
        pg_array_start(arrays[2], PG_TYPE_BYTEA);
        for (int i = 0; i < len; i++) {
            seqs[n + i] = make_seq(bench);
        }
        qsort(&seqs[n], (size_t)len, sizeof(seqs[0]), compare_seqs);
        for (int i = 0; i < len; i++) {
            pg_array_add_int(arrays[0], seqs[n + i]);
            // Half within the hour, half within the month.
            pg_array_add_int(arrays[1],
                             (int64_t)prng_below(&bench->prng, i % 2 == 0 ? 3600000 : 2592000000));
            pg_array_add_bytes(arrays[2], (struct slice){payload, sizeof(payload)});
        }
        n += len;
        (void)snprintf(name, sizeof(name), "i%d", table_of(bench, bench->newest, part));
        send(bench, name, arrays, 3);
    }
}

/* The arrays that both statements for all shards begin with. */
static void fill_all(struct bench *bench, int64_t batch, const int64_t *seqs)
{
    int n = 0;

    pg_array_start(&bench->columns[0], PG_TYPE_INT4);
    pg_array_start(&bench->columns[1], PG_TYPE_INT4);
    pg_array_start(&bench->columns[2], PG_TYPE_INT8);
    for (int part = 0; part < bench->variant->tables_per_commit; part++) {
        pg_array_add_int(&bench->columns[0], table_of(bench, batch, part));
        for (int i = 0; i < part_len(bench, part); i++) {
            pg_array_add_int(&bench->columns[1], table_of(bench, batch, part));
            pg_array_add_int(&bench->columns[2], seqs[n++]);
        }
    }
}

static void send_insert_all(struct bench *bench)
{
    static const uint8_t payload[PAYLOAD_LEN] = "payload";
    struct pg_array *arrays[5] = {&bench->columns[0], &bench->columns[1], &bench->columns[2],
                                  &bench->columns[3], &bench->columns[4]};
    int64_t *seqs = &bench->seqs[(size_t)bench->newest % bench->ring * TASK_COUNT];

    pg_array_start(arrays[3], PG_TYPE_INT8);
    pg_array_start(arrays[4], PG_TYPE_BYTEA);
    for (int i = 0; i < TASK_COUNT; i++) {
        seqs[i] = make_seq(bench);
        pg_array_add_int(arrays[3],
                         (int64_t)prng_below(&bench->prng, i % 2 == 0 ? 3600000 : 2592000000));
        pg_array_add_bytes(arrays[4], (struct slice){payload, sizeof(payload)});
    }
    fill_all(bench, bench->newest, seqs);
    send(bench, "insert_all", arrays, 5);
}

static void send_delete_all(struct bench *bench)
{
    struct pg_array *arrays[3] = {&bench->columns[0], &bench->columns[1], &bench->columns[2]};

    fill_all(bench, bench->oldest, &bench->seqs[(size_t)bench->oldest % bench->ring * TASK_COUNT]);
    send(bench, "delete_all", arrays, 3);
}

/* tid is not among pg_array's types: by hand, as text would cost more than it saves. */
static void send_near_delete(struct bench *bench, const uint64_t *ctids, int len, const char *name)
{
    static uint8_t bytes[20 + TASK_COUNT * 10];
    const char *value = (const char *)bytes;
    int length = 20 + len * 10;
    int format = 1;

    pg_put_i32(bytes, 1);
    pg_put_i32(bytes + 4, 0);
    pg_put_i32(bytes + 8, 27);
    pg_put_i32(bytes + 12, len);
    pg_put_i32(bytes + 16, 1);
    for (int i = 0; i < len; i++) {
        pg_put_i32(bytes + 20 + 10 * i, 6);
        pg_put_i32(bytes + 24 + 10 * i, (int32_t)(ctids[i] >> 16));
        pg_put_i16(bytes + 28 + 10 * i, (int16_t)ctids[i]);
    }
    MUST(PQsendQueryPrepared(bench->link, name, 1, &value, &length, &format, 1) == 1);
}

static void send_deletes(struct bench *bench)
{
    size_t place = (size_t)bench->oldest % bench->ring * TASK_COUNT;
    int n = 0;

    for (int part = 0; part < bench->variant->tables_per_commit; part++) {
        struct pg_array *arrays[2] = {&bench->columns[0], &bench->columns[1]};
        char name[32];
        int len = part_len(bench, part);

        (void)snprintf(name, sizeof(name), "d%d", table_of(bench, bench->oldest, part));
        if (bench->variant->layout == LAYOUT_NEAR) {
            send_near_delete(bench, &bench->ctids[place + (size_t)n], len, name);
            n += len;
            continue;
        }
        pg_array_start(arrays[0], PG_TYPE_INT8);
        pg_array_start(arrays[1], PG_TYPE_INT8);
        for (int i = 0; i < len; i++) {
            pg_array_add_int(arrays[0], bench->seqs[place + (size_t)(n + i)]);
            pg_array_add_int(arrays[1], 1);
        }
        n += len;
        send(bench, name, arrays, 2);
    }
}

static void send_claims(struct bench *bench, bool drop)
{
    const int64_t *seqs = &bench->seqs[(size_t)bench->newest % bench->ring * TASK_COUNT];
    uint8_t number[8];
    struct slice arrays[2];
    const char *values[3] = {(const char *)number};
    int lengths[3] = {8};
    static const int formats[3] = {1, 1, 1};

    if (drop) {
        pg_put_i64(number, bench->oldest);
        MUST(PQsendQueryPrepared(bench->link, "drop", 1, values, lengths, formats, 1) == 1);
    }
    pg_put_i64(number, bench->newest);
    pg_array_start(&bench->columns[3], PG_TYPE_INT8);
    pg_array_start(&bench->columns[4], PG_TYPE_INT8);
    for (int i = 0; i < TASK_COUNT; i++) {
        pg_array_add_int(&bench->columns[3], seqs[i]);
        pg_array_add_int(&bench->columns[4], seqs[i] + 1000);
    }
    for (int i = 0; i < 2; i++) {
        MUST_OK(pg_array_value(&bench->columns[3 + i], &arrays[i]));
        values[i + 1] = (const char *)arrays[i].data;
        lengths[i + 1] = (int)arrays[i].len;
    }
    MUST(PQsendQueryPrepared(bench->link, bench->variant->claim_per_task ? "claims" : "claim", 3,
                             values, lengths, formats, 1) == 1);
}

static void take_ctids(struct bench *bench, const PGresult *result, size_t *n)
{
    for (int i = 0; i < PQntuples(result); i++) {
        const uint8_t *tid = (const uint8_t *)PQgetvalue(result, i, 0);

        bench->ctids[(size_t)bench->newest % bench->ring * TASK_COUNT + (*n)++] =
            (uint64_t)(uint32_t)pg_get_i32(tid) << 16 | (uint16_t)pg_get_i16(tid + 4);
    }
}

static void take_replies(struct bench *bench)
{
    size_t ctid_count = 0;
    bool is_over = false;

    while (!is_over) {
        PGresult *result = PQgetResult(bench->link);
        ExecStatusType status = PQresultStatus(result);

        if (status == PGRES_FATAL_ERROR && result != NULL) {
            must_fail(MUST_HERE, "%s", PQresultErrorMessage(result));
        }
        if (bench->variant->layout == LAYOUT_NEAR && status == PGRES_TUPLES_OK) {
            take_ctids(bench, result, &ctid_count);
        }
        is_over = status == PGRES_PIPELINE_SYNC;
        PQclear(result);
    }
}

/* One transaction: K tasks come, their claim, K older ones go. */
static void cycle(struct bench *bench, bool with_deletes)
{
    bool all = bench->variant->one_statement;

    send_plain(bench, "BEGIN");
    (all ? send_insert_all : send_inserts)(bench);
    if (with_deletes) {
        send_claims(bench, true);
        (all ? send_delete_all : send_deletes)(bench);
    }
    send_plain(bench, "COMMIT");
    MUST(PQpipelineSync(bench->link) == 1);
    take_replies(bench);
    bench->newest++;
    bench->oldest += with_deletes;
}

static struct figures measure(struct bench *bench, const struct variant *variant)
{
    struct figures figures = {0};
    int backend = PQbackendPID(bench->link);
    boot_us start;

    bench->variant = variant;
    bench->next_seq = INT64_C(1) << 40;
    bench->oldest = 0;
    bench->newest = 0;
    make_schema(bench);
    prepare_all(bench);
    MUST(PQenterPipelineMode(bench->link) == 1);
    while (bench->newest < KEPT_COUNT / TASK_COUNT) {
        cycle(bench, false);
    }
    figures.server_s = -cpu_s(backend);
    figures.client_s = -own_cpu_s();
    start = clock_boot_us();
    while (clock_boot_us() - start < (boot_us)(bench->seconds * 1e6)) {
        cycle(bench, true);
        figures.tasks += TASK_COUNT;
    }
    figures.wall_s = (double)(clock_boot_us() - start) / 1e6;
    figures.server_s += cpu_s(backend);
    figures.client_s += own_cpu_s();
    MUST(PQexitPipelineMode(bench->link) == 1);
    return figures;
}

/* --- the store -------------------------------------------------------------------------------- */

struct store_bench {
    struct world_clock {
        bool done;
    } flag;
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
static size_t fill_ops(struct store_op *ops, int64_t batch, bool with_old)
{
    static const uint8_t payload[PAYLOAD_LEN] = "payload";
    size_t n = 0;

    for (int64_t i = 0; i < TASK_COUNT; i++) {
        uint32_t shard = (uint32_t)((batch * 10 + i / (TASK_COUNT / 10)) % TABLE_COUNT);
        uint32_t old = (uint32_t)(((batch - 200) * 10 + i / (TASK_COUNT / 10)) % TABLE_COUNT);

        ops[n++] = (struct store_op){
            .kind = STORE_INSERT,
            .shard = shard,
            .epoch = 1,
            .task = {.id = {.seq = task_seq(1, batch * TASK_COUNT + i + 1),
                            .slot = (uint16_t)shard},
                     .queue = 1,
                     .due_ms = (batch * 7919 + i * 104729) % 3600000,
                     .payload = {payload, PAYLOAD_LEN}},
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
            .shard = old,
            .epoch = 1,
            .task = {.id = {.seq = task_seq(1, (batch - 200) * TASK_COUNT + i + 1),
                            .slot = (uint16_t)old}},
        };
    }
    return n;
}

static void write_cycle(struct store_bench *bench, int64_t batch, bool with_old)
{
    struct claim_row old = {.writer = 1, .seq = batch - 200};
    bool done = false;

    bench->batch = (struct store_batch){
        .ops = bench->ops,
        .op_count = fill_ops(bench->ops, batch, with_old),
        .claim_row = {.writer = 1, .seq = batch + 1000},
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
        struct store_bump bump = {.shard = shard, .epoch = 1, .cb = on_bump, .owner = &done};

        MUST_OK(bench->store->bump(bench->store, &bump));
        until(bench->loop, &done);
        MUST_OK(bump.result);
    }
}

static int writer_backend(const struct fixture *fixture)
{
    PGconn *link = PQconnectdb(fixture->pg_admin);
    PGresult *result = PQexec(link, "SELECT pid FROM pg_stat_activity"
                                    " WHERE application_name = 'foliot/bench/0'");
    int pid = PQntuples(result) == 1 ? (int)strtol(PQgetvalue(result, 0, 0), NULL, 10) : 0;

    PQclear(result);
    PQfinish(link);
    MUST(pid > 0);
    return pid;
}

static struct figures measure_store(const struct fixture *fixture, double seconds)
{
    struct store_bench bench = {.ops = mem_new(3 * (size_t)TASK_COUNT, sizeof(struct store_op))};
    struct figures figures = {0};
    bool closed = false;
    int64_t batch = 1000;
    int backend;
    boot_us start;

    open_store(&bench, fixture);
    for (int i = 0; i < 200; i++) {
        write_cycle(&bench, batch++, false);
    }
    backend = writer_backend(fixture);
    figures.server_s = -cpu_s(backend);
    figures.client_s = -own_cpu_s();
    start = clock_boot_us();
    while (clock_boot_us() - start < (boot_us)(seconds * 1e6)) {
        write_cycle(&bench, batch++, true);
        figures.tasks += TASK_COUNT;
    }
    figures.wall_s = (double)(clock_boot_us() - start) / 1e6;
    figures.server_s += cpu_s(backend);
    figures.client_s += own_cpu_s();
    bench.store->close(bench.store, on_close, &closed);
    until(bench.loop, &closed);
    loop_close(bench.loop);
    mem_free(bench.ops);
    return figures;
}

/* --- the table -------------------------------------------------------------------------------- */

static void print_row(const char *name, const struct figures *f, const struct figures *base)
{
    double rate = (double)f->tasks / f->wall_s;
    double server_us = f->server_s * 1e6 / (double)f->tasks;
    double base_us = base->server_s * 1e6 / (double)base->tasks;

    (void)printf("| %-42s | %9.0f | %6.2f | %8.2f | %8.2f | %6.2f |\n", name, rate,
                 rate / ((double)base->tasks / base->wall_s), server_us,
                 f->client_s * 1e6 / (double)f->tasks, server_us / base_us);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    struct bench bench = {.seconds = argc > 1 ? strtod(argv[1], NULL) : 3};
    struct fixture fixture;
    struct figures base = {0};
    struct figures figures;

    fixture_need_servers(argv);
    fixture_open(&fixture, "bench");
    bench.link = PQconnectdb(fixture.pg_admin);
    bench.ring = KEPT_COUNT / TASK_COUNT + 1;
    bench.seqs = mem_new(bench.ring * TASK_COUNT, sizeof(*bench.seqs));
    bench.ctids = mem_new(bench.ring * TASK_COUNT, sizeof(*bench.ctids));
    prng_init(&bench.prng, 1);
    for (int i = 0; i < COLUMN_COUNT; i++) {
        pg_array_init(&bench.columns[i], 1 << 20);
    }
    sql(bench.link, "SET client_min_messages = warning; SET synchronous_commit = on");
    (void)printf("| %-42s | %9s | %6s | %8s | %8s | %6s |\n",
                 "one cycle = insert, claim, delete; K = 500", "cycles/s", "ratio", "server",
                 "client", "ratio");
    (void)printf("|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < ARRAY_COUNT(variants); i++) {
        figures = measure(&bench, &variants[i]);
        base = i == 0 ? figures : base;
        print_row(variants[i].name, &figures, &base);
    }
    figures = measure_store(&fixture, bench.seconds);
    print_row("the store itself, 10 tables per commit", &figures, &base);
    PQfinish(bench.link);
    for (int i = 0; i < COLUMN_COUNT; i++) {
        pg_array_fini(&bench.columns[i]);
    }
    mem_free(bench.seqs);
    mem_free(bench.ctids);
    fixture_close(&fixture);
    return 0;
}
