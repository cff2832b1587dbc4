/* SPDX-License-Identifier: Apache-2.0
 *
 * Schema steps, one blocking connection, one deadline. Every wait is a poll with what is left of
 * it.
 */
#include "storage/pg_migrate.h"

#include "storage/pg_conninfo.h"
#include "storage/pg_schema.h"

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVER_VERSION_MIN 150000

/* Any constant: brokers that migrate the same database take turns on it. */
#define LOCK_KEY "8027411502369182821"

/* For each of several hosts but the last one that is tried. */
#define HOST_MS 5000

struct migration {
    const struct pg_migrate_options *options;
    PGconn *link;
    boot_us deadline;
    char *errmsg;
    size_t errmsg_size;
};

PRINTF_LIKE(3, 4)
static int fail(const struct migration *m, int code, const char *format, ...)
{
    va_list args;
    size_t len;

    va_start(args, format);
    (void)vsnprintf(m->errmsg, m->errmsg_size, format, args);
    va_end(args);
    // libpq's messages end with a line feed, and may have more lines with a tab before each.
    for (len = strlen(m->errmsg); len > 0 && m->errmsg[len - 1] == '\n'; len--) {
        m->errmsg[len - 1] = '\0';
    }
    for (size_t i = 0; i < len; i++) {
        m->errmsg[i] = (uint8_t)m->errmsg[i] < ' ' ? ' ' : m->errmsg[i];
    }
    return code;
}

/* How often a long wait asks whether it is still wanted. */
#define ASK_MS 500

/* Wait for the socket; false when the limit has passed, or nobody wants it any more. */
static bool await(const struct migration *m, short events)
{
    struct pollfd wait = {.fd = PQsocket(m->link), .events = events};
    int64_t left_ms = ms_ceil(m->deadline - clock_boot_us());
    int ready = 0;

    while (left_ms > 0 && ready == 0 &&
           (m->options->is_stopped == NULL || !m->options->is_stopped())) {
        ready = poll(&wait, 1, (int)time_min(left_ms, ASK_MS));
        left_ms = ms_ceil(m->deadline - clock_boot_us());
    }
    return ready > 0;
}

static void set_deadline(struct migration *m, span_ms limit_ms, span_ms otherwise_ms)
{
    m->deadline = clock_boot_us() + (limit_ms == 0 ? otherwise_ms : limit_ms) * US_PER_MS;
}

/* Connect, the `host`-th of its hosts first. */
static int connect_from(struct migration *m, struct pg_conninfo *info, size_t host)
{
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;

    pg_conninfo_turn(info, host);
    PQfinish(m->link);
    m->link = PQconnectStartParams(info->keywords, info->values, 0);
    if (m->link == NULL) {
        return fail(m, ERR_NO_MEMORY, "out of memory");
    }
    if (PQstatus(m->link) == CONNECTION_BAD) {
        return fail(m, ERR_INVALID, "cannot connect: %s", PQerrorMessage(m->link));
    }
    while (status != PGRES_POLLING_OK) {
        if (!await(m, status == PGRES_POLLING_READING ? POLLIN : POLLOUT)) {
            return fail(m, ERR_UNAVAILABLE, "cannot connect within the time limit");
        }
        status = PQconnectPoll(m->link);
        if (status == PGRES_POLLING_FAILED) {
            return fail(m, ERR_UNAVAILABLE, "cannot connect: %s", PQerrorMessage(m->link));
        }
    }
    if (PQserverVersion(m->link) < SERVER_VERSION_MIN) {
        return fail(m, ERR_UNSUPPORTED, "server version %d is too old: 15 or newer is needed",
                    PQserverVersion(m->link));
    }
    return 0;
}

/* Connect; a host that is silent does not hide those behind it. */
static int connect_once(struct migration *m)
{
    boot_us end = m->deadline;
    size_t hosts = 1;
    int code = ERR_UNAVAILABLE;

    for (size_t host = 0; host < hosts && code == ERR_UNAVAILABLE; host++) {
        struct pg_conninfo info;

        if (!pg_conninfo_parse(&info, m->options->conninfo)) {
            m->link = PQconnectStart(m->options->conninfo); // It says what is wrong.
            return fail(m, ERR_INVALID, "cannot connect: %s", PQerrorMessage(m->link));
        }
        hosts = pg_conninfo_host_count(&info);
        m->deadline = host + 1 < hosts ? time_min(end, clock_boot_us() + HOST_MS * US_PER_MS) : end;
        code = connect_from(m, &info, host);
        pg_conninfo_free(&info);
    }
    m->deadline = end;
    return code;
}

/* Next result, waiting for it; NULL at the end or when the limit has passed. */
static PGresult *next_result(const struct migration *m)
{
    while (PQisBusy(m->link)) {
        if (!await(m, POLLIN) || PQconsumeInput(m->link) == 0) {
            return NULL;
        }
    }
    return PQgetResult(m->link);
}

/*
 * Run one command; the first value of its last row goes to `value`, which may be NULL.
 *
 * shape: parameters are texts; SQL without parameters may hold several statements.
 */
