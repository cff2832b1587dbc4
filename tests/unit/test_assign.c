/* SPDX-License-Identifier: Apache-2.0
 *
 * What placement promises, over thousands of clusters with odd names: one owner per shard, members
 * within one of each other, few moves, and the same answer for any order of the input.
 */
#include "coordinator/assign.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES 256

struct cluster {
    struct assign_member members[MEMBER_COUNT_MAX];
    struct assign_shard shards[SHARD_COUNT_MAX];
    uint32_t owners[SHARD_COUNT_MAX];
    char names[MEMBER_COUNT_MAX][NAME_BYTES];
    size_t member_count;
    size_t shard_count;
};

static struct cluster one;
static struct cluster two;

/* Names as people and platforms make them, and as nobody should; `i` keeps them apart. */
static size_t write_name(struct prng *prng, size_t i, char *name)
{
    size_t len = 0;

    switch (prng_below(prng, 7)) {
    case 0:
        return (size_t)snprintf(name, NAME_BYTES, "foliot-%zu", i);
    case 1:
        return (size_t)snprintf(name, NAME_BYTES, "10.0.%zu.%zu:7001", i / 256, i % 256);
    case 2:
        return (size_t)snprintf(name, NAME_BYTES, "höhe-Ω-日本-%zu", i);
    case 3: // The empty name, once; one byte afterwards.
        name[0] = (char)i;
        return i == 0 ? 0 : 1;
    case 4: // The longest, different in its last bytes only.
        memset(name, 'x', NAME_BYTES);
        name[MEMBER_NAME_BYTES_MAX - 2] = (char)(i / 128);
        name[MEMBER_NAME_BYTES_MAX - 1] = (char)(i % 128);
        return MEMBER_NAME_BYTES_MAX;
    case 5: // Prefixes of one another.
        memset(name, 'a', i + 1);
        return (i + 1) % MEMBER_NAME_BYTES_MAX;
    default: // Any bytes, NULs among them.
        for (len = 0; len < 12; len++) {
            name[len] = (char)prng_next(prng);
        }
        return len;
    }
}

static void add_member(struct cluster *c, struct prng *prng)
{
    size_t i = c->member_count;

    for (;;) {
        size_t len = write_name(prng, i, c->names[i]);
        bool is_new = true;

        c->members[i] = (struct assign_member){{(const uint8_t *)c->names[i], len}, 0};
        for (size_t k = 0; k < i; k++) {
            is_new = is_new && !slice_equal(c->members[k].name, c->members[i].name);
        }
        if (is_new) {
            break;
        }
    }
    c->member_count++;
}

static void make_cluster(struct cluster *c, struct prng *prng, size_t members, size_t shards)
{
    c->member_count = 0;
    c->shard_count = shards;
    while (c->member_count < members) {
        add_member(c, prng);
    }
    for (size_t i = 0; i < shards; i++) {
        c->shards[i] = (struct assign_shard){(uint32_t)i, (uint32_t)(i % 3)};
    }
}

static void place(struct cluster *c)
{
    cr_assert_eq(assign(c->members, c->member_count, c->shards, c->shard_count, c->owners), 0);
}

static void count_owned(const struct cluster *c, size_t *counts)
{
    memset(counts, 0, MEMBER_COUNT_MAX * sizeof(*counts));
    for (size_t i = 0; i < c->shard_count; i++) {
        cr_assert(c->owners[i] < c->member_count, "shard %zu has no owner", i);
        counts[c->owners[i]]++;
    }
}

static void check_even(const struct cluster *c)
{
    size_t counts[MEMBER_COUNT_MAX];
    size_t share = c->shard_count / c->member_count;

    count_owned(c, counts);
    for (size_t i = 0; i < c->member_count; i++) {
        cr_assert(counts[i] == share || counts[i] == share + 1, "%zu of %zu shards for 1 of %zu",
                  counts[i], c->shard_count, c->member_count);
    }
}

Test(assign, gives_every_shard_one_owner_and_members_within_one_of_each_other)
{
    struct prng prng;

    prng_init_named(&prng, 1, "assign");
    for (int round = 0; round < 3000; round++) {
        size_t members = 1 + prng_below(&prng, round % 20 == 0 ? MEMBER_COUNT_MAX : 20);

        make_cluster(&one, &prng, members, prng_below(&prng, 200));
        place(&one);
        check_even(&one);
    }
}

