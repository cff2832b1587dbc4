/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear hashing: with 2^k ≤ size < 2^(k+1) chains, those below size − 2^k and those above 2^k have
 * one bit more of the hash than the rest. A chain more splits one, a chain less joins two.
 */
#include "broker/core/entry_index.h"

#include "broker/core/state.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

/* The array grows by an eighth and so many. */
#define ROOM_STEP 16U

static struct entry *at(const struct slabs *slabs, uint32_t number)
{
    return slabs_at(slabs, number);
}

/* Finalizer of MurmurHash3: spreads rising ids over all bits. */
static uint32_t spread(int64_t seq)
{
    uint64_t key = (uint64_t)seq;

    key ^= key >> 33;
    key *= UINT64_C(0xff51afd7ed558ccd);
    key ^= key >> 33;
    key *= UINT64_C(0xc4ceb9fe1a85ec53);
    return (uint32_t)(key ^ (key >> 33));
}

/* Highest power of two that is not above a number. shape: not 0. */
static uint32_t top_bit(uint32_t number)
{
    return UINT32_C(1) << (31 - (unsigned)__builtin_clz(number));
}

static uint32_t chain_of(const struct entry_index *index, int64_t seq)
{
    uint32_t hash = spread(seq);
    uint32_t high = top_bit(index->size);
    uint32_t chain = hash & (high * 2 - 1);

    return chain < index->size ? chain : hash & (high - 1);
}

void entry_index_init(struct entry_index *index)
{
    memset(index, 0, sizeof(*index));
}

void entry_index_fini(struct entry_index *index)
{
    mem_free(index->heads);
    entry_index_init(index);
}

uint32_t entry_index_find(const struct entry_index *index, const struct slabs *slabs, int64_t seq)
{
    uint32_t number = index->size == 0 ? 0 : index->heads[chain_of(index, seq)];

    while (number != 0 && at(slabs, number)->seq != seq) {
        number = at(slabs, number)->next;
    }
    return number;
}

static void push(struct entry_index *index, const struct slabs *slabs, uint32_t chain,
                 uint32_t number)
{
    at(slabs, number)->next = index->heads[chain];
    index->heads[chain] = number;
}

/* Move all entries of a chain to where they belong now. */
static void scatter(struct entry_index *index, const struct slabs *slabs, uint32_t chain)
{
    uint32_t number = index->heads[chain];

    index->heads[chain] = 0;
    while (number != 0) {
        uint32_t next = at(slabs, number)->next;

        push(index, slabs, chain_of(index, at(slabs, number)->seq), number);
        number = next;
    }
}

static int resize(struct entry_index *index, uint32_t room)
{
    uint32_t *heads = mem_resize(index->heads, room * sizeof(*heads));

    if (heads == NULL) {
        return ERR_NO_MEMORY;
    }
    index->heads = heads;
    index->room = room;
    return 0;
}

/* One chain more, with its part of the one that had it so far. */
static int grow(struct entry_index *index, const struct slabs *slabs)
{
    uint32_t chain = index->size;

    if (chain == index->room && resize(index, chain + chain / 8 + ROOM_STEP) != 0) {
        return ERR_NO_MEMORY;
    }
    index->heads[chain] = 0;
    index->size++;
    if (chain > 0) {
        scatter(index, slabs, chain - top_bit(chain));
    }
    return 0;
}

/* One chain less. */
static void shrink(struct entry_index *index, const struct slabs *slabs)
{
    uint32_t chain = index->size - 1;

    index->size = chain;
    scatter(index, slabs, chain);
    if (index->size + index->size / 2 + ROOM_STEP < index->room) {
        (void)!resize(index, index->size + index->size / 8); // Without memory it stays large.
    }
}

int entry_index_put(struct entry_index *index, const struct slabs *slabs, uint32_t number)
{
    // Chains become longer when there is no memory for more of them.
    if (index->count >= index->size && grow(index, slabs) != 0 && index->size == 0) {
        return ERR_NO_MEMORY;
    }
    push(index, slabs, chain_of(index, at(slabs, number)->seq), number);
    index->count++;
    return 0;
}

/* What points to the entry with this seq, or to none at the end of its chain. shape: not empty. */
static uint32_t *link_to(struct entry_index *index, const struct slabs *slabs, int64_t seq)
{
    uint32_t *link = &index->heads[chain_of(index, seq)];

    while (*link != 0 && at(slabs, *link)->seq != seq) {
        link = &at(slabs, *link)->next;
    }
    return link;
}

uint32_t entry_index_del(struct entry_index *index, const struct slabs *slabs, int64_t seq)
{
    uint32_t *link = index->size == 0 ? NULL : link_to(index, slabs, seq);
    uint32_t number = link == NULL ? 0 : *link;

    if (number == 0) {
        return 0;
    }
    *link = at(slabs, number)->next;
    index->count--;
    if (index->count == 0) {
        entry_index_fini(index);
        return number;
    }
    for (int i = 0; i < 2 && index->count < index->size / 2; i++) { // Faster than they go.
        shrink(index, slabs);
    }
    return number;
}

uint32_t entry_index_swap(struct entry_index *index, const struct slabs *slabs, uint32_t to)
{
    uint32_t *link = link_to(index, slabs, at(slabs, to)->seq);
    uint32_t from = *link;

    REQUIRE(from != 0);
    at(slabs, to)->next = at(slabs, from)->next;
    *link = to;
    return from;
}

struct entry *entry_index_in_chain(const struct entry_index *index, const struct slabs *slabs,
                                   uint32_t chain, const struct entry *before)
{
    uint32_t number = before == NULL ? index->heads[chain] : before->next;

    return number == 0 ? NULL : at(slabs, number);
}

struct entry *entry_index_next(const struct entry_index *index, const struct slabs *slabs,
                               struct entry_iter *iter)
{
    struct entry *entry;

    while (iter->next == 0) {
        if (iter->chain == index->size) {
            return NULL;
        }
        iter->next = index->heads[iter->chain++];
    }
    entry = at(slabs, iter->next);
    iter->next = entry->next;
    return entry;
}
