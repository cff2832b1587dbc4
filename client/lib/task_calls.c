/* SPDX-License-Identifier: Apache-2.0
 *
 * Create, get, cancel, update of one task.
 */
#include "client/lib/task_calls.h"

#include "client/lib/client.h"
#include "client/lib/task_view.h"
#include "lib/base/mem.h"
#include "proto/route.h"

#include <string.h>

_Static_assert(FOLIOT_ID_SIZE > TASK_ID_TEXT_LEN, "an id fits");
_Static_assert(FOLIOT_TIME_UNKNOWN == WALL_NEVER, "what is not known is not known");
_Static_assert((int)FOLIOT_KEY_KEEP + 1 == (int)KEY_KEEP &&
                   (int)FOLIOT_KEY_REJECT + 1 == (int)KEY_REJECT &&
                   (int)FOLIOT_KEY_REPLACE + 1 == (int)KEY_REPLACE,
               "key policies are one off");
_Static_assert((int)FOLIOT_TASK_WAITING == (int)TASK_VIEW_WAITING &&
                   (int)FOLIOT_TASK_RETRYING == (int)TASK_VIEW_RETRYING,
               "states have one number");
_Static_assert((int)FOLIOT_CANCEL_CANCELLED == (int)CANCEL_ANSWER_CANCELLED &&
                   (int)FOLIOT_CANCEL_NOT_FOUND == (int)CANCEL_ANSWER_NOT_FOUND,
               "outcomes have one number");

/* ---- arguments ---- */

int task_take_queue(const char *name_space, const char *queue, struct queue_name *out,
                    struct fault *fault)
{
    out->tenant = argument_text(name_space, NAMESPACE_DEFAULT);
    out->name = argument_text(queue, "");
    if (argument_check_text(out->tenant, NAME_BYTES_MAX, "namespace", "NAME_BYTES_MAX", fault) !=
        0) {
        return ERR_INVALID;
    }
    return argument_check_text(out->name, NAME_BYTES_MAX, "queue", "NAME_BYTES_MAX", fault);
}

static int take_key(const char *key, struct slice *out, struct fault *fault)
{
    const char *text = argument_text(key, "");

    if (argument_check_text(text, KEY_BYTES_MAX, "key", "KEY_BYTES_MAX", fault) != 0) {
        return ERR_INVALID;
    }
    *out = slice_of(text);
    return 0;
}

int task_take_order_key(const char *key, struct slice *out, struct fault *fault)
{
    const char *text = argument_text(key, "");

    if (argument_check_text(text, ORDER_KEY_BYTES_MAX, "order_key", "ORDER_KEY_BYTES_MAX", fault) !=
        0) {
        return ERR_INVALID;
    }
    *out = slice_of(text);
    return 0;
}

/* All tasks of an order key lie in one slot, whatever their keys. */
static int32_t slot_of(const struct queue_name *queue, struct slice order_key, struct slice key)
{
    struct slice by = order_key.len > 0 ? order_key : key;

    return by.len > 0 ? route_key_slot(queue->tenant, queue->name, by) : SLOT_ANY;
}

static int take_payload(const void *payload, size_t size, struct slice *out, struct fault *fault)
{
    if (payload == NULL && size > 0) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "ARGUMENT_MISSING", "payload",
                  "payload: is NULL, but payload_size is %zu", size);
        return ERR_INVALID;
    }
    *out = (struct slice){payload, size};
    return 0;
}

static int refuse_time(const char *field, int64_t value, const char *limit, struct fault *fault)
{
    fault_set(fault, RPC_INVALID_ARGUMENT, "TIME_OUT_OF_RANGE", field,
              "%s: %lld ms is above the limit (%s)", field, (long long)value, limit);
    return ERR_INVALID;
}

