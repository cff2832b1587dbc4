/* SPDX-License-Identifier: Apache-2.0
 *
 * Raise a shard's epoch: one row, one transaction, never held up by a frozen owner. The update runs
 * with a lock timeout; when it has passed, whoever blocks is terminated over a second connection,
 * unless the row's epoch says that we are superseded ourselves. source: DESIGN 7, RELIABILITY H-2d
 */
#ifndef FOLIOT_STORAGE_PG_BUMP_H
#define FOLIOT_STORAGE_PG_BUMP_H

#include "storage/pg_conn.h"
#include "storage/store_pg.h"

struct pg_bump_env {
    struct loop *loop;
    struct pg_conn *killer; /* looks for blockers and ends them */
    span_ms limit_ms;       /* for all tries together */
    struct store_pg_stats *stats;
    void (*on_clock)(void *ctx, boot_us sent, boot_us received, int64_t clock_us);
    void (*on_begun)(void *ctx);    /* a job was put on the killer */
    void (*on_answered)(void *ctx); /* the bump, or such a job, is over */
    void *ctx;
};

/* Start a bump on a connection that runs one job at a time; `env` is kept. errors: ERR_NO_MEMORY.
 */
MUST_USE int pg_bump_start(struct pg_conn *conn, const struct pg_bump_env *env,
                           struct store_bump *bump);

/* Settings of a connection for bumps. source: DESIGN 7 */
#define PG_BUMP_SETTINGS ", set_config('lock_timeout', '300ms', false)"

#endif
