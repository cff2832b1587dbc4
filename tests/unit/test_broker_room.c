/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core promises when there is more than fits: it refuses, and keeps its memory in bounds.
 */
#include "tests/unit/broker_rig.h"

#include "lib/base/mem.h"

/* More calls than may wait for commits of half the shards. */
#define MANY 9000U

/* One turn with replies to everything but one kind, which hangs. return: how many hang. */
static size_t turn_without(struct rig *rig, enum store_mem_kind kind)
{
    size_t hanging = 0;

    while (hanging < store_mem_pending_count(rig->mem)) {
        struct store_mem_request *request = store_mem_pending(rig->mem, hanging);
        struct store_mem_info info;

        store_mem_info(request, &info);
        if (info.kind == kind) {
            hanging++;
        } else {
            (void)store_mem_step(rig->mem, request);
        }
    }
    broker_tick(rig->broker, &rig->now);
    return hanging;
}

Test(broker_room, calls_that_had_to_read_first_are_refused_when_there_is_no_room)
{
    static struct rig rig;
    struct call *calls = mem_new(MANY, sizeof(*calls));
    size_t counts[2] = {0, 0};

    rig_open(&rig);
    for (size_t i = 0; i < MANY; i++) {
        calls[i] = rig_create(&rig, (uint16_t)(i * 2 % SHARDS), rig_time(&rig) + 3600000);
        rig_ask(&rig, &calls[i]); // Outside the window.
        cr_assert_eq(calls[i].result, 0);
    }
    for (size_t i = 0; i < MANY; i++) {
        calls[i] = rig_by_id(&rig, CALL_CANCEL, calls[i].found);
        broker_call(rig.broker, &rig.now, &calls[i]);
        calls[i].result = 1; // Not answered.
    }
    for (int i = 0; i < 20; i++) {
        (void)turn_without(&rig, STORE_MEM_WRITE);
    }
    rig_pass(&rig, 50);
    for (size_t i = 0; i < MANY; i++) {
        cr_assert(calls[i].result == 0 || calls[i].result == ERR_FULL);
        counts[calls[i].result == 0]++;
    }
    cr_assert_gt(counts[0], 0, "not all of them fit");
    cr_assert_gt(counts[1], 0);
    cr_assert_eq(rig_entries(&rig), 0);
    rig_close(&rig);
    mem_free(calls);
}

/* A queue of this concurrency, known to the core as number 1. */
static void set_concurrency(struct rig *rig, uint32_t count)
{
    struct queue queue;

    queue_init(&queue);
    queue.id = 1;
    queue.concurrency_max = count;
    queue.retry.jitter_permille = 0;
    broker_on_queues(rig->broker, &rig->now, &queue, 1, 2);
}

/* A payload that is read again with the claim. */
static uint8_t large[PAYLOAD_BYTES_MAX];

Test(broker_room, a_large_payload_is_in_memory_only_while_it_is_needed)
{
    static struct rig rig;
    int64_t before;

    rig_open(&rig);
    before = mem_byte_count();
    for (uint16_t i = 0; i < 20; i++) {
        struct call call = rig_create(&rig, i, rig_time(&rig) + 2000);

        call.task.payload = (struct slice){large, sizeof(large)};
        rig_ask(&rig, &call);
    }
    // The memory store is in this process, too.
    cr_assert_lt(mem_byte_count() - before, 30 * (int64_t)sizeof(large));
    before = mem_byte_count();
    rig_pass(&rig, 2010);
    cr_assert_eq(rig.seen_count, 20);
    for (size_t i = 0; i < 20; i++) {
        cr_assert(slice_equal(rig.running[i]->payload, (struct slice){large, sizeof(large)}));
        rig_end(&rig, i, OUTCOME_RETRY);
    }
    rig_pass(&rig, 5);
    cr_assert_lt(mem_byte_count() - before, 10 * (int64_t)sizeof(large), "nor waiting to retry");
    rig_close(&rig);
}

/* Its payload has been read, and then its time may be over, or not: the clock is not known so well.
 */
