/* SPDX-License-Identifier: Apache-2.0
 *
 * Unary calls from our client to our server, over loopback in one loop.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "tests/integration/rpc_world.h"
#include "tests/lib/must.h"

#include <stdio.h>
#include <string.h>

#include <unistd.h>

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
    struct ask ask = {.was_sent = false};

    for (int64_t ms = 50; !ask.was_sent; ms *= 2) { // Slow machines connect slowly.
        boot_us due_us = in_ms(world, ms);

        prepare(&ask, world, WAIT, "");
        ask.request.deadline_us = due_us;
        MUST_OK(start(&ask));
        TURN_UNTIL(world, ask.is_ended);
        MUST(loop_now_us(world->loop) >= due_us);
        MUST_EQ(ask.status, RPC_DEADLINE_EXCEEDED);
        MUST_LE(ms, 10000);
    }
    TURN_UNTIL(world, world->cancelled_count == 1);
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

/* Before the poll, when all that there is to write has been written. */
static void stand_still(void *ctx)
{
    const struct ask *ask = ctx;

    while (clock_boot_us() < ask->request.deadline_us + LOOP_HELD_UP_US) {
        (void)usleep(10000);
    }
}

static void an_answer_that_came_while_we_stood_still_counts(void)
{
    struct world *world = open_pair(NULL, NULL);
    struct loop_hook hook;
    struct ask ask;

    prepare(&ask, world, WAIT, "");
    ask.request.deadline_us = in_ms(world, 2000);
    MUST_OK(start(&ask));
    TURN_UNTIL(world, world->held_count == 1);
    rpc_call_reply(world->held, slice_of("now"));
    loop_hook_add(world->loop, &hook, stand_still, &ask);
    TURN_UNTIL(world, ask.is_ended);
    loop_hook_del(&hook);
    MUST_EQ(ask.status, RPC_OK);
    MUST_EQ_TEXT(ask.payload, "now");
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
        MUST_CASE(an_answer_that_came_while_we_stood_still_counts),
        MUST_CASE(a_deadline_may_be_brought_forward_at_the_send),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
