/* SPDX-License-Identifier: Apache-2.0
 *
 * The auditor: each of its figures is there when its fault is, and gone when the fault is; none is
 * there in a cluster that is well, busy or paused. source: DESIGN 14, ADR 0027
 */
#include "tests/unit/broker_rig.h"

#include "broker/core/entry.h"
#include "broker/core/task_life.h"

/* Above the lateness that is none, and two turns of the auditor. */
#define LONG_MS 16000

static struct rig rig;

static void open_rig(void)
{
    rig_audit_ms = 1000;
    rig_open(&rig);
}

static struct audit_figures figures(void)
{
    struct broker_stats stats;

    broker_inspect(rig.broker, &stats);
    return stats.audit;
}

/* The whole figures: rows, claims, entries, owners. */
static void expect(uint32_t rows, uint32_t claims, uint32_t entries, uint32_t shards)
{
    struct audit_figures seen = figures();

    cr_assert_eq(seen.rows_unheld, rows, "%u rows unheld", seen.rows_unheld);
    cr_assert_eq(seen.claims_overdue, claims, "%u claims overdue", seen.claims_overdue);
    cr_assert_eq(seen.entries_rowless, entries, "%u entries rowless", seen.entries_rowless);
    cr_assert_eq(seen.shards_unowned, shards, "%u shards unowned", seen.shards_unowned);
}

static void on_write(struct store_batch *batch)
{
    *(bool *)batch->owner = true;
}

/* Change the database behind the broker's back. */
static void write_past(struct store_op op)
{
    bool done = false;
    struct store_batch batch = {.ops = &op,
                                .op_count = 1,
                                .claim_row = {.writer = 99, .seq = op.task.id.seq},
                                .cb = on_write,
                                .owner = &done};

    op.shard = op.task.id.slot % SHARDS;
    op.epoch = store_mem_epoch(rig.mem, op.shard);
    cr_assert_eq(rig.store->write(rig.store, &batch), 0);
    while (!done) {
        rig_turn(&rig);
    }
    cr_assert_eq(op.result, 0);
}

/* A row that was due some time ago, in a shard that has read its window long since. */
static struct task_id insert_past_of(uint16_t slot, span_ms ago_ms)
{
    struct store_op op = {.kind = STORE_INSERT,
                          .task = {.id = {.seq = task_seq(200, 1 + slot), .slot = slot},
                                   .queue = 1,
                                   .due_ms = rig_time(&rig) - ago_ms}};

    write_past(op);
    return op.task.id;
}

/* The same, of a minute ago. */
static struct task_id insert_past(uint16_t slot)
{
    return insert_past_of(slot, 60000);
}

static void delete_past(struct task_id id, uint32_t attempt)
{
    write_past((struct store_op){
        .kind = STORE_DELETE, .task = {.id = id}, .expected_attempt = attempt, .is_keyless = true});
}

/* A task that was created through the broker. */
static struct task_id create(uint16_t slot, span_ms delay_ms)
{
    struct call call = rig_create(&rig, slot, rig_time(&rig) + delay_ms);

    rig_ask(&rig, &call);
    cr_assert_eq(call.result, 0);
    return call.task.id;
}

static struct entry *entry_of(struct task_id id)
{
    struct entry *entry = entry_find(&rig.broker->shards[id.slot % SHARDS], id.seq);

    cr_assert_not_null(entry);
    return entry;
}

/* Queue 1, paused or not. */
static void set_paused(bool is_paused)
{
    static int64_t version = 1;
    struct queue queue;

    queue_init(&queue);
    queue.id = 1;
    queue.is_paused = is_paused;
    broker_on_queues(rig.broker, &rig.now, &queue, 1, ++version);
}

Test(broker_audit, finds_a_row_that_is_due_and_that_nobody_has)
{
    struct task_id id;

    open_rig();
    id = insert_past(1);
    insert_past(2);
    rig_pass(&rig, 3000);
    expect(2, 0, 0, 0);
    delete_past(id, 0);
    rig_pass(&rig, 3000);
    expect(1, 0, 0, 0);
    rig_close(&rig);
}

