/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection's life, its pump and its ring of expected replies.
 */
#include "storage/pg_conn.h"

#include "storage/pg_conninfo.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* First wait after a lost connection, and the longest; doubled each time. */
#define BACKOFF_MS_MIN 20
#define BACKOFF_MS_MAX 1000

#define STMT_BYTES_MAX 8192

#define PREPARED_BITS ((size_t)PG_STMT_COUNT * SHARD_COUNT_MAX)

enum expect_kind {
    EXPECT_SETTINGS = 1, /* first command of the greeting */
    EXPECT_HELLO,        /* second */
    EXPECT_PREPARE,
    EXPECT_EXEC,
    EXPECT_SYNC
};

struct pg_expect {
    enum expect_kind kind;
    size_t prepared_bit; /* PREPARE */
};

/* --- prepared statements ---------------------------------------------------------------------- */

static size_t prepared_bit(enum pg_stmt stmt, uint32_t shard)
{
    return (size_t)stmt * SHARD_COUNT_MAX + shard;
}

static bool is_prepared(const struct pg_conn *conn, size_t bit)
{
    return (conn->prepared[bit / 8] >> (bit % 8) & 1U) != 0;
}

static void set_prepared(struct pg_conn *conn, size_t bit, bool value)
{
    uint8_t mask = (uint8_t)(1U << (bit % 8));

    if (value) {
        conn->prepared[bit / 8] |= mask;
    } else {
        conn->prepared[bit / 8] &= (uint8_t)~mask;
    }
}

/* --- expected replies ------------------------------------------------------------------------- */

static bool expect_grow(struct pg_conn *conn)
{
    size_t capacity = conn->expect_capacity == 0 ? 64 : 2 * conn->expect_capacity;
    struct pg_expect *ring = mem_new(capacity, sizeof(*ring));

    if (ring == NULL) {
        return false;
    }
    for (size_t i = 0; i < conn->expect_count; i++) {
        ring[i] = conn->expect[(conn->expect_first + i) % conn->expect_capacity];
    }
    mem_free(conn->expect);
    conn->expect = ring;
    conn->expect_capacity = capacity;
    conn->expect_first = 0;
    return true;
}

static void expect_add(struct pg_conn *conn, enum expect_kind kind, size_t bit)
{
    if (conn->expect_count == conn->expect_capacity && !expect_grow(conn)) {
        conn->is_broken = true;
        return;
    }
    conn->expect[(conn->expect_first + conn->expect_count) % conn->expect_capacity] =
        (struct pg_expect){.kind = kind, .prepared_bit = bit};
    conn->expect_count++;
}

static struct pg_expect expect_take(struct pg_conn *conn)
{
    struct pg_expect expect = conn->expect[conn->expect_first];

    conn->expect_first = (conn->expect_first + 1) % conn->expect_capacity;
    conn->expect_count--;
    return expect;
}

/* --- commands --------------------------------------------------------------------------------- */

static void prepare(struct pg_conn *conn, enum pg_stmt stmt, uint32_t shard, const char *name)
{
    const struct pg_stmt_info *info = pg_stmt_info(stmt);
    size_t bit = prepared_bit(stmt, shard);
    struct buf text;

    buf_init(&text, STMT_BYTES_MAX);
    if (pg_stmt_text(stmt, shard, &text) != 0 ||
        PQsendPrepare(conn->link, name, buf_text(&text), info->param_count, info->types) == 0) {
        conn->is_broken = true;
    }
    buf_fini(&text);
    expect_add(conn, EXPECT_PREPARE, bit);
    set_prepared(conn, bit, true);
}

