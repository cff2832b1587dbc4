/* SPDX-License-Identifier: Apache-2.0
 *
 * One rpc_request per batch. A batch is serialized while it gathers. If one of its attempts has
 * become too late by the time of the send, the whole call is withdrawn, and those that may still
 * start gather anew.
 */
#include "broker/target/receiver_target.h"

#include "broker/target/verdict.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "proto/codec_receiver.h"

#include <string.h>

/* Newest batches that are tried for room: attempts with as many different timeouts still gather. */
#define GATHER_LOOK_COUNT 4

/* Must not move while the request is in flight. */
struct delivery_call {
    struct list link; /* in the target's gathering, or in no list */
    struct rpc_request request;
    struct target *target;
    struct call_history history;
    struct list calls; /* struct target_call, in the order of the message */
    uint32_t count;
    span_ms timeout_ms;  /* of all of them */
    boot_us start_by_us; /* the earliest */
    boot_us over_by_us;  /* the earliest */
    struct buf message;
};

static struct target_call *call_of(struct list *node)
{
    return LIST_ENTRY(node, struct target_call, link);
}

static void end_call(struct target *target, struct target_call *call,
                     const struct target_result *result)
{
    list_del(&call->link);
    REQUIRE(target->live > 0);
    target->live--;
    call->done(call, result);
}

static void free_delivery(struct delivery_call *dc)
{
    ENSURE(list_is_empty(&dc->calls));
    buf_fini(&dc->message);
    mem_free(dc);
}

/* ---- the end ---- */

static void result_of_delivery(const struct delivery_result *from, struct target_result *to)
{
    memset(to, 0, sizeof(*to));
    switch (from->outcome) {
    case DELIVERY_DONE:
        to->verdict = TARGET_DONE;
        break;
    case DELIVERY_RETRY:
        to->verdict = TARGET_RETRY;
        break;
    case DELIVERY_DEAD:
        to->verdict = TARGET_DEAD;
        break;
    case DELIVERY_OBSOLETE:
        to->verdict = TARGET_OBSOLETE;
        break;
    }
    to->error_text = from->error;
    to->is_told = true;
    to->response = from->response;
    if (to->verdict == TARGET_RETRY && from->wait.kind == WHEN_DELAY) {
        to->retry_after_ms = time_clamp(from->wait.delay_ms, 0, RETRY_AFTER_MS_MAX);
    } else if (to->verdict == TARGET_RETRY && from->wait.kind == WHEN_DUE) {
        to->retry_at_ms = from->wait.due_ms;
    }
}

static void end_all(struct delivery_call *dc, const struct target_result *result)
{
    struct list *node;

    while ((node = list_first(&dc->calls)) != NULL) {
        end_call(dc->target, call_of(node), result);
    }
}

/* OK, with a result for each. What cannot be read cannot be told: it may all have been done. */
static void end_by_results(struct delivery_call *dc, struct slice payload)
{
    struct delivery_results results;
    struct arena arena;
    struct fault fault;
    size_t index = 0;
    struct list *node;

    arena_init(&arena, 0);
    if (codec_read_deliver_reply(payload, dc->count, &arena, &results, &fault) != 0) {
        struct target_result unknown = {.verdict = TARGET_UNKNOWN,
                                        .error_text = slice_of(fault.message)};

        end_all(dc, &unknown);
    }
    while ((node = list_first(&dc->calls)) != NULL) {
        struct delivery_result one;
        struct target_result result;

        codec_read_delivery_result(&results, index++, &one);
        result_of_delivery(&one, &result);
        end_call(dc->target, call_of(node), &result);
    }
    arena_fini(&arena);
}

/* Those that may still start travel again with the next ones; the others never were sent. */
static void gather_again(struct delivery_call *dc)
{
    const struct target_result late = {.verdict = TARGET_NOT_STARTED};
    boot_us now_us = clock_boot_us();
    struct list *node;

    while ((node = list_first(&dc->calls)) != NULL) {
        struct target_call *call = call_of(node);

        if (call->may_start(call, now_us)) {
            list_del(node);
            dc->target->live--;
            if (receiver_target_start(dc->target, call) == 0) {
                continue;
            }
            dc->target->live++;
            list_add_first(&dc->calls, node);
        }
        end_call(dc->target, call, &late);
    }
}

static void on_reply(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct delivery_call *dc = ctx;
    struct target_result result;
    char text[ERROR_TEXT_BYTES_MAX];

    (void)request;
    if (reply->status == RPC_OK) {
        end_by_results(dc, reply->payload);
    } else if (dc->history.was_withdrawn) {
        gather_again(dc);
    } else {
        dc->history.was_waiting = rpc_channel_get_state(dc->target->channel) == RPC_CHANNEL_READY;
        verdict_of_reply(reply, &dc->history, text, sizeof(text), &result);
        end_all(dc, &result);
    }
    free_delivery(dc);
}

