/* SPDX-License-Identifier: Apache-2.0
 *
 * State of the model of the loader (load.c).
 */
#ifndef FOLIOT_TESTS_MODEL_LOAD_H
#define FOLIOT_TESTS_MODEL_LOAD_H

#include "tests/model/explore.h"

enum {
    TASKS = 3,
    BUCKETS = 2,
    PLACES = TASKS * BUCKETS, /* 1 … PLACES: bucket by bucket, in each by id */
    OWN_PAGE = 1,             /* page.of: the shard's own, the park's, the shard's past */
    PARK_PAGE = 2,
    PAST_PAGE = 3
};

/* What is in flight of a task: a write that was sent, or that has committed. */
enum {
    O_NONE,
    O_INSERT,
    O_MOVE,
    O_DELETE
};

struct load_row {
    u8 has, place, version;
};

struct load_task {
    struct load_row row;
    struct load_row entry; /* in memory */
    u8 op, is_committed, to;
    struct load_row snapshot; /* of the page in flight */
    u8 is_gone;               /* has left memory while the page was in flight */
    /* a row that is read for a call */
    u8 visit;  /* 1 sent, 2 read */
    u8 is_old; /* it has left memory since */
    struct load_row visited;
};

struct load_state {
    struct load_task tasks[TASKS];
    u8 cursor, target;
    u8 past, split;       /* the cursor in what is past, up to split; the other one begins there */
    u8 park, park_cursor; /* task 1 and above are of a queue that may be parked */
    /* the page in flight */
    u8 page, page_read, from, to, end, is_rewound, rewind, skips_park;
    u8 inserts, moves, deletes, parks, shorts, evictions;
};

struct load_options {
    int horizon, gone, newer, rewound, parked_since, park_low, park_part, park_past, unpark_at,
        reread;
    int split, limit, inserts, moves, deletes, parks, shorts, evictions, raises;
};

extern struct load_options load;

#endif
