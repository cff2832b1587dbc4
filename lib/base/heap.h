/* SPDX-License-Identifier: Apache-2.0
 *
 * Intrusive min-heap (a pairing heap) ordered by (key, order of adding). Nodes live inside their
 * owner's struct, so adding never allocates and cannot fail.
 */
#ifndef FOLIOT_LIB_BASE_HEAP_H
#define FOLIOT_LIB_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    int64_t key;
    uint64_t sequence;          /* order of adding: breaks ties */
    struct heap_node *child;    /* first child */
    struct heap_node *next;     /* next sibling */
    struct heap_node *previous; /* sibling before, or the parent of a first child */
};

/* 1. No node has a (key, sequence) below its parent's. */
struct heap {
    struct heap_node *root; /* NULL if empty */
    uint64_t sequence;      /* given to the next node */
    size_t count;
};

void heap_init(struct heap *heap);

/* Add. shape: node is in no heap. Constant time. */
void heap_add(struct heap *heap, struct heap_node *node, int64_t key);

/* Take out. shape: node is in this heap. Amortised O(log count). */
void heap_del(struct heap *heap, struct heap_node *node);

/* Node with the least (key, sequence), or NULL. It stays inside. */
struct heap_node *heap_first(const struct heap *heap);

/* Take the least one out, or NULL. */
struct heap_node *heap_take_first(struct heap *heap);

static inline size_t heap_count(const struct heap *heap)
{
    return heap->count;
}

#endif
