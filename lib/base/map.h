/* SPDX-License-Identifier: Apache-2.0
 *
 * A hot map from 64-bit keys to pointers: open addressing, linear probing, deletion by shifting
 * back, so that no tombstones pile up. It grows and shrinks in powers of two, a few slots with each
 * call, so that no single call ever moves the whole table. Keys must not be chosen by a peer.
 */
#ifndef FOLIOT_LIB_BASE_MAP_H
#define FOLIOT_LIB_BASE_MAP_H

#include "lib/base/attr.h"

#include <stddef.h>
#include <stdint.h>

/* One slot; empty when value is NULL. */
struct map_slot {
    uint64_t key;
    void *value;
};

/* One table. 1. count ≤ capacity · 7/8, so that every probe ends at an empty slot. */
struct map_table {
    struct map_slot *slots; /* NULL when capacity is 0 */
    size_t capacity;        /* a power of two, or 0 */
    size_t count;           /* slots in use */
};

/*
 * 2. A key is in at most one of the two tables.
 * 3. Slots of `old` below `moved` are empty; old is empty and freed when no move is under way.
 */
struct map {
    struct map_table now; /* where new keys go */
    struct map_table old; /* what is left of the table before the last resize */
    size_t moved;         /* slots of old that have been emptied */
    size_t max;           /* most keys; fixed at init */
};

/* Where an iteration stands. */
struct map_iter {
    size_t position;
};

/* Start empty; nothing is allocated yet. shape: 1 ≤ max ≤ 2^40. */
void map_init(struct map *map, size_t max);

/* Free the tables; values belong to the caller. The map is empty and usable again. */
void map_fini(struct map *map);

/* Value of a key, or NULL. */
void *map_find(const struct map *map, uint64_t key);

/*
 * Add a key that is not there yet.
 *
 * shape:  value is not NULL. Any 64-bit key is fine.
 * errors: ERR_EXISTS; ERR_FULL at `max` keys; ERR_NO_MEMORY when the table cannot grow. The map is
 *         unchanged after an error.
 */
MUST_USE int map_put(struct map *map, uint64_t key, void *value);

/* Remove a key and return its value, or NULL if it was not there. */
void *map_del(struct map *map, uint64_t key);

/* Replace the value of a key that is there. shape: value is not NULL. errors: ERR_NOT_FOUND. */
MUST_USE int map_change(struct map *map, uint64_t key, void *value);

/* Keys in the map. */
size_t map_count(const struct map *map);

/* Bytes of the tables. */
size_t map_bytes(const struct map *map);

/*
 * Walk all values: start with a zeroed iter; NULL at the end.
 *
 * note: the order depends on history and must decide nothing; nothing may be put or deleted under
 *       the walk. Meant for checks, counts and closing down.
 */
void *map_next(const struct map *map, struct map_iter *iter);

#endif
