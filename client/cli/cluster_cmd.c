/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot cluster status, shards.
 */
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/json.h"
#include "client/cli/session.h"
#include "client/cli/table.h"
#include "client/cli/timetext.h"
#include "lib/base/check.h"
#include "proto/codec_cluster.h"

#include <inttypes.h>
#include <stdio.h>

#define TOPOLOGY_PATH "/foliot.v1.ClusterService/GetTopology"

#define OUTPUT_BYTES_MAX ((size_t)16 << 20U)

struct cluster_run {
    struct session session;
    struct buf reply;
    struct buf output;
    struct arena arena;
    struct fault fault;
    struct topology topology;
};

typedef void (*write_topology_fn)(struct cluster_run *run);

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

static void write_brokers_json(struct json *json, const struct topology *topology)
{
    struct broker_view broker;

    json_open(json, "brokers", '[');
    for (size_t i = 0; i < topology->broker_count; i++) {
        codec_read_topology_broker(topology, i, &broker);
        json_open(json, NULL, '{');
        json_text(json, "name", broker.name);
        json_text(json, "instance", broker.instance);
        json_text(json, "grpcAddress", broker.grpc_address);
        json_text(json, "adminAddress", broker.admin_address);
        json_text(json, "version", broker.version);
        json_time(json, "startTime", broker.started_ms);
        json_int(json, "shardCount", broker.shard_count);
        json_open(json, "cannot", '[');
        for (size_t j = 0; j < broker.cannot_count; j++) {
            json_text(json, NULL, broker.cannot[j]);
        }
        json_close(json, ']');
        json_int(json, "configVersion", broker.config_version);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_shards_json(struct json *json, const struct topology *topology)
{
    struct shard_owner_view shard;
    char text[32];

    json_open(json, "shards", '[');
    for (size_t i = 0; i < topology->shard_count; i++) {
        codec_read_topology_shard(topology, i, &shard);
        json_open(json, NULL, '{');
        json_int(json, "shard", shard.shard);
        json_text(json, "database", shard.database);
        json_text(json, "owner", shard.owner);
        json_text(json, "instance", shard.instance);
        (void)snprintf(text, sizeof(text), "%" PRId64, shard.epoch);
        json_text(json, "epoch", text); // proto3 JSON has 64-bit numbers as text
        (void)snprintf(text, sizeof(text), "SHARD_STATE_%s", state_name(shard.state));
        json_text(json, "state", text);
        json_time(json, "since", shard.since_ms);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_topology_json(struct cluster_run *run)
{
    const struct topology_head *head = &run->topology.head;
    struct json json;

    json_init(&json, &run->output);
    json_open(&json, NULL, '{');
    json_text(&json, "cluster", head->cluster);
    json_text(&json, "answeredBy", head->answered_by);
    json_int(&json, "shardCount", head->shard_count);
    json_int(&json, "slotCount", head->slot_count);
    write_brokers_json(&json, &run->topology);
    write_shards_json(&json, &run->topology);
    json_close(&json, '}');
    (void)buf_append_text(&run->output, "\n");
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

static void write_status(struct cluster_run *run)
{
    static const char *const headings[] = {"BROKER", "GRPC",    "ADMIN",  "VERSION",
                                           "SHARDS", "STARTED", "CANNOT", "INSTANCE"};
    const struct topology_head *head = &run->topology.head;
    struct table table;
    struct broker_view broker;

    (void)buf_printf(&run->output,
                     "cluster %s: %zu brokers, %" PRIu32 " shards, %" PRIu32
                     " without owner (as %s sees it)\n",
                     head->cluster, run->topology.broker_count, head->shard_count,
                     count_unowned(&run->topology), head->answered_by);
    table_init(&table, headings, ARRAY_COUNT(headings));
    for (size_t i = 0; i < run->topology.broker_count; i++) {
        char started[TIMETEXT_BYTES];
        char shards[16];
        char cannot[16];

        codec_read_topology_broker(&run->topology, i, &broker);
        timetext_write(broker.started_ms, started);
        (void)snprintf(shards, sizeof(shards), "%" PRIu32, broker.shard_count);
        (void)snprintf(cannot, sizeof(cannot), "%zu", broker.cannot_count);
        table_add(&table, (const char *const[]){
                              broker.name, broker.grpc_address,
                              broker.admin_address[0] == '\0' ? "-" : broker.admin_address,
                              broker.version, shards, started,
                              broker.cannot_count == 0 ? "-" : broker.cannot[0], broker.instance});
    }
    table_write(&table, &run->output);
    table_fini(&table);
}

static void write_shards(struct cluster_run *run)
{
    static const char *const headings[] = {"SHARD", "DATABASE", "OWNER", "EPOCH", "STATE", "SINCE"};
    struct table table;
    struct shard_owner_view shard;

    table_init(&table, headings, ARRAY_COUNT(headings));
    for (size_t i = 0; i < run->topology.shard_count; i++) {
        char number[16];
        char epoch[24];
        char since[TIMETEXT_BYTES];

        codec_read_topology_shard(&run->topology, i, &shard);
        (void)snprintf(number, sizeof(number), "%04" PRIu32, shard.shard);
        (void)snprintf(epoch, sizeof(epoch), "%" PRId64, shard.epoch);
        if (shard.epoch == 0) { // Its owner did not answer.
            (void)snprintf(epoch, sizeof(epoch), "-");
        }
        timetext_write(shard.since_ms, since);
        table_add(&table,
                  (const char *const[]){
                      number, shard.database, shard.owner[0] == '\0' ? "-" : shard.owner, epoch,
                      shard.state == SHARD_VIEW_UNKNOWN ? "-" : state_name(shard.state), since});
    }
    table_write(&table, &run->output);
    table_fini(&table);
}

static int run_topology(const struct args *args, write_topology_fn write)
{
    struct cluster_run run;
    int code = session_open(&run.session, args);

    if (code != CLI_OK) {
        return code;
    }
    buf_init(&run.reply, RPC_MESSAGE_BYTES_MAX);
    buf_init(&run.output, OUTPUT_BYTES_MAX);
    arena_init(&run.arena, 0);
    code = session_call(&run.session, TOPOLOGY_PATH, (struct slice){NULL, 0}, true, &run.reply,
                        &run.fault);
    if (code != CLI_OK) {
        code = session_complain(&run.session, "read the topology", &run.fault);
    } else if (codec_read_topology(buf_slice(&run.reply), &run.arena, &run.topology, &run.fault) !=
               0) {
        cli_say("read the answer: %s", run.fault.message);
        code = CLI_ERROR;
    } else {
        (command_wants_json(args) ? write_topology_json : write)(&run);
        code = command_print(&run.output);
    }
    arena_fini(&run.arena);
    buf_fini(&run.output);
    buf_fini(&run.reply);
    session_close(&run.session);
    return code;
}

static int cluster_status(const struct args *args)
{
    return run_topology(args, write_status);
}

static int cluster_shards(const struct args *args)
{
    return run_topology(args, write_shards);
}

const struct command CLUSTER_COMMANDS[] = {
    {"cluster", "status", "", 0, "Show the brokers of the cluster.", "  foliot cluster status\n",
     NULL, 0, cluster_status},
    {"cluster", "shards", "", 0, "Show who owns each shard.",
     "  foliot cluster shards\n  foliot cluster shards -o json\n", NULL, 0, cluster_shards},
};
const size_t CLUSTER_COMMAND_COUNT = ARRAY_COUNT(CLUSTER_COMMANDS);
