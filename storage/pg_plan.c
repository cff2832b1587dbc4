/* SPDX-License-Identifier: Apache-2.0
 *
 * Order, groups and columns of a batch.
 */
#include "storage/pg_plan.h"

#include "lib/base/check.h"

#include <stdlib.h>

/* Which statements insert the tasks of a batch. */
struct inserts {
    enum pg_stmt keyless;
    enum pg_stmt keyed;
};

static enum pg_stmt stmt_of(const struct store_op *op, const struct inserts *inserts)
{
    switch (op->kind) {
    case STORE_INSERT:
        return op->task.key.len > 0 ? inserts->keyed : inserts->keyless;
    case STORE_DELETE:
        if (op->keep_until_ms > 0) {
            return PG_STMT_DELETE_KEPT;
        }
        return op->is_keyless ? PG_STMT_DELETE_KEYLESS : PG_STMT_DELETE;
    case STORE_REDRIVE:
        return PG_STMT_REDRIVE;
    case STORE_PURGE:
        return PG_STMT_PURGE;
    case STORE_DEAD:
        return PG_STMT_DEAD;
    case STORE_CHANGE:
        if (op->set_order) {
            return PG_STMT_CHANGE_ORDER;
        }
        return op->set_payload ? PG_STMT_CHANGE_PAYLOAD : PG_STMT_CHANGE;
    case STORE_CLAIM:
        return op->raise_attempt ? PG_STMT_CHANGE : PG_STMT_CHECK;
    }
    UNREACHABLE();
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_slots(const void *left, const void *right)
{
    const struct pg_slot *a = left;
    const struct pg_slot *b = right;
    int order = compare(a->stmt, b->stmt);

    order = order != 0 ? order : compare(a->shard, b->shard);
    order = order != 0 ? order : compare(a->epoch, b->epoch);
    return order != 0 ? order : compare(a->seq, b->seq);
}

static int compare_fences(const void *left, const void *right)
{
    const struct pg_fence *a = left;
    const struct pg_fence *b = right;
    int order = compare(a->shard, b->shard);

    return order != 0 ? order : compare(a->epoch, b->epoch);
}

const struct pg_slot *pg_plan_find(const struct pg_plan *plan, const struct pg_slot *wanted)
{
    return bsearch(wanted, plan->slots, plan->slot_count, sizeof(plan->slots[0]), compare_slots);
}

const struct pg_slot *pg_plan_find_maker(const struct pg_plan *plan, const struct pg_slot *wanted,
                                         enum pg_stmt first)
{
    struct pg_slot slot = *wanted;
    const struct pg_slot *found = NULL;

    for (slot.stmt = first; slot.stmt <= PG_STMT_REDRIVE && found == NULL; slot.stmt++) {
        found = pg_plan_find(plan, &slot);
    }
    return found;
}

/* Whether a claim holds if only the fence does. An insert without a key makes its row or fails. */
static bool is_sure(const struct pg_plan *plan, size_t index, const struct pg_slot *maker)
{
    const struct pg_slot *slot = &plan->slots[index];

    return slot->stmt == PG_STMT_CHECK && (maker == NULL ? plan->batch->ops[slot->op].is_known
                                                         : maker->stmt < PG_STMT_INSERT_KEYED);
}

/* Find what makes the row of each claim's own task, and take such claims out, and those whose row
 * the caller knows: nothing is to be looked up. What a statement more costs: docs/adr/0010. */
static void pair_claims(struct pg_plan *plan)
{
    size_t kept = 0;

    for (size_t i = 0; i < plan->slot_count; i++) {
        const struct pg_slot *slot = &plan->slots[i];
        const struct store_op *op = &plan->batch->ops[slot->op];
        const struct pg_slot *maker = NULL;

        if (op->kind == STORE_CLAIM) {
            maker = pg_plan_find_maker(plan, slot, PG_STMT_INSERT);
            plan->needs_look = plan->needs_look || !is_sure(plan, i, maker);
        }
        if (maker != NULL) {
            plan->insert_of[slot->op] = maker->op;
        }
        if (slot->stmt != PG_STMT_CHECK || (maker == NULL && !op->is_known)) {
            // What makes rows comes first, so what is searched has its place already.
            plan->slots[kept++] = *slot;
        }
    }
    plan->slot_count = kept;
}

static void list_fences(struct pg_plan *plan)
{
    size_t kept = 0;

    for (size_t i = 0; i < plan->slot_count; i++) {
        const struct pg_slot *slot = &plan->slots[i];

        if (kept == 0 || slot->shard != plan->fences[kept - 1].shard ||
            slot->epoch != plan->fences[kept - 1].epoch) {
            plan->fences[kept++] = (struct pg_fence){slot->shard, slot->epoch};
        }
    }
    qsort(plan->fences, kept, sizeof(plan->fences[0]), compare_fences);
    plan->fence_count = 0;
    for (size_t i = 0; i < kept; i++) {
        if (i == 0 || compare_fences(&plan->fences[i], &plan->fences[plan->fence_count - 1]) != 0) {
            plan->fences[plan->fence_count++] = plan->fences[i];
        }
    }
}

/* One statement for all of a kind: a second one would cost more than nulls do. */
static struct inserts inserts_of(const struct store_batch *batch)
{
    struct inserts inserts = {PG_STMT_INSERT, PG_STMT_INSERT_KEYED};

