/* SPDX-License-Identifier: Apache-2.0
 *
 * The store on one or several PostgreSQL databases: non-blocking libpq on the loop. Per database
 * a writer connection for each stream, with one transaction at a time, readers in snapshots of
 * their own, and connections for bumps. It knows tables and SQL, deadlines and lost connections; it
 * does not know who should own what, and it decides nothing by a clock of its own.
 */
#ifndef FOLIOT_STORAGE_STORE_PG_H
#define FOLIOT_STORAGE_STORE_PG_H

#include "lib/base/log.h"
#include "storage/store.h"

struct loop;
struct store_pg;

/* One database as configured. Its index in the options is store_batch.database and the like. */
struct store_pg_database {
    const char *name;     /* for people: "db0" */
    const char *conninfo; /* keyword=value string or URI, as libpq takes it */
};

/* What the store tells besides callbacks. All run on the loop, none inside a request; any may be
 * NULL. */
struct store_pg_events {
    /*
     * A reply carried the database's clock: sent and received by CLOCK_BOOTTIME, database_us since
     * 1970. After each such reply, every clock_poll_ms if there is none, and once in two beats of
     * unwritable_ms (lib/base/beat.h) from a database that has had no write for five seconds.
     */
    void (*on_clock)(void *ctx, uint32_t database, boot_us sent, boot_us received,
                     int64_t database_us);
    /*
     * The database has not taken a write for unwritable_ms (false), or does so again (true). The
     * first report comes with the first connection or after unwritable_ms.
     */
    void (*on_health)(void *ctx, uint32_t database, bool writable);
    /*
     * System identifier or timeline is not what it was: a failover, or another server. Every shard
     * in that database is lost. Comes before anything is sent on the new connection. Writes that
     * have not been sent are answered with ERR_UNAVAILABLE right after it.
     */
    void (*on_changed)(void *ctx, uint32_t database, uint64_t system_id, uint32_t timeline);
    /* Something for the log: connected, lost, refused; one line, borrowed for the call. */
    void (*on_log)(void *ctx, uint32_t database, enum log_level level, const char *line);
    void *ctx;
};

struct store_pg_options {
    struct loop *loop;
    const struct store_pg_database *databases; /* copied; the first is home */
    uint32_t database_count;                   /* 1 … DATABASE_COUNT_MAX */
    uint32_t shard_count;                      /* of the cluster */
    const uint8_t *database_of; /* shard → database, copied; NULL: all in the first */
    const char *cluster_id;     /* what the row in `cluster` must say; copied */
    const char *instance;       /* in application_name: foliot/<instance>/<n> */
    span_ms command_ms;         /* own deadline of a command */
    span_ms connect_ms;         /* own deadline of a connect with its greeting */
    span_ms unwritable_ms;      /* until on_health says no */
    span_ms clock_poll_ms;      /* polls of the database's clock between writes */
    span_ms age_poll_ms;        /* looks at the age of its multixacts */
    bool allow_async_commit;    /* accept synchronous_commit = off: may lose answered tasks */
    struct store_pg_events events;
};

#define STORE_PG_COMMAND_MS_DEFAULT    3000
#define STORE_PG_CONNECT_MS_DEFAULT    3000
#define STORE_PG_UNWRITABLE_MS_DEFAULT 4000
#define STORE_PG_CLOCK_POLL_MS_DEFAULT 200
#define STORE_PG_AGE_POLL_MS_DEFAULT   60000

/* Defaults for everything but loop, databases, shard_count, cluster_id and instance. */
void store_pg_options_init(struct store_pg_options *options);

/*
 * Open the store; connections are made in the background, requests wait for them up to command_ms.
 * Databases must have been migrated (storage/pg_migrate.h).
 *
 * shape:  *out lives until its close callback has returned.
 * errors: ERR_INVALID with errmsg (a conninfo that cannot be parsed), ERR_NO_MEMORY.
 */
MUST_USE int store_pg_open(const struct store_pg_options *options, struct store **out, char *errmsg,
                           size_t errmsg_size);

/* Counters of one database since open, for metrics. */
struct store_pg_stats {
    uint64_t write_batches;    /* committed */
    uint64_t write_ops;        /* in them */
    uint64_t write_unknown;    /* batches answered ERR_OUTCOME_UNKNOWN */
    uint64_t write_refused;    /* batches answered ERR_UNAVAILABLE */
    uint64_t write_split;      /* batches that met a data error and were taken apart */
    uint64_t reads;            /* answered */
    uint64_t bumps;            /* committed */
    uint64_t bumps_blocked;    /* bumps that met their lock timeout */
    uint64_t backends_ended;   /* backends terminated because they blocked a bump */
    uint64_t connections_lost; /* of any kind */
    uint64_t connections_made; /* of any kind */
    boot_us write_us;          /* sum over write batches, sent to answered */
    uint64_t multixact_age;    /* gauge: multixacts since the oldest one, as last seen */
    uint64_t snapshot_age;   /* gauge: transactions since the oldest snapshot, prepared transaction
                                or slot that vacuum must spare, as last seen */
    uint64_t server_changes; /* another server or timeline than before */
    uint64_t system_id;      /* as store_pg_server() */
    uint32_t timeline;
};

void store_pg_stats(const struct store *store, uint32_t database, struct store_pg_stats *out);

/* Version of libpq as it is at work, for the start-up log: 150020 is 15.20. */
int store_pg_library_version(void);

/* What server a database is on, as last seen; zeroes before the first connection. */
void store_pg_server(const struct store *store, uint32_t database, uint64_t *system_id,
                     uint32_t *timeline);

#endif