/* One cluster in two orders, shards with odd ids. */
Test(assign, does_not_depend_on_the_order_of_its_input)
{
    struct prng prng;

    prng_init_named(&prng, 2, "assign");
    for (int round = 0; round < 300; round++) {
        size_t n;

        make_cluster(&one, &prng, 1 + prng_below(&prng, 30), 1 + prng_below(&prng, 150));
        n = one.shard_count;
        for (size_t i = 0; i < n; i++) {
            one.shards[i].id = (uint32_t)i * UINT32_C(2654435761);
            one.members[i % one.member_count].cannot = (uint32_t)prng_below(&prng, 8);
        }
        two = one;
        for (size_t i = 0; i < n; i++) {
            two.shards[i] = one.shards[n - 1 - i];
        }
        for (size_t i = 0; i < one.member_count; i++) {
            two.members[i] = one.members[one.member_count - 1 - i];
        }
        place(&one);
        place(&two);
        for (size_t i = 0; i < n; i++) {
            cr_assert(slice_equal(one.members[one.owners[i]].name,
                                  two.members[two.owners[n - 1 - i]].name));
        }
    }
}

/* Shards whose owner's name differs between the two clusters. */
static size_t count_moves(const struct cluster *a, const struct cluster *b)
{
    size_t moves = 0;

    for (size_t i = 0; i < a->shard_count; i++) {
        moves += !slice_equal(a->members[a->owners[i]].name, b->members[b->owners[i]].name);
    }
    return moves;
}

struct moves {
    size_t made;
    size_t needed;
};

/* Take one member of `rounds` clusters away (two.…), and so also: let one join. */
static void measure(size_t members, size_t shards, struct moves *leave, struct moves *join)
{
    struct prng prng;
    size_t counts[MEMBER_COUNT_MAX];

    *leave = (struct moves){0, 0};
    *join = *leave;
    prng_init_named(&prng, members * 1000 + shards, "moves");
    for (int round = 0; round < 400; round++) {
        size_t gone = prng_below(&prng, members);

        make_cluster(&one, &prng, members, shards);
        two = one;
        two.members[gone] = two.members[--two.member_count];
        place(&one);
        place(&two);
        count_owned(&one, counts);
        leave->made += count_moves(&one, &two);
        leave->needed += counts[gone]; // These have to move; a joiner must get as many.
        join->made += count_moves(&two, &one);
        join->needed += counts[gone];
    }
}

static void check_moves(size_t members, size_t shards, size_t permille_max)
{
    struct moves leave;
    struct moves join;

    measure(members, shards, &leave, &join);
    cr_log_info("%zu members, %zu shards: %zu permille of the least", members, shards,
                leave.made * 1000 / leave.needed);
    cr_assert(leave.made * 1000 <= leave.needed * permille_max,
              "%zu members, %zu shards: leaving moves %zu permille of the least", members, shards,
              leave.made * 1000 / leave.needed);
    cr_assert(join.made * 1000 <= join.needed * permille_max,
              "%zu members, %zu shards: joining moves %zu permille of the least", members, shards,
              join.made * 1000 / join.needed);
}

/*
 * The figures of DESIGN 5 hold for 64 shards, with 3 % for the sample; the overhead grows with the
 * number of members that must stay within one of each other, so more shards need their own figures.
 */
Test(assign, moves_little_more_than_it_must_when_a_member_comes_or_goes)
{
    check_moves(2, 64, 1000);       // The other one takes all.
    check_moves(3, 64, 1070 + 30);  // 21 shards per member
    check_moves(5, 64, 1200 + 30);  // 13
    check_moves(8, 64, 1500 + 30);  // 8
    check_moves(3, 128, 1070 + 30); // 43
    check_moves(6, 128, 1200 + 30);
    check_moves(10, 128, 1470 + 30);
    check_moves(16, 128, 2050 + 50);
}

Test(assign, passes_over_members_that_cannot_write_unless_nobody_is_left)
{
    struct prng prng;

    prng_init_named(&prng, 3, "assign");
    for (int round = 0; round < 1000; round++) {
        uint32_t all = UINT32_MAX;
        size_t counts[MEMBER_COUNT_MAX];

        make_cluster(&one, &prng, 1 + prng_below(&prng, 9), 1 + prng_below(&prng, 150));
        for (size_t i = 0; i < one.member_count; i++) {
            one.members[i].cannot = (uint32_t)prng_below(&prng, 8);
            all &= one.members[i].cannot;
        }
        place(&one);
        count_owned(&one, counts);
        for (size_t i = 0; i < one.shard_count; i++) {
            uint32_t bit = UINT32_C(1) << one.shards[i].database;

            cr_assert((all & bit) != 0 || (one.members[one.owners[i]].cannot & bit) == 0);
        }
    }
}

Test(assign, a_member_that_can_write_nowhere_owns_nothing_and_the_others_share)
{
    struct prng prng;
    size_t counts[MEMBER_COUNT_MAX];

    prng_init_named(&prng, 4, "assign");
    make_cluster(&one, &prng, 4, 128);
    one.members[2].cannot = 7;
    place(&one);
    count_owned(&one, counts);
    cr_assert_eq(counts[2], 0);
    for (size_t i = 0; i < 4; i++) {
        cr_assert(i == 2 || (counts[i] >= 42 && counts[i] <= 44), "%zu", counts[i]);
    }
}

