/* SPDX-License-Identifier: Apache-2.0
 *
 * A read: begin, check of the epoch, the data, commit, in one pipelined segment. Rows borrow from
 * libpq's results until the callback has returned.
 */
#include "storage/pg_read.h"

#include "storage/page.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"

#include <stdlib.h>

/* Arrays of ids and shards are small. */
#define ARRAY_BYTES_MAX ((size_t)SHARD_COUNT_MAX * 16 + 64)

/* Columns of a task in a reply; what a read has besides comes behind them. */
#define ROW_COLUMN_COUNT 15

/* Replies of a read, in order. EPOCHS has only the data. */
enum read_reply {
    READ_BEGIN,
    READ_CHECK,
    READ_DATA,
    READ_COMMIT,
    READ_OVER
};

struct pg_read {
    struct pg_job job;
    const struct pg_read_env *env;
    struct store_read *read;
    enum read_reply next;
    bool failed;
    bool ours;
    PGresult *data;
    void *items; /* rows or claims for the caller */
};

static struct pg_read *read_of(struct pg_job *job)
{
    return CONTAINER_OF(job, struct pg_read, job);
}

/* --- sending ---------------------------------------------------------------------------------- */

static int compare_ids(const void *left, const void *right)
{
    const struct task_id *a = left;
    const struct task_id *b = right;

    return (a->seq > b->seq) - (a->seq < b->seq);
}

/* A bucket as the index has it. */
static int32_t short_bucket(int64_t bucket)
{
    return (int32_t)time_clamp(bucket, INT32_MIN, INT32_MAX);
}

static void write_numbers(struct pg_array *array, const uint32_t *numbers, size_t count)
{
    pg_array_init(array, ARRAY_BYTES_MAX);
    pg_array_start(array, PG_TYPE_INT4);
    for (size_t i = 0; i < count; i++) {
        pg_array_add_int(array, numbers[i]);
    }
}

static void send_slice(struct pg_conn *conn, const struct store_read *read)
{
    struct pg_params params;
    struct pg_array skip;
    struct pg_array known;

    pg_params_init(&params);
    pg_params_add_i32(&params, short_bucket(read->after_bucket));
    pg_params_add_i64(&params, read->after_seq);
    pg_params_add_i32(&params, short_bucket(read->to_bucket));
    pg_params_add_i32(&params, (int32_t)read->limit);
    if (read->queue != 0) {
        pg_params_add_i32(&params, (int32_t)read->queue);
        pg_conn_exec(conn, PG_STMT_READ_SLICE_QUEUE, read->shard, &params);
        return;
    }
    write_numbers(&skip, read->skip, read->skip_count);
    write_numbers(&known, read->known, read->known_count);
    pg_params_add_array(&params, &skip);
    pg_params_add_array(&params, &known);
    pg_conn_exec(conn, PG_STMT_READ_SLICE, read->shard, &params);
    pg_array_fini(&known);
    pg_array_fini(&skip);
}

/* Behind what is there already, two arrays, of which the statement wants the first sorted. */
static void send_ids(struct pg_conn *conn, const struct store_read *read, enum pg_stmt stmt,
                     struct pg_params *params)
{
    struct task_id *ids = mem_new(read->id_count, sizeof(*ids));
    struct pg_array seqs;
    struct pg_array slots;

    pg_array_init(&seqs, ARRAY_BYTES_MAX);
    pg_array_init(&slots, ARRAY_BYTES_MAX);
    pg_array_start(&slots, PG_TYPE_INT2);
    for (size_t i = 0; ids != NULL && i < read->id_count; i++) {
        ids[i] = read->ids[i];
    }
    if (ids != NULL) {
        qsort(ids, read->id_count, sizeof(*ids), compare_ids);
    }
    for (size_t i = 0; ids != NULL && i < read->id_count; i++) {
        pg_array_add_int(&seqs, ids[i].seq);
        pg_array_add_int(&slots, ids[i].slot);
    }
    pg_params_add_array(params, &seqs);
    pg_params_add_array(params, &slots);
    if (stmt == PG_STMT_READ_ENDED) {
        pg_params_add_i64(params, read->now_ms);
    }
    // Without memory the command cannot be queued, which costs the connection.
    params->failed = params->failed || ids == NULL;
    pg_conn_exec(conn, stmt, read->shard, params);
    pg_array_fini(&seqs);
    pg_array_fini(&slots);
    mem_free(ids);
}

