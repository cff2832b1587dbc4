/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of a load: one writer and one reader over the methods that it calls.
 */
#ifndef FOLIOT_CLIENT_CLI_BENCH_WIRE_H
#define FOLIOT_CLIENT_CLI_BENCH_WIRE_H

#include "client/cli/bench_load.h"

/* Path of a method. shape: batched CREATE and CANCEL only. Static string. */
const char *wire_path(enum load_op op, bool is_batched);

/* Append an item to a request. errors: as codec functions that write. */
MUST_USE int wire_write(enum load_op op, bool is_batched, const struct mix *mix,
                        const struct load_item *item, struct buf *out);

/* A response whose framing is checked. */
struct wire_reply {
    enum load_op op;
    bool is_batched;
    size_t count;
    struct slice payload;
    struct arena *arena;
    struct create_results results; /* of a batch */
};

/* errors: as codec functions that read. */
MUST_USE int wire_open_reply(enum load_op op, bool is_batched, struct slice payload,
                             struct arena *arena, struct wire_reply *out, struct fault *fault);

/* What was said of one item. */
struct wire_answer {
    bool has_failed; /* fault says why */
    bool is_spent;   /* nothing was left to do: the task existed, or is gone */
    struct create_reply created;
};

/* shape: index below count. errors: ERR_INVALID: the answer itself is wrong. */
MUST_USE int wire_read_answer(const struct wire_reply *reply, size_t index, struct wire_answer *out,
                              struct fault *fault);

#endif
