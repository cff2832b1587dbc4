/* SPDX-License-Identifier: Apache-2.0
 *
 * QueueService: policy lives in the home database. A change is written there, then the coordinator
 * wakes the brokers, then the answer says who has not confirmed it yet.
 */
#include "broker/service_queue.h"

#include "broker/outbound.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"

#include <string.h>

/* How long a change waits for the other brokers to confirm it, and how often it looks. */
#define CONFIRM_WAIT_MS 500
#define CONFIRM_LOOK_MS 10

/* A change that names no version is tried again when somebody else was faster. */
#define CHANGE_TRIES_MAX 3

/* ---- the end ---- */

static void free_call(struct queue_call *q)
{
    struct service *service = q->service;

    REQUIRE(q->rpc == NULL && !q->is_out);
    loop_timer_stop(&q->look);
    arena_fini(&q->arena);
    mem_free(q);
    service_leave(service, 0);
}

void queue_call_fail(struct queue_call *q, const struct fault *fault)
{
    if (q->rpc != NULL) {
        service_fail(q->service, q->rpc, fault);
        q->rpc = NULL;
    }
    free_call(q);
}

void queue_call_reply(struct queue_call *q, int err)
{
    if (q->rpc != NULL) {
        service_reply(q->service, q->rpc, err);
        q->rpc = NULL;
    }
    free_call(q);
}

static void on_cancel(struct rpc_call *rpc, void *ctx)
{
    struct queue_call *q = ctx;
    struct fault fault;

    if (q->was_sent) {
        service_unknown_fault(&fault);
    } else {
        fault_set_err(&fault, ERR_TIMEOUT, "cannot answer in time");
    }
    q->rpc = NULL;
    service_fail(q->service, rpc, &fault);
    if (!q->is_out) {
        free_call(q);
    }
}

/* ---- a change: confirmed by whom ---- */

/* Names of those that have not; borrowed from the member list. */
static size_t unconfirmed(const struct queue_call *q, const char **names)
{
    size_t member_count;
    const struct member *members = broker_members(q->service->options.broker, &member_count);
    size_t count = 0;

    for (size_t i = 0; i < member_count && count < MEMBER_COUNT_MAX; i++) {
        if (q->config == 0 || members[i].config < q->config) {
            names[count++] = members[i].name;
        }
    }
    return count;
}

static int write_change(const struct queue_call *q, const char *const *names, size_t count,
                        struct buf *out)
{
    const struct queue_reply reply = {q->put.queue, names, count};

    return codec_write_queue_reply(&reply, out);
}

static void answer_change(struct queue_call *q, const char **names, size_t count)
{
    queue_call_reply(q, q->answer(q, names, count, service_scratch(q->service)));
}

static void look_for_confirmations(struct queue_call *q)
{
    const char *names[MEMBER_COUNT_MAX];
    size_t count = unconfirmed(q, names);

    if (q->rpc == NULL || count == 0 || q->config == 0 ||
        loop_now_us(q->service->options.loop) >= q->give_up_us) {
        answer_change(q, names, count);
    } else {
        loop_timer_start_in(&q->look, CONFIRM_LOOK_MS);
    }
}

static void on_look(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    look_for_confirmations(ctx);
}

/* It is durable, whether we could read it back or not. */
static void on_read_back(struct queue_wait *wait, int err)
{
    struct queue_call *q = CONTAINER_OF(wait, struct queue_call, wait);

    (void)err;
    q->is_out = false;
    q->give_up_us = loop_now_us(q->service->options.loop) + CONFIRM_WAIT_MS * US_PER_MS;
    look_for_confirmations(q);
}

static void read_back(struct queue_call *q)
{
    q->is_out = true;
    q->wait.cb = on_read_back;
    queue_sync_refresh(q->service->options.queues, &q->wait);
}

/* A nudge that fails only costs the others time: they read home now and then, and when they meet
 * the queue. */
static void on_nudge(struct coord_request *request)
{
    struct queue_call *q = request->owner;

    q->is_out = false;
    q->config = request->result == 0 ? request->generation : 0;
    read_back(q);
}

void queue_call_changed(struct queue_call *q)
{
    struct coord *coord = q->service->options.coord;

    q->nudge = (struct coord_request){.kind = COORD_NUDGE, .cb = on_nudge, .owner = q};
    list_init(&q->nudge.link);
    if (coord->submit(coord, &q->nudge) == 0) {
        q->is_out = true;
    } else {
        read_back(q);
    }
}

