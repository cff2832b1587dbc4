/* SPDX-License-Identifier: Apache-2.0
 *
 * What a broker may do about its task: claims, calls, outcomes, users.
 */
#include "tests/model/own.h"

static struct own_state *begin(struct explore *explore, const struct own_state *state,
                               enum own_step step, unsigned number)
{
    return explore_begin(explore, state, (uint32_t)step, number, false);
}

/* The call needs memory and the clock only, so it comes also while a write is in flight. */
static void add_call(struct explore *explore, const struct own_state *state, unsigned number)
{
    const struct own_broker *broker = &state->brokers[number];
    bool may = broker->phase == PH_ACTIVE || (!own.busy && broker->phase == PH_RELEASING);
    struct own_state *next;

    if (!may || !broker->is_armed || (broker->is_held && own.busy) || broker->due > 0) {
        return;
    }
    if (own.gap && broker->is_armed == 1 && broker->start_by > 0) {
        next = begin(explore, state, S_CHECK_CALL, number);
        next->brokers[number].is_armed = 2;
        own_end(explore, next);
    }
    if (own.gap ? broker->is_armed == 2 : broker->start_by > 0 || !own.start_by) {
        next = begin(explore, state, S_CALL, number);
        own_start(explore, next, number);
        own_end(explore, next);
    }
}

/* Send a write of the task; nothing else is done with it until that is known. */
static struct own_tx *send_write(struct own_state *state, unsigned number, u8 kind, u8 attempt)
{
    own_send(state, number, kind, attempt);
    state->brokers[number].is_held = 1;
    return &state->brokers[number].tx;
}

static u8 outcome_of(u8 word, u8 attempt)
{
    return word == OUT_RETRY && attempt >= own.attempts ? OUT_DEAD : word;
}

static void add_outcome(struct explore *explore, const struct own_state *state, unsigned number,
                        u8 attempt)
{
    const struct own_broker *broker = &state->brokers[number];
    bool is_live = broker->has && broker->claim == attempt && !broker->is_armed;
    struct own_state *next;

    if (!own.settle_first && broker->has && attempt > broker->attempt && attempt <= broker->claim) {
        is_live = true; // Nothing says that the claim before the last is over.
    }
    if (is_live) {
        next = begin(explore, state, S_DELIVER, number);
        send_write(next, number, K_SETTLE, attempt)->outcome =
            outcome_of(next->outcome[attempt] & 3, attempt);
        own_end(explore, next);
        return;
    }
    next = begin(explore, state, S_REFUSE, number);
    if (own.fenced_refusal && state->db.epoch != broker->epoch) {
        own_drop(explore, next, number);
    } else {
        if (own_live(&state->db) == attempt) {
            own_fail(explore, P_REFUSE,
                     "outcome of the live attempt %u refused by a broker that was owner no more",
                     attempt);
        }
        next->outcome[attempt] = 0;
    }
    own_end(explore, next);
}

/* What its deadline says of a claim whose outcome nobody knows. */
static void add_overdue(struct explore *explore, const struct own_state *state, unsigned number)
{
    const struct own_broker *broker = &state->brokers[number];
    bool is_unknown = broker->is_inherited || broker->is_begun;
    bool is_early = own.once && !own.once_held && broker->is_lost;
    bool is_dead = own.once && (own.once_inherited || !broker->is_inherited);
    struct own_tx *tx;
    struct own_state *next;

    if (!broker->has || broker->claim == 0 || !is_unknown || broker->is_armed || broker->is_held ||
        !own.settle_first || (broker->left > 0 && own.wait_deadline && !is_early)) {
        return;
    }
    next = begin(explore, state, S_OVERDUE, number);
    tx = send_write(next, number, K_SETTLE, broker->claim);
    tx->is_unknown = 1;
    tx->outcome = is_dead ? OUT_DEAD : outcome_of(OUT_RETRY, broker->claim);
    own_end(explore, next);
}

static void add_claim(struct explore *explore, const struct own_state *state, unsigned number)
{
    const struct own_broker *broker = &state->brokers[number];
    bool is_free = broker->claim == 0 || (!own.settle_first && broker->left == 0);
    u8 attempt = (u8)((broker->claim > broker->attempt ? broker->claim : broker->attempt) + 1);
    bool is_expired =
        own.expire > 0 && own.expire_stops && broker->expire == 0 && state->redrives == 0;
    struct own_state *next;
    struct own_tx *tx;

    if (!broker->has || broker->is_held || broker->due > 0 || broker->is_armed || !is_free ||
        is_expired) {
        return;
    }
    if (attempt > own.attempts) { // A bound of the model.
        next = begin(explore, state, S_USED_UP, number);
        send_write(next, number, K_SETTLE, broker->attempt)->outcome = OUT_DEAD;
    } else {
        next = begin(explore, state, S_CLAIM, number);
        own_send(next, number, K_CLAIM, attempt);
        tx = &next->brokers[number].tx;
        tx->left = DEADLINE;
        tx->start_by =
            own.expire > 0 && own.expire_stops && broker->expire < START_BY && state->redrives == 0
                ? broker->expire
                : START_BY;
    }
    own_end(explore, next);
}

