/* SPDX-License-Identifier: Apache-2.0
 *
 * Our client against our server, and against targets that misbehave, in one loop over loopback.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/listener.h"
#include "lib/io/loop.h"
#include "lib/io/resolve.h"
#include "lib/rpc/rpc_client.h"
#include "lib/rpc/rpc_server.h"
#include "tests/lib/must.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ECHO "/foliot.test.Peer/Echo"
#define WAIT "/foliot.test.Peer/Wait"
#define TELL "/foliot.test.Peer/Tell"

struct world {
    struct loop *loop;
    struct resolver *resolver;
    struct rpc_server *server;
    struct rpc_channel *channel;
    struct rpc_call *held; /* the last call of Wait */
    int held_count;
    int cancelled_count;
    int replies;
    int sent_count;
    bool is_closed; /* the callback of the last close has come */
    bool is_drained;
    uint16_t port;
    char target[64];
};

/* One call and what came of it. */
struct ask {
    struct rpc_request request;
    struct world *world;
    enum rpc_status status;
    bool is_ended;
    bool unprocessed;
    bool was_sent;
    bool from_peer;
    bool has_pushback;
    bool allows_send;
    span_ms pushback_ms;
    size_t payload_len;
    boot_us sent_us;
    char message[128];
    char payload[128];
    char details[32];
    struct ask *next; /* started by this one's callback */
};

/* ---- server side ---- */

static void on_echo(struct rpc_call *call, struct slice request, void *ctx)
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

static void open_server(struct world *world, void (*change)(struct rpc_server_options *))
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

static void open_channel(struct world *world, const char *target,
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

static void prepare(struct ask *ask, struct world *world, const char *path, const char *payload)
{
    *ask = (struct ask){.world = world};
    ask->request.path = path;
    ask->request.payload = slice_of(payload);
    ask->request.deadline_us = BOOT_NEVER;
    ask->request.cb = on_reply;
    ask->request.ctx = ask;
}

static int start(struct ask *ask)
{
    int err = rpc_channel_call(ask->world->channel, &ask->request);

    MUST(!ask->is_ended);
    return err;
}

static boot_us in_ms(const struct world *world, span_ms delay_ms)
{
    return loop_now_us(world->loop) + delay_ms * US_PER_MS;
}

#define TURN_UNTIL(world, condition)        \
    do {                                    \
        while (!(condition)) {              \
            loop_turn((world)->loop, true); \
        }                                   \
    } while (0)

/* ---- the world ---- */

static struct world *open_world(void)
{
    struct resolver_options options;
    struct world *world = mem_new(1, sizeof(*world));

    MUST(world != NULL);
    MUST_OK(loop_open(&world->loop));
    resolver_options_init(&options);
    MUST_OK(resolver_open(world->loop, &options, &world->resolver));
    return world;
}

static void on_closed(void *ctx)
{
    ((struct world *)ctx)->is_closed = true;
}

static void on_drained(void *ctx)
{
    ((struct world *)ctx)->is_drained = true;
}

static void close_channel(struct world *world)
{
    world->is_closed = false;
    rpc_channel_close(world->channel, on_closed, world);
    MUST(!world->is_closed);
    TURN_UNTIL(world, world->is_closed);
    world->channel = NULL;
}

static void close_server(struct world *world)
{
    world->is_closed = false;
    rpc_server_close(world->server, on_closed, world);
    MUST(!world->is_closed);
    TURN_UNTIL(world, world->is_closed);
    world->server = NULL;
}

static void close_world(struct world *world)
{
    if (world->channel != NULL) {
        close_channel(world);
    }
    if (world->server != NULL) {
        close_server(world);
    }
    resolver_close(world->resolver);
    loop_close(world->loop);
    mem_free(world);
    MUST_EQ(mem_block_count(), 0);
}

static struct world *open_pair(void (*change_server)(struct rpc_server_options *),
                               void (*change_channel)(struct rpc_channel_options *))
{
    struct world *world = open_world();

    open_server(world, change_server);
    open_channel(world, world->target, change_channel);
    return world;
}

static void *must_new(size_t count, size_t size)
{
    void *block = mem_new(count, size);

    MUST(block != NULL);
    return block;
}

/* ---- cases ---- */

static void calls_are_answered_once_each_with_their_own_reply(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct ask *asks = must_new(2000, sizeof(*asks));
    char(*texts)[16] = must_new(2000, sizeof(*texts));

    for (int i = 0; i < 2000; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "call %d", i);
        prepare(&asks[i], world, ECHO, texts[i]);
        MUST_OK(start(&asks[i]));
    }
    MUST_EQ(rpc_channel_call_count(world->channel), 2000);
    TURN_UNTIL(world, world->replies == 2000);
    for (int i = 0; i < 2000; i++) {
        MUST_EQ(asks[i].status, RPC_OK);
        MUST_EQ_TEXT(asks[i].payload, texts[i]);
        MUST(asks[i].was_sent && !asks[i].unprocessed);
    }
    MUST_EQ(rpc_channel_get_state(world->channel), RPC_CHANNEL_READY);
    mem_free(asks);
    mem_free(texts);
    close_world(world);
}

