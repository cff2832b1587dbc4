/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows, keys, claim rows, dead letters and queues in memory.
 */
#include "storage/mem_table.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

void *mem_need(size_t count, size_t size)
{
    void *block = mem_new(count, size);

    REQUIRE(block != NULL);
    return block;
}

struct slice mem_copy_slice(struct slice slice)
{
    struct slice copy = {NULL, slice.len};

    if (slice.len > 0) {
        void *bytes = mem_copy(slice.data, slice.len);

        REQUIRE(bytes != NULL);
        copy.data = bytes;
    }
    return copy;
}

void mem_free_slice(struct slice slice)
{
    union {
        const uint8_t *borrowed;
        void *ours;
    } bytes = {slice.data};

    mem_free(bytes.ours);
}

void *mem_grow(void *array, size_t count, size_t size)
{
    // Powers of two only, so that appending n elements copies O(n).
    if ((count & (count - 1)) == 0) {
        array = mem_resize(array, (count == 0 ? 1 : 2 * count) * size);
        REQUIRE(array != NULL);
    }
    return array;
}

static void shard_init(struct mem_shard *shard)
{
    mem_index_init(&shard->by_due);
    mem_index_init(&shard->by_seq);
    mem_index_init(&shard->by_order);
    mem_index_init(&shard->keys);
    mem_index_init(&shard->ended);
    mem_index_init(&shard->dead);
}

void mem_tables_init(struct mem_tables *tables, const struct store_mem_options *options)
{
    REQUIRE(options->shard_count >= 1 && options->shard_count <= SHARD_COUNT_MAX);
    REQUIRE(options->database_count >= 1 && options->database_count <= DATABASE_COUNT_MAX);
    memset(tables, 0, sizeof(*tables));
    tables->shard_count = options->shard_count;
    tables->database_count = options->database_count;
    tables->shards = mem_need(options->shard_count, sizeof(*tables->shards));
    tables->databases = mem_need(options->database_count, sizeof(*tables->databases));
    for (uint32_t i = 0; i < options->shard_count; i++) {
        struct mem_shard *shard = &tables->shards[i];

        shard->database = options->database_of == NULL ? 0 : options->database_of[i];
        REQUIRE(shard->database < options->database_count);
        shard_init(shard);
    }
    for (uint32_t i = 0; i < options->database_count; i++) {
        mem_index_init(&tables->databases[i].claims);
    }
}

static void task_fini(struct task *task)
{
    mem_free_slice(task->payload);
    mem_free_slice(task->key);
    mem_free_slice(task->tags);
    mem_free_slice(task->order_key);
}

static void row_free(struct mem_row *row)
{
    task_fini(&row->task);
    mem_free(row);
}

static void ended_free(struct mem_ended *row)
{
    task_fini(&row->ended.task);
    mem_free_slice(row->ended.response);
    mem_free_slice(row->ended.error_text);
    mem_free(row);
}

static void ended_del(struct mem_index *index, struct mem_ended *row)
{
    mem_index_del(index, &row->node);
    ended_free(row);
}

static void ended_fini(struct mem_index *index)
{
    struct mem_index_node *after;

    for (struct mem_index_node *node = mem_index_first(index); node != NULL; node = after) {
        after = node->next;
        ended_free(CONTAINER_OF(node, struct mem_ended, node));
    }
    mem_index_fini(index);
}

static void key_free(struct mem_key *key)
{
    mem_free_slice(key->key);
    mem_free(key);
}

static void shard_fini(struct mem_shard *shard)
{
    struct mem_index_node *node;
    struct mem_index_node *after;

    for (node = mem_index_first(&shard->by_due); node != NULL; node = after) {
        after = node->next;
        row_free(CONTAINER_OF(node, struct mem_row, by_due));
    }
    for (node = mem_index_first(&shard->keys); node != NULL; node = after) {
        after = node->next;
        key_free(CONTAINER_OF(node, struct mem_key, node));
    }
    mem_index_fini(&shard->by_due);
    mem_index_fini(&shard->by_seq);
    mem_index_fini(&shard->by_order);
    mem_index_fini(&shard->keys);
    ended_fini(&shard->ended);
    ended_fini(&shard->dead);
}

