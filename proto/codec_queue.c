/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues and their policy.
 */
#include "proto/codec_queue.h"

#include "lib/base/check.h"
#include "proto/message.h"
#include "proto/values.h"

#include <foliot/v1/queue.pb-c.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LIST_QUEUES_NUMBER 1

/* Room for the message of queue_check(), which quotes the target. */
#define CHECK_MESSAGE_BYTES 512

_Static_assert((long long)QUEUE_PAGE_COUNT_MAX *(TARGET_BYTES_MAX + 2 * NAME_BYTES_MAX + 256) <
                   RPC_MESSAGE_BYTES_MAX,
               "a full page fits a message");

/* Replace a default if the duration was sent. */
static int take_duration(const Google__Protobuf__Duration *duration, struct place place,
                         span_ms *value)
{
    return duration == NULL ? 0 : read_duration(duration, place, value);
}

/* Replace a default if the number was sent: 0 stands for absent. */
static void take_number(uint32_t number, uint32_t *value)
{
    if (number != 0) {
        *value = number;
    }
}

static int read_retry(const Foliot__V1__RetryPolicy *policy, struct fault *fault,
                      struct retry_policy *out)
{
    int err =
        take_duration(policy->initial_backoff,
                      (struct place){"queue.retry.", "initial_backoff", fault}, &out->initial_ms);

    if (err == 0) {
        err = take_duration(policy->max_backoff,
                            (struct place){"queue.retry.", "max_backoff", fault}, &out->max_ms);
    }
    if (err == 0) {
        err = take_duration(policy->age_max, (struct place){"queue.retry.", "age_max", fault},
                            &out->age_max_ms);
    }
    take_number(policy->multiplier_permille, &out->multiplier_permille);
    take_number(policy->failures_max, &out->failures_max);
    take_number(policy->unknowns_max, &out->unknowns_max);
    if (policy->jitter_case == FOLIOT__V1__RETRY_POLICY__JITTER_JITTER_PERMILLE) {
        out->jitter_permille = policy->jitter_permille;
    }
    return err;
}

static int read_target(const char *target, struct fault *fault, struct queue *out)
{
    size_t len = strlen(target);

    if (len > TARGET_BYTES_MAX) {
        return refuse_value(&(struct place){"queue.", "target", fault}, "TARGET_INVALID",
                            "has %zu bytes, at most %d are allowed (TARGET_BYTES_MAX)", len,
                            TARGET_BYTES_MAX);
    }
    memcpy(out->target, target, len + 1);
    return 0;
}

static int read_delivery(Foliot__V1__Delivery delivery, struct fault *fault, struct queue *out)
{
    switch ((int)delivery) {
    case FOLIOT__V1__DELIVERY__DELIVERY_UNSPECIFIED:
    case FOLIOT__V1__DELIVERY__DELIVERY_AT_LEAST_ONCE:
        out->at_most_once = false;
        return 0;
    case FOLIOT__V1__DELIVERY__DELIVERY_AT_MOST_ONCE:
        out->at_most_once = true;
        return 0;
    default:
        return refuse_value(&(struct place){"queue.", "delivery", fault}, "ENUM_UNKNOWN",
                            "is %d, which this broker does not know; use AT_LEAST_ONCE or "
                            "AT_MOST_ONCE",
                            (int)delivery);
    }
}

static int read_names(const Foliot__V1__Queue *message, struct fault *fault, struct queue *out)
{
    struct queue_name name;
    int err = read_queue_name(message->namespace_, message->name, false,
                              (struct place){"queue.", "name", fault}, &name);

    if (err == 0) {
        (void)snprintf(out->tenant, sizeof(out->tenant), "%s", name.tenant);
        (void)snprintf(out->name, sizeof(out->name), "%s", name.name);
    }
    return err;
}

/* The message of queue_check() names the field first: use that word as the path. */
static int check_queue(struct queue *queue, struct fault *fault)
{
    char message[CHECK_MESSAGE_BYTES];
    char field[FAULT_FIELD_BYTES];
    bool is_backoff;
    int word;

    if (queue_check(queue, message, sizeof(message)) == 0) {
        return 0;
    }
    word = (int)strcspn(message, " ");
    is_backoff =
        strncmp(message, "retry.initial ", 14) == 0 || strncmp(message, "retry.max ", 10) == 0;
    (void)snprintf(field, sizeof(field), "queue.%.*s%s", word, message,
                   is_backoff ? "_backoff" : "");
    fault_set(fault, RPC_INVALID_ARGUMENT,
              strncmp(message, "target", 6) == 0 ? "TARGET_INVALID" : "VALUE_OUT_OF_RANGE", field,
              "%s", message);
    return ERR_INVALID;
}

