/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a database has gone towards the end of its multixact ids, for fences take share locks,
 * and several lockers of one row use them up; and how old the oldest snapshot is that vacuum must
 * spare, for dead rows pile up behind it. Asked for now and then. Nothing depends on the answer but
 * figures for people. source: RELIABILITY H-2c, P-14
 */
#ifndef FOLIOT_STORAGE_PG_AGE_H
#define FOLIOT_STORAGE_PG_AGE_H

#include "lib/io/loop.h"
#include "storage/pg_conn.h"
#include "storage/store_pg.h"

/* Embedded; filled in by pg_age_start(). */
struct pg_age {
    struct pg_job job;
    struct pg_conn *conn;
    struct loop_timer timer;
    span_ms every_ms;
    struct store_pg_stats *stats;
    void (*on_begun)(void *ctx);    /* a job was put on the connection */
    void (*on_answered)(void *ctx); /* it is over */
    void *ctx;
};

/*
 * Ask soon and then every so often; the answer is in stats.
 *
 * shape: conn, stats, every_ms and the callbacks are set, the rest is zero.
 */
void pg_age_start(struct pg_age *age, struct loop *loop);

/* Ask no more. What is on the connection still ends. */
void pg_age_stop(struct pg_age *age);

#endif
