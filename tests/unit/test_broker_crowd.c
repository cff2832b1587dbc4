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
#define QUEUES   40U

static struct rig rig;

/* concurrency: of the first queue. */
static void open_rig(uint32_t concurrency)
{
    static struct queue queues[QUEUES];

    for (uint32_t i = 0; i < QUEUES; i++) {
        queues[i] = rig_queue(i + 1, i == 0 ? concurrency : 4000);
    }
    rig_entry_count_max = MEMORY;
    rig_open(&rig);
    broker_on_queues(rig.broker, &rig.now, queues, QUEUES, 2);
    // One bucket for all: within it rows are read in the order of their creation.
    rig_set_time(&rig, (due_bucket(rig_time(&rig)) + 1) << DUE_BUCKET_SHIFT);
    rig_pass(&rig, 10);
}

/* Create tasks in all shards, the first due after so long, each of the others so much later. */
static void create(uint32_t queue, size_t count, span_ms delay_ms, span_ms apart_ms)
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
    mem_free(calls);
}

/* Pass time, a millisecond a turn, and let whatever runs end. */
static void run_for(span_ms span)
{
    static size_t done;

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
    open_rig(1000);
    create(1, CROWD, CROWD_MS, 0);
    run_for(3000);
    create(2, SMALL, 5000, 100); // Until 25 s.
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
    open_rig(1000);
    create(1, CROWD, CROWD_MS, 0);
    create(2, SMALL, 5000, 100);
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
    open_rig(1000);
    create(1, CROWD, CROWD_MS, 0);
    run_for(3000);
    for (int i = 0; i < 8; i++) {
        create(2, SMALL, 20000, 10); // 1 600 in all, where 500 are kept.
        run_for(1500);
    }
    run_for(24000);
    cr_assert_eq(ran(2, 2), 8 * SMALL);
    run_for(30000);
    cr_assert_eq(ran(1, 30000), CROWD);
    rig_close(&rig);
}

/* Until the bucket of the crowd begins, the queue itself is on time: what is ahead goes first. */
Test(broker_crowd, what_is_due_in_an_earlier_bucket_is_on_time_in_its_own_queue)
{
    open_rig(1000);
    create(1, CROWD, 70000, 0); // The present bucket ends after 65 s.
    run_for(8000);
    for (int i = 0; i < 6; i++) {
        create(1, SMALL, 20000, 10);
        run_for(1500);
    }
    run_for(30000);
    for (size_t i = 0; i < rig.seen_count; i++) {
        cr_assert_leq(rig.seen_at[i] - rig.seen[i].due_ms, 2);
    }
    cr_assert_eq(rig.seen_count, 6 * SMALL);
    run_for(60000);
    cr_assert_eq(ran(1, 60000), CROWD + 6 * SMALL);
    rig_close(&rig);
}

/* Where none has much more than others, memory is used to the end. */
Test(broker_crowd, none_of_many_queues_crowds)
{
    open_rig(1000);
    for (uint32_t queue = 1; queue <= QUEUES; queue++) {
        create(queue, 95, CROWD_MS, 0);
    }
    run_for(5000);
    cr_assert_eq(rig_entries(&rig), QUEUES * 95);
    create(2, 20, 5000, 10);
    run_for(7000);
    cr_assert_eq(ran(2, 2), 20);
    rig_close(&rig);
}

/* Others keep memory short for good: what was left out is read once its bucket is over. */
Test(broker_crowd, what_was_left_out_is_late_by_a_bucket_at_most)
{
    uint32_t entries;

    open_rig(150);
    run_for(55000);
    for (uint32_t queue = 2; queue <= QUEUES; queue++) {
        create(queue, 92, 58000, 0); // In the next bucket; too few to crowd.
    }
    create(1, 600, 4000, 0);
    rig_pass(&rig, 7000); // None of those that run ends: the queue goes on to crowd.
    cr_assert_eq(rig.seen_count, 150);
    entries = rig_entries(&rig);
    cr_assert_lt(entries, 39 * 92 + 300, "some are left out, in their bucket");
    rig_pass(&rig, 4500);
    cr_assert_eq(rig.seen_count, 150);
    cr_assert_gt(rig_entries(&rig), entries, "some are not any more: it is over");
    run_for(3000);
    cr_assert_eq(ran(1, 15000), 600);
    run_for(60000);
    cr_assert_eq(rig.seen_count, 600 + 39 * 92);
    rig_close(&rig);
}