static void send_tasks(struct pg_conn *conn, const struct store_read *read)
{
    struct pg_params params;

    pg_params_init(&params);
    send_ids(conn, read, PG_STMT_READ_TASKS, &params);
}

/* Results and dead letters are in one table for all shards. */
static void send_ended(struct pg_conn *conn, const struct store_read *read)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_params_add_i32(&params, (int32_t)read->shard);
    send_ids(conn, read, read->kind == STORE_READ_DEAD ? PG_STMT_READ_LETTERS : PG_STMT_READ_ENDED,
             &params);
}

static void send_dead(struct pg_conn *conn, const struct store_read *read)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_params_add_i32(&params, (int32_t)read->queue);
    pg_params_add_i32(&params, (int32_t)read->shard);
    pg_params_add_i64(&params, read->after_seq);
    pg_params_add_i32(&params, (int32_t)read->limit);
    pg_conn_exec(conn, PG_STMT_READ_DEAD, 0, &params);
}

static void send_counts(struct pg_conn *conn, const struct store_read *read)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_params_add_i64(&params, read->now_ms);
    pg_params_add_i32(&params, (int32_t)read->limit);
    if (read->queue == 0) {
        pg_params_add_i32(&params, QUEUE_COUNT_MAX);
        pg_conn_exec(conn, PG_STMT_READ_COUNTS, read->shard, &params);
        return;
    }
    pg_params_add_i32(&params, short_bucket(due_bucket(read->now_ms)));
    pg_params_add_i32(&params, (int32_t)read->queue);
    pg_conn_exec(conn, PG_STMT_READ_COUNTS_QUEUE, read->shard, &params);
}

static void send_key(struct pg_conn *conn, const struct store_read *read)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_params_add_i32(&params, (int32_t)read->queue);
    pg_params_add_bytes(&params, read->key);
    pg_params_add_i64(&params, read->now_ms);
    pg_conn_exec(conn, PG_STMT_READ_KEY, read->shard, &params);
}

static void send_order(struct pg_conn *conn, const struct store_read *read)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_params_add_i32(&params, (int32_t)read->queue);
    pg_params_add_bytes(&params, read->key);
    pg_params_add_i32(&params, (int32_t)read->limit);
    pg_conn_exec(conn, PG_STMT_READ_ORDER, read->shard, &params);
}

static void send_claims(struct pg_conn *conn, const struct pg_read *self)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_params_add_i32(&params, (int32_t)self->read->shard);
    pg_params_add_i32(&params, (int32_t)self->env->shard_count);
    pg_conn_exec(conn, PG_STMT_READ_CLAIMS, 0, &params);
}

static void send_overdue(struct pg_conn *conn, const struct pg_read *self)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_params_add_i32(&params, (int32_t)self->read->shard);
    pg_params_add_i32(&params, (int32_t)self->env->shard_count);
    pg_params_add_i64(&params, self->read->now_ms);
    pg_params_add_i32(&params, (int32_t)self->read->limit);
    pg_conn_exec(conn, PG_STMT_READ_OVERDUE, 0, &params);
}

static void send_epochs(struct pg_conn *conn, const struct store_read *read)
{
    struct pg_params params;
    struct pg_array shards;

    pg_array_init(&shards, ARRAY_BYTES_MAX);
    pg_array_start(&shards, PG_TYPE_INT4);
    for (size_t i = 0; i < read->check_count; i++) {
        pg_array_add_int(&shards, read->checks[i].shard);
    }
    pg_params_init(&params);
    pg_params_add_array(&params, &shards);
    pg_conn_exec(conn, PG_STMT_READ_EPOCHS, 0, &params);
    pg_array_fini(&shards);
}

static void send_check(struct pg_conn *conn, const struct store_read *read)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_params_add_i32(&params, (int32_t)read->shard);
    pg_params_add_i64(&params, read->epoch);
    pg_conn_exec(conn, PG_STMT_READ_CHECK, 0, &params);
}