/* What "walk all pairs from the highest score down" says, with a sorted array and no cleverness. */
struct scored {
    uint64_t score;
    uint32_t shard;
    uint32_t member;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *left = a;
    const struct scored *right = b;

    return left->score > right->score ? -1 : left->score < right->score;
}

static void place_naively(struct cluster *c)
{
    static struct scored pairs[20 * 200];
    size_t taken[MEMBER_COUNT_MAX] = {0};
    size_t room[MEMBER_COUNT_MAX];
    size_t share = c->shard_count / c->member_count;
    size_t extras = c->shard_count % c->member_count;
    size_t count = 0;

    for (uint32_t shard = 0; shard < c->shard_count; shard++) {
        c->owners[shard] = ASSIGN_NONE;
        for (uint32_t member = 0; member < c->member_count; member++) {
            pairs[count++] = (struct scored){
                assign_score(c->shards[shard].id, c->members[member].name), shard, member};
            room[member] = share;
        }
    }
    qsort(pairs, count, sizeof(*pairs), by_score);
    for (size_t i = 0; i < count; i++) {
        size_t member = pairs[i].member;

        if (c->owners[pairs[i].shard] != ASSIGN_NONE || taken[member] == room[member]) {
            continue;
        }
        c->owners[pairs[i].shard] = (uint32_t)member;
        taken[member]++;
        if (taken[member] == share && extras > 0) {
            room[member]++;
            extras--;
        }
    }
}

Test(assign, equals_the_plain_walk_over_all_sorted_pairs)
{
    struct prng prng;

    prng_init_named(&prng, 5, "assign");
    for (int round = 0; round < 1000; round++) {
        size_t members = 1 + prng_below(&prng, 20);

        make_cluster(&one, &prng, members, members + prng_below(&prng, 180));
        two = one;
        place(&one);
        place_naively(&two);
        cr_assert_arr_eq(one.owners, two.owners, one.shard_count * sizeof(uint32_t));
    }
}

/* Fixed answers, computed by another implementation too: a change here moves every shard of every
 * cluster that is in use. */
Test(assign, scores_stay_what_they_are)
{
    cr_assert_eq(assign_score(0, slice_of("")), UINT64_C(0x17e9729ecb6a9685));
    cr_assert_eq(assign_score(7, slice_of("foliot-0")), UINT64_C(0x3a1b0a6edd2cb576));
    cr_assert_eq(assign_score(4095, slice_of("höhe")), UINT64_C(0x25de63c48cb87d3d));
}

static bool refuse(size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    return false;
}

Test(assign, refuses_what_it_cannot_place)
{
    struct prng prng;

    prng_init_named(&prng, 6, "assign");
    make_cluster(&one, &prng, 3, 10);
    cr_assert_eq(assign(one.members, 0, one.shards, 10, one.owners), 0);
    cr_assert_eq(one.owners[9], ASSIGN_NONE);
    one.owners[0] = 77;
    cr_assert_eq(assign(one.members, MEMBER_COUNT_MAX + 1, one.shards, 10, one.owners),
                 ERR_TOO_LARGE);
    cr_assert_eq(assign(one.members, 3, one.shards, SHARD_COUNT_MAX + 1, one.owners),
                 ERR_TOO_LARGE);
    mem_set_hook(refuse, NULL);
    cr_assert_eq(assign(one.members, 3, one.shards, 10, one.owners), ERR_NO_MEMORY);
    mem_set_hook(NULL, NULL);
    one.shards[4].database = DATABASE_COUNT_MAX;
    cr_assert_eq(assign(one.members, 3, one.shards, 10, one.owners), ERR_INVALID);
    one.shards[4].database = 0;
    one.members[2].name = one.members[0].name;
    cr_assert_eq(assign(one.members, 3, one.shards, 10, one.owners), ERR_INVALID);
    cr_assert_eq(one.owners[0], 77);
}

Test(assign, places_the_largest_cluster)
{
    struct prng prng;

    prng_init_named(&prng, 7, "assign");
    make_cluster(&one, &prng, MEMBER_COUNT_MAX, SHARD_COUNT_MAX);
    place(&one);
    check_even(&one);
    for (size_t i = 0; i < MEMBER_COUNT_MAX; i++) { // And the lopsided one.
        one.members[i].cannot = i == 9 ? 0 : 7;
    }
    place(&one);
    for (size_t i = 0; i < SHARD_COUNT_MAX; i++) {
        cr_assert_eq(one.owners[i], 9);
    }
}
