/* SPDX-License-Identifier: Apache-2.0
 *
 * BatchCreate and BatchCancel: every item finds its own owner and has its own result. Items of our
 * shards go to the core, the others travel in one call per owner; what finds nobody home is tried
 * again until the batch has waited long enough.
 */
#include "broker/service_parts.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "proto/codec_list.h"
#include "proto/route.h"

#include <stdio.h>
#include <string.h>

/* Items of one batch that are with the core at once, about two commits: a batch that is larger than
 * what the core holds for its next commits goes in all the same, and leaves room for others. */
#define LOCAL_COUNT_MAX BATCH_OP_COUNT_MAX

enum item_state {
    ITEM_WAITING = 1, /* for an owner, for its queue, or for room: nothing has happened */
    ITEM_LOCAL,       /* with the core */
    ITEM_FORWARDED,   /* with another broker */
    ITEM_DONE         /* has its result */
};

struct batch;
struct item;

/* What the two batches do not share. All work on one item. */
struct batch_verbs {
    const char *what; /* "cannot create the task" */
    /* Read it into request and call. errors: as codec_read_batch_item. */
    int (*read)(struct item *item, const struct create_batch *batch, size_t index,
                struct fault *fault);
    int (*write)(const struct item *item, struct buf *out); /* to be passed on */
    void (*take)(struct item *item); /* reply, from what the core has answered */
    int (*read_reply)(struct item *item, const struct create_results *results, size_t index,
                      bool *failed, struct fault *fault);
    int (*write_reply)(const struct item *item, const struct fault *fault, struct buf *out);
    int (*open_replies)(struct slice bytes, struct arena *arena, struct create_results *out,
                        struct fault *fault);
};

/* 1. DONE: fault is set, or reply holds. A fault that found no memory is told by `err`. */
struct item {
    struct batch *batch;
    enum item_state state;
    int err; /* DONE, if there was no memory for the fault */
    struct fault *fault;
    struct queue_name queue;
    union {
        struct create_request create;
        struct task_name name;
    } request;
    union {
        struct create_reply created;
        struct cancel_reply cancelled;
    } reply;
    struct call call;
};

/* A call to another broker with some of our items. */
struct part {
    struct list link; /* in the batch */
    struct batch *batch;
    struct rpc_request request;
    struct buf bytes;
    uint32_t count;
    uint32_t *items; /* their indexes, in the order of the message */
};

/*
 * 1. left is the number of items that are not DONE.
 * 2. busy is the number of items with the core, plus parts that are out.
 * 3. rpc is NULL once it has been answered.
 * 4. local ≤ LOCAL_COUNT_MAX; at half of that or more, WAITING items may wait for nothing but room,
 *    and the look timer is started when local falls below.
 */
struct batch {
    const struct batch_verbs *verbs;
    struct service *service;
    struct rpc_call *rpc;
    bool is_forwarded; /* to us */
    bool has_looked;   /* home has been read for unknown queues */
    bool is_queue_wait;
    bool is_routing; /* items are being handed out: answers wait for the end of that */
    uint32_t count;
    uint32_t left;
    uint32_t busy;
    uint32_t local; /* of busy: items with the core */
    struct item *items;
    struct list parts; /* struct part, being filled or out */
    boot_us give_up_us;
    struct loop_timer look;
    struct queue_wait wait;
    struct create_batch request;
    struct arena arena;
};

static void route_items(struct batch *b);

/* ---- the end ---- */

static void free_batch(struct batch *b)
{
    struct service *service = b->service;
    uint32_t count = b->count;

    REQUIRE(b->rpc == NULL && b->busy == 0 && !b->is_queue_wait && list_is_empty(&b->parts));
    for (uint32_t i = 0; b->items != NULL && i < count; i++) {
        mem_free(b->items[i].fault);
    }
    loop_timer_stop(&b->look);
    arena_fini(&b->arena);
    mem_free(b->items);
    mem_free(b);
    service_leave(service, count);
}

static int write_results(struct batch *b, struct buf *out)
{
    int err = 0;

    for (uint32_t i = 0; i < b->count && err == 0; i++) {
        const struct item *item = &b->items[i];
        struct fault fault;

        if (item->err != 0) {
            fault_set_err(&fault, item->err, b->verbs->what);
            err = b->verbs->write_reply(item, &fault, out);
        } else {
            err = b->verbs->write_reply(item, item->fault, out);
        }
    }
    return err;
}

