/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients, requests and orphans of the memory store, and what a driver may do to them. Locks and
 * stages are in mem_tx.c, rows in mem_table.c.
 */
#include "storage/store_mem.h"

#include "storage/batch_limits.h"
#include "storage/mem_tx.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

/* --- requests --------------------------------------------------------------------------------- */

static int request_add(struct mem_client *client, enum store_mem_kind kind, const void *subject,
                       uint32_t database)
{
    struct store_mem *mem = client->mem;
    struct store_mem_request *request;

    if (client->closing) {
        return ERR_CLOSED;
    }
    if (mem->pending_count == mem->pending_capacity) {
        size_t capacity = 2 * mem->pending_capacity + 16;
        void *pending = mem_resize(mem->pending, capacity * sizeof(struct store_mem_request *));

        if (pending == NULL) {
            return ERR_NO_MEMORY;
        }
        mem->pending = pending;
        mem->pending_capacity = capacity;
    }
    request =
        mem_new(1, sizeof(*request) + mem_tx_touched_words(mem) * sizeof(request->touched[0]));
    if (request == NULL) {
        return ERR_NO_MEMORY;
    }
    request->mem = mem;
    request->kind = kind;
    request->stage = STORE_MEM_SUBMITTED;
    request->client = client;
    request->client_number = client->number;
    request->subject.any = subject;
    request->database = database;
    if (client->options.boot_now != NULL) {
        request->sent = client->options.boot_now(client->options.ctx);
    }
    mem->pending[mem->pending_count++] = request;
    client->pending++;
    return 0;
}

static void request_free(struct store_mem_request *request)
{
    mem_snapshot_fini(&request->snapshot);
    mem_free(request->queues);
    mem_free(request->owned);
    mem_free(request);
}

/* Take a request off the list; the caller frees it. */
static void request_del(struct store_mem *mem, const struct store_mem_request *request)
{
    size_t i = 0;

    while (mem->pending[i] != request) {
        i++;
        REQUIRE(i < mem->pending_count);
    }
    memmove(&mem->pending[i], &mem->pending[i + 1],
            (mem->pending_count - i - 1) * sizeof(struct store_mem_request *));
    mem->pending_count--;
}

static void deliver_read(struct store_mem_request *request)
{
    struct store_read *read = request->subject.read;

    read->result = request->result;
    read->rows = request->snapshot.rows;
    read->row_count = request->snapshot.row_count;
    read->has_more = request->snapshot.has_more;
    read->claims = request->snapshot.claims;
    read->claim_count = request->snapshot.claim_count;
    read->existing = request->snapshot.existing;
    read->ended = request->snapshot.ended;
    read->ended_count = request->snapshot.ended_count;
    read->counts = request->snapshot.counts;
    read->count_count = request->snapshot.count_count;
    read->is_cut = request->snapshot.is_cut;
    for (size_t i = 0; request->snapshot.ours != NULL && i < read->check_count; i++) {
        read->checks[i].ours = request->snapshot.ours[i];
    }
    read->cb(read);
}

static void deliver(struct store_mem_request *request)
{
    union mem_subject subject = request->subject;

    switch (request->kind) {
    case STORE_MEM_WRITE:
        subject.batch->result = request->result;
        subject.batch->cb(subject.batch);
        break;
    case STORE_MEM_READ:
        deliver_read(request);
        break;
    case STORE_MEM_BUMP:
        subject.bump->result = request->result;
        subject.bump->cb(subject.bump);
        break;
    case STORE_MEM_QUEUE_PUT:
        subject.put->result = request->result;
        subject.put->cb(subject.put);
        break;
    case STORE_MEM_QUEUE_DROP:
        subject.drop->result = request->result;
        subject.drop->cb(subject.drop);
        break;
    case STORE_MEM_QUEUE_LIST:
        subject.list->result = request->result;
        subject.list->rows = request->queues;
        subject.list->row_count = request->queue_count;
        subject.list->cb(subject.list);
        break;
    case STORE_MEM_CLOSE:
        request->close_cb(request->close_ctx);
        break;
    }
}

