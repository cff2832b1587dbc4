/* SPDX-License-Identifier: Apache-2.0
 *
 * What the hot map promises, against an array as oracle, through growth, shrinking and exhaustion.
 */
#include "lib/base/map.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"

#include <criterion/criterion.h>

#define KEY_COUNT 5000

static char cells[KEY_COUNT]; /* the address of cell i is a value */
static void *oracle[KEY_COUNT];

/* Keys in runs, as ids come, and spread out, as hashes come. */
static uint64_t key_of(size_t i)
{
    return i % 2 == 0 ? (uint64_t)i : UINT64_C(0x9e3779b97f4a7c15) * i;
}

static size_t check_all(const struct map *map)
{
    size_t count = 0;

    for (size_t i = 0; i < KEY_COUNT; i++) {
        cr_assert_eq(map_find(map, key_of(i)), oracle[i]);
        count += oracle[i] != NULL;
    }
    cr_assert_eq(map_count(map), count);
    return count;
}

static void change_one(struct map *map, size_t i, bool adds)
{
    void *value = &cells[i];

    if (adds) {
        cr_assert_eq(map_put(map, key_of(i), value), oracle[i] == NULL ? 0 : ERR_EXISTS);
        oracle[i] = value;
    } else {
        cr_assert_eq(map_del(map, key_of(i)), oracle[i]);
        oracle[i] = NULL;
    }
}

Test(map, agrees_with_an_array_while_it_grows_and_shrinks)
{
    struct map map;
    struct prng prng;

    map_init(&map, KEY_COUNT);
    prng_init_named(&prng, 1, "map");
    for (int round = 0; round < 40; round++) {
        uint32_t adds_permille = round % 4 < 2 ? 900 : 50; // Waves of growth and decay.
        size_t width = (size_t)prng_between(&prng, 1, KEY_COUNT);

        for (int step = 0; step < 20000; step++) {
            change_one(&map, (size_t)prng_below(&prng, width), prng_chance(&prng, adds_permille));
        }
        check_all(&map);
    }
    map_fini(&map);
    cr_assert_eq(mem_block_count(), 0);
}

Test(map, refuses_more_keys_than_its_maximum)
{
    struct map map;
    int value;

    map_init(&map, 3);
    for (uint64_t key = 0; key < 3; key++) {
        cr_assert_eq(map_put(&map, key, &value), 0);
    }
    cr_assert_eq(map_put(&map, 3, &value), ERR_FULL);
    cr_assert_eq(map_put(&map, 2, &value), ERR_EXISTS);
    cr_assert_eq(map_del(&map, 0), &value);
    cr_assert_eq(map_put(&map, 3, &value), 0);
    map_fini(&map);
}

static bool refuse(size_t size, void *ctx)
{
    (void)size;
    return *(const bool *)ctx;
}

Test(map, is_unchanged_and_usable_when_memory_runs_out)
{
    struct map map;
    bool allows = true;
    size_t held;
    int err = 0;

    map_init(&map, 1000);
    mem_set_hook(refuse, &allows);
    for (size_t i = 0; i < 100; i++) {
        cr_assert_eq(map_put(&map, key_of(i), &cells[i]), 0);
    }
    allows = false;
    for (held = 100; held < 1000; held++) {
        err = map_put(&map, key_of(held), &cells[held]);
        if (err != 0) {
            break;
        }
    }
    cr_assert_eq(err, ERR_NO_MEMORY);
    cr_assert_null(map_find(&map, key_of(held)));
    allows = true;
    cr_assert_eq(map_put(&map, key_of(held), &cells[held]), 0);
    for (size_t i = 0; i <= held; i++) {
        cr_assert_eq(map_find(&map, key_of(i)), &cells[i]);
    }
    mem_set_hook(NULL, NULL);
    map_fini(&map);
}

Test(map, gives_memory_back_after_a_burst)
{
    struct map map;
    size_t peak;

    map_init(&map, 1000000);
    for (uint64_t key = 0; key < 200000; key++) {
        cr_assert_eq(map_put(&map, key, &cells), 0);
    }
    peak = map_bytes(&map);
    for (uint64_t key = 0; key < 200000 - 100; key++) {
        cr_assert_eq(map_del(&map, key), &cells);
    }
    cr_assert(map_bytes(&map) < peak / 100, "%zu of %zu bytes", map_bytes(&map), peak);
    map_fini(&map);
}

Test(map, walks_each_value_once_also_in_the_middle_of_a_move)
{
    struct map map;

    map_init(&map, KEY_COUNT);
    for (size_t i = 0; i < 200; i++) {
        struct map_iter iter = {0};
        size_t seen = 0;
        char *value;

        cr_assert_eq(map_put(&map, key_of(i), &cells[i]), 0);
        while ((value = map_next(&map, &iter)) != NULL) {
            cr_assert(value <= &cells[i]);
            cr_assert_eq(*value, (char)(i % 100));
            (*value)++;
            seen++;
        }
        cr_assert_eq(seen, i + 1);
        cells[i + 1] = (char)((i + 1) % 100);
        for (size_t k = 0; k <= i; k++) { // All cells count the rounds.
            cells[k] = (char)((i + 1) % 100);
        }
    }
    map_fini(&map);
}

Test(map, changes_a_value_wherever_it_lies)
{
    struct map map;

    map_init(&map, KEY_COUNT);
    cr_assert_eq(map_change(&map, 1, &cells[0]), ERR_NOT_FOUND);
    for (size_t i = 0; i < 100; i++) {
        cr_assert_eq(map_put(&map, key_of(i), &cells[i]), 0);
        for (size_t k = 0; k <= i; k++) {
            cr_assert_eq(map_change(&map, key_of(k), &cells[i - k]), 0);
            cr_assert_eq(map_find(&map, key_of(k)), &cells[i - k]);
        }
    }
    map_fini(&map);
}
