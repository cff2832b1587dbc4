/* SPDX-License-Identifier: Apache-2.0
 *
 * How tasks end besides being done: expired, or dead and then alive again; what is remembered of
 * them; and what a pause holds up.
 */
#include "tests/unit/broker_rig.h"

#define SLOT 8

static struct rig rig;

static void open_rig(void)
{
    rig_open(&rig);
}

static void close_rig(void)
{
    rig_close(&rig);
}

TestSuite(broker_end, .init = open_rig, .fini = close_rig);

/* Queue 1 with another policy. */
static struct queue some_queue(void)
{
    struct queue queue;

    queue_init(&queue);
    queue.id = 1;
    queue.retry.jitter_permille = 0;
    return queue;
}

static void set_queue(const struct queue *queue)
{
    broker_on_queues(rig.broker, &rig.now, queue, 1, 2);
}

static struct broker_stats stats(void)
{
    struct broker_stats out;

    broker_inspect(rig.broker, &out);
    return out;
}

/* Read what is remembered of a task. The results are borrowed: copied as far as tests look. */
static struct ended_task found;
static size_t found_count;

static void on_scan(struct call *call)
{
    found_count = call->scan->ended_count;
    if (found_count > 0) {
        found = call->scan->ended[0];
        found.response.data = NULL;
    }
    rig.answered++;
}

static void look_back(struct task_id id)
{
    struct store_read scan = {.kind = STORE_READ_ENDED, .ids = &id, .id_count = 1};
    struct call call = {
        .kind = CALL_SCAN, .shard = shard_of_slot(id.slot, SHARDS), .scan = &scan, .cb = on_scan};

    call.owner = &rig;
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, 0);
}

static struct task_id create(wall_ms due_ms, wall_ms expire_ms)
{
    struct call call = rig_create(&rig, SLOT, due_ms);

    call.task.expire_ms = expire_ms;
    call.task.tags = slice_of("a=1\n");
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, 0);
    return call.found;
}

Test(broker_end, a_task_whose_time_is_over_is_not_started)
{
    struct queue queue = some_queue();

    queue.concurrency_max = 1;
    set_queue(&queue);
    (void)create(rig_time(&rig), 0);
    (void)create(rig_time(&rig), rig_time(&rig) + 100);
    rig_pass(&rig, 200);
    cr_assert_eq(rig.seen_count, 1, "the first holds the queue");
    rig_end(&rig, 0, OUTCOME_DONE);
    rig_pass(&rig, 50);
    cr_assert_eq(rig.seen_count, 1);
    cr_assert_eq(stats().expired, 1);
    cr_assert_eq(rig_entries(&rig), 0);
}

Test(broker_end, an_attempt_carries_the_end_of_its_time_and_the_tags)
{
    wall_ms expire_ms = rig_time(&rig) + 300;

    (void)create(rig_time(&rig), expire_ms);
    rig_pass(&rig, 20);
    cr_assert_eq(rig.seen_count, 1);
    cr_assert_eq(rig.seen[0].expire_ms, expire_ms);
    cr_assert_leq(rig.seen[0].start_by_ms, expire_ms);
    cr_assert(slice_equal(rig.running[0]->tags, slice_of("a=1\n")));
}

Test(broker_end, a_retry_behind_the_end_of_its_time_ends_the_task)
{
    struct queue queue = some_queue();
    struct task_id id;

    queue.result_memory_ms = 1000;
    set_queue(&queue);
    id = create(rig_time(&rig), rig_time(&rig) + 500); // The first back-off is a second.
    rig_pass(&rig, 20);
    rig_end(&rig, 0, OUTCOME_RETRY);
    rig_pass(&rig, 20);
    cr_assert_eq(stats().expired, 1);
    cr_assert_eq(stats().retried, 0);
    look_back(id);
    cr_assert_eq(found_count, 1);
    cr_assert_eq(found.end, TASK_END_EXPIRED);
    cr_assert_eq(found.task.attempt, 1);
}

Test(broker_end, a_queue_gives_its_tasks_their_end)
{
    struct queue queue = some_queue();
    struct task_id id;

    queue.result_memory_ms = 1000;
    queue.expire_after_ms = 50;
    queue.is_paused = true;
    set_queue(&queue);
    id = create(rig_time(&rig) + 10, 0);
    rig_pass(&rig, 55);
    look_back(id);
    cr_assert_eq(found_count, 0, "it still may run");
    rig_pass(&rig, 20);
    look_back(id);
    cr_assert_eq(found_count, 1);
    cr_assert_eq(found.end, TASK_END_EXPIRED);
    cr_assert_eq(rig.seen_count, 0);
}

