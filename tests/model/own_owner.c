/* SPDX-License-Identifier: Apache-2.0
 *
 * What a broker may do about its shard: sessions, znodes, transactions, faults.
 */
#include "tests/model/own.h"

#include <string.h>

static struct own_state *begin(struct explore *explore, const struct own_state *state,
                               enum own_step step, unsigned number, bool is_fault)
{
    return explore_begin(explore, state, (uint32_t)step, number, is_fault);
}

static void end_session(struct own_state *state, unsigned number)
{
    state->brokers[number].session = 0;
    if (state->owner == number + 1) {
        state->owner = 0;
    }
}

static void add_down(struct explore *explore, const struct own_state *state, unsigned number)
{
    struct own_state *next;

    if (state->brokers[number].session) {
        next = begin(explore, state, S_EXPIRE, number, false);
        end_session(next, number);
    } else {
        struct own_broker *broker;

        next = begin(explore, state, S_RESTART, number, false);
        broker = &next->brokers[number];
        broker->up = broker->session = 1;
        broker->connection = 0;
        broker->instance = own.by_blocker < 2 && broker->instance < 3 ? (u8)(broker->instance + 1)
                                                                      : broker->instance;
    }
    own_end(explore, next);
}

/* Memory is lost; what the database has of it goes on. */
static void crash(struct explore *explore, struct own_state *state, unsigned number)
{
    struct own_broker *broker = &state->brokers[number];
    struct own_broker fresh = {.instance = broker->instance, .session = broker->session};

    state->crashes++;
    own_orphan(state, &broker->tx);
    own_answer_waiting(explore, state, broker, A_UNKNOWN);
    *broker = fresh;
    for (unsigned i = 1; i <= ATTEMPTS; i++) {
        if (state->run[i] == number + 1) {
            state->run[i] = CALLER_DIED;
        }
        if (state->outcome[i] > 0 && state->outcome[i] >> 2 == number) {
            state->outcome[i] = 0;
        }
    }
}

static void give_up(struct explore *explore, struct own_state *state, unsigned number)
{
    struct own_broker *broker = &state->brokers[number];
    struct own_tx tx = broker->tx;

    state->unknowns++;
    own_orphan(state, &broker->tx);
    broker->tx = tx;
    own_unknown(explore, state, number);
}

static void add_faults(struct explore *explore, const struct own_state *state, unsigned number)
{
    const struct own_broker *broker = &state->brokers[number];
    bool is_idle = broker->tx.kind == K_NONE;
    bool may_orphan = own_may_orphan(state, &broker->tx);
    struct own_state *next;

    if (broker->session && state->expiries < own.expiries) {
        next = begin(explore, state, S_EXPIRE, number, true);
        next->expiries++;
        end_session(next, number);
        own_end(explore, next);
    }
    if (state->crashes < own.crashes && may_orphan) {
        next = begin(explore, state, S_CRASH, number, true);
        crash(explore, next, number);
        own_end(explore, next);
    }
    if (!is_idle && broker->tx.state != T_LOST && state->unknowns < own.unknowns && may_orphan) {
        next = begin(explore, state, S_GIVE_UP, number, true);
        give_up(explore, next, number);
        own_end(explore, next);
    }
    if (is_idle && broker->phase == PH_ACTIVE && state->unknowns < own.unknowns &&
        own.by_blocker < 2) {
        next = begin(explore, state, S_IDLE_LOSS, number, true);
        next->unknowns++;
        next->brokers[number].connection++;
        own_end(explore, next);
    }
    if (!broker->session && may_orphan) {
        next = begin(explore, state, S_NOTICE, number, false);
        if (!is_idle) {
            own_orphan(next, &next->brokers[number].tx);
            own_reconnect(&next->brokers[number]);
        }
        own_drop(explore, next, number);
        next->brokers[number].phase = PH_IDLE;
        next->brokers[number].session = 1;
        own_end(explore, next);
    }
}

/* Whether a bump of another is under way. */
static bool is_bumped(const struct own_state *state, unsigned number)
{
    bool is = false;

    for (unsigned i = 0; i < BROKERS; i++) {
        is = is || (i != number && state->brokers[i].tx.kind == K_BUMP);
    }
    return is || state->orphans[0].kind == K_BUMP || state->orphans[1].kind == K_BUMP;
}

