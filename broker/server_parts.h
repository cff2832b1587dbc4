/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the server share. Private to broker/server*.
 */
#ifndef FOLIOT_BROKER_SERVER_PARTS_H
#define FOLIOT_BROKER_SERVER_PARTS_H

#include "broker/admin/admin.h"
#include "broker/core/broker.h"
#include "broker/json_api.h"
#include "broker/metrics.h"
#include "broker/outbound.h"
#include "broker/queue_sync.h"
#include "broker/server.h"
#include "broker/service.h"
#include "coordinator/coord_zk.h"
#include "lib/base/clock_estimate.h"
#include "lib/base/log.h"
#include "lib/io/loop.h"
#include "lib/io/resolve.h"
#include "lib/io/watchdog.h"
#include "lib/rpc/rpc_health.h"
#include "lib/rpc/rpc_reflection.h"
#include "lib/rpc/rpc_server.h"
#include "storage/store_pg.h"

/* Figures are gathered and published with each beat, and this often while we are not ready. */
#define SERVER_PUBLISH_EARLY_MS 50

/* After the waiting of a drain, everything is closed within this, or the process ends anyhow. */
#define SERVER_CLOSE_MS 10000

enum server_phase {
    SERVER_STARTING = 1,
    SERVER_SERVING,
    SERVER_DRAINING, /* released, waiting for what runs */
    SERVER_CLOSING   /* parts are being closed, one after the other */
};

struct server;

/*
 * Where the shards and the tasks are: what differs between foliotd and foliot dev. The server
 * closes coordinator and store through their interfaces.
 */
struct backend {
    bool is_daemon;    /* a hangup reads the files of TLS again; else it is started by hand, and a
                          terminal that goes ends it */
    bool has_sessions; /* of its coordinator may be lost: worth a line in the log */
    /*
     * Before there is a loop, may block: fill in cluster and session_timeout_ms, bring the
     * databases up to date. False if it cannot be done or a signal has come; exit_status then says
     * which.
     */
    bool (*prepare)(struct server *server);
    /* The server itself cannot start, one line says why; NULL: it is logged. */
    void (*on_refused)(struct server *server, int err, const char *line);
    /* Fill in server->store, server->coord; log what is wrong. */
    int (*open_store)(struct server *server);
    int (*open_coord)(struct server *server, const struct member *self);
    /* Which server a database is on; NULL: its store has none. */
    void (*server_of)(void *server, uint32_t database, uint64_t *system_id, uint32_t *timeline);
    /* Figures of its own parts. */
    void (*gather)(const struct server *server, struct figures *figures);
    /* Methods besides those of the broker; may be NULL. */
    int (*add_methods)(struct server *server);
    /* Once, when the server is ready for calls; may be NULL. */
    void (*on_ready)(struct server *server);
    /* Every part is closed, the loop is still there if there was one; may be NULL. */
    void (*free)(struct server *server);
};

/* What is known of one database. */
struct server_database {
    struct server *server;
    char name[NAME_BYTES_MAX + 1];
    const char *conninfo; /* borrowed from the configuration */
    struct clock_estimate clock;
    uint64_t clock_steps; /* of it, both ways */
    bool is_writable;
};

/* Keys and certificates; NULL: not wanted. */
struct server_tls {
    struct tls *calls; /* of what listens */
    struct tls *peers; /* for the other brokers */
    struct tls *targets;
    struct loop_timer look; /* when the files are looked at again */
    struct loop_signal *hangup;
    bool is_watching;
    boot_us refused_us; /* when a refused client was logged last; 0: never */
    uint64_t unlogged_count;
};

/* Servers that share a loop: one, but in dev mode. */
struct server_group {
    struct server *servers[SERVER_COUNT_MAX];
    size_t count;
    size_t open_count; /* that are not closed; with the last one the loop stops */
    struct loop *loop;
};

/*
 * 1. now is the time of this turn; the core has been given it.
 * 2. Parts are NULL before they are opened and after they are closed.
 */
