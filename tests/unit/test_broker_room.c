/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core promises when there is more than fits: it refuses, and keeps its memory in bounds.
 */
#include "tests/unit/broker_rig.h"

#include "lib/base/mem.h"

/* More calls than may wait for one commit. */
#define MANY 9000U

/* Replies to everything but writes, which hang. */
static void turn_without_writes(struct rig *rig)
{
    for (size_t i = 0; i < store_mem_pending_count(rig->mem);) {
        struct store_mem_request *request = store_mem_pending(rig->mem, i);
        struct store_mem_info info;

        store_mem_info(request, &info);
        if (info.kind == STORE_MEM_WRITE) {
            i++;
        } else {
            (void)store_mem_step(rig->mem, request);
        }
    }
    broker_tick(rig->broker, &rig->now);
}

Test(broker_room, calls_that_had_to_read_first_are_refused_when_there_is_no_room)
{
    static struct rig rig;
    struct call *calls = mem_new(MANY, sizeof(*calls));
    size_t counts[2] = {0, 0};

    rig_open(&rig);
    for (size_t i = 0; i < MANY; i++) {
        calls[i] = rig_create(&rig, (uint16_t)(i % SHARDS), rig_time(&rig) + 3600000);
        rig_ask(&rig, &calls[i]); // Outside the window.
        cr_assert_eq(calls[i].result, 0);
    }
    for (size_t i = 0; i < MANY; i++) {
        calls[i] = rig_by_id(&rig, CALL_CANCEL, calls[i].found);
        broker_call(rig.broker, &rig.now, &calls[i]);
        calls[i].result = 1; // Not answered.
    }
    for (int i = 0; i < 20; i++) {
        turn_without_writes(&rig);
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
