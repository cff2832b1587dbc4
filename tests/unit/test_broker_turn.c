/* SPDX-License-Identifier: Apache-2.0
 *
 * No turn is long, and none too many: what has to be done to all tasks, or for all order keys, is
 * done bit by bit, at once but turn by turn, and who waits for a time wakes at that time. source:
 * STYLE 3.6, DESIGN 15
 */
#include "tests/unit/broker_rig.h"

#include "lib/base/map.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>

/* What one turn may do to tasks in memory. */
#define TURN_MAX 4096U

/* Longest order key of these tests. */
#define KEY_MAX 16

/* Before a database that has refused a write is asked again, as broker.c has it. */
#define RETRY_US (100 * US_PER_MS)

/* Outcomes that come at once where few may wait. */
#define SETTLED_MAX 200U

static struct rig rig;

static void set_queue(uint32_t concurrency, wall_ms paused_until_ms)
{
    static int64_t version = 1;
    struct queue queue = rig_queue(1, concurrency);

    queue.is_paused = paused_until_ms != 0;
    queue.paused_until_ms = paused_until_ms;
    broker_on_queues(rig.broker, &rig.now, &queue, 1, ++version);
}

static void open_rig(uint32_t entry_count_max, span_ms window_ms)
{
    rig_entry_count_max = entry_count_max;
    rig_window_ms = window_ms;
    rig_open(&rig);
}

/* Tasks in all shards, one after the other within a span. key_count: order keys that they share; 0:
 * they have none. */
static void create(size_t count, span_ms delay_ms, span_ms span, size_t key_count)
{
    struct call *calls = mem_new(count, sizeof(*calls));
    char(*keys)[KEY_MAX] = mem_new(count, sizeof(*keys));
    wall_ms first_ms = rig_time(&rig) + delay_ms;
    size_t before = rig.answered;

    cr_assert(calls != NULL && keys != NULL);
    for (size_t i = 0; i < count; i++) {
        // One slot for all of an order key.
        size_t slot = key_count == 0 ? i : i % key_count;

        calls[i] = rig_create(&rig, (uint16_t)(slot % SHARDS),
                              first_ms + (wall_ms)i * span / (wall_ms)count);
        if (key_count > 0) {
            int len = snprintf(keys[i], sizeof(keys[i]), "%zu", slot);

            calls[i].task.order_key = (struct slice){(const uint8_t *)keys[i], (size_t)len};
        }
        broker_call(rig.broker, &rig.now, &calls[i]);
        if (i % 4000 == 3999) {
            rig_pass(&rig, 2);
        }
    }
    rig_pass(&rig, 10);
    cr_assert_eq(rig.answered, before + count);
    mem_free(calls);
    mem_free(keys);
}

static bool is_hurried(void)
{
    return broker_next_wake(rig.broker, &rig.now) <= rig.now.boot;
}

/* Turns, one right after the other for as long as the broker asks for that, in none of which more
 * tasks leave memory than may. */
static size_t turn_while_hurried(void)
{
    size_t turns = 0;

    while (is_hurried()) {
        uint32_t before = rig_entries(&rig);

        rig_turn(&rig);
        turns++;
        cr_assert_leq(before - (int64_t)rig_entries(&rig), TURN_MAX + 100);
        cr_assert_lt(turns, 100, "it comes to rest");
    }
    return turns;
}

/* End whatever runs, until so many have. */
static void run_all(size_t count)
{
    size_t done = 0;

    for (int i = 0; i < 10000 && done < count; i++) {
        for (; done < rig.seen_count; done++) {
            rig_end(&rig, done, OUTCOME_DONE);
        }
        rig_pass(&rig, 1);
    }
    cr_assert_eq(done, count, "%zu of %zu", done, count);
}

Test(broker_turn, a_window_that_shrinks_lets_go_bit_by_bit_and_loses_nothing)
{
    uint32_t entries;
    size_t turns = 0;
    size_t done = 0;

    open_rig(17000, 7200000);
    set_queue(4000, 0);
    create(16000, 60000, 7000000, 0);
    entries = rig_entries(&rig);
    cr_assert_eq(entries, 17000 - 17000 / 8, "as many as one queue may have, and too many");
    for (int i = 0; i < 3000 && turns == 0; i++) {
        rig_set_time(&rig, rig_time(&rig) + 1);
        entries = rig_entries(&rig);
        rig_turn(&rig);
        cr_assert_leq(entries - (int64_t)rig_entries(&rig), TURN_MAX + 100);
        turns = rig_entries(&rig) < entries ? turn_while_hurried() : 0;
    }
    cr_assert_geq(turns, 1);
    cr_assert_lt(rig_entries(&rig), 9000, "half of the window has gone");
    for (int i = 0; i < 110; i++) { // The others come again, each in its time.
        rig_set_time(&rig, rig_time(&rig) + 65536);
        rig_pass(&rig, 40);
        for (; done < rig.seen_count; done++) {
            rig_end(&rig, done, OUTCOME_DONE);
        }
    }
    rig_pass(&rig, 100);
    cr_assert_eq(rig.seen_count, 16000);
    rig_close(&rig);
}

