/* SPDX-License-Identifier: Apache-2.0
 *
 * Dead letters.
 */
#include "client/lib/client.h"
#include "client/lib/queue_calls.h"
#include "client/lib/task_calls.h"
#include "client/lib/task_view.h"
#include "lib/base/mem.h"
#include "proto/codec_dead.h"

#include <foliot/dead.h>

#include <string.h>

_Static_assert(FOLIOT_TOKEN_SIZE > PAGE_TOKEN_BYTES_MAX, "a token fits");
_Static_assert(sizeof(struct foliot_dead_done) <= RESULT_BYTES, "a result has room");

/* Highest rate: what the message can say. */
#define RATE_MAX 1e9

/* ---- requests ---- */

static int take_filter(const char *text, struct slice *out, struct fault *fault)
{
    const char *filter = argument_text(text, "");

    *out = slice_of(filter);
    return argument_check_text(filter, DEAD_FILTER_BYTES_MAX, "error_contains",
                               "DEAD_FILTER_BYTES_MAX", fault);
}

/* shape: ids has room for DEAD_CALL_COUNT_MAX. */
static int take_ids(const struct foliot_dead_request *given, struct task_id *ids,
                    struct fault *fault)
{
    if (given->id_count > DEAD_CALL_COUNT_MAX || (given->ids == NULL && given->id_count > 0)) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "VALUE_OUT_OF_RANGE", "ids",
                  "ids: are %zu; name up to %d at once (DEAD_CALL_COUNT_MAX), or none for all",
                  given->ids == NULL ? 0 : given->id_count, DEAD_CALL_COUNT_MAX);
        return ERR_INVALID;
    }
    for (size_t i = 0; i < given->id_count; i++) {
        const char *id = argument_text(given->ids[i], "");

        if (task_id_parse(slice_of(id), &ids[i]) != 0) {
            fault_set(fault, RPC_INVALID_ARGUMENT, "ID_INVALID", "ids",
                      "ids[%zu]: \"%.40s\" is no task id; one looks like 0a7-0000012300000001", i,
                      id);
            return ERR_INVALID;
        }
    }
    return 0;
}

static int take_rate(double rate, int64_t *millis, struct fault *fault)
{
    if (!(rate >= 0) || rate > RATE_MAX) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "VALUE_OUT_OF_RANGE", "rate_per_second",
                  "rate_per_second: must be 0 for all at once, or up to %.0f", RATE_MAX);
        return ERR_INVALID;
    }
    *millis = (int64_t)(rate * 1000);
    if (rate > 0 && *millis == 0) {
        *millis = 1;
    }
    return 0;
}

/* shape: ids as in take_ids; out borrows them. */
static int take_dead(const struct foliot_dead_request *request, struct task_id *ids,
                     struct dead_request *out, struct fault *fault)
{
    struct foliot_dead_request given;

    memset(out, 0, sizeof(*out));
    if (argument_take(request, &given, sizeof(given), "request", fault) != 0 ||
        task_take_queue(given.name_space, given.queue, &out->queue, fault) != 0 ||
        take_filter(given.error_contains, &out->error_contains, fault) != 0 ||
        take_ids(&given, ids, fault) != 0 ||
        take_rate(given.rate_per_second, &out->rate_millis, fault) != 0) {
        return ERR_INVALID;
    }
    out->ids = ids;
    out->id_count = given.id_count;
    out->with_payload = given.with_payload != 0;
    return page_take(given.page_token, given.count_max, &out->count_max, &out->mark, fault);
}

typedef int (*dead_write_fn)(const struct dead_request *request, struct buf *out);

/* A method and how its request is written. */
struct dead_method {
    struct client_method method;
    dead_write_fn write;
};

static struct client_call *begin_dead(struct foliot_client *client, const struct dead_method *dead,
                                      const struct foliot_dead_request *request,
                                      const struct foliot_call_options *options, int *code,
                                      struct foliot_error *error)
{
    struct client_call *call = client_call_new(client, &dead->method, options, code, error);
    struct task_id ids[DEAD_CALL_COUNT_MAX];
    struct dead_request taken;

    if (call == NULL) {
        return NULL;
    }
    if (take_dead(request, ids, &taken, &call->fault) != 0) {
        return client_call_refuse(call, code, error);
    }
    if (dead->write(&taken, &call->bytes) != 0) {
        return queue_refuse_memory(call, code, error);
    }
    return call;
}

/* ---- list ---- */

static int decode_list(struct slice bytes, void *result, struct fault *fault)
{
    return task_page_decode(bytes, codec_read_dead_reply, codec_read_dead_item, result, fault);
}

static const struct dead_method LIST = {
    .method =
        {
            .path = "/foliot.v1.QueueService/ListDead",
            .what = "cannot list the dead letters",
            .kind = REPEAT_READ,
            .decode = decode_list,
            .deliver = task_page_deliver,
            .release = task_page_release,
        },
    .write = codec_write_dead_list,
};

