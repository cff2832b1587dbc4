/* SPDX-License-Identifier: Apache-2.0
 *
 * What is much to write is two batches, one for each half of the shards, that are in flight beside
 * each other; what is little is one. source: docs/adr/0041
 */
#include "tests/unit/broker_rig.h"

/* So many operations are two batches; a create is one of them. */
#define SPLIT 8U

/* Creates that are made of at once; shards take turns. */
#define FEW  4U
#define MANY 16U

/* Batches that have left, in their order. */
#define SENT_MAX 16U
static struct sent {
    const struct store_batch *batch;
    uint32_t stream;
    uint32_t ops;
    int64_t writer;   /* of its claim row; 0: it has none */
    bool has_half[2]; /* shards with an even number; with an odd one */
} sent[SENT_MAX];
static size_t sent_count;

static void note_batch(struct rig *rig, const struct store_batch *batch)
{
    struct sent *note = &sent[sent_count++];

    (void)rig;
    cr_assert_leq(sent_count, SENT_MAX);
    *note = (struct sent){.batch = batch,
                          .stream = batch->stream,
                          .ops = (uint32_t)batch->op_count,
                          .writer = batch->claim_row.writer};
    for (size_t i = 0; i < batch->op_count; i++) {
        note->has_half[batch->ops[i].shard % 2] = true;
    }
}

static void open_split(struct rig *rig, uint32_t streams)
{
    rig_stream_count = streams;
    rig_split_op_min = SPLIT;
    rig_open(rig);
    rig->on_write = note_batch;
    sent_count = 0;
}

/* Creates in slots first, first + step, … of the shards. */
static void create_due(struct rig *rig, struct call *calls, size_t count, size_t first, size_t step,
                       wall_ms due_ms)
{
    for (size_t i = 0; i < count; i++) {
        calls[i] = rig_create(rig, (uint16_t)((first + i * step) % SHARDS), due_ms);
        broker_call(rig->broker, &rig->now, &calls[i]);
    }
    broker_tick(rig->broker, &rig->now);
}

/* The same, due in a year. */
static void create_some(struct rig *rig, struct call *calls, size_t count, size_t first,
                        size_t step)
{
    create_due(rig, calls, count, first, step, rig_time(rig) + INT64_C(31536000000));
}

/* A batch of its half alone, in its own stream. */
static void must_be_half(const struct sent *note, uint32_t ops)
{
    cr_assert_eq(note->ops, ops);
    cr_assert_neq(note->has_half[0], note->has_half[1]);
    cr_assert_eq(note->stream, note->has_half[0] ? 0 : 1);
}

static void must_be_both(const struct sent *note, uint32_t ops)
{
    cr_assert_eq(note->ops, ops);
    cr_assert(note->has_half[0] && note->has_half[1]);
    cr_assert_eq(note->stream, 0);
}

Test(broker_split, little_is_one_batch)
{
    static struct rig rig;
    static struct call calls[FEW];

    open_split(&rig, 2);
    create_some(&rig, calls, FEW, 0, 1);
    cr_assert_eq(sent_count, 1);
    must_be_both(&sent[0], FEW);
    rig_pass(&rig, 5);
    cr_assert_eq(rig.answered, FEW);
    rig_close(&rig);
}

Test(broker_split, much_is_two_that_are_in_flight_together)
{
    static struct rig rig;
    static struct call calls[MANY];

    open_split(&rig, 2);
    create_some(&rig, calls, MANY, 0, 1);
    cr_assert_eq(sent_count, 2);
    cr_assert_eq(rig.writes, 2);
    must_be_half(&sent[0], MANY / 2);
    must_be_half(&sent[1], MANY / 2);
    rig_pass(&rig, 5);
    cr_assert_eq(rig.answered, MANY);
    rig_close(&rig);
}