static void claims_fini(struct mem_index *claims)
{
    struct mem_index_node *after;

    for (struct mem_index_node *node = mem_index_first(claims); node != NULL; node = after) {
        after = node->next;
        mem_free(CONTAINER_OF(node, struct mem_claim_row, node));
    }
    mem_index_fini(claims);
}

void mem_tables_fini(struct mem_tables *tables)
{
    for (uint32_t i = 0; i < tables->shard_count; i++) {
        shard_fini(&tables->shards[i]);
    }
    for (uint32_t i = 0; i < tables->database_count; i++) {
        claims_fini(&tables->databases[i].claims);
    }
    mem_free(tables->shards);
    mem_free(tables->databases);
    mem_free(tables->queues);
}

static void task_own(struct task *task)
{
    task->payload = mem_copy_slice(task->payload);
    task->key = mem_copy_slice(task->key);
    task->tags = mem_copy_slice(task->tags);
    task->order_key = mem_copy_slice(task->order_key);
}

static void row_add(struct mem_shard *shard, const struct task *task)
{
    struct mem_row *row = mem_need(1, sizeof(*row));

    row->task = *task;
    task_own(&row->task);
    row->by_due.major = due_bucket(task->due_ms);
    row->by_due.minor = task->id.seq;
    row->by_seq.major = task->id.seq;
    mem_index_add(&shard->by_due, &row->by_due);
    mem_index_add(&shard->by_seq, &row->by_seq);
    if (task->order_key.len > 0) {
        row->by_order.major = mem_key_hash(task->queue, task->order_key);
        row->by_order.minor = task->id.seq;
        mem_index_add(&shard->by_order, &row->by_order);
    }
}

static void ended_copy(struct mem_index *index, struct mem_index *from)
{
    for (struct mem_index_node *node = mem_index_first(from); node != NULL; node = node->next) {
        struct mem_ended *row = mem_need(1, sizeof(*row));

        *row = *CONTAINER_OF(node, struct mem_ended, node);
        task_own(&row->ended.task);
        row->ended.response = mem_copy_slice(row->ended.response);
        row->ended.error_text = mem_copy_slice(row->ended.error_text);
        mem_index_add(index, &row->node);
    }
}

void mem_shard_copy(struct mem_shard *shard, struct mem_shard *from)
{
    struct mem_index_node *node;

    shard_fini(shard);
    shard_init(shard);
    shard->epoch = from->epoch;
    for (node = mem_index_first(&from->by_seq); node != NULL; node = node->next) {
        row_add(shard, &CONTAINER_OF(node, struct mem_row, by_seq)->task);
    }
    for (node = mem_index_first(&from->keys); node != NULL; node = node->next) {
        struct mem_key *key = mem_need(1, sizeof(*key));

        *key = *CONTAINER_OF(node, struct mem_key, node);
        key->key = mem_copy_slice(key->key);
        mem_index_add(&shard->keys, &key->node);
    }
    ended_copy(&shard->ended, &from->ended);
    ended_copy(&shard->dead, &from->dead);
}

void mem_claims_copy(struct mem_index *claims, struct mem_index *from)
{
    claims_fini(claims);
    mem_index_init(claims);
    for (struct mem_index_node *node = mem_index_first(from); node != NULL; node = node->next) {
        const struct mem_claim_row *row = CONTAINER_OF(node, struct mem_claim_row, node);
        size_t size = sizeof(*row) + row->count * sizeof(row->members[0]);
        struct mem_claim_row *copy = mem_need(1, size);

        memcpy(copy, row, size);
        mem_index_add(claims, &copy->node);
    }
}

struct mem_row *mem_row_find(struct mem_shard *shard, struct task_id id)
{
    struct mem_index_node *node = mem_index_find(&shard->by_seq, id.seq, 0);
    struct mem_row *row = node == NULL ? NULL : CONTAINER_OF(node, struct mem_row, by_seq);

