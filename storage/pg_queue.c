/* SPDX-License-Identifier: Apache-2.0
 *
 * Put, drop and list of queues.
 */
#include "storage/pg_queue.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

/* Answers of the put statements. */
#define PUT_REFUSED (-1)
#define PUT_FULL    (-2)

/* Replies of a put, in order. */
enum put_reply {
    PUT_BEGIN,
    PUT_LOCK,
    PUT_ROW,
    PUT_COMMIT
};

/* A put, or a drop: one of the two. */
struct pg_put {
    struct pg_job job;
    const struct pg_queue_env *env;
    struct store_queue_put *put;
    struct store_queue_drop *drop;
    int next; /* enum put_reply */
    int result;
    bool failed;
    bool is_rolling_back;
};

struct pg_list {
    struct pg_job job;
    const struct pg_queue_env *env;
    struct store_queue_list *list;
    PGresult *data;
};

static struct pg_put *put_of(struct pg_job *job)
{
    return CONTAINER_OF(job, struct pg_put, job);
}

static struct pg_list *list_of(struct pg_job *job)
{
    return CONTAINER_OF(job, struct pg_list, job);
}

/* --- put -------------------------------------------------------------------------------------- */

static void send_row(struct pg_conn *conn, const struct store_queue_put *put)
{
    const struct queue *queue = &put->queue;
    struct pg_params params;

    pg_params_init(&params);
    pg_params_add_bytes(&params, slice_of(queue->tenant));
    pg_params_add_bytes(&params, slice_of(queue->name));
    pg_params_add_bytes(&params, slice_of(queue->target));
    pg_params_add_i32(&params, (int32_t)queue->target_kind);
    pg_params_add_i32(&params, queue->at_most_once);
    pg_params_add_i32(&params, (int32_t)queue->concurrency_max);
    pg_params_add_i64(&params, queue->attempt_timeout_ms);
    pg_params_add_i64(&params, queue->key_memory_ms);
    pg_params_add_i64(&params, queue->retry.initial_ms);
    pg_params_add_i64(&params, queue->retry.max_ms);
    pg_params_add_i64(&params, queue->retry.age_max_ms);
    pg_params_add_i32(&params, (int32_t)queue->retry.multiplier_permille);
    pg_params_add_i32(&params, (int32_t)queue->retry.jitter_permille);
    pg_params_add_i32(&params, (int32_t)queue->retry.failures_max);
    pg_params_add_i32(&params, (int32_t)queue->retry.unknowns_max);
    pg_params_add_i32(&params, queue->is_paused);
    pg_params_add_i64(&params, queue->paused_until_ms);
    pg_params_add_i32(&params, queue->is_draining);
    pg_params_add_i64(&params, queue->result_memory_ms);
    pg_params_add_i64(&params, queue->expire_after_ms);
    pg_params_add_i32(&params, (int32_t)queue->order_policy);
    pg_params_add_i32(&params, (int32_t)queue->order_failures);
    if (put->expected_version == 0) {
        pg_params_add_i32(&params, QUEUE_COUNT_MAX);
        pg_conn_exec(conn, PG_STMT_QUEUE_CREATE, 0, &params);
    } else {
        pg_params_add_i32(&params, (int32_t)put->expected_version);
        pg_conn_exec(conn, PG_STMT_QUEUE_REPLACE, 0, &params);
    }
}

static void send_drop(struct pg_conn *conn, const struct store_queue_drop *drop)
{
    struct pg_params params;

    pg_params_init(&params);
    pg_params_add_i32(&params, (int32_t)drop->id);
    pg_params_add_i32(&params, (int32_t)drop->expected_version);
    pg_conn_exec(conn, PG_STMT_QUEUE_DROP, 0, &params);
}

static void put_send(struct pg_job *job, struct pg_conn *conn)
{
    const struct pg_put *self = put_of(job);

    pg_conn_exec(conn, PG_STMT_BEGIN, 0, NULL);
    pg_conn_exec(conn, PG_STMT_QUEUE_LOCK, 0, NULL);
    if (self->put != NULL) {
        send_row(conn, self->put);
    } else {
        send_drop(conn, self->drop);
    }
    pg_conn_exec(conn, PG_STMT_COMMIT, 0, NULL);
    pg_conn_sync(conn);
}