static void a_callback_may_start_the_next_call(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct ask *asks = must_new(100, sizeof(*asks));

    for (int i = 0; i < 100; i++) {
        prepare(&asks[i], world, ECHO, "");
        asks[i].next = i < 99 ? &asks[i + 1] : NULL;
    }
    MUST_OK(start(&asks[0]));
    TURN_UNTIL(world, world->replies == 100);
    MUST_EQ(asks[99].status, RPC_OK);
    mem_free(asks);
    close_world(world);
}

static void metadata_details_and_pushback_travel(void)
{
    static const struct rpc_metadata metadata[] = {
        {"x-text", {(const uint8_t *)"some text", 9}},
        {"x-raw-bin", {(const uint8_t *)"\0\1\2\3\377", 5}},
    };
    struct world *world = open_pair(NULL, NULL);
    struct ask ask;

    prepare(&ask, world, TELL, "");
    ask.request.metadata = metadata;
    ask.request.metadata_count = 2;
    MUST_OK(start(&ask));
    TURN_UNTIL(world, ask.is_ended);
    MUST_EQ(ask.status, RPC_ABORTED);
    MUST(ask.from_peer);
    MUST_EQ_TEXT(ask.message, "some text/5/\xc3\xa4%");
    MUST_EQ_TEXT(ask.details, "details");
    MUST(ask.has_pushback);
    MUST_EQ(ask.pushback_ms, 70);
    close_world(world);
}

static void bad_requests_are_refused_without_a_callback(void)
{
    static const struct rpc_metadata bad[] = {
        {"X-Upper", {(const uint8_t *)"v", 1}},
        {"grpc-timeout", {(const uint8_t *)"1S", 2}},
        {"x-ctl", {(const uint8_t *)"a\nb", 3}},
        {":path", {(const uint8_t *)"/", 1}},
    };
    struct world *world = open_pair(NULL, NULL);
    struct ask ask;

    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        prepare(&ask, world, ECHO, "");
        ask.request.metadata = &bad[i];
        ask.request.metadata_count = 1;
        MUST_ERR(start(&ask), ERR_INVALID);
    }
    prepare(&ask, world, "no path", "");
    MUST_ERR(start(&ask), ERR_INVALID);
    prepare(&ask, world, ECHO, "");
    ask.request.payload.len = (4U << 20) + 1;
    MUST_ERR(start(&ask), ERR_TOO_LARGE);
    MUST_EQ(rpc_channel_call_count(world->channel), 0);
    close_world(world);
}