    return row != NULL && row->task.id.slot == id.slot ? row : NULL;
}

struct mem_ended *mem_ended_find(struct mem_index *index, struct task_id id)
{
    struct mem_index_node *node = mem_index_find(index, id.seq, 0);
    struct mem_ended *row = node == NULL ? NULL : CONTAINER_OF(node, struct mem_ended, node);

    return row != NULL && row->ended.task.id.slot == id.slot ? row : NULL;
}

int64_t mem_key_hash(uint32_t queue, struct slice key)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325) ^ queue;

    for (size_t i = 0; i < key.len; i++) {
        hash = (hash ^ key.data[i]) * UINT64_C(0x100000001B3);
    }
    // A positive number leaves room for "after (hash, −1)".
    return (int64_t)(hash >> 1);
}

struct mem_key *mem_key_find(struct mem_shard *shard, uint32_t queue, struct slice key)
{
    int64_t hash = mem_key_hash(queue, key);

    for (struct mem_index_node *node = mem_index_after(&shard->keys, hash, -1);
         node != NULL && node->major == hash; node = node->next) {
        struct mem_key *row = CONTAINER_OF(node, struct mem_key, node);

        if (row->queue == queue && slice_equal(row->key, key)) {
            return row;
        }
    }
    return NULL;
}

static struct mem_key *key_add(struct mem_shard *shard, uint32_t queue, struct slice key)
{
    struct mem_key *row = mem_need(1, sizeof(*row));
    int64_t hash = mem_key_hash(queue, key);
    int64_t number = 0;

    for (struct mem_index_node *node = mem_index_after(&shard->keys, hash, -1);
         node != NULL && node->major == hash; node = node->next) {
        number = node->minor + 1;
    }
    row->node.major = hash;
    row->node.minor = number;
    row->queue = queue;
    row->key = mem_copy_slice(key);
    mem_index_add(&shard->keys, &row->node);
    return row;
}

static bool same_task(struct task_id a, struct task_id b)
{
    return a.seq == b.seq && a.slot == b.slot;
}

bool mem_claim_is_live(struct mem_tables *tables, const struct mem_claim *claim)
{
    struct mem_row *row = mem_row_find(&tables->shards[claim->shard], claim->id);

    return row != NULL && claim->attempt > row->task.attempt;
}

/* True if the key is free for the insert, or held by the task that it may be taken from. */
static bool is_key_free(const struct mem_key *key, const struct store_op *op)
{
    int64_t from = op->kind == STORE_REDRIVE ? op->task.id.seq : op->key_replaces.seq;

    return key == NULL || (key->until_ms != 0 && key->until_ms <= op->now_ms) ||
           (from != 0 && key->id.seq == from);
}

static void judge_insert(struct mem_shard *shard, struct store_op *op)
{
    struct mem_key *key =
        op->task.key.len == 0 ? NULL : mem_key_find(shard, op->task.queue, op->task.key);

    op->result = 0;
    if (!is_key_free(key, op)) {
        op->existing = key->id;
        op->result = ERR_EXISTS;
    } else if (mem_index_find(&shard->by_seq, op->task.id.seq, 0) != NULL) {
        op->result = ERR_INVALID;
    }
}

static void judge_letter(struct mem_shard *shard, struct store_op *op)
{
    const struct mem_ended *letter = mem_ended_find(&shard->dead, op->task.id);

    if (letter == NULL ||
        (op->kind == STORE_REDRIVE && letter->ended.task.attempt != op->expected_attempt)) {
        op->result = ERR_NOT_FOUND;
    } else if (op->kind == STORE_REDRIVE) {
        judge_insert(shard, op);
    } else {
        op->result = 0;
    }
}

