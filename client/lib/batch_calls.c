/* SPDX-License-Identifier: Apache-2.0
 *
 * Create of many tasks in one call.
 */
#include "client/lib/client.h"
#include "client/lib/item_texts.h"
#include "client/lib/task_calls.h"
#include "lib/base/mem.h"

#include <string.h>

/* A batch and the memory of its texts. */
struct batch_box {
    struct foliot_batch batch; /* first */
    struct foliot_batch_result *results;
    struct buf texts; /* of items that failed: item_texts.h */
};

void foliot_batch_free(const struct foliot_batch *batch)
{
    struct batch_box *box = (struct batch_box *)(uintptr_t)batch;

    if (box != NULL) {
        buf_fini(&box->texts);
        mem_free(box->results);
        mem_free(box);
    }
}

/* The texts move while more are kept: until the end a result holds their place. */
static void keep_fault(struct batch_box *box, struct foliot_batch_result *result,
                       const struct fault *fault)
{
    result->code = (enum foliot_code)fault->status;
    result->due_ms = FOLIOT_TIME_UNKNOWN;
    result->reserved[0] = item_texts_keep(&box->texts, fault);
    box->batch.failed++;
}

static void set_texts(struct batch_box *box)
{
    for (size_t i = 0; i < box->batch.count; i++) {
        struct foliot_batch_result *result = &box->results[i];
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

static int read_result(struct batch_box *box, const struct create_results *results, size_t index,
                       struct fault *fault)
{
    struct foliot_batch_result *out = &box->results[index];
    struct foliot_created created;
    struct create_reply reply;
    bool failed;
    int err = codec_read_batch_result(results, index, &reply, &failed, fault);

    if (err != 0) {
        return err;
    }
    if (failed) {
        item_texts_number(fault, index);
        keep_fault(box, out, fault);
        return 0;
    }
    task_fill_created(&reply, &created);
    memcpy(out->id, created.id, sizeof(out->id));
    out->created = created.created;
    out->due_ms = created.due_ms;
    return 0;
}

/* errors: as codec functions, with fault filled in. */
static int read_results(struct batch_box *box, const struct create_results *results,
                        struct fault *fault)
{
    box->results = mem_new(results->count, sizeof(*box->results));
    if (box->results == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the results");
        return ERR_NO_MEMORY;
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
        fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the results");
        return ERR_NO_MEMORY;
    }
    set_texts(box);
    return 0;
}

static int decode_batch(struct slice bytes, void *result, struct fault *fault)
{
    struct batch_box *box = mem_new(1, sizeof(*box));
    const struct foliot_batch **out = result;
    struct create_results results;
    struct arena arena;
    int err;

    if (box == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the results");
        return ERR_NO_MEMORY;
    }
    item_texts_init(&box->texts);
    arena_init(&arena, 0);
    err = codec_read_batch_reply(bytes, &arena, &results, fault);
    if (err == 0) {
        err = read_results(box, &results, fault);
    }
    arena_fini(&arena);
    if (err != 0) {
        foliot_batch_free(&box->batch);
        return err;
    }
    *out = &box->batch;
    return 0;
}

static void deliver_batch(const struct client_call *call, const struct foliot_error *error,
                          const void *result)
{
    const struct foliot_batch *const *batch = result;

    ((foliot_batch_cb)call->cb)(error, batch == NULL ? NULL : *batch, call->ctx);
}

static void release_batch(void *result)
{
    const struct foliot_batch *const *batch = result;

    foliot_batch_free(*batch);
}

static int write_fault(const struct fault *fault, struct buf *out)
{
    return codec_write_batch_result(NULL, fault, out);
}

static const struct client_method BATCH = {
    .path = "/foliot.v1.TaskService/BatchCreate",
    .what = "cannot create the tasks",
    .kind = REPEAT_NEVER, // Unless each item says otherwise: parts.c.
    .decode = decode_batch,
    .deliver = deliver_batch,
    .release = release_batch,
    .write_fault = write_fault,
};

/* errors: ERR_INVALID with call->fault filled in. */
static int write_item(struct client_call *call, const void *item)
{
    struct foliot_create_request given;
    struct create_request create;
    struct create_place place;
    int err;

    if (argument_take(item, &given, sizeof(given), "items", &call->fault) != 0 ||
        task_take_create(&given, &create, &place, &call->fault) != 0) {
        return ERR_INVALID;
    }
    err = codec_write_batch_item(&create, &call->bytes);
    if (err == ERR_NO_MEMORY) {
        fault_set_err(&call->fault, err, call->method->what);
        return ERR_INVALID;
    }
    if (err != 0) {
        fault_set(&call->fault, RPC_INVALID_ARGUMENT, "BATCH_TOO_LARGE", "items",
                  "items: are above %d bytes together (RPC_MESSAGE_BYTES_MAX); send fewer at once",
                  RPC_MESSAGE_BYTES_MAX);
        return ERR_INVALID;
    }
    parts_add(call, place.slot, place.kind);
    return 0;
}

static int write_items(struct client_call *call, const struct foliot_create_request *items,
                       size_t count)
{
    const unsigned char *bytes = (const unsigned char *)items;
    size_t stride = 0;

    if (item_texts_check_count(items, count, &call->fault) != 0) {
        return ERR_INVALID;
    }
    if (parts_init(call, count) != 0) {
        fault_set_err(&call->fault, ERR_NO_MEMORY, call->method->what);
        return ERR_INVALID;
    }
    memcpy(&stride, bytes, sizeof(stride));
    for (size_t i = 0; i < count; i++) {
        if (write_item(call, bytes + i * stride) != 0) {
            item_texts_blame(&call->fault, i);
            return ERR_INVALID;
        }
    }
    return 0;
}

static struct client_call *begin_batch(struct foliot_client *client,
                                       const struct foliot_create_request *items, size_t count,
                                       const struct foliot_call_options *options, int *code,
                                       struct foliot_error *error)
{
    struct client_call *call = client_call_new(client, &BATCH, options, code, error);

    if (call != NULL && write_items(call, items, count) != 0) {
        return client_call_refuse(call, code, error);
    }
    return call;
}

int foliot_task_create_batch(struct foliot_client *client,
                             const struct foliot_create_request *items, size_t count,
                             const struct foliot_call_options *options,
                             const struct foliot_batch **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_batch(client, items, count, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_task_create_batch_async(struct foliot_client *client,
                                   const struct foliot_create_request *items, size_t count,
                                   const struct foliot_call_options *options,
                                   struct foliot_batch_callback callback,
                                   struct foliot_error *error)
{
    int code;
    struct client_call *call = begin_batch(client, items, count, options, &code, error);

    return call == NULL ? code
                        : client_call_start(call, (client_any_fn)callback.cb, callback.ctx, error);
}
