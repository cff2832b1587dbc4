/* SPDX-License-Identifier: Apache-2.0
 *
 * One broker over the memory store, a coordinator that grants everything and a target that does
 * what the test says: what the core promises when nothing fails, and after the faults that a test
 * can name. Whole clusters under random faults are the simulator's.
 */
#include "broker/core/broker.h"

#include "broker/core/inspect.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "storage/store_mem.h"

#include <criterion/criterion.h>
#include <string.h>

#define START_MS     INT64_C(1700000000000)
#define SHARDS       4U
#define ATTEMPTS_MAX 64

struct rig {
    struct coord coord; /* first: the vtable finds us */
    struct outbound outbound;
    struct store_mem *mem;
    struct store *store;
    struct broker *broker;
    struct now now;
    struct list requests; /* of the coordinator */
    struct attempt *running[ATTEMPTS_MAX];
    struct attempt seen[ATTEMPTS_MAX]; /* copies, in order of start */
    wall_ms seen_at[ATTEMPTS_MAX];
    size_t seen_count;
    size_t answered;
    size_t reports;
    size_t refusals; /* starts while is_full */
    bool is_full;
    int64_t generation;
    struct member self;
};

static int rig_submit(struct coord *coord, struct coord_request *request)
{
    struct rig *rig = CONTAINER_OF(coord, struct rig, coord);

    list_add(&rig->requests, &request->link);
    return 0;
}

static int rig_start(struct outbound *outbound, struct attempt *attempt)
{
    struct rig *rig = CONTAINER_OF(outbound, struct rig, outbound);

    REQUIRE(rig->seen_count < ATTEMPTS_MAX);
    if (rig->is_full) {
        rig->refusals++;
        return ERR_FULL;
    }
    rig->running[rig->seen_count] = attempt;
    rig->seen[rig->seen_count] = *attempt;
    rig->seen_at[rig->seen_count] = ms_floor(rig->now.database[0].lower_us);
    rig->seen_count++;
    return 0;
}

static void rig_report(struct outbound *outbound, const struct report *report)
{
    cr_assert_eq(report->outcome, OUTCOME_DONE);
    CONTAINER_OF(outbound, struct rig, outbound)->reports++;
}

static void rig_set_time(struct rig *rig, wall_ms ms)
{
    rig->now.boot = (ms - START_MS + 1000) * US_PER_MS;
    rig->now.database[0] = (struct clock_bounds){ms * US_PER_MS, ms * US_PER_MS + 200};
    store_mem_set_clock(rig->mem, 0, ms * US_PER_MS);
    broker_set_now(rig->broker, &rig->now);
}

static wall_ms rig_time(const struct rig *rig)
{
    return ms_floor(rig->now.database[0].lower_us);
}

/* One turn: replies, one tick. */
static void rig_turn(struct rig *rig)
{
    struct list requests;

    list_init(&requests);
    list_move_all(&requests, &rig->requests);
    for (struct list *link; (link = list_take_first(&requests)) != NULL;) {
        struct coord_request *request = CONTAINER_OF(link, struct coord_request, link);

        request->result = 0;
        if (request->kind == COORD_ACQUIRE) {
            request->generation = ++rig->generation;
        }
        request->cb(request);
    }
    store_mem_run(rig->mem);
    broker_tick(rig->broker, &rig->now);
}

/* Turn until `span` has passed, a millisecond a turn. */
static void rig_pass(struct rig *rig, span_ms span)
{
    for (wall_ms end = rig_time(rig) + span; rig_time(rig) < end;) {
        rig_set_time(rig, rig_time(rig) + 1);
        rig_turn(rig);
    }
}

