/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of items of a batch that failed, in one buffer.
 */
#ifndef FOLIOT_CLIENT_LIB_ITEM_TEXTS_H
#define FOLIOT_CLIENT_LIB_ITEM_TEXTS_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "proto/fault.h"

#include <stdint.h>

/* Start empty, with room for every item of the largest batch. Ended by buf_fini(). */
void item_texts_init(struct buf *texts);

/* Keep reason, field and message of a fault; returns their place. A buffer that is full or without
 * memory is marked failed. */
int64_t item_texts_keep(struct buf *texts, const struct fault *fault);

/* What a result points to. */
struct item_text {
    const char *reason;
    const char *field;
    const char *message;
};

/* The texts at a place, when all are kept. Borrowed from the buffer. */
struct item_text item_texts_at(const struct buf *texts, int64_t place);

/* A fault that names its item names it by its place in a part of the batch: put the right one. */
void item_texts_number(struct fault *fault, size_t index);

/* Say in a fault which item of a request is to blame. */
void item_texts_blame(struct fault *fault, size_t index);

/*
 * Check the number of a batch's items.
 *
 * errors: ERR_INVALID with fault filled in.
 */
MUST_USE int item_texts_check_count(const void *items, size_t count, struct fault *fault);

#endif
