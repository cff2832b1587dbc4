/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue as the core remembers it: its policy, its line, and where the rest of it waits. A part of
 * state.h.
 */
#ifndef FOLIOT_BROKER_CORE_QUEUE_STATE_H
#define FOLIOT_BROKER_CORE_QUEUE_STATE_H

#include "broker/core/inspect.h"
#include "lib/base/list.h"
#include "lib/model/queue.h"
#include "lib/model/task.h"

#include <stdbool.h>
#include <stdint.h>

struct shard;

/* Queues parked in shards, all together: what 32 queues that are blocked in every shard need. */
#define PARKS_MAX 131072U

/* Order keys that are remembered: one for so many tasks that may be in memory, and this at most. A
 * struct has 400 bytes, twice as much as a task. */
#define ORDER_SHARE 8
#define ORDERS_MAX  INT64_C(1048576)

/* A place in the order in which a shard's rows are read: bucket, then seq. */
struct place {
    int64_t bucket;
    int64_t seq;
};

/* Behind all places. */
static const struct place place_end = {INT64_MAX, INT64_MAX};

/* Where a row is: by its due time and the seq of its id. */
static inline struct place place_at(wall_ms due_ms, int64_t seq)
{
    return (struct place){due_bucket(due_ms), seq};
}

static inline bool place_is_before(struct place a, struct place b)
{
    return a.bucket < b.bucket || (a.bucket == b.bucket && a.seq < b.seq);
}

static inline bool place_is_same(struct place a, struct place b)
{
    return a.bucket == b.bucket && a.seq == b.seq;
}

struct queue_state {
    struct queue queue;
    bool is_known;       /* read from home; else only its number is known, and its tasks wait */
    bool is_held;        /* paused, by the clock as of this tick */
    uint64_t list;       /* the broker's queue_list in which it was last */
    uint16_t index;      /* in broker.queues */
    uint32_t entries;    /* tasks of it in memory */
    uint32_t flights;    /* claimed or running */
    boot_us full_until;  /* its target had no room: nothing is offered before */
    uint32_t orders;     /* order keys that have come up */
    uint32_t fetching;   /* payloads being read; each will need the room of a flight */
    struct list ready;   /* entries, first come first served */
    struct list fetched; /* entries of that line whose payload was read: served before it */
    uint32_t line_len;   /* entries in both lists */
    uint32_t reading;    /* rows that pages for its parks may bring */
    struct list parks;   /* where its rows wait in the database */
    struct queue_counts counts; /* since the start */
};

/* A queue that is parked in a shard. 1. Of the queue's rows those at or before the cursor are in
 * memory; this takes the place of the shard's own cursor. */
struct park {
    struct list link; /* in queue_state.parks */
    struct shard *shard;
    struct queue_state *queue;
    struct place cursor;
};

/*
 * What is known of an order key whose tasks have come up. See order.h.
 * 1. It is in shard->orders, under its hash; others with that hash follow by `next`.
 * 2. It is in broker.orders_asking if is_asking, else in broker.orders_idle; as an orphan, whose
 *    shard was dropped while it was being read for, in neither and nowhere else.
 * 3. head is 0 while it is asking or reading.
 */
struct order_line {
    struct list link;
    struct order_line *next;
    struct shard *shard;
    struct queue_state *queue;
    uint64_t hash;
    int64_t head; /* task whose turn it is; 0: not known */
    wall_ms head_ms;
    wall_ms arrived_ms; /* the first row that came while it was being read for; WALL_NEVER: none */
    int64_t arrived_seq;
    wall_ms hold_ms; /* 0, or until then an attempt of `ghost`, which is gone, may be running */
    int64_t ghost;
    bool has_more;   /* others than the head may wait in the database */
    bool is_passed;  /* one that is before the head has come while the head was claimed */
    bool is_asking;  /* it is to be read for */
    bool is_reading; /* it is being read for */
    bool is_stale;   /* a row has changed since that was sent */
    bool is_orphan;
    uint8_t key_len;
    uint8_t key[ORDER_KEY_BYTES_MAX];
};

#endif