Test(broker_end, a_result_is_kept_if_the_queue_says_so)
{
    struct queue queue = some_queue();
    struct task_id id = create(rig_time(&rig), 0);

    rig_pass(&rig, 20);
    rig_end(&rig, 0, OUTCOME_DONE);
    rig_pass(&rig, 20);
    look_back(id);
    cr_assert_eq(found_count, 0, "nothing was said");
    queue.result_memory_ms = 1000;
    set_queue(&queue);
    id = create(rig_time(&rig), 0);
    rig_pass(&rig, 20);
    rig.running[1]->response = slice_of("forty-two");
    rig_end(&rig, 1, OUTCOME_DONE);
    rig_pass(&rig, 20);
    look_back(id);
    cr_assert_eq(found_count, 1);
    cr_assert_eq(found.end, TASK_END_DONE);
    cr_assert_eq(found.response.len, 9);
    rig_pass(&rig, 1100);
    look_back(id);
    cr_assert_eq(found_count, 0, "and not for longer");
}

Test(broker_end, a_paused_queue_starts_nothing_until_its_pause_is_over)
{
    struct queue queue = some_queue();

    queue.is_paused = true;
    queue.paused_until_ms = rig_time(&rig) + 300;
    set_queue(&queue);
    (void)create(rig_time(&rig), 0);
    rig_pass(&rig, 299);
    cr_assert_eq(rig.seen_count, 0);
    rig_pass(&rig, 20);
    cr_assert_eq(rig.seen_count, 1);
    cr_assert_geq(rig.seen_at[0], queue.paused_until_ms);
}

Test(broker_end, the_broker_wakes_by_itself_when_a_pause_is_over)
{
    struct queue queue = some_queue();
    boot_us end = rig.now.boot + 300 * US_PER_MS;

    queue.is_paused = true;
    queue.paused_until_ms = rig_time(&rig) + 300;
    set_queue(&queue);
    (void)create(rig_time(&rig), 0);
    rig_pass(&rig, 50);
    cr_assert_leq(broker_next_wake(rig.broker, &rig.now), end);
}

Test(broker_end, a_queue_that_is_deleted_is_not_found_and_starts_nothing)
{
    (void)create(rig_time(&rig) + 50, 0);
    broker_on_queues(rig.broker, &rig.now, NULL, 0, 2);
    cr_assert_null(broker_queue_find(rig.broker, 1));
    rig_pass(&rig, 100);
    cr_assert_eq(rig.seen_count, 0);
}

Test(broker_end, a_draining_queue_takes_no_task_and_runs_those_that_it_has)
{
    struct queue queue = some_queue();
    struct call call = rig_create(&rig, SLOT, rig_time(&rig));

    (void)create(rig_time(&rig) + 50, 0);
    queue.is_draining = true;
    set_queue(&queue);
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, ERR_CONFLICT);
    cr_assert(!call.created);
    rig_pass(&rig, 100);
    cr_assert_eq(rig.seen_count, 1);
}

Test(broker_end, a_pause_without_end_ends_when_the_queue_is_resumed)
{
    struct queue queue = some_queue();

    queue.is_paused = true;
    set_queue(&queue);
    (void)create(rig_time(&rig), 0);
    rig_pass(&rig, 2000);
    cr_assert_eq(rig.seen_count, 0);
    queue.is_paused = false;
    set_queue(&queue);
    rig_pass(&rig, 20);
    cr_assert_eq(rig.seen_count, 1);
}

/* A task that has become a dead letter. */
static struct task_id kill_one(void)
{
    struct task_id id = create(rig_time(&rig), 0);
    size_t index;

    rig_pass(&rig, 20);
    index = rig.seen_count - 1;
    rig.running[index]->error_text = slice_of("no");
    rig_end(&rig, index, OUTCOME_DEAD);
    rig_pass(&rig, 20);
    look_back(id);
    cr_assert_eq(found_count, 1);
    cr_assert_eq(found.end, TASK_END_DEAD);
    return id;
}

static struct call redrive_of(struct task_id id)
{
    struct call call = rig_by_id(&rig, CALL_REDRIVE, id);

    call.task.attempt = 1;
    call.task.payload = slice_of("payload");
    call.task.payload_len = 7;
    call.is_delay = true;
    return call;
}

Test(broker_end, a_redriven_task_runs_under_its_next_attempt)
{
    struct task_id id = kill_one();
    struct call call = redrive_of(id);

    rig_ask(&rig, &call);
    cr_assert_eq(call.result, 0);
    cr_assert_geq(call.found_due_ms, rig_time(&rig));
    rig_pass(&rig, 20);
    cr_assert_eq(rig.seen_count, 2);
    cr_assert_eq(rig.seen[1].id.seq, id.seq);
    cr_assert_eq(rig.seen[1].attempt, 2);
    look_back(id);
    cr_assert_eq(found_count, 0, "it is no dead letter any more");
    call = redrive_of(id);
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, ERR_NOT_FOUND);
}

