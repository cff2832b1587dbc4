/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets that are dead, hanging, unknown, leaving or starved: each costs its own calls only.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/listener.h"
#include "tests/integration/rpc_world.h"
#include "tests/lib/must.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* So long that what must come within it does so on a slow machine too. */
static void back_off_for_long(struct rpc_channel_options *options)
{
    options->backoff_first_ms = 500;
}

static void a_dead_target_fails_fast_and_comes_back(void)
{
    struct world *world = open_pair(NULL, back_off_for_long);
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

static void serve_all_addresses(struct rpc_server_options *options)
{
    options->address = "0.0.0.0";
}

/* A channel to a name with two addresses of this machine. */
static void open_two_addresses(struct world *world, void (*change)(struct rpc_server_options *))
{
    char target[64];

    world->dns.mood = FAKE_DNS_ANSWERS;
    world->dns.hosts[0] = 0x7f000002;
    world->dns.hosts[1] = 0x7f000001;
    world->dns.host_count = 2;
    open_server(world, change);
    (void)snprintf(target, sizeof(target), "dns:///two.example.com:%u", world->port);
    open_channel(world, target, NULL);
}

static void ask_many(struct world *world, struct ask *asks, int count)
{
    for (int i = 0; i < count; i++) {
        prepare(&asks[i], world, TELL, "");
        MUST_OK(start(&asks[i]));
    }
    TURN_UNTIL(world, world->replies == count);
    world->replies = 0;
}

static void calls_are_spread_over_all_addresses_of_a_name(void)
{
    struct world *world = open_world();
    struct ask *asks = must_new(100, sizeof(*asks));
    struct rpc_channel_stats channel;

    open_two_addresses(world, serve_all_addresses);
    ask_many(world, asks, 1);
    do { // Until both connections stand; then the calls take turns.
        loop_turn(world->loop, true);
        rpc_channel_get_stats(world->channel, &channel);
    } while (channel.connection_count < 2);
    ask_many(world, asks, 100);
    rpc_channel_get_stats(world->channel, &channel);
    MUST_EQ(channel.connection_count, 2);
    MUST_LE(48, channel.least_started);
    mem_free(asks);
    close_world(world);
}

static void a_dead_address_beside_a_living_one_costs_no_call(void)
{
    struct world *world = open_world();
    struct ask *asks = must_new(50, sizeof(*asks));

    open_two_addresses(world, NULL); // On 127.0.0.1 only.
    ask_many(world, asks, 50);
    for (int i = 0; i < 50; i++) {
        MUST_EQ(asks[i].status, RPC_ABORTED); // The method's own answer.
    }
    MUST_EQ(rpc_channel_get_state(world->channel), RPC_CHANNEL_READY);
    mem_free(asks);
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
    options->age_ms = 500; // A shorter one may end before its first reply: the address would fail.
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
 * True if that allocation was reached: a machine that stalls may not get so far in time.
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

    for (int missed = 0; missed < 2;) {
        missed = run_starved(fail_at) ? 0 : missed + 1;
        mem_set_hook(NULL, NULL);
        MUST_EQ(mem_block_count(), 0);
        fail_at += missed == 0;
    }
    MUST(fail_at > 30); // The walk went through the whole life of the calls.
}

/* Longest call to a good target beside calls whose target reads nothing. */
static int64_t longest_call_us(void)
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
    for (int i = 0; i < 64; i++) {
        MUST(stuck[i].is_ended);
        MUST_EQ(stuck[i].status, RPC_DEADLINE_EXCEEDED);
    }
    close_hanging(world, &hanging);
    mem_free(stuck);
    mem_free(payload);
    close_world(world);
    return worst_us;
}

/* RELIABILITY N-4 */
static void a_target_that_never_reads_delays_nobody_else(void)
{
    MUST_LE_ONCE(longest_call_us(), 150000);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_dead_target_fails_fast_and_comes_back),
        MUST_CASE(a_hanging_target_delays_nobody_else),
        MUST_CASE(a_target_that_never_greets_fails_after_the_connect_timeout),
        MUST_CASE(an_unknown_name_fails_its_own_calls_only),
        MUST_CASE(a_name_is_looked_up_and_reached),
        MUST_CASE(calls_are_spread_over_all_addresses_of_a_name),
        MUST_CASE(a_dead_address_beside_a_living_one_costs_no_call),
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
