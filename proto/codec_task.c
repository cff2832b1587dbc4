/* SPDX-License-Identifier: Apache-2.0
 *
 * Get, Cancel and Update.
 */
#include "proto/codec_task.h"

#include "lib/base/check.h"
#include "proto/message.h"
#include "proto/values.h"

#include <foliot/v1/task.pb-c.h>
#include <string.h>

_Static_assert((int)TASK_VIEW_WAITING == (int)FOLIOT__V1__TASK_STATE__TASK_STATE_WAITING &&
                   (int)TASK_VIEW_RETRYING == (int)FOLIOT__V1__TASK_STATE__TASK_STATE_RETRYING,
               "task states have the same numbers on the wire");
_Static_assert((int)CANCEL_ANSWER_CANCELLED ==
                       (int)FOLIOT__V1__CANCEL_OUTCOME__CANCEL_OUTCOME_CANCELLED &&
                   (int)CANCEL_ANSWER_NOT_FOUND ==
                       (int)FOLIOT__V1__CANCEL_OUTCOME__CANCEL_OUTCOME_NOT_FOUND,
               "outcomes have the same numbers on the wire");
_Static_assert((int)FOLIOT__V1__GET_TASK_REQUEST__TASK_ID ==
                       (int)FOLIOT__V1__CANCEL_TASK_REQUEST__TASK_ID &&
                   sizeof(Foliot__V1__GetTaskRequest) == sizeof(Foliot__V1__CancelTaskRequest),
               "requests of Get and Cancel look alike");

/* The fields that name a task; id or key is NULL unless it was sent. */
struct name_fields {
    const char *tenant;
    const char *queue;
    const char *id;
    const char *key;
};

static int read_name_fields(const struct name_fields *fields, struct fault *fault,
                            struct task_name *out)
{
    struct place place = {"", "queue", fault};
    struct task_name name = {.id = {0, 0}};
    int err =
        read_queue_name(fields->tenant, fields->queue, fields->id != NULL, place, &name.queue);

    if (err != 0) {
        return err;
    }
    if (fields->id != NULL) {
        place.field = "id";
        err = read_task_id(fields->id, place, &name.id);
    } else if (fields->key != NULL && fields->key[0] != '\0') {
        place.field = "key";
        err = read_key(fields->key, place, &name.key);
    } else {
        place.field = fields->key != NULL ? "key" : "task";
        err = refuse_value(&place, "KEY_MISSING",
                           "is empty; name the task by its id, or by queue "
                           "and key");
    }
    if (err == 0) {
        *out = name;
    }
    return err;
}

int codec_read_task_name(struct slice bytes, struct arena *arena, struct task_name *out,
                         struct fault *fault)
{
    const Foliot__V1__GetTaskRequest *request;
    struct name_fields fields = {.id = NULL};
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__get_task_request__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    request = (const Foliot__V1__GetTaskRequest *)(void *)message;
    fields.tenant = request->namespace_;
    fields.queue = request->queue;
    if (request->task_case == FOLIOT__V1__GET_TASK_REQUEST__TASK_ID) {
        fields.id = request->id;
    } else if (request->task_case == FOLIOT__V1__GET_TASK_REQUEST__TASK_KEY) {
        fields.key = request->key;
    }
    return read_name_fields(&fields, fault, out);
}

/* Text forms of a task's names, for generated structs. */
struct name_text {
    char id[TASK_ID_TEXT_LEN + 1];
    char key[KEY_BYTES_MAX + 1];
};

static void format_name(const struct task_name *name, struct name_text *text)
{
    text->id[0] = '\0';
    if (name->id.seq != 0) {
        task_id_format(name->id, text->id);
    }
    REQUIRE(name->key.len <= KEY_BYTES_MAX);
    if (name->key.len > 0) {
        memcpy(text->key, name->key.data, name->key.len);
    }
    text->key[name->key.len] = '\0';
}

int codec_write_task_name(const struct task_name *name, struct buf *out)
{
    Foliot__V1__GetTaskRequest message;
    struct name_text text;

    format_name(name, &text);
    foliot__v1__get_task_request__init(&message);
    message.namespace_ = wire_text(name->queue.tenant);
    message.queue = wire_text(name->queue.name);
    if (name->id.seq != 0) {
        message.task_case = FOLIOT__V1__GET_TASK_REQUEST__TASK_ID;
        message.id = text.id;
    } else {
        message.task_case = FOLIOT__V1__GET_TASK_REQUEST__TASK_KEY;
        message.key = text.key;
    }
    return message_write(&message.base, out);
}

