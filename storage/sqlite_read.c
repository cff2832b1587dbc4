/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads: the check of the epoch and the rows in one transaction, copied for the loop.
 */
#include "storage/sqlite_job.h"

#include "storage/page.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

/* Fill in the row that a statement stands on. Columns as ROW in sqlite_stmt.c, then the payload. */
static int fill_row(struct sqlite3_stmt *stmt, struct sqlite_lent *lent, struct task *row)
{
    int err;

    row->id =
        (struct task_id){.seq = sqlite_column(stmt, 0), .slot = (uint16_t)sqlite_column(stmt, 1)};
    row->queue = (uint32_t)sqlite_column(stmt, 2);
    row->attempt = (uint32_t)sqlite_column(stmt, 3);
    row->failures = (uint32_t)sqlite_column(stmt, 4);
    row->unknowns = (uint32_t)sqlite_column(stmt, 5);
    row->due_ms = sqlite_column(stmt, 6);
    row->created_ms = sqlite_column(stmt, 7);
    row->expire_ms = sqlite_column(stmt, 8);
    row->order_ms = sqlite_column(stmt, 12);
    row->payload_len = (uint32_t)sqlite_column(stmt, 13);
    err = sqlite_lent_copy(lent, sqlite_column_bytes(stmt, 9), &row->key);
    if (err == 0) {
        err = sqlite_lent_copy(lent, sqlite_column_bytes(stmt, 10), &row->tags);
    }
    if (err == 0) {
        err = sqlite_lent_copy(lent, sqlite_column_bytes(stmt, 11), &row->order_key);
    }
    return err != 0 ? err : sqlite_lent_copy(lent, sqlite_column_bytes(stmt, 14), &row->payload);
}

static int take_row(struct sqlite3_stmt *stmt, struct sqlite_lent *lent)
{
    struct task *row = sqlite_lent_add(lent, sizeof(*row));

    return row == NULL ? ERR_UNAVAILABLE : fill_row(stmt, lent, row);
}

/* The same, and behind it: when it ended, until when it is kept, how, response, error text. */
static int take_ended(struct sqlite3_stmt *stmt, struct sqlite_lent *lent)
{
    struct ended_task *ended = sqlite_lent_add(lent, sizeof(*ended));
    int err = ended == NULL ? ERR_UNAVAILABLE : fill_row(stmt, lent, &ended->task);

    if (err != 0) {
        return err;
    }
    ended->ended_ms = sqlite_column(stmt, 15);
    ended->until_ms = sqlite_column(stmt, 16);
    ended->end = (enum task_end)sqlite_column(stmt, 17);
    err = sqlite_lent_copy(lent, sqlite_column_bytes(stmt, 18), &ended->response);
    return err != 0 ? err
                    : sqlite_lent_copy(lent, sqlite_column_bytes(stmt, 19), &ended->error_text);
}

/* Columns: queue, pending, overdue, dead, first due, and how many rows of a kind were looked at. */
static int take_count(struct sqlite3_stmt *stmt, struct sqlite_lent *lent)
{
    struct queue_count *count = sqlite_lent_add(lent, sizeof(*count));

    if (count == NULL) {
        return ERR_UNAVAILABLE;
    }
    *count = (struct queue_count){
        .queue = (uint32_t)sqlite_column(stmt, 0),
        .pending = (uint64_t)sqlite_column(stmt, 1),
        .overdue = (uint64_t)sqlite_column(stmt, 2),
        .dead = (uint64_t)sqlite_column(stmt, 3),
        .first_due_ms = sqlite_column_is_null(stmt, 4) ? WALL_NEVER : sqlite_column(stmt, 4),
    };
    return 0;
}

typedef int (*take_fn)(struct sqlite3_stmt *stmt, struct sqlite_lent *lent);

/* All rows of a statement. */
static int take_all(struct sqlite_db *db, struct sqlite3_stmt *stmt, struct sqlite_lent *lent,
                    take_fn take)
{
    enum sqlite_step step;

    while ((step = sqlite_db_step(db, stmt)) == SQLITE_STEP_ROW) {
        int err = take(stmt, lent);

        if (err != 0) {
            return err;
        }
    }
    return step == SQLITE_STEP_FAILED ? ERR_UNAVAILABLE : 0;
}

static int take_rows(struct sqlite_db *db, struct sqlite3_stmt *stmt, struct sqlite_lent *lent)
{
    return take_all(db, stmt, lent, take_row);
}

