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

/* Weight of a faster commit in the slowest of late: a slow one is remembered for some hundreds. */
#define SLOW_SMOOTHING 256

/* A claim that just missed a batch waits for that commit and then for its own. */
#define LEAD_COMMITS 2

/* Operations that one piece of work adds at most: displace, insert, claim. */
#define OPS_PER_WORK 3U

int writer_init(struct writer *writer, struct broker *broker, uint32_t database)
{
    writer->broker = broker;
    writer->database = database;
    writer->sweep_at = SWEEP_US;
    writer->ops = mem_new(OPS_WAITING_MAX, sizeof(*writer->ops));
    writer->notes = mem_new(OPS_WAITING_MAX, sizeof(*writer->notes));
    map_init(&writer->keys, BATCH_OP_COUNT_MAX);
    return writer->ops == NULL || writer->notes == NULL ? ERR_NO_MEMORY : 0;
}

void writer_fini(struct writer *writer)
{
    mem_free(writer->ops);
    mem_free(writer->notes);
    map_fini(&writer->keys);
}

bool writer_has_room(const struct writer *writer, enum writer_class class)
{
    uint32_t limit = OPS_WAITING_MAX;

    switch (class) {
    case WRITER_CALL:
        limit = OPS_WAITING_MAX / 2;
        break;
    case WRITER_CLAIM:
        limit = OPS_WAITING_MAX / 4 * 3;
        break;
    case WRITER_SETTLE:
        break;
    }
    return writer->tail + OPS_PER_WORK <= limit;
}

uint32_t writer_count(const struct writer *writer)
{
    return writer->tail - writer->head;
}

struct store_op *writer_add(struct writer *writer, struct shard *shard, const struct note *note)
{
    struct store_op *op;

    REQUIRE(writer->tail < OPS_WAITING_MAX && shard->epoch > 0);
    op = &writer->ops[writer->tail];
    memset(op, 0, sizeof(*op));
    op->shard = shard->id;
    op->epoch = shard->epoch;
    writer->notes[writer->tail] = *note;
    writer->notes[writer->tail].serial = shard->serial;
    writer->tail++;
    shard->ops++;
    return op;
}

void writer_drop_row(struct writer *writer, struct claim_row row)
{
    if (writer->drop_count < DROPS_MAX) {
        writer->drops[writer->drop_count++] = row;
    }
    // Else the sweep finds it.
}

/* Move what waits to the front of the arrays; nothing is in flight. */
static void close_up(struct writer *writer)
{
    uint32_t count = writer->tail - writer->head;

    if (writer->head > 0 && count > 0) {
        memmove(writer->ops, writer->ops + writer->head, count * sizeof(*writer->ops));
        memmove(writer->notes, writer->notes + writer->head, count * sizeof(*writer->notes));
    }
    writer->head = 0;
    writer->tail = count;
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
    case NOTE_INSERT:
    case NOTE_CANCEL:
    case NOTE_UPDATE:
    case NOTE_DISPLACE:
        call_op_done(shard, op, note, result, is_fresh);
        break;
    }
}

