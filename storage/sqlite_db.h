/* SPDX-License-Identifier: Apache-2.0
 *
 * One SQLite database: its connection, schema and prepared statements. Used by one thread at a
 * time: the one that opens it, then its worker. Knows no requests and no threads.
 */
#ifndef FOLIOT_STORAGE_SQLITE_DB_H
#define FOLIOT_STORAGE_SQLITE_DB_H

#include "storage/sqlite_stmt.h"

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqlite3;
struct sqlite3_stmt;

/* Room for what went wrong, for people: of one failure, and as the line about an open. */
#define SQLITE_WHY_LEN     256
#define SQLITE_MESSAGE_LEN 512

/* Longest cluster id. */
#define SQLITE_CLUSTER_ID_LEN 63

struct sqlite_db {
    struct sqlite3 *link;
    struct sqlite3_stmt *stmts[SQLITE_STMT_COUNT];
    char why[SQLITE_WHY_LEN]; /* the last failure; empty if none since sqlite_db_begin */
    int code;                 /* SQLite's own, of the last failure; 0: none */
    char cluster_id[SQLITE_CLUSTER_ID_LEN + 1];
    uint32_t shard_count;
    bool is_tidy_left;          /* more rows past their time may be left */
    int64_t tidied_us;          /* when such rows were deleted last, by CLOCK_BOOTTIME */
    uint32_t index;             /* which database of the store this is */
    const uint8_t *database_of; /* shard → database, borrowed; NULL: all in the first */
};

/*
 * Open, lock and bring up to date.
 *
 * shape:  path NULL: in memory. `cluster_id` and `shard_count` count if the database is new;
 *         otherwise db holds what it says. errmsg has room for SQLITE_MESSAGE_LEN bytes.
 * note:   blocks. The file stays locked against every other process until sqlite_db_close.
 * errors: with errmsg: ERR_CONFLICT in use by another process, or not ours, or of a newer program;
 *         ERR_DENIED read-only; ERR_IO cannot be opened, disk full; ERR_NO_MEMORY.
 */
MUST_USE int sqlite_db_open(struct sqlite_db *db, const char *path, const char *cluster_id,
                            uint32_t shard_count, char *errmsg);

/* Close; harmless if it was never opened. */
void sqlite_db_close(struct sqlite_db *db);

/* Parts of sqlite_db_open, errors and errmsg as there: is the file ours, or empty? It is only read.
 * Then bring the schema up to date. */
MUST_USE int sqlite_check_kind(struct sqlite_db *db, const char *path, char *errmsg);
MUST_USE int sqlite_migrate(struct sqlite_db *db, const char *path, const char *cluster_id,
                            uint32_t shard_count, char *errmsg);

/* Run SQL text that has no answer. errors: ERR_IO; db->why says why. */
MUST_USE int sqlite_db_exec(struct sqlite_db *db, const char *sql);

/* ---- transactions ---- */

/* Begin to write. errors: ERR_UNAVAILABLE. */
MUST_USE int sqlite_db_begin(struct sqlite_db *db);

/*
 * Commit. On failure the transaction is over all the same.
 *
 * errors: ERR_UNAVAILABLE it is not committed and never will be; ERR_OUTCOME_UNKNOWN it may be
 *         found committed after a crash, until something else has been committed.
 */
MUST_USE int sqlite_db_commit(struct sqlite_db *db);

/* Undo what was begun; harmless if nothing is. Keeps why and code. */
void sqlite_db_rollback(struct sqlite_db *db);

/* ---- statements ---- */

/* The statement, reset and without parameters. */
struct sqlite3_stmt *sqlite_db_stmt(struct sqlite_db *db, enum sqlite_stmt stmt);

/* Parameters, counted from 1. Bytes are borrowed until the statement's next use. A NULL slice with
 * sqlite_bind_key is SQL's null; sqlite_bind_bytes never is. */
void sqlite_bind_int(struct sqlite3_stmt *stmt, int place, int64_t value);
void sqlite_bind_text(struct sqlite3_stmt *stmt, int place, const char *text);
void sqlite_bind_bytes(struct sqlite3_stmt *stmt, int place, struct slice bytes);
void sqlite_bind_bytes_or_null(struct sqlite3_stmt *stmt, int place, struct slice bytes);

/* What a step brought. */
enum sqlite_step {
    SQLITE_STEP_FAILED = 0, /* db->why and db->code say why */
    SQLITE_STEP_ROW,
    SQLITE_STEP_DONE
};

MUST_USE enum sqlite_step sqlite_db_step(struct sqlite_db *db, struct sqlite3_stmt *stmt);

/* Run to the end. errors: ERR_INVALID its data is refused, nothing of it happened, the transaction
 * goes on; ERR_UNAVAILABLE the transaction cannot go on. `changed` (may be NULL): rows. */
MUST_USE int sqlite_db_run(struct sqlite_db *db, struct sqlite3_stmt *stmt, int64_t *changed);

/* Columns of the row, counted from 0. Slices are borrowed until the statement's next step. */
int64_t sqlite_column(struct sqlite3_stmt *stmt, int column);
bool sqlite_column_is_null(struct sqlite3_stmt *stmt, int column);
struct slice sqlite_column_bytes(struct sqlite3_stmt *stmt, int column);

/* Copy a text column, cut to size. */
void sqlite_column_text(struct sqlite3_stmt *stmt, int column, char *out, size_t size);

/* Is the shard's epoch this one, and does it live here? errors: ERR_UNAVAILABLE. */
MUST_USE int sqlite_db_is_ours(struct sqlite_db *db, uint32_t shard, int64_t epoch, bool *ours);

#endif
