/* SPDX-License-Identifier: Apache-2.0
 *
 * Size first, then what a batch is for.
 */
#include "storage/batch_limits.h"

#include "lib/base/err.h"

size_t batch_bytes(const struct store_batch *batch)
{
    size_t count = 0;

    for (size_t i = 0; i < batch->op_count; i++) {
        count += store_op_bytes(&batch->ops[i]);
    }
    return count;
}

int batch_check(const struct store_batch *batch, const struct batch_limits *limits)
{
    if (batch->op_count > BATCH_OP_COUNT_MAX || batch_bytes(batch) > BATCH_BYTES_MAX) {
        return ERR_TOO_LARGE;
    }
    if (batch->database >= limits->database_count || batch->stream >= limits->stream_count) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < batch->op_count; i++) {
        if (batch->ops[i].shard >= limits->shard_count) {
            return ERR_INVALID;
        }
    }
    return 0;
}