/* The first rows of one queue of a slice. */
static int read_queue(struct sqlite_db *db, const struct store_read *read, uint32_t queue,
                      uint32_t limit, struct sqlite_lent *lent)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_READ_SLICE);

    sqlite_bind_int(stmt, 1, read->shard);
    sqlite_bind_int(stmt, 2, read->after_bucket);
    sqlite_bind_int(stmt, 3, read->after_seq);
    sqlite_bind_int(stmt, 4, read->to_bucket);
    sqlite_bind_int(stmt, 5, limit);
    sqlite_bind_int(stmt, 6, PAYLOAD_INLINE_BYTES_MAX);
    sqlite_bind_int(stmt, 7, queue);
    return take_rows(db, stmt, lent);
}

static bool is_skipped(const struct store_read *read, uint32_t queue)
{
    for (size_t i = 0; i < read->skip_count; i++) {
        if (read->skip[i] == queue) {
            return true;
        }
    }
    return false;
}

/* The queues that have rows and are not to be skipped, by one look into the index each. `queues`
 * has room for QUEUE_COUNT_MAX of them. */
static int find_queues(struct sqlite_db *db, const struct store_read *read, uint32_t *queues,
                       size_t *count)
{
    int64_t queue = -1;
    enum sqlite_step step;

    *count = 0;
    do {
        struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_NEXT_QUEUE);

        sqlite_bind_int(stmt, 1, read->shard);
        sqlite_bind_int(stmt, 2, queue);
        step = sqlite_db_step(db, stmt);
        if (step == SQLITE_STEP_ROW) {
            queue = sqlite_column(stmt, 0);
            if (!is_skipped(read, (uint32_t)queue)) {
                queues[(*count)++] = (uint32_t)queue;
            }
            step = sqlite_db_step(db, stmt) == SQLITE_STEP_FAILED ? SQLITE_STEP_FAILED : step;
        }
    } while (step == SQLITE_STEP_ROW && *count < QUEUE_COUNT_MAX);
    return step == SQLITE_STEP_FAILED ? ERR_UNAVAILABLE : 0;
}

/* Each queue's share of the page, put in order. */
static int read_queues(struct sqlite_db *db, struct store_read *read, const uint32_t *queues,
                       size_t queue_count, struct sqlite_lent *lent)
{
    uint32_t share = page_share(read->limit, queue_count);
    struct page_end end = {0};

    for (size_t i = 0; i < queue_count; i++) {
        size_t before = lent->count;
        int err = read_queue(db, read, queues[i], share, lent);

        if (err != 0) {
            return err;
        }
        if (lent->count - before == share) {
            page_end_at(&end, (struct task *)lent->items + lent->count - 1);
        }
    }
    lent->count = page_finish(lent->items, lent->count, &end, read->limit, &read->has_more);
    return 0;
}

static int read_slice(struct sqlite_db *db, struct store_read *read, struct sqlite_lent *lent)
{
    uint32_t *queues;
    size_t count;
    int err;

    if (read->queue != 0) {
        err = read_queue(db, read, read->queue, read->limit, lent);
        read->has_more = lent->count == read->limit;
        return err;
    }
    queues = mem_new(QUEUE_COUNT_MAX, sizeof(*queues));
    if (queues == NULL) {
        return ERR_UNAVAILABLE;
    }
    err = find_queues(db, read, queues, &count);
    if (err == 0) {
        err = read_queues(db, read, queues, count, lent);
    }
    mem_free(queues);
    return err;
}

static int read_task(struct sqlite_db *db, uint32_t shard, struct task_id id,
                     struct sqlite_lent *lent)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_READ_TASK);

    sqlite_bind_int(stmt, 1, shard);
    sqlite_bind_int(stmt, 2, id.seq);
    sqlite_bind_int(stmt, 3, id.slot);
    return take_rows(db, stmt, lent);
}

static int read_tasks(struct sqlite_db *db, const struct store_read *read, struct sqlite_lent *lent)
{
    int err = 0;

    for (size_t i = 0; err == 0 && i < read->id_count; i++) {
        err = read_task(db, read->shard, read->ids[i], lent);
    }
    return err;
}

/* The first rows of an order key. */
static int read_order(struct sqlite_db *db, const struct store_read *read, struct sqlite_lent *lent)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_READ_ORDER);

    sqlite_bind_int(stmt, 1, read->shard);
    sqlite_bind_int(stmt, 2, read->queue);
    sqlite_bind_bytes(stmt, 3, read->key);
    sqlite_bind_int(stmt, 4, read->limit);
    sqlite_bind_int(stmt, 5, PAYLOAD_INLINE_BYTES_MAX);
    return take_rows(db, stmt, lent);
}

