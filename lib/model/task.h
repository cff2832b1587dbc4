/* SPDX-License-Identifier: Apache-2.0
 *
 * A task as a plain value: its id, its row, and the text form of the id. Shared by core, storage
 * and codec; knows none of them.
 */
#ifndef FOLIOT_LIB_MODEL_TASK_H
#define FOLIOT_LIB_MODEL_TASK_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"
#include "lib/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Identity of a task for ever: its slot, and a number that rises within its shard.
 * seq = epoch (32 bits) · 2^31 + counter (31 bits), above 0. source: DESIGN 9
 */
struct task_id {
    int64_t seq;   /* unique within the shard; 0 means no task */
    uint16_t slot; /* 0 … SLOT_COUNT − 1 */
};

/* "0a7-0000012300000001": 3 hex digits of slot, a dash, 16 hex digits of seq. */
#define TASK_ID_TEXT_LEN 20

#define TASK_COUNTER_BITS 31
#define TASK_COUNTER_MAX  ((INT64_C(1) << TASK_COUNTER_BITS) - 1)

/*
 * One pending task.
 * 1. attempt only rises; the next attempt to be claimed is attempt + 1.
 * 2. A claim is live if and only if the row exists and claim.attempt > attempt.
 */
struct task {
    struct task_id id;
    uint32_t queue;       /* number of its queue */
    uint32_t attempt;     /* highest attempt that is over; 0 before the first */
    uint32_t failures;    /* attempts that ended badly: what the retry policy limits */
    uint32_t unknowns;    /* attempts whose outcome was never learned */
    wall_ms due_ms;       /* when to run it, by the database's clock */
    wall_ms created_ms;   /* when it was answered, by the database's clock */
    uint32_t payload_len; /* bytes of the whole payload, also when payload is left out */
    struct slice payload; /* borrowed; empty if not read because above PAYLOAD_INLINE_BYTES_MAX */
    struct slice key;     /* borrowed; the caller's own name, empty if none */
    struct slice tags;    /* borrowed; canonical text (lib/model/tags.h), empty if none */
    wall_ms expire_ms;    /* no attempt starts after it; 0: never expires */
    /* Of those with one order key in a queue one runs at a time, by (order_ms, id). It is the due
     * time as it was asked for: retries leave it. source: docs/adr/0030 */
    struct slice order_key; /* borrowed; empty if none */
    wall_ms order_ms;       /* with an order key */
};

/* How a task has ended, where that is remembered. Numbers are stored: they never change. */
enum task_end {
    TASK_END_DONE = 1,
    TASK_END_OBSOLETE = 2, /* its target no longer wanted it */
    TASK_END_EXPIRED = 3,  /* its expire_ms had passed */
    TASK_END_DEAD = 4      /* a dead letter */
};

/* A task that has ended. */
struct ended_task {
    struct task task; /* as it was; payload of a dead letter only */
    enum task_end end;
    wall_ms ended_ms;        /* by the database's clock */
    wall_ms until_ms;        /* forgotten then; WALL_NEVER: a dead letter, kept until purged */
    struct slice response;   /* borrowed; DONE: what the target answered */
    struct slice error_text; /* borrowed; DEAD: why, any bytes */
};

/* Shard of a slot. shape: shard_count 1 … SHARD_COUNT_MAX. source: DESIGN 2 */
static inline uint32_t shard_of_slot(uint16_t slot, uint32_t shard_count)
{
    return (uint32_t)slot % shard_count;
}

/* Coarse due time that the index of a task table is built on. */
static inline int64_t due_bucket(wall_ms due_ms)
{
    return due_ms >> DUE_BUCKET_SHIFT;
}

/* seq from its parts. shape: epoch 1 … 2^32 − 1, counter 1 … TASK_COUNTER_MAX. */
static inline int64_t task_seq(int64_t epoch, int64_t counter)
{
    return (epoch << TASK_COUNTER_BITS) | counter;
}

/* Write the text form and a NUL. shape: text has room for TASK_ID_TEXT_LEN + 1 bytes. */
void task_id_format(struct task_id id, char *text);

/*
 * Read the text form.
 *
 * shape:  exactly TASK_ID_TEXT_LEN bytes, lower-case hex, slot below SLOT_COUNT, seq above 0.
 * errors: ERR_INVALID for anything else; id is then untouched.
 */
MUST_USE int task_id_parse(struct slice text, struct task_id *id);

/*
 * The key of a task as it is stored: as it is, or, for a task that has an order key, both of them
 * in bytes that no key of UTF-8 can be: FF order-key FF key. So a key is unique within its order
 * key.
 *
 * shape:  buf has room for both and 2 bytes, and outlives the result; keys within their limits. An
 *         empty key stays empty.
 */
struct slice task_key_join(struct slice order_key, struct slice key, uint8_t *buf);

/* The caller's own key in a stored one, borrowed from it. */
struct slice task_key_own(struct slice stored);

#endif
