/* SPDX-License-Identifier: Apache-2.0
 *
 * What the timing wheel promises: against the naive oracle over random operations and exhaustive
 * small sweeps, and under the loads that break simpler wheels.
 */
#include "broker/core/wheel.h"

#include "broker/core/wheel_check.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

#define FLEET     200 /* timers of a run against the oracle */
#define ALL       1000000
#define NOW_START 1700000000123

struct pair {
    struct wheel_node node;
    struct oracle_node twin;
    wall_ms added_at;
};

/* Wheel and oracle side by side. */
struct rig {
    struct wheel wheel;
    struct wheel_oracle oracle;
    struct pair pairs[FLEET];
    struct prng prng;
    wall_ms now;       /* goes back now and then */
    wall_ms latest;    /* largest now so far */
    wall_ms span;      /* due times are drawn within it */
    uint32_t budget;   /* largest budget of an advance */
    uint64_t take_max; /* most timers taken per round */
    uint64_t taken;
};

static struct rig rig;

static void rig_init(struct rig *r, uint64_t seed, wall_ms now)
{
    wheel_init(&r->wheel, now);
    oracle_init(&r->oracle, now);
    prng_init_named(&r->prng, seed, "wheel");
    for (int i = 0; i < FLEET; i++) {
        wheel_node_init(&r->pairs[i].node);
        list_init(&r->pairs[i].twin.link);
    }
    r->now = now;
    r->latest = now;
    r->taken = 0;
}

static void rig_check(struct rig *r)
{
    const char *broken = wheel_check(&r->wheel);
    wall_ms earliest = wheel_check_earliest(&r->wheel);

    cr_assert_null(broken, "%s", broken);
    cr_assert(wheel_next_wake(&r->wheel) <= time_max(earliest, wheel_now(&r->wheel)), "wakes late");
    if (wheel_count(&r->wheel) == 0) {
        cr_assert_eq(wheel_next_wake(&r->wheel), WALL_NEVER);
    }
}

static void rig_add(struct rig *r, struct pair *pair, wall_ms due)
{
    pair->added_at = wheel_now(&r->wheel);
    wheel_add(&r->wheel, &pair->node, due);
    oracle_add(&r->oracle, &pair->twin, due);
}

static void rig_advance(struct rig *r, uint32_t budget)
{
    bool finished = wheel_advance(&r->wheel, r->now, budget);

    r->latest = time_max(r->latest, r->now);
    oracle_advance(&r->oracle, r->now, wheel_now(&r->wheel), finished);
    cr_assert(IMPLIES(finished, wheel_now(&r->wheel) >= r->now));
    cr_assert(finished || wheel_now(&r->wheel) < r->now);
}

static void rig_take(struct rig *r, uint64_t max)
{
    struct wheel_node *node;

    for (uint64_t i = 0; i < max; i++) {
        struct oracle_node *twin = oracle_take(&r->oracle);

        node = wheel_take(&r->wheel);
        if (node == NULL) {
            cr_assert_null(twin, "a due timer was skipped");
            return;
        }
        cr_assert(node->due_ms <= r->latest, "fired early");
        cr_assert(!wheel_has(node));
        cr_assert_eq(CONTAINER_OF(node, struct pair, node), CONTAINER_OF(twin, struct pair, twin),
                     "fired out of order");
        r->taken++;
    }
}

/* Due times near and far, round and odd, past and absurd. */
static wall_ms draw_due(struct rig *r)
{
    unsigned shift = (unsigned)prng_below(&r->prng, 63);

    switch (prng_below(&r->prng, 8)) {
    case 0:
        return time_add(r->now, prng_between(&r->prng, -3, 3));
    case 1: // On a boundary of a level, or one beside it.
        return time_add(time_add(r->now, r->span) & ~(wall_ms)0xff, prng_between(&r->prng, -1, 1));
    case 2:
        return time_add(r->now, (int64_t)(prng_next(&r->prng) >> 1 >> shift));
    case 3:
        return time_add(r->now, prng_between(&r->prng, 0, 6000));
    default:
        return time_add(r->now, prng_between(&r->prng, -10, r->span));
    }
}

