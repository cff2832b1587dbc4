/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of a batch, which every store holds it to before it takes it.
 */
#ifndef FOLIOT_STORAGE_BATCH_LIMITS_H
#define FOLIOT_STORAGE_BATCH_LIMITS_H

#include "storage/store.h"

/* What a store has of each. */
struct batch_limits {
    uint32_t database_count;
    uint32_t shard_count;
    uint32_t stream_count;
};

/* Bytes of all operations together, as store_op_bytes() counts them. */
size_t batch_bytes(const struct store_batch *batch);

/* Whether a batch is within the limits. errors: ERR_TOO_LARGE, ERR_INVALID. */
MUST_USE int batch_check(const struct store_batch *batch, const struct batch_limits *limits);

#endif
