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

static size_t dead_count(struct slice error_text, uint32_t attempt)
{
    size_t count = 0;

    for (size_t i = 0; i < store_mem_dead_count(mem); i++) {
        const struct store_mem_dead *dead = store_mem_dead(mem, i);

        count += slice_equal(dead->error_text, error_text) && dead->attempt == attempt;
    }
    return count;
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
        .dead_count = dead_count,
        .finish = finish,
    };

    return contract_main(argc, argv, &host);
}
