/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything but batches and reads: bumps, queues, and the probe for a database that refused.
 */
#include "storage/sqlite_job.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/io/clock.h"

#include <string.h>

/* End a transaction: commit what went well; a verdict without a change is kept. */
static int finish(struct sqlite_db *db, int err, int verdict)
{
    if (err == 0 && verdict == 0) {
        return sqlite_db_commit(db);
    }
    sqlite_db_rollback(db);
    return err == 0 ? verdict : ERR_UNAVAILABLE;
}

/* --- bump ------------------------------------------------------------------------------------- */

static int raise_epoch(struct sqlite_db *db, const struct store_bump *bump, int *verdict)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_BUMP);
    int64_t changed = 0;
    int err;

    sqlite_bind_int(stmt, 1, bump->shard);
    sqlite_bind_int(stmt, 2, bump->epoch);
    sqlite_bind_text(stmt, 3, bump->instance == NULL ? "" : bump->instance);
    sqlite_bind_int(stmt, 4, clock_wall_ms());
    err = sqlite_db_run(db, stmt, &changed);
    *verdict = changed == 0 ? ERR_FENCED : 0;
    return err;
}

static int run_bump(struct sqlite_db *db, struct sqlite_job *job)
{
    const struct store_bump *bump = job->subject.bump;
    uint32_t lives_in = db->database_of == NULL ? 0 : db->database_of[bump->shard];
    int verdict = ERR_FENCED;
    int err = sqlite_db_begin(db);

    if (err == 0 && lives_in == db->index) {
        err = raise_epoch(db, bump, &verdict);
    }
    return finish(db, err, verdict);
}

static void answer_bump(struct sqlite_job *job)
{
    struct store_bump *bump = job->subject.bump;

    bump->result = job->result;
    bump->cb(bump);
}

const struct sqlite_job_type sqlite_bump_type = {
    .run = run_bump, .answer = answer_bump, .is_write = true};

/* --- queues ----------------------------------------------------------------------------------- */

/* One number of a statement's only row; untouched if it has none. */
static int ask(struct sqlite_db *db, enum sqlite_stmt which, int64_t *out)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, which);
    enum sqlite_step step = sqlite_db_step(db, stmt);

    while (step == SQLITE_STEP_ROW) {
        *out = sqlite_column(stmt, 0);
        step = sqlite_db_step(db, stmt);
    }
    return step == SQLITE_STEP_FAILED ? ERR_UNAVAILABLE : 0;
}

/* id and version of the queue of this name, 0 if there is none. */
static int find_queue(struct sqlite_db *db, const struct queue *queue, uint32_t *id,
                      uint32_t *version)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_QUEUE_FIND);
    enum sqlite_step step;

    *id = 0;
    *version = 0;
    sqlite_bind_text(stmt, 1, queue->tenant);
    sqlite_bind_text(stmt, 2, queue->name);
    step = sqlite_db_step(db, stmt);
    while (step == SQLITE_STEP_ROW) {
        *id = (uint32_t)sqlite_column(stmt, 0);
        *version = (uint32_t)sqlite_column(stmt, 1);
        step = sqlite_db_step(db, stmt);
    }
    return step == SQLITE_STEP_FAILED ? ERR_UNAVAILABLE : 0;
}

/* Parameters of both put statements: ?1 the id, then QUEUE_COLUMNS of sqlite_stmt.c. */
static void bind_queue(struct sqlite3_stmt *stmt, const struct queue *queue)
{
    const int64_t numbers[] = {
        (int64_t)queue->target_kind,
        queue->at_most_once,
        queue->concurrency_max,
        queue->attempt_timeout_ms,
        queue->key_memory_ms,
        queue->retry.initial_ms,
        queue->retry.max_ms,
        queue->retry.age_max_ms,
        queue->retry.multiplier_permille,
        queue->retry.jitter_permille,
        queue->retry.failures_max,
        queue->retry.unknowns_max,
        queue->is_paused,
        queue->paused_until_ms,
        queue->is_draining,
        queue->result_memory_ms,
        queue->expire_after_ms,
        (int64_t)queue->order_policy,
        queue->order_failures,
    };

    sqlite_bind_int(stmt, 1, queue->id);
    sqlite_bind_int(stmt, 2, queue->version);
    sqlite_bind_text(stmt, 3, queue->target);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        sqlite_bind_int(stmt, 4 + (int)i, numbers[i]);
    }
}