/* When everything that is out has come back: answer, or free what was answered long ago. */
static void try_finish(struct batch *b)
{
    if (b->is_routing || b->busy > 0 || b->is_queue_wait) {
        return;
    }
    if (b->rpc != NULL && b->left == 0) {
        struct rpc_call *rpc = b->rpc;

        b->rpc = NULL;
        service_reply(b->service, rpc, write_results(b, service_scratch(b->service)));
    }
    if (b->rpc == NULL) {
        free_batch(b);
    }
}

static void item_done(struct item *item)
{
    REQUIRE(item->state != ITEM_DONE && item->batch->left > 0);
    item->state = ITEM_DONE;
    item->batch->left--;
}

/* The fault is this item's result. */
static void item_fail(struct item *item, const struct fault *fault)
{
    item->fault = mem_new(1, sizeof(*item->fault));
    if (item->fault != NULL) {
        *item->fault = *fault;
    } else {
        item->err = fault->status == RPC_UNKNOWN ? ERR_OUTCOME_UNKNOWN : ERR_NO_MEMORY;
    }
    item_done(item);
}

static void on_cancel(struct rpc_call *rpc, void *ctx)
{
    struct batch *b = ctx;
    struct fault fault;

    if (b->busy > 0 || b->left < b->count) {
        service_unknown_fault(&fault);
    } else {
        fault_set_err(&fault, ERR_TIMEOUT, b->verbs->what);
    }
    b->rpc = NULL;
    service_fail(b->service, rpc, &fault);
    try_finish(b);
}

/* ---- waiting for owners ---- */

static void on_look(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    route_items(ctx);
}

static void give_up(struct batch *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct item *item = &b->items[i];
        struct fault fault;

        if (item->state == ITEM_WAITING) {
            service_owner_fault(&fault, item->call.shard, b->is_forwarded);
            item_fail(item, &fault);
        }
    }
}

static bool has_waiting(const struct batch *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->items[i].state == ITEM_WAITING) {
            return true;
        }
    }
    return false;
}

/* After everything that could be handed out is out. */
static void wait_for_owners(struct batch *b)
{
    boot_us now_us = loop_now_us(b->service->options.loop);

    if (b->rpc == NULL || b->look.is_started || b->local >= LOCAL_COUNT_MAX / 2 ||
        !has_waiting(b)) {
        return;
    }
    if (b->give_up_us == 0) {
        b->give_up_us = now_us + SERVICE_OWNER_WAIT_MS * US_PER_MS;
    }
    if (b->is_forwarded || now_us >= b->give_up_us) {
        give_up(b);
        return;
    }
    b->service->owner_waits++;
    loop_timer_start_in(&b->look, SERVICE_LOOK_MS);
}

/* ---- here ---- */

static void on_core(struct call *call)
{
    struct item *item = call->owner;
    struct batch *b = item->batch;
    struct fault fault;

    REQUIRE(b->busy > 0 && b->local > 0);
    b->busy--;
    b->local--;
    if (b->local == LOCAL_COUNT_MAX / 2 - 1 && b->rpc != NULL) {
        loop_timer_start_in(&b->look, 0); // room again: not here, inside the core's callback
    }
    if (call->result == 0) {
        b->verbs->take(item);
        item_done(item);
    } else if (call->result == ERR_FENCED) {
        item->state = ITEM_WAITING;
        wait_for_owners(b);
    } else {
        service_core_fault(call, b->verbs->what, &fault);
        item_fail(item, &fault);
    }
    try_finish(b);
}

/* ---- elsewhere ---- */

static void free_part(struct part *part)
{
    list_del(&part->link);
    buf_fini(&part->bytes);
    mem_free(part->items);
    mem_free(part);
}

/* Every item of a part gets the same fault, or NULL: waits again. */
static void end_part(struct part *part, const struct fault *fault)
{
    for (uint32_t i = 0; i < part->count; i++) {
        struct item *item = &part->batch->items[part->items[i]];

        if (fault != NULL) {
            item_fail(item, fault);
        } else {
            item->state = ITEM_WAITING;
        }
    }
}

