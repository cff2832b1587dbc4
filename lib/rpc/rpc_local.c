/* SPDX-License-Identifier: Apache-2.0
 *
 * A call object without a stream, a timer for its deadline, and where its answer goes.
 */
#include "lib/rpc/rpc_local.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"
#include "lib/rpc/rpc_serving.h"

/*
 * 1. call is NULL when the answer has been given; a handler that still runs has an orphan then.
 * 2. is_ending: its end is on the stack, which frees it.
 */
struct rpc_local {
    struct list node; /* in serving->locals */
    struct rpc_serving *serving;
    struct rpc_call *call;
    struct loop_timer timer; /* of the deadline */
    rpc_answer_cb cb;
    void *ctx;
    bool is_ending;
};

/* Give the answer, once, and let go of the call. */
static struct rpc_call *give(struct rpc_local *local, const struct rpc_answer *answer)
{
    struct rpc_call *call = local->call;

    local->call = NULL;
    call->local = NULL;
    call->is_answered = true;
    local->serving->stats.calls_by_status[answer->status]++;
    loop_timer_stop(&local->timer);
    list_del(&local->node);
    local->cb(answer, local->ctx);
    if (local->serving->call_finished != NULL) {
        local->serving->call_finished(local->serving->ctx);
    }
    return call;
}

void rpc_local_answer(struct rpc_local *local, const struct rpc_answer *answer)
{
    rpc_call_free(give(local, answer));
    if (!local->is_ending) {
        mem_free(local);
    }
}

/* Nobody waits any more: the handler may say how it stands, else this is the answer. */
static void end(struct rpc_local *local, enum rpc_status status, const char *message)
{
    struct rpc_answer answer = {.status = status, .message = message};

    local->is_ending = true;
    if (local->call->is_running) {
        rpc_call_cancel(local->call);
    }
    if (local->call != NULL) {
        struct rpc_call *call = give(local, &answer);

        if (!call->is_running) { // It was finished with an answer that came too late.
            rpc_call_free(call);
        }
    }
    mem_free(local);
}

static void on_deadline(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    end(ctx, RPC_DEADLINE_EXCEEDED, "the deadline has passed");
}

void rpc_local_end_all(struct rpc_serving *serving)
{
    struct list *node;

    while ((node = list_first(&serving->locals)) != NULL) {
        end(LIST_ENTRY(node, struct rpc_local, node), RPC_UNKNOWN,
            "the broker ends before the call was answered: it may have happened");
    }
}

/* ---- beginning ---- */

static void refuse(const struct rpc_local_options *options, enum rpc_status status,
                   const char *message)
{
    struct rpc_answer answer = {.status = status, .message = message};

    options->cb(&answer, options->ctx);
}

/* Why a call is not even begun; NULL if nothing speaks against it. */
static const char *find_refusal(const struct rpc_serving *serving,
                                const struct rpc_local_options *options,
                                const struct rpc_method *method, enum rpc_status *status)
{
    *status = RPC_UNAVAILABLE;
    if (serving->is_leaving) {
        return "this broker is ending: nothing happened, try another one";
    }
    *status = RPC_UNIMPLEMENTED;
    if (method == NULL) {
        return "there is no such service or method";
    }
    if (method->is_endless || method->on_message != NULL) {
        return "streams are served over gRPC only";
    }
    *status = RPC_RESOURCE_EXHAUSTED;
    return options->request.len > serving->options.request_bytes_max
               ? "the request is larger than the limit"
               : NULL;
}

static struct rpc_call *new_call(struct rpc_serving *serving,
                                 const struct rpc_local_options *options,
                                 const struct rpc_method *method)
{
    struct rpc_call *call = rpc_call_new(serving, NULL, 0, options->peer);

    if (call == NULL) {
        return NULL;
    }
    call->method = method;
    call->deadline_us = options->deadline_us;
    for (size_t i = 0; i < options->metadata_count; i++) {
        const struct rpc_local_field *one = &options->metadata[i];

        if (rpc_fields_add(&call->metadata, one->name, one->value) != 0) {
            rpc_call_free(call);
            return NULL;
        }
    }
    return call;
}

static struct rpc_local *new_local(struct rpc_serving *serving, struct loop *loop,
                                   const struct rpc_local_options *options, struct rpc_call *call)
{
    struct rpc_local *local = mem_new(1, sizeof(*local));

    if (local == NULL) {
        rpc_call_free(call);
        return NULL;
    }
    local->serving = serving;
    local->call = call;
    local->cb = options->cb;
    local->ctx = options->ctx;
    call->local = local;
    list_init(&local->node);
    list_add(&serving->locals, &local->node);
    loop_timer_init(&local->timer, loop, on_deadline, local);
    if (options->deadline_us != BOOT_NEVER) {
        loop_timer_start(&local->timer, options->deadline_us);
    }
    return local;
}

void rpc_local_start(struct rpc_serving *serving, struct loop *loop,
                     const struct rpc_local_options *options)
{
    const struct rpc_method *method = rpc_methods_find(&serving->methods, options->path);
    enum rpc_status status;
    const char *refusal = find_refusal(serving, options, method, &status);
    struct rpc_call *call;

    // Not the loop's own moment: whoever set the deadline in another thread has read a later one.
    if (refusal == NULL && options->deadline_us <= clock_boot_us()) {
        status = RPC_DEADLINE_EXCEEDED;
        refusal = "the deadline has passed: nothing happened";
    }
    if (refusal != NULL) {
        refuse(options, status, refusal);
        return;
    }
    call = new_call(serving, options, method);
    if (call == NULL || new_local(serving, loop, options, call) == NULL) {
        refuse(options, RPC_RESOURCE_EXHAUSTED, "no memory for the call, or too much metadata");
        return;
    }
    rpc_call_begin(call);
    method->handler(call, options->request, method->ctx);
}
