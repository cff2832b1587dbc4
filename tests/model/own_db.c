/* SPDX-License-Identifier: Apache-2.0
 *
 * The database: transactions are sent, executed (locks held) and committed. A write matches the
 * epoch and holds the shard's row against a bump, which needs it alone; waiting.
 */
#include "tests/model/own.h"

#include <string.h>

unsigned own_writer_broker(u8 writer)
{
    return writer >> 5 & 3U;
}

/* Attempt of the live claim, 0: none. Of several the highest counts. */
u8 own_live(const struct own_db *db)
{
    for (unsigned attempt = ATTEMPTS; db->has && attempt > db->attempt; attempt--) {
        for (unsigned i = 0; i < BROKERS; i++) {
            if (db->claims[i][attempt] > 0) {
                return (u8)attempt;
            }
        }
    }
    return 0;
}

u8 own_claim_left(const struct own_db *db, unsigned attempt)
{
    u8 left = 0;

    for (unsigned i = 0; i < BROKERS; i++) {
        if (db->claims[i][attempt] > left + 1) {
            left = (u8)(db->claims[i][attempt] - 1);
        }
    }
    return left;
}

static bool holds(const struct own_tx *tx, const struct own_tx *me, bool is_bump)
{
    return tx != me && tx->state == T_EXECUTED && (tx->kind == K_BUMP) == is_bump;
}

/* Whether another transaction holds the shard's row: writes share it, a bump has it alone. */
static bool is_held(const struct own_state *state, const struct own_tx *me, bool by_bump)
{
    for (unsigned i = 0; i < BROKERS; i++) {
        if (holds(&state->brokers[i].tx, me, by_bump)) {
            return true;
        }
    }
    for (unsigned i = 0; i < ORPHANS; i++) {
        if (holds(&state->orphans[i], me, by_bump)) {
            return true;
        }
    }
    return false;
}

bool own_may_execute(const struct own_state *state, const struct own_tx *tx)
{
    if (tx->state != T_SENT) {
        return false;
    }
    if (tx->kind == K_BUMP) {
        return (!own.lock || !is_held(state, tx, false)) && !is_held(state, tx, true);
    }
    return !own.lock || !is_held(state, tx, true);
}

void own_execute(struct own_state *state, struct own_tx *tx)
{
    bool is_ours;

    if (tx->kind != K_BUMP) {
        is_ours = state->db.epoch == tx->epoch;
    } else {
        if (!own.epoch_zk) {
            tx->epoch = (u8)(state->db.epoch + 1);
        }
        is_ours = !own.guard || state->db.epoch < tx->epoch;
    }
    tx->state = is_ours ? T_EXECUTED : T_FENCED;
}

static void commit_bump(struct explore *explore, struct own_state *state, struct own_tx *tx)
{
    struct own_db *db = &state->db;

    if ((state->used >> tx->epoch & 1U) != 0) {
        own_fail(explore, P_EPOCH, "epoch %u committed a second time", tx->epoch);
    }
    if (tx->epoch < db->epoch) {
        own_fail(explore, P_EPOCH, "epoch went back from %u to %u", db->epoch, tx->epoch);
    }
    state->used |= UINT32_C(1) << tx->epoch;
    db->epoch = tx->epoch;
    db->writer = own.by_blocker < 2 ? tx->writer : 0;
}

/* A user's call is in effect. */
static void call_done(struct explore *explore, struct own_state *state, unsigned call)
{
    static const char *const NAMES[] = {"create", "cancel", "update", "redrive"};

    if (state->answers[call] == A_UNAVAILABLE) {
        own_fail(explore, P_K8, "K-8: %s answered UNAVAILABLE committed afterwards", NAMES[call]);
    }
    state->done |= (u8)(1U << call);
}

static void record_outcome(struct explore *explore, struct own_state *state, u8 kind, u8 attempt)
{
    state->db.has = 0;
    if (kind == OUT_DEAD) {
        state->db.dead = 1;
        state->db.dead_attempt = attempt;
    }
    if (++state->recorded > 1) {
        own_fail(explore, P_K3, "K-3: second outcome recorded");
    }
}

static void commit_settle(struct explore *explore, struct own_state *state, const struct own_tx *tx)
{
    struct own_db *db = &state->db;
    u8 live = own_live(db);

    if (live != 0 && live != tx->attempt) {
        own_fail(explore, P_K3, "K-3: outcome of attempt %u recorded while %u is the live claim",
                 tx->attempt, live);
    }
    if (tx->outcome != OUT_RETRY) {
        record_outcome(explore, state, tx->outcome, tx->attempt);
        return;
    }
    db->attempt = own.end_attempt ? tx->attempt : 0;
    if (!own.greatest || db->due < tx->due) {
        db->due = tx->due;
    }
    if (state->open_attempt == tx->attempt && !tx->is_unknown) {
        state->open_attempt = 0;
    }
}

