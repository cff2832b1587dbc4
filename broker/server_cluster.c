/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend of foliotd: ZooKeeper for the shards, PostgreSQL for the tasks. The start may wait
 * for them as long as they take; a signal ends it.
 */
#include "broker/config_table.h"
#include "broker/server_parts.h"
#include "broker/zk_place.h"

#include "lib/base/err.h"
#include "lib/io/clock.h"
#include "lib/io/entropy.h"
#include "storage/pg_migrate.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* One try to reach ZooKeeper, and the pause before the next one of anything. */
#define TRY_MS   3000
#define PAUSE_MS 1000

/* Of tries that fail alike, the first one is told, and then one of so many. */
#define TELL_EVERY 15

/* Has SIGTERM or SIGINT come? They are blocked until the loop runs, and stay for who takes them. */
static bool is_signalled(void)
{
    sigset_t set;

    return sigpending(&set) == 0 &&
           (sigismember(&set, SIGTERM) == 1 || sigismember(&set, SIGINT) == 1);
}

/* Wait a little. False if one of them has come. */
static bool pause_unless_signalled(struct server *server)
{
    const struct timespec pause = {PAUSE_MS / 1000, (PAUSE_MS % 1000) * 1000000L};
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    if (sigtimedwait(&set, NULL, &pause) < 0) {
        return true;
    }
    SERVER_LOG(server, LOG_LEVEL_INFO, "ended by a signal before the start was complete",
               log_text("instance", server->instance));
    server->exit_status = SERVER_EXIT_OK;
    return false;
}

static void not_ready(struct server *server, const char *why)
{
    if (server->admin != NULL) {
        admin_set_ready(server->admin, false, why);
    }
}

/* What is tried again until it works. */
struct trial {
    const char *message; /* of the log line */
    const char *name;    /* what is tried on, and its field's name */
    const char *field;
    uint32_t count;
    char why[512]; /* of the last one that was told */
};

/* After a try that failed: tell it, unless it is told already; false if there is no use in another
 * one, or a signal has come. */
static bool try_again(struct server *server, struct trial *trial, const char *why, int err)
{
    bool is_hopeless = err != ERR_UNAVAILABLE;

    if (is_hopeless || trial->count % TELL_EVERY == 0 || strcmp(trial->why, why) != 0) {
        SERVER_LOG(server, is_hopeless ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN, trial->message,
                   log_text(trial->field, trial->name), log_text("why", why), log_err(err),
                   log_bool("tries_again", !is_hopeless), log_uint("tries", trial->count + 1));
        (void)snprintf(trial->why, sizeof(trial->why), "%s", why);
    }
    trial->count++;
    return !is_hopeless && pause_unless_signalled(server);
}

/* ---- cluster ---- */

static bool find_cluster(struct server *server)
{
    const struct config *config = server->config;
    const char *names[DATABASE_COUNT_MAX];
    const struct coord_zk_databases databases = {names, server->database_count};
    const struct coord_zk_place place = zk_place_of(config);
    struct coord_zk_found found;
    struct trial trial = {
        .message = "cannot read the cluster from ZooKeeper; it must run where zookeeper.hosts says",
        .field = "hosts",
        .name = config->zookeeper_hosts};
    char fresh_id[ENTROPY_NAME_LEN + 1];
    int err;

    entropy_name(fresh_id);
    for (uint32_t i = 0; i < server->database_count; i++) {
        names[i] = server->databases[i].name;
    }
    for (;;) {
        err = coord_zk_init_cluster(&place, &databases, (uint32_t)config->cluster_shards, fresh_id,
                                    TRY_MS, &found);
        if (err == 0) {
            server->cluster = found.cluster;
            server->session_timeout_ms = found.session_timeout_ms;
            return true;
        }
        not_ready(server, "the cluster cannot be read from ZooKeeper\n");
        if (!try_again(server, &trial, found.message, err)) {
            return false;
        }
    }
}

/* ---- databases ---- */

static bool migrate(struct server *server, uint32_t index)
{
    const struct server_database *database = &server->databases[index];
    const struct pg_migrate_options options = {
        .conninfo = database->conninfo,
        .cluster_id = server->cluster.id,
        .shard_count = server->cluster.shard_count,
        .database_of = server->cluster.database_of,
        .database = index,
        .is_stopped = is_signalled,
    };
    struct trial trial = {.message = "cannot bring the database up to date",
                          .field = "database",
                          .name = database->name};
    char why[512];
    int err;

    for (;;) {
        why[0] = '\0';
        err = pg_migrate(&options, why, sizeof(why));
        if (err == 0) {
            return true;
        }
        not_ready(server, "a database cannot be brought up to date\n");
        if (!try_again(server, &trial, why, err)) {
            return false;
        }
    }
}

