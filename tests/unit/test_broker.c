/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core promises when nothing fails: ownership, due times, claims, room. And after the
 * faults that a test can name. Whole clusters under random faults are the simulator's.
 */
#include "tests/unit/broker_rig.h"

#include "lib/base/mem.h"

#include <string.h>

Test(broker, owns_every_shard_when_alone)
{
    static struct rig rig;
    struct broker_stats stats;

    rig_open(&rig);
    broker_inspect(rig.broker, &stats);
    cr_assert_eq(stats.shards_owned, SHARDS);
    rig_close(&rig);
}

static uint32_t owned(struct rig *rig)
{
    struct broker_stats stats;

    broker_inspect(rig->broker, &stats);
    return (uint32_t)stats.shards_owned;
}

/* A broker that was killed and started again is listed twice until its old session ends. */
Test(broker, of_two_members_with_one_name_the_younger_counts)
{
    static struct rig rig;
    struct member members[3];

    rig_open(&rig);
    members[0] = rig.self; // The older namesake, and somebody else.
    members[0].started_ms = -1;
    memcpy(members[0].instance, "0000000000000002", 17);
    members[1] = rig.self;
    members[2] = rig.self;
    memcpy(members[2].name, "two", 4);
    memcpy(members[2].instance, "0000000000000003", 17);
    broker_on_members(rig.broker, &rig.now, members, 3);
    rig_pass(&rig, 1000);
    cr_assert_eq(owned(&rig), SHARDS / 2, "placement goes on");
    members[0].started_ms = 1;
    broker_on_members(rig.broker, &rig.now, members, 3);
    rig_pass(&rig, 1000);
    cr_assert_eq(owned(&rig), 0, "the younger one takes our place");
    broker_on_members(rig.broker, &rig.now, members + 1, 2);
    rig_pass(&rig, 1000);
    cr_assert_eq(owned(&rig), SHARDS / 2);
    rig_close(&rig);
}

static bool refuse(size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    return false;
}

Test(broker, a_member_list_that_comes_without_memory_is_acted_on_soon)
{
    static struct rig rig;
    struct member members[2];

    rig_open(&rig);
    cr_assert_eq(owned(&rig), SHARDS);
    members[0] = rig.self;
    members[1] = rig.self;
    memcpy(members[1].name, "two", 4);
    memcpy(members[1].instance, "0000000000000002", 17);
    mem_set_hook(refuse, NULL);
    broker_on_members(rig.broker, &rig.now, members, 2);
    mem_set_hook(NULL, NULL);
    rig_pass(&rig, 1000);
    cr_assert_eq(owned(&rig), SHARDS / 2);
    rig_close(&rig);
}

Test(broker, fires_at_its_millisecond_never_early_and_once)
{
    static struct rig rig;

    rig_open(&rig);
    for (span_ms delay = 0; delay < 30; delay++) {
        struct call call = rig_create(&rig, (uint16_t)delay, rig_time(&rig) + delay);
        size_t seen = rig.seen_count;
        wall_ms due_ms = call.task.due_ms;

        rig_ask(&rig, &call);
        cr_assert_eq(call.result, 0);
        cr_assert(call.created);
        rig_pass(&rig, delay + 2);
        cr_assert_eq(rig.seen_count, seen + 1, "delay %ld", (long)delay);
        cr_assert_geq(rig.seen_at[seen], due_ms);
        cr_assert_leq(rig.seen_at[seen], due_ms + 1);
        cr_assert_eq(rig.seen[seen].attempt, 1);
        rig_end(&rig, seen, OUTCOME_DONE);
        rig_pass(&rig, 5);
        cr_assert_eq(store_mem_row_count(rig.mem, call.shard), 0);
    }
    rig_close(&rig);
}

