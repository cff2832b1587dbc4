/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks and stages of the memory store: who waits for whom, and what executing and committing do.
 */
#include "storage/mem_tx.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

size_t mem_tx_touched_words(const struct store_mem *mem)
{
    return mem->tables.shard_count / 64 + 1;
}

static bool touches(const struct store_mem_request *request, uint32_t shard)
{
    return (request->touched[shard / 64] >> (shard % 64) & 1U) != 0;
}

static void touch(struct store_mem_request *request, uint32_t shard)
{
    request->touched[shard / 64] |= UINT64_C(1) << (shard % 64);
}

/* --- locks ------------------------------------------------------------------------------------ */

/* True if the open transaction holds the row of the shard, for share or for itself. */
static bool holds(const struct store_mem_request *request, uint32_t shard)
{
    if (request->stage != STORE_MEM_EXECUTED || !touches(request, shard)) {
        return false;
    }
    return request->kind == STORE_MEM_BUMP ||
           (request->kind == STORE_MEM_WRITE &&
            request->mem->options.fence == STORE_MEM_FENCE_SHARE);
}

static bool is_ours(const struct store_mem *mem, const struct store_batch *batch,
                    const struct store_op *op)
{
    const struct mem_shard *shard = &mem->tables.shards[op->shard];

    return shard->database == batch->database && op->epoch > 0 && shard->epoch == op->epoch;
}

/* True if a bump of the shard is open: a share lock has to wait for it. */
static bool is_being_bumped(const struct store_mem *mem, uint32_t shard)
{
    for (size_t i = 0; i < mem->pending_count; i++) {
        if (mem->pending[i]->kind == STORE_MEM_BUMP && holds(mem->pending[i], shard)) {
            return true;
        }
    }
    return false;
}

/* The key that an operation writes the row of; empty if none. */
static struct slice op_key(struct store_mem *mem, const struct store_op *op, uint32_t *queue)
{
    struct mem_row *row;

    if (mem_op_inserts(op)) {
        *queue = op->task.queue;
        return op->task.key;
    }
    row = mem_row_find(&mem->tables.shards[op->shard], op->task.id);
    if (row == NULL || (op->kind != STORE_DELETE && op->kind != STORE_DEAD)) {
        return (struct slice){NULL, 0};
    }
    *queue = row->task.queue;
    return row->task.key;
}

static bool ops_meet(struct store_mem *mem, const struct store_op *a, const struct store_op *b)
{
    uint32_t queue_a = 0;
    uint32_t queue_b = 0;
    struct slice key;

    if (a->shard != b->shard) {
        return false;
    }
    if (a->task.id.seq == b->task.id.seq) {
        return true;
    }
    key = op_key(mem, a, &queue_a);
    return key.len > 0 && slice_equal(key, op_key(mem, b, &queue_b)) && queue_a == queue_b;
}

/* True if two writes touch the same task or key. */
static bool writes_meet(struct store_mem *mem, const struct store_mem_request *a,
                        const struct store_mem_request *b)
{
    uint64_t both = 0;

    for (size_t i = 0; i < mem_tx_touched_words(mem); i++) {
        both |= a->touched[i] & b->touched[i];
    }
    if (both == 0) {
        return false;
    }
    for (size_t i = 0; i < a->subject.batch->op_count; i++) {
        for (size_t j = 0; j < b->subject.batch->op_count; j++) {
            if (ops_meet(mem, &a->subject.batch->ops[i], &b->subject.batch->ops[j])) {
                return true;
            }
        }
    }
    return false;
}

/* An earlier write of the same client to the same stream of a database that has not ended. */
static bool is_behind(const struct store_mem *mem, const struct store_mem_request *request)
{
    for (size_t i = 0; mem->pending[i] != request; i++) {
        const struct store_mem_request *other = mem->pending[i];

        if (other->kind == STORE_MEM_WRITE && other->client == request->client &&
            other->client != NULL && other->database == request->database &&
            other->subject.batch->stream == request->subject.batch->stream &&
            other->stage != STORE_MEM_ENDED) {
            return true;
        }
    }
    return false;
}

/* Fill in `touched` anew; true if the write has to wait for a bump. */
static bool match_waits(struct store_mem *mem, struct store_mem_request *request)
{
    const struct store_batch *batch = request->subject.batch;

    if (request->has_looked) {
        return false;
    }
    memset(request->touched, 0, mem_tx_touched_words(mem) * sizeof(request->touched[0]));
    for (size_t i = 0; i < batch->op_count; i++) {
        const struct store_op *op = &batch->ops[i];

        if (!is_ours(mem, batch, op) || touches(request, op->shard)) {
            continue;
        }
        if (mem->options.fence == STORE_MEM_FENCE_SHARE && is_being_bumped(mem, op->shard)) {
            return true;
        }
        touch(request, op->shard);
    }
    request->has_looked = mem->options.fence == STORE_MEM_FENCE_NONE;
    return false;
}

