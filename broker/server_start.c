/* SPDX-License-Identifier: Apache-2.0
 *
 * The start before there is a loop: it may wait for ZooKeeper and PostgreSQL as long as they take,
 * a signal ends it.
 */
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
                   log_text("address", config->admin_listen), log_err(err));
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
        SERVER_LOG(server, err == ERR_UNAVAILABLE ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
                   "cannot read the cluster from ZooKeeper",
                   log_text("hosts", config->zookeeper_hosts),
                   log_text("why", server->found.message), log_err(err));
        not_ready(server, "the cluster cannot be read from ZooKeeper\n");
        if (err != ERR_UNAVAILABLE || !pause_unless_signalled(server)) {
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
    char why[512];
    int err;

    for (;;) {
        why[0] = '\0';
        err = pg_migrate(&options, why, sizeof(why));
        if (err == 0) {
            return true;
        }
        SERVER_LOG(server, err == ERR_UNAVAILABLE ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
                   "cannot bring the database up to date", log_text("database", database->name),
                   log_text("why", why), log_err(err));
        not_ready(server, "a database cannot be brought up to date\n");
        if (err != ERR_UNAVAILABLE || !pause_unless_signalled(server)) {
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
    for (uint32_t i = 0; i < server->database_count; i++) {
        if (!migrate(server, i)) {
            return false;
        }
    }
    SERVER_LOG(server, LOG_LEVEL_INFO, "databases are up to date",
               log_uint("databases", server->database_count));
    return true;
}
