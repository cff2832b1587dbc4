/* SPDX-License-Identifier: Apache-2.0
 *
 * List, BatchCancel and Explain.
 */
#include "proto/codec_list.h"

#include "lib/base/check.h"
#include "proto/message.h"
#include "proto/task_message.h"
#include "proto/values.h"

#include <foliot/internal/batch.pb-c.h>
#include <stdio.h>
#include <string.h>

/* Numbers of the repeated fields that are written piecewise. source: task.proto */
#define LIST_TASKS_NUMBER     1
#define CANCEL_ITEMS_NUMBER   3
#define CANCEL_RESULTS_NUMBER 1

#define STATE_COUNT 4

_Static_assert((long long)LIST_PAGE_COUNT_MAX *(PAYLOAD_INLINE_BYTES_MAX + TAGS_BYTES_MAX +
                                                KEY_BYTES_MAX + 2UL * NAME_BYTES_MAX + 256) <
                   RPC_MESSAGE_BYTES_MAX,
               "a full page fits a message");
_Static_assert(LIST_PAGE_COUNT_MAX *(TAG_COUNT_MAX + 1) <= BATCH_ITEM_COUNT_MAX,
               "a full page has no more elements than a message may have");
_Static_assert((int)WAIT_DUE_TIME == (int)FOLIOT__V1__WAIT_REASON__WAIT_REASON_DUE_TIME &&
                   (int)WAIT_LINE == (int)FOLIOT__V1__WAIT_REASON__WAIT_REASON_LINE,
               "reasons have the same numbers on the wire");

typedef Foliot__V1__ListTasksRequest list_msg;

static int read_states(const list_msg *message, struct place place, uint32_t *states)
{
    place.field = "states";
    *states = 0;
    for (size_t i = 0; i < message->n_states; i++) {
        int state = (int)message->states[i];

        if (state < (int)TASK_VIEW_WAITING || state > (int)TASK_VIEW_RETRYING) {
            return refuse_value(&place, "ENUM_UNKNOWN",
                                "has %d, which no pending task can be; use WAITING, READY, RUNNING "
                                "and RETRYING",
                                state);
        }
        *states |= UINT32_C(1) << (uint32_t)state;
    }
    return 0;
}

static int read_range(const list_msg *message, struct place place, struct list_request *out)
{
    int err = 0;

    out->due_from_ms = 0;
    out->due_before_ms = WALL_NEVER;
    if (message->due_from != NULL) {
        place.field = "due_from";
        err = read_due(message->due_from, place, &out->due_from_ms);
    }
    if (err == 0 && message->due_before != NULL) {
        place.field = "due_before";
        err = read_due(message->due_before, place, &out->due_before_ms);
    }
    return err;
}

int codec_read_list(struct slice bytes, struct arena *arena, struct list_request *out,
                    struct fault *fault)
{
    const list_msg *request;
    struct place place = {.prefix = "", .fault = fault};
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__list_tasks_request__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    request = (const list_msg *)(void *)message;
    place.field = "queue";
    err = read_queue_name(request->namespace_, request->queue, true, place, &out->queue);
    if (err == 0) {
        err = read_states(request, place, &out->states);
    }
    if (err == 0) {
        err = read_range(request, place, out);
    }
    if (err == 0) {
        place.field = "tags";
        err =
            read_tags((tag_entry *const *)request->tags, request->n_tags, arena, place, &out->tags);
    }
    if (err == 0) {
        place.field = "order_key";
        err = read_order_key(request->order_key, place, &out->order_key);
    }
    out->page_size = read_page_size(request->page_size);
    out->with_payload = request->with_payload != 0;
    return err != 0 ? err : read_page_token(request->page_token, fault, &out->mark);
}

int codec_write_list(const struct list_request *request, struct buf *out)
{
    list_msg message;
    Google__Protobuf__Timestamp from;
    Google__Protobuf__Timestamp before;
    Foliot__V1__TaskState states[STATE_COUNT];
    struct tags_wire tags;
    char token[PAGE_TOKEN_BYTES_MAX + 1];
    struct name_text text;

    foliot__v1__list_tasks_request__init(&message);
    format_name(&(struct task_name){.order_key = request->order_key}, &text);
    message.order_key = text.order_key;
    message.namespace_ = wire_text(request->queue.tenant);
    message.queue = wire_text(request->queue.name);
    message.states = states;
    for (int i = (int)TASK_VIEW_WAITING; i <= (int)TASK_VIEW_RETRYING; i++) {
        if ((request->states >> (uint32_t)i & 1U) != 0) {
            states[message.n_states++] = (Foliot__V1__TaskState)i;
        }
    }
    if (request->due_from_ms != 0) {
        message.due_from = write_time(request->due_from_ms, &from);
    }
    message.due_before = write_time(request->due_before_ms, &before);
    write_tags(request->tags, &foliot__v1__list_tasks_request__tags_entry__descriptor, &tags);
    message.n_tags = tags.count;
    message.tags = (Foliot__V1__ListTasksRequest__TagsEntry **)(void *)tags.list;
    message.page_size = request->page_size;
    message.page_token = page_format(request->mark, SHARD_COUNT_MAX, token);
    message.with_payload = request->with_payload;
    return message_write(&message.base, out);
}

int codec_write_list_item(const struct task_view *view, struct buf *out)
{
    struct task_wire wire;

    init_task(&wire, view);
    return message_write_element(LIST_TASKS_NUMBER, &wire.message.base, out);
}

int codec_write_list_end(struct page_mark mark, uint32_t shard_count, struct buf *out)
{
    Foliot__V1__ListTasksResponse message;
    char token[PAGE_TOKEN_BYTES_MAX + 1];

    foliot__v1__list_tasks_response__init(&message);
    message.next_page_token = page_format(mark, shard_count, token);
    return message_write(&message.base, out);
}

