/* SPDX-License-Identifier: Apache-2.0
 *
 * What the calls about queues share: a queue as it goes out, and calls that name one.
 */
#ifndef FOLIOT_CLIENT_LIB_QUEUE_CALLS_H
#define FOLIOT_CLIENT_LIB_QUEUE_CALLS_H

#include "lib/base/attr.h"
#include "proto/codec_queue.h"

#include <foliot/queue.h>

struct client_call;
struct client_method;

/* A queue with its texts. */
struct queue_box {
    struct foliot_queue queue; /* first */
    struct queue texts;
};

/* Fill in the queue from its texts. */
void queue_box_fill(struct queue_box *box);

/* Reads an answer that has a queue, or at least who has not confirmed a change. */
typedef int (*queue_reply_read_fn)(struct slice bytes, struct arena *arena, struct queue_reply *out,
                                   struct fault *fault);

/* Read an answer into *(const struct foliot_queue_reply **)result. shape: has_queue: else it is
 * NULL. errors: with fault filled in. */
MUST_USE int queue_reply_decode(struct slice bytes, queue_reply_read_fn read, bool has_queue,
                                void *result, struct fault *fault);

/* decode, deliver and release of a method that is answered with a queue. */
int queue_decode_reply(struct slice bytes, void *result, struct fault *fault);
void queue_deliver_reply(const struct client_call *call, const struct foliot_error *error,
                         const void *result);
void queue_release_reply(void *result);

/* Names of a queue. errors: ERR_INVALID with fault filled in: too long. */
MUST_USE int queue_take_names(const char *name_space, const char *name, struct queue_name *out,
                              struct fault *fault);

/* A call that names a queue and says nothing more. */
MUST_USE struct client_call *queue_begin_named(struct foliot_client *client,
                                               const struct client_method *method,
                                               const struct foliot_queue_name *name,
                                               const struct foliot_call_options *options, int *code,
                                               struct foliot_error *error);

/* The request could not be written: out of memory, for none of these is large. Returns NULL. */
struct client_call *queue_refuse_memory(struct client_call *call, int *code,
                                        struct foliot_error *error);

#endif
