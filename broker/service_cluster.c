/* SPDX-License-Identifier: Apache-2.0
 *
 * ClusterService: brokers and shards as this broker knows them. Epoch and state are told of our own
 * shards only; of others we know who serves them.
 */
#include "broker/service_parts.h"

#include "broker/core/inspect.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "proto/codec_cluster.h"

#include <string.h>

static uint32_t count_shards(const struct member *member, uint32_t shard_count)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < shard_count; i++) {
        count += shard_set_has(&member->owns, i);
    }
    return count;
}

/* shape: names has DATABASE_COUNT_MAX texts of NAME_BYTES_MAX + 1 bytes. */
static void read_database_names(const struct config *config, char (*names)[NAME_BYTES_MAX + 1])
{
    for (size_t i = 0; i < config_database_count(config); i++) {
        (void)config_database(config, i, names[i]);
    }
}

static int write_brokers(const struct service *service, char (*names)[NAME_BYTES_MAX + 1],
                         struct buf *out)
{
    size_t count;
    const struct member *members = broker_members(service->options.broker, &count);
    int err = 0;

    for (size_t i = 0; i < count && err == 0; i++) {
        const struct member *member = &members[i];
        const char *cannot[DATABASE_COUNT_MAX];
        size_t cannot_count = 0;

        for (uint32_t d = 0; d < config_database_count(service->options.config); d++) {
            if ((member->cannot >> d & 1U) != 0) {
                cannot[cannot_count++] = names[d];
            }
        }
        err = codec_write_topology_broker(
            &(struct broker_view){
                .name = member->name,
                .instance = member->instance,
                .grpc_address = member->grpc,
                .admin_address = member->admin,
                .version = member->version,
                .started_ms = member->started_ms,
                .shard_count = count_shards(member, service->options.cluster->shard_count),
                .cannot = cannot,
                .cannot_count = cannot_count,
                .config_version = member->config,
            },
            out);
    }
    return err;
}

static const struct member *owner_of(const struct broker *broker, uint32_t shard)
{
    size_t count;
    const struct member *members = broker_members(broker, &count);

    for (size_t i = 0; i < count; i++) {
        if (shard_set_has(&members[i].owns, shard)) {
            return &members[i];
        }
    }
    return NULL;
}

static enum shard_view_state view_state(const char *state)
{
    if (strcmp(state, "active") == 0) {
        return SHARD_VIEW_ACTIVE;
    }
    return strcmp(state, "draining") == 0 ? SHARD_VIEW_DRAINING : SHARD_VIEW_LOADING;
}

static int write_shard(const struct service *service, uint32_t shard, const char *database,
                       struct buf *out)
{
    const struct member *owner = owner_of(service->options.broker, shard);
    struct shard_owner_view view = {
        .shard = shard,
        .database = database,
        .owner = owner == NULL ? "" : owner->name,
        .instance = owner == NULL ? "" : owner->instance,
        .state = owner == NULL ? SHARD_VIEW_UNKNOWN : SHARD_VIEW_ACTIVE,
        .since_ms = WALL_NEVER,
    };
    struct shard_view own;

    broker_inspect_shard(service->options.broker, shard, &own);
    if (own.epoch > 0) {
        view.owner = service->options.name;
        view.epoch = own.epoch;
        view.state = view_state(own.state);
    }
    return codec_write_topology_shard(&view, out);
}

static int write_topology(const struct service *service, struct buf *out)
{
    const struct cluster *cluster = service->options.cluster;
    const struct topology_head head = {
        .cluster = service->options.config->cluster_name,
        .answered_by = service->options.name,
        .shard_count = cluster->shard_count,
        .slot_count = SLOT_COUNT,
    };
    char names[DATABASE_COUNT_MAX][NAME_BYTES_MAX + 1];
    int err;

    read_database_names(service->options.config, names);
    err = codec_write_topology_head(&head, out);
    if (err == 0) {
        err = write_brokers(service, names, out);
    }
    for (uint32_t i = 0; i < cluster->shard_count && err == 0; i++) {
        err = write_shard(service, i, names[cluster->database_of[i]], out);
    }
    return err;
}

void service_topology(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct service *service = ctx;
    struct arena arena;
    struct fault fault;
    int err;

    arena_init(&arena, 0);
    err = codec_read_topology_request(request, &arena, &fault);
    arena_fini(&arena);
    if (err == 0) {
        err = write_topology(service, service_scratch(service));
    }
    if (err == 0) {
        service_reply(service, rpc, 0);
        return;
    }
    fault_set_err(&fault, err, "cannot write the topology");
    service_fail(service, rpc, &fault);
}