static int read_claims(struct sqlite_db *db, const struct store_read *read,
                       struct sqlite_lent *lent)
{
    bool is_all = read->kind == STORE_READ_CLAIMS;
    struct sqlite3_stmt *stmt =
        sqlite_db_stmt(db, is_all ? SQLITE_STMT_READ_CLAIMS : SQLITE_STMT_READ_OVERDUE);
    enum sqlite_step step;

    sqlite_bind_int(stmt, 1, read->shard);
    if (!is_all) {
        sqlite_bind_int(stmt, 2, read->now_ms);
        sqlite_bind_int(stmt, 3, read->limit);
    }
    while ((step = sqlite_db_step(db, stmt)) == SQLITE_STEP_ROW) {
        struct claim *claim = sqlite_lent_add(lent, sizeof(*claim));

        if (claim == NULL) {
            return ERR_UNAVAILABLE;
        }
        *claim = (struct claim){
            .row = {.writer = sqlite_column(stmt, 0), .seq = sqlite_column(stmt, 1)},
            .id = {.seq = sqlite_column(stmt, 2), .slot = (uint16_t)sqlite_column(stmt, 3)},
            .attempt = (uint32_t)sqlite_column(stmt, 4),
            .deadline_ms = sqlite_column(stmt, 5),
        };
    }
    return step == SQLITE_STEP_FAILED ? ERR_UNAVAILABLE : 0;
}

static int read_key(struct sqlite_db *db, struct store_read *read, struct sqlite_lent *lent)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_KEY_FIND);
    struct task_id holder = {0};
    bool is_past = false;
    enum sqlite_step step;

    sqlite_bind_int(stmt, 1, read->shard);
    sqlite_bind_int(stmt, 2, read->queue);
    sqlite_bind_bytes(stmt, 3, read->key);
    step = sqlite_db_step(db, stmt);
    if (step == SQLITE_STEP_ROW) {
        holder = (struct task_id){.seq = sqlite_column(stmt, 0),
                                  .slot = (uint16_t)sqlite_column(stmt, 1)};
        is_past = !sqlite_column_is_null(stmt, 2) && sqlite_column(stmt, 2) <= read->now_ms;
        step = sqlite_db_step(db, stmt);
    }
    if (step == SQLITE_STEP_FAILED) {
        return ERR_UNAVAILABLE;
    }
    if (holder.seq == 0 || is_past) {
        return 0;
    }
    read->existing = holder;
    return read_task(db, read->shard, holder, lent);
}

static int read_epochs(struct sqlite_db *db, const struct store_read *read)
{
    int err = 0;

    for (size_t i = 0; err == 0 && i < read->check_count; i++) {
        struct epoch_check *check = &read->checks[i];

        check->ours = false;
        err = check->shard < db->shard_count
                  ? sqlite_db_is_ours(db, check->shard, check->epoch, &check->ours)
                  : 0;
    }
    return err;
}

/* A page of a queue's dead letters. */
static int read_dead(struct sqlite_db *db, const struct store_read *read, struct sqlite_lent *lent)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, SQLITE_STMT_READ_DEAD);

    sqlite_bind_int(stmt, 1, read->shard);
    sqlite_bind_int(stmt, 2, read->queue);
    sqlite_bind_int(stmt, 3, read->after_seq);
    sqlite_bind_int(stmt, 4, read->limit);
    sqlite_bind_int(stmt, 5, PAYLOAD_INLINE_BYTES_MAX);
    return take_all(db, stmt, lent, take_ended);
}

static struct sqlite3_stmt *stmt_of_id(struct sqlite_db *db, enum sqlite_stmt which,
                                       const struct store_read *read, struct task_id id)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(db, which);

    sqlite_bind_int(stmt, 1, read->shard);
    sqlite_bind_int(stmt, 2, id.seq);
    sqlite_bind_int(stmt, 3, id.slot);
    return stmt;
}

/* What is left of the given tasks. */
static int read_ended(struct sqlite_db *db, const struct store_read *read, struct sqlite_lent *lent)
{
    int err = 0;

    for (size_t i = 0; err == 0 && i < read->id_count; i++) {
        struct sqlite3_stmt *stmt;

        if (read->kind == STORE_READ_ENDED) {
            stmt = stmt_of_id(db, SQLITE_STMT_READ_ENDED, read, read->ids[i]);
            sqlite_bind_int(stmt, 4, read->now_ms);
            err = take_all(db, stmt, lent, take_ended);
        }
        if (err == 0) {
            stmt = stmt_of_id(db, SQLITE_STMT_READ_LETTER, read, read->ids[i]);
            err = take_all(db, stmt, lent, take_ended);
        }
    }
    return err;
}

