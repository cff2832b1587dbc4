/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot cluster status, shards.
 */
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/moment.h"
#include "client/cli/run.h"
#include "lib/base/check.h"
#include "proto/codec_cluster.h"

#include <inttypes.h>
#include <stdio.h>

#define TOPOLOGY_PATH "/foliot.v1.ClusterService/GetTopology"

static const struct output_column BROKER_COLUMNS[] = {
    {"BROKER", false},  {"GRPC", false},    {"ADMIN", false},
    {"VERSION", false}, {"SHARDS", false},  {"STARTED", false},
    {"CANNOT", false},  {"INSTANCE", true}, {"CONFIG", true},
};
static const struct output_column SHARD_COLUMNS[] = {
    {"SHARD", false}, {"DATABASE", false}, {"OWNER", false},  {"EPOCH", false},
    {"STATE", false}, {"SINCE", false},    {"INSTANCE", true}};

/* JSON is the whole topology for both: one document. */
static const struct output_layout BROKER_LAYOUT = {BROKER_COLUMNS, ARRAY_COUNT(BROKER_COLUMNS), 0,
                                                   "brokers"};
static const struct output_layout SHARD_LAYOUT = {SHARD_COLUMNS, ARRAY_COUNT(SHARD_COLUMNS), 0,
                                                  "shards"};

typedef void (*add_topology_fn)(struct output *output, const struct topology *topology);

static const char *state_name(enum shard_view_state state)
{
    switch (state) {
    case SHARD_VIEW_UNKNOWN:
        return "UNSPECIFIED";
    case SHARD_VIEW_LOADING:
        return "LOADING";
    case SHARD_VIEW_ACTIVE:
        return "ACTIVE";
    case SHARD_VIEW_DRAINING:
        return "DRAINING";
    }
    UNREACHABLE();
}

static void write_broker(struct json *json, const struct broker_view *broker)
{
    json_open(json, NULL, '{');
    json_text(json, "name", broker->name);
    json_text(json, "instance", broker->instance);
    json_text(json, "grpcAddress", broker->grpc_address);
    json_text(json, "adminAddress", broker->admin_address);
    json_text(json, "version", broker->version);
    json_time(json, "startTime", broker->started_ms);
    json_int(json, "shardCount", broker->shard_count);
    json_texts(json, "cannot", broker->cannot, broker->cannot_count);
    json_int64(json, "configVersion", broker->config_version);
    json_close(json, '}');
}

static void write_shard(struct json *json, const struct shard_owner_view *shard)
{
    char state[32];

    json_open(json, NULL, '{');
    json_int(json, "shard", shard->shard);
    json_text(json, "database", shard->database);
    json_text(json, "owner", shard->owner);
    json_text(json, "instance", shard->instance);
    json_int64(json, "epoch", shard->epoch);
    (void)snprintf(state, sizeof(state), "SHARD_STATE_%s", state_name(shard->state));
    json_text(json, "state", state);
    json_time(json, "since", shard->since_ms);
    json_int(json, "auditFaults", shard->audit_faults);
    json_close(json, '}');
}

static void write_brokers(struct json *json, const struct topology *topology)
{
    struct broker_view broker;

    for (size_t i = 0; i < topology->broker_count; i++) {
        codec_read_topology_broker(topology, i, &broker);
        write_broker(json, &broker);
    }
}

static void write_shards(struct json *json, const struct topology *topology)
{
    struct shard_owner_view shard;

    for (size_t i = 0; i < topology->shard_count; i++) {
        codec_read_topology_shard(topology, i, &shard);
        write_shard(json, &shard);
    }
}

static void write_databases(struct json *json, const struct topology *topology)
{
    struct database_view database;
    char system[24];

    for (size_t i = 0; i < topology->database_count; i++) {
        codec_read_topology_database(topology, i, &database);
        (void)snprintf(system, sizeof(system), "%" PRIu64, database.system_id);
        json_open(json, NULL, '{');
        json_text(json, "name", database.name);
        json_text(json, "systemId", system);
        json_int(json, "timeline", database.timeline);
        json_close(json, '}');
    }
}

/* The answer as it is. */
static void write_topology(struct json *json, const struct topology *topology)
{
    const struct topology_head *head = &topology->head;

    json_open(json, NULL, '{');
    json_text(json, "cluster", head->cluster);
    json_text(json, "answeredBy", head->answered_by);
    json_int(json, "shardCount", head->shard_count);
    json_int(json, "slotCount", head->slot_count);
    json_open(json, "brokers", '[');
    write_brokers(json, topology);
    json_close(json, ']');
    json_open(json, "shards", '[');
    write_shards(json, topology);
    json_close(json, ']');
    json_open(json, "databases", '[');
    write_databases(json, topology);
    json_close(json, ']');
    json_close(json, '}');
}

static uint32_t count_unowned(const struct topology *topology)
{
    struct shard_owner_view shard;
    uint32_t count = 0;

    for (size_t i = 0; i < topology->shard_count; i++) {
        codec_read_topology_shard(topology, i, &shard);
        count += shard.owner[0] == '\0';
    }
    return count;
}

