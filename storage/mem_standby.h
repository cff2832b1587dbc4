/* SPDX-License-Identifier: Apache-2.0
 *
 * An asynchronous standby of the memory store: a second set of tables that lags behind by a log of
 * commits. A promotion puts its rows in the place of the primary's, and what was still in the log
 * is lost. Queues are not in it: they are the same on both.
 */
#ifndef FOLIOT_STORAGE_MEM_STANDBY_H
#define FOLIOT_STORAGE_MEM_STANDBY_H

#include "lib/base/list.h"
#include "storage/mem_table.h"

/*
 * 1. The tables and the log of a database together are what the primary has.
 */
struct mem_standby {
    struct mem_tables tables;
    struct list logs[DATABASE_COUNT_MAX]; /* of commits that have not arrived, oldest first */
    uint64_t numbers[DATABASE_COUNT_MAX]; /* of the last commit of the primary */
    uint64_t arrived[DATABASE_COUNT_MAX]; /* of the last commit that the standby has */
};

/* An empty standby of empty databases. Stops the process when out of memory. */
struct mem_standby *mem_standby_new(const struct store_mem_options *options);
void mem_standby_free(struct mem_standby *standby);

/* A transaction of a database has committed on the primary: a write with the results of its
 * operations, or a bump; the other one is NULL. Returns its number. Stops the process when out of
 * memory. */
uint64_t mem_standby_log(struct mem_standby *standby, uint32_t database,
                         const struct store_batch *batch, const struct store_bump *bump,
                         int64_t now_us);

/* The commits of a database up to this number arrive. */
void mem_standby_take(struct mem_standby *standby, uint32_t database, uint64_t number);

/* The primary's rows become the standby's; what is in the log is lost, and its numbers are given
 * again. */
void mem_standby_promote(struct mem_standby *standby, struct mem_tables *primary,
                         uint32_t database);

#endif
