/* SPDX-License-Identifier: Apache-2.0
 *
 * Pause, Delete and GetStats.
 */
#include "proto/codec_queue_life.h"

#include "lib/base/check.h"
#include "proto/message.h"
#include "proto/queue_message.h"
#include "proto/values.h"

#include <foliot/v1/queue.pb-c.h>
#include <inttypes.h>

_Static_assert(sizeof(Foliot__V1__GetQueueRequest) == sizeof(Foliot__V1__ResumeQueueRequest) &&
                   sizeof(Foliot__V1__GetQueueRequest) == sizeof(Foliot__V1__DrainQueueRequest) &&
                   sizeof(Foliot__V1__GetQueueRequest) == sizeof(Foliot__V1__GetQueueStatsRequest),
               "requests that only name a queue look alike");
_Static_assert(sizeof(Foliot__V1__CreateQueueResponse) == sizeof(Foliot__V1__PauseQueueResponse) &&
                   sizeof(Foliot__V1__CreateQueueResponse) ==
                       sizeof(Foliot__V1__DrainQueueResponse),
               "responses that show the queue look alike");

typedef Foliot__V1__PauseQueueRequest pause_msg;

static int read_end(const pause_msg *message, struct fault *fault, struct when *out)
{
    int err = 0;

    out->kind = WHEN_NONE;
    if (message->end_case == FOLIOT__V1__PAUSE_QUEUE_REQUEST__END_UNTIL) {
        out->kind = WHEN_DUE;
        err = read_due(message->until, (struct place){"", "until", fault}, &out->due_ms);
        out->due_ms = time_max(out->due_ms, 1); // 0 would mean until resumed
    } else if (message->end_case == FOLIOT__V1__PAUSE_QUEUE_REQUEST__END_DURATION) {
        out->kind = WHEN_DELAY;
        err = read_delay(message->duration, (struct place){"", "duration", fault}, &out->delay_ms);
    }
    if (err == 0 && out->kind == WHEN_DELAY && out->delay_ms > QUEUE_PAUSE_MS_MAX) {
        return refuse_value(&(struct place){"", "duration", fault}, "TIME_OUT_OF_RANGE",
                            "is %" PRId64 " ms, the longest is %" PRId64
                            " (QUEUE_PAUSE_MS_MAX, 365 days); leave it out to pause until resumed",
                            out->delay_ms, QUEUE_PAUSE_MS_MAX);
    }
    return err;
}

int codec_read_pause(struct slice bytes, struct arena *arena, struct pause_request *out,
                     struct fault *fault)
{
    const pause_msg *request;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__pause_queue_request__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    request = (const pause_msg *)(void *)message;
    err = read_queue_name(request->namespace_, request->name, false,
                          (struct place){"", "name", fault}, &out->queue);
    return err != 0 ? err : read_end(request, fault, &out->end);
}

int codec_write_pause(const struct pause_request *request, struct buf *out)
{
    pause_msg message;
    Google__Protobuf__Timestamp until;
    Google__Protobuf__Duration duration;

    foliot__v1__pause_queue_request__init(&message);
    message.namespace_ = wire_text(request->queue.tenant);
    message.name = wire_text(request->queue.name);
    if (request->end.kind == WHEN_DUE) {
        message.end_case = FOLIOT__V1__PAUSE_QUEUE_REQUEST__END_UNTIL;
        message.until = write_time(request->end.due_ms, &until);
    } else if (request->end.kind == WHEN_DELAY) {
        message.end_case = FOLIOT__V1__PAUSE_QUEUE_REQUEST__END_DURATION;
        message.duration = write_duration(request->end.delay_ms, &duration);
    }
    return message_write(&message.base, out);
}

int codec_read_queue_delete(struct slice bytes, struct arena *arena,
                            struct queue_delete_request *out, struct fault *fault)
{
    const Foliot__V1__DeleteQueueRequest *request;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__delete_queue_request__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    request = (const Foliot__V1__DeleteQueueRequest *)(void *)message;
    out->version = request->version;
    return read_queue_name(request->namespace_, request->name, false,
                           (struct place){"", "name", fault}, &out->queue);
}