static void add_broker(struct output *output, const struct broker_view *broker)
{
    char started[TIMETEXT_BYTES];
    char shards[16];
    char config[24];

    moment_write(broker->started_ms, started);
    (void)snprintf(shards, sizeof(shards), "%" PRIu32, broker->shard_count);
    (void)snprintf(config, sizeof(config), "%" PRId64, broker->config_version);
    output_row(output,
               (const char *const[]){broker->name, broker->grpc_address, broker->admin_address,
                                     broker->version, shards, started,
                                     broker->cannot_count == 0 ? "" : broker->cannot[0],
                                     broker->instance, config});
}

/* What a person compares after a promotion: which server, which timeline. */
static void say_databases(struct output *output, const struct topology *topology)
{
    struct database_view database;

    for (size_t i = 0; i < topology->database_count; i++) {
        codec_read_topology_database(topology, i, &database);
        if (database.system_id != 0) {
            output_head(output, "database %s: system %" PRIu64 ", timeline %" PRIu32, database.name,
                        database.system_id, database.timeline);
        }
    }
}

static void add_brokers(struct output *output, const struct topology *topology)
{
    const struct topology_head *head = &topology->head;
    struct broker_view broker;

    if (output->format == OUTPUT_JSONL) {
        for (size_t i = 0; i < topology->broker_count; i++) {
            codec_read_topology_broker(topology, i, &broker);
            write_broker(output_json(output), &broker);
            output_json_done(output);
        }
        return;
    }
    output_head(output,
                "cluster %s: %zu broker%s, %" PRIu32 " shards, %" PRIu32
                " without owner (as %s sees it)",
                head->cluster, topology->broker_count, topology->broker_count == 1 ? "" : "s",
                head->shard_count, count_unowned(topology), head->answered_by);
    say_databases(output, topology);
    for (size_t i = 0; i < topology->broker_count; i++) {
        codec_read_topology_broker(topology, i, &broker);
        add_broker(output, &broker);
    }
}

static void add_shard(struct output *output, const struct shard_owner_view *shard)
{
    char number[16];
    char epoch[24] = "";
    char since[TIMETEXT_BYTES];

    (void)snprintf(number, sizeof(number), "%04" PRIu32, shard->shard);
    if (shard->epoch != 0) { // Its owner has answered.
        (void)snprintf(epoch, sizeof(epoch), "%" PRId64, shard->epoch);
    }
    moment_write(shard->since_ms, since);
    output_row(output, (const char *const[]){
                           number, shard->database, shard->owner, epoch,
                           shard->state == SHARD_VIEW_UNKNOWN ? "" : state_name(shard->state),
                           since, shard->instance});
}

static void add_shards(struct output *output, const struct topology *topology)
{
    struct shard_owner_view shard;

    for (size_t i = 0; i < topology->shard_count; i++) {
        codec_read_topology_shard(topology, i, &shard);
        if (output_wants_json(output)) {
            write_shard(output_json(output), &shard);
            output_json_done(output);
        } else {
            add_shard(output, &shard);
        }
    }
}

static int run_topology(const struct args *args, const struct output_layout *layout,
                        add_topology_fn add)
{
    struct topology topology;
    struct run run;
    int code = run_open(&run, args, layout);

    if (code != CLI_OK) {
        return code;
    }
    code = run_call(&run, 0, TOPOLOGY_PATH, true, "read the topology");
    if (code == CLI_OK &&
        codec_read_topology(buf_slice(&run.reply), &run.arena, &topology, &run.fault) != 0) {
        code = run_refuse_answer(&run);
    }
    if (code == CLI_OK && run.output.format == OUTPUT_JSON) {
        write_topology(&run.output.json, &topology);
        (void)buf_append_text(&run.output.text, "\n");
        code = output_flush(&run.output);
    } else if (code == CLI_OK) {
        add(&run.output, &topology);
        code = output_end(&run.output);
    }
    return run_close(&run, code);
}

static int cluster_status(const struct args *args)
{
    return run_topology(args, &BROKER_LAYOUT, add_brokers);
}

static int cluster_shards(const struct args *args)
{
    return run_topology(args, &SHARD_LAYOUT, add_shards);
}

const struct command CLUSTER_COMMANDS[] = {
    {"cluster", "status", "", 0, "Show the brokers of the cluster.",
     "  foliot cluster status\n  foliot cluster status --watch\n", NULL, 0, cluster_status,
     COMMAND_CALLS | COMMAND_ROWS | COMMAND_WATCH},
    {"cluster", "shards", "", 0, "Show who owns each shard.",
     "  foliot cluster shards\n  foliot cluster shards -o json\n", NULL, 0, cluster_shards,
     COMMAND_CALLS | COMMAND_ROWS | COMMAND_WATCH},
};
const size_t CLUSTER_COMMAND_COUNT = ARRAY_COUNT(CLUSTER_COMMANDS);
