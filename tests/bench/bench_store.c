/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts of the task tables side by side on one PostgreSQL, as bare libpq would drive them, and
 * the store itself beside them. One cycle of a task is an insert, a member of a claim row, and the
 * delete of an older task; K of them are one pipelined transaction. What counts are ratios: wall
 * time on a shared machine says little, processor time of the server's backend says more.
 *
 *   tools/servers run --zk 0 -- build/release/tests/bench/bench_store [seconds per row]
 *   [part of the rows' names] [K, default and at most 500]
 */
#include "tests/bench/bench_store.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "storage/pg_array.h"
#include "tests/lib/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    bool one_statement; /* one insert and one delete for all shards of a commit */
    bool few_tables;    /* FEW_COUNT tables with more in them, so that an index has some depth */
};

#define FEW_COUNT      4
#define FEW_KEPT_COUNT 400000

#define BUCKET     "(due_ms >> 16)"
#define BUCKET_SEQ "(due_ms >> 16), seq"

static const struct variant variants[] = {
    {.name = "tables, bucket + id, 10 per commit",
     .tables_per_commit = 10,
     .due_index = BUCKET_SEQ},
    {.name = "  no due index", .tables_per_commit = 10},
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
    {.name = "one table, one statement, 125 shards per commit",
     .layout = LAYOUT_ONE,
     .tables_per_commit = 125,
     .due_index = "shard, " BUCKET_SEQ,
     .one_statement = true},
    {.name = "  one table, no due index",
     .layout = LAYOUT_ONE,
     .tables_per_commit = 125,
     .one_statement = true},
    {.name = "  near table, one statement, by ctid",
     .layout = LAYOUT_NEAR,
     .tables_per_commit = 125,
     .one_statement = true},
    {.name = "16 tables, bucket + id, all per commit",
     .tables_per_commit = 16,
     .due_index = BUCKET_SEQ},
    {.name = "4 tables, bucket + id, 4 per commit",
     .tables_per_commit = 4,
     .few_tables = true,
     .due_index = BUCKET_SEQ},
    {.name = "  index on bucket alone",
     .tables_per_commit = 4,
     .few_tables = true,
     .due_index = BUCKET},
    {.name = "  index on exact due",
     .tables_per_commit = 4,
     .few_tables = true,
     .due_index = "due_ms, seq"},
    {.name = "  random ids, exact due",
     .tables_per_commit = 4,
     .few_tables = true,
     .due_index = "due_ms, seq",
     .random_ids = true},
};

