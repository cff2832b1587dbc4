/* SPDX-License-Identifier: Apache-2.0
 *
 *   update ──▶ done: one row raised, or none (superseded)
 *     ▲  │
 *     │  └─ lock timeout ─▶ update again, and while it waits: end its blockers
 *     └──────────┘
 *
 * The next bump on the connection must not start while a search for blockers is out: it would find
 * those of a bump that has not waited for its time yet, or that is superseded.
 */
#include "storage/pg_bump.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"

#include <string.h>

/* A repeated update has reached its lock by then. */
#define LOOK_MS 20

#define LOCK_NOT_AVAILABLE "55P03"

struct pg_bump {
    struct pg_job job;
    struct pg_job search; /* on the killer */
    const struct pg_bump_env *env;
    struct store_bump *bump;
    struct loop_timer timer; /* starts the search */
    boot_us started;
    int backend; /* whose blockers are searched for */
    int result;
    bool is_blocked;   /* the last try met its lock timeout */
    bool is_decided;   /* result is what the database said */
    bool is_searching; /* `search` is out */
    bool is_over;      /* answered */
};

static struct pg_bump *bump_of(struct pg_job *job)
{
    return CONTAINER_OF(job, struct pg_bump, job);
}

static struct pg_bump *searcher_of(struct pg_job *job)
{
    return CONTAINER_OF(job, struct pg_bump, search);
}

static void free_if_over(struct pg_bump *self)
{
    if (self->is_over && !self->is_searching) {
        mem_free(self);
    }
}

/* --- the search for blockers ------------------------------------------------------------------ */

static void search_send(struct pg_job *job, struct pg_conn *conn)
{
    struct pg_bump *self = searcher_of(job);
    struct pg_params params;

    pg_params_init(&params);
    pg_params_add_i32(&params, self->is_over ? 0 : self->backend);
    pg_params_add_i32(&params, self->is_over ? -1 : (int32_t)self->bump->shard);
    pg_params_add_i64(&params, self->is_over ? 0 : self->bump->epoch);
    pg_conn_exec(conn, PG_STMT_END_BLOCKERS, 0, &params);
    pg_conn_sync(conn);
}

static void search_result(struct pg_job *job, struct pg_conn *conn, PGresult *result)
{
    struct pg_bump *self = searcher_of(job);

    (void)conn;
    if (pg_result_ok(result)) {
        self->env->stats->backends_ended += (uint64_t)pg_value_i64(result, 0, 0);
    }
}

static bool search_synced(struct pg_job *job, struct pg_conn *conn)
{
    (void)job;
    (void)conn;
    return true;
}

static void search_done(struct pg_job *job)
{
    struct pg_bump *self = searcher_of(job);
    const struct pg_bump_env *env = self->env;

    self->is_searching = false;
    free_if_over(self);
    env->on_answered(env->ctx);
}

static void search_lost(struct pg_job *job, bool was_sent)
{
    (void)was_sent;
    search_done(job);
}

static const struct pg_job_type search_type = {
    .send = search_send,
    .result = search_result,
    .synced = search_synced,
    .done = search_done,
    .lost = search_lost,
};

static void on_look(struct loop_timer *timer, void *ctx)
{
    struct pg_bump *self = ctx;

    (void)timer;
    if (self->is_searching) {
        return;
    }
    self->is_searching = true;
    self->env->on_begun(self->env->ctx);
    pg_conn_submit(self->env->killer, &self->search);
}

/* --- the update ------------------------------------------------------------------------------- */

static void bump_send(struct pg_job *job, struct pg_conn *conn)
{
    struct pg_bump *self = bump_of(job);
    struct pg_params params;

    self->is_blocked = false;
    pg_params_init(&params);
    pg_params_add_i32(&params, (int32_t)self->bump->shard);
    pg_params_add_i64(&params, self->bump->epoch);
    pg_params_add_bytes(&params,
                        slice_of(self->bump->instance == NULL ? "" : self->bump->instance));
    pg_conn_exec(conn, PG_STMT_BUMP, 0, &params);
    pg_conn_sync(conn);
}

static void bump_result(struct pg_job *job, struct pg_conn *conn, PGresult *result)
{
    struct pg_bump *self = bump_of(job);

    (void)conn;
    if (self->is_decided) {
        return;
    }
    if (!pg_result_ok(result)) {
        self->is_blocked = strcmp(pg_result_state(result), LOCK_NOT_AVAILABLE) == 0;
        self->result = ERR_UNAVAILABLE;
        return;
    }
    self->result = PQntuples(result) == 1 ? 0 : ERR_FENCED;
    if (PQntuples(result) == 1) {
        self->env->on_clock(self->env->ctx, job->sent, clock_boot_us(), pg_value_us(result, 0, 0));
    }
}

static bool bump_synced(struct pg_job *job, struct pg_conn *conn)
{
    struct pg_bump *self = bump_of(job);
    boot_us now = clock_boot_us();

    if (self->is_blocked && now - self->started < self->env->limit_ms * US_PER_MS) {
        self->env->stats->bumps_blocked++;
        self->backend = pg_conn_backend(conn);
        bump_send(job, conn);
        loop_timer_start_in(&self->timer, LOOK_MS);
        return false;
    }
    // Here the transaction has ended, for an update without a block ends at the sync.
    if (self->result == 0 && pg_conn_sync_cancelled(conn)) {
        self->result = ERR_OUTCOME_UNKNOWN;
    }
    self->is_decided = true;
    loop_timer_stop(&self->timer);
    if (self->is_searching) {
        // Keep the connection busy with nothing until the search is over.
        pg_conn_exec(conn, PG_STMT_CLOCK, 0, NULL);
        pg_conn_sync(conn);
        return false;
    }
    return true;
}

static void answer(struct pg_bump *self, int result)
{
    const struct pg_bump_env *env = self->env;

    loop_timer_stop(&self->timer);
    env->stats->bumps += result == 0;
    self->bump->result = result;
    self->is_over = true;
    self->bump->cb(self->bump);
    free_if_over(self);
    env->on_answered(env->ctx);
}

static void bump_done(struct pg_job *job)
{
    answer(bump_of(job), bump_of(job)->result);
}

static void bump_lost(struct pg_job *job, bool was_sent)
{
    struct pg_bump *self = bump_of(job);

    if (self->is_decided) {
        answer(self, self->result);
    } else {
        answer(self, was_sent ? ERR_OUTCOME_UNKNOWN : ERR_UNAVAILABLE);
    }
}

static const struct pg_job_type bump_type = {
    .send = bump_send,
    .result = bump_result,
    .synced = bump_synced,
    .done = bump_done,
    .lost = bump_lost,
};

int pg_bump_start(struct pg_conn *conn, const struct pg_bump_env *env, struct store_bump *bump)
{
    struct pg_bump *self = mem_new(1, sizeof(*self));

    if (self == NULL) {
        return ERR_NO_MEMORY;
    }
    self->job.type = &bump_type;
    self->search.type = &search_type;
    self->env = env;
    self->bump = bump;
    self->started = clock_boot_us();
    loop_timer_init(&self->timer, env->loop, on_look, self);
    pg_conn_submit(conn, &self->job);
    return 0;
}
