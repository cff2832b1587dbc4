/* SPDX-License-Identifier: Apache-2.0
 *
 * Behind the common part of an entry lie: what the bytes hold, time of creation in 6 bytes, length
 * of the payload, if there are any the lengths of key, tags and order key, and the bytes of the
 * block.
 */
#include "broker/core/sleep.h"

#include "broker/core/entry.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"

#include <string.h>

/* What the bytes hold. */
#define HAS_PAYLOAD 1U
#define HAS_EXPIRE  2U
#define HAS_NAMES   4U /* a key, tags or an order key */

/* Where they begin, and most bytes in front of a block's own: kind, 6 of time, four lengths. */
#define HEAD_BYTES offsetof(struct entry, attempt)
#define PACK_BYTES 27U

/* Seven bits to a byte, the lowest first, the last byte below 128. */
static uint8_t *put_number(uint8_t *place, uint32_t number)
{
    while (number >= 128) {
        *place++ = (uint8_t)(number | 128U);
        number >>= 7;
    }
    *place++ = (uint8_t)number;
    return place;
}

static const uint8_t *get_number(const uint8_t *place, uint32_t *number)
{
    unsigned shift = 0;

    *number = 0;
    while (*place >= 128) {
        *number |= (*place++ & 127U) << shift;
        shift += 7;
    }
    *number |= (uint32_t)*place++ << shift;
    return place;
}

/* Write what stands in front of a block's bytes; its end. */
static uint8_t *pack_head(uint8_t *place, const struct block *block)
{
    bool has_names = block->key_len > 0 || block->tags_len > 0 || block->order_len > 0;

    *place++ = (uint8_t)((block->has_payload ? HAS_PAYLOAD : 0) |
                         (block->has_expire ? HAS_EXPIRE : 0) | (has_names ? HAS_NAMES : 0));
    memcpy(place, &block->created_low, 4);
    memcpy(place + 4, &block->created_high, 2);
    place = put_number(place + 6, block->payload_len);
    if (has_names) {
        place = put_number(place, block->key_len);
        place = put_number(place, block->tags_len);
        place = put_number(place, block->order_len);
    }
    return place;
}

/* The head of a block, read back; where its bytes begin. */
static const uint8_t *unpack_head(const uint8_t *place, struct block *head)
{
    uint8_t kind = *place++;
    uint32_t key_len = 0;
    uint32_t tags_len = 0;
    uint32_t order_len = 0;

    memset(head, 0, sizeof(*head));
    head->has_payload = (kind & HAS_PAYLOAD) != 0;
    head->has_expire = (kind & HAS_EXPIRE) != 0;
    memcpy(&head->created_low, place, 4);
    memcpy(&head->created_high, place + 4, 2);
    place = get_number(place + 6, &head->payload_len);
    if ((kind & HAS_NAMES) != 0) {
        place = get_number(place, &key_len);
        place = get_number(place, &tags_len);
        place = get_number(place, &order_len);
    }
    head->key_len = (uint16_t)key_len;
    head->tags_len = (uint16_t)tags_len;
    head->order_len = (uint8_t)order_len;
    return place;
}

static const uint8_t *bytes_of(const struct entry *asleep)
{
    return (const uint8_t *)asleep + HEAD_BYTES;
}

/* Whether what a pack does not know of a block is nothing. */
static bool is_whole(const uint8_t *packed, const struct block *block)
{
    struct block head;

    (void)unpack_head(packed, &head);
    // All of its bytes: a field that is added one day must not get lost.
    return slice_equal((struct slice){(const uint8_t *)&head, sizeof(head)},
                       (struct slice){(const uint8_t *)block, sizeof(head)});
}

/* Worth it, for so long a wait. */
static bool is_long(const struct shard *shard, wall_ms due_ms)
{
    return due_ms > time_add(lower_ms(shard->broker, shard->database), NAP_MS);
}

/* Whether it waits for its due time and nothing else, and never did. */
static bool may_sleep(const struct shard *shard, const struct entry *entry)
{
    return entry->attempt == 0 && entry->failures == 0 && entry->unknowns == 0 &&
           entry->fetches == 0 && (entry->flags & (unsigned)~ENTRY_KEYED) == 0 &&
           entry->node.due_ms == entry->due_ms && is_long(shard, entry->due_ms);
}

/* An object for the common part, the packed head and `len` bytes, both still to be filled; 0: none
 * to be had. *place is where the bytes go. */
