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
 * errors: as visit_refuse; ERR_UNAVAILABLE also while its row is being read, or cannot be.
 */
MUST_USE int visit_for_report(struct shard *shard, const struct report *report);

/*
 * Refuse what another broker tells, because it is not the outcome of a live claim. A refusal is an
 * answer: the teller gives up, and if somebody else is the owner by now, the outcome is lost that
 * he waits for. So it is given only when a read since then was answered under our epoch.
 *
 * errors: ERR_UNAVAILABLE: that is not known yet, tell it again; ERR_NOT_FOUND: it is. source:
 *         DESIGN 7; row cx7-refuse of tests/model
 */
MUST_USE int visit_refuse(struct shard *shard, const struct report *report);

/* A claim that we inherited is over for sure: its outcome counts no more. */
void visit_forget(struct shard *shard, int64_t seq);

#endif