/* Commits of `span` from now on: the store answers nothing meanwhile. */
static void rig_stall(struct rig *rig, span_ms span)
{
    for (span_ms i = 0; i < span; i++) {
        rig_set_time(rig, rig_time(rig) + 1);
        broker_tick(rig->broker, &rig->now);
    }
}

Test(broker, claims_a_task_as_early_as_commits_are_slow_when_it_comes_due)
{
    static struct rig rig;
    struct broker_stats stats;
    struct call near;
    struct call far;

    rig_open(&rig);
    far = rig_create(&rig, 1, rig_time(&rig) + 1000);
    rig_ask(&rig, &far); // Placed while commits are quick.
    near = rig_create(&rig, 2, rig_time(&rig) + 500000);
    broker_call(rig.broker, &rig.now, &near);
    rig_stall(&rig, 20);
    rig_pass(&rig, far.task.due_ms - rig_time(&rig) - 45);
    broker_inspect(rig.broker, &stats);
    cr_assert_eq(stats.claims, 0, "not before two slow commits ahead of due");
    rig_pass(&rig, 10);
    broker_inspect(rig.broker, &stats);
    cr_assert_eq(stats.claims, 1, "the task waits in memory with the lead of its last second");
    cr_assert_eq(rig.seen_count, 0);
    rig_pass(&rig, 36);
    cr_assert_eq(rig.seen_count, 1);
    cr_assert_eq(rig.seen_at[0], far.task.due_ms);
    rig_close(&rig);
}

/* Let every write take so long, until something has started; how many ended. */
static uint32_t rig_crawl(struct rig *rig, span_ms commit_ms, uint32_t writes_max)
{
    uint32_t writes = 0;

    while (rig->seen_count == 0 && writes < writes_max) {
        if (rig_write(rig) != NULL) {
            rig_stall(rig, commit_ms);
            writes++;
        }
        rig_pass(rig, 1);
    }
    return writes;
}

Test(broker, a_database_whose_commits_take_seconds_is_served_late_and_not_never)
{
    static struct rig rig;
    struct broker_stats stats;
    struct call call;

    rig_open(&rig);
    call = rig_create(&rig, 1, rig_time(&rig) + 100);
    broker_call(rig.broker, &rig.now, &call);
    // The create, a claim that comes too late, its end, and one that has time for such a commit.
    cr_assert_leq(rig_crawl(&rig, 2 * START_BY_MS, 20), 5);
    cr_assert_eq(rig.seen_count, 1);
    cr_assert_leq(rig.seen_at[0], rig.seen[0].start_by_ms);
    broker_inspect(rig.broker, &stats);
    cr_assert_eq(stats.claims - stats.unclaims, 1);
    for (size_t i = 1; i < 10; i++) { // Quick commits again: what they took is soon forgotten.
        call = rig_create(&rig, 2, rig_time(&rig));
        rig_ask(&rig, &call);
        rig_pass(&rig, 1000);
        cr_assert_eq(rig.seen_count, i + 1);
    }
    cr_assert_lt(rig.seen[9].start_by_ms, rig.seen_at[9] + 2 * START_BY_MS);
    rig_close(&rig);
}

Test(broker, a_task_without_room_at_its_target_stays_claimed_until_start_by)
{
    static struct rig rig;
    struct broker_stats stats;
    struct call calls[3];

    rig_open(&rig);
    rig.is_full = true;
    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        calls[i] = rig_create(&rig, (uint16_t)i, rig_time(&rig));
        rig_ask(&rig, &calls[i]);
    }
    rig_pass(&rig, 500);
    broker_inspect(rig.broker, &stats);
    cr_assert_eq(stats.unclaims, 0, "no write for want of room");
    cr_assert_leq(rig.refusals, 52, "one of the queue asks, every 10 ms");
    rig.is_full = false;
    rig_pass(&rig, 20);
    cr_assert_eq(rig.seen_count, ARRAY_COUNT(calls));
    cr_assert_eq(rig.seen[2].attempt, 1);
    rig.is_full = true;
    calls[0] = rig_create(&rig, 0, rig_time(&rig));
    rig_ask(&rig, &calls[0]);
    rig_pass(&rig, 1100);
    broker_inspect(rig.broker, &stats);
    cr_assert_eq(stats.unclaims, 1);
    rig.is_full = false;
    rig_pass(&rig, 100);
    cr_assert_eq(rig.seen_count, ARRAY_COUNT(calls) + 1);
    cr_assert_eq(rig.seen[3].attempt, 2);
    rig_close(&rig);
}

