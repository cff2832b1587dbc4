/* SPDX-License-Identifier: Apache-2.0
 *
 * Get, Cancel and Update.
 */
#include "proto/codec_task.h"

#include "lib/base/check.h"
#include "proto/message.h"
#include "proto/task_message.h"
#include "proto/values.h"

#include <foliot/v1/task.pb-c.h>
#include <string.h>

_Static_assert((int)CANCEL_ANSWER_CANCELLED ==
                       (int)FOLIOT__V1__CANCEL_OUTCOME__CANCEL_OUTCOME_CANCELLED &&
                   (int)CANCEL_ANSWER_NOT_FOUND ==
                       (int)FOLIOT__V1__CANCEL_OUTCOME__CANCEL_OUTCOME_NOT_FOUND,
               "outcomes have the same numbers on the wire");
_Static_assert((int)FOLIOT__V1__GET_TASK_REQUEST__TASK_ID ==
                       (int)FOLIOT__V1__CANCEL_TASK_REQUEST__TASK_ID &&
                   sizeof(Foliot__V1__GetTaskRequest) == sizeof(Foliot__V1__CancelTaskRequest) &&
                   sizeof(Foliot__V1__GetTaskRequest) == sizeof(Foliot__V1__RunTaskNowRequest) &&
                   sizeof(Foliot__V1__GetTaskRequest) == sizeof(Foliot__V1__ExplainTaskRequest),
               "requests of Get, Cancel, RunNow and Explain look alike");
_Static_assert(sizeof(Foliot__V1__UpdateTaskResponse) == sizeof(Foliot__V1__RunTaskNowResponse),
               "responses of Update and RunNow look alike");

int codec_read_task_name(struct slice bytes, struct arena *arena, struct task_name *out,
                         struct fault *fault)
{
    struct name_fields fields;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__get_task_request__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    fields = name_fields_of((const Foliot__V1__GetTaskRequest *)(void *)message,
                            &(struct queue_name){"", ""});
    return read_name_fields(&fields, arena, fault, out);
}

int codec_write_task_name(const struct task_name *name, struct buf *out)
{
    Foliot__V1__GetTaskRequest message;
    struct name_text text;

    init_task_name(&message, name, &text);
    return message_write(&message.base, out);
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
    return read_task(reply->task, arena, (struct place){"task.", "id", fault}, out);
}

int codec_write_get_reply(const struct task_view *view, struct buf *out)
{
    Foliot__V1__GetTaskResponse message;
    struct task_wire wire;

    init_task(&wire, view);
    foliot__v1__get_task_response__init(&message);
    message.task = &wire.message;
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
    return read_cancel_fields((int)reply->outcome, reply->attempt, reply->id,
                              (struct place){"", "outcome", fault}, out);
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

static int read_update_msg(const update_msg *message, struct arena *arena, struct fault *fault,
                           struct update_request *out)
{
    struct update_request request = {.set_payload = false};
    struct name_fields fields = {
        .tenant = message->namespace_, .queue = message->queue, .order_key = message->order_key};
    int err;

    if (message->task_case == FOLIOT__V1__UPDATE_TASK_REQUEST__TASK_ID) {
        fields.id = message->id;
    } else if (message->task_case == FOLIOT__V1__UPDATE_TASK_REQUEST__TASK_KEY) {
        fields.key = message->key;
    }
    err = read_name_fields(&fields, arena, fault, &request.task);
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

    return err != 0 ? err : read_update_msg((const update_msg *)(void *)message, arena, fault, out);
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
        message.order_key = text.order_key;
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
