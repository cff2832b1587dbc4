/* SPDX-License-Identifier: Apache-2.0
 *
 * Pause, resume, drain, delete, and the figures of a queue.
 */
#include "client/lib/client.h"
#include "client/lib/queue_calls.h"
#include "lib/base/mem.h"
#include "proto/codec_queue_life.h"

#include <string.h>

/* ---- pause ---- */

static const struct client_method PAUSE = {
    .path = "/foliot.v1.QueueService/Pause",
    .what = "cannot pause the queue",
    .kind = REPEAT_SAFELY,
    .decode = queue_decode_reply,
    .deliver = queue_deliver_reply,
    .release = queue_release_reply,
};

static int refuse_end(const char *field, int64_t value, const char *limit, struct fault *fault)
{
    fault_set(fault, RPC_INVALID_ARGUMENT, "TIME_OUT_OF_RANGE", field,
              "%s: %lld ms is above the limit (%s)", field, (long long)value, limit);
    return ERR_INVALID;
}

static int take_end(const struct foliot_queue_pause_request *given, struct when *out,
                    struct fault *fault)
{
    *out = (struct when){.kind = WHEN_NONE};
    switch (given->end) {
    case FOLIOT_WHEN_UNSAID:
        return 0;
    case FOLIOT_WHEN_AT:
        *out = (struct when){.kind = WHEN_DUE, .due_ms = time_max(given->end_ms, 0)};
        return given->end_ms <= DUE_WALL_MS_MAX
                   ? 0
                   : refuse_end("until", given->end_ms, "DUE_WALL_MS_MAX", fault);
    case FOLIOT_WHEN_AFTER:
        *out = (struct when){.kind = WHEN_DELAY, .delay_ms = time_max(given->end_ms, 0)};
        return given->end_ms <= QUEUE_PAUSE_MS_MAX
                   ? 0
                   : refuse_end("duration", given->end_ms, "QUEUE_PAUSE_MS_MAX", fault);
    }
    fault_set(fault, RPC_INVALID_ARGUMENT, "ENUM_UNKNOWN", "end",
              "end: %d is none of enum foliot_when", (int)given->end);
    return ERR_INVALID;
}

static struct client_call *begin_pause(struct foliot_client *client,
                                       const struct foliot_queue_pause_request *request,
                                       const struct foliot_call_options *options, int *code,
                                       struct foliot_error *error)
{
    struct client_call *call = client_call_new(client, &PAUSE, options, code, error);
    struct foliot_queue_pause_request given;
    struct pause_request taken;

    if (call == NULL) {
        return NULL;
    }
    if (argument_take(request, &given, sizeof(given), "request", &call->fault) != 0 ||
        queue_take_names(given.name_space, given.name, &taken.queue, &call->fault) != 0 ||
        take_end(&given, &taken.end, &call->fault) != 0) {
        return client_call_refuse(call, code, error);
    }
    if (codec_write_pause(&taken, &call->bytes) != 0) {
        return queue_refuse_memory(call, code, error);
    }
    return call;
}

