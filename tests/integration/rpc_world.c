/* SPDX-License-Identifier: Apache-2.0
 *
 * The world of the RPC tests.
 */
#include "tests/integration/rpc_world.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/lib/must.h"

#include <stdio.h>
#include <string.h>

/* ---- server side ---- */

void on_echo(struct rpc_call *call, struct slice request, void *ctx)
{
    (void)ctx;
    rpc_call_reply(call, request);
}

static void on_cancelled(struct rpc_call *call, void *ctx)
{
    struct world *world = ctx;

    world->cancelled_count++;
    world->held = NULL;
    rpc_call_reply(call, (struct slice){NULL, 0});
}

/* Held until the test answers it or it is cancelled. */
static void on_wait(struct rpc_call *call, struct slice request, void *ctx)
{
    struct world *world = ctx;

    (void)request;
    world->held = call;
    world->held_count++;
    rpc_call_on_cancel(call, on_cancelled, world);
}

/* Fails, telling the metadata in the message. */
static void on_tell(struct rpc_call *call, struct slice request, void *ctx)
{
    struct slice text = rpc_call_metadata(call, "x-text");
    struct slice raw = rpc_call_metadata(call, "x-raw-bin");
    char message[128];

    (void)request;
    (void)ctx;
    (void)snprintf(message, sizeof(message), "%.*s/%zu/\xc3\xa4%%", (int)text.len,
                   (const char *)text.data, raw.len);
    rpc_call_fail(call, RPC_ABORTED, message, slice_of("details"), 70);
}

void open_server(struct world *world, void (*change)(struct rpc_server_options *))
{
    static struct rpc_method methods[3];
    struct rpc_server_options options;

    methods[0] = (struct rpc_method){.path = ECHO, .handler = on_echo, .ctx = world};
    methods[1] = (struct rpc_method){.path = WAIT, .handler = on_wait, .ctx = world};
    methods[2] = (struct rpc_method){.path = TELL, .handler = on_tell, .ctx = world};
    rpc_server_options_init(&options);
    options.port = world->port;
    if (change != NULL) {
        change(&options);
    }
    MUST_OK(rpc_server_open(world->loop, &options, &world->server));
    MUST_OK(rpc_server_add_all(world->server, methods, ARRAY_COUNT(methods)));
    world->port = rpc_server_port(world->server);
    (void)snprintf(world->target, sizeof(world->target), "127.0.0.1:%u", world->port);
}

/* ---- client side ---- */

void open_channel(struct world *world, const char *target,
                  void (*change)(struct rpc_channel_options *))
{
    struct rpc_channel_options options;

    rpc_channel_options_init(&options);
    options.target = target;
    options.resolver = world->resolver;
    options.backoff_first_ms = 30;
    if (change != NULL) {
        change(&options);
    }
    MUST_OK(rpc_channel_open(world->loop, &options, &world->channel));
}

static void copy(char *to, size_t max, struct slice from)
{
    (void)snprintf(to, max, "%.*s", (int)from.len,
                   from.data == NULL ? "" : (const char *)from.data);
}

static void on_reply(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct ask *ask = ctx;

    MUST(request == &ask->request);
    MUST(!ask->is_ended);
    ask->is_ended = true;
    ask->status = reply->status;
    ask->unprocessed = reply->unprocessed;
    ask->was_sent = reply->was_sent;
    ask->from_peer = reply->from_peer;
    ask->has_pushback = reply->has_pushback;
    ask->pushback_ms = reply->pushback_ms;
    ask->payload_len = reply->payload.len;
    copy(ask->message, sizeof(ask->message), reply->message);
    copy(ask->payload, sizeof(ask->payload), reply->payload);
    copy(ask->details, sizeof(ask->details), reply->details);
    ask->world->replies++;
    if (ask->next != NULL) {
        MUST_OK(rpc_channel_call(ask->world->channel, &ask->next->request));
    }
}

void prepare(struct ask *ask, struct world *world, const char *path, const char *payload)
{
    *ask = (struct ask){.world = world};
    ask->request.path = path;
    ask->request.payload = slice_of(payload);
    ask->request.deadline_us = BOOT_NEVER;
    ask->request.cb = on_reply;
    ask->request.ctx = ask;
}

int start(struct ask *ask)
{
    int err = rpc_channel_call(ask->world->channel, &ask->request);

    MUST(!ask->is_ended);
    return err;
}

boot_us in_ms(const struct world *world, span_ms delay_ms)
{
    return loop_now_us(world->loop) + delay_ms * US_PER_MS;
}

/* ---- the world ---- */

struct world *open_world(void)
{
    struct resolver_options options;
    struct world *world = mem_new(1, sizeof(*world));

    MUST(world != NULL);
    MUST_OK(loop_open(&world->loop));
    MUST_OK(fake_dns_open(&world->dns, world->loop, FAKE_DNS_DENIES));
    resolver_options_init(&options);
    options.servers = world->dns.servers;
    MUST_OK(resolver_open(world->loop, &options, &world->resolver));
    return world;
}

void on_closed(void *ctx)
{
    ((struct world *)ctx)->is_closed = true;
}

void on_drained(void *ctx)
{
    ((struct world *)ctx)->is_drained = true;
}

void close_channel(struct world *world)
{
    world->is_closed = false;
    rpc_channel_close(world->channel, on_closed, world);
    MUST(!world->is_closed);
    TURN_UNTIL(world, world->is_closed);
    world->channel = NULL;
}

void close_server(struct world *world)
{
    world->is_closed = false;
    rpc_server_close(world->server, on_closed, world);
    MUST(!world->is_closed);
    TURN_UNTIL(world, world->is_closed);
    world->server = NULL;
}

void close_world(struct world *world)
{
    if (world->channel != NULL) {
        close_channel(world);
    }
    if (world->server != NULL) {
        close_server(world);
    }
    resolver_close(world->resolver);
    fake_dns_close(&world->dns);
    loop_close(world->loop);
    mem_free(world);
    MUST_EQ(mem_block_count(), 0);
}

struct world *open_pair(void (*change_server)(struct rpc_server_options *),
                        void (*change_channel)(struct rpc_channel_options *))
{
    struct world *world = open_world();

    open_server(world, change_server);
    open_channel(world, world->target, change_channel);
    return world;
}

void *must_new(size_t count, size_t size)
{
    void *block = mem_new(count, size);

    MUST(block != NULL);
    return block;
}
