/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks in memory.
 */
#include "broker/core/entry.h"

#include "broker/core/line.h"
#include "broker/core/reading.h"
#include "broker/core/sleep.h"
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

/* Bytes in front of the place, and of the key. */
static size_t expire_len(const struct block *block)
{
    return block->has_expire ? sizeof(wall_ms) : 0;
}

static size_t head_len(const struct block *block)
{
    return expire_len(block) + (block->order_len > 0 ? sizeof(wall_ms) + block->order_len : 0);
}

void block_head(const struct task *task, struct block *head)
{
    uint64_t created_ms = (uint64_t)time_clamp(task->created_ms, 0, CREATED_MS_MAX);

    memset(head, 0, sizeof(*head)); // Heads are compared as bytes.
    head->created_low = created_ms & UINT32_MAX;
    head->created_high = (created_ms >> 32) & UINT16_MAX;
    head->payload_len = task->payload_len;
    head->key_len = (uint16_t)task->key.len;
    head->tags_len = (uint16_t)task->tags.len;
    head->order_len = (uint8_t)task->order_key.len;
    head->has_payload = task->payload.len == task->payload_len;
    head->has_expire = task->expire_ms != 0;
}

void block_fill(uint8_t *place, const struct block *head, const struct task *task)
{
    place = append(place, &task->expire_ms, expire_len(head));
    if (head->order_len > 0) {
        place = append(place, &task->order_ms, sizeof(task->order_ms));
        place = append(place, task->order_key.data, task->order_key.len);
    }
    place = append(place, task->key.data, task->key.len);
    place = append(place, task->tags.data, task->tags.len);
    (void)append(place, task->payload.data, block_payload(head).len);
}

struct block *block_new(const struct task *task)
{
    struct block head;
    struct block *block;

    block_head(task, &head);
    block = mem_new(1, sizeof(*block) + block_bytes_len(&head));
    if (block != NULL) {
        *block = head;
        block_fill(block->bytes, &head, task);
    }
    return block;
}

size_t block_bytes_len(const struct block *block)
{
    return head_len(block) + block->key_len + block->tags_len + block_payload(block).len;
}

struct block *block_shed(struct block *block)
{
    struct block *smaller;

    if (block->has_payload && block->payload_len <= PAYLOAD_INLINE_BYTES_MAX) {
        return block;
    }
    block->has_payload = false;
    smaller =
        mem_resize(block, sizeof(*block) + head_len(block) + block->key_len + block->tags_len);
    return smaller == NULL ? block : smaller;
}

wall_ms block_created_ms(const struct block *block)
{
    return (wall_ms)((uint64_t)block->created_high << 32 | block->created_low);
}

wall_ms block_expire_ms(const struct block *block)
{
    wall_ms expire_ms = 0;

    if (expire_len(block) > 0) {
        memcpy(&expire_ms, block->bytes, sizeof(expire_ms));
    }
    return expire_ms;
}

wall_ms block_order_ms(const struct block *block)
{
    wall_ms order_ms = 0;

    if (block->order_len > 0) {
        memcpy(&order_ms, block->bytes + expire_len(block), sizeof(order_ms));
    }
    return order_ms;
}

void block_set_order_ms(struct block *block, wall_ms order_ms)
{
    if (block->order_len > 0) {
        memcpy(block->bytes + expire_len(block), &order_ms, sizeof(order_ms));
    }
}

struct slice block_order_key(const struct block *block)
{
    return (struct slice){block->bytes + head_len(block) - block->order_len, block->order_len};
}

struct slice block_key(const struct block *block)
{
    return (struct slice){block->bytes + head_len(block), block->key_len};
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
           state->orders == 0 && state->reading == 0 && list_is_empty(&state->parks);
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

void entry_begin(struct entry *entry, const struct shard *shard, struct queue_state *queue,
                 const struct task *task)
{
    wheel_node_init(&entry->node);
    entry->seq = task->id.seq;
    entry->shard = (uint16_t)shard->id;
    entry->slot = task->id.slot;
    entry->queue = queue->index;
    entry->flags = task->key.len > 0 ? ENTRY_KEYED : 0;
    queue->entries++;
}

const struct task *task_as_kept(const struct task *task, struct task *copy)
{
    if (task->payload_len <= PAYLOAD_INLINE_BYTES_MAX) {
        return task;
    }
    *copy = *task;
    copy->payload = (struct slice){NULL, 0};
    return copy;
}

struct entry *entry_new(struct shard *shard, const struct task *task)
{
    struct broker *broker = shard->broker;
    struct queue_state *queue = queue_state_get(broker, task->queue);
    struct entry *entry = NULL;
    struct task copy;
    uint32_t number = 0;

