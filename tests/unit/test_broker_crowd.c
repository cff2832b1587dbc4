/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue that has more due within the window than memory holds: what does not fit waits in the
 * database, and what other queues have is on time all the same. source: DESIGN 9, 10; ADR 0043
 */
#include "tests/unit/broker_rig.h"

#include "lib/base/map.h"
#include "lib/base/mem.h"

#define MEMORY   4000U
#define CROWD    8000U /* tasks due at one instant, twice what there is room for */
#define CROWD_MS 40000 /* … so far ahead */
#define SMALL    200U

static struct rig rig;

static void open_rig(void)
{
    struct queue queues[] = {rig_queue(1, 1000), rig_queue(2, 4000)};

    rig_entry_count_max = MEMORY;
    rig_open(&rig);
    broker_on_queues(rig.broker, &rig.now, queues, 2, 2);
    // One bucket for all: within it rows are read in the order of their creation.
    rig_set_time(&rig, (due_bucket(rig_time(&rig)) + 1) << DUE_BUCKET_SHIFT);
    rig_pass(&rig, 10);
}

/* Create tasks in all shards, the first due after so long and each of the others a millisecond
 * later. Freed by the caller. */
static struct call *create(uint32_t queue, size_t count, span_ms delay_ms, span_ms apart_ms)
{
    struct call *calls = mem_new(count, sizeof(*calls));
    wall_ms due_ms = rig_time(&rig) + delay_ms;
    size_t before = rig.answered;

    cr_assert(calls != NULL);
    for (size_t i = 0; i < count; i++) {
        calls[i] = rig_create(&rig, (uint16_t)(i % SHARDS), due_ms + (span_ms)i * apart_ms);
        calls[i].task.queue = queue;
        broker_call(rig.broker, &rig.now, &calls[i]);
        if (i % 1000 == 999) {
            rig_pass(&rig, 3);
        }
    }
    rig_pass(&rig, 20);
    cr_assert_eq(rig.answered, before + count);
    return calls;
}

/* Pass time, a millisecond a turn, and let whatever runs end. */
static void run_for(span_ms span)
{
    static size_t done;

    done = rig.seen_count < done ? 0 : done;
    for (span_ms i = 0; i < span; i++) {
        rig_pass(&rig, 1);
        for (; done < rig.seen_count; done++) {
            rig_end(&rig, done, OUTCOME_DONE);
        }
        cr_assert_leq(rig_entries(&rig), MEMORY);
    }
}

/* How many tasks of a queue have run, each of them once, and at most so late. */
static size_t ran(uint32_t queue, span_ms late_max_ms)
{
    struct map seen;
    size_t count;

    map_init(&seen, ATTEMPTS_MAX);
    for (size_t i = 0; i < rig.seen_count; i++) {
        if (rig.seen[i].queue == queue) {
            cr_assert_null(map_find(&seen, (uint64_t)rig.seen[i].id.seq), "a repeat");
            cr_assert_eq(map_put(&seen, (uint64_t)rig.seen[i].id.seq, &seen), 0);
            cr_assert_leq(rig.seen_at[i] - rig.seen[i].due_ms, late_max_ms, "task %zu of queue %u",
                          map_count(&seen), queue);
        }
    }
    count = map_count(&seen);
    map_fini(&seen);
    return count;
}

Test(broker_crowd, others_are_on_time_and_all_of_it_runs)
{
    open_rig();
    mem_free(create(1, CROWD, CROWD_MS, 0));
    run_for(3000);
    mem_free(create(2, SMALL, 5000, 100)); // Until 25 s.
    run_for(26000);
    cr_assert_eq(ran(2, 2), SMALL);
    run_for(30000);
    cr_assert_eq(ran(1, 30000), CROWD);
    cr_assert_eq(rig_entries(&rig), 0);
    rig_close(&rig);
}

/* What was created before is in the database alone, behind what fills memory. */
Test(broker_crowd, others_are_on_time_after_a_take_over)
{
    open_rig();
    mem_free(create(1, CROWD, CROWD_MS, 0));
    mem_free(create(2, SMALL, 5000, 100));
    run_for(3000);
    rig_lose_shards(&rig);
    run_for(27000);
    cr_assert_eq(ran(2, 2), SMALL);
    run_for(30000);
    cr_assert_eq(ran(1, 30000), CROWD);
    rig_close(&rig);
}

/* More than what is kept for others: it makes room. */
Test(broker_crowd, it_gives_way_to_others)
{
    open_rig();
    mem_free(create(1, CROWD, CROWD_MS, 0));
    run_for(3000);
    for (int i = 0; i < 8; i++) {
        mem_free(create(2, SMALL, 20000, 10)); // 1 600 in all, where 500 are kept.
        run_for(1500);
    }
    run_for(24000);
    cr_assert_eq(ran(2, 2), 8 * SMALL);
    run_for(30000);
    cr_assert_eq(ran(1, 30000), CROWD);
    rig_close(&rig);
}
