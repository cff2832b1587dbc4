/* SPDX-License-Identifier: Apache-2.0
 *
 * What the intrusive heap promises, against a naive oracle.
 */
#include "lib/base/heap.h"
#include "lib/base/prng.h"

#include <criterion/criterion.h>

#define NODE_COUNT 300

Test(heap, ties_leave_in_the_order_of_adding)
{
    struct heap heap;
    struct heap_node nodes[50];

    heap_init(&heap);
    for (int i = 0; i < 50; i++) {
        heap_add(&heap, &nodes[i], i % 5);
    }
    for (int key = 0; key < 5; key++) {
        for (int i = key; i < 50; i += 5) {
            cr_assert_eq(heap_take_first(&heap), &nodes[i]);
        }
    }
    cr_assert_null(heap_take_first(&heap));
}

/* The node the heap must give: least key, then least sequence, found by looking at all. */
static struct heap_node *oracle_first(struct heap_node *nodes, const bool *inside)
{
    struct heap_node *first = NULL;

    for (int i = 0; i < NODE_COUNT; i++) {
        if (inside[i] && (first == NULL || nodes[i].key < first->key ||
                          (nodes[i].key == first->key && nodes[i].sequence < first->sequence))) {
            first = &nodes[i];
        }
    }
    return first;
}

Test(heap, agrees_with_the_oracle_through_random_adds_and_dels)
{
    static struct heap_node nodes[NODE_COUNT];
    static bool inside[NODE_COUNT];
    struct heap heap;
    struct prng prng;
    size_t count = 0;

    heap_init(&heap);
    prng_init_named(&prng, 7, "heap");
    for (int step = 0; step < 20000; step++) {
        size_t i = (size_t)prng_below(&prng, NODE_COUNT);

        if (!inside[i]) {
            heap_add(&heap, &nodes[i], prng_between(&prng, -20, 20));
            count++;
        } else if (prng_chance(&prng, 300)) {
            i = (size_t)(heap_first(&heap) - nodes);
            cr_assert_eq(heap_take_first(&heap), &nodes[i]);
            count--;
        } else {
            heap_del(&heap, &nodes[i]);
            count--;
        }
        inside[i] = !inside[i];
        cr_assert_eq(heap_count(&heap), count);
        cr_assert_eq(heap_first(&heap), oracle_first(nodes, inside));
    }
}
