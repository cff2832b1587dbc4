/* SPDX-License-Identifier: Apache-2.0
 *
 * What the calls about tasks share: the caller's structs as plain values.
 */
#ifndef FOLIOT_CLIENT_LIB_TASK_CALLS_H
#define FOLIOT_CLIENT_LIB_TASK_CALLS_H

#include "client/lib/repeat.h"
#include "lib/base/attr.h"
#include "lib/model/tags.h"
#include "proto/codec_task.h"

#include <foliot/task.h>

/* What a create needs besides its request. */
struct create_place {
    int32_t slot; /* of its key, or SLOT_ANY */
    enum repeat_kind kind;
    char tags[TAGS_BYTES_MAX]; /* that the request borrows */
};

/*
 * Take a create apart.
 *
 * ownership: out borrows from what given points to, and from place.
 * errors:    ERR_INVALID with fault filled in; what is not checked here the broker checks.
 */
MUST_USE int task_take_create(const struct foliot_create_request *given, struct create_request *out,
                              struct create_place *place, struct fault *fault);

/* Fill in what a caller is told of a task that was made. */
void task_fill_created(const struct create_reply *reply, struct foliot_created *out);

/* Namespace and queue. errors: ERR_INVALID with fault filled in: too long. */
/* An order key, "" or NULL: none. errors: ERR_INVALID. */
MUST_USE int task_take_order_key(const char *key, struct slice *out, struct fault *fault);

MUST_USE int task_take_queue(const char *name_space, const char *queue, struct queue_name *out,
                             struct fault *fault);

/* Which task, and its slot or SLOT_ANY. errors: ERR_INVALID with fault filled in. */
MUST_USE int task_take_name(const struct foliot_task_name *given, struct task_name *out,
                            int32_t *slot, struct fault *fault);

/*
 * The canonical text of tags.
 *
 * shape:  text has room for TAGS_BYTES_MAX bytes; out borrows it.
 * errors: ERR_INVALID with fault filled in.
 */
MUST_USE int task_take_tags(const struct foliot_tag *tags, size_t count, char *text,
                            struct slice *out, struct fault *fault);

/* The text of an id; "" for none. shape: text has FOLIOT_ID_SIZE bytes. */
void task_format_id(struct task_id id, char *text);

/* A call that names a task and says nothing more. errors: as client_call_new. */
struct client_call;
struct client_method;
MUST_USE struct client_call *task_begin_named(struct foliot_client *client,
                                              const struct client_method *method,
                                              const struct foliot_task_name *name,
                                              const struct foliot_call_options *options, int *code,
                                              struct foliot_error *error);

#endif
