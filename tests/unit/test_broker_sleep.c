/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks that wait for their time are packed, and nobody can tell but by the memory that they take.
 */
#include "tests/unit/broker_rig.h"

#include "lib/base/mem.h"

#include <string.h>

#define COUNT     4000U
#define PAYLOAD   100U
#define HOUR      3600000
#define PER_TASK  64U
#define TAG_BYTES 8U

static uint8_t bytes[PAYLOAD_BYTES_MAX];

static uint32_t asleep(const struct rig *rig)
{
    struct memory_view view;

    broker_inspect_memory(rig->broker, &view);
    return view.asleep;
}

/* Bytes that a task of 100 bytes takes in all, in store and core, at this distance. */
static double bytes_each(span_ms delay)
{
    static struct rig rig;
    double each;
    int64_t before = 0;

    rig_open(&rig);
    for (uint32_t i = 0; i < COUNT + COUNT / 10; i++) {
        struct call call = rig_create(&rig, (uint16_t)(i % SHARDS), rig_time(&rig) + delay);

        if (i == COUNT / 10) {
            before = mem_byte_count();
        }
        call.task.payload = (struct slice){bytes, PAYLOAD};
        rig_ask(&rig, &call);
        cr_assert_eq(call.result, 0);
    }
    each = (double)(mem_byte_count() - before) / COUNT;
    cr_assert_eq(rig_entries(&rig), delay < HOUR ? COUNT + COUNT / 10 : 0);
    rig_close(&rig);
    return each;
}

/* DESIGN 10: at most 64 bytes and the payload. What the store takes is the same for both. */
Test(broker_sleep, a_task_in_the_window_takes_64_bytes_and_its_payload)
{
    double near = bytes_each(30000);
    double far = bytes_each(HOUR);

    cr_assert_leq(near - far, PER_TASK + PAYLOAD, "%f", near - far);
}

static struct call create(struct rig *rig, uint16_t slot, struct slice key, size_t payload_len)
{
    struct call call = rig_create(rig, slot, rig_time(rig) + 3000);

    call.task.key = key;
    call.key_policy = KEY_KEEP;
    call.task.payload = (struct slice){bytes, payload_len};
    return call;
}

/* The i-th key of this length: keys are unique. */
static struct slice key_of(size_t i, size_t len)
{
    static char keys[10][255];

    memset(keys[i], '0' + (int)i, sizeof(keys[i]));
    return (struct slice){(const uint8_t *)keys[i], len};
}

Test(broker_sleep, it_wakes_with_all_that_it_had)
{
    const size_t lens[] = {0, 1, 127, 128, PAYLOAD_INLINE_BYTES_MAX, PAYLOAD_INLINE_BYTES_MAX + 1};
    struct call calls[3 * ARRAY_COUNT(lens)];
    static struct rig rig;
    size_t count = 0;

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 7 + 1);
    }
    rig_open(&rig);
    for (size_t i = 0; i < ARRAY_COUNT(lens); i++) {
        calls[count++] = create(&rig, (uint16_t)i, (struct slice){NULL, 0}, lens[i]);
        calls[count++] = create(&rig, (uint16_t)i, key_of(i, 1), lens[i]);
        calls[count] = create(&rig, (uint16_t)i, key_of(i, 255), lens[i]);
        calls[count].task.tags = (struct slice){bytes, TAG_BYTES};
        calls[count].task.order_key = key_of(i, 30);
        calls[count++].task.expire_ms = rig_time(&rig) + 9000;
    }
    for (size_t i = 0; i < count; i++) {
        rig_ask(&rig, &calls[i]);
        cr_assert_eq(calls[i].result, 0);
    }
    cr_assert_eq(asleep(&rig), count, "%u of %zu", asleep(&rig), count);
    rig_pass(&rig, 3100);
    cr_assert_eq(rig.seen_count, count);
    for (size_t i = 0; i < count; i++) {
        const struct attempt *attempt = rig.running[i];
        const struct call *call = NULL;

        for (size_t k = 0; k < count; k++) {
            call = calls[k].found.seq == attempt->id.seq && calls[k].shard == attempt->shard
                       ? &calls[k]
                       : call;
        }
        cr_assert_not_null(call);
        cr_assert_eq(attempt->due_ms, call->task.due_ms);
        cr_assert_eq(attempt->expire_ms, call->task.expire_ms);
        cr_assert(slice_equal(attempt->key, call->task.key));
        cr_assert(slice_equal(attempt->order_key, call->task.order_key));
        cr_assert(slice_equal(attempt->tags, call->task.tags));
        cr_assert(slice_equal(attempt->payload, call->task.payload));
    }
    rig_close(&rig);
}

Test(broker_sleep, looking_does_not_wake_it_and_changing_does)
{
    static struct rig rig;
    struct call made;
    struct call call;

    rig_open(&rig);
    made = create(&rig, 3, slice_of("name"), PAYLOAD);
    rig_ask(&rig, &made);
    cr_assert_eq(asleep(&rig), 1, "%u of %u", asleep(&rig), rig_entries(&rig));
    call = rig_by_id(&rig, CALL_GET, made.found);
    rig_ask(&rig, &call);
    cr_assert_eq(call.state, TASK_STATE_WAITING);
    call = create(&rig, 3, slice_of("name"), PAYLOAD);
    rig_ask(&rig, &call);
    cr_assert(!call.created && call.found_due_ms == made.task.due_ms);
    cr_assert_eq(asleep(&rig), 1, "%u of %u", asleep(&rig), rig_entries(&rig));
    call = rig_by_id(&rig, CALL_UPDATE, made.found);
    call.set_due = true;
    call.task.due_ms = made.task.due_ms + 5000;
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, 0);
    cr_assert_eq(rig_entries(&rig), 1);
    rig_pass(&rig, 4000);
    cr_assert_eq(rig.seen_count, 0);
    call = rig_by_id(&rig, CALL_CANCEL, made.found);
    rig_ask(&rig, &call);
    cr_assert_eq(call.cancel, CANCEL_CANCELLED);
    cr_assert_eq(rig_entries(&rig), 0);
    rig_close(&rig);
}

/* A retry has a past, and stays awake. */
Test(broker_sleep, what_has_been_tried_keeps_its_numbers)
{
    static struct rig rig;
    struct call made;

    rig_open(&rig);
    made = create(&rig, 3, slice_of("name"), PAYLOAD);
    rig_ask(&rig, &made);
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        rig_pass(&rig, 20000);
        cr_assert_eq(rig.seen_count, attempt);
        cr_assert_eq(rig.running[attempt - 1]->attempt, attempt);
        rig_end(&rig, attempt - 1, OUTCOME_RETRY);
        rig_pass(&rig, 5);
        cr_assert_eq(asleep(&rig), 0);
    }
    rig_close(&rig);
}
