/* SPDX-License-Identifier: Apache-2.0
 *
 * The cluster as one broker sees it. The rules of all calls are in <foliot/client.h>.
 */
#ifndef FOLIOT_CLUSTER_H
#define FOLIOT_CLUSTER_H

#include <foliot/client.h>

#ifdef __cplusplus
extern "C" {
#endif

enum foliot_shard_state {
    FOLIOT_SHARD_UNKNOWN = 0, /* no owner is known */
    FOLIOT_SHARD_LOADING = 1, /* taken, not serving yet */
    FOLIOT_SHARD_ACTIVE = 2,
    FOLIOT_SHARD_DRAINING = 3 /* being released */
};

/* Texts are never NULL. */
struct foliot_broker {
    const char *name;     /* stable */
    const char *instance; /* random per process start */
    const char *grpc_address;
    const char *admin_address;
    const char *version;
    int64_t started_ms;
    uint32_t shard_count; /* shards that it serves */
    uint32_t cannot_count;
    const char *const *cannot; /* databases that it cannot write to */
    int64_t config_version;    /* queue changes that it has confirmed */
    int64_t reserved[4];
};

struct foliot_shard {
    uint32_t shard;
    enum foliot_shard_state state;
    const char *database;
    const char *owner;    /* name of the broker; empty if none is known */
    const char *instance; /* of that broker */
    int64_t epoch;        /* of the ownership; only rises; 0: the owner did not answer */
    int64_t since_ms;     /* FOLIOT_TIME_UNKNOWN if not known */
    int64_t audit_faults; /* tasks there that nobody goes on with, as its auditor says: must be 0 */
    int64_t reserved[1];
};

struct foliot_topology {
    const char *cluster;
    const char *answered_by; /* name of the broker that says all this */
    uint32_t slot_count;
    uint32_t broker_count;
    uint32_t shard_count;
    const struct foliot_broker *brokers; /* by name */
    const struct foliot_shard *shards;   /* by number */
};

/*
 * Read brokers and shards. The client reads them for itself too: this is for people and tools.
 *
 * repeats: always.
 * errors:  those of all calls.
 */
FOLIOT_API int foliot_topology_get(struct foliot_client *client,
                                   const struct foliot_call_options *options,
                                   const struct foliot_topology **out, struct foliot_error *error);

typedef void (*foliot_topology_cb)(const struct foliot_error *error,
                                   const struct foliot_topology *topology, void *ctx);

FOLIOT_API int foliot_topology_get_async(struct foliot_client *client,
                                         const struct foliot_call_options *options,
                                         foliot_topology_cb cb, void *ctx,
                                         struct foliot_error *error);

/* NULL is fine. */
FOLIOT_API void foliot_topology_free(const struct foliot_topology *topology);

#ifdef __cplusplus
}
#endif

#endif
