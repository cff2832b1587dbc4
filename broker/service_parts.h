/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the service share: its state, answers, and the decision what to do with a call
 * whose shard is elsewhere. Private to broker/service*.
 */
#ifndef FOLIOT_BROKER_SERVICE_PARTS_H
#define FOLIOT_BROKER_SERVICE_PARTS_H

#include "broker/peers.h"
#include "broker/service.h"
#include "lib/io/loop.h"
#include "proto/codec_task.h"

/* A call looks again for the owner of its shard this often. */
#define SERVICE_LOOK_MS 20

/* What a refused caller is told to wait. */
#define SERVICE_RETRY_MS 500

/* Reasons that callers may switch on; docs/ERRORS.md. */
#define REASON_NOT_OWNER          "NOT_OWNER"
#define REASON_OWNER_UNKNOWN      "OWNER_UNKNOWN"
#define REASON_OUTCOME_UNKNOWN    "OUTCOME_UNKNOWN"
#define REASON_QUEUE_NOT_FOUND    "QUEUE_NOT_FOUND"
#define REASON_QUEUE_EXISTS       "QUEUE_EXISTS"
#define REASON_QUEUE_CHANGED      "QUEUE_CHANGED"
#define REASON_QUEUE_DRAINING     "QUEUE_DRAINING"
#define REASON_QUEUE_NOT_DRAINING "QUEUE_NOT_DRAINING"
#define REASON_QUEUE_NOT_EMPTY    "QUEUE_NOT_EMPTY"
#define REASON_QUEUE_UNCONFIRMED  "QUEUE_UNCONFIRMED"
#define REASON_TARGET_NOT_ALLOWED "TARGET_NOT_ALLOWED"
#define REASON_TASK_NOT_FOUND     "TASK_NOT_FOUND"
#define REASON_TASK_GONE          "TASK_GONE"
#define REASON_KEY_EXISTS         "KEY_EXISTS"
#define REASON_CLAIM_NOT_LIVE     "CLAIM_NOT_LIVE"
#define REASON_BROKER_NOT_FOUND   "BROKER_NOT_FOUND"
#define REASON_BROKER_EXISTS      "BROKER_EXISTS"
#define REASON_OVERLOADED         "OVERLOADED"
#define REASON_TOO_MANY_CALLS     "LIMITS_CALLS"

/*
 * 1. open_count objects (calls of tasks, batches, queues) are waiting for something.
 * 2. task_count is the number of tasks in them, at most config.limits_calls.
 */
struct service {
    struct service_options options;
    struct rpc_method methods[SERVICE_METHOD_COUNT];
    struct peers *peers; /* NULL once they are closed */
    struct buf scratch;  /* an answer while it is written */
    uint32_t open_count;
    uint32_t task_count;
    uint64_t forward_count;
    uint64_t owner_waits;
    uint64_t unknown_count;
    struct list tellings; /* struct telling: outcomes on their way, reports_waiting of them */
    uint32_t reports_waiting;
    size_t report_bytes; /* of their responses */
    uint64_t reports_told;
    uint64_t reports_useless;
    uint64_t reports_dropped;
    uint64_t reports_taken;
    uint64_t reports_refused;
    bool is_closing;
    service_cb cb;
    void *ctx;
    struct loop_task closed;
};

/* The time, not before the moment when the call in hand was read: its delays count from it. */
const struct now *service_sample(const struct service *service);

/* Count an object of `tasks` tasks in and out; service_leave may end a close. */
void service_enter(struct service *service, uint32_t tasks);
void service_leave(struct service *service, uint32_t tasks);

/* Is there room for so many more tasks? If not the fault says what limit was met. */
MUST_USE bool service_has_room(const struct service *service, uint32_t tasks, struct fault *fault);

/* Answer a call with a fault. The call is gone. */
void service_fail(struct service *service, struct rpc_call *rpc, const struct fault *fault);

/* Answer with what a codec function has written into the scratch buffer; err is what it returned.
 */
void service_reply(struct service *service, struct rpc_call *rpc, int err);

/* The scratch buffer, empty. */
struct buf *service_scratch(struct service *service);

/* Was this call passed on to us by another broker? Then it goes no further. */
bool service_is_forwarded(const struct rpc_call *rpc);

/* What the core answered, as a fault. shape: result is not 0 and not ERR_FENCED. */
void service_core_fault(const struct call *call, const char *what, struct fault *fault);

/* A row as it is shown; its state is the caller's to say. Borrows from row and queues. */
void service_fill_view(const struct broker *broker, const struct task *row, struct task_view *view);

