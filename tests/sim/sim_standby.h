/* SPDX-License-Identifier: Apache-2.0
 *
 * Asynchronous standbys of the databases. A commit reaches its database's standby some time after
 * it is answered; a promotion loses those that have not, and brings the database up as another
 * server with a timeline of its own. source: RELIABILITY H-6
 */
#ifndef FOLIOT_TESTS_SIM_SIM_STANDBY_H
#define FOLIOT_TESTS_SIM_SIM_STANDBY_H

#include "tests/sim/sim.h"

struct sim_standby *sim_standby_new(struct sim *sim);
void sim_standby_free(struct sim_standby *standby);

/* Commits are on their way from now on. */
void sim_standby_start(struct sim_standby *standby);

/* A transaction has committed on a primary. */
void sim_standby_on_commit(struct sim_standby *standby, const struct store_mem_commit *commit);

/* The commits of the last lost_us never reached the standby, which is the primary now. shape: at
 * most options.standby_lag_us count. */
void sim_standby_promote(struct sim_standby *standby, uint32_t database, int64_t lost_us);

/* Nothing is lost any more. */
void sim_standby_heal(struct sim_standby *standby);

#endif
