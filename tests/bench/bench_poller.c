/* SPDX-License-Identifier: Apache-2.0
 *
 * What a good engineer writes in a day: one table, an index on the due time, workers that take due
 * rows with FOR UPDATE SKIP LOCKED and delete them when they have run. No API, no retries, no
 * leases, no failover, no names: the mark to pass. Tuned as well as we could: prepared statements,
 * binary arrays, batches, a delete that fetches, workers that sleep only when nothing was due.
 *
 *   tools/servers run --zk 0 -- build/release/tests/bench/bench_poller [MODE [SECONDS [N]]]
 *
 * MODE is all of them if none is given, or single (creates one by one, on N connections, default
 * 64), batch (creates in batches of 500 on N connections, default 4), drain (N tasks due at once,
 * default 200000), steady (N tasks a second, default 20000) or late (N tasks a second one by one,
 * default 500). A line per figure, "name<TAB>value<TAB>unit", as bench_machine.
 */
#include "client/cli/bench_hist.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/io/clock.h"
#include "storage/pg_array.h"
#include "tests/lib/fixture.h"
#include "tests/lib/must.h"

#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAYLOAD_LEN  100
#define BATCH        500
#define STEADY_BATCH 100 /* as foliot bench steady */
#define WORKER_COUNT 2
#define TAKE_COUNT   1000
#define SINGLE_MAX   256
#define PRODUCER_MAX 16
#define FAR_MS       INT64_C(2592000000)
#define NEAR_MIN_MS  1000
#define NEAR_MAX_MS  3000
#define IDLE_US      1000 /* a worker that found nothing sleeps so long */
#define WARMUP_MS    2000
#define PATIENCE_MS  30000
#define SECONDS_MAX  3600

struct bench {
    const char *conninfo;
    int64_t seconds;
    int64_t number; /* N */
    atomic_llong made;
    atomic_llong ran;
    atomic_llong last_us; /* wall clock, when the last task ran */
    atomic_bool is_over;  /* workers end */
    wall_ms measure_ms;   /* only tasks that are due from then on are measured */
};

static struct bench bench;

static void show(const char *name, double value, const char *unit)
{
    printf("%s\t%.3f\t%s\n", name, value, unit);
}

static void sql(PGconn *link, const char *text)
{
    PGresult *result = PQexec(link, text);

    if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
        must_fail(MUST_HERE, "%s: %s", text, PQresultErrorMessage(result));
    }
    PQclear(result);
}

static PGconn *connect_and_prepare(void)
{
    static const struct {
        const char *name;
        const char *text;
    } statements[] = {
        {"one", "INSERT INTO job (due_ms, payload) VALUES ($1::bigint, $2::bytea)"},
        {"many",
         "INSERT INTO job (due_ms, payload) SELECT unnest($1::bigint[]), unnest($2::bytea[])"},
        {"take",
         "DELETE FROM job WHERE id = ANY (ARRAY(SELECT id FROM job WHERE due_ms <= $1::bigint"
         " ORDER BY due_ms LIMIT $2::bigint FOR UPDATE SKIP LOCKED))"
         " RETURNING id, due_ms, payload"},
    };
    PGconn *link = PQconnectdb(bench.conninfo);

    if (PQstatus(link) != CONNECTION_OK) {
        must_fail(MUST_HERE, "%s", PQerrorMessage(link));
    }
    sql(link, "SET client_min_messages = warning; SET synchronous_commit = on;"
              " SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off");
    for (size_t i = 0; i < ARRAY_COUNT(statements); i++) {
        PGresult *result = PQprepare(link, statements[i].name, statements[i].text, 0, NULL);

        if (PQresultStatus(result) != PGRES_COMMAND_OK) {
            must_fail(MUST_HERE, "%s", PQresultErrorMessage(result));
        }
        PQclear(result);
    }
    return link;
}

static void make_table(void)
{
    PGconn *link = PQconnectdb(bench.conninfo);

    sql(link,
        "CREATE TABLE job (id bigserial PRIMARY KEY, due_ms bigint NOT NULL, payload bytea NOT"
        " NULL); CREATE INDEX ON job (due_ms)");
    PQfinish(link);
}

