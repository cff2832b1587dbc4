/* SPDX-License-Identifier: Apache-2.0
 *
 * More order keys than can be remembered, and memory full of their tasks: what is known of one may
 * be forgotten for another, so that nothing waits for ever for what it keeps out itself. source:
 * ADR 0030
 */
#include "tests/unit/broker_rig.h"

#include "lib/base/map.h"
#include "lib/base/mem.h"

#include <stdio.h>

/* Tasks in memory at most. An eighth as many order keys are remembered. */
#define ENTRIES 2100U

/* Longest order key of these tests. */
#define KEY_MAX 16

static struct rig rig;

/* Order keys that there have been. */
static size_t key_count;

/* The two queues, with room for so many attempts. */
static void set_queues(uint32_t first, uint32_t second)
{
    static int64_t version = 1;
    struct queue queues[] = {rig_queue(1, first), rig_queue(2, second)};

    broker_on_queues(rig.broker, &rig.now, queues, 2, ++version);
}

static void open_rig(void)
{
    rig_entry_count_max = ENTRIES;
    rig_open(&rig);
    // One bucket for all: within it rows are read in the order of their creation.
    rig_set_time(&rig, (due_bucket(rig_time(&rig)) + 1) << DUE_BUCKET_SHIFT);
    rig_pass(&rig, 10);
}

static void pass_without_reads(span_ms span)
{
    for (wall_ms end = rig_time(&rig) + span; rig_time(&rig) < end;) {
        rig_set_time(&rig, rig_time(&rig) + 1);
        rig_turn_unread(&rig);
    }
}

/* Tasks in all shards, each with an order key of its own, answered without a read. */
static void create(uint32_t queue, size_t count, span_ms delay_ms)
{
    struct call *calls = mem_new(count, sizeof(*calls));
    char(*keys)[KEY_MAX] = mem_new(count, sizeof(*keys));
    size_t before = rig.answered;

    cr_assert(calls != NULL && keys != NULL);
    for (size_t i = 0; i < count; i++) {
        int len = snprintf(keys[i], sizeof(keys[i]), "%zu", key_count++);

        calls[i] = rig_create(&rig, (uint16_t)(i % SHARDS), rig_time(&rig) + delay_ms);
        calls[i].task.queue = queue;
        calls[i].task.order_key = (struct slice){(const uint8_t *)keys[i], (size_t)len};
        broker_call(rig.broker, &rig.now, &calls[i]);
        if (i % 500 == 499) {
            pass_without_reads(3);
        }
    }
    pass_without_reads(20);
    cr_assert_eq(rig.answered, before + count);
    mem_free(calls);
    mem_free(keys);
}

/* End what runs of a queue, and nothing else, until so many of its tasks have run; each once. */
static void run_all(uint32_t queue, size_t count)
{
    struct map seen;
    size_t done = 0;

    map_init(&seen, ATTEMPTS_MAX);
    for (int i = 0; i < 5000 && map_count(&seen) < count; i++) {
        for (; done < rig.seen_count; done++) {
            if (rig.seen[done].queue == queue) {
                cr_assert_eq(map_put(&seen, (uint64_t)rig.seen[done].id.seq, &seen), 0);
                rig_end(&rig, done, OUTCOME_DONE);
            }
        }
        rig_pass(&rig, 1);
    }
    cr_assert_eq(map_count(&seen), count, "%zu of %zu", (size_t)map_count(&seen), count);
    map_fini(&seen);
}

/* No head is read before the inherited claims are known. What is remembered of order keys that wait
 * for that must leave room for the order keys of those claims. */
Test(broker_order, keys_that_come_up_at_a_take_over_do_not_keep_out_those_that_are_claimed)
{
    open_rig();
    set_queues(200, 0);
    create(1, 60, 500);
    rig_pass(&rig, 1000);
    create(2, 8800, -100000); // More in each shard than a page brings, and before the others.
    rig_pass(&rig, 100);
    cr_assert_eq(rig.seen_count, 60, "the second queue waits");
    set_queues(200, 4000);
    rig_lose_shards(&rig);
    run_all(2, 8800);
    cr_assert_eq(rig.seen_count, 8860, "none of the first queue's twice");
    rig_close(&rig);
}

/* Heads are read that find no place in memory: it is full of tasks whose order keys find none. */
Test(broker_order, heads_without_memory_do_not_keep_out_the_keys_of_what_fills_it)
{
    open_rig();
    set_queues(4000, 0);
    create(1, 300, 0); // Heads that are read again, as soon as reads are answered.
    create(1, 2700, 0);
    cr_assert_eq(rig.seen_count, 0);
    cr_assert_eq(rig_entries(&rig), ENTRIES, "memory is full");
    run_all(1, 3000);
    rig_close(&rig);
}