/* Another node takes the place, and gives it back. */
static void swap_twice(struct pair *pair)
{
    bool was_there = wheel_has(&pair->node);
    wall_ms due = pair->node.due_ms;
    struct wheel_node other;

    wheel_swap(&pair->node, &other);
    cr_assert(wheel_has(&other) == was_there && !wheel_has(&pair->node));
    pair->node.due_ms = 0;
    wheel_swap(&other, &pair->node);
    cr_assert(wheel_has(&pair->node) == was_there && pair->node.due_ms == due);
}

static void rig_step(struct rig *r)
{
    struct pair *pair = &r->pairs[prng_below(&r->prng, FLEET)];
    uint64_t kind = prng_below(&r->prng, 100);

    if (kind < 55) {
        if (!wheel_has(&pair->node)) {
            rig_add(r, pair, draw_due(r));
        }
    } else if (kind < 65) {
        wheel_del(&r->wheel, &pair->node);
        oracle_del(&pair->twin);
    } else if (kind < 67) {
        swap_twice(pair);
    } else if (kind < 75) {
        r->now = time_add(r->now, prng_between(&r->prng, -2, r->span / 4 + 2));
    } else if (kind < 90) {
        rig_advance(r, (uint32_t)prng_between(&r->prng, 1, r->budget));
    } else {
        rig_take(r, prng_below(&r->prng, r->take_max) + 1);
    }
}

static void rig_run(struct rig *r, int step_count)
{
    for (int step = 0; step < step_count; step++) {
        rig_step(r);
        if (step % 97 == 0) {
            rig_check(r);
        }
    }
}

Test(wheel, agrees_with_the_oracle_over_random_operations)
{
    const wall_ms spans[] = {4, 3000, 70000, 20000000, INT64_C(40) << 32, INT64_MAX / 4};
    uint64_t taken = 0;

    for (size_t i = 0; i < ARRAY_COUNT(spans) * 6; i++) {
        rig.span = spans[i % ARRAY_COUNT(spans)];
        rig.budget = i % 2 == 0 ? 1000 : 3;
        rig.take_max = i % 3 == 0 ? 300 : 4;
        rig_init(&rig, i, NOW_START + (wall_ms)i * 77777);
        rig_run(&rig, 60000);
        taken += rig.taken;
    }
    cr_assert(taken > 100000, "the run hardly fired anything");
}

Test(wheel, agrees_with_the_oracle_at_the_ends_of_time)
{
    const wall_ms starts[] = {INT64_MIN, INT64_MIN + 255, -300, 0, INT64_MAX - 100000};

    for (size_t i = 0; i < ARRAY_COUNT(starts); i++) {
        rig.span = i % 2 == 0 ? 2000 : INT64_MAX / 2;
        rig.budget = 50;
        rig.take_max = 20;
        rig_init(&rig, i, starts[i]);
        rig_run(&rig, 40000);
        rig.now = INT64_MAX;
        rig_advance(&rig, UINT32_MAX);
        rig_take(&rig, UINT64_MAX);
        cr_assert_eq(wheel_count(&rig.wheel), 0);
    }
}

/* Each due time of a small range, from each of several starts, stepped millisecond by millisecond:
 * handed out in exactly that millisecond, woken for in time. */
Test(wheel, fires_each_near_due_time_in_its_millisecond)
{
    for (wall_ms start = (1 << 21) - 602; start < (1 << 21) + 4; start += 3) {
        static struct wheel_node nodes[600];
        static struct wheel wheel;

        wheel_init(&wheel, start);
        for (int i = 0; i < 600; i++) {
            wheel_node_init(&nodes[i]);
            wheel_add(&wheel, &nodes[i], start + i);
        }
        for (int i = 0; i < 600; i++) {
            cr_assert(wheel_next_wake(&wheel) <= start + i);
            cr_assert(wheel_advance(&wheel, start + i, 1000));
            cr_assert_eq(wheel_take(&wheel), &nodes[i], "start %ld, due %d", (long)start, i);
            cr_assert_null(wheel_take(&wheel));
        }
    }
}

