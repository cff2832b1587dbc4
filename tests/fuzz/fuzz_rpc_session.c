/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a client of the server: calls are opened, handled and freed in balance, whatever
 * comes, however it is cut, and however time passes between.
 *
 * input: flags (bit 0: the preface and SETTINGS are sent first), the cut, then the bytes.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/rpc/rpc_serving.h"
#include "lib/rpc/rpc_session.h"
#include "tests/fuzz/fuzz_memory.h"

#include <string.h>

#define HELD_MAX   64U
#define FIRST_US   US_PER_S
#define PREFACE    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
#define FILL_BYTES (4U * H2_FILL_BYTES_MIN)

/* Calls whose handler has not answered. */
struct held {
    struct rpc_call *calls[HELD_MAX];
    size_t count;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_echo(struct rpc_call *call, struct slice request, void *ctx)
{
    (void)ctx;
    rpc_call_reply(call, request);
}

static void on_cancel(struct rpc_call *call, void *ctx)
{
    struct held *held = ctx;

    for (size_t i = 0; i < held->count; i++) {
        if (held->calls[i] == call) {
            held->calls[i] = held->calls[--held->count];
            rpc_call_reply(call, slice_of("too late"));
            return;
        }
    }
    UNREACHABLE();
}

/* Holds the call; those with an odd length answer their own cancellation, the others stay behind.
 */
static void on_hold(struct rpc_call *call, struct slice request, void *ctx)
{
    struct held *held = ctx;

    if (held->count == HELD_MAX) {
        rpc_call_fail(call, RPC_RESOURCE_EXHAUSTED, "enough", slice_of("details"), 5);
        return;
    }
    held->calls[held->count++] = call;
    if (request.len % 2 == 1) {
        rpc_call_on_cancel(call, on_cancel, held);
    }
}

static void on_stream(struct rpc_call *call, struct slice request, void *ctx)
{
    int err = rpc_call_send(call, request);

    (void)ctx;
    if (err == 0) {
        err = rpc_call_send(call, request);
    }
    if (err == 0) {
        rpc_call_end(call);
    } else {
        rpc_call_fail(call, RPC_INTERNAL, NULL, request, 0);
    }
}

/* Echoes a stream; a message of one byte ends it. */
static void on_both(struct rpc_call *call, struct slice request, void *ctx)
{
    (void)ctx;
    if (request.len == 1) {
        rpc_call_fail(call, RPC_ABORTED, "enough", request, 0);
    } else if (rpc_call_send(call, request) != 0) {
        rpc_call_fail(call, RPC_RESOURCE_EXHAUSTED, NULL, (struct slice){NULL, 0}, 0);
    }
}

static void on_both_end(struct rpc_call *call, struct slice request, void *ctx)
{
    (void)request;
    (void)ctx;
    rpc_call_end(call);
}

/* Feed, fill and tick until the input or the connection ends. */
static void drive(struct rpc_session *session, struct slice bytes, size_t cut)
{
    static uint8_t space[FILL_BYTES];
    boot_us now_us = FIRST_US;

    while (bytes.len > 0) {
        size_t len = bytes.len < cut ? bytes.len : cut;

        now_us += (boot_us)bytes.data[0] * US_PER_MS;
        if (rpc_session_take(session, now_us, (struct slice){bytes.data, len}) != 0 ||
            rpc_session_fill(session, space, sizeof(space)) < 0 || rpc_session_is_done(session)) {
            return;
        }
        if (bytes.data[0] % 64 == 63) {
            rpc_session_drain(session, now_us, now_us + US_PER_S);
        }
        now_us = time_min(now_us + US_PER_S, rpc_session_next_wake(session));
        if (rpc_session_tick(session, now_us) != 0) {
            return;
        }
        bytes = (struct slice){bytes.data + len, bytes.len - len};
    }
}

static void run(struct rpc_serving *serving, struct held *held, const uint8_t *data, size_t size)
{
    struct rpc_session *session;
    struct prng prng;

    prng_init(&prng, 1);
    if (rpc_session_open(serving, "127.0.0.1:1", FIRST_US, &prng, &session) != 0) {
        REQUIRE(fuzz_lacks_memory);
        return;
    }
    if ((data[0] & 1) != 0) {
        REQUIRE_MEMORY(
            rpc_session_take(session, FIRST_US,
                             (struct slice){(const uint8_t *)PREFACE, sizeof(PREFACE) - 1}) == 0);
    }
    drive(session, (struct slice){data + 2, size - 2}, 1U + data[1]);
    if (held->count > 0) { // One is answered while the connection stands, the others after it.
        rpc_call_reply(held->calls[--held->count], slice_of("answer"));
    }
    rpc_session_close(session);
    while (held->count > 0) {
        struct rpc_call *call = held->calls[--held->count];

        REQUIRE(rpc_call_is_cancelled(call));
        rpc_call_fail(call, RPC_ABORTED, "nobody hears this", (struct slice){NULL, 0}, 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct held held;
    static const struct rpc_method methods[] = {
        {.path = "/a.B/Echo", .handler = on_echo, .ctx = &held},
        {.path = "/a.B/Hold", .handler = on_hold, .ctx = &held},
        {.path = "/a.B/Stream", .handler = on_stream, .ctx = &held, .is_endless = true},
        {.path = "/a.B/Both", .handler = on_both_end, .on_message = on_both, .is_endless = true},
    };
    static struct rpc_serving serving;
    int64_t blocks = mem_block_count();

    if (size < 2) {
        return 0;
    }
    memset(&serving, 0, sizeof(serving));
    rpc_server_options_init(&serving.options);
    serving.options.header_bytes_max = 2000;
    serving.options.request_bytes_max = 10000;
    serving.options.response_bytes_max = 10000;
    serving.options.compress_bytes_min = 10;
    for (size_t i = 0; i < ARRAY_COUNT(methods); i++) {
        REQUIRE_MEMORY(rpc_methods_add(&serving.methods, &methods[i]) == 0);
    }
    run(&serving, &held, data, size);
    REQUIRE(serving.running_count == 0);
    REQUIRE(serving.stats.calls_open == 0);
    REQUIRE(serving.stats.buffered_bytes == 0);
    REQUIRE(mem_block_count() == blocks);
    return 0;
}
