/* SPDX-License-Identifier: Apache-2.0
 *
 * A hierarchical timing wheel of 1 ms slots for any due time a 64-bit number can hold, in constant
 * memory. Nodes live inside their owner's struct; time is an argument. It promises: never early,
 * equal due times in the order of adding, add and del in constant time, and at most `budget` moves
 * per call, so that a million timers on one slot or one boundary never make a long turn. It knows
 * nothing of tasks.
 *
 * How: 7 levels of slots, each kept twice, for the parent slot that runs and for the next one. A
 * slot is split into the finer level while its parent's predecessor still runs, so that a big split
 * is paid in small parts ahead of its time and unrelated timers do not wait for it. See
 * docs/internals/wheel.md.
 */
#ifndef FOLIOT_BROKER_CORE_WHEEL_H
#define FOLIOT_BROKER_CORE_WHEEL_H

#include "lib/base/attr.h"
#include "lib/base/instant.h"
#include "lib/base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bits of the levels: 11, 10, 9, 9, 9, 8, 8, the whole 64-bit range, so that there is no overflow
 * list. Level 0 has slots of 1 ms and spans 2 s, level 1 spans 35 min, level 2 spans 12 days.
 */
#define WHEEL_LEVELS 7U
#define WHEEL_SLOTS  10240U /* of all levels: twice 2^bits each */
#define WHEEL_HEADS  53248U /* lists of all slots */

/* A timer: 24 bytes inside its owner's struct. The owner does not touch the fields. */
struct wheel_node {
    struct list link; /* in one slot or in one ready lane; alone when in no wheel */
    wall_ms due_ms;   /* never handed out before this */
};

/*
 * With tick(t) the order-preserving map of the signed range to unsigned, and slot_L(t) = tick(t) in
 * units of a slot of level L:
 *
 * 1. split[0] is the tick the wheel has reached; every node due at or before it is in a ready lane,
 *    every other one is in a slot.
 * 2. slot_L(reached) ≤ split[L] ≤ slot_L(reached) + 1: at level L all slots up to split[L] have
 *    been split into finer ones and are empty.
 * 3. The parent of slot split[L] is at most split[L + 1]: a slot is split only after its parent.
 * 4. A node lies in the finest level L with slot_L+1(due) ≤ split[L + 1], or, while that parent is
 *    being split, still in the parent; in both cases in order of adding among equal due times.
 * 5. A bit of `used` is set if and only if its slot holds a node; a bit of `used_words` if and only
 *    if its word of `used` is not 0; a bit of `used_levels` if and only if the level has bits.
 *    A bit of `busy` is set if and only if its list holds a node; of a slot that holds none `busy`
 *    means nothing. A list that holds no node is unwritten memory, or what was left of it.
 * 6. count is the number of nodes in slots and lanes.
 * 7. No slot that holds a node starts before quiet_until, and up to there nothing is split ahead:
 *    an advance has to move split[0] only.
 *
 * A slot above level 0 is several lists, chosen by due time, so that a split can wait for several
 * nodes from memory at a time; equal due times share a list and keep their order.
 */
struct wheel {
    struct list heads[WHEEL_HEADS];    /* level 0 first */
    uint16_t busy[WHEEL_SLOTS];        /* bit per list of the slot */
    uint64_t used[WHEEL_SLOTS / 64U];  /* bit per slot */
    uint64_t used_words[WHEEL_LEVELS]; /* bit per word of the level's part of `used` */
    uint32_t used_levels;              /* bit per level, the finest lowest */
    uint64_t split[WHEEL_LEVELS];      /* absolute slot numbers, see 1 to 3 */
    uint64_t quiet_until;              /* tick; in the level 1 slot that runs, or its end; see 7.
                                          0: something is left to split ahead */
    struct list fresh;                 /* became due since the last round */
    struct list late;                  /* became due before and was not taken then */
    size_t count;                      /* nodes in the wheel */
    bool is_behind;                    /* the last advance ran out of budget */
    bool took_late;                    /* the last node taken was a late one */
};

/* Where a level's slots lie. */
struct wheel_level {
    unsigned bits;     /* of the slot number within its parent */
    unsigned shift;    /* a slot is 2^shift ms */
    unsigned chains;   /* lists of a slot, a power of two; see struct wheel */
    size_t first_slot; /* index of its first slot among all slots, as in wheel.used */
    size_t first_head; /* index of its first list in wheel.heads */
};

extern const struct wheel_level WHEEL_LEVEL[WHEEL_LEVELS];

/*
 * Start empty at a time.
 *
 * shape: the struct is large (854 KiB): initialise it in place, in memory of any content. Little of
 *        it is written; a slot's lists are made when it comes into use.
 * units: wall-clock milliseconds here and below; any clock does, as long as it is always the same.
 */
void wheel_init(struct wheel *wheel, wall_ms now);

/* Make a node that is in no wheel. */
void wheel_node_init(struct wheel_node *node);

/* Whether a node is in a wheel, ready ones included. */
bool wheel_has(const struct wheel_node *node);

/*
 * Add a timer.
 *
 * shape:     node has been initialised and is in no wheel. Any due time is fine; one that the wheel
 *            has reached already is ready at once, behind what is ready.
 * ownership: the node stays where it is until it is taken or deleted.
 * note:      advance the wheel to the turn's `now` before adding in that turn: a wheel that slept
 *            places by the time at which it fell asleep and pays for it with an extra split.
 */
void wheel_add(struct wheel *wheel, struct wheel_node *node, wall_ms due_ms);

/*
 * Put a timer in the place of another, in the wheel or not: with its due time, and between the same
 * neighbours. `from` is in no wheel afterwards.
 *
 * shape: what `to` held before does not matter.
 */
void wheel_swap(struct wheel_node *from, struct wheel_node *to);

/* Take a timer out, from its slot or from a ready lane; harmless for one that is in no wheel. */
void wheel_del(struct wheel *wheel, struct wheel_node *node);

/*
 * Make ready what is due at `now`, and split ahead with what is left of the budget.
 *
 * shape:  budget ≥ 1; counted in nodes moved one by one and in slots emptied as a whole. A slot of
 *         any size becomes ready in one step.
 * result: true when everything due at `now` is ready; false when the budget ended before: call
 *         again, in the next turn.
 * note:   a time before the last one changes nothing. After a jump, however far, slots become
 *         ready in order and empty ones cost nothing.
 */
bool wheel_advance(struct wheel *wheel, wall_ms now, uint32_t budget);

/*
 * Take one ready timer, or NULL.
 *
 * order: (due, then order of adding); a timer added when it was due already counts as due at the
 *        time the wheel had then reached. If the caller leaves a backlog from one advance to the
 *        next, the backlog and what has become due since take turns, each in that order, so that a
 *        million timers of one instant do not hold up the next instants: as long as what comes due
 *        per round is at most half of what is taken per round, it waits one round at most.
 */
MUST_USE struct wheel_node *wheel_take(struct wheel *wheel);

/*
 * When wheel_advance has work next.
 *
 * result: WALL_NEVER if the wheel is empty; a time that is not after the last one if ready timers
 *         or unfinished splits wait.
 * note:   exact for timers less than 2 s away. For others it may be early, to split ahead, at most
 *         once per level a timer still has to pass; never late.
 */
wall_ms wheel_next_wake(const struct wheel *wheel);

/* The time the wheel has reached; less than the last `now` while wheel_advance returns false. */
wall_ms wheel_now(const struct wheel *wheel);

/* Timers in the wheel, ready ones included. */
size_t wheel_count(const struct wheel *wheel);

#endif
