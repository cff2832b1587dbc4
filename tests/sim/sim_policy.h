/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies of queues that change while tasks are under way: pauses with an end and without,
 * draining, how many attempts at once, when to give up, at most once. What a queue was allowed at
 * any time of the run is remembered for the checkers, since brokers hear of a change when they do.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_POLICY_H
#define FOLIOT_TESTS_SIM_SIM_POLICY_H

#include "tests/sim/sim.h"

struct sim_policies;

/* What held of a queue at some time of the run. */
struct sim_policy_bounds {
    uint32_t failures_min; /* least and most failures at which its tasks are given up */
    uint32_t failures_max;
    uint32_t unknowns_min;
    uint32_t unknowns_max;
    span_ms result_memory_ms; /* least */
    bool was_repeating;       /* not at most once, for a while */
    bool was_at_most_once;
    bool was_draining;
    bool is_pause_changed; /* it is not as at the start */
};

struct sim_policies *sim_policies_new(struct sim *sim);
void sim_policies_free(struct sim_policies *policies);

void sim_policies_start(struct sim_policies *policies);

/* No queue is paused or drained any more, and none changes. */
void sim_policies_heal(struct sim_policies *policies);

/* A queue is about to be written: change what has been changed of it. Returns its version. */
uint32_t sim_policies_put(struct sim_policies *policies, uint32_t number, struct queue *queue);

const struct sim_policy_bounds *sim_policies_bounds(const struct sim_policies *policies,
                                                    uint32_t number);

#endif