/* Write the answer of Explain for a task as Get has found it. errors: as buf_append. */
MUST_USE int service_write_explain(const struct service *service, const struct call *call,
                                   const struct task_view *view, struct buf *out);

/* Write the answer of Get for a task that has ended. errors: as buf_append. */
MUST_USE int service_write_ended(const struct service *service, const struct ended_task *ended,
                                 struct buf *out);

/* What a create that went well is answered. */
struct create_reply service_create_reply(const struct call *call);

void service_unknown_fault(struct fault *fault);
void service_owner_fault(struct fault *fault, uint32_t shard, bool is_forwarded);
void service_queue_fault(struct fault *fault, const struct queue_name *name);

void service_draining_fault(struct fault *fault, const struct queue_name *name);

/* What the end of a call that was passed on means. */
enum forward_end {
    FORWARD_ANSWER = 1, /* the owner's answer: hand it on, whatever it is */
    FORWARD_AGAIN,      /* nothing happened: look for the owner again */
    FORWARD_UNKNOWN     /* it may have happened */
};

/* shape: is_read: the call changes nothing, so it can always be made again. */
enum forward_end service_judge(const struct rpc_reply *reply, bool is_read);

/* Pass a call on. errors: as peers_call; ERR_CLOSED while we close. Nothing follows then. */
MUST_USE int service_pass_on(struct service *service, const char *address,
                             struct rpc_request *request);

/* When a call that is passed on ends. */
boot_us service_forward_deadline(const struct service *service, const struct rpc_call *rpc);

/* Where a call's shard is served, as broker_route(). */
enum route service_route(const struct service *service, uint16_t slot, const char **address);

/* Fill in what a create request says, but for the number of its queue; the slot if it has a key. */
void service_set_create(struct call *call, const struct create_request *create);

/* Fill in the task that a request names: the slot comes from the id, or from queue and key. */
void service_set_name(struct call *call, const struct task_name *name);

/* What a cancel that went well is answered. */
struct cancel_reply service_cancel_reply(const struct call *call);

/* The task that a call was about: the one it named, or the one that holds the key. */
struct task_id service_call_id(const struct call *call);

/* Turn a wire time into the call's. shape: WHEN_NONE is at once for a create, and unset else. */
void service_set_when(struct call *call, const struct when *when);

/* Give up the outcomes that wait to be told. shape: is_closing. */
void service_drop_reports(struct service *service);

/* Handlers of the files; ctx is the service. */
void service_create(struct rpc_call *rpc, struct slice request, void *ctx);
void service_get(struct rpc_call *rpc, struct slice request, void *ctx);
void service_cancel(struct rpc_call *rpc, struct slice request, void *ctx);
void service_update(struct rpc_call *rpc, struct slice request, void *ctx);
void service_explain(struct rpc_call *rpc, struct slice request, void *ctx);
void service_list(struct rpc_call *rpc, struct slice request, void *ctx);
void service_run_now(struct rpc_call *rpc, struct slice request, void *ctx);
void service_batch_create(struct rpc_call *rpc, struct slice request, void *ctx);
void service_batch_cancel(struct rpc_call *rpc, struct slice request, void *ctx);
void service_queue_create(struct rpc_call *rpc, struct slice request, void *ctx);
void service_queue_update(struct rpc_call *rpc, struct slice request, void *ctx);
void service_queue_get(struct rpc_call *rpc, struct slice request, void *ctx);
void service_queue_list(struct rpc_call *rpc, struct slice request, void *ctx);
void service_queue_pause(struct rpc_call *rpc, struct slice request, void *ctx);
void service_queue_resume(struct rpc_call *rpc, struct slice request, void *ctx);
void service_queue_drain(struct rpc_call *rpc, struct slice request, void *ctx);
void service_queue_delete(struct rpc_call *rpc, struct slice request, void *ctx);
void service_queue_stats(struct rpc_call *rpc, struct slice request, void *ctx);
void service_dead_list(struct rpc_call *rpc, struct slice request, void *ctx);
void service_dead_group(struct rpc_call *rpc, struct slice request, void *ctx);
void service_dead_redrive(struct rpc_call *rpc, struct slice request, void *ctx);
void service_dead_purge(struct rpc_call *rpc, struct slice request, void *ctx);
void service_report(struct rpc_call *rpc, struct slice request, void *ctx);
void service_topology(struct rpc_call *rpc, struct slice request, void *ctx);
void service_plan_members(struct rpc_call *rpc, struct slice request, void *ctx);
void service_drain_broker(struct rpc_call *rpc, struct slice request, void *ctx);

#endif
