/* SPDX-License-Identifier: Apache-2.0
 *
 * The client and the target of tests, on one loop.
 */
#include "tests/lib/world.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"
#include "lib/io/resolve.h"
#include "lib/rpc/rpc_server.h"
#include "tests/lib/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRIVALS_MAX  200000
#define SILENT_MAX    20000
#define CALL_LIMIT_MS 30000
#define TURN_MS       5

/* ---- turning ---- */

static void on_pulse(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    (void)ctx;
}

void world_turn(struct world *world)
{
    struct loop_timer pulse;

    loop_timer_init(&pulse, world->loop, on_pulse, NULL);
    loop_timer_start_in(&pulse, TURN_MS);
    loop_turn(world->loop, true);
    loop_timer_stop(&pulse);
}

void world_wait(struct world *world, int64_t ms)
{
    int64_t end_ms = must_now_ms() + ms;

    while (must_now_ms() < end_ms) {
        world_turn(world);
    }
}

/* ---- the target ---- */

static struct arrival *new_arrival(struct world *world)
{
    struct arrival *arrival;

    MUST_LE(world->arrival_count + 1, ARRIVALS_MAX);
    arrival = &world->arrivals[world->arrival_count++];
    memset(arrival, 0, sizeof(*arrival));
    arrival->at_us = clock_wall_us();
    return arrival;
}

static void keep(char *out, size_t size, struct slice text)
{
    (void)snprintf(out, size, "%.*s", (int)text.len, text.len > 0 ? (const char *)text.data : "");
}

static void keep_payload(struct arrival *arrival, struct slice payload)
{
    arrival->payload_len = payload.len;
    if (payload.len > 0) {
        memcpy(arrival->payload, payload.data,
               payload.len < WORLD_PAYLOAD_MAX ? payload.len : WORLD_PAYLOAD_MAX);
    }
}

static struct verdict_of judge(struct world *world, const struct arrival *arrival)
{
    if (world->answer != NULL) {
        return world->answer(world, arrival);
    }
    return (struct verdict_of){.status = RPC_OK, .outcome = DELIVERY_DONE};
}

static void keep_silent(struct world *world, struct rpc_call *call)
{
    MUST_LE(world->silent_count + 1, SILENT_MAX);
    world->silent[world->silent_count++] = call;
}

static int64_t number_of(const struct rpc_call *call, const char *name)
{
    char text[32];

    keep(text, sizeof(text), rpc_call_metadata(call, name));
    return strtoll(text, NULL, 10);
}

static void on_take(struct rpc_call *call, struct slice request, void *ctx)
{
    struct world *world = ctx;
    struct arrival *arrival = new_arrival(world);
    struct verdict_of verdict;
    struct fault fault;
    struct buf details;

    MUST_OK(task_id_parse(rpc_call_metadata(call, "foliot-task-id"), &arrival->id));
    arrival->attempt = (uint32_t)number_of(call, "foliot-attempt");
    arrival->due_ms = number_of(call, "foliot-due-time");
    arrival->deadline_ms = number_of(call, "foliot-deadline");
    arrival->by_method = true;
    keep(arrival->queue, sizeof(arrival->queue), rpc_call_metadata(call, "foliot-queue"));
    keep(arrival->key, sizeof(arrival->key), rpc_call_metadata(call, "foliot-key-bin"));
    keep_payload(arrival, request);
    verdict = judge(world, arrival);
    if (verdict.is_silent) {
        keep_silent(world, call);
    } else if (verdict.status == RPC_OK) {
        rpc_call_reply(call, slice_of(""));
    } else {
        buf_init(&details, 65536);
        fault_set(&fault, verdict.status, verdict.reason == NULL ? "TEST" : verdict.reason, NULL,
                  "as the test wants");
        MUST_OK(fault_encode(&fault, &details));
        rpc_call_fail(call, verdict.status, fault.message, buf_slice(&details), 0);
        buf_fini(&details);
    }
}

static void take_delivery(struct world *world, const struct delivery *delivery,
                          struct delivery_result *result, bool *is_silent)
{
    struct arrival *arrival = new_arrival(world);
    struct verdict_of verdict;

    arrival->id = delivery->id;
    arrival->attempt = delivery->attempt;
    arrival->due_ms = delivery->due_ms;
    arrival->deadline_ms = delivery->deadline_ms;
    keep(arrival->queue, sizeof(arrival->queue), slice_of(delivery->queue.name));
    keep(arrival->key, sizeof(arrival->key), delivery->key);
    keep_payload(arrival, delivery->payload);
    verdict = judge(world, arrival);
    *result = (struct delivery_result){.outcome = verdict.outcome};
    *is_silent |= verdict.is_silent;
}

