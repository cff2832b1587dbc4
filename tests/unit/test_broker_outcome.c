/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of an attempt's outcome, whoever hears it and whoever owns its shard by then.
 */
#include "tests/unit/broker_rig.h"

/* A task's first attempt runs. */
static struct call open_running(struct rig *rig, uint16_t slot)
{
    struct call call;

    rig_open(rig);
    call = rig_create(rig, slot, rig_time(rig));
    rig_ask(rig, &call);
    rig_pass(rig, 3);
    return call;
}

/* It has run, and nobody knows how it ended. */
static struct call open_unknown(struct rig *rig, uint16_t slot)
{
    struct call call = open_running(rig, slot);

    rig_end(rig, 0, OUTCOME_UNKNOWN);
    return call;
}

Test(broker_outcome, a_failed_attempt_is_followed_by_the_next_after_the_back_off)
{
    static struct rig rig;

    (void)open_running(&rig, 3);
    rig_end(&rig, 0, OUTCOME_RETRY);
    rig_pass(&rig, 990);
    cr_assert_eq(rig.seen_count, 1);
    rig_pass(&rig, 20);
    cr_assert_eq(rig.seen_count, 2);
    cr_assert_eq(rig.seen[1].attempt, 2);
    rig_end(&rig, 1, OUTCOME_DEAD);
    rig_pass(&rig, 5);
    cr_assert_eq(store_mem_dead_count(rig.mem), 1);
    rig_close(&rig);
}

Test(broker_outcome, an_unknown_outcome_is_not_repeated_before_the_deadline)
{
    static struct rig rig;
    wall_ms deadline_ms;

    (void)open_unknown(&rig, 3);
    deadline_ms = rig.seen[0].deadline_ms;
    rig_pass(&rig, deadline_ms - rig_time(&rig) - 1);
    cr_assert_eq(rig.seen_count, 1);
    rig_pass(&rig, 20);
    cr_assert_eq(rig.seen_count, 2);
    cr_assert_eq(rig.seen[1].attempt, 2);
    rig_close(&rig);
}

/* The clock has stepped back and is held. Whoever has claimed may have done so by the clock as it
 * is now, and then its deadline is as far ahead as that clock is behind. */
Test(broker_outcome, a_deadline_has_not_passed_by_a_clock_that_is_held)
{
    static struct rig rig;
    wall_ms deadline_ms;

    (void)open_unknown(&rig, 3);
    deadline_ms = rig.seen[0].deadline_ms;
    rig.held_ms = 2000;
    rig_pass(&rig, deadline_ms - rig_time(&rig) + 1000);
    cr_assert_eq(rig.seen_count, 1);
    rig.held_ms = 0;
    rig_pass(&rig, 200);
    cr_assert_eq(rig.seen_count, 2);
    rig_close(&rig);
}

/* What is told is refused, but not before a read has shown that the shard is still ours. */
static void refuse(struct rig *rig, const struct report *report)
{
    cr_assert_eq(broker_on_report(rig->broker, &rig->now, report), ERR_UNAVAILABLE);
    cr_assert_eq(broker_on_report(rig->broker, &rig->now, report), ERR_UNAVAILABLE);
    rig_pass(rig, 1);
    cr_assert_eq(broker_on_report(rig->broker, &rig->now, report), ERR_NOT_FOUND);
}

/* Let it hear of another broker, which cannot write to these databases. */
static void add_heir(struct rig *rig, uint32_t cannot)
{
    struct member members[2] = {rig->self, rig->self};

    members[1].name[0]++;
    members[1].instance[0]++;
    members[1].cannot = cannot;
    broker_on_members(rig->broker, &rig->now, members, 2);
}

Test(broker_outcome, the_outcome_of_a_shard_that_has_gone_is_reported_to_its_owner)
{
    static struct rig rig;

    (void)open_running(&rig, 1);
    add_heir(&rig, 0);
    broker_drain(rig.broker, &rig.now);
    rig_pass(&rig, 50);
    cr_assert(!broker_is_drained(rig.broker), "an attempt of ours runs");
    rig_end(&rig, 0, OUTCOME_DONE);
    cr_assert_eq(rig.reports, 1);
    cr_assert(broker_is_drained(rig.broker));
    rig_close(&rig);
}