struct bench {
    PGconn *link;
    PGconn *admin; /* asks for figures; link is in a pipeline */
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
    int per_commit; /* K */
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

static int table_count(const struct variant *variant)
{
    return variant->few_tables ? FEW_COUNT : TABLE_COUNT;
}

static int64_t kept_count(const struct variant *variant)
{
    return variant->few_tables ? FEW_KEPT_COUNT : KEPT_COUNT;
}

static int table_of(const struct bench *bench, int64_t batch, int part)
{
    return (int)((batch * bench->variant->tables_per_commit + part) % table_count(bench->variant));
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
    for (int i = 0; i < table_count(bench->variant) && layout <= LAYOUT_PARENT; i++) {
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

/* The same on one table: a gate for all, and rows by the index or by their place. */
static void prepare_one(struct bench *bench)
{
    static const char gate[] = "(SELECT count(*) = cardinality($1) FROM (SELECT FROM shard s"
                               " WHERE s.id = ANY ($1::integer[]) AND s.epoch = 1 FOR SHARE) held)";
    bool is_near = bench->variant->layout == LAYOUT_NEAR;
    char text[SQL_BYTES_MAX];

    (void)snprintf(text, sizeof(text),
                   "INSERT INTO task (shard, seq, due_ms, created_ms, queue, attempt, failures,"
                   " unknowns, slot, payload) SELECT unnest($2::integer[]), unnest($3::bigint[]),"
                   " unnest($4::bigint[]), 0, 1, 0, 0, 0, 1, unnest($5::bytea[]) WHERE %s%s",
                   gate, is_near ? " RETURNING ctid" : "");
    prepare(bench, "insert_all", text);
    if (is_near) {
        (void)snprintf(text, sizeof(text),
                       "DELETE FROM task t WHERE %s AND t.ctid = ANY ($2::tid[])", gate);
    } else {
        (void)snprintf(text, sizeof(text),
                       "DELETE FROM task WHERE %s AND ctid = ANY (ARRAY(SELECT h.ctid"
                       " FROM unnest($2::integer[], $3::bigint[]) AS u (shard, seq)"
                       " CROSS JOIN LATERAL (SELECT t.ctid FROM task t WHERE t.shard = u.shard"
                       " AND t.seq = u.seq AND t.attempt = 0 OFFSET 0) h)) RETURNING shard, seq",
                       gate);
    }
    prepare(bench, "delete_all", text);
}

static void prepare_all(struct bench *bench)
{
    if (bench->variant->one_statement) {
        (bench->variant->layout == LAYOUT_PARENT ? prepare_parent : prepare_one)(bench);
    }
    for (int i = 0; i < table_count(bench->variant); i++) {
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

    return bench->per_commit * (part + 1) / parts - bench->per_commit * part / parts;
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

        if (len == 0) {
            continue;
        }
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
        if (part_len(bench, part) > 0) {
            pg_array_add_int(&bench->columns[0], table_of(bench, batch, part));
        }
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
    for (int i = 0; i < bench->per_commit; i++) {
        seqs[i] = make_seq(bench);
        pg_array_add_int(arrays[3],
                         (int64_t)prng_below(&bench->prng, i % 2 == 0 ? 3600000 : 2592000000));
        pg_array_add_bytes(arrays[4], (struct slice){payload, sizeof(payload)});
    }
    fill_all(bench, bench->newest, seqs);
    send(bench, "insert_all", arrays, 5);
}

static void send_near_delete_all(struct bench *bench);

static void send_delete_all(struct bench *bench)
{
    struct pg_array *arrays[3] = {&bench->columns[0], &bench->columns[1], &bench->columns[2]};

    fill_all(bench, bench->oldest, &bench->seqs[(size_t)bench->oldest % bench->ring * TASK_COUNT]);
    if (bench->variant->layout == LAYOUT_NEAR) {
        send_near_delete_all(bench);
        return;
    }
    send(bench, "delete_all", arrays, 3);
}

/* tid is not among pg_array's types: by hand, as text would cost more than it saves. */
static int tids_put(uint8_t *bytes, const uint64_t *ctids, int len)
{
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
    return 20 + len * 10;
}

static void send_near_delete(struct bench *bench, const uint64_t *ctids, int len, const char *name)
{
    static uint8_t bytes[20 + TASK_COUNT * 10];
    const char *value = (const char *)bytes;
    int length = tids_put(bytes, ctids, len);
    int format = 1;

    MUST(PQsendQueryPrepared(bench->link, name, 1, &value, &length, &format, 1) == 1);
}

static void send_near_delete_all(struct bench *bench)
{
    static uint8_t bytes[20 + TASK_COUNT * 10];
    static const int formats[2] = {1, 1};
    size_t place = (size_t)bench->oldest % bench->ring * TASK_COUNT;
    const char *values[2];
    int lengths[2];
    struct slice shards;

    MUST_OK(pg_array_value(&bench->columns[0], &shards));
    values[0] = (const char *)shards.data;
    lengths[0] = (int)shards.len;
    values[1] = (const char *)bytes;
    lengths[1] = tids_put(bytes, &bench->ctids[place], bench->per_commit);
    MUST(PQsendQueryPrepared(bench->link, "delete_all", 2, values, lengths, formats, 1) == 1);
}

static void send_deletes(struct bench *bench)
{
    size_t place = (size_t)bench->oldest % bench->ring * TASK_COUNT;
    int n = 0;

    for (int part = 0; part < bench->variant->tables_per_commit; part++) {
        struct pg_array *arrays[2] = {&bench->columns[0], &bench->columns[1]};
        char name[32];
        int len = part_len(bench, part);

        if (len == 0) {
            continue;
        }
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
    for (int i = 0; i < bench->per_commit; i++) {
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

    bench->variant = variant;
    bench->next_seq = INT64_C(1) << 40;
    bench->oldest = 0;
    bench->newest = 0;
    make_schema(bench);
    prepare_all(bench);
    MUST(PQenterPipelineMode(bench->link) == 1);
    while (bench->newest < kept_count(variant) / bench->per_commit) {
        cycle(bench, false);
    }
    figures_begin(&figures, backend, bench->admin);
    while (figures_elapsed_s(&figures) < bench->seconds) {
        cycle(bench, true);
        figures.tasks += bench->per_commit;
    }
    figures_end(&figures, backend, bench->admin);
    MUST(PQexitPipelineMode(bench->link) == 1);
    return figures;
}

/* --- the table -------------------------------------------------------------------------------- */

static void print_row(const char *name, const struct figures *f, const struct figures *base)
{
    double rate = (double)f->tasks / f->wall_s;
    double server_us = f->server_s * 1e6 / (double)f->tasks;
    double base_us = base->server_s * 1e6 / (double)base->tasks;

    (void)printf("| %-42s | %8.0f | %5.2f | %6.2f | %5.2f | %6.2f | %5.0f |\n", name, rate,
                 rate / ((double)base->tasks / base->wall_s), server_us, server_us / base_us,
                 f->client_s * 1e6 / (double)f->tasks, (double)f->wal_bytes / (double)f->tasks);
    (void)fflush(stdout);
}

static const struct store_load loads[] = {
    {.name = "the store itself, 10 tables per commit", .tables_per_commit = 10},
    {.name = "  tags and expiry", .tables_per_commit = 10, .has_tags = true},
    {.name = "  results are kept", .tables_per_commit = 10, .keeps_result = true},
    {.name = "the store itself, 125 tables per commit", .tables_per_commit = 125},
};

static void print_variants(struct bench *bench, const struct fixture *fixture, const char *only)
{
    struct figures base = {0};
    struct figures figures;

    (void)printf("| %-42s | %8s | %5s | %6s | %5s | %6s | %5s |\n",
                 "one cycle = insert, claim, delete", "cycles/s", "ratio", "srv us", "ratio",
                 "cli us", "WAL B");
    (void)printf("|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < ARRAY_COUNT(variants); i++) {
        if (i > 0 && only != NULL && strstr(variants[i].name, only) == NULL) {
            continue;
        }
        figures = measure(bench, &variants[i]);
        base = i == 0 ? figures : base;
        print_row(variants[i].name, &figures, &base);
    }
    sql(bench->link, "DROP SCHEMA b CASCADE");
    for (size_t i = 0; i < ARRAY_COUNT(loads); i++) {
        figures = bench_store_itself(fixture, &loads[i], bench->seconds);
        print_row(loads[i].name, &figures, &base);
    }
}

int main(int argc, char **argv)
{
    struct bench bench = {.seconds = argc > 1 ? strtod(argv[1], NULL) : 3,
                          .per_commit = argc > 3 ? (int)strtol(argv[3], NULL, 10) : TASK_COUNT};
    struct fixture fixture;

    MUST(bench.per_commit >= 1 && bench.per_commit <= TASK_COUNT);
    fixture_need_servers(argv);
    fixture_open(&fixture, "bench");
    bench.link = PQconnectdb(fixture.pg_admin);
    bench.admin = PQconnectdb(fixture.pg_admin);
    bench.ring = (size_t)(FEW_KEPT_COUNT / bench.per_commit) + 1;
    bench.seqs = mem_new(bench.ring * TASK_COUNT, sizeof(*bench.seqs));
    bench.ctids = mem_new(bench.ring * TASK_COUNT, sizeof(*bench.ctids));
    prng_init(&bench.prng, 1);
    for (int i = 0; i < COLUMN_COUNT; i++) {
        pg_array_init(&bench.columns[i], 1 << 20);
    }
    sql(bench.link, "SET client_min_messages = warning; SET synchronous_commit = on");
    print_variants(&bench, &fixture, argc > 2 ? argv[2] : NULL);
    PQfinish(bench.link);
    PQfinish(bench.admin);
    for (int i = 0; i < COLUMN_COUNT; i++) {
        pg_array_fini(&bench.columns[i]);
    }
    mem_free(bench.seqs);
    mem_free(bench.ctids);
    fixture_close(&fixture);
    return 0;
}