static int read_task(const Foliot__V1__Task *task, struct fault *fault, struct task_view *out)
{
    int err = read_task_id(task->id, (struct place){"task.", "id", fault}, &out->id);

    if (err == 0) {
        err = read_queue_name(task->namespace_, task->queue, true,
                              (struct place){"task.", "queue", fault}, &out->queue);
    }
    out->key = slice_of(task->key);
    out->payload = (struct slice){task->payload.data, task->payload.len};
    out->due_ms = read_reply_time(task->due_time);
    out->created_ms = read_reply_time(task->create_time);
    out->state = (enum task_view_state)task->state;
    out->attempt = task->attempt;
    out->failures = task->failures;
    return err;
}

int codec_read_get_reply(struct slice bytes, struct arena *arena, struct task_view *out,
                         struct fault *fault)
{
    const Foliot__V1__GetTaskResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__get_task_response__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__GetTaskResponse *)(void *)message;
    if (reply->task == NULL) {
        return refuse_value(&(struct place){"", "task", fault}, "REPLY_INVALID", "is absent");
    }
    return read_task(reply->task, fault, out);
}

int codec_write_get_reply(const struct task_view *view, struct buf *out)
{
    Foliot__V1__GetTaskResponse message;
    Foliot__V1__Task task;
    Google__Protobuf__Timestamp due;
    Google__Protobuf__Timestamp created;
    struct name_text text;

    format_name(&(struct task_name){.id = view->id, .key = view->key}, &text);
    foliot__v1__task__init(&task);
    task.id = text.id;
    task.namespace_ = wire_text(view->queue.tenant);
    task.queue = wire_text(view->queue.name);
    task.key = text.key;
    task.due_time = write_time(view->due_ms, &due);
    task.create_time = write_time(view->created_ms, &created);
    task.payload = wire_bytes(view->payload);
    task.state = (Foliot__V1__TaskState)view->state;
    task.attempt = view->attempt;
    task.failures = view->failures;
    foliot__v1__get_task_response__init(&message);
    message.task = &task;
    return message_write(&message.base, out);
}

int codec_read_cancel_reply(struct slice bytes, struct arena *arena, struct cancel_reply *out,
                            struct fault *fault)
{
    const Foliot__V1__CancelTaskResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__cancel_task_response__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__CancelTaskResponse *)(void *)message;
    if ((int)reply->outcome < (int)CANCEL_ANSWER_CANCELLED ||
        (int)reply->outcome > (int)CANCEL_ANSWER_NOT_FOUND) {
        return refuse_value(&(struct place){"", "outcome", fault}, "REPLY_INVALID",
                            "is %d, which is not known", (int)reply->outcome);
    }
    out->outcome = (enum cancel_answer)reply->outcome;
    out->attempt = reply->attempt;
    out->id = (struct task_id){0, 0};
    if (reply->id[0] == '\0') {
        return 0;
    }
    return read_task_id(reply->id, (struct place){"", "id", fault}, &out->id);
}

int codec_write_cancel_reply(const struct cancel_reply *reply, struct buf *out)
{
    Foliot__V1__CancelTaskResponse message;
    struct name_text text;

    format_name(&(struct task_name){.id = reply->id}, &text);
    foliot__v1__cancel_task_response__init(&message);
    message.outcome = (Foliot__V1__CancelOutcome)reply->outcome;
    message.attempt = reply->attempt;
    message.id = text.id;
    return message_write(&message.base, out);
}

typedef Foliot__V1__UpdateTaskRequest update_msg;

static int read_update_when(const update_msg *message, struct fault *fault, struct when *out)
{
    out->kind = WHEN_NONE;
    if (message->when_case == FOLIOT__V1__UPDATE_TASK_REQUEST__WHEN_DUE_TIME) {
        out->kind = WHEN_DUE;
        return read_due(message->due_time, (struct place){"", "due_time", fault}, &out->due_ms);
    }
    if (message->when_case == FOLIOT__V1__UPDATE_TASK_REQUEST__WHEN_DELAY) {
        out->kind = WHEN_DELAY;
        return read_delay(message->delay, (struct place){"", "delay", fault}, &out->delay_ms);
    }
    return 0;
}

