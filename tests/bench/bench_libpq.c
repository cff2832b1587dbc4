/* SPDX-License-Identifier: Apache-2.0
 *
 * The most that PostgreSQL gives to creates in batches: bare libpq inserts the rows of the product
 * into the tables and indexes of the product, by prepared statements with binary arrays in one
 * pipeline and one commit, and nothing else: no fence, no look at keys, no broker.
 *
 *   tools/servers run --zk 0 -- build/release/tests/bench/bench_libpq [plain|keyed [SECONDS]]
 *
 * plain: a commit of 4000 tasks into 10 of the 128 tables, as the broker places tasks without keys.
 * keyed: a commit of 4000 tasks into all 128, each with a key, delays half within an hour and half
 * within 30 days. A line per figure, "name<TAB>value<TAB>unit".
 */
#include "lib/base/prng.h"
#include "lib/io/clock.h"
#include "lib/model/task.h"
#include "storage/pg_array.h"
#include "storage/pg_migrate.h"
#include "tests/lib/fixture.h"
#include "tests/lib/must.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_COUNT  128
#define COMMIT_COUNT 4000
#define PLAIN_TABLES 10
#define PAYLOAD_LEN  100
#define HOUR_MS      3600000
#define MONTH_MS     INT64_C(2592000000)

#define KEY_BYTES 40

struct bench {
    PGconn *link;
    struct prng prng;
    struct pg_array seqs;
    struct pg_array dues;
    struct pg_array payloads;
    struct pg_array keys;
    struct pg_array shards; /* of the keys */
    struct pg_array key_seqs;
    struct pg_array all_keys;
    int64_t counter;
    int64_t commits;
    bool is_keyed;
};

static void prepare(struct bench *bench, const char *name, const char *text)
{
    PGresult *result = PQprepare(bench->link, name, text, 0, NULL);

    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        must_fail(MUST_HERE, "%s: %s", text, PQresultErrorMessage(result));
    }
    PQclear(result);
}

static void prepare_all(struct bench *bench)
{
    for (int shard = 0; shard < TABLE_COUNT; shard++) {
        char name[16];
        char text[512];

        (void)snprintf(name, sizeof(name), "i%d", shard);
        (void)snprintf(text, sizeof(text),
                       "INSERT INTO foliot_data.task_%04d (seq, due_ms, created_ms, queue, attempt,"
                       " failures, unknowns, slot, payload, key) SELECT unnest($1::bigint[]),"
                       " unnest($2::bigint[]), unnest($2), 1, 0, 0, 0, %d, unnest($3::bytea[]),"
                       " unnest($4::bytea[])",
                       shard, shard);
        prepare(bench, name, text);
    }
    prepare(bench, "keys",
            "INSERT INTO foliot_data.key (shard, queue, key, seq, slot, since_ms, replaced) SELECT"
            " unnest($1::integer[]), 1, unnest($2::bytea[]), unnest($3::bigint[]), unnest($1), 0,"
            " 0");
}

static void send(struct bench *bench, const char *name, struct pg_array **arrays, int count)
{
    static const int formats[4] = {1, 1, 1, 1};
    const char *values[4];
    int lengths[4];

    for (int i = 0; i < count; i++) {
        struct slice value;

        MUST_OK(pg_array_value(arrays[i], &value));
        values[i] = (const char *)value.data;
        lengths[i] = (int)value.len;
    }
    MUST(PQsendQueryPrepared(bench->link, name, count, values, lengths, formats, 1) == 1);
}

static void add_task(struct bench *bench, int shard)
{
    static const uint8_t payload[PAYLOAD_LEN] = "payload";
    int64_t seq = task_seq(1, ++bench->counter);
    uint64_t range = bench->counter % 2 == 0 ? HOUR_MS : (uint64_t)MONTH_MS;
    char key[KEY_BYTES];

    pg_array_add_int(&bench->seqs, seq);
    pg_array_add_int(&bench->dues,
                     bench->is_keyed ? (int64_t)prng_below(&bench->prng, range) : MONTH_MS);
    pg_array_add_bytes(&bench->payloads, (struct slice){payload, PAYLOAD_LEN});
    if (!bench->is_keyed) {
        pg_array_add_null(&bench->keys);
        return;
    }
    (void)snprintf(key, sizeof(key), "bench-%016" PRIx64 "-%" PRId64, (uint64_t)29, bench->counter);
    pg_array_add_bytes(&bench->keys, slice_of(key));
    pg_array_add_int(&bench->shards, shard);
    pg_array_add_bytes(&bench->all_keys, slice_of(key));
    pg_array_add_int(&bench->key_seqs, seq);
}

