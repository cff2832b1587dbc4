/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives the memory store: each request of a broker goes through its stages at times and with
 * faults drawn from the seed. Replies come to the broker like any other event.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_STORE_H
#define FOLIOT_TESTS_SIM_SIM_STORE_H

#include "tests/sim/sim.h"

struct sim_store *sim_store_new(struct sim *sim);
void sim_store_free(struct sim_store *store);

/* A door for a process that starts. Valid until sim_store_crash. */
struct store *sim_store_open(struct sim_store *store, struct sim_node *node);

/* The process is gone. shape: its requests' memory is still there. */
void sim_store_crash(struct sim_store *store, struct sim_node *node);

/* kill -9 of a database, and its start. */
void sim_store_down(struct sim_store *store, uint32_t database);
void sim_store_up(struct sim_store *store, uint32_t database);
bool sim_store_is_down(const struct sim_store *store, uint32_t database);

/* Another server takes the place of a database, with what its standby has: connections break, and
 * each broker hears of it before its next request is sent. Returns the number of the last commit
 * that is not lost. */
uint64_t sim_store_promote(struct sim_store *store, uint32_t database);

/* For stories: what happens to the next write of a node at a stage. */
enum sim_store_fate {
    SIM_FATE_NONE = 0,
    SIM_FATE_LOSE_COMMITTED, /* committed, and the reply is lost */
    SIM_FATE_LOSE_OPEN,      /* the connection breaks while it is open; it commits later */
    SIM_FATE_LOSE_ABORTED,   /* the connection breaks and it is rolled back */
    SIM_FATE_FREEZE,         /* stays open with its locks, until somebody ends it */
    SIM_FATE_REFUSE,         /* refused when it is made */
    SIM_FATE_GIVE_UP,        /* given up before it has begun; it may begin later */
    SIM_FATE_COUNT
};
void sim_store_doom(struct sim_store *store, const struct sim_node *node, enum sim_store_fate fate);

/* Requests whose fate above has come. */
uint32_t sim_store_doomed_count(const struct sim_store *store);

#endif
