/* SPDX-License-Identifier: Apache-2.0
 *
 * Group commit.
 */
#include "broker/core/writer.h"

#include "broker/core/batch.h"
#include "broker/core/call_life.h"
#include "broker/core/claim.h"
#include "broker/core/entry.h"
#include "broker/core/shard.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

/* Weight of the newest commit in the smoothed time: an eighth. */
#define COMMIT_SMOOTHING 8

/* In so long two thirds of a slow commit are forgotten, however many fast ones there are meanwhile:
 * those that only claim are fast, and a claim that has missed a slow one waits for it all the same.
 */
#define SLOW_MEMORY_US (4 * US_PER_S)

/* A claim that just missed a batch waits for that commit and then for its own. */
#define LEAD_COMMITS 2

/* After a failure of the second batch all leave with the first for so long. */
#define SPLIT_AGAIN_US (5 * US_PER_S)

/* Operations that may wait in a lane. */
static uint32_t capacity_of(const struct writer *writer, size_t lane)
{
    uint32_t max = writer->broker->options.waiting_op_max;

    if (lane >= WRITER_SETTLE && lane < WRITER_CALL) {
        return (uint32_t)time_min(SETTLE_OPS_MAX, max) / SETTLE_PARTS;
    }
    return (uint32_t)time_min(lane < WRITER_SETTLE ? CLAIM_OPS_MAX : CALL_OPS_MAX, max);
}

int writer_init(struct writer *writer, struct broker *broker, uint32_t database)
{
    writer->broker = broker;
    writer->database = database;
    writer->sweep_at = SWEEP_US;
    map_init(&writer->keys, BATCH_OP_COUNT_MAX);
    map_init(&writer->letters, BATCH_OP_COUNT_MAX);
    for (size_t i = 0; i < WRITER_LANE_COUNT; i++) {
        if (lane_init(&writer->lanes[i], capacity_of(writer, i)) != 0) {
            return ERR_NO_MEMORY;
        }
    }
    for (size_t i = 0; i < WRITER_HALVES; i++) {
        struct writer_batch *batch = &writer->batches[i];

        batch->writer = writer;
        batch->ops = mem_new(BATCH_OP_COUNT_MAX, sizeof(*batch->ops));
        batch->notes = mem_new(BATCH_OP_COUNT_MAX, sizeof(*batch->notes));
        if (batch->ops == NULL || batch->notes == NULL) {
            return ERR_NO_MEMORY;
        }
    }
    return 0;
}

void writer_fini(struct writer *writer)
{
    for (size_t i = 0; i < WRITER_LANE_COUNT; i++) {
        lane_fini(&writer->lanes[i]);
    }
    for (size_t i = 0; i < WRITER_HALVES; i++) {
        mem_free(writer->batches[i].ops);
        mem_free(writer->batches[i].notes);
    }
    map_fini(&writer->keys);
    map_fini(&writer->letters);
}

/* How long a claim may take that just misses a commit. */
static int64_t commits_us(const struct writer *writer)
{
    return time_max(time_mul(writer->slow_us, LEAD_COMMITS), CLAIM_LEAD_MS_MIN * US_PER_MS / 2);
}

static struct lane *lane_of(const struct shard *shard, enum writer_class class)
{
    uint32_t place = class == WRITER_SETTLE ? shard->part : shard->part % WRITER_HALVES;

    return &writer_of(shard)->lanes[class + place];
}

bool writer_has_room(const struct shard *shard, enum writer_class class)
{
    const struct lane *lane = lane_of(shard, class);

    return lane->count + OPS_PER_WORK <= lane->capacity;
}

uint32_t writer_count(const struct writer *writer)
{
    return writer->batches[0].count + writer->batches[1].count + batch_waiting(writer, BOTH_HALVES);
}

bool writer_is_awaited(const struct shard *shard, boot_us since)
{
    const struct writer *writer = writer_of(shard);

    for (size_t i = 0; i < WRITER_HALVES; i++) {
        const struct writer_batch *batch = &writer->batches[i];

        if (batch->is_flying && (batch->halves & batch_half(shard)) != 0 &&
            batch->sent_at <= since) {
            return true;
        }
    }
    return false;
}

