/* SPDX-License-Identifier: Apache-2.0
 *
 * Create and BatchCreate.
 */
#include "proto/codec_task.h"

#include "lib/base/check.h"
#include "proto/message.h"
#include "proto/values.h"

#include <foliot/internal/batch.pb-c.h>
#include <foliot/v1/task.pb-c.h>
#include <stdio.h>
#include <string.h>

/* Numbers of the repeated fields that are written piecewise. source: task.proto */
#define BATCH_ITEMS_NUMBER   3
#define BATCH_RESULTS_NUMBER 1

_Static_assert(BATCH_ITEM_COUNT_MAX *(ITEM_MESSAGE_BYTES_MAX + FAULT_REASON_BYTES + 48) <
                   RPC_MESSAGE_BYTES_MAX,
               "the answer to a batch of bad items fits a message");
_Static_assert((int)KEY_KEEP == (int)FOLIOT__V1__KEY_POLICY__KEY_POLICY_KEEP &&
                   (int)KEY_REJECT == (int)FOLIOT__V1__KEY_POLICY__KEY_POLICY_REJECT &&
                   (int)KEY_REPLACE == (int)FOLIOT__V1__KEY_POLICY__KEY_POLICY_REPLACE,
               "key policies have the same numbers on the wire");

typedef Foliot__V1__CreateTaskRequest create_msg;

static int read_create_when(const create_msg *message, struct place place, struct when *out)
{
    out->kind = WHEN_NONE;
    if (message->when_case == FOLIOT__V1__CREATE_TASK_REQUEST__WHEN_DUE_TIME) {
        out->kind = WHEN_DUE;
        place.field = "due_time";
        return read_due(message->due_time, place, &out->due_ms);
    }
    if (message->when_case == FOLIOT__V1__CREATE_TASK_REQUEST__WHEN_DELAY) {
        out->kind = WHEN_DELAY;
        place.field = "delay";
        return read_delay(message->delay, place, &out->delay_ms);
    }
    return 0;
}

static int read_key_policy(const create_msg *message, struct place place,
                           struct create_request *out)
{
    int policy = (int)message->key_policy;

    place.field = "key_policy";
    if (policy == FOLIOT__V1__KEY_POLICY__KEY_POLICY_UNSPECIFIED) {
        out->key_policy = KEY_KEEP;
        return 0;
    }
    if (policy != KEY_KEEP && policy != KEY_REJECT && policy != KEY_REPLACE) {
        return refuse_value(&place, "ENUM_UNKNOWN",
                            "is %d, which this broker does not know; use KEEP, REJECT or REPLACE",
                            policy);
    }
    if (policy != KEY_KEEP && out->key.len == 0) {
        place.field = "key";
        return refuse_value(&place, "KEY_MISSING", "is empty, but key_policy needs one");
    }
    out->key_policy = (enum key_policy)policy;
    return 0;
}

static int read_latest(const create_msg *message, struct place place, struct create_request *out)
{
    int err;

    out->latest_ms = 0;
    if (message->latest_time == NULL) {
        return 0;
    }
    place.field = "latest_time";
    if (out->key_policy != KEY_REPLACE) {
        return refuse_value(&place, "FIELD_UNUSED",
                            "goes with key_policy REPLACE only; leave it out");
    }
    err = read_due(message->latest_time, place, &out->latest_ms);
    if (err == 0) {
        out->latest_ms = time_max(out->latest_ms, 1); // 0 would mean no bound
    }
    return err;
}

static int read_expire(const create_msg *message, struct place place, struct create_request *out)
{
    int err;

    if (message->expire_time == NULL) {
        return 0;
    }
    place.field = "expire_time";
    err = read_due(message->expire_time, place, &out->expire_ms);
    if (err != 0) {
        return err;
    }
    out->expire_ms = time_max(out->expire_ms, 1); // 0 would mean never
    if (out->when.kind == WHEN_DUE && out->expire_ms < out->when.due_ms) {
        return refuse_value(&place, "TIME_OUT_OF_RANGE",
                            "is before due_time, so the task would never run; choose a later one");
    }
    return 0;
}

static int read_extras(const create_msg *message, struct arena *arena, struct place place,
                       struct create_request *out)
{
    int err = read_expire(message, place, out);

    if (err == 0) {
        place.field = "tags";
        err =
            read_tags((tag_entry *const *)message->tags, message->n_tags, arena, place, &out->tags);
    }
    return err;
}

