/* SPDX-License-Identifier: Apache-2.0
 *
 * Letting go of tasks, bit by bit: cursors are set back first, so that it is right in between.
 */
#include "broker/core/shed.h"

#include "broker/core/entry.h"
#include "broker/core/line.h"
#include "broker/core/park.h"
#include "broker/core/window.h"

/* Least window when memory is short: one bucket of due times and what is left of this one. */
#define WINDOW_MS_MIN (INT64_C(1) << DUE_BUCKET_SHIFT)

/* Entries and chains that one turn looks at for what is let go of, and what it takes from lines
 * that are too long: a millisecond or two. */
#define SHED_LOOKS 4096U
#define TRIM_MAX   4096U

/* Most queues that can crowd memory at a time. */
#define CROWDS_MAX 32U

/* What is due so soon is not let go of: it would have to be read again at once. */
#define SOON_MS (10 * MS_PER_S)

static size_t reserve(const struct broker *broker)
{
    return broker->options.entry_count_max / SHED_RESERVE_SHARE;
}

/* Whether a queue has so many tasks in memory that it is one of those that fill it. */
static bool is_large(const struct broker *broker, const struct queue_state *queue)
{
    return queue->entries > broker->crowd_len;
}

size_t shed_room(const struct broker *broker, const struct queue_state *queue, bool is_ahead)
{
    size_t room = entry_room(broker);
    size_t kept = !is_large(broker, queue)                 ? 0
                  : is_ahead || broker->is_present_crowded ? reserve(broker)
                                                           : reserve(broker) / 2;

    return room > kept ? room - kept : 0;
}

/* Whether a part of what is kept for others is taken, too: less than rows of the present bucket may
 * take of it, so that room is made for them. */
static bool is_very_short(const struct broker *broker)
{
    return entry_room(broker) < reserve(broker) / 4 * 3;
}

/* Only such entries are let go of: a claim is never forgotten. */
static bool is_quiet(const struct entry *entry)
{
    return entry->state == ENTRY_WAITING || entry->state == ENTRY_ASLEEP;
}

/* No cursor is past the target, nor will be when a page in flight has come. */
static bool is_beyond(const struct shard *shard, const struct entry *entry)
{
    return is_quiet(entry) && due_bucket(entry_due_ms(entry)) > shard->target;
}

/* One that may wait in the database for a while, so that others have its room. It has to be
 * remembered where it is. */
static bool is_crowd(const struct shard *shard, const struct entry *entry)
{
    struct broker *broker = shard->broker;
    wall_ms now_ms = lower_ms(broker, shard->database);
    wall_ms due_ms = entry_due_ms(entry);
    const struct queue_state *queue = entry_queue(broker, entry);

    return is_quiet(entry) && shard->state == SHARD_ACTIVE && broker->window_ms <= WINDOW_MS_MIN &&
           due_ms > time_add(now_ms, SOON_MS) &&
           (broker->is_present_crowded || due_bucket(due_ms) > due_bucket(now_ms)) &&
           shed_is_short(broker) && is_large(broker, queue) &&
           (park_find(shard, queue->queue.id) != NULL || pool_used(&broker->parks) < PARKS_MAX);
}

/* Whether there is still something to be let go of. */
static bool is_shedding(const struct broker *broker)
{
    return broker->shed_shard < broker->options.cluster.shard_count;
}

static void begin(struct broker *broker)
{
    broker->shed_shard = 0;
    broker->shed_chain = UINT32_MAX;
}

/* Free what was collected. False: it cannot be remembered where it is to be read again. */
static bool let_go(struct shard *shard, size_t count)
{
    struct broker *broker = shard->broker;

    for (size_t i = 0; i < count; i++) {
        if (is_beyond(shard, broker->collected[i])) {
            entry_free(shard, broker->collected[i]);
        } else if (!window_park(shard, broker->collected[i])) {
            return false;
        }
    }
    return true;
}

static bool is_too_much(const struct shard *shard, const struct entry *entry)
{
    return is_beyond(shard, entry) || is_crowd(shard, entry);
}

/* Let go of it: as much as is done in one turn. */
static void shed(struct broker *broker)
{
    struct entry_walk walk = {broker->shed_chain, SHED_LOOKS};

    while (is_shedding(broker) && walk.looks > 0) {
        struct shard *shard = &broker->shards[broker->shed_shard];
        size_t count = entry_collect(shard, &walk, is_too_much);

        if (!let_go(shard, count)) {
            broker->shed_shard = UINT32_MAX; // The next scan begins anew.
        } else if (walk.chain == 0 && count == 0) {
            broker->shed_shard++;
            walk.chain = UINT32_MAX;
        }
    }
    if (!is_shedding(broker) && broker->window_ms <= WINDOW_MS_MIN) {
        broker->is_present_crowded = broker->is_present_crowded || is_very_short(broker);
    }
    broker->shed_chain = walk.chain;
    broker->is_behind = broker->is_behind || is_shedding(broker);
}

/* Lines that have become too long, because others have lines too by now. The last come go, as many
 * as in one turn. */
static void trim_lines(struct broker *broker)
{
    uint32_t count = 0;

    broker->is_trimming = false;
    for (uint32_t i = 0; i < broker->queue_count; i++) {
        struct queue_state *queue = broker->queues[i];
        uint32_t max = line_max(broker);

        while (queue->line_len > max && !list_is_empty(&queue->ready)) {
            struct entry *entry = CONTAINER_OF(queue->ready.previous, struct entry, ready);

            if (count++ == TRIM_MAX) {
                broker->is_trimming = true;
                broker->is_behind = true;
                return;
            }
            if (!window_park(&broker->shards[entry->shard], entry)) {
                return;
            }
        }
    }
}

/* Whose tasks are too many, should room be short: those of a queue that has more than half as many
 * as the one that has most, and more than a fair share, so that parks hardly run out. False: of
 * none. */
static bool measure_crowd(struct broker *broker)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < broker->queue_count; i++) {
        most = (uint32_t)time_max(most, broker->queues[i]->entries);
    }
    broker->crowd_len = (uint32_t)time_max(most / 2, broker->options.entry_count_max / CROWDS_MAX);
    return most > broker->crowd_len;
}

/* Halve the window of all shards. */
static void shrink(struct broker *broker)
{
    broker->window_ms = time_max(broker->window_ms / 2, WINDOW_MS_MIN);
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        struct shard *shard = &broker->shards[i];

        if (shard->state == SHARD_LOADING || shard->state == SHARD_ACTIVE) {
            window_shrink(
                shard, due_bucket(time_add(lower_ms(broker, shard->database), broker->window_ms)));
        }
    }
    begin(broker);
}

void shed_adapt(struct broker *broker)
{
    uint32_t max = broker->options.entry_count_max;
    bool has_crowd;
    size_t used;

    trim_lines(broker);
    has_crowd = measure_crowd(broker);
    used = entry_count(broker);
    broker->is_present_crowded = broker->is_present_crowded && used > max - 2 * reserve(broker);
    if (used < max / 2 && broker->window_ms < broker->options.window_ms) {
        broker->window_ms = time_min(broker->window_ms * 2, broker->options.window_ms);
    } else if (is_shedding(broker)) {
        return;
    } else if (shed_is_short(broker) && broker->window_ms > WINDOW_MS_MIN) {
        shrink(broker);
    } else if (has_crowd && is_very_short(broker)) {
        begin(broker);
    }
}

void shed_step(struct broker *broker)
{
    if (broker->is_trimming) {
        trim_lines(broker);
    }
    if (is_shedding(broker)) {
        shed(broker);
    }
}
