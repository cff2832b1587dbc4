/* SPDX-License-Identifier: Apache-2.0
 *
 * The hierarchical timing wheel. Everything follows from the invariants beside struct wheel: the
 * array `split` says how far each level has been emptied into the finer one, level 0 being emptied
 * into the ready lanes; wheel_add derives a node's place from it alone.
 */
#include "broker/core/wheel.h"

#include "lib/base/check.h"

#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(struct wheel_node) <= 24, "an entry of the window must fit 64 bytes");

/* Lists of a slot of level 1: about as many reads of memory as a processor has under way at a time.
 */
#define CHAINS_MAX 16U

/* Slots of level 0 between the one that becomes ready and those whose nodes are fetched from
 * memory: first the ends of their list, then what lies next to these. */
#define FETCH_ENDS  16U
#define FETCH_INNER 8U

const struct wheel_level WHEEL_LEVEL[WHEEL_LEVELS] = {
    {11, 0, 1, 0, 0},                 // 1 ms
    {10, 11, CHAINS_MAX, 4096, 4096}, // 2 s
    {9, 21, 4, 6144, 36864},          // 35 min
    {9, 30, 4, 7168, 40960},          // 12 days
    {9, 39, 4, 8192, 45056},          // 17 years
    {8, 48, 4, 9216, 49152},          // 9 000 years
    {8, 56, 4, 9728, 51200},          // 2 million years
};

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

/* Absolute number of the slot of a level that a tick lies in. */
static uint64_t slot_of(unsigned level, uint64_t tick)
{
    return tick >> WHEEL_LEVEL[level].shift;
}

/* Absolute number, in the coarser level, of the slot that a slot is a part of. */
static uint64_t parent_of(unsigned level, uint64_t slot)
{
    return slot >> WHEEL_LEVEL[level].bits;
}

/* Slots of a level. */
static size_t count_of(unsigned level)
{
    return (size_t)2 << WHEEL_LEVEL[level].bits;
}

/* Place of a slot in its level's ring. */
static size_t ring_of(unsigned level, uint64_t slot)
{
    return (size_t)(slot & (count_of(level) - 1));
}

/* The first list of a slot. */
static struct list *lists_of(struct wheel *wheel, unsigned level, uint64_t slot)
{
    const struct wheel_level *geometry = &WHEEL_LEVEL[level];

    return &wheel->heads[geometry->first_head + ring_of(level, slot) * geometry->chains];
}

/* Where a slot lies among those of all levels. */
static size_t index_of(unsigned level, uint64_t slot)
{
    return WHEEL_LEVEL[level].first_slot + ring_of(level, slot);
}

/* Whether a slot holds nodes. */
static bool is_used(const struct wheel *wheel, unsigned level, uint64_t slot)
{
    size_t i = index_of(level, slot);

    return (wheel->used[i / 64] >> (i % 64) & 1) != 0;
}

static void mark_used(struct wheel *wheel, unsigned level, uint64_t slot)
{
    size_t i = ring_of(level, slot);

    wheel->used[(WHEEL_LEVEL[level].first_slot + i) / 64] |= UINT64_C(1) << (i % 64);
    wheel->used_words[level] |= UINT64_C(1) << (i / 64);
    wheel->used_levels |= 1U << level;
}

static void mark_unused(struct wheel *wheel, unsigned level, uint64_t slot)
{
    size_t i = ring_of(level, slot);
    uint64_t *word = &wheel->used[(WHEEL_LEVEL[level].first_slot + i) / 64];

    *word &= ~(UINT64_C(1) << (i % 64));
    if (*word == 0) {
        wheel->used_words[level] &= ~(UINT64_C(1) << (i / 64));
        wheel->used_levels &= ~((wheel->used_words[level] == 0 ? 1U : 0U) << level);
    }
}

/* Which list of a slot a due time belongs to; round times must not all choose the same. */
static size_t chain_of(unsigned level, uint64_t tick)
{
    return (size_t)((tick * UINT64_C(0x9e3779b97f4a7c15)) >> 60) & (WHEEL_LEVEL[level].chains - 1);
}

