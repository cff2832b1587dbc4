/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of tasks, and why one of them waits.
 */
#include "client/lib/client.h"
#include "client/lib/task_calls.h"
#include "client/lib/task_view.h"
#include "lib/base/mem.h"

#include <foliot/list.h>

#include <string.h>

_Static_assert((int)FOLIOT_TASK_EXPIRED == (int)TASK_VIEW_EXPIRED, "states have one number");
_Static_assert((int)FOLIOT_WAIT_LINE == (int)WAIT_LINE &&
                   (int)FOLIOT_WAIT_DUE_TIME == WAIT_DUE_TIME,
               "reasons have one number");

/* ---- list ---- */

static int decode_list(struct slice bytes, void *result, struct fault *fault)
{
    return task_page_decode(bytes, codec_read_list_reply, codec_read_list_item, result, fault);
}

static const struct client_method LIST = {
    .path = "/foliot.v1.TaskService/List",
    .what = "cannot list the tasks",
    .kind = REPEAT_READ,
    .decode = decode_list,
    .deliver = task_page_deliver,
    .release = task_page_release,
};

int page_take(const char *token, uint32_t page_size, uint32_t *size, struct page_mark *mark,
              struct fault *fault)
{
    const char *text = argument_text(token, "");

    *size = page_size == 0 ? LIST_PAGE_COUNT_DEFAULT : page_size;
    if (*size > LIST_PAGE_COUNT_MAX) {
        *size = LIST_PAGE_COUNT_MAX;
    }
    if (page_parse(text, mark) != 0) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "TOKEN_INVALID", "page_token",
                  "page_token: \"%.40s\" is none that a page gave", text);
        return ERR_INVALID;
    }
    return 0;
}

/* shape: tags has room for TAGS_BYTES_MAX bytes; out borrows it. */
static int take_list(const struct foliot_list_request *request, char *tags,
                     struct list_request *out, struct fault *fault)
{
    struct foliot_list_request given;

    memset(out, 0, sizeof(*out));
    if (argument_take(request, &given, sizeof(given), "request", fault) != 0 ||
        task_take_queue(given.name_space, given.queue, &out->queue, fault) != 0 ||
        task_take_tags(given.tags, given.tag_count, tags, &out->tags, fault) != 0 ||
        task_take_order_key(given.order_key, &out->order_key, fault) != 0) {
        return ERR_INVALID;
    }
    out->states = given.states;
    out->due_from_ms = time_clamp(given.due_from_ms, 0, DUE_WALL_MS_MAX);
    out->due_before_ms = given.due_before_ms > 0 && given.due_before_ms <= DUE_WALL_MS_MAX
                             ? given.due_before_ms
                             : WALL_NEVER;
    out->with_payload = given.with_payload != 0;
    return page_take(given.page_token, given.page_size, &out->page_size, &out->mark, fault);
}

static struct client_call *begin_list(struct foliot_client *client,
                                      const struct foliot_list_request *request,
                                      const struct foliot_call_options *options, int *code,
                                      struct foliot_error *error)
{
    struct client_call *call = client_call_new(client, &LIST, options, code, error);
    char tags[TAGS_BYTES_MAX];
    struct list_request list;

    if (call == NULL) {
        return NULL;
    }
    if (take_list(request, tags, &list, &call->fault) != 0) {
        return client_call_refuse(call, code, error);
    }
    if (codec_write_list(&list, &call->bytes) != 0) {
        fault_set_err(&call->fault, ERR_NO_MEMORY, LIST.what);
        return client_call_refuse(call, code, error);
    }
    return call;
}

int foliot_task_list(struct foliot_client *client, const struct foliot_list_request *request,
                     const struct foliot_call_options *options, const struct foliot_task_page **out,
                     struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_list(client, request, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_task_list_async(struct foliot_client *client, const struct foliot_list_request *request,
                           const struct foliot_call_options *options, foliot_task_page_cb cb,
                           void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_list(client, request, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}

/* ---- explain ---- */

struct explanation_box {
    struct foliot_explanation explanation; /* first */
    struct task_item item;
    struct arena arena;
};

void foliot_explanation_free(const struct foliot_explanation *explanation)
{
    struct explanation_box *box = (struct explanation_box *)(uintptr_t)explanation;

    if (box != NULL) {
        arena_fini(&box->arena);
        mem_free(box);
    }
}

static void fill_explanation(struct explanation_box *box, const struct explain_reply *reply)
{
    int reason = (int)reply->reason;

    task_item_fill(&box->item, &reply->task);
    box->explanation = (struct foliot_explanation){
        .task = &box->item.task,
        .reason = reason >= 0 && reason <= (int)FOLIOT_WAIT_LINE ? (enum foliot_wait)reason
                                                                 : FOLIOT_WAIT_UNKNOWN,
        .text = reply->text,
        .until_ms = reply->until_ms,
        .shard = reply->shard,
        .broker = reply->broker,
    };
}

static int decode_explanation(struct slice bytes, void *result, struct fault *fault)
{
    struct explanation_box *box = mem_new(1, sizeof(*box));
    const struct foliot_explanation **out = result;
    struct explain_reply reply;
    int err;

    if (box == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the explanation");
        return ERR_NO_MEMORY;
    }
    arena_init(&box->arena, 0);
    err = codec_read_explain_reply(bytes, &box->arena, &reply, fault);
    if (err != 0) {
        foliot_explanation_free(&box->explanation);
        return err;
    }
    fill_explanation(box, &reply);
    *out = &box->explanation;
    return 0;
}

static void deliver_explanation(const struct client_call *call, const struct foliot_error *error,
                                const void *result)
{
    const struct foliot_explanation *const *explanation = result;

    ((foliot_explanation_cb)call->cb)(error, explanation == NULL ? NULL : *explanation, call->ctx);
}

static void release_explanation(void *result)
{
    const struct foliot_explanation *const *explanation = result;

    foliot_explanation_free(*explanation);
}

static const struct client_method EXPLAIN = {
    .path = "/foliot.v1.TaskService/Explain",
    .what = "cannot explain the task",
    .kind = REPEAT_READ,
    .decode = decode_explanation,
    .deliver = deliver_explanation,
    .release = release_explanation,
};

int foliot_task_explain(struct foliot_client *client, const struct foliot_task_name *name,
                        const struct foliot_call_options *options,
                        const struct foliot_explanation **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = task_begin_named(client, &EXPLAIN, name, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_task_explain_async(struct foliot_client *client, const struct foliot_task_name *name,
                              const struct foliot_call_options *options, foliot_explanation_cb cb,
                              void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = task_begin_named(client, &EXPLAIN, name, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}