static void take_result(struct item *item, const struct create_results *results, size_t index)
{
    struct fault fault;
    bool failed = false;

    if (item->batch->verbs->read_reply(item, results, index, &failed, &fault) != 0) {
        service_unknown_fault(&fault);
        item_fail(item, &fault);
    } else if (!failed) {
        item_done(item);
    } else if (fault.status == RPC_UNAVAILABLE) {
        item->state = ITEM_WAITING;
    } else {
        item_fail(item, &fault);
    }
}

static void take_results(struct part *part, struct slice payload)
{
    struct create_results results;
    struct arena arena;
    struct fault fault;

    arena_init(&arena, 0);
    if (part->batch->verbs->open_replies(payload, &arena, &results, &fault) != 0 ||
        results.count != part->count) {
        service_unknown_fault(&fault);
        end_part(part, &fault);
    } else {
        for (uint32_t i = 0; i < part->count; i++) {
            take_result(&part->batch->items[part->items[i]], &results, i);
        }
    }
    arena_fini(&arena);
}

static void on_part(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct part *part = ctx;
    struct batch *b = part->batch;
    struct fault fault;

    (void)request;
    switch (service_judge(reply, false)) {
    case FORWARD_ANSWER:
        if (reply->status == RPC_OK) {
            take_results(part, reply->payload);
        } else {
            fault_decode(&fault, reply->status, reply->message, reply->details);
            end_part(part, &fault);
        }
        break;
    case FORWARD_AGAIN:
        end_part(part, NULL);
        break;
    case FORWARD_UNKNOWN:
        service_unknown_fault(&fault);
        end_part(part, &fault);
        break;
    }
    free_part(part);
    REQUIRE(b->busy > 0);
    b->busy--;
    wait_for_owners(b);
    try_finish(b);
}

/* ---- handing out ---- */

/* The path and its reader know the batch by this method. */
static void send_part(struct part *part, const char *address)
{
    struct batch *b = part->batch;

    part->request = (struct rpc_request){
        .path = rpc_call_path(b->rpc),
        .payload = buf_slice(&part->bytes),
        .deadline_us = service_forward_deadline(b->service, b->rpc),
        .cb = on_part,
        .ctx = part,
    };
    if (service_pass_on(b->service, address, &part->request) == 0) {
        rpc_call_note_forwarded(b->rpc);
        b->busy++;
    } else {
        end_part(part, NULL);
        free_part(part);
    }
}

static struct part *new_part(struct batch *b)
{
    struct part *part = mem_new(1, sizeof(*part));

    if (part == NULL) {
        return NULL;
    }
    list_init(&part->link);
    part->batch = b;
    buf_init(&part->bytes, RPC_MESSAGE_BYTES_MAX);
    part->items = mem_new(b->count, sizeof(*part->items));
    if (part->items == NULL) {
        free_part(part);
        return NULL;
    }
    list_add(&b->parts, &part->link);
    return part;
}

/* Gather all items from `first` on that go to one address, and send them; another part when one is
 * full. Those for which there is no memory wait on. */
static void send_all_to(struct batch *b, uint32_t first, const char *address)
{
    struct part *part = NULL;

    for (uint32_t i = first; i < b->count; i++) {
        struct item *item = &b->items[i];
        const char *other = NULL;

        if (item->state != ITEM_WAITING ||
            service_route(b->service, item->call.task.id.slot, &other) != ROUTE_OTHER ||
            strcmp(other, address) != 0) {
            continue;
        }
        if (part != NULL && b->verbs->write(item, &part->bytes) != 0) {
            send_part(part, address);
            part = NULL;
        } else if (part != NULL) {
            item->state = ITEM_FORWARDED;
            part->items[part->count++] = i;
            continue;
        }
        part = new_part(b);
        if (part == NULL) {
            return;
        }
        if (b->verbs->write(item, &part->bytes) != 0) {
            free_part(part);
            return;
        }
        item->state = ITEM_FORWARDED;
        part->items[part->count++] = i;
    }
    if (part != NULL) {
        send_part(part, address);
    }
}

