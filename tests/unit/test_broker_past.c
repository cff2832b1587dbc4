/* SPDX-License-Identifier: Apache-2.0
 *
 * What is read first of a shard that was taken: what is near, then what was due a while ago.
 */
#include "tests/unit/broker_rig.h"

#include "broker/core/state.h"

#include <criterion/criterion.h>

/* Of half an hour ago: past; and of ten seconds ago: as near as what is still to come. */
#define LONG_AGO_MS 1800000
#define JUST_NOW_MS 10000

/* So many tasks of a paused queue, by turns in all shards, whose shards are taken anew. */
static void open_with(struct rig *rig, size_t count, struct call *calls, const span_ms *ago_ms)
{
    struct queue queue;

    rig_open(rig);
    queue_init(&queue);
    queue.id = 1;
    queue.version = 2;
    queue.is_paused = true;
    broker_on_queues(rig->broker, &rig->now, &queue, 1, 1);
    for (size_t i = 0; i < count; i++) {
        calls[i] = rig_create(rig, (uint16_t)i, rig_time(rig) - ago_ms[i]);
        rig_ask(rig, &calls[i]);
    }
    cr_assert_eq(rig->seen_count, 0);
    rig_lose_shards(rig);
    rig_queues(rig);
}

Test(broker_past, what_is_near_starts_before_what_is_past_is_read)
{
    static struct rig rig;
    static const span_ms AGO_MS[] = {LONG_AGO_MS, 0, 0, 0, JUST_NOW_MS};
    struct call calls[ARRAY_COUNT(AGO_MS)];

    open_with(&rig, ARRAY_COUNT(calls), calls, AGO_MS);
    rig_pass(&rig, 900);
    cr_assert_eq(rig.seen_count, 4, "%zu have started", rig.seen_count);
    for (size_t i = 0; i < rig.seen_count; i++) {
        cr_assert_neq(rig.seen[i].id.seq, calls[0].found.seq);
    }
    rig_pass(&rig, 200);
    cr_assert_eq(rig.seen_count, 5);
    cr_assert_eq(rig.seen[4].id.seq, calls[0].found.seq);
    rig_close(&rig);
}

static uint32_t past_pages_in_flight(const struct rig *rig)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < SHARDS; i++) {
        count += rig->broker->shards[i].is_paging && rig->broker->shards[i].is_page_past;
    }
    return count;
}

Test(broker_past, one_shard_of_a_database_at_a_time_is_read_on_in_its_past)
{
    static struct rig rig;
    static const span_ms AGO_MS[] = {LONG_AGO_MS, LONG_AGO_MS, LONG_AGO_MS, LONG_AGO_MS};
    struct call calls[ARRAY_COUNT(AGO_MS)];

    open_with(&rig, ARRAY_COUNT(calls), calls, AGO_MS);
    for (uint32_t i = 0; i < 1500 && past_pages_in_flight(&rig) == 0; i++) {
        rig_turn_unread(&rig);
        rig_set_time(&rig, rig_time(&rig) + 1);
        if (i < 900) {
            rig_turn(&rig);
        }
    }
    cr_assert_eq(past_pages_in_flight(&rig), 1);
    for (uint32_t i = 0; i < 500; i++) {
        rig_set_time(&rig, rig_time(&rig) + 1);
        rig_turn_unread(&rig);
        cr_assert_eq(past_pages_in_flight(&rig), 1);
    }
    cr_assert_eq(rig.seen_count, 0);
    rig_pass(&rig, 100);
    cr_assert_eq(rig.seen_count, ARRAY_COUNT(calls), "the others follow");
    rig_close(&rig);
}

Test(broker_past, a_task_that_comes_into_the_past_before_it_is_read_is_not_lost)
{
    static struct rig rig;
    struct call call;

    open_with(&rig, 0, NULL, NULL);
    rig_pass(&rig, 500);
    call = rig_create(&rig, 1, rig_time(&rig) - LONG_AGO_MS);
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, 0);
    rig_pass(&rig, 700);
    cr_assert_eq(rig.seen_count, 1);
    cr_assert_eq(rig.seen[0].id.seq, call.found.seq);
    rig_close(&rig);
}