/* To begin at a shard's first row in each circle would be to walk past all that has ended. */
Test(broker_audit, begins_at_the_first_row_once_in_150_turns)
{
    open_rig();
    rig_pass(&rig, LONG_MS);
    insert_past_of(1, 3600000);
    rig_pass(&rig, 100000);
    expect(0, 0, 0, 0);
    rig_pass(&rig, 50000);
    expect(1, 0, 0, 0);
    rig_close(&rig);
}

Test(broker_audit, waits_until_a_row_is_late)
{
    struct store_op op = {.kind = STORE_INSERT,
                          .task = {.id = {.seq = task_seq(200, 9), .slot = 1}, .queue = 1}};

    open_rig();
    op.task.due_ms = rig_time(&rig) - 1000;
    write_past(op);
    rig_pass(&rig, 8000);
    expect(0, 0, 0, 0);
    rig_pass(&rig, 8000);
    expect(1, 0, 0, 0);
    rig_close(&rig);
}

Test(broker_audit, finds_a_task_that_is_lost_from_its_wheel)
{
    struct task_id id;

    open_rig();
    id = create(1, 2000);
    wheel_del(&rig.broker->databases[0].waiting, &entry_of(id)->node);
    rig_pass(&rig, LONG_MS);
    cr_assert_eq(rig.seen_count, 0);
    expect(1, 0, 0, 0);
    rig_close(&rig);
}

Test(broker_audit, finds_a_task_that_is_lost_from_its_line)
{
    struct task_id id;

    open_rig();
    set_paused(true);
    id = create(1, 0);
    rig_pass(&rig, 100);
    cr_assert_eq(entry_of(id)->state, ENTRY_READY);
    list_del(&entry_of(id)->ready);
    rig_pass(&rig, LONG_MS);
    expect(1, 0, 0, 0);
    rig_close(&rig);
}

Test(broker_audit, finds_a_task_whose_write_is_lost)
{
    struct task_id id;

    open_rig();
    id = create(1, 60000);
    entry_move(entry_of(id), ENTRY_CHANGING);
    wheel_del(&rig.broker->databases[0].waiting, &entry_of(id)->node);
    rig_pass(&rig, 60000 + LONG_MS);
    expect(1, 0, 0, 0);
    rig_close(&rig);
}

Test(broker_audit, finds_a_loader_that_stands_still)
{
    open_rig();
    // As if everything from an hour ago on had still to be read, and nothing reminded of it.
    insert_past(3);
    rig.broker->shards[3].cursor = (struct place){due_bucket(rig_time(&rig) - 3600000), 0};
    rig.broker->shards[3].retry_at = 0;
    rig.broker->shards[3].has_claims = false;
    rig_pass(&rig, LONG_MS);
    expect(1, 0, 0, 0);
    rig_close(&rig);
}

/* Shard 3 has a late row still to read, in what is past or, from an hour ago on, in what is near;
 * no page of it is answered. */
static void hold_pages(bool of_past)
{
    struct shard *shard;

    open_rig();
    shard = &rig.broker->shards[3];
    insert_past_of(3, of_past ? 1800000 : 60000);
    rig.held = &shard->page;
    if (!of_past) {
        shard->cursor = (struct place){due_bucket(rig_time(&rig) - 3600000), 0};
    }
    rig_pass(&rig, 1100); // Until it is looked at, and asks for a page.
    cr_assert(shard->is_paging);
    cr_assert_eq(shard->is_page_past, of_past);
}

/* The database says no to the page that shard 3 waits for. */
static void refuse_page(void)
{
    struct store_mem_request *request = store_mem_find(rig.mem, &rig.broker->shards[3].page);

    if (request != NULL) {
        store_mem_refuse(rig.mem, request);
    }
}

static void let_pages_take_long(bool of_past)
{
    hold_pages(of_past);
    for (uint32_t i = 0; i < 50; i++) {
        rig_pass(&rig, 100);
        expect(0, 0, 0, 0);
        if (i % 25 == 0) {
            refuse_page(); // And is tried again once.
        }
    }
    cr_assert_gt(figures().rounds, 2);
    rig.held = NULL;
    rig_pass(&rig, 1000);
    cr_assert_eq(rig.seen_count, 1, "it was in the loader's hands");
    expect(0, 0, 0, 0);
    rig_close(&rig);
}

