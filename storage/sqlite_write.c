/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch as one transaction: the fence, inserts, the other operations, claim rows. Nobody else
 * writes, so what is found stays so until the commit.
 */
#include "storage/sqlite_job.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/io/clock.h"

#include <string.h>

/* Rows of a kind past their time that one batch deletes; as long as it finds so many, later ones go
 * on with it, at least so far apart. */
#define TIDY_ROW_COUNT 2000
#define TIDY_US        (100 * US_PER_MS)

/* What the first four parameters of a statement on one task are. */
static void bind_task(struct sqlite3_stmt *stmt, const struct store_op *op)
{
    sqlite_bind_int(stmt, 1, op->shard);
    sqlite_bind_int(stmt, 2, op->task.id.seq);
    sqlite_bind_int(stmt, 3, op->task.id.slot);
    sqlite_bind_int(stmt, 4, op->expected_attempt);
}

/* --- keys ------------------------------------------------------------------------------------- */

static void bind_key(struct sqlite3_stmt *stmt, uint32_t shard, uint32_t queue, struct slice key)
{
    sqlite_bind_int(stmt, 1, shard);
    sqlite_bind_int(stmt, 2, queue);
    sqlite_bind_bytes(stmt, 3, key);
}

/* Is the key free for the insert or redrive? op->result is 0 or ERR_EXISTS. */
static int judge_key(struct sqlite_db *db, struct store_op *op)
{
    int64_t from = op->kind == STORE_REDRIVE ? op->task.id.seq : op->key_replaces.seq;
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_KEY_FIND);
    struct task_id holder = {0};
    bool is_past = false;
    enum sqlite_step step;

    op->result = 0;
    bind_key(stmt, op->shard, op->task.queue, op->task.key);
    step = sqlite_db_step(db, stmt);
    if (step == SQLITE_STEP_ROW) {
        holder = (struct task_id){.seq = sqlite_column(stmt, 0),
                                  .slot = (uint16_t)sqlite_column(stmt, 1)};
        is_past = !sqlite_column_is_null(stmt, 2) && sqlite_column(stmt, 2) <= op->now_ms;
        step = sqlite_db_step(db, stmt);
    }
    if (step == SQLITE_STEP_FAILED) {
        return ERR_UNAVAILABLE;
    }
    if (holder.seq != 0 && !is_past && (from == 0 || from != holder.seq)) {
        op->existing = holder;
        op->result = ERR_EXISTS;
    }
    return 0;
}

static int take_key(struct sqlite_db *db, const struct store_op *op)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_KEY_TAKE);

    bind_key(stmt, op->shard, op->task.queue, op->task.key);
    sqlite_bind_int(stmt, 4, op->task.id.seq);
    sqlite_bind_int(stmt, 5, op->task.id.slot);
    return sqlite_db_run(db, stmt, NULL);
}

/* The key of a task that has ended, if its row still names the task. */
static int end_key(struct sqlite_db *db, const struct store_op *op, uint32_t queue,
                   struct slice key)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_KEY_END);

    bind_key(stmt, op->shard, queue, key);
    sqlite_bind_int(stmt, 4, op->task.id.seq);
    sqlite_bind_int(stmt, 5, op->task.id.slot);
    sqlite_bind_int(stmt, 6, op->key_until_ms);
    return sqlite_db_run(db, stmt, NULL);
}

/* --- operations: each sets op->result, and fails only if the transaction cannot go on ----------
 */

/* A statement that matches the operation's row, or does not. */
static int run_match(struct sqlite_db *db, struct sqlite3_stmt *stmt, struct store_op *op)
{
    int64_t changed = 0;
    int err = sqlite_db_run(db, stmt, &changed);

    if (err == 0) {
        op->result = changed == 0 ? ERR_NOT_FOUND : 0;
    }
    return err;
}

