/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of a load.
 */
#include "client/cli/bench_wire.h"

#include "lib/base/check.h"
#include "proto/codec_list.h"

#include <string.h>

/* An update moves a task to so long from now: out of the window, as its first due time was. */
#define UPDATE_DELAY_MS INT64_C(172800000)

const char *wire_path(enum load_op op, bool is_batched)
{
    static const char *const paths[LOAD_OP_COUNT][2] = {
        [LOAD_CREATE] = {"/foliot.v1.TaskService/Create", "/foliot.v1.TaskService/BatchCreate"},
        [LOAD_CANCEL] = {"/foliot.v1.TaskService/Cancel", "/foliot.v1.TaskService/BatchCancel"},
        [LOAD_GET] = {"/foliot.v1.TaskService/Get", NULL},
        [LOAD_UPDATE] = {"/foliot.v1.TaskService/Update", NULL},
    };

    REQUIRE(paths[op][is_batched] != NULL);
    return paths[op][is_batched];
}

int wire_write(enum load_op op, bool is_batched, const struct mix *mix,
               const struct load_item *item, struct buf *out)
{
    const struct task_name name = {.queue = {mix->queue.tenant, ""}, .id = item->id};
    struct create_request request;
    char key[MIX_KEY_BYTES];

    switch (op) {
    case LOAD_CREATE:
        mix_describe(mix, item->number, key, &request);
        return is_batched ? codec_write_batch_item(&request, out)
                          : codec_write_create(&request, out);
    case LOAD_CANCEL:
        return is_batched ? codec_write_cancel_item(&name, out) : codec_write_task_name(&name, out);
    case LOAD_UPDATE: {
        const struct update_request update = {
            .task = name, .when = {.kind = WHEN_DELAY, .delay_ms = UPDATE_DELAY_MS}};

        return codec_write_update(&update, out);
    }
    case LOAD_GET:
    case LOAD_OP_COUNT:
        break;
    }
    return codec_write_task_name(&name, out);
}

int wire_open_reply(enum load_op op, bool is_batched, struct slice payload, struct arena *arena,
                    struct wire_reply *out, struct fault *fault)
{
    int err = 0;

    *out = (struct wire_reply){
        .op = op, .is_batched = is_batched, .count = 1, .payload = payload, .arena = arena};
    if (is_batched) {
        err = op == LOAD_CREATE ? codec_read_batch_reply(payload, arena, &out->results, fault)
                                : codec_read_cancel_results(payload, arena, &out->results, fault);
        out->count = err == 0 ? out->results.count : 0;
    }
    return err;
}

static int read_create(const struct wire_reply *reply, size_t index, struct wire_answer *out,
                       struct fault *fault)
{
    int err = reply->is_batched
                  ? codec_read_batch_result(&reply->results, index, &out->created, &out->has_failed,
                                            fault)
                  : codec_read_create_reply(reply->payload, reply->arena, &out->created, fault);

    out->is_spent = err == 0 && !out->has_failed && !out->created.created;
    return err;
}

static int read_cancel(const struct wire_reply *reply, size_t index, struct wire_answer *out,
                       struct fault *fault)
{
    struct cancel_reply cancelled = {.attempt = 0};
    int err =
        reply->is_batched
            ? codec_read_cancel_result(&reply->results, index, &cancelled, &out->has_failed, fault)
            : codec_read_cancel_reply(reply->payload, reply->arena, &cancelled, fault);

    out->is_spent = err == 0 && !out->has_failed && cancelled.outcome != CANCEL_ANSWER_CANCELLED &&
                    cancelled.outcome != CANCEL_ANSWER_STOPPED;
    return err;
}

int wire_read_answer(const struct wire_reply *reply, size_t index, struct wire_answer *out,
                     struct fault *fault)
{
    struct update_reply updated;
    struct task_view view;

    memset(out, 0, sizeof(*out));
    switch (reply->op) {
    case LOAD_CREATE:
        return read_create(reply, index, out, fault);
    case LOAD_CANCEL:
        return read_cancel(reply, index, out, fault);
    case LOAD_UPDATE:
        return codec_read_update_reply(reply->payload, reply->arena, &updated, fault);
    case LOAD_GET:
    case LOAD_OP_COUNT:
        break;
    }
    return codec_read_get_reply(reply->payload, reply->arena, &view, fault);
}