/* The number of shards is fixed when a cluster is made: a setting that says otherwise is told. */
static void compare_shards(struct server *server)
{
    const struct config *config = server->config;
    size_t index = config_option_find("cluster.shards");

    if (config->origins[index].source != CONFIG_DEFAULT &&
        config->cluster_shards != server->cluster.shard_count) {
        SERVER_LOG(server, LOG_LEVEL_WARN,
                   "cluster.shards is ignored: the cluster was made with another number, for good",
                   log_int("setting", config->cluster_shards),
                   log_uint("shards", server->cluster.shard_count));
    }
}

static bool prepare(struct server *server)
{
    if (!find_cluster(server)) {
        return false;
    }
    SERVER_LOG(server, LOG_LEVEL_INFO, "cluster is read",
               log_text("cluster", server->config->cluster_name),
               log_text("id", server->cluster.id), log_uint("shards", server->cluster.shard_count),
               log_int("session_timeout_ms", server->session_timeout_ms));
    compare_shards(server);
    for (uint32_t i = 0; i < server->database_count; i++) {
        if (!migrate(server, i)) {
            return false;
        }
    }
    SERVER_LOG(server, LOG_LEVEL_INFO, "databases are up to date",
               log_uint("databases", server->database_count),
               log_uint("libpq", (uint64_t)store_pg_library_version()));
    return true;
}

/* ---- parts ---- */

static void on_changed(void *ctx, uint32_t database, uint64_t system_id, uint32_t timeline)
{
    struct server *server = ctx;

    SERVER_LOG(server, LOG_LEVEL_WARN,
               "the database is another server or timeline, all its shards are taken again",
               log_text("database", server->databases[database].name),
               log_uint("system_id", system_id), log_uint("timeline", timeline));
    if (server->broker != NULL) {
        broker_on_timeline(server->broker, &server->now, database);
    }
}

static int open_store(struct server *server)
{
    struct store_pg_database databases[DATABASE_COUNT_MAX];
    struct store_pg_options options;
    char why[512] = "";
    int err;

    for (uint32_t i = 0; i < server->database_count; i++) {
        databases[i] =
            (struct store_pg_database){server->databases[i].name, server->databases[i].conninfo};
    }
    store_pg_options_init(&options);
    options.loop = server->loop;
    options.databases = databases;
    options.database_count = server->database_count;
    options.shard_count = server->cluster.shard_count;
    options.database_of = server->cluster.database_of;
    options.cluster_id = server->cluster.id;
    options.instance = server->instance;
    options.unwritable_ms = server->session_timeout_ms;
    options.events = (struct store_pg_events){
        .on_clock = server_on_clock,
        .on_health = server_on_health,
        .on_changed = on_changed,
        .on_log = server_on_store_log,
        .ctx = server,
    };
    err = store_pg_open(&options, &server->store, why, sizeof(why));
    if (err != 0) {
        SERVER_LOG(server, LOG_LEVEL_ERROR, "cannot open the store", log_text("why", why),
                   log_err(err));
    }
    return err;
}

static int open_coord(struct server *server, const struct member *self)
{
    const char *names[DATABASE_COUNT_MAX];
    const struct coord_zk_options options = {
        .loop = server->loop,
        .place = zk_place_of(server->config),
        .databases = {names, server->database_count},
        .cluster = &server->cluster,
        .self = self,
        .events = server_coord_events(server),
        .on_note = server_on_note,
    };
    int err;

    for (uint32_t i = 0; i < server->database_count; i++) {
        names[i] = server->databases[i].name;
    }
    err = coord_zk_open(&options, &server->coord);
    if (err != 0) {
        SERVER_LOG(server, LOG_LEVEL_ERROR, "cannot open the coordinator", log_err(err));
    }
    return err;
}

static void server_of(void *ctx, uint32_t database, uint64_t *system_id, uint32_t *timeline)
{
    const struct server *server = ctx;

    store_pg_server(server->store, database, system_id, timeline);
}

static void gather(const struct server *server, struct figures *figures)
{
    coord_zk_stats(server->coord, &figures->coord);
    for (uint32_t i = 0; i < server->database_count; i++) {
        store_pg_stats(server->store, i, &figures->databases[i].store);
    }
}

const struct backend SERVER_CLUSTER = {
    .is_daemon = true,
    .has_sessions = true,
    .prepare = prepare,
    .open_store = open_store,
    .open_coord = open_coord,
    .server_of = server_of,
    .gather = gather,
};
