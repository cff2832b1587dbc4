/* SPDX-License-Identifier: Apache-2.0
 *
 * How attempts leave a simulated broker, and the receivers: they do it, refuse it, are slow, never
 * answer or answer too late. Keeps the outbound's contract of broker/core/env.h.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_TARGET_H
#define FOLIOT_TESTS_SIM_SIM_TARGET_H

#include "broker/core/env.h"
#include "lib/base/prng.h"

struct sim_node;

struct sim_target {
    struct outbound outbound;
    struct sim_node *node;
    struct prng prng;
    struct prng rumours;
};

void sim_target_init(struct sim_target *target, struct sim_node *node);

#endif