static enum writer_class class_of(enum note_kind kind)
{
    switch (kind) {
    case NOTE_CLAIM:
        return WRITER_CLAIM;
    case NOTE_SETTLE:
    case NOTE_EXPIRE:
        return WRITER_SETTLE;
    case NOTE_INSERT:
    case NOTE_CANCEL:
    case NOTE_UPDATE:
    case NOTE_DISPLACE:
    case NOTE_REDRIVE:
    case NOTE_PURGE:
        break;
    }
    return WRITER_CALL;
}

struct store_op *writer_add(struct shard *shard, const struct note *note)
{
    struct writer *writer = writer_of(shard);
    enum writer_class class = class_of(note->kind);
    struct lane *lane = writer->is_chained ? writer->chained : lane_of(shard, class);
    struct note stamped = *note;
    struct store_op *op;

    REQUIRE(shard->epoch > 0);
    stamped.serial = shard->serial;
    if (class == WRITER_SETTLE && lane->count == 0 && batch_outcomes(writer, BOTH_HALVES) == 0) {
        writer->settle_at = writer->broker->now.boot + writer->broker->options.settle_wait_us / 2;
    }
    op = lane_add(lane, &stamped);
    op->shard = shard->id;
    op->epoch = shard->epoch;
    writer->chained = lane;
    writer->is_chained = note->is_paired;
    shard->ops++;
    return op;
}

void writer_hurry_claim(struct shard *shard, wall_ms due_ms)
{
    struct writer *writer = writer_of(shard);
    const struct broker *broker = shard->broker;
    int64_t left_us =
        time_sub(time_mul(due_ms, US_PER_MS), broker->now.database[shard->database].lower_us);
    int64_t wait_us =
        time_clamp(time_sub(left_us, commits_us(writer)), 0, broker->options.claim_wait_us);
    boot_us leave_at = broker->now.boot + wait_us;
    uint32_t half = shard->part % WRITER_HALVES;

    if (writer->lanes[WRITER_CLAIM + half].count == 1 || leave_at < writer->claim_at[half]) {
        writer->claim_at[half] = leave_at;
    }
}

void writer_hurry(struct shard *shard)
{
    writer_of(shard)->hurried |= 1U << shard->part;
}

void writer_hurry_all(struct writer *writer)
{
    writer->hurried = SETTLE_ALL_PARTS;
}

/* Three quarters of it. */
static bool is_nearly_full(size_t count, size_t max)
{
    return count >= max - max / 4;
}

/* A task that does not end with this: would it wait for its outcome if that waited? One that comes
 * again is claimed a lead before it is due; by then the longest wait and the commit in flight have
 * to be over. */
static bool goes_on_soon(const struct shard *shard, const struct store_op *op)
{
    const struct broker *broker = shard->broker;
    span_ms settled_ms = ms_ceil(broker->options.settle_wait_us + commits_us(writer_of(shard)));
    wall_ms claim_ms = time_sub(op->task.due_ms, broker->databases[shard->database].lead_ms);

    return !op->set_due || claim_ms < time_add(upper_ms(broker, shard->database), settled_ms);
}

void writer_hurry_awaited(struct shard *shard, const struct entry *entry, const struct store_op *op)
{
    struct broker *broker = shard->broker;
    const struct queue_state *queue = entry_queue(broker, entry);
    struct writer *writer = writer_of(shard);

    if (is_nearly_full((size_t)queue->flights + queue->fetching, queue->queue.concurrency_max) ||
        is_nearly_full(pool_used(&broker->flights), FLIGHTS_MAX)) {
        writer_hurry_all(writer);
    } else if ((op->kind == STORE_CHANGE && goes_on_soon(shard, op)) ||
               shard->state != SHARD_ACTIVE || entry_block(entry)->order_len > 0 ||
               queue->queue.at_most_once) {
        writer_hurry(shard);
    }
}

void writer_drop_row(struct writer *writer, struct claim_row row)
{
    if (writer->drop_count < DROPS_MAX) {
        writer->drops[writer->drop_count++] = row;
    }
    // Else the sweep finds it.
}