/* After all results: what they say about the shards themselves. */
static void judge_shards(struct broker *broker, const struct writer *writer, int result)
{
    for (uint32_t i = 0; i < writer->flying; i++) {
        const struct store_op *op = &writer->ops[writer->head + i];
        struct shard *shard = &broker->shards[op->shard];

        shard_touch(shard); // Its waiting calls, or its release, may go on.
        if (writer->notes[writer->head + i].serial != shard->serial) {
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

static void count_batch(struct writer *writer, int result)
{
    struct broker *broker = writer->broker;
    int64_t took_us = broker->now.boot - writer->sent_at;
    struct database *database = &broker->databases[writer->database];

    if (result == ERR_OUTCOME_UNKNOWN) {
        broker->stats.batch_unknown++;
    }
    if (result != 0) {
        writer->retry_at = broker->now.boot + RETRY_US;
        if (writer->failing_since == 0) {
            writer->failing_since = broker->now.boot;
        }
        return;
    }
    writer->failing_since = 0;
    broker->stats.batches++;
    broker->stats.batch_ops += writer->flying;
    writer->commit_us += (took_us - writer->commit_us) / COMMIT_SMOOTHING;
    writer->slow_us = time_max(took_us, writer->slow_us - writer->slow_us / SLOW_SMOOTHING);
    database->lead_ms =
        time_clamp(ms_ceil(writer->slow_us * LEAD_COMMITS), CLAIM_LEAD_MS_MIN, CLAIM_LEAD_MS_MAX);
}

/* The claim row is in the database with those members whose claim went through. */
static void count_group(struct writer *writer, int result)
{
    struct group *group = writer->group;

    writer->group = NULL;
    if (group == NULL) {
        return;
    }
    for (uint32_t i = 0; i < writer->flying; i++) {
        const struct note *note = &writer->notes[writer->head + i];
        const struct store_op *op = &writer->ops[writer->head + i];

        if (note->kind == NOTE_CLAIM && (result != 0 || op->result == 0)) {
            note->flight->group = group;
            group->live++;
        }
    }
    group->is_tainted = result != 0;
    if (group->live == 0) {
        pool_give(&writer->broker->groups, group);
    }
}

static void batch_done(struct store_batch *batch)
{
    struct writer *writer = batch->owner;
    struct broker *broker = writer->broker;
    int result = batch->result;

    writer->is_flying = false;
    count_batch(writer, result);
    count_group(writer, result);
    if (result == 0) {
        memmove(writer->drops, writer->drops + writer->drops_flying,
                (writer->drop_count - writer->drops_flying) * sizeof(writer->drops[0]));
        writer->drop_count -= writer->drops_flying;
    }
    for (uint32_t i = 0; i < writer->flying; i++) {
        const struct store_op *op = &writer->ops[writer->head + i];

        deliver(broker, op, &writer->notes[writer->head + i], result == 0 ? op->result : result);
    }
    judge_shards(broker, writer, result);
    writer->head += writer->flying;
    writer->flying = 0;
    close_up(writer);
}

void writer_cut(struct writer *writer, struct shard *shard, bool keep)
{
    uint32_t kept = writer->head + writer->flying;

    for (uint32_t i = kept; i < writer->tail; i++) {
        const struct note *note = &writer->notes[i];

        if (writer->ops[i].shard != shard->id) {
            writer->ops[kept] = writer->ops[i];
            writer->notes[kept] = writer->notes[i];
            kept++;
            continue;
        }
        shard->ops--;
        if (note->flight != NULL) {
            note->flight->is_sent = false;
        }
        if (note->call != NULL) {
            call_cut(shard, note->call, keep);
        }
    }
    writer->tail = kept;
}

/* Whether an operation may join the batch that is being cut: one per key. */
static bool joins(struct writer *writer, const struct store_op *op)
{
    uint64_t hash = op->task.queue;

    if (op->kind != STORE_INSERT || op->task.key.len == 0) {
        return true;
    }
    for (size_t i = 0; i < op->task.key.len; i++) {
        hash = (hash ^ op->task.key.data[i]) * UINT64_C(0x100000001b3);
    }
    // Two keys with one hash only cost the second a commit.
    return map_put(&writer->keys, hash, writer) == 0;
}

/* How many of the waiting operations go into the next batch. */
static uint32_t cut_batch(struct writer *writer)
{
    uint32_t limit = writer->tail - writer->head;
    uint32_t count = 0;

    if (limit > BATCH_OP_COUNT_MAX) {
        limit = BATCH_OP_COUNT_MAX;
    }
    while (count < limit && joins(writer, &writer->ops[writer->head + count])) {
        count++;
    }
    map_fini(&writer->keys);
    while (count > 0 && writer->notes[writer->head + count - 1].is_paired) {
        count--; // What belongs together stays together, in the next one.
    }
    return count;
}

/* A group for the batch's claims. False if there is none to be had. */
static bool prepare_group(struct writer *writer, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (writer->ops[writer->head + i].kind == STORE_CLAIM) {
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
    uint32_t count;

    if (writer->is_flying || broker->now.boot < writer->retry_at) {
        return;
    }
    count = cut_batch(writer);
    writer->is_sweep_due = broker->now.boot >= writer->sweep_at && broker->is_session;
    if ((count == 0 && writer->drop_count < DROPS_MAX / 2 && !writer->is_sweep_due) ||
        !prepare_group(writer, count)) {
        return;
    }
    if (writer->is_sweep_due) {
        writer->sweep_at = broker->now.boot + SWEEP_US;
    }
    writer->drops_flying = writer->drop_count;
    *batch = (struct store_batch){.database = writer->database,
                                  .ops = writer->ops + writer->head,
                                  .op_count = count,
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
        writer->retry_at = broker->now.boot + RETRY_US;
        return;
    }
    writer->flying = count;
    writer->is_flying = true;
    writer->sent_at = broker->now.boot;
}

boot_us writer_next_wake(const struct writer *writer)
{
    if (writer->is_flying) {
        return BOOT_NEVER; // The reply wakes us.
    }
    if (writer->tail > writer->head) {
        return time_max(writer->retry_at, writer->broker->now.boot);
    }
    return time_max(writer->sweep_at, writer->retry_at);
}