/* A long line of a queue that was paused: most of it has to wait for its order keys. */
Test(broker_turn, a_line_that_waits_for_its_order_keys_leaves_bit_by_bit)
{
    open_rig(60000, 60000);
    create(5, 500, 1, 0); // The line begins with them, and nothing behind is looked at.
    set_queue(0, 0);
    create(14000, 1000, 1, 10);
    rig_pass(&rig, 2000);
    cr_assert_gt(rig_entries(&rig), 13000);
    set_queue(100, 0);
    rig_turn(&rig);
    cr_assert_gt(rig_entries(&rig), 8000);
    cr_assert_geq(turn_while_hurried(), 2);
    cr_assert_lt(rig_entries(&rig), 100, "but for those whose turn it is");
    run_all(14005);
    rig_close(&rig);
}

/* They wait for reads that fail, and are looked at again each time. */
Test(broker_turn, order_keys_that_wait_are_looked_at_bit_by_bit)
{
    size_t hurried = 0;

    open_rig(100000, 60000);
    set_queue(4000, 0);
    create(9000, 300, 1, 9000);
    for (int i = 0; i < 450; i++) {
        rig_set_time(&rig, rig_time(&rig) + 1);
        for (size_t at = store_mem_pending_count(rig.mem); at-- > 0;) {
            store_mem_refuse(rig.mem, store_mem_pending(rig.mem, at));
        }
        rig_turn_unread(&rig);
        hurried += i >= 390 && is_hurried();
    }
    cr_assert_lt(rig_entries(&rig), 100, "all keys ask");
    cr_assert_eq(rig.seen_count, 0);
    cr_assert_geq(hurried, 30, "once round takes more than one turn");
    cr_assert_leq(hurried, 45, "and then it rests");
    run_all(9000);
    rig_close(&rig);
}

/* However many order keys come up at once, their reads are a few, and calls are read for as well.
 */
Test(broker_turn, reads_for_order_keys_leave_room_for_those_of_calls)
{
    struct call get;
    size_t before;

    open_rig(100000, 60000);
    set_queue(4000, 0);
    create(9000, 300, 1, 9000);
    for (int i = 0; i < 400; i++) {
        rig_set_time(&rig, rig_time(&rig) + 1);
        rig_turn_unread(&rig);
    }
    cr_assert_lt(rig_entries(&rig), 100, "all keys ask");
    cr_assert_leq(store_mem_pending_count(rig.mem), 600);
    get = rig_by_id(&rig, CALL_GET, (struct task_id){.seq = 1, .slot = 1});
    before = rig.answered;
    rig_call(&rig, &get);
    rig_turn_unread(&rig);
    cr_assert_eq(rig.answered, before, "it is not refused");
    run_all(9000);
    rig_close(&rig);
}

/* A pause ends by the slowest clock: one that is ahead is no reason not to sleep until then. */
Test(broker_turn, a_pause_does_not_keep_it_awake_when_clocks_are_apart)
{
    size_t hurried = 0;

    rig_database_count = 2;
    rig_apart_ms = 3600 * MS_PER_S;
    open_rig(10000, 60000);
    set_queue(10, rig_time(&rig) + 60000);
    create(1, 10, 1, 0);
    for (int i = 0; i < 100; i++) {
        rig_pass(&rig, 100);
        rig_turn(&rig);
        hurried += is_hurried();
    }
    cr_assert_leq(hurried, 5, "asked to be woken at once %zu times of 100", hurried);
    cr_assert_eq(rig.seen_count, 0);
    rig_pass(&rig, 50100);
    cr_assert_eq(rig.seen_count, 1);
    rig_close(&rig);
}

/* A turn in which requests of a kind to the first database hang. */
static void turn_with_one_mute(enum store_mem_kind kind)
{
    size_t hanging = 0;

    while (hanging < store_mem_pending_count(rig.mem)) {
        struct store_mem_request *request = store_mem_pending(rig.mem, hanging);
        struct store_mem_info info;

        store_mem_info(request, &info);
        if (info.kind == kind && info.database == 0) {
            hanging++;
        } else {
            (void)store_mem_step(rig.mem, request);
        }
    }
    broker_tick(rig.broker, &rig.now);
}

Test(broker_turn, a_database_that_is_mute_holds_up_no_order_key_of_another)
{
    rig_database_count = 2;
    open_rig(100000, 60000);
    set_queue(4000, 0);
    create(6000, 300, 1, 6000);
    for (int i = 0; i < 500; i++) {
        rig_set_time(&rig, rig_time(&rig) + 1);
        turn_with_one_mute(STORE_MEM_READ);
    }
    cr_assert_eq(rig.seen_count, 3000);
    run_all(6000);
    rig_close(&rig);
}

/* More outcomes than may wait for a commit: they settle as there is room, each database by itself.
 */