void writer_doubt_rows(struct writer *writer)
{
    list_foreach (link, &writer->broker->all_flights) {
        const struct flight *flight = CONTAINER_OF(link, struct flight, link);

        if (flight->attempt.database == writer->database && flight->group != NULL) {
            flight->group->is_tainted = true;
        }
    }
    // The store may still read those that are on their way.
    writer->drop_count = writer->batches[0].is_flying ? writer->drops_flying : 0;
    for (size_t i = 0; i < WRITER_HALVES; i++) {
        writer->batches[i].is_doubtful = writer->batches[i].is_flying;
    }
}

/* Tell who asked for an operation what came of it. */
static void deliver(struct broker *broker, const struct store_op *op, const struct note *note,
                    int result)
{
    struct shard *shard = &broker->shards[op->shard];
    bool is_fresh = note->serial == shard->serial;

    REQUIRE(shard->ops > 0);
    shard->ops--;
    switch (note->kind) {
    case NOTE_CLAIM:
        if (is_fresh && result != ERR_OUTCOME_UNKNOWN && result != ERR_FENCED) {
            claim_done(shard, note->flight, result);
        } else {
            note->flight->is_sent = false;
            flight_check(broker, note->flight);
        }
        break;
    case NOTE_SETTLE:
        claim_settled(
            shard,
            is_fresh && result != ERR_OUTCOME_UNKNOWN && result != ERR_FENCED ? note->entry : NULL,
            note->flight, op, result);
        break;
    case NOTE_EXPIRE:
        if (is_fresh && result != ERR_OUTCOME_UNKNOWN && result != ERR_FENCED) {
            claim_expired(shard, note->entry, result);
        }
        break;
    case NOTE_INSERT:
    case NOTE_CANCEL:
    case NOTE_UPDATE:
    case NOTE_DISPLACE:
    case NOTE_REDRIVE:
    case NOTE_PURGE:
        call_op_done(shard, op, note, result, is_fresh);
        break;
    }
}

/* After all results: what they say about the shards themselves. */
static void judge_shards(struct broker *broker, const struct writer_batch *batch, int result)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct store_op *op = &batch->ops[i];
        struct shard *shard = &broker->shards[op->shard];

        shard_touch(shard); // Its waiting calls, or its release, may go on.
        if (batch->notes[i].serial != shard->serial) {
            continue; // Dropped already, perhaps by an operation before this one.
        }
        if (result == ERR_OUTCOME_UNKNOWN) {
            shard_unknown(shard);
        } else if (result == 0 && op->result == ERR_FENCED) {
            broker->stats.fenced++;
            shard_fenced(shard);
        }
    }
}

/* What the slowest commit of late has become less since this was asked. */
static int64_t slow_forgotten(struct writer *writer)
{
    boot_us now = writer->broker->now.boot;
    int64_t since_us = time_min(now - writer->slow_at, SLOW_MEMORY_US / 2);
    int64_t less_us = time_mul(writer->slow_us, since_us) / SLOW_MEMORY_US;

    // Not yet a microsecond: more will have passed the next time.
    if (less_us > 0 || writer->slow_us == 0) {
        writer->slow_at = now;
    }
    return less_us;
}

static void count_failure(struct writer *writer, const struct writer_batch *batch, int result)
{
    struct broker *broker = writer->broker;

    broker->stats.batch_unknown += result == ERR_OUTCOME_UNKNOWN ? 1 : 0;
    writer->retry_at = broker->now.boot + broker->options.retry_us;
    if (batch != &writer->batches[0]) {
        writer->split_at = broker->now.boot + SPLIT_AGAIN_US; // The first will tell.
    } else if (writer->failing_since == 0) {
        writer->failing_since = broker->now.boot;
    }
}

static void count_batch(struct writer *writer, const struct writer_batch *batch)
{
    struct broker *broker = writer->broker;
    int64_t took_us = broker->now.boot - batch->sent_at;
    struct database *database = &broker->databases[writer->database];

    if (batch == &writer->batches[0]) {
        writer->failing_since = 0;
    }
    broker->stats.batches++;
    broker->stats.batch_ops += batch->count;
    writer->commit_us += (took_us - writer->commit_us) / COMMIT_SMOOTHING;
    writer->slow_us -= slow_forgotten(writer);
    writer->slow_us = time_max(took_us, writer->slow_us);
    database->lead_ms = time_clamp(ms_ceil(commits_us(writer) + broker->options.claim_wait_us),
                                   CLAIM_LEAD_MS_MIN, CLAIM_LEAD_MS_MAX);
    // A claim that is over before its commit starts nothing, and neither does the next one.
    database->start_ms =
        time_clamp(START_BY_MS / 2 + ms_ceil(commits_us(writer)), START_BY_MS, START_BY_MS_MAX);
}

