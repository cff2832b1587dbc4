/* SPDX-License-Identifier: Apache-2.0
 *
 * One PostgreSQL connection on the loop, in pipeline mode: connects, greets, reconnects with
 * back-off, prepares statements when they are first used, runs jobs in the order of submission, and
 * closes its socket when a job's own deadline passes. It knows what a lost connection means for a
 * job (it was or was not sent), not what the job is about.
 *
 *   WAITING ──timer──▶ RESOLVING ──▶ CONNECTING ──▶ GREETING ──▶ READY
 *      ▲                   │              │              │          │
 *      └───── back-off ────┴──────────────┴──────────────┴──────────┘   lost, deadline, refused
 */
#ifndef FOLIOT_STORAGE_PG_CONN_H
#define FOLIOT_STORAGE_PG_CONN_H

#include "storage/pg_array.h"
#include "storage/pg_host.h"
#include "storage/pg_stmt.h"

#include "lib/io/loop.h"

#include <libpq-fe.h>

struct pg_conn;
struct pg_job;

/* What a job is: functions by kind of job. All run on the loop, none inside pg_conn_submit. */
struct pg_job_type {
    /* Queue the commands, ending with pg_conn_sync. */
    void (*send)(struct pg_job *job, struct pg_conn *conn);
    /*
     * The result of one command of pg_conn_exec, in order: rows, done, error or skipped. Borrowed;
     * pg_conn_keep takes it over.
     */
    void (*result)(struct pg_job *job, struct pg_conn *conn, PGresult *result);
    /* A sync was reached. True: the job is over; false: it has sent more, up to another sync. */
    bool (*synced)(struct pg_job *job, struct pg_conn *conn);
    /* The job is over and belongs to its owner again; called after synced has said true. */
    void (*done)(struct pg_job *job);
    /* The job is over without an end: the connection was lost, or its deadline passed. */
    void (*lost)(struct pg_job *job, bool was_sent);
};

/* Embedded in what waits for it; must not move while submitted. */
struct pg_job {
    struct list link;
    const struct pg_job_type *type;
    boot_us submitted;
    boot_us sent; /* when the segment that is out was queued */
};

/* What a server says of itself when a connection is made. */
struct pg_hello {
    uint64_t system_id;
    uint32_t timeline;
    boot_us sent;
    boot_us received;
    int64_t clock_us; /* since 1970 */
};

struct pg_conn_options {
    struct loop *loop;
    struct resolver *resolver; /* kept */
    const char *conninfo;      /* kept */
    const char *cluster_id;    /* kept: what the database must say */
    const char *settings;      /* kept: SQL expression list of set_config calls, or "" */
    char name[64];             /* application_name */
    span_ms connect_ms;
    span_ms command_ms;
    uint32_t in_flight_max; /* jobs sent at a time */
    bool allow_async_commit;
    /* Called when a connection has greeted, before any job is sent. */
    void (*on_hello)(void *ctx, struct pg_conn *conn, const struct pg_hello *hello);
    /* The connection is gone, or could not be made; the reason is borrowed. */
    void (*on_lost)(void *ctx, struct pg_conn *conn, const char *reason);
    /* Nothing more will come: pg_conn_close is complete. */
    void (*on_closed)(void *ctx, struct pg_conn *conn);
    void *ctx;
};

enum pg_conn_state {
    PG_CONN_WAITING = 1,
    PG_CONN_RESOLVING,
    PG_CONN_CONNECTING,
    PG_CONN_GREETING,
    PG_CONN_READY,
    PG_CONN_CLOSED
};

struct pg_expect;

/*
 * 1. link is not NULL in CONNECTING, GREETING and READY, and NULL otherwise.
 * 2. Jobs in `flight` have been sent and not come to their end, in order; those in `waiting` have
 *    not been sent.
 */
