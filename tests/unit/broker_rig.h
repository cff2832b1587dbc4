/* SPDX-License-Identifier: Apache-2.0
 *
 * One broker over the memory store, a coordinator that grants everything and a target that does
 * what the test says. Time passes when the test says so.
 */
#ifndef FOLIOT_TESTS_UNIT_BROKER_RIG_H
#define FOLIOT_TESTS_UNIT_BROKER_RIG_H

#include "broker/core/broker.h"

#include "broker/core/inspect.h"
#include "lib/base/err.h"
#include "storage/store_mem.h"

#include <criterion/criterion.h>

#define START_MS     INT64_C(1700000000000)
#define SHARDS       4U
#define ATTEMPTS_MAX 16384

/* A request of the core on its way through the rig's door, which notes who is running. */
struct rig_passage {
    void *request;
    union {
        store_batch_cb batch;
        store_read_cb read;
        store_bump_cb bump;
    } cb;
    void *owner;
    struct rig *rig;
};

/* More than the core has requests in flight. */
#define PASSAGES_MAX 16384

struct rig {
    struct coord coord; /* first: the vtable finds us */
    struct store door;  /* what the core takes for the store */
    struct rig_passage passages[PASSAGES_MAX];
    size_t passage_next;
    bool in_core;                       /* the core is running, not what stands around it */
    const struct store_read *rows_read; /* the last read of single rows */
    const void *held;                   /* a request that the store leaves alone; NULL: none */
    const void *refused;                /* a read that it does not take; NULL: none */
    void (*on_write)(struct rig *rig, const struct store_batch *batch); /* NULL: nobody looks */
    void (*on_report)(struct rig *rig, const struct report *report);    /* NULL: of what was done */
    uint32_t writes;                                                    /* in flight */
    struct outbound outbound;
    struct store_mem *mem;
    struct store *store;
    struct broker *broker;
    struct now now;
    span_ms held_ms;      /* the clock has stepped back, and is held so far ahead */
    struct list requests; /* of the coordinator */
    struct attempt *running[ATTEMPTS_MAX];
    struct attempt seen[ATTEMPTS_MAX]; /* copies, in order of start */
    wall_ms seen_at[ATTEMPTS_MAX];
    size_t seen_count;
    size_t answered;
    size_t reports;
    size_t refusals; /* starts while is_full */
    bool is_full;
    int64_t generation;
    struct member self;
};

/* Tasks that the broker of the next rig may have in memory. */
extern uint32_t rig_entry_count_max;

/* From one turn of its auditor to the next; 0: it has none. */
extern span_ms rig_audit_ms;

/* How far ahead the window of the next rig reaches. */
extern span_ms rig_window_ms;

/* Databases of the next rig, which have its shards in turn; how far ahead of the first one's clock
 * those of the others are. */
extern uint32_t rig_database_count;
extern span_ms rig_apart_ms;

/* Operations of a class that may wait for commits; 0: as many as a server lets. */
extern uint32_t rig_waiting_op_max;

/* Writes of a database that may be in flight beside each other, and from how many operations on. */
extern uint32_t rig_stream_count;
extern uint32_t rig_split_op_min;

/* How long an outcome waits for others in the next rig, and how long a claim; 0: not at all. */
extern int64_t rig_settle_wait_us;
extern int64_t rig_claim_wait_us;

/* Owns all shards, and knows queue 1, when it returns. */
void rig_open(struct rig *rig);
void rig_close(struct rig *rig);

/* The steps of rig_open(), for tests in which they may fail: what broker_new() said; then events
 * and some turns. */
int rig_build(struct rig *rig);
void rig_begin(struct rig *rig);

/* Tell the broker of queue 1, as the edge does now and then. */
void rig_queues(struct rig *rig);

/* A queue with room for so many attempts, each of which may take long. */
struct queue rig_queue(uint32_t number, uint32_t concurrency);

/* Make a call without waiting for its answer. */
void rig_call(struct rig *rig, struct call *call);

void rig_set_time(struct rig *rig, wall_ms ms);
wall_ms rig_time(const struct rig *rig);

/* One turn: replies, one tick. */
void rig_turn(struct rig *rig);

/* Turn until `span` has passed, a millisecond a turn. */
void rig_pass(struct rig *rig, span_ms span);

/* One turn with replies to everything but reads, which hang. */
void rig_turn_unread(struct rig *rig);

/* All shards are lost and to be taken again: their rows are read from the beginning. */
void rig_lose_shards(struct rig *rig);

/* A create in queue 1. */
struct call rig_create(struct rig *rig, uint16_t slot, wall_ms due_ms);
struct call rig_by_id(struct rig *rig, enum call_kind kind, struct task_id id);

/* Make a call and turn until it is answered. */
void rig_ask(struct rig *rig, struct call *call);

/* The attempt that was started as the index-th has ended. */
void rig_end(struct rig *rig, size_t index, enum outcome outcome);

/* Tasks in memory. */
uint32_t rig_entries(const struct rig *rig);

/* The write that is in flight, or NULL. */
struct store_mem_request *rig_write(const struct rig *rig);

/* Raise the epoch of a slot's shard: a write to it has an unknown outcome. */
void rig_bump(struct rig *rig, uint16_t slot);

#endif