/* Else a sweep between the two commits would hide the claims of the later one from take-overs. */
Test(broker_split, claims_of_the_two_are_in_rows_of_two_writers)
{
    static struct rig rig;
    static struct call calls[MANY];

    open_split(&rig, 2);
    create_due(&rig, calls, MANY, 0, 1, rig_time(&rig));
    cr_assert_eq(sent_count, 2);
    cr_assert_gt(sent[0].writer, 0);
    cr_assert_gt(sent[1].writer, 0);
    cr_assert_neq(sent[0].writer, sent[1].writer);
    rig_pass(&rig, 5);
    cr_assert_eq(rig.seen_count, MANY);
    rig_close(&rig);
}

Test(broker_split, nothing_leaves_beside_a_batch_of_both)
{
    static struct rig rig;
    static struct call calls[MANY];
    static struct call little[FEW];

    open_split(&rig, 2);
    create_some(&rig, little, FEW, 0, 1);
    rig.held = sent[0].batch;
    create_some(&rig, calls, MANY, 0, 1);
    rig_pass(&rig, 5);
    cr_assert_eq(sent_count, 1);
    rig.held = NULL;
    rig_pass(&rig, 5);
    cr_assert_eq(sent_count, 3);
    cr_assert_eq(rig.answered, FEW + MANY);
    rig_close(&rig);
}

Test(broker_split, a_store_with_one_stream_gets_one_batch)
{
    static struct rig rig;
    static struct call calls[MANY];

    open_split(&rig, 1);
    create_some(&rig, calls, MANY, 0, 1);
    cr_assert_eq(sent_count, 1);
    must_be_both(&sent[0], MANY);
    rig_close(&rig);
}

Test(broker_split, a_half_goes_on_while_the_other_hangs)
{
    static struct rig rig;
    static struct call calls[MANY];
    static struct call more[FEW];
    static struct call little[1];

    open_split(&rig, 2);
    create_some(&rig, calls, MANY, 0, 1);
    rig.held = sent[1].batch;
    rig_pass(&rig, 5);
    cr_assert_eq(rig.answered, MANY / 2);
    create_some(&rig, more, FEW, 0, 2); // Half of what makes two.
    cr_assert_eq(sent_count, 3);
    must_be_half(&sent[2], FEW);
    rig_pass(&rig, 5);
    cr_assert_eq(rig.answered, MANY / 2 + FEW);
    create_some(&rig, little, 1, 0, 2); // Beside a large one also what is little.
    cr_assert_eq(sent_count, 4);
    rig_pass(&rig, 5);
    create_some(&rig, little, 1, 1, 2); // Not what is of the half that hangs.
    rig_pass(&rig, 5);
    cr_assert_eq(sent_count, 4);
    rig.held = NULL;
    rig_pass(&rig, 5);
    cr_assert_eq(rig.answered, MANY + FEW + 2);
    rig_close(&rig);
}

/* A batch of half 0 with little in it is in flight, and held; nothing else is. */
static void hold_little(struct rig *rig, struct call *calls)
{
    open_split(rig, 2);
    create_some(rig, calls, SPLIT, 0, 1);
    cr_assert_eq(sent_count, 2);
    rig->held = sent[1].batch;
    rig_pass(rig, 5);
    create_some(rig, calls, 1, 0, 2);
    cr_assert_eq(sent_count, 3);
    rig->held = sent[2].batch;
    rig_pass(rig, 5);
    cr_assert_eq(rig->writes, 1);
}

Test(broker_split, what_is_little_waits_and_both_halves_leave_together_again)
{
    static struct rig rig;
    static struct call calls[MANY];
    static struct call little[2];

    hold_little(&rig, calls);
    create_some(&rig, little, 2, 0, 1); // One of each half.
    rig_pass(&rig, 5);
    cr_assert_eq(sent_count, 3);
    rig.held = NULL;
    rig_pass(&rig, 5);
    cr_assert_eq(sent_count, 4);
    must_be_both(&sent[3], 2);
    rig_close(&rig);
}