/* True if the write has to wait. */
static bool write_waits(struct store_mem *mem, struct store_mem_request *request)
{
    if (is_behind(mem, request) || match_waits(mem, request)) {
        return true;
    }
    for (size_t i = 0; i < mem->pending_count; i++) {
        const struct store_mem_request *other = mem->pending[i];

        if (other != request && other->kind == STORE_MEM_WRITE &&
            other->stage == STORE_MEM_EXECUTED && writes_meet(mem, request, other)) {
            return true;
        }
    }
    return false;
}

static bool bump_waits(const struct store_mem *mem, const struct store_mem_request *request)
{
    for (size_t i = 0; i < mem->pending_count; i++) {
        if (mem->pending[i] != request && holds(mem->pending[i], request->subject.bump->shard)) {
            return true;
        }
    }
    return false;
}

bool mem_tx_waits(struct store_mem_request *request)
{
    if (request->kind == STORE_MEM_CLOSE) {
        return request->client->pending > 1;
    }
    if (request->stage != STORE_MEM_SUBMITTED) {
        return false;
    }
    if (request->kind == STORE_MEM_WRITE) {
        return write_waits(request->mem, request);
    }
    return request->kind == STORE_MEM_BUMP && bump_waits(request->mem, request);
}

/* --- stages ----------------------------------------------------------------------------------- */

/* What makes the row of the same task earlier in the batch, or NULL. */
static const struct store_op *insert_before(const struct store_batch *batch, size_t i)
{
    const struct store_op *claim = &batch->ops[i];

    while (i > 0) {
        const struct store_op *op = &batch->ops[--i];

        if (mem_op_inserts(op) && op->shard == claim->shard &&
            op->task.id.seq == claim->task.id.seq) {
            return op;
        }
    }
    return NULL;
}

/* store.h: no two operations name the same task. The servers go by it when they look for what makes
 * a claim's row; here it would not be seen, for operations are done one after the other. */
static bool is_named_before(const struct store_batch *batch, size_t i)
{
    const struct store_op *letter = &batch->ops[i];

    while (i > 0) {
        const struct store_op *op = &batch->ops[--i];

        if (op->shard == letter->shard && op->task.id.seq == letter->task.id.seq) {
            return true;
        }
    }
    return false;
}

static void write_execute(struct store_mem *mem, struct store_mem_request *request)
{
    struct store_batch *batch = request->subject.batch;

    for (size_t i = 0; i < batch->op_count; i++) {
        struct store_op *op = &batch->ops[i];
        struct mem_shard *shard = &mem->tables.shards[op->shard];
        const struct store_op *insert = NULL;

        REQUIRE((op->kind != STORE_REDRIVE && op->kind != STORE_PURGE) ||
                !is_named_before(batch, i));
        if (request->has_looked ? !touches(request, op->shard) : !is_ours(mem, batch, op)) {
            op->result = ERR_FENCED;
            continue;
        }
        if (op->kind == STORE_CLAIM &&
            (!op->raise_attempt || mem_row_find(shard, op->task.id) == NULL)) {
            insert = insert_before(batch, i);
        }
        mem_op_judge(shard, op, insert);
    }
}

void mem_tx_apply(struct mem_tables *tables, const struct store_batch *batch)
{
    // Inserts first: one that replaces a key takes it before the old task's end would release it.
    for (int inserts = 1; inserts >= 0; inserts--) {
        for (size_t i = 0; i < batch->op_count; i++) {
            if (batch->ops[i].result == 0 && mem_op_inserts(&batch->ops[i]) == inserts) {
                mem_op_apply(tables, &batch->ops[i]);
            }
        }
    }
    mem_claims_add(tables, batch);
    mem_claims_drop(tables, batch);
    if (batch->sweep) {
        mem_ended_sweep(tables, batch->database);
    }
}

static void bump_execute(struct store_mem *mem, struct store_mem_request *request)
{
    const struct store_bump *bump = request->subject.bump;
    const struct mem_shard *shard = &mem->tables.shards[bump->shard];

    if (shard->database == bump->database && shard->epoch < bump->epoch) {
        touch(request, bump->shard);
    } else {
        request->result = ERR_FENCED;
    }
}

/* The lock timeout of a bump has passed. source: DESIGN 7, RELIABILITY H-2d */
static enum store_mem_event bump_unblock(struct store_mem *mem, struct store_mem_request *request)
{
    const struct store_bump *bump = request->subject.bump;
    size_t i = 0;