static int read_queue_msg(const Foliot__V1__Queue *message, struct fault *fault, struct queue *out)
{
    int err = read_names(message, fault, out);

    if (err == 0) {
        err = read_target(message->target, fault, out);
    }
    if (err == 0) {
        err = read_delivery(message->delivery, fault, out);
    }
    if (err == 0) {
        err = take_duration(message->attempt_timeout,
                            (struct place){"queue.", "attempt_timeout", fault},
                            &out->attempt_timeout_ms);
    }
    if (err == 0) {
        err = take_duration(message->key_memory, (struct place){"queue.", "key_memory", fault},
                            &out->key_memory_ms);
    }
    if (err == 0 && message->retry != NULL) {
        err = read_retry(message->retry, fault, &out->retry);
    }
    take_number(message->concurrency_max, &out->concurrency_max);
    out->version = message->version;
    return err != 0 ? err : check_queue(out, fault);
}

int codec_read_queue(struct slice bytes, struct arena *arena, struct queue *out,
                     struct fault *fault)
{
    const Foliot__V1__CreateQueueRequest *request;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__create_queue_request__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    request = (const Foliot__V1__CreateQueueRequest *)(void *)message;
    if (request->queue == NULL) {
        return refuse_value(&(struct place){"", "queue", fault}, "FIELD_MISSING",
                            "is absent; give namespace, name and target");
    }
    queue_init(out);
    return read_queue_msg(request->queue, fault, out);
}

/* A queue as a generated struct, and what it points to. */
struct queue_wire {
    Foliot__V1__Queue message;
    Foliot__V1__RetryPolicy retry;
    Google__Protobuf__Duration spans[5];
};

static void init_queue(struct queue_wire *wire, const struct queue *queue)
{
    Foliot__V1__Queue *message = &wire->message;
    Foliot__V1__RetryPolicy *retry = &wire->retry;

    foliot__v1__queue__init(message);
    message->namespace_ = wire_text(queue->tenant);
    message->name = wire_text(queue->name);
    message->target = wire_text(queue->target);
    message->delivery = queue->at_most_once ? FOLIOT__V1__DELIVERY__DELIVERY_AT_MOST_ONCE
                                            : FOLIOT__V1__DELIVERY__DELIVERY_AT_LEAST_ONCE;
    message->attempt_timeout = write_duration(queue->attempt_timeout_ms, &wire->spans[0]);
    message->key_memory = write_duration(queue->key_memory_ms, &wire->spans[1]);
    message->concurrency_max = queue->concurrency_max;
    message->version = queue->version;
    message->id = queue->id;
    message->retry = retry;
    foliot__v1__retry_policy__init(retry);
    retry->initial_backoff = write_duration(queue->retry.initial_ms, &wire->spans[2]);
    retry->max_backoff = write_duration(queue->retry.max_ms, &wire->spans[3]);
    retry->multiplier_permille = queue->retry.multiplier_permille;
    retry->jitter_case = FOLIOT__V1__RETRY_POLICY__JITTER_JITTER_PERMILLE;
    retry->jitter_permille = queue->retry.jitter_permille;
    retry->failures_max = queue->retry.failures_max;
    retry->unknowns_max = queue->retry.unknowns_max;
    if (queue->retry.age_max_ms != 0) {
        retry->age_max = write_duration(queue->retry.age_max_ms, &wire->spans[4]);
    }
}

int codec_write_queue(const struct queue *queue, struct buf *out)
{
    Foliot__V1__CreateQueueRequest message;
    struct queue_wire wire;

    init_queue(&wire, queue);
    foliot__v1__create_queue_request__init(&message);
    message.queue = &wire.message;
    return message_write(&message.base, out);
}

int codec_read_queue_reply(struct slice bytes, struct arena *arena, struct queue_reply *out,
                           struct fault *fault)
{
    const Foliot__V1__CreateQueueResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__create_queue_response__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__CreateQueueResponse *)(void *)message;
    if (reply->queue == NULL) {
        return refuse_value(&(struct place){"", "queue", fault}, "REPLY_INVALID", "is absent");
    }
    out->unconfirmed = (const char *const *)reply->unconfirmed_brokers;
    out->unconfirmed_count = reply->n_unconfirmed_brokers;
    queue_init(&out->queue);
    err = read_queue_msg(reply->queue, fault, &out->queue);
    out->queue.id = reply->queue->id;
    return err;
}

