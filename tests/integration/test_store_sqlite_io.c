/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-th operation on the disk fails, and the n-th allocation, for every n: what was answered OK
 * is in effect, what was refused is not, what is unknown is whole or void; and so it stays after a
 * crash.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "storage/store_sqlite.h"
#include "tests/lib/must.h"
#include "tests/lib/sqlite_fault.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_LEN     96
#define BATCH_COUNT  6
#define PAIR         2    /* tasks of a batch: all or none */
#define POINTS_MAX   2000 /* far more operations than the story has */
#define TRIES        20   /* of a request that is refused */
#define PAYLOAD_SIZE 9000 /* a few pages each */

enum verdict {
    ABSENT,
    PRESENT,
    EITHER
};

static struct loop *loop;
static struct store_sqlite *shared;
static struct store *store;
static char folder[40];
static char path[PATH_LEN];
static void (*disarm)(void); /* behind the story nothing fails */
static int64_t epoch;
static enum verdict expected[BATCH_COUNT]; /* are its tasks there? */
static bool is_done;

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

/* --- requests: refused ones are tried again, as the core would ------------------------------- */

static void on_bump(struct store_bump *bump)
{
    on_done(bump);
}

/* Raise the epoch until it is known to be raised. */
static void bump(void)
{
    for (int i = 0; i < TRIES; i++) {
        struct store_bump request = {.epoch = ++epoch, .instance = "io", .cb = on_bump};

        if (store->bump(store, &request) == 0) {
            until_done();
            if (request.result == 0) {
                return;
            }
            MUST(request.result == ERR_UNAVAILABLE || request.result == ERR_OUTCOME_UNKNOWN);
        }
    }
    must_fail(MUST_HERE, "the epoch cannot be raised");
}

static size_t row_count;

static void on_read(struct store_read *read)
{
    row_count = read->row_count;
    on_done(read);
}

static struct task_id id_of(int batch, int place)
{
    return (struct task_id){.seq = task_seq(1, 1 + PAIR * batch + place)};
}

/* How many of a batch's tasks there are. */
static size_t count(int batch)
{
    struct task_id ids[PAIR] = {id_of(batch, 0), id_of(batch, 1)};

    for (int i = 0; i < TRIES; i++) {
        struct store_read read = {
            .kind = STORE_READ_TASKS, .epoch = epoch, .ids = ids, .id_count = PAIR, .cb = on_read};

        if (store->read(store, &read) == 0) {
            until_done();
            if (read.result == 0) {
                return row_count;
            }
            MUST_ERR(read.result, ERR_UNAVAILABLE);
        }
    }
    must_fail(MUST_HERE, "the tasks cannot be read");
}

static void on_batch(struct store_batch *batch)
{
    on_done(batch);
}

/* Unknown means: raise the epoch, then look. What is seen then is for good. */
static void settle(int batch)
{
    bump();
    size_t found = count(batch);

    MUST(found == 0 || found == PAIR);
    expected[batch] = found == 0 ? ABSENT : PRESENT;
}

static void write_batch(enum store_op_kind kind, int batch)
{
    static const uint8_t payload[PAYLOAD_SIZE];
    struct store_op ops[PAIR];
    struct store_batch request = {.ops = ops, .op_count = PAIR, .cb = on_batch};

    for (int i = 0; i < PAIR; i++) {
        ops[i] = (struct store_op){
            .kind = kind,
            .epoch = epoch,
            .task = {.id = id_of(batch, i),
                     .queue = 1,
                     .due_ms = 1000,
                     .payload = {payload, kind == STORE_INSERT ? sizeof(payload) : 0}},
        };
    }
    if (store->write(store, &request) != 0) {
        return; // Nothing has happened.
    }
    until_done();
    if (request.result == 0) {
        for (int i = 0; i < PAIR; i++) {
            MUST(ops[i].result == 0 || (kind == STORE_DELETE && expected[batch] == ABSENT));
        }
        expected[batch] = kind == STORE_INSERT ? PRESENT : ABSENT;
    } else if (request.result == ERR_OUTCOME_UNKNOWN) {
        settle(batch);
    } else {
        MUST_ERR(request.result, ERR_UNAVAILABLE);
    }
}

/* --- the story -------------------------------------------------------------------------------- */

static int open_store(const char *name)
{
    const struct store_sqlite_options options = {
        .paths = &name, .database_count = 1, .cluster_id = "io", .shard_count = 1};
    const struct store_sqlite_client_options client = {.loop = loop};
    char errmsg[STORE_SQLITE_MESSAGE_LEN];
    int err = store_sqlite_open(&options, &shared, errmsg);

    if (err != 0) {
        MUST(errmsg[0] != '\0' && strchr(errmsg, '\n') == NULL);
        return err;
    }
    err = store_sqlite_client(shared, &client, &store);
    if (err != 0) {
        store_sqlite_close(shared);
    }
    return err;
}

static void close_store(void)
{
    store->close(store, on_done, NULL);
    until_done();
    store_sqlite_close(shared);
}

