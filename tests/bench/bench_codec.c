/* SPDX-License-Identifier: Apache-2.0
 *
 * What the codec costs a broker: processor time per request that is read, checked and answered, and
 * the memory that a batch unfolds to. Prints a table; decides nothing.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "proto/codec_receiver.h"
#include "proto/codec_task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS      200000
#define BATCH_COUNT 1000
#define BATCHES     200
#define PAYLOAD     100

static uint8_t payload[PAYLOAD];
static volatile uint64_t kept; /* so that no result is optimised away */

/* Processor time of this thread: other work on the machine does not count. */
static int64_t now_ns(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void print_row(const char *what, int64_t from_ns, int64_t count)
{
    (void)printf("%-44s %8.0f ns\n", what, (double)(now_ns() - from_ns) / (double)count);
}

static struct create_request sample(bool has_key)
{
    return (struct create_request){
        .queue = {"default", "mail"},
        .when = {.kind = WHEN_DELAY, .delay_ms = 900000},
        .payload = {payload, sizeof(payload)},
        .key = slice_of(has_key ? "order-0123456789" : ""),
        .key_policy = KEY_KEEP,
    };
}

static void run_create(bool has_key)
{
    struct create_request request = sample(has_key);
    struct arena arena;
    struct fault fault;
    struct buf in;
    struct buf out;
    int64_t from_ns;

    buf_init(&in, RPC_MESSAGE_BYTES_MAX);
    buf_init(&out, RPC_MESSAGE_BYTES_MAX);
    REQUIRE(codec_write_create(&request, &in) == 0);
    from_ns = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        struct create_reply reply = {.id = {.seq = i + 1, .slot = 7}, .created = true};

        arena_init(&arena, 0);
        REQUIRE(codec_read_create(buf_slice(&in), &arena, &request, &fault) == 0);
        buf_clear(&out);
        reply.due_ms = 1767323045678 + request.when.delay_ms;
        REQUIRE(codec_write_create_reply(&reply, &out) == 0);
        kept += buf_len(&out);
        arena_fini(&arena);
    }
    print_row(has_key ? "Create with key: read, answer" : "Create: read, answer", from_ns, ROUNDS);
    buf_fini(&in);
    buf_fini(&out);
}

static void run_batch(void)
{
    struct create_request request = sample(false);
    struct create_batch batch;
    struct arena arena;
    struct fault fault;
    struct buf in;
    struct buf out;
    size_t used = 0;
    int64_t from_ns;

    buf_init(&in, RPC_MESSAGE_BYTES_MAX);
    buf_init(&out, RPC_MESSAGE_BYTES_MAX);
    for (int i = 0; i < BATCH_COUNT; i++) {
        REQUIRE(codec_write_batch_item(&request, &in) == 0);
    }
    from_ns = now_ns();
    for (int round = 0; round < BATCHES; round++) {
        arena_init(&arena, 0);
        buf_clear(&out);
        REQUIRE(codec_read_batch(buf_slice(&in), &arena, &batch, &fault) == 0);
        for (size_t i = 0; i < batch.count; i++) {
            struct create_reply reply = {.id = {.seq = 1, .slot = 7}, .due_ms = 1767323045678};

            REQUIRE(codec_read_batch_item(&batch, i, &request, &fault) == 0);
            REQUIRE(codec_write_batch_result(&reply, NULL, &out) == 0);
        }
        used = arena.used;
        kept += buf_len(&out);
        arena_fini(&arena);
    }
    print_row("BatchCreate of 1 000: read, answer, per item", from_ns,
              (int64_t)BATCHES * BATCH_COUNT);
    (void)printf("%-44s %8zu B for %zu on the wire\n", "  memory per item", used / BATCH_COUNT,
                 buf_len(&in) / BATCH_COUNT);
    buf_fini(&in);
    buf_fini(&out);
}

static void run_deliver(void)
{
    const struct delivery_result done = {.outcome = DELIVERY_DONE};
    struct delivery_results results;
    struct delivery_result result;
    struct arena arena;
    struct fault fault;
    struct buf request;
    struct buf reply;
    int64_t from_ns;

    buf_init(&request, RPC_MESSAGE_BYTES_MAX);
    buf_init(&reply, RPC_MESSAGE_BYTES_MAX);
    for (int i = 0; i < BATCH_COUNT; i++) {
        REQUIRE(codec_write_delivery_result(&done, &reply) == 0);
    }
    from_ns = now_ns();
    for (int round = 0; round < BATCHES; round++) {
        buf_clear(&request);
        for (int i = 0; i < BATCH_COUNT; i++) {
            struct delivery delivery = {.id = {.seq = i + 1, .slot = 7},
                                        .queue = {"default", "mail"},
                                        .due_ms = 1767323045678,
                                        .deadline_ms = 1767323057678,
                                        .attempt = 1,
                                        .payload = {payload, sizeof(payload)}};

            REQUIRE(codec_write_delivery(&delivery, &request) == 0);
        }
        arena_init(&arena, 0);
        REQUIRE(codec_read_deliver_reply(buf_slice(&reply), BATCH_COUNT, &arena, &results,
                                         &fault) == 0);
        for (size_t i = 0; i < results.count; i++) {
            codec_read_delivery_result(&results, i, &result);
            kept += (uint64_t)result.outcome;
        }
        arena_fini(&arena);
    }
    print_row("Deliver of 1 000: write, read results, each", from_ns,
              (int64_t)BATCHES * BATCH_COUNT);
    buf_fini(&request);
    buf_fini(&reply);
}

int main(void)
{
    memset(payload, 'p', sizeof(payload));
    (void)printf("codec, payloads of %d bytes, processor time\n", PAYLOAD);
    run_create(false);
    run_create(true);
    run_batch();
    run_deliver();
    return 0;
}