Test(broker_outcome, who_leaves_last_records_what_it_has_begun)
{
    static struct rig rig;
    struct call call;

    call = open_running(&rig, 1);
    add_heir(&rig, 1); // Another, which cannot write to the database either.
    broker_drain(rig.broker, &rig.now);
    rig_pass(&rig, 5000);
    cr_assert(!broker_is_drained(rig.broker), "nobody else could take the outcome");
    rig_end(&rig, 0, OUTCOME_DONE);
    rig_pass(&rig, 50);
    cr_assert_eq(rig.reports, 0);
    cr_assert(broker_is_drained(rig.broker));
    cr_assert_null(store_mem_row(rig.mem, 1, call.found), "its end is recorded");
    rig_close(&rig);
}

/* A task whose attempt runs, and which is due in an hour by now: outside the window. */
static struct call run_and_move(struct rig *rig, uint16_t slot)
{
    struct call call = rig_create(rig, slot, rig_time(rig));
    struct call update;

    rig_ask(rig, &call);
    rig_pass(rig, 3);
    update = rig_by_id(rig, CALL_UPDATE, call.found);
    update.set_due = true;
    update.task.due_ms = rig_time(rig) + 3600000;
    rig_ask(rig, &update);
    cr_assert_eq(update.attempt, 1);
    return call;
}

Test(broker_outcome, the_outcome_of_an_attempt_counts_though_its_task_is_not_in_memory)
{
    static struct rig rig;
    struct call done;
    struct call failed;

    rig_open(&rig);
    done = run_and_move(&rig, 1);
    failed = run_and_move(&rig, 1);
    rig_bump(&rig, 1);
    rig_pass(&rig, 150); // The writer takes a breath after a failure.
    cr_assert_eq(rig_entries(&rig), 0, "both are due outside the window");
    rig_end(&rig, 0, OUTCOME_DONE);
    rig_end(&rig, 1, OUTCOME_RETRY);
    rig_pass(&rig, 5);
    cr_assert_null(store_mem_row(rig.mem, 1, done.found));
    cr_assert_eq(store_mem_row(rig.mem, 1, failed.found)->attempt, 1);
    cr_assert_eq(store_mem_row(rig.mem, 1, failed.found)->failures, 1);
    cr_assert_geq(store_mem_row(rig.mem, 1, failed.found)->due_ms, rig_time(&rig) + 3500000);
    cr_assert_eq(rig_entries(&rig), 0);
    rig_close(&rig);
}

Test(broker_outcome, an_outcome_that_comes_while_its_shard_is_taken_again_counts_too)
{
    static struct rig rig;
    struct call call;

    rig_open(&rig);
    call = run_and_move(&rig, 1);
    broker_on_shard_lost(rig.broker, &rig.now, 1);
    broker_tick(rig.broker, &rig.now); // Acquiring.
    rig_end(&rig, 0, OUTCOME_DONE);
    rig_pass(&rig, 50);
    cr_assert_null(store_mem_row(rig.mem, 1, call.found));
    rig_close(&rig);
}

/* The bytes that are on their way stay those of the attempt, however often its shard is taken again
 * and whatever the row says by then. */
Test(broker_outcome, an_attempt_keeps_its_bytes_over_epochs_and_updates)
{
    static struct rig rig;
    static uint8_t bytes[800];
    struct call call;
    struct call update;

    call = open_running(&rig, 1);
    update = rig_by_id(&rig, CALL_UPDATE, call.found);
    update.set_payload = true;
    update.task.payload = (struct slice){bytes, sizeof(bytes)};
    rig_ask(&rig, &update);
    cr_assert_eq(update.attempt, 1);
    for (int i = 0; i < 3; i++) {
        rig_bump(&rig, 1);
        rig_pass(&rig, 150);
    }
    cr_assert(slice_equal(rig.running[0]->payload, slice_of("payload")));
    rig_end(&rig, 0, OUTCOME_RETRY);
    rig_pass(&rig, 1100);
    cr_assert_eq(rig.seen_count, 2);
    cr_assert(slice_equal(rig.running[1]->payload, update.task.payload));
    rig_close(&rig);
}

Test(broker_outcome, a_late_outcome_of_a_cancelled_task_is_let_go)
{
    static struct rig rig;
    struct call call;
    struct call cancel;

    rig_open(&rig);
    call = run_and_move(&rig, 1);
    rig_bump(&rig, 1);
    rig_pass(&rig, 150); // The writer takes a breath after a failure.
    cancel = rig_by_id(&rig, CALL_CANCEL, call.found);
    rig_ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_STOPPED);
    rig_end(&rig, 0, OUTCOME_DONE);
    rig_pass(&rig, 50);
    broker_drain(rig.broker, &rig.now);
    rig_pass(&rig, 50);
    cr_assert(broker_is_drained(rig.broker), "nothing is left of it");
    cr_assert_eq(rig.reports, 0);
    rig_close(&rig);
}

