/* SPDX-License-Identifier: Apache-2.0
 *
 * Ordered set of intrusive nodes under a pair of 64-bit keys: sorted runs of entries that hold the
 * keys beside the pointers, so that a search reads few lines of memory and no node. For the memory
 * store only.
 */
#ifndef FOLIOT_STORAGE_MEM_INDEX_H
#define FOLIOT_STORAGE_MEM_INDEX_H

#include <stddef.h>
#include <stdint.h>

struct mem_index_node {
    int64_t major;
    int64_t minor;
    struct mem_index_node *next; /* in the order of the keys, or NULL */
};

/*
 * 1. Runs are in the order of their keys, and so are entries within a run.
 * 2. No run is empty.
 */
struct mem_index {
    struct mem_index_run **runs;
    size_t run_count;
    size_t count; /* nodes */
};

void mem_index_init(struct mem_index *index);

/* Free what the index itself has allocated, and leave it empty; nodes are their owner's. */
void mem_index_fini(struct mem_index *index);

/* Add a node whose keys are filled in. shape: no node with these keys is in the index. */
void mem_index_add(struct mem_index *index, struct mem_index_node *node);

/* Take a node out; its next stays as it was. shape: it is in the index. */
void mem_index_del(struct mem_index *index, struct mem_index_node *node);

/* The node with exactly these keys, or NULL. */
struct mem_index_node *mem_index_find(struct mem_index *index, int64_t major, int64_t minor);

/* The first node above these keys, or NULL. */
struct mem_index_node *mem_index_after(struct mem_index *index, int64_t major, int64_t minor);

/* The first node, or NULL. */
struct mem_index_node *mem_index_first(struct mem_index *index);

#endif