static void send_data(struct pg_conn *conn, const struct pg_read *self)
{
    if (self->read->kind != STORE_READ_EPOCHS &&
        self->env->database_of[self->read->shard] != self->env->database) {
        // It has no table here, and the check will say that it is not ours.
        send_check(conn, self->read);
        return;
    }
    switch (self->read->kind) {
    case STORE_READ_CLAIMS:
        send_claims(conn, self);
        break;
    case STORE_READ_OVERDUE:
        send_overdue(conn, self);
        break;
    case STORE_READ_SLICE:
        send_slice(conn, self->read);
        break;
    case STORE_READ_TASKS:
        send_tasks(conn, self->read);
        break;
    case STORE_READ_KEY:
        send_key(conn, self->read);
        break;
    case STORE_READ_EPOCHS:
        send_epochs(conn, self->read);
        break;
    case STORE_READ_DEAD:
        if (self->read->id_count == 0) {
            send_dead(conn, self->read);
            break;
        }
        send_ended(conn, self->read);
        break;
    case STORE_READ_ENDED:
        send_ended(conn, self->read);
        break;
    case STORE_READ_ORDER:
        send_order(conn, self->read);
        break;
    case STORE_READ_COUNTS:
        send_counts(conn, self->read);
        break;
    }
}

static void read_send(struct pg_job *job, struct pg_conn *conn)
{
    struct pg_read *self = read_of(job);

    if (self->read->kind == STORE_READ_EPOCHS) {
        self->next = READ_DATA;
        send_data(conn, self);
    } else {
        self->next = READ_BEGIN;
        pg_conn_exec(conn, PG_STMT_READ_BEGIN, 0, NULL);
        send_check(conn, self->read);
        send_data(conn, self);
        pg_conn_exec(conn, PG_STMT_COMMIT, 0, NULL);
    }
    pg_conn_sync(conn);
}

/* --- replies ---------------------------------------------------------------------------------- */

static void read_result(struct pg_job *job, struct pg_conn *conn, PGresult *result)
{
    struct pg_read *self = read_of(job);
    enum read_reply reply = self->next++;

    REQUIRE(reply < READ_OVER);
    if (!pg_result_ok(result)) {
        self->failed = true;
        return;
    }
    if (reply == READ_CHECK) {
        self->ours = self->read->epoch > 0 && pg_value_bool(result, 0, 0);
        self->env->on_clock(self->env->ctx, job->sent, clock_boot_us(), pg_value_us(result, 0, 1));
    } else if (reply == READ_DATA) {
        self->data = pg_conn_keep(conn);
    }
}

static bool read_synced(struct pg_job *job, struct pg_conn *conn)
{
    struct pg_read *self = read_of(job);

    if (self->failed && self->read->kind != STORE_READ_EPOCHS) {
        // The transaction is open and failed; a connection is made sooner than it is tidied up.
        pg_conn_break(conn, "a read failed");
    }
    return true;
}

/* Columns of a row: seq, due, created, queue, attempt, failures, unknowns, slot, expiry, payload,
 * its length, key, tags, order key, its place there. */
static void take_row(const PGresult *data, int row, struct task *out)
{
    *out = (struct task){
        .id = {.seq = pg_value_i64(data, row, 0), .slot = (uint16_t)pg_value_i16(data, row, 7)},
        .queue = (uint32_t)pg_value_i32(data, row, 3),
        .attempt = (uint32_t)pg_value_i32(data, row, 4),
        .failures = (uint32_t)pg_value_i32(data, row, 5),
        .unknowns = (uint32_t)pg_value_i32(data, row, 6),
        .due_ms = pg_value_i64(data, row, 1),
        .created_ms = pg_value_i64(data, row, 2),
        .expire_ms = PQgetisnull(data, row, 8) != 0 ? 0 : pg_value_i64(data, row, 8),
        .payload = pg_value(data, row, 9),
        .payload_len = (uint32_t)pg_value_i32(data, row, 10),
        .key = pg_value(data, row, 11),
        .tags = pg_value(data, row, 12),
        .order_key = pg_value(data, row, 13),
        .order_ms = PQgetisnull(data, row, 14) != 0 ? 0 : pg_value_i64(data, row, 14),
    };
}

