/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement. Walking all pairs by score is done without sorting them: a heap holds, for each shard
 * without owner, its best pair among the members that are not full. A pair whose member has become
 * full meanwhile is replaced by the shard's next best; since members only become full, the pairs
 * leave the heap in the same order as from the sorted list.
 */
#include "coordinator/assign.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#define ASSIGN_SEED UINT64_C(0x666f6c696f74) /* "foliot"; part of the format, never to change */

_Static_assert(DATABASE_COUNT_MAX <= 32, "assign_member.cannot has a bit per database");

/* The best pair of one shard. */
struct pair {
    uint64_t score;
    uint32_t shard;  /* index */
    uint32_t member; /* index */
};

struct seat {
    uint32_t taken; /* shards given to the member */
    uint32_t room;  /* most it may take now */
};

struct work {
    const struct assign_member *members;
    const struct assign_shard *shards;
    uint32_t member_count;
    uint32_t shard_count;
    struct seat *seats;  /* per member */
    uint32_t *owners;    /* per shard */
    struct pair *heap;   /* the best pair first */
    uint32_t heap_count; /* pairs in the heap */
    uint32_t share;      /* floor(N / B) */
    uint32_t extras;     /* members that may still take one more than share */
    uint32_t nobody_can; /* bit d: no member can write to database d, so all may own */
};

static int compare_names(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len == 0 ? 0 : memcmp(a.data, b.data, len);

    if (order != 0 || a.len == b.len) {
        return order;
    }
    return a.len < b.len ? -1 : 1;
}

uint64_t assign_score(uint32_t shard, struct slice name)
{
    uint8_t bytes[4 + MEMBER_NAME_BYTES_MAX];

    REQUIRE(name.len <= MEMBER_NAME_BYTES_MAX);
    for (unsigned i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(shard >> (8 * i));
    }
    if (name.len > 0) {
        memcpy(bytes + 4, name.data, name.len);
    }
    return XXH64(bytes, 4 + name.len, ASSIGN_SEED);
}

static bool is_eligible(const struct work *work, uint32_t shard, uint32_t member)
{
    uint32_t bit = UINT32_C(1) << work->shards[shard].database;

    return (work->members[member].cannot & bit & ~work->nobody_can) == 0;
}

static bool is_full(const struct work *work, uint32_t member)
{
    const struct seat *seat = &work->seats[member];

    // Without a share the extras go to whoever comes first, as nobody has to reach anything.
    return seat->taken >= seat->room + (work->share == 0 && seat->room == 0 && work->extras > 0);
}

/* The shard's best pair among eligible members that are not full; false if there is none. */
static bool find_pair(const struct work *work, uint32_t shard, struct pair *best)
{
    bool has_best = false;

    for (uint32_t member = 0; member < work->member_count; member++) {
        struct slice name = work->members[member].name;
        uint64_t score;

        if (is_full(work, member) || !is_eligible(work, shard, member)) {
            continue;
        }
        score = assign_score(work->shards[shard].id, name);
        if (!has_best || score > best->score ||
            (score == best->score && compare_names(name, work->members[best->member].name) < 0)) {
            *best = (struct pair){score, shard, member};
            has_best = true;
        }
    }
    return has_best;
}

static bool is_before(const struct work *work, const struct pair *a, const struct pair *b)
{
    if (a->score != b->score) {
        return a->score > b->score;
    }
    return work->shards[a->shard].id < work->shards[b->shard].id;
}