static void put_fault(const struct store_queue_put *put, struct fault *fault)
{
    const struct queue *queue = &put->queue;

    switch (put->result) {
    case ERR_EXISTS:
        fault_set(fault, RPC_ALREADY_EXISTS, REASON_QUEUE_EXISTS, "queue.name",
                  "queue \"%s\" exists in namespace \"%s\": change it by Update", queue->name,
                  queue->tenant);
        break;
    case ERR_NOT_FOUND:
        service_queue_fault(fault, &(struct queue_name){queue->tenant, queue->name});
        break;
    case ERR_CONFLICT:
        fault_set(fault, RPC_FAILED_PRECONDITION, REASON_QUEUE_CHANGED, "queue.version",
                  "queue \"%s\" has another version than the one given: read it again",
                  queue->name);
        break;
    case ERR_OUTCOME_UNKNOWN:
        service_unknown_fault(fault);
        break;
    case ERR_FULL:
        fault_set(fault, RPC_RESOURCE_EXHAUSTED, "QUEUE_COUNT_MAX", "queue.name",
                  "there are %d queues already, which is QUEUE_COUNT_MAX", QUEUE_COUNT_MAX);
        break;
    default:
        fault_set_err(fault, put->result, "cannot write the queue to the home database");
        fault->retry_after_ms = SERVICE_RETRY_MS;
        break;
    }
}

static void on_put(struct store_queue_put *put)
{
    struct queue_call *q = put->owner;
    struct fault fault;

    q->is_out = false;
    if (put->result == 0) {
        queue_call_changed(q);
    } else if (put->result == ERR_CONFLICT && q->version == 0 && q->rpc != NULL &&
               ++q->tries < CHANGE_TRIES_MAX) {
        q->was_sent = false;
        queue_call_change(q, q->apply);
    } else {
        put_fault(put, &fault);
        queue_call_fail(q, &fault);
    }
}

static void put(struct queue_call *q, uint32_t expected_version)
{
    struct store *store = q->service->options.store;
    struct fault fault;
    int err;

    list_init(&q->put.link);
    q->put.expected_version = expected_version;
    q->put.cb = on_put;
    q->put.owner = q;
    err = store->queue_put(store, &q->put);
    if (err == 0) {
        q->is_out = true;
        q->was_sent = true;
        return;
    }
    fault_set_err(&fault, err, "cannot write the queue to the home database");
    fault.retry_after_ms = SERVICE_RETRY_MS;
    queue_call_fail(q, &fault);
}

const struct queue *queue_call_present(struct queue_call *q, int err)
{
    const struct queue *present =
        broker_queue_by_name(q->service->options.broker, q->name.tenant, q->name.name);
    struct fault fault;

    q->is_out = false;
    if (err != 0) {
        fault_set_err(&fault, err, "cannot read the queues from the home database");
        fault.retry_after_ms = SERVICE_RETRY_MS;
        queue_call_fail(q, &fault);
        return NULL;
    }
    if (present == NULL || q->rpc == NULL) {
        service_queue_fault(&fault, &q->name);
        queue_call_fail(q, &fault);
        return NULL;
    }
    return present;
}

void queue_call_read_home(struct queue_call *q, queue_wait_cb cb)
{
    q->is_out = true;
    q->wait.cb = cb;
    queue_sync_refresh(q->service->options.queues, &q->wait);
}

/* Without a version the present one is replaced, whatever it is. */
static void on_present(struct queue_wait *wait, int err)
{
    struct queue_call *q = CONTAINER_OF(wait, struct queue_call, wait);
    const struct queue *present = queue_call_present(q, err);
    struct fault fault;

    if (present == NULL) {
        return;
    }
    if (q->apply(q, present, &fault) != 0) {
        queue_call_fail(q, &fault);
    } else {
        put(q, q->version != 0 ? q->version : present->version);
    }
}

void queue_call_change(struct queue_call *q, queue_apply_fn apply)
{
    q->apply = apply;
    queue_call_read_home(q, on_present);
}

/* ---- the start ---- */

struct queue_call *queue_call_new(struct service *service, struct rpc_call *rpc)
{
    struct queue_call *q = mem_new(1, sizeof(*q));
    struct fault fault;

    if (q == NULL) {
        fault_set_err(&fault, ERR_NO_MEMORY, "cannot take the call");
        service_fail(service, rpc, &fault);
        return NULL;
    }
    q->service = service;
    q->rpc = rpc;
    q->answer = write_change;
    arena_init(&q->arena, 0);
    loop_timer_init(&q->look, service->options.loop, on_look, q);
    service_enter(service, 0);
    rpc_call_on_cancel(rpc, on_cancel, q);
    return q;
}

/* A change that the operator's list allows; false if the call has been answered. */
static bool read_change(struct queue_call *q, struct slice request)
{
    struct fault fault;

    if (codec_read_queue(request, &q->arena, &q->put.queue, &fault) != 0) {
        queue_call_fail(q, &fault);
        return false;
    }
    if (!outbound_allows(&q->service->options.config->targets_allow, q->put.queue.target)) {
        fault_set(&fault, RPC_PERMISSION_DENIED, REASON_TARGET_NOT_ALLOWED, "queue.target",
                  "target \"%.200s\" is not on the operator's list, the setting targets.allow",
                  q->put.queue.target);
        queue_call_fail(q, &fault);
        return false;
    }
    return true;
}