/* A row, and behind it: when it ended, until when it is kept, how, response, error text. */
static int take_ended(struct pg_read *self)
{
    int count = PQntuples(self->data);
    struct ended_task *ended = mem_new((size_t)count, sizeof(*ended));

    if (ended == NULL) {
        return ERR_UNAVAILABLE;
    }
    for (int i = 0; i < count; i++) {
        take_row(self->data, i, &ended[i].task);
        ended[i].ended_ms = pg_value_i64(self->data, i, ROW_COLUMN_COUNT);
        ended[i].until_ms = pg_value_i64(self->data, i, ROW_COLUMN_COUNT + 1);
        ended[i].end = (enum task_end)pg_value_i16(self->data, i, ROW_COLUMN_COUNT + 2);
        ended[i].response = pg_value(self->data, i, ROW_COLUMN_COUNT + 3);
        ended[i].error_text = pg_value(self->data, i, ROW_COLUMN_COUNT + 4);
    }
    self->items = ended;
    self->read->ended = ended;
    self->read->ended_count = (size_t)count;
    return 0;
}

/* Columns: queue, pending, overdue, dead, first due, and how many rows of a kind were looked at. */
static int take_counts(struct pg_read *self)
{
    int count = PQntuples(self->data);
    struct queue_count *counts = mem_new((size_t)count, sizeof(*counts));

    if (counts == NULL) {
        return ERR_UNAVAILABLE;
    }
    for (int i = 0; i < count; i++) {
        counts[i] = (struct queue_count){
            .queue = (uint32_t)pg_value_i32(self->data, i, 0),
            .pending = (uint64_t)pg_value_i64(self->data, i, 1),
            .overdue = (uint64_t)pg_value_i64(self->data, i, 2),
            .dead = (uint64_t)pg_value_i64(self->data, i, 3),
            .first_due_ms =
                PQgetisnull(self->data, i, 4) != 0 ? WALL_NEVER : pg_value_i64(self->data, i, 4),
        };
        self->read->is_cut =
            self->read->is_cut || pg_value_i64(self->data, i, 5) >= self->read->limit;
    }
    self->items = counts;
    self->read->counts = counts;
    self->read->count_count = (size_t)count;
    return 0;
}

static int take_rows(struct pg_read *self)
{
    int count = PQntuples(self->data);
    struct task *rows = mem_new((size_t)count, sizeof(*rows));

    if (rows == NULL) {
        return ERR_UNAVAILABLE;
    }
    for (int i = 0; i < count; i++) {
        take_row(self->data, i, &rows[i]);
    }
    self->items = rows;
    self->read->rows = rows;
    self->read->row_count = (size_t)count;
    return 0;
}

static int take_claims(struct pg_read *self)
{
    int count = PQntuples(self->data);
    struct claim *claims = mem_new((size_t)count, sizeof(*claims));

    if (claims == NULL) {
        return ERR_UNAVAILABLE;
    }
    for (int i = 0; i < count; i++) {
        claims[i] = (struct claim){
            .row = {.writer = pg_value_i64(self->data, i, 0),
                    .seq = pg_value_i64(self->data, i, 1)},
            .id = {.seq = pg_value_i64(self->data, i, 2),
                   .slot = (uint16_t)pg_value_i16(self->data, i, 5)},
            .attempt = (uint32_t)pg_value_i32(self->data, i, 4),
            .deadline_ms = pg_value_i64(self->data, i, 3),
        };
    }
    self->items = claims;
    self->read->claims = claims;
    self->read->claim_count = (size_t)count;
    return 0;
}

/* Rows by queue, each with a mark in the last column. */
static int take_slice(struct pg_read *self)
{
    struct store_read *read = self->read;
    struct page_end end = {0};
    struct task *rows;
    int mark = PQnfields(self->data) - 1;

    if (take_rows(self) != 0) {
        return ERR_UNAVAILABLE;
    }
    rows = self->items;
    for (int i = 0; i < PQntuples(self->data); i++) {
        if (pg_value_bool(self->data, i, mark)) {
            page_end_at(&end, &rows[i]);
        }
    }
    if (read->queue == 0) {
        read->row_count = page_finish(rows, read->row_count, &end, read->limit, &read->has_more);
    } else {
        read->has_more = read->row_count == read->limit;
    }
    return 0;
}

