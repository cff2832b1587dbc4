/* SPDX-License-Identifier: Apache-2.0
 *
 * The standby replays what the primary has committed, by the same functions.
 */
#include "storage/mem_standby.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "storage/mem_tx.h"

#include <string.h>

/* One commit on its way. */
struct logged {
    struct list link;
    uint64_t number;
    struct store_batch *batch; /* NULL: a bump */
    uint32_t shard;            /* a bump's */
    int64_t epoch;             /* a bump's */
    int64_t now_us;            /* the primary's clock */
};

static void logged_free(struct logged *logged)
{
    mem_free(logged->batch);
    mem_free(logged);
}

struct mem_standby *mem_standby_new(const struct store_mem_options *options)
{
    struct mem_standby *standby = mem_need(1, sizeof(*standby));

    mem_tables_init(&standby->tables, options);
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        list_init(&standby->logs[i]);
    }
    return standby;
}

static void forget_log(struct mem_standby *standby, uint32_t database)
{
    struct list *link;

    while ((link = list_take_first(&standby->logs[database])) != NULL) {
        logged_free(CONTAINER_OF(link, struct logged, link));
    }
    standby->numbers[database] = standby->arrived[database];
}

void mem_standby_free(struct mem_standby *standby)
{
    if (standby == NULL) {
        return;
    }
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        forget_log(standby, i);
    }
    mem_tables_fini(&standby->tables);
    mem_free(standby);
}

uint64_t mem_standby_log(struct mem_standby *standby, uint32_t database,
                         const struct store_batch *batch, const struct store_bump *bump,
                         int64_t now_us)
{
    struct logged *logged = mem_need(1, sizeof(*logged));

    logged->number = ++standby->numbers[database];
    logged->now_us = now_us;
    if (batch != NULL) {
        logged->batch = mem_batch_copy(batch);
    } else {
        logged->shard = bump->shard;
        logged->epoch = bump->epoch;
    }
    list_add(&standby->logs[database], &logged->link);
    return logged->number;
}

void mem_standby_take(struct mem_standby *standby, uint32_t database, uint64_t number)
{
    struct mem_tables *tables = &standby->tables;
    struct list *log = &standby->logs[database];

    while (standby->arrived[database] < number) {
        struct list *link = list_take_first(log);
        struct logged *logged = CONTAINER_OF(link, struct logged, link);

        REQUIRE(link != NULL);
        tables->databases[database].now_us = logged->now_us;
        if (logged->batch != NULL) {
            mem_tx_apply(tables, logged->batch);
        } else {
            tables->shards[logged->shard].epoch = logged->epoch;
        }
        standby->arrived[database] = logged->number;
        logged_free(logged);
    }
}

void mem_standby_promote(struct mem_standby *standby, struct mem_tables *primary, uint32_t database)
{
    forget_log(standby, database);
    for (uint32_t i = 0; i < primary->shard_count; i++) {
        if (primary->shards[i].database == database) {
            mem_shard_copy(&primary->shards[i], &standby->tables.shards[i]);
        }
    }
    mem_claims_copy(&primary->databases[database].claims,
                    &standby->tables.databases[database].claims);
}
