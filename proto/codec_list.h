/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of foliot.v1.TaskService about more than one task, and Explain. The rules of all codec
 * functions are in codec.h.
 */
#ifndef FOLIOT_PROTO_CODEC_LIST_H
#define FOLIOT_PROTO_CODEC_LIST_H

#include "proto/codec_task.h"
#include "proto/page.h"

/* Tasks of one page: with all their tags they are within the elements that a message may have, and
 * with their payloads within RPC_MESSAGE_BYTES_MAX. */
#define LIST_PAGE_COUNT_MAX     500
#define LIST_PAGE_COUNT_DEFAULT 100

/* ---- List ---- */

struct list_request {
    struct queue_name queue; /* name "": all queues of the namespace */
    uint32_t states;         /* bit of each enum task_view_state that is wanted; 0: all */
    wall_ms due_from_ms;     /* 0: no bound */
    wall_ms due_before_ms;   /* WALL_NEVER: no bound */
    struct slice tags;       /* canonical text */
    struct slice order_key;  /* empty: all */
    uint32_t page_size;      /* 1 … LIST_PAGE_COUNT_MAX */
    struct page_mark mark;   /* go on behind it */
    bool with_payload;
};

MUST_USE int codec_read_list(struct slice bytes, struct arena *arena, struct list_request *out,
                             struct fault *fault);

/* shape: of the mark, the shard is below shard_count. */
MUST_USE int codec_write_list(const struct list_request *request, struct buf *out);

/* A List response is its tasks, one behind the other, and then the end. */
MUST_USE int codec_write_list_item(const struct task_view *view, struct buf *out);

/* shape: mark.shard ≥ shard_count: this was the last page. */
MUST_USE int codec_write_list_end(struct page_mark mark, uint32_t shard_count, struct buf *out);

struct list_reply {
    size_t count;
    const char *next_token; /* "": last page */
    const void *message;    /* private */
    struct arena *arena;    /* private */
};

MUST_USE int codec_read_list_reply(struct slice bytes, struct arena *arena, struct list_reply *out,
                                   struct fault *fault);

/* shape: index below count. errors: ERR_INVALID with fault filled in. */
MUST_USE int codec_read_list_item(const struct list_reply *reply, size_t index,
                                  struct task_view *out, struct fault *fault);

/* ---- BatchCancel: its request is opened by codec_read_batch(), items one by one ---- */

/*
 * Read one item; a fault is that item's own and harms no other.
 *
 * shape:  as codec_read_batch_item.
 * errors: ERR_INVALID, ERR_TOO_LARGE, ERR_NO_MEMORY, with fault filled in.
 */
MUST_USE int codec_read_cancel_item(const struct create_batch *batch, size_t index,
                                    struct task_name *out, struct fault *fault);

/* Append one item to a BatchCancel request; a request is its items, one behind the other. */
MUST_USE int codec_write_cancel_item(const struct task_name *name, struct buf *out);

/* Append one result to a BatchCancel response. shape: fault as in codec_write_batch_result. */
MUST_USE int codec_write_cancel_result(const struct cancel_reply *reply, const struct fault *fault,
                                       struct buf *out);

/* A BatchCancel response whose framing is checked. */
MUST_USE int codec_read_cancel_results(struct slice bytes, struct arena *arena,
                                       struct create_results *out, struct fault *fault);

/* Read one result. shape, errors: as codec_read_batch_result. */
MUST_USE int codec_read_cancel_result(const struct create_results *results, size_t index,
                                      struct cancel_reply *out, bool *failed, struct fault *fault);

/* ---- Explain ---- */

/* Numbered as foliot.v1.WaitReason. */
enum wait_reason {
    WAIT_DUE_TIME = 1,
    WAIT_BACKOFF,
    WAIT_QUEUE_PAUSED,
    WAIT_CONCURRENCY,
    WAIT_TARGET_BUSY,
    WAIT_ATTEMPT,
    WAIT_OUTCOME,
    WAIT_LOADING,
    WAIT_WRITE,
    WAIT_QUEUE_UNKNOWN,
    WAIT_LINE,
    WAIT_ORDER_KEY
};

struct explain_reply {
    struct task_view task;
    enum wait_reason reason;
    const char *text;
    wall_ms until_ms; /* WALL_NEVER: not known */
    uint32_t shard;
    const char *broker;
    struct task_id behind; /* WAIT_ORDER_KEY: who goes first; else seq 0 */
};

MUST_USE int codec_read_explain_reply(struct slice bytes, struct arena *arena,
                                      struct explain_reply *out, struct fault *fault);
MUST_USE int codec_write_explain_reply(const struct explain_reply *reply, struct buf *out);

#endif
