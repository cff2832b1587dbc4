/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling batches.
 */
#include "broker/core/batch.h"

#include "lib/base/check.h"

#include <string.h>

/* What each class may fill of a batch, whatever the others ask for: one part of so many. */
#define BATCH_SHARES 4

/* What is little waits no longer for what the other half has in flight. */
#define BESIDE_US (20 * US_PER_MS)

/* So few outcomes leave together. */
#define SETTLE_FEW 32U

_Static_assert(BROKER_BATCH_OP_MIN / BATCH_SHARES / WRITER_HALVES >= OPS_PER_WORK &&
                   BROKER_BATCH_OP_MIN / BATCH_SHARES >= SETTLE_PARTS,
               "each lane gets some work into each batch");
_Static_assert(CLAIM_OPS_MAX <= CALL_OPS_MAX && SETTLE_OPS_MAX / SETTLE_PARTS <= CALL_OPS_MAX,
               "writer.taken has a bit for each operation of any lane");
_Static_assert(WRITER_HALVES == 2 && WRITER_HALVES <= STORE_STREAM_COUNT_MAX &&
                   SETTLE_PARTS % WRITER_HALVES == 0 && WRITER_SETTLE % WRITER_HALVES == 0,
               "lanes of the halves are pairs in every class");

static bool is_settle_lane(size_t lane)
{
    return lane >= WRITER_SETTLE && lane < WRITER_CALL;
}

/* The half of a lane or part, as a bit. */
static uint32_t half_of(size_t lane_or_part)
{
    return 1U << lane_or_part % WRITER_HALVES;
}

uint32_t batch_half(const struct shard *shard)
{
    return half_of(shard->part);
}

/* Operations in lanes from `first` on, below `end`, as far as they are of some halves. */
static uint32_t count_lanes(const struct writer *writer, size_t first, size_t end, uint32_t halves)
{
    uint32_t count = 0;

    for (size_t i = first; i < end; i++) {
        count += (half_of(i) & halves) != 0 ? writer->lanes[i].count : 0;
    }
    return count;
}

uint32_t batch_waiting(const struct writer *writer, uint32_t halves)
{
    return count_lanes(writer, 0, WRITER_LANE_COUNT, halves);
}

uint32_t batch_outcomes(const struct writer *writer, uint32_t halves)
{
    return count_lanes(writer, WRITER_SETTLE, WRITER_CALL, halves);
}

/* --- what leaves ------------------------------------------------------------------------------ */

static bool is_half_full(const struct lane *lane)
{
    return lane->count >= lane->capacity / 2;
}

/* Parts that leave whatever the time is, as bits: those that are hurried or fill half of their
 * lane. */
static uint32_t pressed_parts(const struct writer *writer)
{
    uint32_t parts = writer->hurried;

    for (uint32_t i = 0; i < SETTLE_PARTS; i++) {
        parts |= (is_half_full(&writer->lanes[WRITER_SETTLE + i]) ? 1U : 0U) << i;
    }
    return parts;
}

/* Bits of the parts that are of some halves. */
static uint32_t parts_of(uint32_t halves)
{
    uint32_t parts = 0;

    for (uint32_t i = 0; i < SETTLE_PARTS; i++) {
        parts |= (half_of(i) & halves) != 0 ? 1U << i : 0;
    }
    return parts;
}

/* About how many operations of some halves leave with their next batch. */
static uint32_t leaving(const struct writer *writer, uint32_t halves)
{
    uint32_t parts = pressed_parts(writer) & parts_of(halves);
    uint32_t count = count_lanes(writer, 0, WRITER_SETTLE, halves) +
                     count_lanes(writer, WRITER_CALL, WRITER_LANE_COUNT, halves);

    for (uint32_t i = 0; i < SETTLE_PARTS; i++) {
        count += (parts >> i & 1) != 0 ? writer->lanes[WRITER_SETTLE + i].count : 0;
    }
    return count;
}

bool batch_has_leaving(const struct writer *writer, uint32_t halves)
{
    boot_us now = writer->broker->now.boot;

    for (size_t i = 0; i < WRITER_HALVES; i++) {
        const struct lane *claims = &writer->lanes[WRITER_CLAIM + i];

        if ((half_of(i) & halves) != 0 &&
            (writer->lanes[WRITER_CALL + i].count > 0 ||
             (claims->count > 0 && (now >= writer->claim_at[i] || is_half_full(claims))))) {
            return true;
        }
    }
    return batch_outcomes(writer, halves) > 0 &&
           (now >= writer->settle_at || (pressed_parts(writer) & parts_of(halves)) != 0);
}