static int take_when(enum foliot_when kind, int64_t when_ms, struct when *out, struct fault *fault)
{
    *out = (struct when){.kind = WHEN_NONE};
    switch (kind) {
    case FOLIOT_WHEN_UNSAID:
        return 0;
    case FOLIOT_WHEN_AT:
        *out = (struct when){.kind = WHEN_DUE, .due_ms = time_max(when_ms, 0)};
        return when_ms <= DUE_WALL_MS_MAX
                   ? 0
                   : refuse_time("due_time", when_ms, "DUE_WALL_MS_MAX", fault);
    case FOLIOT_WHEN_AFTER:
        *out = (struct when){.kind = WHEN_DELAY, .delay_ms = time_max(when_ms, 0)};
        return when_ms <= DELAY_MS_MAX ? 0 : refuse_time("delay", when_ms, "DELAY_MS_MAX", fault);
    }
    fault_set(fault, RPC_INVALID_ARGUMENT, "ENUM_UNKNOWN", "when",
              "when: %d is none of enum foliot_when", (int)kind);
    return ERR_INVALID;
}

static int take_key_policy(const struct foliot_create_request *given, struct create_request *out,
                           struct fault *fault)
{
    if ((int)given->key_policy < 0 || given->key_policy > FOLIOT_KEY_REPLACE) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "ENUM_UNKNOWN", "key_policy",
                  "key_policy: %d is none of enum foliot_key_policy", (int)given->key_policy);
        return ERR_INVALID;
    }
    if (given->latest_ms > DUE_WALL_MS_MAX) {
        return refuse_time("latest_time", given->latest_ms, "DUE_WALL_MS_MAX", fault);
    }
    out->key_policy = (enum key_policy)(given->key_policy + 1);
    out->latest_ms = time_max(given->latest_ms, 0);
    return 0;
}

int task_take_tags(const struct foliot_tag *tags, size_t count, char *text, struct slice *out,
                   struct fault *fault)
{
    struct tag sorted[TAG_COUNT_MAX];
    char errmsg[FAULT_MESSAGE_BYTES - 8];
    size_t len = 0;

    if (tags == NULL && count > 0) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "ARGUMENT_MISSING", "tags",
                  "tags: is NULL, but tag_count is %zu", count);
        return ERR_INVALID;
    }
    for (size_t i = 0; i < count && i < TAG_COUNT_MAX; i++) {
        sorted[i] = (struct tag){slice_of(argument_text(tags[i].name, "")),
                                 slice_of(argument_text(tags[i].value, ""))};
    }
    if (tags_write(sorted, count, text, &len, errmsg, sizeof(errmsg)) != 0) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "TAGS_INVALID", "tags", "tags: %s", errmsg);
        return ERR_INVALID;
    }
    *out = (struct slice){(const uint8_t *)text, len};
    return 0;
}

static int take_expiry(int64_t expire_ms, wall_ms *out, struct fault *fault)
{
    *out = time_max(expire_ms, 0);
    return expire_ms <= DUE_WALL_MS_MAX
               ? 0
               : refuse_time("expire_time", expire_ms, "DUE_WALL_MS_MAX", fault);
}

int task_take_create(const struct foliot_create_request *given, struct create_request *out,
                     struct create_place *place, struct fault *fault)
{
    int err;

    memset(out, 0, sizeof(*out)); // Also what this library does not know of yet.
    err = task_take_queue(given->name_space, given->queue, &out->queue, fault);
    if (err == 0) {
        err = take_when(given->when, given->when_ms, &out->when, fault);
    }
    if (err == 0) {
        err = take_payload(given->payload, given->payload_size, &out->payload, fault);
    }
    if (err == 0) {
        err = take_key(given->key, &out->key, fault);
    }
    if (err == 0) {
        err = task_take_order_key(given->order_key, &out->order_key, fault);
    }
    if (err == 0) {
        err = take_key_policy(given, out, fault);
    }
    if (err == 0) {
        err = take_expiry(given->expire_ms, &out->expire_ms, fault);
    }
    if (err == 0) {
        err = task_take_tags(given->tags, given->tag_count, place->tags, &out->tags, fault);
    }
    if (err != 0) {
        return err;
    }
    place->slot = slot_of(&out->queue, out->order_key, out->key);
    place->kind = REPEAT_NEVER;
    if (out->key.len > 0 && out->key_policy == KEY_KEEP) {
        place->kind = REPEAT_SAFELY; // REPLACE might run a task twice that was due at once.
    }
    return 0;
}

