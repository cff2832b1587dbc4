/* SPDX-License-Identifier: Apache-2.0
 *
 * Model of ownership, fencing, claims and calls (promises K-1, K-3 … K-6, K-8): brokers that pause,
 * crash, lose sessions and replies; one shard, one task. Time is relative, ticks that are left, so
 * that it never runs out. Besides the promises: the memory of the present owner is what the
 * database says, an epoch commits once, and from everywhere a path without faults leads to one
 * owner and to the end of the task.
 */
#include "tests/model/own.h"

#include "tests/model/models.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void own_fail(struct explore *explore, int promise, const char *format, ...)
{
    char text[160];
    va_list args;

    if ((own.props & promise) == 0) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    explore_fail(explore, "%s", text);
}

/* Leave out what nobody can tell apart: claims that are dead for ever, the order of orphans. */
static void tidy(struct own_state *state)
{
    struct own_db *db = &state->db;

    for (unsigned i = 0; i < BROKERS; i++) {
        for (unsigned attempt = 1; attempt <= ATTEMPTS; attempt++) {
            if (!db->has || attempt <= db->attempt) {
                db->claims[i][attempt] = 0;
            }
        }
    }
    if (!db->has) {
        db->due = db->attempt = db->updated = db->expire = 0;
    }
    if (memcmp(&state->orphans[0], &state->orphans[1], sizeof(struct own_tx)) < 0) {
        struct own_tx first = state->orphans[0];

        state->orphans[0] = state->orphans[1];
        state->orphans[1] = first;
    }
}

static bool agrees(const struct own_broker *broker, const struct own_db *db)
{
    u8 live = own_live(db);

    return broker->has == db->has &&
           (!db->has || (broker->due == db->due && broker->attempt == db->attempt &&
                         broker->updated == db->updated && broker->claim == live &&
                         (live == 0 || broker->left == own_claim_left(db, live))));
}

void own_end(struct explore *explore, struct own_state *state)
{
    tidy(state);
    for (unsigned i = 0; i < BROKERS; i++) {
        const struct own_broker *broker = &state->brokers[i];

        if (broker->phase != PH_ACTIVE) {
            continue;
        }
        if (broker->epoch == state->db.epoch && broker->tx.kind == K_NONE &&
            !agrees(broker, &state->db)) {
            own_fail(explore, P_AGREE,
                     "memory of the present owner %u differs from the database (a row in nobody's "
                     "hands)",
                     i);
        }
        for (unsigned k = 0; k < i; k++) {
            if (state->brokers[k].phase == PH_ACTIVE && state->brokers[k].epoch == broker->epoch) {
                own_fail(explore, P_EPOCH, "two brokers active under the same epoch %u",
                         broker->epoch);
            }
        }
    }
    if (state->answers[I_CREATE] == A_OK && !state->db.has && state->recorded == 0 &&
        !state->cancelled) {
        own_fail(explore, P_LOST, "K-1: answered create is lost");
    }
    explore_end(explore);
}

static void dec(u8 *value)
{
    *value = *value > 0 ? (u8)(*value - 1) : 0;
}

static void tick_tx(struct own_tx *tx)
{
    dec(&tx->due);
    dec(&tx->left);
    dec(&tx->start_by);
}

static void tick(struct own_state *state)
{
    own_db_tick(&state->db);
    if (own.failovers > 0) {
        own_db_tick(&state->standby);
    }
    for (unsigned i = 0; i < BROKERS; i++) {
        struct own_broker *broker = &state->brokers[i];

        dec(&broker->due);
        dec(&broker->left);
        dec(&broker->start_by);
        dec(&broker->expire);
        tick_tx(&broker->tx);
    }
    for (unsigned i = 0; i < ORPHANS; i++) {
        tick_tx(&state->orphans[i]);
    }
    for (unsigned i = 1; i <= ATTEMPTS; i++) {
        dec(&state->run_left[i]);
        if (state->run_left[i] == 0) {
            state->run[i] = 0; // The attempt's own time limit ends it before the deadline.
        }
    }
    dec(&state->updated_due);
    dec(&state->expire);
}

/* Counted as faults: no recovery may rely on them. */
static void add_orphan(struct explore *explore, const struct own_state *state, unsigned number)
{
    const struct own_tx *tx = &state->orphans[number];
    struct own_state *next;

    if (tx->kind == K_NONE) {
        return;
    }
    if (own_may_execute(state, tx)) {
        next = explore_begin(explore, state, S_ORPHAN_EXECUTES, number, true);
        own_execute(next, &next->orphans[number]);
        if (next->orphans[number].state != T_EXECUTED) {
            memset(&next->orphans[number], 0, sizeof(*tx));
        }
        own_end(explore, next);
    }
    if (tx->state == T_EXECUTED) {
        next = explore_begin(explore, state, S_ORPHAN_COMMITS, number, true);
        own_commit(explore, next, &next->orphans[number]);
        memset(&next->orphans[number], 0, sizeof(*tx));
        own_end(explore, next);
    }
    next = explore_begin(explore, state, S_ORPHAN_ABORTS, number, true);
    memset(&next->orphans[number], 0, sizeof(*tx));
    own_end(explore, next);
}

static void end_call(struct explore *explore, const struct own_state *state, unsigned attempt,
                     enum own_step step, unsigned outcome)
{
    struct own_state *next = explore_begin(explore, state, (uint32_t)step, attempt, false);
    unsigned by = state->run[attempt] - 1U;

