/* SPDX-License-Identifier: Apache-2.0
 *
 * Create, get, list and update of queues.
 */
#include "client/lib/queue_calls.h"

#include "client/lib/client.h"
#include "lib/base/mem.h"

#include <string.h>

/* ---- a queue going in ---- */

static int copy_text(char *out, const char *text, size_t bytes_max, const char *field,
                     struct fault *fault)
{
    const char *limit = bytes_max == NAME_BYTES_MAX ? "NAME_BYTES_MAX" : "TARGET_BYTES_MAX";

    if (argument_check_text(text, bytes_max, field, limit, fault) != 0) {
        return ERR_INVALID;
    }
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

/* A number that is said replaces the default. */
static int take_number(int64_t given, int64_t max, const char *field, int64_t *out,
                       struct fault *fault)
{
    if (given == FOLIOT_DEFAULT) {
        return 0;
    }
    if (given < 0 || given > max) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "VALUE_OUT_OF_RANGE", field,
                  "%s: %lld must be 0 to %lld, or FOLIOT_DEFAULT", field, (long long)given,
                  (long long)max);
        return ERR_INVALID;
    }
    *out = given;
    return 0;
}

static int take_count(int64_t given, const char *field, uint32_t *out, struct fault *fault)
{
    int64_t number = *out;
    int err = take_number(given, UINT32_MAX, field, &number, fault);

    *out = (uint32_t)number;
    return err;
}

static int take_backoff(const struct foliot_queue *given, struct retry_policy *out,
                        struct fault *fault)
{
    int err = take_number(given->backoff_initial_ms, DELAY_MS_MAX, "queue.retry.initial_backoff",
                          &out->initial_ms, fault);

    if (err == 0) {
        err = take_number(given->backoff_max_ms, DELAY_MS_MAX, "queue.retry.max_backoff",
                          &out->max_ms, fault);
    }
    if (err == 0) {
        err = take_count(given->backoff_growth_permille, "queue.retry.multiplier_permille",
                         &out->multiplier_permille, fault);
    }
    if (err == 0) {
        err = take_count(given->backoff_jitter_permille, "queue.retry.jitter_permille",
                         &out->jitter_permille, fault);
    }
    return err;
}

static int take_retry(const struct foliot_queue *given, struct retry_policy *out,
                      struct fault *fault)
{
    int err = take_backoff(given, out, fault);

    if (err == 0) {
        err =
            take_count(given->failures_max, "queue.retry.failures_max", &out->failures_max, fault);
    }
    if (err == 0) {
        err =
            take_count(given->unknowns_max, "queue.retry.unknowns_max", &out->unknowns_max, fault);
    }
    if (err == 0) {
        err = take_number(given->age_max_ms, DELAY_MS_MAX, "queue.retry.age_max", &out->age_max_ms,
                          fault);
    }
    return err;
}

static int take_memory(const struct foliot_queue *given, struct queue *out, struct fault *fault)
{
    int err = take_number(given->key_memory_ms, DELAY_MS_MAX, "queue.key_memory",
                          &out->key_memory_ms, fault);

    if (err == 0) {
        err = take_number(given->result_memory_ms, DELAY_MS_MAX, "queue.result_memory",
                          &out->result_memory_ms, fault);
    }
    if (err == 0) {
        err = take_number(given->expire_after_ms, DELAY_MS_MAX, "queue.expire_after",
                          &out->expire_after_ms, fault);
    }
    return err;
}

static int take_names(const struct foliot_queue *given, struct queue *out, struct fault *fault)
{
    int err = copy_text(out->tenant, argument_text(given->name_space, NAMESPACE_DEFAULT),
                        NAME_BYTES_MAX, "queue.namespace", fault);

    if (err == 0) {
        err = copy_text(out->name, argument_text(given->name, ""), NAME_BYTES_MAX, "queue.name",
                        fault);
    }
    if (err == 0) {
        err = copy_text(out->target, argument_text(given->target, ""), TARGET_BYTES_MAX,
                        "queue.target", fault);
    }
    return err;
}

static int take_order(const struct foliot_queue *given, struct queue *out, struct fault *fault)
{
    if ((int)given->order_on_failure < 0 || given->order_on_failure > FOLIOT_ORDER_DEAD) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "ENUM_UNKNOWN", "queue.order.on_failure",
                  "queue.order.on_failure: %d is none of enum foliot_order",
                  (int)given->order_on_failure);
        return ERR_INVALID;
    }
    out->order_policy = (enum order_policy)((int)given->order_on_failure + 1);
    // 0 is what a program says that was built before there were order keys.
    return given->order_failures == 0 ? 0
                                      : take_count(given->order_failures, "queue.order.failures",
                                                   &out->order_failures, fault);
}

