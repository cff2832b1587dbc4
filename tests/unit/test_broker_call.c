/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user's calls are answered: cancel, update, keys.
 */
#include "broker/core/sleep.h"
#include "broker/core/state.h"
#include "lib/base/mem.h"
#include "tests/unit/broker_rig.h"

#include <stdio.h>

Test(broker_call, cancel_before_due_leaves_no_attempt)
{
    static struct rig rig;
    struct call call;
    struct call cancel;

    rig_open(&rig);
    call = rig_create(&rig, 3, rig_time(&rig) + 100);
    rig_ask(&rig, &call);
    cancel = rig_by_id(&rig, CALL_CANCEL, call.found);
    rig_ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_CANCELLED);
    rig_pass(&rig, 300);
    cr_assert_eq(rig.seen_count, 0);
    cancel.task.id.seq += 1000;
    rig_ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_NOT_FOUND);
    rig_close(&rig);
}

Test(broker_call, a_repeated_cancel_is_answered_as_the_first_while_the_shard_is_ours)
{
    static struct rig rig;
    struct call waiting;
    struct call running;
    struct call cancel;

    rig_open(&rig);
    waiting = rig_create(&rig, 3, rig_time(&rig) + 100);
    running = rig_create(&rig, 3, rig_time(&rig));
    rig_ask(&rig, &waiting);
    rig_ask(&rig, &running);
    rig_pass(&rig, 3);
    cr_assert_eq(rig.seen_count, 1);
    for (int i = 0; i < 3; i++) {
        cancel = rig_by_id(&rig, CALL_CANCEL, waiting.found);
        rig_ask(&rig, &cancel);
        cr_assert_eq(cancel.cancel, CANCEL_CANCELLED);
        cancel = rig_by_id(&rig, CALL_CANCEL, running.found);
        rig_ask(&rig, &cancel);
        cr_assert_eq(cancel.cancel, CANCEL_STOPPED);
        cr_assert_eq(cancel.attempt, 1);
    }
    cancel.task.id.slot += SHARDS; // Nobody's id, though the number is known.
    rig_ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_GONE);
    broker_on_shard_lost(rig.broker, &rig.now, 3);
    rig_pass(&rig, 200);
    cancel = rig_by_id(&rig, CALL_CANCEL, running.found);
    rig_ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_GONE, "forgotten with the shard");
    rig_close(&rig);
}

Test(broker_call, cancel_of_a_finished_task_says_gone_however_often)
{
    static struct rig rig;
    struct call call;
    struct call cancel;

    rig_open(&rig);
    call = rig_create(&rig, 3, rig_time(&rig));
    rig_ask(&rig, &call);
    rig_pass(&rig, 3);
    rig_end(&rig, 0, OUTCOME_DONE);
    rig_pass(&rig, 5);
    cancel = rig_by_id(&rig, CALL_CANCEL, call.found);
    for (int i = 0; i < 3; i++) {
        rig_ask(&rig, &cancel);
        cr_assert_eq(cancel.cancel, CANCEL_GONE);
    }
    rig_close(&rig);
}

Test(broker_call, a_cancel_whose_commit_was_unknown_is_remembered_too)
{
    static struct rig rig;
    struct call call;
    struct call cancel;
    size_t answered;

    rig_open(&rig);
    call = rig_create(&rig, 2, rig_time(&rig) + 3000);
    rig_ask(&rig, &call);
    cancel = rig_by_id(&rig, CALL_CANCEL, call.found);
    answered = rig.answered;
    broker_call(rig.broker, &rig.now, &cancel);
    broker_tick(rig.broker, &rig.now);
    (void)store_mem_step(rig.mem, store_mem_pending(rig.mem, 0)); // Executed.
    (void)store_mem_step(rig.mem, store_mem_pending(rig.mem, 0)); // Committed.
    store_mem_give_up(rig.mem, store_mem_pending(rig.mem, 0));    // The reply is lost.
    rig_pass(&rig, 50);
    cr_assert_eq(rig.answered, answered + 1);
    cr_assert_eq(cancel.cancel, CANCEL_CANCELLED);
    rig_ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_CANCELLED);
    rig_close(&rig);
}

