/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue that cannot keep up: what does not fit its line waits in the database, at no cost for the
 * others, and nothing of it is forgotten. source: DESIGN 9, ADR 0019
 */
#include "tests/unit/broker_rig.h"

#include "lib/base/map.h"
#include "lib/base/mem.h"

/* Far more than the line of a queue that may run nothing. */
#define MANY 8000U

/* What a queue without any room has in memory at most: a line of 256 and a page that was under way,
 * in each shard. */
#define FEW 600U

static struct rig rig;

/* The queues that there are, known to the core. */
static void set_queues(const struct queue *queues, size_t count)
{
    static int64_t version = 1;

    broker_on_queues(rig.broker, &rig.now, queues, count, ++version);
}

/* The only queue: no other is known any more. */
static void set_queue(uint32_t number, uint32_t concurrency)
{
    struct queue queue = rig_queue(number, concurrency);

    set_queues(&queue, 1);
}

/* Whether reads are answered. */
static bool is_reading = true;

static void pass(span_ms span)
{
    for (wall_ms end = rig_time(&rig) + span; rig_time(&rig) < end;) {
        rig_set_time(&rig, rig_time(&rig) + 1);
        if (is_reading) {
            rig_turn(&rig);
        } else {
            rig_turn_unread(&rig);
        }
    }
}

/* Tasks of a queue in all shards, answered. Freed by the caller. */
static struct call *create(uint32_t queue, size_t count, span_ms delay_ms)
{
    struct call *calls = mem_new(count, sizeof(*calls));
    size_t before = rig.answered;

    cr_assert(calls != NULL);
    for (size_t i = 0; i < count; i++) {
        calls[i] = rig_create(&rig, (uint16_t)(i % SHARDS), rig_time(&rig) + delay_ms);
        calls[i].task.queue = queue;
        broker_call(rig.broker, &rig.now, &calls[i]);
        if (i % 1000 == 999) {
            pass(3);
        }
    }
    pass(20);
    cr_assert_eq(rig.answered, before + count);
    return calls;
}

static void create_many(void)
{
    mem_free(create(1, MANY, 1000));
}

/* All shards are lost and taken again: their rows are read from the beginning. */
static void take_over(void)
{
    rig_lose_shards(&rig);
    rig_pass(&rig, 50);
}

/* End whatever runs, until so many tasks of a queue, 0: of all, have been seen. */
static void run_all(uint32_t queue, size_t count, uint32_t entries_max)
{
    struct map seen;
    size_t done = 0;

    map_init(&seen, MANY * 2);
    for (int i = 0; i < 2000 && map_count(&seen) < count; i++) {
        for (; done < rig.seen_count; done++) {
            if (queue == 0 || rig.seen[done].queue == queue) {
                cr_assert_eq(map_put(&seen, (uint64_t)rig.seen[done].id.seq, &seen), 0);
            }
            rig_end(&rig, done, OUTCOME_DONE);
        }
        rig_pass(&rig, 1);
        cr_assert_leq(rig_entries(&rig), entries_max);
    }
    cr_assert_eq(map_count(&seen), count, "%zu of %zu", (size_t)map_count(&seen), count);
    for (; done < rig.seen_count; done++) {
        rig_end(&rig, done, OUTCOME_DONE);
    }
    rig_pass(&rig, 10);
    map_fini(&seen);
}

Test(broker_blocked, overdue_rows_stay_in_the_database_and_memory_is_bounded)
{
    rig_open(&rig);
    set_queue(1, 0);
    create_many();
    rig_pass(&rig, 1000);
    cr_assert_leq(rig_entries(&rig), 5000, "half of the memory, while nobody else needs it");
    take_over();
    cr_assert_leq(rig_entries(&rig), FEW, "what is read only to wait is not read");
    mem_free(create(1, 1000, 10));
    rig_pass(&rig, 20);
    cr_assert_leq(rig_entries(&rig), FEW, "nor are new ones kept");
    rig_close(&rig);
}

Test(broker_blocked, other_queues_fire_through_a_take_over_as_if_there_were_nothing)
{
    struct call *overdue;

    rig_open(&rig);
    set_queue(1, 0);
    set_queue(2, 0);
    create_many();
    overdue = create(2, 40, 500);
    rig_pass(&rig, 1000);
    take_over();
    set_queue(2, 100);
    rig_pass(&rig, 10);
    cr_assert_eq(rig.seen_count, 40, "what was overdue runs at once");
    mem_free(create(2, 40, 30));
    rig_pass(&rig, 20);
    cr_assert_eq(rig.seen_count, 80, "and what comes due, when it is");
    for (size_t i = 0; i < 80; i++) {
        cr_assert_eq(rig.seen[i].queue, 2);
    }
    rig_close(&rig);
    mem_free(overdue);
}