/* One row at most: the task's columns, null if it is over, and who holds the key. */
static int take_key(struct pg_read *self)
{
    if (PQntuples(self->data) == 0) {
        return 0;
    }
    self->read->existing =
        (struct task_id){.seq = pg_value_i64(self->data, 0, ROW_COLUMN_COUNT),
                         .slot = (uint16_t)pg_value_i16(self->data, 0, ROW_COLUMN_COUNT + 1)};
    return PQgetisnull(self->data, 0, 0) != 0 ? 0 : take_rows(self);
}

static void take_epochs(const struct pg_read *self)
{
    struct store_read *read = self->read;

    for (size_t i = 0; i < read->check_count; i++) {
        read->checks[i].ours = false;
    }
    for (int i = 0; i < PQntuples(self->data); i++) {
        size_t place = (size_t)pg_value_i32(self->data, i, 2);

        // The place is the parameter's, counted from 1; epoch 0 is nobody's.
        REQUIRE(place >= 1 && place <= read->check_count);
        read->checks[place - 1].ours =
            read->checks[place - 1].epoch > 0 &&
            pg_value_i64(self->data, i, 0) == read->checks[place - 1].epoch;
    }
    if (PQntuples(self->data) > 0) {
        self->env->on_clock(self->env->ctx, self->job.sent, clock_boot_us(),
                            pg_value_us(self->data, 0, 1));
    }
}

static int take_data(struct pg_read *self)
{
    if (self->failed || self->data == NULL) {
        return ERR_UNAVAILABLE;
    }
    if (self->read->kind == STORE_READ_EPOCHS) {
        take_epochs(self);
        return 0;
    }
    if (!self->ours) {
        return ERR_FENCED;
    }
    switch (self->read->kind) {
    case STORE_READ_CLAIMS:
    case STORE_READ_OVERDUE:
        return take_claims(self);
    case STORE_READ_SLICE:
        return take_slice(self);
    case STORE_READ_TASKS:
    case STORE_READ_ORDER:
        return take_rows(self);
    case STORE_READ_KEY:
        return take_key(self);
    case STORE_READ_DEAD:
    case STORE_READ_ENDED:
        return take_ended(self);
    case STORE_READ_COUNTS:
        return take_counts(self);
    case STORE_READ_EPOCHS:
        break;
    }
    UNREACHABLE();
}

static void answer(struct pg_read *self, int result)
{
    const struct pg_read_env *env = self->env;

    self->read->result = result;
    self->read->cb(self->read);
    PQclear(self->data);
    mem_free(self->items);
    mem_free(self);
    env->on_answered(env->ctx);
}

static void read_done(struct pg_job *job)
{
    struct pg_read *self = read_of(job);

    answer(self, take_data(self));
}

static void read_lost(struct pg_job *job, bool was_sent)
{
    (void)was_sent;
    answer(read_of(job), ERR_UNAVAILABLE);
}

static const struct pg_job_type read_type = {
    .send = read_send,
    .result = read_result,
    .synced = read_synced,
    .done = read_done,
    .lost = read_lost,
};

int pg_read_start(struct pg_conn *conn, const struct pg_read_env *env, struct store_read *read)
{
    struct pg_read *self = mem_new(1, sizeof(*self));

    if (self == NULL) {
        return ERR_NO_MEMORY;
    }
    self->job.type = &read_type;
    self->env = env;
    self->read = read;
    read->rows = NULL;
    read->row_count = 0;
    read->has_more = false;
    read->claims = NULL;
    read->claim_count = 0;
    read->existing = (struct task_id){0};
    read->ended = NULL;
    read->ended_count = 0;
    read->counts = NULL;
    read->count_count = 0;
    read->is_cut = false;
    pg_conn_submit(conn, &self->job);
    return 0;
}
