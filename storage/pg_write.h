/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer of one PostgreSQL database: one connection, one transaction at a time. A batch is one
 * pipelined transaction: the fence over all its shards, one statement per kind and table, each with
 * the fence in it, claim rows, commit. A batch that meets a data error is taken apart by savepoints
 * until the operation at fault is alone; the rest still commits as a whole.
 */
#ifndef FOLIOT_STORAGE_PG_WRITE_H
#define FOLIOT_STORAGE_PG_WRITE_H

#include "storage/pg_conn.h"
#include "storage/pg_plan.h"
#include "storage/store_pg.h"

#define PG_WRITE_WAITING_MAX 64

/* Members of one claim row: fills a page, no more. source: docs/adr/0010 */
#define PG_CLAIM_MEMBER_COUNT_MAX 256

/* Rows of a kind past their time that one transaction deletes; as long as it finds so many, later
 * batches go on with it, at least so far apart: up to 20 000 a second. */
#define PG_TIDY_ROW_COUNT 2000
#define PG_TIDY_US        (100 * US_PER_MS)

/* Of so many sweeps one looks for everything that is past its time. The others look for what has
 * run out since twice the time to the sweep before and so long before that: what was deleted
 * earlier stays in the index for as long as somebody holds a snapshot, and would be walked past
 * each time. */
#define PG_TIDY_SWEEPS 16U
#define PG_TIDY_MS     INT64_C(30000)
#define PG_TIDY_ALL_MS (INT64_C(1) << 50)

struct pg_writer_options {
    struct pg_conn_options conn; /* name, deadlines, callbacks but ctx; ctx is given to them */
    struct store_pg_stats *stats;
    const uint8_t *database_of; /* shard → database, kept */
    uint32_t database;          /* which of them this is */
    /* The database's clock came with a reply. */
    void (*on_clock)(void *ctx, boot_us sent, boot_us received, int64_t clock_us);
    /* A transaction ended: 0 committed, else why not. */
    void (*on_outcome)(void *ctx, int result);
    /* A poll ended: 0 if the server answered and can be written to. */
    void (*on_poll)(void *ctx, int result);
    void (*on_error)(void *ctx, const char *message); /* an SQL error, for the log */
    /* A batch is over: its callback has returned. */
    void (*on_answered)(void *ctx);
    void *ctx;
};

enum pg_write_phase {
    PG_WRITE_IDLE,
    PG_WRITE_STATEMENTS, /* statements are out, claims and commit are not */
    PG_WRITE_COMMITTING, /* everything is out */
    PG_WRITE_ROLLBACK,   /* after an error */
    PG_WRITE_CAREFUL     /* a part of the batch is out, behind a savepoint */
};

/* What a reply in the present segment belongs to. */
enum pg_write_command {
    PG_WRITE_PLAIN, /* nothing to be learned from it */
    PG_WRITE_FENCE,
    PG_WRITE_KEYS,
    PG_WRITE_GROUP,
    PG_WRITE_TIDY, /* how many rows are gone */
    PG_WRITE_COMMIT,
    PG_WRITE_CLOCK
};

struct pg_write_expect {
    enum pg_write_command command;
    struct pg_group group;
};

/* Commands of a segment besides groups: begin, savepoint, fence, keys, claims, drops, commit … */
#define PG_WRITE_EXPECT_MAX (BATCH_OP_COUNT_MAX + 32)

/* A range of slots still to be done, in careful mode. */
struct pg_write_range {
    uint32_t first;
    uint32_t end;
};

/* Halving 2^11 operations leaves at most one range per level. */
#define PG_WRITE_RANGE_MAX 16

struct pg_writer {
    struct pg_conn conn;
    struct pg_job job;
    struct pg_job poll;
    bool is_polling;
    int poll_outcome;
    struct pg_writer_options options;
    struct list waiting; /* batches, by link */
    uint32_t waiting_count;
    struct store_batch *batch; /* in hand, or NULL */
    struct pg_plan plan;
    enum pg_write_phase phase;
    bool careful;     /* being taken apart */
    bool take_apart;  /* after the rollback that is under way */
    bool commit_sent; /* from here on a lost connection means an unknown outcome */
    boot_us started;
    boot_us tidied;                /* when rows past their time were deleted last */
    bool is_tidy_left;             /* there may be more of them */
    int64_t tidy_ms;               /* what ran out so long ago is looked for */
    uint32_t tidy_count;           /* sweeps so far */
    int64_t ours[SHARD_COUNT_MAX]; /* epoch under which the shard is ours in this transaction */
    struct pg_write_expect expect[PG_WRITE_EXPECT_MAX];
    uint32_t expect_count;
    uint32_t expect_next;
    bool failed;         /* the segment met an error */
    bool failed_by_data; /* of a kind that one operation can be to blame for */
    bool failed_at_commit;
    struct pg_write_range ranges[PG_WRITE_RANGE_MAX];
    uint32_t range_count;
    struct pg_write_range range;                 /* out */
    struct pg_array arrays[PG_COLUMN_COUNT_MAX]; /* values of the statement being queued */
    struct pg_params params;
    uint16_t claim_place[SHARD_COUNT_MAX]; /* in the fences of the claim row being filled, from 1 */
    int64_t claim_epochs[PG_CLAIM_MEMBER_COUNT_MAX]; /* of those fences */
};

/* Start. errors: those of pg_conn_open. */
MUST_USE int pg_writer_open(struct pg_writer *writer, const struct pg_writer_options *options);

/* shape: nothing is pending. conn.on_closed tells the end; then pg_writer_fini. */
void pg_writer_close(struct pg_writer *writer);
void pg_writer_fini(struct pg_writer *writer);

/* Take a batch. errors: ERR_FULL. */
MUST_USE int pg_writer_write(struct pg_writer *writer, struct store_batch *batch);

/* Answer every batch that has not been sent with ERR_UNAVAILABLE. */
void pg_writer_refuse(struct pg_writer *writer);

/* Batches not answered. */
uint32_t pg_writer_load(const struct pg_writer *writer);

/* Ask for the clock, and whether the server can be written to, if nothing else is under way. */
void pg_writer_poll(struct pg_writer *writer);

/* Prepare the polls; for pg_writer_open. */
void pg_writer_poll_init(struct pg_writer *writer);

/* True if neither a batch nor a poll is under way. */
bool pg_writer_is_idle(const struct pg_writer *writer);

#endif