void pg_conn_exec(struct pg_conn *conn, enum pg_stmt stmt, uint32_t shard,
                  const struct pg_params *params)
{
    static const int binary[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    _Static_assert(ARRAY_COUNT(binary) == PG_PARAM_COUNT_MAX, "every parameter is binary");
    uint32_t own_shard = pg_stmt_is_per_shard(stmt) ? shard : 0;
    char name[PG_STMT_NAME_MAX];

    if (conn->is_broken || conn->link == NULL) {
        return;
    }
    REQUIRE((params == NULL ? 0 : params->count) == pg_stmt_info(stmt)->param_count);
    pg_stmt_name(stmt, own_shard, name);
    if (!is_prepared(conn, prepared_bit(stmt, own_shard))) {
        prepare(conn, stmt, own_shard, name);
    }
    if (PQsendQueryPrepared(conn->link, name, params == NULL ? 0 : params->count,
                            params == NULL ? NULL : params->values,
                            params == NULL ? NULL : params->lengths, binary, 1) == 0 ||
        (params != NULL && params->failed)) {
        conn->is_broken = true;
    }
    expect_add(conn, EXPECT_EXEC, 0);
}

void pg_conn_sync(struct pg_conn *conn)
{
    if (conn->is_broken || conn->link == NULL) {
        return;
    }
    if (PQpipelineSync(conn->link) == 0) {
        conn->is_broken = true;
    }
    expect_add(conn, EXPECT_SYNC, 0);
}

PGresult *pg_conn_keep(struct pg_conn *conn)
{
    PGresult *result = conn->kept;

    conn->kept = NULL;
    return result;
}

/* --- loss ------------------------------------------------------------------------------------- */

static void lose_jobs(struct list *jobs, bool was_sent)
{
    struct list lost;
    struct list *node;

    // What the owners submit meanwhile is not lost with the rest.
    list_init(&lost);
    list_move_all(&lost, jobs);
    while ((node = list_take_first(&lost)) != NULL) {
        struct pg_job *job = LIST_ENTRY(node, struct pg_job, link);

        job->type->lost(job, was_sent);
    }
}

static void drop_link(struct pg_conn *conn)
{
    if (conn->link == NULL) {
        return;
    }
    loop_fd_fini(&conn->watcher);
    // Nothing may leave any more: what libpq still holds would be sent by PQfinish, after we have
    // called it lost.
    if (PQsocket(conn->link) >= 0) {
        (void)shutdown(PQsocket(conn->link), SHUT_RDWR);
    }
    PQfinish(conn->link);
    conn->link = NULL;
    conn->expect_first = 0;
    conn->expect_count = 0;
    conn->is_broken = false;
    memset(conn->prepared, 0, PREPARED_BITS / 8);
}

static span_ms backoff_ms(const struct pg_conn *conn)
{
    uint32_t doublings = conn->failure_count > 6 ? 6 : conn->failure_count;

    return time_min((span_ms)BACKOFF_MS_MIN << doublings, BACKOFF_MS_MAX);
}

static void lose(struct pg_conn *conn, const char *reason)
{
    size_t len;

    if (conn->state == PG_CONN_CLOSED) {
        return;
    }
    (void)snprintf(conn->reason, sizeof(conn->reason), "%s", reason);
    len = strcspn(conn->reason, "\n");
    conn->reason[len] = '\0';
    drop_link(conn);
    // A host that is silent must not hide those behind it. A connection that was good and broke
    // begins with the first: the order of hosts is its people's.
    conn->first_host += conn->state == PG_CONN_CONNECTING || conn->state == PG_CONN_GREETING;
    conn->state = PG_CONN_WAITING;
    loop_timer_start_in(&conn->timer, backoff_ms(conn));
    conn->failure_count++;
    conn->flight_count = 0;
    conn->options.on_lost(conn->options.ctx, conn, conn->reason);
    lose_jobs(&conn->flight, true);
}

void pg_conn_break(struct pg_conn *conn, const char *reason)
{
    if (conn->link != NULL) {
        lose(conn, reason);
    }
}

/* --- replies ---------------------------------------------------------------------------------- */

static void on_notice(void *ctx, const PGresult *result)
{
    struct pg_conn *conn = ctx;
    const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);

    // By the place in the source, for texts are translated. source: RELIABILITY P-4
    if (function != NULL && strcmp(function, "SyncRepWaitForLSN") == 0) {
        conn->sync_cancelled = true;
    }
}

bool pg_conn_sync_cancelled(const struct pg_conn *conn)
{
    return conn->sync_cancelled;
}

/* Errors after which the connection is not to be believed. source: RELIABILITY P-3, P-6, P-10 */
static bool is_fatal(const PGresult *result)
{
    const char *state = pg_result_state(result);

    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);

    if (severity != NULL && strcmp(severity, "ERROR") != 0) {
        return PQresultStatus(result) == PGRES_FATAL_ERROR;
    }
    return strncmp(state, "08", 2) == 0 || strncmp(state, "57P", 3) == 0 ||
           strcmp(state, "25006") == 0 || strcmp(state, "25P03") == 0 ||
           strcmp(state, "26000") == 0 || strcmp(state, "0A000") == 0;
}

