/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of foliot.v1.ClusterService. The rules of all codec functions are in codec.h.
 */
#ifndef FOLIOT_PROTO_CODEC_CLUSTER_H
#define FOLIOT_PROTO_CODEC_CLUSTER_H

#include "proto/codec.h"

/* Texts are never NULL; times WALL_NEVER if not known. */
struct broker_view {
    const char *name;
    const char *instance;
    const char *grpc_address;
    const char *admin_address;
    const char *version;
    wall_ms started_ms;
    uint32_t shard_count;
    const char *const *cannot; /* names of databases that it cannot write to */
    size_t cannot_count;       /* ≤ DATABASE_COUNT_MAX */
    int64_t config_version;
};

/* Numbered as foliot.v1.ShardState and as the coordinator's states. */
enum shard_view_state {
    SHARD_VIEW_UNKNOWN = 0,
    SHARD_VIEW_LOADING,
    SHARD_VIEW_ACTIVE,
    SHARD_VIEW_DRAINING
};

struct shard_owner_view {
    uint32_t shard;
    const char *database;
    const char *owner;    /* "": nobody is known */
    const char *instance; /* of the owner */
    int64_t epoch;
    enum shard_view_state state;
    wall_ms since_ms;      /* WALL_NEVER: not known */
    uint32_t audit_faults; /* by its owner's auditor */
};

/* A database as the broker that answers is connected to it; zeroes if it is not. */
struct database_view {
    const char *name;
    uint64_t system_id;
    uint32_t timeline;
};

struct topology_head {
    const char *cluster;
    const char *answered_by;
    uint32_t shard_count;
    uint32_t slot_count;
};

/* The request has no fields; unknown ones are let pass. */
MUST_USE int codec_read_topology_request(struct slice bytes, struct arena *arena,
                                         struct fault *fault);

/* A response is one head, and any number of brokers, shards and databases, in any order. */
MUST_USE int codec_write_topology_head(const struct topology_head *head, struct buf *out);
MUST_USE int codec_write_topology_broker(const struct broker_view *broker, struct buf *out);
MUST_USE int codec_write_topology_shard(const struct shard_owner_view *shard, struct buf *out);
MUST_USE int codec_write_topology_database(const struct database_view *database, struct buf *out);

struct topology {
    struct topology_head head;
    size_t broker_count;
    size_t shard_count;
    size_t database_count;
    const void *message; /* private */
};

MUST_USE int codec_read_topology(struct slice bytes, struct arena *arena, struct topology *out,
                                 struct fault *fault);

/* shape: index below broker_count. */
void codec_read_topology_broker(const struct topology *topology, size_t index,
                                struct broker_view *out);

/* shape: index below shard_count. */
void codec_read_topology_shard(const struct topology *topology, size_t index,
                               struct shard_owner_view *out);

/* shape: index below database_count. */
void codec_read_topology_database(const struct topology *topology, size_t index,
                                  struct database_view *out);

#endif