Test(broker_audit, says_nothing_of_a_loader_whose_page_takes_long)
{
    let_pages_take_long(false);
    let_pages_take_long(true);
}

/* While shard 3 waits until the page of shard 2 has ended it is looked at; its own is not taken at
 * first, and then it is looked at again. */
static void refuse_page_at_once(span_ms after)
{
    struct shard *shards;

    open_rig();
    shards = rig.broker->shards;
    insert_past_of(2, 1800000);
    insert_past_of(3, 1800000);
    rig.held = &shards[2].page;
    rig_pass(&rig, after);
    cr_assert(shards[2].is_paging && shards[3].is_past_waiting);
    rig.refused = &shards[3].page;
    rig.held = NULL;
    rig_pass(&rig, 90);
    rig.refused = NULL;
    for (uint32_t i = 0; i < 30; i++) {
        expect(0, 0, 0, 0);
        rig_pass(&rig, 100);
    }
    cr_assert_eq(rig.seen_count, 2);
    rig_close(&rig);
}

Test(broker_audit, says_nothing_of_a_page_that_is_not_taken_once)
{
    // It waits from a second on, and there is a turn of the auditor each 1.3 s.
    for (span_ms after = 1100; after < 2600; after += 50) {
        refuse_page_at_once(after);
    }
}

static void let_pages_come_to_nothing(bool of_past)
{
    hold_pages(of_past);
    for (uint32_t i = 0; i < 240; i++) {
        refuse_page();
        rig_pass(&rig, 50); // A part of it the next one is in flight.
        if (i > 60) {
            expect(1, 0, 0, 0);
        }
    }
    rig_close(&rig);
}

Test(broker_audit, finds_a_loader_whose_pages_come_to_nothing)
{
    let_pages_come_to_nothing(false);
    let_pages_come_to_nothing(true);
}

Test(broker_audit, says_nothing_of_a_row_whose_commit_is_not_answered_yet)
{
    struct call call;

    open_rig();
    set_paused(true); // So that it comes into memory when it is answered, and not before.
    call = rig_create(&rig, 1, rig_time(&rig) - 60000);
    rig_call(&rig, &call);
    while (store_mem_row_count(rig.mem, 1) == 0) {
        broker_tick(rig.broker, &rig.now);
        if (rig_write(&rig) != NULL) {
            (void)store_mem_step(rig.mem, rig_write(&rig));
        }
    }
    rig.held = &rig.broker->databases[rig.broker->shards[1].database].writer.batches[0].store;
    for (uint32_t i = 0; i < 50; i++) {
        rig_pass(&rig, 100);
        expect(0, 0, 0, 0);
    }
    rig.held = NULL;
    rig_pass(&rig, 5000);
    cr_assert_eq(call.result, 0);
    cr_assert_gt(figures().rounds, 1);
    expect(0, 0, 0, 0);
    rig_close(&rig);
}

Test(broker_audit, finds_a_claim_that_nobody_ends)
{
    struct task_id id;

    open_rig();
    set_paused(true);
    id = create(1, 0);
    rig_pass(&rig, 100);
    write_past((struct store_op){.kind = STORE_CLAIM,
                                 .task = {.id = id},
                                 .attempt = 1,
                                 .deadline_ms = rig_time(&rig) + 100});
    rig_pass(&rig, 8000);
    expect(0, 0, 0, 0);
    rig_pass(&rig, 8000);
    expect(0, 1, 0, 0);
    rig_close(&rig);
}

Test(broker_audit, finds_an_attempt_that_outlives_its_deadline)
{
    open_rig();
    create(1, 0);
    rig_pass(&rig, 10000);
    cr_assert_eq(rig.seen_count, 1);
    expect(0, 0, 0, 0);
    rig_pass(&rig, 12000 + LONG_MS); // The target never says how it ended, which it must.
    expect(0, 1, 0, 0);
    rig_close(&rig);
}