/* Its failures are forgotten, and its row says no more than that an attempt was claimed. */
Test(broker_end, a_cancel_of_a_redriven_task_does_not_deny_what_has_run)
{
    struct task_id id = kill_one();
    struct call call = redrive_of(id);
    struct call cancel;

    call.delay_ms = 1000;
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, 0);
    cancel = rig_by_id(&rig, CALL_CANCEL, id);
    rig_ask(&rig, &cancel);
    cr_assert_eq(cancel.cancel, CANCEL_STOPPED);
    cr_assert_eq(cancel.attempt, 1);
}

Test(broker_end, a_redrive_whose_reply_is_lost_is_looked_for)
{
    struct task_id id = kill_one();
    struct call call = redrive_of(id);
    size_t before = rig.answered;

    call.delay_ms = 3600000;
    broker_call(rig.broker, &rig.now, &call);
    broker_tick(rig.broker, &rig.now);
    store_mem_give_up(rig.mem, rig_write(&rig));
    rig_pass(&rig, 50);
    cr_assert_eq(rig.answered, before + 1);
    cr_assert(call.result == 0 || call.result == ERR_UNAVAILABLE);
    look_back(id);
    cr_assert_eq(found_count, call.result == 0 ? 0 : 1, "the answer is the truth");
}

/* That it died is committed, and the reply lost: the broker holds its attempt, and reads the row
 * for it. Meanwhile the letter is redriven. The attempt must not keep the only place of its queue.
 */
Test(broker_end, an_attempt_whose_letter_is_redriven_while_its_row_is_read_is_over)
{
    struct queue queue = some_queue();
    struct task_id id;
    struct call call;

    queue.concurrency_max = 1;
    set_queue(&queue);
    id = create(rig_time(&rig), 0);
    rig_pass(&rig, 20);
    rig_end(&rig, 0, OUTCOME_DEAD);
    broker_tick(rig.broker, &rig.now);
    while (store_mem_dead_count(rig.mem) == 0) {
        (void)store_mem_step(rig.mem, rig_write(&rig));
    }
    store_mem_give_up(rig.mem, rig_write(&rig));
    while (rig.rows_read == NULL) {
        rig_turn(&rig);
    }
    rig.held = rig.rows_read;
    rig_pass(&rig, 150); // The writer takes a breath after a failure.
    call = redrive_of(id);
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, 0);
    rig.held = NULL;
    rig_pass(&rig, 20);
    cr_assert_eq(rig.seen_count, 2, "there is room for it");
    rig_end(&rig, 1, OUTCOME_DONE);
    rig_pass(&rig, 20);
    cr_assert_eq(stats().in_flight, 0);
    cr_assert_eq(rig_entries(&rig), 0);
}

Test(broker_end, a_letter_that_two_redrive_runs_all_the_same)
{
    struct task_id id = kill_one();
    size_t before = rig.seen_count;
    struct call calls[3];

    calls[0] = redrive_of(id);
    calls[1] = redrive_of(id);
    calls[2] = rig_by_id(&rig, CALL_PURGE, id);
    for (size_t i = 0; i < 3; i++) {
        broker_call(rig.broker, &rig.now, &calls[i]);
        broker_tick(rig.broker, &rig.now); // The first is being written, the others wait.
    }
    rig_pass(&rig, 20);
    cr_assert_eq(calls[0].result, 0);
    cr_assert_eq(calls[1].result, ERR_NOT_FOUND);
    cr_assert_eq(calls[2].result, ERR_NOT_FOUND);
    cr_assert_eq(rig.seen_count, before + 1, "it is not forgotten");
    rig_end(&rig, before, OUTCOME_DONE);
    rig_pass(&rig, 20);
    cr_assert_eq(rig_entries(&rig), 0);
}

Test(broker_end, a_purged_letter_is_gone)
{
    struct task_id id = kill_one();
    struct call call = rig_by_id(&rig, CALL_PURGE, id);

    rig_ask(&rig, &call);
    cr_assert_eq(call.result, 0);
    look_back(id);
    cr_assert_eq(found_count, 0);
    cr_assert_eq(stats().purged, 1);
    call = rig_by_id(&rig, CALL_PURGE, id);
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, ERR_NOT_FOUND);
}

static enum task_wait_reason why(struct task_id id, wall_ms due_ms, struct task_wait *wait)
{
    struct task row = {.id = id, .queue = 1, .due_ms = due_ms};

