/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of lib/io/loop.h that the ZooKeeper coordinator uses, on a simulated process: its timers
 * run by the process's boot clock and wait while it is paused.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_LOOP_H
#define FOLIOT_TESTS_SIM_SIM_LOOP_H

#include "tests/sim/sim.h"

struct loop;

/* A loop of a process. owner: handed back by sim_loop_owner. */
struct loop *sim_loop_new(struct sim_node *node, void *owner);

/* Free. shape: no timer is started any more; tasks that are still posted are forgotten. */
void sim_loop_free(struct loop *loop);

void *sim_loop_owner(const struct loop *loop);

/* Run what is posted, and what that posts, at once: the process is about to be gone. */
void sim_loop_drain(struct loop *loop);

/* The sim whose time and randomness the coordinator's code gets where it asks without a loop. One
 * simulation at a time per process. */
void sim_loop_set_sim(struct sim *sim);

#endif
