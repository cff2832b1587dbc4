/* SPDX-License-Identifier: Apache-2.0
 *
 * Attempts on their way to a receiver, and what it answers.
 */
#include "proto/codec_receiver.h"

#include "lib/base/check.h"
#include "lib/base/utf8.h"
#include "proto/message.h"
#include "proto/task_message.h"
#include "proto/values.h"

#include <foliot/v1/receiver.pb-c.h>
#include <stdio.h>
#include <string.h>

#define ATTEMPTS_NUMBER 1
#define RESULTS_NUMBER  1

#define OUTCOME_INVALID_TEXT "the receiver answered no known outcome"

_Static_assert((int)DELIVERY_DONE == (int)FOLIOT__V1__OUTCOME__OUTCOME_DONE &&
                   (int)DELIVERY_OBSOLETE == (int)FOLIOT__V1__OUTCOME__OUTCOME_OBSOLETE,
               "outcomes have the same numbers on the wire");

/* tags: NULL if there are none. */
static int write_delivery(const struct delivery *delivery, struct tags_wire *tags, struct buf *out)
{
    Foliot__V1__Attempt message;
    Google__Protobuf__Timestamp due;
    Google__Protobuf__Timestamp deadline;
    Google__Protobuf__Timestamp expire;
    struct name_text text;

    foliot__v1__attempt__init(&message);
    format_name(&(struct task_name){.id = delivery->id,
                                    .key = delivery->key,
                                    .order_key = delivery->order_key},
                &text);
    message.task_id = text.id;
    message.key = text.key;
    message.order_key = text.order_key;
    message.namespace_ = wire_text(delivery->queue.tenant);
    message.queue = wire_text(delivery->queue.name);
    message.due_time = write_time(delivery->due_ms, &due);
    message.deadline = write_time(delivery->deadline_ms, &deadline);
    message.attempt = delivery->attempt;
    message.payload = wire_bytes(delivery->payload);
    if (delivery->expire_ms != 0) {
        message.expire_time = write_time(delivery->expire_ms, &expire);
    }
    if (tags != NULL) {
        write_tags(delivery->tags, &foliot__v1__attempt__tags_entry__descriptor, tags);
        message.n_tags = tags->count;
        message.tags = (Foliot__V1__Attempt__TagsEntry **)(void *)tags->list;
    }
    if (delivery->traceparent != NULL) {
        message.traceparent = wire_text(delivery->traceparent);
    }
    if (delivery->tracestate != NULL) {
        message.tracestate = wire_text(delivery->tracestate);
    }
    return message_write_element(ATTEMPTS_NUMBER, &message.base, out);
}

NEVER_INLINE static int write_tagged_delivery(const struct delivery *delivery, struct buf *out)
{
    struct tags_wire tags;

    return write_delivery(delivery, &tags, out);
}

int codec_write_delivery(const struct delivery *delivery, struct buf *out)
{
    return delivery->tags.len == 0 ? write_delivery(delivery, NULL, out)
                                   : write_tagged_delivery(delivery, out);
}

int codec_read_deliver(struct slice bytes, struct arena *arena, struct delivery_batch *out,
                       struct fault *fault)
{
    const Foliot__V1__DeliverRequest *request;
    ProtobufCMessage *message;
    int err = message_read(&foliot__v1__deliver_request__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    request = (const Foliot__V1__DeliverRequest *)(void *)message;
    out->count = request->n_attempts;
    out->message = request;
    out->arena = arena;
    return 0;
}

int codec_read_delivery(const struct delivery_batch *batch, size_t index, struct delivery *out,
                        struct fault *fault)
{
    const Foliot__V1__DeliverRequest *request = batch->message;
    const Foliot__V1__Attempt *attempt;
    char prefix[PREFIX_BYTES];
    struct place place = {prefix, "task_id", fault};
    wall_ms expire_ms;
    int err;