Test(broker_call, cancel_of_a_running_attempt_says_stopped_and_none_follows)
{
    static struct rig rig;
    struct call call;
    struct call cancel;

    rig_open(&rig);
    call = rig_create(&rig, 3, rig_time(&rig));
    rig_ask(&rig, &call);
    rig_pass(&rig, 3);
    cr_assert_eq(rig.seen_count, 1);
    cancel = rig_by_id(&rig, CALL_CANCEL, call.found);
    rig_ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_STOPPED);
    cr_assert_eq(cancel.attempt, 1);
    rig_end(&rig, 0, OUTCOME_RETRY);
    rig_pass(&rig, 5000);
    cr_assert_eq(rig.seen_count, 1);
    rig_close(&rig);
}

Test(broker_call, cancel_between_two_attempts_does_not_deny_the_first)
{
    static struct rig rig;
    struct call call;
    struct call cancel;

    rig_open(&rig);
    call = rig_create(&rig, 3, rig_time(&rig));
    rig_ask(&rig, &call);
    rig_pass(&rig, 3);
    rig_end(&rig, 0, OUTCOME_RETRY);
    rig_pass(&rig, 10);
    cancel = rig_by_id(&rig, CALL_CANCEL, call.found);
    rig_ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_STOPPED);
    cr_assert_eq(cancel.attempt, 1);
    rig_pass(&rig, 3000);
    cr_assert_eq(rig.seen_count, 1);
    rig_close(&rig);
}

Test(broker_call, update_moves_the_due_time_and_the_payload)
{
    static struct rig rig;
    struct call call;
    struct call update;

    rig_open(&rig);
    call = rig_create(&rig, 3, rig_time(&rig) + 50);
    rig_ask(&rig, &call);
    update = rig_by_id(&rig, CALL_UPDATE, call.found);
    update.set_due = true;
    update.set_payload = true;
    update.task.due_ms = rig_time(&rig) + 500;
    update.task.payload = slice_of("other");
    rig_ask(&rig, &update);
    cr_assert_eq(update.result, 0);
    rig_pass(&rig, 499);
    cr_assert_eq(rig.seen_count, 0);
    rig_pass(&rig, 2);
    cr_assert_eq(rig.seen_count, 1);
    cr_assert(slice_equal(rig.running[0]->payload, slice_of("other")));
    rig_close(&rig);
}

Test(broker_call, keys_keep_reject_and_replace)
{
    static struct rig rig;
    struct call first;
    struct call second;

    rig_open(&rig);
    first = rig_create(&rig, 5, rig_time(&rig) + 200);
    first.task.key = slice_of("order-1");
    first.key_policy = KEY_KEEP;
    rig_ask(&rig, &first);
    cr_assert(first.created);
    second = first;
    second.task.due_ms += 300;
    rig_ask(&rig, &second);
    cr_assert_eq(second.result, 0);
    cr_assert(!second.created);
    cr_assert_eq(second.found.seq, first.found.seq);
    cr_assert_eq(second.found_due_ms, first.found_due_ms);
    second.key_policy = KEY_REJECT;
    rig_ask(&rig, &second);
    cr_assert_eq(second.result, ERR_EXISTS);
    second.key_policy = KEY_REPLACE;
    rig_ask(&rig, &second);
    cr_assert_eq(second.result, 0);
    cr_assert(second.created);
    cr_assert_neq(second.found.seq, first.found.seq);
    rig_pass(&rig, 300);
    cr_assert_eq(rig.seen_count, 0, "the old one lost its start");
    rig_pass(&rig, 300);
    cr_assert_eq(rig.seen_count, 1);
    cr_assert_eq(rig.seen[0].id.seq, second.found.seq);
    rig_close(&rig);
}