/* Sleep only as long as next_wake says, for each distance around each power of two. */
Test(wheel, wakes_in_time_with_few_wakes_for_any_delay)
{
    static struct wheel wheel;

    for (unsigned bits = 0; bits < 62; bits++) {
        for (wall_ms near = -2; near <= 2; near++) {
            wall_ms due = time_add(NOW_START, (INT64_C(1) << bits) + near);
            struct wheel_node node;
            int wakes = 0;

            wheel_init(&wheel, NOW_START);
            wheel_node_init(&node);
            wheel_add(&wheel, &node, due);
            for (;;) {
                wall_ms wake = wheel_next_wake(&wheel);
                struct wheel_node *taken;

                cr_assert(wake <= time_max(due, NOW_START));
                cr_assert(wheel_advance(&wheel, wake, 10));
                wakes++;
                taken = wheel_take(&wheel);
                if (taken != NULL) {
                    cr_assert(wake == due || due <= NOW_START);
                    break;
                }
            }
            cr_assert(wakes <= 7, "2^%u%+ld: %d wakes", bits, (long)near, wakes);
        }
    }
}

Test(wheel, holds_constant_memory_and_fires_only_the_due_one_a_full_turn_apart)
{
    static struct wheel wheel;
    const unsigned turns[] = {11, 12, 20, 21, 29, 38, 47, 56};
    int64_t blocks = mem_block_count();

    for (size_t i = 0; i < ARRAY_COUNT(turns); i++) {
        struct wheel_node near;
        struct wheel_node far;
        wall_ms turn = INT64_C(1) << turns[i];

        wheel_init(&wheel, NOW_START);
        wheel_node_init(&near);
        wheel_node_init(&far);
        wheel_add(&wheel, &far, NOW_START + 5 + turn);
        wheel_add(&wheel, &near, NOW_START + 5);
        cr_assert(wheel_advance(&wheel, NOW_START + 5, 10));
        cr_assert_eq(wheel_take(&wheel), &near);
        cr_assert_null(wheel_take(&wheel));
        cr_assert(wheel_advance(&wheel, NOW_START + 4 + turn, 100));
        cr_assert_null(wheel_take(&wheel));
        cr_assert(wheel_advance(&wheel, NOW_START + 5 + turn, 100));
        cr_assert_eq(wheel_take(&wheel), &far);
    }
    cr_assert_eq(mem_block_count(), blocks);
}

Test(wheel, fires_a_task_due_exactly_at_the_tick_in_that_tick)
{
    static struct wheel wheel;
    struct wheel_node node;

    wheel_init(&wheel, NOW_START);
    wheel_node_init(&node);
    wheel_add(&wheel, &node, NOW_START + 1000);
    cr_assert(wheel_advance(&wheel, NOW_START + 999, 100));
    cr_assert_null(wheel_take(&wheel));
    cr_assert(wheel_advance(&wheel, NOW_START + 1000, 100));
    cr_assert_eq(wheel_take(&wheel), &node);
    wheel_add(&wheel, &node, NOW_START + 1000);
    cr_assert_eq(wheel_take(&wheel), &node, "due now means ready now");
}

