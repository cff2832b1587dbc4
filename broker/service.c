/* SPDX-License-Identifier: Apache-2.0
 *
 * The method table, and what all methods share.
 */
#include "broker/service.h"

#include "broker/service_parts.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "proto/codec_peer.h"
#include "proto/route.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *path;
    rpc_handler_fn handler;
} METHODS[] = {
    {"/foliot.v1.TaskService/Create", service_create},
    {"/foliot.v1.TaskService/BatchCreate", service_batch_create},
    {"/foliot.v1.TaskService/Get", service_get},
    {"/foliot.v1.TaskService/Cancel", service_cancel},
    {"/foliot.v1.TaskService/Update", service_update},
    {"/foliot.v1.TaskService/BatchCancel", service_batch_cancel},
    {"/foliot.v1.TaskService/RunNow", service_run_now},
    {"/foliot.v1.TaskService/List", service_list},
    {"/foliot.v1.TaskService/Explain", service_explain},
    {"/foliot.v1.QueueService/Create", service_queue_create},
    {"/foliot.v1.QueueService/Get", service_queue_get},
    {"/foliot.v1.QueueService/List", service_queue_list},
    {"/foliot.v1.QueueService/Update", service_queue_update},
    {"/foliot.v1.QueueService/Pause", service_queue_pause},
    {"/foliot.v1.QueueService/Resume", service_queue_resume},
    {"/foliot.v1.QueueService/Drain", service_queue_drain},
    {"/foliot.v1.QueueService/Delete", service_queue_delete},
    {"/foliot.v1.QueueService/GetStats", service_queue_stats},
    {"/foliot.v1.QueueService/ListDead", service_dead_list},
    {"/foliot.v1.QueueService/GroupDead", service_dead_group},
    {"/foliot.v1.QueueService/RedriveDead", service_dead_redrive},
    {"/foliot.v1.QueueService/PurgeDead", service_dead_purge},
    {"/foliot.v1.ClusterService/GetTopology", service_topology},
    {"/foliot.v1.ClusterService/PlanMembers", service_plan_members},
    {"/foliot.v1.ClusterService/DrainBroker", service_drain_broker},
    {PEER_REPORT_PATH, service_report},
};

_Static_assert(ARRAY_COUNT(METHODS) == SERVICE_METHOD_COUNT, "every method has a row");

const struct rpc_method *service_methods(const struct service *service)
{
    return service->methods;
}

/* ---- life ---- */

int service_open(const struct service_options *options, struct service **out)
{
    struct service *service = mem_new(1, sizeof(*service));
    int err;

    if (service == NULL) {
        return ERR_NO_MEMORY;
    }
    service->options = *options;
    buf_init(&service->scratch, RPC_MESSAGE_BYTES_MAX);
    list_init(&service->tellings);
    err = peers_open(
        &(struct peers_options){options->loop, options->resolver, options->tls, options->name},
        &service->peers);
    if (err != 0) {
        mem_free(service);
        return err;
    }
    for (size_t i = 0; i < SERVICE_METHOD_COUNT; i++) {
        service->methods[i] = (struct rpc_method){
            .path = METHODS[i].path, .handler = METHODS[i].handler, .ctx = service};
    }
    *out = service;
    return 0;
}

/* Posted, so that nobody who still looks at the service is on the stack. */
static void on_empty(void *ctx)
{
    struct service *service = ctx;
    service_cb cb = service->cb;
    void *cb_ctx = service->ctx;

    ENSURE(service->open_count == 0 && service->task_count == 0);
    buf_fini(&service->scratch);
    mem_free(service);
    cb(cb_ctx);
}

static void try_finish(struct service *service)
{
    if (service->is_closing && service->peers == NULL && service->open_count == 0) {
        loop_post(service->options.loop, &service->closed);
    }
}

static void on_peers_closed(void *ctx)
{
    struct service *service = ctx;

    service->peers = NULL;
    try_finish(service);
}

void service_close(struct service *service, service_cb cb, void *ctx)
{
    service->is_closing = true;
    service->cb = cb;
    service->ctx = ctx;
    loop_task_init(&service->closed, on_empty, service);
    service_drop_reports(service);
    peers_close(service->peers, on_peers_closed, service);
}

void service_enter(struct service *service, uint32_t tasks)
{
    service->open_count++;
    service->task_count += tasks;
}

void service_leave(struct service *service, uint32_t tasks)
{
    REQUIRE(service->open_count > 0 && service->task_count >= tasks);
    service->open_count--;
    service->task_count -= tasks;
    try_finish(service);
}