static void large_messages_go_both_ways(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct ask asks[6]; // Together more than a connection's window, and sent side by side.
    char *payload = must_new(4U << 20, 1);

    memset(payload, 'x', 4U << 20);
    for (int i = 0; i < 6; i++) {
        prepare(&asks[i], world, ECHO, "");
        asks[i].request.payload = (struct slice){(uint8_t *)payload, 4U << 20};
        MUST_OK(start(&asks[i]));
    }
    TURN_UNTIL(world, world->replies == 6);
    for (int i = 0; i < 6; i++) {
        MUST_EQ(asks[i].status, RPC_OK);
        MUST_EQ(asks[i].payload_len, 4U << 20);
    }
    mem_free(payload);
    close_world(world);
}

static void allow_few_streams(struct rpc_server_options *options)
{
    options->streams_max = 5;
}

static void the_peers_stream_limit_is_respected(void)
{
    struct world *world = open_pair(allow_few_streams, NULL);
    struct ask *asks = must_new(200, sizeof(*asks));

    MUST_EQ(rpc_channel_capacity(world->channel), 100);
    for (int i = 0; i < 200; i++) {
        prepare(&asks[i], world, i < 5 ? WAIT : ECHO, "");
        MUST_OK(start(&asks[i]));
    }
    TURN_UNTIL(world, world->held_count == 5);
    for (int i = 0; i < 20; i++) {
        loop_turn(world->loop, false);
    }
    MUST_EQ(world->replies, 0);
    MUST_EQ(rpc_channel_capacity(world->channel), 0);
    rpc_channel_cancel(&asks[0].request);
    rpc_channel_cancel(&asks[1].request);
    TURN_UNTIL(world, world->replies == 197);
    MUST_EQ(asks[0].status, RPC_CANCELLED);
    MUST_EQ(asks[199].status, RPC_OK);
    MUST_EQ(rpc_channel_capacity(world->channel), 2);
    for (int i = 2; i < 5; i++) {
        rpc_channel_cancel(&asks[i].request);
    }
    TURN_UNTIL(world, world->replies == 200 && world->cancelled_count == 5);
    mem_free(asks);
    close_world(world);
}

static void a_deadline_ends_the_call_at_both_ends(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct ask ask;
    boot_us due_us;

    prepare(&ask, world, WAIT, "");
    due_us = in_ms(world, 50);
    ask.request.deadline_us = due_us;
    MUST_OK(start(&ask));
    TURN_UNTIL(world, ask.is_ended && world->cancelled_count == 1);
    MUST(loop_now_us(world->loop) >= due_us);
    MUST_EQ(ask.status, RPC_DEADLINE_EXCEEDED);
    MUST(ask.was_sent && !ask.unprocessed && !ask.from_peer);
    prepare(&ask, world, ECHO, "");
    ask.request.deadline_us = 1; // Long past: it must not reach the server.
    MUST_OK(start(&ask));
    TURN_UNTIL(world, ask.is_ended);
    MUST_EQ(ask.status, RPC_DEADLINE_EXCEEDED);
    MUST(ask.unprocessed && !ask.was_sent);
    close_world(world);
}

static void a_call_can_be_cancelled_at_every_stage(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct ask asks[3];

    prepare(&asks[0], world, WAIT, "");
    MUST_OK(start(&asks[0]));
    rpc_channel_cancel(&asks[0].request); // In the queue.
    MUST(!asks[0].is_ended);
    rpc_channel_cancel(&asks[0].request);
    TURN_UNTIL(world, asks[0].is_ended);
    MUST_EQ(asks[0].status, RPC_CANCELLED);
    MUST(asks[0].unprocessed);
    prepare(&asks[1], world, WAIT, "");
    MUST_OK(start(&asks[1]));
    TURN_UNTIL(world, world->held_count == 1);
    rpc_channel_cancel(&asks[1].request); // At the handler.
    TURN_UNTIL(world, asks[1].is_ended && world->cancelled_count == 1);
    MUST_EQ(asks[1].status, RPC_CANCELLED);
    MUST(!asks[1].unprocessed);
    prepare(&asks[2], world, ECHO, "");
    MUST_OK(start(&asks[2]));
    TURN_UNTIL(world, asks[2].is_ended);
    MUST_EQ(asks[2].status, RPC_OK);
    close_world(world);
}