Test(broker_split, what_is_little_does_not_wait_for_what_hangs)
{
    static struct rig rig;
    static struct call calls[MANY];
    static struct call little[1];

    hold_little(&rig, calls);
    create_some(&rig, little, 1, 1, 2);
    for (span_ms i = 0; i < 25 && sent_count == 3; i++) {
        rig_set_time(&rig, rig_time(&rig) + 1);
        if (broker_next_wake(rig.broker, &rig.now) <= rig.now.boot) {
            broker_tick(rig.broker, &rig.now);
        }
    }
    cr_assert_eq(sent_count, 4, "and it wakes for that");
    must_be_half(&sent[3], 1);
    rig_close(&rig);
}

/* Of creates with one key one is in a batch, however many wait: claims of the other half are not to
 * wait for all of them. */
Test(broker_split, a_half_of_which_little_can_leave_holds_up_nobody)
{
    static struct rig rig;
    static struct call calls[MANY];
    static struct call others[2];

    open_split(&rig, 2);
    for (size_t i = 0; i < MANY; i++) {
        calls[i] = rig_create(&rig, 0, rig_time(&rig) + INT64_C(31536000000));
        calls[i].task.key = slice_of("hot");
        broker_call(rig.broker, &rig.now, &calls[i]);
    }
    create_some(&rig, others, 2, 1, 2);
    cr_assert_eq(sent_count, 2);
    must_be_half(&sent[0], 1);
    must_be_half(&sent[1], 2);
    rig_close(&rig);
}

Test(broker_split, a_stream_that_has_failed_is_left_alone_while_the_first_is_busy)
{
    static struct rig rig;
    static struct call calls[MANY];
    static struct call more[MANY];

    open_split(&rig, 2);
    create_some(&rig, calls, MANY, 0, 1);
    rig.held = sent[0].batch;
    store_mem_refuse(rig.mem, store_mem_find(rig.mem, sent[1].batch));
    rig_pass(&rig, 500);
    create_some(&rig, more, MANY, 1, 2);
    rig_pass(&rig, 100);
    cr_assert_eq(sent_count, 2);
    cr_assert_gt(broker_next_wake(rig.broker, &rig.now), rig.now.boot, "and it sleeps");
    rig.held = NULL;
    rig_pass(&rig, 5);
    cr_assert_eq(sent_count, 3);
    cr_assert_eq(sent[2].stream, 0);
    rig_close(&rig);
}

Test(broker_split, after_a_failure_of_the_second_all_leave_with_the_first_for_a_while)
{
    static struct rig rig;
    static struct call calls[MANY];

    open_split(&rig, 2);
    create_some(&rig, calls, MANY, 0, 1);
    store_mem_refuse(rig.mem, store_mem_find(rig.mem, sent[1].batch));
    rig_pass(&rig, 100);
    cr_assert_eq(rig.answered, MANY, "the database refused it: the creates are told so");
    for (size_t i = 0; i < MANY; i++) {
        cr_assert_eq(calls[i].result, calls[i].shard % 2 == 0 ? 0 : ERR_UNAVAILABLE);
    }
    sent_count = 0;
    create_some(&rig, calls, MANY, 0, 1);
    cr_assert_eq(sent_count, 1);
    must_be_both(&sent[0], MANY);
    rig_pass(&rig, 6000);
    sent_count = 0;
    create_some(&rig, calls, MANY, 0, 1);
    cr_assert_eq(sent_count, 2);
    rig_close(&rig);
}

/* An unknown outcome is of the shards in it, and of no other. */
Test(broker_split, shards_of_the_other_half_know_what_became_of_their_writes)
{
    static struct rig rig;
    static struct call calls[MANY];
    struct shard_view views[2];
    struct shard_view before;

    open_split(&rig, 2);
    broker_inspect_shard(rig.broker, 0, &before);
    create_some(&rig, calls, MANY, 0, 1);
    store_mem_give_up(rig.mem, store_mem_find(rig.mem, sent[1].batch));
    rig_pass(&rig, 50);
    broker_inspect_shard(rig.broker, 0, &views[0]);
    broker_inspect_shard(rig.broker, 1, &views[1]);
    cr_assert_eq(views[0].epoch, before.epoch);
    cr_assert_gt(views[1].epoch, before.epoch);
    rig_close(&rig);
}