static void route_item(struct batch *b, uint32_t index)
{
    struct item *item = &b->items[index];
    struct broker *broker = b->service->options.broker;
    const char *address = NULL;

    switch (broker_route(broker, item->call.shard, &address)) {
    case ROUTE_SELF:
        if (b->local == LOCAL_COUNT_MAX) {
            break;
        }
        item->state = ITEM_LOCAL;
        b->busy++;
        b->local++;
        broker_call(broker, b->service->options.now, &item->call);
        break;
    case ROUTE_OTHER:
        if (!b->is_forwarded) {
            send_all_to(b, index, address);
        }
        break;
    case ROUTE_NOBODY:
        break;
    }
}

/* Items without a key of either kind go where we serve, so that they stay here. */
static void pick_slots(struct batch *b)
{
    struct broker *broker = b->service->options.broker;

    for (uint32_t i = 0; i < b->count; i++) {
        struct item *item = &b->items[i];

        if (item->state == ITEM_WAITING && item->call.kind == CALL_CREATE &&
            item->call.task.key.len == 0 && item->call.task.order_key.len == 0) {
            item->call.task.id.slot = broker_pick_slot(broker);
        }
        item->call.shard = shard_of_slot(item->call.task.id.slot, broker_shard_count(broker));
    }
}

/* Hand out what waits. What finds nobody waits on. */
static void route_items(struct batch *b)
{
    if (b->rpc == NULL) {
        try_finish(b);
        return;
    }
    b->is_routing = true;
    (void)service_sample(b->service);
    pick_slots(b);
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->items[i].state == ITEM_WAITING) {
            route_item(b, i);
        }
    }
    b->is_routing = false;
    wait_for_owners(b);
    try_finish(b);
}

/* ---- queues ---- */

/* Numbers of the queues; true if one is not known here. */
static bool find_queues(struct batch *b)
{
    bool is_unknown = false;

    for (uint32_t i = 0; i < b->count; i++) {
        struct item *item = &b->items[i];
        const struct queue *queue = NULL;
        struct fault fault;

        if (item->state != ITEM_WAITING || item->call.task.id.seq != 0) {
            continue; // A task that is named by id needs no queue.
        }
        queue =
            broker_queue_by_name(b->service->options.broker, item->queue.tenant, item->queue.name);
        if (queue != NULL && queue->is_draining && item->call.kind == CALL_CREATE) {
            service_draining_fault(&fault, &item->queue);
            (void)snprintf(fault.field, sizeof(fault.field), "items[%u].queue", (unsigned)i);
            item_fail(item, &fault);
        } else if (queue != NULL) {
            item->call.task.queue = queue->id;
        } else if (b->has_looked) {
            service_queue_fault(&fault, &item->queue);
            (void)snprintf(fault.field, sizeof(fault.field), "items[%u].queue", (unsigned)i);
            item_fail(item, &fault);
        } else {
            is_unknown = true;
        }
    }
    return is_unknown;
}

static void on_queues(struct queue_wait *wait, int err)
{
    struct batch *b = CONTAINER_OF(wait, struct batch, wait);
    struct fault fault;

    b->is_queue_wait = false;
    if (b->rpc != NULL && err != 0) {
        fault_set_err(&fault, err, "cannot read the queues from the home database");
        fault.retry_after_ms = SERVICE_RETRY_MS;
        service_fail(b->service, b->rpc, &fault);
        b->rpc = NULL;
    } else if (b->rpc != NULL) {
        b->has_looked = true;
        (void)find_queues(b);
        route_items(b);
        return;
    }
    try_finish(b);
}

/* ---- what creates do ---- */

static int read_create(struct item *item, const struct create_batch *batch, size_t index,
                       struct fault *fault)
{
    int err = codec_read_batch_item(batch, index, &item->request.create, fault);

    if (err == 0) {
        item->queue = item->request.create.queue;
        service_set_create(&item->call, &item->request.create);
    }
    return err;
}

static int write_create(const struct item *item, struct buf *out)
{
    return codec_write_batch_item(&item->request.create, out);
}

static void take_created(struct item *item)
{
    item->reply.created = service_create_reply(&item->call);
}

static int read_created(struct item *item, const struct create_results *results, size_t index,
                        bool *failed, struct fault *fault)
{
    return codec_read_batch_result(results, index, &item->reply.created, failed, fault);
}