/* Claims that are given back, and the end of the task's time. */
static void add_ends(struct explore *explore, const struct own_state *state, unsigned number)
{
    const struct own_broker *broker = &state->brokers[number];
    bool is_mine = own.mine ? broker->mine == broker->claim : true;
    struct own_state *next;

    if (!broker->has || broker->is_held) {
        return;
    }
    if ((broker->is_armed && broker->start_by == 0 && own.start_by) ||
        (broker->claim > 0 && broker->is_inherited && is_mine)) {
        next = begin(explore, state, S_UNCLAIM, number);
        (void)send_write(next, number, K_UNCLAIM, broker->claim);
        next->brokers[number].is_armed = 0;
        own_end(explore, next);
    }
    if (own.expire > 0 && broker->expire == 0 && state->redrives == 0 &&
        (broker->claim == 0 || (!own.expire_unclaimed && !broker->is_armed))) {
        next = begin(explore, state, S_EXPIRED, number);
        (void)send_write(next, number, K_EXPIRE, 0);
        own_end(explore, next);
    }
}

/* A call's write, and what to tell the caller if it commits. */
static struct own_tx *send_call(struct explore *explore, struct own_state *state, unsigned number,
                                unsigned call, u8 kind)
{
    struct own_broker *broker = &state->brokers[number];

    own_answer(explore, state, call, A_PENDING, 0);
    own_send(state, number, kind, 0);
    broker->waiting = (u8)(call + 1);
    broker->answer = A_OK;
    return &broker->tx;
}

static void add_create(struct explore *explore, const struct own_state *state, unsigned number)
{
    for (int near = 0; near <= own.near; near++) {
        struct own_state *next =
            begin(explore, state, near ? S_USER_CREATE_NEAR : S_USER_CREATE, number);
        struct own_tx *tx = send_call(explore, next, number, I_CREATE, K_INSERT);

        tx->attempt = (u8)near;
        tx->left = near ? DEADLINE : 0;
        tx->start_by = near ? START_BY : 0;
        own_end(explore, next);
    }
}

/* Cancel or update. */
static void add_change(struct explore *explore, const struct own_state *state, unsigned number,
                       unsigned call)
{
    const struct own_broker *broker = &state->brokers[number];
    bool may_run =
        broker->claim > 0 && (broker->is_begun || (broker->is_inherited && own.inherit_stops));
    struct own_state *next =
        begin(explore, state, call == I_CANCEL ? S_USER_CANCEL : S_USER_UPDATE, number);
    struct own_tx *tx;

    if (!broker->has) {
        if (own.fenced_refusal && state->db.epoch != broker->epoch) {
            own_drop(explore, next, number);
        } else {
            if (state->db.has) {
                own_fail(explore, P_REFUSE,
                         "a task that exists was denied by a broker that was owner no more");
            }
            own_answer(explore, next, call, A_GONE, 0);
        }
        own_end(explore, next);
        return;
    }
    tx = send_call(explore, next, number, call, call == I_CANCEL ? K_CANCEL : K_UPDATE);
    next->brokers[number].is_held = 1;
    if (may_run && (call == I_CANCEL || own.keep_claim)) {
        next->brokers[number].answer = A_MAYBE;
        next->brokers[number].answer_attempt = broker->claim;
    }
    if (call == I_UPDATE) {
        tx->due = 1;
        tx->attempt = own.keep_claim && may_run ? 0 : broker->claim;
    }
    own_end(explore, next);
}

static void add_redrive(struct explore *explore, const struct own_state *state, unsigned number)
{
    struct own_state *next;

    if (state->db.dead && state->letter != state->db.dead_attempt) {
        next = begin(explore, state, S_USER_READS, number);
        next->letter = next->db.dead_attempt;
        own_end(explore, next);
    }
    if (state->letter > 0 && state->redrives < own.redrives) {
        next = begin(explore, state, S_USER_REDRIVE, number);
        next->redrives++;
        next->done &= (u8) ~(1U << I_REDRIVE);
        send_call(explore, next, number, I_REDRIVE, K_REDRIVE)->attempt = next->letter;
        own_end(explore, next);
    }
}

static void add_users(struct explore *explore, const struct own_state *state, unsigned number)
{
    bool is_created = (own.calls & CALL_CREATE) == 0 || state->answers[I_CREATE] == A_OK;

    if ((own.calls & CALL_CREATE) != 0 && state->answers[I_CREATE] == A_NOT_YET) {
        add_create(explore, state, number);
    }
    for (unsigned call = I_CANCEL; call <= I_UPDATE; call++) {
        if ((own.calls >> call & 1) != 0 && state->answers[call] == A_NOT_YET && is_created) {
            add_change(explore, state, number, call);
        }
    }
    if ((own.calls & CALL_REDRIVE) != 0 && state->answers[I_REDRIVE] != A_PENDING) {
        add_redrive(explore, state, number);
    }
}

void own_add_task(struct explore *explore, const struct own_state *state, unsigned number)
{
    const struct own_broker *broker = &state->brokers[number];
    bool is_active = broker->phase == PH_ACTIVE;

    add_call(explore, state, number);
    if (broker->tx.kind != K_NONE || (!is_active && broker->phase != PH_RELEASING)) {
        return;
    }
    for (u8 attempt = 1; !broker->is_held && attempt <= ATTEMPTS; attempt++) {
        if (state->outcome[attempt] > 0) {
            add_outcome(explore, state, number, attempt);
        }
    }
    if (!is_active) {
        return;
    }
    add_overdue(explore, state, number);
    add_claim(explore, state, number);
    add_ends(explore, state, number);
    if (!broker->is_held) {
        add_users(explore, state, number);
    }
}
