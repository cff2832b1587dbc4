/* SPDX-License-Identifier: Apache-2.0
 *
 * What the contract suite cannot see of the store on SQLite: files that cannot be used, disks that
 * fail, crashes, and what a restart finds. A crash is a copy of the files as they are.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "storage/store_sqlite.h"
#include "tests/lib/must.h"
#include "tests/lib/sqlite_fault.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARD_COUNT 4
#define PATH_LEN    96

static struct loop *loop;
static struct store_sqlite *shared;
static struct store *store;
static char folder[] = "/tmp/foliot-sqlite-XXXXXX";
static char path[PATH_LEN];
static char errmsg[STORE_SQLITE_MESSAGE_LEN];
static bool is_done;
static int health_count[2]; /* reports: refuses, takes */
static char log_line[256];

static void path_of(const char *name, char *out)
{
    (void)snprintf(out, PATH_LEN, "%s/%s", folder, name);
}

static void begin_case(void)
{
    MUST(mkdtemp(folder) != NULL);
    path_of("dev.db", path);
    sqlite_fault_install();
    MUST_OK(loop_open(&loop));
}

static int open_as(const char *name, const char *cluster_id, struct store_sqlite **out)
{
    const struct store_sqlite_options options = {
        .paths = &name, .database_count = 1, .cluster_id = cluster_id, .shard_count = SHARD_COUNT};

    return store_sqlite_open(&options, out, errmsg);
}

static void on_health(void *ctx, uint32_t database, bool is_writable)
{
    (void)ctx;
    (void)database;
    health_count[is_writable]++;
}

static void on_log(void *ctx, uint32_t database, enum log_level level, const char *line)
{
    (void)ctx;
    (void)database;
    (void)level;
    (void)snprintf(log_line, sizeof(log_line), "%s", line);
}

static void open_store(const char *name)
{
    const struct store_sqlite_client_options options = {
        .loop = loop, .events = {.on_health = on_health, .on_log = on_log}};

    if (open_as(name, "id-1", &shared) != 0) {
        must_fail(MUST_HERE, "%s", errmsg);
    }
    MUST_OK(store_sqlite_client(shared, &options, &store));
}

static void on_done(void *ctx)
{
    (void)ctx;
    is_done = true;
}

static void until_done(void)
{
    while (!is_done) {
        loop_turn(loop, true);
    }
    is_done = false;
}

static void close_store(void)
{
    store->close(store, on_done, NULL);
    until_done();
    store_sqlite_close(shared);
}

static void end_case(void)
{
    char command[PATH_LEN + 16];

    loop_close(loop);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    FILE *pipe = popen(command, "r");
    MUST(pipe != NULL && pclose(pipe) == 0);
}

static void on_bump(struct store_bump *bump)
{
    on_done(bump);
}

static int bump(int64_t epoch)
{
    struct store_bump request = {.epoch = epoch, .instance = "test", .cb = on_bump};

    MUST_OK(store->bump(store, &request));
    until_done();
    return request.result;
}

static void on_batch(struct store_batch *batch)
{
    on_done(batch);
}

/* Insert a task into shard 0. */
static int insert(int64_t counter, int64_t epoch)
{
    struct store_op op = {
        .kind = STORE_INSERT,
        .epoch = epoch,
        .task = {.id = {.seq = task_seq(1, counter)}, .queue = 1, .due_ms = 1000},
    };
    struct store_batch batch = {.ops = &op, .op_count = 1, .cb = on_batch};

    MUST_OK(store->write(store, &batch));
    until_done();
    return batch.result == 0 ? op.result : batch.result;
}

static size_t row_count;

static void on_read(struct store_read *read)
{
    row_count = read->row_count;
    on_done(read);
}

static size_t count_rows(int64_t epoch)
{
    struct store_read read = {.kind = STORE_READ_SLICE,
                              .epoch = epoch,
                              .after_bucket = INT64_MIN,
                              .to_bucket = INT64_MAX,
                              .limit = 100,
                              .cb = on_read};

    MUST_OK(store->read(store, &read));
    until_done();
    MUST_OK(read.result);
    return row_count;
}

static void copy_file(const char *from, const char *to)
{
    static uint8_t bytes[1 << 22];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t len;

    MUST(in >= 0 && out >= 0);
    len = read(in, bytes, sizeof(bytes));
    MUST(len >= 0 && len < (ssize_t)sizeof(bytes));
    MUST_EQ(write(out, bytes, (size_t)len), len);
    (void)close(out);
    // Closing `in` here would drop the locks that SQLite holds in this process.
}

/* The files as a crash would leave them, under another name. */
static void crash_copy(const char *name, char *out)
{
    char from[PATH_LEN + 8];
    char to[PATH_LEN + 8];

    path_of(name, out);
    copy_file(path, out);
    (void)snprintf(from, sizeof(from), "%s-wal", path);
    (void)snprintf(to, sizeof(to), "%s-wal", out);
    copy_file(from, to);
}