    if (mem->tables.shards[bump->shard].epoch >= bump->epoch) {
        request->result = ERR_FENCED;
        request->stage = STORE_MEM_ENDED;
        return STORE_MEM_MOVED;
    }
    while (i < mem->pending_count) {
        struct store_mem_request *other = mem->pending[i];

        if (other == request || !holds(other, bump->shard)) {
            i++;
        } else if (other->client == NULL) {
            store_mem_abort(mem, other);
        } else {
            other->stage = STORE_MEM_ENDED;
            other->result = ERR_OUTCOME_UNKNOWN;
            i++;
        }
    }
    return STORE_MEM_TERMINATED;
}

static enum store_mem_event execute(struct store_mem *mem, struct store_mem_request *request)
{
    request->executed_us = mem->tables.databases[request->database].now_us;
    request->stage = STORE_MEM_EXECUTED;
    switch (request->kind) {
    case STORE_MEM_WRITE:
        write_execute(mem, request);
        break;
    case STORE_MEM_READ:
        mem_snapshot_take(&request->snapshot, &mem->tables, request->subject.read);
        request->result = request->snapshot.result;
        request->stage = STORE_MEM_ENDED;
        break;
    case STORE_MEM_BUMP:
        bump_execute(mem, request);
        break;
    case STORE_MEM_QUEUE_PUT:
    case STORE_MEM_QUEUE_DROP:
        break;
    case STORE_MEM_QUEUE_LIST:
        request->queue_count = mem->tables.queue_count;
        request->queues = mem_resize(NULL, request->queue_count * sizeof(struct queue));
        REQUIRE(request->queues != NULL);
        if (request->queue_count > 0) {
            memcpy(request->queues, mem->tables.queues,
                   request->queue_count * sizeof(struct queue));
        }
        request->stage = STORE_MEM_ENDED;
        break;
    case STORE_MEM_CLOSE:
        request->stage = STORE_MEM_ENDED;
        break;
    }
    return STORE_MEM_MOVED;
}

/* Its number in its database, if there is a standby that has to have it too. */
static uint64_t log_commit(struct store_mem *mem, const struct store_mem_request *request)
{
    bool is_write = request->kind == STORE_MEM_WRITE;

    if (mem->standby == NULL || (!is_write && request->kind != STORE_MEM_BUMP)) {
        return 0;
    }
    return mem_standby_log(
        mem->standby, request->database, is_write ? request->subject.batch : NULL,
        is_write ? NULL : request->subject.bump, mem->tables.databases[request->database].now_us);
}

static void tell_commit(struct store_mem *mem, const struct store_mem_request *request,
                        int64_t epoch_before)
{
    struct store_mem_commit commit = {
        .kind = request->kind,
        .database = request->database,
        .number = log_commit(mem, request),
        .client = request->client_number,
        .orphan = request->client == NULL,
        .batch = request->kind == STORE_MEM_WRITE ? request->subject.batch : NULL,
        .bump = request->kind == STORE_MEM_BUMP ? request->subject.bump : NULL,
        .epoch_before = epoch_before,
    };

    if (mem->options.on_commit != NULL) {
        mem->options.on_commit(mem->options.ctx, &commit);
    }
}

static void commit(struct store_mem *mem, struct store_mem_request *request)
{
    int64_t epoch_before = 0;

    if (request->kind == STORE_MEM_WRITE) {
        mem_tx_apply(&mem->tables, request->subject.batch);
    } else if (request->kind == STORE_MEM_QUEUE_PUT) {
        mem_queue_put(&mem->tables, request->subject.put);
        request->result = request->subject.put->result;
    } else if (request->kind == STORE_MEM_QUEUE_DROP) {
        mem_queue_drop(&mem->tables, request->subject.drop);
        request->result = request->subject.drop->result;
    } else if (request->result == 0) {
        struct mem_shard *shard = &mem->tables.shards[request->subject.bump->shard];

        epoch_before = shard->epoch;
        shard->epoch = request->subject.bump->epoch;
    }
    request->stage = STORE_MEM_ENDED;
    if (request->result == 0) {
        tell_commit(mem, request, epoch_before);
    }
}

enum store_mem_event mem_tx_step(struct store_mem *mem, struct store_mem_request *request)
{
    if (request->stage == STORE_MEM_SUBMITTED) {
        if (!mem_tx_waits(request)) {
            return execute(mem, request);
        }
        return request->kind == STORE_MEM_BUMP ? bump_unblock(mem, request) : STORE_MEM_WAITS;
    }
    REQUIRE(request->stage == STORE_MEM_EXECUTED);
    commit(mem, request);
    return STORE_MEM_MOVED;
}
