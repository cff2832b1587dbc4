/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls about one task: Create, Get, Cancel, Update, RunNow. Each finds its queue, then its shard's
 * owner, and is answered by the core here or by the broker that serves the shard.
 */
#include "broker/service_parts.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "proto/codec_task.h"
#include "proto/route.h"

#include <string.h>

enum single_state {
    SINGLE_WAITING = 1, /* for its queue, or for an owner: nothing has happened */
    SINGLE_LOCAL,       /* with the core */
    SINGLE_FORWARDED    /* with another broker */
};

/*
 * One call.
 * 1. rpc is NULL once it has been answered; the struct lives on until core or peer have called
 * back.
 */
struct single {
    struct service *service;
    struct rpc_call *rpc;
    enum single_state state;
    bool is_forwarded; /* to us */
    bool has_looked;   /* home has been read for its queue */
    bool is_run_now;   /* an update to now, that has a request of its own */
    bool is_explain;   /* a get that says why */
    struct queue_name queue;
    union {
        struct create_request create;
        struct task_name name; /* Get, Cancel, RunNow */
        struct update_request update;
    } request;
    struct call call;
    struct call look_back; /* a get that found nothing pending: has it ended? */
    struct store_read ended;
    struct queue_wait wait;
    bool is_queue_wait; /* `wait` is with the sync */
    boot_us give_up_us; /* 0: has not waited yet */
    struct loop_timer look;
    struct rpc_request forward;
    struct buf bytes; /* of the forwarded request */
    struct arena arena;
};

static void find_queue(struct single *s);
static void find_owner(struct single *s);

static const char *what_of(const struct single *s)
{
    switch (s->call.kind) {
    case CALL_CREATE:
        return "cannot create the task";
    case CALL_GET:
        return s->is_explain ? "cannot explain the task" : "cannot get the task";
    case CALL_CANCEL:
        return "cannot cancel the task";
    case CALL_UPDATE:
        return s->is_run_now ? "cannot run the task now" : "cannot update the task";
    case CALL_SCAN:
    case CALL_REDRIVE:
    case CALL_PURGE:
        break; // Not calls about one task.
    }
    UNREACHABLE();
}

/* ---- the end ---- */

static void free_single(struct single *s)
{
    struct service *service = s->service;

    REQUIRE(s->rpc == NULL && !s->is_queue_wait);
    loop_timer_stop(&s->look);
    buf_fini(&s->bytes);
    arena_fini(&s->arena);
    mem_free(s);
    service_leave(service, 1);
}

/* Answer, if nobody has yet, and free. shape: neither core nor peer has it. */
static void fail_single(struct single *s, const struct fault *fault)
{
    if (s->rpc != NULL) {
        service_fail(s->service, s->rpc, fault);
        s->rpc = NULL;
    }
    free_single(s);
}

static int write_get(const struct single *s, struct buf *out)
{
    const struct call *call = &s->call;
    struct task_view view;

    service_fill_view(s->service->options.broker, &call->row, &view);
    view.state = (enum task_view_state)call->state;
    view.attempt = call->attempt != 0 ? call->attempt : call->row.attempt;
    return s->is_explain ? service_write_explain(s->service, call, &view, out)
                         : codec_write_get_reply(&view, out);
}

static int write_answer(struct single *s, struct buf *out)
{
    const struct call *call = &s->call;
    struct cancel_reply cancelled;
    struct create_reply created;

    switch (call->kind) {
    case CALL_CREATE:
        created = service_create_reply(call);
        return codec_write_create_reply(&created, out);
    case CALL_GET:
        return write_get(s, out);
    case CALL_CANCEL:
        cancelled = service_cancel_reply(call);
        return codec_write_cancel_reply(&cancelled, out);
    case CALL_UPDATE:
        return codec_write_update_reply(
            &(struct update_reply){service_call_id(call), call->found_due_ms, call->attempt}, out);
    case CALL_SCAN:
    case CALL_REDRIVE:
    case CALL_PURGE:
        break; // Not calls about one task.
    }
    UNREACHABLE();
}

