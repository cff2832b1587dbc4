/* SPDX-License-Identifier: Apache-2.0
 *
 * ClusterService: brokers and shards as this broker knows them. Who serves a shard is known from
 * the members; epoch and state only its owner knows, so the owners are asked, once and not for
 * long.
 */
#include "broker/service_parts.h"

#include "broker/core/inspect.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "proto/codec_cluster.h"

#include <string.h>

/* Owners that have not answered by then are told about without epochs. */
#define ASK_MS 1000

/* What the owner of a shard says of it. */
struct told {
    int64_t epoch; /* 0: nothing */
    enum shard_view_state state;
    wall_ms since_ms;
    uint32_t audit_faults;
};

struct gathering;

/* One other broker, being asked. */
struct ask {
    struct gathering *gathering;
    struct rpc_request request;
    char instance[INSTANCE_TEXT_LEN + 1];
};

/*
 * One call of GetTopology.
 * 1. `waiting` asks have not called back, and one more while they are being sent.
 */
struct gathering {
    struct service *service;
    struct rpc_call *rpc;
    uint32_t waiting;
    struct told *told; /* by shard */
    size_t ask_count;
    struct ask asks[];
};

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

static int write_broker(const struct service *service, const struct member *member,
                        char (*names)[NAME_BYTES_MAX + 1], struct buf *out)
{
    const char *cannot[DATABASE_COUNT_MAX];
    size_t cannot_count = 0;

    for (uint32_t d = 0; d < config_database_count(service->options.config); d++) {
        if ((member->cannot >> d & 1U) != 0) {
            cannot[cannot_count++] = names[d];
        }
    }
    return codec_write_topology_broker(
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

/* Those that we have heard of, and ourselves in any case. */
static int write_brokers(const struct service *service, char (*names)[NAME_BYTES_MAX + 1],
                         struct buf *out)
{
    size_t count;
    const struct member *members = broker_members(service->options.broker, &count);
    const struct member *self = broker_self(service->options.broker);
    bool is_heard = false;
    int err = 0;

    for (size_t i = 0; i < count && err == 0; i++) {
        is_heard |= strcmp(members[i].instance, self->instance) == 0;
        err = write_broker(service, &members[i], names, out);
    }
    return err != 0 || is_heard ? err : write_broker(service, self, names, out);
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

/* For people: this machine's clock now, less what has passed. */
static wall_ms wall_of(const struct service *service, boot_us moment)
{
    return clock_wall_ms() - (loop_now_us(service->options.loop) - moment) / US_PER_MS;
}

static int write_shard(const struct service *service, uint32_t shard, const char *database,
                       const struct told *told, struct buf *out)
{
    const struct member *owner = owner_of(service->options.broker, shard);
    struct shard_owner_view view = {
        .shard = shard,
        .database = database,
        .owner = owner == NULL ? "" : owner->name,
        .instance = owner == NULL ? "" : owner->instance,
        .epoch = told->epoch,
        .state = owner == NULL ? SHARD_VIEW_UNKNOWN : SHARD_VIEW_ACTIVE,
        .since_ms = WALL_NEVER,
    };
    struct shard_view own;

    if (owner != NULL && told->epoch > 0) {
        view.state = told->state;
        view.since_ms = told->since_ms;
        view.audit_faults = told->audit_faults;
    }
    broker_inspect_shard(service->options.broker, shard, &own);
    if (own.epoch > 0) {
        view.owner = broker_self(service->options.broker)->name;
        view.instance = broker_self(service->options.broker)->instance;
        view.epoch = own.epoch;
        view.state = view_state(own.state);
        view.since_ms = wall_of(service, own.since);
        view.audit_faults = own.audit_faults;
    }
    return codec_write_topology_shard(&view, out);
}

static int write_databases(const struct service *service, char (*names)[NAME_BYTES_MAX + 1],
                           struct buf *out)
{
    const struct service_options *options = &service->options;
    int err = 0;

    for (uint32_t i = 0; i < config_database_count(options->config) && err == 0; i++) {
        struct database_view view = {.name = names[i]};

        if (options->server_of != NULL) {
            options->server_of(options->ctx, i, &view.system_id, &view.timeline);
        }
        err = codec_write_topology_database(&view, out);
    }
    return err;
}

static int write_topology(const struct service *service, const struct told *told, struct buf *out)
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
    if (err == 0) {
        err = write_databases(service, names, out);
    }
    for (uint32_t i = 0; i < cluster->shard_count && err == 0; i++) {
        err = write_shard(service, i, names[cluster->database_of[i]], &told[i], out);
    }
    return err;
}

/* ---- asking the owners ---- */

static void finish(struct gathering *gathering)
{
    struct service *service = gathering->service;
    int err = write_topology(service, gathering->told, service_scratch(service));
    struct fault fault;

    if (err == 0) {
        service_reply(service, gathering->rpc, 0);
    } else {
        fault_set_err(&fault, err, "cannot write the topology");
        service_fail(service, gathering->rpc, &fault);
    }
    mem_free(gathering->told);
    mem_free(gathering);
    service_leave(service, 0);
}

static void step(struct gathering *gathering)
{
    if (--gathering->waiting == 0) {
        finish(gathering);
    }
}

/* Take what a broker says of the shards that are its own. */
static void take_told(struct ask *ask, struct slice payload)
{
    struct gathering *gathering = ask->gathering;
    uint32_t shard_count = gathering->service->options.cluster->shard_count;
    struct topology topology;
    struct shard_owner_view view;
    struct arena arena;
    struct fault fault;

    arena_init(&arena, 0);
    if (codec_read_topology(payload, &arena, &topology, &fault) == 0) {
        for (size_t i = 0; i < topology.shard_count; i++) {
            codec_read_topology_shard(&topology, i, &view);
            if (view.shard < shard_count && strcmp(view.instance, ask->instance) == 0) {
                gathering->told[view.shard] =
                    (struct told){view.epoch, view.state, view.since_ms, view.audit_faults};
            }
        }
    }
    arena_fini(&arena);
}

static void on_owner(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct ask *ask = ctx;

    (void)request;
    if (reply->status == RPC_OK) {
        take_told(ask, reply->payload);
    }
    step(ask->gathering);
}

static void ask_owner(struct gathering *gathering, const struct member *member)
{
    struct service *service = gathering->service;
    struct ask *ask = &gathering->asks[gathering->ask_count++];
    boot_us end_us = time_add(loop_now_us(service->options.loop), ASK_MS * US_PER_MS);

    ask->gathering = gathering;
    memcpy(ask->instance, member->instance, sizeof(ask->instance));
    ask->request = (struct rpc_request){
        .path = rpc_call_path(gathering->rpc),
        .deadline_us = time_min(end_us, rpc_call_deadline_us(gathering->rpc)),
        .cb = on_owner,
        .ctx = ask,
    };
    if (service_pass_on(service, member->grpc, &ask->request) == 0) {
        gathering->waiting++;
    }
}

static void gather(struct gathering *gathering)
{
    const struct service *service = gathering->service;
    uint32_t shard_count = service->options.cluster->shard_count;
    size_t count;
    const struct member *members = broker_members(service->options.broker, &count);

    gathering->waiting = 1;
    if (!service_is_forwarded(gathering->rpc)) {
        for (size_t i = 0; i < count; i++) {
            if (count_shards(&members[i], shard_count) > 0 &&
                strcmp(members[i].name, service->options.name) != 0) {
                ask_owner(gathering, &members[i]);
            }
        }
    }
    step(gathering);
}

static struct gathering *new_gathering(struct service *service, struct rpc_call *rpc)
{
    size_t count;
    struct gathering *gathering;

    (void)broker_members(service->options.broker, &count);
    gathering = mem_new(1, sizeof(*gathering) + count * sizeof(struct ask));
    if (gathering == NULL) {
        return NULL;
    }
    gathering->told = mem_new(service->options.cluster->shard_count, sizeof(struct told));
    if (gathering->told == NULL) {
        mem_free(gathering);
        return NULL;
    }
    gathering->service = service;
    gathering->rpc = rpc;
    return gathering;
}

void service_topology(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct service *service = ctx;
    struct gathering *gathering = NULL;
    struct arena arena;
    struct fault fault;
    int err;

    arena_init(&arena, 0);
    err = codec_read_topology_request(request, &arena, &fault);
    arena_fini(&arena);
    if (err == 0) {
        gathering = new_gathering(service, rpc);
        if (gathering == NULL) {
            fault_set_err(&fault, ERR_NO_MEMORY, "cannot gather the topology");
        }
    }
    if (gathering == NULL) {
        service_fail(service, rpc, &fault);
        return;
    }
    service_enter(service, 0);
    gather(gathering);
}
