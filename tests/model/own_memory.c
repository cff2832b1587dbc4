/* SPDX-License-Identifier: Apache-2.0
 *
 * What a broker remembers of its shard and task, and what replies do to it.
 */
#include "tests/model/own.h"

#include <string.h>

static void forget_claim(struct own_broker *broker)
{
    broker->claim = broker->left = broker->start_by = 0;
    broker->is_armed = broker->is_begun = broker->is_inherited = broker->is_lost = 0;
    broker->claim_updated = 0;
}

static void forget(struct own_broker *broker)
{
    forget_claim(broker);
    broker->has = broker->due = broker->attempt = broker->updated = broker->expire = 0;
    broker->is_held = 0;
}

void own_answer(struct explore *explore, struct own_state *state, unsigned call, u8 answer,
                u8 attempt)
{
    static const char *const NAMES[] = {"create", "cancel", "update", "redrive"};
    bool is_done = (state->done >> call & 1U) != 0;

    for (unsigned i = 1; i <= ATTEMPTS; i++) {
        if (call == I_CANCEL && answer == A_OK && state->run[i] > 0) {
            own_fail(explore, P_CANCEL, "CANCELLED answered while attempt %u is running", i);
        }
    }
    if (answer == A_UNAVAILABLE && is_done) {
        own_fail(explore, P_K8, "K-8: UNAVAILABLE answered to a %s that had committed",
                 NAMES[call]);
    }
    if ((answer == A_OK || answer == A_MAYBE) && !is_done &&
        !(call == I_REDRIVE && state->db.has)) { // Another's redrive is as good.
        own_fail(explore, P_K8, "K-8: success answered to a %s that never committed", NAMES[call]);
    }
    state->answers[call] = answer;
    state->answer_attempts[call] = attempt;
}

void own_answer_waiting(struct explore *explore, struct own_state *state, struct own_broker *broker,
                        u8 answer)
{
    if (broker->waiting > 0) {
        own_answer(explore, state, broker->waiting - 1U, answer, broker->answer_attempt);
    }
    broker->waiting = broker->answer = broker->answer_attempt = 0;
}

/* Drop the shard at once; the owner znode, if it is ours, goes next. */
void own_drop(struct explore *explore, struct own_state *state, unsigned number)
{
    struct own_broker *broker = &state->brokers[number];

    own_answer_waiting(explore, state, broker, A_UNKNOWN);
    forget(broker);
    broker->epoch = broker->generation = broker->bumps = broker->mine = 0;
    broker->phase = broker->session && state->owner == number + 1 ? PH_DROPPED : PH_IDLE;
}

/* Name of a connection: broker, instance, number. Only by_blocker < 2 looks at the last two. */
static u8 writer_of(const struct own_broker *broker, unsigned number)
{
    unsigned name = 0x80U | number << 5;

    return (u8)(own.by_blocker == 2 ? name : name | broker->instance * 8U | broker->connection);
}

void own_send(struct own_state *state, unsigned number, u8 kind, u8 attempt)
{
    struct own_broker *broker = &state->brokers[number];

    broker->tx = (struct own_tx){.kind = kind,
                                 .state = T_SENT,
                                 .epoch = broker->epoch,
                                 .writer = writer_of(broker, number),
                                 .expected = broker->attempt,
                                 .attempt = attempt};
}

void own_load(struct own_state *state, unsigned number)
{
    struct own_broker *broker = &state->brokers[number];
    const struct own_db *db = &state->db;

    forget(broker);
    broker->has = db->has;
    if (!db->has) {
        broker->mine = 0;
        return;
    }
    broker->due = db->due;
    broker->attempt = db->attempt;
    broker->updated = db->updated;
    broker->expire = db->expire;
    broker->claim = own_live(db);
    if (broker->claim > 0) {
        broker->left = own_claim_left(db, broker->claim);
        broker->is_inherited = 1;
    }
    if (broker->mine != broker->claim || broker->claim == 0 ||
        db->claims[number][broker->claim] == 0) {
        broker->mine = 0;
    }
}

void own_send_bump(struct own_state *state, unsigned number)
{
    struct own_broker *broker = &state->brokers[number];

    if (!own.bump_first) {
        own_load(state, number);
    }
    broker->epoch = 0;
    own_send(state, number, K_BUMP, 0);
    broker->tx.epoch = (u8)(broker->generation * BUMPS + broker->bumps);
    broker->phase = PH_BUMPING;
}