/* Add a node at the end of its list in the slot of a level that its due time lies in. */
static ALWAYS_INLINE void put(struct wheel *wheel, unsigned level, struct wheel_node *node)
{
    uint64_t tick = tick_of(node->due_ms);
    uint64_t slot = slot_of(level, tick);
    size_t chain = chain_of(level, tick);
    struct list *list = lists_of(wheel, level, slot) + chain;
    uint16_t *busy = &wheel->busy[index_of(level, slot)];

    if (!is_used(wheel, level, slot)) {
        *busy = 0;
        mark_used(wheel, level, slot);
    }
    if ((*busy >> chain & 1) == 0) {
        *busy |= (uint16_t)(1U << chain);
        list_init(list);
    }
    list_add(list, &node->link);
}

/* Highest slot of the coarser level that has been split into this one. */
static uint64_t parents_split(const struct wheel *wheel, unsigned level)
{
    return level + 1 < WHEEL_LEVELS ? wheel->split[level + 1] : 0;
}

/* The used bits of 64 words, from the word `from` on, cyclically among the level's words. */
static uint64_t turn(uint64_t words, size_t from, size_t count)
{
    uint64_t behind = words >> from;
    uint64_t before = from == 0 ? 0 : words << (count - from);

    return count == 64 ? behind | before : (behind | before) & ((UINT64_C(1) << count) - 1);
}

/*
 * The first used slot of a level that has one; all of them lie behind split[level]. The word of the
 * first slot is looked at once: bits in it before that slot are never set, as the slots in use end
 * where a parent slot ends.
 */
static struct place first_used(const struct wheel *wheel, unsigned level)
{
    uint64_t from = wheel->split[level] + 1;
    size_t word_mask = count_of(level) / 64 - 1; // Counts are powers of two.
    size_t base = WHEEL_LEVEL[level].first_slot / 64;
    size_t word;
    size_t bit;

    word = ring_of(level, from) / 64;
    word += (size_t)__builtin_ctzll(turn(wheel->used_words[level], word, word_mask + 1));
    word &= word_mask;
    bit = word * 64 + (size_t)__builtin_ctzll(wheel->used[base + word]);
    from += (bit - (size_t)from) & (count_of(level) - 1);
    return (struct place){level, from, from << WHEEL_LEVEL[level].shift};
}

/*
 * The used slot that starts first in time. Of slots that start together the coarsest comes first,
 * since it may hold nodes of the finer ones' times.
 */
static bool next_used(const struct wheel *wheel, struct place *next)
{
    bool has_next = false;

    *next = (struct place){0, 0, UINT64_MAX};
    for (uint32_t levels = wheel->used_levels; levels != 0; levels &= levels - 1) {
        struct place place = first_used(wheel, (unsigned)__builtin_ctz(levels));

        if (place.start <= next->start) {
            *next = place;
            has_next = true;
        }
        if (parent_of(place.level, place.slot) <= parents_split(wheel, place.level)) {
            return true; // By invariants 2 and 3 what coarser levels hold is later.
        }
    }
    return has_next;
}

/* Move on to a tick. shape: no node lies in a slot that starts at or before it. */
static void reach(struct wheel *wheel, uint64_t tick)
{
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        uint64_t slot = slot_of(level, tick);

        if (wheel->split[level] >= slot) {
            break; // Coarser levels are at least as far, by invariant 3.
        }
        wheel->split[level] = slot;
    }
}

/* Move the first node of a list into the finer level, and have the next one fetched from memory. */
static ALWAYS_INLINE void move_first(struct wheel *wheel, unsigned level, struct list *list)
{
    struct wheel_node *node = LIST_ENTRY(list->next, struct wheel_node, link);

    list->next = node->link.next; // The back link is set right when the walk ends.
    __builtin_prefetch(list->next);
    put(wheel, level - 1, node);
}

/*
 * Move nodes of the slot behind split[level] into the finer level, at most `budget`, from its lists
 * in turn. An emptied slot counts as split. Returns the nodes moved.
 */