/* The claim row is in the database with those members whose claim went through. */
static void count_group(struct writer_batch *batch, int result)
{
    struct group *group = batch->group;

    batch->group = NULL;
    if (group == NULL) {
        return;
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct note *note = &batch->notes[i];
        const struct store_op *op = &batch->ops[i];

        if (note->kind == NOTE_CLAIM && (result != 0 || op->result == 0)) {
            note->flight->group = group;
            group->live++;
        }
    }
    group->is_tainted = result != 0 || batch->is_doubtful;
    if (group->live == 0) {
        pool_give(&batch->writer->broker->groups, group);
    }
}

static void batch_done(struct store_batch *sent)
{
    struct writer_batch *batch = sent->owner;
    struct writer *writer = batch->writer;
    struct broker *broker = writer->broker;
    int result = sent->result;

    if (result == 0) {
        count_batch(writer, batch);
    } else {
        count_failure(writer, batch, result);
    }
    count_group(batch, result);
    if (sent->drop_count > 0 && (result == 0 || batch->is_doubtful)) {
        memmove(writer->drops, writer->drops + writer->drops_flying,
                (writer->drop_count - writer->drops_flying) * sizeof(writer->drops[0]));
        writer->drop_count -= writer->drops_flying;
    }
    batch->is_doubtful = false;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct store_op *op = &batch->ops[i];

        deliver(broker, op, &batch->notes[i], result == 0 ? op->result : result);
    }
    judge_shards(broker, batch, result);
    batch->count = 0;
    batch->is_flying = false; // Not before: a shard that is dropped meanwhile leaves it alone.
}

/* An operation of a dropped shard leaves before it was sent. */
static void leave(struct shard *shard, const struct note *note, bool keep)
{
    shard->ops--;
    if (note->flight != NULL) {
        note->flight->is_sent = false;
    }
    if (note->call != NULL) {
        call_cut(shard, note->call, keep);
    }
}

static void cut_lane(struct lane *lane, struct shard *shard, bool keep)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < lane->count; i++) {
        if (lane_op(lane, i)->shard == shard->id) {
            leave(shard, lane_note(lane, i), keep);
            continue;
        }
        *lane_op(lane, kept) = *lane_op(lane, i);
        *lane_note(lane, kept) = *lane_note(lane, i);
        kept++;
    }
    lane_cut(lane, kept);
}

/* A batch that the store has refused is not on its way yet. */
static void cut_refused(struct writer_batch *batch, struct shard *shard, bool keep)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->ops[i].shard == shard->id) {
            leave(shard, &batch->notes[i], keep);
            continue;
        }
        batch->ops[kept] = batch->ops[i];
        batch->notes[kept] = batch->notes[i];
        kept++;
    }
    batch->count = kept;
}

void writer_cut(struct shard *shard, bool keep)
{
    struct writer *writer = writer_of(shard);

    for (size_t i = 0; i < WRITER_HALVES; i++) {
        if (!writer->batches[i].is_flying) {
            cut_refused(&writer->batches[i], shard, keep);
        }
    }
    for (size_t i = 0; i < WRITER_LANE_COUNT; i++) {
        cut_lane(&writer->lanes[i], shard, keep);
    }
}

static uint32_t stream_of(const struct writer_batch *batch)
{
    return batch == &batch->writer->batches[0] ? 0 : 1;
}

/* A group for the batch's claims. False if there is none to be had. */
static bool prepare_group(struct writer_batch *batch)
{
    struct writer *writer = batch->writer;

    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->ops[i].kind == STORE_CLAIM) {
            batch->group = pool_take(&writer->broker->groups);
            if (batch->group == NULL) {
                return false;
            }
            // Each stream writes in a name of its own: in one name a row is seen by whoever sees a
            // later one. source: storage/schema/pg/0008_claim_floor.sql
            batch->group->row = (struct claim_row){
                writer->broker->options.writer + stream_of(batch), ++writer->row_seq};
            return true;
        }
    }
    return true;
}