static void sql(const char *name, const char *text)
{
    sqlite3 *link;

    MUST_EQ(sqlite3_open_v2(name, &link, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "unix"),
            SQLITE_OK);
    if (sqlite3_exec(link, text, NULL, NULL, NULL) != SQLITE_OK) {
        must_fail(MUST_HERE, "%s: %s", text, sqlite3_errmsg(link));
    }
    MUST_EQ(sqlite3_close(link), SQLITE_OK);
}

/* Where a file's header says how it is written: 1 with a journal, 2 with a write-ahead log. */
#define JOURNAL_BYTE 18

static int header_byte(const char *name, long offset)
{
    FILE *file = fopen(name, "r");
    int byte;

    MUST(file != NULL);
    MUST_EQ(fseek(file, offset, SEEK_SET), 0);
    byte = fgetc(file);
    MUST_EQ(fclose(file), 0);
    return byte;
}

/* Opening it fails with this code, and its one line names the file and says this. */
static void must_refuse(const char *name, int wanted, const char *words)
{
    struct store_sqlite *other;

    MUST_ERR(open_as(name, "id-2", &other), wanted);
    if (strstr(errmsg, name) == NULL || strstr(errmsg, words) == NULL ||
        strchr(errmsg, '\n') != NULL) {
        must_fail(MUST_HERE, "expected '%s' in: %s", words, errmsg);
    }
}

/* --- restarts --------------------------------------------------------------------------------- */

static void restart_finds_rows_cluster_and_epochs(void)
{
    struct store_sqlite_found found;

    begin_case();
    open_store(path);
    store_sqlite_found(shared, &found);
    MUST_EQ(found.epoch_max, 0);
    MUST_OK(bump(300));
    MUST_OK(insert(1, 300));
    close_store();
    MUST_OK(open_as(path, "id-2", &shared));
    store_sqlite_found(shared, &found);
    MUST_EQ_TEXT(found.cluster_id, "id-1");
    MUST_EQ(found.shard_count, SHARD_COUNT);
    MUST_EQ(found.epoch_max, 300);
    store_sqlite_close(shared);
    open_store(path);
    MUST_EQ(count_rows(300), 1);
    MUST_ERR(bump(300), ERR_FENCED);
    close_store();
    end_case();
}

static void crash_at_any_moment_keeps_what_was_answered(void)
{
    char copy[PATH_LEN];

    begin_case();
    open_store(path);
    MUST_OK(bump(1));
    for (int64_t i = 1; i <= 20; i++) {
        MUST_OK(insert(i, 1));
    }
    crash_copy("crashed.db", copy);
    close_store();
    open_store(copy);
    MUST_EQ(count_rows(1), 20);
    close_store();
    end_case();
}

/* --- disks that fail -------------------------------------------------------------------------- */

static void refused(enum sqlite_fault fault, const char *words)
{
    begin_case();
    open_store(path);
    MUST_OK(bump(1));
    MUST_OK(insert(1, 1));
    sqlite_fault_set(fault);
    MUST_ERR(insert(2, 1), ERR_UNAVAILABLE);
    MUST_ERR(bump(2), ERR_UNAVAILABLE);
    MUST_EQ(health_count[false], 1);
    if (strstr(log_line, words) == NULL) {
        must_fail(MUST_HERE, "expected '%s' in: %s", words, log_line);
    }
    MUST_EQ(count_rows(1), 1);
    sqlite_fault_set(SQLITE_FAULT_NONE);
    while (health_count[true] < 2) { // Found out without any request.
        loop_turn(loop, true);
    }
    MUST_OK(insert(3, 1));
    MUST_EQ(count_rows(1), 2);
    close_store();
    open_store(path);
    MUST_EQ(count_rows(1), 2);
    close_store();
    end_case();
}

static void full_disk_refuses_and_is_tried_again(void)
{
    refused(SQLITE_FAULT_FULL, "the disk is full");
}

static void read_only_disk_refuses_and_is_tried_again(void)
{
    refused(SQLITE_FAULT_READ_ONLY, "read-only");
}

static void commit_whose_flush_failed_may_come_back_until_the_epoch_is_raised(void)
{
    char before[PATH_LEN];
    char after[PATH_LEN];

    begin_case();
    open_store(path);
    MUST_OK(bump(1));
    sqlite_fault_set(SQLITE_FAULT_SYNC_ONCE);
    MUST_ERR(insert(1, 1), ERR_OUTCOME_UNKNOWN);
    MUST_EQ(count_rows(1), 0);
    crash_copy("before.db", before);
    MUST_OK(bump(2));
    crash_copy("after.db", after);
    close_store();
    open_store(before);
    MUST_EQ(count_rows(1), 1); // So unknown is the only true answer.
    close_store();
    open_store(after);
    MUST_EQ(count_rows(2), 0);
    close_store();
    end_case();
}

