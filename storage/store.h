/* SPDX-License-Identifier: Apache-2.0
 *
 * The one door to storage. Everything that changes a shard passes through store_write(): a batch of
 * operations, each with its shard and epoch, committed as a whole. Implementations: memory (the
 * oracle), PostgreSQL, SQLite. tests/contract/store_contract.h runs one suite on all of them.
 *
 * Contract of every request (pinned by the contract suite):
 * 1. A non-zero return means refused; the callback will not run.
 * 2. Zero means that the callback runs exactly once, later, on the loop, never inside the call.
 * 3. The request struct and what it points to belong to the caller, do not move, and are untouched
 *    by the store after the callback begins. Inputs are kept until the callback.
 * 4. Output pointers (rows, claims) are borrowed until the callback returns.
 * 5. Close drains: outstanding callbacks first, then the close callback, then memory may go.
 * 6. Writes of one stream of a database commit in the order in which they were submitted; the core
 *    keeps one of each in flight, and a shard is in one of them at a time. Reads and bumps, and
 *    writes of different streams, may answer in any order.
 * 7. Every write names the epoch; operations of a shard whose epoch is not ours any more drop out
 *    with ERR_FENCED, their neighbours commit.
 * 8. ERR_OUTCOME_UNKNOWN for a batch means: any of it, as a whole, may have committed or may commit
 *    later, until the epochs of all its shards have been raised. ERR_UNAVAILABLE and ERR_FULL mean
 *    that it did not and never will.
 */
#ifndef FOLIOT_STORAGE_STORE_H
#define FOLIOT_STORAGE_STORE_H

#include "lib/base/attr.h"
#include "lib/base/list.h"
#include "lib/model/queue.h"
#include "lib/model/task.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;
struct store_op;
struct store_batch;
struct store_read;
struct store_bump;
struct store_queue_put;
struct store_queue_drop;
struct store_queue_list;

/* One end of a claim row: which stream of which broker instance wrote it, and its running number
 * there. Of one writer the rows are committed one after the other: a store may rely on that. */
struct claim_row {
    int64_t writer; /* random per process start, above 0 */
    int64_t seq;    /* rises within the writer, above 0 */
};

/* One member of a claim row. */
struct claim {
    struct claim_row row;
    struct task_id id;
    uint32_t attempt;
    wall_ms deadline_ms; /* after it the attempt is over, whatever happened */
};

/*
 * What one operation does, and when it matches. "The row" is the task's row in its shard's table.
 * An operation that finds its shard ours and its row not matching gets ERR_NOT_FOUND and changes
 * nothing.
 */
enum store_op_kind {
    /*
     * Insert task.{id, queue, due, created, attempt, failures, unknowns, payload, key, tags,
     * expire, order key, order_ms}. With a key: take it in the key table. It is free if absent,
     * past its memory at now_ms, or held by key_replaces; else ERR_EXISTS, `existing` is filled in
     * and nothing of this operation (nor of the STORE_CLAIM of the same id in this batch, which
     * then gets ERR_NOT_FOUND) happens.
     */
    STORE_INSERT = 1,
    /*
     * If row.attempt == expected_attempt: delete the row; its key is kept until key_until_ms (if
     * the key row still names this task). key_until_ms 0 drops the key at once. With is_keyless the
     * caller vouches that the row has no key, so that none is looked for.
     * With keep_until_ms above 0 the result is kept in `ended` until then: the row without its
     * payload, with attempt and task.failures of the operation, `end`, response, and now_ms as its
     * end. It takes the place of one of the same id.
     */
    STORE_DELETE,
    /*
     * If row.attempt == expected_attempt: set attempt, and due if set_due, payload if set_payload,
     * failures and unknowns if set_counts, order_ms if set_order (the row has an order key).
     * Un-claim, retry and update are all this. Keys, tags and expiry stay as they were inserted.
     */
    STORE_CHANGE,
    /*
     * If row.attempt == expected_attempt: note in this batch's claim row that attempt `attempt` may
     * run until deadline_ms. If raise_attempt: also set row.attempt = attempt − 1 (ends the claim
     * before it). All claims of one batch go into one claim row, named by the batch.
     * With is_known the caller vouches for the row: its memory of the shard is the database's, by
     * the rules of DESIGN 7, while its epoch stands. A store need not look then; one that does says
     * ERR_NOT_FOUND as ever.
     */
    STORE_CLAIM,
    /*
     * As STORE_DELETE, and the whole row goes into `dead`, with error_text, attempt and
     * task.failures of the operation, and now_ms as its end. It takes the place of a dead letter of
     * the same id.
     */
    STORE_DEAD,
    /*
     * If there is a dead letter of (shard, id) whose last attempt is expected_attempt: delete it,
     * and insert task as STORE_INSERT does. What it says is the caller's, who has read the letter:
     * attempt stays, so that attempts only rise, and the payload is the whole one. The key may also
     * be taken if its row still names this task; key_replaces is not looked at. Taken by another:
     * ERR_EXISTS with `existing`, and the letter stays. A STORE_CLAIM of the same id may follow,
     * without raise_attempt: it gets ERR_NOT_FOUND if the task does not come back.
     */
    STORE_REDRIVE,
    /* Delete the dead letter of (shard, id), whatever its attempt. Its key stays as it is. */
    STORE_PURGE
};