/* Run the callback of a request that is off the list, and free it; a close frees the client. */
static void request_finish(struct store_mem_request *request)
{
    struct mem_client *client = request->client;

    client->pending--;
    deliver(request);
    if (request->kind == STORE_MEM_CLOSE) {
        list_del(&client->link);
        mem_free(client);
    }
    request_free(request);
}

/* A reply has arrived in time. */
static void request_reply(struct store_mem_request *request)
{
    const struct store_mem_client_options *options = &request->client->options;

    request_del(request->mem, request);
    if (options->on_clock != NULL && request->executed_us != 0) {
        options->on_clock(options->ctx, request->database, request->sent,
                          options->boot_now(options->ctx), request->executed_us);
    }
    request_finish(request);
}

/* --- orphans ---------------------------------------------------------------------------------- */

static void copy_bytes(struct slice *slice, uint8_t **place)
{
    if (slice->len > 0) {
        memcpy(*place, slice->data, slice->len);
        slice->data = *place;
        *place += slice->len;
    }
}

struct store_batch *mem_batch_copy(const struct store_batch *batch)
{
    size_t ops_size = batch->op_count * sizeof(batch->ops[0]);
    size_t rows_size = batch->drop_count * sizeof(batch->drop_rows[0]);
    uint8_t *block = mem_need(1, sizeof(*batch) + ops_size + rows_size + batch_bytes(batch));
    uint8_t *place = block + sizeof(*batch);
    struct store_batch *copy = (struct store_batch *)(void *)block;

    *copy = *batch;
    copy->ops = (struct store_op *)(void *)place;
    place += ops_size;
    copy->drop_rows = (const struct claim_row *)(void *)place;
    if (ops_size > 0) {
        memcpy(copy->ops, batch->ops, ops_size);
    }
    if (rows_size > 0) {
        memcpy(place, batch->drop_rows, rows_size);
    }
    place += rows_size;
    for (size_t i = 0; i < copy->op_count; i++) {
        copy_bytes(&copy->ops[i].task.payload, &place);
        copy_bytes(&copy->ops[i].task.key, &place);
        copy_bytes(&copy->ops[i].task.tags, &place);
        copy_bytes(&copy->ops[i].task.order_key, &place);
        copy_bytes(&copy->ops[i].error_text, &place);
        copy_bytes(&copy->ops[i].response, &place);
    }
    return copy;
}

/* Cut a transaction loose from its client: it keeps its own copy of everything. */
static void request_orphan(struct store_mem_request *request)
{
    switch (request->kind) {
    case STORE_MEM_WRITE:
        request->subject.batch = mem_batch_copy(request->subject.batch);
        break;
    case STORE_MEM_BUMP: {
        struct store_bump *bump = mem_need(1, sizeof(*bump));

        *bump = *request->subject.bump;
        bump->instance = NULL;
        request->subject.bump = bump;
        break;
    }
    case STORE_MEM_QUEUE_PUT: {
        struct store_queue_put *put = mem_need(1, sizeof(*put));

        *put = *request->subject.put;
        request->subject.put = put;
        break;
    }
    case STORE_MEM_QUEUE_DROP: {
        struct store_queue_drop *drop = mem_need(1, sizeof(*drop));

        *drop = *request->subject.drop;
        request->subject.drop = drop;
        break;
    }
    case STORE_MEM_READ:
    case STORE_MEM_QUEUE_LIST:
    case STORE_MEM_CLOSE:
        UNREACHABLE();
    }
    request->owned = request->subject.batch;
    request->client = NULL;
}

static bool is_transaction(const struct store_mem_request *request)
{
    return request->kind == STORE_MEM_WRITE || request->kind == STORE_MEM_BUMP ||
           request->kind == STORE_MEM_QUEUE_PUT || request->kind == STORE_MEM_QUEUE_DROP;
}

