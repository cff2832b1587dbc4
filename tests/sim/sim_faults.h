/* SPDX-License-Identifier: Apache-2.0
 *
 * What is done to the cluster on purpose: kills, pauses, expiries, cuts, drains, databases that are
 * down, at moments drawn from the seed.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_FAULTS_H
#define FOLIOT_TESTS_SIM_SIM_FAULTS_H

#include "tests/sim/sim.h"

struct sim_faults *sim_faults_new(struct sim *sim);
void sim_faults_free(struct sim_faults *faults);

void sim_faults_start(struct sim_faults *faults);

/* No more of them, and everything is mended. */
void sim_faults_heal(struct sim_faults *faults);

#endif
