/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of one queue over all shards: those of our shards are counted here, the other brokers are
 * asked for theirs. Used by GetStats, and by Delete to see that nothing is left. Private to
 * broker/service*.
 */
#ifndef FOLIOT_BROKER_SERVICE_COUNT_H
#define FOLIOT_BROKER_SERVICE_COUNT_H

#include "broker/service_parts.h"
#include "proto/codec_queue_life.h"

struct count_job;

/* The end. stats, borrowed, has what came in time; err is not 0 if nothing could be begun. */
typedef void (*count_cb)(void *ctx, int err, const struct queue_stats *stats);

/*
 * Count.
 *
 * shape: queue is known here; local_only: other brokers are not asked, and their shards are missing
 *        in the result. The callback runs once, perhaps inside, no later than end_us or a little
 *        after; ctx lives until then.
 */
void service_count(struct service *service, const struct queue *queue, bool local_only,
                   boot_us end_us, count_cb cb, void *ctx);

#endif
