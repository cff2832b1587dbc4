/* SPDX-License-Identifier: Apache-2.0
 *
 * The start before there is a loop: it may wait for ZooKeeper and PostgreSQL as long as they take,
 * a signal ends it.
 */
#include "broker/config_table.h"
#include "broker/server_parts.h"

#include "lib/base/err.h"
#include "lib/io/clock.h"
#include "lib/io/entropy.h"
#include "storage/pg_migrate.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* One try to reach ZooKeeper, and the pause before the next one of anything. */
#define TRY_MS   3000
#define PAUSE_MS 1000

/* Of tries that fail alike, the first one is told, and then one of so many. */
#define TELL_EVERY 15

/* A loop that is silent for so many session timeouts fails /livez; the watchdog is earlier. */
#define STUCK_TIMEOUTS 3

/* Wait a little. False if SIGTERM or SIGINT has come, which are blocked until the loop runs. */
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
        admin_set_ready(server->admin, why);
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

const char *server_listen_problem(int err)
{
    switch (err) {
    case ERR_EXISTS:
        return "the port is taken: end what listens there, or choose another one";
    case ERR_DENIED:
        return "not allowed: ports below 1024 are root's";
    case ERR_INVALID:
        return "not an address of this machine";
    default:
        return err_text(err);
    }
}

static bool open_admin(struct server *server)
{
    const struct config *config = server->config;
    char host[MEMBER_ADDRESS_LEN_MAX + 1];
    struct admin_options options = {
        .host = host,
        .clock_us = clock_boot_us,
        .stuck_ms = STUCK_TIMEOUTS * config->zookeeper_session_timeout_ms,
    };
    int err;

    if (strcmp(config->admin_listen, "off") == 0) {
        return true;
    }
    err = config_split_address(config->admin_listen, host, sizeof(host), &options.port);
    if (err == 0) {
        err = admin_open(&options, &server->admin);
    }
    if (err != 0) {
        SERVER_LOG(server, LOG_LEVEL_ERROR, "cannot open the admin port",
                   log_text("setting", "admin.listen"), log_text("address", config->admin_listen),
                   log_text("why", server_listen_problem(err)), log_err(err));
        return false;
    }
    (void)snprintf(server->admin_address, sizeof(server->admin_address),
                   strchr(host, ':') == NULL ? "%s:%u" : "[%s]:%u", host,
                   (unsigned)admin_port(server->admin));
    SERVER_LOG(server, LOG_LEVEL_INFO, "admin port is open",
               log_text("address", server->admin_address));
    return true;
}

/* ---- cluster ---- */

static void make_id(char *id, size_t size)
{
    (void)snprintf(id, size, "%016" PRIx64 "%016" PRIx64, entropy_u64(), entropy_u64());
}

static bool find_cluster(struct server *server)
{
    const struct config *config = server->config;
    const char *names[DATABASE_COUNT_MAX];
    const struct coord_zk_databases databases = {names, server->database_count};
    const struct coord_zk_place place = {
        .hosts = config->zookeeper_hosts,
        .root = config->zookeeper_root,
        .name = config->cluster_name,
        .session_timeout_ms = config->zookeeper_session_timeout_ms,
    };
    struct trial trial = {.message = "cannot read the cluster from ZooKeeper",
                          .field = "hosts",
                          .name = config->zookeeper_hosts};
    char fresh_id[40];
    int err;

    make_id(fresh_id, sizeof(fresh_id));
    for (uint32_t i = 0; i < server->database_count; i++) {
        names[i] = server->databases[i].name;
    }
    for (;;) {
        err = coord_zk_init_cluster(&place, &databases, (uint32_t)config->cluster_shards, fresh_id,
                                    TRY_MS, &server->found);
        if (err == 0) {
            return true;
        }
        not_ready(server, "the cluster cannot be read from ZooKeeper\n");
        if (!try_again(server, &trial, server->found.message, err)) {
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
        .cluster_id = server->found.cluster.id,
        .shard_count = server->found.cluster.shard_count,
        .database_of = server->found.cluster.database_of,
        .database = index,
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

/* Every connection is a descriptor: take as many as we may have. */
static void raise_descriptor_limit(struct server *server)
{
    struct rlimit limit;
    int64_t wanted = server->config->limits_connections + server->config->targets_max;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)wanted > limit.rlim_max) {
        SERVER_LOG(server, LOG_LEVEL_WARN,
                   "the limit of open files is below limits.connections and targets.max together",
                   log_uint("limit", limit.rlim_max), log_int("wanted", wanted));
    }
}

/* The number of shards is fixed when a cluster is made: a setting that says otherwise is told. */
static void compare_shards(struct server *server)
{
    const struct config *config = server->config;
    size_t index = config_option_find("cluster.shards");

    if (config->origins[index].source != CONFIG_DEFAULT &&
        config->cluster_shards != server->found.cluster.shard_count) {
        SERVER_LOG(server, LOG_LEVEL_WARN,
                   "cluster.shards is ignored: the cluster was made with another number, for good",
                   log_int("setting", config->cluster_shards),
                   log_uint("shards", server->found.cluster.shard_count));
    }
}

bool server_prepare(struct server *server)
{
    raise_descriptor_limit(server);
    if (!open_admin(server) || !find_cluster(server)) {
        return false;
    }
    SERVER_LOG(server, LOG_LEVEL_INFO, "cluster is read",
               log_text("cluster", server->config->cluster_name),
               log_text("id", server->found.cluster.id),
               log_uint("shards", server->found.cluster.shard_count),
               log_int("session_timeout_ms", server->found.session_timeout_ms));
    compare_shards(server);
    for (uint32_t i = 0; i < server->database_count; i++) {
        if (!migrate(server, i)) {
            return false;
        }
    }
    SERVER_LOG(server, LOG_LEVEL_INFO, "databases are up to date",
               log_uint("databases", server->database_count));
    return true;
}
