/* SPDX-License-Identifier: Apache-2.0
 *
 * A migrated database, a proxy in front of it, and stores of several brokers, some of them behind
 * the proxy: what the tests that hurt the PostgreSQL store begin with.
 */
#ifndef FOLIOT_TESTS_INTEGRATION_PG_WORLD_H
#define FOLIOT_TESTS_INTEGRATION_PG_WORLD_H

#include "lib/base/err.h"
#include "lib/io/loop.h"
#include "storage/store_pg.h"
#include "tests/lib/fixture.h"
#include "tests/lib/must.h"
#include "tests/lib/pg_proxy.h"

#include <libpq-fe.h>
#include <string.h>
#include <sys/types.h>

#define WORLD_SHARD_COUNT 4

/* Own deadline of a store where a case waits for it: short, so that it is over soon. */
#define WORLD_COMMAND_MS 1500

/* Own deadline of all others: no stall of a busy machine is as long. */
#define WORLD_PATIENT_MS 15000

/* Connections of a store to one database: writers, killer, bumps, readers. */
#define WORLD_CONNECTION_COUNT 7

struct world {
    struct fixture fixture;
    struct loop *loop;
    struct pg_proxy *proxy;
    PGconn *admin; /* superuser, for looking and hurting */
    int health;    /* last report of any store: −1 none, else writable */
    unsigned changes;
    unsigned clocks;
    char last_log[512];
    const char *extra;  /* appended to the conninfo of the next store; NULL: nothing */
    span_ms command_ms; /* of the next store; WORLD_PATIENT_MS unless the case says otherwise */
};

/* Fresh database, migrated; the loop and the proxy. */
void world_open(struct world *world, const char *title);
void world_close(struct world *world);

/* A broker's store, straight to the server or behind the proxy. */
struct store *world_store(struct world *world, bool behind_proxy);

/* As world_store, straight to the server; NULL if it cannot be opened. */
struct store *world_try_store(struct world *world);

/* Close a store and wait for it. */
void world_end(struct world *world, struct store *store);

/* First value of the answer as a number, by the admin. */
long world_ask(struct world *world, const char *sql);

/*
 * Stop a process of the server, or the backend of the writer that is called so ("behind" or
 * "straight"), and let it go on.
 *
 * note: it goes on also if the case fails in between: a stopped backend holds up everybody who
 *       creates a database in the shared server.
 */
struct world_stopped {
    pid_t pid;
    int wake; /* closed, by whoever, it lets the backend go on */
};
struct world_stopped world_stop(pid_t pid);
struct world_stopped world_stop_writer(struct world *world, const char *name);
void world_wake(const struct world_stopped *stopped);

/* Turn the loop until the flag is set. */
void world_until(struct world *world, const bool *done);

/* Turn the loop until every connection of a store has been made. */
void world_until_connected(struct world *world, const struct store *store);

/* Turn for a while. */
void world_turn_ms(struct world *world, int64_t ms);

/* One insert of a task in flight; the second operation claims it. */
struct insertion {
    struct store_op ops[2];
    struct store_batch batch;
    bool done;
};

/* Submit an insert of task (1, counter) under an epoch. */
void insertion_start(struct insertion *insertion, struct store *store, uint32_t shard,
                     int64_t epoch, int64_t counter);

/* The same with a claim that has to be looked at, so that the transaction has two segments. */
void insertion_start_claimed(struct insertion *insertion, struct store *store, uint32_t shard,
                             int64_t epoch, int64_t counter);

/* Wait until the server has executed what came before the place where the proxy holds a write. */
void world_until_executed(struct world *world);

/* Write a batch that is filled in but for its callback, and wait; its result. */
int world_write(struct world *world, struct store *store, struct store_batch *batch);

/* Insert and wait; the result of the operation, or of the batch if that failed. */
int world_insert(struct world *world, struct store *store, uint32_t shard, int64_t epoch,
                 int64_t counter);

/* Bump and wait; again while the answer is that nothing happened. */
int world_bump(struct world *world, struct store *store, uint32_t shard, int64_t epoch);

/* Rows of the shard as its owner reads them; the read must succeed. */
size_t world_rows(struct world *world, struct store *store, uint32_t shard, int64_t epoch);

/* Rows in the table, as anybody may see them. */
long world_table_rows(struct world *world, uint32_t shard);

struct store_pg_stats world_stats(const struct store *store);

#endif