/*
 * One operation. No two operations of a batch name the same task, except STORE_INSERT or
 * STORE_REDRIVE and the STORE_CLAIM of the same id, in this order; no two name the same
 * (queue, key).
 */
struct store_op {
    enum store_op_kind kind;
    uint32_t shard;
    int64_t epoch;
    struct task task;          /* id always; the rest as the kind says; all bytes borrowed */
    uint32_t expected_attempt; /* what row.attempt must be; REDRIVE: that of the letter */
    uint32_t attempt;          /* CLAIM: claimed; CHANGE: new row.attempt; DEAD, and DELETE that
                                  keeps: the last one */
    wall_ms deadline_ms;       /* CLAIM */
    wall_ms now_ms;            /* INSERT and REDRIVE with key, DEAD, DELETE that keeps: the shard's
                                  clock, for key memory and dates */
    wall_ms key_until_ms;      /* DELETE, DEAD */
    struct task_id key_replaces; /* INSERT: the key may be taken from this task; seq 0: from none */
    struct slice error_text;     /* DEAD: borrowed, bytes, ≤ ERROR_TEXT_BYTES_MAX */
    wall_ms keep_until_ms;       /* DELETE: the result is kept until then; 0: it is not kept */
    enum task_end end;           /* DELETE that keeps: how the task ended; not TASK_END_DEAD */
    struct slice response;       /* DELETE that keeps: borrowed, bytes, ≤ RESPONSE_BYTES_MAX */
    bool raise_attempt;          /* CLAIM */
    bool is_known;               /* CLAIM, without raise_attempt */
    bool is_keyless;             /* DELETE */
    bool set_due;                /* CHANGE */
    bool set_payload;            /* CHANGE */
    bool set_counts;             /* CHANGE */
    bool set_order;              /* CHANGE */
    /* results, valid if the batch's result is 0 */
    int result;              /* 0, ERR_FENCED, ERR_NOT_FOUND, ERR_EXISTS, ERR_INVALID (poison) */
    struct task_id existing; /* ERR_EXISTS: who holds the key */
    void *owner;             /* the caller's, untouched */
};

/* What an operation counts for in BATCH_BYTES_MAX. */
static inline size_t store_op_bytes(const struct store_op *op)
{
    return op->task.payload.len + op->task.key.len + op->task.order_key.len + op->task.tags.len +
           op->error_text.len + op->response.len;
}

/* Writes of one database that may be in flight beside each other. */
#define STORE_STREAM_COUNT_MAX 2

typedef void (*store_batch_cb)(struct store_batch *batch);

/*
 * A batch: one transaction. Claim rows to drop are known, by the caller, to have no live member;
 * the drop needs no fence because a claim that is dead stays dead.
 */
struct store_batch {
    struct list link; /* the store's while in flight */
    uint32_t database;
    uint32_t stream; /* below store.stream_count */
    struct store_op *ops;
    size_t op_count;                   /* ≤ BATCH_OP_COUNT_MAX; may be 0 if rows are dropped; the
                                          bytes of all operations together ≤ BATCH_BYTES_MAX */
    struct claim_row claim_row;        /* name of the claim row, if any op is a STORE_CLAIM */
    const struct claim_row *drop_rows; /* claim rows to delete */
    size_t drop_count;
    bool sweep; /* also delete every claim row that has no live member; one whose deadlines are
                   still to come may be left for a later sweep. And results that are past their
                   keep_until_ms by the database's own clock: what is left of them goes little
                   by little with later writes */
    store_batch_cb cb;
    void *owner; /* the caller's */
    int result;  /* 0, ERR_OUTCOME_UNKNOWN, ERR_UNAVAILABLE */
};