static int create_queue(struct sqlite_db *db, struct queue *queue, int *verdict)
{
    struct sqlite3_stmt *stmt;
    int64_t count = 0;
    int64_t number = 0;
    int err = ask(db, SQLITE_STMT_QUEUE_COUNT, &count);

    if (err == 0 && count >= QUEUE_COUNT_MAX) {
        *verdict = ERR_FULL;
        return 0;
    }
    if (err == 0) {
        err = ask(db, SQLITE_STMT_QUEUE_NUMBER, &number);
    }
    if (err != 0) {
        return err;
    }
    queue->id = (uint32_t)number;
    queue->version = 1;
    stmt = sqlite_db_stmt(db, SQLITE_STMT_QUEUE_CREATE);
    bind_queue(stmt, queue);
    sqlite_bind_text(stmt, 23, queue->tenant);
    sqlite_bind_text(stmt, 24, queue->name);
    return sqlite_db_run(db, stmt, NULL);
}

static int replace_queue(struct sqlite_db *db, struct queue *queue, uint32_t id, uint32_t version)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_QUEUE_REPLACE);

    queue->id = id;
    queue->version = version + 1;
    bind_queue(stmt, queue);
    return sqlite_db_run(db, stmt, NULL);
}

static int put_queue(struct sqlite_db *db, struct store_queue_put *put, int *verdict)
{
    uint32_t id;
    uint32_t version;
    int err = find_queue(db, &put->queue, &id, &version);

    if (err != 0) {
        return err;
    }
    if (put->expected_version == 0) {
        *verdict = id != 0 ? ERR_EXISTS : 0;
        return id != 0 ? 0 : create_queue(db, &put->queue, verdict);
    }
    if (id == 0 || version != put->expected_version) {
        *verdict = id == 0 ? ERR_NOT_FOUND : ERR_CONFLICT;
        return 0;
    }
    return replace_queue(db, &put->queue, id, version);
}

static int run_put(struct sqlite_db *db, struct sqlite_job *job)
{
    int verdict = 0;
    int err = sqlite_db_begin(db);

    if (err == 0) {
        err = put_queue(db, job->subject.put, &verdict);
    }
    return finish(db, err, verdict);
}

static void answer_put(struct sqlite_job *job)
{
    struct store_queue_put *put = job->subject.put;

    put->result = job->result;
    put->cb(put);
}

const struct sqlite_job_type sqlite_queue_put_type = {
    .run = run_put, .answer = answer_put, .is_write = true};

static int drop_queue(struct sqlite_db *db, const struct store_queue_drop *drop, int *verdict)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_QUEUE_VERSION);
    int64_t version = 0;
    enum sqlite_step step;

    sqlite_bind_int(stmt, 1, drop->id);
    while ((step = sqlite_db_step(db, stmt)) == SQLITE_STEP_ROW) {
        version = sqlite_column(stmt, 0);
    }
    if (step == SQLITE_STEP_FAILED) {
        return ERR_UNAVAILABLE;
    }
    if (version == 0 || version != drop->expected_version) {
        *verdict = version == 0 ? ERR_NOT_FOUND : ERR_CONFLICT;
        return 0;
    }
    stmt = sqlite_db_stmt(db, SQLITE_STMT_QUEUE_DROP);
    sqlite_bind_int(stmt, 1, drop->id);
    return sqlite_db_run(db, stmt, NULL);
}

static int run_drop(struct sqlite_db *db, struct sqlite_job *job)
{
    int verdict = 0;
    int err = sqlite_db_begin(db);

    if (err == 0) {
        err = drop_queue(db, job->subject.drop, &verdict);
    }
    return finish(db, err, verdict);
}