static void sleep_us(int64_t us)
{
    struct timespec span = {us / US_PER_S, us % US_PER_S * 1000};

    if (us > 0) {
        (void)nanosleep(&span, NULL);
    }
}

/* ---- creates ---- */

struct batch {
    struct pg_array dues;
    struct pg_array payloads;
};

static void batch_init(struct batch *batch)
{
    pg_array_init(&batch->dues, 1 << 20);
    pg_array_init(&batch->payloads, 1 << 20);
}

static void batch_fini(struct batch *batch)
{
    pg_array_fini(&batch->dues);
    pg_array_fini(&batch->payloads);
}

static void batch_start(struct batch *batch)
{
    pg_array_start(&batch->dues, PG_TYPE_INT8);
    pg_array_start(&batch->payloads, PG_TYPE_BYTEA);
}

static void batch_add(struct batch *batch, wall_ms due_ms)
{
    static const uint8_t payload[PAYLOAD_LEN] = "payload";

    pg_array_add_int(&batch->dues, due_ms);
    pg_array_add_bytes(&batch->payloads, (struct slice){payload, PAYLOAD_LEN});
}

/* Insert a batch; committed when this returns. */
static void batch_insert(PGconn *link, struct batch *batch, int64_t count)
{
    static const int formats[2] = {1, 1};
    struct slice arrays[2];
    PGresult *result;

    MUST_OK(pg_array_value(&batch->dues, &arrays[0]));
    MUST_OK(pg_array_value(&batch->payloads, &arrays[1]));
    result = PQexecPrepared(
        link, "many", 2,
        (const char *const[]){(const char *)arrays[0].data, (const char *)arrays[1].data},
        (const int[]){(int)arrays[0].len, (int)arrays[1].len}, formats, 1);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        must_fail(MUST_HERE, "%s", PQresultErrorMessage(result));
    }
    PQclear(result);
    atomic_fetch_add(&bench.made, count);
}

static void *make_batches(void *ctx)
{
    const int64_t *end_us = ctx;
    PGconn *link = connect_and_prepare();
    struct batch batch;
    struct prng prng;

    prng_init(&prng, (uint64_t)PQbackendPID(link));
    batch_init(&batch);
    while (clock_boot_us() < *end_us) {
        wall_ms now_ms = clock_wall_ms();

        batch_start(&batch);
        for (int i = 0; i < BATCH; i++) {
            batch_add(&batch, now_ms + FAR_MS + (int64_t)prng_below(&prng, (uint64_t)FAR_MS));
        }
        batch_insert(link, &batch, BATCH);
    }
    batch_fini(&batch);
    PQfinish(link);
    return NULL;
}

