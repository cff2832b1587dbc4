/* SPDX-License-Identifier: Apache-2.0
 *
 * The core when memory runs out: the n-th allocation of a short story fails, or it and those behind
 * it, for every n until the story ends without reaching it. A call is answered once and truly, what
 * was answered OK is in effect, every task comes to its end, and nothing is leaked.
 */
#include "tests/unit/broker_rig.h"

#include "lib/base/mem.h"

#include <string.h>

#define CALL_COUNT_MAX 24
#define POINTS_MAX     20000

/* As the design says it: unknown is never called refused. */
#define WAIT_TURNS 2000

struct teller {
    struct rig rig;
    uint32_t count;  /* allocations of the core so far */
    uint32_t from;   /* those fail … */
    uint32_t length; /* … so many */
    uint32_t failed;
    struct call calls[CALL_COUNT_MAX];
    uint32_t answers[CALL_COUNT_MAX]; /* how often each was answered */
    size_t call_count;
    size_t ended;       /* attempts that the receiver has ended */
    bool is_holding;    /* it ends none */
    struct task letter; /* as it was read */
    uint8_t bytes[2000];
};

static struct teller teller;

static bool on_allocation(size_t size, void *ctx)
{
    struct teller *t = ctx;

    (void)size;
    if (!t->rig.in_core) {
        return true;
    }
    t->count++;
    if (t->count < t->from || t->count - t->from >= t->length) {
        return true;
    }
    t->failed++;
    return false;
}

/* The receiver: what becomes of an attempt is the first byte of its task's payload. */
static enum outcome outcome_of(const struct attempt *attempt)
{
    switch (attempt->attempt == 1 && attempt->payload.len > 0 ? attempt->payload.data[0] : 'd') {
    case 'r':
        return OUTCOME_RETRY;
    case 'x':
        return OUTCOME_DEAD;
    case 'u':
        return OUTCOME_UNKNOWN;
    default:
        return OUTCOME_DONE;
    }
}

static void turn(struct teller *t, span_ms span)
{
    struct rig *rig = &t->rig;

    rig_set_time(rig, rig_time(rig) + span);
    rig_turn(rig);
    for (; !t->is_holding && t->ended < rig->seen_count; t->ended++) {
        enum outcome outcome = outcome_of(rig->running[t->ended]);

        rig->running[t->ended]->error_text = slice_of("as it was asked to");
        rig_end(rig, t->ended, outcome);
    }
}

static void pass(struct teller *t, span_ms span, span_ms step)
{
    for (wall_ms end = rig_time(&t->rig) + span; rig_time(&t->rig) < end;) {
        wall_ms before = rig_time(&t->rig);

        turn(t, step);
        if (before / 500 != rig_time(&t->rig) / 500) {
            rig_queues(&t->rig); // As the edge's poll of home.
        }
    }
}

static void on_answer(struct call *call)
{
    size_t index = (size_t)(call - teller.calls);

    teller.answers[index]++;
    if (call->result == 0 && call->kind == CALL_SCAN && call->scan->ended_count > 0) {
        teller.letter.id = call->scan->ended[0].task.id;
        teller.letter.attempt = call->scan->ended[0].task.attempt;
    }
}

static struct call *new_call(struct teller *t, enum call_kind kind, uint16_t slot)
{
    struct call *call = &t->calls[t->call_count++];

    *call = (struct call){.kind = kind, .cb = on_answer, .owner = t};
    call->task.queue = 1;
    call->task.id.slot = slot;
    call->shard = shard_of_slot(slot, SHARDS);
    return call;
}

/* Make a call and wait for its answer. */
static void ask(struct teller *t, struct call *call)
{
    rig_call(&t->rig, call);
    for (int i = 0; i < WAIT_TURNS && t->answers[call - t->calls] == 0; i++) {
        turn(t, 1);
    }
    cr_assert_eq(t->answers[call - t->calls], 1, "call %zu of kind %u, allocation %u",
                 (size_t)(call - t->calls), call->kind, t->from);
}

static struct call *create(struct teller *t, uint16_t slot, span_ms delay, const char *payload)
{
    struct call *call = new_call(t, CALL_CREATE, slot);

