/* SPDX-License-Identifier: Apache-2.0
 *
 * Users who look: lists by pages, counts of queues, dead letters, results, one task and what it
 * waits for; and now and then one purges a dead letter. They ask the shard's owner, as the edge
 * does for them.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_READS_H
#define FOLIOT_TESTS_SIM_SIM_READS_H

#include "tests/sim/sim.h"

struct sim_reads;

struct sim_reads *sim_reads_new(struct sim *sim);
void sim_reads_free(struct sim_reads *reads);

void sim_reads_start(struct sim_reads *reads);
void sim_reads_stop(struct sim_reads *reads);

/* What is inside a process that is gone will never be answered. shape: its core is freed. */
void sim_reads_crash(struct sim_reads *reads, struct sim_node *node);

/* Inside a core now. */
size_t sim_reads_open_count(const struct sim_reads *reads);

#endif
