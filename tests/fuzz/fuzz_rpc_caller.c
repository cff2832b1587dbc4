/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a server that our client talks to: every call ends exactly once.
 *
 * input: flags (bit 0: the server's SETTINGS come first), the cut, then the bytes.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/rpc/h2.h"
#include "lib/rpc/rpc_caller.h"
#include "tests/fuzz/fuzz_memory.h"

#include <string.h>

#define CALL_COUNT 4U
#define FIRST_US   US_PER_S
#define GREETING   "\0\0\0\4\0\0\0\0\0"

struct world {
    struct rpc_request requests[CALL_COUNT];
    unsigned ends[CALL_COUNT];
    size_t started;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    struct world *world = ctx;

    REQUIRE(reply->status >= RPC_OK && reply->status <= RPC_UNAUTHENTICATED);
    REQUIRE(IMPLIES(reply->payload.len > 0, reply->status == RPC_OK));
    REQUIRE(IMPLIES(reply->unprocessed, reply->status == RPC_UNAVAILABLE));
    world->ends[request - world->requests]++;
}

static const struct rpc_caller_events events = {
    .ready = on_ready, .leaving = on_leaving, .ended = on_ended};

static void start_calls(struct world *world, struct rpc_caller *caller, boot_us now_us)
{
    while (world->started < CALL_COUNT && rpc_caller_free_count(caller) > 0) {
        struct rpc_request *request = &world->requests[world->started];

        request->path = "/a.B/C";
        request->payload = slice_of("hello");
        request->deadline_us = now_us + US_PER_S;
        if (rpc_caller_start(caller, now_us, request) != 0) {
            return;
        }
        world->started++;
    }
}

static void drive(struct world *world, struct rpc_caller *caller, struct slice bytes, size_t cut)
{
    static uint8_t space[4U * H2_FILL_BYTES_MIN];
    boot_us now_us = FIRST_US;

    while (bytes.len > 0) {
        size_t len = bytes.len < cut ? bytes.len : cut;

        start_calls(world, caller, now_us);
        if (rpc_caller_fill(caller, space, sizeof(space)) < 0) {
            return;
        }
        rpc_caller_written(caller, now_us);
        now_us += (boot_us)bytes.data[0] * US_PER_MS;
        if (rpc_caller_take(caller, now_us, (struct slice){bytes.data, len}) != 0 ||
            rpc_caller_is_done(caller) || rpc_caller_tick(caller, now_us) != 0) {
            return;
        }
        bytes = (struct slice){bytes.data + len, bytes.len - len};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rpc_caller_options options = {.scheme = "http",
                                                      .authority = "a:1",
                                                      .user_agent = "fuzz",
                                                      .response_bytes_max = 1000,
                                                      .header_bytes_max = 1000,
                                                      .keepalive_ms = 100,
                                                      .keepalive_timeout_ms = 100};
    struct world world = {.started = 0};
    int64_t blocks = mem_block_count();
    struct rpc_caller *caller;

    if (size < 2) {
        return 0;
    }
    if (rpc_caller_open(&options, &events, &world, FIRST_US, &caller) != 0) {
        REQUIRE(fuzz_lacks_memory);
        return 0;
    }
    if ((data[0] & 1) != 0) {
        REQUIRE_MEMORY(
            rpc_caller_take(caller, FIRST_US,
                            (struct slice){(const uint8_t *)GREETING, sizeof(GREETING) - 1}) == 0);
    }
    drive(&world, caller, (struct slice){data + 2, size - 2}, 1U + data[1]);
    if (world.started > 0 && world.requests[0].stream != NULL) {
        rpc_caller_drop(caller, &world.requests[0]);
        world.ends[0]++;
    }
    rpc_caller_close(caller);
    for (size_t i = 0; i < CALL_COUNT; i++) {
        REQUIRE(world.ends[i] == (i < world.started ? 1U : 0U));
    }
    REQUIRE(mem_block_count() == blocks);
    return 0;
}
