/* SPDX-License-Identifier: Apache-2.0
 *
 * A fixed amount of work on each of the paths that every task takes, for tools/instructions to
 * count under callgrind: a part of the work, then a dump with its name. Without valgrind it only
 * does the work. Ends with 1 if the work was not what it was meant to be.
 */
#include "broker/core/wheel.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "proto/codec_task.h"
#include "tests/unit/broker_rig.h"

#include <stdio.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else // A machine that only builds has no valgrind.
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name)
#endif

#define TASK_COUNT  6000U /* of create, claim and settle */
#define WAVE        100U  /* tasks that share a commit */
#define LEAD_MS     400
#define TIMER_COUNT 100000U
#define PAYLOAD_LEN 100

static struct rig rig; // large
static struct wheel wheel;

/* All may run at once. */
static void widen_queue(void)
{
    struct queue queue;

    queue_init(&queue);
    queue.id = 1;
    queue.version = 2;
    queue.concurrency_max = TASK_COUNT;
    rig.in_core = true;
    broker_on_queues(rig.broker, &rig.now, &queue, 1, 2);
    rig.in_core = false;
    rig_pass(&rig, 5);
}

static bool count_create(struct call *calls)
{
    wall_ms due_ms = rig_time(&rig) + LEAD_MS;

    for (uint32_t i = 0; i < TASK_COUNT; i++) {
        calls[i] = rig_create(&rig, (uint16_t)(i % SHARDS), due_ms + i / WAVE);
        rig_call(&rig, &calls[i]);
        if (i % WAVE == WAVE - 1) {
            rig_pass(&rig, 2);
        }
    }
    rig_pass(&rig, 5);
    return rig.answered == TASK_COUNT;
}

static bool count_claim(void)
{
    rig_pass(&rig, LEAD_MS + TASK_COUNT / WAVE + 5);
    return rig.seen_count == TASK_COUNT;
}

static bool count_settle(void)
{
    for (size_t i = 0; i < TASK_COUNT; i++) {
        rig_end(&rig, i, OUTCOME_DONE);
        if (i % WAVE == WAVE - 1) {
            rig_pass(&rig, 2);
        }
    }
    rig_pass(&rig, 10);
    return rig_entries(&rig) == 0;
}

/* Add, cancel a tenth, and let the rest expire. */
static bool count_wheel(void)
{
    struct wheel_node *nodes = mem_new(TIMER_COUNT, sizeof(*nodes));
    struct prng prng;
    size_t taken = 0;

    if (nodes == NULL) {
        return false;
    }
    prng_init_named(&prng, 1, "count");
    wheel_init(&wheel, START_MS);
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        wheel_node_init(&nodes[i]);
        wheel_add(&wheel, &nodes[i], START_MS + 1 + (wall_ms)prng_below(&prng, 3600000));
    }
    for (size_t i = 0; i < TIMER_COUNT; i += 10) {
        wheel_del(&wheel, &nodes[i]);
    }
    while (wheel_count(&wheel) > 0) {
        (void)wheel_advance(&wheel, wheel_next_wake(&wheel), 10000);
        while (wheel_take(&wheel) != NULL) {
            taken++;
        }
    }
    mem_free(nodes);
    return taken == TIMER_COUNT / 10 * 9;
}

/* What the edge does for a create: read the request, write the answer. */
static bool count_codec(void)
{
    static const uint8_t payload[PAYLOAD_LEN] = "payload";
    const struct create_request wish = {
        .queue = {"default", "mail"},
        .when = {.kind = WHEN_DELAY, .delay_ms = 5000},
        .payload = {payload, PAYLOAD_LEN},
    };
    const struct create_reply answer = {
        .id = {.seq = task_seq(1, 1), .slot = 7}, .created = true, .due_ms = START_MS};
    struct buf request;
    struct buf reply;
    struct fault fault;
    bool is_fine = true;

    buf_init(&request, RPC_MESSAGE_BYTES_MAX);
    buf_init(&reply, RPC_MESSAGE_BYTES_MAX);
    is_fine = codec_write_create(&wish, &request) == 0;
    for (size_t i = 0; i < TASK_COUNT && is_fine; i++) {
        struct create_request read;
        struct arena arena;

        arena_init(&arena, 0);
        buf_clear(&reply);
        is_fine = codec_read_create(buf_slice(&request), &arena, &read, &fault) == 0 &&
                  codec_write_create_reply(&answer, &reply) == 0;
        arena_fini(&arena);
    }
    buf_fini(&request);
    buf_fini(&reply);
    return is_fine;
}

static bool check(const char *name, bool is_fine)
{
    if (!is_fine) {
        (void)fprintf(stderr, "count_paths: %s did not do its work\n", name);
    }
    return is_fine;
}

int main(void)
{
    struct call *calls = mem_new(TASK_COUNT, sizeof(*calls));
    bool is_fine = calls != NULL;

    rig_open(&rig);
    widen_queue();
    CALLGRIND_ZERO_STATS;
    is_fine = is_fine && check("create", count_create(calls));
    CALLGRIND_DUMP_STATS_AT("create");
    is_fine = is_fine && check("claim", count_claim());
    CALLGRIND_DUMP_STATS_AT("claim");
    is_fine = is_fine && check("settle", count_settle());
    CALLGRIND_DUMP_STATS_AT("settle");
    rig_close(&rig);
    CALLGRIND_ZERO_STATS;
    is_fine = is_fine && check("wheel", count_wheel());
    CALLGRIND_DUMP_STATS_AT("wheel");
    is_fine = is_fine && check("codec", count_codec());
    CALLGRIND_DUMP_STATS_AT("codec");
    mem_free(calls);
    printf("create %u\nclaim %u\nsettle %u\nwheel %u\ncodec %u\n", TASK_COUNT, TASK_COUNT,
           TASK_COUNT, TIMER_COUNT, TASK_COUNT);
    return is_fine ? 0 : 1;
}
