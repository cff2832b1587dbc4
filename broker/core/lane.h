/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that wait for a commit, first in first out, each with the note of who asked for it: a
 * ring of fixed size. Knows nothing of batches.
 */
#ifndef FOLIOT_BROKER_CORE_LANE_H
#define FOLIOT_BROKER_CORE_LANE_H

#include "lib/base/attr.h"
#include "storage/store.h"

#include <stdint.h>

struct note;

/*
 * 1. The waiting ones are at head, head + 1, … head + count − 1, modulo capacity.
 * 2. Empty: head is 0, so that a quiet lane touches little memory.
 */
struct lane {
    struct store_op *ops;
    struct note *notes;
    uint32_t capacity; /* a power of two */
    uint32_t head;
    uint32_t count;
};

/* errors: ERR_NO_MEMORY; lane_fini() is fine then too. */
MUST_USE int lane_init(struct lane *lane, uint32_t capacity);

void lane_fini(struct lane *lane);

/* A zeroed operation at the end, valid until it leaves the lane; note is copied. There is room. */
struct store_op *lane_add(struct lane *lane, const struct note *note);

/* The waiting ones by position, 0 is the oldest. */
struct store_op *lane_op(const struct lane *lane, uint32_t position);
struct note *lane_note(const struct lane *lane, uint32_t position);

/* Take the oldest out; they have been copied. */
void lane_drop(struct lane *lane, uint32_t count);

/* Keep the oldest only. */
void lane_cut(struct lane *lane, uint32_t count);

#endif
