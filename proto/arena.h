/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for one decoded message, with a budget: a small message that would unfold into a large
 * structure is refused instead of eating the process. Everything goes at once.
 */
#ifndef FOLIOT_PROTO_ARENA_H
#define FOLIOT_PROTO_ARENA_H

#include "lib/base/attr.h"

#include <stdbool.h>
#include <stddef.h>

/* Room for an ordinary request without asking the heap. */
#define ARENA_INLINE_BYTES 1024

struct arena_block;

/*
 * 1. used ≤ budget.
 * 2. Must not move between init and fini: blocks are carved from first[].
 */
struct arena {
    size_t budget;             /* most bytes that may be live */
    size_t used;               /* bytes live, with their rounding */
    struct arena_block *small; /* newest first; carved from the newest */
    struct arena_block *large; /* one allocation each, can be freed early */
    size_t first_end;          /* bytes carved from first[] */
    bool over;                 /* an allocation was refused by the budget */
    bool no_memory;            /* an allocation was refused by the heap */
    _Alignas(16) unsigned char first[ARENA_INLINE_BYTES];
};

/* Start empty, with a budget in bytes. */
void arena_init(struct arena *arena, size_t budget);

/* Raise the budget; a lower one is ignored. */
void arena_allow(struct arena *arena, size_t budget);

/* Free everything that was carved. Harmless if repeated. */
void arena_fini(struct arena *arena);

/*
 * Carve `size` bytes, aligned to 16, not zeroed. NULL if the budget or the heap says no; the marks
 * in the arena say which.
 */
MUST_USE void *arena_new(struct arena *arena, size_t size);

/* Give a block back early: large ones leave the budget, small ones stay until arena_fini. */
void arena_del(struct arena *arena, void *block);

#endif