/* Calls that are made at once, each with its memory. */
static struct call *many_calls(struct rig *rig, size_t count, wall_ms due_ms)
{
    struct call *calls = mem_new(count, sizeof(*calls));

    cr_assert_not_null(calls);
    for (size_t i = 0; i < count; i++) {
        calls[i] = rig_create(rig, (uint16_t)(i % SLOT_COUNT), due_ms);
    }
    return calls;
}

Test(broker, a_claim_does_not_wait_behind_the_creates_that_came_before_it)
{
    static struct rig rig;
    struct broker_stats stats;
    struct call due;
    struct call *calls;

    rig_open(&rig);
    due = rig_create(&rig, 1, rig_time(&rig) + 100);
    rig_ask(&rig, &due);
    rig_pass(&rig, 80);
    calls = many_calls(&rig, 8000, rig_time(&rig) + 500000);
    for (size_t i = 0; i < 8000; i++) {
        broker_call(rig.broker, &rig.now, &calls[i]);
    }
    rig_stall(&rig, 20); // One batch of creates is in flight, three more wait.
    rig_turn(&rig);
    rig_turn(&rig);
    broker_inspect(rig.broker, &stats);
    cr_assert_eq(stats.claims, 1, "the claim is in the second batch");
    cr_assert_gt(stats.ops_waiting, 2048);
    rig_pass(&rig, 20);
    cr_assert_eq(rig.answered, 8001, "and no create is forgotten");
    mem_free(calls);
    rig_close(&rig);
}

Test(broker, payloads_that_do_not_fit_one_commit_take_several)
{
    static struct rig rig;
    static uint8_t payload[PAYLOAD_BYTES_MAX];
    const size_t count = 3 * BATCH_BYTES_MAX / sizeof(payload);
    struct call *calls;

    rig_open(&rig);
    calls = many_calls(&rig, count, rig_time(&rig) + 500000);
    for (size_t i = 0; i < count; i++) {
        calls[i].task.payload = (struct slice){payload, sizeof(payload)};
        calls[i].task.payload_len = sizeof(payload);
        broker_call(rig.broker, &rig.now, &calls[i]);
    }
    rig_pass(&rig, 20);
    cr_assert_eq(rig.answered, count);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(calls[i].result, 0);
    }
    mem_free(calls);
    rig_close(&rig);
}

Test(broker, keeps_far_tasks_out_of_memory_and_fires_them_on_time)
{
    static struct rig rig;
    struct broker_stats stats;
    struct call call;

    rig_open(&rig);
    call = rig_create(&rig, 9, rig_time(&rig) + 400000);
    rig_ask(&rig, &call);
    broker_inspect(rig.broker, &stats);
    cr_assert_eq(stats.entries, 0);
    for (int i = 0; i < 450 && rig.seen_count == 0; i++) {
        if (call.task.due_ms - rig_time(&rig) > 2000) {
            rig_set_time(&rig, rig_time(&rig) + 1000);
            rig_turn(&rig);
            rig_turn(&rig);
        } else {
            rig_pass(&rig, 1000);
        }
    }
    cr_assert_eq(rig.seen_count, 1);
    cr_assert_eq(rig.seen_at[0], call.task.due_ms);
    rig_close(&rig);
}