static ALWAYS_INLINE uint32_t move_nodes(struct wheel *wheel, unsigned level, uint32_t budget)
{
    uint64_t slot = wheel->split[level] + 1;
    struct list *lists = lists_of(wheel, level, slot);
    uint32_t busy = wheel->busy[index_of(level, slot)];
    uint32_t moved = 0;

    for (uint32_t left = busy; left != 0; left &= left - 1) {
        __builtin_prefetch(lists[__builtin_ctz(left)].next);
    }
    while (busy != 0 && moved < budget) {
        for (uint32_t left = busy; left != 0 && moved < budget; left &= left - 1) {
            struct list *list = &lists[__builtin_ctz(left)];

            move_first(wheel, level, list);
            moved++;
            busy &= ~(list_is_empty(list) ? left & -left : 0);
        }
    }
    for (uint32_t left = busy; left != 0; left &= left - 1) {
        struct list *list = &lists[__builtin_ctz(left)];

        list->next->previous = list;
    }
    wheel->busy[index_of(level, slot)] = (uint16_t)busy;
    if (busy == 0) {
        mark_unused(wheel, level, slot);
        wheel->split[level] = slot;
    }
    return moved;
}

/* Split the slot behind split[level], in at most `budget` moves. Returns the nodes moved. */
static uint32_t split_next(struct wheel *wheel, unsigned level, uint32_t budget)
{
    uint64_t slot = wheel->split[level] + 1;

    REQUIRE(level >= 1 && parent_of(level, slot) <= parents_split(wheel, level));
    if (!is_used(wheel, level, slot)) {
        wheel->split[level] = slot;
        return 0;
    }
    // Every timer of more than 2 s comes through the first of these, most through no other.
    return level == 1 ? move_nodes(wheel, 1, budget) : move_nodes(wheel, level, budget);
}

/*
 * Count the parents of a used slot as split. They may not be, although they are empty: when the
 * last nodes of a slot are deleted in the middle of its split.
 */
static void pass_parents(struct wheel *wheel, const struct place *place)
{
    uint64_t slot = parent_of(place->level, place->slot);

    for (unsigned level = place->level + 1; level < WHEEL_LEVELS; level++) {
        if (wheel->split[level] >= slot) {
            return;
        }
        REQUIRE(!is_used(wheel, level, slot));
        wheel->split[level] = slot;
        slot = parent_of(level, slot);
    }
}

/*
 * Split the slots behind the running ones with what the budget has left, the finest level first,
 * since it has the least time; a slot whose parent is not split yet waits for it. False: the budget
 * has ended before the work.
 */
static bool split_ahead(struct wheel *wheel, uint32_t budget)
{
    unsigned level = 1;

    while (level < WHEEL_LEVELS) {
        uint64_t running = slot_of(level, wheel->split[0]);
        uint64_t next = wheel->split[level] + 1;

        if (next > running + 1 || parent_of(level, next) > parents_split(wheel, level)) {
            level++;
            continue;
        }
        budget -= split_next(wheel, level, budget);
        if (wheel->split[level] != next) {
            return false;
        }
        level = 1; // Finer levels may have waited for this one.
    }
    return true;
}

/* Have memory fetch what will be handed out soon: each node was last touched some seconds ago.
 * Inlined, since gcc drops calls of a function that only fetches. */
static ALWAYS_INLINE void fetch_ahead(struct wheel *wheel, uint64_t tick)
{
    if (is_used(wheel, 0, tick + FETCH_ENDS)) {
        const struct list *list = lists_of(wheel, 0, tick + FETCH_ENDS);

        __builtin_prefetch(list->next);
        __builtin_prefetch(list->previous);
    }
    if (is_used(wheel, 0, tick + FETCH_INNER)) {
        const struct list *list = lists_of(wheel, 0, tick + FETCH_INNER);

        __builtin_prefetch(list->next->next);
        __builtin_prefetch(list->previous->previous);
    }
}

/* Make a whole slot of the finest level ready. */
static void make_ready(struct wheel *wheel, uint64_t tick)
{
    reach(wheel, tick);
    fetch_ahead(wheel, tick);
    list_move_all(&wheel->fresh, lists_of(wheel, 0, tick));
    mark_unused(wheel, 0, tick);
}