static void on_deliver(struct rpc_call *call, struct slice request, void *ctx)
{
    struct world *world = ctx;
    struct delivery_batch batch;
    struct arena arena;
    struct fault fault;
    struct buf out;
    bool is_silent = false;

    arena_init(&arena, 0);
    buf_init(&out, RPC_MESSAGE_BYTES_MAX);
    MUST_OK(codec_read_deliver(request, &arena, &batch, &fault));
    world->deliver_count++;
    for (size_t i = 0; i < batch.count; i++) {
        struct delivery delivery;
        struct delivery_result result;

        MUST_OK(codec_read_delivery(&batch, i, &delivery, &fault));
        take_delivery(world, &delivery, &result, &is_silent);
        MUST_OK(codec_write_delivery_result(&result, &out));
    }
    if (is_silent) {
        keep_silent(world, call);
    } else {
        rpc_call_reply(call, buf_slice(&out));
    }
    buf_fini(&out);
    arena_fini(&arena);
}

static void open_server(struct world *world)
{
    static struct rpc_method methods[] = {
        {.path = WORLD_METHOD, .handler = on_take},
        {.path = RECEIVER_DELIVER_PATH, .handler = on_deliver},
    };
    struct rpc_server_options options;

    rpc_server_options_init(&options);
    options.address = "127.0.0.1";
    options.port = 0;
    options.version = "test";
    MUST_OK(rpc_server_open(world->loop, &options, &world->server));
    for (size_t i = 0; i < ARRAY_COUNT(methods); i++) {
        methods[i].ctx = world;
    }
    MUST_OK(rpc_server_add_all(world->server, methods, ARRAY_COUNT(methods)));
    (void)snprintf(world->target, sizeof(world->target), "127.0.0.1:%u",
                   (unsigned)rpc_server_port(world->server));
}

void world_method_target(const struct world *world, char *out, size_t size)
{
    (void)snprintf(out, size, "grpc://%s" WORLD_METHOD, world->target);
}

void world_receiver_target(const struct world *world, char *out, size_t size)
{
    (void)snprintf(out, size, "receiver://%s", world->target);
}

/* ---- life ---- */

void world_open(struct world *world)
{
    struct resolver_options options;

    memset(world, 0, sizeof(*world));
    world->arrivals = mem_new(ARRIVALS_MAX, sizeof(*world->arrivals));
    world->silent = mem_new(SILENT_MAX, sizeof(struct rpc_call *));
    MUST(world->arrivals != NULL && world->silent != NULL);
    MUST_OK(loop_open(&world->loop));
    resolver_options_init(&options);
    MUST_OK(resolver_open(world->loop, &options, &world->resolver));
    open_server(world);
}

static void on_closed(void *ctx)
{
    size_t *left = ctx;

    (*left)--;
}

void world_close(struct world *world)
{
    size_t left = world->channel_count + 1;

    for (size_t i = 0; i < world->channel_count; i++) {
        rpc_channel_close(world->channels[i], on_closed, &left);
    }
    for (size_t i = 0; i < world->silent_count; i++) {
        rpc_call_fail(world->silent[i], RPC_CANCELLED, "the test ends", slice_of(""), 0);
    }
    rpc_server_close(world->server, on_closed, &left);
    WORLD_UNTIL(world, left == 0, CALL_LIMIT_MS);
    resolver_close(world->resolver);
    loop_close(world->loop);
    mem_free(world->arrivals);
    mem_free(world->silent);
}

/* ---- the client ---- */

static struct rpc_channel *channel_to(struct world *world, const char *address)
{
    struct rpc_channel_options options;
    size_t i = 0;

    while (i < world->channel_count && strcmp(world->addresses[i], address) != 0) {
        i++;
    }
    if (i < world->channel_count) {
        return world->channels[i];
    }
    MUST_LE(i + 1, ARRAY_COUNT(world->channels));
    rpc_channel_options_init(&options);
    options.target = address;
    options.resolver = world->resolver;
    options.backoff_first_ms = 50;
    options.backoff_max_ms = 200;
    MUST_OK(rpc_channel_open(world->loop, &options, &world->channels[i]));
    (void)snprintf(world->addresses[i], sizeof(world->addresses[i]), "%s", address);
    world->channel_count++;
    return world->channels[i];
}

static void on_reply(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct answer *answer = ctx;

    (void)request;
    answer->status = reply->status;
    answer->from_peer = reply->from_peer;
    if (reply->status == RPC_OK) {
        MUST_OK(buf_append(&answer->payload, reply->payload.data, reply->payload.len));
    } else {
        fault_decode(&answer->fault, reply->status, reply->message, reply->details);
    }
    answer->has_come = true;
}

