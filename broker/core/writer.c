/* SPDX-License-Identifier: Apache-2.0
 *
 * Group commit.
 */
#include "broker/core/writer.h"

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

/* What each class may fill of a batch, whatever the others ask for: one part of so many. */
#define BATCH_SHARES 4

#define SETTLE_ALL_PARTS ((1U << SETTLE_PARTS) - 1)

/* So few leave together. */
#define SETTLE_FEW 32U

/* Operations that one piece of work adds at most: displace, insert, claim. */
#define OPS_PER_WORK 3U

_Static_assert(BROKER_BATCH_OP_MIN / BATCH_SHARES >= OPS_PER_WORK &&
                   BROKER_BATCH_OP_MIN / BATCH_SHARES >= SETTLE_PARTS,
               "each class, and each part of the outcomes, gets some work into each batch");
_Static_assert(CLAIM_OPS_MAX <= CALL_OPS_MAX && SETTLE_OPS_MAX / SETTLE_PARTS <= CALL_OPS_MAX,
               "writer.taken has a bit for each operation of any lane");

static bool is_settle_lane(size_t lane)
{
    return lane >= WRITER_SETTLE && lane < WRITER_CALL;
}

/* Operations that may wait in a lane. */
static uint32_t capacity_of(const struct writer *writer, size_t lane)
{
    uint32_t max = writer->broker->options.waiting_op_max;

    if (is_settle_lane(lane)) {
        return (uint32_t)time_min(SETTLE_OPS_MAX, max) / SETTLE_PARTS;
    }
    return (uint32_t)time_min(lane == WRITER_CLAIM ? CLAIM_OPS_MAX : CALL_OPS_MAX, max);
}

int writer_init(struct writer *writer, struct broker *broker, uint32_t database)
{
    writer->broker = broker;
    writer->database = database;
    writer->sweep_at = SWEEP_US;
    writer->ops = mem_new(BATCH_OP_COUNT_MAX, sizeof(*writer->ops));
    writer->notes = mem_new(BATCH_OP_COUNT_MAX, sizeof(*writer->notes));
    map_init(&writer->keys, BATCH_OP_COUNT_MAX);
    map_init(&writer->letters, BATCH_OP_COUNT_MAX);
    for (size_t i = 0; i < WRITER_LANE_COUNT; i++) {
        if (lane_init(&writer->lanes[i], capacity_of(writer, i)) != 0) {
            return ERR_NO_MEMORY;
        }
    }
    return writer->ops == NULL || writer->notes == NULL ? ERR_NO_MEMORY : 0;
}

void writer_fini(struct writer *writer)
{
    for (size_t i = 0; i < WRITER_LANE_COUNT; i++) {
        lane_fini(&writer->lanes[i]);
    }
    mem_free(writer->ops);
    mem_free(writer->notes);
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
    return &writer_of(shard)->lanes[class == WRITER_SETTLE ? class + shard->part : class];
}

bool writer_has_room(const struct shard *shard, enum writer_class class)
{
    const struct lane *lane = lane_of(shard, class);

    return lane->count + OPS_PER_WORK <= lane->capacity;
}

/* Operations in the lanes. */
static uint32_t waiting(const struct writer *writer)
{
    uint32_t count = 0;

    for (size_t i = 0; i < WRITER_LANE_COUNT; i++) {
        count += writer->lanes[i].count;
    }
    return count;
}

