/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies of znodes: JSON on one line, for people with zkCli and for other brokers. Pure. What is
 * read was written by somebody else: every field is checked, unknown fields are left alone so that
 * versions can live side by side. source: DESIGN 6
 */
#ifndef FOLIOT_COORDINATOR_ZK_BODY_H
#define FOLIOT_COORDINATOR_ZK_BODY_H

#include "coordinator/coord.h"
#include "coordinator/coord_zk.h"
#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdint.h>

/* No znode of ours is larger; the server's own limit is 1 MiB (Z-15). */
#define ZK_BODY_BYTES_MAX 65536

/* The layout below the cluster's znode. */
#define ZK_FORMAT 1

/* <root>/<cluster> */
struct zk_cluster_body {
    char id[64];
    int64_t format;
    uint32_t shard_count; /* 1 … SHARD_COUNT_MAX */
    int64_t base;         /* 0 … GENERATION_MAX */
};

/* …/shards/NNNN/owner */
struct zk_owner_body {
    char broker[MEMBER_NAME_BYTES_MAX + 1];
    char instance[INSTANCE_TEXT_LEN + 1];
    int64_t epoch; /* 0: not raised yet */
    enum coord_shard_state state;
    wall_ms since_ms;
};

/* …/config-version: who bumped it last. */
struct zk_config_body {
    char broker[MEMBER_NAME_BYTES_MAX + 1];
    wall_ms at_ms;
};

/*
 * Write a body at the end of `out`. A failed append shows in out->failed.
 *
 * shape: texts inside are valid by zk_path.h; addresses are any text without NUL.
 */
void zk_body_write_cluster(struct buf *out, const struct zk_cluster_body *body);
void zk_body_write_shard(struct buf *out, const char *database);
void zk_body_write_owner(struct buf *out, const struct zk_owner_body *body);
void zk_body_write_member(struct buf *out, const struct member *member,
                          const struct coord_zk_databases *databases);
void zk_body_write_config(struct buf *out, const struct zk_config_body *body);

/* A set of shards as "0-3,9"; nothing for the empty set. */
void zk_body_write_set(struct buf *out, const struct shard_set *set);

/*
 * Read a body.
 *
 * shape:  any bytes. The result is written only on success.
 * errors: ERR_INVALID: not JSON, a field missing, of another type or out of its range;
 *         ERR_TOO_LARGE above ZK_BODY_BYTES_MAX; ERR_UNSUPPORTED (cluster only) a format that is
 *         not ZK_FORMAT, or another number of slots.
 */
MUST_USE int zk_body_read_cluster(struct slice text, struct zk_cluster_body *out);
MUST_USE int zk_body_read_owner(struct slice text, struct zk_owner_body *out);

/* shape: database takes NAME_BYTES_MAX + 1 bytes. errors: as above. */
MUST_USE int zk_body_read_shard(struct slice text, char *database);

/*
 * Read a broker's body.
 *
 * shape:  node_name is its znode's, "<name>@<instance>"; the body must agree with it. A database
 *         in `cannot` that is not configured here is left out: no shard of ours can be in it.
 * errors: as above.
 */
MUST_USE int zk_body_read_member(struct slice text, const char *node_name,
                                 const struct coord_zk_databases *databases, struct member *out);

/*
 * Read "0-3,9".
 *
 * shape:  rising, no overlap; each below SHARD_COUNT_MAX; at most five digits; "" is the empty set.
 * errors: ERR_INVALID.
 */
MUST_USE int zk_body_read_set(const char *text, struct shard_set *out);

#endif
