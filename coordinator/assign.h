/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement: who should own which shard. A pure function of the member list and the shard list, the
 * same on every broker, so that no leader, lock or message is needed. It moves few shards when a
 * member comes or goes and keeps members within one shard of each other. It decides who should own
 * a shard; who does is settled elsewhere.
 */
#ifndef FOLIOT_COORDINATOR_ASSIGN_H
#define FOLIOT_COORDINATOR_ASSIGN_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/limits.h"

#include <stddef.h>
#include <stdint.h>

/* Owner of a shard when there are no members. */
#define ASSIGN_NONE UINT32_MAX

struct assign_member {
    struct slice name; /* stable name: any bytes, 0 … MEMBER_NAME_BYTES_MAX; borrowed */
    uint32_t cannot;   /* bit d: cannot write to database d */
};

struct assign_shard {
    uint32_t id;
    uint32_t database; /* 0 … DATABASE_COUNT_MAX − 1 */
};

/*
 * Score of a pair: XXH64 of the shard id as 4 bytes, least significant first, and the name's bytes,
 * with seed 0x666f6c696f74.
 */
uint64_t assign_score(uint32_t shard, struct slice name);

/*
 * Give each shard an owner. With N shards and B members: walk all pairs from the highest score down
 * (equal scores: the lower shard id, then the lesser name, first); give the shard to the member
 * unless the shard is taken or the member is full. Full is floor(N/B); the first N mod B members to
 * reach it may take one more. A pair is passed over if the member cannot write to the shard's
 * database and another member can. Shards that this leaves over (only when some members cannot) are
 * walked again with the members who can allowed an equal share more, until none is left.
 *
 * shape:  owners has shard_count places; each becomes an index into members, or ASSIGN_NONE when
 *         member_count is 0. Shard ids are distinct.
 * note:   the result does not depend on the order of members or shards. All members are within one
 *         shard of each other if every member can write everywhere.
 * cost:   shard_count · member_count hashes and a little more: 0.1 ms for 128 · 32, 25 ms at the
 *         limits.
 * errors: ERR_INVALID: two members of one name, a name that is too long, a database that is too
 *         high. ERR_TOO_LARGE: above MEMBER_COUNT_MAX or SHARD_COUNT_MAX. ERR_NO_MEMORY. owners is
 *         written only on success.
 * source: DESIGN 5
 */
MUST_USE int assign(const struct assign_member *members, size_t member_count,
                    const struct assign_shard *shards, size_t shard_count, uint32_t *owners);

#endif