static bool may_send(struct rpc_request *request, void *ctx)
{
    struct ask *ask = ctx;

    MUST(request == &ask->request);
    return ask->allows_send;
}

static void on_sent(struct rpc_request *request, boot_us sent_us, void *ctx)
{
    struct ask *ask = ctx;

    MUST(request == &ask->request);
    ask->sent_us = sent_us;
    ask->world->sent_count++;
}

static void a_call_is_withdrawn_just_before_it_goes_out(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct ask asks[2];
    boot_us before_us = clock_boot_us();

    for (int i = 0; i < 2; i++) {
        prepare(&asks[i], world, WAIT, "");
        asks[i].allows_send = i == 1;
        asks[i].request.before_send = may_send;
        asks[i].request.sent = on_sent;
        MUST_OK(start(&asks[i]));
    }
    TURN_UNTIL(world, asks[0].is_ended && world->held_count == 1);
    MUST_EQ(asks[0].status, RPC_UNAVAILABLE);
    MUST(asks[0].unprocessed && !asks[0].was_sent);
    MUST_EQ(world->sent_count, 1);
    MUST(asks[1].sent_us >= before_us && asks[1].sent_us <= clock_boot_us());
    MUST(asks[0].sent_us == 0);
    rpc_call_reply(world->held, slice_of("now"));
    TURN_UNTIL(world, asks[1].is_ended);
    MUST_EQ_TEXT(asks[1].payload, "now");
    close_world(world);
}

static bool bring_deadline_forward(struct rpc_request *request, void *ctx)
{
    (void)ctx;
    request->deadline_us = clock_boot_us() + 50 * US_PER_MS;
    return true;
}

static void a_deadline_may_be_brought_forward_at_the_send(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct ask ask;
    boot_us start_us = clock_boot_us();

    prepare(&ask, world, WAIT, "");
    ask.request.deadline_us = in_ms(world, 600000);
    ask.request.start_by_us = in_ms(world, 300000);
    ask.request.before_send = bring_deadline_forward;
    MUST_OK(start(&ask));
    TURN_UNTIL(world, ask.is_ended && world->cancelled_count == 1);
    MUST_EQ(ask.status, RPC_DEADLINE_EXCEEDED);
    MUST(ask.was_sent && !ask.unprocessed);
    MUST(clock_boot_us() >= start_us + 50 * US_PER_MS);
    close_world(world);
}

static void a_dead_target_fails_fast_and_comes_back(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct ask asks[3];

    close_server(world);
    prepare(&asks[0], world, ECHO, "");
    MUST_OK(start(&asks[0]));
    TURN_UNTIL(world, asks[0].is_ended);
    MUST_EQ(asks[0].status, RPC_UNAVAILABLE);
    MUST(asks[0].unprocessed);
    MUST_EQ(rpc_channel_get_state(world->channel), RPC_CHANNEL_FAILED);
    MUST_EQ(rpc_channel_capacity(world->channel), 0);
    prepare(&asks[1], world, ECHO, "");
    MUST_OK(start(&asks[1])); // Within the back-off: no second dial.
    TURN_UNTIL(world, asks[1].is_ended);
    MUST_EQ(asks[1].status, RPC_UNAVAILABLE);
    open_server(world, NULL);
    TURN_UNTIL(world, rpc_channel_get_state(world->channel) != RPC_CHANNEL_FAILED);
    prepare(&asks[2], world, ECHO, "");
    MUST_OK(start(&asks[2]));
    TURN_UNTIL(world, asks[2].is_ended);
    MUST_EQ(asks[2].status, RPC_OK);
    close_world(world);
}

static void keep_connection(int fd, const struct address *peer, void *ctx)
{
    int *out = ctx;

    (void)peer;
    *out = fd;
}

static void connect_fast(struct rpc_channel_options *options)
{
    options->connect_timeout_ms = 60;
}

/* A listener that accepts and says nothing, and a channel to it. */
struct hanging {
    struct listener *listener;
    int fd;
    struct rpc_channel *channel;
};

