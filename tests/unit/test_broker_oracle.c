/* SPDX-License-Identifier: Apache-2.0
 *
 * Loader, lines, parks and writer against plain oracles: random calls, outcomes, pauses, lost
 * commits and jumps of time over two queues, replies of the store in any order. The tasks' oracle
 * is a table of what was answered; the batches' is the store's contract, read off each batch.
 */
#include "tests/unit/broker_rig.h"

#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"

#include <string.h>

#define TWINS_MAX   3000
#define NARROW_MAX  3 /* attempts of queue 2 at once */
#define ENTRIES_MAX (SLICE_ROW_COUNT_MAX + 1)

/* A task as its user knows it. */
struct twin {
    struct call create;
    struct call change; /* the last cancel or update */
    bool is_changing;
    bool is_cancelled; /* answered: no attempt that has not started will */
    bool may_be_over;  /* by a cancel, or an outcome that may have been recorded */
    wall_ms due_ms;    /* the earliest that may be in effect */
    uint32_t attempt;  /* the highest that has started */
    bool is_done;
};

static struct {
    struct rig rig;
    struct prng prng;
    struct twin twins[TWINS_MAX];
    uint32_t count;
    size_t looked; /* starts that the oracle has seen */
    size_t running[TWINS_MAX];
    uint32_t running_count;
    uint32_t narrow; /* attempts of queue 2 that run */
    bool is_paused;  /* queue 2 */
    int64_t row_seq;
} world;

static bool chance(uint32_t of)
{
    return prng_below(&world.prng, of) == 0;
}

/* --- batches ------------------------------------------------------------------------------------
 */

/* Two operations of a batch may name one task only as an insert, or a redrive, and its claim. */
static void check_pair(const struct store_op *a, const struct store_op *b)
{
    bool same_task = a->shard == b->shard && a->task.id.seq == b->task.id.seq;
    bool is_chain = (a->kind == STORE_INSERT || a->kind == STORE_REDRIVE) && b->kind == STORE_CLAIM;
    bool have_keys = a->kind == STORE_INSERT && b->kind == STORE_INSERT && a->task.key.len > 0 &&
                     b->task.key.len > 0;

    cr_assert(!same_task || is_chain);
    cr_assert(!have_keys || a->task.queue != b->task.queue ||
              !slice_equal(a->task.key, b->task.key));
}

static void on_write(struct rig *rig, const struct store_batch *batch)
{
    bool has_claim = false;
    size_t bytes = 0;

    cr_assert_eq(rig->writes, 0, "one commit in flight");
    cr_assert_leq(batch->op_count, BATCH_OP_COUNT_MAX);
    for (size_t i = 0; i < batch->op_count; i++) {
        struct shard_view view;

        broker_inspect_shard(rig->broker, batch->ops[i].shard, &view);
        cr_assert_eq(batch->ops[i].epoch, view.epoch, "an operation of another epoch was sent");
        bytes += store_op_bytes(&batch->ops[i]);
        has_claim = has_claim || batch->ops[i].kind == STORE_CLAIM;
        for (size_t k = 0; k < i && batch->op_count < 300; k++) {
            check_pair(&batch->ops[k], &batch->ops[i]);
        }
    }
    cr_assert_leq(bytes, BATCH_BYTES_MAX);
    if (has_claim) {
        cr_assert_gt(batch->claim_row.seq, world.row_seq, "a claim row's name is used once");
        world.row_seq = batch->claim_row.seq;
    }
}

/* --- tasks --------------------------------------------------------------------------------------
 */

static struct twin *find_twin(struct task_id id)
{
    for (uint32_t i = 0; i < world.count; i++) {
        if (world.twins[i].create.task.id.seq == id.seq &&
            world.twins[i].create.task.id.slot == id.slot) {
            return &world.twins[i];
        }
    }
    return NULL;
}

/* An attempt has started: may it? */
static void look_at_start(size_t index)
{
    const struct attempt *attempt = &world.rig.seen[index];
    struct twin *twin = find_twin(attempt->id);

    cr_assert_not_null(twin);
    cr_assert(!twin->is_cancelled, "started after its cancel was answered");
    cr_assert(!twin->is_done, "started after its outcome was recorded");
    cr_assert_geq(world.rig.seen_at[index], twin->due_ms, "early");
    cr_assert_gt(attempt->attempt, twin->attempt, "an attempt's number is used once");
    twin->attempt = attempt->attempt;
    if (attempt->queue == 2) {
        world.narrow++;
        cr_assert_leq(world.narrow, NARROW_MAX, "more at once than the queue allows");
    }
    world.running[world.running_count++] = index;
}