Test(broker_call, who_keeps_a_keys_task_is_told_when_it_is_due)
{
    static struct rig rig;
    struct broker_stats stats;
    struct call first;
    struct call second;
    wall_ms due_ms;

    rig_open(&rig);
    first = rig_create(&rig, 5, rig_time(&rig) + 3600000); // Outside the window: only a row.
    first.task.key = slice_of("far");
    first.key_policy = KEY_KEEP;
    due_ms = first.task.due_ms;
    rig_ask(&rig, &first);
    second = first;
    second.task.due_ms -= 5000;
    rig_ask(&rig, &second);
    cr_assert_eq(second.result, 0);
    cr_assert(!second.created);
    cr_assert_eq(second.found.seq, first.found.seq);
    cr_assert_eq(second.found_due_ms, due_ms);
    broker_inspect(rig.broker, &stats);
    cr_assert_eq(stats.entries, 0, "looking brings nothing into memory");
    first = rig_create(&rig, 6, rig_time(&rig));
    first.task.key = slice_of("over");
    first.key_policy = KEY_KEEP;
    rig_ask(&rig, &first);
    rig_pass(&rig, 3);
    rig_end(&rig, 0, OUTCOME_DONE);
    rig_pass(&rig, 5);
    second = first;
    rig_ask(&rig, &second);
    cr_assert_eq(second.result, 0);
    cr_assert(!second.created, "its key is remembered");
    cr_assert_eq(second.found.seq, first.found.seq);
    cr_assert_eq(second.found_due_ms, WALL_NEVER);
    rig_close(&rig);
}

/* Its row is read for an update while the task comes into memory, runs and ends: what was read is
 * not the task any more, and must not come back into memory by a way on which nothing is written.
 */
Test(broker_call, a_row_that_was_read_before_its_task_ended_brings_nothing_back)
{
    static struct rig rig;
    struct call call;
    struct call update;

    rig_open(&rig);
    call = rig_create(&rig, 1, rig_time(&rig) + 300000);
    rig_ask(&rig, &call);
    cr_assert_eq(rig_entries(&rig), 0, "it is far away");
    update = rig_by_id(&rig, CALL_UPDATE, call.found);
    update.set_due = true;
    update.is_delay = true;
    rig_call(&rig, &update);
    cr_assert_eq(store_mem_step(rig.mem, store_mem_find(rig.mem, rig.rows_read)), STORE_MEM_MOVED);
    rig.held = rig.rows_read;
    while (rig.seen_count == 0) {
        rig_set_time(&rig, rig_time(&rig) + 100);
        rig_turn(&rig);
    }
    rig_end(&rig, 0, OUTCOME_DONE);
    rig_pass(&rig, 5);
    cr_assert_eq(rig_entries(&rig), 0);
    rig.now.database[0].upper_us = INT64_MAX; // A delay cannot be counted now.
    broker_set_now(rig.broker, &rig.now);
    rig.held = NULL;
    for (int i = 0; i < 5; i++) {
        rig_turn(&rig);
    }
    cr_assert_eq(update.result, ERR_GONE);
    rig_pass(&rig, 1000);
    cr_assert_eq(rig_entries(&rig), 0);
    cr_assert_eq(rig.seen_count, 1, "an attempt of a task that has ended");
    rig_close(&rig);
}

/* One caller repeats a create again and again; a commit takes one of a key, but all of the others
 * that wait. */