static void open_hanging(struct world *world, struct hanging *hanging,
                         void (*change)(struct rpc_channel_options *))
{
    struct listener_options options = {
        .host = "127.0.0.1", .connections_max = 10, .host_connections_max = 10};
    struct rpc_channel *good = world->channel;
    char target[64];

    hanging->fd = -1;
    MUST_OK(
        listener_open(world->loop, &options, keep_connection, &hanging->fd, &hanging->listener));
    (void)snprintf(target, sizeof(target), "ipv4:127.0.0.1:%u", listener_port(hanging->listener));
    open_channel(world, target, change);
    hanging->channel = world->channel;
    world->channel = good;
}

static void close_hanging(struct world *world, struct hanging *hanging)
{
    struct rpc_channel *good = world->channel;
    struct address peer;

    world->channel = hanging->channel;
    close_channel(world);
    world->channel = good;
    if (hanging->fd >= 0) {
        struct sockaddr_storage socket;
        socklen_t len = sizeof(socket);

        MUST(getsockname(hanging->fd, (struct sockaddr *)&socket, &len) == 0);
        MUST_OK(address_from_socket((struct sockaddr *)&socket, len, &peer));
        listener_done(hanging->listener, &peer);
        (void)close(hanging->fd);
    }
    listener_close(hanging->listener);
}

static void a_hanging_target_delays_nobody_else(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct hanging hanging;
    struct ask stuck[2];
    struct ask good;
    boot_us start_by_us;

    open_hanging(world, &hanging, NULL);
    prepare(&stuck[0], world, ECHO, "");
    prepare(&stuck[1], world, ECHO, "");
    start_by_us = in_ms(world, 100);
    stuck[0].request.start_by_us = start_by_us;
    stuck[1].request.deadline_us = in_ms(world, 150);
    MUST_OK(rpc_channel_call(hanging.channel, &stuck[0].request));
    MUST_OK(rpc_channel_call(hanging.channel, &stuck[1].request));
    for (int i = 0; i < 50; i++) {
        prepare(&good, world, ECHO, "x");
        MUST_OK(start(&good));
        TURN_UNTIL(world, good.is_ended);
        MUST_EQ(good.status, RPC_OK);
    }
    TURN_UNTIL(world, stuck[0].is_ended);
    MUST(loop_now_us(world->loop) >= start_by_us);
    MUST_EQ(stuck[0].status, RPC_UNAVAILABLE);
    MUST(stuck[0].unprocessed);
    TURN_UNTIL(world, stuck[1].is_ended);
    MUST_EQ(stuck[1].status, RPC_DEADLINE_EXCEEDED);
    MUST(stuck[1].unprocessed);
    close_hanging(world, &hanging);
    close_world(world);
}

static void a_target_that_never_greets_fails_after_the_connect_timeout(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct hanging hanging;
    struct ask ask;

    open_hanging(world, &hanging, connect_fast);
    prepare(&ask, world, ECHO, "");
    MUST_OK(rpc_channel_call(hanging.channel, &ask.request));
    TURN_UNTIL(world, ask.is_ended);
    MUST_EQ(ask.status, RPC_UNAVAILABLE);
    MUST(ask.unprocessed);
    close_hanging(world, &hanging);
    close_world(world);
}

static void an_unknown_name_fails_its_own_calls_only(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct rpc_channel *good = world->channel;
    struct ask lost;
    struct ask ask;

    open_channel(world, "no-such-host.invalid:80", NULL);
    prepare(&lost, world, ECHO, "");
    lost.request.deadline_us = in_ms(world, 8000);
    MUST_OK(start(&lost));
    prepare(&ask, world, ECHO, "");
    MUST_OK(rpc_channel_call(good, &ask.request));
    TURN_UNTIL(world, ask.is_ended);
    MUST_EQ(ask.status, RPC_OK);
    TURN_UNTIL(world, lost.is_ended);
    MUST_EQ(lost.status, RPC_UNAVAILABLE);
    MUST(lost.unprocessed);
    close_channel(world);
    world->channel = good;
    close_world(world);
}