/* ---- the send ---- */

static bool all_may_start(const struct delivery_call *dc, boot_us at_us)
{
    list_foreach (node, &dc->calls) {
        struct target_call *call = call_of(node);

        if (!call->may_start(call, at_us)) {
            return false;
        }
    }
    return true;
}

static bool before_send(struct rpc_request *request, void *ctx)
{
    struct delivery_call *dc = ctx;
    boot_us at_us = clock_boot_us();

    if (!all_may_start(dc, at_us)) {
        dc->history.was_withdrawn = true;
        return false;
    }
    request->deadline_us =
        time_min(time_add(at_us, time_mul(dc->timeout_ms, US_PER_MS)), dc->over_by_us);
    return true;
}

static void on_sent(struct rpc_request *request, boot_us sent_us, void *ctx)
{
    struct delivery_call *dc = ctx;

    if (!all_may_start(dc, sent_us)) {
        dc->history.was_reset = true;
        rpc_channel_cancel(request);
    }
}

/* The channel has no room, or memory is short: nothing was sent. */
static void refuse_all(struct delivery_call *dc)
{
    const struct target_result result = {.verdict = TARGET_NOT_STARTED};

    end_all(dc, &result);
    free_delivery(dc);
}

static void hand_over(struct delivery_call *dc)
{
    dc->request = (struct rpc_request){
        .path = RECEIVER_DELIVER_PATH,
        .payload = buf_slice(&dc->message),
        .deadline_us = dc->over_by_us,
        .start_by_us = dc->start_by_us,
        .before_send = before_send,
        .sent = on_sent,
        .cb = on_reply,
        .ctx = dc,
    };
    if (rpc_channel_call(dc->target->channel, &dc->request) != 0) {
        refuse_all(dc);
    }
}

void receiver_target_flush(struct target *target)
{
    struct list ready;
    struct list *node;

    list_init(&ready);
    list_move_all(&ready, &target->gathering);
    while ((node = list_take_first(&ready)) != NULL) {
        struct delivery_call *dc = LIST_ENTRY(node, struct delivery_call, link);

        if (dc->count > 0) {
            hand_over(dc);
        } else {
            free_delivery(dc);
        }
    }
}

/* ---- gathering ---- */

/* A batch leaves by the posted flush and never inside a start, whose caller expects no callback. */
static struct delivery_call *new_batch(struct target *target, const struct target_call *call)
{
    struct delivery_call *dc = mem_new(1, sizeof(*dc));

    if (dc == NULL) {
        return NULL;
    }
    dc->target = target;
    list_init(&dc->calls);
    buf_init(&dc->message, DELIVER_BYTES_MAX);
    dc->timeout_ms = call->timeout_ms;
    dc->start_by_us = call->start_by_us;
    dc->over_by_us = call->over_by_us;
    list_add(&target->gathering, &dc->link);
    loop_post(target->loop, &target->flush);
    return dc;
}

static bool has_room(const struct delivery_call *dc, const struct target_call *call)
{
    return dc->timeout_ms == call->timeout_ms && dc->count < dc->target->batch_max &&
           buf_len(&dc->message) + call->payload.len + PAYLOAD_BYTES_MAX < DELIVER_BYTES_MAX;
}

static struct delivery_call *batch_for(struct target *target, const struct target_call *call)
{
    struct list *node = target->gathering.previous;

    for (int i = 0; i < GATHER_LOOK_COUNT && node != &target->gathering; i++) {
        struct delivery_call *dc = LIST_ENTRY(node, struct delivery_call, link);

        if (has_room(dc, call)) {
            return dc;
        }
        node = node->previous;
    }
    return new_batch(target, call);
}

static int write_call(struct delivery_call *dc, const struct target_call *call)
{
    const struct delivery delivery = {
        .id = call->id,
        .queue = {call->tenant, call->queue},
        .key = call->key,
        .order_key = call->order_key,
        .due_ms = call->due_ms,
        .deadline_ms = call->deadline_ms,
        .attempt = call->attempt,
        .payload = call->payload,
        .tags = call->tags,
        .expire_ms = call->expire_ms,
    };

    return codec_write_delivery(&delivery, &dc->message);
}

int receiver_target_start(struct target *target, struct target_call *call)
{
    struct delivery_call *dc;

    if (target->live >= target->live_max) {
        return ERR_FULL;
    }
    dc = batch_for(target, call);
    if (dc == NULL || write_call(dc, call) != 0) {
        return ERR_FULL;
    }
    list_add(&dc->calls, &call->link);
    dc->count++;
    dc->start_by_us = time_min(dc->start_by_us, call->start_by_us);
    dc->over_by_us = time_min(dc->over_by_us, call->over_by_us);
    target->live++;
    return 0;
}
