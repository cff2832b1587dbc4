/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend of foliot dev: SQLite for the tasks, a table in this process for the shards.
 */
#include "broker/dev.h"

#include "broker/server_parts.h"
#include "coordinator/coord_standalone.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/io/entropy.h"
#include "proto/codec.h"
#include "storage/store_sqlite.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One broker needs few; each is a flush at the start. */
#define SHARD_COUNT 8

/* As a cluster's session: how long the database may refuse before its shards are let go. */
#define SESSION_TIMEOUT_MS 4000

struct dev {
    const struct dev_options *options;
    char *errmsg; /* DEV_MESSAGE_LEN */
    int err;      /* why it could not start; 0 */
    struct server *server;
    struct store_sqlite *databases;
    struct standalone *cluster;
    struct store_queue_list list; /* is DEV_QUEUE there? */
    struct store_queue_put put;
};

static struct dev *dev_of(const struct server *server)
{
    return server->backend_ctx;
}

/* ---- start ---- */

static void say_cluster(struct server *server, const struct store_sqlite_found *found)
{
    server->cluster.shard_count = found->shard_count;
    (void)snprintf(server->cluster.id, sizeof(server->cluster.id), "%s", found->cluster_id);
    server->session_timeout_ms = SESSION_TIMEOUT_MS;
}

static bool prepare(struct server *server)
{
    struct dev *dev = dev_of(server);
    struct store_sqlite_found found;
    char id[40];
    const struct store_sqlite_options options = {
        .paths = &dev->options->db_file,
        .database_count = 1,
        .cluster_id = id,
        .shard_count = SHARD_COUNT,
    };

    (void)snprintf(id, sizeof(id), "%016" PRIx64 "%016" PRIx64, entropy_u64(), entropy_u64());
    dev->err = store_sqlite_open(&options, &dev->databases, dev->errmsg);
    if (dev->err != 0) {
        return false;
    }
    store_sqlite_found(dev->databases, &found);
    if (found.epoch_max / EPOCH_BUMP_COUNT >= GENERATION_MAX) {
        (void)snprintf(dev->errmsg, DEV_MESSAGE_LEN,
                       "database %s has used up its %" PRId64
                       " generations of ownership: name another file",
                       dev->options->db_file, GENERATION_MAX);
        dev->err = ERR_CONFLICT;
        return false;
    }
    say_cluster(server, &found);
    return true;
}

static void on_refused(struct server *server, int err, const char *line)
{
    struct dev *dev = dev_of(server);

    dev->err = err;
    (void)snprintf(dev->errmsg, DEV_MESSAGE_LEN, "%s", line);
}

/* ---- parts ---- */

static int open_store(struct server *server)
{
    struct dev *dev = dev_of(server);
    const struct store_sqlite_client_options options = {
        .loop = server->loop,
        .events = {.on_clock = server_on_clock,
                   .on_health = server_on_health,
                   .on_log = server_on_store_log,
                   .ctx = server},
    };

    return store_sqlite_client(dev->databases, &options, &server->store);
}

static int open_coord(struct server *server, const struct member *self)
{
    struct dev *dev = dev_of(server);
    const struct coord_events events = server_coord_events(server);
    struct store_sqlite_found found;
    struct standalone_options options = {
        .loop = server->loop,
        .shard_count = server->cluster.shard_count,
    };
    int err;

    // Whatever the process before this one had got to, its epochs are lower.
    store_sqlite_found(dev->databases, &found);
    options.generation_last = found.epoch_max / EPOCH_BUMP_COUNT;
    err = standalone_open(&options, &dev->cluster);
    return err != 0 ? err : standalone_join(dev->cluster, self, &events, &server->coord);
}

static void gather(const struct server *server, struct figures *figures)
{
    for (uint32_t i = 0; i < server->database_count; i++) {
        struct store_pg_stats *out = &figures->databases[i].store;
        struct store_sqlite_stats stats;

        store_sqlite_stats(server->store, i, &stats);
        out->write_batches = stats.write_batches;
        out->write_ops = stats.write_ops;
        out->write_unknown = stats.write_unknown;
        out->write_refused = stats.write_refused;
        out->write_us = stats.write_us;
        out->reads = stats.reads;
        out->bumps = stats.bumps;
    }
}

static void free_parts(struct server *server)
{
    struct dev *dev = dev_of(server);

    standalone_close(dev->cluster);
    store_sqlite_close(dev->databases);
}

/* ---- the default queue ---- */

static void make_target(const struct server *server, char *target, size_t size)
{
    (void)snprintf(target, size, "receiver://%s", server->advertise);
}