static void rig_open(struct rig *rig)
{
    struct broker_options options = {.database_count = 1,
                                     .writer = 7,
                                     .session_timeout_ms = 4000,
                                     .entry_count_max = 10000,
                                     .window_ms = 60000};
    struct store_mem_options mem_options = {.shard_count = SHARDS, .database_count = 1};
    struct store_mem_client_options client = {0};
    struct broker_env env = {.seed = 1};
    struct queue queue;

    memset(rig, 0, sizeof(*rig));
    rig->mem = store_mem_new(&mem_options);
    rig->store = store_mem_client(rig->mem, &client);
    rig->coord.submit = rig_submit;
    rig->outbound.start = rig_start;
    rig->outbound.report = rig_report;
    list_init(&rig->requests);
    env.coord = &rig->coord;
    env.store = rig->store;
    env.outbound = &rig->outbound;
    options.cluster.shard_count = SHARDS;
    memcpy(options.self.name, "one", 4);
    memcpy(options.self.instance, "0000000000000001", 17);
    rig->self = options.self;
    cr_assert_eq(broker_new(&env, &options, &rig->broker), 0);
    for (size_t i = 1; i < DATABASE_COUNT_MAX; i++) {
        rig->now.database[i] = (struct clock_bounds){INT64_MIN, INT64_MAX};
    }
    rig_set_time(rig, START_MS);
    queue_init(&queue);
    queue.id = 1;
    queue.retry.jitter_permille = 0;
    broker_on_queues(rig->broker, &rig->now, &queue, 1, 1);
    broker_on_session(rig->broker, &rig->now, COORD_NEW);
    broker_on_members(rig->broker, &rig->now, &rig->self, 1);
    rig_pass(rig, 20);
}

static void rig_close(struct rig *rig)
{
    store_mem_crash(rig->mem, rig->store);
    broker_free(rig->broker);
    store_mem_free(rig->mem);
}

static void on_answer(struct call *call)
{
    ((struct rig *)call->owner)->answered++;
}

static struct call create_call(struct rig *rig, uint16_t slot, wall_ms due_ms)
{
    struct call call = {.kind = CALL_CREATE, .cb = on_answer, .owner = rig};

    call.task.queue = 1;
    call.task.due_ms = due_ms;
    call.task.id.slot = slot;
    call.task.payload = slice_of("payload");
    call.shard = shard_of_slot(slot, SHARDS);
    return call;
}

/* Make a call and turn until it is answered. */
static void ask(struct rig *rig, struct call *call)
{
    size_t before = rig->answered;

    broker_call(rig->broker, &rig->now, call);
    for (int i = 0; i < 100 && rig->answered == before; i++) {
        rig_turn(rig);
    }
    cr_assert_eq(rig->answered, before + 1, "the call is answered once");
}

static struct call by_id(struct rig *rig, enum call_kind kind, struct task_id id)
{
    struct call call = {.kind = kind, .cb = on_answer, .owner = rig, .task.id = id};

    call.task.queue = 1;
    call.shard = shard_of_slot(id.slot, SHARDS);
    return call;
}

static void end(struct rig *rig, size_t index, enum outcome outcome)
{
    rig->running[index]->outcome = outcome;
    broker_on_outcome(rig->broker, &rig->now, rig->running[index]);
}

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

