/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch put in order for PostgreSQL: which operations share a statement, in what order the
 * statements go, and what their parameters are. Pure: knows no connection and no result.
 */
#ifndef FOLIOT_STORAGE_PG_PLAN_H
#define FOLIOT_STORAGE_PG_PLAN_H

#include "storage/pg_array.h"
#include "storage/pg_stmt.h"
#include "storage/store.h"

/* One operation in its place. A claim of a task that the batch itself inserts or redrives, or whose
 * row the caller knows, has no statement. */
struct pg_slot {
    enum pg_stmt stmt;
    uint32_t shard;
    int64_t epoch;
    int64_t seq;
    uint32_t op; /* index in the batch */
};

/* Operations of one statement: slots first … first + count − 1. */
struct pg_group {
    size_t first;
    size_t count;
};

#define PG_NO_OP UINT32_MAX

/*
 * 1. Slots are sorted by (stmt, shard, epoch, seq); inserts and redrives are the lowest, so a task
 *    is there before it is claimed, and a key taken before its former holder's end releases it.
 * 2. fences are distinct and sorted, and cover every operation that has a slot.
 */
struct pg_plan {
    const struct store_batch *batch;
    struct pg_slot slots[BATCH_OP_COUNT_MAX];
    size_t slot_count;
    uint32_t insert_of[BATCH_OP_COUNT_MAX]; /* op of what makes the row of a claim, PG_NO_OP */
    struct pg_fence {
        uint32_t shard;
        int64_t epoch;
    } fences[BATCH_OP_COUNT_MAX];
    size_t fence_count;
    size_t claim_count; /* operations of kind STORE_CLAIM */
    bool needs_look;    /* whether a claim holds is known only from an answer besides the fence's */
};

/* Put a batch in order. Operations of shards in other databases, or without an epoch, have
 * no slot and no fence. */
void pg_plan_make(struct pg_plan *plan, const struct store_batch *batch, const uint8_t *database_of,
                  uint32_t database);

/* The group that begins at slot `first` and does not go beyond `end`. shape: first < end. */
struct pg_group pg_plan_group(const struct pg_plan *plan, size_t first, size_t end);

/* The slot of (stmt, shard, epoch, seq), or NULL. */
const struct pg_slot *pg_plan_find(const struct pg_plan *plan, const struct pg_slot *wanted);

/* The slot that makes the row of (shard, epoch, seq), of the statements from `first` on, or NULL.
 * shape: first is one of PG_STMT_INSERT … PG_STMT_REDRIVE. */
const struct pg_slot *pg_plan_find_maker(const struct pg_plan *plan, const struct pg_slot *wanted,
                                         enum pg_stmt first);

/* Most columns of one statement. */
#define PG_COLUMN_COUNT_MAX 15

/* One column of parameters: a number or bytes of an operation. */
struct pg_column {
    uint32_t element; /* PG_TYPE_… */
    int64_t (*number)(const struct store_op *op);
    struct slice (*bytes)(const struct store_op *op);
    bool is_null_if_empty; /* 0, or no bytes, is a null */
};

/* Columns of a statement behind its epoch; NULL elements end it. */
const struct pg_column *pg_plan_columns(enum pg_stmt stmt, size_t *count);

/* Fill an array with one column of some slots. */
void pg_plan_fill(const struct pg_plan *plan, const struct pg_column *column,
                  const struct pg_group *group, struct pg_array *out);

#endif