Test(wheel, drains_every_slot_in_order_after_a_jump_of_an_hour)
{
    static struct wheel wheel;
    struct wheel_node *nodes = mem_new(36000, sizeof(*nodes));
    wall_ms previous = 0;
    uint32_t slices = 1;

    cr_assert_not_null(nodes);
    wheel_init(&wheel, NOW_START);
    for (int i = 0; i < 36000; i++) { // Added in a shuffled order.
        int k = (int)((int64_t)i * 7919 % 36000);

        wheel_node_init(&nodes[i]);
        wheel_add(&wheel, &nodes[i], NOW_START + k * 100);
    }
    while (!wheel_advance(&wheel, NOW_START + 3600000, 500)) {
        slices++;
    }
    cr_assert(slices > 36000 / 500);
    for (int i = 0; i < 36000; i++) {
        struct wheel_node *node = wheel_take(&wheel);

        cr_assert_not_null(node);
        cr_assert(node->due_ms > previous);
        previous = node->due_ms;
    }
    cr_assert_null(wheel_take(&wheel));
    mem_free(nodes);
}

Test(wheel, a_step_backwards_changes_nothing)
{
    static struct wheel wheel;
    struct wheel_node node;

    wheel_init(&wheel, NOW_START);
    wheel_node_init(&node);
    cr_assert(wheel_advance(&wheel, NOW_START + 500, 10));
    wheel_add(&wheel, &node, NOW_START + 600);
    cr_assert(wheel_advance(&wheel, NOW_START - 5000, 10));
    cr_assert_eq(wheel_now(&wheel), NOW_START + 500);
    cr_assert_null(wheel_take(&wheel));
    cr_assert_eq(wheel_next_wake(&wheel), NOW_START + 600);
    cr_assert(wheel_advance(&wheel, NOW_START + 600, 10));
    cr_assert_eq(wheel_take(&wheel), &node);
}

Test(wheel, jumps_over_ten_empty_years_at_once)
{
    static struct wheel wheel;
    struct wheel_node node;

    wheel_init(&wheel, NOW_START);
    wheel_node_init(&node);
    wheel_add(&wheel, &node, NOW_START + INT64_C(315576000000));
    cr_assert(wheel_advance(&wheel, NOW_START + INT64_C(315576000000) - 1, 100));
    cr_assert_null(wheel_take(&wheel));
    cr_assert(wheel_advance(&wheel, NOW_START + INT64_C(315576000000), 100));
    cr_assert_eq(wheel_take(&wheel), &node);
}

/*
 * One million timers due at `due`, and one unrelated timer each millisecond around it. Each
 * millisecond is a round of at most `moves` moves and `takes` takes, which is far less than the
 * million needs. The unrelated ones must not wait.
 */
static void check_unrelated(wall_ms start, wall_ms due, uint32_t moves, int takes)
{
    static struct wheel wheel;
    static struct wheel_node others[400];
    struct wheel_node *crowd = mem_new(ALL, sizeof(*crowd));
    wall_ms first = due - 200;
    int crowd_count = 0;
    int other_count = 0;

    cr_assert_not_null(crowd);
    wheel_init(&wheel, start);
    for (int i = 0; i < ALL; i++) {
        wheel_node_init(&crowd[i]);
        wheel_add(&wheel, &crowd[i], due);
    }
    for (int i = 0; i < 400; i++) { // At the end of the lists, behind the crowd.
        wheel_node_init(&others[i]);
        wheel_add(&wheel, &others[i], first + i + (first + i >= due));
    }
    for (wall_ms now = start; crowd_count < ALL; now++) {
        cr_assert(wheel_advance(&wheel, now, moves), "behind at due%+ld", (long)(now - due));
        for (int i = 0; i < takes; i++) {
            struct wheel_node *node = wheel_take(&wheel);

            if (node == NULL) {
                break;
            }
            cr_assert(node->due_ms <= now);
            if (node >= others && node < others + 400) {
                cr_assert(now - node->due_ms <= 1, "an unrelated timer waited");
                other_count++;
            } else {
                cr_assert_eq(node, &crowd[crowd_count], "the crowd lost its order");
                crowd_count++;
            }
        }
    }
    cr_assert_eq(other_count, 400);
    cr_assert_null(wheel_check(&wheel));
    mem_free(crowd);
}

