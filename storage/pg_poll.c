/* SPDX-License-Identifier: Apache-2.0
 *
 * Polls of an idle writer: the database's clock, and whether it can still be written to.
 */
#include "storage/pg_write.h"

#include "lib/base/err.h"
#include "lib/io/clock.h"

static struct pg_writer *poller_of(struct pg_job *job)
{
    return CONTAINER_OF(job, struct pg_writer, poll);
}

static void poll_send(struct pg_job *job, struct pg_conn *conn)
{
    (void)job;
    pg_conn_exec(conn, PG_STMT_CLOCK, 0, NULL);
    pg_conn_sync(conn);
}

static void poll_result(struct pg_job *job, struct pg_conn *conn, PGresult *result)
{
    struct pg_writer *writer = poller_of(job);

    if (!pg_result_ok(result)) {
        return;
    }
    if (pg_value_bool(result, 0, 1)) {
        pg_conn_break(conn, "the server has become read-only");
        return;
    }
    writer->options.on_clock(writer->options.ctx, job->sent, clock_boot_us(),
                             pg_value_us(result, 0, 0));
    writer->poll_outcome = 0;
}

static bool poll_synced(struct pg_job *job, struct pg_conn *conn)
{
    (void)job;
    (void)conn;
    return true;
}

static void poll_done(struct pg_job *job)
{
    struct pg_writer *writer = poller_of(job);

    writer->is_polling = false;
    writer->options.on_poll(writer->options.ctx, writer->poll_outcome);
}

static void poll_lost(struct pg_job *job, bool was_sent)
{
    (void)was_sent;
    poll_done(job);
}

static const struct pg_job_type poll_type = {
    .send = poll_send,
    .result = poll_result,
    .synced = poll_synced,
    .done = poll_done,
    .lost = poll_lost,
};

void pg_writer_poll_init(struct pg_writer *writer)
{
    writer->poll.type = &poll_type;
}

void pg_writer_poll(struct pg_writer *writer)
{
    if (!writer->is_polling && writer->batch == NULL && writer->conn.state == PG_CONN_READY) {
        writer->is_polling = true;
        writer->poll_outcome = ERR_UNAVAILABLE;
        pg_conn_submit(&writer->conn, &writer->poll);
    }
}