static int run(const struct migration *m, const char *sql, int count, const char *const *values,
               char *value, size_t value_size)
{
    int sent = count == 0 ? PQsendQuery(m->link, sql)
                          : PQsendQueryParams(m->link, sql, count, NULL, values, NULL, NULL, 0);
    PGresult *result;
    int code = 0;

    if (value != NULL) {
        value[0] = '\0';
    }
    if (sent == 0) {
        return fail(m, ERR_UNAVAILABLE, "connection lost: %s", PQerrorMessage(m->link));
    }
    while ((result = next_result(m)) != NULL) {
        ExecStatusType status = PQresultStatus(result);

        if (status == PGRES_TUPLES_OK && value != NULL && PQntuples(result) > 0) {
            (void)snprintf(value, value_size, "%s", PQgetvalue(result, 0, 0));
        } else if (status == PGRES_FATAL_ERROR) {
            code = fail(m, ERR_IO, "%s", PQresultErrorMessage(result));
        }
        PQclear(result);
    }
    if (PQstatus(m->link) == CONNECTION_BAD || PQisBusy(m->link)) {
        return fail(m, ERR_UNAVAILABLE, "no answer within the time limit");
    }
    return code;
}

static int run_plain(const struct migration *m, const char *sql)
{
    return run(m, sql, 0, NULL, NULL, 0);
}

/* The settings that the steps read, for the transaction that runs one. */
static int give_settings(const struct migration *m)
{
    static const char sql[] = "SELECT set_config('foliot.cluster_id', $1, true),"
                              " set_config('foliot.shard_count', $2, true),"
                              " set_config('foliot.shards', $3, true),"
                              " set_config('client_min_messages', 'warning', true)";
    const struct pg_migrate_options *options = m->options;
    struct buf shards;
    char shard_count[16];
    const char *values[3] = {options->cluster_id, shard_count, NULL};
    int code;

    (void)snprintf(shard_count, sizeof(shard_count), "%" PRIu32, options->shard_count);
    buf_init(&shards, SHARD_COUNT_MAX * (size_t)8);
    for (uint32_t i = 0; i < options->shard_count; i++) {
        if (options->database_of == NULL || options->database_of[i] == options->database) {
            (void)buf_printf(&shards, buf_len(&shards) == 0 ? "%" PRIu32 : ",%" PRIu32, i);
        }
    }
    values[2] = buf_text(&shards);
    code = run(m, sql, 3, values, NULL, 0);
    buf_fini(&shards);
    return code;
}

static int note_step(const struct migration *m, const char *step, const struct embedded_file *file)
{
    const char *values[3] = {step, file->name, (const char *)file->bytes};

    return run(m,
               "INSERT INTO foliot_data.migration (step, name, checksum)"
               " VALUES ($1::integer, $2, encode(sha256(convert_to($3, 'UTF8')), 'hex'))",
               3, values, NULL, 0);
}

static int apply_step(struct migration *m, const char *step, const struct embedded_file *file)
{
    char reason[512];
    int code = run_plain(m, "BEGIN");

    if (code == 0) {
        code = give_settings(m);
    }
    if (code == 0) {
        set_deadline(m, m->options->step_ms, PG_MIGRATE_STEP_MS_DEFAULT);
        code = run_plain(m, (const char *)file->bytes);
        set_deadline(m, m->options->limit_ms, PG_MIGRATE_MS_DEFAULT);
    }
    if (code == 0) {
        code = note_step(m, step, file);
    }
    if (code == 0) {
        code = run_plain(m, "COMMIT");
    }
    if (code == ERR_IO) {
        (void)snprintf(reason, sizeof(reason), "%s", m->errmsg);
        return fail(m, ERR_IO, "schema step %s failed: %s", file->name, reason);
    }
    return code;
}

/* Apply a step, or check that the one that was applied is ours. */
static int take_step(struct migration *m, size_t number, const struct embedded_file *file)
{
    char step[24];
    char verdict[32];
    const char *values[2] = {step, (const char *)file->bytes};
    int code;

    (void)snprintf(step, sizeof(step), "%zu", number);
    code = run(m,
               "SELECT checksum = encode(sha256(convert_to($2, 'UTF8')), 'hex')"
               " FROM foliot_data.migration WHERE step = $1::integer",
               2, values, verdict, sizeof(verdict));
    if (code != 0) {
        return code;
    }
    if (verdict[0] == '\0') {
        return apply_step(m, step, file);
    }
    if (verdict[0] != 't') {
        return fail(m, ERR_CONFLICT,
                    "schema step %s in the database differs from this program's: was the database"
                    " made by another build?",
                    file->name);
    }
    return 0;
}

/* A database that a newer program has worked on is left alone. */
static int check_steps(const struct migration *m)
{
    char newest[32];
    int code = run(m, "SELECT coalesce(max(step), 0) FROM foliot_data.migration", 0, NULL, newest,
                   sizeof(newest));

    if (code == 0 && strtoul(newest, NULL, 10) > schema_pg_file_count) {
        return fail(m, ERR_CONFLICT,
                    "the database has schema step %s, this program knows %zu: use a newer program",
                    newest, schema_pg_file_count);
    }
    return code;
}