Test(wheel, a_million_in_one_slot_delay_no_other_slot)
{
    check_unrelated(NOW_START, NOW_START + 300, 8000, 4000);
}

Test(wheel, a_million_on_a_boundary_of_the_first_level_delay_nobody)
{
    wall_ms due = (NOW_START / 2048 + 8) * 2048;

    check_unrelated(due - 7000, due, 8000, 4000);
}

Test(wheel, a_million_on_a_boundary_of_the_second_level_delay_nobody)
{
    wall_ms due = ((NOW_START >> 21) + 3) << 21;

    check_unrelated(due - (1 << 21) - 1000, due, 8000, 4000);
}

Test(wheel, never_moves_more_than_its_budget_in_one_call)
{
    static struct wheel wheel;
    const int count = 100000;
    struct wheel_node *nodes = mem_new((size_t)count, sizeof(*nodes));
    wall_ms due = NOW_START + 3 * (1 << 21);
    int slices = 0;

    cr_assert_not_null(nodes);
    wheel_init(&wheel, NOW_START);
    for (int i = 0; i < count; i++) {
        wheel_node_init(&nodes[i]);
        wheel_add(&wheel, &nodes[i], due);
    }
    while (!wheel_advance(&wheel, due, 1000)) { // A jump: two splits of all nodes are owed.
        slices++;
    }
    cr_assert(slices >= 2 * count / 1000 - 1, "%d slices", slices);
    for (int i = 0; i < count; i++) {
        cr_assert_eq(wheel_take(&wheel), &nodes[i]);
    }
    mem_free(nodes);
}

Test(wheel, keeps_the_order_of_adding_while_a_slot_is_being_split)
{
    static struct wheel wheel;
    static struct wheel_node nodes[3000];
    const wall_ms base = 1 << 21;
    const wall_ms due = base + 5000; // In slot 2 of level 1: its split begins with slot 1.

    wheel_init(&wheel, base);
    for (int i = 0; i < 3000; i++) {
        wheel_node_init(&nodes[i]);
    }
    for (int i = 0; i < 1000; i++) {
        wheel_add(&wheel, &nodes[i], due);
    }
    cr_assert_eq(wheel_next_wake(&wheel), base + 2048);
    cr_assert(wheel_advance(&wheel, base + 2048, 100)); // The split has begun and is not done.
    for (int i = 1000; i < 2000; i++) {
        wheel_add(&wheel, &nodes[i], due);
    }
    cr_assert_null(wheel_check(&wheel));
    cr_assert(wheel_next_wake(&wheel) <= base + 2048, "unfinished splits are work");
    cr_assert(wheel_advance(&wheel, base + 2100, 100000));
    cr_assert_eq(wheel_next_wake(&wheel), due);
    for (int i = 2000; i < 3000; i++) {
        wheel_add(&wheel, &nodes[i], due);
    }
    cr_assert(wheel_advance(&wheel, due, 100));
    for (int i = 0; i < 3000; i++) {
        cr_assert_eq(wheel_take(&wheel), &nodes[i]);
    }
}

/* A split that is never finished, because what was left of the slot is deleted. */
Test(wheel, goes_on_when_the_rest_of_a_half_split_slot_is_deleted)
{
    for (int gone = 0; gone < 2; gone++) {
        static struct wheel wheel;
        struct wheel_node nodes[2];
        wall_ms due = INT64_C(5) << 21; // The first moment of a slot of level 2.

        wheel_init(&wheel, INT64_C(3) << 21);
        for (int i = 0; i < 2; i++) {
            wheel_node_init(&nodes[i]);
            wheel_add(&wheel, &nodes[i], due);
        }
        cr_assert(wheel_advance(&wheel, INT64_C(4) << 21, 1)); // Moves the first of the two.
        wheel_del(&wheel, &nodes[gone]);
        cr_assert_null(wheel_check(&wheel));
        cr_assert(wheel_advance(&wheel, due - 1, 100));
        cr_assert_null(wheel_take(&wheel));
        cr_assert(wheel_advance(&wheel, due, 100));
        cr_assert_eq(wheel_take(&wheel), &nodes[1 - gone]);
        cr_assert_null(wheel_check(&wheel));

        wheel_init(&wheel, INT64_C(3) << 21); // The same with a jump.
        wheel_add(&wheel, &nodes[0], due);
        wheel_add(&wheel, &nodes[1], due);
        cr_assert(wheel_advance(&wheel, INT64_C(4) << 21, 1));
        wheel_del(&wheel, &nodes[gone]);
        cr_assert(wheel_advance(&wheel, due + 1000000, 100));
        cr_assert_eq(wheel_take(&wheel), &nodes[1 - gone]);
    }
}

