/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels: the calls' side. A request is in exactly one place: the queue, a connection, or the
 * finished list.
 */
#include "lib/rpc/rpc_client.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/io/entropy.h"
#include "lib/rpc/grpc_header.h"
#include "lib/rpc/rpc_channel.h"

#include <stdio.h>
#include <string.h>

#define RPC_USER_AGENT "grpc-c-foliot/0.1"

void rpc_channel_options_init(struct rpc_channel_options *options)
{
    *options = (struct rpc_channel_options){
        .queue_max = 10000,
        .concurrency_max = 1000,
        .addresses_max = 16,
        .request_bytes_max = 4U << 20,
        .response_bytes_max = 4U << 20,
        .header_bytes_max = 16U << 10,
        .connect_timeout_ms = 20 * MS_PER_S,
        .backoff_first_ms = MS_PER_S,
        .backoff_max_ms = 120 * MS_PER_S,
        .keepalive_ms = SPAN_NEVER,
        .keepalive_timeout_ms = 20 * MS_PER_S,
        .idle_ms = 1800 * MS_PER_S,
    };
}

void rpc_channel_work_soon(struct rpc_channel *channel)
{
    loop_post(channel->loop, &channel->work);
}

/* ---- expiry ---- */

static void stop_expiry(struct rpc_request *request)
{
    if (request->has_expiry) {
        heap_del(&request->channel->expiries, &request->expiry);
        request->has_expiry = false;
    }
}

/* When a request that is not sent yet ends for lack of time. */
static boot_us unsent_expiry_us(const struct rpc_request *request)
{
    boot_us start_by_us = request->start_by_us == 0 ? BOOT_NEVER : request->start_by_us;

    return time_min(start_by_us, request->deadline_us);
}

static void start_expiry(struct rpc_request *request, boot_us at_us)
{
    struct rpc_channel *channel = request->channel;

    request->has_expiry = at_us != BOOT_NEVER;
    if (!request->has_expiry) {
        return;
    }
    heap_add(&channel->expiries, &request->expiry, at_us);
    if (!channel->expiry_timer.is_started || at_us < channel->expiry_timer.node.key) {
        loop_timer_start(&channel->expiry_timer, at_us);
    }
}

void rpc_channel_sent(struct rpc_request *request)
{
    if (!request->has_expiry || request->deadline_us < request->expiry.key) {
        stop_expiry(request);
        start_expiry(request, request->deadline_us);
    }
}

/* A request whose time has come: by its deadline, or by start_by if it is not on the wire. */
static void expire(struct rpc_request *request, boot_us now_us)
{
    struct rpc_channel *channel = request->channel;
    bool was_sent = request->stream != NULL;

    if (was_sent && now_us < request->deadline_us) { // start_by does not matter any more.
        if (request->deadline_us != BOOT_NEVER) {
            heap_add(&channel->expiries, &request->expiry, request->deadline_us);
            request->has_expiry = true;
        }
        return;
    }
    if (request->connection != NULL) {
        rpc_link_take_back(request);
    } else {
        list_del(&request->node);
        channel->queue_count--;
    }
    request->was_sent = was_sent;
    if (now_us >= request->deadline_us) {
        rpc_channel_finish(request, RPC_DEADLINE_EXCEEDED, "the deadline has passed", !was_sent);
    } else {
        rpc_channel_finish(request, RPC_UNAVAILABLE, "the call could not be sent in time", true);
    }
}

static void on_expiry(struct loop_timer *timer, void *ctx)
{
    struct rpc_channel *channel = ctx;
    boot_us now_us = loop_now_us(channel->loop);
    struct heap_node *first;

    while ((first = heap_first(&channel->expiries)) != NULL && first->key <= now_us) {
        struct rpc_request *request = CONTAINER_OF(first, struct rpc_request, expiry);

        stop_expiry(request);
        expire(request, now_us);
    }
    loop_timer_start(timer, first == NULL ? BOOT_NEVER : first->key);
}

/* ---- ends ---- */

void rpc_channel_finish(struct rpc_request *request, enum rpc_status status, const char *text,
                        bool is_unprocessed)
{
    struct rpc_channel *channel = request->channel;

    stop_expiry(request);
    request->verdict = status;
    request->verdict_text = text;
    request->is_unprocessed = is_unprocessed;
    request->is_finished = true;
    list_add(&channel->finished, &request->node);
    rpc_channel_work_soon(channel);
}

