/* SPDX-License-Identifier: Apache-2.0
 *
 * The store on SQLite, in memory or in files, for one process: no server to install. One thread
 * per database does the work behind a mailbox, in the order of submission; a batch is a transaction
 * that is flushed before it is answered. The reference clock is this machine's, made monotonic by
 * the same estimate that follows a server's clock.
 *
 * A file is locked against every other process while it is open. Commits of one process are all
 * there is, so the fence is a plain comparison inside the transaction.
 */
#ifndef FOLIOT_STORAGE_STORE_SQLITE_H
#define FOLIOT_STORAGE_STORE_SQLITE_H

#include "lib/base/log.h"
#include "storage/store.h"

struct loop;
struct store_sqlite;

/* Room for what store_sqlite_open() has to say. */
#define STORE_SQLITE_MESSAGE_LEN 512

struct store_sqlite_options {
    const char *const *paths; /* one per database; NULL: in memory. Borrowed for the open */
    uint32_t database_count;  /* 1 … DATABASE_COUNT_MAX */
    /* Of databases that are new; the others say themselves, and all alike. */
    const char *cluster_id; /* 1 … 63 bytes */
    uint32_t shard_count;
    /* shard → database, copied; NULL: all in the first. shape: of the databases' shard count. */
    const uint8_t *database_of;
};

/*
 * Open, lock and bring up to date every database; start the threads.
 *
 * note:   blocks, some milliseconds. The files stay locked until store_sqlite_close.
 * errors: with errmsg (STORE_SQLITE_MESSAGE_LEN bytes), one line that names the file: ERR_CONFLICT
 *         in use by another process, not ours, of a newer program or of another cluster; ERR_DENIED
 *         read-only; ERR_IO cannot be opened, disk full, no thread; ERR_NO_MEMORY.
 */
MUST_USE int store_sqlite_open(const struct store_sqlite_options *options,
                               struct store_sqlite **out, char *errmsg);

/* Close the databases. shape: every client's close callback has come. NULL is fine. */
void store_sqlite_close(struct store_sqlite *shared);

/* What the databases say of themselves; epoch_max is of the moment of the open: generations that
 * are given from now on must make higher ones. */
struct store_sqlite_found {
    const char *cluster_id; /* borrowed until store_sqlite_close */
    uint32_t shard_count;
    int64_t epoch_max;
};

void store_sqlite_found(const struct store_sqlite *shared, struct store_sqlite_found *out);

/* What a client is told besides callbacks; all on its loop, none inside a request; any NULL. */
struct store_sqlite_events {
    /* This machine's clock at an instant of the boot clock: once a second, and with every answer
     * to a write. sent and received are as good as that instant. */
    void (*on_clock)(void *ctx, uint32_t database, boot_us sent, boot_us received,
                     int64_t database_us);
    /* The database refuses writes (false), or has refused none for some seconds (true); first soon
     * after the open. While it refuses, it is tried twice a second. */
    void (*on_health)(void *ctx, uint32_t database, bool writable);
    /* Why a request failed, one line, borrowed for the call. */
    void (*on_log)(void *ctx, uint32_t database, enum log_level level, const char *line);
    void *ctx;
};

struct store_sqlite_client_options {
    struct loop *loop;
    struct store_sqlite_events events;
};

/*
 * A broker's store on the databases. It lives until its close callback has returned.
 *
 * errors: ERR_NO_MEMORY, ERR_IO.
 */
MUST_USE int store_sqlite_client(struct store_sqlite *shared,
                                 const struct store_sqlite_client_options *options,
                                 struct store **out);

/* Counters of one database since a client was opened, for metrics. */
struct store_sqlite_stats {
    uint64_t write_batches; /* committed */
    uint64_t write_ops;     /* in them */
    uint64_t write_unknown; /* batches answered ERR_OUTCOME_UNKNOWN */
    uint64_t write_refused; /* batches answered ERR_UNAVAILABLE */
    uint64_t reads;         /* answered */
    uint64_t bumps;         /* committed */
    boot_us write_us;       /* sum over committed batches, submitted to answered */
};

void store_sqlite_stats(const struct store *store, uint32_t database,
                        struct store_sqlite_stats *out);

#endif
