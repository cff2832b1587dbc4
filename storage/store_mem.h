/* SPDX-License-Identifier: Apache-2.0
 *
 * The in-memory store: the smallest correct one, oracle for all others, and the databases of the
 * simulator. One `struct store_mem` is one set of databases; each broker gets a `struct store` from
 * it. Nothing happens by itself: requests sit in stages until the driver moves them, so a test
 * chooses every interleaving, loss and crash. It reads no clock, draws no random number, and what
 * it does depends on nothing but the calls made.
 *
 *   submit ─▶ SUBMITTED ──▶ EXECUTED ──▶ ENDED ──▶ callback
 *             in flight     share locks   committed, or
 *                           held, effects aborted; the reply
 *                           invisible     is on its way
 *
 * Reads go from SUBMITTED to ENDED in one step.
 *
 * Visibility is that of PostgreSQL READ COMMITTED with the fence of DESIGN 7 (RELIABILITY H-2):
 * 1. A write locks the shard rows that it matched until it ends; it waits for an open bump of one
 *    of them, and then matches anew. It waits for open writes that touch the same task or key.
 * 2. A bump waits for open writes and open bumps of its shard; stepped while it waits, its lock
 *    timeout has passed: superseded (ERR_FENCED) if the committed epoch is not below its own, else
 *    it aborts those that block it, whose clients get ERR_OUTCOME_UNKNOWN.
 * 3. Effects become visible at once, when the driver moves EXECUTED to ENDED.
 * 4. A read sees what is committed when it is executed; its reply may come much later.
 * 5. Writes of one client to one stream of a database commit in the order in which they were
 *    submitted.
 */
#ifndef FOLIOT_STORAGE_STORE_MEM_H
#define FOLIOT_STORAGE_STORE_MEM_H

#include "storage/store.h"

struct store_mem;
struct store_mem_request;

/* How a write looks at the shard row. Anything but SHARE is broken on purpose, to see a checker
 * bite. source: RELIABILITY H-2, T-10 */
enum store_mem_fence {
    STORE_MEM_FENCE_SHARE,    /* FOR SHARE in the same statement */
    STORE_MEM_FENCE_NONE,     /* EXISTS: the epoch is read without a lock, as of the begin of the
                                 statement, whatever that waits for afterwards */
    STORE_MEM_FENCE_KEY_SHARE /* FOR KEY SHARE: a lock that an UPDATE of the epoch passes by */
};

enum store_mem_kind {
    STORE_MEM_WRITE = 1,
    STORE_MEM_READ,
    STORE_MEM_BUMP,
    STORE_MEM_QUEUE_PUT,
    STORE_MEM_QUEUE_DROP,
    STORE_MEM_QUEUE_LIST,
    STORE_MEM_CLOSE
};

enum store_mem_stage {
    STORE_MEM_SUBMITTED = 1,
    STORE_MEM_EXECUTED,
    STORE_MEM_ENDED
};

/* What a step did. */
enum store_mem_event {
    STORE_MEM_WAITS = 1,  /* nothing: somebody else must move first */
    STORE_MEM_MOVED,      /* one stage forward */
    STORE_MEM_TERMINATED, /* a bump aborted those that blocked it; it is still SUBMITTED */
    STORE_MEM_GONE        /* replied, or an orphan's end: the request handle is dead */
};

/* A transaction that has just committed, for checkers. Borrowed for the call. */
struct store_mem_commit {
    enum store_mem_kind kind; /* WRITE, BUMP, QUEUE_PUT or QUEUE_DROP */
    uint32_t client;
    uint32_t database; /* 0 for queues */
    uint64_t number;   /* WRITE, BUMP: in its database, from 1, if there is a standby; else 0 */
    bool orphan;
    const struct store_batch *batch; /* WRITE: with the results of its operations */
    const struct store_bump *bump;   /* BUMP that raised the epoch */
    int64_t epoch_before;            /* BUMP */
};

typedef void (*store_mem_commit_fn)(void *ctx, const struct store_mem_commit *commit);

struct store_mem_options {
    uint32_t shard_count;       /* 1 … SHARD_COUNT_MAX; every shard starts at epoch 0 */
    uint32_t database_count;    /* 1 … DATABASE_COUNT_MAX */
    const uint8_t *database_of; /* shard → database, copied; NULL: all in database 0 */
    enum store_mem_fence fence;
    bool has_standby;              /* store_mem_promote may be called */
    store_mem_commit_fn on_commit; /* may be NULL; must not call the store */
    void *ctx;                     /* of on_commit */
};

/* What a client hears besides its callbacks. All may be NULL. */
struct store_mem_client_options {
    /*
     * A reply of `database` has arrived, just before its callback: sent and received by the
     * client's own boot clock, and the database's clock when it executed the request.
     */
    void (*on_clock)(void *ctx, uint32_t database, boot_us sent, boot_us received,
                     int64_t database_us);
    boot_us (*boot_now)(void *ctx); /* the client's boot clock; needed for on_clock */
    void *ctx;
};

/* What there is to know about a request. */
struct store_mem_info {
    enum store_mem_kind kind;
    enum store_mem_stage stage;
    uint32_t client;   /* number of the client, from 0 in order of creation */
    uint32_t database; /* 0 for queues */
    uint32_t shard;    /* READ, BUMP */
    bool orphan;       /* its client has given up on it, or is dead */
    int result;        /* ENDED: what the reply says */
};

/* Make databases. Freed by store_mem_free; NULL when out of memory. */
MUST_USE struct store_mem *store_mem_new(const struct store_mem_options *options);

