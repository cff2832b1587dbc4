/* SPDX-License-Identifier: Apache-2.0
 *
 * The hierarchical timing wheel. Everything follows from the invariants beside struct wheel: the
 * array `split` says how far each level has been emptied into the finer one, level 0 being emptied
 * into the ready lanes; wheel_add derives a node's place from it alone.
 */
#include "broker/core/wheel.h"

#include "lib/base/check.h"

#include <string.h>

_Static_assert(sizeof(struct wheel_node) <= 24, "an entry of the window must fit 64 bytes");
_Static_assert(WHEEL_LEVELS *WHEEL_FANOUT_BITS == 64, "levels cover every 64-bit time");
_Static_assert(WHEEL_SLOTS == 2U << WHEEL_FANOUT_BITS, "a level holds two parent slots");
_Static_assert(WHEEL_LEVELS <= 32, "used_levels has a bit per level");

/* A slot that holds nodes, by its absolute number. */
struct place {
    unsigned level;
    uint64_t slot;  /* absolute number in its level */
    uint64_t start; /* first tick of the slot */
};

/* Order-preserving map of signed times to unsigned ticks; its own inverse. */
static uint64_t tick_of(wall_ms time)
{
    return (uint64_t)time ^ (UINT64_C(1) << 63);
}

static wall_ms time_of(uint64_t tick)
{
    return (wall_ms)(tick ^ (UINT64_C(1) << 63));
}

static unsigned shift_of(unsigned level)
{
    return level * WHEEL_FANOUT_BITS;
}

static struct list *slot_at(struct wheel *wheel, unsigned level, uint64_t slot)
{
    return &wheel->slots[level][slot % WHEEL_SLOTS];
}

static void mark_used(struct wheel *wheel, unsigned level, uint64_t slot)
{
    size_t i = slot % WHEEL_SLOTS;

    wheel->used[level][i / 64] |= UINT64_C(1) << (i % 64);
    wheel->used_levels |= UINT32_C(1) << level;
}

static void mark_unused(struct wheel *wheel, unsigned level, uint64_t slot)
{
    size_t i = slot % WHEEL_SLOTS;

    wheel->used[level][i / 64] &= ~(UINT64_C(1) << (i % 64));
}

/* Highest slot of the coarser level that has been split into this one. */
static uint64_t parents_split(const struct wheel *wheel, unsigned level)
{
    return level + 1 < WHEEL_LEVELS ? wheel->split[level + 1] : 0;
}

/* Offset of the first set bit at or behind `from`, cyclically; false if there is none. */
static bool first_bit(const uint64_t *words, size_t from, size_t *offset)
{
    for (size_t i = 0; i <= WHEEL_WORDS; i++) { // The word of `from` is seen twice: both its ends.
        size_t at = (from / 64 + i) % WHEEL_WORDS;
        uint64_t word = words[at];

        if (i == 0) {
            word &= UINT64_MAX << (from % 64);
        }
        if (word != 0) {
            size_t bit = at * 64 + (size_t)__builtin_ctzll(word);

            *offset = (bit - from) % WHEEL_SLOTS;
            return true;
        }
    }
    return false;
}

/* The first used slot of a level; all of them lie behind split[level]. */
static bool first_used(const struct wheel *wheel, unsigned level, struct place *place)
{
    uint64_t from = wheel->split[level] + 1;
    size_t offset;

    if (!first_bit(wheel->used[level], from % WHEEL_SLOTS, &offset)) {
        return false;
    }
    place->level = level;
    place->slot = from + offset;
    place->start = place->slot << shift_of(level);
    return true;
}

/*
 * The used slot that starts first in time. Of slots that start together the coarsest comes first,
 * since it may hold nodes of the finer ones' times.
 */
