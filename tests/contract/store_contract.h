/* SPDX-License-Identifier: Apache-2.0
 *
 * What every store promises, as one suite. A program per store gives a host, which makes fresh
 * databases and lets time pass; the suite knows nothing else of the store.
 */
#ifndef FOLIOT_TESTS_CONTRACT_STORE_CONTRACT_H
#define FOLIOT_TESTS_CONTRACT_STORE_CONTRACT_H

#include "storage/store.h"
#include "tests/lib/must.h"

/* Shards of the suite's cluster; the odd ones live in the second database. */
#define CONTRACT_SHARD_COUNT    8
#define CONTRACT_DATABASE_COUNT 2

struct contract_host {
    /* Make fresh databases; once per case. */
    void (*prepare)(void);
    /* Another broker's store on them. */
    struct store *(*client)(void);
    /* Let something happen: callbacks run in here only. */
    void (*turn)(void);
    /*
     * Let a write of `store` execute and then lose sight of it before it has committed: it is
     * answered ERR_OUTCOME_UNKNOWN. Called with exactly one write submitted; returns when it has
     * been answered (`done` turns true).
     */
    void (*lose)(struct store *store, const bool *done);
    /* Put everything away; every store has been closed. */
    void (*finish)(void);
};

/* Run the suite; the exit status for main(). */
int contract_main(int argc, char **argv, const struct contract_host *with);

#endif