int foliot_queue_pause(struct foliot_client *client,
                       const struct foliot_queue_pause_request *request,
                       const struct foliot_call_options *options,
                       const struct foliot_queue_reply **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_pause(client, request, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_queue_pause_async(struct foliot_client *client,
                             const struct foliot_queue_pause_request *request,
                             const struct foliot_call_options *options, foliot_queue_reply_cb cb,
                             void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_pause(client, request, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

/* ---- resume, drain ---- */

static const struct client_method RESUME = {
    .path = "/foliot.v1.QueueService/Resume",
    .what = "cannot resume the queue",
    .kind = REPEAT_SAFELY,
    .decode = queue_decode_reply,
    .deliver = queue_deliver_reply,
    .release = queue_release_reply,
};

static const struct client_method DRAIN = {
    .path = "/foliot.v1.QueueService/Drain",
    .what = "cannot drain the queue",
    .kind = REPEAT_SAFELY,
    .decode = queue_decode_reply,
    .deliver = queue_deliver_reply,
    .release = queue_release_reply,
};

int foliot_queue_resume(struct foliot_client *client, const struct foliot_queue_name *name,
                        const struct foliot_call_options *options,
                        const struct foliot_queue_reply **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = queue_begin_named(client, &RESUME, name, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_queue_resume_async(struct foliot_client *client, const struct foliot_queue_name *name,
                              const struct foliot_call_options *options, foliot_queue_reply_cb cb,
                              void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = queue_begin_named(client, &RESUME, name, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

int foliot_queue_drain(struct foliot_client *client, const struct foliot_queue_name *name,
                       const struct foliot_call_options *options,
                       const struct foliot_queue_reply **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = queue_begin_named(client, &DRAIN, name, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_queue_drain_async(struct foliot_client *client, const struct foliot_queue_name *name,
                             const struct foliot_call_options *options, foliot_queue_reply_cb cb,
                             void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = queue_begin_named(client, &DRAIN, name, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

/* ---- delete ---- */

static int decode_deleted(struct slice bytes, void *result, struct fault *fault)
{
    return queue_reply_decode(bytes, codec_read_queue_delete_reply, false, result, fault);
}

static const struct client_method DELETE = {
    .path = "/foliot.v1.QueueService/Delete",
    .what = "cannot delete the queue",
    .kind = REPEAT_NEVER,
    .decode = decode_deleted,
    .deliver = queue_deliver_reply,
    .release = queue_release_reply,
};

static struct client_call *begin_delete(struct foliot_client *client,
                                        const struct foliot_queue_delete_request *request,
                                        const struct foliot_call_options *options, int *code,
                                        struct foliot_error *error)
{
    struct client_call *call = client_call_new(client, &DELETE, options, code, error);
    struct foliot_queue_delete_request given;
    struct queue_delete_request taken;

    if (call == NULL) {
        return NULL;
    }
    if (argument_take(request, &given, sizeof(given), "request", &call->fault) != 0 ||
        queue_take_names(given.name_space, given.name, &taken.queue, &call->fault) != 0) {
        return client_call_refuse(call, code, error);
    }
    taken.version = given.version;
    if (codec_write_queue_delete(&taken, &call->bytes) != 0) {
        return queue_refuse_memory(call, code, error);
    }
    return call;
}

int foliot_queue_delete(struct foliot_client *client,
                        const struct foliot_queue_delete_request *request,
                        const struct foliot_call_options *options,
                        const struct foliot_queue_reply **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_delete(client, request, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_queue_delete_async(struct foliot_client *client,
                              const struct foliot_queue_delete_request *request,
                              const struct foliot_call_options *options, foliot_queue_reply_cb cb,
                              void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_delete(client, request, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

/* ---- figures ---- */

struct stats_box {
    struct foliot_queue_stats stats; /* first */
    struct queue_box queue;
    struct arena arena;
};

void foliot_queue_stats_free(const struct foliot_queue_stats *stats)
{
    struct stats_box *box = (struct stats_box *)(uintptr_t)stats;

    if (box != NULL) {
        arena_fini(&box->arena);
        mem_free(box);
    }
}

static void fill_stats(struct stats_box *box, const struct queue_stats *from)
{
    queue_box_fill(&box->queue);
    box->stats = (struct foliot_queue_stats){
        .queue = &box->queue.queue,
        .pending = from->pending,
        .overdue = from->overdue,
        .dead = from->dead,
        .first_due_ms = from->first_due_ms,
        .counted_ms = from->count_ms,
        .running = from->running,
        .done = from->done,
        .retried = from->retried,
        .died = from->died,
        .expired = from->expired,
        .unknown = from->unknown,
        .missing = from->missing,
        .missing_count = from->missing_count,
        .is_at_least = from->is_at_least,
    };
}

static int decode_stats(struct slice bytes, void *result, struct fault *fault)
{
    struct stats_box *box = mem_new(1, sizeof(*box));
    const struct foliot_queue_stats **out = result;
    struct queue_stats stats;
    int err;

    if (box == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the figures");
        return ERR_NO_MEMORY;
    }
    arena_init(&box->arena, 0);
    err = codec_read_stats_reply(bytes, &box->arena, &box->queue.texts, &stats, fault);
    if (err != 0) {
        foliot_queue_stats_free(&box->stats);
        return err;
    }
    fill_stats(box, &stats);
    *out = &box->stats;
    return 0;
}

static void deliver_stats(const struct client_call *call, const struct foliot_error *error,
                          const void *result)
{
    const struct foliot_queue_stats *const *stats = result;

    ((foliot_queue_stats_cb)call->cb)(error, stats == NULL ? NULL : *stats, call->ctx);
}

static void release_stats(void *result)
{
    const struct foliot_queue_stats *const *stats = result;

    foliot_queue_stats_free(*stats);
}

static const struct client_method STATS = {
    .path = "/foliot.v1.QueueService/GetStats",
    .what = "cannot read the figures of the queue",
    .kind = REPEAT_READ,
    .decode = decode_stats,
    .deliver = deliver_stats,
    .release = release_stats,
};

int foliot_queue_stats_get(struct foliot_client *client, const struct foliot_queue_name *name,
                           const struct foliot_call_options *options,
                           const struct foliot_queue_stats **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = queue_begin_named(client, &STATS, name, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_queue_stats_get_async(struct foliot_client *client, const struct foliot_queue_name *name,
                                 const struct foliot_call_options *options,
                                 foliot_queue_stats_cb cb, void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = queue_begin_named(client, &STATS, name, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}