static int insert_row(struct sqlite_db *db, struct store_op *op)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_INSERT);
    const struct task *task = &op->task;
    int64_t changed = 0;
    int err;

    bind_task(stmt, op);
    sqlite_bind_int(stmt, 4, task->queue);
    sqlite_bind_int(stmt, 5, task->attempt);
    sqlite_bind_int(stmt, 6, task->failures);
    sqlite_bind_int(stmt, 7, task->unknowns);
    sqlite_bind_int(stmt, 8, task->due_ms);
    sqlite_bind_int(stmt, 9, due_bucket(task->due_ms));
    sqlite_bind_int(stmt, 10, task->created_ms);
    sqlite_bind_int(stmt, 11, task->expire_ms);
    sqlite_bind_bytes_or_null(stmt, 12, task->key);
    sqlite_bind_bytes_or_null(stmt, 13, task->tags);
    sqlite_bind_bytes(stmt, 14, task->payload);
    sqlite_bind_bytes_or_null(stmt, 15, task->order_key);
    sqlite_bind_int(stmt, 16, task->order_key.len > 0 ? task->order_ms : 0);
    err = sqlite_db_run(db, stmt, &changed);
    if (err == 0) {
        op->result = changed == 0 ? ERR_INVALID : 0;
    }
    return err;
}

static int run_insert(struct sqlite_db *db, struct store_op *op)
{
    int err = 0;

    op->result = 0;
    if (op->task.key.len > 0) {
        err = judge_key(db, op);
    }
    if (err == 0 && op->result == 0) {
        err = insert_row(db, op);
    }
    if (err == 0 && op->result == 0 && op->task.key.len > 0) {
        err = take_key(db, op);
    }
    return err;
}

/* Delete a row that may have a key. */
static int delete_keyed(struct sqlite_db *db, struct store_op *op)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_DELETE);
    uint8_t bytes[STORED_KEY_BYTES_MAX];
    struct slice key = {bytes, 0};
    uint32_t queue = 0;
    enum sqlite_step step;

    bind_task(stmt, op);
    op->result = ERR_NOT_FOUND;
    step = sqlite_db_step(db, stmt);
    if (step == SQLITE_STEP_ROW) {
        struct slice found = sqlite_column_bytes(stmt, 1);

        REQUIRE(found.len <= sizeof(bytes));
        queue = (uint32_t)sqlite_column(stmt, 0);
        key.len = found.len;
        if (found.len > 0) {
            memcpy(bytes, found.data, found.len);
        }
        op->result = 0;
        step = sqlite_db_step(db, stmt);
    }
    if (step == SQLITE_STEP_FAILED) {
        return ERR_UNAVAILABLE;
    }
    return key.len > 0 ? end_key(db, op, queue, key) : 0;
}

/* A statement that copies the row to where it is kept, then the row goes. */
static int keep_row(struct sqlite_db *db, struct sqlite3_stmt *stmt, struct store_op *op)
{
    int err;

    bind_task(stmt, op);
    sqlite_bind_int(stmt, 5, op->attempt);
    sqlite_bind_int(stmt, 6, op->task.failures);
    sqlite_bind_int(stmt, 7, op->now_ms);
    err = run_match(db, stmt, op);
    return err == 0 && op->result == 0 ? delete_keyed(db, op) : err;
}

static int run_delete(struct sqlite_db *db, struct store_op *op)
{
    struct sqlite3_stmt *stmt;

    if (op->keep_until_ms > 0) {
        stmt = sqlite_db_stmt(db, SQLITE_STMT_KEEP);
        sqlite_bind_int(stmt, 8, op->keep_until_ms);
        sqlite_bind_int(stmt, 9, (int64_t)op->end);
        sqlite_bind_bytes(stmt, 10, op->response);
        return keep_row(db, stmt, op);
    }
    if (!op->is_keyless) {
        return delete_keyed(db, op);
    }
    stmt = sqlite_db_stmt(db, SQLITE_STMT_DELETE_KEYLESS);
    bind_task(stmt, op);
    return run_match(db, stmt, op);
}

static int run_dead(struct sqlite_db *db, struct store_op *op)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_BURY);

    sqlite_bind_bytes(stmt, 8, op->error_text);
    return keep_row(db, stmt, op);
}

/* Does a statement that only looks find the operation's row? */
static int run_look(struct sqlite_db *db, struct sqlite3_stmt *stmt, struct store_op *op)
{
    enum sqlite_step step;

    bind_task(stmt, op);
    step = sqlite_db_step(db, stmt);
    op->result = step == SQLITE_STEP_ROW ? 0 : ERR_NOT_FOUND;
    while (step == SQLITE_STEP_ROW) {
        step = sqlite_db_step(db, stmt);
    }
    return step == SQLITE_STEP_FAILED ? ERR_UNAVAILABLE : 0;
}