struct pg_conn {
    struct pg_conn_options options;
    enum pg_conn_state state;
    struct pg_hosts hosts;
    PGconn *link;
    struct loop_fd watcher;
    struct loop_timer timer;  /* back-off, connect deadline, or deadline of the oldest job */
    struct loop_timer expiry; /* deadline of the job that has waited longest without being sent */
    struct loop_task task;    /* sends what was submitted in this turn */
    struct list waiting;
    struct list flight;
    uint32_t flight_count;
    uint32_t waiting_count;
    boot_us progress;         /* when the last segment ended */
    struct pg_expect *expect; /* ring of what replies are due */
    size_t expect_capacity;
    size_t expect_first;
    size_t expect_count;
    uint8_t *prepared; /* bit per statement and shard */
    struct pg_hello hello;
    uint32_t failure_count; /* connects in a row that failed */
    uint32_t first_host;    /* where the next connect begins: 0 unless connecting has failed */
    bool is_broken;         /* an error while sending: lost at the next turn of the pump */
    bool sync_cancelled;    /* a commit was not confirmed by the standby (RELIABILITY P-4) */
    PGresult *kept;         /* the result being dispatched, until somebody keeps it */
    char reason[256];
};

/* Prepare a connection and start connecting. errors: ERR_NO_MEMORY, ERR_INVALID (conninfo). */
MUST_USE int pg_conn_open(struct pg_conn *conn, const struct pg_conn_options *options);

/* Lose what is left, then on_closed, later on the loop; memory may go after it. */
void pg_conn_close(struct pg_conn *conn);

/* Add a job at the end of the line. It ends by done or lost, later. shape: not closed. */
void pg_conn_submit(struct pg_conn *conn, struct pg_job *job);

/* Take a job back that has not been sent. Neither done nor lost follows. */
void pg_conn_withdraw(struct pg_conn *conn, struct pg_job *job);

/* Jobs submitted and not over. */
uint32_t pg_conn_load(const struct pg_conn *conn);

/* Close the socket now: every job that was sent is lost. For what must not be believed. */
void pg_conn_break(struct pg_conn *conn, const char *reason);

/* Process id of the backend. shape: READY. */
int pg_conn_backend(const struct pg_conn *conn);

/* True if the commit that just ended was not confirmed by a standby as configured. */
bool pg_conn_sync_cancelled(const struct pg_conn *conn);

/* --- for jobs, inside send and synced --------------------------------------------------------- */

/* Values of a statement's parameters, all binary. */
struct pg_params {
    int count;
    const char *values[PG_PARAM_COUNT_MAX];
    int lengths[PG_PARAM_COUNT_MAX];
    uint8_t small[PG_PARAM_COUNT_MAX][8]; /* room for integers */
    bool failed;                          /* an array was too large */
};

void pg_params_init(struct pg_params *params);
void pg_params_add_i32(struct pg_params *params, int32_t value);
void pg_params_add_i64(struct pg_params *params, int64_t value);
void pg_params_add_bytes(struct pg_params *params, struct slice bytes);
void pg_params_add_array(struct pg_params *params, struct pg_array *array);

/* Queue a statement; the values are copied. A failure breaks the connection, later. */
void pg_conn_exec(struct pg_conn *conn, enum pg_stmt stmt, uint32_t shard,
                  const struct pg_params *params);

/* End a segment: what failed before it does not skip what comes after it. */
void pg_conn_sync(struct pg_conn *conn);

/* Keep the result that is being dispatched; freed by PQclear. */
PGresult *pg_conn_keep(struct pg_conn *conn);

/* --- reading results -------------------------------------------------------------------------- */

/* True for rows or a done command. */
bool pg_result_ok(const PGresult *result);

/* SQLSTATE of an error, "" if there is none. */
const char *pg_result_state(const PGresult *result);

/* A value as bytes; empty if null. */
struct slice pg_value(const PGresult *result, int row, int column);
int32_t pg_value_i32(const PGresult *result, int row, int column);
int64_t pg_value_i64(const PGresult *result, int row, int column);
int16_t pg_value_i16(const PGresult *result, int row, int column);
bool pg_value_bool(const PGresult *result, int row, int column);

/* A timestamptz as microseconds since 1970. */
int64_t pg_value_us(const PGresult *result, int row, int column);

#endif