uint32_t writer_count(const struct writer *writer)
{
    return writer->count + waiting(writer);
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

/* Outcomes in their lanes. */
static uint32_t outcomes(const struct writer *writer)
{
    uint32_t count = 0;

    for (size_t i = WRITER_SETTLE; i < WRITER_CALL; i++) {
        count += writer->lanes[i].count;
    }
    return count;
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
    if (class == WRITER_SETTLE && lane->count == 0 && outcomes(writer) == 0) {
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

    if (writer->lanes[WRITER_CLAIM].count == 1 || leave_at < writer->claim_at) {
        writer->claim_at = leave_at;
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

void writer_hurry_awaited(struct shard *shard, const struct entry *entry, const struct store_op *op)
{
    struct broker *broker = shard->broker;
    const struct queue_state *queue = entry_queue(broker, entry);
    struct writer *writer = writer_of(shard);

    if (is_nearly_full((size_t)queue->flights + queue->fetching, queue->queue.concurrency_max) ||
        is_nearly_full(pool_used(&broker->flights), FLIGHTS_MAX)) {
        writer_hurry_all(writer);
    } else if (op->kind != STORE_DELETE || shard->state != SHARD_ACTIVE ||
               entry_block(entry)->order_len > 0 || queue->queue.at_most_once) {
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
    writer->drop_count = writer->is_flying ? writer->drops_flying : 0;
    writer->is_doubtful = writer->is_flying;
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
static void judge_shards(struct broker *broker, const struct writer *writer, int result)
{
    for (uint32_t i = 0; i < writer->count; i++) {
        const struct store_op *op = &writer->ops[i];
        struct shard *shard = &broker->shards[op->shard];

        shard_touch(shard); // Its waiting calls, or its release, may go on.
        if (writer->notes[i].serial != shard->serial) {
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

static void count_batch(struct writer *writer, int result)
{
    struct broker *broker = writer->broker;
    int64_t took_us = broker->now.boot - writer->sent_at;
    struct database *database = &broker->databases[writer->database];

    if (result == ERR_OUTCOME_UNKNOWN) {
        broker->stats.batch_unknown++;
    }
    if (result != 0) {
        writer->retry_at = broker->now.boot + broker->options.retry_us;
        if (writer->failing_since == 0) {
            writer->failing_since = broker->now.boot;
        }
        return;
    }
    writer->failing_since = 0;
    broker->stats.batches++;
    broker->stats.batch_ops += writer->count;
    writer->commit_us += (took_us - writer->commit_us) / COMMIT_SMOOTHING;
    writer->slow_us -= slow_forgotten(writer);
    writer->slow_us = time_max(took_us, writer->slow_us);
    database->lead_ms = time_clamp(ms_ceil(commits_us(writer) + broker->options.claim_wait_us),
                                   CLAIM_LEAD_MS_MIN, CLAIM_LEAD_MS_MAX);
}

/* The claim row is in the database with those members whose claim went through. */
static void count_group(struct writer *writer, int result)
{
    struct group *group = writer->group;

    writer->group = NULL;
    if (group == NULL) {
        return;
    }
    for (uint32_t i = 0; i < writer->count; i++) {
        const struct note *note = &writer->notes[i];
        const struct store_op *op = &writer->ops[i];

        if (note->kind == NOTE_CLAIM && (result != 0 || op->result == 0)) {
            note->flight->group = group;
            group->live++;
        }
    }
    group->is_tainted = result != 0 || writer->is_doubtful;
    if (group->live == 0) {
        pool_give(&writer->broker->groups, group);
    }
}

static void batch_done(struct store_batch *batch)
{
    struct writer *writer = batch->owner;
    struct broker *broker = writer->broker;
    int result = batch->result;

    count_batch(writer, result);
    count_group(writer, result);
    if (result == 0 || writer->is_doubtful) {
        memmove(writer->drops, writer->drops + writer->drops_flying,
                (writer->drop_count - writer->drops_flying) * sizeof(writer->drops[0]));
        writer->drop_count -= writer->drops_flying;
    }
    writer->is_doubtful = false;
    for (uint32_t i = 0; i < writer->count; i++) {
        const struct store_op *op = &writer->ops[i];

        deliver(broker, op, &writer->notes[i], result == 0 ? op->result : result);
    }
    judge_shards(broker, writer, result);
    writer->count = 0;
    writer->is_flying = false; // Not before: a shard that is dropped meanwhile leaves it alone.
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
static void cut_refused(struct writer *writer, struct shard *shard, bool keep)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < writer->count; i++) {
        if (writer->ops[i].shard == shard->id) {
            leave(shard, &writer->notes[i], keep);
            continue;
        }
        writer->ops[kept] = writer->ops[i];
        writer->notes[kept] = writer->notes[i];
        kept++;
    }
    writer->count = kept;
}

void writer_cut(struct shard *shard, bool keep)
{
    struct writer *writer = writer_of(shard);

    if (!writer->is_flying) {
        cut_refused(writer, shard, keep);
    }
    for (size_t i = 0; i < WRITER_LANE_COUNT; i++) {
        cut_lane(&writer->lanes[i], shard, keep);
    }
}

/* Whether a batch may hold an operation beside those that it has: what is done to a dead letter is
 * alone with its task there. Calls about one letter know nothing of each other, nor of what has
 * been begun with the task since it came back; everything else is one at a time by the entry's
 * state. */
static bool is_alone(struct writer *writer, const struct store_op *op)
{
    bool is_letter = op->kind == STORE_REDRIVE || op->kind == STORE_PURGE;
    uint64_t key = (uint64_t)op->task.id.seq * SHARD_COUNT_MAX + op->shard;

    if (!is_letter) {
        return map_find(&writer->letters, key) == NULL;
    }
    for (uint32_t i = 0; i < writer->count; i++) {
        if (writer->ops[i].shard == op->shard && writer->ops[i].task.id.seq == op->task.id.seq) {
            return false;
        }
    }
    return map_put(&writer->letters, key, writer) == 0;
}

/* Whether an operation may join the batch that is being filled: one per key, and one per letter. */
static bool joins(struct writer *writer, const struct store_op *op)
{
    uint64_t hash = op->task.queue;

    if (!is_alone(writer, op)) {
        return false;
    }
    if ((op->kind != STORE_INSERT && op->kind != STORE_REDRIVE) || op->task.key.len == 0) {
        return true;
    }
    for (size_t i = 0; i < op->task.key.len; i++) {
        hash = (hash ^ op->task.key.data[i]) * UINT64_C(0x100000001b3);
    }
    // Two keys with one hash only cost the second a commit.
    return map_put(&writer->keys, hash, writer) == 0;
}

/* The operation at a place of a lane and those that must be in its batch; bytes of all. */
static uint32_t chain(const struct lane *lane, uint32_t at, size_t *bytes)
{
    uint32_t length = 0;

    *bytes = 0;
    do {
        *bytes += store_op_bytes(lane_op(lane, at + length));
        length++;
    } while (lane_note(lane, at + length - 1)->is_paired);
    return length;
}

/* Whether all of a chain may join. It has one insert at most. */
static bool chain_joins(struct writer *writer, const struct lane *lane, uint32_t at,
                        uint32_t length)
{
    for (uint32_t i = 0; i < length; i++) {
        if (!joins(writer, lane_op(lane, at + i))) {
            return false;
        }
    }
    return true;
}

/* Copy a chain into the batch. */
static void take_chain(struct writer *writer, const struct lane *lane, uint32_t at, uint32_t length)
{
    for (uint32_t i = at; i < at + length; i++) {
        writer->ops[writer->count] = *lane_op(lane, i);
        writer->notes[writer->count] = *lane_note(lane, i);
        writer->count++;
        writer->taken[i / 64] |= UINT64_C(1) << (i % 64);
    }
}

/* What was taken of the first `end` of a lane leaves it; the others close up, in their order. */
static void drop_taken(struct writer *writer, struct lane *lane, uint32_t end)
{
    uint32_t place = end;

    for (uint32_t i = end; i-- > 0;) {
        if ((writer->taken[i / 64] >> (i % 64) & 1) == 0 && --place != i) {
            *lane_op(lane, place) = *lane_op(lane, i);
            *lane_note(lane, place) = *lane_note(lane, i);
        }
    }
    lane_drop(lane, place);
}

/* Move what fits from a lane into the batch. Who may not join it, as the second of a key, holds up
 * nobody behind. */
static void move_some(struct writer *writer, struct lane *lane, uint32_t limit)
{
    uint32_t at = 0;

    if (lane->count == 0) {
        return;
    }
    memset(writer->taken, 0, sizeof(writer->taken));
    while (at < lane->count) {
        size_t bytes;
        uint32_t length = chain(lane, at, &bytes);

        if (writer->count + length > limit || writer->bytes + bytes > BATCH_BYTES_MAX) {
            break;
        }
        if (chain_joins(writer, lane, at, length)) {
            take_chain(writer, lane, at, length);
            writer->bytes += bytes;
        }
        at += length;
    }
    drop_taken(writer, lane, at);
}

static bool is_half_full(const struct lane *lane)
{
    return lane->count >= lane->capacity / 2;
}

/* Whether a batch is to leave: with a call, or with claims or outcomes whose time it is. */
static bool has_leaving(const struct writer *writer)
{
    boot_us now = writer->broker->now.boot;

    for (size_t i = 0; i < WRITER_LANE_COUNT; i++) {
        if (is_half_full(&writer->lanes[i])) {
            return true;
        }
    }
    return writer->lanes[WRITER_CALL].count > 0 ||
           (writer->lanes[WRITER_CLAIM].count > 0 && now >= writer->claim_at) ||
           (outcomes(writer) > 0 && (writer->hurried != 0 || now >= writer->settle_at));
}

/* The parts of the outcomes that leave, as bits: those that are hurried, that fill half of their
 * lane, or whose turn has come; of turns more than one after a slow commit. Few leave together. */
static uint32_t choose_parts(struct writer *writer)
{
    boot_us now = writer->broker->now.boot;
    int64_t step_us = writer->broker->options.settle_wait_us / 2 / SETTLE_PARTS;
    bool is_time = now >= writer->settle_at;
    uint32_t parts = writer->hurried;

    for (uint32_t i = 0; i < SETTLE_PARTS; i++) {
        parts |= (is_half_full(&writer->lanes[WRITER_SETTLE + i]) ? 1U : 0U) << i;
    }
    for (uint32_t i = 0; i < SETTLE_PARTS && now >= writer->settle_at; i++) {
        parts |= 1U << writer->settle_turn;
        writer->settle_turn = (writer->settle_turn + 1) % SETTLE_PARTS;
        writer->settle_at += step_us;
    }
    if (writer->settle_at < now) {
        writer->settle_at = now + step_us; // A slow commit: all had their turn.
    }
    return is_time && outcomes(writer) <= SETTLE_FEW ? SETTLE_ALL_PARTS : parts;
}

/* What a lane may fill of a batch, whatever the others ask for. */
static uint32_t share_of(const struct writer *writer, size_t lane)
{
    uint32_t share = writer->broker->options.batch_op_max / BATCH_SHARES;

    return is_settle_lane(lane) ? share / SETTLE_PARTS : share;
}

/* Each lane gets its share first, so that no class of work starves; then the order of classes. */
static void fill_batch(struct writer *writer)
{
    uint32_t parts = choose_parts(writer);
    bool leaves[WRITER_LANE_COUNT];

    writer->bytes = 0;
    writer->hurried = 0;
    for (size_t i = 0; i < WRITER_LANE_COUNT; i++) {
        leaves[i] = !is_settle_lane(i) || (parts >> (i - WRITER_SETTLE) & 1) != 0;
        if (leaves[i]) {
            move_some(writer, &writer->lanes[i], writer->count + share_of(writer, i));
        }
    }
    for (size_t i = 0; i < WRITER_LANE_COUNT; i++) {
        if (leaves[i]) {
            move_some(writer, &writer->lanes[i], writer->broker->options.batch_op_max);
        }
        if (leaves[i] && is_settle_lane(i) && writer->lanes[i].count > 0) {
            writer->hurried |= 1U << (i - WRITER_SETTLE); // It found no room.
        }
    }
    map_fini(&writer->keys);
    map_fini(&writer->letters);
}

/* A group for the batch's claims. False if there is none to be had. */
static bool prepare_group(struct writer *writer)
{
    for (uint32_t i = 0; i < writer->count; i++) {
        if (writer->ops[i].kind == STORE_CLAIM) {
            writer->group = pool_take(&writer->broker->groups);
            if (writer->group == NULL) {
                return false;
            }
            writer->group->row =
                (struct claim_row){writer->broker->options.writer, ++writer->row_seq};
            return true;
        }
    }
    return true;
}

void writer_step(struct writer *writer)
{
    struct broker *broker = writer->broker;
    struct store_batch *batch = &writer->batch;
    bool leaves; /* whether or not an operation does */

    if (writer->is_flying || broker->now.boot < writer->retry_at) {
        return;
    }
    writer->is_sweep_due = broker->now.boot >= writer->sweep_at && broker->is_session;
    leaves = writer->drop_count >= DROPS_MAX / 2 || writer->is_sweep_due;
    if (writer->count == 0 && (leaves || has_leaving(writer))) {
        fill_batch(writer);
    }
    if (writer->count == 0 && !leaves) {
        return;
    }
    if (!prepare_group(writer)) {
        writer->retry_at = broker->now.boot + broker->options.retry_us; // Short of memory.
        return;
    }
    if (writer->is_sweep_due) {
        writer->sweep_at = broker->now.boot + SWEEP_US;
    }
    writer->drops_flying = writer->drop_count;
    *batch = (struct store_batch){.database = writer->database,
                                  .ops = writer->ops,
                                  .op_count = writer->count,
                                  .drop_rows = writer->drops,
                                  .drop_count = writer->drops_flying,
                                  .sweep = writer->is_sweep_due,
                                  .cb = batch_done,
                                  .owner = writer};
    if (writer->group != NULL) {
        batch->claim_row = writer->group->row;
    }
    if (broker->env.store->write(broker->env.store, batch) != 0) {
        if (writer->group != NULL) {
            pool_give(&broker->groups, writer->group);
            writer->group = NULL;
        }
        writer->retry_at = broker->now.boot + broker->options.retry_us;
        return;
    }
    writer->is_flying = true;
    writer->sent_at = broker->now.boot;
}

boot_us writer_next_wake(const struct writer *writer)
{
    const struct database *database = &writer->broker->databases[writer->database];
    boot_us wake;

    if (writer->is_flying) {
        return BOOT_NEVER; // The reply wakes us.
    }
    if (writer->count > 0 || has_leaving(writer) || !list_is_empty(&database->unsettled)) {
        return time_max(writer->retry_at, writer->broker->now.boot);
    }
    // The sweep waits for a session, and that is an event.
    wake = writer->broker->is_session ? writer->sweep_at : BOOT_NEVER;
    if (writer->lanes[WRITER_CLAIM].count > 0) {
        wake = time_min(wake, writer->claim_at);
    }
    if (outcomes(writer) > 0) {
        wake = time_min(wake, writer->settle_at);
    }
    return time_max(wake, writer->retry_at);
}
