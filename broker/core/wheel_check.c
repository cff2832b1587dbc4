/* SPDX-License-Identifier: Apache-2.0
 *
 * Invariants and oracle of the timing wheel.
 */
#include "broker/core/wheel_check.h"

#include <stddef.h>

static uint64_t tick_of(wall_ms time)
{
    return (uint64_t)time ^ (UINT64_C(1) << 63);
}

/* Slot number of a tick at a level; everything is in slot 0 of the level above the coarsest. */
static uint64_t slot_of(uint64_t tick, unsigned level)
{
    return level < WHEEL_LEVELS ? tick >> WHEEL_LEVEL[level].shift : 0;
}

static uint64_t split_of(const struct wheel *wheel, unsigned level)
{
    return level < WHEEL_LEVELS ? wheel->split[level] : 0;
}

static size_t count_of(unsigned level)
{
    return (size_t)2 << WHEEL_LEVEL[level].bits;
}

static const struct wheel_node *node_of(const struct list *link)
{
    return (const struct wheel_node *)(const void *)((const char *)link -
                                                     offsetof(struct wheel_node, link));
}

/* The lists of the i-th slot of a level. */
static const struct list *lists_of(const struct wheel *wheel, unsigned level, size_t i)
{
    return &wheel->heads[WHEEL_LEVEL[level].first_head + i * WHEEL_LEVEL[level].chains];
}

static bool is_used(const struct wheel *wheel, unsigned level, size_t i)
{
    return (wheel->used[(WHEEL_LEVEL[level].first_slot + i) / 64] >> i % 64 & 1) != 0;
}

/* The lists of a slot that hold nodes; others may never have been made. */
static unsigned busy_of(const struct wheel *wheel, unsigned level, size_t i)
{
    return is_used(wheel, level, i) ? wheel->busy[WHEEL_LEVEL[level].first_slot + i] : 0;
}

static const char *check_levels(const struct wheel *wheel)
{
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        uint64_t running = slot_of(wheel->split[0], level);

        if (wheel->split[level] < running || wheel->split[level] - running > 1) {
            return "2: a level is split too far or not far enough";
        }
        if (wheel->split[level] >> WHEEL_LEVEL[level].bits > split_of(wheel, level + 1)) {
            return "3: a slot was split before its parent";
        }
    }
    return NULL;
}

/* While there is something to split ahead no time is quiet. */
static const char *check_quiet(const struct wheel *wheel)
{
    for (unsigned level = 1; wheel->quiet_until != 0 && level < WHEEL_LEVELS; level++) {
        uint64_t next = wheel->split[level] + 1;

        if (next <= slot_of(wheel->split[0], level) + 1 &&
            next >> WHEEL_LEVEL[level].bits <= split_of(wheel, level + 1)) {
            return "7: quiet, with a slot to split ahead";
        }
    }
    return NULL;
}

/* Is the node where invariant 4 has it? */
static bool is_in_place(const struct wheel *wheel, uint64_t tick, unsigned level, size_t i)
{
    if (tick <= wheel->split[0] || slot_of(tick, level) % count_of(level) != i) {
        return false;
    }
    if (slot_of(tick, level) <= wheel->split[level]) {
        return false;
    }
    // Its parent is split, or is the one that is being split now.
    return slot_of(tick, level + 1) <= split_of(wheel, level + 1) + (level + 1 < WHEEL_LEVELS);
}

static const char *check_list(const struct wheel *wheel, unsigned level, size_t i,
                              const struct list *list, size_t *count)
{
    for (const struct list *link = list->next; link != list; link = link->next) {
        if (link->next->previous != link) {
            return "a list is torn";
        }
        if (!is_in_place(wheel, tick_of(node_of(link)->due_ms), level, i)) {
            return "4: a node lies in the wrong slot";
        }
        if (tick_of(node_of(link)->due_ms) < wheel->quiet_until && !wheel->is_behind) {
            return "7: a node is due while nothing is to be done";
        }
        (*count)++;
    }
    return NULL;
}

