/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree that timers are often kept in: red-black, intrusive, as the BSDs have it.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "tests/bench/bench_wheel.h"

#include <bsd/sys/tree.h>

struct timer {
    RB_ENTRY(timer) entry;
    wall_ms due_ms;
};

static volatile int64_t kept; /* so that no result is optimised away */

/* Two timers of one millisecond are told apart by where they lie. */
static int compare(const struct timer *a, const struct timer *b)
{
    if (a->due_ms != b->due_ms) {
        return a->due_ms < b->due_ms ? -1 : 1;
    }
    return a < b ? -1 : a > b;
}

RB_HEAD(timers, timer);
RB_PROTOTYPE(timers, timer, entry, compare)
RB_GENERATE(timers, timer, entry, compare)

struct figures bench_tree(size_t count)
{
    struct timer *nodes = mem_new(count, sizeof(*nodes));
    struct timers tree = RB_INITIALIZER(&tree);
    struct figures figures;
    struct timer *first;
    struct prng prng;
    int64_t from;

    REQUIRE(nodes != NULL);
    prng_init_named(&prng, 1, "bench");
    from = timer_now_ns();
    for (size_t i = 0; i < count; i++) {
        nodes[i].due_ms = timer_draw_due(&prng);
        RB_INSERT(timers, &tree, &nodes[i]);
    }
    figures.add = timer_per_op(from, count);
    from = timer_now_ns();
    for (size_t i = 0; i < count / 10; i++) {
        RB_REMOVE(timers, &tree, &nodes[timer_victim(i, count)]);
    }
    figures.cancel = timer_per_op(from, count / 10);
    from = timer_now_ns();
    while ((first = RB_MIN(timers, &tree)) != NULL) {
        kept = first->due_ms;
        RB_REMOVE(timers, &tree, first);
    }
    figures.expire = timer_per_op(from, count - count / 10);
    mem_free(nodes);
    return figures;
}
