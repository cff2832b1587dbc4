/* SPDX-License-Identifier: Apache-2.0
 *
 * Databases in memory or in a folder of the case; a commit is lost by a flush that fails, or in
 * memory, where nothing is flushed, by a hook that refuses it.
 */
#include "tests/contract/store_contract_sqlite.h"

#include "lib/io/loop.h"
#include "storage/store_sqlite.h"
#include "tests/contract/store_contract.h"
#include "tests/lib/sqlite_fault.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint8_t database_of[CONTRACT_SHARD_COUNT] = {0, 1, 0, 1, 0, 1, 0, 1};

static bool is_in_memory;
static struct loop *loop;
static struct store_sqlite *shared;
static char folder[] = "/tmp/foliot-sqlite-XXXXXX";
static char paths[CONTRACT_DATABASE_COUNT][64];

/* Every connection that the store makes, to look behind it while its thread has nothing to do. */
static sqlite3 *links[CONTRACT_DATABASE_COUNT];
static size_t link_count;

/* Writes begin while the suite lets something happen, so that one can be caught before it has. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static bool gate_is_open = true;

static void set_gate(bool is_open)
{
    MUST_EQ(pthread_mutex_lock(&lock), 0);
    gate_is_open = is_open;
    MUST_EQ(pthread_cond_broadcast(&opened), 0);
    MUST_EQ(pthread_mutex_unlock(&lock), 0);
}

/* On a database's thread, before each statement. */
static int on_statement(unsigned what, void *ctx, void *stmt, void *text)
{
    (void)what;
    (void)ctx;
    (void)stmt;
    MUST_EQ(pthread_mutex_lock(&lock), 0);
    while (!gate_is_open && strcmp(text, "BEGIN IMMEDIATE") == 0) {
        MUST_EQ(pthread_cond_wait(&opened, &lock), 0);
    }
    MUST_EQ(pthread_mutex_unlock(&lock), 0);
    return 0;
}

static int on_connection(sqlite3 *link, const char **errmsg, const void *unused)
{
    (void)errmsg;
    (void)unused;
    MUST(link_count < CONTRACT_DATABASE_COUNT);
    links[link_count++] = link;
    MUST_EQ(sqlite3_trace_v2(link, SQLITE_TRACE_STMT, on_statement, NULL), SQLITE_OK);
    return SQLITE_OK;
}

static void prepare(void)
{
    const char *names[CONTRACT_DATABASE_COUNT] = {NULL, NULL};
    struct store_sqlite_options options = {
        .paths = names,
        .database_count = CONTRACT_DATABASE_COUNT,
        .cluster_id = "contract",
        .shard_count = CONTRACT_SHARD_COUNT,
        .database_of = database_of,
    };
    char errmsg[STORE_SQLITE_MESSAGE_LEN];

    sqlite_fault_install();
    MUST_EQ(sqlite3_auto_extension((void (*)(void))on_connection), SQLITE_OK);
    if (!is_in_memory) {
        MUST(mkdtemp(folder) != NULL);
    }
    for (uint32_t i = 0; !is_in_memory && i < CONTRACT_DATABASE_COUNT; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "%s/%u.db", folder, i);
        names[i] = paths[i];
    }
    if (store_sqlite_open(&options, &shared, errmsg) != 0) {
        must_fail(MUST_HERE, "%s", errmsg);
    }
    MUST_OK(loop_open(&loop));
    set_gate(false);
}

static struct store *client(void)
{
    struct store_sqlite_client_options options = {.loop = loop};
    struct store *store;

    MUST_OK(store_sqlite_client(shared, &options, &store));
    return store;
}

static void turn(void)
{
    set_gate(true);
    loop_turn(loop, true);
    set_gate(false);
}

static int refuse(void *ctx)
{
    (void)ctx;
    return 1;
}

static void lose(struct store *store, const bool *done)
{
    (void)store;
    for (size_t i = 0; is_in_memory && i < link_count; i++) {
        (void)sqlite3_commit_hook(links[i], refuse, NULL);
    }
    if (!is_in_memory) {
        sqlite_fault_set(SQLITE_FAULT_SYNC_ONCE);
    }
    while (!*done) {
        turn();
    }
    for (size_t i = 0; is_in_memory && i < link_count; i++) {
        (void)sqlite3_commit_hook(links[i], NULL, NULL);
    }
}

static void finish(void)
{
    set_gate(true);
    store_sqlite_close(shared);
    loop_close(loop);
    for (uint32_t i = 0; !is_in_memory && i < CONTRACT_DATABASE_COUNT; i++) {
        MUST_EQ(unlink(paths[i]), 0);
    }
    if (!is_in_memory) {
        MUST_EQ(rmdir(folder), 0); // A clean close leaves no log behind.
    }
}

int contract_sqlite_main(int argc, char **argv, bool in_memory)
{
    static const struct contract_host host = {
        .prepare = prepare,
        .client = client,
        .turn = turn,
        .lose = lose,
        .finish = finish,
    };

    is_in_memory = in_memory;
    return contract_main(argc, argv, &host);
}
