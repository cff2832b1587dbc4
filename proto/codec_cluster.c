/* SPDX-License-Identifier: Apache-2.0
 *
 * Brokers and shards.
 */
#include "proto/codec_cluster.h"

#include "lib/base/check.h"
#include "proto/message.h"
#include "proto/values.h"

#include <foliot/v1/cluster.pb-c.h>

#define BROKERS_NUMBER   5
#define SHARDS_NUMBER    6
#define DATABASES_NUMBER 7

_Static_assert((int)SHARD_VIEW_LOADING == (int)FOLIOT__V1__SHARD_STATE__SHARD_STATE_LOADING &&
                   (int)SHARD_VIEW_DRAINING == (int)FOLIOT__V1__SHARD_STATE__SHARD_STATE_DRAINING,
               "shard states have the same numbers on the wire");
_Static_assert(MEMBER_COUNT_MAX + SHARD_COUNT_MAX + DATABASE_COUNT_MAX +
                       MEMBER_COUNT_MAX * DATABASE_COUNT_MAX <=
                   BATCH_ITEM_COUNT_MAX,
               "a topology has no more elements than the reader lets pass");

int codec_read_topology_request(struct slice bytes, struct arena *arena, struct fault *fault)
{
    ProtobufCMessage *message;

    return message_read(&foliot__v1__get_topology_request__descriptor, bytes, arena, &message,
                        fault);
}

int codec_write_topology_head(const struct topology_head *head, struct buf *out)
{
    Foliot__V1__GetTopologyResponse message;

    foliot__v1__get_topology_response__init(&message);
    message.cluster = wire_text(head->cluster);
    message.answered_by = wire_text(head->answered_by);
    message.shard_count = head->shard_count;
    message.slot_count = head->slot_count;
    return message_write(&message.base, out);
}

int codec_write_topology_broker(const struct broker_view *broker, struct buf *out)
{
    Foliot__V1__Broker message;
    Google__Protobuf__Timestamp started;
    char *cannot[DATABASE_COUNT_MAX];

    REQUIRE(broker->cannot_count <= DATABASE_COUNT_MAX);
    for (size_t i = 0; i < broker->cannot_count; i++) {
        cannot[i] = wire_text(broker->cannot[i]);
    }
    foliot__v1__broker__init(&message);
    message.name = wire_text(broker->name);
    message.instance = wire_text(broker->instance);
    message.grpc_address = wire_text(broker->grpc_address);
    message.admin_address = wire_text(broker->admin_address);
    message.version = wire_text(broker->version);
    message.start_time = write_time(broker->started_ms, &started);
    message.shard_count = broker->shard_count;
    message.n_cannot = broker->cannot_count;
    message.cannot = cannot;
    message.config_version = broker->config_version;
    return message_write_element(BROKERS_NUMBER, &message.base, out);
}

int codec_write_topology_shard(const struct shard_owner_view *shard, struct buf *out)
{
    Foliot__V1__Shard message;
    Google__Protobuf__Timestamp since;

    foliot__v1__shard__init(&message);
    message.shard = shard->shard;
    message.database = wire_text(shard->database);
    message.owner = wire_text(shard->owner);
    message.instance = wire_text(shard->instance);
    message.epoch = shard->epoch;
    message.state = (Foliot__V1__ShardState)shard->state;
    message.since = write_time(shard->since_ms, &since);
    message.audit_faults = shard->audit_faults;
    return message_write_element(SHARDS_NUMBER, &message.base, out);
}

int codec_write_topology_database(const struct database_view *database, struct buf *out)
{
    Foliot__V1__Database message;

    foliot__v1__database__init(&message);
    message.name = wire_text(database->name);
    message.system_id = database->system_id;
    message.timeline = database->timeline;
    return message_write_element(DATABASES_NUMBER, &message.base, out);
}

int codec_read_topology(struct slice bytes, struct arena *arena, struct topology *out,
                        struct fault *fault)
{
    const Foliot__V1__GetTopologyResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__get_topology_response__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    reply = (const Foliot__V1__GetTopologyResponse *)(void *)message;
    out->head.cluster = reply->cluster;
    out->head.answered_by = reply->answered_by;
    out->head.shard_count = reply->shard_count;
    out->head.slot_count = reply->slot_count;
    out->broker_count = reply->n_brokers;
    out->shard_count = reply->n_shards;
    out->database_count = reply->n_databases;
    out->message = reply;
    return 0;
}

void codec_read_topology_broker(const struct topology *topology, size_t index,
                                struct broker_view *out)
{
    const Foliot__V1__GetTopologyResponse *reply = topology->message;
    const Foliot__V1__Broker *broker;

    REQUIRE(index < topology->broker_count);
    broker = reply->brokers[index];
    out->name = broker->name;
    out->instance = broker->instance;
    out->grpc_address = broker->grpc_address;
    out->admin_address = broker->admin_address;
    out->version = broker->version;
    out->started_ms = read_reply_time(broker->start_time);
    out->shard_count = broker->shard_count;
    out->cannot = (const char *const *)broker->cannot;
    out->cannot_count = broker->n_cannot;
    out->config_version = broker->config_version;
}

void codec_read_topology_shard(const struct topology *topology, size_t index,
                               struct shard_owner_view *out)
{
    const Foliot__V1__GetTopologyResponse *reply = topology->message;
    const Foliot__V1__Shard *shard;
    int state;

    REQUIRE(index < topology->shard_count);
    shard = reply->shards[index];
    state = (int)shard->state;
    out->shard = shard->shard;
    out->database = shard->database;
    out->owner = shard->owner;
    out->instance = shard->instance;
    out->epoch = shard->epoch;
    out->state = state > SHARD_VIEW_UNKNOWN && state <= SHARD_VIEW_DRAINING
                     ? (enum shard_view_state)state
                     : SHARD_VIEW_UNKNOWN;
    out->since_ms = read_reply_time(shard->since);
    out->audit_faults = shard->audit_faults;
}

void codec_read_topology_database(const struct topology *topology, size_t index,
                                  struct database_view *out)
{
    const Foliot__V1__GetTopologyResponse *reply = topology->message;
    const Foliot__V1__Database *database;

    REQUIRE(index < topology->database_count);
    database = reply->databases[index];
    out->name = database->name;
    out->system_id = database->system_id;
    out->timeline = database->timeline;
}