static bool is_in_use(const struct writer_batch *batch)
{
    return batch->is_flying || batch->count > 0;
}

static const struct writer_batch *other_of(const struct writer_batch *batch)
{
    const struct writer *writer = batch->writer;

    return &writer->batches[batch == &writer->batches[0] ? 1 : 0];
}

/* The half of a batch that has no more than one. */
static uint32_t own_half(const struct writer_batch *batch)
{
    return half_of(batch == &batch->writer->batches[0] ? 0 : 1);
}

/* Whether there is enough for two batches: with what has left by the other one at this moment. */
static bool is_much(const struct writer_batch *batch)
{
    const struct writer *writer = batch->writer;
    const struct writer_batch *other = other_of(batch);
    bool is_fresh = other->is_flying && other->sent_at == writer->broker->now.boot;
    uint32_t gone = is_fresh ? other->count : 0;
    uint32_t split_op_min = writer->broker->options.split_op_min;

    // Asked at each turn: most have too little to wonder how much of it leaves.
    return batch_waiting(writer, BOTH_HALVES) + gone >= split_op_min &&
           leaving(writer, BOTH_HALVES) + gone >= split_op_min;
}

boot_us batch_beside_at(const struct writer_batch *batch)
{
    const struct writer *writer = batch->writer;
    const struct writer_batch *other = other_of(batch);
    boot_us at = time_add(other->sent_at, BESIDE_US);

    if (is_in_use(batch) || !other->is_flying || (other->halves & own_half(batch)) != 0) {
        return BOOT_NEVER;
    }
    return batch == &writer->batches[0] ? at : time_max(at, writer->split_at);
}

uint32_t batch_free_halves(const struct writer_batch *batch)
{
    const struct writer *writer = batch->writer;
    const struct writer_batch *other = other_of(batch);
    bool is_first = batch == &writer->batches[0];
    bool may_split = writer->broker->env.store->stream_count >= WRITER_HALVES &&
                     writer->broker->now.boot >= writer->split_at;
    uint32_t half = own_half(batch);

    if (is_in_use(batch) || (!is_first && !may_split)) {
        return 0;
    }
    if (!is_in_use(other)) {
        return may_split && is_much(batch) ? half : is_first ? BOTH_HALVES : 0;
    }
    if ((other->halves & half) != 0) {
        return 0;
    }
    // What is little had better go with the other half again, unless that takes long.
    return other->is_much || writer->broker->now.boot >= batch_beside_at(batch) ||
                   leaving(writer, half) >= writer->broker->options.split_op_min / WRITER_HALVES
               ? half
               : 0;
}

/* --- which operations may be together --------------------------------------------------------- */

/* Whether a batch may hold an operation beside those that it has: what is done to a dead letter is
 * alone with its task there. Calls about one letter know nothing of each other, nor of what has
 * been begun with the task since it came back; everything else is one at a time by the entry's
 * state. */
static bool is_alone(struct writer_batch *batch, const struct store_op *op)
{
    struct writer *writer = batch->writer;
    bool is_letter = op->kind == STORE_REDRIVE || op->kind == STORE_PURGE;
    uint64_t key = (uint64_t)op->task.id.seq * SHARD_COUNT_MAX + op->shard;

    if (!is_letter) {
        return map_find(&writer->letters, key) == NULL;
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->ops[i].shard == op->shard && batch->ops[i].task.id.seq == op->task.id.seq) {
            return false;
        }
    }
    return map_put(&writer->letters, key, writer) == 0;
}