static void a_name_is_looked_up_and_reached(void)
{
    struct world *world = open_world();
    struct ask ask;
    char target[64];

    open_server(world, NULL);
    (void)snprintf(target, sizeof(target), "dns:///localhost:%u", world->port);
    open_channel(world, target, NULL);
    prepare(&ask, world, ECHO, "hi");
    MUST_OK(start(&ask));
    TURN_UNTIL(world, ask.is_ended);
    MUST_EQ(ask.status, RPC_OK);
    close_world(world);
}

static void a_drain_loses_no_call_and_the_channel_moves_on(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct ask first;
    struct ask *asks = must_new(300, sizeof(*asks));
    struct rpc_server *old = world->server;

    prepare(&first, world, WAIT, "");
    MUST_OK(start(&first));
    TURN_UNTIL(world, world->held != NULL);
    rpc_server_drain(old, 5000, on_drained, world);
    for (int i = 0; i < 300; i++) { // Before the client knows: these still go to the old one.
        prepare(&asks[i], world, ECHO, "");
        MUST_OK(start(&asks[i]));
    }
    open_server(world, NULL); // The port is free at once.
    TURN_UNTIL(world, world->replies == 300);
    for (int i = 0; i < 300; i++) {
        MUST_EQ(asks[i].status, RPC_OK);
    }
    MUST(!world->is_drained);
    rpc_call_reply(world->held, slice_of("late"));
    TURN_UNTIL(world, first.is_ended && world->is_drained);
    MUST_EQ_TEXT(first.payload, "late");
    world->is_closed = false;
    rpc_server_close(old, on_closed, world);
    TURN_UNTIL(world, world->is_closed);
    mem_free(asks);
    close_world(world);
}

static void a_drain_cuts_off_what_outlives_its_grace(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct ask ask;

    prepare(&ask, world, WAIT, "");
    MUST_OK(start(&ask));
    TURN_UNTIL(world, world->held != NULL);
    rpc_server_drain(world->server, 100, on_drained, world);
    TURN_UNTIL(world, world->is_drained);
    MUST_EQ(world->cancelled_count, 1);
    TURN_UNTIL(world, ask.is_ended);
    MUST_EQ(ask.status, RPC_UNAVAILABLE);
    MUST(!ask.unprocessed && !ask.from_peer);
    close_world(world);
}

static void ignore_cancel(struct rpc_call *call, struct slice request, void *ctx)
{
    struct world *world = ctx;

    (void)request;
    world->held = call;
}

static void a_closed_server_waits_for_its_handlers(void)
{
    struct world *world = open_world();
    struct rpc_method method = {.path = WAIT, .handler = ignore_cancel, .ctx = world};
    struct rpc_server_options options;
    struct rpc_server_stats stats;
    struct ask ask;

    rpc_server_options_init(&options);
    MUST_OK(rpc_server_open(world->loop, &options, &world->server));
    MUST_OK(rpc_server_add(world->server, &method));
    MUST_ERR(rpc_server_add(world->server, &method), ERR_EXISTS);
    (void)snprintf(world->target, sizeof(world->target), "127.0.0.1:%u",
                   rpc_server_port(world->server));
    open_channel(world, world->target, NULL);
    prepare(&ask, world, WAIT, "");
    MUST_OK(start(&ask));
    TURN_UNTIL(world, world->held != NULL);
    rpc_server_close(world->server, on_closed, world);
    TURN_UNTIL(world, ask.is_ended);
    for (int i = 0; i < 10; i++) {
        loop_turn(world->loop, false);
    }
    MUST(!world->is_closed);
    MUST(rpc_call_is_cancelled(world->held));
    rpc_server_get_stats(world->server, &stats);
    MUST_EQ(stats.calls_open, 1);
    rpc_call_reply(world->held, slice_of("nobody hears this"));
    TURN_UNTIL(world, world->is_closed);
    world->server = NULL;
    close_world(world);
}

