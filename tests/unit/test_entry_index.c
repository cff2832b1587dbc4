/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of entries against a list that holds the same.
 */
#include "broker/core/entry_index.h"

#include "broker/core/state.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"

#include <criterion/criterion.h>

#define FLEET 5000U

static struct slabs slabs;
static struct entry_index entries;
static uint32_t numbers[FLEET]; /* of seq i + 1; 0: not there */

static uint32_t make(int64_t seq)
{
    uint32_t number = slabs_take(&slabs, sizeof(struct entry));
    struct entry *entry = slabs_at(&slabs, number);

    *entry = (struct entry){.seq = seq};
    return number;
}

static int64_t seq_of(size_t i)
{
    return INT64_C(4711) << 31 | (int64_t)(i + 1); // As an epoch gives them out.
}

static void toggle(size_t i)
{
    int64_t seq = seq_of(i);

    cr_assert_eq(entry_index_find(&entries, &slabs, seq), numbers[i]);
    if (numbers[i] == 0) {
        numbers[i] = make(seq);
        cr_assert_eq(entry_index_put(&entries, &slabs, numbers[i]), 0);
    } else {
        cr_assert_eq(entry_index_del(&entries, &slabs, seq), numbers[i]);
        slabs_give(&slabs, numbers[i]);
        numbers[i] = 0;
    }
    cr_assert_eq(entries.count, slabs.used);
}

/* Every entry is met once, and chains are as short as they should be. */
static void check(void)
{
    struct entry_iter iter = {0};
    const struct entry *entry;
    uint32_t met = 0;

    while ((entry = entry_index_next(&entries, &slabs, &iter)) != NULL) {
        size_t i = (size_t)(entry->seq - seq_of(0));

        cr_assert(i < FLEET && slabs_at(&slabs, numbers[i]) == entry);
        met++;
    }
    cr_assert_eq(met, entries.count);
    cr_assert(entries.count <= entries.size && entries.size <= entries.room);
    cr_assert_leq(entries.room, entries.count * 4 + 64);
}

Test(entry_index, holds_what_was_put_and_not_deleted)
{
    struct prng prng;

    prng_init_named(&prng, 3, "index");
    slabs_init(&slabs);
    entry_index_init(&entries);
    for (unsigned round = 0; round < 40; round++) {
        size_t width = 1 + prng_below(&prng, FLEET);

        for (size_t i = 0; i < 3000; i++) {
            toggle(prng_below(&prng, width));
        }
        check();
    }
    for (size_t i = 0; i < FLEET; i++) {
        if (numbers[i] != 0) {
            toggle(i);
        }
    }
    cr_assert_eq(entry_index_del(&entries, &slabs, 5), 0);
    cr_assert_eq(entries.room, 0, "an empty one has nothing");
    slabs_drop(&slabs);
    cr_assert_eq(mem_block_count(), 0);
}

Test(entry_index, another_takes_the_place_of_one)
{
    slabs_init(&slabs);
    entry_index_init(&entries);
    for (size_t i = 0; i < 500; i++) {
        toggle(i);
    }
    for (size_t i = 0; i < 500; i++) {
        uint32_t other = make(seq_of(i));

        cr_assert_eq(entry_index_swap(&entries, &slabs, other), numbers[i]);
        slabs_give(&slabs, numbers[i]);
        numbers[i] = other;
    }
    check();
    entry_index_fini(&entries);
    slabs_drop(&slabs);
    cr_assert_eq(mem_block_count(), 0);
}

/* Eight bytes an entry, four of them in the entry itself. */
Test(entry_index, costs_little_more_than_four_bytes_for_an_entry)
{
    slabs_init(&slabs);
    entry_index_init(&entries);
    for (size_t i = 0; i < FLEET; i++) {
        toggle(i);
        cr_assert_leq(entries.room, entries.count + entries.count / 8 + 17);
    }
    entry_index_fini(&entries);
    slabs_drop(&slabs);
}

static bool refuse(size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    return false;
}

Test(entry_index, goes_on_with_longer_chains_when_memory_is_short)
{
    uint32_t first;

    slabs_init(&slabs);
    entry_index_init(&entries);
    first = make(seq_of(0));
    mem_set_hook(refuse, NULL);
    cr_assert_eq(entry_index_put(&entries, &slabs, first), ERR_NO_MEMORY);
    cr_assert_eq(entry_index_find(&entries, &slabs, seq_of(0)), 0);
    mem_set_hook(NULL, NULL);
    cr_assert_eq(entry_index_put(&entries, &slabs, first), 0);
    mem_set_hook(refuse, NULL);
    for (size_t i = 1; i < 100; i++) { // One slab has room for them.
        cr_assert_eq(entry_index_put(&entries, &slabs, make(seq_of(i))), 0);
    }
    mem_set_hook(NULL, NULL);
    for (size_t i = 0; i < 100; i++) {
        cr_assert_neq(entry_index_find(&entries, &slabs, seq_of(i)), 0);
    }
    entry_index_fini(&entries);
    slabs_drop(&slabs);
}
