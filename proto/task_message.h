/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot.v1.Task to a plain view and back, and the fields that name a task: what several messages
 * have inside. Private to proto/.
 */
#ifndef FOLIOT_PROTO_TASK_MESSAGE_H
#define FOLIOT_PROTO_TASK_MESSAGE_H

#include "proto/codec_task.h"
#include "proto/values.h"

#include <foliot/v1/task.pb-c.h>

/* The fields that name a task; id or key is NULL unless it was sent. */
struct name_fields {
    const char *tenant;
    const char *queue;
    const char *id;
    const char *key;
    const char *order_key; /* "" or NULL: none */
};

/* shape: as the requests of Get, Cancel, RunNow and Explain. errors: ERR_INVALID. */
MUST_USE int read_name_fields(const struct name_fields *fields, struct arena *arena,
                              struct fault *fault, struct task_name *out);

/* What a message with the shape of GetTaskRequest names; an empty namespace and, of a batch's item,
 * an empty queue are those of `batch`. */
struct name_fields name_fields_of(const Foliot__V1__GetTaskRequest *message,
                                  const struct queue_name *batch);

/* Text forms of a task's names, for generated structs. */
struct name_text {
    char id[TASK_ID_TEXT_LEN + 1];
    char key[KEY_BYTES_MAX + 1];
    char order_key[ORDER_KEY_BYTES_MAX + 1];
};

void format_name(const struct task_name *name, struct name_text *text);

/* Fill in a message with the shape of GetTaskRequest. */
void init_task_name(Foliot__V1__GetTaskRequest *message, const struct task_name *name,
                    struct name_text *text);

/* What a cancel came to. shape: place.prefix is the path. errors: ERR_INVALID. */
MUST_USE int read_cancel_fields(int outcome, uint32_t attempt, const char *id, struct place place,
                                struct cancel_reply *out);

/* A task as a generated struct, and what it points to. */
struct task_wire {
    Foliot__V1__Task message;
    Google__Protobuf__Timestamp times[5];
    struct name_text text;
    struct tags_wire tags;
    char error[ERROR_TEXT_BYTES_MAX + 1];
};

void init_task(struct task_wire *wire, const struct task_view *view);

/* shape: place.prefix is the path of the message. errors: ERR_INVALID. */
MUST_USE int read_task(const Foliot__V1__Task *task, struct arena *arena, struct place place,
                       struct task_view *out);

/* Copy bytes as a NUL-terminated text of at most ERROR_TEXT_BYTES_MAX bytes; what is not UTF-8, or
 * a NUL, becomes a question mark. shape: text has room for ERROR_TEXT_BYTES_MAX + 1. */
char *format_error(struct slice bytes, char *text);

#endif
