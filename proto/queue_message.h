/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot.v1.Queue to a plain queue and back: what several messages have inside. Private to proto/.
 */
#ifndef FOLIOT_PROTO_QUEUE_MESSAGE_H
#define FOLIOT_PROTO_QUEUE_MESSAGE_H

#include "proto/codec_queue.h"
#include "proto/values.h"

#include <foliot/v1/queue.pb-c.h>

/*
 * Read what a caller wants a queue to be: state and pause are not the caller's to say.
 *
 * shape:  out has its defaults. errors: ERR_INVALID.
 */
MUST_USE int read_queue_msg(const Foliot__V1__Queue *message, struct fault *fault,
                            struct queue *out);

/* Read a queue as a broker has answered it, with id, state and pause. errors: ERR_INVALID. */
MUST_USE int read_queue_reply_msg(const Foliot__V1__Queue *message, struct fault *fault,
                                  struct queue *out);

/* A queue as a generated struct, and what it points to. */
struct queue_wire {
    Foliot__V1__Queue message;
    Foliot__V1__RetryPolicy retry;
    Foliot__V1__OrderPolicy order;
    Google__Protobuf__Duration spans[7];
    Google__Protobuf__Timestamp paused_until;
};

void init_queue(struct queue_wire *wire, const struct queue *queue);

#endif