static int check_cluster(const struct migration *m)
{
    char found[128];
    char wanted[128];
    int code = run(m, "SELECT id || ' with ' || shard_count || ' shards' FROM foliot_data.cluster",
                   0, NULL, found, sizeof(found));

    (void)snprintf(wanted, sizeof(wanted), "%s with %" PRIu32 " shards", m->options->cluster_id,
                   m->options->shard_count);
    if (code == 0 && strcmp(found, wanted) != 0) {
        return fail(m, ERR_CONFLICT,
                    "the database belongs to cluster %s, not to %s: name another database, or set "
                    "cluster.name to the cluster it belongs to; if ZooKeeper's data was lost: "
                    "\"foliot cluster adopt\"",
                    found, wanted);
    }
    return code;
}

static int migrate(struct migration *m)
{
    int code = connect_once(m);

    if (code == 0) {
        // If we end in the middle of a step, the server must not go on with it and keep others out.
        // A server on another system than Linux cannot, and says so.
        (void)run_plain(m, "SET client_connection_check_interval = '1s'");
        // Freed when the connection ends, whatever happens.
        code = run_plain(m, "SELECT pg_advisory_lock(" LOCK_KEY ")");
    }
    if (code == 0) {
        code = run_plain(m, "SET client_min_messages = warning;"
                            "CREATE SCHEMA IF NOT EXISTS foliot;"
                            "CREATE SCHEMA IF NOT EXISTS foliot_data;"
                            "CREATE TABLE IF NOT EXISTS foliot_data.migration ("
                            " step integer PRIMARY KEY, name text NOT NULL,"
                            " checksum text NOT NULL,"
                            " applied timestamptz NOT NULL DEFAULT clock_timestamp())");
    }
    if (code == 0) {
        code = check_steps(m);
    }
    for (size_t i = 0; code == 0 && i < schema_pg_file_count; i++) {
        code = take_step(m, i + 1, &schema_pg_files[i]);
        if (code == 0 && i == 0) {
            // Before anything else is made in somebody else's database.
            code = check_cluster(m);
        }
    }
    return code;
}

int pg_migrate(const struct pg_migrate_options *options, char *errmsg, size_t errmsg_size)
{
    struct migration m = {
        .options = options,
        .errmsg = errmsg,
        .errmsg_size = errmsg_size,
    };
    int code;

    errmsg[0] = '\0';
    set_deadline(&m, options->limit_ms, PG_MIGRATE_MS_DEFAULT);
    code = migrate(&m);
    PQfinish(m.link);
    return code;
}

/* ---- reading ---- */

/* Longest list of shards: each has up to four digits and a comma. */
#define HELD_TEXT_BYTES (5 * SHARD_COUNT_MAX + 1)

static void read_held(const char *text, struct pg_cluster *out)
{
    out->held_count = 0;
    while (*text != '\0' && out->held_count < SHARD_COUNT_MAX) {
        char *end;

        out->held[out->held_count++] = (uint32_t)strtoul(text, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
}

static int read_cluster(struct migration *m, struct pg_cluster *out, char *held)
{
    char value[64];
    int code = connect_once(m);

    if (code == 0) {
        code = run(m, "SELECT to_regclass('foliot_data.cluster') IS NULL", 0, NULL, value,
                   sizeof(value));
    }
    if (code == 0 && value[0] == 't') {
        return fail(m, ERR_NOT_FOUND, "there is no schema of a Foliot cluster in it");
    }
    if (code == 0) {
        code = run(m, "SELECT id FROM foliot_data.cluster", 0, NULL, out->id, sizeof(out->id));
    }
    if (code == 0) {
        code = run(m, "SELECT shard_count FROM foliot_data.cluster", 0, NULL, value, sizeof(value));
        out->shard_count = (uint32_t)strtoul(value, NULL, 10);
    }
    if (code == 0) {
        code = run(m, "SELECT coalesce(max(epoch), 0) FROM foliot_data.shard", 0, NULL, value,
                   sizeof(value));
        out->epoch_max = strtoll(value, NULL, 10);
    }
    if (code == 0) {
        code = run(m, "SELECT string_agg(id::text, ',' ORDER BY id) FROM foliot_data.shard", 0,
                   NULL, held, HELD_TEXT_BYTES);
        read_held(held, out);
    }
    return code;
}

int pg_read_cluster(const struct pg_migrate_options *options, struct pg_cluster *out, char *errmsg,
                    size_t errmsg_size)
{
    struct migration m = {.options = options, .errmsg = errmsg, .errmsg_size = errmsg_size};
    char *held = mem_new(1, HELD_TEXT_BYTES);
    int code;

    errmsg[0] = '\0';
    if (held == NULL) {
        return fail(&m, ERR_NO_MEMORY, "out of memory");
    }
    set_deadline(&m, options->limit_ms, PG_MIGRATE_MS_DEFAULT);
    code = read_cluster(&m, out, held);
    PQfinish(m.link);
    mem_free(held);
    return code;
}