static int read_update_msg(const update_msg *message, struct fault *fault,
                           struct update_request *out)
{
    struct update_request request = {.set_payload = false};
    struct name_fields fields = {.tenant = message->namespace_, .queue = message->queue};
    int err;

    if (message->task_case == FOLIOT__V1__UPDATE_TASK_REQUEST__TASK_ID) {
        fields.id = message->id;
    } else if (message->task_case == FOLIOT__V1__UPDATE_TASK_REQUEST__TASK_KEY) {
        fields.key = message->key;
    }
    err = read_name_fields(&fields, fault, &request.task);
    if (err == 0) {
        err = read_update_when(message, fault, &request.when);
    }
    if (err == 0 && message->change_case == FOLIOT__V1__UPDATE_TASK_REQUEST__CHANGE_PAYLOAD) {
        request.set_payload = true;
        err =
            read_payload(message->payload, (struct place){"", "payload", fault}, &request.payload);
    }
    if (err == 0 && request.when.kind == WHEN_NONE && !request.set_payload) {
        err = refuse_value(&(struct place){"", "when", fault}, "CHANGE_MISSING",
                           "and payload are both absent; give a new due_time, delay or payload");
    }
    if (err == 0) {
        *out = request;
    }
    return err;
}

int codec_read_update(struct slice bytes, struct arena *arena, struct update_request *out,
                      struct fault *fault)
{
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__update_task_request__descriptor, bytes, arena, &message, fault);

    return err != 0 ? err : read_update_msg((const update_msg *)(void *)message, fault, out);
}

int codec_write_update(const struct update_request *request, struct buf *out)
{
    update_msg message;
    Google__Protobuf__Timestamp due;
    Google__Protobuf__Duration delay;
    struct name_text text;

    format_name(&request->task, &text);
    foliot__v1__update_task_request__init(&message);
    message.namespace_ = wire_text(request->task.queue.tenant);
    message.queue = wire_text(request->task.queue.name);
    if (request->task.id.seq != 0) {
        message.task_case = FOLIOT__V1__UPDATE_TASK_REQUEST__TASK_ID;
        message.id = text.id;
    } else {
        message.task_case = FOLIOT__V1__UPDATE_TASK_REQUEST__TASK_KEY;
        message.key = text.key;
    }
    if (request->when.kind == WHEN_DUE) {
        message.when_case = FOLIOT__V1__UPDATE_TASK_REQUEST__WHEN_DUE_TIME;
        message.due_time = write_time(request->when.due_ms, &due);
    } else if (request->when.kind == WHEN_DELAY) {
        message.when_case = FOLIOT__V1__UPDATE_TASK_REQUEST__WHEN_DELAY;
        message.delay = write_duration(request->when.delay_ms, &delay);
    }
    if (request->set_payload) {
        message.change_case = FOLIOT__V1__UPDATE_TASK_REQUEST__CHANGE_PAYLOAD;
        message.payload = wire_bytes(request->payload);
    }
    return message_write(&message.base, out);
}

int codec_read_update_reply(struct slice bytes, struct arena *arena, struct update_reply *out,
                            struct fault *fault)
{
    const Foliot__V1__UpdateTaskResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__update_task_response__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__UpdateTaskResponse *)(void *)message;
    out->due_ms = read_reply_time(reply->due_time);
    out->may_be_running_attempt = reply->may_be_running_attempt;
    return read_task_id(reply->id, (struct place){"", "id", fault}, &out->id);
}

int codec_write_update_reply(const struct update_reply *reply, struct buf *out)
{
    Foliot__V1__UpdateTaskResponse message;
    Google__Protobuf__Timestamp due;
    char id[TASK_ID_TEXT_LEN + 1];

    task_id_format(reply->id, id);
    foliot__v1__update_task_response__init(&message);
    message.id = id;
    message.due_time = write_time(reply->due_ms, &due);
    message.may_be_running_attempt = reply->may_be_running_attempt;
    return message_write(&message.base, out);
}