static int take_queue(const struct foliot_queue *queue, struct queue *out, struct fault *fault)
{
    struct foliot_queue given;
    int err = argument_take(queue, &given, sizeof(given), "queue", fault);

    queue_init(out);
    if (err == 0) {
        err = take_names(&given, out, fault);
    }
    if (err == 0) {
        err = take_number(given.attempt_timeout_ms, DELAY_MS_MAX, "queue.attempt_timeout",
                          &out->attempt_timeout_ms, fault);
    }
    if (err == 0) {
        err = take_count(given.concurrency_max, "queue.concurrency_max", &out->concurrency_max,
                         fault);
    }
    if (err == 0) {
        err = take_retry(&given, &out->retry, fault);
    }
    if (err == 0) {
        err = take_memory(&given, out, fault);
    }
    if (err == 0) {
        err = take_order(&given, out, fault);
    }
    if (err == 0) {
        out->at_most_once = given.delivery == FOLIOT_AT_MOST_ONCE;
        out->version = given.version;
    }
    return err;
}

/* ---- a queue coming out ---- */

void queue_box_fill(struct queue_box *box)
{
    const struct queue *from = &box->texts;

    box->queue = (struct foliot_queue){
        .name_space = from->tenant,
        .name = from->name,
        .target = from->target,
        .delivery = from->at_most_once ? FOLIOT_AT_MOST_ONCE : FOLIOT_AT_LEAST_ONCE,
        .attempt_timeout_ms = from->attempt_timeout_ms,
        .key_memory_ms = from->key_memory_ms,
        .concurrency_max = from->concurrency_max,
        .backoff_initial_ms = from->retry.initial_ms,
        .backoff_max_ms = from->retry.max_ms,
        .backoff_growth_permille = from->retry.multiplier_permille,
        .backoff_jitter_permille = from->retry.jitter_permille,
        .failures_max = from->retry.failures_max,
        .unknowns_max = from->retry.unknowns_max,
        .age_max_ms = from->retry.age_max_ms,
        .version = from->version,
        .id = from->id,
        .result_memory_ms = from->result_memory_ms,
        .expire_after_ms = from->expire_after_ms,
        .is_paused = from->is_paused,
        .paused_until_ms = from->paused_until_ms,
        .is_draining = from->is_draining,
        .order_on_failure = (enum foliot_order)((int)from->order_policy - 1),
        .order_failures = from->order_failures,
    };
}

static int no_memory(struct fault *fault)
{
    fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the answer");
    return ERR_NO_MEMORY;
}

/* ---- create, get, update ---- */

struct reply_box {
    struct foliot_queue_reply reply; /* first */
    struct queue_box queue;
    struct arena arena;
};

void foliot_queue_reply_free(const struct foliot_queue_reply *reply)
{
    struct reply_box *box = (struct reply_box *)(uintptr_t)reply;

    if (box != NULL) {
        arena_fini(&box->arena);
        mem_free(box);
    }
}

int queue_reply_decode(struct slice bytes, queue_reply_read_fn read, bool has_queue, void *result,
                       struct fault *fault)
{
    struct reply_box *box = mem_new(1, sizeof(*box));
    const struct foliot_queue_reply **out = result;
    struct queue_reply reply;
    int err;

    if (box == NULL) {
        return no_memory(fault);
    }
    arena_init(&box->arena, 0);
    err = read(bytes, &box->arena, &reply, fault);
    if (err != 0) {
        foliot_queue_reply_free(&box->reply);
        return err;
    }
    if (has_queue) {
        box->queue.texts = reply.queue;
        queue_box_fill(&box->queue);
        box->reply.queue = &box->queue.queue;
    }
    box->reply.unconfirmed = reply.unconfirmed;
    box->reply.unconfirmed_count = reply.unconfirmed_count;
    *out = &box->reply;
    return 0;
}

int queue_decode_reply(struct slice bytes, void *result, struct fault *fault)
{
    return queue_reply_decode(bytes, codec_read_queue_reply, true, result, fault);
}