/* Whether an operation may join the batch that is being filled: one per key, and one per letter. */
static bool joins(struct writer_batch *batch, const struct store_op *op)
{
    uint64_t hash = op->task.queue;

    if (!is_alone(batch, op)) {
        return false;
    }
    if ((op->kind != STORE_INSERT && op->kind != STORE_REDRIVE) || op->task.key.len == 0) {
        return true;
    }
    for (size_t i = 0; i < op->task.key.len; i++) {
        hash = (hash ^ op->task.key.data[i]) * UINT64_C(0x100000001b3);
    }
    // Two keys with one hash only cost the second a commit.
    return map_put(&batch->writer->keys, hash, batch) == 0;
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
static bool chain_joins(struct writer_batch *batch, const struct lane *lane, uint32_t at,
                        uint32_t length)
{
    for (uint32_t i = 0; i < length; i++) {
        if (!joins(batch, lane_op(lane, at + i))) {
            return false;
        }
    }
    return true;
}

/* Copy a chain into the batch. */
static void take_chain(struct writer_batch *batch, const struct lane *lane, uint32_t at,
                       uint32_t length)
{
    for (uint32_t i = at; i < at + length; i++) {
        batch->ops[batch->count] = *lane_op(lane, i);
        batch->notes[batch->count] = *lane_note(lane, i);
        batch->count++;
        batch->writer->taken[i / 64] |= UINT64_C(1) << (i % 64);
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
static void move_some(struct writer_batch *batch, struct lane *lane, uint32_t limit)
{
    struct writer *writer = batch->writer;
    uint32_t at = 0;

    if (lane->count == 0) {
        return;
    }
    memset(writer->taken, 0, sizeof(writer->taken));
    while (at < lane->count) {
        size_t bytes;
        uint32_t length = chain(lane, at, &bytes);

        if (batch->count + length > limit || batch->bytes + bytes > BATCH_BYTES_MAX) {
            break;
        }
        if (chain_joins(batch, lane, at, length)) {
            take_chain(batch, lane, at, length);
            batch->bytes += bytes;
        }
        at += length;
    }
    drop_taken(writer, lane, at);
}

/* --- filling ---------------------------------------------------------------------------------- */

/* The parts of the outcomes that leave with a batch of some halves, as bits: those that are
 * hurried, that fill half of their lane, or whose turn has come; of turns more than one after a
 * slow commit. Few leave together. Those of the other half are hurried now. */
static uint32_t choose_parts(struct writer *writer, uint32_t halves)
{
    boot_us now = writer->broker->now.boot;
    int64_t step_us = writer->broker->options.settle_wait_us / 2 / SETTLE_PARTS;
    bool is_few = now >= writer->settle_at && batch_outcomes(writer, BOTH_HALVES) <= SETTLE_FEW;
    uint32_t parts = pressed_parts(writer);

    for (uint32_t i = 0; i < SETTLE_PARTS && now >= writer->settle_at; i++) {
        parts |= 1U << writer->settle_turn;
        writer->settle_turn = (writer->settle_turn + 1) % SETTLE_PARTS;
        writer->settle_at += step_us;
    }
    if (writer->settle_at < now) {
        writer->settle_at = now + step_us; // A slow commit: all had their turn.
    }
    parts = is_few ? SETTLE_ALL_PARTS : parts;
    writer->hurried = parts & ~parts_of(halves);
    return parts & parts_of(halves);
}

/* What a lane may fill of a batch, whatever the others ask for. */
static uint32_t share_of(const struct writer *writer, size_t lane)
{
    return writer->broker->options.batch_op_max / BATCH_SHARES /
           (is_settle_lane(lane) ? SETTLE_PARTS : WRITER_HALVES);
}

/* Each lane gets its share first, so that no class of work starves; then the order of classes. In a
 * class the halves' lanes, which are pairs, take turns to be first. */
void batch_fill(struct writer_batch *batch, uint32_t halves)
{
    struct writer *writer = batch->writer;
    bool was_much = is_much(batch);
    uint32_t parts = choose_parts(writer, halves);
    bool leaves[WRITER_LANE_COUNT];

    REQUIRE(batch->count == 0);
    batch->halves = halves;
    batch->bytes = 0;
    batch->is_much = was_much;
    writer->first_half ^= halves == BOTH_HALVES ? 1 : 0;
    for (size_t i = 0; i < WRITER_LANE_COUNT; i++) {
        size_t lane = i ^ writer->first_half;

        leaves[lane] = (half_of(lane) & halves) != 0 &&
                       (!is_settle_lane(lane) || (parts >> (lane - WRITER_SETTLE) & 1) != 0);
        if (leaves[lane]) {
            move_some(batch, &writer->lanes[lane], batch->count + share_of(writer, lane));
        }
    }
    for (size_t i = 0; i < WRITER_LANE_COUNT; i++) {
        size_t lane = i ^ writer->first_half;

        if (leaves[lane]) {
            move_some(batch, &writer->lanes[lane], writer->broker->options.batch_op_max);
        }
        if (leaves[lane] && is_settle_lane(lane) && writer->lanes[lane].count > 0) {
            writer->hurried |= 1U << (lane - WRITER_SETTLE); // It found no room.
        }
    }
    map_fini(&writer->keys);
    map_fini(&writer->letters);
}