int codec_write_queue_reply(const struct queue_reply *reply, struct buf *out)
{
    Foliot__V1__CreateQueueResponse message;
    struct queue_wire wire;
    char *names[MEMBER_COUNT_MAX];

    REQUIRE(reply->unconfirmed_count <= MEMBER_COUNT_MAX);
    for (size_t i = 0; i < reply->unconfirmed_count; i++) {
        names[i] = wire_text(reply->unconfirmed[i]);
    }
    init_queue(&wire, &reply->queue);
    foliot__v1__create_queue_response__init(&message);
    message.queue = &wire.message;
    message.n_unconfirmed_brokers = reply->unconfirmed_count;
    message.unconfirmed_brokers = names;
    return message_write(&message.base, out);
}

int codec_read_queue_name(struct slice bytes, struct arena *arena, struct queue_name *out,
                          struct fault *fault)
{
    const Foliot__V1__GetQueueRequest *request;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__get_queue_request__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    request = (const Foliot__V1__GetQueueRequest *)(void *)message;
    return read_queue_name(request->namespace_, request->name, false,
                           (struct place){"", "name", fault}, out);
}

int codec_write_queue_name(const struct queue_name *name, struct buf *out)
{
    Foliot__V1__GetQueueRequest message;

    foliot__v1__get_queue_request__init(&message);
    message.namespace_ = wire_text(name->tenant);
    message.name = wire_text(name->name);
    return message_write(&message.base, out);
}

/* A page token is the last id of the page before, in decimal. */
static int read_token(const char *token, struct place place, uint32_t *after_id)
{
    uint64_t value = 0;

    for (const char *at = token; *at != '\0'; at++) {
        if (*at < '0' || *at > '9' || value > UINT32_MAX) {
            return refuse_value(&place, "TOKEN_INVALID",
                                "\"%.20s\" did not come from a page before; leave it empty to "
                                "start over",
                                token);
        }
        value = value * 10 + (uint64_t)(*at - '0');
    }
    if (value > UINT32_MAX) {
        value = UINT32_MAX; // ids end there: an empty page
    }
    *after_id = (uint32_t)value;
    return 0;
}

int codec_read_queue_list(struct slice bytes, struct arena *arena, struct queue_list_request *out,
                          struct fault *fault)
{
    const Foliot__V1__ListQueuesRequest *request;
    struct queue_name name;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__list_queues_request__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    request = (const Foliot__V1__ListQueuesRequest *)(void *)message;
    err = read_queue_name(request->namespace_, "", true, (struct place){"", "namespace", fault},
                          &name);
    if (err == 0) {
        err = read_token(request->page_token, (struct place){"", "page_token", fault},
                         &out->after_id);
    }
    if (err == 0) {
        out->tenant = request->namespace_;
        out->page_size = request->page_size;
        if (out->page_size == 0 || out->page_size > QUEUE_PAGE_COUNT_MAX) {
            out->page_size = QUEUE_PAGE_COUNT_MAX;
        }
    }
    return err;
}

static char *format_token(uint32_t after_id, char *text, size_t size)
{
    text[0] = '\0';
    if (after_id != 0) {
        (void)snprintf(text, size, "%" PRIu32, after_id);
    }
    return text;
}

int codec_write_queue_list(const struct queue_list_request *request, struct buf *out)
{
    Foliot__V1__ListQueuesRequest message;
    char token[16];

    foliot__v1__list_queues_request__init(&message);
    message.namespace_ = wire_text(request->tenant);
    message.page_size = request->page_size;
    message.page_token = format_token(request->after_id, token, sizeof(token));
    return message_write(&message.base, out);
}

int codec_write_queue_list_item(const struct queue *queue, struct buf *out)
{
    struct queue_wire wire;

    init_queue(&wire, queue);
    return message_write_element(LIST_QUEUES_NUMBER, &wire.message.base, out);
}

int codec_write_queue_list_end(uint32_t after_id, struct buf *out)
{
    Foliot__V1__ListQueuesResponse message;
    char token[16];

    foliot__v1__list_queues_response__init(&message);
    message.next_page_token = format_token(after_id, token, sizeof(token));
    return message_write(&message.base, out);
}

int codec_read_queue_list_reply(struct slice bytes, struct arena *arena,
                                struct queue_list_reply *out, struct fault *fault)
{
    const Foliot__V1__ListQueuesResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__list_queues_response__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__ListQueuesResponse *)(void *)message;
    out->count = reply->n_queues;
    out->message = reply;
    return read_token(reply->next_page_token, (struct place){"", "next_page_token", fault},
                      &out->after_id);
}

int codec_read_queue_list_item(const struct queue_list_reply *reply, size_t index,
                               struct queue *out, struct fault *fault)
{
    const Foliot__V1__ListQueuesResponse *message = reply->message;
    int err;

    REQUIRE(index < reply->count);
    queue_init(out);
    err = read_queue_msg(message->queues[index], fault, out);
    out->id = message->queues[index]->id;
    return err;
}
