/* SPDX-License-Identifier: Apache-2.0
 *
 * The object pool: a chain of blocks and a free list threaded through the objects at hand.
 */
#include "lib/base/pool.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#define POOL_BLOCK_BYTES                                                     \
    ((size_t)64 * 1024) /* large enough to be rare, small enough to be quick \
                         */
#define POOL_ALIGNMENT alignof(max_align_t)

struct pool_free {
    struct pool_free *next;
};

struct pool_block {
    alignas(max_align_t) struct pool_block *next;
};

static size_t round_up(size_t size)
{
    return (size + POOL_ALIGNMENT - 1) / POOL_ALIGNMENT * POOL_ALIGNMENT;
}

void pool_init(struct pool *pool, size_t object_bytes, size_t max)
{
    REQUIRE(object_bytes >= 1 && object_bytes <= SIZE_MAX / 4);
    REQUIRE(max >= 1);
    memset(pool, 0, sizeof(*pool));
    pool->object_bytes = round_up(object_bytes);
    pool->block_objects = (POOL_BLOCK_BYTES - sizeof(struct pool_block)) / pool->object_bytes;
    if (pool->block_objects == 0) {
        pool->block_objects = 1;
    }
    pool->max = max;
}

void pool_drop(struct pool *pool)
{
    while (pool->blocks != NULL) {
        struct pool_block *block = pool->blocks;

        pool->blocks = block->next;
        mem_free(block);
    }
    pool->free = NULL;
    pool->used = 0;
    pool->made = 0;
}

void pool_fini(struct pool *pool)
{
    REQUIRE(pool->used == 0);
    pool_drop(pool);
}

static void put_free(struct pool *pool, void *object)
{
    struct pool_free *free = object;

    free->next = pool->free;
    pool->free = free;
}

/* Add one block; without memory the free list stays empty. */
static void grow(struct pool *pool)
{
    size_t left = pool->max - pool->made;
    size_t count = left < pool->block_objects ? left : pool->block_objects;
    struct pool_block *block;
    char *objects;

    if (count == 0) {
        return;
    }
    block = mem_new(1, sizeof(*block) + count * pool->object_bytes);
    if (block == NULL) {
        return;
    }
    block->next = pool->blocks;
    pool->blocks = block;
    pool->made += count;
    objects = (char *)(block + 1);
    for (size_t i = count; i > 0; i--) { // The lowest address is taken first.
        put_free(pool, objects + (i - 1) * pool->object_bytes);
    }
}

void *pool_take(struct pool *pool)
{
    struct pool_free *object;

    if (pool->free == NULL) {
        grow(pool);
    }
    object = pool->free;
    if (object == NULL) {
        return NULL;
    }
    pool->free = object->next;
    pool->used++;
    return memset(object, 0, pool->object_bytes);
}

void pool_give(struct pool *pool, void *object)
{
    REQUIRE(object != NULL);
    REQUIRE(pool->used > 0);
    pool->used--;
    put_free(pool, object);
}

size_t pool_used(const struct pool *pool)
{
    return pool->used;
}

size_t pool_left(const struct pool *pool)
{
    return pool->max - pool->used;
}

size_t pool_bytes(const struct pool *pool)
{
    return pool->made * pool->object_bytes;
}
