/* SPDX-License-Identifier: Apache-2.0
 *
 * What a timer costs: the wheel against a binary heap, the pairing heap of lib/base and a red-black
 * tree, at ten thousand and ten million live timers, and the longest single call when a million
 * timers meet one slot or one boundary. Prints tables; decides nothing.
 */
#include "tests/bench/bench_wheel.h"
#include "broker/core/wheel.h"
#include "lib/base/check.h"
#include "lib/base/heap.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/base/slabs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SPAN_MS (INT64_C(3600) * 1000) /* due times spread over an hour, as in a window */
#define START   INT64_C(1767323045678)
#define CROWD   1000000

/* A task asleep with 100 bytes of payload, the node in front. */
#define TASK_BYTES 152U

static struct wheel wheel;
static volatile int64_t kept; /* so that no result is optimised away */

int64_t timer_now_ns(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

double timer_per_op(int64_t from, size_t count)
{
    return (double)(timer_now_ns() - from) / (double)count;
}

wall_ms timer_draw_due(struct prng *prng)
{
    return START + 1 + (wall_ms)prng_below(prng, SPAN_MS);
}

size_t timer_victim(size_t i, size_t count)
{
    return (i * UINT64_C(2654435761)) % (count / 10) * 10 + 3;
}

/* Nodes at the start of objects of `bytes`, where a broker's tasks lie. */
static struct wheel_node **take_nodes(struct slabs *slabs, size_t count, size_t bytes)
{
    struct wheel_node **nodes = mem_new(count, sizeof(*nodes));

    REQUIRE(nodes != NULL);
    for (size_t i = 0; i < count; i++) {
        uint32_t number = slabs_take(slabs, bytes);

        REQUIRE(number != 0);
        nodes[i] = slabs_at(slabs, number);
        wheel_node_init(nodes[i]);
    }
    return nodes;
}

/* Those to be cancelled, looked up before the clock runs: an owner has the node in its hands. */
static struct wheel_node **find_victims(struct wheel_node **nodes, size_t count)
{
    struct wheel_node **victims = mem_new(count / 10, sizeof(*victims));

    REQUIRE(victims != NULL);
    for (size_t i = 0; i < count / 10; i++) {
        victims[i] = nodes[timer_victim(i, count)];
    }
    return victims;
}

static struct figures run_wheel(size_t count, size_t bytes)
{
    struct slabs slabs;
    struct wheel_node **nodes;
    struct wheel_node **victims;
    struct figures figures;
    struct prng prng;
    size_t taken = 0;
    int64_t from;

    slabs_init(&slabs);
    nodes = take_nodes(&slabs, count, bytes);
    victims = find_victims(nodes, count);
    prng_init_named(&prng, 1, "bench");
    wheel_init(&wheel, START);
    (void)wheel_advance(&wheel, START, 10000); // As a turn of the broker does before it adds.
    from = timer_now_ns();
    for (size_t i = 0; i < count; i++) {
        wheel_add(&wheel, nodes[i], timer_draw_due(&prng));
    }
    figures.add = timer_per_op(from, count);
    from = timer_now_ns();
    for (size_t i = 0; i < count / 10; i++) {
        wheel_del(&wheel, victims[i]);
    }
    figures.cancel = timer_per_op(from, count / 10);
    from = timer_now_ns();
    while (wheel_count(&wheel) > 0) {
        struct wheel_node *node;

        (void)wheel_advance(&wheel, wheel_next_wake(&wheel), 10000);
        while ((node = wheel_take(&wheel)) != NULL) {
            kept = node->due_ms;
            taken++;
        }
    }
    figures.expire = timer_per_op(from, taken);
    mem_free(victims);
    mem_free(nodes);
    slabs_drop(&slabs);
    return figures;
}

static struct figures run_pairing(size_t count)
{
    struct heap_node *nodes = mem_new(count, sizeof(*nodes));
    struct figures figures;
    struct heap heap;
    struct heap_node *node;
    struct prng prng;
    int64_t from;

    REQUIRE(nodes != NULL);
    prng_init_named(&prng, 1, "bench");
    heap_init(&heap);
    from = timer_now_ns();
    for (size_t i = 0; i < count; i++) {
        heap_add(&heap, &nodes[i], timer_draw_due(&prng));
    }
    figures.add = timer_per_op(from, count);
    from = timer_now_ns();
    for (size_t i = 0; i < count / 10; i++) {
        heap_del(&heap, &nodes[timer_victim(i, count)]);
    }
    figures.cancel = timer_per_op(from, count / 10);
    from = timer_now_ns();
    while ((node = heap_take_first(&heap)) != NULL) {
        kept = node->key;
    }
    figures.expire = timer_per_op(from, count - count / 10);
    mem_free(nodes);
    return figures;
}

/* The textbook binary heap: keys in the array, a back index in the node. */
struct entry {
    wall_ms due_ms;
    uint32_t node;
};

struct binary {
    struct entry *entries;
    uint32_t *places; /* node → index */
    size_t count;
};

static void place(struct binary *heap, size_t i, struct entry entry)
{
    heap->entries[i] = entry;
    heap->places[entry.node] = (uint32_t)i;
}

static void lift(struct binary *heap, size_t i, struct entry entry)
{
    while (i > 0 && heap->entries[(i - 1) / 2].due_ms > entry.due_ms) {
        place(heap, i, heap->entries[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(heap, i, entry);
}

static void lower(struct binary *heap, size_t i, struct entry entry)
{
    size_t child;

    while ((child = 2 * i + 1) < heap->count) {
        child += child + 1 < heap->count &&
                 heap->entries[child + 1].due_ms < heap->entries[child].due_ms;
        if (heap->entries[child].due_ms >= entry.due_ms) {
            break;
        }
        place(heap, i, heap->entries[child]);
        i = child;
    }
    place(heap, i, entry);
}

static void take_out(struct binary *heap, size_t i)
{
    struct entry last = heap->entries[--heap->count];

    if (i == heap->count) {
        return;
    }
    if (i > 0 && heap->entries[(i - 1) / 2].due_ms > last.due_ms) {
        lift(heap, i, last);
    } else {
        lower(heap, i, last);
    }
}

static struct figures run_binary(size_t count)
{
    struct binary heap = {mem_new(count, sizeof(struct entry)), mem_new(count, sizeof(uint32_t)),
                          0};
    struct figures figures;
    struct prng prng;
    int64_t from;

    REQUIRE(heap.entries != NULL && heap.places != NULL);
    prng_init_named(&prng, 1, "bench");
    from = timer_now_ns();
    for (size_t i = 0; i < count; i++) {
        heap.count++;
        lift(&heap, i, (struct entry){timer_draw_due(&prng), (uint32_t)i});
    }
    figures.add = timer_per_op(from, count);
    from = timer_now_ns();
    for (size_t i = 0; i < count / 10; i++) {
        take_out(&heap, heap.places[timer_victim(i, count)]);
    }
    figures.cancel = timer_per_op(from, count / 10);
    from = timer_now_ns();
    while (heap.count > 0) {
        kept = heap.entries[0].due_ms;
        take_out(&heap, 0);
    }
    figures.expire = timer_per_op(from, count - count / 10);
    mem_free(heap.entries);
    mem_free(heap.places);
    return figures;
}

static void print_row(const char *name, const struct figures *small, const struct figures *large,
                      const struct figures *wheel_large)
{
    printf("| %-12s | %4.0f / %4.0f | %4.0f / %4.0f | %4.0f / %5.0f | %4.1f | %4.1f | %4.1f |\n",
           name, small->add, large->add, small->cancel, large->cancel, small->expire, large->expire,
           large->add / wheel_large->add, large->cancel / wheel_large->cancel,
           large->expire / wheel_large->expire);
}

static void compare(size_t small, size_t large)
{
    struct figures wheel_small = run_wheel(small, sizeof(struct wheel_node));
    struct figures wheel_large = run_wheel(large, sizeof(struct wheel_node));
    struct figures tasks_small = run_wheel(small, TASK_BYTES);
    struct figures tasks_large = run_wheel(large, TASK_BYTES);
    struct figures binary_small = run_binary(small);
    struct figures binary_large = run_binary(large);
    struct figures pairing_small = run_pairing(small);
    struct figures pairing_large = run_pairing(large);
    struct figures tree_small = bench_tree(small);
    struct figures tree_large = bench_tree(large);

    printf("ns per operation, %zu / %zu timers over an hour; the last columns are times the wheel "
           "at %zu\n\n",
           small, large, large);
    printf("| structure    | add         | cancel      | expire       | add  | canc | exp  |\n");
    printf("|--------------|-------------|-------------|--------------|------|------|------|\n");
    print_row("wheel", &wheel_small, &wheel_large, &wheel_large);
    print_row("wheel, tasks", &tasks_small, &tasks_large, &wheel_large);
    print_row("binary heap", &binary_small, &binary_large, &wheel_large);
    print_row("pairing heap", &pairing_small, &pairing_large, &wheel_large);
    print_row("tree", &tree_small, &tree_large, &wheel_large);
}

/* A million timers at `due`, rounds of one millisecond from `start`: the longest round. */
static void run_crowd(const char *name, wall_ms start, wall_ms due)
{
    struct wheel_node *nodes = mem_new(CROWD, sizeof(*nodes));
    int64_t worst_ns = 0;
    int64_t total_ns = 0;
    wall_ms now = start;

    REQUIRE(nodes != NULL);
    wheel_init(&wheel, start);
    for (size_t i = 0; i < CROWD; i++) {
        wheel_node_init(&nodes[i]);
        wheel_add(&wheel, &nodes[i], due);
    }
    while (wheel_count(&wheel) > 0) {
        int64_t from = timer_now_ns();
        int64_t spent_ns;

        (void)wheel_advance(&wheel, now, 10000);
        for (int i = 0; i < 10000; i++) {
            struct wheel_node *node = wheel_take(&wheel);

            kept += node != NULL;
        }
        spent_ns = timer_now_ns() - from;
        worst_ns = spent_ns > worst_ns ? spent_ns : worst_ns;
        total_ns += spent_ns;
        now = now + 1 > wheel_next_wake(&wheel) ? now + 1 : wheel_next_wake(&wheel);
    }
    printf("| %-28s | %10.2f | %10.1f |\n", name, (double)worst_ns / 1e6, (double)total_ns / CROWD);
    mem_free(nodes);
}

int main(int argc, char **argv)
{
    size_t large = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 10000000;

    if (large < 10000 || large > UINT32_MAX) {
        (void)fprintf(stderr, "usage: bench_wheel [timers, at least 10000]\n");
        return 2;
    }
    printf("wheel node %zu bytes, wheel %zu bytes\n\n", sizeof(struct wheel_node),
           sizeof(struct wheel));
    compare(10000, large);
    printf("\na million timers at once, rounds of 10000 moves and 10000 takes\n\n");
    printf("| where                        | worst, ms  | ns/timer   |\n");
    printf("|------------------------------|------------|------------|\n");
    run_crowd("one slot", START, START + 200);
    run_crowd("boundary of level 1 (2 s)", START, ((START >> 11) + 8) << 11);
    run_crowd("boundary of level 2 (35 min)", START, ((START >> 21) + 3) << 21);
    return 0;
}