void mem_op_judge(struct mem_shard *shard, struct store_op *op, const struct store_op *insert)
{
    struct mem_row *row;

    if (op->kind == STORE_INSERT) {
        judge_insert(shard, op);
        return;
    }
    if (op->kind == STORE_REDRIVE || op->kind == STORE_PURGE) {
        judge_letter(shard, op);
        return;
    }
    if (insert != NULL) {
        op->result =
            insert->result == 0 && insert->task.attempt == op->expected_attempt ? 0 : ERR_NOT_FOUND;
        return;
    }
    row = mem_row_find(shard, op->task.id);
    op->result = row != NULL && row->task.attempt == op->expected_attempt ? 0 : ERR_NOT_FOUND;
}

static void apply_insert(struct mem_shard *shard, const struct store_op *op)
{
    struct task task = op->task;

    task.payload_len = (uint32_t)task.payload.len;
    task.order_ms = task.order_key.len > 0 ? task.order_ms : 0;
    row_add(shard, &task);
    if (op->task.key.len > 0) {
        struct mem_key *key = mem_key_find(shard, op->task.queue, op->task.key);

        if (key == NULL) {
            key = key_add(shard, op->task.queue, op->task.key);
        }
        key->id = op->task.id;
        key->until_ms = 0;
    }
}

static void key_release(struct mem_shard *shard, const struct task *task, wall_ms until_ms)
{
    struct mem_key *key = task->key.len == 0 ? NULL : mem_key_find(shard, task->queue, task->key);

    if (key == NULL || !same_task(key->id, task->id)) {
        return;
    }
    key->until_ms = until_ms;
    if (until_ms == 0) {
        mem_index_del(&shard->keys, &key->node);
        key_free(key);
    }
}

/* Put what is left of a task in its place; what was there under its number goes. */
static void ended_add(struct mem_index *index, const struct ended_task *ended)
{
    struct mem_index_node *old = mem_index_find(index, ended->task.id.seq, 0);
    struct mem_ended *row = mem_need(1, sizeof(*row));

    if (old != NULL) {
        ended_del(index, CONTAINER_OF(old, struct mem_ended, node));
    }
    row->ended = *ended;
    row->node.major = ended->task.id.seq;
    mem_index_add(index, &row->node);
}

/* A row that is off its indexes becomes what is left of it. */
static void row_end(struct mem_shard *shard, struct mem_row *row, const struct store_op *op)
{
    struct ended_task ended = {.task = row->task, .ended_ms = op->now_ms};

    ended.task.attempt = op->attempt;
    ended.task.failures = op->task.failures;
    ended.task.order_ms = 0; // Of no meaning to what has ended.
    if (op->kind == STORE_DEAD) {
        ended.end = TASK_END_DEAD;
        ended.until_ms = WALL_NEVER;
        ended.error_text = mem_copy_slice(op->error_text);
        ended_add(&shard->dead, &ended);
    } else {
        mem_free_slice(ended.task.payload);
        ended.task.payload = (struct slice){NULL, 0};
        mem_free_slice(ended.task.order_key);
        ended.task.order_key = (struct slice){NULL, 0};
        ended.task.payload_len = 0;
        ended.end = op->end;
        ended.until_ms = op->keep_until_ms;
        ended.response = mem_copy_slice(op->response);
        ended_add(&shard->ended, &ended);
    }
    mem_free(row);
}

static void apply_delete(struct mem_shard *shard, const struct store_op *op)
{
    struct mem_row *row = mem_row_find(shard, op->task.id);

    REQUIRE(row != NULL);
    // What the caller vouches for is looked at here, so that the simulator sees a false word.
    REQUIRE(IMPLIES(op->is_keyless, row->task.key.len == 0));
    key_release(shard, &row->task, op->key_until_ms);
    mem_index_del(&shard->by_due, &row->by_due);
    mem_index_del(&shard->by_seq, &row->by_seq);
    if (row->task.order_key.len > 0) {
        mem_index_del(&shard->by_order, &row->by_order);
    }
    if (op->kind == STORE_DEAD || op->keep_until_ms > 0) {
        row_end(shard, row, op);
    } else {
        row_free(row);
    }
}