/* The transaction of the broker's own connection. A write executes, commits and is answered in one
 * step, or stops before the commit if a bump is under way: later and lost replies, and crashes in
 * between, are covered by the steps of the others, by giving up and by the orphans. */
static void add_transaction(struct explore *explore, const struct own_state *state, unsigned number)
{
    const struct own_tx *tx = &state->brokers[number].tx;
    bool is_bump = tx->kind == K_BUMP;
    bool may_execute = own_may_execute(state, tx);
    struct own_state *next;
    struct own_tx *own_tx;

    if (tx->state == T_LOST) {
        next = begin(explore, state, S_LOST, number, false);
        own_unknown(explore, next, number);
        own_end(explore, next);
    }
    if (may_execute || tx->state == T_EXECUTED) {
        next = begin(explore, state, S_COMMIT, number, false);
        own_tx = &next->brokers[number].tx;
        if (may_execute) {
            own_execute(next, own_tx);
        }
        if (own_tx->state == T_EXECUTED) {
            own_commit(explore, next, own_tx);
        }
        if (!is_bump) {
            own_reply(explore, next, number);
        }
        own_end(explore, next);
    }
    if (may_execute && !is_bump && is_bumped(state, number)) {
        next = begin(explore, state, S_EXECUTE, number, false);
        own_execute(next, &next->brokers[number].tx);
        own_end(explore, next);
    }
    if (tx->state == T_DONE || tx->state == T_FENCED) {
        next = begin(explore, state, S_REPLY, number, false);
        own_reply(explore, next, number);
        own_end(explore, next);
    }
}

/* Whether a bump takes this transaction for one that blocks it. */
static bool is_blocker(const struct own_state *state, const struct own_tx *tx)
{
    if (tx->state != T_SENT && tx->state != T_EXECUTED) {
        return false;
    }
    if (own.by_blocker == 2) {
        return tx->state == T_EXECUTED;
    }
    return own.by_blocker == 0 ? tx->writer == state->db.writer
                               : tx->writer >> 3 == state->db.writer >> 3;
}

/* End what blocks a bump. False: nothing does. */
static bool terminate(struct explore *explore, struct own_state *state, unsigned number,
                      bool is_stale)
{
    bool is_hit = false;

    for (unsigned i = 0; i < BROKERS + ORPHANS; i++) {
        struct own_tx *tx = i < BROKERS ? &state->brokers[i].tx : &state->orphans[i - BROKERS];

        if (i == number || !is_blocker(state, tx)) {
            continue;
        }
        is_hit = true;
        if (i < BROKERS && is_stale && tx->epoch == state->db.epoch) {
            own_fail(explore, P_TERM,
                     "a superseded broker terminated the present owner's connection");
        }
        if (i < BROKERS) {
            tx->state = T_LOST;
        } else {
            memset(tx, 0, sizeof(*tx));
        }
    }
    return is_hit;
}

/* A bump that waits for its lock. */
static void add_blocked_bump(struct explore *explore, const struct own_state *state,
                             unsigned number)
{
    const struct own_tx *tx = &state->brokers[number].tx;
    bool is_stale = state->db.epoch >= tx->epoch && own.guard && own.epoch_zk;
    struct own_state *next;

    if (tx->kind != K_BUMP || tx->state != T_SENT || own_may_execute(state, tx)) {
        return;
    }
    if (is_stale && own.row_first) {
        next = begin(explore, state, S_SUPERSEDED, number, false);
        memset(&next->brokers[number].tx, 0, sizeof(*tx));
        own_drop(explore, next, number);
        own_end(explore, next);
        return;
    }
    next = begin(explore, state, S_TERMINATE, number, false);
    if (terminate(explore, next, number, is_stale)) {
        own_end(explore, next);
    }
}

static void add_idle(struct explore *explore, const struct own_state *state, unsigned number)
{
    struct own_state *next;

    if (state->owner == 0) {
        next = begin(explore, state, S_CREATE, number, false);
        next->owner = (u8)(number + 1);
        next->brokers[number].phase = PH_CREATED;
        own_end(explore, next);
        if (state->ambiguous < own.ambiguous) {
            next = begin(explore, state, S_CREATE_LOST, number, true);
            next->ambiguous++;
            next->owner = (u8)(number + 1);
            own_end(explore, next);
        }
    } else if (state->owner == number + 1) {
        next = begin(explore, state, S_READ_BACK, number, false);
        next->brokers[number].phase = PH_CREATED;
        own_end(explore, next);
    }
}

