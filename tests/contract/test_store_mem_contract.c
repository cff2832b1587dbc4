/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of every store, on the one in memory.
 */
#include "tests/contract/store_contract.h"

#include "storage/store_mem.h"

static struct store_mem *mem;

static void prepare(void)
{
    static const uint8_t database_of[CONTRACT_SHARD_COUNT] = {0, 1, 0, 1, 0, 1, 0, 1};
    struct store_mem_options options = {
        .shard_count = CONTRACT_SHARD_COUNT,
        .database_count = CONTRACT_DATABASE_COUNT,
        .database_of = database_of,
    };

    mem = store_mem_new(&options);
    MUST(mem != NULL);
    for (uint32_t i = 0; i < CONTRACT_DATABASE_COUNT; i++) {
        store_mem_set_clock(mem, i, INT64_C(1700000000000000));
    }
}

static struct store *client(void)
{
    return store_mem_client(mem, NULL);
}

static void turn(void)
{
    store_mem_run(mem);
}

static void lose(struct store *store, const bool *done)
{
    struct store_mem_request *request = store_mem_pending(mem, 0);

    (void)store;
    MUST_EQ(store_mem_step(mem, request), STORE_MEM_MOVED);
    store_mem_give_up(mem, request);
    MUST(*done);
}

static void finish(void)
{
    store_mem_free(mem);
}

int main(int argc, char **argv)
{
    static const struct contract_host host = {
        .prepare = prepare,
        .client = client,
        .turn = turn,
        .lose = lose,
        .finish = finish,
    };

    return contract_main(argc, argv, &host);
}
