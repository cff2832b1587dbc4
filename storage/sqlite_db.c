/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection. The file is locked exclusively from the first access to the close, which also
 * spares the shared-memory file; every commit is flushed before it counts.
 */
#include "storage/sqlite_db.h"

#include "lib/base/check.h"
#include "lib/base/err.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

/* Pages in memory, in KiB; the default is too little for a backlog of overdue tasks. */
#define CACHE_KIB "16384"

/* --- failures --------------------------------------------------------------------------------- */

/* Note what failed, in a person's words where we know better than the library. */
static void note(struct sqlite_db *db, int code)
{
    db->code = code;
    switch (code & 0xff) {
    case SQLITE_FULL:
        (void)snprintf(db->why, sizeof(db->why), "the disk is full");
        break;
    case SQLITE_READONLY:
        (void)snprintf(db->why, sizeof(db->why), "the file is read-only");
        break;
    default:
        (void)snprintf(db->why, sizeof(db->why), "%s (%s)", sqlite3_errmsg(db->link),
                       sqlite3_errstr(code));
        break;
    }
}

static int open_failed(const struct sqlite_db *db, const char *path, int code, char *errmsg)
{
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        (void)snprintf(errmsg, SQLITE_MESSAGE_LEN,
                       "database %s is in use by another foliot dev: end that one, or name another"
                       " file",
                       path);
        return ERR_CONFLICT;
    case SQLITE_NOTADB:
        (void)snprintf(errmsg, SQLITE_MESSAGE_LEN,
                       "%s is no SQLite database: name another file, or one that does not exist",
                       path);
        return ERR_CONFLICT;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        (void)snprintf(errmsg, SQLITE_MESSAGE_LEN,
                       "database %s is read-only: this user must be able to write the file and its"
                       " folder",
                       path);
        return ERR_DENIED;
    case SQLITE_CANTOPEN:
        (void)snprintf(errmsg, SQLITE_MESSAGE_LEN,
                       "cannot open database %s: its folder must exist, and this user must be able"
                       " to write there",
                       path);
        return ERR_IO;
    case SQLITE_FULL:
        (void)snprintf(errmsg, SQLITE_MESSAGE_LEN,
                       "cannot use database %s: the disk is full, make room on it", path);
        return ERR_IO;
    case SQLITE_NOMEM:
        (void)snprintf(errmsg, SQLITE_MESSAGE_LEN, "out of memory");
        return ERR_NO_MEMORY;
    default:
        (void)snprintf(errmsg, SQLITE_MESSAGE_LEN, "cannot use database %s: %s", path,
                       db->why[0] != '\0' ? db->why : sqlite3_errstr(code));
        return ERR_IO;
    }
}

/* --- life ------------------------------------------------------------------------------------- */

int sqlite_db_exec(struct sqlite_db *db, const char *sql)
{
    int code = sqlite3_exec(db->link, sql, NULL, NULL, NULL);

    if (code != SQLITE_OK) {
        note(db, sqlite3_extended_errcode(db->link));
        return ERR_IO;
    }
    return 0;
}

static int connect(struct sqlite_db *db, const char *path)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    int code = sqlite3_open_v2(path == NULL ? ":memory:" : path, &db->link, flags, NULL);

    if (code != SQLITE_OK) {
        db->code = code;
        return ERR_IO;
    }
    // A file that may not be written is opened all the same, for reading.
    if (sqlite3_db_readonly(db->link, "main") == 1) {
        db->code = SQLITE_READONLY;
        return ERR_IO;
    }
    // It holds from the first access on, so it comes before anything that would read.
    return sqlite_db_exec(db, "PRAGMA locking_mode = EXCLUSIVE");
}

/* What changes the file comes after it has been found to be ours. */
static int set_up(struct sqlite_db *db)
{
    return sqlite_db_exec(db, "PRAGMA journal_mode = WAL;"
                              "PRAGMA synchronous = FULL;"
                              "PRAGMA cache_size = -" CACHE_KIB ";"
                              "PRAGMA temp_store = MEMORY;"
                              "BEGIN EXCLUSIVE; COMMIT");
}

