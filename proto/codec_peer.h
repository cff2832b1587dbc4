/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of foliot.internal.Peer, between the brokers of one cluster. The rules of all codec
 * functions are in codec.h.
 */
#ifndef FOLIOT_PROTO_CODEC_PEER_H
#define FOLIOT_PROTO_CODEC_PEER_H

#include "proto/codec.h"
#include "proto/codec_receiver.h"

#define PEER_REPORT_PATH "/foliot.internal.Peer/Report"

/* How an attempt ended, for the owner of its shard. */
struct peer_report {
    struct task_id id;
    uint32_t attempt; /* from 1 */
    enum delivery_outcome outcome;
    struct slice error;     /* any bytes, ≤ ERROR_TEXT_BYTES_MAX */
    span_ms retry_after_ms; /* DELIVERY_RETRY: 0 … DELAY_MS_MAX */
    wall_ms deadline_ms;    /* of the claim */
    struct slice response;  /* DELIVERY_DONE: ≤ RESPONSE_BYTES_MAX */
};

/* errors: also ERR_INVALID for an outcome that is none of the four, or an attempt of 0. */
MUST_USE int codec_read_report(struct slice bytes, struct arena *arena, struct peer_report *out,
                               struct fault *fault);
MUST_USE int codec_write_report(const struct peer_report *report, struct buf *out);

#endif
