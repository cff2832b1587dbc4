/* SPDX-License-Identifier: Apache-2.0
 *
 * Brokers on loops of their own threads share databases and their workers.
 */
#include "lib/base/err.h"
#include "lib/base/prng.h"
#include "lib/io/loop.h"
#include "storage/store_sqlite.h"
#include "tests/lib/must.h"

#include <pthread.h>
#include <string.h>

#define SHARD_COUNT    4
#define BROKER_COUNT   3
#define DATABASE_COUNT 2
#define FLIGHT         8
#define ROUND_COUNT    200

static const uint8_t database_of[SHARD_COUNT] = {0, 1, 0, 1};
static struct store_sqlite *shared;

struct broker {
    pthread_t thread;
    struct loop *loop;
    struct store *store;
    uint32_t number;
    uint32_t answered;
    uint32_t clock_count;
    bool is_closed;
    struct store_op ops[FLIGHT];
    struct store_batch batches[FLIGHT];
    struct store_read reads[FLIGHT];
};

static void on_clock(void *ctx, uint32_t database, boot_us sent, boot_us received, int64_t clock_us)
{
    struct broker *broker = ctx;

    (void)database;
    MUST(sent <= received && clock_us > 0);
    broker->clock_count++;
}

static void on_batch(struct store_batch *batch)
{
    struct broker *broker = batch->owner;

    MUST_OK(batch->result);
    broker->answered++;
}

static void on_read(struct store_read *read)
{
    struct broker *broker = read->owner;

    for (size_t i = 0; i < read->row_count; i++) {
        MUST_EQ(read->rows[i].payload.len, 3);
        MUST(memcmp(read->rows[i].payload.data, "abc", 3) == 0);
    }
    broker->answered++;
}

static void on_bump(struct store_bump *bump)
{
    ((struct broker *)bump->owner)->answered++;
}

static void wait_for(struct broker *broker, uint32_t count)
{
    while (broker->answered < count) {
        loop_turn(broker->loop, true);
    }
    broker->answered = 0;
}

/* All brokers write to all shards under the same epoch: what is not fenced here is the storage. */
static void submit(struct broker *broker, uint32_t place, int64_t counter)
{
    uint32_t shard = place % SHARD_COUNT;

    broker->ops[place] = (struct store_op){
        .kind = STORE_INSERT,
        .shard = shard,
        .epoch = 1,
        .task = {.id = {.seq = task_seq(1 + broker->number, counter), .slot = (uint16_t)shard},
                 .queue = 1,
                 .payload = slice_of("abc")},
    };
    broker->batches[place] = (struct store_batch){.database = database_of[shard],
                                                  .ops = &broker->ops[place],
                                                  .op_count = 1,
                                                  .cb = on_batch,
                                                  .owner = broker};
    broker->reads[place] = (struct store_read){.kind = STORE_READ_SLICE,
                                               .database = database_of[shard],
                                               .shard = shard,
                                               .epoch = 1,
                                               .after_bucket = INT64_MIN,
                                               .to_bucket = INT64_MAX,
                                               .limit = 20,
                                               .cb = on_read,
                                               .owner = broker};
    MUST_OK(broker->store->write(broker->store, &broker->batches[place]));
    MUST_OK(broker->store->read(broker->store, &broker->reads[place]));
}

static void on_close(void *ctx)
{
    ((struct broker *)ctx)->is_closed = true;
}

static void open_client(struct broker *broker)
{
    struct store_sqlite_client_options options = {.loop = broker->loop,
                                                  .events = {.on_clock = on_clock, .ctx = broker}};

    MUST_OK(store_sqlite_client(shared, &options, &broker->store));
}

static void *run(void *ctx)
{
    struct broker *broker = ctx;

    for (int64_t round = 0; round < ROUND_COUNT; round++) {
        for (uint32_t place = 0; place < FLIGHT; place++) {
            submit(broker, place, round * FLIGHT + place + 1);
        }
        wait_for(broker, 2 * FLIGHT);
        for (uint32_t place = 0; place < FLIGHT; place++) {
            MUST_OK(broker->ops[place].result);
        }
    }
    MUST(broker->clock_count > 0);
    // A close with requests in flight answers them first.
    submit(broker, 0, ROUND_COUNT * FLIGHT + 1);
    broker->store->close(broker->store, on_close, broker);
    while (!broker->is_closed) {
        loop_turn(broker->loop, true);
    }
    MUST_EQ(broker->answered, 2);
    return NULL;
}

static void bump_all(struct broker *broker)
{
    for (uint32_t shard = 0; shard < SHARD_COUNT; shard++) {
        struct store_bump bump = {.database = database_of[shard],
                                  .shard = shard,
                                  .epoch = 1,
                                  .cb = on_bump,
                                  .owner = broker};

        MUST_OK(broker->store->bump(broker->store, &bump));
        wait_for(broker, 1);
        MUST_OK(bump.result);
    }
}

static void brokers_share_databases_and_their_threads(void)
{
    static const char *const paths[DATABASE_COUNT] = {NULL, NULL};
    const struct store_sqlite_options options = {.paths = paths,
                                                 .database_count = DATABASE_COUNT,
                                                 .cluster_id = "threads",
                                                 .shard_count = SHARD_COUNT,
                                                 .database_of = database_of};
    static struct broker brokers[BROKER_COUNT];
    char errmsg[STORE_SQLITE_MESSAGE_LEN];

    MUST_OK(store_sqlite_open(&options, &shared, errmsg));
    for (uint32_t i = 0; i < BROKER_COUNT; i++) {
        brokers[i].number = i;
        MUST_OK(loop_open(&brokers[i].loop));
        open_client(&brokers[i]);
    }
    bump_all(&brokers[0]);
    for (uint32_t i = 0; i < BROKER_COUNT; i++) {
        MUST_EQ(pthread_create(&brokers[i].thread, NULL, run, &brokers[i]), 0);
    }
    for (uint32_t i = 0; i < BROKER_COUNT; i++) {
        MUST_EQ(pthread_join(brokers[i].thread, NULL), 0);
        loop_close(brokers[i].loop);
    }
    store_sqlite_close(shared);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE_WITHIN(brokers_share_databases_and_their_threads, 120)};

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
