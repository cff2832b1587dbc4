/* SPDX-License-Identifier: Apache-2.0
 *
 * Both halves of lib/rpc joined by memory. A connection that is being left: what the client is told
 * not to have been processed was not begun. Memory that is short: messages come whole or not at
 * all.
 */
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/rpc/h2.h"
#include "lib/rpc/rpc_caller.h"
#include "lib/rpc/rpc_serving.h"
#include "lib/rpc/rpc_session.h"

#include <criterion/criterion.h>
#include <string.h>

#define FIRST_US      US_PER_S
#define SPACE_BYTES   (4U * H2_FILL_BYTES_MIN)
#define MESSAGE_BYTES 4000
#define NTH_MAX       50

struct both {
    struct rpc_serving serving;
    struct rpc_session *session;
    struct rpc_caller *caller;
    struct prng prng;
    unsigned handled;
    unsigned ended;
    bool unprocessed;
    enum rpc_status status;
    size_t payload_len;
    bool is_stream;      /* the handler sends a stream of messages */
    unsigned sent;       /* messages that are on their way, as the handler was told */
    int64_t until_short; /* allocations that the handler still gets; −1: any number */
    uint8_t space[SPACE_BYTES];
};

static struct both both = {.until_short = -1};

static bool allow(size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    return both.until_short < 0 || both.until_short-- > 0;
}

static void on_call(struct rpc_call *call, struct slice request, void *ctx)
{
    (void)ctx;
    both.handled++;
    mem_set_hook(allow, NULL);
    if (both.is_stream) {
        both.sent = rpc_call_send(call, request) == 0;
        mem_set_hook(NULL, NULL);
        rpc_call_end(call);
    } else {
        rpc_call_reply(call, request);
        mem_set_hook(NULL, NULL);
    }
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
    both.status = reply->status;
    both.payload_len = reply->payload.len;
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
                                                      .response_bytes_max = MESSAGE_BYTES,
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
Test(rpc_session, a_call_that_meets_a_waiting_goaway_is_not_begun)
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

Test(rpc_session, a_call_that_came_before_is_done)
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

/* The nth allocation of the handler is refused, and all behind it. False if it needed fewer. */
static bool answer_in_little_memory(int64_t nth, bool is_stream)
{
    static const uint8_t message[MESSAGE_BYTES] = {1};
    struct rpc_request request = {
        .path = "/a.B/C", .payload = {message, sizeof(message)}, .deadline_us = BOOT_NEVER};
    int64_t blocks = mem_block_count();
    bool was_short;

    memset(&both, 0, sizeof(both));
    both.is_stream = is_stream;
    both.until_short = nth;
    join();
    cr_assert_eq(rpc_caller_start(both.caller, FIRST_US, &request), 0);
    to_server(from_client());
    was_short = both.until_short <= 0;
    to_client();
    cr_assert_eq(both.handled, 1);
    cr_assert_eq(both.ended, 1);
    cr_assert_eq(both.serving.stats.unread_bytes, 0);
    cr_assert_eq(both.payload_len, both.status == RPC_OK ? MESSAGE_BYTES : 0);
    if (is_stream) { // The client wants one message, and had none.
        cr_assert_eq(both.status == RPC_OK, both.sent == 1);
        cr_assert(both.sent == 1 || both.status == RPC_UNIMPLEMENTED, "%d", (int)both.status);
    } else {
        cr_assert(both.status == RPC_OK || both.status == RPC_UNKNOWN);
    }
    part();
    cr_assert_eq(mem_block_count(), blocks);
    return was_short;
}

/* The simulator's wire seeds 7000377 and 7000857. */
Test(rpc_session, short_memory_tears_no_message)
{
    for (int is_stream = 0; is_stream < 2; is_stream++) {
        int64_t nth = 0;

        while (answer_in_little_memory(nth, is_stream == 1)) {
            cr_assert_lt(++nth, NTH_MAX);
        }
        cr_assert_gt(nth, 0);
    }
}