int codec_read_list_reply(struct slice bytes, struct arena *arena, struct list_reply *out,
                          struct fault *fault)
{
    const Foliot__V1__ListTasksResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__list_tasks_response__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__ListTasksResponse *)(void *)message;
    out->count = reply->n_tasks;
    out->next_token = reply->next_page_token;
    out->message = reply;
    out->arena = arena;
    return 0;
}

int codec_read_list_item(const struct list_reply *reply, size_t index, struct task_view *out,
                         struct fault *fault)
{
    const Foliot__V1__ListTasksResponse *message = reply->message;
    char prefix[PREFIX_BYTES];

    REQUIRE(index < reply->count);
    (void)snprintf(prefix, sizeof(prefix), "tasks[%zu].", index);
    return read_task(message->tasks[index], reply->arena, (struct place){prefix, "id", fault}, out);
}

int codec_read_cancel_item(const struct create_batch *batch, size_t index, struct task_name *out,
                           struct fault *fault)
{
    const Foliot__Internal__ClosedBatch *closed = batch->message;
    struct name_fields fields;
    ProtobufCMessage *message;
    struct slice item;
    int err;

    REQUIRE(index < batch->count);
    item = (struct slice){closed->items[index].data, closed->items[index].len};
    err = message_read(&foliot__v1__get_task_request__descriptor, item, batch->arena, &message,
                       fault);
    if (err == 0) {
        fields = name_fields_of((const Foliot__V1__GetTaskRequest *)(void *)message,
                                &(struct queue_name){closed->namespace_, closed->queue});
        err = read_name_fields(&fields, batch->arena, fault, out);
    }
    if (err != 0) {
        prefix_item_field(fault, index);
    }
    return err;
}

int codec_write_cancel_item(const struct task_name *name, struct buf *out)
{
    Foliot__V1__GetTaskRequest message;
    struct name_text text;

    init_task_name(&message, name, &text);
    return message_write_element(CANCEL_ITEMS_NUMBER, &message.base, out);
}

int codec_write_cancel_result(const struct cancel_reply *reply, const struct fault *fault,
                              struct buf *out)
{
    Foliot__V1__CancelTaskResult result;
    struct item_error_wire error;
    struct name_text text;

    foliot__v1__cancel_task_result__init(&result);
    if (fault != NULL) {
        result.error = init_item_error(&error, fault);
    } else {
        format_name(&(struct task_name){.id = reply->id}, &text);
        result.outcome = (Foliot__V1__CancelOutcome)reply->outcome;
        result.attempt = reply->attempt;
        result.id = text.id;
    }
    return message_write_element(CANCEL_RESULTS_NUMBER, &result.base, out);
}

int codec_read_cancel_results(struct slice bytes, struct arena *arena, struct create_results *out,
                              struct fault *fault)
{
    const Foliot__V1__BatchCancelTasksResponse *reply;
    ProtobufCMessage *message;
    int err = message_read(&foliot__v1__batch_cancel_tasks_response__descriptor, bytes, arena,
                           &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__BatchCancelTasksResponse *)(void *)message;
    out->count = reply->n_results;
    out->message = reply;
    return 0;
}

int codec_read_cancel_result(const struct create_results *results, size_t index,
                             struct cancel_reply *out, bool *failed, struct fault *fault)
{
    const Foliot__V1__BatchCancelTasksResponse *message = results->message;
    const Foliot__V1__CancelTaskResult *result;
    char prefix[PREFIX_BYTES];

    REQUIRE(index < results->count);
    result = message->results[index];
    *failed = result->error != NULL;
    if (result->error != NULL) {
        read_item_error(result->error, fault);
        return 0;
    }
    (void)snprintf(prefix, sizeof(prefix), "results[%zu].", index);
    return read_cancel_fields((int)result->outcome, result->attempt, result->id,
                              (struct place){prefix, "outcome", fault}, out);
}

int codec_read_explain_reply(struct slice bytes, struct arena *arena, struct explain_reply *out,
                             struct fault *fault)
{
    const Foliot__V1__ExplainTaskResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__explain_task_response__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__ExplainTaskResponse *)(void *)message;
    if (reply->task == NULL) {
        return refuse_value(&(struct place){"", "task", fault}, "REPLY_INVALID", "is absent");
    }
    out->reason = (enum wait_reason)reply->reason;
    out->text = reply->text;
    out->until_ms = read_reply_time(reply->until);
    out->shard = reply->shard;
    out->broker = reply->broker;
    out->behind = (struct task_id){0};
    if (reply->behind[0] != '\0' &&
        read_task_id(reply->behind, (struct place){"", "behind", fault}, &out->behind) != 0) {
        return ERR_INVALID;
    }
    return read_task(reply->task, arena, (struct place){"task.", "id", fault}, &out->task);
}

int codec_write_explain_reply(const struct explain_reply *reply, struct buf *out)
{
    Foliot__V1__ExplainTaskResponse message;
    Google__Protobuf__Timestamp until;
    struct task_wire wire;
    struct name_text behind;

    init_task(&wire, &reply->task);
    format_name(&(struct task_name){.id = reply->behind}, &behind);
    foliot__v1__explain_task_response__init(&message);
    message.task = &wire.message;
    message.reason = (Foliot__V1__WaitReason)reply->reason;
    message.text = wire_text(reply->text);
    message.until = write_time(reply->until_ms, &until);
    message.shard = reply->shard;
    message.broker = wire_text(reply->broker);
    message.behind = behind.id;
    return message_write(&message.base, out);
}
