/* SPDX-License-Identifier: Apache-2.0
 *
 * The auditor: looks for tasks that no path of the code leads out of, and counts them. Each turn it
 * looks at a few of the shards that are served here, in a circle: whether every row that is due is
 * in memory, in a place from which it goes on; whether every claim past its deadline is being
 * ended; and, for a sample of what is in memory, whether the database has it. What is wrong must be
 * wrong at a second look, a turn later or more, to count: between two reads and memory there is
 * always something under way. It changes nothing. source: DESIGN 14, RELIABILITY T-6, ADR 0027
 */
#ifndef FOLIOT_BROKER_CORE_AUDIT_H
#define FOLIOT_BROKER_CORE_AUDIT_H

#include "broker/core/state.h"

/* errors: ERR_NO_MEMORY. */
MUST_USE int audit_init(struct broker *broker);

/* shape: no read of it is in flight any more. */
void audit_fini(struct broker *broker);

/* Once a scan: make the next turn if it is time. */
void audit_step(struct broker *broker);

/* Forget what was found in a shard: it is dropped. */
void audit_forget(const struct shard *shard);

/* What was found in a shard at the last look, all kinds together. */
uint32_t audit_found(const struct broker *broker, uint32_t shard);

/* All that has been found. */
void audit_sum(const struct broker *broker, struct audit_figures *out);

#endif
