/* SPDX-License-Identifier: Apache-2.0
 *
 * What a task in memory looks like: an entry and the bytes behind it, kept small because there are
 * millions. A part of state.h, included by it alone.
 */
#ifndef FOLIOT_BROKER_CORE_ENTRY_FORM_H
#define FOLIOT_BROKER_CORE_ENTRY_FORM_H

#include "broker/core/wheel.h"
#include "lib/base/instant.h"
#include "lib/base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flight;

/* Bytes behind an entry: what the target needs. 16 bytes before them, as there are millions. */
struct block {
    uint32_t created_low; /* created_ms in 48 bits, ten thousand years: see block_created_ms() */
    uint16_t created_high;
    uint16_t tags_len;
    uint32_t payload_len; /* whole length, also when the bytes are not here */
    uint16_t key_len;
    uint8_t order_len;    /* bytes of the order key; 0: it has none */
    bool has_payload : 1; /* bytes[] holds the payload */
    bool has_expire : 1;  /* bytes[] begins with expire_ms */
    uint8_t bytes[];      /* expire_ms; order_ms and order key; key, tags, payload */
};

/* Life of a task in memory; the table is in task_life.c. */
enum entry_state {
    ENTRY_INSERTING = 1, /* insert and claim of a near task in flight */
    ENTRY_WAITING,       /* in the wheel of those that wait, until a little before due */
    ENTRY_READY,         /* in its queue's list: may be claimed, waits for room */
    ENTRY_CLAIMING,      /* claim in flight */
    ENTRY_CLAIMED,       /* in the wheel, until due */
    ENTRY_RUNNING,       /* handed to the outbound */
    ENTRY_HELD,          /* live claim with unknown outcome: in the wheel, until its deadline */
    ENTRY_SETTLING,      /* the write that ends a claim is in flight or waits for room */
    ENTRY_CHANGING,      /* an update is in flight */
    ENTRY_DELETING,      /* a cancel is in flight */
    ENTRY_VISITING,      /* a far task, brought in for one call */
    ENTRY_ASLEEP         /* as WAITING, packed: see sleep.h */
};

/* An entry's flags. */
#define ENTRY_KEYED   1U /* its row has a key */
#define ENTRY_TOUCHED 2U /* RUNNING or HELD, and a call's write is in flight */
#define ENTRY_FETCHED 4U /* READY, its payload is being read; in no list */

/*
 * One task in memory.
 * 1. Exactly one entry per (shard, seq); it is in shard->entries.
 * 2. body is a flight in INSERTING, CLAIMING, CLAIMED, RUNNING, and in SETTLING, CHANGING and
 *    DELETING when `flying` is set; else a block.
 * 3. ASLEEP it is only what stands before `attempt`, and packed bytes: there are millions.
 */
struct entry {
    union {
        struct wheel_node node; /* WAITING, ASLEEP, CLAIMED, HELD */
        struct list ready;      /* READY: in queue_state.ready; SETTLING: in database.unsettled */
    };
    int64_t seq;
    uint32_t next; /* entry_index.c's */
    uint16_t shard;
    uint16_t slot;
    uint16_t queue;    /* index in broker.queues */
    uint8_t state : 4; /* enum entry_state; entry_move() changes it, sleep.c its form */
    uint8_t flying : 1;
    uint8_t flags : 3;
    uint8_t fetches;  /* counts reads of its payload and updates: tells stale replies */
    uint32_t attempt; /* the row's: highest attempt that is over */
    wall_ms due_ms;
    union {
        struct block *block;
        struct flight *flight;
    } body;
    uint16_t failures;
    uint16_t unknowns;
};

_Static_assert(sizeof(struct entry) <= 72, "few are awake, but there may be a long line of them");
_Static_assert(offsetof(struct entry, attempt) <= 44, "with 8 of a packed block and 8 in the index "
                                                      "one that sleeps has 64 and its payload");
_Static_assert(sizeof(struct block) <= 16, "and what stands before its bytes at most 16");

#endif
