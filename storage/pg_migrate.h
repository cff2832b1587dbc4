/* SPDX-License-Identifier: Apache-2.0
 *
 * Schema steps of a PostgreSQL database: ordered, each applied once in a transaction of its own,
 * with a checksum that is verified against the program's on every start. Several brokers may start
 * at once: an advisory lock lets one of them work while the others wait. Blocks the caller, with a
 * deadline of its own: for start-up only.
 */
#ifndef FOLIOT_STORAGE_PG_MIGRATE_H
#define FOLIOT_STORAGE_PG_MIGRATE_H

#include "lib/base/attr.h"
#include "lib/base/instant.h"
#include "lib/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pg_migrate_options {
    const char *conninfo;
    const char *cluster_id;     /* ≤ 63 bytes; a database of another cluster is refused */
    uint32_t shard_count;       /* of the cluster */
    const uint8_t *database_of; /* shard → database, as in struct cluster; NULL: all in this one */
    uint32_t database;          /* which of them this one is */
    span_ms limit_ms;           /* for everything but the steps; 0: PG_MIGRATE_MS_DEFAULT */
    span_ms step_ms;            /* for the SQL of one step; 0: PG_MIGRATE_STEP_MS_DEFAULT */
    bool (*is_stopped)(void);   /* asked twice a second: give up; NULL: never */
};

/* Creating 128 tables with their indexes takes about a second; others wait for it in line. */
#define PG_MIGRATE_MS_DEFAULT 60000

/* A step may make an index of a hundred million rows anew. Cut off and begun again it would never
 * come to its end. */
#define PG_MIGRATE_STEP_MS_DEFAULT 7200000

/*
 * Bring a database up to date and check that it is ours.
 *
 * errors: ERR_UNAVAILABLE (no connection, a limit has passed, or stopped: try again), ERR_CONFLICT
 * (of another cluster, other shards, a step that differs from ours, or a newer schema),
 *         ERR_UNSUPPORTED (server older than 15), ERR_INVALID (conninfo), ERR_IO (a step failed).
 *         errmsg then says what and what to do.
 */
MUST_USE int pg_migrate(const struct pg_migrate_options *options, char *errmsg, size_t errmsg_size);

/* What a database says of the cluster that it belongs to. */
struct pg_cluster {
    char id[64];
    uint32_t shard_count;           /* of the cluster */
    int64_t epoch_max;              /* of all shards in this database; 0: none was ever owned */
    uint32_t held_count;            /* shards that lie in this database */
    uint32_t held[SHARD_COUNT_MAX]; /* their numbers, rising */
};

/*
 * Read it. Blocks, as pg_migrate() does, of whose options conninfo, limit_ms and is_stopped count.
 *
 * errors: as pg_migrate(); ERR_NOT_FOUND: it has no schema of ours.
 */
MUST_USE int pg_read_cluster(const struct pg_migrate_options *options, struct pg_cluster *out,
                             char *errmsg, size_t errmsg_size);

#endif
