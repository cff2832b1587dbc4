/* SPDX-License-Identifier: Apache-2.0
 *
 * What is done to a cluster while no broker runs: founding one ahead of its brokers, and adopting
 * the databases of one whose znodes have been lost. Settings are foliotd's.
 */
#ifndef FOLIOT_BROKER_ADOPT_H
#define FOLIOT_BROKER_ADOPT_H

#include "lib/base/attr.h"

#include <stdint.h>

/* Room for what they have to say. */
#define ADOPT_MESSAGE_LEN 1024

struct adopt_result {
    char cluster[64]; /* its name */
    char id[64];
    uint32_t shard_count;
    uint32_t database_count;
    int64_t generation_max; /* adopt: that the databases know; 0: no shard was ever owned */
    int64_t base_before;    /* adopt: −1: there was no cluster in ZooKeeper */
    int64_t base;
};

/*
 * Create what is absent of the cluster's znodes and of the databases' schema, as the first broker
 * would.
 *
 * argv:   flags of foliotd, argv[0] is skipped; the process's environment counts too. Blocks until
 *         ZooKeeper and the databases have answered, each at most 10 s.
 * errors: with errmsg (ADOPT_MESSAGE_LEN bytes), one line: ERR_INVALID a setting; ERR_UNAVAILABLE a
 *         server does not answer; ERR_CONFLICT what is there is another cluster's.
 */
MUST_USE int adopt_init(int argc, char **argv, struct adopt_result *out, char *errmsg);

/*
 * Make ZooKeeper say of the cluster what its databases say, with generations above all of theirs.
 *
 * argv, errors: as adopt_init(); ERR_NOT_FOUND a database has no schema of a cluster; ERR_CONFLICT
 *               also: databases of several clusters, a shard in none or in two of them, brokers
 * that are registered.
 */
MUST_USE int adopt_cluster(int argc, char **argv, struct adopt_result *out, char *errmsg);

#endif
