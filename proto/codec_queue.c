/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues and their policy.
 */
#include "proto/codec_queue.h"

#include "lib/base/check.h"
#include "proto/message.h"
#include "proto/queue_message.h"
#include "proto/values.h"

#include <foliot/v1/queue.pb-c.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LIST_QUEUES_NUMBER 1

_Static_assert((long long)QUEUE_PAGE_COUNT_MAX *(TARGET_BYTES_MAX + 2 * NAME_BYTES_MAX + 256) <
                   RPC_MESSAGE_BYTES_MAX,
               "a full page fits a message");

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
    return read_queue_reply_msg(reply->queue, fault, &out->queue);
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

    REQUIRE(index < reply->count);
    return read_queue_reply_msg(message->queues[index], fault, out);
}