Test(wheel, wakes_for_the_next_timer_although_a_nearer_one_was_deleted)
{
    static struct wheel wheel;
    struct wheel_node nodes[3];

    wheel_init(&wheel, NOW_START);
    for (int i = 0; i < 3; i++) {
        wheel_node_init(&nodes[i]);
        wheel_add(&wheel, &nodes[i], NOW_START + 100 + i);
    }
    cr_assert(wheel_advance(&wheel, NOW_START + 1, 100));
    cr_assert_eq(wheel_next_wake(&wheel), NOW_START + 100);
    wheel_del(&wheel, &nodes[0]);
    cr_assert_eq(wheel_next_wake(&wheel), NOW_START + 101);
    cr_assert(wheel_advance(&wheel, NOW_START + 101, 100));
    cr_assert_eq(wheel_take(&wheel), &nodes[1]);
    cr_assert_eq(wheel_next_wake(&wheel), NOW_START + 102);
    wheel_add(&wheel, &nodes[0], NOW_START + 101 + 1);
    wheel_del(&wheel, &nodes[2]);
    cr_assert_eq(wheel_next_wake(&wheel), NOW_START + 102);
    wheel_del(&wheel, &nodes[0]);
    cr_assert_eq(wheel_next_wake(&wheel), WALL_NEVER);
}

/* A broker has two for each database, nearly all of whose slots never come into use. */
Test(wheel, begins_in_any_memory_and_touches_little_of_it)
{
    static struct wheel wheel;
    struct wheel_node node;
    size_t touched = 0;

    memset(&wheel, 0xa5, sizeof(wheel));
    wheel_init(&wheel, NOW_START);
    wheel_node_init(&node);
    for (wall_ms ahead_ms = 1; ahead_ms < 1000000000000; ahead_ms *= 2) {
        wheel_add(&wheel, &node, NOW_START + ahead_ms);
        cr_assert_null(wheel_check(&wheel));
        wheel_del(&wheel, &node);
        cr_assert_null(wheel_check(&wheel));
    }
    wheel_add(&wheel, &node, NOW_START + 1);
    cr_assert(wheel_advance(&wheel, NOW_START + 1, 1));
    cr_assert_eq(wheel_take(&wheel), &node);
    for (size_t i = 0; i < sizeof(wheel.heads); i++) {
        touched += ((const unsigned char *)wheel.heads)[i] != 0xa5;
    }
    cr_assert(touched <= 4096, "%zu bytes of slots", touched);
}

/* ---- what a cancel reads ---- */

#define SPREAD 64 /* timers, each alone in its page */

/* The lists of all slots, and behind them a page for each timer. */
struct spread {
    size_t page;
    uint8_t *nodes;
    struct wheel *wheel;
    size_t guarded; /* of its bytes: whole pages that hold lists and nothing else */
    volatile sig_atomic_t touched;
};

static struct spread spread;

static struct wheel_node *node_of(int i)
{
    return (struct wheel_node *)(void *)(spread.nodes + (size_t)i * spread.page);
}