static struct pg_job *first_job(struct pg_conn *conn)
{
    struct list *node = list_first(&conn->flight);

    REQUIRE(node != NULL);
    return LIST_ENTRY(node, struct pg_job, link);
}

/* Deadline of the oldest job that is out. */
static void arm_timer(struct pg_conn *conn)
{
    struct list *node = list_first(&conn->flight);

    if (node != NULL) {
        boot_us sent = LIST_ENTRY(node, struct pg_job, link)->sent;

        // A job in the queue of a busy server has its whole time from the end of the one before.
        loop_timer_start(&conn->timer,
                         time_max(sent, conn->progress) + conn->options.command_ms * US_PER_MS);
    } else {
        loop_timer_stop(&conn->timer);
    }
}

static void job_synced(struct pg_conn *conn)
{
    struct pg_job *job = first_job(conn);
    boot_us sent = job->sent;

    conn->progress = clock_boot_us();
    job->sent = conn->progress;
    if (job->type->synced(job, conn)) {
        if (conn->link == NULL) {
            return;
        }
        job->sent = sent;
        list_del(&job->link);
        conn->flight_count--;
        conn->sync_cancelled = false;
        job->type->done(job);
    }
}

static void greet_result(struct pg_conn *conn, PGresult *result);

/* One result; false if the connection is gone after it. */
static bool dispatch(struct pg_conn *conn, PGresult *result)
{
    struct pg_expect expect = expect_take(conn);
    bool is_sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;

    if (is_sync != (expect.kind == EXPECT_SYNC)) {
        lose(conn, "replies do not match what was sent");
        return false;
    }
    if (is_fatal(result)) {
        lose(conn, PQresultErrorMessage(result));
        return false;
    }
    switch (expect.kind) {
    case EXPECT_PREPARE:
        if (!pg_result_ok(result)) {
            set_prepared(conn, expect.prepared_bit, false);
            // Everything up to the sync is skipped; the first exec to be so reports it.
            if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
                lose(conn, PQresultErrorMessage(result));
                return false;
            }
        }
        break;
    case EXPECT_EXEC: {
        struct pg_job *job = first_job(conn);

        job->type->result(job, conn, result);
        break;
    }
    case EXPECT_SYNC:
        if (conn->state == PG_CONN_GREETING) {
            conn->state = PG_CONN_READY;
        } else {
            job_synced(conn);
        }
        break;
    case EXPECT_SETTINGS:
        if (!pg_result_ok(result)) {
            lose(conn, PQresultErrorMessage(result));
        }
        break;
    case EXPECT_HELLO:
        greet_result(conn, result);
        break;
    }
    return conn->link != NULL;
}

/* Take every reply that has arrived; false if the connection is gone. */
static bool drain(struct pg_conn *conn)
{
    int empty_count = 0;

    while (conn->expect_count > 0 && !conn->is_broken && PQisBusy(conn->link) == 0) {
        PGresult *result = PQgetResult(conn->link);
        bool is_alive;

        if (result == NULL) {
            // One ends each command; two in a row mean that nothing is left to read.
            if (++empty_count > 1) {
                break;
            }
            continue;
        }
        empty_count = 0;
        conn->kept = result;
        is_alive = dispatch(conn, result);
        PQclear(conn->kept);
        conn->kept = NULL;
        if (!is_alive) {
            return false;
        }
    }
    return true;
}

/* --- the pump --------------------------------------------------------------------------------- */

/* Give libpq's buffer to the socket; false if the connection is gone. */
static bool flush(struct pg_conn *conn)
{
    int left;

    if (conn->is_broken) {
        lose(conn, "cannot queue a command");
        return false;
    }
    left = PQflush(conn->link);
    if (left < 0) {
        lose(conn, PQerrorMessage(conn->link));
        return false;
    }
    // While the server cannot take more it may be waiting for us to read: always read.
    loop_fd_set(&conn->watcher, left > 0 ? LOOP_READ | LOOP_WRITE : LOOP_READ);
    return true;
}

static void arm_expiry(struct pg_conn *conn);

