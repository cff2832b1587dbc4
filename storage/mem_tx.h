/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of the memory store: their stages and the locks they hold. Shared by store_mem.c, which
 * knows clients and replies, and mem_tx.c, which knows what a step does in the database.
 */
#ifndef FOLIOT_STORAGE_MEM_TX_H
#define FOLIOT_STORAGE_MEM_TX_H

#include "storage/mem_snapshot.h"
#include "storage/mem_standby.h"
#include "storage/mem_table.h"
#include "storage/store_mem.h"

struct mem_client {
    struct store store; /* first: the interface */
    struct list link;   /* in store_mem.clients */
    struct store_mem *mem;
    struct store_mem_client_options options;
    uint32_t number;
    bool closing;
    size_t pending; /* requests whose callback is still to come, the close included */
};

/* The caller's struct, by kind; NULL for a close. */
union mem_subject {
    const void *any;
    struct store_batch *batch;
    struct store_read *read;
    struct store_bump *bump;
    struct store_queue_put *put;
    struct store_queue_drop *drop;
    struct store_queue_list *list;
};

/*
 * 1. client is NULL if and only if the request is an orphan; then `owned` holds its inputs.
 * 2. A transaction holds its locks if and only if its stage is EXECUTED.
 */
struct store_mem_request {
    struct store_mem *mem;
    struct mem_client *client;
    enum store_mem_kind kind;
    enum store_mem_stage stage;
    uint32_t client_number;
    uint32_t database;
    union mem_subject subject;
    void *owned; /* an orphan's copy of what subject points to */
    int result;
    bool has_looked; /* `touched` is what a fence without lock saw */
    boot_us sent;
    int64_t executed_us; /* the database's clock */
    struct mem_snapshot snapshot;
    struct queue *queues; /* what a queue list saw */
    size_t queue_count;
    store_close_cb close_cb;
    void *close_ctx;
    uint64_t touched[]; /* bit s: a write matched shard s, a bump raises it */
};

struct store_mem {
    struct store_mem_options options;
    struct mem_tables tables;
    struct mem_standby *standby; /* NULL: there is none */
    struct store_mem_request **pending;
    size_t pending_count;
    size_t pending_capacity;
    struct list clients;
    uint32_t client_count;
};

/* True if a step would find the request waiting. */
bool mem_tx_waits(struct store_mem_request *request);

/* Move a request that is not ENDED; an orphan that ends is taken off the list and freed. */
enum store_mem_event mem_tx_step(struct store_mem *mem, struct store_mem_request *request);

/* Do all that a write says whose operations have their results. */
void mem_tx_apply(struct mem_tables *tables, const struct store_batch *batch);

/* A copy of a batch and all that it points to, in one block. Stops the process when out of memory.
 */
struct store_batch *mem_batch_copy(const struct store_batch *batch);

/* Bits of `touched` that are in use, in words. */
size_t mem_tx_touched_words(const struct store_mem *mem);

#endif