static void guard(int protection)
{
    cr_assert_eq(mprotect(spread.wheel, spread.guarded, protection), 0);
    cr_assert_eq(mprotect(spread.nodes, SPREAD * spread.page, protection), 0);
}

/* A guarded page is touched: count it, and let it be touched from now on. */
static void on_touch(int number, siginfo_t *info, void *context)
{
    uint8_t *at = info->si_addr;

    (void)number;
    (void)context;
    spread.touched++;
    REQUIRE(mprotect(at - (uintptr_t)at % spread.page, spread.page, PROT_READ | PROT_WRITE) == 0);
}

static void *map_pages(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(pages, MAP_FAILED);
    return pages;
}

static void spread_init(void)
{
    struct sigaction action = {.sa_sigaction = on_touch, .sa_flags = SA_SIGINFO};

    spread.page = (size_t)sysconf(_SC_PAGESIZE);
    spread.nodes = map_pages(SPREAD * spread.page);
    spread.wheel = map_pages(sizeof(*spread.wheel));
    spread.guarded = sizeof(spread.wheel->heads) / spread.page * spread.page;
    cr_assert_eq(sigaction(SIGSEGV, &action, NULL), 0);
    wheel_init(spread.wheel, NOW_START);
}

/* DESIGN 15. What is not counted are 22 KiB of bits and counters behind the lists, which all timers
 * share, and the node itself, which whoever cancels has looked at. */
Test(wheel, a_cancel_touches_two_places_in_memory_at_most)
{
    struct prng prng;

    spread_init();
    prng_init(&prng, 15);
    for (int round = 0; round < 200; round++) {
        wall_ms span = INT64_C(1) << prng_below(&prng, 40);
        int victim = (int)prng_below(&prng, SPREAD);
        const struct wheel_node *node = node_of(victim);

        for (int i = 0; i < SPREAD; i++) {
            wheel_node_init(node_of(i));
            wheel_add(spread.wheel, node_of(i),
                      NOW_START + (wall_ms)prng_below(&prng, (uint64_t)span));
        }
        guard(PROT_NONE);
        cr_assert_eq(mprotect(node_of(victim), spread.page, PROT_READ | PROT_WRITE), 0);
        spread.touched = 0;
        wheel_del(spread.wheel, node_of(victim));
        cr_assert(spread.touched >= 1 && spread.touched <= 2, "%d places, due at %" PRId64,
                  (int)spread.touched, node->due_ms);
        guard(PROT_READ | PROT_WRITE);
        cr_assert_null(wheel_check(spread.wheel));
        for (int i = 0; i < SPREAD; i++) {
            wheel_del(spread.wheel, node_of(i));
        }
    }
}

Test(wheel, an_invariant_check_bites)
{
    static struct wheel wheel;
    struct wheel_node node;

    wheel_init(&wheel, NOW_START);
    wheel_node_init(&node);
    wheel_add(&wheel, &node, NOW_START + 100);
    cr_assert_null(wheel_check(&wheel));
    node.due_ms++;
    cr_assert_not_null(wheel_check(&wheel));
    node.due_ms--;
    wheel.count++;
    cr_assert_not_null(wheel_check(&wheel));
    wheel.count--;
    wheel.split[1] += 2;
    cr_assert_not_null(wheel_check(&wheel));
    wheel.split[1] -= 2;
    wheel.used[0] ^= 1;
    cr_assert_not_null(wheel_check(&wheel));
    wheel.used[0] ^= 1;
    wheel.busy[(NOW_START + 100) % 4096] = 0; // Both halves of level 0.
    cr_assert_not_null(wheel_check(&wheel));
    wheel.busy[(NOW_START + 100) % 4096] = 3;
    cr_assert_not_null(wheel_check(&wheel));
    wheel.busy[(NOW_START + 100) % 4096] = 1;
    cr_assert_null(wheel_check(&wheel));
    wheel.quiet_until = UINT64_MAX;
    cr_assert_not_null(wheel_check(&wheel));
}
