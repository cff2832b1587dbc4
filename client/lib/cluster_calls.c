/* SPDX-License-Identifier: Apache-2.0
 *
 * Brokers and shards, for people and tools.
 */
#include "client/lib/client.h"
#include "lib/base/mem.h"
#include "proto/codec_cluster.h"

#include <foliot/cluster.h>

_Static_assert((int)FOLIOT_SHARD_DRAINING == (int)SHARD_VIEW_DRAINING &&
                   (int)FOLIOT_SHARD_LOADING == (int)SHARD_VIEW_LOADING,
               "states have one number");

/* A topology and the memory of its texts. */
struct topology_box {
    struct foliot_topology topology; /* first */
    struct arena arena;
    struct foliot_broker *brokers;
    struct foliot_shard *shards;
};

void foliot_topology_free(const struct foliot_topology *topology)
{
    struct topology_box *box = (struct topology_box *)(uintptr_t)topology;

    if (box != NULL) {
        mem_free(box->brokers);
        mem_free(box->shards);
        arena_fini(&box->arena);
        mem_free(box);
    }
}

static void read_broker(const struct topology *topology, size_t index, struct foliot_broker *out)
{
    struct broker_view view;

    codec_read_topology_broker(topology, index, &view);
    *out = (struct foliot_broker){
        .name = view.name,
        .instance = view.instance,
        .grpc_address = view.grpc_address,
        .admin_address = view.admin_address,
        .version = view.version,
        .started_ms = view.started_ms,
        .shard_count = view.shard_count,
        .cannot_count = (uint32_t)view.cannot_count,
        .cannot = view.cannot,
        .config_version = view.config_version,
    };
}

static void read_shard(const struct topology *topology, size_t index, struct foliot_shard *out)
{
    struct shard_owner_view view;

    codec_read_topology_shard(topology, index, &view);
    *out = (struct foliot_shard){
        .shard = view.shard,
        .state = (enum foliot_shard_state)view.state,
        .database = view.database,
        .owner = view.owner,
        .instance = view.instance,
        .epoch = view.epoch,
        .since_ms = view.since_ms,
        .audit_faults = view.audit_faults,
    };
}

static int read_parts(struct topology_box *box, const struct topology *topology,
                      struct fault *fault)
{
    box->brokers = mem_new(topology->broker_count, sizeof(*box->brokers));
    box->shards = mem_new(topology->shard_count, sizeof(*box->shards));
    if (box->brokers == NULL || box->shards == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the topology");
        return ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < topology->broker_count; i++) {
        read_broker(topology, i, &box->brokers[i]);
    }
    for (size_t i = 0; i < topology->shard_count; i++) {
        read_shard(topology, i, &box->shards[i]);
    }
    box->topology = (struct foliot_topology){
        .cluster = topology->head.cluster,
        .answered_by = topology->head.answered_by,
        .slot_count = topology->head.slot_count,
        .broker_count = (uint32_t)topology->broker_count,
        .shard_count = (uint32_t)topology->shard_count,
        .brokers = box->brokers,
        .shards = box->shards,
    };
    return 0;
}

static int decode_topology(struct slice bytes, void *result, struct fault *fault)
{
    struct topology_box *box = mem_new(1, sizeof(*box));
    const struct foliot_topology **out = result;
    struct topology topology;
    int err;

    if (box == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot keep the topology");
        return ERR_NO_MEMORY;
    }
    arena_init(&box->arena, 0);
    err = codec_read_topology(bytes, &box->arena, &topology, fault);
    if (err == 0) {
        err = read_parts(box, &topology, fault);
    }
    if (err != 0) {
        foliot_topology_free(&box->topology);
        return err;
    }
    *out = &box->topology;
    return 0;
}

static void deliver_topology(const struct client_call *call, const struct foliot_error *error,
                             const void *result)
{
    const struct foliot_topology *const *topology = result;

    ((foliot_topology_cb)call->cb)(error, topology == NULL ? NULL : *topology, call->ctx);
}

static void release_topology(void *result)
{
    const struct foliot_topology *const *topology = result;

    foliot_topology_free(*topology);
}

static const struct client_method TOPOLOGY = {
    .path = "/foliot.v1.ClusterService/GetTopology",
    .what = "cannot read the topology",
    .kind = REPEAT_READ,
    .decode = decode_topology,
    .deliver = deliver_topology,
    .release = release_topology,
};

int foliot_topology_get(struct foliot_client *client, const struct foliot_call_options *options,
                        const struct foliot_topology **out, struct foliot_error *error)
{
    int code;
    struct client_call *call = client_call_new(client, &TOPOLOGY, options, &code, error);

    return call == NULL ? code : client_call_wait(call, (void *)out, error);
}

int foliot_topology_get_async(struct foliot_client *client,
                              const struct foliot_call_options *options, foliot_topology_cb cb,
                              void *ctx, struct foliot_error *error)
{
    int code;
    struct client_call *call = client_call_new(client, &TOPOLOGY, options, &code, error);

    return call == NULL ? code : client_call_start(call, (client_any_fn)cb, ctx, error);
}
