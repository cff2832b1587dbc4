/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of foliot.v1.QueueService about the life of a queue: pause, drain, delete, figures.
 * Resume and Drain are read and written as a queue name (codec_queue.h); Pause, Resume and Drain
 * are answered by a queue_reply. The rules of all codec functions are in codec.h.
 */
#ifndef FOLIOT_PROTO_CODEC_QUEUE_LIFE_H
#define FOLIOT_PROTO_CODEC_QUEUE_LIFE_H

#include "proto/codec_queue.h"

struct pause_request {
    struct queue_name queue;
    struct when end; /* WHEN_NONE: until resumed; delay_ms ≤ QUEUE_PAUSE_MS_MAX */
};

MUST_USE int codec_read_pause(struct slice bytes, struct arena *arena, struct pause_request *out,
                              struct fault *fault);
MUST_USE int codec_write_pause(const struct pause_request *request, struct buf *out);

struct queue_delete_request {
    struct queue_name queue;
    uint32_t version; /* 0: any */
};

MUST_USE int codec_read_queue_delete(struct slice bytes, struct arena *arena,
                                     struct queue_delete_request *out, struct fault *fault);
MUST_USE int codec_write_queue_delete(const struct queue_delete_request *request, struct buf *out);

/* Response of Delete: the queue of the reply is left alone. */
MUST_USE int codec_read_queue_delete_reply(struct slice bytes, struct arena *arena,
                                           struct queue_reply *out, struct fault *fault);
MUST_USE int codec_write_queue_delete_reply(const struct queue_reply *reply, struct buf *out);

/* Figures of a queue; the meaning is that of foliot.v1.QueueStats. */
struct queue_stats {
    uint64_t pending;
    uint64_t overdue;
    uint64_t dead;
    wall_ms first_due_ms; /* WALL_NEVER: none is pending */
    wall_ms count_ms;     /* WALL_NEVER: nothing was counted */
    uint32_t running;
    uint64_t done;
    uint64_t retried;
    uint64_t died;
    uint64_t expired;
    uint64_t unknown;
    bool is_at_least;        /* the first three are lower bounds */
    const uint32_t *missing; /* borrowed */
    size_t missing_count;    /* ≤ SHARD_COUNT_MAX */
};

MUST_USE int codec_read_stats_reply(struct slice bytes, struct arena *arena, struct queue *queue,
                                    struct queue_stats *out, struct fault *fault);
MUST_USE int codec_write_stats_reply(const struct queue *queue, const struct queue_stats *stats,
                                     struct buf *out);

#endif