/* The client's deadline has passed, or it went away: answer with the truth as far as we know it. */
static void on_cancel(struct rpc_call *rpc, void *ctx)
{
    struct single *s = ctx;
    struct fault fault;

    if (s->state != SINGLE_WAITING && s->call.kind != CALL_GET) {
        service_unknown_fault(&fault);
    } else {
        fault_set_err(&fault, ERR_TIMEOUT, what_of(s));
    }
    s->rpc = NULL;
    service_fail(s->service, rpc, &fault);
    if (s->state == SINGLE_WAITING && !s->is_queue_wait) {
        free_single(s);
    }
}

/* ---- waiting for an owner ---- */

static void on_look(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    find_owner(ctx);
}

static void wait_for_owner(struct single *s)
{
    boot_us now_us = loop_now_us(s->service->options.loop);
    struct fault fault;

    s->state = SINGLE_WAITING;
    if (s->give_up_us == 0) {
        s->give_up_us = now_us + SERVICE_OWNER_WAIT_MS * US_PER_MS;
    }
    if (s->rpc == NULL || s->is_forwarded || now_us >= s->give_up_us) {
        service_owner_fault(&fault, s->call.shard, s->is_forwarded);
        fail_single(s, &fault);
        return;
    }
    s->service->owner_waits++;
    loop_timer_start_in(&s->look, SERVICE_LOOK_MS);
}

/* ---- here ---- */

/* A broker that has just come may serve a shard before it has read the queues, and a task that is
 * read then would be told without the names of its queue. True: it is read again when it has. */
static bool reads_queues_first(struct single *s, uint32_t queue)
{
    const struct service_options *options = &s->service->options;

    if (s->has_looked || s->rpc == NULL || broker_queue_find(options->broker, queue) != NULL) {
        return false;
    }
    s->state = SINGLE_WAITING;
    s->is_queue_wait = true;
    queue_sync_refresh(options->queues, &s->wait);
    return true;
}

static void on_ended(struct call *look_back)
{
    struct single *s = look_back->owner;
    struct fault fault;

    if (look_back->result == ERR_FENCED) {
        wait_for_owner(s);
        return;
    }
    if (look_back->result != 0 || s->ended.ended_count == 0) {
        service_core_fault(look_back->result != 0 ? look_back : &s->call, what_of(s), &fault);
        fail_single(s, &fault);
        return;
    }
    if (reads_queues_first(s, s->ended.ended[0].task.queue)) {
        return;
    }
    if (s->rpc != NULL) {
        struct rpc_call *rpc = s->rpc;

        s->rpc = NULL;
        service_reply(
            s->service, rpc,
            service_write_ended(s->service, &s->ended.ended[0], service_scratch(s->service)));
    }
    free_single(s);
}

/* It is not pending: its result, or its dead letter, may be remembered. */
static void look_back(struct single *s)
{
    s->ended = (struct store_read){.kind = STORE_READ_ENDED, .ids = &s->call.found, .id_count = 1};
    s->look_back = (struct call){
        .kind = CALL_SCAN, .shard = s->call.shard, .scan = &s->ended, .cb = on_ended, .owner = s};
    broker_call(s->service->options.broker, s->service->options.now, &s->look_back);
}

static void on_core(struct call *call)
{
    struct single *s = call->owner;
    struct fault fault;

    if (call->result == ERR_FENCED) {
        wait_for_owner(s);
        return;
    }
    if (call->result == ERR_GONE && call->kind == CALL_GET && !s->is_explain && s->rpc != NULL) {
        look_back(s);
        return;
    }
    if (call->result != 0) {
        service_core_fault(call, what_of(s), &fault);
        fail_single(s, &fault);
        return;
    }
    if (call->kind == CALL_GET && reads_queues_first(s, call->row.queue)) {
        return;
    }
    if (s->rpc != NULL) {
        struct rpc_call *rpc = s->rpc;

        s->rpc = NULL;
        service_reply(s->service, rpc, write_answer(s, service_scratch(s->service)));
    }
    free_single(s);
}

/* ---- elsewhere ---- */

static void hand_on(struct single *s, const struct rpc_reply *reply)
{
    char message[FAULT_MESSAGE_BYTES];
    struct rpc_failure failure = {
        .status = reply->status,
        .message = message,
        .details = reply->details,
        .retry_delay = reply->has_pushback && reply->pushback_ms > 0 ? reply->pushback_ms : 0,
    };
    struct fault fault;

    if (s->rpc != NULL) {
        rpc_call_note_forwarded(s->rpc);
    }
    if (s->rpc != NULL && reply->status == RPC_OK) {
        rpc_call_reply(s->rpc, reply->payload);
    } else if (s->rpc != NULL) {
        fault_decode(&fault, reply->status, reply->message, reply->details);
        memcpy(message, fault.message, sizeof(message));
        rpc_call_fail_with(s->rpc, &failure);
    }
    s->rpc = NULL;
    free_single(s);
}

