/* SPDX-License-Identifier: Apache-2.0
 *
 * The dumb half of the wheel: a check of its numbered invariants, and an oracle that keeps the same
 * promises with sorted lists and no cleverness. For tests, simulators and sampled checks in
 * production; both are linear.
 */
#ifndef FOLIOT_BROKER_CORE_WHEEL_CHECK_H
#define FOLIOT_BROKER_CORE_WHEEL_CHECK_H

#include "broker/core/wheel.h"

/*
 * Test the invariants of struct wheel.
 *
 * result: NULL if they hold, else a static text that names the broken one.
 */
const char *wheel_check(const struct wheel *wheel);

/* The earliest due time of a node that is not ready, found by looking at all; WALL_NEVER if none.
 */
wall_ms wheel_check_earliest(const struct wheel *wheel);

/* A timer of the oracle. */
struct oracle_node {
    struct list link;
    wall_ms due_ms;
};

struct wheel_oracle {
    struct list pending; /* sorted by due, equal ones in order of adding */
    struct list fresh;   /* as in struct wheel */
    struct list late;    /* as in struct wheel */
    wall_ms reached;
    bool is_behind;
    bool took_late;
};

/* The oracle's calls mean what the wheel's calls of the same name mean. */
void oracle_init(struct wheel_oracle *oracle, wall_ms now);
void oracle_add(struct wheel_oracle *oracle, struct oracle_node *node, wall_ms due_ms);
void oracle_del(struct oracle_node *node);
MUST_USE struct oracle_node *oracle_take(struct wheel_oracle *oracle);

/*
 * Make ready what is due at `now`, as far as the wheel has come.
 *
 * shape: how far a budget goes is the wheel's own affair: reached is wheel_now() after the same
 *        advance, finished is what it returned.
 */
void oracle_advance(struct wheel_oracle *oracle, wall_ms now, wall_ms reached, bool finished);

#endif
