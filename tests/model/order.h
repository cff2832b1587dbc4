/* SPDX-License-Identifier: Apache-2.0
 *
 * State and rules of the model of order keys (order.c).
 */
#ifndef FOLIOT_TESTS_MODEL_ORDER_H
#define FOLIOT_TESTS_MODEL_ORDER_H

#include "tests/model/explore.h"

enum {
    BROKERS = 2,
    TASKS = 3,
    DEADLINE = 2,
    START_BY = 1,
    BACKOFF = 1
};
enum {
    EARLY_PLACES = 3,
    PLACES = EARLY_PLACES + TASKS,
    LATE_RANK = 4
};

/* Rules of the protocol: 1 as it is to be. */
struct order_options {
    int one, held, inherit, stopped, head, busy, bucket, keep, keep_row, near_asks;
    int tasks, attempts, skip_after, handovers, unknowns, losses, cancels, updates, creates,
        redrives;
};

extern struct order_options order_option;
extern const struct model_option order_rules[];

enum {
    ABSENT,
    PENDING,
    DEAD,
    OVER
};
enum {
    O_NONE,
    O_INSERT,
    O_CLAIM,
    O_UNCLAIM,
    O_DONE,
    O_RETRY,
    O_DEAD,
    O_CANCEL,
    O_UPDATE,
    O_REDRIVE
};
enum {
    OUT_DONE = 1,
    OUT_RETRY
};

/* A task's row, and what the claim rows say of it. Times are ticks that are left. */
struct order_row {
    u8 state, rank, due, hold, failures, attempt, claim, left;
    u8 given; /* the rank by what users have said last: for the promise only */
};

/* A task in a broker's memory, with the write of it that is in flight. */
struct order_entry {
    u8 has, rank, due, hold, failures, attempt;
    u8 claim, left, start_by, is_armed, is_running; /* its live claim, also when the row has gone */
    u8 op, op_claim, op_before;   /* op_before: answered tasks that were due before it */
    u8 inherited, inherited_left; /* a claim that was read and whose row is not here */
};

struct order_broker {
    u8 epoch; /* 0: it does not own the shard, as far as it knows */
    u8 cursor;
    struct order_entry entries[TASKS];
};

struct order_state {
    u8 epoch;
    struct order_row rows[TASKS];
    struct order_broker brokers[BROKERS];
    u8 run[TASKS], run_left[TASKS], outcome[TASKS]; /* attempt that runs; its outcome under way */
    u8 out_attempt[TASKS];
    u8 answered; /* tasks whose create was answered */
    u8 handovers, unknowns, losses, cancels, updates, redrives;
};

/* Where a row lies in the order in which the loader reads. */
u8 order_place(unsigned task, u8 rank);

/* Whether a row has a live claim. */
bool order_is_live(const struct order_row *row);

/* Forget everything: the shard is somebody else's. */
void order_drop(struct order_broker *broker);

/* Bring a row into memory. */
void order_read_row(struct order_entry *entry, const struct order_row *row);

/* Raise the epoch and read the claims. */
void order_take(struct order_state *state, unsigned number, u8 epoch);

/* The rule: whether a task, in memory or about to be, may be claimed. */
bool order_is_first(const struct order_broker *broker, unsigned task,
                    const struct order_entry *entry);

/* Send a write of a task. */
void order_send(struct order_state *state, unsigned number, unsigned task, u8 op);

/* A write reaches the database, and, if known, its reply the broker. */
void order_commit(struct explore *explore, struct order_state *state, unsigned number,
                  unsigned task, bool known);

#endif
