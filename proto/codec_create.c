/* SPDX-License-Identifier: Apache-2.0
 *
 * Create and BatchCreate.
 */
#include "proto/codec_task.h"

#include "lib/base/check.h"
#include "lib/base/utf8.h"
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

/* A task to make; names that it leaves out are those of its batch. */
static int read_create_msg(const create_msg *message, const char *tenant, const char *queue,
                           struct place place, struct create_request *out)
{
    struct create_request request = {.when = {.kind = WHEN_NONE}};
    int err;

    place.field = "queue";
    err = read_queue_name(message->namespace_[0] == '\0' ? tenant : message->namespace_,
                          message->queue[0] == '\0' ? queue : message->queue, false, place,
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
        err = read_key_policy(message, place, &request);
    }
    if (err == 0) {
        err = read_latest(message, place, &request);
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
    return read_create_msg((const create_msg *)(void *)message, "", "",
                           (struct place){.prefix = "", .fault = fault}, out);
}

/* A create as a generated struct, and the times that it points to. */
struct create_wire {
    create_msg message;
    Google__Protobuf__Timestamp due;
    Google__Protobuf__Duration delay;
    Google__Protobuf__Timestamp latest;
};

static void init_create(struct create_wire *wire, const struct create_request *request)
{
    create_msg *message = &wire->message;

    foliot__v1__create_task_request__init(message);
    message->namespace_ = wire_text(request->queue.tenant);
    message->queue = wire_text(request->queue.name);
    message->payload = wire_bytes(request->payload);
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
}

/* Keys are slices, generated structs want a NUL behind them. */
static char *key_text(struct slice key, char *text)
{
    REQUIRE(key.len <= KEY_BYTES_MAX);
    if (key.len > 0) {
        memcpy(text, key.data, key.len);
    }
    text[key.len] = '\0';
    return text;
}

int codec_write_create(const struct create_request *request, struct buf *out)
{
    struct create_wire wire;
    char key[KEY_BYTES_MAX + 1];

    init_create(&wire, request);
    wire.message.key = key_text(request->key, key);
    return message_write(&wire.message.base, out);
}

int codec_write_batch_item(const struct create_request *request, struct buf *out)
{
    struct create_wire wire;
    char key[KEY_BYTES_MAX + 1];

    init_create(&wire, request);
    wire.message.key = key_text(request->key, key);
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

/* Put the path of the item before the field that a fault names. */
static void prefix_field(struct fault *fault, size_t index)
{
    char field[FAULT_FIELD_BYTES];

    (void)snprintf(field, sizeof(field), "items[%zu]%s%.60s", index,
                   fault->field[0] == '\0' ? "" : ".", fault->field);
    memcpy(fault->field, field, sizeof(field));
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
        err = read_create_msg((const create_msg *)(void *)message, closed->namespace_,
                              closed->queue, (struct place){.prefix = "", .fault = fault}, out);
    }
    if (err != 0) {
        prefix_field(fault, index);
    }
    return err;
}

/* Cut at ITEM_MESSAGE_BYTES_MAX, at a character border. */
static void cut_message(const char *message, char *cut)
{
    size_t len = strlen(message);

    if (len > ITEM_MESSAGE_BYTES_MAX) {
        len = utf8_cut((const uint8_t *)message, ITEM_MESSAGE_BYTES_MAX);
    }
    memcpy(cut, message, len);
    cut[len] = '\0';
}

static int write_item_error(const struct fault *fault, struct buf *out)
{
    Foliot__V1__CreateTaskResult result;
    Foliot__V1__ItemError error;
    char message[ITEM_MESSAGE_BYTES_MAX + 1];

    cut_message(fault->message, message);
    foliot__v1__item_error__init(&error);
    error.code = (int32_t)fault->status;
    error.reason = wire_text(fault->reason);
    error.message = message;
    error.field = wire_text(fault->field);
    foliot__v1__create_task_result__init(&result);
    result.error = &error;
    return message_write_element(BATCH_RESULTS_NUMBER, &result.base, out);
}

int codec_write_batch_result(const struct create_reply *reply, const struct fault *fault,
                             struct buf *out)
{
    Foliot__V1__CreateTaskResult result;
    Google__Protobuf__Timestamp due;
    char id[TASK_ID_TEXT_LEN + 1];

    if (fault != NULL) {
        return write_item_error(fault, out);
    }
    task_id_format(reply->id, id);
    foliot__v1__create_task_result__init(&result);
    result.id = id;
    result.created = reply->created;
    result.due_time = write_time(reply->due_ms, &due);
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
        int code = result->error->code;

        fault_set(fault,
                  code > RPC_OK && code <= RPC_UNAUTHENTICATED ? (enum rpc_status)code
                                                               : RPC_UNKNOWN,
                  result->error->reason, result->error->field, "%s", result->error->message);
        return 0;
    }
    (void)snprintf(prefix, sizeof(prefix), "results[%zu].", index);
    out->created = result->created != 0;
    out->due_ms = read_reply_time(result->due_time);
    return read_task_id(result->id, (struct place){prefix, "id", fault}, &out->id);
}
