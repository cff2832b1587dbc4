/* SPDX-License-Identifier: Apache-2.0
 *
 * Skip list with heights hashed from the keys.
 */
#include "storage/mem_index.h"

#include "lib/base/check.h"

#include <stdbool.h>
#include <string.h>

static bool is_below(const struct mem_index_node *node, int64_t major, int64_t minor)
{
    return node->major < major || (node->major == major && node->minor < minor);
}

static int height(const struct mem_index_node *node)
{
    uint64_t hash = (uint64_t)node->major * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)node->minor;

    hash = (hash ^ hash >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94D049BB133111EB);
    hash ^= hash >> 31;
    for (int level = 1; level < MEM_INDEX_LEVELS; level++) {
        if ((hash & 3) != 0) {
            return level;
        }
        hash >>= 2;
    }
    return MEM_INDEX_LEVELS;
}

/* The last node below the keys on every level, into `last`. */
static void descend(struct mem_index *index, int64_t major, int64_t minor,
                    struct mem_index_node **last)
{
    struct mem_index_node *node = &index->head;

    for (int level = MEM_INDEX_LEVELS - 1; level >= 0; level--) {
        while (node->next[level] != NULL && is_below(node->next[level], major, minor)) {
            node = node->next[level];
        }
        last[level] = node;
    }
}

void mem_index_init(struct mem_index *index)
{
    memset(index, 0, sizeof(*index));
}

void mem_index_add(struct mem_index *index, struct mem_index_node *node)
{
    struct mem_index_node *last[MEM_INDEX_LEVELS];
    int levels = height(node);

    descend(index, node->major, node->minor, last);
    REQUIRE(last[0]->next[0] == NULL || last[0]->next[0]->major != node->major ||
            last[0]->next[0]->minor != node->minor);
    memset(node->next, 0, sizeof(node->next));
    for (int level = 0; level < levels; level++) {
        node->next[level] = last[level]->next[level];
        last[level]->next[level] = node;
    }
    index->count++;
}

void mem_index_del(struct mem_index *index, struct mem_index_node *node)
{
    struct mem_index_node *last[MEM_INDEX_LEVELS];

    descend(index, node->major, node->minor, last);
    REQUIRE(last[0]->next[0] == node);
    for (int level = 0; level < MEM_INDEX_LEVELS; level++) {
        if (last[level]->next[level] == node) {
            last[level]->next[level] = node->next[level];
        }
    }
    index->count--;
}

struct mem_index_node *mem_index_find(struct mem_index *index, int64_t major, int64_t minor)
{
    struct mem_index_node *last[MEM_INDEX_LEVELS];
    struct mem_index_node *node;

    descend(index, major, minor, last);
    node = last[0]->next[0];
    return node != NULL && node->major == major && node->minor == minor ? node : NULL;
}

struct mem_index_node *mem_index_after(struct mem_index *index, int64_t major, int64_t minor)
{
    struct mem_index_node *last[MEM_INDEX_LEVELS];
    struct mem_index_node *node;

    descend(index, major, minor, last);
    node = last[0]->next[0];
    if (node != NULL && node->major == major && node->minor == minor) {
        node = node->next[0];
    }
    return node;
}

struct mem_index_node *mem_index_first(struct mem_index *index)
{
    return index->head.next[0];
}