static void commit_redrive(struct explore *explore, struct own_state *state, struct own_tx *tx)
{
    struct own_db *db = &state->db;

    if (!db->dead || (own.redrive_expected && db->dead_attempt != tx->attempt)) {
        tx->state = T_MISSED;
        return;
    }
    call_done(explore, state, I_REDRIVE);
    db->has = 1;
    db->due = db->updated = db->dead = db->dead_attempt = 0;
    db->expire = 0;
    db->attempt = own.redrive_attempt ? tx->attempt : 0;
    state->recorded = 0;
    state->open_attempt = 0; // A user has asked for it.
}

static void commit_insert(struct explore *explore, struct own_state *state, const struct own_tx *tx)
{
    struct own_db *db = &state->db;

    call_done(explore, state, I_CREATE);
    db->has = 1;
    db->due = tx->due;
    db->attempt = db->updated = 0;
    if (tx->attempt > 0) {
        db->claims[own_writer_broker(tx->writer)][tx->attempt] = (u8)(1 + tx->left);
    }
}

static void commit_update(struct explore *explore, struct own_state *state, const struct own_tx *tx)
{
    struct own_db *db = &state->db;

    call_done(explore, state, I_UPDATE);
    db->due = tx->due;
    db->updated = 1;
    state->updated_due = tx->due;
    if (own.end_attempt && tx->attempt > db->attempt) {
        db->attempt = tx->attempt;
    }
}

/* A write whose row is as it expects. */
static void commit_write(struct explore *explore, struct own_state *state, struct own_tx *tx)
{
    struct own_db *db = &state->db;

    switch (tx->kind) {
    case K_CLAIM:
        db->claims[own_writer_broker(tx->writer)][tx->attempt] = (u8)(1 + tx->left);
        break;
    case K_UNCLAIM:
        db->attempt = own.end_attempt ? tx->attempt : db->attempt;
        break;
    case K_SETTLE:
        commit_settle(explore, state, tx);
        break;
    case K_CANCEL:
        call_done(explore, state, I_CANCEL);
        db->has = 0;
        state->cancelled = 1;
        break;
    case K_UPDATE:
        commit_update(explore, state, tx);
        break;
    case K_EXPIRE:
        if (own_live(db) != 0) {
            own_fail(explore, P_K3, "K-3: expired while attempt %u is the live claim",
                     own_live(db));
        }
        record_outcome(explore, state, OUT_DONE, 0);
        break;
    default:
        break;
    }
}

void own_commit(struct explore *explore, struct own_state *state, struct own_tx *tx)
{
    static const char *const KINDS[] = {"-",        "bump",   "insert", "claim",
                                        "un-claim", "settle", "cancel", "update",
                                        "redrive",  "expire", "ping"};
    const struct own_db *db = &state->db;

    tx->state = T_DONE;
    if (tx->kind == K_BUMP) {
        commit_bump(explore, state, tx);
        return;
    }
    if (tx->epoch != db->epoch) {
        own_fail(explore, P_K5, "K-5: %s of epoch %u became visible under epoch %u",
                 KINDS[tx->kind], tx->epoch, db->epoch);
    }
    if (tx->kind == K_INSERT) {
        commit_insert(explore, state, tx);
    } else if (tx->kind == K_REDRIVE) {
        commit_redrive(explore, state, tx);
    } else if (!db->has || db->attempt != tx->expected) {
        tx->state = T_MISSED;
        if (tx->kind == K_CLAIM) {
            own_fail(explore, P_KNOWN, "a claim of a row that is not as its owner knows it");
        }
    } else {
        commit_write(explore, state, tx);
    }
}

static bool is_open(const struct own_tx *tx)
{
    return tx->state == T_SENT || tx->state == T_EXECUTED;
}

bool own_may_orphan(const struct own_state *state, const struct own_tx *tx)
{
    return !is_open(tx) || state->orphans[0].kind == K_NONE || state->orphans[1].kind == K_NONE;
}

/* The client lets go of a transaction; the database may go on with it. */
void own_orphan(struct own_state *state, struct own_tx *tx)
{
    if (is_open(tx)) {
        state->orphans[state->orphans[0].kind == K_NONE ? 0 : 1] = *tx;
    }
    memset(tx, 0, sizeof(*tx));
}

void own_db_tick(struct own_db *db)
{
    db->due = db->due > 0 ? (u8)(db->due - 1) : 0;
    db->expire = db->expire > 0 ? (u8)(db->expire - 1) : 0;
    for (unsigned i = 0; i < BROKERS; i++) {
        for (unsigned attempt = 1; attempt <= ATTEMPTS; attempt++) {
            u8 *claim = &db->claims[i][attempt];

            *claim = *claim > 1 ? (u8)(*claim - 1) : *claim;
        }
    }
}