static int run_redrive(struct sqlite_db *db, struct store_op *op)
{
    int err = run_look(db, sqlite_db_stmt(db, SQLITE_STMT_LETTER_CHECK), op);

    if (err == 0 && op->result == 0) {
        err = run_insert(db, op);
    }
    if (err == 0 && op->result == 0) {
        struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_LETTER_DELETE);

        bind_task(stmt, op);
        err = run_match(db, stmt, op);
    }
    return err;
}

static int run_purge(struct sqlite_db *db, struct store_op *op)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_PURGE);

    sqlite_bind_int(stmt, 1, op->shard);
    sqlite_bind_int(stmt, 2, op->task.id.seq);
    sqlite_bind_int(stmt, 3, op->task.id.slot);
    return run_match(db, stmt, op);
}

static int run_change(struct sqlite_db *db, struct store_op *op)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_CHANGE);

    bind_task(stmt, op);
    sqlite_bind_int(stmt, 5, op->attempt);
    if (op->set_due) {
        sqlite_bind_int(stmt, 6, op->task.due_ms);
        sqlite_bind_int(stmt, 7, due_bucket(op->task.due_ms));
    }
    if (op->set_counts) {
        sqlite_bind_int(stmt, 8, op->task.failures);
        sqlite_bind_int(stmt, 9, op->task.unknowns);
    }
    if (op->set_payload) {
        sqlite_bind_bytes(stmt, 10, op->task.payload);
    }
    if (op->set_order) {
        sqlite_bind_int(stmt, 11, op->task.order_ms);
    }
    return run_match(db, stmt, op);
}

/* A claim is looked at even if its caller vouches for it: here a look costs less than the word. */
static int judge_claim(struct sqlite_db *db, struct store_op *op)
{
    struct sqlite3_stmt *stmt;

    if (!op->raise_attempt) {
        return run_look(db, sqlite_db_stmt(db, SQLITE_STMT_CHECK), op);
    }
    stmt = sqlite_db_stmt(db, SQLITE_STMT_RAISE);
    bind_task(stmt, op);
    sqlite_bind_int(stmt, 5, (int64_t)op->attempt - 1);
    return run_match(db, stmt, op);
}

static bool makes_row(const struct store_op *op)
{
    return op->kind == STORE_INSERT || op->kind == STORE_REDRIVE;
}

/* Has what should have made the claim's task in this batch not done so? The task may be there all
 * the same, and yet be none that may be claimed. */
static bool is_orphaned(const struct store_batch *batch, const struct store_op *claim)
{
    for (size_t i = 0; !claim->raise_attempt && i < batch->op_count; i++) {
        const struct store_op *op = &batch->ops[i];

        if (makes_row(op) && op->result != 0 && op->shard == claim->shard &&
            op->task.id.seq == claim->task.id.seq) {
            return true;
        }
    }
    return false;
}

static int run_claim(struct sqlite_db *db, const struct store_batch *batch, struct store_op *op)
{
    struct sqlite3_stmt *stmt;
    int err = judge_claim(db, op);

    if (op->result == 0 && is_orphaned(batch, op)) {
        op->result = ERR_NOT_FOUND;
    }

    if (err != 0 || op->result != 0) {
        return err;
    }
    stmt = sqlite_db_stmt(db, SQLITE_STMT_CLAIM_PUT);
    sqlite_bind_int(stmt, 1, batch->claim_row.writer);
    sqlite_bind_int(stmt, 2, batch->claim_row.seq);
    sqlite_bind_int(stmt, 3, op->shard);
    sqlite_bind_int(stmt, 4, op->task.id.seq);
    sqlite_bind_int(stmt, 5, op->attempt);
    sqlite_bind_int(stmt, 6, op->task.id.slot);
    sqlite_bind_int(stmt, 7, op->deadline_ms);
    return sqlite_db_run(db, stmt, NULL);
}

static int run_op(struct sqlite_db *db, const struct store_batch *batch, struct store_op *op)
{
    switch (op->kind) {
    case STORE_INSERT:
        return run_insert(db, op);
    case STORE_DELETE:
        return run_delete(db, op);
    case STORE_DEAD:
        return run_dead(db, op);
    case STORE_CHANGE:
        return run_change(db, op);
    case STORE_CLAIM:
        return run_claim(db, batch, op);
    case STORE_REDRIVE:
        return run_redrive(db, op);
    case STORE_PURGE:
        return run_purge(db, op);
    }
    UNREACHABLE();
}