Test(broker_room, a_task_that_waits_to_be_over_for_sure_holds_no_large_payload)
{
    static struct rig rig;
    struct memory_view view;
    struct broker_stats stats;
    struct call call;
    bool is_read = false;

    rig_open(&rig);
    call = rig_create(&rig, 0, rig_time(&rig) + 1000);
    call.task.expire_ms = rig_time(&rig) + 3000;
    call.task.payload = (struct slice){large, sizeof(large)};
    rig_ask(&rig, &call);
    while (!is_read && rig_time(&rig) < call.task.due_ms) {
        rig_set_time(&rig, rig_time(&rig) + 1);
        (void)turn_without(&rig, STORE_MEM_READ);
        broker_inspect_memory(rig.broker, &view);
        is_read = view.fetching == 1;
        if (!is_read) {
            rig_turn(&rig); // A check of epochs.
        }
    }
    cr_assert(is_read);
    rig.now.database[0].upper_us = (call.task.expire_ms + 1) * US_PER_MS;
    rig_turn(&rig);
    rig_turn(&rig);
    broker_inspect_memory(rig.broker, &view);
    cr_assert_eq(view.fetching, 0);
    cr_assert_eq(view.large_count, 0, "it was read for nothing");
    cr_assert_lt(view.payload_bytes, sizeof(large));
    cr_assert_eq(rig_entries(&rig), 1);
    rig_pass(&rig, 5000);
    broker_inspect(rig.broker, &stats);
    cr_assert_eq(rig.seen_count + stats.expired, 1);
    rig_close(&rig);
}

Test(broker_room, large_payloads_are_read_for_those_that_may_start_and_in_their_order)
{
    static struct rig rig;
    struct call calls[12];

    rig_open(&rig);
    rig_pass(&rig, 1100); // What is past is read in the first second.
    set_concurrency(&rig, 2);
    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        calls[i] = rig_create(&rig, 0, rig_time(&rig) + 1000 + (wall_ms)i);
        calls[i].task.payload = (struct slice){large, sizeof(large)};
        rig_ask(&rig, &calls[i]);
    }
    for (int i = 0; i < 1100; i++) {
        rig_set_time(&rig, rig_time(&rig) + 1);
        cr_assert_leq(turn_without(&rig, STORE_MEM_READ), 3, "two payloads and a check of epochs");
    }
    rig_pass(&rig, 10);
    cr_assert_eq(rig.seen_count, 2);
    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        cr_assert_gt(rig.seen_count, i);
        cr_assert_eq(rig.seen[i].id.seq, calls[i].found.seq, "first come, first served");
        rig_end(&rig, i, OUTCOME_DONE);
        rig_pass(&rig, 10);
    }
    rig_close(&rig);
}

Test(broker_room, what_stands_before_a_payload_comes_out_as_it_went_in)
{
    static struct rig rig;
    struct call calls[2];

    rig_open(&rig);
    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        calls[i] = rig_create(&rig, (uint16_t)i, rig_time(&rig) + 1000);
        calls[i].task.key = slice_of(i == 0 ? "a key" : "");
        calls[i].task.tags = slice_of(i == 0 ? "{\"tag\":\"1\"}" : "");
        calls[i].task.expire_ms = i == 0 ? rig_time(&rig) + 1500 : 0;
        rig_ask(&rig, &calls[i]);
    }
    rig_pass(&rig, 1010);
    cr_assert_eq(rig.seen_count, ARRAY_COUNT(calls));
    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        const struct call *call = &calls[rig.seen[i].id.seq == calls[0].found.seq ? 0 : 1];

        cr_assert(slice_equal(rig.seen[i].key, call->task.key));
        cr_assert(slice_equal(rig.seen[i].tags, call->task.tags));
        cr_assert(slice_equal(rig.seen[i].payload, slice_of("payload")));
        cr_assert_eq(rig.seen[i].expire_ms, call->task.expire_ms);
        cr_assert(call->task.expire_ms == 0 || rig.seen[i].start_by_ms == call->task.expire_ms);
    }
    rig_close(&rig);
}