static int read_counts(struct sqlite_db *db, struct store_read *read, struct sqlite_lent *lent)
{
    struct sqlite3_stmt *stmt = sqlite_db_stmt(
        db, read->queue == 0 ? SQLITE_STMT_READ_COUNTS : SQLITE_STMT_READ_COUNTS_QUEUE);
    enum sqlite_step step;

    if (read->queue != 0) {
        sqlite_bind_int(stmt, 5, read->queue);
    }
    sqlite_bind_int(stmt, 1, read->shard);
    sqlite_bind_int(stmt, 2, read->now_ms);
    sqlite_bind_int(stmt, 3, read->limit);
    sqlite_bind_int(stmt, 4, QUEUE_COUNT_MAX);
    while ((step = sqlite_db_step(db, stmt)) == SQLITE_STEP_ROW) {
        int err = take_count(stmt, lent);

        if (err != 0) {
            return err;
        }
        read->is_cut = read->is_cut || sqlite_column(stmt, 5) >= read->limit;
    }
    return step == SQLITE_STEP_FAILED ? ERR_UNAVAILABLE : 0;
}

static int read_data(struct sqlite_db *db, struct store_read *read, struct sqlite_lent *lent)
{
    bool ours = false;
    int err;

    if (read->kind == STORE_READ_EPOCHS) {
        return read_epochs(db, read);
    }
    err = sqlite_db_is_ours(db, read->shard, read->epoch, &ours);
    if (err != 0 || !ours) {
        return err != 0 ? err : ERR_FENCED;
    }
    switch (read->kind) {
    case STORE_READ_CLAIMS:
    case STORE_READ_OVERDUE:
        return read_claims(db, read, lent);
    case STORE_READ_SLICE:
        return read_slice(db, read, lent);
    case STORE_READ_TASKS:
        return read_tasks(db, read, lent);
    case STORE_READ_KEY:
        return read_key(db, read, lent);
    case STORE_READ_DEAD:
        return read->id_count == 0 ? read_dead(db, read, lent) : read_ended(db, read, lent);
    case STORE_READ_ENDED:
        return read_ended(db, read, lent);
    case STORE_READ_ORDER:
        return read_order(db, read, lent);
    case STORE_READ_COUNTS:
        return read_counts(db, read, lent);
    case STORE_READ_EPOCHS:
        break;
    }
    UNREACHABLE();
}

static int run(struct sqlite_db *db, struct sqlite_job *job)
{
    struct store_read *read = job->subject.read;
    int err;

    read->existing = (struct task_id){0};
    read->has_more = false;
    read->is_cut = false;
    err = sqlite_db_run(db, sqlite_db_stmt(db, SQLITE_STMT_READ_BEGIN), NULL);
    if (err == 0) {
        err = read_data(db, read, &job->lent);
    }
    sqlite_db_rollback(db);
    return err;
}

/* Lend what was found, as what it is. */
static void lend(struct store_read *read, const struct sqlite_lent *lent)
{
    switch (read->kind) {
    case STORE_READ_CLAIMS:
    case STORE_READ_OVERDUE:
        read->claims = lent->items;
        read->claim_count = lent->count;
        break;
    case STORE_READ_DEAD:
    case STORE_READ_ENDED:
        read->ended = lent->items;
        read->ended_count = lent->count;
        break;
    case STORE_READ_COUNTS:
        read->counts = lent->items;
        read->count_count = lent->count;
        break;
    case STORE_READ_SLICE:
    case STORE_READ_TASKS:
    case STORE_READ_KEY:
    case STORE_READ_ORDER:
        read->rows = lent->items;
        read->row_count = lent->count;
        break;
    case STORE_READ_EPOCHS:
        break;
    }
}

static void answer(struct sqlite_job *job)
{
    static const struct sqlite_lent nothing;
    struct store_read *read = job->subject.read;

    read->result = job->result;
    read->rows = NULL;
    read->row_count = 0;
    read->claims = NULL;
    read->claim_count = 0;
    read->ended = NULL;
    read->ended_count = 0;
    read->counts = NULL;
    read->count_count = 0;
    lend(read, job->result == 0 ? &job->lent : &nothing);
    read->cb(read);
}

const struct sqlite_job_type sqlite_read_type = {.run = run, .answer = answer};