int sqlite_db_open(struct sqlite_db *db, const char *path, const char *cluster_id,
                   uint32_t shard_count, char *errmsg)
{
    const char *name = path == NULL ? "in memory" : path;
    int err = connect(db, path);

    if (err == 0) {
        err = sqlite_check_kind(db, name, errmsg);
    }
    if (err == 0) {
        err = set_up(db);
    }
    if (err == 0) {
        err = sqlite_migrate(db, name, cluster_id, shard_count, errmsg);
    }
    if (err == ERR_IO) {
        err = open_failed(db, name, db->code, errmsg);
    }
    if (err != 0) {
        sqlite_db_close(db);
    }
    return err;
}

void sqlite_db_close(struct sqlite_db *db)
{
    for (int i = 0; i < SQLITE_STMT_COUNT; i++) {
        (void)sqlite3_finalize(db->stmts[i]);
        db->stmts[i] = NULL;
    }
    // Without statements it cannot be busy.
    (void)sqlite3_close(db->link);
    db->link = NULL;
}

/* --- statements ------------------------------------------------------------------------------- */

struct sqlite3_stmt *sqlite_db_stmt(struct sqlite_db *db, enum sqlite_stmt stmt)
{
    struct sqlite3_stmt **place = &db->stmts[stmt];

    if (*place == NULL) {
        int code = sqlite3_prepare_v3(db->link, sqlite_stmt_text(stmt), -1,
                                      SQLITE_PREPARE_PERSISTENT, place, NULL);

        if (code != SQLITE_OK) {
            note(db, code);
            *place = NULL;
        }
        return *place;
    }
    (void)sqlite3_reset(*place);
    (void)sqlite3_clear_bindings(*place);
    return *place;
}

/* A statement that could not be prepared is NULL here; stepping it says so. */
void sqlite_bind_int(struct sqlite3_stmt *stmt, int place, int64_t value)
{
    if (stmt != NULL) {
        (void)sqlite3_bind_int64(stmt, place, value);
    }
}

void sqlite_bind_text(struct sqlite3_stmt *stmt, int place, const char *text)
{
    if (stmt != NULL) {
        (void)sqlite3_bind_text(stmt, place, text, -1, SQLITE_STATIC);
    }
}

void sqlite_bind_bytes(struct sqlite3_stmt *stmt, int place, struct slice bytes)
{
    REQUIRE(bytes.len <= INT_MAX);
    if (stmt != NULL) {
        // No address would mean null.
        (void)sqlite3_bind_blob(stmt, place, bytes.len == 0 ? (const void *)"" : bytes.data,
                                (int)bytes.len, SQLITE_STATIC);
    }
}

void sqlite_bind_bytes_or_null(struct sqlite3_stmt *stmt, int place, struct slice bytes)
{
    if (bytes.len > 0) {
        sqlite_bind_bytes(stmt, place, bytes);
    }
}

enum sqlite_step sqlite_db_step(struct sqlite_db *db, struct sqlite3_stmt *stmt)
{
    int code = stmt == NULL ? db->code : sqlite3_step(stmt);

    if (code == SQLITE_ROW) {
        return SQLITE_STEP_ROW;
    }
    if (code == SQLITE_DONE) {
        (void)sqlite3_reset(stmt);
        return SQLITE_STEP_DONE;
    }
    if (stmt != NULL) {
        note(db, code);
        (void)sqlite3_reset(stmt);
    }
    return SQLITE_STEP_FAILED;
}

/* What one operation's own data can cause, without harm to the transaction. */
static bool is_data_error(const struct sqlite_db *db)
{
    int code = db->code & 0xff;

    return (code == SQLITE_CONSTRAINT || code == SQLITE_MISMATCH || code == SQLITE_TOOBIG ||
            code == SQLITE_RANGE) &&
           sqlite3_get_autocommit(db->link) == 0;
}