/* A dead letter goes, for good or because its task is back. */
static void apply_letter(struct mem_shard *shard, const struct store_op *op)
{
    struct mem_ended *letter = mem_ended_find(&shard->dead, op->task.id);

    REQUIRE(letter != NULL);
    ended_del(&shard->dead, letter);
    if (op->kind == STORE_REDRIVE) {
        apply_insert(shard, op);
    }
}

static void apply_change(struct mem_shard *shard, const struct store_op *op)
{
    struct mem_row *row = mem_row_find(shard, op->task.id);

    REQUIRE(row != NULL);
    row->task.attempt = op->attempt;
    if (op->set_due) {
        mem_index_del(&shard->by_due, &row->by_due);
        row->task.due_ms = op->task.due_ms;
        row->by_due.major = due_bucket(row->task.due_ms);
        mem_index_add(&shard->by_due, &row->by_due);
    }
    if (op->set_payload) {
        mem_free_slice(row->task.payload);
        row->task.payload = mem_copy_slice(op->task.payload);
        row->task.payload_len = (uint32_t)op->task.payload.len;
    }
    if (op->set_counts) {
        row->task.failures = op->task.failures;
        row->task.unknowns = op->task.unknowns;
    }
    if (op->set_order) {
        REQUIRE(row->task.order_key.len > 0);
        row->task.order_ms = op->task.order_ms;
    }
}

static void apply_claim(struct mem_shard *shard, const struct store_op *op)
{
    struct mem_row *row = mem_row_find(shard, op->task.id);

    REQUIRE(row != NULL);
    if (op->raise_attempt) {
        row->task.attempt = op->attempt - 1;
    }
}

void mem_op_apply(struct mem_tables *tables, const struct store_op *op)
{
    struct mem_shard *shard = &tables->shards[op->shard];

    switch (op->kind) {
    case STORE_INSERT:
        apply_insert(shard, op);
        break;
    case STORE_DELETE:
    case STORE_DEAD:
        apply_delete(shard, op);
        break;
    case STORE_REDRIVE:
    case STORE_PURGE:
        apply_letter(shard, op);
        break;
    case STORE_CHANGE:
        apply_change(shard, op);
        break;
    case STORE_CLAIM:
        apply_claim(shard, op);
        break;
    }
}

static size_t claim_count(const struct store_batch *batch)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->op_count; i++) {
        count += batch->ops[i].kind == STORE_CLAIM && batch->ops[i].result == 0;
    }
    return count;
}

/* An empty row under the batch's name with room for `count` more members than it had. */
static struct mem_claim_row *claim_row_make(struct mem_index *claims, struct claim_row name,
                                            size_t count)
{
    struct mem_index_node *node = mem_index_find(claims, name.writer, name.seq);
    struct mem_claim_row *old =
        node == NULL ? NULL : CONTAINER_OF(node, struct mem_claim_row, node);
    size_t before = old == NULL ? 0 : old->count;
    struct mem_claim_row *row =
        mem_need(1, sizeof(*row) + (before + count) * sizeof(row->members[0]));

    if (old != NULL) {
        memcpy(row->members, old->members, before * sizeof(row->members[0]));
        mem_index_del(claims, &old->node);
        mem_free(old);
    }
    row->count = before;
    row->node.major = name.writer;
    row->node.minor = name.seq;
    mem_index_add(claims, &row->node);
    return row;
}

void mem_claims_add(struct mem_tables *tables, const struct store_batch *batch)
{
    struct mem_claim_row *row;
    size_t count = claim_count(batch);

    if (count == 0) {
        return;
    }
    row = claim_row_make(&tables->databases[batch->database].claims, batch->claim_row, count);
    for (size_t i = 0; i < batch->op_count; i++) {
        const struct store_op *op = &batch->ops[i];

        if (op->kind == STORE_CLAIM && op->result == 0) {
            row->members[row->count++] = (struct mem_claim){
                .id = op->task.id,
                .shard = op->shard,
                .attempt = op->attempt,
                .deadline_ms = op->deadline_ms,
            };
        }
    }
}

