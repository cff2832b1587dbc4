/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over the shards.
 */
#include "broker/service_walk.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

static void read_queues(struct walk *walk);
static void step(struct walk *walk);

uint32_t walk_shard_count(const struct walk *walk)
{
    return broker_shard_count(walk->service->options.broker);
}

void walk_next_shard(struct walk *walk)
{
    walk->mark = page_shard(walk->mark, walk->mark.shard + 1);
}

/* ---- the end ---- */

/* Free once nobody has it any more. shape: rpc is NULL. */
static void try_free(struct walk *walk)
{
    struct service *service = walk->service;

    if (walk->rpc != NULL || walk->is_out || walk->busy > 0) {
        return;
    }
    loop_timer_stop(&walk->look);
    if (walk->verbs->fini != NULL) {
        walk->verbs->fini(walk);
    }
    buf_fini(&walk->bytes);
    buf_fini(&walk->items);
    arena_fini(&walk->arena);
    mem_free(walk);
    service_leave(service, 1);
}

void walk_fail(struct walk *walk, const struct fault *fault)
{
    if (walk->rpc != NULL) {
        service_fail(walk->service, walk->rpc, fault);
        walk->rpc = NULL;
    }
    try_free(walk);
}

static void finish(struct walk *walk)
{
    if (walk->rpc != NULL) {
        struct rpc_call *rpc = walk->rpc;
        struct buf *out = service_scratch(walk->service);

        walk->rpc = NULL;
        service_reply(walk->service, rpc, walk->verbs->answer(walk, out));
    }
    try_free(walk);
}

static void on_cancel(struct rpc_call *rpc, void *ctx)
{
    struct walk *walk = ctx;
    struct fault fault;

    if (walk->changes_something && walk->steps > 0) {
        service_unknown_fault(&fault);
    } else {
        fault_set_err(&fault, ERR_TIMEOUT, walk->verbs->what);
    }
    walk->rpc = NULL;
    service_fail(walk->service, rpc, &fault);
    try_free(walk);
}

/* It cannot go on. Once something is done the fault, which says that nothing is, would be wrong:
 * the answer says how far it has come, and who goes on from there meets the fault. */
static void stop(struct walk *walk, const struct fault *fault)
{
    if (walk->steps > 0) {
        finish(walk);
    } else {
        walk_fail(walk, fault);
    }
}

/* ---- nobody serves the shard ---- */

static void on_look(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    step(ctx);
}

static void wait_for_owner(struct walk *walk)
{
    boot_us now_us = loop_now_us(walk->service->options.loop);
    struct fault fault;

    if (walk->is_forwarded) {
        finish(walk); // The broker that asked looks for the owner.
        return;
    }
    if (walk->give_up_us == 0) {
        walk->give_up_us = now_us + SERVICE_OWNER_WAIT_MS * US_PER_MS;
    }
    if (now_us < walk->give_up_us) {
        walk->service->owner_waits++;
        loop_timer_start_in(&walk->look, SERVICE_LOOK_MS);
    } else {
        service_owner_fault(&fault, walk->mark.shard, false);
        stop(walk, &fault);
    }
}

/* ---- here ---- */

/* A row of a queue that this broker has not heard of yet: skipped, it would be missing. */
static bool meets_unknown_queue(const struct walk *walk)
{
    if (walk->needs_queue || walk->has_looked) {
        return false;
    }
    for (size_t i = 0; i < walk->read.row_count; i++) {
        if (broker_queue_find(walk->service->options.broker, walk->read.rows[i].queue) == NULL) {
            return true;
        }
    }
    return false;
}

static void on_core(struct call *call)
{
    struct walk *walk = call->owner;
    struct fault fault;

    walk->is_out = false;
    if (walk->rpc == NULL) {
        try_free(walk);
    } else if (call->result == ERR_FENCED) {
        wait_for_owner(walk);
    } else if (call->result != 0) {
        service_core_fault(call, walk->verbs->what, &fault);
        stop(walk, &fault);
    } else if (meets_unknown_queue(walk)) {
        read_queues(walk);
    } else {
        walk->steps++;
        walk->give_up_us = 0;
        walk->verbs->take(walk, &walk->read);
        if (walk->busy == 0) {
            step(walk);
        }
    }
}

void walk_done_one(struct walk *walk)
{
    REQUIRE(walk->busy > 0);
    if (--walk->busy > 0) {
        return;
    }
    if (walk->rpc == NULL) {
        try_free(walk);
    } else {
        step(walk);
    }
}

static void ask_core(struct walk *walk)
{
    walk->read = (struct store_read){.limit = 0};
    walk->verbs->prepare(walk, &walk->read);
    walk->call = (struct call){
        .kind = CALL_SCAN,
        .shard = walk->mark.shard,
        .scan = &walk->read,
        .cb = on_core,
        .owner = walk,
    };
    walk->is_out = true;
    broker_call(walk->service->options.broker, walk->service->options.now, &walk->call);
}

/* ---- elsewhere ---- */

static bool is_behind(struct page_mark mark, struct page_mark before)
{
    if (mark.shard != before.shard) {
        return mark.shard > before.shard;
    }
    return mark.bucket > before.bucket || (mark.bucket == before.bucket && mark.seq > before.seq);
}

