/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch divided by owner: each part is a call of its own that goes straight to the broker that
 * owns its items, is repeated for itself, and fails for itself. Their answers become one, in the
 * order of the items. Belongs to the loop, but for parts_add().
 */
#ifndef FOLIOT_CLIENT_LIB_PARTS_H
#define FOLIOT_CLIENT_LIB_PARTS_H

#include "client/lib/repeat.h"
#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client_call;

/* An item of a batch: where it lies in the request. */
struct part_item {
    uint32_t offset;
    uint32_t len;
    int32_t slot; /* or SLOT_ANY */
    enum repeat_kind kind;
};

/*
 * Prepare a batch, in the caller's thread: its items are told one by one as they are written.
 *
 * errors: ERR_NO_MEMORY.
 */
MUST_USE int parts_init(struct client_call *call, size_t count);

/* An item has been written: everything behind the items before it. */
void parts_add(struct client_call *call, int32_t slot, enum repeat_kind kind);

/*
 * Divide a batch that has come to the loop, and start its parts.
 *
 * return: false: it stays whole, with slot and kind set; it is to be started as any other call.
 */
bool parts_start(struct client_call *call);

/* A part has ended. return: the whole if this was its last part, now to be finished; else NULL. */
struct client_call *parts_ended(struct client_call *part);

/*
 * The next result of a response to a batch, with its tag and length.
 *
 * shape:  *at starts at 0 and is moved on. Fields of a newer broker are passed over.
 * return: false at the end, or, with *is_bad set, where the bytes make no sense.
 */
bool parts_next_result(struct slice bytes, size_t *at, struct slice *out, bool *is_bad);

/* Free what a batch or a part has; harmless for any other call. */
void parts_fini(struct client_call *call);

#endif