static bool has_live_member(struct mem_tables *tables, const struct mem_claim_row *row)
{
    for (size_t i = 0; i < row->count; i++) {
        if (mem_claim_is_live(tables, &row->members[i])) {
            return true;
        }
    }
    return false;
}

static void claim_row_del(struct mem_index *claims, struct mem_index_node *node)
{
    mem_index_del(claims, node);
    mem_free(CONTAINER_OF(node, struct mem_claim_row, node));
}

void mem_claims_drop(struct mem_tables *tables, const struct store_batch *batch)
{
    struct mem_index *claims = &tables->databases[batch->database].claims;
    struct mem_index_node *after;

    for (size_t i = 0; i < batch->drop_count; i++) {
        struct mem_index_node *node =
            mem_index_find(claims, batch->drop_rows[i].writer, batch->drop_rows[i].seq);

        if (node != NULL) {
            claim_row_del(claims, node);
        }
    }
    if (!batch->sweep) {
        return;
    }
    for (struct mem_index_node *node = mem_index_first(claims); node != NULL; node = after) {
        after = node->next;
        if (!has_live_member(tables, CONTAINER_OF(node, struct mem_claim_row, node))) {
            claim_row_del(claims, node);
        }
    }
}

void mem_ended_sweep(struct mem_tables *tables, uint32_t database)
{
    wall_ms now_ms = tables->databases[database].now_us / US_PER_MS;
    struct mem_index_node *after;

    for (uint32_t i = 0; i < tables->shard_count; i++) {
        struct mem_shard *shard = &tables->shards[i];
        struct mem_index_node *node =
            shard->database == database ? mem_index_first(&shard->ended) : NULL;

        for (; node != NULL; node = after) {
            struct mem_ended *row = CONTAINER_OF(node, struct mem_ended, node);

            after = node->next;
            if (row->ended.until_ms <= now_ms) {
                ended_del(&shard->ended, row);
            }
        }
    }
}

static struct queue *queue_find(struct mem_tables *tables, const struct queue *wanted)
{
    for (size_t i = 0; i < tables->queue_count; i++) {
        struct queue *queue = &tables->queues[i];

        if (strcmp(queue->tenant, wanted->tenant) == 0 && strcmp(queue->name, wanted->name) == 0) {
            return queue;
        }
    }
    return NULL;
}

static int queue_replace(struct queue *queue, struct store_queue_put *put)
{
    if (put->expected_version == 0) {
        return ERR_EXISTS;
    }
    if (queue->version != put->expected_version) {
        return ERR_CONFLICT;
    }
    put->queue.id = queue->id;
    put->queue.version = queue->version + 1;
    *queue = put->queue;
    return 0;
}

void mem_queue_put(struct mem_tables *tables, struct store_queue_put *put)
{
    struct queue *queue = queue_find(tables, &put->queue);

    if (queue != NULL) {
        put->result = queue_replace(queue, put);
        return;
    }
    if (put->expected_version != 0) {
        put->result = ERR_NOT_FOUND;
        return;
    }
    if (tables->queue_count >= QUEUE_COUNT_MAX) {
        put->result = ERR_FULL;
        return;
    }
    tables->queues = mem_grow(tables->queues, tables->queue_count, sizeof(*tables->queues));
    put->queue.id = ++tables->queue_last;
    put->queue.version = 1;
    tables->queues[tables->queue_count++] = put->queue;
    put->result = 0;
}

void mem_queue_drop(struct mem_tables *tables, struct store_queue_drop *drop)
{
    size_t i = 0;

    while (i < tables->queue_count && tables->queues[i].id != drop->id) {
        i++;
    }
    if (i == tables->queue_count) {
        drop->result = ERR_NOT_FOUND;
    } else if (tables->queues[i].version != drop->expected_version) {
        drop->result = ERR_CONFLICT;
    } else {
        memmove(&tables->queues[i], &tables->queues[i + 1],
                (tables->queue_count - i - 1) * sizeof(tables->queues[0]));
        tables->queue_count--;
        drop->result = 0;
    }
}