    REQUIRE(index < batch->count);
    attempt = request->attempts[index];
    (void)snprintf(prefix, sizeof(prefix), "attempts[%zu].", index);
    err = read_task_id(attempt->task_id, place, &out->id);
    if (err == 0) {
        place.field = "queue";
        err = read_queue_name(attempt->namespace_, attempt->queue, true, place, &out->queue);
    }
    if (err == 0) {
        place.field = "key";
        err = read_key(attempt->key, place, &out->key);
    }
    if (err == 0) {
        place.field = "order_key";
        err = read_order_key(attempt->order_key, place, &out->order_key);
    }
    expire_ms = read_reply_time(attempt->expire_time);
    out->expire_ms = expire_ms == WALL_NEVER ? 0 : expire_ms;
    out->tags = read_reply_tags((tag_entry *const *)attempt->tags, attempt->n_tags, batch->arena);
    out->due_ms = read_reply_time(attempt->due_time);
    out->deadline_ms = read_reply_time(attempt->deadline);
    out->attempt = attempt->attempt;
    out->payload = (struct slice){attempt->payload.data, attempt->payload.len};
    out->traceparent = attempt->traceparent;
    out->tracestate = attempt->tracestate;
    return err;
}

int codec_write_delivery_result(const struct delivery_result *result, struct buf *out)
{
    Foliot__V1__AttemptResult message;
    Google__Protobuf__Timestamp not_before;
    Google__Protobuf__Duration retry_after;
    char error[ERROR_TEXT_BYTES_MAX + 1];

    REQUIRE(result->error.len <= ERROR_TEXT_BYTES_MAX);
    foliot__v1__attempt_result__init(&message);
    message.outcome = (Foliot__V1__Outcome)result->outcome;
    if (result->error.len > 0) {
        memcpy(error, result->error.data, result->error.len);
        error[result->error.len] = '\0';
        message.error = error;
    }
    message.response = wire_bytes(result->response);
    if (result->wait.kind == WHEN_DUE) {
        message.wait_case = FOLIOT__V1__ATTEMPT_RESULT__WAIT_NOT_BEFORE;
        message.not_before = write_time(result->wait.due_ms, &not_before);
    } else if (result->wait.kind == WHEN_DELAY) {
        message.wait_case = FOLIOT__V1__ATTEMPT_RESULT__WAIT_RETRY_AFTER;
        message.retry_after = write_duration(result->wait.delay_ms, &retry_after);
    }
    return message_write_element(RESULTS_NUMBER, &message.base, out);
}

int codec_read_deliver_reply(struct slice bytes, size_t expected, struct arena *arena,
                             struct delivery_results *out, struct fault *fault)
{
    const Foliot__V1__DeliverResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__deliver_response__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__DeliverResponse *)(void *)message;
    if (reply->n_results != expected) {
        return refuse_value(&(struct place){"", "results", fault}, "REPLY_INVALID",
                            "has %zu elements for %zu attempts; a receiver answers one for each, "
                            "in their order",
                            reply->n_results, expected);
    }
    out->count = reply->n_results;
    out->message = reply;
    return 0;
}

static void read_wait(const Foliot__V1__AttemptResult *result, struct when *out)
{
    struct fault ignored;
    struct place place = {"", "wait", &ignored};

    out->kind = WHEN_NONE;
    if (result->wait_case == FOLIOT__V1__ATTEMPT_RESULT__WAIT_NOT_BEFORE &&
        read_due(result->not_before, place, &out->due_ms) == 0) {
        out->kind = WHEN_DUE;
    } else if (result->wait_case == FOLIOT__V1__ATTEMPT_RESULT__WAIT_RETRY_AFTER &&
               read_delay(result->retry_after, place, &out->delay_ms) == 0) {
        out->kind = WHEN_DELAY;
    }
}

/* At most ERROR_TEXT_BYTES_MAX bytes, cut at a character border. */
static struct slice cut_error(const char *error)
{
    struct slice text = slice_of(error);

    if (text.len > ERROR_TEXT_BYTES_MAX) {
        text.len = utf8_cut(text.data, ERROR_TEXT_BYTES_MAX);
    }
    return text;
}

void codec_read_delivery_result(const struct delivery_results *results, size_t index,
                                struct delivery_result *out)
{
    const Foliot__V1__DeliverResponse *reply = results->message;
    const Foliot__V1__AttemptResult *result;
    int outcome;

    REQUIRE(index < results->count);
    result = reply->results[index];
    outcome = (int)result->outcome;
    out->error = cut_error(result->error);
    out->response = (struct slice){result->response.data, result->response.len};
    read_wait(result, &out->wait);
    if (outcome < DELIVERY_DONE || outcome > DELIVERY_OBSOLETE) {
        outcome = DELIVERY_RETRY;
        if (out->error.len == 0) {
            out->error = slice_of(OUTCOME_INVALID_TEXT);
        }
    }
    out->outcome = (enum delivery_outcome)outcome;
}
