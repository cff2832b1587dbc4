/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory store is the oracle: the same random batches, bumps and sweeps go to it and to another
 * store, and every result and every row must be the same. A seed makes a run; ORACLE_SEED repeats
 * it. A program per store gives a host.
 */
#ifndef FOLIOT_TESTS_CONTRACT_STORE_ORACLE_H
#define FOLIOT_TESTS_CONTRACT_STORE_ORACLE_H

#include "storage/store.h"

#define ORACLE_SHARD_COUNT 4

struct loop;
struct store_mem;

struct oracle_host {
    const char *name; /* of the store, for messages */
    /* A store of ORACLE_SHARD_COUNT shards in one fresh database, on the loop. */
    struct store *(*open)(struct loop *loop);
    /* Hold what people see of it against the memory store; NULL: nothing is there to be seen. */
    void (*look)(const struct store_mem *mem);
    /* Put everything away; the store has been closed. */
    void (*close)(void);
};

/* Run; the exit status for main(). */
int oracle_main(int argc, char **argv, const struct oracle_host *with);

#endif