static int write_created(const struct item *item, const struct fault *fault, struct buf *out)
{
    return codec_write_batch_result(&item->reply.created, fault, out);
}

static const struct batch_verbs CREATE_VERBS = {
    .what = "cannot create the task",
    .read = read_create,
    .write = write_create,
    .take = take_created,
    .read_reply = read_created,
    .write_reply = write_created,
    .open_replies = codec_read_batch_reply,
};

/* ---- what cancels do ---- */

static int read_cancel(struct item *item, const struct create_batch *batch, size_t index,
                       struct fault *fault)
{
    int err = codec_read_cancel_item(batch, index, &item->request.name, fault);

    if (err == 0) {
        item->queue = item->request.name.queue;
        item->call.kind = CALL_CANCEL;
        service_set_name(&item->call, &item->request.name);
    }
    return err;
}

static int write_cancel(const struct item *item, struct buf *out)
{
    return codec_write_cancel_item(&item->request.name, out);
}

static void take_cancelled(struct item *item)
{
    item->reply.cancelled = service_cancel_reply(&item->call);
}

static int read_cancelled(struct item *item, const struct create_results *results, size_t index,
                          bool *failed, struct fault *fault)
{
    return codec_read_cancel_result(results, index, &item->reply.cancelled, failed, fault);
}

static int write_cancelled(const struct item *item, const struct fault *fault, struct buf *out)
{
    return codec_write_cancel_result(&item->reply.cancelled, fault, out);
}

static const struct batch_verbs CANCEL_VERBS = {
    .what = "cannot cancel the task",
    .read = read_cancel,
    .write = write_cancel,
    .take = take_cancelled,
    .read_reply = read_cancelled,
    .write_reply = write_cancelled,
    .open_replies = codec_read_cancel_results,
};

/* ---- the start ---- */

static int read_items(struct batch *b, struct fault *fault)
{
    b->items = mem_new(b->count, sizeof(*b->items));
    if (b->items == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot take the batch");
        return ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < b->count; i++) {
        struct item *item = &b->items[i];
        struct fault own;

        item->batch = b;
        item->state = ITEM_WAITING;
        item->call.cb = on_core;
        item->call.owner = item;
        if (b->verbs->read(item, &b->request, i, &own) != 0) {
            item_fail(item, &own);
        }
    }
    return 0;
}

static int start_batch(struct batch *b, struct slice request, struct fault *fault)
{
    int err = codec_read_batch(request, &b->arena, &b->request, fault);

    if (err == 0 && !service_has_room(b->service, (uint32_t)b->request.count, fault)) {
        err = ERR_FULL;
    }
    if (err != 0) {
        service_enter(b->service, 0);
        return err;
    }
    b->count = (uint32_t)b->request.count;
    b->left = b->count;
    service_enter(b->service, b->count);
    return read_items(b, fault);
}

static void start_call(struct rpc_call *rpc, struct slice request, struct service *service,
                       const struct batch_verbs *verbs)
{
    struct batch *b = mem_new(1, sizeof(*b));
    struct fault fault;

    if (b == NULL) {
        fault_set_err(&fault, ERR_NO_MEMORY, "cannot take the batch");
        service_fail(service, rpc, &fault);
        return;
    }
    b->verbs = verbs;
    b->service = service;
    b->is_forwarded = service_is_forwarded(rpc);
    b->wait.cb = on_queues;
    list_init(&b->parts);
    arena_init(&b->arena, 0);
    loop_timer_init(&b->look, service->options.loop, on_look, b);
    if (start_batch(b, request, &fault) != 0) {
        service_fail(service, rpc, &fault);
        free_batch(b);
        return;
    }
    b->rpc = rpc;
    rpc_call_on_cancel(rpc, on_cancel, b);
    if (find_queues(b)) {
        b->is_queue_wait = true;
        queue_sync_refresh(service->options.queues, &b->wait);
    } else {
        route_items(b);
    }
}

void service_batch_create(struct rpc_call *rpc, struct slice request, void *ctx)
{
    start_call(rpc, request, ctx, &CREATE_VERBS);
}

void service_batch_cancel(struct rpc_call *rpc, struct slice request, void *ctx)
{
    start_call(rpc, request, ctx, &CANCEL_VERBS);
}
