/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues whose rows wait in the database: a queue with a full line, or that crowds memory, is
 * parked in a shard, with a cursor of its own. Its rows up to the cursor are in memory; those
 * behind are left out of the shard's pages, and read from the cursor on when there is room again.
 * source: ADR 0016, 0019, 0043
 */
#ifndef FOLIOT_BROKER_CORE_PARK_H
#define FOLIOT_BROKER_CORE_PARK_H

#include "broker/core/state.h"

/* The park of a queue, by number, in a shard; NULL: it is not parked there. */
struct park *park_find(const struct shard *shard, uint32_t queue);

/* Park a queue that is not parked in this shard. NULL: no memory. */
MUST_USE struct park *park_new(struct shard *shard, struct queue_state *queue, struct place cursor);

/* It is parked no more. */
void park_free(struct park *park);

/* End all of a shard. */
void park_free_all(struct shard *shard);

/*
 * Fill in read.known with the numbers of all queues, and read.skip with those that are parked in a
 * shard before a place.
 *
 * ownership: *numbers has both; the caller's, to be freed by mem_free when the read is over.
 * errors:    ERR_NO_MEMORY.
 */
MUST_USE int park_numbers(const struct shard *shard, struct place end, struct store_read *read,
                          uint32_t **numbers);

/* Of a queue's parks the one that has waited longest and whose shard `may_read`; NULL: none. */
struct park *park_first(const struct queue_state *queue, bool (*may_read)(const struct shard *));

#endif