Test(broker, fires_at_its_millisecond_never_early_and_once)
{
    static struct rig rig;

    rig_open(&rig);
    for (span_ms delay = 0; delay < 30; delay++) {
        struct call call = create_call(&rig, (uint16_t)delay, rig_time(&rig) + delay);
        size_t seen = rig.seen_count;
        wall_ms due_ms = call.task.due_ms;

        ask(&rig, &call);
        cr_assert_eq(call.result, 0);
        cr_assert(call.created);
        rig_pass(&rig, delay + 2);
        cr_assert_eq(rig.seen_count, seen + 1, "delay %ld", (long)delay);
        cr_assert_geq(rig.seen_at[seen], due_ms);
        cr_assert_leq(rig.seen_at[seen], due_ms + 1);
        cr_assert_eq(rig.seen[seen].attempt, 1);
        end(&rig, seen, OUTCOME_DONE);
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
    far = create_call(&rig, 1, rig_time(&rig) + 1000);
    ask(&rig, &far); // Placed while commits are quick.
    near = create_call(&rig, 2, rig_time(&rig) + 500000);
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

Test(broker, a_task_without_room_at_its_target_stays_claimed_until_start_by)
{
    static struct rig rig;
    struct broker_stats stats;
    struct call calls[3];

    rig_open(&rig);
    rig.is_full = true;
    for (uint16_t i = 0; i < ARRAY_COUNT(calls); i++) {
        calls[i] = create_call(&rig, i, rig_time(&rig));
        ask(&rig, &calls[i]);
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
    calls[0] = create_call(&rig, 0, rig_time(&rig));
    ask(&rig, &calls[0]);
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
        calls[i] = create_call(rig, (uint16_t)(i % SLOT_COUNT), due_ms);
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
    due = create_call(&rig, 1, rig_time(&rig) + 100);
    ask(&rig, &due);
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
    call = create_call(&rig, 9, rig_time(&rig) + 400000);
    ask(&rig, &call);
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

Test(broker, cancel_before_due_leaves_no_attempt)
{
    static struct rig rig;
    struct call call;
    struct call cancel;

    rig_open(&rig);
    call = create_call(&rig, 3, rig_time(&rig) + 100);
    ask(&rig, &call);
    cancel = by_id(&rig, CALL_CANCEL, call.found);
    ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_CANCELLED);
    rig_pass(&rig, 300);
    cr_assert_eq(rig.seen_count, 0);
    cancel.task.id.seq += 1000;
    ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_NOT_FOUND);
    rig_close(&rig);
}

Test(broker, a_repeated_cancel_is_answered_as_the_first_while_the_shard_is_ours)
{
    static struct rig rig;
    struct call waiting;
    struct call running;
    struct call cancel;

    rig_open(&rig);
    waiting = create_call(&rig, 3, rig_time(&rig) + 100);
    running = create_call(&rig, 3, rig_time(&rig));
    ask(&rig, &waiting);
    ask(&rig, &running);
    rig_pass(&rig, 3);
    cr_assert_eq(rig.seen_count, 1);
    for (int i = 0; i < 3; i++) {
        cancel = by_id(&rig, CALL_CANCEL, waiting.found);
        ask(&rig, &cancel);
        cr_assert_eq(cancel.cancel, CANCEL_CANCELLED);
        cancel = by_id(&rig, CALL_CANCEL, running.found);
        ask(&rig, &cancel);
        cr_assert_eq(cancel.cancel, CANCEL_STOPPED);
        cr_assert_eq(cancel.attempt, 1);
    }
    cancel.task.id.slot += SHARDS; // Nobody's id, though the number is known.
    ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_GONE);
    broker_on_shard_lost(rig.broker, &rig.now, 3);
    rig_pass(&rig, 200);
    cancel = by_id(&rig, CALL_CANCEL, running.found);
    ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_GONE, "forgotten with the shard");
    rig_close(&rig);
}

Test(broker, cancel_of_a_finished_task_says_gone_however_often)
{
    static struct rig rig;
    struct call call;
    struct call cancel;

    rig_open(&rig);
    call = create_call(&rig, 3, rig_time(&rig));
    ask(&rig, &call);
    rig_pass(&rig, 3);
    end(&rig, 0, OUTCOME_DONE);
    rig_pass(&rig, 5);
    cancel = by_id(&rig, CALL_CANCEL, call.found);
    for (int i = 0; i < 3; i++) {
        ask(&rig, &cancel);
        cr_assert_eq(cancel.cancel, CANCEL_GONE);
    }
    rig_close(&rig);
}

Test(broker, a_cancel_whose_commit_was_unknown_is_remembered_too)
{
    static struct rig rig;
    struct call call;
    struct call cancel;
    size_t answered;

    rig_open(&rig);
    call = create_call(&rig, 2, rig_time(&rig) + 3000);
    ask(&rig, &call);
    cancel = by_id(&rig, CALL_CANCEL, call.found);
    answered = rig.answered;
    broker_call(rig.broker, &rig.now, &cancel);
    broker_tick(rig.broker, &rig.now);
    (void)store_mem_step(rig.mem, store_mem_pending(rig.mem, 0)); // Executed.
    (void)store_mem_step(rig.mem, store_mem_pending(rig.mem, 0)); // Committed.
    store_mem_give_up(rig.mem, store_mem_pending(rig.mem, 0));    // The reply is lost.
    rig_pass(&rig, 50);
    cr_assert_eq(rig.answered, answered + 1);
    cr_assert_eq(cancel.cancel, CANCEL_CANCELLED);
    ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_CANCELLED);
    rig_close(&rig);
}