Test(broker_blocked, all_that_waited_runs_once_when_there_is_room)
{
    rig_open(&rig);
    set_queue(1, 0);
    create_many();
    rig_pass(&rig, 1000);
    take_over();
    set_queue(1, 100);
    run_all(1, MANY, 2500);
    cr_assert_eq(rig_entries(&rig), 0);
    rig_close(&rig);
}

/* By the minute, and give or take a page of each shard. */
Test(broker_blocked, the_oldest_of_all_shards_run_first)
{
    struct call *old;
    size_t late = 0;

    rig_open(&rig);
    set_queue(1, 0);
    old = create(1, 2000, 1000);
    rig_pass(&rig, 70000);
    create_many();
    rig_pass(&rig, 1000);
    take_over();
    set_queue(1, 50);
    run_all(1, MANY + 2000, 2500);
    for (size_t i = 0; i < 2000; i++) {
        late += due_bucket(rig.seen[i].due_ms) != due_bucket(old[0].task.due_ms);
    }
    cr_assert_leq(late, FEW);
    rig_close(&rig);
    mem_free(old);
}

/* A row that a page in flight would have brought, while its queue is parked behind it. */
Test(broker_blocked, a_page_that_fails_takes_no_row_of_a_parked_queue_with_it)
{
    wall_ms start_ms;
    wall_ms due_ms;

    rig_open(&rig);
    set_queue(1, 0);
    start_ms = (due_bucket(rig_time(&rig)) + 1) << DUE_BUCKET_SHIFT;
    due_ms = start_ms + (2 << DUE_BUCKET_SHIFT) + 10;
    rig_set_time(&rig, start_ms);
    rig_pass(&rig, 10);
    mem_free(create(1, 4, due_ms - rig_time(&rig))); // Beyond the window: in the database only.
    cr_assert_eq(rig_entries(&rig), 0);
    // The window reaches their bucket: pages are asked for, and hang.
    rig_set_time(&rig, start_ms + 70000);
    rig_pass(&rig, 1000);
    is_reading = false;
    pass(2000);
    mem_free(create(1, 3500, 5000));
    mem_free(create(1, 2000, due_ms - rig_time(&rig)));
    rig_set_time(&rig, due_ms - 100);
    pass(200);
    cr_assert_lt(rig_entries(&rig), 5500, "some of the last are parked");
    cr_assert_gt(rig_entries(&rig), 3500, "and only of them");
    for (size_t i = store_mem_pending_count(rig.mem); i-- > 0;) {
        store_mem_refuse(rig.mem, store_mem_pending(rig.mem, i));
    }
    is_reading = true;
    set_queue(1, 200); // The line is empty when the pages are asked for again.
    run_all(1, 5504, 5504);
    rig_close(&rig);
}

/* Memory runs out in the middle of a page, at a claimed row of a queue that the page itself has
 * parked: not the park alone, the page too has to be read again from there. */
Test(broker_blocked, a_page_that_ends_at_a_row_of_a_parked_queue_loses_no_row_behind_it)
{
    struct queue queues[10];
    uint32_t entries_max = rig_entry_count_max;

    rig_entry_count_max = 2100; // Three shards of 830 tasks fill it.
    rig_open(&rig);
    for (uint32_t i = 0; i < ARRAY_COUNT(queues); i++) {
        queues[i] = rig_queue(i + 1, i == 0 ? 40 : 4000);
    }
    set_queues(queues, ARRAY_COUNT(queues));
    // One bucket for all: within it rows are read in the order of their creation.
    rig_set_time(&rig, (due_bucket(rig_time(&rig)) + 1) << DUE_BUCKET_SHIFT);
    rig_pass(&rig, 10);
    mem_free(create(1, 80, 2000));
    mem_free(create(1, 40, 500));
    rig_pass(&rig, 1000);
    cr_assert_eq(rig.seen_count, 40, "the last are due first, and run while the others wait");
    mem_free(create(2, 1600, 20000));
    rig_pass(&rig, 2000);
    for (uint32_t queue = 3; queue <= ARRAY_COUNT(queues); queue++) {
        mem_free(create(queue, 200, 18000)); // They do not crowd memory beside the second.
    }
    cr_assert_eq(rig.seen_count, 40);
    take_over();
    cr_assert_gt(rig_entries(&rig), 2000, "memory is full");
    rig_pass(&rig, 18000);
    run_all(0, 120 + 3200, 2100);
    rig_close(&rig);
    rig_entry_count_max = entries_max;
}