/* Free everything. shape: pending requests are dropped, their callbacks do not run. */
void store_mem_free(struct store_mem *mem);

/*
 * Connect a broker. The store lives until its close callback has returned, or store_mem_crash.
 * NULL when out of memory.
 */
MUST_USE struct store *store_mem_client(struct store_mem *mem,
                                        const struct store_mem_client_options *options);

/* Number of a client, as in store_mem_info. */
uint32_t store_mem_client_number(const struct store *store);

/* Set a database's clock, microseconds since 1970; on_clock passes it on. */
void store_mem_set_clock(struct store_mem *mem, uint32_t database, int64_t now_us);

/* --- the driver ------------------------------------------------------------------------------ */

/* Requests that are not over, orphans included, in order of submission. */
size_t store_mem_pending_count(const struct store_mem *mem);

/* The i-th of them. shape: i < store_mem_pending_count; valid until the request is gone. */
struct store_mem_request *store_mem_pending(const struct store_mem *mem, size_t i);

/* The pending request that was made with this caller's struct, or NULL. Orphans have none. */
struct store_mem_request *store_mem_find(const struct store_mem *mem, const void *request);

void store_mem_info(const struct store_mem_request *request, struct store_mem_info *info);

/* True if a step would find the request waiting: nothing for a write or close, termination of
 * whoever blocks for a bump. */
bool store_mem_waits(const struct store_mem_request *request);

/*
 * Move a request one stage. ENDED to callback runs the callback, which may submit more. An orphan
 * is gone when it ends. A close waits until everything else of its client is over.
 */
enum store_mem_event store_mem_step(struct store_mem *mem, struct store_mem_request *request);

/*
 * The client's own deadline passes, or its connection breaks: answer it now, with
 * ERR_OUTCOME_UNKNOWN (reads: ERR_UNAVAILABLE). What has not ended lives on as an orphan, at its
 * stage, until it is stepped or aborted; its handle stays. shape: not an orphan, not a close.
 */
void store_mem_give_up(struct store_mem *mem, struct store_mem_request *request);

/*
 * The database refuses a request with ERR_UNAVAILABLE before it commits (full disk, no
 * connection): nothing of it happens, and the callback runs. shape: not ENDED, not an orphan, not
 * a close.
 */
void store_mem_refuse(struct store_mem *mem, struct store_mem_request *request);

/* The server ends an orphan without commit. shape: an orphan. */
void store_mem_abort(struct store_mem *mem, struct store_mem_request *request);

/*
 * A broker's process dies. Its callbacks never run, what it had submitted lives on as orphans, its
 * reads vanish, its store is freed. Call it while the requests' memory is still there.
 */
void store_mem_crash(struct store_mem *mem, struct store *store);

/* The standby of a database gets the commits up to this number. shape: there is a standby, and
 * there are as many. */
void store_mem_replicate(struct store_mem *mem, uint32_t database, uint64_t number);

/*
 * The primary of a database is lost and its standby takes its place: every commit that was not
 * replicated is gone, and the numbers of commits go on after the last one that was. Returns that.
 * What is open ends: orphans at once, others with ERR_OUTCOME_UNKNOWN; what has not begun is still
 * to come, on the new server. Queues stay as they are.
 */
uint64_t store_mem_promote(struct store_mem *mem, uint32_t database);

/* Step whatever can move, in order of submission, orphans too, until nothing is pending. */
void store_mem_run(struct store_mem *mem);

/* --- inspection: committed state only ----------------------------------------------------------
 */

/* The shard's epoch. */
int64_t store_mem_epoch(const struct store_mem *mem, uint32_t shard);

/* Rows of a shard. */
size_t store_mem_row_count(const struct store_mem *mem, uint32_t shard);

/* First row after (bucket, seq), or NULL; from INT64_MIN, 0 on. Borrowed until the next step. */
const struct task *store_mem_row_after(const struct store_mem *mem, uint32_t shard, int64_t bucket,
                                       int64_t seq);

/* The row of a task, or NULL. Borrowed until the next step. */
const struct task *store_mem_row(const struct store_mem *mem, uint32_t shard, struct task_id id);

/* Place in the walk over all members of all claim rows. Start with zeroes. */
struct store_mem_cursor {
    struct claim_row row;
    size_t member;
};

/* Next member in order of (writer, seq, place), or false at the end. The shard goes with it. */
bool store_mem_claim_next(const struct store_mem *mem, uint32_t database,
                          struct store_mem_cursor *cursor, struct claim *claim, uint32_t *shard);

/* Claim rows of a database. */
size_t store_mem_claim_row_count(const struct store_mem *mem, uint32_t database);

/* Dead letters of all databases. */
size_t store_mem_dead_count(const struct store_mem *mem);

/* First dead letter of a shard after seq, or NULL; from 0 on. Borrowed until the next step. */
const struct ended_task *store_mem_dead_after(const struct store_mem *mem, uint32_t shard,
                                              int64_t seq);

/* The same for results that are kept, also past their time if no sweep has come by. */
const struct ended_task *store_mem_ended_after(const struct store_mem *mem, uint32_t shard,
                                               int64_t seq);

/* What the key table says of a key. */
struct store_mem_key {
    struct task_id id;
    wall_ms until_ms; /* 0: its task is pending */
};

/* Look a key up; false if there is no row. */
bool store_mem_key(const struct store_mem *mem, uint32_t shard, uint32_t queue, struct slice key,
                   struct store_mem_key *out);

#endif