struct server {
    const struct config *config;
    const struct backend *backend;
    void *backend_ctx;
    struct log log;
    struct logger logger;
    enum server_phase phase;
    int exit_status;
    char instance[INSTANCE_TEXT_LEN + 1];
    char name[MEMBER_NAME_BYTES_MAX + 1]; /* as registered */
    char advertise[MEMBER_ADDRESS_LEN_MAX + 1];
    char admin_address[MEMBER_ADDRESS_LEN_MAX + 1];
    struct cluster cluster;
    span_ms session_timeout_ms; /* what a silent broker loses its shards after */
    struct server_database databases[DATABASE_COUNT_MAX];
    uint32_t database_count;
    struct now now;
    boot_us turn_us; /* when this turn began */
    enum coord_session session;
    struct admin *admin;
    struct broker_metrics *metrics;
    struct buf page; /* of /metrics, while it is written */
    bool is_ready;   /* as published last */
    bool has_been_ready;
    struct shard_set served; /* shards that the log has called served */
    struct server_group *group;
    struct loop *loop; /* the group's */
    struct watchdog *watchdog;
    struct resolver *resolver;
    struct server_tls tls;
    struct rpc_server *rpc;
    struct rpc_health *health;
    struct rpc_reflection *reflection; /* NULL if it is off */
    struct json_api *json_api;         /* NULL: off */
    struct store *store;
    struct coord *coord;
    struct edge_outbound *outbound;
    struct broker *broker;
    struct queue_sync *queues;
    struct service *service;
    struct loop_signal *terminate;
    struct loop_signal *interrupt;
    struct loop_hook first;
    struct loop_hook last;
    bool has_hooks;
    struct loop_timer wake;    /* the core's */
    struct loop_timer publish; /* of figures and readiness */
    struct loop_timer fuse;    /* end of the waiting, then of the closing */
    struct loop_task leaving;  /* a drain that a call has asked for */
    bool rpc_is_drained;
    bool is_closed; /* every part that needs a callback has given it */
};

/* One line in the log; fields as LOG_WRITE takes them. */
#define SERVER_LOG(server, level, message, ...) \
    LOG_WRITE(&(server)->logger, level, clock_wall_us(), message, __VA_ARGS__)

/* ---- server_start.c: what blocks, before there is a loop ---- */

/*
 * Open the admin port, then the backend's own start.
 *
 * return: false if it cannot be done or a signal has come; exit_status then says which.
 */
MUST_USE bool server_prepare(struct server *server);

/* Say that an address cannot be listened on: a static message, and which setting names it. */
void server_cannot_listen(struct server *server, const char *message, const char *setting,
                          const char *address, int err);

/* ---- server_listen.c ---- */

/* Open the port for calls. errors: as rpc_server_open, logged. */
MUST_USE int server_listen(struct server *server);

/* ---- server_tls.c ---- */

/* Read the files. errors: as tls_open, logged. */
MUST_USE int server_tls_open(struct server *server);

/* Free. shape: what used it is closed. */
void server_tls_close(struct server_tls *tls);

/* Read the files again on SIGHUP and when they have changed. errors: as loop_signal_open. */
MUST_USE int server_tls_watch(struct server *server);
void server_tls_unwatch(struct server *server);

/* Shape of rpc_refused_fn; ctx is the server. */
void server_on_tls_refused(const char *peer, const char *why, void *ctx);

/* ---- server_drain.c ---- */

/* A signal: begin to drain; the second one skips the waiting. */
void server_on_signal(int number, void *ctx);

/* Drain as after SIGTERM, now or soon, unless that has begun. ctx: the server. */
void server_leave(void *ctx);
void server_drain_soon(void *ctx);

/* Once per turn: is what a drain waits for at its end? */
void server_step_drain(struct server *server);

/* Close every part that was opened, one after the other; the last server stops the loop. */
void server_close(struct server *server);

/* Free what is left. shape: is_closed, or there never was a loop. */
void server_free(struct server *server);

/* ---- server_events.c: what store and coordinator tell ---- */

/* Events of a store; ctx is the server. */
void server_on_clock(void *ctx, uint32_t database, boot_us sent, boot_us received,
                     int64_t database_us);
void server_on_health(void *ctx, uint32_t database, bool writable);
void server_on_store_log(void *ctx, uint32_t database, enum log_level level, const char *line);
void server_on_failing(void *ctx, const char *queue, const char *target,
                       const struct failure_note *note);

/* What happens inside the core, to the log. Shape of core_event_fn; ctx is the server. */
void server_on_core_event(void *ctx, const struct core_event *event);
struct coord_events server_coord_events(struct server *server);
void server_on_note(void *ctx, const char *line);

/* ---- server_publish.c ---- */

/* Gather figures and readiness for the admin port; again once a second. */
void server_publish(struct loop_timer *timer, void *ctx);

/* Something that readiness depends on has changed. */
void server_publish_soon(struct server *server);

/* A database's clock, for the outbound: ctx is the server. */
struct clock_bounds server_bounds_at(void *ctx, uint32_t database, boot_us at_us);

#endif
