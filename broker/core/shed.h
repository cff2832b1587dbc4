/* SPDX-License-Identifier: Apache-2.0
 *
 * What memory has no room for. The window shrinks to a minute or two; lines that are too long are
 * cut; and of a queue that takes most of the memory so much waits in the database that what others
 * have has room. Nothing is lost: all of it is behind a cursor, and is read again.
 * source: DESIGN 9, 10; ADR 0019, 0043
 */
#ifndef FOLIOT_BROKER_CORE_SHED_H
#define FOLIOT_BROKER_CORE_SHED_H

#include "broker/core/state.h"

/* So much of memory is kept for queues that do not crowd it. */
#define SHED_RESERVE_SHARE 8U

/* Whether no more than that is left. Asked for every task that is created. */
static inline bool shed_is_short(const struct broker *broker)
{
    uint32_t max = broker->options.entry_count_max;

    return broker->entries.used >= max - max / SHED_RESERVE_SHARE;
}

/*
 * How many rows of a queue may still come into memory before they are due: of one that crowds it,
 * more from the present bucket than from those ahead of it, unless that was too much.
 *
 * shape: while memory is not short there is room.
 */
size_t shed_room(const struct broker *broker, const struct queue_state *queue, bool is_ahead);

/* Once a scan: shrink the window of all shards when entries run short, widen it when quiet, and
 * begin to let go of what is too much. */
void shed_adapt(struct broker *broker);

/* Once per tick: let go of some of what a smaller window, or a shorter line, leaves out. */
void shed_step(struct broker *broker);

#endif