static void copy_file(const char *from, const char *to)
{
    static uint8_t bytes[1 << 22];
    static int kept[2 * POINTS_MAX];
    static int kept_count;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t len;

    MUST(in >= 0 && out >= 0);
    len = read(in, bytes, sizeof(bytes));
    MUST(len >= 0 && len < (ssize_t)sizeof(bytes));
    MUST_EQ(write(out, bytes, (size_t)len), len);
    (void)close(out);
    // To close it now would drop the locks that SQLite holds in this process.
    kept[kept_count++] = in;
    for (; kept_count > 2; kept_count--) {
        (void)close(kept[0]);
        memmove(kept, kept + 1, (size_t)kept_count * sizeof(kept[0]));
    }
}

/* The files as a crash leaves them at this moment, under another name. */
static void crash(char *out)
{
    char from[PATH_LEN + 8];
    char to[PATH_LEN + 8];

    (void)snprintf(out, PATH_LEN, "%s/crashed.db", folder);
    copy_file(path, out);
    (void)snprintf(from, sizeof(from), "%s-wal", path);
    (void)snprintf(to, sizeof(to), "%s-wal", out);
    copy_file(from, to);
}

static void compare(const char *when, int n)
{
    for (int batch = 0; batch < BATCH_COUNT; batch++) {
        size_t found = count(batch);

        if (found != (expected[batch] == PRESENT ? PAIR : 0)) {
            must_fail(MUST_HERE, "failure %d, %s: batch %d has %zu tasks, expected %d", n, when,
                      batch, found, (int)expected[batch]);
        }
    }
}

static void forget(void)
{
    static const char *const names[] = {"dev.db", "dev.db-wal", "crashed.db", "crashed.db-wal"};
    char name[PATH_LEN];

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        (void)snprintf(name, sizeof(name), "%s/%s", folder, names[i]);
        (void)unlink(name);
    }
    memset(expected, 0, sizeof(expected));
    epoch = 0;
}

static void tell_story(void)
{
    bump();
    for (int batch = 0; batch < BATCH_COUNT; batch++) {
        write_batch(STORE_INSERT, batch);
        if (batch >= 2) {
            write_batch(STORE_DELETE, batch - 2);
        }
    }
}

/* From an empty folder to a compared restart, with one failure somewhere in between. */
static void live_through(int n)
{
    char crashed[PATH_LEN];
    int err = 0;

    forget();
    for (int i = 0; i < TRIES && (err = open_store(path)) != 0; i++) {
        MUST(err == ERR_IO || err == ERR_NO_MEMORY || err == ERR_CONFLICT || err == ERR_DENIED);
    }
    MUST_OK(err);
    tell_story();
    compare("at the end", n);
    crash(crashed);
    close_store();
    disarm();
    MUST_OK(open_store(crashed));
    bump();
    compare("after a crash", n);
    close_store();
    MUST_OK(open_store(path));
    bump();
    compare("after a restart", n);
    close_store();
}

/* In memory if there is such a place: thousands of flushes are not what is looked at here. */
static void begin_case(void)
{
    (void)snprintf(folder, sizeof(folder), "/dev/shm/foliot-sqlite-XXXXXX");
    if (mkdtemp(folder) == NULL) {
        (void)snprintf(folder, sizeof(folder), "/tmp/foliot-sqlite-XXXXXX");
        MUST(mkdtemp(folder) != NULL);
    }
    (void)snprintf(path, sizeof(path), "%s/dev.db", folder);
    sqlite_fault_install();
    MUST_OK(loop_open(&loop));
}

static void end_case(void)
{
    forget();
    MUST_EQ(rmdir(folder), 0);
    loop_close(loop);
}

static bool disk_failed;

static void disarm_disk(void)
{
    disk_failed = sqlite_fault_has_hit();
    sqlite_fault_nth(0, false);
}

static void fail_every_operation(bool is_full)
{
    int n = 1;

    begin_case();
    disarm = disarm_disk;
    for (; n < POINTS_MAX; n++) {
        sqlite_fault_nth(n, is_full);
        live_through(n);
        if (!disk_failed) {
            break;
        }
    }
    (void)fprintf(stderr, "%d operations, each has failed once\n", n - 1);
    MUST(n > 50 && n < POINTS_MAX);
    end_case();
}

static void any_operation_on_the_disk_may_fail(void)
{
    fail_every_operation(false);
}

static void any_write_may_find_the_disk_full(void)
{
    fail_every_operation(true);
}

/* --- memory ----------------------------------------------------------------------------------- */

static _Atomic int allocations_left; /* until one fails; 0 or below: none does */
static _Atomic bool allocation_failed;

static bool on_allocation(size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    if (allocations_left <= 0 || atomic_fetch_sub(&allocations_left, 1) != 1) {
        return true;
    }
    allocation_failed = true;
    return false;
}

static void disarm_memory(void)
{
    mem_set_hook(NULL, NULL);
}

static void any_allocation_of_ours_may_fail(void)
{
    int n = 1;

    begin_case();
    disarm = disarm_memory;
    for (; n < POINTS_MAX; n++) {
        allocation_failed = false;
        allocations_left = n;
        mem_set_hook(on_allocation, NULL);
        live_through(n);
        if (!allocation_failed) {
            break;
        }
    }
    (void)fprintf(stderr, "%d allocations, each has failed once\n", n - 1);
    MUST(n > 10 && n < POINTS_MAX);
    end_case();
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE_WITHIN(any_operation_on_the_disk_may_fail, 120),
        MUST_CASE_WITHIN(any_write_may_find_the_disk_full, 120),
        MUST_CASE_WITHIN(any_allocation_of_ours_may_fail, 120),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
