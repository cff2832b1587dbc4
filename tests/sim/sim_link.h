/* SPDX-License-Identifier: Apache-2.0
 *
 * Who reaches whom: brokers, the coordinator, databases, users, targets. Each direction of each
 * pair can be cut by itself, and a message may get lost, be late or arrive twice. Cuts come from
 * the seed, alone or as a swizzle: the links of some brokers stop one by one and are restored in
 * another order.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_LINK_H
#define FOLIOT_TESTS_SIM_SIM_LINK_H

#include "tests/sim/sim.h"

/* The ends of links; brokers and databases by their numbers. */
#define SIM_END_NODE(number)     ((uint32_t)(number))
#define SIM_END_COORD            SIM_NODE_COUNT_MAX
#define SIM_END_USERS            (SIM_NODE_COUNT_MAX + 1)
#define SIM_END_TARGETS          (SIM_NODE_COUNT_MAX + 2)
#define SIM_END_DATABASE(number) (SIM_NODE_COUNT_MAX + 3 + (uint32_t)(number))
#define SIM_END_COUNT            (SIM_NODE_COUNT_MAX + 3 + DATABASE_COUNT_MAX)

/* Most copies of one message that arrive. */
#define SIM_COPIES_MAX 2U

struct sim_links;

struct sim_links *sim_links_new(struct sim *sim);
void sim_links_free(struct sim_links *links);

/* Faults of the seed begin; they end, and everything is mended. */
void sim_links_start(struct sim_links *links);
void sim_links_heal(struct sim_links *links);

/* Cut or mend one direction; repeated ones change nothing. */
void sim_link_cut(struct sim_links *links, uint32_t from, uint32_t to);
void sim_link_mend(struct sim_links *links, uint32_t from, uint32_t to);

bool sim_link_passes(const struct sim_links *links, uint32_t from, uint32_t to);

/* Both directions. */
bool sim_link_is_whole(const struct sim_links *links, uint32_t a, uint32_t b);

/* What becomes of a message: how many copies arrive, each after how long. */
size_t sim_link_send(struct sim_links *links, uint32_t from, uint32_t to,
                     int64_t spans[SIM_COPIES_MAX]);

#endif
