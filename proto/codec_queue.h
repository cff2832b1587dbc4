/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of foliot.v1.QueueService. The rules of all codec functions are in codec.h.
 */
#ifndef FOLIOT_PROTO_CODEC_QUEUE_H
#define FOLIOT_PROTO_CODEC_QUEUE_H

#include "proto/codec.h"

/* Most queues on one page: a thousand of the longest fit RPC_MESSAGE_BYTES_MAX. */
#define QUEUE_PAGE_COUNT_MAX 1000

/*
 * Request of Create and of Update: they look alike on the wire.
 *
 * note: what is absent has its default; the queue has passed queue_check(). out->version is what
 * the caller expects (0: any), out->id is 0.
 */
MUST_USE int codec_read_queue(struct slice bytes, struct arena *arena, struct queue *out,
                              struct fault *fault);
MUST_USE int codec_write_queue(const struct queue *queue, struct buf *out);

/* Response of Create and Update; `unconfirmed` are broker names. */
struct queue_reply {
    struct queue queue;
    const char *const *unconfirmed;
    size_t unconfirmed_count; /* ≤ MEMBER_COUNT_MAX */
};

MUST_USE int codec_read_queue_reply(struct slice bytes, struct arena *arena,
                                    struct queue_reply *out, struct fault *fault);
MUST_USE int codec_write_queue_reply(const struct queue_reply *reply, struct buf *out);

/* Get. Its response is read and written as a queue_reply without unconfirmed brokers. */
MUST_USE int codec_read_queue_name(struct slice bytes, struct arena *arena, struct queue_name *out,
                                   struct fault *fault);
MUST_USE int codec_write_queue_name(const struct queue_name *name, struct buf *out);

struct queue_list_request {
    const char *tenant; /* "": all namespaces */
    uint32_t page_size; /* 1 … QUEUE_PAGE_COUNT_MAX */
    uint32_t after_id;  /* list those with a larger id */
};

MUST_USE int codec_read_queue_list(struct slice bytes, struct arena *arena,
                                   struct queue_list_request *out, struct fault *fault);
MUST_USE int codec_write_queue_list(const struct queue_list_request *request, struct buf *out);

/* A List response is its queues, one behind the other, and then the end. */
MUST_USE int codec_write_queue_list_item(const struct queue *queue, struct buf *out);

/* shape: after_id is the id of the last queue on this page if there are more, else 0. */
MUST_USE int codec_write_queue_list_end(uint32_t after_id, struct buf *out);

struct queue_list_reply {
    size_t count;
    uint32_t after_id;   /* 0: last page; else for the next request */
    const void *message; /* private */
};

MUST_USE int codec_read_queue_list_reply(struct slice bytes, struct arena *arena,
                                         struct queue_list_reply *out, struct fault *fault);

/* shape: index below count. errors: ERR_INVALID with fault filled in. */
MUST_USE int codec_read_queue_list_item(const struct queue_list_reply *reply, size_t index,
                                        struct queue *out, struct fault *fault);

#endif