void service_queue_create(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct queue_call *q = queue_call_new(ctx, rpc);

    if (q != NULL && read_change(q, request)) {
        put(q, 0);
    }
}

/* What Update does not say stays: pause and drain have calls of their own. */
static int apply_policy(struct queue_call *q, const struct queue *present,
                        struct fault *fault UNUSED)
{
    q->put.queue.is_paused = present->is_paused;
    q->put.queue.paused_until_ms = present->paused_until_ms;
    q->put.queue.is_draining = present->is_draining;
    return 0;
}

void service_queue_update(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct queue_call *q = queue_call_new(ctx, rpc);

    if (q == NULL || !read_change(q, request)) {
        return;
    }
    q->name = (struct queue_name){q->put.queue.tenant, q->put.queue.name};
    q->version = q->put.queue.version;
    queue_call_change(q, apply_policy);
}

/* ---- reads, always from home ---- */

static void on_get(struct store_queue_list *list)
{
    struct queue_call *q = list->owner;
    struct fault fault;

    q->is_out = false;
    if (list->result != 0) {
        fault_set_err(&fault, list->result, "cannot read the queues from the home database");
        fault.retry_after_ms = SERVICE_RETRY_MS;
        queue_call_fail(q, &fault);
        return;
    }
    for (size_t i = 0; i < list->row_count; i++) {
        const struct queue *queue = &list->rows[i];

        if (strcmp(queue->name, q->name.name) == 0 && strcmp(queue->tenant, q->name.tenant) == 0) {
            const struct queue_reply reply = {*queue, NULL, 0};
            struct buf *out = service_scratch(q->service);

            queue_call_reply(q, codec_write_queue_reply(&reply, out));
            return;
        }
    }
    service_queue_fault(&fault, &q->name);
    queue_call_fail(q, &fault);
}

static void read_home(struct queue_call *q, store_queue_list_cb cb)
{
    struct store *store = q->service->options.store;
    struct fault fault;
    int err;

    list_init(&q->list.link);
    q->list.cb = cb;
    q->list.owner = q;
    err = store->queue_list(store, &q->list);
    if (err == 0) {
        q->is_out = true;
        return;
    }
    fault_set_err(&fault, err, "cannot read the queues from the home database");
    fault.retry_after_ms = SERVICE_RETRY_MS;
    queue_call_fail(q, &fault);
}

void service_queue_get(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct queue_call *q = queue_call_new(ctx, rpc);
    struct fault fault;

    if (q == NULL) {
        return;
    }
    if (codec_read_queue_name(request, &q->arena, &q->name, &fault) != 0) {
        queue_call_fail(q, &fault);
        return;
    }
    read_home(q, on_get);
}

static bool is_listed(const struct queue_call *q, const struct queue *queue)
{
    return queue->id > q->request.after_id &&
           (q->request.tenant[0] == '\0' || strcmp(queue->tenant, q->request.tenant) == 0);
}

/* One page; the last id on it if there are more. */
static int write_page(const struct queue_call *q, const struct store_queue_list *list,
                      struct buf *out)
{
    uint32_t count = 0;
    uint32_t last_id = 0;
    bool has_more = false;
    int err = 0;

    for (size_t i = 0; i < list->row_count && err == 0 && !has_more; i++) {
        const struct queue *queue = &list->rows[i];

        if (!is_listed(q, queue)) {
            continue;
        }
        has_more = count == q->request.page_size;
        if (!has_more) {
            err = codec_write_queue_list_item(queue, out);
            last_id = queue->id;
            count++;
        }
    }
    return err != 0 ? err : codec_write_queue_list_end(has_more ? last_id : 0, out);
}

static void on_list(struct store_queue_list *list)
{
    struct queue_call *q = list->owner;
    struct fault fault;

    q->is_out = false;
    if (list->result != 0) {
        fault_set_err(&fault, list->result, "cannot read the queues from the home database");
        fault.retry_after_ms = SERVICE_RETRY_MS;
        queue_call_fail(q, &fault);
        return;
    }
    queue_call_reply(q, write_page(q, list, service_scratch(q->service)));
}

void service_queue_list(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct queue_call *q = queue_call_new(ctx, rpc);
    struct fault fault;

    if (q == NULL) {
        return;
    }
    if (codec_read_queue_list(request, &q->arena, &q->request, &fault) != 0) {
        queue_call_fail(q, &fault);
        return;
    }
    read_home(q, on_list);
}
