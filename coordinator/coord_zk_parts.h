/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the ZooKeeper coordinator know each other by this file: coord_zk.c is the session's
 * life and the requests, coord_zk_shard.c the owner znodes, coord_zk_self.c our own znode and the
 * config nudge, coord_zk_peers.c the member list. Nobody else includes it.
 */
#ifndef FOLIOT_COORDINATOR_COORD_ZK_PARTS_H
#define FOLIOT_COORDINATOR_COORD_ZK_PARTS_H

#include "coordinator/coord_zk.h"
#include "coordinator/coord_zk_link.h"
#include "coordinator/zk_path.h"
#include "lib/base/list.h"
#include "lib/io/loop.h"

/* Longest total of watched paths. A reconnect sends them all in one packet, and the server drops
 * the connection for ever if it is above 1 MiB (Z-10). Above this we poll instead. */
#define ZK_WATCHED_BYTES_MAX 262144U

/* The session as the core is told of it. */
enum zk_life {
    ZK_DOWN = 1, /* no link; the open timer will make one */
    ZK_JOINING,  /* a link; not registered in this session yet */
    ZK_UP,       /* registered; connected or not */
    ZK_LEAVING,  /* the link is being closed */
    ZK_CLOSED    /* asked to close, and no link any more */
};

/* Whose a znode is, as far as we know. */
enum zk_known {
    ZK_NOBODY,    /* it is absent, as far as we know */
    ZK_UNCERTAIN, /* to be read: it may be ours */
    ZK_OURS,
    ZK_OTHERS
};

/*
 * One shard's owner znode.
 * 1. At most one call is in flight (is_busy).
 * 2. is_held only after an acquire has been answered with success.
 * 3. Not held, no request, and known to be ours or uncertain: it is read, and deleted if ours.
 */
struct zk_shard {
    struct list requests;     /* ACQUIRE, RELEASE, STATE in their order; the head is worked on */
    enum zk_known known;      /* the owner znode */
    int32_t version;          /* of its data; valid if OURS */
    int64_t generation;       /* ACQUIRE: got, not confirmed yet; else 0 */
    wall_ms since_ms;         /* when it became ours */
    bool is_busy;             /* see 1 */
    bool is_begun;            /* the head has been begun */
    bool is_held;             /* see 2 */
    bool is_awaited;          /* an acquire failed on it: on_shard_free is owed */
    bool is_contended;        /* the next read is to leave a watch */
    bool is_watched;          /* a watch is on it */
    bool is_to_verify;        /* held, and not read since the reconnect */
    bool is_stalled;          /* the server refused for a reason that will not pass at once */
    bool is_touched;          /* tried in this session: read again once a minute */
    boot_us suspect_until_us; /* a create without a known outcome may arrive until then; or 0 */
};

/* Our own znode. */
struct zk_self {
    struct member member; /* as published last */
    char node_name[ZK_NODE_NAME_SIZE];
    enum zk_known known;
    int32_t version;          /* of its data, as far as we know; valid if OURS */
    uint64_t wanted_revision; /* raised by each publish */
    uint64_t sent_revision;   /* of the write in flight */
    uint64_t written_revision;
    struct list sent;    /* publishes that the write in flight covers */
    struct list waiting; /* publishes after it */
    bool is_busy;
    bool is_to_verify; /* not read since the reconnect */
};

/* Another broker, or ourselves, as its znode says. */
struct zk_peer {
    struct list node;
    struct coord_zk *zk;
    char node_name[ZK_NODE_NAME_SIZE];
    struct member member; /* valid if is_valid */
    int64_t created_zxid;
    bool is_present; /* in the last list */
    bool is_stale;   /* to be read */
    bool is_busy;    /* a read is in flight */
    bool is_read;    /* read at least once */
    bool is_valid;
    bool is_watched;
};

struct zk_peers {
    struct list list;
    uint32_t count;
    bool is_list_wanted;
    bool is_listing;
    bool is_list_watched;
    bool is_listed;  /* at least once in this session */
    bool is_changed; /* something to tell */
    struct loop_task tell_task;
};

/* The config-version znode. */
struct zk_config {
    struct list nudges; /* the head is in flight if is_nudging */
    int64_t version;    /* as told last; −1: never */
    bool is_wanted;
    bool is_reading;
    bool is_nudging;
    bool is_watched;
};

struct coord_zk {
    struct coord coord; /* first: what callers see */
    struct loop *loop;
    struct coord_events events;
    void (*on_note)(void *ctx, const char *line);
    struct zk_path cluster_path;
    struct cluster cluster;              /* base is read again with each generation */
    struct coord_zk_databases databases; /* names: database_names */
    char **database_names;               /* owned copies */
    char *hosts;
    char *auth; /* may be empty */
    span_ms asked_timeout_ms;
    span_ms session_timeout_ms; /* negotiated */
    span_ms request_timeout_ms;

