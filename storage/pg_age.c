/* SPDX-License-Identifier: Apache-2.0
 *
 * One question at a time; the next is planned when the answer, or none, has come.
 */
#include "storage/pg_age.h"

/* The first question, when the connections will have been made. */
#define FIRST_MS 1000

static struct pg_age *age_of(struct pg_job *job)
{
    return CONTAINER_OF(job, struct pg_age, job);
}

static void age_send(struct pg_job *job, struct pg_conn *conn)
{
    (void)job;
    pg_conn_exec(conn, PG_STMT_AGE, 0, NULL);
    pg_conn_sync(conn);
}

static void age_result(struct pg_job *job, struct pg_conn *conn, PGresult *result)
{
    (void)conn;
    if (pg_result_ok(result)) {
        age_of(job)->stats->multixact_age = (uint64_t)pg_value_i64(result, 0, 0);
        age_of(job)->stats->snapshot_age = (uint64_t)pg_value_i64(result, 0, 1);
    }
}

static bool age_synced(struct pg_job *job, struct pg_conn *conn)
{
    (void)job;
    (void)conn;
    return true;
}

static void age_done(struct pg_job *job)
{
    struct pg_age *age = age_of(job);

    loop_timer_start_in(&age->timer, age->every_ms);
    age->on_answered(age->ctx);
}

static void age_lost(struct pg_job *job, bool was_sent)
{
    (void)was_sent;
    age_done(job);
}

static const struct pg_job_type age_type = {
    .send = age_send,
    .result = age_result,
    .synced = age_synced,
    .done = age_done,
    .lost = age_lost,
};

static void on_timer(struct loop_timer *timer, void *ctx)
{
    struct pg_age *age = ctx;

    (void)timer;
    age->on_begun(age->ctx);
    pg_conn_submit(age->conn, &age->job);
}

void pg_age_start(struct pg_age *age, struct loop *loop)
{
    age->job.type = &age_type;
    loop_timer_init(&age->timer, loop, on_timer, age);
    loop_timer_start_in(&age->timer, time_min(age->every_ms, FIRST_MS));
}

void pg_age_stop(struct pg_age *age)
{
    loop_timer_stop(&age->timer);
}