Test(broker, cancel_of_a_running_attempt_says_stopped_and_none_follows)
{
    static struct rig rig;
    struct call call;
    struct call cancel;

    rig_open(&rig);
    call = create_call(&rig, 3, rig_time(&rig));
    ask(&rig, &call);
    rig_pass(&rig, 3);
    cr_assert_eq(rig.seen_count, 1);
    cancel = by_id(&rig, CALL_CANCEL, call.found);
    ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_STOPPED);
    cr_assert_eq(cancel.attempt, 1);
    end(&rig, 0, OUTCOME_RETRY);
    rig_pass(&rig, 5000);
    cr_assert_eq(rig.seen_count, 1);
    rig_close(&rig);
}

Test(broker, cancel_between_two_attempts_does_not_deny_the_first)
{
    static struct rig rig;
    struct call call;
    struct call cancel;

    rig_open(&rig);
    call = create_call(&rig, 3, rig_time(&rig));
    ask(&rig, &call);
    rig_pass(&rig, 3);
    end(&rig, 0, OUTCOME_RETRY);
    rig_pass(&rig, 10);
    cancel = by_id(&rig, CALL_CANCEL, call.found);
    ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_STOPPED);
    cr_assert_eq(cancel.attempt, 1);
    rig_pass(&rig, 3000);
    cr_assert_eq(rig.seen_count, 1);
    rig_close(&rig);
}

Test(broker, update_moves_the_due_time_and_the_payload)
{
    static struct rig rig;
    struct call call;
    struct call update;

    rig_open(&rig);
    call = create_call(&rig, 3, rig_time(&rig) + 50);
    ask(&rig, &call);
    update = by_id(&rig, CALL_UPDATE, call.found);
    update.set_due = true;
    update.set_payload = true;
    update.task.due_ms = rig_time(&rig) + 500;
    update.task.payload = slice_of("other");
    ask(&rig, &update);
    cr_assert_eq(update.result, 0);
    rig_pass(&rig, 499);
    cr_assert_eq(rig.seen_count, 0);
    rig_pass(&rig, 2);
    cr_assert_eq(rig.seen_count, 1);
    cr_assert(slice_equal(rig.running[0]->payload, slice_of("other")));
    rig_close(&rig);
}

Test(broker, a_failed_attempt_is_followed_by_the_next_after_the_back_off)
{
    static struct rig rig;
    struct call call;

    rig_open(&rig);
    call = create_call(&rig, 3, rig_time(&rig));
    ask(&rig, &call);
    rig_pass(&rig, 3);
    end(&rig, 0, OUTCOME_RETRY);
    rig_pass(&rig, 990);
    cr_assert_eq(rig.seen_count, 1);
    rig_pass(&rig, 20);
    cr_assert_eq(rig.seen_count, 2);
    cr_assert_eq(rig.seen[1].attempt, 2);
    end(&rig, 1, OUTCOME_DEAD);
    rig_pass(&rig, 5);
    cr_assert_eq(store_mem_dead_count(rig.mem), 1);
    rig_close(&rig);
}

Test(broker, an_unknown_outcome_is_not_repeated_before_the_deadline)
{
    static struct rig rig;
    struct call call;
    wall_ms deadline_ms;

    rig_open(&rig);
    call = create_call(&rig, 3, rig_time(&rig));
    ask(&rig, &call);
    rig_pass(&rig, 3);
    deadline_ms = rig.seen[0].deadline_ms;
    end(&rig, 0, OUTCOME_UNKNOWN);
    rig_pass(&rig, deadline_ms - rig_time(&rig) - 1);
    cr_assert_eq(rig.seen_count, 1);
    rig_pass(&rig, 20);
    cr_assert_eq(rig.seen_count, 2);
    cr_assert_eq(rig.seen[1].attempt, 2);
    rig_close(&rig);
}