enum store_read_kind {
    STORE_READ_CLAIMS = 1, /* claims of the shard, live or not; live is decided by task.attempt */
    STORE_READ_SLICE,      /* rows after (after_bucket, after_seq), due bucket ≤ to_bucket, in
                              (bucket, seq) order, at most `limit`: of one queue, or of all but
                              those to skip, whose rows cost nothing, however many they are. A page
                              may end before its limit; has_more says whether it is the last */
    STORE_READ_TASKS,      /* rows of the given ids, absent ones left out, whole payloads */
    STORE_READ_EPOCHS,     /* which of `checks` are still ours: one query for many shards (H-8) */
    STORE_READ_KEY,        /* the key's row: existing = its task (0: unknown or past its memory),
                              and that task's row if it is still pending */
    STORE_READ_DEAD,       /* dead letters: with ids those of the given ids, whole, in any order;
                              without, those of `queue` after after_seq, in order of seq, at most
                              `limit`, and payloads above PAYLOAD_INLINE_BYTES_MAX are left out
                              as in a slice */
    STORE_READ_ENDED,      /* results of the given ids that are kept beyond now_ms, and dead letters
                              of the given ids, whole, in any order */
    STORE_READ_ORDER,      /* the first rows of an order key of a queue, by (order_ms, seq), at most
                              `limit`; payloads as in a slice */
    STORE_READ_COUNTS,     /* tasks and dead letters by queue: of all, whatever that costs, or of
                              one, at a cost by its own size */
    STORE_READ_OVERDUE     /* claims of the shard, live or not, whose deadline is not above now_ms,
                              at most `limit`, in any order */
};

/* Of one queue in one shard. */
struct queue_count {
    uint32_t queue;
    uint64_t pending;
    uint64_t overdue; /* of them, with a due time that is not above now_ms */
    uint64_t dead;
    wall_ms first_due_ms; /* the earliest due time of its tasks; WALL_NEVER if it has none */
};

/* One shard of a STORE_READ_EPOCHS. */
struct epoch_check {
    uint32_t shard;
    int64_t epoch;
    bool ours; /* result: the row's epoch is this one */
};

/* The highest `limit` of a read. */
static inline uint32_t store_read_limit_max(enum store_read_kind kind)
{
    return kind == STORE_READ_COUNTS ? COUNTED_ROW_COUNT_MAX : SLICE_ROW_COUNT_MAX;
}

typedef void (*store_read_cb)(struct store_read *read);

/*
 * A read, in one snapshot with the check that the shard's epoch is still ours; ERR_FENCED if not.
 */
struct store_read {
    struct list link; /* the store's while in flight */
    enum store_read_kind kind;
    uint32_t database;
    uint32_t shard;
    int64_t epoch;
    int64_t after_bucket;      /* SLICE: exclusive start; INT64_MIN for the beginning */
    int64_t after_seq;         /* SLICE, DEAD: exclusive start, 0 for the beginning */
    int64_t to_bucket;         /* SLICE: inclusive end */
    uint32_t limit;            /* SLICE, ORDER: 1 … SLICE_ROW_COUNT_MAX; DEAD: ≤ the same;
                                  COUNTS: tasks, and dead letters, to look at, 1 …
                                  COUNTED_ROW_COUNT_MAX; OVERDUE: 1 … SLICE_ROW_COUNT_MAX */
    const uint32_t *skip;      /* SLICE of all queues: numbers of those to leave out */
    size_t skip_count;         /* SLICE: ≤ QUEUE_COUNT_MAX */
    const uint32_t *known;     /* SLICE of all queues: those that the reader knows, in any order, no
                                  number twice. Rows of others are found, too, but by a walk past
                                  what was deleted before the slice and cannot be cleaned away */
    size_t known_count;        /* SLICE: ≤ QUEUE_COUNT_MAX */
    const struct task_id *ids; /* TASKS, DEAD, ENDED; no id twice */
    size_t id_count;           /* TASKS, DEAD, ENDED: ≤ SLICE_ROW_COUNT_MAX */
    uint32_t queue;   /* KEY, DEAD, ORDER; COUNTS: the only one, 0: all; SLICE: the only one,
                         0: all but those to skip */
    struct slice key; /* KEY; ORDER: the order key */
    wall_ms now_ms;   /* KEY, ENDED, COUNTS, OVERDUE: the shard's clock */
    struct epoch_check *checks; /* EPOCHS: shard and epoch of the read itself are not looked at */
    size_t check_count;         /* EPOCHS: ≤ SHARD_COUNT_MAX */
    store_read_cb cb;
    void *owner; /* the caller's */
    /* results */
    int result; /* 0, ERR_FENCED, ERR_UNAVAILABLE */
    const struct task *rows;
    size_t row_count;
    bool has_more; /* SLICE: behind the last row there may be others; then there is a row */
    const struct claim *claims;
    size_t claim_count;
    struct task_id existing;        /* KEY */
    const struct ended_task *ended; /* DEAD, ENDED: task.attempt is the last one */
    size_t ended_count;
    const struct queue_count *counts; /* COUNTS: by queue, at most QUEUE_COUNT_MAX */
    size_t count_count;
    bool is_cut; /* COUNTS: `limit` tasks or dead letters were looked at, and there may be more */
};

