/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks in memory.
 */
#include "broker/core/entry.h"

#include "broker/core/line.h"
#include "broker/core/reading.h"
#include "broker/core/task_life.h"
#include "broker/core/window.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

/* Latest time of creation that a block can hold. */
#define CREATED_MS_MAX ((INT64_C(1) << 48) - 1)

static uint8_t *append(uint8_t *place, const void *data, size_t len)
{
    if (len > 0) {
        memcpy(place, data, len);
    }
    return place + len;
}

/* Bytes in front of the key. */
static size_t expire_len(const struct block *block)
{
    return block->has_expire ? sizeof(wall_ms) : 0;
}

struct block *block_new(const struct task *task)
{
    bool has_payload = task->payload.len == task->payload_len;
    size_t payload_len = has_payload ? task->payload.len : 0;
    size_t expire_bytes = task->expire_ms == 0 ? 0 : sizeof(task->expire_ms);
    uint64_t created_ms = (uint64_t)time_clamp(task->created_ms, 0, CREATED_MS_MAX);
    struct block *block =
        mem_new(1, sizeof(*block) + expire_bytes + task->key.len + task->tags.len + payload_len);
    uint8_t *place;

    if (block == NULL) {
        return NULL;
    }
    block->created_low = created_ms & UINT32_MAX;
    block->created_high = (created_ms >> 32) & UINT16_MAX;
    block->payload_len = task->payload_len;
    block->key_len = (uint16_t)task->key.len;
    block->tags_len = (uint16_t)task->tags.len;
    block->has_payload = has_payload;
    block->has_expire = expire_bytes > 0;
    place = append(block->bytes, &task->expire_ms, expire_bytes);
    place = append(place, task->key.data, task->key.len);
    place = append(place, task->tags.data, task->tags.len);
    (void)append(place, task->payload.data, payload_len);
    return block;
}

struct block *block_shed(struct block *block)
{
    struct block *smaller;

    if (block->has_payload && block->payload_len <= PAYLOAD_INLINE_BYTES_MAX) {
        return block;
    }
    block->has_payload = false;
    smaller =
        mem_resize(block, sizeof(*block) + expire_len(block) + block->key_len + block->tags_len);
    return smaller == NULL ? block : smaller;
}

wall_ms block_created_ms(const struct block *block)
{
    return (wall_ms)((uint64_t)block->created_high << 32 | block->created_low);
}

wall_ms block_expire_ms(const struct block *block)
{
    wall_ms expire_ms = 0;

    memcpy(&expire_ms, block->bytes, expire_len(block));
    return expire_ms;
}

struct slice block_key(const struct block *block)
{
    return (struct slice){block->bytes + expire_len(block), block->key_len};
}

struct slice block_tags(const struct block *block)
{
    return (struct slice){block_key(block).data + block->key_len, block->tags_len};
}

struct slice block_payload(const struct block *block)
{
    return (struct slice){block_tags(block).data + block->tags_len,
                          block->has_payload ? block->payload_len : 0};
}

/* Nothing points to it, and home does not know its number. */
static bool queue_state_is_unused(const struct queue_state *state)
{
    return !state->is_known && state->entries == 0 && state->flights == 0 && state->fetching == 0 &&
           state->reading == 0 && list_is_empty(&state->parks);
}

/* Take the state of a queue that was deleted out of the index. NULL: all are in use. */
static struct queue_state *queue_state_reclaim(struct broker *broker)
{
    for (uint32_t i = 0; i < broker->queue_count; i++) {
        struct queue_state *state = broker->queues[i];

        if (queue_state_is_unused(state)) {
            (void)map_del(&broker->queue_index, state->queue.id);
            return state;
        }
    }
    return NULL;
}

/* A state without a number: a new one, or, when there are as many as there may be, that of a queue
 * that was deleted. */
static struct queue_state *queue_state_take(struct broker *broker)
{
    struct queue_state *state;

    if (broker->queue_count == QUEUE_COUNT_MAX) {
        return queue_state_reclaim(broker);
    }
    state = mem_new(1, sizeof(*state));
    if (state != NULL) {
        state->index = (uint16_t)broker->queue_count;
        broker->queues[broker->queue_count++] = state;
    }
    return state;
}

struct queue_state *queue_state_get(struct broker *broker, uint32_t number)
{
    struct queue_state *state = map_find(&broker->queue_index, number);