    if (state->run[attempt] != CALLER_DIED) {
        next->outcome[attempt] = (u8)(outcome | by << 2);
    }
    next->run[attempt] = next->run_left[attempt] = 0;
    own_end(explore, next);
}

/* The receiver of an attempt. */
static void add_receiver(struct explore *explore, const struct own_state *state, unsigned attempt)
{
    u8 by = state->run[attempt];
    struct own_state *next;

    if (by == 0) {
        return;
    }
    end_call(explore, state, attempt, S_DONE, OUT_DONE);
    if (by == CALLER_DIED) {
        return;
    }
    if (own.retry) {
        end_call(explore, state, attempt, S_RETRY, OUT_RETRY);
    }
    if ((own.calls & CALL_REDRIVE) != 0) {
        end_call(explore, state, attempt, S_DEAD, OUT_DEAD);
    }
    if (state->losses < own.losses) {
        next = explore_begin(explore, state, S_LOSE, attempt, true);
        next->losses++;
        next->run[attempt] = CALLER_DIED;
        if (next->brokers[by - 1].claim == attempt) {
            next->brokers[by - 1].is_lost = 1;
        }
        own_end(explore, next);
    }
}

/* A broker that is owner no more, or not any longer, deletes a row whose ids it no longer counts.
 */
static void add_drops(struct explore *explore, const struct own_state *state, unsigned number)
{
    for (unsigned attempt = 1; !own.drop_known && attempt <= ATTEMPTS; attempt++) {
        if (state->brokers[number].up && state->brokers[number].phase == PH_IDLE &&
            state->db.claims[number][attempt] > 0) {
            struct own_state *next = explore_begin(explore, state, S_DROP_ROW, number, false);

            next->db.claims[number][attempt] = 0;
            own_end(explore, next);
        }
    }
}

static void fail_over(struct own_state *state)
{
    state->failovers++;
    state->db = state->standby;
    memset(&state->standby, 0, sizeof(state->standby));
    memset(state->orphans, 0, sizeof(state->orphans));
    for (unsigned i = 0; i < BROKERS; i++) {
        struct own_broker *broker = &state->brokers[i];

        if (broker->tx.kind != K_NONE) {
            broker->tx.state = T_LOST;
        } else if (own.timeline && (broker->phase == PH_ACTIVE || broker->phase == PH_RELEASING)) {
            broker->tx.kind = K_PING;
            broker->tx.state = T_LOST;
        }
    }
}

static void add_database(struct explore *explore, const struct own_state *state)
{
    struct own_state *next;

    if (state->failovers < own.failovers) {
        next = explore_begin(explore, state, S_REPLICATE, 0, false);
        next->standby = next->db;
        own_end(explore, next);
        if (memcmp(&state->standby, &state->db, sizeof(state->db)) != 0) {
            next = explore_begin(explore, state, S_FAILOVER, 0, true);
            fail_over(next);
            own_end(explore, next);
        }
    }
    if (own.step && !state->stepped) {
        next = explore_begin(explore, state, S_CLOCK_STEP, 0, true);
        next->stepped = 1;
        for (unsigned i = 0; i < DEADLINE; i++) {
            own_db_tick(&next->db);
        }
        own_end(explore, next);
    }
}

static void next_states(struct explore *explore, const void *from)
{
    const struct own_state *state = from;
    struct own_state *next = explore_begin(explore, state, S_TICK, 0, false);

    tick(next);
    own_end(explore, next);
    for (unsigned i = 0; i < (unsigned)own.brokers; i++) {
        own_add_broker(explore, state, i);
        add_drops(explore, state, i);
    }
    for (unsigned i = 0; i < ORPHANS; i++) {
        add_orphan(explore, state, i);
    }
    for (unsigned i = 1; i <= ATTEMPTS; i++) {
        add_receiver(explore, state, i);
    }
    add_database(explore, state);
}

static void start(void *to)
{
    struct own_state *state = to;
    bool is_there = (own.calls & CALL_CREATE) == 0;

    for (unsigned i = 0; i < (unsigned)own.brokers; i++) {
        state->brokers[i].up = state->brokers[i].session = 1;
    }
    state->owner = state->version = 1;
    state->used = UINT32_C(1) << BUMPS;
    state->expire = is_there ? (u8)own.expire : 0;
    state->db = (struct own_db){.epoch = BUMPS,
                                .has = is_there,
                                .expire = state->expire,
                                .writer = own.by_blocker < 2 ? 0x80 : 0};
    state->brokers[0].generation = 1;
    state->brokers[0].epoch = BUMPS;
    state->brokers[0].phase = PH_ACTIVE;
    state->brokers[0].has = is_there;
    state->brokers[0].expire = state->expire;
    if (own.failovers > 0) {
        state->standby = state->db;
    }
}

static bool is_goal(const void *of)
{
    const struct own_state *state = of;

    for (unsigned i = 0; i < BROKERS && !state->db.has; i++) {
        const struct own_broker *broker = &state->brokers[i];

        if (broker->up && broker->session && broker->phase == PH_ACTIVE && state->owner == i + 1 &&
            broker->epoch == state->db.epoch) {
            return true;
        }
    }
    return own.failovers > 0; // What is lost with a standby never comes to an end.
}

const struct model model_own = {.name = "own",
                                .state_bytes = sizeof(struct own_state),
                                .steps = own_steps_table,
                                .options = own_rules,
                                .start = start,
                                .next = next_states,
                                .is_goal = is_goal,
                                .print = own_print};