Test(broker, an_unknown_commit_is_looked_at_under_a_new_epoch)
{
    static struct rig rig;
    struct call call;
    struct shard_view before;
    struct shard_view after;
    size_t answered;

    rig_open(&rig);
    call = rig_create(&rig, 2, rig_time(&rig) + 3000);
    broker_inspect_shard(rig.broker, 2, &before);
    answered = rig.answered;
    broker_call(rig.broker, &rig.now, &call);
    broker_tick(rig.broker, &rig.now);
    cr_assert_eq(store_mem_pending_count(rig.mem), 1);
    (void)store_mem_step(rig.mem, store_mem_pending(rig.mem, 0)); // Executed.
    (void)store_mem_step(rig.mem, store_mem_pending(rig.mem, 0)); // Committed.
    store_mem_give_up(rig.mem, store_mem_pending(rig.mem, 0));    // The reply is lost.
    cr_assert_eq(rig.answered, answered, "nothing is said before it is known");
    rig_pass(&rig, 50);
    broker_inspect_shard(rig.broker, 2, &after);
    cr_assert_eq(after.epoch, before.epoch + 1);
    cr_assert_eq(after.since, before.since, "it has been ours all the time");
    cr_assert_eq(rig.answered, answered + 1);
    cr_assert_eq(call.result, 0);
    rig_pass(&rig, 3000);
    cr_assert_eq(rig.seen_count, 1);
    rig_close(&rig);
}

Test(broker, drain_releases_all_and_gives_unstarted_claims_back)
{
    static struct rig rig;
    struct call call;
    struct store_mem_cursor cursor = {0};
    struct claim claim;
    uint32_t shard;

    rig_open(&rig);
    call = rig_create(&rig, 1, rig_time(&rig) + 4);
    rig_ask(&rig, &call); // Near: claimed with its insert.
    cr_assert(store_mem_claim_next(rig.mem, 0, &cursor, &claim, &shard));
    broker_drain(rig.broker, &rig.now);
    rig_pass(&rig, 50);
    cr_assert(broker_is_drained(rig.broker));
    cr_assert_eq(rig.seen_count, 0);
    cr_assert_eq(store_mem_row(rig.mem, 1, call.found)->attempt, 1, "the claim is over");
    rig_close(&rig);
}

Test(broker, sleeps_while_it_has_no_session)
{
    static struct rig rig;
    size_t hurried = 0;

    rig_open(&rig);
    broker_on_session(rig.broker, &rig.now, COORD_LOST);
    for (int i = 0; i < 60; i++) { // Long enough for every periodic thing to fall due.
        rig_pass(&rig, 1000);
        rig_turn(&rig);
        rig_turn(&rig);
        hurried += broker_next_wake(rig.broker, &rig.now) <= rig.now.boot;
    }
    cr_assert_leq(hurried, 2, "asked to be woken at once %zu times of 60", hurried);
    rig_close(&rig);
}

Test(broker, a_draining_shard_claims_nothing_although_a_claim_of_its_was_refused)
{
    static struct rig rig;
    struct broker_stats stats;
    struct call call;
    struct call other;

    rig_open(&rig);
    call = rig_create(&rig, 1, rig_time(&rig) + 500);
    rig_ask(&rig, &call);
    while (rig_write(&rig) == NULL) { // The claim.
        rig_set_time(&rig, rig_time(&rig) + 1);
        broker_tick(rig.broker, &rig.now);
    }
    other = rig_create(&rig, 1, rig_time(&rig) + 3600000);
    broker_call(rig.broker, &rig.now, &other); // The release waits for it.
    broker_drain(rig.broker, &rig.now);
    broker_tick(rig.broker, &rig.now);
    store_mem_refuse(rig.mem, rig_write(&rig));
    rig_pass(&rig, 300);
    broker_inspect(rig.broker, &stats);
    cr_assert_eq(stats.claims, 0);
    cr_assert_eq(rig.seen_count, 0);
    cr_assert(broker_is_drained(rig.broker));
    rig_close(&rig);
}
