/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of an attempt's outcome, whoever hears it and whoever owns its shard by then.
 */
#include "tests/unit/broker_rig.h"

Test(broker_outcome, a_failed_attempt_is_followed_by_the_next_after_the_back_off)
{
    static struct rig rig;
    struct call call;

    rig_open(&rig);
    call = rig_create(&rig, 3, rig_time(&rig));
    rig_ask(&rig, &call);
    rig_pass(&rig, 3);
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
    struct call call;
    wall_ms deadline_ms;

    rig_open(&rig);
    call = rig_create(&rig, 3, rig_time(&rig));
    rig_ask(&rig, &call);
    rig_pass(&rig, 3);
    deadline_ms = rig.seen[0].deadline_ms;
    rig_end(&rig, 0, OUTCOME_UNKNOWN);
    rig_pass(&rig, deadline_ms - rig_time(&rig) - 1);
    cr_assert_eq(rig.seen_count, 1);
    rig_pass(&rig, 20);
    cr_assert_eq(rig.seen_count, 2);
    cr_assert_eq(rig.seen[1].attempt, 2);
    rig_close(&rig);
}

Test(broker_outcome, the_outcome_of_a_shard_that_has_gone_is_reported_to_its_owner)
{
    static struct rig rig;
    struct call call;

    rig_open(&rig);
    call = rig_create(&rig, 1, rig_time(&rig));
    rig_ask(&rig, &call);
    rig_pass(&rig, 3);
    broker_drain(rig.broker, &rig.now);
    rig_pass(&rig, 50);
    cr_assert(!broker_is_drained(rig.broker), "an attempt of ours runs");
    rig_end(&rig, 0, OUTCOME_DONE);
    cr_assert_eq(rig.reports, 1);
    cr_assert(broker_is_drained(rig.broker));
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

    rig_open(&rig);
    call = rig_create(&rig, 1, rig_time(&rig));
    rig_ask(&rig, &call);
    rig_pass(&rig, 3);
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

Test(broker_outcome, a_reported_outcome_counts_for_the_live_claim_only)
{
    static struct rig rig;
    struct report report = {.outcome = OUTCOME_DONE, .attempt = 2};
    struct call call;

    rig_open(&rig);
    call = rig_create(&rig, 1, rig_time(&rig));
    rig_ask(&rig, &call);
    rig_pass(&rig, 3);
    rig_end(&rig, 0, OUTCOME_UNKNOWN);
    report.id = call.found;
    report.shard = call.shard;
    report.deadline_ms = rig.seen[0].deadline_ms;
    cr_assert_eq(broker_on_report(rig.broker, &rig.now, &report), ERR_NOT_FOUND);
    report.attempt = 1;
    cr_assert_eq(broker_on_report(rig.broker, &rig.now, &report), 0);
    rig_pass(&rig, 5);
    cr_assert_eq(store_mem_row_count(rig.mem, call.shard), 0);
    cr_assert_eq(broker_on_report(rig.broker, &rig.now, &report), ERR_NOT_FOUND);
    rig_close(&rig);
}