static void allow_two_waiting(struct rpc_channel_options *options)
{
    options->queue_max = 2;
    options->concurrency_max = 1;
}

static void a_full_queue_refuses_and_closing_cancels_everything(void)
{
    struct world *world = open_pair(NULL, allow_two_waiting);
    struct ask asks[4];

    prepare(&asks[0], world, WAIT, "");
    MUST_OK(start(&asks[0]));
    TURN_UNTIL(world, world->held_count == 1);
    for (int i = 1; i < 4; i++) {
        prepare(&asks[i], world, WAIT, "");
    }
    MUST_OK(start(&asks[1]));
    MUST_OK(start(&asks[2]));
    MUST_ERR(start(&asks[3]), ERR_FULL);
    for (int i = 0; i < 10; i++) {
        loop_turn(world->loop, false);
    }
    MUST_EQ(world->held_count, 1);
    close_channel(world);
    for (int i = 0; i < 3; i++) {
        MUST(asks[i].is_ended);
        MUST_EQ(asks[i].status, RPC_CANCELLED);
    }
    TURN_UNTIL(world, world->cancelled_count == 1);
    close_world(world);
}

static void age_fast(struct rpc_server_options *options)
{
    options->age_ms = 50;
    options->age_grace_ms = 2000;
}

static void connections_are_replaced_as_they_age_without_losing_a_call(void)
{
    struct world *world = open_pair(age_fast, NULL);
    struct rpc_server_stats stats = {0};
    int count = 0;

    while (stats.connections_accepted < 5) {
        struct ask ask;

        prepare(&ask, world, ECHO, "x");
        MUST_OK(start(&ask));
        TURN_UNTIL(world, ask.is_ended);
        MUST_EQ(ask.status, RPC_OK);
        rpc_server_get_stats(world->server, &stats);
        count++;
    }
    MUST(count > 10);
    close_world(world);
}

static void keep_alive_fast(struct rpc_channel_options *options)
{
    options->keepalive_ms = 50;
    options->keepalive_timeout_ms = 50;
}

static void forbid_pings(struct rpc_server_options *options)
{
    options->ping_interval_min_ms = 100000;
}

static void too_many_pings_end_the_connection(void)
{
    struct world *world = open_pair(forbid_pings, keep_alive_fast);
    struct ask ask;

    prepare(&ask, world, WAIT, "");
    MUST_OK(start(&ask));
    TURN_UNTIL(world, ask.is_ended);
    MUST_EQ(ask.status, RPC_UNAVAILABLE);
    MUST(!ask.unprocessed);
    TURN_UNTIL(world, world->cancelled_count == 1);
    close_world(world);
}

/* Fails one allocation: the one that brings `left` to zero. */
static bool fail_one(size_t size, void *ctx)
{
    int *left = ctx;

    (void)size;
    return --*left != 0;
}

/*
 * Echo calls from open to close; every step may fail, none may crash, leak, or lose a callback.
 * True if that allocation was reached.
 */
static bool run_starved(int fail_at)
{
    static const struct rpc_method method = {.path = ECHO, .handler = on_echo};
    struct world world = {.is_closed = true};
    struct rpc_server_options server_options;
    struct rpc_channel_options options;
    struct ask asks[3];
    int started = 0;

    rpc_server_options_init(&server_options);
    rpc_channel_options_init(&options);
    mem_set_hook(fail_one, &fail_at);
    if (loop_open(&world.loop) != 0) {
        return true;
    }
    if (rpc_server_open(world.loop, &server_options, &world.server) == 0) {
        MUST_OK(rpc_server_add(world.server, &method));
        (void)snprintf(world.target, sizeof(world.target), "127.0.0.1:%u",
                       rpc_server_port(world.server));
        options.target = world.target;
        if (rpc_channel_open(world.loop, &options, &world.channel) == 0) {
            for (int i = 0; i < 3; i++) {
                prepare(&asks[i], &world, ECHO, "starved");
                asks[i].request.deadline_us = in_ms(&world, 300);
                started += start(&asks[i]) == 0;
            }
            TURN_UNTIL(&world, world.replies == started);
            close_channel(&world);
        }
        close_server(&world);
    }
    loop_close(world.loop);
    return fail_at <= 0;
}