static void get_generation(struct own_state *state, unsigned number)
{
    state->brokers[number].generation = state->version;
    state->brokers[number].bumps = 0;
    state->brokers[number].phase = PH_GENERATION;
}

static void add_created(struct explore *explore, const struct own_state *state, unsigned number)
{
    struct own_state *next;

    if (state->version >= GENERATIONS) {
        return;
    }
    next = begin(explore, state, S_RAISE, number, false);
    next->version++;
    get_generation(next, number);
    own_end(explore, next);
    if (state->ambiguous < own.ambiguous) {
        next = begin(explore, state, S_RAISE_LOST, number, true);
        next->ambiguous++;
        next->version++;
        if (!own.version_reply) {
            next->brokers[number].phase = PH_READ_VERSION;
        }
        own_end(explore, next);
    }
}

static void add_check(struct explore *explore, const struct own_state *state, unsigned number)
{
    struct own_state *next;

    if (own.check_znode && !state->brokers[number].session) {
        return;
    }
    next = begin(explore, state, S_CHECK, number, false);
    if (own.check_znode && next->owner != number + 1) {
        own_drop(explore, next, number);
    } else {
        own_send_bump(next, number);
    }
    own_end(explore, next);
}

static void delete_znode(struct explore *explore, const struct own_state *state, unsigned number)
{
    struct own_state *next = begin(explore, state, S_DELETE, number, false);

    own_drop(explore, next, number);
    if (next->owner == number + 1) {
        next->owner = 0;
    }
    next->brokers[number].phase = PH_IDLE;
    own_end(explore, next);
}

/* Nothing is claimed any more: what has not started is given back, then the znode goes. */
static void add_releasing(struct explore *explore, const struct own_state *state, unsigned number)
{
    const struct own_broker *broker = &state->brokers[number];
    struct own_state *next;

    if (broker->tx.kind != K_NONE) {
        return;
    }
    if (broker->is_armed || (!own.release_keeps && broker->claim > 0 && !broker->is_inherited) ||
        (!own.release_inherited && broker->claim > 0)) {
        next = begin(explore, state, S_UNCLAIM, number, false);
        own_send(next, number, K_UNCLAIM, broker->claim);
        if (own.busy) {
            next->brokers[number].is_held = 1;
            next->brokers[number].is_armed = 0;
        }
        own_end(explore, next);
    } else if (broker->session) {
        delete_znode(explore, state, number);
    }
}

static void add_ownership(struct explore *explore, const struct own_state *state, unsigned number)
{
    const struct own_broker *broker = &state->brokers[number];
    struct own_state *next;

    switch (broker->phase) {
    case PH_IDLE:
        if (broker->session) {
            add_idle(explore, state, number);
        }
        break;
    case PH_CREATED:
        if (broker->session) {
            add_created(explore, state, number);
        }
        break;
    case PH_READ_VERSION:
        if (broker->session) {
            next = begin(explore, state, S_READ_VERSION, number, false);
            get_generation(next, number);
            own_end(explore, next);
        }
        break;
    case PH_GENERATION:
        add_check(explore, state, number);
        break;
    case PH_LOOK:
        next = begin(explore, state, S_LOOK, number, false);
        own_load(next, number);
        own_look(explore, next, &next->brokers[number]);
        next->brokers[number].phase = PH_ACTIVE;
        own_end(explore, next);
        break;
    case PH_DROPPED:
        if (broker->session) {
            delete_znode(explore, state, number);
        }
        break;
    case PH_RELEASING:
        add_releasing(explore, state, number);
        break;
    case PH_ACTIVE:
        if (state->releases < own.releases && broker->session) {
            next = begin(explore, state, S_RELEASE, number, true);
            next->releases++;
            next->brokers[number].phase = PH_RELEASING;
            own_end(explore, next);
        }
        break;
    default:
        break;
    }
}

void own_add_broker(struct explore *explore, const struct own_state *state, unsigned number)
{
    if (!state->brokers[number].up) {
        add_down(explore, state, number);
        return;
    }
    add_faults(explore, state, number);
    add_transaction(explore, state, number);
    add_blocked_bump(explore, state, number);
    add_ownership(explore, state, number);
    own_add_task(explore, state, number);
}
