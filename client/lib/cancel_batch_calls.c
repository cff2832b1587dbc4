/* SPDX-License-Identifier: Apache-2.0
 *
 * Cancel of many tasks in one call.
 */
#include "client/lib/client.h"
#include "client/lib/item_texts.h"
#include "client/lib/task_calls.h"
#include "lib/base/mem.h"
#include "proto/codec_list.h"

#include <foliot/list.h>

#include <string.h>

/* A batch and the memory of its texts. */
struct cancel_box {
    struct foliot_cancel_batch batch; /* first */
    struct foliot_cancel_result *results;
    struct buf texts; /* of items that failed: item_texts.h */
};

void foliot_cancel_batch_free(const struct foliot_cancel_batch *batch)
{
    struct cancel_box *box = (struct cancel_box *)(uintptr_t)batch;

    if (box != NULL) {
        buf_fini(&box->texts);
        mem_free(box->results);
        mem_free(box);
    }
}

static int read_result(struct cancel_box *box, const struct create_results *results, size_t index,
                       struct fault *fault)
{
    struct foliot_cancel_result *out = &box->results[index];
    struct cancel_reply reply;
    bool failed;
    int err = codec_read_cancel_result(results, index, &reply, &failed, fault);

    if (err != 0) {
        return err;
    }
    if (failed) {
        item_texts_number(fault, index);
        out->code = (enum foliot_code)fault->status;
        out->reserved[0] = item_texts_keep(&box->texts, fault);
        box->batch.failed++;
        return 0;
    }
    out->outcome = (enum foliot_cancel_outcome)reply.outcome;
    out->attempt = reply.attempt;
    task_format_id(reply.id, out->id);
    return 0;
}

static void set_texts(struct cancel_box *box)
{
    for (size_t i = 0; i < box->batch.count; i++) {
        struct foliot_cancel_result *result = &box->results[i];
        struct item_text text = {"", "", ""};

        if (result->code != FOLIOT_OK) {
            text = item_texts_at(&box->texts, result->reserved[0]);
            result->reserved[0] = 0;
        }
        result->reason = text.reason;
        result->field = text.field;
        result->message = text.message;
    }
}

static int no_memory(struct fault *fault)
{
    fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the results");
    return ERR_NO_MEMORY;
}

static int read_results(struct cancel_box *box, const struct create_results *results,
                        struct fault *fault)
{
    box->results = mem_new(results->count, sizeof(*box->results));
    if (box->results == NULL) {
        return no_memory(fault);
    }
    box->batch.results = box->results;
    box->batch.count = results->count;
    for (size_t i = 0; i < results->count; i++) {
        int err = read_result(box, results, i, fault);

        if (err != 0) {
            return err;
        }
    }
    if (box->texts.failed) {
        return no_memory(fault);
    }
    set_texts(box);
    return 0;
}

static int decode_cancels(struct slice bytes, void *result, struct fault *fault)
{
    struct cancel_box *box = mem_new(1, sizeof(*box));
    const struct foliot_cancel_batch **out = result;
    struct create_results results;
    struct arena arena;
    int err;

    if (box == NULL) {
        return no_memory(fault);
    }
    item_texts_init(&box->texts);
    arena_init(&arena, 0);
    err = codec_read_cancel_results(bytes, &arena, &results, fault);
    if (err == 0) {
        err = read_results(box, &results, fault);
    }
    arena_fini(&arena);
    if (err != 0) {
        foliot_cancel_batch_free(&box->batch);
        return err;
    }
    *out = &box->batch;
    return 0;
}

static void deliver_cancels(const struct client_call *call, const struct foliot_error *error,
                            const void *result)
{
    const struct foliot_cancel_batch *const *batch = result;

    ((foliot_cancel_batch_cb)call->cb)(error, batch == NULL ? NULL : *batch, call->ctx);
}

static void release_cancels(void *result)
{
    const struct foliot_cancel_batch *const *batch = result;

    foliot_cancel_batch_free(*batch);
}

static int write_fault(const struct fault *fault, struct buf *out)
{
    return codec_write_cancel_result(NULL, fault, out);
}

static const struct client_method CANCELS = {
    .path = "/foliot.v1.TaskService/BatchCancel",
    .what = "cannot cancel the tasks",
    .kind = REPEAT_SAFELY,
    .decode = decode_cancels,
    .deliver = deliver_cancels,
    .release = release_cancels,
    .write_fault = write_fault,
};

static int write_names(struct client_call *call, const struct foliot_task_name *names, size_t count)
{
    const unsigned char *bytes = (const unsigned char *)names;
    size_t stride = 0;

    if (item_texts_check_count(names, count, &call->fault) != 0) {
        return ERR_INVALID;
    }
    if (parts_init(call, count) != 0) {
        return no_memory(&call->fault);
    }
    memcpy(&stride, bytes, sizeof(stride));
    for (size_t i = 0; i < count; i++) {
        const void *name = bytes + i * stride;
        struct task_name task;
        int32_t slot;
        int err;

        if (task_take_name(name, &task, &slot, &call->fault) != 0) {
            item_texts_blame(&call->fault, i);
            return ERR_INVALID;
        }
        err = codec_write_cancel_item(&task, &call->bytes);
        if (err != 0) { // 10 000 of the longest names are within a message.
            fault_set_err(&call->fault, err, call->method->what);
            return ERR_INVALID;
        }
        parts_add(call, slot, REPEAT_SAFELY);
    }
    return 0;
}

static struct client_call *begin_cancels(struct foliot_client *client,
                                         const struct foliot_task_name *names, size_t count,
                                         const struct foliot_call_options *options, int *code,
                                         struct foliot_error *error)
{
    struct client_call *call = client_call_new(client, &CANCELS, options, code, error);

    if (call != NULL && write_names(call, names, count) != 0) {
        return client_call_refuse(call, code, error);
    }
    return call;
}

int foliot_task_cancel_batch(struct foliot_client *client, const struct foliot_task_name *names,
                             size_t count, const struct foliot_call_options *options,
                             const struct foliot_cancel_batch **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_cancels(client, names, count, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_task_cancel_batch_async(struct foliot_client *client,
                                   const struct foliot_task_name *names, size_t count,
                                   const struct foliot_call_options *options,
                                   struct foliot_cancel_batch_callback callback,
                                   struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_cancels(client, names, count, options, &code, error);

    return call == NULL ? code
                        : client_call_start(call, (client_any_fn)callback.cb, callback.ctx, error);
}
