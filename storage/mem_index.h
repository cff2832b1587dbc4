/* SPDX-License-Identifier: Apache-2.0
 *
 * Ordered set of intrusive nodes under a pair of 64-bit keys: a skip list whose tower heights come
 * from the keys, so that equal contents always give an equal structure. For the memory store only.
 */
#ifndef FOLIOT_STORAGE_MEM_INDEX_H
#define FOLIOT_STORAGE_MEM_INDEX_H

#include <stddef.h>
#include <stdint.h>

/* Every fourth node rises a level: 4^8 nodes are found in a few dozen steps. */
#define MEM_INDEX_LEVELS 8

struct mem_index_node {
    int64_t major;
    int64_t minor;
    struct mem_index_node *next[MEM_INDEX_LEVELS];
};

struct mem_index {
    struct mem_index_node head;
    size_t count;
};

void mem_index_init(struct mem_index *index);

/* Add a node whose keys are filled in. shape: no node with these keys is in the index. */
void mem_index_add(struct mem_index *index, struct mem_index_node *node);

/* Take a node out. shape: it is in the index. */
void mem_index_del(struct mem_index *index, struct mem_index_node *node);

/* The node with exactly these keys, or NULL. */
struct mem_index_node *mem_index_find(struct mem_index *index, int64_t major, int64_t minor);

/* The first node above these keys, or NULL. */
struct mem_index_node *mem_index_after(struct mem_index *index, int64_t major, int64_t minor);

/* The first node, or NULL. The one after a node is its next[0]. */
struct mem_index_node *mem_index_first(struct mem_index *index);

#endif