/* What the store is to be given. */
static void prepare(struct writer_batch *batch, bool sweep)
{
    struct writer *writer = batch->writer;

    batch->store = (struct store_batch){.database = writer->database,
                                        .stream = stream_of(batch),
                                        .ops = batch->ops,
                                        .op_count = batch->count,
                                        .sweep = sweep,
                                        .cb = batch_done,
                                        .owner = batch};
    if (batch->group != NULL) {
        batch->store.claim_row = batch->group->row;
    }
    if (stream_of(batch) == 0) {
        writer->drops_flying = writer->drop_count;
        batch->store.drop_rows = writer->drops;
        batch->store.drop_count = writer->drops_flying;
    }
}

static void send(struct writer_batch *batch, bool sweep)
{
    struct writer *writer = batch->writer;
    struct broker *broker = writer->broker;

    if (!prepare_group(batch)) {
        writer->retry_at = broker->now.boot + broker->options.retry_us; // Short of memory.
        return;
    }
    if (sweep) {
        writer->sweep_at = broker->now.boot + SWEEP_US;
    }
    prepare(batch, sweep);
    if (broker->env.store->write(broker->env.store, &batch->store) != 0) {
        if (batch->group != NULL) {
            pool_give(&broker->groups, batch->group);
            batch->group = NULL;
        }
        writer->retry_at = broker->now.boot + broker->options.retry_us;
        return;
    }
    batch->is_flying = true;
    batch->sent_at = broker->now.boot;
}

/* Send a batch if it is at rest and something leaves with it. */
static void step(struct writer_batch *batch)
{
    struct writer *writer = batch->writer;
    uint32_t halves = batch_free_halves(batch);
    bool sweep = false;
    bool leaves = false; /* whether or not an operation does */

    if (batch->is_flying || (halves == 0 && batch->count == 0)) {
        return;
    }
    if (batch == &writer->batches[0]) {
        sweep = writer->broker->now.boot >= writer->sweep_at && writer->broker->is_session;
        leaves = sweep || writer->drop_count >= DROPS_MAX / 2;
    }
    if (batch->count == 0 && (leaves || batch_has_leaving(writer, halves))) {
        batch_fill(batch, halves);
    }
    if (batch->count > 0 || leaves) {
        send(batch, sweep);
    }
}

void writer_step(struct writer *writer)
{
    for (size_t i = 0; i < WRITER_HALVES && writer->broker->now.boot >= writer->retry_at; i++) {
        step(&writer->batches[i]);
    }
}

/* When operations of some halves leave with a batch that is at rest. */
static boot_us leaves_at(const struct writer *writer, uint32_t halves)
{
    boot_us at = BOOT_NEVER;

    if (batch_has_leaving(writer, halves)) {
        return writer->broker->now.boot;
    }
    for (size_t i = 0; i < WRITER_HALVES; i++) {
        if ((halves >> i & 1) != 0 && writer->lanes[WRITER_CLAIM + i].count > 0) {
            at = time_min(at, writer->claim_at[i]);
        }
    }
    return batch_outcomes(writer, halves) > 0 ? time_min(at, writer->settle_at) : at;
}

boot_us writer_next_wake(const struct writer *writer)
{
    const struct database *database = &writer->broker->databases[writer->database];
    boot_us now = writer->broker->now.boot;
    boot_us wake = BOOT_NEVER; // A reply wakes us.
    bool is_flying = writer->batches[0].is_flying || writer->batches[1].is_flying;

    if (!list_is_empty(&database->unsettled) && (!is_flying || now < writer->retry_at)) {
        wake = now;
    }
    for (size_t i = 0; i < WRITER_HALVES; i++) {
        const struct writer_batch *batch = &writer->batches[i];
        uint32_t halves = batch_free_halves(batch);

        if (!batch->is_flying && batch->count > 0) {
            wake = now;
        }
        if (halves != 0) {
            wake = time_min(wake, leaves_at(writer, halves));
        } else if (batch_waiting(writer, BOTH_HALVES) > 0) {
            wake = time_min(wake, batch_beside_at(batch));
        }
        // The sweep waits for a session, and that is an event.
        if (halves != 0 && i == 0 && writer->broker->is_session) {
            wake = time_min(wake, writer->sweep_at);
        }
    }
    return time_max(wake, writer->retry_at);
}
