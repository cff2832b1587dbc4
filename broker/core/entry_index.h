/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of a shard by id: chains through the entries themselves, headed by an array that
 * grows and shrinks by one place with each change, so that no call moves more than a chain and an
 * entry costs eight bytes here however many there are. Must decide nothing by its order.
 */
#ifndef FOLIOT_BROKER_CORE_ENTRY_INDEX_H
#define FOLIOT_BROKER_CORE_ENTRY_INDEX_H

#include "lib/base/attr.h"
#include "lib/base/slabs.h"

#include <stddef.h>
#include <stdint.h>

struct entry;

/* 1. A chain holds the entries whose place, by the hash of their seq, it is. */
struct entry_index {
    uint32_t *heads; /* entries by their number in the slabs; 0: the chain is empty */
    uint32_t size;   /* chains; 0: nothing is allocated */
    uint32_t room;   /* of heads */
    uint32_t count;  /* entries */
};

/* Where a walk stands. */
struct entry_iter {
    uint32_t chain;
    uint32_t next;
};

/* Start empty. */
void entry_index_init(struct entry_index *index);

/* Free the array. The entries belong to the caller. It is empty and usable again. */
void entry_index_fini(struct entry_index *index);

/* Number of the entry with this seq, or 0. */
uint32_t entry_index_find(const struct entry_index *index, const struct slabs *slabs, int64_t seq);

/* Add an entry. shape: its seq is set and not there yet. errors: ERR_NO_MEMORY. */
MUST_USE int entry_index_put(struct entry_index *index, const struct slabs *slabs, uint32_t number);

/* Take an entry out. result: its number, or 0 if it is not there. */
uint32_t entry_index_del(struct entry_index *index, const struct slabs *slabs, int64_t seq);

/* Put another entry in the place of the one with its seq, which is there. result: that one. */
uint32_t entry_index_swap(struct entry_index *index, const struct slabs *slabs, uint32_t to);

/* The next entry of a chain, or, behind NULL, its first; NULL at the end. shape: chain < size. */
struct entry *entry_index_in_chain(const struct entry_index *index, const struct slabs *slabs,
                                   uint32_t chain, const struct entry *before);

/* The next of all entries: start with a zeroed iter; NULL at the end. Nothing may be put or deleted
 * under the walk. */
struct entry *entry_index_next(const struct entry_index *index, const struct slabs *slabs,
                               struct entry_iter *iter);

#endif