static int read_order(const create_msg *message, struct arena *arena, struct place place,
                      struct create_request *out)
{
    int err;

    place.field = "order_key";
    err = read_order_key(message->order_key, place, &out->order_key);
    return err != 0 ? err
                    : read_stored_key(out->order_key, out->key, arena, place, &out->stored_key);
}

/* A task to make; names that it leaves out are those of its batch. */
static int read_create_msg(const create_msg *message, const struct queue_name *batch,
                           struct arena *arena, struct place place, struct create_request *out)
{
    struct create_request request = {.when = {.kind = WHEN_NONE}};
    int err;

    place.field = "queue";
    err = read_queue_name(message->namespace_[0] == '\0' ? batch->tenant : message->namespace_,
                          message->queue[0] == '\0' ? batch->name : message->queue, false, place,
                          &request.queue);
    if (err == 0) {
        err = read_create_when(message, place, &request.when);
    }
    if (err == 0) {
        place.field = "payload";
        err = read_payload(message->payload, place, &request.payload);
    }
    if (err == 0) {
        place.field = "key";
        err = read_key(message->key, place, &request.key);
    }
    if (err == 0) {
        err = read_order(message, arena, place, &request);
    }
    if (err == 0) {
        err = read_key_policy(message, place, &request);
    }
    if (err == 0) {
        err = read_latest(message, place, &request);
    }
    if (err == 0) {
        err = read_extras(message, arena, place, &request);
    }
    if (err == 0) {
        *out = request;
    }
    return err;
}

int codec_read_create(struct slice bytes, struct arena *arena, struct create_request *out,
                      struct fault *fault)
{
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__create_task_request__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    return read_create_msg((const create_msg *)(void *)message, &(struct queue_name){"", ""}, arena,
                           (struct place){.prefix = "", .fault = fault}, out);
}

/* Keys are slices, generated structs want a NUL behind them. */
static char *key_text(struct slice key, char *text, size_t max)
{
    REQUIRE(key.len <= max);
    if (key.len > 0) {
        memcpy(text, key.data, key.len);
    }
    text[key.len] = '\0';
    return text;
}

/* A create as a generated struct, and what it points to. */
struct create_wire {
    create_msg message;
    Google__Protobuf__Timestamp due;
    Google__Protobuf__Duration delay;
    Google__Protobuf__Timestamp latest;
    Google__Protobuf__Timestamp expire;
    struct tags_wire tags;
    char key[KEY_BYTES_MAX + 1];
    char order_key[ORDER_KEY_BYTES_MAX + 1];
};

static void init_create(struct create_wire *wire, const struct create_request *request)
{
    create_msg *message = &wire->message;

    foliot__v1__create_task_request__init(message);
    message->namespace_ = wire_text(request->queue.tenant);
    message->queue = wire_text(request->queue.name);
    message->payload = wire_bytes(request->payload);
    message->key = key_text(request->key, wire->key, KEY_BYTES_MAX);
    message->order_key = key_text(request->order_key, wire->order_key, ORDER_KEY_BYTES_MAX);
    if (request->when.kind == WHEN_DUE) {
        message->when_case = FOLIOT__V1__CREATE_TASK_REQUEST__WHEN_DUE_TIME;
        message->due_time = write_time(request->when.due_ms, &wire->due);
    } else if (request->when.kind == WHEN_DELAY) {
        message->when_case = FOLIOT__V1__CREATE_TASK_REQUEST__WHEN_DELAY;
        message->delay = write_duration(request->when.delay_ms, &wire->delay);
    }
    if (request->key.len > 0) {
        message->key_policy = (Foliot__V1__KeyPolicy)request->key_policy;
    }
    if (request->latest_ms != 0) {
        message->latest_time = write_time(request->latest_ms, &wire->latest);
    }
    if (request->expire_ms != 0) {
        message->expire_time = write_time(request->expire_ms, &wire->expire);
    }
    write_tags(request->tags, &foliot__v1__create_task_request__tags_entry__descriptor,
               &wire->tags);
    message->n_tags = wire->tags.count;
    message->tags = (Foliot__V1__CreateTaskRequest__TagsEntry **)(void *)wire->tags.list;
}

int codec_write_create(const struct create_request *request, struct buf *out)
{
    struct create_wire wire;

    init_create(&wire, request);
    return message_write(&wire.message.base, out);
}

