/* SPDX-License-Identifier: Apache-2.0
 *
 * What the slabs promise.
 */
#include "lib/base/slabs.h"

#include "lib/base/instant.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"

#include <criterion/criterion.h>
#include <string.h>

#define FLEET 6000U

struct thing {
    uint32_t number; /* 0: not taken */
    uint32_t bytes;
    uint8_t mark;
};

static struct thing fleet[FLEET];

static void take(struct slabs *slabs, struct thing *thing, uint32_t bytes, uint8_t mark)
{
    thing->number = slabs_take(slabs, bytes);
    cr_assert_neq(thing->number, 0);
    cr_assert_eq((uintptr_t)slabs_at(slabs, thing->number) % 8, 0);
    thing->bytes = bytes;
    thing->mark = mark;
    memset(slabs_at(slabs, thing->number), mark, bytes);
}

static void give(struct slabs *slabs, struct thing *thing)
{
    const uint8_t *bytes = slabs_at(slabs, thing->number);

    for (uint32_t i = 0; i < thing->bytes; i++) {
        cr_assert_eq(bytes[i], thing->mark, "somebody else wrote here");
    }
    slabs_give(slabs, thing->number);
    thing->number = 0;
}

/* Every size, so many that slabs fill up; contents must not run into one another. */
Test(slabs, objects_are_aligned_and_apart)
{
    struct slabs slabs;
    struct prng prng;

    prng_init_named(&prng, 7, "slabs");
    slabs_init(&slabs);
    for (uint32_t i = 0; i < 200000; i++) {
        struct thing *thing = &fleet[prng_below(&prng, FLEET)];

        if (thing->number != 0) {
            give(&slabs, thing);
        } else {
            take(&slabs, thing, 1 + (uint32_t)prng_below(&prng, SLABS_OBJECT_BYTES_MAX),
                 (uint8_t)i);
        }
    }
    for (uint32_t i = 0; i < FLEET; i++) {
        if (fleet[i].number != 0) {
            give(&slabs, &fleet[i]);
        }
    }
    cr_assert_eq(slabs.used, 0);
    slabs_drop(&slabs);
    cr_assert_eq(mem_block_count(), 0);
}

Test(slabs, a_size_costs_little_more_than_itself)
{
    for (uint32_t bytes = 32; bytes <= SLABS_OBJECT_BYTES_MAX; bytes++) {
        size_t count = 300000 / bytes;
        struct slabs slabs;
        size_t most = count * (size_t)time_max(bytes + 7, bytes + bytes / 16 + 1);

        slabs_init(&slabs);
        for (size_t i = 0; i < count; i++) {
            cr_assert_neq(slabs_take(&slabs, bytes), 0);
        }
        // The end of each slab, one that is not full, and the numbers.
        cr_assert_leq(slabs_bytes(&slabs), most + most / 12 + 34000, "%u bytes", bytes);
        slabs_drop(&slabs);
    }
    cr_assert_eq(mem_block_count(), 0);
}

Test(slabs, give_back_what_is_empty)
{
    struct slabs slabs;
    size_t full;

    slabs_init(&slabs);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < FLEET; i++) {
            take(&slabs, &fleet[i], 152, (uint8_t)i);
        }
        full = slabs_bytes(&slabs);
        for (uint32_t i = 0; i < FLEET; i++) {
            give(&slabs, &fleet[i]);
        }
        cr_assert_lt(slabs_bytes(&slabs), full / 10);
    }
    slabs_drop(&slabs);
    cr_assert_eq(mem_block_count(), 0);
}

/* 44 MB: more than what lies in the heap. */
#define CROWD       24000U
#define CROWD_BYTES SLABS_OBJECT_BYTES_MAX

static struct thing crowd[CROWD];

static void take_crowd(struct slabs *slabs)
{
    for (uint32_t i = 0; i < CROWD; i++) {
        take(slabs, &crowd[i], CROWD_BYTES - i % 5 * 100, (uint8_t)i);
    }
}

/* A slab in a huge page is like any other, the first one of each too, which shares its slab with
 * the head of the page; given back, it is had again, and a page without slabs is gone. */
Test(slabs, lie_in_huge_pages_when_there_are_many)
{
    struct slabs slabs;
    size_t full;

    slabs_init(&slabs);
    take_crowd(&slabs);
    cr_assert_gt(slabs.region_count, 0);
    full = slabs_bytes(&slabs);
    for (uint32_t i = 0; i < CROWD; i += 2) {
        give(&slabs, &crowd[i]);
    }
    for (uint32_t i = 0; i < CROWD; i += 2) {
        take(&slabs, &crowd[i], 100 + i % 1900, (uint8_t)(i + 1));
    }
    for (uint32_t i = 0; i < CROWD; i++) {
        give(&slabs, &crowd[i]);
    }
    cr_assert_lt(slabs_bytes(&slabs), full / 5, "%zu of %zu bytes left", slabs_bytes(&slabs), full);
    cr_assert_eq(slabs.region_count, 1, "one is kept");
    take_crowd(&slabs);
    slabs_drop(&slabs);
    cr_assert_eq(mem_block_count(), 0);
    cr_assert_eq(mem_byte_count(), 0);
}

static bool refuse_huge(size_t size, void *ctx)
{
    (void)ctx;
    return size != MEM_HUGE_BYTES;
}

Test(slabs, lie_in_the_heap_when_no_huge_page_is_to_be_had)
{
    struct slabs slabs;

    slabs_init(&slabs);
    mem_set_hook(refuse_huge, NULL);
    take_crowd(&slabs);
    mem_set_hook(NULL, NULL);
    cr_assert_eq(slabs.region_count, 0);
    for (uint32_t i = 0; i < CROWD; i++) {
        give(&slabs, &crowd[i]);
    }
    slabs_drop(&slabs);
    cr_assert_eq(mem_block_count(), 0);
}

static bool refuse(size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    return false;
}

Test(slabs, have_no_object_without_memory)
{
    struct slabs slabs;
    struct thing thing;

    slabs_init(&slabs);
    mem_set_hook(refuse, NULL);
    cr_assert_eq(slabs_take(&slabs, 100), 0);
    mem_set_hook(NULL, NULL);
    take(&slabs, &thing, 100, 1);
    mem_set_hook(refuse, NULL);
    for (int i = 0; i < 100; i++) {
        cr_assert_neq(slabs_take(&slabs, 100), 0, "its slab has room");
    }
    mem_set_hook(NULL, NULL);
    slabs_drop(&slabs);
    cr_assert_eq(mem_block_count(), 0);
}
