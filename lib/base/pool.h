/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of objects of one size. It grows by blocks up to a count fixed at init and gives memory
 * back to the heap only as a whole; a full pool is a normal condition, not an error. Addresses stay
 * valid until the object is given back.
 */
#ifndef FOLIOT_LIB_BASE_POOL_H
#define FOLIOT_LIB_BASE_POOL_H

#include "lib/base/attr.h"

#include <stddef.h>

struct pool_block;
struct pool_free;

/*
 * 1. used ≤ made ≤ max, and the free list holds made − used objects.
 */
struct pool {
    struct pool_block *blocks; /* all blocks, newest first */
    struct pool_free *free;    /* objects at hand, the last given first */
    size_t object_bytes;       /* size of one object, rounded up to the alignment */
    size_t block_objects;      /* objects in one block */
    size_t used;               /* objects taken and not given back */
    size_t made;               /* objects in all blocks */
    size_t max;                /* most objects; fixed at init */
};

/*
 * Start empty; nothing is allocated before the first take.
 *
 * shape: object_bytes ≥ 1, max ≥ 1. Objects are aligned for any type.
 */
void pool_init(struct pool *pool, size_t object_bytes, size_t max);

/*
 * Free all blocks.
 *
 * shape: every object has been given back.
 */
void pool_fini(struct pool *pool);

/*
 * Free all blocks although objects are still out: for owners that drop everything at once. No
 * object of the pool may be touched afterwards; the pool is empty and usable again.
 */
void pool_drop(struct pool *pool);

/*
 * Take a zeroed object, or NULL when `max` are taken or the heap is exhausted.
 *
 * ownership: the caller's until pool_give.
 */
MUST_USE void *pool_take(struct pool *pool);

/* Give an object back. shape: taken from this pool and not given back yet. */
void pool_give(struct pool *pool, void *object);

/* Objects taken and not given back. */
size_t pool_used(const struct pool *pool);

/* Objects that may still be taken, as far as the heap has them. */
size_t pool_left(const struct pool *pool);

/* Bytes of all blocks: what the pool holds of the heap, whether its objects are used or not. */
size_t pool_bytes(const struct pool *pool);

#endif
