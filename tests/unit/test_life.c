/* SPDX-License-Identifier: Apache-2.0
 *
 * The two tables of states: which state may follow which, for tasks in memory and for shards. The
 * whole matrix is written out here, so that a change of a table is seen as one.
 */
#include "broker/core/shard.h"
#include "broker/core/task_life.h"

#include <criterion/criterion.h>

struct row {
    unsigned from;
    const char *next; /* states that may follow, one letter each */
};

/* Letters: Inserting Waiting Ready Claiming claimeD rUnning Held Settling chanGing deLeting
 * Visiting. */
static const char ENTRY_LETTERS[] = "?IWRCDUHSGLV";

static const struct row ENTRY_ROWS[] = {
    {ENTRY_INSERTING, "DS"}, {ENTRY_WAITING, "RCGL"},   {ENTRY_READY, "WCGL"},
    {ENTRY_CLAIMING, "DRS"}, {ENTRY_CLAIMED, "USGL"},   {ENTRY_RUNNING, "SH"},
    {ENTRY_HELD, "SU"},      {ENTRY_SETTLING, "WR"},    {ENTRY_CHANGING, "WS"},
    {ENTRY_DELETING, "WS"},  {ENTRY_VISITING, "WHUGL"},
};

/* Letters: Idle aCquiring Bumping Loading Active Draining Releasing. */
static const char SHARD_LETTERS[] = "?ICBLADR";

static const struct row SHARD_ROWS[] = {
    {SHARD_IDLE, "CR"},      {SHARD_ACQUIRING, "BI"}, {SHARD_BUMPING, "LIC"},
    {SHARD_LOADING, "AIBC"}, {SHARD_ACTIVE, "DIBC"},  {SHARD_DRAINING, "RIBC"},
    {SHARD_RELEASING, "I"},
};

static bool has(const char *letters, char letter)
{
    for (; *letters != '\0'; letters++) {
        if (*letters == letter) {
            return true;
        }
    }
    return false;
}

Test(task_life, allows_exactly_the_moves_of_the_table)
{
    for (size_t i = 0; i < ARRAY_COUNT(ENTRY_ROWS); i++) {
        for (unsigned to = 1; to < sizeof(ENTRY_LETTERS) - 1; to++) {
            cr_assert_eq(entry_may_move((enum entry_state)ENTRY_ROWS[i].from, (enum entry_state)to),
                         has(ENTRY_ROWS[i].next, ENTRY_LETTERS[to]), "%u to %u", ENTRY_ROWS[i].from,
                         to);
        }
    }
}

Test(task_life, a_running_attempt_never_goes_back_to_waiting_without_a_write)
{
    cr_assert(!entry_may_move(ENTRY_RUNNING, ENTRY_WAITING));
    cr_assert(!entry_may_move(ENTRY_HELD, ENTRY_WAITING));
    cr_assert(!entry_may_move(ENTRY_CLAIMED, ENTRY_WAITING));
}

Test(shard_life, allows_exactly_the_moves_of_the_table)
{
    for (size_t i = 0; i < ARRAY_COUNT(SHARD_ROWS); i++) {
        for (unsigned to = 1; to < sizeof(SHARD_LETTERS) - 1; to++) {
            cr_assert_eq(shard_may_move((enum shard_state)SHARD_ROWS[i].from, (enum shard_state)to),
                         has(SHARD_ROWS[i].next, SHARD_LETTERS[to]), "%u to %u", SHARD_ROWS[i].from,
                         to);
        }
    }
}

Test(shard_life, serves_only_after_bump_and_load)
{
    cr_assert(!shard_may_move(SHARD_ACQUIRING, SHARD_LOADING));
    cr_assert(!shard_may_move(SHARD_ACQUIRING, SHARD_ACTIVE));
    cr_assert(!shard_may_move(SHARD_BUMPING, SHARD_ACTIVE));
    cr_assert(!shard_may_move(SHARD_IDLE, SHARD_ACTIVE));
}
