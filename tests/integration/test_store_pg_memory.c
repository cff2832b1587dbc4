/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-th allocation fails, for every n: a store opens, bumps, writes, reads and closes, or says
 * why not; nothing is lost, nothing leaks, and every callback comes.
 */
#include "tests/integration/pg_world.h"

#include "lib/base/mem.h"

#include <stdio.h>

static int64_t allocation_count;
static int64_t failing_allocation; /* 0: none */
static bool has_failed;

static bool fail_one(size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    allocation_count++;
    has_failed = has_failed || allocation_count == failing_allocation;
    return allocation_count != failing_allocation;
}

static void on_done(struct store_batch *batch)
{
    *(bool *)batch->owner = true;
}

static void on_bump(struct store_bump *bump)
{
    *(bool *)bump->owner = true;
}

static void on_read(struct store_read *read)
{
    *(bool *)read->owner = true;
}

static int bump(struct world *world, struct store *store, int64_t epoch)
{
    bool done = false;
    struct store_bump request = {.epoch = epoch, .cb = on_bump, .owner = &done};
    int code = store->bump(store, &request);

    if (code == 0) {
        world_until(world, &done);
        code = request.result;
    }
    MUST(code == 0 || code == ERR_UNAVAILABLE || code == ERR_OUTCOME_UNKNOWN ||
         code == ERR_NO_MEMORY || code == ERR_FENCED);
    return code;
}

static int insert(struct world *world, struct store *store, int64_t epoch)
{
    bool done = false;
    struct store_op ops[2] = {
        {.kind = STORE_INSERT,
         .epoch = epoch,
         .task = {.id = {.seq = task_seq(epoch, 1)},
                  .key = slice_of("key"),
                  .queue = (uint32_t)epoch}},
        {.kind = STORE_CLAIM,
         .epoch = epoch,
         .attempt = 1,
         .task = {.id = {.seq = task_seq(epoch, 1)}}},
    };
    struct store_batch batch = {
        .ops = ops, .op_count = 2, .claim_row = {1, epoch}, .cb = on_done, .owner = &done};
    int code = store->write(store, &batch);

    if (code == 0) {
        world_until(world, &done);
        code = batch.result == 0 ? ops[1].result : batch.result;
    }
    return code;
}

static int read_tasks(struct world *world, struct store *store, int64_t epoch)
{
    bool done = false;
    struct task_id id = {.seq = task_seq(epoch, 1)};
    struct store_read request = {.kind = STORE_READ_TASKS,
                                 .epoch = epoch,
                                 .ids = &id,
                                 .id_count = 1,
                                 .cb = on_read,
                                 .owner = &done};
    int code = store->read(store, &request);

    if (code == 0) {
        world_until(world, &done);
        code = request.result;
    }
    return code;
}

/* One life of a store; a round that met no failure must do everything. */
static void live(struct world *world, int64_t epoch)
{
    struct store *store = world_try_store(world);
    int codes[3];

    if (store == NULL) {
        MUST(has_failed);
        // What had been opened goes in the next turns.
        loop_turn(world->loop, false);
        loop_turn(world->loop, false);
        return;
    }
    codes[0] = bump(world, store, epoch);
    codes[1] = insert(world, store, epoch);
    codes[2] = read_tasks(world, store, epoch);
    world_end(world, store);
    MUST(has_failed || (codes[0] == 0 && codes[1] == 0 && codes[2] == 0));
}

static void failure_of_any_allocation_is_survived(void)
{
    struct world world;
    int64_t blocks;
    int64_t n = 0;

    world_open(&world, "memory");
    // What the loop keeps for itself is there after the first life.
    live(&world, 1);
    blocks = mem_block_count();
    mem_set_hook(fail_one, NULL);
    do {
        n++;
        allocation_count = 0;
        failing_allocation = n;
        has_failed = false;
        live(&world, n + 1);
        failing_allocation = 0;
        if (mem_block_count() != blocks) {
            must_fail(MUST_HERE, "allocation %lld: %lld blocks more", (long long)n,
                      (long long)(mem_block_count() - blocks));
        }
    } while (has_failed);
    mem_set_hook(NULL, NULL);
    (void)fprintf(stderr, "%lld allocations\n", (long long)n - 1);
    MUST_LE(50, n);
    world_close(&world);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE_WITHIN(failure_of_any_allocation_is_survived, 240),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
