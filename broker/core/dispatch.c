/* SPDX-License-Identifier: Apache-2.0
 *
 * From due times to attempts.
 */
#include "broker/core/dispatch.h"

#include "broker/core/claim.h"
#include "broker/core/entry.h"
#include "broker/core/line.h"
#include "broker/core/order.h"
#include "broker/core/shard.h"
#include "broker/core/sleep.h"
#include "broker/core/task_life.h"
#include "broker/core/visit.h"
#include "broker/core/window.h"
#include "broker/core/writer.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

/* Timers handled per wheel and turn: a few milliseconds of work. */
#define WHEEL_BUDGET 4096U

/* Tasks that leave lines in one turn, whether they are claimed or have to wait for their order key.
 */
#define SERVE_BUDGET 4096U

/* Upper bounds of the lateness buckets in microseconds. */
static const int64_t LATENESS_BOUNDS[LATENESS_BUCKET_COUNT] = {
    250,   500,    1000,   2000,    3000,    5000,     10000,    20000,
    50000, 100000, 250000, 1000000, 5000000, 15000000, 60000000, INT64_MAX};

int64_t broker_lateness_bound_us(uint32_t bucket)
{
    REQUIRE(bucket < LATENESS_BUCKET_COUNT);
    return LATENESS_BOUNDS[bucket];
}

static void count_start(struct broker *broker, const struct attempt *attempt)
{
    int64_t late_us = time_sub(broker->now.database[attempt->database].lower_us,
                               time_mul(attempt->due_ms, US_PER_MS));
    uint32_t bucket = 0;

    while (late_us > LATENESS_BOUNDS[bucket]) {
        bucket++;
    }
    broker->stats.lateness[bucket]++;
    broker->stats.lateness_sum_us += (uint64_t)time_max(late_us, 0);
    broker->stats.starts++;
}

/* Offer an attempt to the outbound. After a refusal the queue's others need not ask for a while. */
static bool offer(struct broker *broker, const struct entry *entry)
{
    struct outbound *outbound = broker->env.outbound;
    struct queue_state *queue = entry_queue(broker, entry);

    if (broker->now.boot < queue->full_until) {
        return false;
    }
    if (outbound->start(outbound, &entry->body.flight->attempt) == 0) {
        return true;
    }
    queue->full_until = broker->now.boot + NO_ROOM_MS * US_PER_MS;
    return false;
}

/* Hand a claimed task out, unless it is too late for that by its own claim, or another one of its
 * order key has come that is due before it. Without room at the
 * target it stays claimed, and is given back only when start_by has passed. */
static void start(struct shard *shard, struct entry *entry)
{
    struct broker *broker = shard->broker;
    struct flight *flight = entry->body.flight;

    REQUIRE(lower_ms(broker, shard->database) >= entry->due_ms);
    if (upper_ms(broker, shard->database) > flight->attempt.start_by_ms ||
        order_is_overtaken(shard, entry)) {
        claim_withdraw(shard, entry);
        return;
    }
    if (!offer(broker, entry)) {
        entry_wake_at(shard, entry, lower_ms(broker, shard->database) + NO_ROOM_MS);
        return;
    }
    entry_move(entry, ENTRY_RUNNING);
    flight->is_started = true;
    tell(broker, "start", shard, entry->seq, flight->attempt.attempt, flight->attempt.start_by_ms);
    count_start(broker, &flight->attempt);
}

/* A line begins: outcomes that wait may be what it waits for. */
static void hurry_outcomes(struct broker *broker)
{
    for (uint32_t i = 0; i < broker->options.database_count; i++) {
        writer_hurry_all(&broker->databases[i].writer);
    }
}

/* The time to claim has come. */
static void ripen(struct shard *shard, struct entry *entry)
{
    struct broker *broker = shard->broker;
    struct queue_state *queue = entry_queue(broker, entry);

    if (shard->state == SHARD_DRAINING) {
        entry_free(shard, entry); // The next owner's.
        return;
    }
    if (queue->line_len == 0) {
        enum claim_try try = claim_ask(shard, entry);

        if (try == CLAIM_SENT) {
            return;
        }
        if (try == CLAIM_NO_ROOM) {
            hurry_outcomes(broker);
        }
    }
    if (queue->line_len >= line_max(broker) && window_park(shard, entry)) {
        return;
    }
    entry_move(entry, ENTRY_READY);
    list_init(&entry->ready);
    if ((entry->flags & ENTRY_FETCHED) == 0) {
        line_add(broker, entry);
    }
}