static void on_forwarded(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct single *s = ctx;
    struct fault fault;

    (void)request;
    switch (service_judge(reply, s->call.kind == CALL_GET)) {
    case FORWARD_ANSWER:
        hand_on(s, reply);
        break;
    case FORWARD_AGAIN:
        wait_for_owner(s);
        break;
    case FORWARD_UNKNOWN:
        service_unknown_fault(&fault);
        fail_single(s, &fault);
        break;
    }
}

static int write_request(struct single *s)
{
    buf_clear(&s->bytes);
    switch (s->call.kind) {
    case CALL_CREATE:
        return codec_write_create(&s->request.create, &s->bytes);
    case CALL_GET:
    case CALL_CANCEL:
        return codec_write_task_name(&s->request.name, &s->bytes);
    case CALL_UPDATE:
        return s->is_run_now ? codec_write_task_name(&s->request.name, &s->bytes)
                             : codec_write_update(&s->request.update, &s->bytes);
    case CALL_SCAN:
    case CALL_REDRIVE:
    case CALL_PURGE:
        break; // Not calls about one task.
    }
    UNREACHABLE();
}

static void forward(struct single *s, const char *address)
{
    struct fault fault;
    int err = write_request(s);

    if (err == 0) {
        s->forward = (struct rpc_request){
            .path = rpc_call_path(s->rpc),
            .payload = buf_slice(&s->bytes),
            .deadline_us = service_forward_deadline(s->service, s->rpc),
            .cb = on_forwarded,
            .ctx = s,
        };
        err = service_pass_on(s->service, address, &s->forward);
    }
    if (err == 0) {
        s->state = SINGLE_FORWARDED;
    } else if (err == ERR_FULL || err == ERR_NO_MEMORY) {
        fault_set_err(&fault, err, what_of(s));
        fault.retry_after_ms = SERVICE_RETRY_MS;
        fail_single(s, &fault);
    } else {
        wait_for_owner(s); // its address cannot be used, or we close
    }
}

static void find_owner(struct single *s)
{
    struct broker *broker = s->service->options.broker;
    bool is_anywhere =
        s->call.kind == CALL_CREATE && s->call.task.key.len == 0 && s->call.task.order_key.len == 0;
    const char *address = NULL;

    if (is_anywhere) {
        s->call.task.id.slot = broker_pick_slot(broker);
    }
    s->call.shard = shard_of_slot(s->call.task.id.slot, broker_shard_count(broker));
    switch (broker_route(broker, s->call.shard, &address)) {
    case ROUTE_SELF:
        s->state = SINGLE_LOCAL;
        broker_call(broker, service_sample(s->service), &s->call);
        break;
    case ROUTE_OTHER:
        if (s->is_forwarded) {
            wait_for_owner(s);
        } else {
            forward(s, address);
        }
        break;
    case ROUTE_NOBODY:
        wait_for_owner(s);
        break;
    }
}

/* ---- the queue ---- */

static void on_queues(struct queue_wait *wait, int err)
{
    struct single *s = CONTAINER_OF(wait, struct single, wait);
    struct fault fault;

    s->is_queue_wait = false;
    if (s->rpc == NULL) {
        free_single(s);
    } else if (err != 0) {
        fault_set_err(&fault, err, "cannot read the queues from the home database");
        fault.retry_after_ms = SERVICE_RETRY_MS;
        fail_single(s, &fault);
    } else {
        s->has_looked = true;
        find_queue(s);
    }
}

