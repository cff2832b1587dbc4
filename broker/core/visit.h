/* SPDX-License-Identifier: Apache-2.0
 *
 * Outcomes of attempts whose task is not in memory: an update moved it out of the window while the
 * attempt ran, and then its shard was taken again. The row is read, as for a call, and the outcome
 * meets it there instead of being lost until the claim's deadline.
 */
#ifndef FOLIOT_BROKER_CORE_VISIT_H
#define FOLIOT_BROKER_CORE_VISIT_H

#include "broker/core/state.h"

/*
 * Bring an attempt that has ended, or never started, without its entry back to its task.
 *
 * shape:  flight is adrift and not out.
 * return: true if it has an entry again, or its row is being read; false if it counts no more.
 */
bool visit_home(struct shard *shard, struct flight *flight);

/*
 * Another broker tells the outcome of an attempt whose task is not in memory.
 *
 * errors: ERR_UNAVAILABLE: its row is being read, or cannot be: tell it again; ERR_NOT_FOUND: not
 *         the live claim.
 */
MUST_USE int visit_for_report(struct shard *shard, const struct report *report);

/* A claim that we inherited is over for sure: its outcome counts no more. */
void visit_forget(struct shard *shard, int64_t seq);

#endif