void wheel_init(struct wheel *wheel, wall_ms now)
{
    // The lists are made when their slot comes into use: most never do.
    memset(&wheel->used, 0, sizeof(*wheel) - offsetof(struct wheel, used));
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        wheel->split[level] = slot_of(level, tick_of(now));
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
    uint64_t start;
    unsigned level = 0;

    REQUIRE(!wheel_has(node));
    node->due_ms = due_ms;
    wheel->count++;
    if (tick <= wheel->split[0]) {
        list_add(&wheel->fresh, &node->link);
        return;
    }
    while (level + 1 < WHEEL_LEVELS && slot_of(level + 1, tick) > wheel->split[level + 1]) {
        level++;
    }
    put(wheel, level, node);
    start = slot_of(level, tick) << WHEEL_LEVEL[level].shift;
    wheel->quiet_until = start < wheel->quiet_until ? start : wheel->quiet_until;
}

void wheel_swap(struct wheel_node *from, struct wheel_node *to)
{
    wheel_node_init(to);
    to->due_ms = from->due_ms;
    if (wheel_has(from)) {
        to->link = from->link;
        to->link.next->previous = &to->link;
        to->link.previous->next = &to->link;
        list_init(&from->link);
    }
}

/* The list at the head of which `head` is has lost its last node. */
static void list_emptied(struct wheel *wheel, const struct list *head)
{
    size_t offset = (uintptr_t)head - (uintptr_t)wheel->heads;
    size_t i = offset / sizeof(struct list);
    unsigned level = WHEEL_LEVELS - 1;
    uint16_t *busy;
    uint64_t slot;

    if (offset >= sizeof(wheel->heads)) {
        return; // A lane.
    }
    while (WHEEL_LEVEL[level].first_head > i) {
        level--;
    }
    slot = (i - WHEEL_LEVEL[level].first_head) / WHEEL_LEVEL[level].chains;
    busy = &wheel->busy[index_of(level, slot)];
    *busy &= (uint16_t) ~(1U << (i - WHEEL_LEVEL[level].first_head) % WHEEL_LEVEL[level].chains);
    if (*busy == 0) {
        mark_unused(wheel, level, slot);
    }
}

void wheel_del(struct wheel *wheel, struct wheel_node *node)
{
    struct list *next = node->link.next;
    bool is_last = next == node->link.previous; // Alone with the head of its list.

    if (!wheel_has(node)) {
        return;
    }
    REQUIRE(wheel->count > 0);
    list_del(&node->link);
    wheel->count--;
    if (is_last) {
        list_emptied(wheel, next);
    }
}

/* Until when nothing is to be done, now that all is: the first slot in use may start then, or what
 * is split ahead may change, as it does with the level 1 slot that runs. */
static uint64_t find_quiet_until(const struct wheel *wheel, uint64_t first_start)
{
    uint64_t end = (slot_of(1, wheel->split[0]) + 1) << WHEEL_LEVEL[1].shift;

    return first_start < end ? first_start : end;
}

bool wheel_advance(struct wheel *wheel, wall_ms now, uint32_t budget)
{
    uint64_t target = tick_of(now);
    bool is_split = wheel->quiet_until != 0 && // Within a slot of level 1 nothing comes to split.
                    slot_of(1, target) == slot_of(1, wheel->split[0]);
    struct place next;

    REQUIRE(budget >= 1);
    if (target > wheel->split[0] && !wheel->is_behind) {
        list_move_all(&wheel->late, &wheel->fresh);
    }
    if (target < wheel->quiet_until) {
        wheel->split[0] = target > wheel->split[0] ? target : wheel->split[0];
        return true;
    }
    while (next_used(wheel, &next) && next.start <= target) {
        if (budget == 0) {
            wheel->is_behind = true;
            wheel->quiet_until = 0;
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
    is_split = is_split || split_ahead(wheel, budget);
    wheel->quiet_until = is_split ? find_quiet_until(wheel, next.start) : 0;
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
    if (wheel->quiet_until > reached && is_used(wheel, 0, wheel->quiet_until)) {
        return time_of(wheel->quiet_until); // No slot starts before, no split begins before.
    }
    for (uint32_t levels = wheel->used_levels; levels != 0; levels &= levels - 1) {
        unsigned level = (unsigned)__builtin_ctz(levels);
        struct place place = first_used(wheel, level);
        uint64_t start;

        // A slot above the finest level is split while its predecessor runs.
        start = level == 0 ? place.start : (place.slot - 1) << WHEEL_LEVEL[level].shift;
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
