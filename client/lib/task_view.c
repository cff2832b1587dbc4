/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of tasks.
 */
#include "client/lib/task_view.h"

#include "client/lib/client.h"
#include "client/lib/task_calls.h"
#include "lib/base/mem.h"

void foliot_task_free(const struct foliot_task *task)
{
    struct task_box *box = (struct task_box *)(uintptr_t)task;

    if (box != NULL) {
        arena_fini(&box->arena);
        mem_free(box);
    }
}

/* A text that ends with a NUL in the arena, or is empty. */
static const char *text_of(struct slice text)
{
    return text.len > 0 ? (const char *)text.data : "";
}

/* The canonical text has a sign behind each name and value: room for the NULs. */
static const char *end_text(struct slice text)
{
    char *bytes = (char *)(uintptr_t)text.data;

    bytes[text.len] = '\0';
    return bytes;
}

static void fill_tags(struct task_item *item, struct slice text)
{
    struct tag tags[TAG_COUNT_MAX];
    size_t count = 0;
    size_t at = 0;

    while (count < TAG_COUNT_MAX && tags_next(text, &at, &tags[count])) {
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        item->tags[i] = (struct foliot_tag){end_text(tags[i].name), end_text(tags[i].value)};
    }
    item->task.tags = item->tags;
    item->task.tag_count = count;
}

void task_item_fill(struct task_item *item, const struct task_view *view)
{
    struct foliot_task *task = &item->task;

    task_format_id(view->id, task->id);
    task->name_space = argument_text(view->queue.tenant, "");
    task->queue = argument_text(view->queue.name, "");
    task->key = text_of(view->key);
    task->order_key = text_of(view->order_key);
    task->due_ms = view->due_ms;
    task->created_ms = view->created_ms;
    task->payload = view->payload.data;
    task->payload_size = view->payload.len;
    task->state = (enum foliot_task_state)view->state;
    task->attempt = view->attempt;
    task->failures = view->failures;
    task->expire_ms = view->expire_ms;
    task->ended_ms = view->ended_ms;
    task->forget_ms = view->forget_ms;
    task->response = view->response.data;
    task->response_size = view->response.len;
    task->error = text_of(view->error);
    fill_tags(item, view->tags);
}

/* ---- pages ---- */

void foliot_task_page_free(const struct foliot_task_page *page)
{
    struct task_page_box *box = (struct task_page_box *)(uintptr_t)page;

    if (box != NULL) {
        mem_free(box->items);
        mem_free(box->pointers);
        arena_fini(&box->arena);
        mem_free(box);
    }
}

static int read_items(struct task_page_box *box, const struct list_reply *reply,
                      task_page_item_fn item, struct fault *fault)
{
    box->items = mem_new(reply->count, sizeof(*box->items));
    box->pointers = mem_new(reply->count, sizeof(struct foliot_task *));
    if (box->items == NULL || box->pointers == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the page");
        return ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < reply->count; i++) {
        struct task_view view;
        int err = item(reply, i, &view, fault);

        if (err != 0) {
            return err;
        }
        task_item_fill(&box->items[i], &view);
        box->pointers[i] = &box->items[i].task;
    }
    box->page = (struct foliot_task_page){box->pointers, reply->count, reply->next_token};
    return 0;
}

int task_page_decode(struct slice bytes, task_page_read_fn read, task_page_item_fn item,
                     void *result, struct fault *fault)
{
    struct task_page_box *box = mem_new(1, sizeof(*box));
    const struct foliot_task_page **out = result;
    struct list_reply reply;
    int err;

    if (box == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the page");
        return ERR_NO_MEMORY;
    }
    arena_init(&box->arena, 0);
    err = read(bytes, &box->arena, &reply, fault);
    if (err == 0) {
        err = read_items(box, &reply, item, fault);
    }
    if (err != 0) {
        foliot_task_page_free(&box->page);
        return err;
    }
    *out = &box->page;
    return 0;
}

void task_page_deliver(const struct client_call *call, const struct foliot_error *error,
                       const void *result)
{
    const struct foliot_task_page *const *page = result;

    ((foliot_task_page_cb)call->cb)(error, page == NULL ? NULL : *page, call->ctx);
}

void task_page_release(void *result)
{
    const struct foliot_task_page *const *page = result;

    foliot_task_page_free(*page);
}
