/* SPDX-License-Identifier: Apache-2.0
 *
 * A fake coordinator: sessions that expire and are told so late, ephemeral znodes, member lists
 * that reach brokers at different times, requests and replies that get lost, watches.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_COORD_H
#define FOLIOT_TESTS_SIM_SIM_COORD_H

#include "coordinator/coord.h"
#include "tests/sim/sim.h"

struct sim_coord *sim_coord_new(struct sim *sim);
void sim_coord_free(struct sim_coord *coord);

/* A process starts, and its handle with it. Valid until sim_coord_crash or sim_coord_leave. */
struct coord *sim_coord_open(struct sim_coord *coord, struct sim_node *node);

/* The process is gone; its session lives on until it expires. */
void sim_coord_crash(struct sim_coord *coord, struct sim_node *node);

/* The process ends its session and goes. */
void sim_coord_leave(struct sim_coord *coord, struct sim_node *node);

/* A pause begins or ends: the session gets no sign of life meanwhile. */
void sim_coord_set_paused(struct sim_coord *coord, struct sim_node *node, bool is_paused);

/* The link of a node breaks, or is mended. */
void sim_coord_cut(struct sim_coord *coord, struct sim_node *node);
void sim_coord_mend(struct sim_coord *coord, struct sim_node *node);

/* The server stops; nothing expires meanwhile. It starts again with the sessions it had. */
void sim_coord_stop(struct sim_coord *coord);
void sim_coord_start(struct sim_coord *coord);

/* The server expires the node's session now; the node hears of it later. */
void sim_coord_expire(struct sim_coord *coord, struct sim_node *node);

/* Somebody deletes the owner znode of a shard by hand. */
void sim_coord_delete_owner(struct sim_coord *coord, uint32_t shard);

/* The node whose session holds the owner znode, or NULL. */
const struct sim_node *sim_coord_owner(const struct sim_coord *coord, uint32_t shard);

#endif