Test(broker_outcome, a_report_finds_its_task_outside_of_memory)
{
    static struct rig rig;
    struct report report = {.outcome = OUTCOME_DONE, .attempt = 1};
    struct call call;
    struct call gone;

    rig_open(&rig);
    call = run_and_move(&rig, 1);
    gone = run_and_move(&rig, 1);
    rig_end(&rig, 0, OUTCOME_UNKNOWN); // We do not know; somebody will tell us.
    rig_end(&rig, 1, OUTCOME_UNKNOWN);
    broker_on_shard_lost(rig.broker, &rig.now, 1);
    rig_pass(&rig, 200);
    cr_assert_eq(rig_entries(&rig), 0);
    report.shard = 1;
    report.id = call.found;
    report.attempt = 2;
    refuse(&rig, &report);
    report.attempt = 1;
    cr_assert_eq(broker_on_report(rig.broker, &rig.now, &report), ERR_UNAVAILABLE);
    rig_pass(&rig, 1);
    cr_assert_eq(broker_on_report(rig.broker, &rig.now, &report), 0);
    rig_pass(&rig, 5);
    cr_assert_null(store_mem_row(rig.mem, 1, call.found));
    refuse(&rig, &report);
    gone = rig_by_id(&rig, CALL_CANCEL, gone.found);
    rig_ask(&rig, &gone);
    cr_assert_eq(gone.cancel, CANCEL_STOPPED);
    report.id = gone.found;
    refuse(&rig, &report);
    rig_close(&rig);
}

Test(broker_outcome, a_reported_outcome_counts_for_the_live_claim_only)
{
    static struct rig rig;
    struct report report = {.outcome = OUTCOME_DONE, .attempt = 2};
    struct call call;

    call = open_unknown(&rig, 1);
    report.id = call.found;
    report.shard = call.shard;
    report.deadline_ms = rig.seen[0].deadline_ms;
    refuse(&rig, &report);
    report.attempt = 1;
    cr_assert_eq(broker_on_report(rig.broker, &rig.now, &report), 0);
    rig_pass(&rig, 5);
    cr_assert_eq(store_mem_row_count(rig.mem, call.shard), 0);
    refuse(&rig, &report);
    rig_close(&rig);
}

static void taken(struct store_bump *bump)
{
    cr_assert_eq(bump->result, 0);
}

/* Somebody else takes a shard in its database; the broker has not heard of it. */
static void take(struct rig *rig, uint32_t shard)
{
    struct store_mem_client_options client = {0};
    struct store *other = store_mem_client(rig->mem, &client);
    struct store_bump bump = {.shard = shard, .epoch = INT64_C(1) << 30, .cb = taken};

    cr_assert_eq(other->bump(other, &bump), 0);
    while (store_mem_find(rig->mem, &bump) != NULL) {
        (void)store_mem_step(rig->mem, store_mem_find(rig->mem, &bump));
    }
}

/* Memory says that it is of no use; but somebody has taken the shard, and may be waiting for it. */
Test(broker_outcome, a_report_is_not_refused_by_who_is_owner_no_more)
{
    static struct rig rig;
    struct report report = {.outcome = OUTCOME_DONE, .attempt = 2};
    struct call call;

    call = open_unknown(&rig, 1);
    report.id = call.found;
    report.shard = call.shard;
    take(&rig, call.shard);
    cr_assert_eq(broker_on_report(rig.broker, &rig.now, &report), ERR_UNAVAILABLE);
    rig_pass(&rig, 1);
    cr_assert_neq(broker_on_report(rig.broker, &rig.now, &report), ERR_NOT_FOUND);
    rig_close(&rig);
}

/* Memory knows the number under another slot: whether the id exists is still the owner's to say. */
Test(broker_outcome, a_cancel_is_not_refused_by_who_is_owner_no_more)
{
    static struct rig rig;
    struct call call;
    struct call cancel;

    rig_open(&rig);
    call = rig_create(&rig, 1, rig_time(&rig) + 5000);
    rig_ask(&rig, &call);
    cancel = rig_by_id(&rig, CALL_CANCEL, call.found);
    cancel.task.id.slot += SHARDS;
    rig_ask(&rig, &cancel);
    cr_assert_eq(cancel.result, 0);
    cr_assert_eq(cancel.cancel, CANCEL_GONE);
    take(&rig, call.shard);
    rig_ask(&rig, &cancel);
    cr_assert_eq(cancel.result, ERR_FENCED);
    rig_close(&rig);
}