static void send_waiting(struct pg_conn *conn)
{
    // Sending may find out that the connection must not be used any more.
    while (conn->state == PG_CONN_READY && !conn->is_broken &&
           conn->flight_count < conn->options.in_flight_max) {
        struct list *node = list_take_first(&conn->waiting);
        struct pg_job *job;

        if (node == NULL) {
            return;
        }
        job = LIST_ENTRY(node, struct pg_job, link);
        conn->waiting_count--;
        list_add(&conn->flight, node);
        conn->flight_count++;
        job->sent = clock_boot_us();
        job->type->send(job, conn);
    }
}

static void pump(struct pg_conn *conn)
{
    if (conn->state == PG_CONN_READY) {
        send_waiting(conn);
        arm_expiry(conn);
        if (conn->state == PG_CONN_READY && flush(conn)) {
            arm_timer(conn);
        }
    } else if (conn->state == PG_CONN_GREETING && flush(conn)) {
        return;
    }
}

static void on_task(void *ctx)
{
    struct pg_conn *conn = ctx;

    if (conn->state != PG_CONN_CLOSED) {
        pump(conn);
    } else if (conn->hosts.pending == 0) {
        conn->options.on_closed(conn->options.ctx, conn);
    }
}

static void on_ready(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    struct pg_conn *conn = ctx;

    (void)watcher;
    if ((ready & LOOP_READ) != 0 && PQconsumeInput(conn->link) == 0) {
        // An error that the server has sent before it closed is among the results.
        if (drain(conn)) {
            lose(conn, PQerrorMessage(conn->link));
        }
        return;
    }
    if (!drain(conn)) {
        return;
    }
    if (PQstatus(conn->link) == CONNECTION_BAD) {
        lose(conn, PQerrorMessage(conn->link));
        return;
    }
    pump(conn);
}

/* --- connecting ------------------------------------------------------------------------------- */

static void greet(struct pg_conn *conn)
{
    char settings[1024];
    static const char hello[] = "SELECT pg_backend_pid(), current_setting('synchronous_commit'),"
                                " (SELECT system_identifier FROM pg_control_system()),"
                                " CASE WHEN pg_is_in_recovery() THEN ''"
                                "  ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END,"
                                " (SELECT id FROM foliot_data.cluster),"
                                " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

    (void)snprintf(settings, sizeof(settings),
                   "SELECT set_config('plan_cache_mode', 'force_generic_plan', false),"
                   " set_config('enable_seqscan', 'off', false),"
                   // A bitmap has no order: a page would read all rows that are due to sort them.
                   " set_config('enable_bitmapscan', 'off', false),"
                   // Else an index without the wanted column in front, read whole, looks as cheap
                   // to find ids by as theirs, in a table of few live rows and many dead ones.
                   " set_config('seq_page_cost', '0', false),"
                   // What cannot do without a sequential scan then looks dear enough to compile.
                   " set_config('jit', 'off', false),"
                   " set_config('statement_timeout', '0', false),"
                   " set_config('idle_in_transaction_session_timeout', '10s', false)%s",
                   conn->options.settings);
    conn->state = PG_CONN_GREETING;
    conn->hello.sent = clock_boot_us();
    if (PQsetnonblocking(conn->link, 1) != 0 || PQenterPipelineMode(conn->link) == 0 ||
        PQsendQueryParams(conn->link, settings, 0, NULL, NULL, NULL, NULL, 0) == 0 ||
        PQsendQueryParams(conn->link, hello, 0, NULL, NULL, NULL, NULL, 0) == 0 ||
        PQpipelineSync(conn->link) == 0) {
        conn->is_broken = true;
    }
    expect_add(conn, EXPECT_SETTINGS, 0);
    expect_add(conn, EXPECT_HELLO, 0);
    expect_add(conn, EXPECT_SYNC, 0);
    pump(conn);
}

/* Why the server that greets is not one to work with, or NULL. */
static const char *refusal(const struct pg_conn *conn, const PGresult *result)
{
    if (PQbackendPID(conn->link) != (int)strtol(PQgetvalue(result, 0, 0), NULL, 10)) {
        return "there is a connection pooler in between, and prepared statements need none";
    }
    if (strcmp(PQgetvalue(result, 0, 1), "off") == 0 && !conn->options.allow_async_commit) {
        return "synchronous_commit is off: answered tasks could be lost";
    }
    if (PQgetvalue(result, 0, 3)[0] == '\0') {
        return "the server is a standby";
    }
    if (strcmp(PQgetvalue(result, 0, 4), conn->options.cluster_id) != 0) {
        return "the database belongs to another cluster";
    }
    return NULL;
}