int sqlite_db_run(struct sqlite_db *db, struct sqlite3_stmt *stmt, int64_t *changed)
{
    enum sqlite_step step;

    do {
        step = sqlite_db_step(db, stmt);
    } while (step == SQLITE_STEP_ROW);
    if (step == SQLITE_STEP_FAILED) {
        return is_data_error(db) ? ERR_INVALID : ERR_UNAVAILABLE;
    }
    if (changed != NULL) {
        *changed = sqlite3_changes64(db->link);
    }
    return 0;
}

int64_t sqlite_column(struct sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_int64(stmt, column);
}

bool sqlite_column_is_null(struct sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_type(stmt, column) == SQLITE_NULL;
}

struct slice sqlite_column_bytes(struct sqlite3_stmt *stmt, int column)
{
    // The order matters: the length is that of the last conversion.
    const void *bytes = sqlite3_column_blob(stmt, column);
    int len = sqlite3_column_bytes(stmt, column);

    return (struct slice){bytes, (size_t)len};
}

void sqlite_column_text(struct sqlite3_stmt *stmt, int column, char *out, size_t size)
{
    const unsigned char *text = sqlite3_column_text(stmt, column);

    (void)snprintf(out, size, "%s", text == NULL ? "" : (const char *)text);
}

/* --- transactions ----------------------------------------------------------------------------- */

int sqlite_db_begin(struct sqlite_db *db)
{
    db->why[0] = '\0';
    db->code = SQLITE_OK;
    return sqlite_db_run(db, sqlite_db_stmt(db, SQLITE_STMT_BEGIN), NULL);
}

/*
 * A commit that failed for want of room, or was refused, has not written its last frame, and what
 * it wrote is overwritten by the next one. After any other failure the frames may all be there, and
 * a crash before the next commit would bring them back. source: docs/adr/0015
 */
static bool is_void(int code)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_BUSY:
    case SQLITE_READONLY:
    case SQLITE_CONSTRAINT:
        return true;
    default:
        return false;
    }
}

int sqlite_db_commit(struct sqlite_db *db)
{
    if (sqlite_db_run(db, sqlite_db_stmt(db, SQLITE_STMT_COMMIT), NULL) == 0) {
        return 0;
    }
    sqlite_db_rollback(db);
    return is_void(db->code) ? ERR_UNAVAILABLE : ERR_OUTCOME_UNKNOWN;
}

void sqlite_db_rollback(struct sqlite_db *db)
{
    struct sqlite3_stmt *stmt;

    if (sqlite3_get_autocommit(db->link) != 0) {
        return;
    }
    stmt = sqlite_db_stmt(db, SQLITE_STMT_ROLLBACK);
    // What can fail here has ended the transaction already.
    (void)sqlite3_step(stmt);
    (void)sqlite3_reset(stmt);
}

int sqlite_db_is_ours(struct sqlite_db *db, uint32_t shard, int64_t epoch, bool *ours)
{
    uint32_t lives_in = db->database_of == NULL ? 0 : db->database_of[shard];
    struct sqlite3_stmt *stmt;
    enum sqlite_step step;

    *ours = false;
    if (epoch <= 0 || lives_in != db->index) {
        return 0;
    }
    stmt = sqlite_db_stmt(db, SQLITE_STMT_EPOCH);
    sqlite_bind_int(stmt, 1, shard);
    step = sqlite_db_step(db, stmt);
    if (step == SQLITE_STEP_FAILED) {
        return ERR_UNAVAILABLE;
    }
    *ours = step == SQLITE_STEP_ROW && sqlite_column(stmt, 0) == epoch;
    if (step == SQLITE_STEP_ROW) {
        (void)sqlite3_reset(stmt);
    }
    return 0;
}
