/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of the memory store: committed rows, and what one operation does to them. Knows
 * nothing of transactions, stages and clients; store_mem.c does.
 */
#ifndef FOLIOT_STORAGE_MEM_TABLE_H
#define FOLIOT_STORAGE_MEM_TABLE_H

#include "storage/mem_index.h"
#include "storage/store_mem.h"

struct mem_row {
    struct mem_index_node by_due;   /* (bucket, seq) */
    struct mem_index_node by_seq;   /* (seq, 0) */
    struct mem_index_node by_order; /* (hash of queue and order key, seq), if it has one */
    struct task task;               /* payload, keys and tags are ours */
};

struct mem_key {
    struct mem_index_node node; /* (hash, number): several keys may share a hash */
    uint32_t queue;
    struct slice key; /* ours */
    struct task_id id;
    wall_ms until_ms; /* 0: its task is pending */
};

/* What is left of a task that has ended: a result that is kept, or a dead letter. */
struct mem_ended {
    struct mem_index_node node; /* (seq, 0) */
    struct ended_task ended;    /* all bytes are ours */
};

struct mem_claim {
    struct task_id id;
    uint32_t shard;
    uint32_t attempt;
    wall_ms deadline_ms;
};

struct mem_claim_row {
    struct mem_index_node node; /* (writer, seq) */
    size_t count;
    struct mem_claim members[];
};

struct mem_shard {
    int64_t epoch;
    uint32_t database;
    struct mem_index by_due;
    struct mem_index by_seq;
    struct mem_index by_order;
    struct mem_index keys;
    struct mem_index ended;
    struct mem_index dead;
};

struct mem_database {
    struct mem_index claims;
    int64_t now_us;
};

struct mem_tables {
    struct mem_shard *shards;
    uint32_t shard_count;
    struct mem_database *databases;
    uint32_t database_count;
    struct queue *queues; /* by id */
    size_t queue_count;
    uint32_t queue_last; /* the highest number ever given */
};

/* Reserve memory for a reference: stops the process when there is none. */
void *mem_need(size_t count, size_t size);

/* The same array with room for one element more than its `count`, each of `size` bytes. */
void *mem_grow(void *array, size_t count, size_t size);

/* A copy of bytes of our own; freed by mem_free_slice. */
struct slice mem_copy_slice(struct slice slice);
void mem_free_slice(struct slice slice);

void mem_tables_init(struct mem_tables *tables, const struct store_mem_options *options);
void mem_tables_fini(struct mem_tables *tables);

/* Throw away what a shard has and make it equal to another; the same for the claims of a database.
 */
void mem_shard_copy(struct mem_shard *shard, struct mem_shard *from);
void mem_claims_copy(struct mem_index *claims, struct mem_index *from);

/* The row of a task, or NULL. */
struct mem_row *mem_row_find(struct mem_shard *shard, struct task_id id);

/* What the rows of an order key have in common in shard->by_order: their major number. */
int64_t mem_key_hash(uint32_t queue, struct slice key);

/* The key's row, or NULL. */
struct mem_key *mem_key_find(struct mem_shard *shard, uint32_t queue, struct slice key);

/* What is left of a task in shard->ended or shard->dead, or NULL. */
struct mem_ended *mem_ended_find(struct mem_index *index, struct task_id id);

/* True if the operation makes a row: those go before all others of a batch. */
static inline bool mem_op_inserts(const struct store_op *op)
{
    return op->kind == STORE_INSERT || op->kind == STORE_REDRIVE;
}

/* True if the member's task exists and its attempt is not over. */
bool mem_claim_is_live(struct mem_tables *tables, const struct mem_claim *claim);

/*
 * Fill in the result (and `existing`) of an operation whose shard is ours, against committed rows;
 * changes nothing. STORE_CLAIM after the insert or redrive of its task in one batch looks at
 * `insert`, else NULL.
 */
void mem_op_judge(struct mem_shard *shard, struct store_op *op, const struct store_op *insert);

/* Do what an operation with result 0 says. */
void mem_op_apply(struct mem_tables *tables, const struct store_op *op);

/* Put the claims of a batch with result 0 into one claim row; none: no row. */
void mem_claims_add(struct mem_tables *tables, const struct store_batch *batch);

/* Delete claim rows of a batch: those named, and if it sweeps all that have no live member. */
void mem_claims_drop(struct mem_tables *tables, const struct store_batch *batch);

/* Delete the results in a database that are past their time by its clock. */
void mem_ended_sweep(struct mem_tables *tables, uint32_t database);

/* Create or replace a queue; the put's result says what became of it. */
void mem_queue_put(struct mem_tables *tables, struct store_queue_put *put);

/* Delete a queue; the drop's result says what became of it. */
void mem_queue_drop(struct mem_tables *tables, struct store_queue_drop *drop);

#endif