int foliot_dead_list(struct foliot_client *client, const struct foliot_dead_request *request,
                     const struct foliot_call_options *options, const struct foliot_task_page **out,
                     struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_dead(client, &LIST, request, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_dead_list_async(struct foliot_client *client, const struct foliot_dead_request *request,
                           const struct foliot_call_options *options, foliot_task_page_cb cb,
                           void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_dead(client, &LIST, request, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

/* ---- group ---- */

struct groups_box {
    struct foliot_dead_groups groups; /* first */
    struct foliot_dead_group *list;
    struct arena arena;
};

void foliot_dead_groups_free(const struct foliot_dead_groups *groups)
{
    struct groups_box *box = (struct groups_box *)(uintptr_t)groups;

    if (box != NULL) {
        mem_free(box->list);
        arena_fini(&box->arena);
        mem_free(box);
    }
}

static int no_memory(struct fault *fault)
{
    fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the groups");
    return ERR_NO_MEMORY;
}

static int read_groups(struct groups_box *box, const struct dead_groups *reply, struct fault *fault)
{
    box->list = mem_new(reply->count, sizeof(*box->list));
    if (box->list == NULL) {
        return no_memory(fault);
    }
    for (size_t i = 0; i < reply->count; i++) {
        struct foliot_dead_group *out = &box->list[i];
        struct dead_group group;
        int err = codec_read_dead_group_item(reply, i, &group, fault);

        if (err != 0) {
            return err;
        }
        out->error = group.error.len > 0 ? (const char *)group.error.data : "";
        out->count = group.count;
        task_format_id(group.example, out->example_id);
        out->first_ms = group.first_ms;
        out->last_ms = group.last_ms;
    }
    box->groups =
        (struct foliot_dead_groups){reply->count, box->list, reply->looked_at, reply->is_partial};
    return 0;
}

static int decode_groups(struct slice bytes, void *result, struct fault *fault)
{
    struct groups_box *box = mem_new(1, sizeof(*box));
    const struct foliot_dead_groups **out = result;
    struct dead_groups reply;
    int err;

    if (box == NULL) {
        return no_memory(fault);
    }
    arena_init(&box->arena, 0);
    err = codec_read_dead_groups(bytes, &box->arena, &reply, fault);
    if (err == 0) {
        err = read_groups(box, &reply, fault);
    }
    if (err != 0) {
        foliot_dead_groups_free(&box->groups);
        return err;
    }
    *out = &box->groups;
    return 0;
}

static void deliver_groups(const struct client_call *call, const struct foliot_error *error,
                           const void *result)
{
    const struct foliot_dead_groups *const *groups = result;

    ((foliot_dead_groups_cb)call->cb)(error, groups == NULL ? NULL : *groups, call->ctx);
}

static void release_groups(void *result)
{
    const struct foliot_dead_groups *const *groups = result;

    foliot_dead_groups_free(*groups);
}

static const struct client_method GROUP = {
    .path = "/foliot.v1.QueueService/GroupDead",
    .what = "cannot count the dead letters",
    .kind = REPEAT_READ,
    .decode = decode_groups,
    .deliver = deliver_groups,
    .release = release_groups,
};

int foliot_dead_group(struct foliot_client *client, const struct foliot_queue_name *name,
                      const struct foliot_call_options *options,
                      const struct foliot_dead_groups **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = queue_begin_named(client, &GROUP, name, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_dead_group_async(struct foliot_client *client, const struct foliot_queue_name *name,
                            const struct foliot_call_options *options, foliot_dead_groups_cb cb,
                            void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = queue_begin_named(client, &GROUP, name, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

/* ---- redrive, purge ---- */

typedef int (*dead_done_read_fn)(struct slice bytes, struct arena *arena, struct dead_done *out,
                                 struct fault *fault);

static int decode_done(struct slice bytes, dead_done_read_fn read, struct foliot_dead_done *out,
                       struct fault *fault)
{
    struct dead_done done;
    struct arena arena;
    int err;

    arena_init(&arena, 0);
    err = read(bytes, &arena, &done, fault);
    if (err == 0) {
        size_t len = strnlen(done.next_token, FOLIOT_TOKEN_SIZE - 1);

        memset(out, 0, sizeof(*out));
        out->handled = done.handled;
        out->skipped = done.skipped;
        memcpy(out->next_page_token, done.next_token, len);
    }
    arena_fini(&arena);
    return err;
}

static int decode_redriven(struct slice bytes, void *result, struct fault *fault)
{
    return decode_done(bytes, codec_read_redrive_reply, result, fault);
}

static int decode_purged(struct slice bytes, void *result, struct fault *fault)
{
    return decode_done(bytes, codec_read_purge_reply, result, fault);
}

static void deliver_done(const struct client_call *call, const struct foliot_error *error,
                         const void *result)
{
    ((foliot_dead_done_cb)call->cb)(error, result, call->ctx);
}

static const struct dead_method REDRIVE = {
    .method =
        {
            .path = "/foliot.v1.QueueService/RedriveDead",
            .what = "cannot redrive the dead letters",
            .kind = REPEAT_NEVER,
            .decode = decode_redriven,
            .deliver = deliver_done,
        },
    .write = codec_write_dead_redrive,
};

static const struct dead_method PURGE = {
    .method =
        {
            .path = "/foliot.v1.QueueService/PurgeDead",
            .what = "cannot purge the dead letters",
            .kind = REPEAT_NEVER,
            .decode = decode_purged,
            .deliver = deliver_done,
        },
    .write = codec_write_dead_purge,
};

int foliot_dead_redrive(struct foliot_client *client, const struct foliot_dead_request *request,
                        const struct foliot_call_options *options, struct foliot_dead_done *out,
                        struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_dead(client, &REDRIVE, request, options, &code, error);

    return call == NULL ? code : client_call_wait(call, out, error);
}

int foliot_dead_redrive_async(struct foliot_client *client,
                              const struct foliot_dead_request *request,
                              const struct foliot_call_options *options, foliot_dead_done_cb cb,
                              void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_dead(client, &REDRIVE, request, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

int foliot_dead_purge(struct foliot_client *client, const struct foliot_dead_request *request,
                      const struct foliot_call_options *options, struct foliot_dead_done *out,
                      struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_dead(client, &PURGE, request, options, &code, error);

    return call == NULL ? code : client_call_wait(call, out, error);
}

int foliot_dead_purge_async(struct foliot_client *client, const struct foliot_dead_request *request,
                            const struct foliot_call_options *options, foliot_dead_done_cb cb,
                            void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_dead(client, &PURGE, request, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}