    if (state == NULL) {
        state = queue_state_take(broker);
        if (state == NULL) {
            return NULL;
        }
        *state = (struct queue_state){.index = state->index, .queue.id = number};
        list_init(&state->ready);
        list_init(&state->fetched);
        list_init(&state->parks);
        if (map_put(&broker->queue_index, number, state) != 0) {
            state->queue.id = 0; // No queue's: unused, and taken again when there are too many.
            return NULL;
        }
    }
    return state;
}

bool queue_has_room(const struct queue_state *queue)
{
    return queue->is_known && !queue->is_held &&
           queue->flights + queue->fetching < queue->queue.concurrency_max;
}

struct entry *entry_new(struct shard *shard, const struct task *task)
{
    struct broker *broker = shard->broker;
    struct queue_state *queue = queue_state_get(broker, task->queue);
    struct entry *entry = queue == NULL ? NULL : pool_take(&broker->entries);
    struct task small = *task;

    if (entry == NULL) {
        return NULL;
    }
    if (task->payload_len > PAYLOAD_INLINE_BYTES_MAX) {
        small.payload = (struct slice){NULL, 0};
    }
    wheel_node_init(&entry->node);
    entry->body.block = block_new(&small);
    if (entry->body.block == NULL || map_put(&shard->entries, (uint64_t)task->id.seq, entry) != 0) {
        mem_free(entry->body.block);
        pool_give(&broker->entries, entry);
        return NULL;
    }
    queue->entries++;
    entry->seq = task->id.seq;
    entry->due_ms = task->due_ms;
    entry->attempt = task->attempt;
    entry->shard = (uint16_t)shard->id;
    entry->slot = task->id.slot;
    entry->queue = queue->index;
    entry->failures = (uint16_t)task->failures;
    entry->unknowns = (uint16_t)task->unknowns;
    entry->flags = task->key.len > 0 ? ENTRY_KEYED : 0;
    entry->state = ENTRY_VISITING;
    return entry;
}

void entry_free(struct shard *shard, struct entry *entry)
{
    REQUIRE(!entry->flying);
    entry_unlink(shard, entry);
    entry_queue(shard->broker, entry)->entries--;
    (void)map_del(&shard->entries, (uint64_t)entry->seq);
    window_forget(shard, entry->seq);
    reading_leave(shard, entry->seq);
    mem_free(entry->body.block);
    pool_give(&shard->broker->entries, entry);
}

struct entry *entry_find(const struct shard *shard, int64_t seq)
{
    return map_find(&shard->entries, (uint64_t)seq);
}

struct block *entry_block(const struct entry *entry)
{
    return entry->flying ? entry->body.flight->block : entry->body.block;
}

struct queue_state *entry_queue(const struct broker *broker, const struct entry *entry)
{
    return broker->queues[entry->queue];
}

/* The wheel that an entry of this state is, or would be, in. */
static struct wheel *wheel_of(const struct shard *shard, const struct entry *entry)
{
    struct database *database = &shard->broker->databases[shard->database];

    return entry->state == ENTRY_WAITING ? &database->waiting : &database->wheel;
}

void entry_unlink(struct shard *shard, struct entry *entry)
{
    // The list node shares its place with the wheel's; alone is alone in both.
    if (entry->state == ENTRY_READY) {
        line_del(shard->broker, entry);
        wheel_node_init(&entry->node);
    } else if (entry->state == ENTRY_SETTLING) {
        list_del(&entry->ready);
        wheel_node_init(&entry->node);
    } else {
        wheel_del(wheel_of(shard, entry), &entry->node);
    }
}

void entry_wake_at(struct shard *shard, struct entry *entry, wall_ms at_ms)
{
    wheel_add(wheel_of(shard, entry), &entry->node, at_ms);
}

void entry_wait(struct shard *shard, struct entry *entry, wall_ms at_ms)
{
    REQUIRE(!entry->flying);
    // It may have been fetched, and is not claimed after all.
    entry->body.block = block_shed(entry->body.block);
    if (entry->state != ENTRY_WAITING) {
        entry_move(entry, ENTRY_WAITING);
    }
    wheel_node_init(&entry->node);
    entry_wake_at(shard, entry, at_ms);
}

void entry_place(struct shard *shard, struct entry *entry)
{
    REQUIRE(!entry->flying);
    if (!window_has(shard, entry_queue(shard->broker, entry)->queue.id, entry->due_ms,
                    entry->seq)) {
        entry_free(shard, entry);
        return;
    }
    entry_unlink(shard, entry);
    entry_wait(shard, entry, entry->due_ms);
}