    call->task.due_ms = rig_time(&t->rig) + delay;
    call->task.payload = slice_of(payload);
    if (payload[0] == 'L') {
        call->task.payload = (struct slice){t->bytes, sizeof(t->bytes)};
    }
    if (payload[0] == 'K') {
        call->task.key = slice_of("key");
        call->key_policy = KEY_KEEP;
    }
    ask(t, call);
    return call;
}

static void change(struct teller *t, enum call_kind kind, const struct call *created, span_ms delay)
{
    struct call *call;

    if (created->result != 0) {
        return;
    }
    call = new_call(t, kind, created->task.id.slot);
    call->task.id = created->found;
    call->set_due = kind == CALL_UPDATE;
    call->task.due_ms = rig_time(&t->rig) + delay;
    ask(t, call);
}

/* Read the dead letters of a shard and have the first of them back. */
static void redrive(struct teller *t, uint16_t slot)
{
    static struct store_read scan;
    struct call *call = new_call(t, CALL_SCAN, slot);

    t->letter = (struct task){.queue = 1};
    scan = (struct store_read){.kind = STORE_READ_DEAD, .queue = 1, .limit = 10};
    call->scan = &scan;
    ask(t, call);
    if (t->letter.id.seq == 0) {
        return;
    }
    call = new_call(t, CALL_REDRIVE, slot);
    call->task = t->letter;
    call->task.due_ms = rig_time(&t->rig);
    call->task.created_ms = rig_time(&t->rig);
    ask(t, call);
}

/* A member comes, and goes again. */
static void rebalance(struct teller *t)
{
    struct rig *rig = &t->rig;
    struct member members[2] = {rig->self, rig->self};

    members[1].name[0]++;
    members[1].instance[0]++;
    rig->in_core = true;
    broker_on_members(rig->broker, &rig->now, members, 2);
    rig->in_core = false;
    pass(t, 400, 5);
    rig->in_core = true;
    broker_on_members(rig->broker, &rig->now, members, 1);
    rig->in_core = false;
    pass(t, 1500, 5);
}

/* A commit of a shard is never answered; what runs there meanwhile is found again. */
static void lose_commit(struct teller *t, uint16_t slot)
{
    struct call *call = new_call(t, CALL_CREATE, slot);

    call->task.due_ms = rig_time(&t->rig) + 20;
    rig_call(&t->rig, call);
    for (int i = 0; i < 50 && rig_write(&t->rig) == NULL; i++) {
        t->rig.in_core = true;
        broker_tick(t->rig.broker, &t->rig.now);
        t->rig.in_core = false;
    }
    if (rig_write(&t->rig) != NULL) {
        store_mem_give_up(t->rig.mem, rig_write(&t->rig));
    }
    pass(t, 1500, 5);
    cr_assert_eq(t->answers[call - t->calls], 1, "a lost commit, allocation %u", t->from);
}

static void tell_story(struct teller *t)
{
    struct call *far = create(t, 1, 120000, "d");
    struct call *near = create(t, 2, 0, "d");
    struct call *cancelled = create(t, 3, 300, "K");

    (void)create(t, 3, 300, "K"); // The key is held, or was refused before.
    (void)create(t, 1, 60, "L");
    (void)create(t, 2, 30, "r");
    (void)create(t, 3, 10, "x");
    (void)create(t, 0, 10, "u");
    change(t, CALL_GET, far, 0);
    change(t, CALL_UPDATE, far, 200);
    change(t, CALL_CANCEL, cancelled, 0);
    change(t, CALL_CANCEL, near, 0);
    t->is_holding = true;
    (void)create(t, 1, 0, "d");
    pass(t, 30, 1);
    lose_commit(t, 1);
    t->is_holding = false;
    redrive(t, 3);
    rebalance(t);
}

/* Whether a call said that nothing has happened. */
static bool is_refused(const struct call *call)
{
    return call->result == ERR_FULL || call->result == ERR_UNAVAILABLE ||
           call->result == ERR_NO_MEMORY || call->result == ERR_FENCED;
}

