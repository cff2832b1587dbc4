/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads of one PostgreSQL database, on connections of their own: each in one snapshot with the
 * check that the shard's epoch is still the caller's.
 */
#ifndef FOLIOT_STORAGE_PG_READ_H
#define FOLIOT_STORAGE_PG_READ_H

#include "storage/pg_conn.h"
#include "storage/store.h"

/* What a reader needs to know of its database. */
struct pg_read_env {
    uint32_t shard_count;       /* of the cluster */
    const uint8_t *database_of; /* shard → database, kept */
    uint32_t database;          /* which of them this is */
    /* The database's clock came with a reply. */
    void (*on_clock)(void *ctx, boot_us sent, boot_us received, int64_t clock_us);
    /* A read is over: its callback has returned. */
    void (*on_answered)(void *ctx);
    void *ctx;
};

/*
 * Start a read on a connection; `env` is kept. The read ends by its callback, later.
 *
 * errors: ERR_NO_MEMORY.
 */
MUST_USE int pg_read_start(struct pg_conn *conn, const struct pg_read_env *env,
                           struct store_read *read);

/* Settings of a connection for reads: plans that follow the index. */
#define PG_READ_SETTINGS                        \
    ", set_config('enable_sort', 'off', false)" \
    ", set_config('enable_bitmapscan', 'off', false)"

#endif