static void every_allocation_may_fail(void)
{
    int fail_at = 1;

    while (run_starved(fail_at)) {
        mem_set_hook(NULL, NULL);
        MUST_EQ(mem_block_count(), 0);
        fail_at++;
    }
    mem_set_hook(NULL, NULL);
    MUST(fail_at > 30); // The walk went through the whole life of the calls.
}

/* RELIABILITY N-4: calls whose target reads nothing must not touch the calls to others. */
static void a_target_that_never_reads_delays_nobody_else(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct hanging hanging;
    struct ask *stuck = must_new(64, sizeof(*stuck));
    char *payload = must_new(1U << 20, 1);
    int64_t worst_us = 0;

    open_hanging(world, &hanging, NULL);
    for (int i = 0; i < 64; i++) {
        prepare(&stuck[i], world, ECHO, "");
        stuck[i].request.payload = (struct slice){(uint8_t *)payload, 1U << 20};
        stuck[i].request.deadline_us = in_ms(world, 400);
        MUST_OK(rpc_channel_call(hanging.channel, &stuck[i].request));
    }
    TURN_UNTIL(world, hanging.fd >= 0);
    // Greet it with SETTINGS that open the stream window wide, then read nothing.
    MUST_EQ(write(hanging.fd, "\0\0\6\4\0\0\0\0\0\0\4\x7f\xff\xff\xff", 15), 15);
    while (!stuck[63].is_ended) {
        struct ask good;
        boot_us before_us = clock_boot_us();

        prepare(&good, world, ECHO, "x");
        MUST_OK(start(&good));
        TURN_UNTIL(world, good.is_ended);
        MUST_EQ(good.status, RPC_OK);
        worst_us = time_max(worst_us, clock_boot_us() - before_us);
    }
    MUST_LE(worst_us, 150000);
    for (int i = 0; i < 64; i++) {
        MUST(stuck[i].is_ended);
        MUST_EQ(stuck[i].status, RPC_DEADLINE_EXCEEDED);
    }
    close_hanging(world, &hanging);
    mem_free(stuck);
    mem_free(payload);
    close_world(world);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(calls_are_answered_once_each_with_their_own_reply),
        MUST_CASE(a_callback_may_start_the_next_call),
        MUST_CASE(metadata_details_and_pushback_travel),
        MUST_CASE(bad_requests_are_refused_without_a_callback),
        MUST_CASE(large_messages_go_both_ways),
        MUST_CASE(the_peers_stream_limit_is_respected),
        MUST_CASE(a_deadline_ends_the_call_at_both_ends),
        MUST_CASE(a_call_can_be_cancelled_at_every_stage),
        MUST_CASE(a_call_is_withdrawn_just_before_it_goes_out),
        MUST_CASE(a_deadline_may_be_brought_forward_at_the_send),
        MUST_CASE(a_dead_target_fails_fast_and_comes_back),
        MUST_CASE(a_hanging_target_delays_nobody_else),
        MUST_CASE(a_target_that_never_greets_fails_after_the_connect_timeout),
        MUST_CASE(an_unknown_name_fails_its_own_calls_only),
        MUST_CASE(a_name_is_looked_up_and_reached),
        MUST_CASE(a_drain_loses_no_call_and_the_channel_moves_on),
        MUST_CASE(a_drain_cuts_off_what_outlives_its_grace),
        MUST_CASE(a_closed_server_waits_for_its_handlers),
        MUST_CASE(a_full_queue_refuses_and_closing_cancels_everything),
        MUST_CASE(connections_are_replaced_as_they_age_without_losing_a_call),
        MUST_CASE(too_many_pings_end_the_connection),
        MUST_CASE(a_target_that_never_reads_delays_nobody_else),
        MUST_CASE(every_allocation_may_fail),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
