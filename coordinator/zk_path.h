/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of znodes: build them and take them apart. Pure. The bodies are in zk_body.h.
 * source: DESIGN 6
 */
#ifndef FOLIOT_COORDINATOR_ZK_PATH_H
#define FOLIOT_COORDINATOR_ZK_PATH_H

#include "coordinator/coord.h"
#include "lib/base/attr.h"
#include "lib/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest root, as in /foliot. */
#define ZK_ROOT_BYTES_MAX 127

/* "<name>@<instance>" of a broker, with its NUL. */
#define ZK_NODE_NAME_SIZE (MEMBER_NAME_BYTES_MAX + 1 + INSTANCE_TEXT_LEN + 1)

/* Any path of ours, with its NUL. */
#define ZK_PATH_SIZE 512

_Static_assert(ZK_ROOT_BYTES_MAX + 1 + NAME_BYTES_MAX + 9 + ZK_NODE_NAME_SIZE <= ZK_PATH_SIZE,
               "the longest path is a broker's");

struct zk_path {
    char text[ZK_PATH_SIZE];
};

/*
 * Check a root: absolute, components of [A-Za-z0-9._-], none of them "." or "..", no slash at the
 * end, not "/" and not below /zookeeper, at most ZK_ROOT_BYTES_MAX bytes.
 */
bool zk_path_is_root(const char *root);

/* Check a cluster's or database's name: 1 … NAME_BYTES_MAX of [a-z0-9._-], first [a-z0-9]. */
bool zk_path_is_name(const char *name);

/* Check a member's stable name: 1 … MEMBER_NAME_BYTES_MAX of [A-Za-z0-9._:-] and brackets. */
bool zk_path_is_member_name(const char *name);

/* Check an instance: INSTANCE_TEXT_LEN lower-case hex digits. */
bool zk_path_is_instance(const char *instance);

/* <root>/<name>. shape: both have been checked. */
void zk_path_cluster(struct zk_path *out, const char *root, const char *name);

/* Children of a cluster's path. shape: `cluster` from zk_path_cluster(), shard < SHARD_COUNT_MAX.
 */
void zk_path_brokers(struct zk_path *out, const struct zk_path *cluster);
void zk_path_broker(struct zk_path *out, const struct zk_path *cluster, const char *node_name);
void zk_path_shards(struct zk_path *out, const struct zk_path *cluster);
void zk_path_shard(struct zk_path *out, const struct zk_path *cluster, uint32_t shard);
void zk_path_owner(struct zk_path *out, const struct zk_path *cluster, uint32_t shard);
void zk_path_config(struct zk_path *out, const struct zk_path *cluster);

/* "<name>@<instance>". shape: out takes ZK_NODE_NAME_SIZE bytes; both have been checked. */
void zk_path_node_name(char *out, const char *name, const char *instance);

/*
 * Take a broker's node name apart.
 *
 * shape:  name takes MEMBER_NAME_BYTES_MAX + 1 bytes, instance INSTANCE_TEXT_LEN + 1.
 * errors: ERR_INVALID: not a name that we could have written.
 */
MUST_USE int zk_path_split_node_name(const char *node_name, char *name, char *instance);

/* What a watched path stands for. */
enum zk_path_kind {
    ZK_PATH_OTHER = 1, /* not of this cluster, or nothing that we watch */
    ZK_PATH_BROKERS,   /* the list */
    ZK_PATH_BROKER,    /* rest: its node name, borrowed from the path */
    ZK_PATH_OWNER,     /* shard */
    ZK_PATH_CONFIG
};

struct zk_path_parts {
    enum zk_path_kind kind;
    uint32_t shard;
    const char *rest;
};

/* Tell what an event's path is about. shape: any text. */
void zk_path_parse(const struct zk_path *cluster, const char *path, struct zk_path_parts *out);

#endif