/* A task that is named by id needs no queue. */
static void find_queue(struct single *s)
{
    const struct queue *queue = NULL;
    struct fault fault;

    if (s->queue.name[0] != '\0') {
        queue = broker_queue_by_name(s->service->options.broker, s->queue.tenant, s->queue.name);
    }
    if (queue != NULL && queue->is_draining && s->call.kind == CALL_CREATE) {
        service_draining_fault(&fault, &s->queue);
        fail_single(s, &fault);
        return;
    }
    if (queue != NULL) {
        s->call.task.queue = queue->id;
    }
    if (queue != NULL || s->call.task.id.seq != 0) {
        find_owner(s);
    } else if (!s->has_looked) {
        s->is_queue_wait = true;
        queue_sync_refresh(s->service->options.queues, &s->wait);
    } else {
        service_queue_fault(&fault, &s->queue);
        fail_single(s, &fault);
    }
}

/* ---- the start ---- */

static struct single *new_single(struct service *service, struct rpc_call *rpc, enum call_kind kind)
{
    struct single *s = NULL;
    struct fault fault;

    if (!service_has_room(service, 1, &fault)) {
        service_fail(service, rpc, &fault);
        return NULL;
    }
    s = mem_new(1, sizeof(*s));
    if (s == NULL) {
        fault_set_err(&fault, ERR_NO_MEMORY, "cannot take the call");
        service_fail(service, rpc, &fault);
        return NULL;
    }
    s->service = service;
    s->rpc = rpc;
    s->state = SINGLE_WAITING;
    s->is_forwarded = service_is_forwarded(rpc);
    s->call.kind = kind;
    s->call.cb = on_core;
    s->call.owner = s;
    s->wait.cb = on_queues;
    buf_init(&s->bytes, RPC_MESSAGE_BYTES_MAX);
    arena_init(&s->arena, 0);
    loop_timer_init(&s->look, service->options.loop, on_look, s);
    service_enter(service, 1);
    return s;
}

static void start(struct single *s, int err, const struct fault *fault)
{
    if (err != 0) {
        fail_single(s, fault);
        return;
    }
    rpc_call_on_cancel(s->rpc, on_cancel, s);
    find_queue(s);
}

static void set_name(struct single *s, const struct task_name *name)
{
    s->queue = name->queue;
    service_set_name(&s->call, name);
}

void service_create(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct single *s = new_single(ctx, rpc, CALL_CREATE);
    struct create_request *create;
    struct fault fault;
    int err;

    if (s == NULL) {
        return;
    }
    create = &s->request.create;
    err = codec_read_create(request, &s->arena, create, &fault);
    if (err == 0) {
        s->queue = create->queue;
        service_set_create(&s->call, create);
    }
    start(s, err, &fault);
}

/* Read the request of a call that only names a task. shape: s may be NULL: it is answered. */
static void start_by_name(struct single *s, struct slice request)
{
    struct fault fault;
    int err;

    if (s == NULL) {
        return;
    }
    err = codec_read_task_name(request, &s->arena, &s->request.name, &fault);
    if (err == 0) {
        set_name(s, &s->request.name);
    }
    start(s, err, &fault);
}

void service_get(struct rpc_call *rpc, struct slice request, void *ctx)
{
    start_by_name(new_single(ctx, rpc, CALL_GET), request);
}

void service_explain(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct single *s = new_single(ctx, rpc, CALL_GET);

    if (s != NULL) {
        s->is_explain = true;
    }
    start_by_name(s, request);
}

void service_cancel(struct rpc_call *rpc, struct slice request, void *ctx)
{
    start_by_name(new_single(ctx, rpc, CALL_CANCEL), request);
}

void service_run_now(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct single *s = new_single(ctx, rpc, CALL_UPDATE);

    if (s != NULL) {
        s->is_run_now = true;
        s->call.set_due = true;
        service_set_when(&s->call, &(struct when){.kind = WHEN_NONE});
    }
    start_by_name(s, request);
}

void service_update(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct single *s = new_single(ctx, rpc, CALL_UPDATE);
    struct update_request *update;
    struct fault fault;
    int err;

    if (s == NULL) {
        return;
    }
    update = &s->request.update;
    err = codec_read_update(request, &s->arena, update, &fault);
    if (err == 0) {
        set_name(s, &update->task);
        s->call.set_payload = update->set_payload;
        s->call.task.payload = update->payload;
        s->call.task.payload_len = (uint32_t)update->payload.len;
        s->call.set_due = update->when.kind != WHEN_NONE;
        if (s->call.set_due) {
            service_set_when(&s->call, &update->when);
        }
    }
    start(s, err, &fault);
}