    for (size_t i = 0; i < batch->op_count; i++) {
        const struct store_op *op = &batch->ops[i];

        if (op->kind != STORE_INSERT) {
            continue;
        }
        if (op->task.order_key.len > 0 && op->task.key.len > 0) {
            inserts.keyed = PG_STMT_INSERT_KEYED_ORDERED;
        } else if (op->task.order_key.len > 0) {
            inserts.keyless = PG_STMT_INSERT_ORDERED;
        } else if ((op->task.tags.len > 0 || op->task.expire_ms != 0) &&
                   inserts.keyless == PG_STMT_INSERT) {
            inserts.keyless = PG_STMT_INSERT_TAGGED;
        }
    }
    return inserts;
}

void pg_plan_make(struct pg_plan *plan, const struct store_batch *batch, const uint8_t *database_of,
                  uint32_t database)
{
    struct inserts inserts = inserts_of(batch);

    plan->batch = batch;
    plan->slot_count = 0;
    plan->claim_count = 0;
    plan->needs_look = false;
    for (size_t i = 0; i < batch->op_count; i++) {
        const struct store_op *op = &batch->ops[i];

        plan->insert_of[i] = PG_NO_OP;
        plan->claim_count += op->kind == STORE_CLAIM;
        // Epoch 0 is how a shard's row begins: nobody's.
        if (database_of[op->shard] != database || op->epoch <= 0) {
            continue;
        }
        plan->slots[plan->slot_count++] = (struct pg_slot){
            .stmt = stmt_of(op, &inserts),
            .shard = op->shard,
            .epoch = op->epoch,
            .seq = op->task.id.seq,
            .op = (uint32_t)i,
        };
    }
    qsort(plan->slots, plan->slot_count, sizeof(plan->slots[0]), compare_slots);
    list_fences(plan);
    if (plan->claim_count > 0) {
        pair_claims(plan);
    }
}

struct pg_group pg_plan_group(const struct pg_plan *plan, size_t first, size_t end)
{
    const struct pg_slot *head = &plan->slots[first];
    size_t next = first + 1;

