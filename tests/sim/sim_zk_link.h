/* SPDX-License-Identifier: Apache-2.0
 *
 * coordinator/coord_zk_link.h on the fake ZooKeeper: connections of a process that break and come
 * back, with calls whose outcome stays unknown, sessions that are over before the client hears of
 * it, watches that fire late. This is what the simulator needs of it besides.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_ZK_LINK_H
#define FOLIOT_TESTS_SIM_SIM_ZK_LINK_H

#include "tests/sim/sim_zk.h"

/* How the call of sim->zk_calls fails. */
enum sim_zk_fate {
    SIM_ZK_REFUSED = 1,  /* by the client library: nothing was sent */
    SIM_ZK_ERROR,        /* the server says something that nobody expects, and does nothing */
    SIM_ZK_BREAK_BEFORE, /* the connection breaks before the call takes effect */
    SIM_ZK_BREAK_AFTER,  /* after it, and before the reply */
    SIM_ZK_BREAK_LATE,   /* before it, and a write takes effect as late as can be */
    SIM_ZK_FATE_COUNT
};

/* What a loop's owner is for a link: the process that it is opened in. */
struct sim_zk_host {
    struct sim *sim;
    struct sim_zk *zk;
    struct sim_node *node;
    struct prng *prng;
    struct zk_link *link; /* NULL: none */
    bool is_gone;         /* the process is being killed: what is closed ends at once */
};

/* Whether the process can be reached has changed, or it was paused or woken, or the server stopped
 * or started. */
void sim_zk_link_refresh(struct sim_zk_host *host);

/* Its server has caught up with the leader. */
void sim_zk_link_heal(struct sim_zk_host *host);

/* The server has ended the session of this number, if it is the link's. */
void sim_zk_link_on_end(struct sim_zk_host *host, int64_t session);

/* The session that the link has, or 0. */
int64_t sim_zk_link_session(const struct sim_zk_host *host);

/* The process ends its session in time, if that can be done. */
void sim_zk_link_leave(struct sim_zk_host *host);

/* For the end of a process: a close that is under way ends now. */
void sim_zk_link_hurry(struct sim_zk_host *host);

#endif