Test(broker, keys_keep_reject_and_replace)
{
    static struct rig rig;
    struct call first;
    struct call second;

    rig_open(&rig);
    first = create_call(&rig, 5, rig_time(&rig) + 200);
    first.task.key = slice_of("order-1");
    first.key_policy = KEY_KEEP;
    ask(&rig, &first);
    cr_assert(first.created);
    second = first;
    second.task.due_ms += 300;
    ask(&rig, &second);
    cr_assert_eq(second.result, 0);
    cr_assert(!second.created);
    cr_assert_eq(second.found.seq, first.found.seq);
    cr_assert_eq(second.found_due_ms, first.found_due_ms);
    second.key_policy = KEY_REJECT;
    ask(&rig, &second);
    cr_assert_eq(second.result, ERR_EXISTS);
    second.key_policy = KEY_REPLACE;
    ask(&rig, &second);
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

Test(broker, who_keeps_a_keys_task_is_told_when_it_is_due)
{
    static struct rig rig;
    struct broker_stats stats;
    struct call first;
    struct call second;
    wall_ms due_ms;

    rig_open(&rig);
    first = create_call(&rig, 5, rig_time(&rig) + 3600000); // Outside the window: only a row.
    first.task.key = slice_of("far");
    first.key_policy = KEY_KEEP;
    due_ms = first.task.due_ms;
    ask(&rig, &first);
    second = first;
    second.task.due_ms -= 5000;
    ask(&rig, &second);
    cr_assert_eq(second.result, 0);
    cr_assert(!second.created);
    cr_assert_eq(second.found.seq, first.found.seq);
    cr_assert_eq(second.found_due_ms, due_ms);
    broker_inspect(rig.broker, &stats);
    cr_assert_eq(stats.entries, 0, "looking brings nothing into memory");
    first = create_call(&rig, 6, rig_time(&rig));
    first.task.key = slice_of("over");
    first.key_policy = KEY_KEEP;
    ask(&rig, &first);
    rig_pass(&rig, 3);
    end(&rig, 0, OUTCOME_DONE);
    rig_pass(&rig, 5);
    second = first;
    ask(&rig, &second);
    cr_assert_eq(second.result, 0);
    cr_assert(!second.created, "its key is remembered");
    cr_assert_eq(second.found.seq, first.found.seq);
    cr_assert_eq(second.found_due_ms, WALL_NEVER);
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
    call = create_call(&rig, 2, rig_time(&rig) + 3000);
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
    call = create_call(&rig, 1, rig_time(&rig) + 4);
    ask(&rig, &call); // Near: claimed with its insert.
    cr_assert(store_mem_claim_next(rig.mem, 0, &cursor, &claim, &shard));
    broker_drain(rig.broker, &rig.now);
    rig_pass(&rig, 50);
    cr_assert(broker_is_drained(rig.broker));
    cr_assert_eq(rig.seen_count, 0);
    cr_assert_eq(store_mem_row(rig.mem, 1, call.found)->attempt, 1, "the claim is over");
    rig_close(&rig);
}

Test(broker, the_outcome_of_a_shard_that_has_gone_is_reported_to_its_owner)
{
    static struct rig rig;
    struct call call;

    rig_open(&rig);
    call = create_call(&rig, 1, rig_time(&rig));
    ask(&rig, &call);
    rig_pass(&rig, 3);
    broker_drain(rig.broker, &rig.now);
    rig_pass(&rig, 50);
    cr_assert(!broker_is_drained(rig.broker), "an attempt of ours runs");
    end(&rig, 0, OUTCOME_DONE);
    cr_assert_eq(rig.reports, 1);
    cr_assert(broker_is_drained(rig.broker));
    rig_close(&rig);
}

Test(broker, a_reported_outcome_counts_for_the_live_claim_only)
{
    static struct rig rig;
    struct report report = {.outcome = OUTCOME_DONE, .attempt = 2};
    struct call call;

    rig_open(&rig);
    call = create_call(&rig, 1, rig_time(&rig));
    ask(&rig, &call);
    rig_pass(&rig, 3);
    end(&rig, 0, OUTCOME_UNKNOWN);
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