void rpc_channel_fail_queue(struct rpc_channel *channel, const char *text)
{
    struct list *first;

    while ((first = list_take_first(&channel->queue)) != NULL) {
        channel->queue_count--;
        rpc_channel_finish(LIST_ENTRY(first, struct rpc_request, node), RPC_UNAVAILABLE, text,
                           true);
    }
}

void rpc_channel_ended(struct rpc_channel *channel, struct rpc_request *request,
                       const struct rpc_reply *reply)
{
    stop_expiry(request);
    channel->active_count--;
    channel->call_count--;
    rpc_channel_work_soon(channel);
    request->cb(request, reply, request->ctx);
}

static void tell_finished(struct rpc_channel *channel)
{
    struct list batch;
    struct list *first;

    list_init(&batch);
    list_move_all(&batch, &channel->finished);
    while ((first = list_take_first(&batch)) != NULL) {
        struct rpc_request *request = LIST_ENTRY(first, struct rpc_request, node);
        struct rpc_reply reply = {.status = request->verdict,
                                  .message = slice_of(request->verdict_text),
                                  .unprocessed = request->is_unprocessed,
                                  .was_sent = request->was_sent};

        channel->call_count--;
        request->cb(request, &reply, request->ctx);
    }
}

/* ---- the queue ---- */

static void serve_queue(struct rpc_channel *channel)
{
    while (!list_is_empty(&channel->queue) &&
           channel->active_count < channel->options.concurrency_max) {
        struct rpc_wire *wire = rpc_link_pick(channel);
        struct list *first;

        if (wire == NULL) {
            break;
        }
        first = list_take_first(&channel->queue);
        channel->queue_count--;
        channel->active_count++;
        rpc_link_give(wire, LIST_ENTRY(first, struct rpc_request, node));
    }
    if (!list_is_empty(&channel->queue) && !rpc_link_connect(channel)) {
        rpc_channel_fail_queue(channel,
                               channel->failure == NULL ? "no connection" : channel->failure);
    }
}

/* errors: ERR_INVALID. */
static int check_request(const struct rpc_request *request)
{
    if (!grpc_is_path(slice_of(request->path)) || request->metadata_count > RPC_METADATA_MAX) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < request->metadata_count; i++) {
        struct slice name = slice_of(request->metadata[i].name);

        if (!grpc_is_metadata_name(name) ||
            (!grpc_is_binary_name(name) && !grpc_is_metadata_value(request->metadata[i].value))) {
            return ERR_INVALID;
        }
    }
    return 0;
}

int rpc_channel_call(struct rpc_channel *channel, struct rpc_request *request)
{
    int err = check_request(request);

    if (channel->is_closing) {
        return ERR_CLOSED;
    }
    if (err != 0) {
        return err;
    }
    if (request->payload.len > channel->options.request_bytes_max) {
        return ERR_TOO_LARGE;
    }
    if (channel->queue_count >= channel->options.queue_max) {
        return ERR_FULL;
    }
    request->channel = channel;
    request->connection = NULL;
    request->stream = NULL;
    request->was_sent = false;
    request->is_finished = false;
    list_init(&request->node);
    list_add(&channel->queue, &request->node);
    channel->queue_count++;
    channel->call_count++;
    start_expiry(request, unsent_expiry_us(request));
    rpc_channel_work_soon(channel);
    return 0;
}

void rpc_channel_cancel(struct rpc_request *request)
{
    struct rpc_channel *channel = request->channel;

    if (request->is_finished) {
        return;
    }
    request->was_sent = request->stream != NULL;
    if (request->connection != NULL) {
        rpc_link_take_back(request);
    } else {
        list_del(&request->node);
        channel->queue_count--;
    }
    rpc_channel_finish(request, RPC_CANCELLED, "cancelled by the caller", !request->was_sent);
}

/* ---- figures ---- */

uint32_t rpc_channel_capacity(const struct rpc_channel *channel)
{
    bool is_hopeful = false;
    uint32_t free_count = rpc_link_free_count(channel, &is_hopeful);
    uint32_t allowed = channel->options.concurrency_max - channel->active_count;

    if (free_count == 0 && is_hopeful) {
        free_count = RPC_CAPACITY_ASSUMED;
    }
    free_count = free_count < allowed ? free_count : allowed;
    return free_count > channel->queue_count ? free_count - channel->queue_count : 0;
}

