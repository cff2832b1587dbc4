/* SPDX-License-Identifier: Apache-2.0
 *
 * List: pending tasks, shard after shard, by due time. The filter is applied by the owner, so that
 * only what was asked for travels.
 */
#include "broker/core/inspect.h"
#include "broker/service_walk.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/model/tags.h"
#include "proto/codec_list.h"

#include <string.h>

/* Rows of one read: a filter may drop most of them. */
#define LIST_READ_ROWS 1000

struct list_walk {
    struct walk walk;
    struct list_request request;
};

static struct list_walk *list_of(struct walk *walk)
{
    return CONTAINER_OF(walk, struct list_walk, walk);
}

static void prepare(struct walk *walk, struct store_read *read)
{
    const struct list_request *request = &list_of(walk)->request;
    int64_t first = due_bucket(request->due_from_ms);

    read->kind = STORE_READ_SLICE;
    read->after_bucket = walk->mark.bucket;
    read->after_seq = walk->mark.seq;
    if (read->after_bucket < first) {
        read->after_bucket = first;
        read->after_seq = 0;
    }
    read->to_bucket =
        request->due_before_ms == WALL_NEVER ? INT64_MAX : due_bucket(request->due_before_ms);
    read->limit = LIST_READ_ROWS;
    read->queue = walk->queue_id; // 0: those of all
}

/* Is it what was asked for, by what the row says? */
static bool is_wanted(const struct list_walk *list, const struct task *row)
{
    const struct list_request *request = &list->request;
    const struct queue *queue;

    if (row->due_ms < request->due_from_ms || row->due_ms >= request->due_before_ms ||
        !tags_match(row->tags, request->tags) ||
        (request->order_key.len > 0 && !slice_equal(row->order_key, request->order_key))) {
        return false;
    }
    if (list->walk.needs_queue) {
        return true; // Only its rows were read.
    }
    queue = broker_queue_find(list->walk.service->options.broker, row->queue);
    return queue != NULL && strcmp(queue->tenant, request->queue.tenant) == 0;
}

/* Write a row unless its state is not asked for. */
static int take_row(struct list_walk *list, const struct task *row)
{
    struct broker *broker = list->walk.service->options.broker;
    struct task_view view;
    uint32_t attempt;
    enum task_state state = broker_inspect_task(broker, list->walk.mark.shard, row, &attempt);

    if (list->request.states != 0 && (list->request.states >> (uint32_t)state & 1U) == 0) {
        return 0;
    }
    service_fill_view(broker, row, &view);
    view.state = (enum task_view_state)state;
    view.attempt = attempt != 0 ? attempt : row->attempt;
    if (!list->request.with_payload) {
        view.payload = (struct slice){NULL, 0};
    }
    list->walk.left--;
    return codec_write_list_item(&view, &list->walk.items);
}

static void take(struct walk *walk, const struct store_read *read)
{
    struct list_walk *list = list_of(walk);

    for (size_t i = 0; i < read->row_count && walk->left > 0; i++) {
        const struct task *row = &read->rows[i];

        if (is_wanted(list, row) && take_row(list, row) != 0) {
            walk->left = 0; // No room in the message: the page ends before it.
            return;
        }
        walk->mark.bucket = due_bucket(row->due_ms);
        walk->mark.seq = row->id.seq;
    }
    if (walk->left > 0 && !read->has_more) {
        walk_next_shard(walk);
    }
}

static int write_rest(struct walk *walk, struct buf *out)
{
    struct list_request *request = &list_of(walk)->request;

    request->page_size = walk->left;
    request->mark = walk->mark;
    return codec_write_list(request, out);
}

static int merge(struct walk *walk, struct slice payload, struct arena *arena, const char **token)
{
    struct list_reply reply;
    struct fault fault;
    int err = codec_read_list_reply(payload, arena, &reply, &fault);

    for (size_t i = 0; err == 0 && i < reply.count && walk->left > 0; i++) {
        struct task_view view;

        err = codec_read_list_item(&reply, i, &view, &fault);
        if (err == 0) {
            err = codec_write_list_item(&view, &walk->items);
            walk->left--;
        }
    }
    *token = err == 0 ? reply.next_token : "";
    return err;
}

static int answer(struct walk *walk, struct buf *out)
{
    struct slice items = buf_slice(&walk->items);
    int err = buf_append(out, items.data, items.len);

    return err != 0 ? err : codec_write_list_end(walk->mark, walk_shard_count(walk), out);
}

static const struct walk_verbs LIST_VERBS = {
    .what = "cannot list the tasks",
    .path = "/foliot.v1.TaskService/List",
    .prepare = prepare,
    .take = take,
    .write = write_rest,
    .merge = merge,
    .answer = answer,
};

void service_list(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct walk *walk = walk_new(sizeof(struct list_walk), ctx, rpc, &LIST_VERBS);
    struct list_walk *list;
    struct fault fault;

    if (walk == NULL) {
        return;
    }
    list = list_of(walk);
    if (codec_read_list(request, &list->walk.arena, &list->request, &fault) != 0) {
        walk_fail(&list->walk, &fault);
        return;
    }
    list->walk.queue = list->request.queue;
    list->walk.needs_queue = list->request.queue.name[0] != '\0';
    list->walk.mark = list->request.mark;
    list->walk.left = list->request.page_size;
    walk_start(&list->walk);
}