    enum zk_life life;
    struct zk_link *link;  /* NULL if DOWN or CLOSED */
    bool is_linked;        /* connected */
    bool is_away_told;     /* COORD_AWAY was the last event */
    bool is_verifying;     /* reconnected; COORD_CONNECTED is owed */
    bool is_joining_busy;  /* the cluster's znode is being read */
    bool is_cluster_known; /* it has been read in this session, and is ours */
    bool is_base_busy;     /* it is being read for its base */
    int64_t session_id;    /* 0: none yet */
    uint32_t verify_count; /* nodes that are still to be read before COORD_CONNECTED */
    uint32_t open_count;   /* opens since the last success: back-off */
    boot_us minute_us;     /* when everything is read again */
    boot_us second_us;     /* when stalled and suspect shards are looked at */
    boot_us note_us;       /* when the library's log is passed on again */
    uint32_t watched_bytes;
    uint32_t request_count; /* not answered */
    struct coord_zk_stats stats;
    struct loop_timer open_timer;
    struct loop_timer tick_timer;
    struct list done; /* requests to be answered by done_task */
    struct loop_task done_task;
    struct loop_task finish_task;
    coord_close_cb close_cb;
    void *close_ctx;

    struct zk_self self;
    struct zk_peers peers;
    struct zk_config config;
    struct zk_shard *shards; /* cluster.shard_count */
};

/* ---- coord_zk.c ---- */

/* Answer a request: its callback runs in a posted task. The request leaves its list. */
void zk_answer(struct coord_zk *zk, struct coord_request *request, int result);

/* Registered and connected: calls may be sent. */
bool zk_is_ready(const struct coord_zk *zk);

/* Send a call; false if it could not be sent (tried again by the tick). */
MUST_USE bool zk_send(struct coord_zk *zk, const struct zk_call *call);

/* One node has been read after a reconnect. */
void zk_verified(struct coord_zk *zk);

/* Our znode stands: COORD_NEW if this session is new. */
void zk_joined(struct coord_zk *zk);

/*
 * Read the base of the generations again. A server that lags behind may have told an old one when
 * the session began, and `cluster adopt` may have raised it since; by an old one a generation is
 * below what the databases have, and the next is only one above it. A call that is sent after this
 * is answered after it.
 */
void zk_read_base(struct coord_zk *zk);

/* Tell people. */
void zk_note(struct coord_zk *zk, const char *format, ...) PRINTF_LIKE(2, 3);

/* Account for a watch that is about to be set on `path`; *is_set says whether one is there. False:
 * the limit is met, set none. */
bool zk_watch_add(struct coord_zk *zk, bool *is_set, const struct zk_path *path);

/* The watch on `path` has fired or died. */
void zk_watch_del(struct coord_zk *zk, bool *is_set, const struct zk_path *path);

/* ---- coord_zk_shard.c ---- */

void zk_shard_submit(struct coord_zk *zk, struct coord_request *request);
void zk_shard_kick(struct coord_zk *zk, uint32_t number);
void zk_shard_kick_all(struct coord_zk *zk);
void zk_shard_on_watch(struct coord_zk *zk, uint32_t number);

/* A request at the head of its shard ran out of time, or is answered from outside. */
void zk_shard_withdraw(struct coord_zk *zk, struct coord_request *request);

/* Reconnected in the same session: everything is to be read. Returns how many held ones. */
uint32_t zk_shard_verify_all(struct coord_zk *zk);

/* The session is gone: nothing is ours. Requests stay queued. */
void zk_shard_reset_all(struct coord_zk *zk);

/* Once a second and once a minute. */
void zk_shard_second(struct coord_zk *zk);
void zk_shard_minute(struct coord_zk *zk);

/* ---- coord_zk_self.c ---- */

void zk_self_publish(struct coord_zk *zk, struct coord_request *request);
void zk_self_kick(struct coord_zk *zk);
void zk_self_is_gone(struct coord_zk *zk); /* somebody has deleted our znode */
void zk_self_reset(struct coord_zk *zk);   /* the session is gone */
void zk_config_nudge(struct coord_zk *zk, struct coord_request *request);
void zk_config_kick(struct coord_zk *zk);
void zk_config_refresh(struct coord_zk *zk);
void zk_config_on_watch(struct coord_zk *zk);
void zk_config_reset(struct coord_zk *zk);

/* ---- coord_zk_peers.c ---- */

void zk_peers_init(struct coord_zk *zk);
void zk_peers_kick(struct coord_zk *zk);
void zk_peers_refresh(struct coord_zk *zk); /* list and all bodies again */
void zk_peers_on_list_watch(struct coord_zk *zk);
void zk_peers_on_watch(struct coord_zk *zk, const char *node_name);
void zk_peers_reset(struct coord_zk *zk); /* the session is gone; the link is closed or closing */

#endif