static void send_table(struct bench *bench, int shard, int count)
{
    struct pg_array *arrays[4] = {&bench->seqs, &bench->dues, &bench->payloads, &bench->keys};
    char name[16];

    (void)snprintf(name, sizeof(name), "i%d", shard);
    pg_array_start(&bench->seqs, PG_TYPE_INT8);
    pg_array_start(&bench->dues, PG_TYPE_INT8);
    pg_array_start(&bench->payloads, PG_TYPE_BYTEA);
    pg_array_start(&bench->keys, PG_TYPE_BYTEA);
    for (int i = 0; i < count; i++) {
        add_task(bench, shard);
    }
    send(bench, name, arrays, 4);
}

static void send_plain(struct bench *bench, const char *text)
{
    MUST(PQsendQueryParams(bench->link, text, 0, NULL, NULL, NULL, NULL, 1) == 1);
}

static void take_replies(PGconn *link)
{
    bool is_over = false;

    while (!is_over) {
        PGresult *result = PQgetResult(link);
        ExecStatusType status = PQresultStatus(result);

        if (status == PGRES_FATAL_ERROR && result != NULL) {
            must_fail(MUST_HERE, "%s", PQresultErrorMessage(result));
        }
        is_over = status == PGRES_PIPELINE_SYNC;
        PQclear(result);
    }
}

static void commit_some(struct bench *bench)
{
    struct pg_array *keys[3] = {&bench->shards, &bench->all_keys, &bench->key_seqs};
    int tables = bench->is_keyed ? TABLE_COUNT : PLAIN_TABLES;

    pg_array_start(&bench->shards, PG_TYPE_INT4);
    pg_array_start(&bench->all_keys, PG_TYPE_BYTEA);
    pg_array_start(&bench->key_seqs, PG_TYPE_INT8);
    send_plain(bench, "BEGIN");
    for (int i = 0; i < tables; i++) {
        send_table(bench, (int)((bench->commits * tables + i) % TABLE_COUNT),
                   COMMIT_COUNT * (i + 1) / tables - COMMIT_COUNT * i / tables);
    }
    if (bench->is_keyed) {
        send(bench, "keys", keys, 3);
    }
    send_plain(bench, "COMMIT");
    MUST(PQpipelineSync(bench->link) == 1);
    take_replies(bench->link);
    bench->commits++;
}

static void open_bench(struct bench *bench, const struct fixture *fixture)
{
    struct pg_array *arrays[] = {&bench->seqs,   &bench->dues,     &bench->payloads, &bench->keys,
                                 &bench->shards, &bench->key_seqs, &bench->all_keys};
    struct pg_migrate_options migrate = {
        .conninfo = fixture->pg_conninfo, .cluster_id = fixture->name, .shard_count = TABLE_COUNT};
    char errmsg[512];

    if (pg_migrate(&migrate, errmsg, sizeof(errmsg)) != 0) {
        must_fail(MUST_HERE, "%s", errmsg);
    }
    bench->link = PQconnectdb(fixture->pg_conninfo);
    MUST(PQstatus(bench->link) == CONNECTION_OK);
    PQclear(PQexec(bench->link, "SET plan_cache_mode = force_generic_plan"));
    prng_init(&bench->prng, 29);
    for (size_t i = 0; i < ARRAY_COUNT(arrays); i++) {
        pg_array_init(arrays[i], (size_t)8 << 20U);
    }
    prepare_all(bench);
    MUST(PQenterPipelineMode(bench->link) == 1);
}

static void close_bench(struct bench *bench)
{
    struct pg_array *arrays[] = {&bench->seqs,   &bench->dues,     &bench->payloads, &bench->keys,
                                 &bench->shards, &bench->key_seqs, &bench->all_keys};

    for (size_t i = 0; i < ARRAY_COUNT(arrays); i++) {
        pg_array_fini(arrays[i]);
    }
    PQfinish(bench->link);
}

static void measure(bool is_keyed, int64_t seconds)
{
    struct bench bench = {.is_keyed = is_keyed};
    struct fixture fixture;
    int64_t start_us;

    fixture_open(&fixture, "libpq");
    open_bench(&bench, &fixture);
    commit_some(&bench); // Plans are made with the first.
    start_us = clock_boot_us();
    bench.commits = 0;
    while (clock_boot_us() < start_us + seconds * US_PER_S) {
        commit_some(&bench);
    }
    printf("libpq alone, creates in batches, %s\t%.0f\t1/s\n", is_keyed ? "keyed" : "no key",
           (double)(bench.commits * COMMIT_COUNT) * 1e6 / (double)(clock_boot_us() - start_us));
    close_bench(&bench);
    fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int64_t seconds = argc > 2 ? strtoll(argv[2], NULL, 10) : 5;
    bool is_plain = strcmp(what, "plain") == 0;
    bool is_keyed = strcmp(what, "keyed") == 0;

    if (seconds < 1 || seconds > 3600 || (argc > 1 && !is_plain && !is_keyed)) {
        (void)fprintf(stderr, "usage: bench_libpq [plain|keyed [seconds, at most 3600]]\n");
        return 2;
    }
    fixture_need_servers(argv);
    if (!is_keyed) {
        measure(false, seconds);
    }
    if (!is_plain) {
        measure(true, seconds);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