static void greet_result(struct pg_conn *conn, PGresult *result)
{
    const char *reason;

    if (!pg_result_ok(result)) {
        lose(conn, PQresultErrorMessage(result));
        return;
    }
    reason = refusal(conn, result);
    if (reason != NULL) {
        lose(conn, reason);
        return;
    }
    conn->hello.received = clock_boot_us();
    conn->hello.system_id = strtoull(PQgetvalue(result, 0, 2), NULL, 10);
    conn->hello.timeline = (uint32_t)strtoul(PQgetvalue(result, 0, 3), NULL, 16);
    conn->hello.clock_us = strtoll(PQgetvalue(result, 0, 5), NULL, 10);
    conn->failure_count = 0;
    conn->first_host = 0;
    conn->options.on_hello(conn->options.ctx, conn, &conn->hello);
}

static void watch(struct pg_conn *conn, unsigned interest);

static void on_connecting(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    struct pg_conn *conn = ctx;
    PostgresPollingStatusType status = PQconnectPoll(conn->link);

    (void)watcher;
    (void)ready;
    if (status == PGRES_POLLING_FAILED) {
        lose(conn, PQerrorMessage(conn->link));
    } else if (status == PGRES_POLLING_OK) {
        conn->state = PG_CONN_GREETING;
        watch(conn, LOOP_READ);
        greet(conn);
    } else {
        watch(conn, status == PGRES_POLLING_READING ? LOOP_READ : LOOP_WRITE);
    }
}

/* Watch the socket anew: connecting may have closed it and opened another under its number. */
static void watch(struct pg_conn *conn, unsigned interest)
{
    loop_fd_fini(&conn->watcher);
    if (loop_fd_init(&conn->watcher, conn->options.loop, PQsocket(conn->link),
                     conn->state == PG_CONN_CONNECTING ? on_connecting : on_ready, conn) != 0) {
        lose(conn, "out of memory");
        return;
    }
    loop_fd_set(&conn->watcher, interest);
}

/* Connect; the hosts' addresses are known, or libpq needs none (NULL). */
static void connect_to(struct pg_conn *conn, const char *hostaddr)
{
    struct pg_conninfo info;

    if (pg_conninfo_parse(&info, conn->options.conninfo)) {
        if (pg_conninfo_find(&info, "target_session_attrs") == NULL) {
            pg_conninfo_add(&info, "target_session_attrs", "read-write");
        }
        if (hostaddr != NULL) {
            pg_conninfo_add(&info, "hostaddr", hostaddr);
        }
        pg_conninfo_add(&info, "application_name", conn->options.name);
        pg_conninfo_add(&info, "client_encoding", "UTF8");
        pg_conninfo_turn(&info, conn->first_host);
        conn->link = PQconnectStartParams(info.keywords, info.values, 0);
        pg_conninfo_free(&info);
    }
    conn->state = PG_CONN_CONNECTING;
    if (conn->link == NULL || PQstatus(conn->link) == CONNECTION_BAD) {
        lose(conn, conn->link == NULL ? "out of memory" : PQerrorMessage(conn->link));
        return;
    }
    PQsetNoticeReceiver(conn->link, on_notice, conn);
    watch(conn, LOOP_WRITE);
}

static void on_resolved(struct pg_hosts *hosts, int err, void *ctx)
{
    struct pg_conn *conn = ctx;

    if (conn->state == PG_CONN_CLOSED) {
        loop_post(conn->options.loop, &conn->task);
    } else if (conn->state == PG_CONN_RESOLVING && err != 0) {
        lose(conn, "its host has no address");
    } else if (conn->state == PG_CONN_RESOLVING) {
        connect_to(conn, hosts->hostaddr);
    }
}

static void connect_start(struct pg_conn *conn)
{
    struct pg_conninfo info;
    const char *host;
    bool started = false;
    int err = 0;

    loop_timer_start_in(&conn->timer, conn->options.connect_ms);
    conn->state = PG_CONN_RESOLVING;
    if (conn->hosts.pending > 0) {
        // A look-up that was too slow is still there; its end is not for this try.
        lose(conn, "its host's name is still being looked up");
        return;
    }
    if (!pg_conninfo_parse(&info, conn->options.conninfo)) {
        lose(conn, "out of memory");
        return;
    }
    host = pg_conninfo_find(&info, "host");
    if (host != NULL && pg_conninfo_find(&info, "hostaddr") == NULL) {
        err = pg_hosts_find(&conn->hosts, host, &started);
    }
    pg_conninfo_free(&info);
    if (err != 0) {
        lose(conn, "its host's name cannot be looked up");
    } else if (!started) {
        connect_to(conn, NULL);
    }
}