/* Nobody could record the outcome: the shard was given up, by one who could not write for long. */
static void on_report(struct rig *rig, const struct report *report)
{
    struct twin *twin = find_twin(report->id);

    (void)rig;
    cr_assert_not_null(twin);
    twin->is_done = false;
    twin->may_be_over = true; // Its last commit may have gone through.
}

static void end_attempt(uint32_t at, bool is_calm)
{
    size_t index = world.running[at];
    struct twin *twin = find_twin(world.rig.seen[index].id);
    bool is_done = is_calm || !chance(4);

    cr_assert_not_null(twin);
    world.running[at] = world.running[--world.running_count];
    world.narrow -= world.rig.seen[index].queue == 2;
    twin->is_done = is_done;
    rig_end(&world.rig, index, is_done ? OUTCOME_DONE : OUTCOME_RETRY);
}

static bool is_created(const struct twin *twin)
{
    return twin->create.result == 0 && twin->create.created;
}

static void on_created(struct call *call)
{
    (void)call;
}

static void on_changed(struct call *call)
{
    struct twin *twin = call->owner;

    twin->is_changing = false;
    if (call->kind == CALL_CANCEL) {
        twin->is_cancelled = call->result == 0 && call->cancel == CANCEL_CANCELLED;
        twin->may_be_over = twin->may_be_over || call->result == ERR_OUTCOME_UNKNOWN ||
                            (call->result == 0 && call->cancel <= CANCEL_STOPPED);
    } else if (call->result == 0 && call->attempt == 0) {
        twin->due_ms = call->task.due_ms;
    }
}

static void create(void)
{
    static const span_ms SPANS[] = {1, 50, 5000, 200000, 400000};
    static const char *const KEYS[] = {"a", "b", "c", "d"};
    struct twin *twin = &world.twins[world.count];
    span_ms span = SPANS[prng_below(&world.prng, 5)];
    uint16_t slot = (uint16_t)prng_below(&world.prng, 64);
    span_ms ago_ms = chance(12) ? (span_ms)prng_below(&world.prng, 300000) : 0; // In the past, too.
    wall_ms due_ms =
        rig_time(&world.rig) + (span_ms)prng_below(&world.prng, (uint64_t)span) - ago_ms;

    if (world.count == TWINS_MAX) {
        return;
    }
    world.count++;
    twin->create = rig_create(&world.rig, slot, due_ms);
    twin->create.task.queue = chance(3) ? 1 : 2;
    if (chance(6)) {
        twin->create.task.key = slice_of(KEYS[prng_below(&world.prng, 4)]);
        twin->create.key_policy = chance(2) ? KEY_KEEP : KEY_REJECT;
    }
    twin->create.cb = on_created;
    twin->create.result = 1; // Not answered.
    twin->due_ms = twin->create.task.due_ms;
    rig_call(&world.rig, &twin->create);
}

static void change(void)
{
    struct twin *twin = &world.twins[prng_below(&world.prng, world.count)];
    bool is_update = chance(2);

    if (!is_created(twin) || twin->is_changing || twin->is_cancelled) {
        return;
    }
    twin->change = rig_by_id(&world.rig, is_update ? CALL_UPDATE : CALL_CANCEL, twin->create.found);
    twin->change.task.queue = twin->create.task.queue;
    twin->change.set_due = is_update;
    twin->change.task.due_ms = rig_time(&world.rig) + (span_ms)prng_below(&world.prng, 300000);
    twin->change.cb = on_changed;
    twin->change.owner = twin;
    twin->is_changing = true;
    if (is_update && twin->change.task.due_ms < twin->due_ms) {
        twin->due_ms = twin->change.task.due_ms; // It may be in effect from now on.
    }
    rig_call(&world.rig, &twin->change);
}