void queue_deliver_reply(const struct client_call *call, const struct foliot_error *error,
                         const void *result)
{
    const struct foliot_queue_reply *const *reply = result;

    ((foliot_queue_reply_cb)call->cb)(error, reply == NULL ? NULL : *reply, call->ctx);
}

void queue_release_reply(void *result)
{
    const struct foliot_queue_reply *const *reply = result;

    foliot_queue_reply_free(*reply);
}

static const struct client_method CREATE = {
    .path = "/foliot.v1.QueueService/Create",
    .what = "cannot create the queue",
    .kind = REPEAT_NEVER,
    .decode = queue_decode_reply,
    .deliver = queue_deliver_reply,
    .release = queue_release_reply,
};

static const struct client_method UPDATE = {
    .path = "/foliot.v1.QueueService/Update",
    .what = "cannot update the queue",
    .kind = REPEAT_NEVER,
    .decode = queue_decode_reply,
    .deliver = queue_deliver_reply,
    .release = queue_release_reply,
};

static const struct client_method GET = {
    .path = "/foliot.v1.QueueService/Get",
    .what = "cannot get the queue",
    .kind = REPEAT_READ,
    .decode = queue_decode_reply,
    .deliver = queue_deliver_reply,
    .release = queue_release_reply,
};

/* The request could not be written: out of memory, for none of these is large. */
struct client_call *queue_refuse_memory(struct client_call *call, int *code,
                                        struct foliot_error *error)
{
    (void)no_memory(&call->fault);
    return client_call_refuse(call, code, error);
}

static struct client_call *begin_change(struct foliot_client *client,
                                        const struct client_method *method,
                                        const struct foliot_queue *queue,
                                        const struct foliot_call_options *options, int *code,
                                        struct foliot_error *error)
{
    struct queue taken;
    struct client_call *call = client_call_new(client, method, options, code, error);

    if (call == NULL) {
        return NULL;
    }
    if (take_queue(queue, &taken, &call->fault) != 0) {
        return client_call_refuse(call, code, error);
    }
    if (codec_write_queue(&taken, &call->bytes) != 0) {
        return queue_refuse_memory(call, code, error);
    }
    return call;
}