Test(broker_audit, finds_a_task_in_memory_without_a_row)
{
    struct task_id id;

    open_rig();
    id = create(2, 50000);
    create(2, 50000);
    delete_past(id, 0);
    rig_pass(&rig, 5000);
    expect(0, 0, 1, 0);
    rig_close(&rig);
}

Test(broker_audit, finds_every_task_without_a_row_in_time)
{
    static struct task_id ids[200];

    open_rig();
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        ids[i] = create(1, 59000);
    }
    delete_past(ids[0], 0);
    for (uint32_t seen = 0, end = 0; seen == 0; end++) {
        rig_pass(&rig, 1000);
        seen = figures().entries_rowless;
        cr_assert_lt(end, 30);
    }
    rig_close(&rig);
}

Test(broker_audit, finds_shards_that_nobody_serves)
{
    struct member members[2];

    open_rig();
    rig_pass(&rig, 100);
    members[0] = rig.self;
    members[1] = rig.self;
    memcpy(members[1].name, "two", 4);
    memcpy(members[1].instance, "0000000000000002", 17);
    broker_on_members(rig.broker, &rig.now, members, 2);
    rig_pass(&rig, 1000); // Some go to the other one, who never says that it serves them.
    expect(0, 0, 0, 0);
    rig_pass(&rig, 16000);
    cr_assert_gt(figures().shards_unowned, 0);
    broker_on_session(rig.broker, &rig.now, COORD_AWAY);
    rig_pass(&rig, 2000); // Nothing is known of others any more.
    expect(0, 0, 0, 0);
    broker_on_session(rig.broker, &rig.now, COORD_CONNECTED);
    memset(&members[1].owns, 0xff, sizeof(members[1].owns));
    broker_on_members(rig.broker, &rig.now, members, 2);
    rig_pass(&rig, 20000);
    expect(0, 0, 0, 0);
    rig_close(&rig);
}

Test(broker_audit, says_nothing_of_a_queue_that_is_paused)
{
    open_rig();
    set_paused(true);
    for (uint16_t i = 0; i < 1000; i++) {
        create(i % 16, i % 2 == 0 ? 0 : 500);
    }
    rig_pass(&rig, LONG_MS);
    cr_assert_eq(rig.seen_count, 0);
    expect(0, 0, 0, 0);
    rig_close(&rig);
}

Test(broker_audit, says_nothing_of_tasks_that_run_wait_or_are_held)
{
    static const enum outcome outcomes[] = {OUTCOME_UNKNOWN, OUTCOME_RETRY, OUTCOME_DONE};
    size_t ended = 0;

    open_rig();
    for (uint16_t i = 0; i < 40; i++) {
        create(i, 1000 * i);
    }
    for (uint32_t i = 0; i < 60; i++) {
        while (ended < rig.seen_count && rig_time(&rig) > rig.seen_at[ended] + 9000) {
            rig_end(&rig, ended, outcomes[ended % ARRAY_COUNT(outcomes)]);
            ended++;
        }
        rig_pass(&rig, 1000);
        expect(0, 0, 0, 0);
    }
    cr_assert_gt(rig.seen_count, 40);
    cr_assert_gt(figures().rounds, 40);
    rig_close(&rig);
}

Test(broker_audit, forgets_a_shard_that_is_dropped)
{
    open_rig();
    insert_past(1);
    rig_pass(&rig, 3000);
    expect(1, 0, 0, 0);
    rig_bump(&rig, 1);
    rig_pass(&rig, 3000); // Taken again, the row is found by the loader.
    expect(0, 0, 0, 0);
    cr_assert_eq(rig.seen_count, 1);
    rig_close(&rig);
}

Test(broker_audit, is_not_there_when_it_is_not_asked_for)
{
    rig_audit_ms = 0;
    rig_open(&rig);
    insert_past(1);
    rig_pass(&rig, 5000);
    expect(0, 0, 0, 0);
    cr_assert_eq(figures().looks, 0);
    rig_close(&rig);
}
