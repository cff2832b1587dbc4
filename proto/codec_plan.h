/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of foliot.v1.ClusterService that change the members, or say what a change would do. The
 * rules of all codec functions are in codec.h.
 */
#ifndef FOLIOT_PROTO_CODEC_PLAN_H
#define FOLIOT_PROTO_CODEC_PLAN_H

#include "proto/codec.h"

/* ---- PlanMembers ---- */

/* Names of brokers, 1 … MEMBER_NAME_BYTES_MAX bytes each; borrowed. */
struct plan_request {
    const char *const *add; /* add_count */
    size_t add_count;       /* ≤ MEMBER_COUNT_MAX */
    const char *const *remove;
    size_t remove_count; /* ≤ MEMBER_COUNT_MAX */
};

struct plan_move {
    uint32_t shard;
    const char *database;
    const char *from; /* "": nobody */
    const char *to;   /* "": nobody */
};

struct plan_share {
    const char *broker;
    uint32_t before;
    uint32_t after;
};

MUST_USE int codec_read_plan(struct slice bytes, struct arena *arena, struct plan_request *out,
                             struct fault *fault);
MUST_USE int codec_write_plan(const struct plan_request *request, struct buf *out);

/* A response is any number of moves and shares, in any order. */
MUST_USE int codec_write_plan_move(const struct plan_move *move, struct buf *out);
MUST_USE int codec_write_plan_share(const struct plan_share *share, struct buf *out);

struct plan {
    size_t move_count;
    size_t share_count;
    const void *message; /* private */
};

MUST_USE int codec_read_plan_reply(struct slice bytes, struct arena *arena, struct plan *out,
                                   struct fault *fault);

/* shape: index below move_count, share_count. */
void codec_read_plan_move(const struct plan *plan, size_t index, struct plan_move *out);
void codec_read_plan_share(const struct plan *plan, size_t index, struct plan_share *out);

/* ---- DrainBroker ---- */

struct drain_reply {
    const char *broker;
    const char *instance;
    uint32_t shard_count;
};

/* out: the broker's name, 1 … MEMBER_NAME_BYTES_MAX bytes; borrowed from the arena. */
MUST_USE int codec_read_drain(struct slice bytes, struct arena *arena, const char **out,
                              struct fault *fault);
MUST_USE int codec_write_drain(const char *broker, struct buf *out);
MUST_USE int codec_write_drain_reply(const struct drain_reply *reply, struct buf *out);
MUST_USE int codec_read_drain_reply(struct slice bytes, struct arena *arena,
                                    struct drain_reply *out, struct fault *fault);

#endif