int foliot_queue_create(struct foliot_client *client, const struct foliot_queue *queue,
                        const struct foliot_call_options *options,
                        const struct foliot_queue_reply **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_change(client, &CREATE, queue, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_queue_create_async(struct foliot_client *client, const struct foliot_queue *queue,
                              const struct foliot_call_options *options, foliot_queue_reply_cb cb,
                              void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_change(client, &CREATE, queue, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

int foliot_queue_update(struct foliot_client *client, const struct foliot_queue *queue,
                        const struct foliot_call_options *options,
                        const struct foliot_queue_reply **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_change(client, &UPDATE, queue, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_queue_update_async(struct foliot_client *client, const struct foliot_queue *queue,
                              const struct foliot_call_options *options, foliot_queue_reply_cb cb,
                              void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_change(client, &UPDATE, queue, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

int queue_take_names(const char *name_space, const char *name, struct queue_name *out,
                     struct fault *fault)
{
    out->tenant = argument_text(name_space, NAMESPACE_DEFAULT);
    out->name = argument_text(name, "");
    if (argument_check_text(out->tenant, NAME_BYTES_MAX, "namespace", "NAME_BYTES_MAX", fault) !=
        0) {
        return ERR_INVALID;
    }
    return argument_check_text(out->name, NAME_BYTES_MAX, "name", "NAME_BYTES_MAX", fault);
}

struct client_call *queue_begin_named(struct foliot_client *client,
                                      const struct client_method *method,
                                      const struct foliot_queue_name *name,
                                      const struct foliot_call_options *options, int *code,
                                      struct foliot_error *error)
{
    struct client_call *call = client_call_new(client, method, options, code, error);
    struct foliot_queue_name given;
    struct queue_name taken;

    if (call == NULL) {
        return NULL;
    }
    if (argument_take(name, &given, sizeof(given), "name", &call->fault) != 0 ||
        queue_take_names(given.name_space, given.name, &taken, &call->fault) != 0) {
        return client_call_refuse(call, code, error);
    }
    if (codec_write_queue_name(&taken, &call->bytes) != 0) {
        return queue_refuse_memory(call, code, error);
    }
    return call;
}

int foliot_queue_get(struct foliot_client *client, const struct foliot_queue_name *name,
                     const struct foliot_call_options *options,
                     const struct foliot_queue_reply **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = queue_begin_named(client, &GET, name, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_queue_get_async(struct foliot_client *client, const struct foliot_queue_name *name,
                           const struct foliot_call_options *options, foliot_queue_reply_cb cb,
                           void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = queue_begin_named(client, &GET, name, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

/* ---- list ---- */

struct page_box {
    struct foliot_queue_page page; /* first */
    struct queue_box *queues;
    const struct foliot_queue **pointers;
};

void foliot_queue_page_free(const struct foliot_queue_page *page)
{
    struct page_box *box = (struct page_box *)(uintptr_t)page;

    if (box != NULL) {
        mem_free(box->queues);
        mem_free(box->pointers);
        mem_free(box);
    }
}

static int read_page(struct page_box *box, const struct queue_list_reply *reply,
                     struct fault *fault)
{
    box->queues = mem_new(reply->count, sizeof(*box->queues));
    box->pointers = mem_new(reply->count, sizeof(struct foliot_queue *));
    if (box->queues == NULL || box->pointers == NULL) {
        return no_memory(fault);
    }
    for (size_t i = 0; i < reply->count; i++) {
        int err = codec_read_queue_list_item(reply, i, &box->queues[i].texts, fault);

        if (err != 0) {
            return err;
        }
        queue_box_fill(&box->queues[i]);
        box->pointers[i] = &box->queues[i].queue;
    }
    box->page = (struct foliot_queue_page){box->pointers, reply->count, reply->after_id};
    return 0;
}

static int decode_page(struct slice bytes, void *result, struct fault *fault)
{
    struct page_box *box = mem_new(1, sizeof(*box));
    const struct foliot_queue_page **out = result;
    struct queue_list_reply reply;
    struct arena arena;
    int err;

    if (box == NULL) {
        return no_memory(fault);
    }
    arena_init(&arena, 0);
    err = codec_read_queue_list_reply(bytes, &arena, &reply, fault);
    if (err == 0) {
        err = read_page(box, &reply, fault);
    }
    arena_fini(&arena);
    if (err != 0) {
        foliot_queue_page_free(&box->page);
        return err;
    }
    *out = &box->page;
    return 0;
}

static void deliver_page(const struct client_call *call, const struct foliot_error *error,
                         const void *result)
{
    const struct foliot_queue_page *const *page = result;

    ((foliot_queue_page_cb)call->cb)(error, page == NULL ? NULL : *page, call->ctx);
}

static void release_page(void *result)
{
    const struct foliot_queue_page *const *page = result;

    foliot_queue_page_free(*page);
}

static const struct client_method LIST = {
    .path = "/foliot.v1.QueueService/List",
    .what = "cannot list the queues",
    .kind = REPEAT_READ,
    .decode = decode_page,
    .deliver = deliver_page,
    .release = release_page,
};

static int take_list(const struct foliot_queue_list_request *list, struct queue_list_request *out,
                     struct fault *fault)
{
    struct foliot_queue_list_request given;

    if (argument_take(list, &given, sizeof(given), "list", fault) != 0) {
        return ERR_INVALID;
    }
    out->tenant = argument_text(given.name_space, "");
    out->page_size = given.page_size == 0 || given.page_size > QUEUE_PAGE_COUNT_MAX
                         ? QUEUE_PAGE_COUNT_MAX
                         : given.page_size;
    out->after_id = given.after_id;
    return argument_check_text(out->tenant, NAME_BYTES_MAX, "namespace", "NAME_BYTES_MAX", fault);
}

static struct client_call *begin_list(struct foliot_client *client,
                                      const struct foliot_queue_list_request *list,
                                      const struct foliot_call_options *options, int *code,
                                      struct foliot_error *error)
{
    struct queue_list_request taken;
    struct client_call *call = client_call_new(client, &LIST, options, code, error);

    if (call == NULL) {
        return NULL;
    }
    if (take_list(list, &taken, &call->fault) != 0) {
        return client_call_refuse(call, code, error);
    }
    if (codec_write_queue_list(&taken, &call->bytes) != 0) {
        return queue_refuse_memory(call, code, error);
    }
    return call;
}

int foliot_queue_list(struct foliot_client *client, const struct foliot_queue_list_request *list,
                      const struct foliot_call_options *options,
                      const struct foliot_queue_page **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_list(client, list, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_queue_list_async(struct foliot_client *client,
                            const struct foliot_queue_list_request *list,
                            const struct foliot_call_options *options, foliot_queue_page_cb cb,
                            void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_list(client, list, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}
