/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend of foliot dev: SQLite for the tasks, a table in this process for the shards.
 */
#include "broker/dev.h"

#include "broker/server_parts.h"
#include "coordinator/coord_standalone.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
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

_Static_assert(DEV_BROKERS_MAX <= SERVER_COUNT_MAX, "a process has room for all brokers");

struct dev {
    const struct dev_options *options;
    char *errmsg;          /* DEV_MESSAGE_LEN */
    int err;               /* why it could not start; 0 */
    struct server *server; /* the first broker's */
    uint32_t ready_count;
    uint32_t server_count; /* that are not freed */
    char addresses[DEV_ADDRESSES_LEN];
    char admin_addresses[DEV_ADDRESSES_LEN];
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

static int open_databases(struct dev *dev)
{
    char id[ENTROPY_NAME_LEN + 1];
    const struct store_sqlite_options options = {
        .paths = &dev->options->db_file,
        .database_count = 1,
        .cluster_id = id,
        .shard_count = SHARD_COUNT,
    };

    entropy_name(id);
    return store_sqlite_open(&options, &dev->databases, dev->errmsg);
}

static bool prepare(struct server *server)
{
    struct dev *dev = dev_of(server);
    struct store_sqlite_found found;

    dev->server_count++;
    if (dev->databases == NULL) {
        dev->server = server;
        dev->err = open_databases(dev);
    }
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

/* Whatever the process before this one had got to, its epochs are lower. */
static int open_cluster(struct dev *dev)
{
    struct store_sqlite_found found;
    struct standalone_options options = {.loop = dev->server->loop};

    store_sqlite_found(dev->databases, &found);
    options.shard_count = found.shard_count;
    options.generation_last = found.epoch_max / EPOCH_BUMP_COUNT;
    return standalone_open(&options, &dev->cluster);
}

static int open_coord(struct server *server, const struct member *self)
{
    struct dev *dev = dev_of(server);
    const struct coord_events events = server_coord_events(server);
    int err = dev->cluster == NULL ? open_cluster(dev) : 0;

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

    // The last one; or none has got so far as to be counted.
    if (dev->server_count <= 1) {
        standalone_close(dev->cluster);
        store_sqlite_close(dev->databases);
        dev->cluster = NULL;
        dev->databases = NULL;
    }
    dev->server_count -= dev->server_count > 0;
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
        .addresses = dev->addresses,
        .admin_address = dev->server->admin_address,
        .admin_addresses = dev->admin_addresses,
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

static void add_address(char *list, const char *address)
{
    size_t len = strlen(list);

    (void)snprintf(list + len, DEV_ADDRESSES_LEN - len, "%s%s", len == 0 ? "" : ",", address);
}

/* With the last of them everything is there. */
static void on_ready(struct server *server)
{
    struct dev *dev = dev_of(server);

    dev->ready_count++;
    if (dev->ready_count < dev->options->broker_count) {
        return;
    }
    for (size_t i = 0; i < server->group->count; i++) {
        add_address(dev->addresses, server->group->servers[i]->advertise);
        add_address(dev->admin_addresses, server->group->servers[i]->admin_address);
    }
    dev->list.cb = on_list;
    dev->list.owner = dev;
    if (dev->server->store->queue_list(dev->server->store, &dev->list) != 0) {
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
static int load(const struct dev_options *options, uint32_t index, struct config *config,
                struct config_report *report)
{
    char name[32] = "--name=dev";
    char listen[32];
    char admin[32];
    char level[32];
    char format[32];
    char allow[CONFIG_VALUE_BYTES_MAX + 32];
    char *no_environment[] = {NULL};
    char *argv[] = {(char[]){"foliot"},
                    name,
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

    if (options->broker_count > 1) {
        (void)snprintf(name, sizeof(name), "--name=dev-%u", index + 1);
    }
    (void)snprintf(listen, sizeof(listen), "--listen=127.0.0.1:%u",
                   options->port == 0 ? 0 : options->port + 2 * index);
    (void)snprintf(admin, sizeof(admin), "--admin-listen=127.0.0.1:%u",
                   options->admin_port == 0 ? 0 : options->admin_port + 2 * index);
    (void)snprintf(level, sizeof(level), "--log-level=%s", options->log_level);
    (void)snprintf(format, sizeof(format), "--log-format=%s", options->log_format);
    (void)snprintf(allow, sizeof(allow), "--targets-allow=%s",
                   options->allow == NULL ? "" : options->allow);
    return config_load(config, &input, &action, report);
}

/* Settings of all brokers, then all of them. */
static int run_all(struct dev *dev, struct config *configs, struct config_report *report)
{
    struct server_setup setups[DEV_BROKERS_MAX];
    uint32_t count = 0;
    int err = 0;

    while (err == 0 && count < dev->options->broker_count) {
        err = load(dev->options, count, &configs[count], report);
        setups[count] = (struct server_setup){
            .config = &configs[count], .warnings = "", .backend = &backend, .backend_ctx = dev};
        count += err == 0;
    }
    if (err != 0) {
        const char *text = buf_text(&report->errors);

        (void)snprintf(dev->errmsg, DEV_MESSAGE_LEN, "%.*s", (int)strcspn(text, "\n"), text);
    } else if (server_run(setups, count) != SERVER_EXIT_OK) {
        err = dev->err != 0 ? dev->err : ERR_IO;
    }
    while (count > 0) {
        config_fini(&configs[--count]);
    }
    return err;
}

int dev_run(const struct dev_options *options, char *errmsg)
{
    struct dev dev = {.options = options, .errmsg = errmsg};
    struct config *configs = mem_new(DEV_BROKERS_MAX, sizeof(*configs));
    struct config_report report;
    int err;

    REQUIRE(options->broker_count >= 1 && options->broker_count <= DEV_BROKERS_MAX);
    errmsg[0] = '\0';
    if (configs == NULL) {
        return ERR_NO_MEMORY;
    }
    config_report_init(&report);
    err = run_all(&dev, configs, &report);
    config_report_fini(&report);
    mem_free(configs);
    return err;
}