Test(broker_call, repeats_of_one_key_hold_up_no_other_create)
{
    enum {
        COUNT = 3000,
        EVERY = 10
    };
    static struct call calls[COUNT];
    static char keys[COUNT][8];
    static struct rig rig;
    size_t others = 0;

    rig_open(&rig);
    for (int i = 0; i < COUNT; i++) {
        int len = snprintf(keys[i], sizeof(keys[i]), "%d", i % EVERY == 0 ? 0 : i);

        calls[i] = rig_create(&rig, 0, rig_time(&rig) + 30000);
        calls[i].task.key = (struct slice){(const uint8_t *)keys[i], (size_t)len};
        calls[i].key_policy = KEY_KEEP;
        rig_call(&rig, &calls[i]);
    }
    for (int i = 0; i < 5; i++) {
        rig_turn(&rig);
    }
    for (int i = 0; i < COUNT; i++) {
        others += i % EVERY != 0 && calls[i].created;
    }
    cr_assert_eq(others, COUNT - COUNT / EVERY, "%zu", others);
    for (int i = 0; i < 2000 && rig.answered < COUNT; i++) {
        rig_turn(&rig);
    }
    cr_assert_eq(rig.answered, COUNT);
    cr_assert(calls[0].created, "the first of all has the key");
    for (int i = EVERY; i < COUNT; i += EVERY) {
        cr_assert(!calls[i].created && calls[i].found.seq == calls[0].found.seq);
    }
    rig_close(&rig);
}

/* An epoch has 2^31 ids. The call that finds none left is told to come again, and the shard begins
 * a new one without leaving. */
Test(broker_call, an_epoch_whose_ids_are_used_up_is_followed_by_the_next)
{
    static struct rig rig;
    struct shard *shard;
    struct call call;
    int64_t epoch;

    rig_open(&rig);
    shard = &rig.broker->shards[1];
    epoch = shard->epoch;
    shard->counter = TASK_COUNTER_MAX - 1;
    call = rig_create(&rig, 1, rig_time(&rig) + 5000);
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, 0);
    cr_assert_eq(call.found.seq, task_seq(epoch, TASK_COUNTER_MAX));
    call = rig_create(&rig, 1, rig_time(&rig) + 5000);
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, ERR_UNAVAILABLE);
    rig_pass(&rig, 20);
    call = rig_create(&rig, 1, rig_time(&rig) + 5000);
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, 0);
    cr_assert_eq(call.found.seq, task_seq(epoch + 1, 1));
    cr_assert_eq(rig_entries(&rig), 2);
    rig_close(&rig);
}

/* Memory knows the number, but the slot is another's: the database says so, once. */
Test(broker_call, an_id_of_another_slot_is_nobodys)
{
    static const enum call_kind kinds[] = {CALL_GET, CALL_UPDATE, CALL_CANCEL};
    static struct rig rig;
    struct call made;

    rig_open(&rig);
    made = rig_create(&rig, 3, rig_time(&rig) + 5000);
    rig_ask(&rig, &made);
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct call call = rig_by_id(&rig, kinds[i], made.found);

        call.task.id.slot += SHARDS;
        rig_ask(&rig, &call);
        cr_assert_eq(call.result, kinds[i] == CALL_CANCEL ? 0 : ERR_GONE, "%zu", i);
    }
    rig_close(&rig);
}

/* Small things are still to be had, but no slab for an entry that is awake. */
static bool refuse_large(size_t size, void *ctx)
{
    (void)ctx;
    return size < 16384;
}

Test(broker_call, a_task_that_cannot_be_woken_is_left_asleep)
{
    static struct rig rig;
    struct call made;
    struct call cancel;

    rig_open(&rig);
    made = rig_create(&rig, 3, rig_time(&rig) + NAP_MS + 5000);
    rig_ask(&rig, &made);
    cancel = rig_by_id(&rig, CALL_GET, made.found); // Reads have what they need from now on.
    rig_ask(&rig, &cancel);
    cancel = rig_by_id(&rig, CALL_CANCEL, made.found);
    mem_set_hook(refuse_large, NULL);
    rig_ask(&rig, &cancel);
    mem_set_hook(NULL, NULL);
    cr_assert_eq(cancel.result, ERR_FULL);
    cancel = rig_by_id(&rig, CALL_CANCEL, made.found);
    rig_ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_CANCELLED);
    rig_close(&rig);
}