int task_take_name(const struct foliot_task_name *given, struct task_name *out, int32_t *slot,
                   struct fault *fault)
{
    struct foliot_task_name name;
    const char *id;

    *out = (struct task_name){.id = {0, 0}};
    *slot = SLOT_ANY;
    if (argument_take(given, &name, sizeof(name), "name", fault) != 0 ||
        task_take_queue(name.name_space, name.queue, &out->queue, fault) != 0 ||
        take_key(name.key, &out->key, fault) != 0 ||
        task_take_order_key(name.order_key, &out->order_key, fault) != 0) {
        return ERR_INVALID;
    }
    id = argument_text(name.id, "");
    if (id[0] != '\0' && task_id_parse(slice_of(id), &out->id) != 0) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "ID_INVALID", "id",
                  "id: \"%.40s\" is no task id; one looks like 0a7-0000012300000001", id);
        return ERR_INVALID;
    }
    if (out->id.seq != 0) {
        *slot = out->id.slot;
    } else if (out->key.len > 0) {
        *slot = slot_of(&out->queue, out->order_key, out->key);
    }
    return 0;
}

/* The request could not be written. */
static struct client_call *refuse_write(struct client_call *call, int err, int *code,
                                        struct foliot_error *error)
{
    if (err == ERR_TOO_LARGE) {
        fault_set(&call->fault, RPC_INVALID_ARGUMENT, "PAYLOAD_TOO_LARGE", "payload",
                  "%s: the request is above %d bytes (RPC_MESSAGE_BYTES_MAX)", call->method->what,
                  RPC_MESSAGE_BYTES_MAX);
    } else {
        fault_set_err(&call->fault, err, call->method->what);
    }
    return client_call_refuse(call, code, error);
}

void task_format_id(struct task_id id, char *text)
{
    text[0] = '\0';
    if (id.seq != 0) {
        task_id_format(id, text);
    }
}

/* ---- create ---- */

void task_fill_created(const struct create_reply *reply, struct foliot_created *out)
{
    memset(out, 0, sizeof(*out));
    task_format_id(reply->id, out->id);
    out->created = reply->created;
    out->due_ms = reply->due_ms;
}

static int decode_created(struct slice bytes, void *result, struct fault *fault)
{
    struct create_reply reply;
    struct arena arena;
    int err;

    arena_init(&arena, 0);
    err = codec_read_create_reply(bytes, &arena, &reply, fault);
    if (err == 0) {
        task_fill_created(&reply, result);
    }
    arena_fini(&arena);
    return err;
}

static void deliver_created(const struct client_call *call, const struct foliot_error *error,
                            const void *result)
{
    ((foliot_created_cb)call->cb)(error, result, call->ctx);
}

static const struct client_method CREATE = {
    .path = "/foliot.v1.TaskService/Create",
    .what = "cannot create the task",
    .kind = REPEAT_NEVER,
    .decode = decode_created,
    .deliver = deliver_created,
};

_Static_assert(sizeof(struct foliot_created) <= RESULT_BYTES, "a result has room");

static struct client_call *begin_create(struct foliot_client *client,
                                        const struct foliot_create_request *request,
                                        const struct foliot_call_options *options, int *code,
                                        struct foliot_error *error)
{
    struct foliot_create_request given;
    struct create_request create;
    struct create_place place;
    struct client_call *call = client_call_new(client, &CREATE, options, code, error);
    int err;

    if (call == NULL) {
        return NULL;
    }
    if (argument_take(request, &given, sizeof(given), "request", &call->fault) != 0 ||
        task_take_create(&given, &create, &place, &call->fault) != 0) {
        return client_call_refuse(call, code, error);
    }
    err = codec_write_create(&create, &call->bytes);
    if (err != 0) {
        return refuse_write(call, err, code, error);
    }
    call->slot = place.slot;
    call->kind = place.kind;
    return call;
}

int foliot_task_create(struct foliot_client *client, const struct foliot_create_request *request,
                       const struct foliot_call_options *options, struct foliot_created *out,
                       struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_create(client, request, options, &code, error);

    return call == NULL ? code : client_call_wait(call, out, error);
}