static void on_timer(struct loop_timer *timer, void *ctx)
{
    struct pg_conn *conn = ctx;

    (void)timer;
    switch (conn->state) {
    case PG_CONN_WAITING:
        connect_start(conn);
        break;
    case PG_CONN_RESOLVING:
        pg_hosts_cancel(&conn->hosts);
        lose(conn, "no address within the time limit");
        break;
    case PG_CONN_CONNECTING:
    case PG_CONN_GREETING:
        lose(conn, "no connection within the time limit");
        break;
    case PG_CONN_READY:
        lose(conn, "no answer within the time limit");
        break;
    case PG_CONN_CLOSED:
        break;
    }
}

/* --- life ------------------------------------------------------------------------------------- */

static void arm_expiry(struct pg_conn *conn)
{
    struct list *node = list_first(&conn->waiting);

    if (node == NULL) {
        loop_timer_stop(&conn->expiry);
    } else {
        loop_timer_start(&conn->expiry, LIST_ENTRY(node, struct pg_job, link)->submitted +
                                            conn->options.command_ms * US_PER_MS);
    }
}

/* What has waited for its turn for too long was never sent. */
static void on_expiry(struct loop_timer *timer, void *ctx)
{
    struct pg_conn *conn = ctx;
    boot_us oldest = clock_boot_us() - conn->options.command_ms * US_PER_MS;
    struct list *node;

    (void)timer;
    while ((node = list_first(&conn->waiting)) != NULL) {
        struct pg_job *job = LIST_ENTRY(node, struct pg_job, link);

        if (job->submitted > oldest) {
            break;
        }
        list_del(node);
        conn->waiting_count--;
        job->type->lost(job, false);
    }
    arm_expiry(conn);
}

int pg_conn_open(struct pg_conn *conn, const struct pg_conn_options *options)
{
    struct pg_conninfo info;

    memset(conn, 0, sizeof(*conn));
    conn->options = *options;
    if (!pg_conninfo_parse(&info, options->conninfo)) {
        return ERR_INVALID;
    }
    pg_conninfo_free(&info);
    conn->prepared = mem_new(PREPARED_BITS / 8, 1);
    if (conn->prepared == NULL) {
        return ERR_NO_MEMORY;
    }
    list_init(&conn->waiting);
    list_init(&conn->flight);
    pg_hosts_init(&conn->hosts, options->resolver, on_resolved, conn);
    loop_timer_init(&conn->timer, options->loop, on_timer, conn);
    loop_timer_init(&conn->expiry, options->loop, on_expiry, conn);
    loop_task_init(&conn->task, on_task, conn);
    conn->state = PG_CONN_WAITING;
    loop_timer_start(&conn->timer, 0);
    return 0;
}

void pg_conn_close(struct pg_conn *conn)
{
    REQUIRE(pg_conn_load(conn) == 0 && conn->state != PG_CONN_CLOSED);
    pg_hosts_cancel(&conn->hosts);
    drop_link(conn);
    conn->state = PG_CONN_CLOSED;
    loop_timer_stop(&conn->timer);
    loop_timer_stop(&conn->expiry);
    mem_free(conn->prepared);
    mem_free(conn->expect);
    conn->prepared = NULL;
    conn->expect = NULL;
    loop_post(conn->options.loop, &conn->task);
}

void pg_conn_withdraw(struct pg_conn *conn, struct pg_job *job)
{
    list_del(&job->link);
    conn->waiting_count--;
}

void pg_conn_submit(struct pg_conn *conn, struct pg_job *job)
{
    REQUIRE(conn->state != PG_CONN_CLOSED);
    job->submitted = clock_boot_us();
    job->sent = 0;
    list_add(&conn->waiting, &job->link);
    conn->waiting_count++;
    if (list_first(&conn->waiting) == &job->link) {
        arm_expiry(conn);
    }
    loop_post(conn->options.loop, &conn->task);
}

uint32_t pg_conn_load(const struct pg_conn *conn)
{
    return conn->flight_count + conn->waiting_count;
}

int pg_conn_backend(const struct pg_conn *conn)
{
    return PQbackendPID(conn->link);
}