/* Answer the waiting caller by what the database says. */
void own_look(struct explore *explore, struct own_state *state, struct own_broker *broker)
{
    const struct own_db *db = &state->db;
    bool in_effect = false;

    if (broker->waiting == 0) {
        return;
    }
    switch (broker->waiting - 1) {
    case I_CREATE:
    case I_REDRIVE:
        in_effect = db->has;
        break;
    case I_CANCEL:
        in_effect = !db->has;
        break;
    default:
        in_effect = db->has && db->updated;
        break;
    }
    own_answer_waiting(explore, state, broker, in_effect ? broker->answer : A_UNAVAILABLE);
}

void own_reconnect(struct own_broker *broker)
{
    if (own.by_blocker < 2 && broker->connection < 7) {
        broker->connection++;
    }
}

/* It is not known whether the last transaction committed. */
void own_unknown(struct explore *explore, struct own_state *state, unsigned number)
{
    struct own_broker *broker = &state->brokers[number];
    struct own_tx tx = broker->tx;
    u8 epoch = broker->epoch;
    bool is_bump = tx.kind == K_BUMP;
    bool is_claim = tx.kind == K_CLAIM || tx.kind == K_INSERT;

    memset(&broker->tx, 0, sizeof(broker->tx));
    own_reconnect(broker);
    if (is_claim || tx.kind == K_UNCLAIM) {
        broker->mine = tx.attempt;
    } else if (broker->is_armed) {
        broker->mine = broker->claim;
    }
    forget(broker);
    if (!own.rebump && !is_bump) {
        broker->phase = PH_LOOK;
        broker->epoch = epoch;
        return;
    }
    broker->bumps = (u8)(broker->bumps + (!is_bump || own.new_bump ? 1 : 0));
    if (broker->bumps <= own.bumps) {
        own_send_bump(state, number);
        return;
    }
    // No bump is left: a new generation, and another may have been owner in between.
    own_answer_waiting(explore, state, broker, A_UNKNOWN);
    broker->epoch = 0;
    broker->phase = state->owner == number + 1 ? PH_CREATED : PH_IDLE;
}

static void reply_bump(struct explore *explore, struct own_state *state, unsigned number, u8 epoch)
{
    struct own_broker *broker = &state->brokers[number];

    broker->epoch = epoch;
    if (!own.bump_first) {
        own_answer_waiting(explore, state, broker, A_UNKNOWN);
        broker->phase = PH_ACTIVE;
        return;
    }
    if (own.fenced_look && state->db.epoch != broker->epoch) {
        own_drop(explore, state, number);
        return;
    }
    own_load(state, number);
    own_look(explore, state, broker);
    broker->phase = PH_ACTIVE;
}

static void reply_settle(struct own_state *state, struct own_broker *broker,
                         const struct own_tx *tx)
{
    if (state->outcome[tx->attempt] > 0) {
        state->outcome[tx->attempt] = 0;
    }
    if (tx->outcome != OUT_RETRY) {
        forget(broker);
        return;
    }
    broker->attempt = own.end_attempt ? tx->attempt : 0;
    broker->due = own.greatest && broker->due > tx->due ? broker->due : tx->due;
    forget_claim(broker);
}

static void reply_claim(struct own_broker *broker, const struct own_tx *tx)
{
    forget_claim(broker);
    broker->claim = tx->attempt;
    broker->left = tx->left;
    broker->start_by = tx->start_by;
    broker->is_armed = 1;
    broker->claim_updated = broker->updated;
}

static void reply_write(struct own_state *state, struct own_broker *broker, const struct own_tx *tx)
{
    switch (tx->kind) {
    case K_INSERT:
        broker->has = 1;
        broker->due = tx->due;
        if (tx->attempt > 0) {
            reply_claim(broker, tx);
        }
        break;
    case K_CLAIM:
        reply_claim(broker, tx);
        break;
    case K_UNCLAIM:
        broker->attempt = own.end_attempt ? tx->attempt : broker->attempt;
        broker->mine = 0;
        forget_claim(broker);
        break;
    case K_SETTLE:
        reply_settle(state, broker, tx);
        break;
    case K_CANCEL:
    case K_EXPIRE:
        forget(broker);
        break;
    case K_UPDATE:
        broker->due = tx->due;
        broker->updated = 1;
        if (tx->attempt > 0) {
            broker->attempt = own.end_attempt ? tx->attempt : broker->attempt;
            forget_claim(broker);
        }
        break;
    case K_REDRIVE:
        broker->has = 1;
        broker->due = broker->updated = broker->expire = 0;
        broker->attempt = own.redrive_attempt ? tx->attempt : 0;
        break;
    default:
        break;
    }
}