static bool next_used(struct wheel *wheel, struct place *next)
{
    bool has_next = false;

    *next = (struct place){0, 0, UINT64_MAX};
    for (uint32_t rest = wheel->used_levels; rest != 0; rest &= rest - 1) {
        unsigned level = (unsigned)__builtin_ctz(rest);
        struct place place;

        if (!first_used(wheel, level, &place)) {
            wheel->used_levels &= ~(UINT32_C(1) << level);
        } else if (place.start <= next->start) {
            *next = place;
            has_next = true;
        }
    }
    return has_next;
}

/* Move on to a tick. shape: no node lies in a slot that starts at or before it. */
static void reach(struct wheel *wheel, uint64_t tick)
{
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        uint64_t slot = tick >> shift_of(level);

        if (wheel->split[level] >= slot) {
            break; // Coarser levels are at least as far, by invariant 3.
        }
        wheel->split[level] = slot;
    }
}

/*
 * Move nodes of the slot behind split[level] into the finer level, at most `budget`. An emptied
 * slot counts as split. Returns the nodes moved.
 */
static uint32_t split_next(struct wheel *wheel, unsigned level, uint32_t budget)
{
    uint64_t slot = wheel->split[level] + 1;
    struct list *from = slot_at(wheel, level, slot);
    uint32_t moved = 0;

    REQUIRE(level >= 1 && slot >> WHEEL_FANOUT_BITS <= parents_split(wheel, level));
    for (struct list *link = list_first(from); link != NULL; link = list_first(from)) {
        struct wheel_node *node = LIST_ENTRY(link, struct wheel_node, link);
        uint64_t finer;

        if (moved == budget) {
            return moved;
        }
        __builtin_prefetch(link->next);
        list_del(link);
        finer = tick_of(node->due_ms) >> shift_of(level - 1);
        list_add(slot_at(wheel, level - 1, finer), &node->link);
        mark_used(wheel, level - 1, finer);
        moved++;
    }
    mark_unused(wheel, level, slot);
    wheel->split[level] = slot;
    return moved;
}

/*
 * Count the parents of a used slot as split. They may not be, although they are empty: when the
 * last nodes of a slot are deleted in the middle of its split.
 */
static void pass_parents(struct wheel *wheel, const struct place *place)
{
    uint64_t slot = place->slot >> WHEEL_FANOUT_BITS;

    for (unsigned level = place->level + 1; level < WHEEL_LEVELS; level++) {
        if (wheel->split[level] >= slot) {
            return;
        }
        REQUIRE(list_is_empty(slot_at(wheel, level, slot)));
        wheel->split[level] = slot;
        slot >>= WHEEL_FANOUT_BITS;
    }
}

/*
 * Split the slots behind the running ones with what the budget has left, the finest level first,
 * since it has the least time; a slot whose parent is not split yet waits for it.
 */
static void split_ahead(struct wheel *wheel, uint32_t budget)
{
    unsigned level = 1;

    while (level < WHEEL_LEVELS) {
        uint64_t running = wheel->split[0] >> shift_of(level);
        uint64_t next = wheel->split[level] + 1;

        if (next > running + 1 || next >> WHEEL_FANOUT_BITS > parents_split(wheel, level)) {
            level++;
            continue;
        }
        budget -= split_next(wheel, level, budget);
        if (wheel->split[level] != next) {
            return;
        }
        level = 1; // Finer levels may have waited for this one.
    }
}

/* Make a whole slot of the finest level ready. */
static void make_ready(struct wheel *wheel, uint64_t tick)
{
    reach(wheel, tick);
    list_move_all(&wheel->fresh, slot_at(wheel, 0, tick));
    mark_unused(wheel, 0, tick);
}

void wheel_init(struct wheel *wheel, wall_ms now)
{
    memset(wheel, 0, sizeof(*wheel));
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        for (size_t i = 0; i < WHEEL_SLOTS; i++) {
            list_init(&wheel->slots[level][i]);
        }
        wheel->split[level] = tick_of(now) >> shift_of(level);
    }
    list_init(&wheel->fresh);
    list_init(&wheel->late);
}