int codec_write_queue_delete(const struct queue_delete_request *request, struct buf *out)
{
    Foliot__V1__DeleteQueueRequest message;

    foliot__v1__delete_queue_request__init(&message);
    message.namespace_ = wire_text(request->queue.tenant);
    message.name = wire_text(request->queue.name);
    message.version = request->version;
    return message_write(&message.base, out);
}

int codec_read_queue_delete_reply(struct slice bytes, struct arena *arena, struct queue_reply *out,
                                  struct fault *fault)
{
    const Foliot__V1__DeleteQueueResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__delete_queue_response__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__DeleteQueueResponse *)(void *)message;
    out->unconfirmed = (const char *const *)reply->unconfirmed_brokers;
    out->unconfirmed_count = reply->n_unconfirmed_brokers;
    return 0;
}

int codec_write_queue_delete_reply(const struct queue_reply *reply, struct buf *out)
{
    Foliot__V1__DeleteQueueResponse message;
    char *names[MEMBER_COUNT_MAX];

    REQUIRE(reply->unconfirmed_count <= MEMBER_COUNT_MAX);
    for (size_t i = 0; i < reply->unconfirmed_count; i++) {
        names[i] = wire_text(reply->unconfirmed[i]);
    }
    foliot__v1__delete_queue_response__init(&message);
    message.n_unconfirmed_brokers = reply->unconfirmed_count;
    message.unconfirmed_brokers = names;
    return message_write(&message.base, out);
}

int codec_read_stats_reply(struct slice bytes, struct arena *arena, struct queue *queue,
                           struct queue_stats *out, struct fault *fault)
{
    const Foliot__V1__GetQueueStatsResponse *reply;
    const Foliot__V1__QueueStats *stats;
    ProtobufCMessage *message;
    int err = message_read(&foliot__v1__get_queue_stats_response__descriptor, bytes, arena,
                           &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__GetQueueStatsResponse *)(void *)message;
    if (reply->queue == NULL || reply->stats == NULL) {
        return refuse_value(&(struct place){"", reply->queue == NULL ? "queue" : "stats", fault},
                            "REPLY_INVALID", "is absent");
    }
    stats = reply->stats;
    *out = (struct queue_stats){
        .pending = stats->pending,
        .overdue = stats->overdue,
        .dead = stats->dead,
        .first_due_ms = read_reply_time(stats->first_due_time),
        .count_ms = read_reply_time(stats->count_time),
        .running = stats->running,
        .done = stats->done,
        .retried = stats->retried,
        .died = stats->died,
        .expired = stats->expired,
        .unknown = stats->unknown,
        .is_at_least = stats->is_at_least != 0,
        .missing = stats->missing_shards,
        .missing_count = stats->n_missing_shards,
    };
    return read_queue_reply_msg(reply->queue, fault, queue);
}

int codec_write_stats_reply(const struct queue *queue, const struct queue_stats *stats,
                            struct buf *out)
{
    Foliot__V1__GetQueueStatsResponse message;
    Foliot__V1__QueueStats figures;
    Google__Protobuf__Timestamp first;
    Google__Protobuf__Timestamp counted;
    struct queue_wire wire;

    init_queue(&wire, queue);
    foliot__v1__queue_stats__init(&figures);
    figures.pending = stats->pending;
    figures.overdue = stats->overdue;
    figures.dead = stats->dead;
    figures.first_due_time = write_time(stats->first_due_ms, &first);
    figures.count_time = write_time(stats->count_ms, &counted);
    figures.running = stats->running;
    figures.done = stats->done;
    figures.retried = stats->retried;
    figures.died = stats->died;
    figures.expired = stats->expired;
    figures.unknown = stats->unknown;
    figures.is_at_least = stats->is_at_least;
    figures.n_missing_shards = stats->missing_count;
    figures.missing_shards = (uint32_t *)(uintptr_t)stats->missing;
    foliot__v1__get_queue_stats_response__init(&message);
    message.queue = &wire.message;
    message.stats = &figures;
    return message_write(&message.base, out);
}