static void bench_batch(void)
{
    pthread_t threads[PRODUCER_MAX];
    int64_t start_us = clock_boot_us();
    int64_t end_us = start_us + bench.seconds * US_PER_S;

    MUST(bench.number <= PRODUCER_MAX);
    for (int64_t i = 0; i < bench.number; i++) {
        MUST_OK(pthread_create(&threads[i], NULL, make_batches, &end_us));
    }
    for (int64_t i = 0; i < bench.number; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    show("poller, creates in batches of 500",
         (double)bench.made * 1e6 / (double)(clock_boot_us() - start_us), "1/s");
}

/* Send one insert; its answer is awaited elsewhere. */
static void send_single(PGconn *link, wall_ms due_ms)
{
    static const uint8_t payload[PAYLOAD_LEN] = "payload";
    static const int formats[2] = {1, 1};
    uint8_t due[8];

    pg_put_i64(due, due_ms);
    MUST(PQsendQueryPrepared(link, "one", 2,
                             (const char *const[]){(const char *)due, (const char *)payload},
                             (const int[]){8, PAYLOAD_LEN}, formats, 1) == 1);
}

/* Has the answer come? */
static bool take_single(PGconn *link)
{
    PGresult *result;

    MUST(PQconsumeInput(link) == 1);
    if (PQisBusy(link)) {
        return false;
    }
    while ((result = PQgetResult(link)) != NULL) {
        MUST_EQ(PQresultStatus(result), PGRES_COMMAND_OK);
        PQclear(result);
    }
    return true;
}

/* Closed loop: each connection has one insert under way. */
static void bench_single(void)
{
    static PGconn *links[SINGLE_MAX];
    static struct pollfd polls[SINGLE_MAX];
    static int64_t sent_us[SINGLE_MAX];
    static struct hist answers_us;
    nfds_t count = (nfds_t)bench.number;
    int64_t start_us;
    int64_t end_us;

    MUST(count <= SINGLE_MAX);
    for (nfds_t i = 0; i < count; i++) {
        links[i] = connect_and_prepare();
        polls[i] = (struct pollfd){.fd = PQsocket(links[i]), .events = POLLIN};
    }
    start_us = clock_boot_us();
    end_us = start_us + bench.seconds * US_PER_S;
    for (nfds_t i = 0; i < count; i++) {
        sent_us[i] = clock_boot_us();
        send_single(links[i], clock_wall_ms() + FAR_MS);
    }
    while (clock_boot_us() < end_us) {
        MUST(poll(polls, count, -1) > 0);
        for (nfds_t i = 0; i < count; i++) {
            if (polls[i].revents != 0 && take_single(links[i])) {
                hist_record(&answers_us, clock_boot_us() - sent_us[i]);
                bench.made++;
                sent_us[i] = clock_boot_us();
                send_single(links[i], clock_wall_ms() + FAR_MS + (int64_t)bench.made);
            }
        }
    }
    show("poller, creates one by one", (double)bench.made * 1e6 / (double)(end_us - start_us),
         "1/s");
    show("poller, creates one by one: answer p50", (double)hist_quantile(&answers_us, 5000) / 1e3,
         "ms");
    show("poller, creates one by one: answer p99", (double)hist_quantile(&answers_us, 9900) / 1e3,
         "ms");
    for (nfds_t i = 0; i < count; i++) {
        PQfinish(links[i]);
    }
}

/* ---- workers ---- */

struct worker {
    pthread_t thread;
    struct hist lateness_us;
    int64_t early;
};

/* "Run" what was taken: here that is to look at it. The transaction that deletes it is open until
 * it has run: a worker that dies meanwhile leaves it to another one. */
static int run_taken(struct worker *worker, const PGresult *result)
{
    int count = PQntuples(result);
    int64_t now_us = clock_wall_us();

    for (int i = 0; i < count; i++) {
        wall_ms due_ms = pg_get_i64((const uint8_t *)PQgetvalue(result, i, 1));
        int64_t late_us = now_us - due_ms * US_PER_MS;

        worker->early += late_us < 0;
        if (due_ms >= bench.measure_ms) {
            hist_record(&worker->lateness_us, late_us);
        }
    }
    if (count > 0) {
        atomic_fetch_add(&bench.ran, count);
        atomic_store(&bench.last_us, now_us);
    }
    return count;
}

static void send_plain(PGconn *link, const char *text)
{
    MUST(PQsendQueryParams(link, text, 0, NULL, NULL, NULL, NULL, 1) == 1);
}

/* One round trip: commit what has run, and take what is due. Returns how much that was. */
static int take_and_run(struct worker *worker, PGconn *link)
{
    static const int formats[2] = {1, 1};
    uint8_t numbers[2][8];
    bool is_over = false;
    int count = 0;

    pg_put_i64(numbers[0], clock_wall_ms());
    pg_put_i64(numbers[1], TAKE_COUNT);
    send_plain(link, "COMMIT");
    send_plain(link, "BEGIN");
    MUST(PQsendQueryPrepared(
             link, "take", 2,
             (const char *const[]){(const char *)numbers[0], (const char *)numbers[1]},
             (const int[]){8, 8}, formats, 1) == 1);
    MUST(PQpipelineSync(link) == 1);
    while (!is_over) {
        PGresult *result = PQgetResult(link);
        ExecStatusType status = PQresultStatus(result);

        if (result != NULL && status == PGRES_FATAL_ERROR) {
            must_fail(MUST_HERE, "%s", PQresultErrorMessage(result));
        }
        count += status == PGRES_TUPLES_OK ? run_taken(worker, result) : 0;
        is_over = status == PGRES_PIPELINE_SYNC;
        PQclear(result);
    }
    return count;
}

static void *work(void *ctx)
{
    PGconn *link = connect_and_prepare();

    sql(link, "BEGIN");
    MUST(PQenterPipelineMode(link) == 1);
    while (!atomic_load(&bench.is_over)) {
        if (take_and_run(ctx, link) == 0) {
            sleep_us(IDLE_US);
        }
    }
    PQfinish(link);
    return NULL;
}

static struct worker workers[WORKER_COUNT];

static void start_workers(void)
{
    for (size_t i = 0; i < WORKER_COUNT; i++) {
        MUST_OK(pthread_create(&workers[i].thread, NULL, work, &workers[i]));
    }
}

/* When all tasks have run, or the patience ends. Returns what the workers saw. */
static const struct hist *end_workers(int64_t *early)
{
    static struct hist whole;
    int64_t end_us = clock_boot_us() + PATIENCE_MS * US_PER_MS;

    while (bench.ran < bench.made && clock_boot_us() < end_us) {
        sleep_us(IDLE_US);
    }
    atomic_store(&bench.is_over, true);
    for (size_t i = 0; i < WORKER_COUNT; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        hist_merge(&whole, &workers[i].lateness_us);
        *early += workers[i].early;
    }
    return &whole;
}

static void show_lateness(const char *name)
{
    int64_t early = 0;
    const struct hist *lateness = end_workers(&early);
    char text[128];

    (void)snprintf(text, sizeof(text), "%s, lateness p50", name);
    show(text, (double)hist_quantile(lateness, 5000) / 1e3, "ms");
    (void)snprintf(text, sizeof(text), "%s, lateness p99", name);
    show(text, (double)hist_quantile(lateness, 9900) / 1e3, "ms");
    (void)snprintf(text, sizeof(text), "%s, lateness max", name);
    show(text, (double)lateness->max / 1e3, "ms");
    (void)snprintf(text, sizeof(text), "%s, missing", name);
    show(text, (double)(bench.made - bench.ran), "");
    (void)snprintf(text, sizeof(text), "%s, early", name);
    show(text, (double)early, "");
}

static void bench_drain(void)
{
    PGconn *link = connect_and_prepare();
    wall_ms due_ms = clock_wall_ms() + 3000 + bench.number / 20;
    int64_t early = 0;
    struct batch batch;

    batch_init(&batch);
    while (bench.made < bench.number) {
        batch_start(&batch);
        for (int i = 0; i < BATCH; i++) {
            batch_add(&batch, due_ms);
        }
        batch_insert(link, &batch, BATCH);
    }
    batch_fini(&batch);
    MUST(clock_wall_ms() < due_ms);
    start_workers();
    (void)end_workers(&early);
    show("poller, drain", (double)bench.ran * 1e6 / (double)(bench.last_us - due_ms * US_PER_MS),
         "1/s");
    show("poller, drain: missing", (double)(bench.made - bench.ran), "");
    PQfinish(link);
}

/* ---- tasks by a schedule ---- */

struct producer {
    pthread_t thread;
    int64_t index;
    int64_t count; /* of all producers */
    int64_t batch;
    int64_t start_us;
    struct hist answers_us;
};

/* Each has every count-th batch of the schedule. */
static void *produce(void *ctx)
{
    struct producer *producer = ctx;
    PGconn *link = connect_and_prepare();
    int64_t batches = bench.seconds * bench.number / producer->batch;
    struct batch batch;
    struct prng prng;

    prng_init(&prng, (uint64_t)producer->index);
    batch_init(&batch);
    for (int64_t i = producer->index; i < batches; i += producer->count) {
        int64_t planned_us = producer->start_us + i * producer->batch * US_PER_S / bench.number;

        sleep_us(planned_us - clock_boot_us());
        batch_start(&batch);
        for (int64_t j = 0; j < producer->batch; j++) {
            batch_add(&batch, clock_wall_ms() + prng_between(&prng, NEAR_MIN_MS, NEAR_MAX_MS));
        }
        batch_insert(link, &batch, producer->batch);
        hist_record(&producer->answers_us, clock_boot_us() - planned_us);
    }
    batch_fini(&batch);
    PQfinish(link);
    return NULL;
}

static void run_schedule(const char *name, int64_t batch, int64_t producer_count)
{
    static struct producer producers[PRODUCER_MAX];
    static struct hist answers_us;
    int64_t start_us = clock_boot_us() + 200 * US_PER_MS;
    char text[128];

    bench.measure_ms = clock_wall_ms() + WARMUP_MS;
    start_workers();
    for (int64_t i = 0; i < producer_count; i++) {
        producers[i] = (struct producer){
            .index = i, .count = producer_count, .batch = batch, .start_us = start_us};
        MUST_OK(pthread_create(&producers[i].thread, NULL, produce, &producers[i]));
    }
    for (int64_t i = 0; i < producer_count; i++) {
        (void)pthread_join(producers[i].thread, NULL);
        hist_merge(&answers_us, &producers[i].answers_us);
    }
    (void)snprintf(text, sizeof(text), "%s, creates", name);
    show(text, (double)bench.made * 1e6 / (double)(clock_boot_us() - start_us), "1/s");
    (void)snprintf(text, sizeof(text), "%s, answer p99", name);
    show(text, (double)hist_quantile(&answers_us, 9900) / 1e3, "ms");
    show_lateness(name);
}

static void bench_steady(void)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "poller, steady %lld/s", (long long)bench.number);
    run_schedule(name, STEADY_BATCH, 4);
}