typedef void (*store_bump_cb)(struct store_bump *bump);

/*
 * Raise a shard's epoch, in a transaction of its own: the barrier of a take-over. An older owner
 * that is frozen inside a transaction is terminated, never waited for. source: DESIGN 7,
 * RELIABILITY H-2d
 */
struct store_bump {
    struct list link; /* the store's while in flight */
    uint32_t database;
    uint32_t shard;
    int64_t epoch;
    const char *instance; /* who: for people reading the row */
    store_bump_cb cb;
    void *owner; /* the caller's */
    int result; /* 0; ERR_FENCED: the row's epoch is ≥ ours; ERR_OUTCOME_UNKNOWN; ERR_UNAVAILABLE */
};

typedef void (*store_queue_put_cb)(struct store_queue_put *put);

/* Create (expected_version 0) or replace (the version it must have now) a queue, in the home
 * database. On success queue.id and queue.version are filled in. Refused with ERR_UNAVAILABLE, as
 * drop and list are, while that database is known to be away. */
struct store_queue_put {
    struct list link;
    struct queue queue;
    uint32_t expected_version; /* 0: must not exist */
    store_queue_put_cb cb;
    void *owner;
    int result; /* 0, ERR_EXISTS, ERR_NOT_FOUND, ERR_CONFLICT (other version), ERR_UNAVAILABLE,
                   ERR_OUTCOME_UNKNOWN, ERR_FULL (QUEUE_COUNT_MAX) */
};

typedef void (*store_queue_drop_cb)(struct store_queue_drop *drop);

/* Delete a queue from the home database. Its number is never given again, its name may be. What is
 * left of its tasks is the caller's business. */
struct store_queue_drop {
    struct list link;
    uint32_t id;
    uint32_t expected_version; /* the version it must have now */
    store_queue_drop_cb cb;
    void *owner;
    int result; /* 0, ERR_NOT_FOUND, ERR_CONFLICT (other version), ERR_UNAVAILABLE,
                   ERR_OUTCOME_UNKNOWN */
};

typedef void (*store_queue_list_cb)(struct store_queue_list *list);

/* All queues, by id. Rows are borrowed until the callback returns. */
struct store_queue_list {
    struct list link;
    store_queue_list_cb cb;
    void *owner;
    int result; /* 0, ERR_UNAVAILABLE */
    const struct queue *rows;
    size_t row_count;
};

typedef void (*store_close_cb)(void *ctx);

/* The table that an implementation fills in; the first member of every implementation's struct. */
struct store {
    uint32_t stream_count; /* 1: all writes of a database are of stream 0 */
    int (*write)(struct store *store, struct store_batch *batch);
    int (*read)(struct store *store, struct store_read *read);
    int (*bump)(struct store *store, struct store_bump *bump);
    int (*queue_put)(struct store *store, struct store_queue_put *put);
    int (*queue_drop)(struct store *store, struct store_queue_drop *drop);
    int (*queue_list)(struct store *store, struct store_queue_list *list);
    void (*close)(struct store *store, store_close_cb cb, void *ctx);
};

#endif
