/* SPDX-License-Identifier: Apache-2.0
 *
 * What leaves next of a database's lanes: which halves of its shards go together, which parts of
 * the outcomes go with them, and which operations may be in one batch. Of little that is to be
 * written all goes in one transaction, for a commit costs both sides as much as some dozen rows. Of
 * much each half has a transaction of its own, beside the other's, so that neither the database nor
 * the broker waits for the other. source: docs/adr/0041
 */
#ifndef FOLIOT_BROKER_CORE_BATCH_H
#define FOLIOT_BROKER_CORE_BATCH_H

#include "broker/core/state.h"

/* The half that a shard is of, as a bit. */
uint32_t batch_half(const struct shard *shard);

/* Operations in the lanes of some halves; of them, outcomes. */
uint32_t batch_waiting(const struct writer *writer, uint32_t halves);
uint32_t batch_outcomes(const struct writer *writer, uint32_t halves);

/* When the half of a batch, which would wait for what the other half has in flight, waits no
 * longer; BOOT_NEVER: it does not, or cannot leave beside it. */
boot_us batch_beside_at(const struct writer_batch *batch);

/* Halves of which operations may go with a batch now, as bits; 0: it has some, or it is to wait for
 * what is in flight. */
uint32_t batch_free_halves(const struct writer_batch *batch);

/* Whether a batch of these halves is to leave: with a call, or with claims or outcomes whose time
 * it is. */
bool batch_has_leaving(const struct writer *writer, uint32_t halves);

/* Move operations of these halves from the lanes into an empty batch. There may be none. */
void batch_fill(struct writer_batch *batch, uint32_t halves);

#endif