void wheel_node_init(struct wheel_node *node)
{
    list_init(&node->link);
    node->due_ms = 0;
}

bool wheel_has(const struct wheel_node *node)
{
    return !list_is_empty(&node->link);
}

void wheel_add(struct wheel *wheel, struct wheel_node *node, wall_ms due_ms)
{
    uint64_t tick = tick_of(due_ms);
    unsigned level = 0;

    REQUIRE(!wheel_has(node));
    node->due_ms = due_ms;
    wheel->count++;
    if (tick <= wheel->split[0]) {
        list_add(&wheel->fresh, &node->link);
        return;
    }
    while (level + 1 < WHEEL_LEVELS && tick >> shift_of(level + 1) > wheel->split[level + 1]) {
        level++;
    }
    list_add(slot_at(wheel, level, tick >> shift_of(level)), &node->link);
    mark_used(wheel, level, tick >> shift_of(level));
}

void wheel_del(struct wheel *wheel, struct wheel_node *node)
{
    struct list *head = node->link.next;
    size_t offset = (uintptr_t)head - (uintptr_t)wheel->slots;

    if (!wheel_has(node)) {
        return;
    }
    REQUIRE(wheel->count > 0);
    // A node with one neighbour is alone with the head of its slot or lane.
    if (head == node->link.previous && offset < sizeof(wheel->slots)) {
        size_t i = offset / sizeof(struct list);

        mark_unused(wheel, (unsigned)(i / WHEEL_SLOTS), i % WHEEL_SLOTS);
    }
    list_del(&node->link);
    wheel->count--;
}

bool wheel_advance(struct wheel *wheel, wall_ms now, uint32_t budget)
{
    uint64_t target = tick_of(time_max(now, wheel_now(wheel)));
    struct place next;

    REQUIRE(budget >= 1);
    if (target > wheel->split[0] && !wheel->is_behind) {
        list_move_all(&wheel->late, &wheel->fresh);
    }
    while (next_used(wheel, &next) && next.start <= target) {
        if (budget == 0) {
            wheel->is_behind = true;
            return false;
        }
        if (next.level == 0) {
            make_ready(wheel, next.start);
            budget--;
        } else {
            reach(wheel, next.start - 1);
            pass_parents(wheel, &next);
            budget -= split_next(wheel, next.level, budget);
        }
    }
    reach(wheel, target);
    wheel->is_behind = false;
    split_ahead(wheel, budget);
    return true;
}

struct wheel_node *wheel_take(struct wheel *wheel)
{
    bool has_both = !list_is_empty(&wheel->late) && !list_is_empty(&wheel->fresh);
    bool takes_late = has_both ? !wheel->took_late : !list_is_empty(&wheel->late);
    struct list *link = list_take_first(takes_late ? &wheel->late : &wheel->fresh);

    if (link == NULL) {
        return NULL;
    }
    wheel->took_late = takes_late;
    wheel->count--;
    return LIST_ENTRY(link, struct wheel_node, link);
}

wall_ms wheel_next_wake(const struct wheel *wheel)
{
    uint64_t reached = wheel->split[0];
    uint64_t wake = tick_of(WALL_NEVER);

    if (!list_is_empty(&wheel->fresh) || !list_is_empty(&wheel->late)) {
        return time_of(reached);
    }
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        struct place place;
        uint64_t start;

        if (!first_used(wheel, level, &place)) {
            continue;
        }
        // A slot above the finest level is split while its predecessor runs.
        start = level == 0 ? place.start : (place.slot - 1) << shift_of(level);
        wake = start < wake ? start : wake;
    }
    return time_of(wake > reached ? wake : reached);
}

wall_ms wheel_now(const struct wheel *wheel)
{
    return time_of(wheel->split[0]);
}

size_t wheel_count(const struct wheel *wheel)
{
    return wheel->count;
}