/* The i-th slot of a level. */
static const char *check_slot(const struct wheel *wheel, unsigned level, size_t i, size_t *count)
{
    const struct list *lists = lists_of(wheel, level, i);
    uint64_t word = wheel->used[(WHEEL_LEVEL[level].first_slot + i) / 64];
    unsigned busy = busy_of(wheel, level, i);
    size_t before = *count;
    const char *broken = NULL;

    if (busy >> WHEEL_LEVEL[level].chains != 0) {
        broken = "5: a list is busy that is none";
    }
    for (; broken == NULL && busy != 0; busy &= busy - 1) {
        const struct list *list = &lists[__builtin_ctz(busy)];

        broken = list_is_empty(list) ? "5: a busy list holds no node"
                                     : check_list(wheel, level, i, list, count);
    }
    if (broken == NULL && is_used(wheel, level, i) != (*count > before)) {
        broken = "5: the bit of a slot does not say whether it is used";
    }
    if (broken == NULL && (wheel->used_words[level] >> i / 64 & 1) != (word != 0)) {
        broken = "5: the bit of a word does not say whether it has bits";
    }
    if (broken == NULL && (wheel->used_levels >> level & 1) != (wheel->used_words[level] != 0)) {
        broken = "5: the bit of a level does not say whether it is used";
    }
    return broken;
}

static const char *check_lane(const struct wheel *wheel, const struct list *lane, size_t *count)
{
    for (const struct list *link = lane->next; link != lane; link = link->next) {
        if (tick_of(node_of(link)->due_ms) > wheel->split[0]) {
            return "1: a node is ready early";
        }
        (*count)++;
    }
    return NULL;
}

const char *wheel_check(const struct wheel *wheel)
{
    size_t count = 0;
    const char *broken = check_levels(wheel);

    if (broken == NULL) {
        broken = check_quiet(wheel);
    }
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        for (size_t i = 0; broken == NULL && i < count_of(level); i++) {
            broken = check_slot(wheel, level, i, &count);
        }
    }
    if (broken == NULL) {
        broken = check_lane(wheel, &wheel->fresh, &count);
    }
    if (broken == NULL) {
        broken = check_lane(wheel, &wheel->late, &count);
    }
    if (broken == NULL && count != wheel->count) {
        broken = "6: the count is wrong";
    }
    return broken;
}

static wall_ms earliest_of(const struct list *list)
{
    wall_ms earliest = WALL_NEVER;

    for (const struct list *link = list->next; link != list; link = link->next) {
        earliest = time_min(earliest, node_of(link)->due_ms);
    }
    return earliest;
}

wall_ms wheel_check_earliest(const struct wheel *wheel)
{
    wall_ms earliest = WALL_NEVER;

    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        for (size_t i = 0; i < count_of(level); i++) {
            const struct list *lists = lists_of(wheel, level, i);

            for (unsigned busy = busy_of(wheel, level, i); busy != 0; busy &= busy - 1) {
                earliest = time_min(earliest, earliest_of(&lists[__builtin_ctz(busy)]));
            }
        }
    }
    return earliest;
}

void oracle_init(struct wheel_oracle *oracle, wall_ms now)
{
    list_init(&oracle->pending);
    list_init(&oracle->fresh);
    list_init(&oracle->late);
    oracle->reached = now;
    oracle->is_behind = false;
    oracle->took_late = false;
}

void oracle_add(struct wheel_oracle *oracle, struct oracle_node *node, wall_ms due_ms)
{
    struct list *before = oracle->pending.previous;

    node->due_ms = due_ms;
    if (due_ms <= oracle->reached) {
        list_add(&oracle->fresh, &node->link);
        return;
    }
    while (before != &oracle->pending &&
           LIST_ENTRY(before, struct oracle_node, link)->due_ms > due_ms) {
        before = before->previous;
    }
    list_add_first(before, &node->link);
}

void oracle_del(struct oracle_node *node)
{
    list_del(&node->link);
}

void oracle_advance(struct wheel_oracle *oracle, wall_ms now, wall_ms reached, bool finished)
{
    if (now > oracle->reached && !oracle->is_behind) {
        list_move_all(&oracle->late, &oracle->fresh);
    }
    oracle->reached = time_max(oracle->reached, reached);
    oracle->is_behind = !finished;
    list_foreach_safe (link, after, &oracle->pending) {
        if (LIST_ENTRY(link, struct oracle_node, link)->due_ms > oracle->reached) {
            break;
        }
        list_del(link);
        list_add(&oracle->fresh, link);
    }
}

struct oracle_node *oracle_take(struct wheel_oracle *oracle)
{
    bool has_late = !list_is_empty(&oracle->late);
    bool has_fresh = !list_is_empty(&oracle->fresh);
    bool takes_late = has_late && (!has_fresh || !oracle->took_late);
    struct list *link = list_take_first(takes_late ? &oracle->late : &oracle->fresh);

    if (link == NULL) {
        return NULL;
    }
    oracle->took_late = takes_late;
    return LIST_ENTRY(link, struct oracle_node, link);
}