static void take_row(struct pg_put *self, const PGresult *result)
{
    int32_t id = PQntuples(result) == 0 ? 0 : pg_value_i32(result, 0, 0);
    bool creates = self->put != NULL && self->put->expected_version == 0;

    if (id > 0) {
        self->result = 0;
        if (self->put != NULL) {
            self->put->queue.id = (uint32_t)id;
            self->put->queue.version = (uint32_t)pg_value_i32(result, 0, 1);
        }
    } else if (id == PUT_FULL) {
        self->result = ERR_FULL;
    } else if (id == PUT_REFUSED) {
        self->result = creates ? ERR_EXISTS : ERR_CONFLICT;
    } else {
        self->result = ERR_NOT_FOUND;
    }
}

static void put_result(struct pg_job *job, struct pg_conn *conn, PGresult *result)
{
    struct pg_put *self = put_of(job);
    int reply = self->next++;

    (void)conn;
    if (self->is_rolling_back) {
        return;
    }
    if (!pg_result_ok(result)) {
        if (!self->failed) {
            self->result = reply == PUT_COMMIT ? ERR_OUTCOME_UNKNOWN : ERR_UNAVAILABLE;
        }
        self->failed = true;
    } else if (reply == PUT_ROW) {
        take_row(self, result);
    }
}

static bool put_synced(struct pg_job *job, struct pg_conn *conn)
{
    struct pg_put *self = put_of(job);

    if (self->failed && !self->is_rolling_back) {
        self->is_rolling_back = true;
        pg_conn_exec(conn, PG_STMT_ROLLBACK, 0, NULL);
        pg_conn_sync(conn);
        return false;
    }
    if (self->result == 0 && pg_conn_sync_cancelled(conn)) {
        self->result = ERR_OUTCOME_UNKNOWN;
    }
    return true;
}

static void put_answer(struct pg_put *self, int result)
{
    const struct pg_queue_env *env = self->env;

    if (self->put != NULL) {
        self->put->result = result;
        self->put->cb(self->put);
    } else {
        self->drop->result = result;
        self->drop->cb(self->drop);
    }
    mem_free(self);
    env->on_answered(env->ctx);
}

static void put_done(struct pg_job *job)
{
    put_answer(put_of(job), put_of(job)->result);
}

static void put_lost(struct pg_job *job, bool was_sent)
{
    struct pg_put *self = put_of(job);

    // While it is being rolled back nothing can come of it any more.
    put_answer(self, was_sent && !self->is_rolling_back ? ERR_OUTCOME_UNKNOWN : ERR_UNAVAILABLE);
}

static const struct pg_job_type put_type = {
    .send = put_send,
    .result = put_result,
    .synced = put_synced,
    .done = put_done,
    .lost = put_lost,
};

static int start(struct pg_conn *conn, const struct pg_queue_env *env, struct store_queue_put *put,
                 struct store_queue_drop *drop)
{
    struct pg_put *self = mem_new(1, sizeof(*self));

    if (self == NULL) {
        return ERR_NO_MEMORY;
    }
    self->job.type = &put_type;
    self->env = env;
    self->put = put;
    self->drop = drop;
    pg_conn_submit(conn, &self->job);
    return 0;
}

int pg_queue_put_start(struct pg_conn *conn, const struct pg_queue_env *env,
                       struct store_queue_put *put)
{
    return start(conn, env, put, NULL);
}

int pg_queue_drop_start(struct pg_conn *conn, const struct pg_queue_env *env,
                        struct store_queue_drop *drop)
{
    return start(conn, env, NULL, drop);
}

/* --- list ------------------------------------------------------------------------------------- */

static void list_send(struct pg_job *job, struct pg_conn *conn)
{
    (void)job;
    pg_conn_exec(conn, PG_STMT_QUEUE_LIST, 0, NULL);
    pg_conn_sync(conn);
}