bool service_has_room(const struct service *service, uint32_t tasks, struct fault *fault)
{
    if (service->task_count + tasks <= (uint64_t)service->options.config->limits_calls) {
        return true;
    }
    fault_set(fault, RPC_RESOURCE_EXHAUSTED, REASON_TOO_MANY_CALLS, NULL,
              "%" PRIu32 " tasks wait for an answer here, limits.calls is %" PRId64
              ": try again later or at another broker",
              service->task_count, service->options.config->limits_calls);
    fault->retry_after_ms = SERVICE_RETRY_MS;
    return false;
}

void service_get_stats(const struct service *service, struct service_stats *out)
{
    *out = (struct service_stats){
        .forwarded = service->forward_count,
        .owner_waits = service->owner_waits,
        .unknown = service->unknown_count,
        .tasks_waiting = service->task_count,
        .reports_told = service->reports_told,
        .reports_useless = service->reports_useless,
        .reports_dropped = service->reports_dropped,
        .reports_taken = service->reports_taken,
        .reports_refused = service->reports_refused,
        .reports_waiting = service->reports_waiting,
    };
}

/* ---- answers ---- */

struct buf *service_scratch(struct service *service)
{
    buf_clear(&service->scratch);
    return &service->scratch;
}

void service_fail(struct service *service, struct rpc_call *rpc, const struct fault *fault)
{
    struct buf *details = service_scratch(service);
    struct fault said = *fault;
    struct rpc_failure failure = {.status = fault->status, .message = said.message};

    if (said.status == RPC_UNAVAILABLE && said.retry_after_ms == 0) {
        said.retry_after_ms = SERVICE_RETRY_MS; // Whatever it is, it is worth another try.
    }
    failure.retry_delay = said.retry_after_ms;
    service->unknown_count += strcmp(said.reason, REASON_OUTCOME_UNKNOWN) == 0;
    if (fault_encode(&said, details) == 0) {
        failure.details = buf_slice(details);
    }
    rpc_call_fail_with(rpc, &failure);
}

void service_reply(struct service *service, struct rpc_call *rpc, int err)
{
    struct fault fault;

    if (err == 0) {
        rpc_call_reply(rpc, buf_slice(&service->scratch));
        return;
    }
    /* It is done, only the answer cannot be written. */
    service_unknown_fault(&fault);
    service_fail(service, rpc, &fault);
}

bool service_is_forwarded(const struct rpc_call *rpc)
{
    return rpc_call_metadata(rpc, METADATA_FORWARDED).data != NULL;
}

void service_unknown_fault(struct fault *fault)
{
    fault_set(
        fault, RPC_UNKNOWN, REASON_OUTCOME_UNKNOWN, NULL,
        "the outcome is unknown: it may have happened; repeat the call with its key, or look");
}

void service_owner_fault(struct fault *fault, uint32_t shard, bool is_forwarded)
{
    if (is_forwarded) {
        fault_set(fault, RPC_UNAVAILABLE, REASON_NOT_OWNER, NULL,
                  "shard %" PRIu32 " is not served by this broker, and the call was passed on once "
                  "already: nothing happened",
                  shard);
    } else {
        fault_set(fault, RPC_UNAVAILABLE, REASON_OWNER_UNKNOWN, NULL,
                  "no broker has taken calls for shard %" PRIu32
                  " for %d ms: nothing happened, try "
                  "again",
                  shard, SERVICE_OWNER_WAIT_MS);
        fault->retry_after_ms = SERVICE_RETRY_MS;
    }
}

void service_queue_fault(struct fault *fault, const struct queue_name *name)
{
    fault_set(fault, RPC_NOT_FOUND, REASON_QUEUE_NOT_FOUND, "queue",
              "queue \"%s\" does not exist in namespace \"%s\": create it by "
              "foliot.v1.QueueService/Create",
              name->name, name->tenant);
}

void service_draining_fault(struct fault *fault, const struct queue_name *name)
{
    fault_set(fault, RPC_FAILED_PRECONDITION, REASON_QUEUE_DRAINING, "queue",
              "queue \"%s\" in namespace \"%s\" is draining and takes no more tasks: resume it by "
              "foliot.v1.QueueService/Resume, or use another queue",
              name->name, name->tenant);
}

static void exists_fault(const struct call *call, struct fault *fault)
{
    char id[TASK_ID_TEXT_LEN + 1];

    task_id_format(call->found, id);
    fault_set(fault, RPC_ALREADY_EXISTS, REASON_KEY_EXISTS, "key",
              "the key is held by task %s: use another key, or key_policy KEEP or REPLACE", id);
}