static void tell_ready(struct dev *dev, bool is_default_ours)
{
    const struct dev_place place = {
        .address = dev->server->advertise,
        .admin_address = dev->server->admin_address,
        .db_file = dev->options->db_file,
        .is_default_ours = is_default_ours,
    };

    if (dev->options->on_ready != NULL) {
        dev->options->on_ready(dev->options->ctx, &place);
    }
}

static void on_put(struct store_queue_put *put)
{
    tell_ready(put->owner, put->result == 0);
}

static void create_default(struct dev *dev)
{
    struct queue *queue = &dev->put.queue;

    queue_init(queue);
    (void)snprintf(queue->tenant, sizeof(queue->tenant), "%s", NAMESPACE_DEFAULT);
    (void)snprintf(queue->name, sizeof(queue->name), "%s", DEV_QUEUE);
    queue->target_kind = TARGET_RECEIVER;
    make_target(dev->server, queue->target, sizeof(queue->target));
    dev->put.expected_version = 0;
    dev->put.cb = on_put;
    dev->put.owner = dev;
    if (dev->server->store->queue_put(dev->server->store, &dev->put) != 0) {
        tell_ready(dev, false);
    }
}

/* What a kept file says of it stands, even if it names the port of another run. */
static void on_list(struct store_queue_list *list)
{
    struct dev *dev = list->owner;
    char target[TARGET_BYTES_MAX + 1];

    make_target(dev->server, target, sizeof(target));
    for (size_t i = 0; i < list->row_count; i++) {
        const struct queue *queue = &list->rows[i];

        if (strcmp(queue->tenant, NAMESPACE_DEFAULT) == 0 && strcmp(queue->name, DEV_QUEUE) == 0) {
            tell_ready(dev, strcmp(queue->target, target) == 0);
            return;
        }
    }
    create_default(dev);
}

static void on_ready(struct server *server)
{
    struct dev *dev = dev_of(server);

    dev->server = server;
    dev->list.cb = on_list;
    dev->list.owner = dev;
    if (server->store->queue_list(server->store, &dev->list) != 0) {
        tell_ready(dev, false);
    }
}

static int add_methods(struct server *server)
{
    const struct dev_options *options = dev_of(server)->options;

    return options->method_count == 0
               ? 0
               : rpc_server_add_all(server->rpc, options->methods, options->method_count);
}

static const struct backend backend = {
    .prepare = prepare,
    .on_refused = on_refused,
    .open_store = open_store,
    .open_coord = open_coord,
    .add_methods = add_methods,
    .gather = gather,
    .on_ready = on_ready,
    .free = free_parts,
};

/* ---- settings ---- */

/* The options as foliotd's flags, so that every value is checked as there; the environment is that
 * of the command, not of a broker. */
static int load(const struct dev_options *options, struct config *config,
                struct config_report *report)
{
    char listen[32];
    char admin[32];
    char level[32];
    char format[32];
    char allow[CONFIG_VALUE_BYTES_MAX + 32];
    char *no_environment[] = {NULL};
    char *argv[] = {(char[]){"foliot"},
                    (char[]){"--name=dev"},
                    (char[]){"--databases=dev=store=sqlite"},
                    listen,
                    admin,
                    level,
                    format,
                    allow,
                    NULL};
    struct config_input input = {
        .argc = options->allow == NULL ? 7 : 8, .argv = argv, .environment = no_environment};
    enum config_action action = CONFIG_RUN;

    (void)snprintf(listen, sizeof(listen), "--listen=127.0.0.1:%u", (unsigned)options->port);
    (void)snprintf(admin, sizeof(admin), "--admin-listen=127.0.0.1:%u",
                   (unsigned)options->admin_port);
    (void)snprintf(level, sizeof(level), "--log-level=%s", options->log_level);
    (void)snprintf(format, sizeof(format), "--log-format=%s", options->log_format);
    (void)snprintf(allow, sizeof(allow), "--targets-allow=%s",
                   options->allow == NULL ? "" : options->allow);
    return config_load(config, &input, &action, report);
}

int dev_run(const struct dev_options *options, char *errmsg)
{
    struct dev dev = {.options = options, .errmsg = errmsg};
    struct server_setup setup = {.warnings = "", .backend = &backend, .backend_ctx = &dev};
    struct config_report report;
    struct config config;
    int status;
    int err;

    errmsg[0] = '\0';
    config_report_init(&report);
    err = load(options, &config, &report);
    if (err != 0) {
        const char *text = buf_text(&report.errors);

        (void)snprintf(errmsg, DEV_MESSAGE_LEN, "%.*s", (int)strcspn(text, "\n"), text);
        config_report_fini(&report);
        return err;
    }
    setup.config = &config;
    status = server_run(&setup);
    config_fini(&config);
    config_report_fini(&report);
    if (status == SERVER_EXIT_OK) {
        return 0;
    }
    return dev.err != 0 ? dev.err : ERR_IO;
}
