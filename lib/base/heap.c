/* SPDX-License-Identifier: Apache-2.0
 *
 * The pairing heap. Nothing recurses: children are paired by walking the sibling list twice.
 */
#include "lib/base/heap.h"

#include "lib/base/check.h"

void heap_init(struct heap *heap)
{
    *heap = (struct heap){0};
}

static bool is_before(const struct heap_node *a, const struct heap_node *b)
{
    return a->key < b->key || (a->key == b->key && a->sequence < b->sequence);
}

/* Make the later of two roots the first child of the earlier one; returns the earlier one. */
static struct heap_node *meld(struct heap_node *a, struct heap_node *b)
{
    struct heap_node *winner = is_before(a, b) ? a : b;
    struct heap_node *loser = winner == a ? b : a;

    loser->previous = winner;
    loser->next = winner->child;
    if (winner->child != NULL) {
        winner->child->previous = loser;
    }
    winner->child = loser;
    winner->next = NULL;
    winner->previous = NULL;
    return winner;
}

/* Meld a list of siblings into one root: in pairs from the left, then together from the right. */
static struct heap_node *meld_siblings(struct heap_node *first)
{
    struct heap_node *pairs = NULL; // Reversed list of melded pairs, linked by next.
    struct heap_node *root = NULL;

    while (first != NULL) {
        struct heap_node *a = first;
        struct heap_node *b = a->next;
        struct heap_node *pair;

        first = b == NULL ? NULL : b->next;
        pair = b == NULL ? a : meld(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    while (pairs != NULL) {
        struct heap_node *pair = pairs;

        pairs = pair->next;
        pair->next = NULL;
        pair->previous = NULL;
        root = root == NULL ? pair : meld(root, pair);
    }
    return root;
}

void heap_add(struct heap *heap, struct heap_node *node, int64_t key)
{
    node->key = key;
    node->sequence = heap->sequence++;
    node->child = NULL;
    node->next = NULL;
    node->previous = NULL;
    heap->root = heap->root == NULL ? node : meld(heap->root, node);
    heap->count++;
}

/* Unlink a node that is not the root from its parent and siblings. */
static void cut(struct heap_node *node)
{
    if (node->previous->child == node) {
        node->previous->child = node->next;
    } else {
        node->previous->next = node->next;
    }
    if (node->next != NULL) {
        node->next->previous = node->previous;
    }
    node->next = NULL;
    node->previous = NULL;
}

void heap_del(struct heap *heap, struct heap_node *node)
{
    struct heap_node *orphans = node->child;

    REQUIRE(heap->count > 0);
    if (node == heap->root) {
        heap->root = meld_siblings(orphans);
    } else {
        cut(node);
        orphans = meld_siblings(orphans);
        if (orphans != NULL) {
            heap->root = meld(heap->root, orphans);
        }
    }
    node->child = NULL;
    heap->count--;
}

struct heap_node *heap_first(const struct heap *heap)
{
    return heap->root;
}

struct heap_node *heap_take_first(struct heap *heap)
{
    struct heap_node *first = heap->root;

    if (first != NULL) {
        heap_del(heap, first);
    }
    return first;
}