/* True if the request can still change something without its client. */
static bool lives_on(const struct store_mem_request *request)
{
    return is_transaction(request) && request->stage != STORE_MEM_ENDED;
}

void store_mem_give_up(struct store_mem *mem, struct store_mem_request *request)
{
    struct store_mem_request *answer = request;

    REQUIRE(request->client != NULL && request->kind != STORE_MEM_CLOSE);
    if (lives_on(request)) {
        // The answer takes the client's struct with it, the orphan stays in its place in line.
        answer = mem_need(1, sizeof(*answer));
        memcpy(answer, request, sizeof(*answer));
        request_orphan(request);
    } else {
        request_del(mem, request);
    }
    answer->result = is_transaction(answer) ? ERR_OUTCOME_UNKNOWN : ERR_UNAVAILABLE;
    mem_snapshot_fini(&answer->snapshot);
    answer->queue_count = 0;
    request_finish(answer);
}

void store_mem_refuse(struct store_mem *mem, struct store_mem_request *request)
{
    REQUIRE(request->client != NULL && request->kind != STORE_MEM_CLOSE);
    REQUIRE(request->stage != STORE_MEM_ENDED);
    request_del(mem, request);
    request->result = ERR_UNAVAILABLE;
    request_finish(request);
}

void store_mem_abort(struct store_mem *mem, struct store_mem_request *request)
{
    REQUIRE(request->client == NULL);
    request_del(mem, request);
    request_free(request);
}

void store_mem_crash(struct store_mem *mem, struct store *store)
{
    struct mem_client *client = CONTAINER_OF(store, struct mem_client, store);
    size_t i = 0;

    while (i < mem->pending_count) {
        struct store_mem_request *request = mem->pending[i];

        if (request->client != client) {
            i++;
        } else if (lives_on(request)) {
            request_orphan(request);
            i++;
        } else {
            request_del(mem, request);
            request_free(request);
        }
    }
    list_del(&client->link);
    mem_free(client);
}

bool store_mem_waits(const struct store_mem_request *request)
{
    const struct store_mem *mem = request->mem;

    for (size_t i = 0; i < mem->pending_count; i++) {
        if (mem->pending[i] == request) {
            return mem_tx_waits(mem->pending[i]);
        }
    }
    UNREACHABLE();
}

enum store_mem_event store_mem_step(struct store_mem *mem, struct store_mem_request *request)
{
    enum store_mem_event event = STORE_MEM_GONE;

    if (request->stage != STORE_MEM_ENDED) {
        event = mem_tx_step(mem, request);
    } else if (mem_tx_waits(request)) {
        return STORE_MEM_WAITS;
    } else {
        request_reply(request);
        return STORE_MEM_GONE;
    }
    if (request->client == NULL && request->stage == STORE_MEM_ENDED) {
        // Nobody waits for an orphan's reply.
        store_mem_abort(mem, request);
        return STORE_MEM_GONE;
    }
    return event;
}

void store_mem_run(struct store_mem *mem)
{
    size_t i = 0;

    while (i < mem->pending_count) {
        if (store_mem_step(mem, mem->pending[i]) == STORE_MEM_WAITS) {
            i++;
        } else {
            // Whoever waited may be free now; those in front go first.
            i = 0;
        }
    }
}

/* --- the interface ---------------------------------------------------------------------------- */

static struct mem_client *client_of(struct store *store)
{
    return CONTAINER_OF(store, struct mem_client, store);
}

static void add_shards(uint64_t *shards, const struct store_batch *batch)
{
    for (size_t i = 0; i < batch->op_count; i++) {
        shards[batch->ops[i].shard / 64] |= UINT64_C(1) << (batch->ops[i].shard % 64);
    }
}