static void check_calls(const struct teller *t)
{
    for (size_t i = 0; i < t->call_count; i++) {
        const struct call *call = &t->calls[i];
        bool has_started = false;

        cr_assert_eq(t->answers[i], 1);
        cr_assert(call->result == 0 || is_refused(call) || call->result == ERR_OUTCOME_UNKNOWN ||
                      call->result == ERR_GONE || call->result == ERR_NOT_FOUND,
                  "call %zu of kind %u came to %d, allocation %u", i, call->kind, call->result,
                  t->from);
        for (size_t k = 0; k < t->rig.seen_count; k++) {
            has_started = has_started || t->rig.seen[k].id.seq == call->task.id.seq;
        }
        if (call->kind == CALL_CREATE && is_refused(call) && call->task.id.seq != 0) {
            cr_assert(!has_started, "call %zu was refused and started, allocation %u", i, t->from);
        }
    }
}

/* With memory again everything comes to its end, and nothing is left of it. */
static void check_end(struct teller *t)
{
    struct broker_stats stats;
    struct memory_view memory;

    pass(t, 150000, 50);
    broker_inspect(t->rig.broker, &stats);
    broker_inspect_memory(t->rig.broker, &memory);
    cr_assert_eq(stats.shards_owned, SHARDS, "allocation %u", t->from);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        cr_assert_eq(store_mem_row_count(t->rig.mem, shard), 0, "shard %u, allocation %u", shard,
                     t->from);
    }
    cr_assert_eq(stats.entries, 0, "allocation %u", t->from);
    cr_assert_eq(stats.in_flight, 0, "allocation %u", t->from);
    cr_assert_eq(memory.adrift, 0, "allocation %u", t->from);
    cr_assert_eq(stats.ops_waiting, 0, "allocation %u", t->from);
    cr_assert_eq(store_mem_claim_row_count(t->rig.mem, 0), 0, "allocation %u", t->from);
    check_calls(t);
}

/* The story as it is without a failure: it goes where it is meant to. */
static void check_story(const struct teller *t)
{
    struct broker_stats stats;

    broker_inspect(t->rig.broker, &stats);
    cr_assert_eq(stats.created, 8, "%lu", (unsigned long)stats.created);
    cr_assert_eq(stats.done, 8, "%lu", (unsigned long)stats.done);
    cr_assert_eq(stats.cancelled, 1);
    cr_assert_eq(stats.updated, 1);
    cr_assert_eq(stats.retried, 2, "%lu", (unsigned long)stats.retried);
    cr_assert_eq(stats.unknown, 1);
    cr_assert_eq(stats.dead, 1);
    cr_assert_eq(stats.redriven, 1);
    cr_assert_eq(stats.batch_unknown, 1);
    cr_assert_gt(stats.bumps, SHARDS + 1, "a shard went and came back");
}

/* False: no allocation failed. */
static bool live_through(struct teller *t, uint32_t from, uint32_t length)
{
    int64_t blocks = mem_block_count();

    memset(t, 0, sizeof(*t));
    t->bytes[0] = 'd';
    t->from = from;
    t->length = length;
    mem_set_hook(on_allocation, t);
    if (rig_build(&t->rig) == 0) {
        rig_begin(&t->rig);
        pass(t, 1000, 5);
        tell_story(t);
        check_end(t);
        if (t->failed == 0) {
            check_story(t);
        }
    } else {
        cr_assert_gt(t->failed, 0);
    }
    mem_set_hook(NULL, NULL);
    rig_close(&t->rig);
    cr_assert_eq(mem_block_count(), blocks, "%ld blocks left, allocation %u",
                 (long)(mem_block_count() - blocks), from);
    return t->failed > 0;
}

static void fail_each(uint32_t length, uint32_t step)
{
    uint32_t from = 1;

    while (from < POINTS_MAX && live_through(&teller, from, length)) {
        from += step;
    }
    cr_assert_gt(from, 50U);
    cr_assert_lt(from, POINTS_MAX);
    cr_log_info("%u allocations", from);
}

Test(broker_memory, any_allocation_may_fail, .timeout = 100)
{
    fail_each(1, 1);
}

Test(broker_memory, several_allocations_in_a_row_may_fail, .timeout = 100)
{
    fail_each(25, 7);
}