    if (queue != NULL && entry_room(broker) > 0) {
        number = slabs_take(&broker->entries, sizeof(*entry));
    }
    if (number == 0) {
        return NULL;
    }
    entry = slabs_at(&broker->entries, number);
    memset(entry, 0, sizeof(*entry));
    entry->seq = task->id.seq;
    entry->body.block = block_new(task_as_kept(task, &copy));
    if (entry->body.block == NULL || entry_peek(shard, entry->seq) != NULL ||
        entry_index_put(&shard->entries, &broker->entries, number) != 0) {
        mem_free(entry->body.block);
        slabs_give(&broker->entries, number);
        return NULL;
    }
    entry_begin(entry, shard, queue, task);
    entry->due_ms = task->due_ms;
    entry->attempt = task->attempt;
    entry->failures = (uint16_t)task->failures;
    entry->unknowns = (uint16_t)task->unknowns;
    entry->state = ENTRY_VISITING;
    return entry;
}

void entry_free(struct shard *shard, struct entry *entry)
{
    struct slabs *slabs = &shard->broker->entries;

    REQUIRE(!entry->flying);
    entry_unlink(shard, entry);
    entry_queue(shard->broker, entry)->entries--;
    window_forget(shard, entry->seq);
    reading_leave(shard, entry->seq);
    if (entry->state != ENTRY_ASLEEP) {
        mem_free(entry->body.block);
    }
    slabs_give(slabs, entry_index_del(&shard->entries, slabs, entry->seq));
}

const struct entry *entry_peek(const struct shard *shard, int64_t seq)
{
    const struct slabs *slabs = &shard->broker->entries;
    uint32_t number = entry_index_find(&shard->entries, slabs, seq);

    return number == 0 ? NULL : slabs_at(slabs, number);
}

struct entry *entry_find(struct shard *shard, int64_t seq)
{
    struct slabs *slabs = &shard->broker->entries;
    uint32_t number = entry_index_find(&shard->entries, slabs, seq);
    struct entry *entry = number == 0 ? NULL : slabs_at(slabs, number);

    return entry != NULL && entry->state == ENTRY_ASLEEP ? sleep_end(shard, entry) : entry;
}

wall_ms entry_due_ms(const struct entry *entry)
{
    return entry->state == ENTRY_ASLEEP ? entry->node.due_ms : entry->due_ms;
}

struct entry *entry_next(const struct shard *shard, struct entry_iter *iter)
{
    if (shard->entries.count == 0) {
        return NULL; // Perhaps it was never initialised.
    }
    return entry_index_next(&shard->entries, &shard->broker->entries, iter);
}

/* Collect from one chain. False: there is no place left for the rest of it. */
static bool collect_chain(struct shard *shard, struct entry_walk *walk, entry_test test,
                          size_t *count)
{
    struct broker *broker = shard->broker;
    struct entry *entry = NULL;

    while ((entry = entry_index_in_chain(&shard->entries, &broker->entries, walk->chain - 1,
                                         entry)) != NULL) {
        walk->looks -= walk->looks > 0 ? 1 : 0;
        if (!test(shard, entry)) {
            continue;
        }
        if (*count == ARRAY_COUNT(broker->collected)) {
            return false;
        }
        broker->collected[(*count)++] = entry;
    }
    return true;
}

size_t entry_collect(struct shard *shard, struct entry_walk *walk, entry_test test)
{
    size_t count = 0;

    walk->chain = walk->chain < shard->entries.size ? walk->chain : shard->entries.size;
    while (walk->chain > 0 && walk->looks > 0 && collect_chain(shard, walk, test, &count)) {
        walk->chain--;
        walk->looks -= walk->looks > 0 ? 1 : 0;
    }
    return count;
}

size_t entry_count(const struct broker *broker)
{
    return broker->entries.used;
}

size_t entry_room(const struct broker *broker)
{
    size_t max = broker->options.entry_count_max;

    return entry_count(broker) < max ? max - entry_count(broker) : 0;
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

    bool is_waiting = entry->state == ENTRY_WAITING || entry->state == ENTRY_ASLEEP;

    return is_waiting ? &database->waiting : &database->wheel;
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
    sleep_begin(shard, entry);
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
