/* SPDX-License-Identifier: Apache-2.0
 *
 * A fake ZooKeeper: znodes with versions, sessions with ephemerals, one-shot watches. Every znode
 * keeps its past, so that a client of a follower that lags reads what was. Writes are decided by
 * the leader, at once; delays and losses are the links' (sim_zk_link.c).
 */
#ifndef FOLIOT_TESTS_SIM_SIM_ZK_H
#define FOLIOT_TESTS_SIM_SIM_ZK_H

#include "coordinator/coord_zk_link.h"
#include "tests/sim/sim.h"

struct sim_zk;

/* Most that a follower may be behind its leader. */
#define SIM_ZK_LAG_US_MAX (10 * US_PER_S)

/* A watch at the server, embedded in what waits. It fires once. */
struct sim_zk_watch {
    struct list link; /* in its znode's list while it is armed */
    void (*fire)(struct sim_zk_watch *watch);
};

/* What a call came to. data and names are borrowed until the next call. */
struct sim_zk_result {
    int code;
    struct zk_stat stat;
    struct slice data;
    const char **names;
    size_t name_count;
};

/* The ensemble with the znodes of sim->cluster. */
struct sim_zk *sim_zk_new(struct sim *sim);
void sim_zk_free(struct sim_zk *zk);

/*
 * A read as of a moment: EXISTS, GET, LIST.
 *
 * watch: NULL, or armed on what is read; it fires at once, inside, if that has changed since
 * `as_of`.
 */
void sim_zk_read(struct sim_zk *zk, const struct zk_call *call, int64_t as_of,
                 struct sim_zk_watch *watch, struct sim_zk_result *out);

/* A write of a session that is alive: CREATE, DELETE, SET. */
void sim_zk_write(struct sim_zk *zk, const struct zk_call *call, int64_t session,
                  struct sim_zk_result *out);

/* --- sessions -------------------------------------------------------------------------------- */

typedef void (*sim_zk_end_fn)(void *ctx, int64_t session);

/* fn is told of every session's end, so that its connection can be closed. */
void sim_zk_on_end(struct sim_zk *zk, sim_zk_end_fn fn, void *ctx);

/* A new one; heard of. node: whose. */
int64_t sim_zk_session_new(struct sim_zk *zk, struct sim_node *node);
bool sim_zk_session_is_alive(const struct sim_zk *zk, int64_t number);

/* Signs of life arrive, or stop arriving: then it ends a session timeout and up to a tick later. */
void sim_zk_session_heard(struct sim_zk *zk, int64_t number);
void sim_zk_session_silent(struct sim_zk *zk, int64_t number);

/* Its ephemerals go with it. */
void sim_zk_session_end(struct sim_zk *zk, int64_t number);

/* The server stops, nothing expires meanwhile; it starts with all sessions, silent until heard. */
void sim_zk_stop(struct sim_zk *zk);
void sim_zk_start(struct sim_zk *zk);
bool sim_zk_is_stopped(const struct sim_zk *zk);

/* --- by hand --------------------------------------------------------------------------------- */

/* Somebody deletes the owner znode of a shard. */
void sim_zk_delete_owner(struct sim_zk *zk, uint32_t shard);

/* Whether that may still be why nobody serves a shard: its znode has been missed at a look at
 * everything, or will be, and was not made again for so long. */
bool sim_zk_is_missed(const struct sim_zk *zk, uint32_t shard, int64_t span_us);

/* All is lost and made anew: every session ends, all versions begin at 0. */
void sim_zk_rebuild(struct sim_zk *zk);

/* What is added to every generation from now on, for whoever registers from now on. */
void sim_zk_set_base(struct sim_zk *zk, int64_t base);
int64_t sim_zk_base(const struct sim_zk *zk);

/* The node whose session holds the owner znode, or NULL. */
struct sim_node *sim_zk_owner(const struct sim_zk *zk, uint32_t shard);

#endif
