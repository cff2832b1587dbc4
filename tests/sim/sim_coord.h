/* SPDX-License-Identifier: Apache-2.0
 *
 * The coordinator of the simulated cluster: the real one (coordinator/coord_zk.c and its parts) in
 * every process, on a fake ZooKeeper. Between it and the core events can be late, lost, told twice
 * or overtaken by younger ones, and a broker may be shown another member list than the others, for
 * long.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_COORD_H
#define FOLIOT_TESTS_SIM_SIM_COORD_H

#include "coordinator/coord.h"
#include "tests/sim/sim.h"

struct sim_coord *sim_coord_new(struct sim *sim);
void sim_coord_free(struct sim_coord *coord);

/* A process starts, and its coordinator with it. Valid until sim_coord_crash. self, events: copied.
 */
struct coord *sim_coord_open(struct sim_coord *coord, struct sim_node *node,
                             const struct member *self, const struct coord_events *events);

/* The process is gone; its session lives on until it expires. */
void sim_coord_crash(struct sim_coord *coord, struct sim_node *node);

/* The process ends its session; a crash follows. */
void sim_coord_leave(struct sim_coord *coord, struct sim_node *node);

/* A pause has begun or ended: the session gets no sign of life meanwhile. */
void sim_coord_set_paused(struct sim_coord *coord, struct sim_node *node);

/* Links have been cut or mended. */
void sim_coord_refresh(struct sim_coord *coord);

/* Both directions of a node's link. */
void sim_coord_cut(struct sim_coord *coord, struct sim_node *node);
void sim_coord_mend(struct sim_coord *coord, struct sim_node *node);

/* The server stops; nothing expires meanwhile. It starts again with the sessions it had. */
void sim_coord_stop(struct sim_coord *coord);
void sim_coord_start(struct sim_coord *coord);

/* The server expires the node's session now; the node hears of it later. */
void sim_coord_expire(struct sim_coord *coord, struct sim_node *node);

/* Somebody deletes the owner znode of a shard by hand. */
void sim_coord_delete_owner(struct sim_coord *coord, uint32_t shard);
bool sim_coord_is_missed(const struct sim_coord *coord, uint32_t shard, int64_t span_us);

/* One node is not told of another from now on, whatever changes; asked again: it is. */
void sim_coord_hide(struct sim_coord *coord, const struct sim_node *from,
                    const struct sim_node *member);

/* ZooKeeper is lost and made anew. It gives generations that the databases have seen already, until
 * its base is raised above all of them (`adopt`) and every broker has a new session. */
void sim_coord_rebuild(struct sim_coord *coord);
void sim_coord_adopt(struct sim_coord *coord);

/* The first half of that: brokers that have joined meanwhile stay. */
void sim_coord_raise(struct sim_coord *coord);

/* The faults end: nothing is hidden, and everybody hears the list as it is. */
void sim_coord_heal(struct sim_coord *coord);

/* The node whose session holds the owner znode, or NULL. */
const struct sim_node *sim_coord_owner(const struct sim_coord *coord, uint32_t shard);

/* Acquires that cores have asked for so far, of one node or (NULL) of all. */
uint64_t sim_coord_acquires(const struct sim_coord *coord, const struct sim_node *node);

/* Requests that cores have made so far. */
uint64_t sim_coord_requests(const struct sim_coord *coord);

#endif