/* Another broker's page. Without progress the shard is not that broker's any more. */
static void take_page(struct walk *walk, struct slice payload)
{
    struct page_mark before = walk->mark;
    uint32_t left = walk->left;
    const char *token = "";
    struct arena arena;
    struct fault fault;
    int err;

    arena_init(&arena, 0);
    err = walk->verbs->merge(walk, payload, &arena, &token);
    if (err == 0) {
        err = page_parse(token, &walk->mark);
    }
    if (err == 0 && token[0] == '\0') {
        walk->mark = page_shard(before, walk_shard_count(walk));
    }
    arena_fini(&arena);
    if (err != 0) {
        fault_set_err(&fault, walk->changes_something ? ERR_OUTCOME_UNKNOWN : ERR_INTERNAL,
                      walk->verbs->what);
        walk_fail(walk, &fault);
        return;
    }
    if (!is_behind(walk->mark, before)) {
        walk->mark = before;
        walk->steps += walk->left < left; // Some of what is there was done, and must be told.
        wait_for_owner(walk);
        return;
    }
    walk->steps++;
    walk->give_up_us = 0;
    step(walk);
}

static void on_forwarded(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct walk *walk = ctx;
    struct fault fault;

    (void)request;
    walk->is_out = false;
    if (walk->rpc == NULL) {
        try_free(walk);
        return;
    }
    switch (service_judge(reply, !walk->changes_something)) {
    case FORWARD_ANSWER:
        if (reply->status == RPC_OK) {
            take_page(walk, reply->payload);
        } else {
            fault_decode(&fault, reply->status, reply->message, reply->details);
            (reply->status == RPC_RESOURCE_EXHAUSTED ? stop : walk_fail)(walk, &fault);
        }
        break;
    case FORWARD_AGAIN:
        wait_for_owner(walk);
        break;
    case FORWARD_UNKNOWN:
        service_unknown_fault(&fault);
        walk_fail(walk, &fault);
        break;
    }
}

static void ask_owner(struct walk *walk, const char *address)
{
    struct service *service = walk->service;
    int err;

    buf_clear(&walk->bytes);
    err = walk->verbs->write(walk, &walk->bytes);
    if (err == 0) {
        walk->forward = (struct rpc_request){
            .path = walk->verbs->path,
            .payload = buf_slice(&walk->bytes),
            .deadline_us = service_forward_deadline(service, walk->rpc),
            .cb = on_forwarded,
            .ctx = walk,
        };
        err = service_pass_on(service, address, &walk->forward);
    }
    walk->is_out = err == 0;
    if (err != 0) {
        wait_for_owner(walk);
    }
}

/* ---- one step ---- */

static bool is_over(const struct walk *walk)
{
    return walk->left == 0 || walk->mark.shard >= walk_shard_count(walk) ||
           walk->steps >= WALK_STEPS_MAX ||
           (walk->steps > 0 && loop_now_us(walk->service->options.loop) >= walk->end_us);
}

static void step(struct walk *walk)
{
    const char *address = NULL;

    if (is_over(walk)) {
        finish(walk);
        return;
    }
    switch (broker_route(walk->service->options.broker, walk->mark.shard, &address)) {
    case ROUTE_SELF:
        ask_core(walk);
        break;
    case ROUTE_OTHER:
        if (walk->is_forwarded) {
            finish(walk);
        } else {
            ask_owner(walk, address);
        }
        break;
    case ROUTE_NOBODY:
        wait_for_owner(walk);
        break;
    }
}

/* ---- the queue ---- */

static void find_queue(struct walk *walk);

static void on_queues(struct queue_wait *wait, int err)
{
    struct walk *walk = CONTAINER_OF(wait, struct walk, wait);
    struct fault fault;

    walk->is_out = false;
    walk->has_looked = true;
    if (walk->rpc == NULL) {
        try_free(walk);
    } else if (err != 0) {
        fault_set_err(&fault, err, "cannot read the queues from the home database");
        fault.retry_after_ms = SERVICE_RETRY_MS;
        stop(walk, &fault);
    } else if (walk->needs_queue) {
        find_queue(walk);
    } else {
        step(walk);
    }
}

static void read_queues(struct walk *walk)
{
    walk->is_out = true;
    walk->wait.cb = on_queues;
    queue_sync_refresh(walk->service->options.queues, &walk->wait);
}

static void find_queue(struct walk *walk)
{
    const struct queue *queue =
        broker_queue_by_name(walk->service->options.broker, walk->queue.tenant, walk->queue.name);
    struct fault fault;

    if (queue != NULL) {
        walk->queue_id = queue->id;
        step(walk);
    } else if (!walk->has_looked) {
        read_queues(walk);
    } else {
        service_queue_fault(&fault, &walk->queue);
        walk_fail(walk, &fault);
    }
}

/* ---- the start ---- */

struct walk *walk_new(size_t size, struct service *service, struct rpc_call *rpc,
                      const struct walk_verbs *verbs)
{
    struct walk *walk;
    struct fault fault;

    if (!service_has_room(service, 1, &fault)) {
        service_fail(service, rpc, &fault);
        return NULL;
    }
    walk = mem_new(1, size);
    if (walk == NULL) {
        fault_set_err(&fault, ERR_NO_MEMORY, verbs->what);
        service_fail(service, rpc, &fault);
        return NULL;
    }
    walk->verbs = verbs;
    walk->service = service;
    walk->rpc = rpc;
    walk->is_forwarded = service_is_forwarded(rpc);
    walk->end_us = loop_now_us(service->options.loop) + WALK_TIME_MS * US_PER_MS;
    buf_init(&walk->bytes, RPC_MESSAGE_BYTES_MAX);
    buf_init(&walk->items, RPC_MESSAGE_BYTES_MAX);
    arena_init(&walk->arena, 0);
    loop_timer_init(&walk->look, service->options.loop, on_look, walk);
    service_enter(service, 1);
    return walk;
}

void walk_start(struct walk *walk)
{
    rpc_call_on_cancel(walk->rpc, on_cancel, walk);
    if (walk->needs_queue) {
        find_queue(walk);
    } else {
        step(walk);
    }
}
