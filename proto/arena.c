/* SPDX-License-Identifier: Apache-2.0
 *
 * Bump allocation from growing chunks; what is large gets a block of its own, because the decoder
 * drops its large tables before it is done.
 */
#include "proto/arena.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"

#include <stdint.h>
#include <string.h>

#define ALIGNMENT 16U

/* From here on an allocation is a heap block of its own. */
#define LARGE_BYTES 2048U

/* A chunk that small allocations are carved from. */
#define CHUNK_BYTES 16384U

struct arena_block {
    struct arena_block *next;
    size_t size; /* bytes behind this head */
    size_t end;  /* bytes carved */
    size_t unused;
};

_Static_assert(sizeof(struct arena_block) % ALIGNMENT == 0, "blocks keep the alignment");
_Static_assert(LARGE_BYTES < CHUNK_BYTES, "a small allocation fits a chunk");

void arena_init(struct arena *arena, size_t budget)
{
    memset(arena, 0, offsetof(struct arena, first));
    arena->budget = budget;
}

void arena_allow(struct arena *arena, size_t budget)
{
    if (budget > arena->budget) {
        arena->budget = budget;
    }
}

static void free_blocks(struct arena_block *block)
{
    while (block != NULL) {
        struct arena_block *next = block->next;

        mem_free(block);
        block = next;
    }
}

void arena_fini(struct arena *arena)
{
    free_blocks(arena->small);
    free_blocks(arena->large);
    arena_init(arena, arena->budget);
}

static struct arena_block *new_block(struct arena *arena, struct arena_block **head, size_t size)
{
    struct arena_block *block = mem_new(1, sizeof(*block) + size);

    if (block == NULL) {
        arena->no_memory = true;
        return NULL;
    }
    block->size = size;
    block->next = *head;
    *head = block;
    return block;
}

static void *carve_small(struct arena *arena, size_t size)
{
    struct arena_block *chunk = arena->small;
    void *start;

    if (chunk == NULL && size <= ARENA_INLINE_BYTES - arena->first_end) {
        start = arena->first + arena->first_end;
        arena->first_end += size;
        return start;
    }
    if (chunk == NULL || chunk->size - chunk->end < size) {
        chunk = new_block(arena, &arena->small, CHUNK_BYTES - sizeof(*chunk));
        if (chunk == NULL) {
            return NULL;
        }
    }
    start = (unsigned char *)(chunk + 1) + chunk->end;
    chunk->end += size;
    return start;
}

void *arena_new(struct arena *arena, size_t size)
{
    size_t rounded;
    void *start;

    if (size > arena->budget || arena->budget - size < ALIGNMENT) {
        arena->over = true;
        return NULL;
    }
    rounded = size == 0 ? ALIGNMENT : (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (rounded > arena->budget - arena->used) {
        arena->over = true;
        return NULL;
    }
    if (rounded >= LARGE_BYTES) {
        struct arena_block *block = new_block(arena, &arena->large, rounded);

        start = block == NULL ? NULL : block + 1;
    } else {
        start = carve_small(arena, rounded);
    }
    if (start != NULL) {
        arena->used += rounded;
    }
    return start;
}

void arena_del(struct arena *arena, void *block)
{
    struct arena_block **link = &arena->large;

    while (*link != NULL && (void *)(*link + 1) != block) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        struct arena_block *found = *link;

        *link = found->next;
        ENSURE(arena->used >= found->size);
        arena->used -= found->size;
        mem_free(found);
    }
}