    broker_explain(rig.broker, shard_of_slot(id.slot, SHARDS), &row, wait);
    return wait->reason;
}

Test(broker_end, an_explanation_follows_the_task)
{
    struct queue queue = some_queue();
    wall_ms due_ms = rig_time(&rig) + 100;
    struct task_id id = create(due_ms, 0);
    struct task_id far = create(rig_time(&rig) + 3600000, 0);
    struct task_wait wait;

    cr_assert_eq(why(far, rig_time(&rig) + 3600000, &wait), TASK_WAIT_DUE);
    cr_assert_eq(wait.until_ms, rig_time(&rig) + 3600000);
    cr_assert_eq(why(id, due_ms, &wait), TASK_WAIT_DUE);
    queue.is_paused = true;
    set_queue(&queue);
    rig_pass(&rig, 120);
    cr_assert_eq(why(id, due_ms, &wait), TASK_WAIT_PAUSED);
    cr_assert_eq(wait.until_ms, WALL_NEVER);
    queue.is_paused = false;
    set_queue(&queue);
    rig_pass(&rig, 20);
    cr_assert_eq(why(id, due_ms, &wait), TASK_WAIT_ATTEMPT);
    cr_assert_eq(wait.until_ms, rig.seen[0].deadline_ms);
    rig_end(&rig, 0, OUTCOME_UNKNOWN);
    rig_turn(&rig);
    cr_assert_eq(why(id, due_ms, &wait), TASK_WAIT_OUTCOME);
}

Test(broker_end, an_explanation_says_that_the_queue_is_full)
{
    struct queue queue = some_queue();
    struct task_id second;
    struct task_wait wait;

    queue.concurrency_max = 1;
    set_queue(&queue);
    (void)create(rig_time(&rig), 0);
    second = create(rig_time(&rig), 0);
    rig_pass(&rig, 20);
    cr_assert_eq(why(second, rig_time(&rig) - 20, &wait), TASK_WAIT_CONCURRENCY);
    cr_assert(wait.running == 1 && wait.limit == 1);
}

/* The only queue is one with this number; it takes one task, which is done. */
static void serve_one(uint32_t number)
{
    struct queue queue = some_queue();
    struct call call = rig_create(&rig, SLOT, rig_time(&rig));
    size_t before = rig.seen_count;

    queue.id = number;
    set_queue(&queue);
    call.task.queue = number;
    rig_ask(&rig, &call);
    cr_assert_eq(call.result, 0);
    rig_pass(&rig, 5);
    cr_assert_eq(rig.seen_count, before + 1, "queue %u is served", number);
    cr_assert_eq(rig.seen[before].queue, number);
    rig_end(&rig, before, OUTCOME_DONE);
    rig_pass(&rig, 5);
}

Test(broker_end, queues_that_come_and_go_for_ever_are_served, .timeout = 60)
{
    struct queue queue = some_queue();
    wall_ms due_ms = rig_time(&rig) + 300000;
    struct task_id kept = create(due_ms, 0);
    struct task_wait wait;

    for (uint32_t number = 2; number < QUEUE_COUNT_MAX + 300; number++) {
        queue.id = number;
        set_queue(&queue);
        if (number % 64 == 0) {
            serve_one(number);
        }
    }
    serve_one(QUEUE_COUNT_MAX + 300);
    cr_assert_eq(why(kept, rig_time(&rig) - 1, &wait), TASK_WAIT_QUEUE_UNKNOWN);
    queue = some_queue();
    set_queue(&queue); // Its number has come back, and its task was kept.
    rig_set_time(&rig, due_ms);
    rig_pass(&rig, 5);
    cr_assert_eq(rig.seen[rig.seen_count - 1].queue, 1);
}

Test(broker_end, a_full_list_of_queues_may_change)
{
    static struct queue queues[QUEUE_COUNT_MAX];

    for (uint32_t i = 0; i < QUEUE_COUNT_MAX; i++) {
        queues[i] = some_queue();
        queues[i].id = i + 2;
    }
    broker_on_queues(rig.broker, &rig.now, queues, QUEUE_COUNT_MAX, 2);
    for (uint32_t i = 0; i < QUEUE_COUNT_MAX; i++) {
        queues[i].id += 7;
    }
    broker_on_queues(rig.broker, &rig.now, queues, QUEUE_COUNT_MAX, 3);
    for (uint32_t i = 0; i < QUEUE_COUNT_MAX; i++) {
        cr_assert_not_null(broker_queue_find(rig.broker, queues[i].id));
    }
    cr_assert_null(broker_queue_find(rig.broker, 8));
}