/* Its time has come. Without memory to wake it, its row is read again when there is some. */
static void wake(struct shard *shard, struct entry *asleep)
{
    struct entry *entry = sleep_end(shard, asleep);

    if (entry != NULL) {
        ripen(shard, entry);
        return;
    }
    window_rewind(shard, entry_queue(shard->broker, asleep)->queue.id, entry_due_ms(asleep),
                  asleep->seq);
    entry_free(shard, asleep);
}

static void handle_timer(struct broker *broker, struct entry *entry)
{
    struct shard *shard = &broker->shards[entry->shard];

    switch ((enum entry_state)entry->state) {
    case ENTRY_WAITING:
        ripen(shard, entry);
        break;
    case ENTRY_ASLEEP:
        wake(shard, entry);
        break;
    case ENTRY_CLAIMED:
        start(shard, entry);
        break;
    case ENTRY_HELD:
        // A queue that is not known yet cannot say what an unknown outcome means to it; and while
        // the clock is held it is ahead of the one that another owner has claimed by.
        if ((entry->flags & ENTRY_TOUCHED) != 0 || !entry_queue(broker, entry)->is_known ||
            proven_ms(broker, shard->database) < entry->node.due_ms) {
            entry_wake_at(shard, entry, lower_ms(broker, shard->database) + WITHDRAWN_MS);
        } else {
            broker->stats.unknown++;
            entry_queue(broker, entry)->counts.unknown++;
            claim_settle(shard, entry);
        }
        break;
    case ENTRY_INSERTING:
    case ENTRY_READY:
    case ENTRY_CLAIMING:
    case ENTRY_RUNNING:
    case ENTRY_SETTLING:
    case ENTRY_CHANGING:
    case ENTRY_DELETING:
    case ENTRY_VISITING:
        UNREACHABLE(); // Not in the wheel.
    }
}

static void turn_wheel(struct broker *broker, struct wheel *wheel, wall_ms now_ms)
{
    struct wheel_node *node;

    (void)wheel_advance(wheel, now_ms, WHEEL_BUDGET);
    for (uint32_t i = 0; i < WHEEL_BUDGET && (node = wheel_take(wheel)) != NULL; i++) {
        handle_timer(broker, CONTAINER_OF(node, struct entry, node));
    }
}

/* What is due starts before anything else is claimed. */
static void turn_wheels(struct broker *broker, uint32_t index)
{
    struct database *database = &broker->databases[index];
    wall_ms now_ms = lower_ms(broker, index);

    if (broker->now.database[index].lower_us == INT64_MIN) {
        return;
    }
    if (!database->is_wheel_set) {
        wheel_init(&database->wheel, now_ms);
        wheel_init(&database->waiting, now_ms);
        database->is_wheel_set = true;
    }
    turn_wheel(broker, &database->wheel, now_ms);
    turn_wheel(broker, &database->waiting, time_add(now_ms, database->lead_ms));
}

/* Claim from the front of a line while there is room. False: there is none left. *budget: of all
 * lines. */
static bool serve_line(struct broker *broker, struct queue_state *queue, struct list *line,
                       uint32_t *budget)
{
    struct entry *entry;

    while (*budget > 0 && (entry = line_take(broker, queue, line)) != NULL) {
        switch (claim_ask(&broker->shards[entry->shard], entry)) {
        case CLAIM_SENT:
            --*budget;
            break;
        case CLAIM_FETCHING:
            list_init(&entry->ready);
            break;
        case CLAIM_NO_ROOM:
            line_put_back(broker, entry, line);
            return false;
        }
    }
    broker->is_behind = broker->is_behind || *budget == 0;
    return true;
}

void dispatch_look_at_pauses(struct broker *broker)
{
    uint32_t slowest = 0;
    wall_ms now_ms;

    broker->held_until = BOOT_NEVER;
    for (uint32_t i = 1; i < broker->options.database_count; i++) {
        slowest = lower_ms(broker, i) < lower_ms(broker, slowest) ? i : slowest;
    }
    now_ms = lower_ms(broker, slowest);
    for (uint32_t i = 0; i < broker->queue_count; i++) {
        struct queue_state *queue = broker->queues[i];
        wall_ms until_ms = queue->queue.paused_until_ms;

        queue->is_held = queue->queue.is_paused && (until_ms == 0 || now_ms < until_ms);
        if (queue->is_held && until_ms != 0) {
            broker->held_until = time_min(broker->held_until, boot_when(broker, slowest, until_ms));
        }
    }
}

static void serve(struct broker *broker, struct queue_state *queue, uint32_t *budget)
{
    if (queue->is_known && serve_line(broker, queue, &queue->fetched, budget)) {
        (void)serve_line(broker, queue, &queue->ready, budget);
    }
}

