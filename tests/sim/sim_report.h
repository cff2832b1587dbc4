/* SPDX-License-Identifier: Apache-2.0
 *
 * Outcomes on their way to whichever broker owns the shard by then: from the broker whose attempt
 * it was, and rumours: late ones, doubles, and what is said of attempts that are long over.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_REPORT_H
#define FOLIOT_TESTS_SIM_SIM_REPORT_H

#include "broker/core/env.h"
#include "tests/sim/sim.h"

/* Tell it, beginning at a node, after a while; again and elsewhere until somebody has listened. */
void sim_report(struct sim_node *node, const struct report *report, int64_t span_us);

/* An attempt is over, as its broker sees it: perhaps there is something more to be heard of it. */
void sim_report_rumour(struct sim_node *node, const struct attempt *attempt);

#endif