static void heap_add(struct work *work, struct pair pair)
{
    uint32_t i = work->heap_count++;

    while (i > 0 && is_before(work, &pair, &work->heap[(i - 1) / 2])) {
        work->heap[i] = work->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    work->heap[i] = pair;
}

static struct pair heap_take(struct work *work)
{
    struct pair first = work->heap[0];
    struct pair last = work->heap[--work->heap_count];
    uint32_t i = 0;
    uint32_t child;

    while ((child = 2 * i + 1) < work->heap_count) {
        if (child + 1 < work->heap_count &&
            is_before(work, &work->heap[child + 1], &work->heap[child])) {
            child++;
        }
        if (!is_before(work, &work->heap[child], &last)) {
            break;
        }
        work->heap[i] = work->heap[child];
        i = child;
    }
    work->heap[i] = last;
    return first;
}

static void give(struct work *work, struct pair pair)
{
    struct seat *seat = &work->seats[pair.member];

    work->owners[pair.shard] = pair.member;
    seat->taken++;
    if (work->extras == 0) {
        return;
    }
    if (work->share == 0 && seat->room == 0) {
        seat->room = 1;
        work->extras--;
    } else if (seat->taken == work->share) {
        seat->room = work->share + 1;
        work->extras--;
    }
}

/* One walk over the pairs of shards without owner. Returns how many are still without. */
static uint32_t walk(struct work *work)
{
    uint32_t left = 0;
    struct pair pair;

    for (uint32_t shard = 0; shard < work->shard_count; shard++) {
        if (work->owners[shard] != ASSIGN_NONE) {
            continue;
        }
        left++;
        if (find_pair(work, shard, &pair)) {
            heap_add(work, pair);
        }
    }
    while (work->heap_count > 0) {
        pair = heap_take(work);
        if (!is_full(work, pair.member)) {
            give(work, pair);
            left--;
        } else if (find_pair(work, pair.shard, &pair)) {
            heap_add(work, pair);
        }
    }
    return left;
}

/* Allow the members who can own one of the shards that are left an equal share of them more. */
static void make_room(struct work *work, uint32_t left)
{
    bool can[MEMBER_COUNT_MAX] = {false};
    uint32_t can_count = 0;
    uint32_t more;

    for (uint32_t shard = 0; shard < work->shard_count; shard++) {
        for (uint32_t member = 0; member < work->member_count; member++) {
            if (work->owners[shard] == ASSIGN_NONE && is_eligible(work, shard, member)) {
                can_count += !can[member];
                can[member] = true;
            }
        }
    }
    REQUIRE(can_count > 0);
    more = left / can_count > 0 ? left / can_count : 1;
    for (uint32_t member = 0; member < work->member_count; member++) {
        if (can[member]) {
            work->seats[member].room += more;
        }
    }
}

static int check_input(const struct work *work)
{
    for (uint32_t i = 0; i < work->member_count; i++) {
        if (work->members[i].name.len > MEMBER_NAME_BYTES_MAX) {
            return ERR_INVALID;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (slice_equal(work->members[i].name, work->members[k].name)) {
                return ERR_INVALID;
            }
        }
    }
    for (uint32_t i = 0; i < work->shard_count; i++) {
        if (work->shards[i].database >= DATABASE_COUNT_MAX) {
            return ERR_INVALID;
        }
    }
    return 0;
}

static void place_all(struct work *work)
{
    uint32_t left;

    work->nobody_can = UINT32_MAX;
    work->share = work->shard_count / work->member_count;
    work->extras = work->shard_count % work->member_count;
    for (uint32_t member = 0; member < work->member_count; member++) {
        work->nobody_can &= work->members[member].cannot;
        work->seats[member] = (struct seat){0, work->share};
    }
    while ((left = walk(work)) > 0) {
        work->extras = 0; // Whoever did not get to them cannot use them.
        make_room(work, left);
    }
}

int assign(const struct assign_member *members, size_t member_count,
           const struct assign_shard *shards, size_t shard_count, uint32_t *owners)
{
    struct work work = {.members = members, .shards = shards};
    struct seat seats[MEMBER_COUNT_MAX];
    int err;

    if (member_count > MEMBER_COUNT_MAX || shard_count > SHARD_COUNT_MAX) {
        return ERR_TOO_LARGE;
    }
    work.member_count = (uint32_t)member_count;
    work.shard_count = (uint32_t)shard_count;
    err = check_input(&work);
    if (err != 0) {
        return err;
    }
    work.heap = mem_new(shard_count + 1, sizeof(*work.heap));
    if (work.heap == NULL) {
        return ERR_NO_MEMORY;
    }
    work.seats = seats;
    work.owners = owners;
    for (size_t i = 0; i < shard_count; i++) {
        owners[i] = ASSIGN_NONE;
    }
    if (member_count > 0) {
        place_all(&work);
    }
    mem_free(work.heap);
    return 0;
}