static uint32_t take(struct slabs *slabs, const struct block *head, size_t len, uint8_t **place)
{
    uint8_t packed[PACK_BYTES];
    size_t packed_len = (size_t)(pack_head(packed, head) - packed);
    size_t bytes = HEAD_BYTES + packed_len + len;
    uint32_t number = 0;

    if (bytes <= SLABS_OBJECT_BYTES_MAX && is_whole(packed, head)) {
        number = slabs_take(slabs, bytes);
    }
    if (number != 0) {
        *place = (uint8_t *)slabs_at(slabs, number) + HEAD_BYTES;
        memcpy(*place, packed, packed_len);
        *place += packed_len;
    }
    return number;
}

bool sleep_new(struct shard *shard, const struct task *task)
{
    struct broker *broker = shard->broker;
    struct slabs *slabs = &broker->entries;
    struct queue_state *queue = queue_state_get(broker, task->queue);
    struct task copy;
    const struct task *kept = task_as_kept(task, &copy);
    struct block head;
    uint32_t number = 0;
    struct entry *asleep;
    uint8_t *place = NULL;

    block_head(kept, &head);
    if (queue != NULL && entry_room(broker) > 0 && task->attempt == 0 && task->failures == 0 &&
        task->unknowns == 0 && is_long(shard, task->due_ms) &&
        entry_index_find(&shard->entries, slabs, task->id.seq) == 0) {
        number = take(slabs, &head, block_bytes_len(&head), &place);
    }
    if (number == 0) {
        return false;
    }
    asleep = slabs_at(slabs, number);
    memset((void *)asleep, 0, HEAD_BYTES);
    asleep->seq = task->id.seq;
    if (entry_index_put(&shard->entries, slabs, number) != 0) {
        slabs_give(slabs, number);
        return false;
    }
    entry_begin(asleep, shard, queue, task);
    asleep->state = ENTRY_ASLEEP;
    block_fill(place, &head, kept);
    wheel_add(&broker->databases[shard->database].waiting, &asleep->node, task->due_ms);
    return true;
}

/* Another form takes the place of an entry in wheel and index. */
static void replace(struct shard *shard, struct entry *from, struct entry *to, uint32_t to_number)
{
    struct slabs *slabs = &shard->broker->entries;
    uint32_t from_number = entry_index_swap(&shard->entries, slabs, to_number);

    wheel_swap(&from->node, &to->node);
    slabs_give(slabs, from_number);
}

void sleep_begin(struct shard *shard, struct entry *entry)
{
    struct block *block = entry->body.block;
    size_t len = block_bytes_len(block);
    uint32_t number = 0;
    struct entry *asleep;
    uint8_t *place = NULL;

    REQUIRE(entry->state == ENTRY_WAITING && !entry->flying && wheel_has(&entry->node));
    if (may_sleep(shard, entry)) {
        number = take(&shard->broker->entries, block, len, &place);
    }
    if (number == 0) {
        return;
    }
    asleep = slabs_at(&shard->broker->entries, number);
    memcpy((void *)asleep, entry, HEAD_BYTES);
    memcpy(place, block->bytes, len);
    asleep->state = ENTRY_ASLEEP;
    replace(shard, entry, asleep, number);
    mem_free(block);
}

static struct block *unpack(const struct entry *asleep)
{
    struct block head;
    const uint8_t *bytes = unpack_head(bytes_of(asleep), &head);
    size_t len = block_bytes_len(&head);
    struct block *block = mem_new(1, sizeof(*block) + len);

    if (block != NULL) {
        *block = head;
        memcpy(block->bytes, bytes, len);
    }
    return block;
}

struct entry *sleep_end(struct shard *shard, struct entry *asleep)
{
    struct slabs *slabs = &shard->broker->entries;
    uint32_t number = slabs_take(slabs, sizeof(struct entry));
    struct block *block = number == 0 ? NULL : unpack(asleep);
    struct entry *entry;

    REQUIRE(asleep->state == ENTRY_ASLEEP);
    if (block == NULL) {
        if (number != 0) {
            slabs_give(slabs, number);
        }
        return NULL;
    }
    entry = slabs_at(slabs, number);
    memset(entry, 0, sizeof(*entry));
    memcpy((void *)entry, asleep, HEAD_BYTES);
    entry->state = ENTRY_WAITING;
    entry->due_ms = asleep->node.due_ms;
    entry->body.block = block;
    replace(shard, asleep, entry, number);
    return entry;
}

size_t sleep_payload_len(const struct entry *asleep)
{
    struct block head;

    (void)unpack_head(bytes_of(asleep), &head);
    return block_payload(&head).len;
}