uint32_t rpc_channel_call_count(const struct rpc_channel *channel)
{
    return channel->call_count;
}

enum rpc_channel_state rpc_channel_get_state(const struct rpc_channel *channel)
{
    return rpc_link_state(channel);
}

void rpc_channel_get_stats(const struct rpc_channel *channel, struct rpc_channel_stats *out)
{
    rpc_link_count(channel, out);
    out->queue_count = channel->queue_count;
    out->active_count = channel->active_count;
}

/* ---- life ---- */

static void release(struct rpc_channel *channel)
{
    rpc_channel_cb cb = channel->close_cb;
    void *ctx = channel->close_ctx;

    REQUIRE(channel->call_count == 0);
    loop_timer_stop(&channel->expiry_timer);
    loop_unpost(&channel->work);
    mem_free(channel);
    if (cb != NULL) {
        cb(ctx);
    }
}

static void on_work(void *ctx)
{
    struct rpc_channel *channel = ctx;

    tell_finished(channel);
    if (!channel->is_closing) {
        serve_queue(channel);
        return;
    }
    if (rpc_link_close(channel) && list_is_empty(&channel->finished)) {
        release(channel);
    }
}

/* errors: ERR_INVALID. */
static int copy_strings(struct rpc_channel *channel, const struct rpc_channel_options *options)
{
    const char *agent = options->user_agent == NULL ? RPC_USER_AGENT : options->user_agent;
    const char *authority;
    const char *tls_host;
    int err;

    if (options->target == NULL) {
        return ERR_INVALID;
    }
    err = rpc_target_parse(options->target, &channel->target);
    if (err != 0) {
        return err;
    }
    authority = options->authority == NULL ? channel->target.authority : options->authority;
    tls_host = options->tls_host == NULL ? channel->target.host : options->tls_host;
    if (strlen(authority) >= RPC_AUTHORITY_BYTES || strlen(tls_host) >= RPC_HOST_BYTES ||
        strlen(agent) >= RPC_USER_AGENT_BYTES ||
        (!channel->target.is_numeric && options->resolver == NULL)) {
        return ERR_INVALID;
    }
    memcpy(channel->authority, authority, strlen(authority) + 1);
    memcpy(channel->user_agent, agent, strlen(agent) + 1);
    memcpy(channel->tls_host, tls_host, strlen(tls_host) + 1);
    return 0;
}

int rpc_channel_open(struct loop *loop, const struct rpc_channel_options *options,
                     struct rpc_channel **out)
{
    struct rpc_channel *channel = mem_new(1, sizeof(*channel));
    int err;

    if (channel == NULL) {
        return ERR_NO_MEMORY;
    }
    channel->loop = loop;
    channel->options = *options;
    channel->keepalive_ms = options->keepalive_ms;
    list_init(&channel->queue);
    list_init(&channel->finished);
    list_init(&channel->slots);
    list_init(&channel->wires);
    heap_init(&channel->expiries);
    loop_timer_init(&channel->expiry_timer, loop, on_expiry, channel);
    loop_task_init(&channel->work, on_work, channel);
    prng_init_named(&channel->prng, options->seed != 0 ? options->seed : entropy_u64(),
                    "rpc_channel");
    err = copy_strings(channel, options);
    if (err == 0) {
        err = rpc_link_open(channel);
    }
    if (err != 0) {
        mem_free(channel);
        return err;
    }
    *out = channel;
    return 0;
}

/* Cancel what is in the connections and in the queue. */
static void cancel_all(struct rpc_channel *channel)
{
    struct list *first;

    while ((first = list_first(&channel->queue)) != NULL) {
        rpc_channel_cancel(LIST_ENTRY(first, struct rpc_request, node));
    }
    list_foreach (node, &channel->wires) {
        rpc_link_cancel_all(LIST_ENTRY(node, struct rpc_wire, node));
    }
}

void rpc_channel_close(struct rpc_channel *channel, rpc_channel_cb cb, void *ctx)
{
    REQUIRE(!channel->is_closing);
    channel->is_closing = true;
    channel->close_cb = cb;
    channel->close_ctx = ctx;
    cancel_all(channel);
    rpc_channel_work_soon(channel);
}