static void list_result(struct pg_job *job, struct pg_conn *conn, PGresult *result)
{
    if (pg_result_ok(result)) {
        list_of(job)->data = pg_conn_keep(conn);
    }
}

static bool list_synced(struct pg_job *job, struct pg_conn *conn)
{
    (void)job;
    (void)conn;
    return true;
}

static void copy_text(const PGresult *data, int row, int column, char *out, size_t size)
{
    struct slice text = pg_value(data, row, column);
    size_t len = text.len < size ? text.len : size - 1;

    memcpy(out, text.data, len);
    out[len] = '\0';
}

static void read_queue(const PGresult *data, int row, struct queue *out)
{
    memset(out, 0, sizeof(*out));
    out->id = (uint32_t)pg_value_i32(data, row, 0);
    out->version = (uint32_t)pg_value_i32(data, row, 1);
    copy_text(data, row, 2, out->tenant, sizeof(out->tenant));
    copy_text(data, row, 3, out->name, sizeof(out->name));
    copy_text(data, row, 4, out->target, sizeof(out->target));
    out->target_kind =
        pg_value_i32(data, row, 5) == TARGET_RECEIVER ? TARGET_RECEIVER : TARGET_GRPC_METHOD;
    out->at_most_once = pg_value_i32(data, row, 6) != 0;
    out->concurrency_max = (uint32_t)pg_value_i32(data, row, 7);
    out->attempt_timeout_ms = pg_value_i64(data, row, 8);
    out->key_memory_ms = pg_value_i64(data, row, 9);
    out->retry.initial_ms = pg_value_i64(data, row, 10);
    out->retry.max_ms = pg_value_i64(data, row, 11);
    out->retry.age_max_ms = pg_value_i64(data, row, 12);
    out->retry.multiplier_permille = (uint32_t)pg_value_i32(data, row, 13);
    out->retry.jitter_permille = (uint32_t)pg_value_i32(data, row, 14);
    out->retry.failures_max = (uint32_t)pg_value_i32(data, row, 15);
    out->retry.unknowns_max = (uint32_t)pg_value_i32(data, row, 16);
    out->is_paused = pg_value_i32(data, row, 17) != 0;
    out->paused_until_ms = pg_value_i64(data, row, 18);
    out->is_draining = pg_value_i32(data, row, 19) != 0;
    out->result_memory_ms = pg_value_i64(data, row, 20);
    out->expire_after_ms = pg_value_i64(data, row, 21);
    out->order_policy = (enum order_policy)pg_value_i32(data, row, 22);
    out->order_failures = (uint32_t)pg_value_i32(data, row, 23);
}

static void list_answer(struct pg_list *self)
{
    const struct pg_queue_env *env = self->env;
    int count = self->data == NULL ? 0 : PQntuples(self->data);
    struct queue *rows = self->data == NULL ? NULL : mem_new((size_t)count, sizeof(*rows));

    self->list->result = rows == NULL ? ERR_UNAVAILABLE : 0;
    for (int i = 0; rows != NULL && i < count; i++) {
        read_queue(self->data, i, &rows[i]);
    }
    self->list->rows = rows;
    self->list->row_count = rows == NULL ? 0 : (size_t)count;
    self->list->cb(self->list);
    mem_free(rows);
    PQclear(self->data);
    mem_free(self);
    env->on_answered(env->ctx);
}

static void list_done(struct pg_job *job)
{
    list_answer(list_of(job));
}

static void list_lost(struct pg_job *job, bool was_sent)
{
    (void)was_sent;
    list_answer(list_of(job));
}

static const struct pg_job_type list_type = {
    .send = list_send,
    .result = list_result,
    .synced = list_synced,
    .done = list_done,
    .lost = list_lost,
};

int pg_queue_list_start(struct pg_conn *conn, const struct pg_queue_env *env,
                        struct store_queue_list *list)
{
    struct pg_list *self = mem_new(1, sizeof(*self));

    if (self == NULL) {
        return ERR_NO_MEMORY;
    }
    self->job.type = &list_type;
    self->env = env;
    self->list = list;
    pg_conn_submit(conn, &self->job);
    return 0;
}