void service_core_fault(const struct call *call, const char *what, struct fault *fault)
{
    REQUIRE(call->result != 0 && call->result != ERR_FENCED);
    switch (call->result) {
    case ERR_EXISTS:
        exists_fault(call, fault);
        break;
    case ERR_NOT_FOUND:
        fault_set(fault, RPC_NOT_FOUND, REASON_TASK_NOT_FOUND, NULL,
                  "%s: no task with this id or key was ever made here, or its key is forgotten",
                  what);
        break;
    case ERR_CONFLICT:
        fault_set(fault, RPC_FAILED_PRECONDITION, REASON_QUEUE_DRAINING, "queue",
                  "%s: its queue is draining and takes no more tasks: resume it by "
                  "foliot.v1.QueueService/Resume, or use another queue",
                  what);
        break;
    case ERR_GONE:
        fault_set(fault, RPC_NOT_FOUND, REASON_TASK_GONE, NULL, "%s: the task is no longer pending",
                  what);
        break;
    case ERR_OUTCOME_UNKNOWN:
        service_unknown_fault(fault);
        break;
    case ERR_FULL:
        fault_set(fault, RPC_RESOURCE_EXHAUSTED, REASON_OVERLOADED, NULL,
                  "%s: this broker has too much to do: nothing happened, try again", what);
        break;
    default:
        fault_set_err(fault, call->result, what);
        break;
    }
    if (call->result == ERR_FULL || call->result == ERR_UNAVAILABLE) {
        fault->retry_after_ms = call->retry_after_ms > 0 ? call->retry_after_ms : SERVICE_RETRY_MS;
    }
}

struct create_reply service_create_reply(const struct call *call)
{
    return (struct create_reply){
        .id = call->found, .created = call->created, .due_ms = call->found_due_ms};
}

struct task_id service_call_id(const struct call *call)
{
    return call->task.id.seq != 0 ? call->task.id : call->found;
}

struct cancel_reply service_cancel_reply(const struct call *call)
{
    return (struct cancel_reply){(enum cancel_answer)call->cancel, call->attempt,
                                 service_call_id(call)};
}

/* ---- where a call goes ---- */

enum forward_end service_judge(const struct rpc_reply *reply, bool is_read)
{
    if (reply->status == RPC_OK) {
        return FORWARD_ANSWER;
    }
    if (reply->unprocessed) {
        return FORWARD_AGAIN;
    }
    if (reply->from_peer) {
        /* Our own word for "nothing happened". */
        return reply->status == RPC_UNAVAILABLE ? FORWARD_AGAIN : FORWARD_ANSWER;
    }
    return is_read ? FORWARD_AGAIN : FORWARD_UNKNOWN;
}

int service_pass_on(struct service *service, const char *address, struct rpc_request *request)
{
    int err = service->is_closing ? ERR_CLOSED : peers_call(service->peers, address, request);

    service->forward_count += err == 0;
    return err;
}

boot_us service_forward_deadline(const struct service *service, const struct rpc_call *rpc)
{
    boot_us longest = time_add(loop_now_us(service->options.loop), FORWARD_TIMEOUT_MS * US_PER_MS);

    return time_min(rpc_call_deadline_us(rpc), longest);
}

enum route service_route(const struct service *service, uint16_t slot, const char **address)
{
    const struct broker *broker = service->options.broker;

    return broker_route(broker, shard_of_slot(slot, broker_shard_count(broker)), address);
}

/* All tasks of an order key lie in one slot, whatever their keys. */
static uint16_t slot_of(const struct queue_name *queue, struct slice order_key, struct slice key)
{
    return route_key_slot(queue->tenant, queue->name, order_key.len > 0 ? order_key : key);
}

void service_set_create(struct call *call, const struct create_request *create)
{
    call->kind = CALL_CREATE;
    call->task.payload = create->payload;
    call->task.payload_len = (uint32_t)create->payload.len;
    call->task.key = create->stored_key;
    call->task.order_key = create->order_key;
    call->task.tags = create->tags;
    call->task.expire_ms = create->expire_ms;
    call->key_policy = create->key_policy;
    call->replace_latest_ms = create->latest_ms;
    service_set_when(call, &create->when);
    if (create->order_key.len > 0 || create->key.len > 0) {
        call->task.id.slot = slot_of(&create->queue, create->order_key, create->key);
    }
}

const struct now *service_sample(const struct service *service)
{
    if (service->options.sample != NULL) {
        service->options.sample(service->options.sample_ctx);
    }
    return service->options.now;
}

void service_set_name(struct call *call, const struct task_name *name)
{
    call->task.id = name->id;
    call->task.key = name->stored_key;
    if (name->id.seq == 0) {
        call->task.id.slot = slot_of(&name->queue, name->order_key, name->key);
    }
}

void service_set_when(struct call *call, const struct when *when)
{
    switch (when->kind) {
    case WHEN_NONE:
        call->is_delay = true;
        call->delay_ms = 0;
        break;
    case WHEN_DUE:
        call->task.due_ms = when->due_ms;
        break;
    case WHEN_DELAY:
        call->is_delay = true;
        call->delay_ms = when->delay_ms;
        break;
    }
}