    while (next < end && plan->slots[next].stmt == head->stmt &&
           plan->slots[next].shard == head->shard && plan->slots[next].epoch == head->epoch) {
        next++;
    }
    return (struct pg_group){first, next - first};
}

/* --- columns ---------------------------------------------------------------------------------- */

static int64_t get_seq(const struct store_op *op)
{
    return op->task.id.seq;
}

static int64_t get_slot(const struct store_op *op)
{
    return op->task.id.slot;
}

static int64_t get_shard(const struct store_op *op)
{
    return op->shard;
}

static int64_t get_epoch(const struct store_op *op)
{
    return op->epoch;
}

static int64_t get_due(const struct store_op *op)
{
    return op->task.due_ms;
}

static int64_t get_created(const struct store_op *op)
{
    return op->task.created_ms;
}

static int64_t get_queue(const struct store_op *op)
{
    return op->task.queue;
}

static int64_t get_task_attempt(const struct store_op *op)
{
    return op->task.attempt;
}

static int64_t get_failures(const struct store_op *op)
{
    return op->task.failures;
}

static int64_t get_unknowns(const struct store_op *op)
{
    return op->task.unknowns;
}

/* What the row must be: attempt and slot in one number. */
static int64_t get_expected(const struct store_op *op)
{
    return (int64_t)op->expected_attempt << 12 | op->task.id.slot;
}

static int64_t get_key_until(const struct store_op *op)
{
    return op->key_until_ms;
}

static int64_t get_attempt(const struct store_op *op)
{
    return op->attempt;
}

/* row.attempt after a change, or after a claim that ends the one before it. */
static int64_t get_new_attempt(const struct store_op *op)
{
    return op->kind == STORE_CLAIM ? (int64_t)op->attempt - 1 : op->attempt;
}

static int64_t get_new_due(const struct store_op *op)
{
    return op->kind == STORE_CHANGE && op->set_due ? op->task.due_ms : PG_DUE_UNCHANGED;
}

static int64_t get_new_failures(const struct store_op *op)
{
    return op->kind == STORE_CHANGE && op->set_counts ? (int64_t)op->task.failures
                                                      : PG_COUNT_UNCHANGED;
}

static int64_t get_new_unknowns(const struct store_op *op)
{
    return op->kind == STORE_CHANGE && op->set_counts ? (int64_t)op->task.unknowns
                                                      : PG_COUNT_UNCHANGED;
}

static int64_t get_now(const struct store_op *op)
{
    return op->now_ms;
}

/* Whom the key may be taken from; a redrive finds it with its own task. */
static int64_t get_replaces(const struct store_op *op)
{
    return op->kind == STORE_REDRIVE ? op->task.id.seq : op->key_replaces.seq;
}

static int64_t get_expire(const struct store_op *op)
{
    return op->task.expire_ms;
}

static int64_t get_keep_until(const struct store_op *op)
{
    return op->keep_until_ms;
}

static int64_t get_end(const struct store_op *op)
{
    return op->end;
}

static struct slice get_payload(const struct store_op *op)
{
    return op->task.payload;
}

static struct slice get_key(const struct store_op *op)
{
    return op->task.key;
}

static struct slice get_error(const struct store_op *op)
{
    return op->error_text;
}

static struct slice get_tags(const struct store_op *op)
{
    return op->task.tags;
}

static struct slice get_order_key(const struct store_op *op)
{
    return op->task.order_key;
}

static int64_t get_order_ms(const struct store_op *op)
{
    return op->task.order_ms;
}

static int64_t get_set_payload(const struct store_op *op)
{
    return op->set_payload;
}

static struct slice get_response(const struct store_op *op)
{
    return op->response;
}

#define NUMBER(type, get)                   \
    {                                       \
        PG_TYPE_INT##type, get, NULL, false \
    }
#define BYTES(get)                      \
    {                                   \
        PG_TYPE_BYTEA, NULL, get, false \
    }
#define SOME_NUMBER(type, get)             \
    {                                      \
        PG_TYPE_INT##type, get, NULL, true \
    }
#define SOME_BYTES(get)                \
    {                                  \
        PG_TYPE_BYTEA, NULL, get, true \
    }

static const struct pg_column insert_columns[] = {
    NUMBER(8, get_seq),         NUMBER(8, get_due),          NUMBER(8, get_created),
    NUMBER(4, get_queue),       NUMBER(4, get_task_attempt), NUMBER(4, get_failures),
    NUMBER(4, get_unknowns),    NUMBER(2, get_slot),         BYTES(get_payload),
    SOME_NUMBER(8, get_expire), SOME_BYTES(get_tags), // as far as the statement has them
    SOME_BYTES(get_key),
};

/* The same, and the place among those of an order key: of no meaning without one. */
static const struct pg_column ordered_columns[] = {
    NUMBER(8, get_seq),         NUMBER(8, get_due),          NUMBER(8, get_created),
    NUMBER(4, get_queue),       NUMBER(4, get_task_attempt), NUMBER(4, get_failures),
    NUMBER(4, get_unknowns),    NUMBER(2, get_slot),         BYTES(get_payload),
    SOME_NUMBER(8, get_expire), SOME_BYTES(get_tags),        SOME_BYTES(get_order_key),
    NUMBER(8, get_order_ms),    SOME_BYTES(get_key),         NUMBER(8, get_expected),
    // the last one of a redrive: the letter's attempt
};

static const struct pg_column kept_columns[] = {
    NUMBER(8, get_seq),        NUMBER(8, get_expected), NUMBER(8, get_key_until), // as for delete
    NUMBER(4, get_attempt),    NUMBER(4, get_failures), NUMBER(8, get_now),
    NUMBER(8, get_keep_until), NUMBER(2, get_end),      SOME_BYTES(get_response),
};

static const struct pg_column purge_columns[] = {
    NUMBER(8, get_seq),
    NUMBER(2, get_slot),
};

static const struct pg_column dead_columns[] = {
    NUMBER(8, get_seq),     NUMBER(8, get_expected), NUMBER(8, get_key_until), // as for delete
    NUMBER(4, get_attempt), NUMBER(4, get_failures), NUMBER(8, get_now),       BYTES(get_error),
};

static const struct pg_column change_columns[] = {
    NUMBER(8, get_seq),     NUMBER(8, get_expected),     NUMBER(4, get_new_attempt),
    NUMBER(8, get_new_due), NUMBER(4, get_new_failures), NUMBER(4, get_new_unknowns),
    BYTES(get_payload), // last: only with a payload
};

static const struct pg_column change_order_columns[] = {
    NUMBER(8, get_seq),     NUMBER(8, get_expected),     NUMBER(4, get_new_attempt),
    NUMBER(8, get_new_due), NUMBER(4, get_new_failures), NUMBER(4, get_new_unknowns),
    BYTES(get_payload),     NUMBER(4, get_set_payload),  NUMBER(8, get_order_ms),
};

static const struct pg_column key_columns[] = {
    NUMBER(4, get_shard),    NUMBER(4, get_queue), SOME_BYTES(get_key),
    NUMBER(8, get_seq),      NUMBER(2, get_slot),  NUMBER(8, get_now),
    NUMBER(8, get_replaces), NUMBER(8, get_epoch), NUMBER(8, get_expected),
};

static const struct pg_column *columns_of(enum pg_stmt stmt)
{
    if (stmt == PG_STMT_INSERT_ORDERED || stmt == PG_STMT_INSERT_KEYED_ORDERED ||
        stmt == PG_STMT_REDRIVE) {
        return ordered_columns;
    }
    if (stmt < PG_STMT_REDRIVE) {
        return insert_columns;
    }
    if (stmt == PG_STMT_CHANGE_ORDER) {
        return change_order_columns;
    }
    if (stmt == PG_STMT_DELETE || stmt == PG_STMT_DELETE_KEYLESS || stmt == PG_STMT_DEAD) {
        return dead_columns;
    }
    if (stmt == PG_STMT_DELETE_KEPT) {
        return kept_columns;
    }
    if (stmt == PG_STMT_PURGE) {
        return purge_columns;
    }
    return stmt == PG_STMT_KEYS ? key_columns : change_columns;
}

const struct pg_column *pg_plan_columns(enum pg_stmt stmt, size_t *count)
{
    // Every parameter but the epoch, or the two of the fence, is a column.
    *count = (size_t)pg_stmt_info(stmt)->param_count - (stmt == PG_STMT_KEYS ? 2 : 1);
    return columns_of(stmt);
}

static void add_number(struct pg_array *out, int64_t value, bool is_null)
{
    if (is_null) {
        pg_array_add_null(out);
    } else {
        pg_array_add_int(out, value);
    }
}

static void add_bytes(struct pg_array *out, struct slice bytes, bool is_null)
{
    if (is_null) {
        pg_array_add_null(out);
    } else {
        pg_array_add_bytes(out, bytes);
    }
}

void pg_plan_fill(const struct pg_plan *plan, const struct pg_column *column,
                  const struct pg_group *group, struct pg_array *out)
{
    pg_array_start(out, column->element);
    for (size_t i = group->first; i < group->first + group->count; i++) {
        const struct store_op *op = &plan->batch->ops[plan->slots[i].op];

        if (column->number != NULL) {
            int64_t value = column->number(op);

            add_number(out, value, column->is_null_if_empty && value == 0);
        } else {
            struct slice bytes = column->bytes(op);

            add_bytes(out, bytes, column->is_null_if_empty && bytes.len == 0);
        }
    }
}
