/* SPDX-License-Identifier: Apache-2.0
 *
 * What the object pool and the ring promise.
 */
#include "lib/base/pool.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/base/ring.h"

#include <criterion/criterion.h>
#include <string.h>

Test(pool, gives_out_its_maximum_and_not_one_more)
{
    struct pool pool;
    static void *objects[3000];

    pool_init(&pool, 40, 3000);
    cr_assert_eq(pool_bytes(&pool), 0);
    for (size_t i = 0; i < 3000; i++) {
        objects[i] = pool_take(&pool);
        cr_assert_not_null(objects[i]);
    }
    cr_assert_null(pool_take(&pool));
    cr_assert_eq(pool_left(&pool), 0);
    pool_give(&pool, objects[7]);
    cr_assert_eq(pool_take(&pool), objects[7]);
    for (size_t i = 0; i < 3000; i++) {
        pool_give(&pool, objects[i]);
    }
    pool_fini(&pool);
    cr_assert_eq(mem_block_count(), 0);
}

/* Sizes around the alignment and above a block; contents must not run into one another. */
Test(pool, objects_are_zeroed_aligned_and_apart)
{
    const size_t sizes[] = {1, 15, 16, 17, 64, 1000, 65536, 200000};

    for (size_t s = 0; s < ARRAY_COUNT(sizes); s++) {
        unsigned char *objects[20];
        struct pool pool;

        pool_init(&pool, sizes[s], 20);
        for (int round = 0; round < 2; round++) {
            for (size_t i = 0; i < 20; i++) {
                objects[i] = pool_take(&pool);
                cr_assert_eq((uintptr_t)objects[i] % 16, 0);
                for (size_t k = 0; k < sizes[s]; k++) {
                    cr_assert_eq(objects[i][k], 0);
                }
                memset(objects[i], (int)(100 + i), sizes[s]);
            }
            for (size_t i = 0; i < 20; i++) {
                cr_assert_eq(objects[i][0], 100 + i);
                cr_assert_eq(objects[i][sizes[s] - 1], 100 + i);
                pool_give(&pool, objects[i]);
            }
        }
        pool_fini(&pool);
    }
}

static bool refuse(size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    return false;
}

Test(pool, says_null_without_memory_and_recovers)
{
    struct pool pool;
    void *object;

    pool_init(&pool, 16, 10);
    mem_set_hook(refuse, NULL);
    cr_assert_null(pool_take(&pool));
    mem_set_hook(NULL, NULL);
    object = pool_take(&pool);
    cr_assert_not_null(object);
    cr_assert_eq(pool_used(&pool), 1);
    pool_drop(&pool);
    cr_assert_eq(mem_block_count(), 0);
    cr_assert_eq(pool_used(&pool), 0);
}

Test(ring, keeps_order_and_its_bound_through_random_use)
{
    struct ring ring;
    struct prng prng;
    static char cells[100000];
    size_t next_in = 0;
    size_t next_out = 0;

    cr_assert_eq(ring_init(&ring, 7), 0);
    prng_init_named(&prng, 3, "ring");
    while (next_in < ARRAY_COUNT(cells)) {
        if (prng_chance(&prng, 520)) {
            int err = ring_put(&ring, &cells[next_in]);

            cr_assert_eq(err, next_in - next_out == 7 ? ERR_FULL : 0);
            next_in += err == 0;
        } else {
            void *item = ring_take(&ring);

            cr_assert_eq(item, next_in == next_out ? NULL : &cells[next_out]);
            next_out += item != NULL;
        }
        cr_assert_eq(ring_count(&ring), next_in - next_out);
        cr_assert_eq(ring_is_full(&ring), next_in - next_out == 7);
        for (size_t i = 0; i < ring_count(&ring); i++) {
            cr_assert_eq(ring_peek(&ring, i), &cells[next_out + i]);
        }
    }
    cr_assert_null(ring_peek(&ring, 7));
    ring_fini(&ring);
    cr_assert_eq(mem_block_count(), 0);
}
