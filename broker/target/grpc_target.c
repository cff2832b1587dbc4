/* SPDX-License-Identifier: Apache-2.0
 *
 * One rpc_request per attempt.
 */
#include "broker/target/grpc_target.h"

#include "broker/target/verdict.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define METADATA_COUNT_MAX 8
#define NUMBER_SIZE        24

/* Must not move: metadata points into it. */
struct method_call {
    struct rpc_request request;
    struct target *target;
    struct target_call *call;
    struct call_history history;
    struct rpc_metadata metadata[METADATA_COUNT_MAX];
    char id[TASK_ID_TEXT_LEN + 1];
    char attempt[NUMBER_SIZE];
    char due[NUMBER_SIZE];
    char deadline[NUMBER_SIZE];
};

static void add_metadata(struct method_call *mc, const char *name, struct slice value)
{
    ENSURE(mc->request.metadata_count < METADATA_COUNT_MAX);
    mc->metadata[mc->request.metadata_count++] = (struct rpc_metadata){name, value};
}

static void fill_metadata(struct method_call *mc, const struct target_call *call)
{
    task_id_format(call->id, mc->id);
    (void)snprintf(mc->attempt, sizeof(mc->attempt), "%" PRIu32, call->attempt);
    (void)snprintf(mc->due, sizeof(mc->due), "%" PRId64, call->due_ms);
    (void)snprintf(mc->deadline, sizeof(mc->deadline), "%" PRId64, call->deadline_ms);
    mc->request.metadata = mc->metadata;
    add_metadata(mc, METADATA_TASK_ID, slice_of(mc->id));
    add_metadata(mc, METADATA_ATTEMPT, slice_of(mc->attempt));
    add_metadata(mc, METADATA_DUE_TIME, slice_of(mc->due));
    add_metadata(mc, METADATA_DEADLINE, slice_of(mc->deadline));
    add_metadata(mc, METADATA_NAMESPACE, slice_of(call->tenant));
    add_metadata(mc, METADATA_QUEUE, slice_of(call->queue));
    if (call->key.len > 0) {
        add_metadata(mc, METADATA_KEY, call->key);
    }
    if (call->order_key.len > 0) {
        add_metadata(mc, METADATA_ORDER_KEY, call->order_key);
    }
}

/* The attempt timeout runs from here, not from the time in the queue. */
static bool before_send(struct rpc_request *request, void *ctx)
{
    struct method_call *mc = ctx;
    boot_us at_us = clock_boot_us();

    if (!mc->call->may_start(mc->call, at_us)) {
        mc->history.was_withdrawn = true;
        return false;
    }
    request->deadline_us =
        time_min(time_add(at_us, time_mul(mc->call->timeout_ms, US_PER_MS)), mc->call->over_by_us);
    return true;
}

/* We were held up between the check and the send: end the call, it may have been seen. */
static void on_sent(struct rpc_request *request, boot_us sent_us, void *ctx)
{
    struct method_call *mc = ctx;

    if (!mc->call->may_start(mc->call, sent_us)) {
        mc->history.was_reset = true;
        rpc_channel_cancel(request);
    }
}

static void on_reply(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct method_call *mc = ctx;
    struct target *target = mc->target;
    struct target_call *call = mc->call;
    struct target_result result;
    char text[ERROR_TEXT_BYTES_MAX];

    (void)request;
    mc->history.was_waiting = rpc_channel_get_state(target->channel) == RPC_CHANNEL_READY;
    verdict_of_reply(reply, &mc->history, text, sizeof(text), &result);
    mem_free(mc);
    REQUIRE(target->live > 0);
    target->live--;
    call->done(call, &result);
}

int grpc_target_start(struct target *target, struct target_call *call)
{
    struct method_call *mc;
    int err;

    if (target->live >= target->live_max) {
        return ERR_FULL;
    }
    mc = mem_new(1, sizeof(*mc));
    if (mc == NULL) {
        return ERR_NO_MEMORY;
    }
    mc->target = target;
    mc->call = call;
    mc->request = (struct rpc_request){
        .path = call->path,
        .payload = call->payload,
        .deadline_us = call->over_by_us,
        .start_by_us = call->start_by_us,
        .before_send = before_send,
        .sent = on_sent,
        .cb = on_reply,
        .ctx = mc,
    };
    fill_metadata(mc, call);
    err = rpc_channel_call(target->channel, &mc->request);
    if (err != 0) {
        mem_free(mc);
        return err;
    }
    target->live++;
    return 0;
}
