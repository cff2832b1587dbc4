/* SPDX-License-Identifier: Apache-2.0
 *
 * The schema of a SQLite database. Each step is kept in the database word for word, so that one
 * that differs from this program's is seen; steps are applied each in a transaction of its own.
 */
#include "storage/sqlite_db.h"
#include "storage/sqlite_schema.h"

#include "lib/base/err.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What says that a file is ours: "FOLI" as a number. */
#define APPLICATION_ID 1179601993

struct migration {
    struct sqlite_db *db;
    const char *path;
    const char *cluster_id;
    uint32_t shard_count;
    char *errmsg;
};

PRINTF_LIKE(2, 3)
static int refuse(const struct migration *m, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(m->errmsg, SQLITE_MESSAGE_LEN, format, args);
    va_end(args);
    return ERR_CONFLICT;
}

/* Run a statement of its own: ?1 is a number, ?2 bytes; one number of the answer, untouched if
 * there is none. */
static int ask(const struct migration *m, const char *sql, int64_t step, struct slice text,
               int64_t *out)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(m->db->link, sql, -1, &stmt, NULL);

    if (code == SQLITE_OK && sqlite3_bind_parameter_count(stmt) >= 1) {
        sqlite_bind_int(stmt, 1, step);
    }
    if (code == SQLITE_OK && sqlite3_bind_parameter_count(stmt) >= 2) {
        sqlite_bind_bytes(stmt, 2, text);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_step(stmt);
    }
    if (code == SQLITE_ROW && out != NULL) {
        *out = sqlite3_column_int64(stmt, 0);
    }
    (void)sqlite3_finalize(stmt);
    if (code == SQLITE_ROW || code == SQLITE_DONE) {
        return 0;
    }
    m->db->code = code;
    (void)snprintf(m->db->why, sizeof(m->db->why), "%s", sqlite3_errmsg(m->db->link));
    return ERR_IO;
}

static int ask_number(const struct migration *m, const char *sql, int64_t *out)
{
    return ask(m, sql, 0, (struct slice){NULL, 0}, out);
}

int sqlite_check_kind(struct sqlite_db *db, const char *path, char *errmsg)
{
    struct migration m = {.db = db, .path = path, .errmsg = errmsg};
    int64_t application = 0;
    int64_t table_count = 0;
    int err = ask_number(&m, "PRAGMA application_id", &application);

    errmsg[0] = '\0';
    if (err == 0) {
        err = ask_number(&m, "SELECT count(*) FROM sqlite_schema", &table_count);
    }
    if (err == 0 && application != APPLICATION_ID && (table_count > 0 || application != 0)) {
        return refuse(&m,
                      "%s is another program's database: name another file, or one that does not"
                      " exist",
                      path);
    }
    return err;
}

/* So that the file is known to be ours from here on. */
static int mark(const struct migration *m)
{
    char sql[64];

    (void)snprintf(sql, sizeof(sql), "PRAGMA application_id = %d", APPLICATION_ID);
    return sqlite_db_exec(m->db, sql);
}

static int note_step(const struct migration *m, size_t number, const struct embedded_file *file)
{
    return ask(m, "INSERT INTO migration (step, text) VALUES (?1, ?2)", (int64_t)number,
               (struct slice){file->bytes, file->len}, NULL);
}

static int make_shards(const struct migration *m)
{
    int err = ask(m,
                  "INSERT INTO cluster (only_row, id, shard_count)"
                  " VALUES (1, CAST(?2 AS TEXT), ?1)",
                  m->shard_count, slice_of(m->cluster_id), NULL);

    for (uint32_t shard = 0; err == 0 && shard < m->shard_count; shard++) {
        err = ask(m, "INSERT INTO shard (id) VALUES (?1)", shard, (struct slice){NULL, 0}, NULL);
    }
    return err;
}

static int apply_step(const struct migration *m, size_t number, const struct embedded_file *file)
{
    int err = sqlite_db_exec(m->db, "BEGIN IMMEDIATE");

    if (err == 0) {
        err = sqlite_db_exec(m->db, (const char *)file->bytes);
    }
    if (err == 0 && number == 1) {
        err = make_shards(m);
    }
    if (err == 0) {
        err = note_step(m, number, file);
    }
    if (err == 0) {
        err = sqlite_db_exec(m->db, "COMMIT");
    }
    if (err != 0) {
        (void)sqlite3_exec(m->db->link, "ROLLBACK", NULL, NULL, NULL);
    }
    return err;
}

/* Apply a step, or check that the one that was applied is ours. */
static int take_step(const struct migration *m, size_t number, const struct embedded_file *file)
{
    int64_t is_same = -1;
    int err = ask(m, "SELECT text = ?2 FROM migration WHERE step = ?1", (int64_t)number,
                  (struct slice){file->bytes, file->len}, &is_same);

    if (err != 0) {
        return err;
    }
    if (is_same < 0) {
        return apply_step(m, number, file);
    }
    if (is_same == 0) {
        return refuse(m,
                      "schema step %s in database %s differs from this program's: it was made by"
                      " another build, name another file",
                      file->name, m->path);
    }
    return 0;
}

/* A database that a newer program has worked on is left alone. */
static int check_steps(const struct migration *m)
{
    int64_t newest = 0;
    int err = ask_number(m, "SELECT coalesce(max(step), 0) FROM migration", &newest);

    if (err == 0 && newest > (int64_t)schema_sqlite_file_count) {
        return refuse(m,
                      "database %s has schema step %" PRId64
                      ", this program knows %zu: use a newer program, or name another file",
                      m->path, newest, schema_sqlite_file_count);
    }
    return err;
}

static int read_cluster(const struct migration *m)
{
    sqlite3_stmt *stmt = NULL;
    int code =
        sqlite3_prepare_v2(m->db->link, "SELECT id, shard_count FROM cluster", -1, &stmt, NULL);

    if (code == SQLITE_OK) {
        code = sqlite3_step(stmt);
    }
    if (code == SQLITE_ROW) {
        int64_t shard_count = sqlite3_column_int64(stmt, 1);

        sqlite_column_text(stmt, 0, m->db->cluster_id, sizeof(m->db->cluster_id));
        m->db->shard_count = (uint32_t)shard_count;
        code = shard_count >= 1 && shard_count <= SHARD_COUNT_MAX ? SQLITE_ROW : SQLITE_DONE;
    }
    (void)sqlite3_finalize(stmt);
    if (code != SQLITE_ROW) {
        return refuse(m, "database %s does not say whose it is: it is damaged, name another file",
                      m->path);
    }
    return 0;
}

int sqlite_migrate(struct sqlite_db *db, const char *path, const char *cluster_id,
                   uint32_t shard_count, char *errmsg)
{
    struct migration m = {db, path, cluster_id, shard_count, errmsg};
    int err = mark(&m);

    errmsg[0] = '\0';
    if (err == 0) {
        err = sqlite_db_exec(db, "CREATE TABLE IF NOT EXISTS migration"
                                 " (step INTEGER PRIMARY KEY, text BLOB NOT NULL) STRICT");
    }
    if (err == 0) {
        err = check_steps(&m);
    }
    for (size_t i = 0; err == 0 && i < schema_sqlite_file_count; i++) {
        err = take_step(&m, i + 1, &schema_sqlite_files[i]);
    }
    return err != 0 ? err : read_cluster(&m);
}