void dispatch_step(struct broker *broker)
{
    uint32_t first = broker->first_queue;
    uint32_t budget = SERVE_BUDGET;

    dispatch_look_at_pauses(broker);
    for (uint32_t i = 0; i < broker->options.database_count; i++) {
        turn_wheels(broker, i);
    }
    if (broker->queue_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < broker->queue_count; i++) {
        serve(broker, broker->queues[(first + i) % broker->queue_count], &budget);
    }
    broker->first_queue = (first + 1) % broker->queue_count; // Everybody is first in turn.
}

boot_us dispatch_next_wake(const struct broker *broker)
{
    boot_us wake = time_min(broker->held_until, broker->orders_wake);

    for (uint32_t i = 0; i < broker->options.database_count; i++) {
        const struct database *database = &broker->databases[i];

        if (database->is_wheel_set) {
            wall_ms next_ms =
                time_min(wheel_next_wake(&database->wheel),
                         time_sub(wheel_next_wake(&database->waiting), database->lead_ms));

            wake = time_min(wake, boot_when(broker, i, next_ms));
        }
    }
    return wake;
}

/* Keep the target's words: they are borrowed only until the outcome has been taken. */
static void keep_text(struct broker *broker, struct flight *flight)
{
    struct attempt *attempt = &flight->attempt;

    flight_keep_text(broker, flight,
                     attempt->outcome == OUTCOME_DONE ? attempt->response : attempt->error_text);
    attempt->error_text = (struct slice){NULL, 0};
    attempt->response = (struct slice){NULL, 0};
}

/* Nobody knows how it ended: the claim stays live until its deadline. */
static void hold(struct shard *shard, struct entry *entry)
{
    struct flight *flight = entry->body.flight;
    wall_ms deadline_ms = time_max(flight->attempt.deadline_ms, flight->until_ms);

    claim_land(shard->broker, entry, false);
    entry_move(entry, ENTRY_HELD);
    entry_wake_at(shard, entry, deadline_ms);
}

void dispatch_ended(struct shard *shard, struct entry *entry)
{
    struct flight *flight = entry->body.flight;

    REQUIRE(flight->is_ended && entry->state == ENTRY_RUNNING);
    // At most once as well: a dead letter can be redriven, and the attempt may still be running.
    if (flight->attempt.outcome == OUTCOME_UNKNOWN) {
        hold(shard, entry);
    } else {
        claim_settle(shard, entry);
    }
}

void broker_on_outcome(struct broker *broker, const struct now *now, struct attempt *attempt)
{
    struct flight *flight = CONTAINER_OF(attempt, struct flight, attempt);
    struct shard *shard = &broker->shards[attempt->shard];
    struct entry *entry = flight->entry;

    broker_set_now(broker, now);
    REQUIRE(flight->is_started && !flight->is_ended);
    flight->is_ended = true;
    keep_text(broker, flight);
    tell(broker, "outcome", shard, attempt->id.seq, attempt->attempt, attempt->outcome);
    if (entry == NULL) {
        flight_check(broker, flight);
    } else if (entry->state == ENTRY_RUNNING && (entry->flags & ENTRY_TOUCHED) == 0) {
        dispatch_ended(shard, entry);
    }
    // Else a call's write is in flight; when it is known, it looks at the outcome.
}

int broker_on_report(struct broker *broker, const struct now *now, const struct report *report)
{
    struct shard *shard = &broker->shards[report->shard];
    struct entry *entry;

    broker_set_now(broker, now);
    if (shard->state == SHARD_ACQUIRING || shard->state == SHARD_BUMPING ||
        shard->state == SHARD_LOADING || (shard->state == SHARD_ACTIVE && !shard->is_loaded)) {
        return ERR_UNAVAILABLE;
    }
    if (shard->state != SHARD_ACTIVE) {
        return ERR_FENCED;
    }
    entry = entry_find(shard, report->id.seq);
    if (entry == NULL) {
        return visit_for_report(shard, report);
    }
    if (entry->flying && entry->slot == report->id.slot && entry->attempt + 1 == report->attempt) {
        return ERR_UNAVAILABLE; // It is live: its owner hears by itself how it ends.
    }
    if (entry->state != ENTRY_HELD || entry->slot != report->id.slot ||
        entry->attempt + 1 != report->attempt) {
        return visit_refuse(shard, report);
    }
    if ((entry->flags & ENTRY_TOUCHED) != 0 || !entry_queue(broker, entry)->is_known ||
        claim_adopt(shard, entry, report) == NULL) {
        return ERR_UNAVAILABLE;
    }
    tell(broker, "report", shard, report->id.seq, report->attempt, report->outcome);
    dispatch_ended(shard, entry);
    return 0;
}