void world_start(struct world *world, const char *address, struct rpc_request *request,
                 struct answer *answer)
{
    memset(answer, 0, sizeof(*answer));
    buf_init(&answer->payload, RPC_MESSAGE_BYTES_MAX);
    if (request->deadline_us == 0) {
        request->deadline_us = clock_boot_us() + CALL_LIMIT_MS * US_PER_MS;
    }
    request->cb = on_reply;
    request->ctx = answer;
    MUST_OK(rpc_channel_call(channel_to(world, address), request));
}

void world_call(struct world *world, const char *address, const char *path, struct slice request,
                struct answer *answer)
{
    struct rpc_request call = {.path = path, .payload = request};

    world_start(world, address, &call, answer);
    WORLD_UNTIL(world, answer->has_come, CALL_LIMIT_MS + 5000);
}

void answer_fini(struct answer *answer)
{
    buf_fini(&answer->payload);
}

/* ---- foliot.v1 ---- */

void world_put_queue(struct world *world, const char *address, const struct queue *queue)
{
    struct answer answer;
    struct buf bytes;

    buf_init(&bytes, RPC_MESSAGE_BYTES_MAX);
    MUST_OK(codec_write_queue(queue, &bytes));
    world_call(world, address, "/foliot.v1.QueueService/Create", buf_slice(&bytes), &answer);
    if (answer.status != RPC_OK) {
        must_fail(MUST_HERE, "queue not created: %d %s", (int)answer.status, answer.fault.message);
    }
    answer_fini(&answer);
    buf_fini(&bytes);
}

void world_create_queue(struct world *world, const char *address, const char *name,
                        const char *target)
{
    struct queue queue;

    queue_init(&queue);
    (void)snprintf(queue.tenant, sizeof(queue.tenant), NAMESPACE_DEFAULT);
    (void)snprintf(queue.name, sizeof(queue.name), "%s", name);
    (void)snprintf(queue.target, sizeof(queue.target), "%s", target);
    queue.retry.initial_ms = 100;
    world_put_queue(world, address, &queue);
}

enum rpc_status world_create(struct world *world, const char *address,
                             const struct create_request *request, struct create_reply *reply,
                             struct fault *fault)
{
    struct answer answer;
    struct arena arena;
    struct buf bytes;
    enum rpc_status status;

    buf_init(&bytes, RPC_MESSAGE_BYTES_MAX);
    MUST_OK(codec_write_create(request, &bytes));
    world_call(world, address, "/foliot.v1.TaskService/Create", buf_slice(&bytes), &answer);
    status = answer.status;
    *fault = answer.fault;
    if (status == RPC_OK) {
        arena_init(&arena, 0);
        MUST_OK(codec_read_create_reply(buf_slice(&answer.payload), &arena, reply, fault));
        arena_fini(&arena);
    }
    answer_fini(&answer);
    buf_fini(&bytes);
    return status;
}

struct task_id world_create_in(struct world *world, const char *address, const char *queue,
                               span_ms delay_ms, const char *payload)
{
    const struct create_request request = {
        .queue = {NAMESPACE_DEFAULT, queue},
        .when = {.kind = WHEN_DELAY, .delay_ms = delay_ms},
        .payload = slice_of(payload),
        .key_policy = KEY_KEEP,
    };
    struct create_reply reply;
    struct fault fault;
    enum rpc_status status = world_create(world, address, &request, &reply, &fault);

    if (status != RPC_OK) {
        must_fail(MUST_HERE, "task not created: %d %s", (int)status, fault.message);
    }
    MUST(reply.created);
    return reply.id;
}

enum rpc_status world_cancel(struct world *world, const char *address, const struct task_name *name,
                             struct cancel_reply *reply, struct fault *fault)
{
    struct answer answer;
    struct arena arena;
    struct buf bytes;
    enum rpc_status status;

    buf_init(&bytes, RPC_MESSAGE_BYTES_MAX);
    MUST_OK(codec_write_task_name(name, &bytes));
    world_call(world, address, "/foliot.v1.TaskService/Cancel", buf_slice(&bytes), &answer);
    status = answer.status;
    *fault = answer.fault;
    if (status == RPC_OK) {
        arena_init(&arena, 0);
        MUST_OK(codec_read_cancel_reply(buf_slice(&answer.payload), &arena, reply, fault));
        arena_fini(&arena);
    }
    answer_fini(&answer);
    buf_fini(&bytes);
    return status;
}

size_t world_count(const struct world *world, struct task_id id)
{
    size_t count = 0;

    for (size_t i = 0; i < world->arrival_count; i++) {
        count += world->arrivals[i].id.seq == id.seq && world->arrivals[i].id.slot == id.slot;
    }
    return count;
}

const struct arrival *world_last(const struct world *world, struct task_id id)
{
    for (size_t i = world->arrival_count; i > 0; i--) {
        const struct arrival *arrival = &world->arrivals[i - 1];

        if (arrival->id.seq == id.seq && arrival->id.slot == id.slot) {
            return arrival;
        }
    }
    return NULL;
}
