/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection that is being left, both halves of lib/rpc joined by memory: what the client is told
 * not to have been processed was not begun.
 */
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/rpc/h2.h"
#include "lib/rpc/rpc_caller.h"
#include "lib/rpc/rpc_serving.h"
#include "lib/rpc/rpc_session.h"

#include <criterion/criterion.h>
#include <string.h>

#define FIRST_US    US_PER_S
#define SPACE_BYTES (4U * H2_FILL_BYTES_MIN)

struct both {
    struct rpc_serving serving;
    struct rpc_session *session;
    struct rpc_caller *caller;
    struct prng prng;
    unsigned handled;
    unsigned ended;
    bool unprocessed;
    uint8_t space[SPACE_BYTES];
};

static struct both both;

static void on_call(struct rpc_call *call, struct slice request, void *ctx)
{
    (void)ctx;
    both.handled++;
    rpc_call_reply(call, request);
}

static void on_ready(void *ctx)
{
    (void)ctx;
}

static void on_leaving(void *ctx, bool too_many_pings)
{
    (void)ctx;
    (void)too_many_pings;
}

static void on_ended(void *ctx, struct rpc_request *request, const struct rpc_reply *reply)
{
    (void)ctx;
    (void)request;
    both.ended++;
    both.unprocessed = reply->unprocessed;
}

static const struct rpc_caller_events events = {
    .ready = on_ready, .leaving = on_leaving, .ended = on_ended};

/* What the client has to say, given to the server now or kept. */
static struct slice from_client(void)
{
    int len = rpc_caller_fill(both.caller, both.space, SPACE_BYTES);

    cr_assert_geq(len, 0);
    return (struct slice){both.space, (size_t)len};
}

static void to_server(struct slice bytes)
{
    cr_assert_eq(rpc_session_take(both.session, FIRST_US, bytes), 0);
}

static void to_client(void)
{
    int len = rpc_session_fill(both.session, both.space, SPACE_BYTES);

    cr_assert_geq(len, 0);
    cr_assert_eq(rpc_caller_take(both.caller, FIRST_US, (struct slice){both.space, (size_t)len}),
                 0);
}

static void join(void)
{
    static const struct rpc_method method = {.path = "/a.B/C", .handler = on_call};
    static const struct rpc_caller_options options = {.scheme = "http",
                                                      .authority = "a:1",
                                                      .user_agent = "test",
                                                      .response_bytes_max = 1000,
                                                      .header_bytes_max = 1000,
                                                      .keepalive_ms = SPAN_NEVER,
                                                      .keepalive_timeout_ms = 100};

    prng_init(&both.prng, 1);
    rpc_server_options_init(&both.serving.options);
    cr_assert_eq(rpc_methods_add(&both.serving.methods, &method), 0);
    cr_assert_eq(
        rpc_session_open(&both.serving, "127.0.0.1:1", FIRST_US, &both.prng, &both.session), 0);
    cr_assert_eq(rpc_caller_open(&options, &events, NULL, FIRST_US, &both.caller), 0);
    to_server(from_client());
    to_client();
    to_server(from_client());
}

static void part(void)
{
    rpc_caller_close(both.caller);
    rpc_session_close(both.session);
}

/* The simulator's wire seeds 6 and 18: the socket took no more when the last GOAWAY was due. */
Test(rpc_leaving, a_call_that_meets_a_waiting_goaway_is_not_begun)
{
    struct rpc_request request = {.path = "/a.B/C", .deadline_us = BOOT_NEVER};
    int64_t blocks = mem_block_count();
    struct slice bytes;

    join();
    cr_assert_eq(rpc_caller_start(both.caller, FIRST_US, &request), 0);
    bytes = from_client(); // On its way.
    rpc_session_drain(both.session, FIRST_US, BOOT_NEVER);
    cr_assert_eq(rpc_session_tick(both.session, rpc_session_next_wake(both.session)), 0);
    to_server(bytes); // Now the GOAWAY waits, and names no call.
    to_client();
    cr_assert_eq(both.ended, 1);
    cr_assert(both.unprocessed);
    cr_assert_eq(both.handled, 0);
    part();
    cr_assert_eq(mem_block_count(), blocks);
}

Test(rpc_leaving, a_call_that_came_before_is_done)
{
    struct rpc_request request = {.path = "/a.B/C", .deadline_us = BOOT_NEVER};

    join();
    cr_assert_eq(rpc_caller_start(both.caller, FIRST_US, &request), 0);
    to_server(from_client());
    rpc_session_drain(both.session, FIRST_US, BOOT_NEVER);
    cr_assert_eq(rpc_session_tick(both.session, rpc_session_next_wake(both.session)), 0);
    to_client();
    cr_assert_eq(both.ended, 1);
    cr_assert(!both.unprocessed);
    cr_assert_eq(both.handled, 1);
    part();
}