static void answer_drop(struct sqlite_job *job)
{
    struct store_queue_drop *drop = job->subject.drop;

    drop->result = job->result;
    drop->cb(drop);
}

const struct sqlite_job_type sqlite_queue_drop_type = {
    .run = run_drop, .answer = answer_drop, .is_write = true};

/* Columns: id, then QUEUE_COLUMNS of sqlite_stmt.c, then the names. */
static void take_queue(struct sqlite3_stmt *stmt, struct queue *queue)
{
    queue->id = (uint32_t)sqlite_column(stmt, 0);
    queue->version = (uint32_t)sqlite_column(stmt, 1);
    sqlite_column_text(stmt, 2, queue->target, sizeof(queue->target));
    queue->target_kind = (enum target_kind)sqlite_column(stmt, 3);
    queue->at_most_once = sqlite_column(stmt, 4) != 0;
    queue->concurrency_max = (uint32_t)sqlite_column(stmt, 5);
    queue->attempt_timeout_ms = sqlite_column(stmt, 6);
    queue->key_memory_ms = sqlite_column(stmt, 7);
    queue->retry.initial_ms = sqlite_column(stmt, 8);
    queue->retry.max_ms = sqlite_column(stmt, 9);
    queue->retry.age_max_ms = sqlite_column(stmt, 10);
    queue->retry.multiplier_permille = (uint32_t)sqlite_column(stmt, 11);
    queue->retry.jitter_permille = (uint32_t)sqlite_column(stmt, 12);
    queue->retry.failures_max = (uint32_t)sqlite_column(stmt, 13);
    queue->retry.unknowns_max = (uint32_t)sqlite_column(stmt, 14);
    queue->is_paused = sqlite_column(stmt, 15) != 0;
    queue->paused_until_ms = sqlite_column(stmt, 16);
    queue->is_draining = sqlite_column(stmt, 17) != 0;
    queue->result_memory_ms = sqlite_column(stmt, 18);
    queue->expire_after_ms = sqlite_column(stmt, 19);
    queue->order_policy = (enum order_policy)sqlite_column(stmt, 20);
    queue->order_failures = (uint32_t)sqlite_column(stmt, 21);
    sqlite_column_text(stmt, 22, queue->tenant, sizeof(queue->tenant));
    sqlite_column_text(stmt, 23, queue->name, sizeof(queue->name));
}

static int run_list(struct sqlite_db *db, struct sqlite_job *job)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_QUEUE_LIST);
    enum sqlite_step step;

    while ((step = sqlite_db_step(db, stmt)) == SQLITE_STEP_ROW) {
        struct queue *queue = sqlite_lent_add(&job->lent, sizeof(*queue));

        if (queue == NULL) {
            return ERR_UNAVAILABLE;
        }
        take_queue(stmt, queue);
    }
    return step == SQLITE_STEP_FAILED ? ERR_UNAVAILABLE : 0;
}

static void answer_list(struct sqlite_job *job)
{
    struct store_queue_list *list = job->subject.list;

    list->result = job->result;
    list->rows = job->result == 0 ? job->lent.items : NULL;
    list->row_count = job->result == 0 ? job->lent.count : 0;
    list->cb(list);
}

const struct sqlite_job_type sqlite_queue_list_type = {.run = run_list, .answer = answer_list};

/* --- probe ------------------------------------------------------------------------------------ */

static int run_probe(struct sqlite_db *db, struct sqlite_job *job)
{
    int err = sqlite_db_begin(db);

    (void)job;
    if (err == 0) {
        err = sqlite_db_run(db, sqlite_db_stmt(db, SQLITE_STMT_PROBE), NULL);
    }
    return finish(db, err, 0);
}

static void answer_probe(struct sqlite_job *job)
{
    (void)job;
}

const struct sqlite_job_type sqlite_probe_type = {
    .run = run_probe, .answer = answer_probe, .is_write = true};