/* --- the batch -------------------------------------------------------------------------------- */

/* Is the operation's shard ours? Runs of one shard are looked up once. */
struct fence {
    uint32_t shard;
    int64_t epoch;
    bool ours;
};

static int look(struct sqlite_db *db, struct fence *fence, const struct store_op *op)
{
    if (fence->epoch == op->epoch && fence->shard == op->shard) {
        return 0;
    }
    fence->shard = op->shard;
    fence->epoch = op->epoch;
    return sqlite_db_is_ours(db, op->shard, op->epoch, &fence->ours);
}

/* Inserts first: one that replaces a key takes it before the old task's end would release it. */
static int run_ops(struct sqlite_db *db, struct store_batch *batch, bool inserts)
{
    struct fence fence = {.epoch = INT64_MIN};

    for (size_t i = 0; i < batch->op_count; i++) {
        struct store_op *op = &batch->ops[i];
        int err;

        if (makes_row(op) != inserts) {
            continue;
        }
        err = look(db, &fence, op);
        if (err == 0 && !fence.ours) {
            op->result = ERR_FENCED;
        } else if (err == 0) {
            err = run_op(db, batch, op);
        }
        if (err == ERR_INVALID) {
            op->result = ERR_INVALID; // Its own data; nothing of it has happened.
        } else if (err != 0) {
            return err;
        }
    }
    return 0;
}

static int drop_rows(struct sqlite_db *db, const struct store_batch *batch)
{
    int err = 0;

    for (size_t i = 0; err == 0 && i < batch->drop_count; i++) {
        struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_CLAIM_DROP);

        sqlite_bind_int(stmt, 1, batch->drop_rows[i].writer);
        sqlite_bind_int(stmt, 2, batch->drop_rows[i].seq);
        err = sqlite_db_run(db, stmt, NULL);
    }
    return err;
}

/* Delete what is past its time: when a sweep asks for it, and on as long as much is found. */
static int tidy(struct sqlite_db *db, bool is_asked)
{
    static const enum sqlite_stmt sweeps[] = {SQLITE_STMT_KEY_SWEEP, SQLITE_STMT_ENDED_SWEEP};
    boot_us now = clock_boot_us();
    int err = 0;

    if (!is_asked && (!db->is_tidy_left || now - db->tidied_us < TIDY_US)) {
        return 0;
    }
    db->tidied_us = now;
    db->is_tidy_left = false;
    for (size_t i = 0; err == 0 && i < ARRAY_COUNT(sweeps); i++) {
        struct sqlite3_stmt *stmt = sqlite_db_stmt(db, sweeps[i]);
        int64_t deleted = 0;

        sqlite_bind_int(stmt, 1, clock_wall_ms());
        sqlite_bind_int(stmt, 2, TIDY_ROW_COUNT);
        err = sqlite_db_run(db, stmt, &deleted);
        db->is_tidy_left = db->is_tidy_left || deleted == TIDY_ROW_COUNT;
    }
    return err;
}

static int run_batch(struct sqlite_db *db, struct store_batch *batch)
{
    int err = run_ops(db, batch, true);

    if (err == 0) {
        err = run_ops(db, batch, false);
    }
    if (err == 0) {
        err = drop_rows(db, batch);
    }
    if (err == 0 && batch->sweep) {
        err = sqlite_db_run(db, sqlite_db_stmt(db, SQLITE_STMT_CLAIM_SWEEP), NULL);
    }
    return err == 0 ? tidy(db, batch->sweep) : err;
}

static int run(struct sqlite_db *db, struct sqlite_job *job)
{
    int err = sqlite_db_begin(db);

    if (err == 0) {
        err = run_batch(db, job->subject.batch);
    }
    if (err == 0) {
        return sqlite_db_commit(db);
    }
    sqlite_db_rollback(db);
    return ERR_UNAVAILABLE;
}

static void answer(struct sqlite_job *job)
{
    struct store_batch *batch = job->subject.batch;

    batch->result = job->result;
    batch->cb(batch);
}

const struct sqlite_job_type sqlite_write_type = {.run = run, .answer = answer, .is_write = true};
