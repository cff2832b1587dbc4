/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded first-in, first-out ring of pointers. All memory is taken at open, so that a put can
 * only fail because the ring is full.
 */
#ifndef FOLIOT_LIB_BASE_RING_H
#define FOLIOT_LIB_BASE_RING_H

#include "lib/base/attr.h"

#include <stdbool.h>
#include <stddef.h>

/* 1. count ≤ capacity; the items are items[(first + i) mod capacity] for i < count. */
struct ring {
    void **items;
    size_t capacity; /* most items; fixed at init */
    size_t first;    /* index of the oldest item */
    size_t count;    /* items in the ring */
};

/* Allocate room for `capacity` items. shape: capacity ≥ 1. errors: ERR_NO_MEMORY. */
MUST_USE int ring_init(struct ring *ring, size_t capacity);

/* Free the room; items belong to the caller. */
void ring_fini(struct ring *ring);

/* Add at the end. shape: item is not NULL. errors: ERR_FULL. */
MUST_USE int ring_put(struct ring *ring, void *item);

/* Take the oldest item, or NULL. */
void *ring_take(struct ring *ring);

/* The i-th oldest item, or NULL beyond the end; it stays in the ring. */
void *ring_peek(const struct ring *ring, size_t i);

static inline size_t ring_count(const struct ring *ring)
{
    return ring->count;
}

static inline bool ring_is_full(const struct ring *ring)
{
    return ring->count == ring->capacity;
}

#endif
