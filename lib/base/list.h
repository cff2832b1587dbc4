/* SPDX-License-Identifier: Apache-2.0
 *
 * Intrusive doubly linked list with a sentinel. Nodes live inside their owner's struct; the list
 * allocates nothing and frees nothing. A node that is in no list points to itself.
 */
#ifndef FOLIOT_LIB_BASE_LIST_H
#define FOLIOT_LIB_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *previous;
};

/* Make an empty list, or a node that is in no list. */
static inline void list_init(struct list *list)
{
    list->next = list;
    list->previous = list;
}

static inline bool list_is_empty(const struct list *list)
{
    return list->next == list;
}

/* Add at the end. shape: node is in no list. */
static inline void list_add(struct list *list, struct list *node)
{
    node->previous = list->previous;
    node->next = list;
    list->previous->next = node;
    list->previous = node;
}

/* Add at the front. shape: node is in no list. */
static inline void list_add_first(struct list *list, struct list *node)
{
    list_add(list->next, node);
}

/* Take a node out of its list; harmless for a node that is in none. */
static inline void list_del(struct list *node)
{
    node->previous->next = node->next;
    node->next->previous = node->previous;
    list_init(node);
}

/* First node, or NULL if empty. */
static inline struct list *list_first(struct list *list)
{
    return list->next == list ? NULL : list->next;
}

/* Take the first node out, or NULL if empty. */
static inline struct list *list_take_first(struct list *list)
{
    struct list *node = list_first(list);

    if (node != NULL) {
        list_del(node);
    }
    return node;
}

/* Move all nodes of `from` to the end of `to`, in order; `from` is empty after it. */
static inline void list_move_all(struct list *to, struct list *from)
{
    if (list_is_empty(from)) {
        return;
    }
    from->next->previous = to->previous;
    from->previous->next = to;
    to->previous->next = from->next;
    to->previous = from->previous;
    list_init(from);
}

#define LIST_ENTRY(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

/* Walk; the list must not change under it. */
#define list_foreach(node, head) \
    for (struct list *node = (head)->next; node != (head); node = node->next)

/* Walk; the current node may be deleted or freed. */
#define list_foreach_safe(node, after, head)                                    \
    for (struct list *node = (head)->next, *after = node->next; node != (head); \
         node = after, after = node->next)

#endif
