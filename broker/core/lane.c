/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that wait for a commit.
 */
#include "broker/core/lane.h"

#include "broker/core/state.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

int lane_init(struct lane *lane, uint32_t capacity)
{
    REQUIRE(capacity > 0 && (capacity & (capacity - 1)) == 0);
    lane->capacity = capacity;
    lane->ops = mem_new(capacity, sizeof(*lane->ops));
    lane->notes = mem_new(capacity, sizeof(*lane->notes));
    return lane->ops == NULL || lane->notes == NULL ? ERR_NO_MEMORY : 0;
}

void lane_fini(struct lane *lane)
{
    mem_free(lane->ops);
    mem_free(lane->notes);
}

static uint32_t place(const struct lane *lane, uint32_t position)
{
    return (lane->head + position) & (lane->capacity - 1);
}

struct store_op *lane_add(struct lane *lane, const struct note *note)
{
    uint32_t at = place(lane, lane->count);

    REQUIRE(lane->count < lane->capacity);
    memset(&lane->ops[at], 0, sizeof(lane->ops[at]));
    lane->notes[at] = *note;
    lane->count++;
    return &lane->ops[at];
}

struct store_op *lane_op(const struct lane *lane, uint32_t position)
{
    return &lane->ops[place(lane, position)];
}

struct note *lane_note(const struct lane *lane, uint32_t position)
{
    return &lane->notes[place(lane, position)];
}

void lane_drop(struct lane *lane, uint32_t count)
{
    REQUIRE(count <= lane->count);
    lane->count -= count;
    lane->head = lane->count == 0 ? 0 : place(lane, count);
}

void lane_cut(struct lane *lane, uint32_t count)
{
    REQUIRE(count <= lane->count);
    lane->count = count;
    lane->head = count == 0 ? 0 : lane->head;
}