int codec_write_batch_item(const struct create_request *request, struct buf *out)
{
    struct create_wire wire;

    init_create(&wire, request);
    return message_write_element(BATCH_ITEMS_NUMBER, &wire.message.base, out);
}

int codec_read_create_reply(struct slice bytes, struct arena *arena, struct create_reply *out,
                            struct fault *fault)
{
    const Foliot__V1__CreateTaskResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__create_task_response__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__CreateTaskResponse *)(void *)message;
    err = read_task_id(reply->id, (struct place){"", "id", fault}, &out->id);
    if (err == 0) {
        out->created = reply->created != 0;
        out->due_ms = read_reply_time(reply->due_time);
    }
    return err;
}

int codec_write_create_reply(const struct create_reply *reply, struct buf *out)
{
    Foliot__V1__CreateTaskResponse message;
    Google__Protobuf__Timestamp due;
    char id[TASK_ID_TEXT_LEN + 1];

    task_id_format(reply->id, id);
    foliot__v1__create_task_response__init(&message);
    message.id = id;
    message.created = reply->created;
    message.due_time = write_time(reply->due_ms, &due);
    return message_write(&message.base, out);
}

int codec_read_batch(struct slice bytes, struct arena *arena, struct create_batch *out,
                     struct fault *fault)
{
    const Foliot__Internal__ClosedBatch *batch;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__internal__closed_batch__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    batch = (const Foliot__Internal__ClosedBatch *)(void *)message;
    if (batch->n_items == 0) {
        return refuse_value(&(struct place){"", "items", fault}, "BATCH_EMPTY",
                            "is empty; send 1 to %d (BATCH_ITEM_COUNT_MAX)", BATCH_ITEM_COUNT_MAX);
    }
    out->count = batch->n_items;
    out->message = batch;
    out->arena = arena;
    return 0;
}

int codec_read_batch_item(const struct create_batch *batch, size_t index,
                          struct create_request *out, struct fault *fault)
{
    const Foliot__Internal__ClosedBatch *closed = batch->message;
    ProtobufCMessage *message;
    struct slice item;
    int err;

    REQUIRE(index < batch->count);
    item = (struct slice){closed->items[index].data, closed->items[index].len};
    err = message_read(&foliot__v1__create_task_request__descriptor, item, batch->arena, &message,
                       fault);
    if (err == 0) {
        err = read_create_msg((const create_msg *)(void *)message,
                              &(struct queue_name){closed->namespace_, closed->queue}, batch->arena,
                              (struct place){.prefix = "", .fault = fault}, out);
    }
    if (err != 0) {
        prefix_item_field(fault, index);
    }
    return err;
}

int codec_write_batch_result(const struct create_reply *reply, const struct fault *fault,
                             struct buf *out)
{
    Foliot__V1__CreateTaskResult result;
    Google__Protobuf__Timestamp due;
    struct item_error_wire error;
    char id[TASK_ID_TEXT_LEN + 1];

    foliot__v1__create_task_result__init(&result);
    if (fault != NULL) {
        result.error = init_item_error(&error, fault);
    } else {
        task_id_format(reply->id, id);
        result.id = id;
        result.created = reply->created;
        result.due_time = write_time(reply->due_ms, &due);
    }
    return message_write_element(BATCH_RESULTS_NUMBER, &result.base, out);
}

int codec_read_batch_reply(struct slice bytes, struct arena *arena, struct create_results *out,
                           struct fault *fault)
{
    const Foliot__V1__BatchCreateTasksResponse *reply;
    ProtobufCMessage *message;
    int err = message_read(&foliot__v1__batch_create_tasks_response__descriptor, bytes, arena,
                           &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__BatchCreateTasksResponse *)(void *)message;
    out->count = reply->n_results;
    out->message = reply;
    return 0;
}

int codec_read_batch_result(const struct create_results *results, size_t index,
                            struct create_reply *out, bool *failed, struct fault *fault)
{
    const Foliot__V1__BatchCreateTasksResponse *message = results->message;
    const Foliot__V1__CreateTaskResult *result;
    char prefix[PREFIX_BYTES];

    REQUIRE(index < results->count);
    result = message->results[index];
    *failed = result->error != NULL;
    if (result->error != NULL) {
        read_item_error(result->error, fault);
        return 0;
    }
    (void)snprintf(prefix, sizeof(prefix), "results[%zu].", index);
    out->created = result->created != 0;
    out->due_ms = read_reply_time(result->due_time);
    return read_task_id(result->id, (struct place){prefix, "id", fault}, &out->id);
}
