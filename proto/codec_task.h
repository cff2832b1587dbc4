/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of foliot.v1.TaskService. The rules of all codec functions are in codec.h.
 */
#ifndef FOLIOT_PROTO_CODEC_TASK_H
#define FOLIOT_PROTO_CODEC_TASK_H

#include "proto/codec.h"

#include <stdbool.h>

/* ---- Create ---- */

struct create_request {
    struct queue_name queue;
    struct when when; /* WHEN_NONE: at once */
    struct slice payload;
    struct slice key;        /* empty: none */
    struct slice order_key;  /* empty: none */
    struct slice stored_key; /* when read: both, as they are stored; see task_key_join() */
    enum key_policy key_policy;
    wall_ms latest_ms; /* KEY_REPLACE: not due later than this; 0: no bound */
    wall_ms expire_ms; /* 0: as the queue says */
    struct slice tags; /* canonical text */
};

struct create_reply {
    struct task_id id;
    bool created;
    wall_ms due_ms; /* WALL_NEVER: not known, the task that holds the key has ended */
};

MUST_USE int codec_read_create(struct slice bytes, struct arena *arena, struct create_request *out,
                               struct fault *fault);
MUST_USE int codec_write_create(const struct create_request *request, struct buf *out);
MUST_USE int codec_read_create_reply(struct slice bytes, struct arena *arena,
                                     struct create_reply *out, struct fault *fault);
MUST_USE int codec_write_create_reply(const struct create_reply *reply, struct buf *out);

/* ---- BatchCreate: items are read and written one by one ---- */

/* A request whose framing is checked, 1 … BATCH_ITEM_COUNT_MAX items. */
struct create_batch {
    size_t count;
    const void *message; /* private */
    struct arena *arena; /* private: where the items go */
};

MUST_USE int codec_read_batch(struct slice bytes, struct arena *arena, struct create_batch *out,
                              struct fault *fault);

/*
 * Read one item; a fault is that item's own and harms no other.
 *
 * shape:  index below count, in any order. Each once: reading it again takes memory again.
 * errors: ERR_INVALID, ERR_TOO_LARGE, ERR_NO_MEMORY, with fault filled in.
 */
MUST_USE int codec_read_batch_item(const struct create_batch *batch, size_t index,
                                   struct create_request *out, struct fault *fault);

/* Append one item to a BatchCreate request; a request is its items, one behind the other. */
MUST_USE int codec_write_batch_item(const struct create_request *request, struct buf *out);

/* Longest message in the error of an item: 10 000 of them must fit RPC_MESSAGE_BYTES_MAX. */
#define ITEM_MESSAGE_BYTES_MAX 240

/*
 * Append one result to a BatchCreate response; a response is its results, in the order of the
 * items.
 *
 * shape: fault NULL: the item went well, reply is sent; else fault is sent, its message cut at
 *        ITEM_MESSAGE_BYTES_MAX, and reply may be NULL.
 */
MUST_USE int codec_write_batch_result(const struct create_reply *reply, const struct fault *fault,
                                      struct buf *out);

/* A response whose framing is checked. */
struct create_results {
    size_t count;
    const void *message; /* private */
};

MUST_USE int codec_read_batch_reply(struct slice bytes, struct arena *arena,
                                    struct create_results *out, struct fault *fault);

/*
 * Read one result.
 *
 * shape: index below count; *failed says whether fault or out is filled in.
 * errors: ERR_INVALID: the answer itself is wrong, with fault filled in.
 */
MUST_USE int codec_read_batch_result(const struct create_results *results, size_t index,
                                     struct create_reply *out, bool *failed, struct fault *fault);

/* ---- Get, Cancel, RunNow, Explain ---- */

/* Request of all four: they look alike on the wire. */
MUST_USE int codec_read_task_name(struct slice bytes, struct arena *arena, struct task_name *out,
                                  struct fault *fault);
MUST_USE int codec_write_task_name(const struct task_name *name, struct buf *out);

/* Numbered as foliot.v1.TaskState and as the core's states. */
enum task_view_state {
    TASK_VIEW_WAITING = 1,
    TASK_VIEW_READY,
    TASK_VIEW_RUNNING,
    TASK_VIEW_RETRYING,
    TASK_VIEW_DONE, /* this and the rest have ended */
    TASK_VIEW_OBSOLETE,
    TASK_VIEW_DEAD,
    TASK_VIEW_EXPIRED
};

struct task_view {
    struct task_id id;
    struct queue_name queue;
    struct slice key;
    struct slice order_key;
    struct slice payload;
    wall_ms due_ms;
    wall_ms created_ms;
    enum task_view_state state;
    uint32_t attempt; /* highest issued */
    uint32_t failures;
    struct slice tags; /* canonical text */
    wall_ms expire_ms; /* 0: never */
    /* of a task that has ended */
    wall_ms ended_ms;
    wall_ms forget_ms;     /* WALL_NEVER: not by itself */
    struct slice response; /* DONE */
    struct slice error;    /* DEAD: any bytes of at most ERROR_TEXT_BYTES_MAX when written */
};

MUST_USE int codec_read_get_reply(struct slice bytes, struct arena *arena, struct task_view *out,
                                  struct fault *fault);
MUST_USE int codec_write_get_reply(const struct task_view *view, struct buf *out);

/* Numbered as foliot.v1.CancelOutcome and as the core's outcomes. */
enum cancel_answer {
    CANCEL_ANSWER_CANCELLED = 1,
    CANCEL_ANSWER_STOPPED,
    CANCEL_ANSWER_GONE,
    CANCEL_ANSWER_NOT_FOUND
};

struct cancel_reply {
    enum cancel_answer outcome;
    uint32_t attempt;  /* CANCEL_ANSWER_STOPPED: the last one that was issued */
    struct task_id id; /* seq 0: not known */
};

MUST_USE int codec_read_cancel_reply(struct slice bytes, struct arena *arena,
                                     struct cancel_reply *out, struct fault *fault);
MUST_USE int codec_write_cancel_reply(const struct cancel_reply *reply, struct buf *out);

/* ---- Update ---- */

/* At least one of when and payload is said. */
struct update_request {
    struct task_name task;
    struct when when; /* WHEN_NONE: the time stays */
    bool set_payload;
    struct slice payload; /* if set_payload; may be empty */
};

struct update_reply {
    struct task_id id;
    wall_ms due_ms;                  /* WALL_NEVER: not known */
    uint32_t may_be_running_attempt; /* 0: none */
};

MUST_USE int codec_read_update(struct slice bytes, struct arena *arena, struct update_request *out,
                               struct fault *fault);
MUST_USE int codec_write_update(const struct update_request *request, struct buf *out);
/* Response of Update and of RunNow: they look alike on the wire. */
MUST_USE int codec_read_update_reply(struct slice bytes, struct arena *arena,
                                     struct update_reply *out, struct fault *fault);
MUST_USE int codec_write_update_reply(const struct update_reply *reply, struct buf *out);

#endif