void own_reply(struct explore *explore, struct own_state *state, unsigned number)
{
    struct own_broker *broker = &state->brokers[number];
    struct own_tx tx = broker->tx;

    memset(&broker->tx, 0, sizeof(broker->tx));
    if (tx.state == T_FENCED) {
        if (tx.kind != K_BUMP) { // The fence said no: nothing happened.
            own_answer_waiting(explore, state, broker, A_UNAVAILABLE);
        }
        own_drop(explore, state, number);
        return;
    }
    broker->is_held = 0;
    if (tx.kind == K_BUMP) {
        reply_bump(explore, state, number, tx.epoch);
    } else if (tx.state == T_MISSED) {
        own_answer_waiting(explore, state, broker, A_GONE);
        if (tx.kind != K_REDRIVE) {
            forget(broker); // Memory gives way.
        }
    } else {
        reply_write(state, broker, &tx);
        own_answer_waiting(explore, state, broker, broker->answer);
    }
}

static void check_start(struct explore *explore, const struct own_state *state,
                        const struct own_broker *broker)
{
    u8 attempt = broker->claim;
    const u8 *answers = state->answers;

    if (broker->start_by == 0) {
        own_fail(explore, P_START, "K-6: call of attempt %u started after its start_by", attempt);
    }
    if (attempt <= state->highest) {
        own_fail(explore, P_RISE, "attempt %u started after attempt %u had started", attempt,
                 state->highest);
    }
    for (unsigned i = 1; i <= ATTEMPTS; i++) {
        if (state->run[i] > 0) {
            own_fail(explore, P_K6, "K-6: attempt %u started while attempt %u may be running",
                     attempt, i);
        }
    }
    if (answers[I_CANCEL] == A_OK) {
        own_fail(explore, P_CANCEL, "call of attempt %u started after the answer CANCELLED",
                 attempt);
    }
    if (answers[I_CANCEL] == A_MAYBE && attempt > state->answer_attempts[I_CANCEL]) {
        own_fail(explore, P_CANCEL, "call of attempt %u started after the answer STOPPED at %u",
                 attempt, state->answer_attempts[I_CANCEL]);
    }
    if ((answers[I_UPDATE] == A_OK ||
         (answers[I_UPDATE] == A_MAYBE && attempt > state->answer_attempts[I_UPDATE])) &&
        !broker->claim_updated) {
        own_fail(explore, P_UPDATE,
                 "attempt %u started by the old due time after the update was answered", attempt);
    }
    if (broker->claim_updated && state->updated_due > 0) {
        own_fail(explore, P_EARLY, "attempt %u started before the updated due time", attempt);
    }
    if (state->recorded > 0) {
        own_fail(explore, P_AFTER, "attempt %u started after an outcome had been recorded",
                 attempt);
    }
    if (own.once && state->open_attempt > 0) {
        own_fail(explore, P_ONCE, "attempt %u started, at most once, though that of %u is unknown",
                 attempt, state->open_attempt);
    }
    if (own.expire > 0 && state->expire == 0 && state->redrives == 0) {
        own_fail(explore, P_EXPIRE, "attempt %u started after the task's time was over", attempt);
    }
}

/* The call of the live claim leaves a broker now. */
void own_start(struct explore *explore, struct own_state *state, unsigned number)
{
    struct own_broker *broker = &state->brokers[number];
    u8 attempt = broker->claim;

    check_start(explore, state, broker);
    if (attempt > state->highest) {
        state->highest = attempt;
    }
    state->open_attempt = attempt;
    state->run[attempt] = broker->left > 0 ? (u8)(1 + number) : 0;
    state->run_left[attempt] = broker->left;
    broker->is_armed = 0;
    broker->is_begun = 1;
}
