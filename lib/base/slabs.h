/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of many sizes, each known by a number of 32 bits besides its address: for millions of
 * small things of which every byte counts. Sizes are rounded up to a class, by at most 7 bytes or a
 * sixteenth; objects of a class share slabs, and a slab without objects goes back to the heap.
 * Beyond the first 32 MiB slabs lie in huge pages, 64 in each, since what is touched at random
 * mostly waits for the search for its page. Does not know what lies in it.
 */
#ifndef FOLIOT_LIB_BASE_SLABS_H
#define FOLIOT_LIB_BASE_SLABS_H

#include "lib/base/attr.h"
#include "lib/base/list.h"

#include <stddef.h>
#include <stdint.h>

/* Largest object. */
#define SLABS_OBJECT_BYTES_MAX 2048U

/* Sizes: 32 up to 256 bytes, then 16 to each doubling. */
#define SLABS_CLASSES 80U

struct slab;

/* What stands for a slab's number: the slab, or the next number that stands for none. */
union slab_place {
    struct slab *slab;
    uintptr_t next_free;
};

/*
 * 1. open[c] holds the slabs of class c that have room.
 * 2. Numbers of slabs below `count` are in use or in the chain that begins at `free`.
 */
struct slabs {
    union slab_place *places; /* slabs by number */
    uint32_t count;           /* numbers given out so far */
    uint32_t room;            /* of places */
    uint32_t free;            /* first number that stands for none; UINT32_MAX: there is none */
    struct list open[SLABS_CLASSES];
    struct list regions; /* huge pages that have room for a slab */
    size_t used;         /* objects taken and not given back */
    size_t slab_count;   /* slabs that are there */
    size_t region_count; /* huge pages that are there */
    size_t heap_count;   /* slabs that lie in none of these */
};

/* Start empty; nothing is allocated before the first take. */
void slabs_init(struct slabs *slabs);

/* Free all, although objects may still be out; none may be touched afterwards. */
void slabs_drop(struct slabs *slabs);

/*
 * Take an object. What is in it is not defined.
 *
 * shape:  1 ≤ bytes ≤ SLABS_OBJECT_BYTES_MAX; aligned to 8 bytes. Its address stays as it is.
 * result: its number, never 0; 0 when memory is short.
 */
MUST_USE uint32_t slabs_take(struct slabs *slabs, size_t bytes);

/* Give an object back. shape: taken from this slabs and not given back yet. */
void slabs_give(struct slabs *slabs, uint32_t number);

/* The object of a number. shape: taken and not given back. */
void *slabs_at(const struct slabs *slabs, uint32_t number);

/* Bytes of all slabs, whether in use or not. */
size_t slabs_bytes(const struct slabs *slabs);

#endif
