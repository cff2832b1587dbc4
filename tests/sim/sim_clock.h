/* SPDX-License-Identifier: Apache-2.0
 *
 * The clocks of the databases, which drift and step, and what each broker can know of them. A step
 * is news until a reply that came after it has displaced what was known before: until then a broker
 * rightly believes in the clock as it was, and the checkers allow exactly that. source: DESIGN 8
 */
#ifndef FOLIOT_TESTS_SIM_SIM_CLOCK_H
#define FOLIOT_TESTS_SIM_SIM_CLOCK_H

#include "lib/base/clock_estimate.h"
#include "tests/sim/sim.h"

struct sim_clocks *sim_clocks_new(struct sim *sim);
void sim_clocks_free(struct sim_clocks *clocks);

/* The highest that it has ever been: by that it has thrown away what was kept until then. */
int64_t sim_clock_highest(const struct sim *sim, uint32_t database);

/* It steps. */
void sim_clock_step(struct sim *sim, uint32_t database, int64_t step_us);

/* The boot clock of a node has stood still with its process since a true time: to it all databases'
 * clocks step forward. */
void sim_clock_stall(struct sim *sim, uint32_t node, int64_t since);

/* A process starts: it knows of no clock. */
void sim_clock_forget(struct sim *sim, uint32_t node);

/* A reply has come to a node: executed_at is the true time at which the database answered. */
void sim_clock_heard(struct sim *sim, uint32_t node, uint32_t database, int64_t executed_at,
                     enum clock_verdict verdict);

/* The highest time that a node may rightly take for passed: the clock, or what it was before it
 * stepped back. Without steps exactly the clock. */
int64_t sim_clock_latest(struct sim *sim, uint32_t node, uint32_t database);

/* The lowest time that a node may rightly take for the latest that it can be: the clock, or what it
 * would be without the steps forward that are news to it. */
int64_t sim_clock_earliest(const struct sim *sim, uint32_t node, uint32_t database);

/* The highest sim_clock_latest of all nodes. */
int64_t sim_clock_latest_of_all(struct sim *sim, uint32_t database);

/* What steps forward have come to since a true time, for a node. */
int64_t sim_clock_forward(const struct sim *sim, uint32_t node, uint32_t database, int64_t since);

#endif