Test(broker_turn, outcomes_that_wait_for_a_mute_database_hold_up_none_of_another)
{
    rig_database_count = 2;
    rig_waiting_op_max = BROKER_WAITING_OP_MIN;
    open_rig(10000, 60000);
    set_queue(4000, 0);
    for (int i = 0; i < 25; i++) {
        create(40, 1000, 1, 0);
    }
    for (int i = 0; i < 5000 && rig.seen_count < 1000; i++) {
        rig_pass(&rig, 1);
    }
    cr_assert_eq(rig.seen_count, 1000);
    for (size_t i = 0; i < 1000; i++) {
        rig_end(&rig, i, OUTCOME_DONE);
    }
    for (int i = 0; i < 500; i++) {
        rig_set_time(&rig, rig_time(&rig) + 1);
        turn_with_one_mute(STORE_MEM_WRITE);
    }
    cr_assert_eq(rig_entries(&rig), 500, "%u are left", rig_entries(&rig));
    rig_pass(&rig, 500);
    cr_assert_eq(rig_entries(&rig), 0, "%u are left", rig_entries(&rig));
    cr_assert_eq(rig.seen_count, 1000);
    rig_close(&rig);
}

/* Create tasks that are due soon, as many at a time as find room, and turn until all run. */
static void start_tasks(size_t count)
{
    for (size_t i = 0; i < count; i += 40) {
        create(count - i < 40 ? count - i : 40, 1000, 1, 0);
    }
    for (int i = 0; i < 5000 && rig.seen_count < count; i++) {
        rig_pass(&rig, 1);
    }
    cr_assert_eq(rig.seen_count, count);
}

/* A broker with nothing else to do wakes for what a database has refused. */
Test(broker_turn, an_outcome_that_was_refused_is_written_when_the_database_may_be_asked_again)
{
    boot_us refused_at;

    open_rig(10000, 60000);
    set_queue(10, 0);
    start_tasks(1);
    rig_end(&rig, 0, OUTCOME_DONE);
    broker_tick(rig.broker, &rig.now);
    cr_assert_not_null(rig_write(&rig));
    refused_at = rig.now.boot;
    store_mem_refuse(rig.mem, rig_write(&rig));
    broker_tick(rig.broker, &rig.now);
    cr_assert_gt(broker_next_wake(rig.broker, &rig.now), rig.now.boot, "it does not sleep");
    do {
        rig_set_time(&rig, START_MS - 1000 + ms_ceil(broker_next_wake(rig.broker, &rig.now)));
        broker_tick(rig.broker, &rig.now);
    } while (rig_write(&rig) == NULL);
    cr_assert_eq(rig.now.boot, refused_at + RETRY_US, "it is asked after %" PRId64 " us",
                 rig.now.boot - refused_at);
    rig_pass(&rig, 10);
    cr_assert_eq(rig_entries(&rig), 0);
    rig_close(&rig);
}

/* Outcomes in the order in which they were written. */
static struct task_id written[SETTLED_MAX];
static size_t written_count;

static void note_outcomes(struct rig *owner, const struct store_batch *batch)
{
    (void)owner;
    for (size_t i = 0; i < batch->op_count; i++) {
        if (batch->ops[i].kind == STORE_DELETE) {
            cr_assert_lt(written_count, SETTLED_MAX);
            written[written_count++] = batch->ops[i].task.id;
        }
    }
}

/* A turn that brings the answer to the write in flight, and to nothing after it. */
static void turn_with_one_write(void)
{
    struct store_mem_request *request = rig_write(&rig);
    const uint32_t before = rig.writes;

    while (rig.writes == before) {
        (void)store_mem_step(rig.mem, request);
    }
    broker_tick(rig.broker, &rig.now);
}

/* Outcomes of a slot's tasks were written in the order in which they came. */
static void must_be_in_order(uint16_t slot)
{
    size_t place = 0;

    for (size_t i = 0; i < SETTLED_MAX; i++) {
        if (rig.seen[i].id.slot != slot) {
            continue;
        }
        while (place < SETTLED_MAX && written[place].slot != slot) {
            place++;
        }
        cr_assert_lt(place, SETTLED_MAX);
        cr_assert_eq(written[place].seq, rig.seen[i].id.seq, "outcome %zu is not the next", i);
        place++;
    }
}

Test(broker_turn, outcomes_that_wait_for_room_are_written_before_those_that_come_later)
{
    rig_waiting_op_max = BROKER_WAITING_OP_MIN;
    open_rig(10000, 60000);
    set_queue(4000, 0);
    start_tasks(SETTLED_MAX);
    rig.on_write = note_outcomes;
    for (size_t i = 0; i < SETTLED_MAX - 1; i++) {
        rig_end(&rig, i, OUTCOME_DONE);
    }
    broker_tick(rig.broker, &rig.now);
    turn_with_one_write();
    rig_end(&rig, SETTLED_MAX - 1, OUTCOME_DONE);
    rig_pass(&rig, 100);
    cr_assert_eq(written_count, SETTLED_MAX);
    for (uint16_t slot = 0; slot < SHARDS; slot++) {
        must_be_in_order(slot);
    }
    rig_close(&rig);
}