static void tell_queues(void)
{
    struct queue queues[2];

    for (uint32_t i = 0; i < 2; i++) {
        queue_init(&queues[i]);
        queues[i].id = i + 1;
    }
    queues[1].concurrency_max = NARROW_MAX;
    queues[1].is_paused = world.is_paused;
    broker_on_queues(world.rig.broker, &world.rig.now, queues, 2, 1);
}

/* Some of what the store has moves, in any order; now and then a commit gets lost. */
static void step_store(void)
{
    size_t count = store_mem_pending_count(world.rig.mem);

    for (size_t i = 0; i < 2 * count && store_mem_pending_count(world.rig.mem) > 0; i++) {
        size_t at = prng_below(&world.prng, store_mem_pending_count(world.rig.mem));

        (void)store_mem_step(world.rig.mem, store_mem_pending(world.rig.mem, at));
    }
    if (chance(400) && rig_write(&world.rig) != NULL) {
        store_mem_give_up(world.rig.mem, rig_write(&world.rig));
    }
}

static void turn(span_ms span, bool is_calm)
{
    struct rig *rig = &world.rig;

    rig_set_time(rig, rig_time(rig) + span);
    if (is_calm) {
        rig_turn(rig);
    } else {
        step_store();
        rig->in_core = true;
        broker_tick(rig->broker, &rig->now);
        rig->in_core = false;
    }
    for (; world.looked < rig->seen_count; world.looked++) {
        look_at_start(world.looked);
    }
    for (uint32_t i = 0; i < world.running_count;) {
        if (is_calm || chance(3)) {
            end_attempt(i, is_calm);
        } else {
            i++;
        }
    }
}

static void act(void)
{
    switch (prng_below(&world.prng, 8)) {
    case 0:
    case 1:
    case 2:
        create();
        break;
    case 3:
        if (world.count > 0) {
            change();
        }
        break;
    case 4:
        if (chance(40)) {
            world.is_paused = !world.is_paused;
            tell_queues();
        }
        break;
    default:
        turn(chance(100) ? 30000 : (span_ms)prng_below(&world.prng, 20) + 1, false);
        break;
    }
}

/* With nothing in the way any more, all comes to its end. */
static void settle(void)
{
    world.is_paused = false;
    tell_queues();
    for (int i = 0; i < 20000; i++) {
        turn(100, true);
    }
    cr_assert_eq(rig_entries(&world.rig), 0);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        cr_assert_eq(store_mem_row_count(world.rig.mem, shard), 0, "a row in nobody's hands");
    }
    for (uint32_t i = 0; i < world.count; i++) {
        const struct twin *twin = &world.twins[i];

        cr_assert(!twin->is_changing && twin->create.result != 1, "a call without an answer");
        cr_assert(!is_created(twin) || twin->is_done || twin->may_be_over, "task %u is lost", i);
        cr_assert(twin->create.result != ERR_UNAVAILABLE || twin->attempt == 0,
                  "task %u was refused and ran", i);
    }
}

static void live_through(uint64_t seed, uint32_t acts)
{
    memset(&world, 0, sizeof(world));
    prng_init_named(&world.prng, seed, "oracle");
    rig_entry_count_max = ENTRIES_MAX;
    rig_open(&world.rig);
    world.rig.on_write = on_write;
    world.rig.on_report = on_report;
    tell_queues();
    for (uint32_t i = 0; i < acts; i++) {
        act();
    }
    settle();
    rig_close(&world.rig);
}

Test(broker_oracle, random_lives_agree_with_a_table_of_answers, .timeout = 100)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        live_through(seed, 4000);
    }
}

/* Hundreds of rows that were far away fall due at once in a queue that takes three. */
Test(broker_oracle, a_line_that_overflows_agrees_with_it_too, .timeout = 100)
{
    for (uint64_t seed = 100; seed < 104; seed++) {
        memset(&world, 0, sizeof(world));
        prng_init_named(&world.prng, seed, "oracle");
        rig_open(&world.rig);
        world.rig.on_write = on_write;
        world.rig.on_report = on_report;
        tell_queues();
        while (world.count < 2800) {
            create();
            if (world.count > 2500 && world.count % 16 == 0) { // A burst, then some at a time.
                turn(1, false);
            }
        }
        for (int i = 0; i < 60; i++) {
            turn(10000, false);
        }
        for (int i = 0; i < 500; i++) {
            act();
        }
        settle();
        rig_close(&world.rig);
    }
}