int foliot_task_create_async(struct foliot_client *client,
                             const struct foliot_create_request *request,
                             const struct foliot_call_options *options, foliot_created_cb cb,
                             void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_create(client, request, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

/* ---- get ---- */

static int decode_task(struct slice bytes, void *result, struct fault *fault)
{
    struct task_box *box = mem_new(1, sizeof(*box));
    const struct foliot_task **out = result;
    struct task_view view;
    int err;

    if (box == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the task");
        return ERR_NO_MEMORY;
    }
    arena_init(&box->arena, 0);
    err = codec_read_get_reply(bytes, &box->arena, &view, fault);
    if (err != 0) {
        foliot_task_free(&box->item.task);
        return err;
    }
    task_item_fill(&box->item, &view);
    *out = &box->item.task;
    return 0;
}

static void deliver_task(const struct client_call *call, const struct foliot_error *error,
                         const void *result)
{
    const struct foliot_task *const *task = result;

    ((foliot_task_cb)call->cb)(error, task == NULL ? NULL : *task, call->ctx);
}

static void release_task(void *result)
{
    const struct foliot_task *const *task = result;

    foliot_task_free(*task);
}

static const struct client_method GET = {
    .path = "/foliot.v1.TaskService/Get",
    .what = "cannot get the task",
    .kind = REPEAT_READ,
    .decode = decode_task,
    .deliver = deliver_task,
    .release = release_task,
};

/* A call that names a task and says nothing more. */
struct client_call *task_begin_named(struct foliot_client *client,
                                     const struct client_method *method,
                                     const struct foliot_task_name *name,
                                     const struct foliot_call_options *options, int *code,
                                     struct foliot_error *error)
{
    struct client_call *call = client_call_new(client, method, options, code, error);
    struct task_name task;
    int err;

    if (call == NULL) {
        return NULL;
    }
    if (task_take_name(name, &task, &call->slot, &call->fault) != 0) {
        return client_call_refuse(call, code, error);
    }
    err = codec_write_task_name(&task, &call->bytes);
    if (err != 0) {
        return refuse_write(call, err, code, error);
    }
    return call;
}

int foliot_task_get(struct foliot_client *client, const struct foliot_task_name *name,
                    const struct foliot_call_options *options, const struct foliot_task **out,
                    struct foliot_error *error)
{
    int code;
    struct client_call *call = task_begin_named(client, &GET, name, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_task_get_async(struct foliot_client *client, const struct foliot_task_name *name,
                          const struct foliot_call_options *options, foliot_task_cb cb, void *ctx,
                          struct foliot_error *error)
{
    int code;
    struct client_call *call = task_begin_named(client, &GET, name, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

/* ---- cancel ---- */

static int decode_cancelled(struct slice bytes, void *result, struct fault *fault)
{
    struct foliot_cancelled *out = result;
    struct cancel_reply reply;
    struct arena arena;
    int err;

    arena_init(&arena, 0);
    err = codec_read_cancel_reply(bytes, &arena, &reply, fault);
    if (err == 0) {
        memset(out, 0, sizeof(*out));
        out->outcome = (enum foliot_cancel_outcome)reply.outcome;
        out->attempt = reply.attempt;
        task_format_id(reply.id, out->id);
    }
    arena_fini(&arena);
    return err;
}

static void deliver_cancelled(const struct client_call *call, const struct foliot_error *error,
                              const void *result)
{
    ((foliot_cancelled_cb)call->cb)(error, result, call->ctx);
}

static const struct client_method CANCEL = {
    .path = "/foliot.v1.TaskService/Cancel",
    .what = "cannot cancel the task",
    .kind = REPEAT_SAFELY,
    .decode = decode_cancelled,
    .deliver = deliver_cancelled,
};

_Static_assert(sizeof(struct foliot_cancelled) <= RESULT_BYTES, "a result has room");

int foliot_task_cancel(struct foliot_client *client, const struct foliot_task_name *name,
                       const struct foliot_call_options *options, struct foliot_cancelled *out,
                       struct foliot_error *error)
{
    int code;
    struct client_call *call = task_begin_named(client, &CANCEL, name, options, &code, error);

    return call == NULL ? code : client_call_wait(call, out, error);
}

int foliot_task_cancel_async(struct foliot_client *client, const struct foliot_task_name *name,
                             const struct foliot_call_options *options, foliot_cancelled_cb cb,
                             void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = task_begin_named(client, &CANCEL, name, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

/* ---- update ---- */

static int decode_updated(struct slice bytes, void *result, struct fault *fault)
{
    struct foliot_updated *out = result;
    struct update_reply reply;
    struct arena arena;
    int err;

    arena_init(&arena, 0);
    err = codec_read_update_reply(bytes, &arena, &reply, fault);
    if (err == 0) {
        memset(out, 0, sizeof(*out));
        task_format_id(reply.id, out->id);
        out->due_ms = reply.due_ms;
        out->may_be_running_attempt = reply.may_be_running_attempt;
    }
    arena_fini(&arena);
    return err;
}

static void deliver_updated(const struct client_call *call, const struct foliot_error *error,
                            const void *result)
{
    ((foliot_updated_cb)call->cb)(error, result, call->ctx);
}

static const struct client_method UPDATE = {
    .path = "/foliot.v1.TaskService/Update",
    .what = "cannot update the task",
    .kind = REPEAT_SAFELY,
    .decode = decode_updated,
    .deliver = deliver_updated,
};

_Static_assert(sizeof(struct foliot_updated) <= RESULT_BYTES, "a result has room");

static int take_update(const struct foliot_update_request *request, struct update_request *out,
                       int32_t *slot, struct fault *fault)
{
    struct foliot_update_request given;

    memset(out, 0, sizeof(*out));
    if (argument_take(request, &given, sizeof(given), "request", fault) != 0 ||
        task_take_name(given.name, &out->task, slot, fault) != 0 ||
        take_when(given.when, given.when_ms, &out->when, fault) != 0) {
        return ERR_INVALID;
    }
    out->set_payload = given.set_payload != 0;
    out->payload = (struct slice){NULL, 0};
    return out->set_payload ? take_payload(given.payload, given.payload_size, &out->payload, fault)
                            : 0;
}

static struct client_call *begin_update(struct foliot_client *client,
                                        const struct foliot_update_request *request,
                                        const struct foliot_call_options *options, int *code,
                                        struct foliot_error *error)
{
    struct update_request update;
    struct client_call *call = client_call_new(client, &UPDATE, options, code, error);
    int err;

    if (call == NULL) {
        return NULL;
    }
    if (take_update(request, &update, &call->slot, &call->fault) != 0) {
        return client_call_refuse(call, code, error);
    }
    err = codec_write_update(&update, &call->bytes);
    if (err != 0) {
        return refuse_write(call, err, code, error);
    }
    return call;
}

int foliot_task_update(struct foliot_client *client, const struct foliot_update_request *request,
                       const struct foliot_call_options *options, struct foliot_updated *out,
                       struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_update(client, request, options, &code, error);

    return call == NULL ? code : client_call_wait(call, out, error);
}

int foliot_task_update_async(struct foliot_client *client,
                             const struct foliot_update_request *request,
                             const struct foliot_call_options *options, foliot_updated_cb cb,
                             void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_update(client, request, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

/* ---- run now ---- */

static const struct client_method RUN_NOW = {
    .path = "/foliot.v1.TaskService/RunNow",
    .what = "cannot run the task now",
    .kind = REPEAT_NEVER, // It could run, fail, and run once more.
    .decode = decode_updated,
    .deliver = deliver_updated,
};

int foliot_task_run_now(struct foliot_client *client, const struct foliot_task_name *name,
                        const struct foliot_call_options *options, struct foliot_updated *out,
                        struct foliot_error *error)
{
    int code;
    struct client_call *call = task_begin_named(client, &RUN_NOW, name, options, &code, error);

    return call == NULL ? code : client_call_wait(call, out, error);
}

int foliot_task_run_now_async(struct foliot_client *client, const struct foliot_task_name *name,
                              const struct foliot_call_options *options, foliot_updated_cb cb,
                              void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = task_begin_named(client, &RUN_NOW, name, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}