static bool share_writer(const struct store_batch *a, const struct store_batch *b)
{
    return a->claim_row.writer != 0 && a->claim_row.writer == b->claim_row.writer;
}

/* Whether another stream of the same client has a shard of this batch in flight, or a claim row of
 * the same writer: rule 6 forbids. */
static bool meets_stream(const struct mem_client *client, const struct store_batch *batch)
{
    const struct store_mem *mem = client->mem;
    uint64_t mine[SHARD_COUNT_MAX / 64] = {0};
    uint64_t others[SHARD_COUNT_MAX / 64] = {0};
    uint64_t both = 0;

    add_shards(mine, batch);
    for (size_t i = 0; i < mem->pending_count; i++) {
        const struct store_mem_request *other = mem->pending[i];

        if (other->kind == STORE_MEM_WRITE && other->client == client &&
            other->subject.batch->stream != batch->stream) {
            add_shards(others, other->subject.batch);
            both |= share_writer(batch, other->subject.batch);
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(mine); i++) {
        both |= mine[i] & others[i];
    }
    return both != 0;
}

static int client_write(struct store *store, struct store_batch *batch)
{
    const struct mem_tables *tables = &client_of(store)->mem->tables;
    struct batch_limits limits = {tables->database_count, tables->shard_count, store->stream_count};
    int code = batch_check(batch, &limits);

    if (code != 0) {
        return code;
    }
    REQUIRE(!meets_stream(client_of(store), batch));
    return request_add(client_of(store), STORE_MEM_WRITE, batch, batch->database);
}

static int client_read(struct store *store, struct store_read *read)
{
    const struct mem_tables *tables = &client_of(store)->mem->tables;

    if (read->limit > store_read_limit_max(read->kind) || read->id_count > SLICE_ROW_COUNT_MAX ||
        read->check_count > SHARD_COUNT_MAX || read->skip_count > QUEUE_COUNT_MAX) {
        return ERR_TOO_LARGE;
    }
    if (read->database >= tables->database_count ||
        (read->kind != STORE_READ_EPOCHS && read->shard >= tables->shard_count)) {
        return ERR_INVALID;
    }
    return request_add(client_of(store), STORE_MEM_READ, read, read->database);
}

static int client_bump(struct store *store, struct store_bump *bump)
{
    const struct mem_tables *tables = &client_of(store)->mem->tables;

    if (bump->database >= tables->database_count || bump->shard >= tables->shard_count) {
        return ERR_INVALID;
    }
    return request_add(client_of(store), STORE_MEM_BUMP, bump, bump->database);
}

static int client_queue_put(struct store *store, struct store_queue_put *put)
{
    return request_add(client_of(store), STORE_MEM_QUEUE_PUT, put, 0);
}

static int client_queue_drop(struct store *store, struct store_queue_drop *drop)
{
    return request_add(client_of(store), STORE_MEM_QUEUE_DROP, drop, 0);
}

static int client_queue_list(struct store *store, struct store_queue_list *list)
{
    return request_add(client_of(store), STORE_MEM_QUEUE_LIST, list, 0);
}

static void client_close(struct store *store, store_close_cb cb, void *ctx)
{
    struct mem_client *client = client_of(store);
    struct store_mem_request *request;
    int added = request_add(client, STORE_MEM_CLOSE, NULL, 0);

    // Closing twice is the caller's mistake, and there is no way to report a lack of memory.
    REQUIRE(added == 0);
    request = client->mem->pending[client->mem->pending_count - 1];
    request->close_cb = cb;
    request->close_ctx = ctx;
    client->closing = true;
}

struct store *store_mem_client(struct store_mem *mem,
                               const struct store_mem_client_options *options)
{
    struct mem_client *client = mem_new(1, sizeof(*client));

    if (client == NULL) {
        return NULL;
    }
    REQUIRE(options == NULL || options->on_clock == NULL || options->boot_now != NULL);
    client->store = (struct store){
        .stream_count = STORE_STREAM_COUNT_MAX,
        .write = client_write,
        .read = client_read,
        .bump = client_bump,
        .queue_put = client_queue_put,
        .queue_drop = client_queue_drop,
        .queue_list = client_queue_list,
        .close = client_close,
    };
    client->mem = mem;
    client->number = mem->client_count++;
    if (options != NULL) {
        client->options = *options;
    }
    list_add(&mem->clients, &client->link);
    return &client->store;
}

uint32_t store_mem_client_number(const struct store *store)
{
    // The store is the client's first member.
    return ((const struct mem_client *)(const void *)store)->number;
}

struct store_mem *store_mem_new(const struct store_mem_options *options)
{
    struct store_mem *mem = mem_new(1, sizeof(*mem));

    if (mem == NULL) {
        return NULL;
    }
    mem->options = *options;
    mem->options.database_of = NULL;
    list_init(&mem->clients);
    mem_tables_init(&mem->tables, options);
    mem->standby = options->has_standby ? mem_standby_new(options) : NULL;
    return mem;
}

void store_mem_free(struct store_mem *mem)
{
    struct list *link;

    while (mem->pending_count > 0) {
        request_free(mem->pending[--mem->pending_count]);
    }
    while ((link = list_take_first(&mem->clients)) != NULL) {
        mem_free(LIST_ENTRY(link, struct mem_client, link));
    }
    mem_tables_fini(&mem->tables);
    mem_standby_free(mem->standby);
    mem_free(mem->pending);
    mem_free(mem);
}

void store_mem_replicate(struct store_mem *mem, uint32_t database, uint64_t number)
{
    REQUIRE(mem->standby != NULL && database < mem->tables.database_count);
    mem_standby_take(mem->standby, database, number);
}

/* What is open ends with the server that it is open on. */
static void end_open(struct store_mem *mem, uint32_t database)
{
    size_t i = 0;

    while (i < mem->pending_count) {
        struct store_mem_request *request = mem->pending[i];

        if (request->database != database || !is_transaction(request)) {
            i++;
        } else if (request->client == NULL) {
            store_mem_abort(mem, request);
        } else {
            i++;
            if (request->stage == STORE_MEM_EXECUTED) {
                request->stage = STORE_MEM_ENDED;
                request->result = ERR_OUTCOME_UNKNOWN;
            }
        }
    }
}

uint64_t store_mem_promote(struct store_mem *mem, uint32_t database)
{
    REQUIRE(mem->standby != NULL && database < mem->tables.database_count);
    end_open(mem, database);
    mem_standby_promote(mem->standby, &mem->tables, database);
    return mem->standby->arrived[database];
}

void store_mem_set_clock(struct store_mem *mem, uint32_t database, int64_t now_us)
{
    REQUIRE(database < mem->tables.database_count);
    mem->tables.databases[database].now_us = now_us;
}

size_t store_mem_pending_count(const struct store_mem *mem)
{
    return mem->pending_count;
}

struct store_mem_request *store_mem_pending(const struct store_mem *mem, size_t i)
{
    REQUIRE(i < mem->pending_count);
    return mem->pending[i];
}

struct store_mem_request *store_mem_find(const struct store_mem *mem, const void *request)
{
    for (size_t i = 0; i < mem->pending_count; i++) {
        if (mem->pending[i]->client != NULL && mem->pending[i]->subject.any == request) {
            return mem->pending[i];
        }
    }
    return NULL;
}

void store_mem_info(const struct store_mem_request *request, struct store_mem_info *info)
{
    *info = (struct store_mem_info){
        .kind = request->kind,
        .stage = request->stage,
        .client = request->client_number,
        .database = request->database,
        .orphan = request->client == NULL,
        .result = request->stage == STORE_MEM_ENDED ? request->result : 0,
    };
    if (request->kind == STORE_MEM_READ) {
        info->shard = request->subject.read->shard;
    } else if (request->kind == STORE_MEM_BUMP) {
        info->shard = request->subject.bump->shard;
    }
}

/* --- inspection ------------------------------------------------------------------------------- */

static struct mem_shard *shard_of(const struct store_mem *mem, uint32_t shard)
{
    REQUIRE(shard < mem->tables.shard_count);
    return &mem->tables.shards[shard];
}

int64_t store_mem_epoch(const struct store_mem *mem, uint32_t shard)
{
    return shard_of(mem, shard)->epoch;
}

size_t store_mem_row_count(const struct store_mem *mem, uint32_t shard)
{
    return shard_of(mem, shard)->by_due.count;
}

const struct task *store_mem_row_after(const struct store_mem *mem, uint32_t shard, int64_t bucket,
                                       int64_t seq)
{
    struct mem_index_node *node = mem_index_after(&shard_of(mem, shard)->by_due, bucket, seq);

    return node == NULL ? NULL : &CONTAINER_OF(node, struct mem_row, by_due)->task;
}

const struct task *store_mem_row(const struct store_mem *mem, uint32_t shard, struct task_id id)
{
    struct mem_row *row = mem_row_find(shard_of(mem, shard), id);

    return row == NULL ? NULL : &row->task;
}

bool store_mem_claim_next(const struct store_mem *mem, uint32_t database,
                          struct store_mem_cursor *cursor, struct claim *claim, uint32_t *shard)
{
    struct mem_index *claims = &mem->tables.databases[database].claims;
    struct mem_index_node *node = mem_index_find(claims, cursor->row.writer, cursor->row.seq);
    const struct mem_claim_row *row = NULL;
    const struct mem_claim *member;

    if (node != NULL) {
        row = CONTAINER_OF(node, struct mem_claim_row, node);
    }
    if (row == NULL || cursor->member >= row->count) {
        node = mem_index_after(claims, cursor->row.writer, cursor->row.seq);
        if (node == NULL) {
            return false;
        }
        row = CONTAINER_OF(node, struct mem_claim_row, node);
        *cursor = (struct store_mem_cursor){.row = {node->major, node->minor}};
    }
    member = &row->members[cursor->member++];
    *claim = (struct claim){
        .row = cursor->row,
        .id = member->id,
        .attempt = member->attempt,
        .deadline_ms = member->deadline_ms,
    };
    *shard = member->shard;
    return true;
}

size_t store_mem_claim_row_count(const struct store_mem *mem, uint32_t database)
{
    REQUIRE(database < mem->tables.database_count);
    return mem->tables.databases[database].claims.count;
}

size_t store_mem_dead_count(const struct store_mem *mem)
{
    size_t count = 0;

    for (uint32_t i = 0; i < mem->tables.shard_count; i++) {
        count += mem->tables.shards[i].dead.count;
    }
    return count;
}

static const struct ended_task *ended_after(struct mem_index *index, int64_t seq)
{
    struct mem_index_node *node = mem_index_after(index, seq, 0);

    return node == NULL ? NULL : &CONTAINER_OF(node, struct mem_ended, node)->ended;
}

const struct ended_task *store_mem_dead_after(const struct store_mem *mem, uint32_t shard,
                                              int64_t seq)
{
    return ended_after(&shard_of(mem, shard)->dead, seq);
}

const struct ended_task *store_mem_ended_after(const struct store_mem *mem, uint32_t shard,
                                               int64_t seq)
{
    return ended_after(&shard_of(mem, shard)->ended, seq);
}

bool store_mem_key(const struct store_mem *mem, uint32_t shard, uint32_t queue, struct slice key,
                   struct store_mem_key *out)
{
    const struct mem_key *row = mem_key_find(shard_of(mem, shard), queue, key);

    if (row == NULL) {
        return false;
    }
    *out = (struct store_mem_key){.id = row->id, .until_ms = row->until_ms};
    return true;
}
