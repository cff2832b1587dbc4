/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a task in memory.
 *
 *              create, near                loader, create, retry
 *                   │                               │
 *              INSERTING ──────────┐             WAITING ◀──────────────┐
 *                   │              │        ┌──────┴──────┐             │
 *                   │              │      READY ──▶ CLAIMING            │
 *                   │              │        ▲─────────────┘ refused     │
 *                   └─────────▶ CLAIMED ◀─────────────────┘             │
 *                                  │  └──────────▶ SETTLING (un-claim) ─┤
 *                               RUNNING ─────────▶ SETTLING (outcome) ──┤
 *                                  │                    ▲               │
 *                                  └───▶ HELD ──────────┘ deadline      │
 *                                                                       │
 *   a call takes any quiet state to CHANGING or DELETING; CHANGING ends ┘ here or where it came
 * from VISITING: a far row that a call works on; ends as CHANGING, DELETING or not at all
 */
#include "broker/core/task_life.h"

#include "lib/base/check.h"

#define BIT(state) (1U << (unsigned)(state))

struct life {
    const char *name;
    uint32_t next; /* BIT of each state that may follow; leaving memory is no state */
    bool is_busy;
};

static const struct life LIFE[] = {
    [ENTRY_INSERTING] = {"inserting", BIT(ENTRY_CLAIMED) | BIT(ENTRY_SETTLING), true},
    [ENTRY_WAITING] = {"waiting",
                       BIT(ENTRY_READY) | BIT(ENTRY_CLAIMING) | BIT(ENTRY_CHANGING) |
                           BIT(ENTRY_DELETING),
                       false},
    [ENTRY_READY] = {"ready",
                     BIT(ENTRY_WAITING) | BIT(ENTRY_CLAIMING) | BIT(ENTRY_CHANGING) |
                         BIT(ENTRY_DELETING),
                     false},
    [ENTRY_CLAIMING] = {"claiming", BIT(ENTRY_CLAIMED) | BIT(ENTRY_READY) | BIT(ENTRY_SETTLING),
                        true},
    [ENTRY_CLAIMED] = {"claimed",
                       BIT(ENTRY_RUNNING) | BIT(ENTRY_SETTLING) | BIT(ENTRY_CHANGING) |
                           BIT(ENTRY_DELETING),
                       false},
    [ENTRY_RUNNING] = {"running", BIT(ENTRY_SETTLING) | BIT(ENTRY_HELD), false},
    [ENTRY_HELD] = {"held", BIT(ENTRY_SETTLING) | BIT(ENTRY_RUNNING), false},
    [ENTRY_SETTLING] = {"settling", BIT(ENTRY_WAITING) | BIT(ENTRY_READY), true},
    [ENTRY_CHANGING] = {"changing", BIT(ENTRY_WAITING) | BIT(ENTRY_SETTLING), true},
    [ENTRY_DELETING] = {"deleting", BIT(ENTRY_WAITING) | BIT(ENTRY_SETTLING), true},
    [ENTRY_VISITING] = {"visiting",
                        BIT(ENTRY_WAITING) | BIT(ENTRY_HELD) | BIT(ENTRY_RUNNING) |
                            BIT(ENTRY_CHANGING) | BIT(ENTRY_DELETING),
                        false},
    [ENTRY_ASLEEP] = {"asleep", 0, false}, // Another form of WAITING: sleep.c makes it and ends it.
};

static const struct life *life_of(enum entry_state state)
{
    REQUIRE((size_t)state < ARRAY_COUNT(LIFE) && LIFE[state].name != NULL);
    return &LIFE[state];
}

bool entry_may_move(enum entry_state from, enum entry_state to)
{
    (void)life_of(to);
    return (life_of(from)->next & BIT(to)) != 0;
}

void entry_move(struct entry *entry, enum entry_state state)
{
    REQUIRE(entry_may_move((enum entry_state)entry->state, state));
    entry->state = (unsigned)state & 0xfU;
}

const char *entry_state_name(enum entry_state state)
{
    return life_of(state)->name;
}

bool entry_is_busy(const struct entry *entry)
{
    return life_of((enum entry_state)entry->state)->is_busy || (entry->flags & ENTRY_TOUCHED) != 0;
}
