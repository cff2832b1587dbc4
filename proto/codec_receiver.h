/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of foliot.v1.Receiver. The rules of all codec functions are in codec.h.
 */
#ifndef FOLIOT_PROTO_CODEC_RECEIVER_H
#define FOLIOT_PROTO_CODEC_RECEIVER_H

#include "proto/codec.h"

/* Path of the one method. */
#define RECEIVER_DELIVER_PATH "/foliot.v1.Receiver/Deliver"

/* One try of one task as it travels. */
struct delivery {
    struct task_id id;
    struct queue_name queue;
    struct slice key;       /* empty: none */
    struct slice order_key; /* empty: none */
    wall_ms due_ms;
    wall_ms deadline_ms;
    uint32_t attempt;
    struct slice payload;
    struct slice tags;       /* canonical text */
    wall_ms expire_ms;       /* 0: never */
    const char *traceparent; /* "": none; NULL is written as none */
    const char *tracestate;  /* the same */
};

/* Append one attempt to a Deliver request; a request is its attempts, one behind the other. */
MUST_USE int codec_write_delivery(const struct delivery *delivery, struct buf *out);

/* A request whose framing is checked. */
struct delivery_batch {
    size_t count;
    const void *message; /* private */
    struct arena *arena; /* private */
};

MUST_USE int codec_read_deliver(struct slice bytes, struct arena *arena, struct delivery_batch *out,
                                struct fault *fault);

/* shape: index below count. errors: ERR_INVALID with fault filled in. */
MUST_USE int codec_read_delivery(const struct delivery_batch *batch, size_t index,
                                 struct delivery *out, struct fault *fault);

/* Numbered as foliot.v1.Outcome. */
enum delivery_outcome {
    DELIVERY_DONE = 1,
    DELIVERY_RETRY,
    DELIVERY_DEAD,
    DELIVERY_OBSOLETE
};

struct delivery_result {
    enum delivery_outcome outcome;
    struct slice error;    /* UTF-8, ≤ ERROR_TEXT_BYTES_MAX */
    struct when wait;      /* DELIVERY_RETRY: not before; WHEN_NONE: nothing was said */
    struct slice response; /* DELIVERY_DONE: of any length, as the receiver sent it */
};

/* Append one result to a Deliver response; a response is its results, in order. */
MUST_USE int codec_write_delivery_result(const struct delivery_result *result, struct buf *out);

struct delivery_results {
    size_t count;
    const void *message; /* private */
};

/*
 * Read a receiver's answer.
 *
 * errors: also ERR_INVALID, if there are not exactly `expected` results: nobody can tell then which
 *         attempt each one is about.
 */
MUST_USE int codec_read_deliver_reply(struct slice bytes, size_t expected, struct arena *arena,
                                      struct delivery_results *out, struct fault *fault);

/*
 * Read one result.
 *
 * shape: index below count. An outcome that is unspecified or unknown is a retry and its error says
 *        so; an error text is cut at its limit; an absurd wait is left out. Never fails: a receiver
 *        is not ours.
 */
void codec_read_delivery_result(const struct delivery_results *results, size_t index,
                                struct delivery_result *out);

#endif