static void bench_late(void)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "poller, at %lld/s one by one", (long long)bench.number);
    run_schedule(name, 1, 8);
}

static const struct {
    const char *name;
    void (*run)(void);
    int64_t number; /* if none is given */
} MODES[] = {
    {"single", bench_single, 64},    {"batch", bench_batch, 4}, {"drain", bench_drain, 200000},
    {"steady", bench_steady, 20000}, {"late", bench_late, 500},
};

static int run_mode(size_t mode, int argc, char **argv)
{
    static struct fixture fixture; // Threads connect by it.

    fixture_open(&fixture, "poller");
    bench.conninfo = fixture.pg_admin;
    bench.seconds = argc > 2 ? strtoll(argv[2], NULL, 10) : 5;
    bench.number = argc > 3 ? strtoll(argv[3], NULL, 10) : MODES[mode].number;
    if (bench.seconds < 1 || bench.seconds > SECONDS_MAX || bench.number < 1) {
        (void)fprintf(stderr, "bench_poller: seconds are 1 to %d, N is above 0\n", SECONDS_MAX);
        return 2;
    }
    make_table();
    MODES[mode].run();
    fixture_close(&fixture);
    return fflush(stdout) == 0 ? 0 : 1;
}

/* Each in a process of its own: they count in the same places. */
static int run_all(char **argv)
{
    int failed = 0;

    for (size_t i = 0; i < ARRAY_COUNT(MODES); i++) {
        pid_t child = fork();
        int status = 1;

        if (child == 0) {
            _exit(run_mode(i, 1, argv));
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            failed++;
        }
    }
    return failed == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    fixture_need_servers(argv);
    if (argc == 1) {
        return run_all(argv);
    }
    for (size_t i = 0; i < ARRAY_COUNT(MODES); i++) {
        if (strcmp(argv[1], MODES[i].name) == 0) {
            return run_mode(i, argc, argv);
        }
    }
    (void)fprintf(stderr, "usage: bench_poller [single|batch|drain|steady|late [seconds [N]]]\n");
    return 2;
}