/* --- files that cannot be used ---------------------------------------------------------------- */

static void file_in_use_is_refused(void)
{
    begin_case();
    open_store(path);
    must_refuse(path, ERR_CONFLICT, "is in use by another foliot dev");
    MUST_OK(bump(1)); // The first one does not notice.
    MUST_OK(insert(1, 1));
    close_store();
    end_case();
}

static void foreign_files_are_left_alone(void)
{
    char other[PATH_LEN];
    FILE *file;

    begin_case();
    path_of("other.db", other);
    sql(other, "CREATE TABLE theirs (a)");
    must_refuse(other, ERR_CONFLICT, "another program's database");
    MUST_EQ(header_byte(other, JOURNAL_BYTE), 1); // Not even its journal is another one now.
    path_of("text", other);
    file = fopen(other, "w");
    MUST(file != NULL);
    for (int i = 0; i < 1000; i++) {
        (void)fputs("no database at all\n", file);
    }
    MUST_EQ(fclose(file), 0);
    must_refuse(other, ERR_CONFLICT, "is no SQLite database");
    path_of("none/dev.db", other);
    must_refuse(other, ERR_IO, "its folder must exist");
    must_refuse(folder, ERR_IO, "its folder must exist");
    end_case();
}

static void file_that_may_not_be_written_is_refused(void)
{
    begin_case();
    open_store(path);
    close_store();
    MUST_EQ(chmod(folder, 0755), 0);
    MUST_EQ(chmod(path, 0444), 0);
    if (geteuid() == 0) {
        MUST_EQ(seteuid(65534), 0); // Root may write everything.
    }
    must_refuse(path, ERR_DENIED, "is read-only");
    if (getuid() == 0) {
        MUST_EQ(seteuid(0), 0);
    }
    end_case();
}

static void disk_that_is_full_or_read_only_at_the_start_is_one_line(void)
{
    begin_case();
    sqlite_fault_set(SQLITE_FAULT_FULL);
    must_refuse(path, ERR_IO, "the disk is full");
    sqlite_fault_set(SQLITE_FAULT_NONE);
    open_store(path); // What was begun does not stand in the way.
    MUST_OK(bump(1));
    close_store();
    sqlite_fault_set(SQLITE_FAULT_READ_ONLY);
    must_refuse(path, ERR_DENIED, "is read-only");
    end_case();
}

static void schema_of_another_build_is_refused(void)
{
    begin_case();
    open_store(path);
    close_store();
    sql(path, "INSERT INTO migration VALUES (9, x'00')");
    must_refuse(path, ERR_CONFLICT, "has schema step 9");
    sql(path, "DELETE FROM migration WHERE step = 9; UPDATE migration SET text = x'00'");
    must_refuse(path, ERR_CONFLICT, "differs from this program's");
    end_case();
}

static void databases_that_do_not_belong_together_are_refused(void)
{
    char other[PATH_LEN];
    const char *names[2] = {path, other};
    const struct store_sqlite_options options = {
        .paths = names, .database_count = 2, .cluster_id = "id-3", .shard_count = SHARD_COUNT};
    struct store_sqlite *both;

    begin_case();
    path_of("other.db", other);
    open_store(path);
    close_store();
    MUST_ERR(store_sqlite_open(&options, &both, errmsg), ERR_CONFLICT);
    MUST(strstr(errmsg, "different clusters, id-1 and id-3") != NULL);
    sql(path, "DELETE FROM cluster");
    must_refuse(path, ERR_CONFLICT, "does not say whose it is");
    end_case();
}

static void half_made_database_is_completed(void)
{
    begin_case();
    open_store(path);
    close_store();
    MUST_EQ(unlink(path), 0);
    // What is left if the process dies between the mark and the first step.
    sql(path, "PRAGMA application_id = 1179601993");
    open_store(path);
    MUST_OK(bump(1));
    MUST_OK(insert(1, 1));
    close_store();
    end_case();
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(restart_finds_rows_cluster_and_epochs),
        MUST_CASE(crash_at_any_moment_keeps_what_was_answered),
        MUST_CASE(full_disk_refuses_and_is_tried_again),
        MUST_CASE(read_only_disk_refuses_and_is_tried_again),
        MUST_CASE(commit_whose_flush_failed_may_come_back_until_the_epoch_is_raised),
        MUST_CASE(file_in_use_is_refused),
        MUST_CASE(foreign_files_are_left_alone),
        MUST_CASE(file_that_may_not_be_written_is_refused),
        MUST_CASE(disk_that_is_full_or_read_only_at_the_start_is_one_line),
        MUST_CASE(schema_of_another_build_is_refused),
        MUST_CASE(databases_that_do_not_belong_together_are_refused),
        MUST_CASE(half_made_database_is_completed),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
