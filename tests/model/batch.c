/* SPDX-License-Identifier: Apache-2.0
 *
 * Model of batches: two shards with a task each, two brokers, and writes that hold operations of
 * both shards and claims of both in one claim row. What own.c shows of one shard is one step here:
 * a bump ends who blocks it, raises the epoch and reads claims and row. Promises: K-5, K-6 and K-8
 * of each shard by itself, whatever becomes of its neighbour in the batch; a shard that nobody
 * takes is not dropped; the memory of an owner is what the database says.
 */
#include "tests/model/models.h"

#include <stdio.h>
#include <string.h>

enum {
    BROKERS = 2,
    SHARDS = 2,
    ROWS = 3, /* claim rows at once */
    DEADLINE = 2,
    START_BY = 1
};

enum {
    T_NONE,
    T_SENT,
    T_EXECUTED
};
enum {
    O_NONE,
    O_CLAIM,
    O_SETTLE, /* the attempt is over, the next may come */
    O_END,
    O_CALL
};
enum {
    A_NOT_YET,
    A_PENDING,
    A_OK,
    A_UNAVAILABLE,
    A_UNKNOWN
};

/* The rules are 1 in the product. */
static struct {
    int both, neighbours, each_epoch, each_result, all_ended, taint;
    int attempts, takes, unknowns, calls, pauses;
} batch = {.both = 1,
           .neighbours = 1,
           .each_epoch = 1,
           .each_result = 1,
           .all_ended = 1,
           .taint = 1,
           .attempts = 2,
           .takes = 1,
           .pauses = 1};

static const struct model_option OPTIONS[] = {
    {"both", &batch.both, "after an unknown commit every shard of the batch takes a new epoch",
     "broker/core/writer.c judge_shards"},
    {"neighbours", &batch.neighbours, "operations of a lost shard drop out, the others commit",
     "storage/pg_write.c judge_fenced"},
    {"each_epoch", &batch.each_epoch, "the fence looks at every shard of the batch",
     "storage/pg_write.c add_fences"},
    {"each_result", &batch.each_result, "every operation has its own result",
     "broker/core/writer.c deliver"},
    {"all_ended", &batch.all_ended, "a claim row is dropped when all its members have ended",
     "broker/core/claim.c group_leave"},
    {"taint", &batch.taint, "a member whose end we have not seen keeps its row",
     "broker/core/claim.c group_leave"},
    {"attempts", &batch.attempts, "after so many a task is over", NULL},
    {"takes", &batch.takes, "a shard is taken by the other broker", NULL},
    {"unknowns", &batch.unknowns, "clients that give up", NULL},
    {"calls", &batch.calls, "1: a user changes each task once", NULL},
    {"pauses", &batch.pauses, "0: a shard may be dropped for nothing", NULL},
    {NULL, NULL, NULL, NULL},
};

enum step {
    S_TICK,
    S_SEND,
    S_EXECUTE,
    S_COMMIT,
    S_GIVE_UP,
    S_ORPHAN_EXECUTES,
    S_ORPHAN_COMMITS,
    S_ORPHAN_ABORTS,
    S_REBUMP,
    S_TAKE,
    S_NOTICE,
    S_CALL,
    S_DONE,
    S_FAILED,
    S_DROP
};

static const struct model_step STEPS[] = {
    [S_TICK] = {"a tick passes", "world"},
    [S_SEND] = {"sends a batch, operations 5 * of shard 1 + of shard 0 are",
                "broker/core/writer.c writer_step"},
    [S_EXECUTE] = {"the database executes the batch of broker", "world"},
    [S_COMMIT] = {"the database commits and answers the batch of broker",
                  "broker/core/writer.c batch_done"},
    [S_GIVE_UP] = {"gives up waiting for its batch: broker", "broker/core/writer.c judge_shards"},
    [S_ORPHAN_EXECUTES] = {"the database executes an orphaned batch", "world"},
    [S_ORPHAN_COMMITS] = {"the database COMMITS an orphaned batch", "world"},
    [S_ORPHAN_ABORTS] = {"the database aborts an orphaned batch", "world"},
    [S_REBUMP] = {"its owner raises the epoch again, of shard",
                  "broker/core/shard.c shard_unknown"},
    [S_TAKE] = {"the other broker takes shard", "broker/core/shard.c bump_done"},
    [S_NOTICE] = {"its old owner hears that it is lost, of shard",
                  "broker/core/shard.c shard_lost"},
    [S_CALL] = {"STARTS the attempt of shard", "broker/core/dispatch.c start"},
    [S_DONE] = {"ends with success, the attempt of shard", "world"},
    [S_FAILED] = {"ends with failure, the attempt of shard", "world"},
    [S_DROP] = {"drops a claim row: broker", "broker/core/writer.c writer_drop_row"},
    {NULL, NULL},
};

struct claim_row {
    u8 attempt[SHARDS], left[SHARDS];
};

struct tx {
    u8 state, row; /* row: 1 + claim row, 0: none */
    u8 op[SHARDS], epoch[SHARDS], attempt[SHARDS];
    u8 is_ours[SHARDS]; /* executed: the fence let it pass */
};

/* A shard as a broker remembers it. */
struct memory {
    u8 epoch; /* 0: not its own */
    u8 must_bump, has, attempt, called;
    u8 claim, left, start_by, is_armed, row;
    u8 is_waiting; /* a caller */
};

struct broker {
    struct memory shards[SHARDS];
    struct tx tx;
    u8 live[ROWS], is_tainted[ROWS]; /* members of its claim rows, a bit per shard */
    u8 is_writer[ROWS];
};

struct shard {
    u8 epoch, has, attempt, called;
    u8 answer, committed;
    u8 run, run_left, outcome, outcome_attempt; /* the world */
};

struct state {
    struct shard shards[SHARDS];
    struct claim_row rows[ROWS];
    struct broker brokers[BROKERS];
    struct tx orphan;
    u8 takes, unknowns;
};

static void dec(u8 *value)
{
    *value = *value > 0 ? (u8)(*value - 1) : 0;
}

static bool is_live(const struct state *state, unsigned row, unsigned shard)
{
    const struct shard *s = &state->shards[shard];

    return s->has && state->rows[row].attempt[shard] > s->attempt;
}

/* The claim row of a shard's live claim, 1 + its number; 0: none. */
static u8 live_row(const struct state *state, unsigned shard)
{
    for (unsigned i = 0; i < ROWS; i++) {
        if (is_live(state, i, shard)) {
            return (u8)(i + 1);
        }
    }
    return 0;
}

static void answer(struct explore *explore, struct state *state, unsigned shard, u8 how)
{
    struct shard *s = &state->shards[shard];

    if (how == A_OK && !s->committed) {
        explore_fail(explore, "K-8: success answered to a call of shard %u that did not commit",
                     shard);
    }
    if (how == A_UNAVAILABLE && s->committed) {
        explore_fail(explore, "K-8: UNAVAILABLE answered to a call of shard %u that committed",
                     shard);
    }
    s->answer = how;
}

/* A shard is lost: what it has in our claim rows ends without us. */
static void lose(struct explore *explore, struct state *state, unsigned number, unsigned shard)
{
    struct broker *broker = &state->brokers[number];

    if (broker->shards[shard].is_waiting) {
        answer(explore, state, shard, A_UNKNOWN);
    }
    for (unsigned i = 0; i < ROWS; i++) {
        if ((broker->live[i] >> shard & 1) != 0) {
            broker->live[i] &= (u8) ~(1U << shard);
            broker->is_tainted[i] |= batch.taint != 0;
        }
    }
    memset(&broker->shards[shard], 0, sizeof(broker->shards[shard]));
}

/* An epoch of our own has begun: claims and row as the database has them. */
static void load_shard(struct state *state, unsigned number, unsigned shard)
{
    struct memory *memory = &state->brokers[number].shards[shard];
    const struct shard *s = &state->shards[shard];
    u8 row = live_row(state, shard);
    u8 is_waiting = memory->is_waiting;

    *memory = (struct memory){.epoch = s->epoch,
                              .has = s->has,
                              .attempt = s->attempt,
                              .called = s->called,
                              .is_waiting = is_waiting};
    if (row > 0) {
        memory->claim = state->rows[row - 1].attempt[shard];
        memory->left = state->rows[row - 1].left[shard];
    }
}

/* Whatever holds a shard's row is ended before its epoch rises. */
static void bump(struct state *state, unsigned shard)
{
    for (unsigned i = 0; i <= BROKERS; i++) {
        struct tx *tx = i < BROKERS ? &state->brokers[i].tx : &state->orphan;

        if (tx->state != T_EXECUTED || !tx->is_ours[shard]) {
            continue;
        }
        if (i < BROKERS) {
            tx->state = T_SENT; // Its client finds out: only giving up is left.
            memset(tx->is_ours, 0xff, sizeof(tx->is_ours));
        } else {
            memset(tx, 0, sizeof(*tx));
        }
    }
    state->shards[shard].epoch++;
}

/* Ended by a bump: it will never commit. */
static bool is_ended(const struct tx *tx)
{
    return tx->state == T_SENT && tx->is_ours[0] == 0xff;
}

static void execute(const struct state *state, struct tx *tx)
{
    bool is_first = true;
    bool all = true;
    u8 first = 0;

    tx->state = T_EXECUTED;
    for (unsigned i = 0; i < SHARDS; i++) {
        if (tx->op[i] == O_NONE) {
            continue;
        }
        tx->is_ours[i] = tx->epoch[i] == state->shards[i].epoch;
        first = is_first ? tx->is_ours[i] : first;
        is_first = false;
        all = all && tx->is_ours[i];
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        if (tx->op[i] != O_NONE && !batch.each_epoch) {
            tx->is_ours[i] = first;
        }
        if (!batch.neighbours) {
            tx->is_ours[i] = tx->is_ours[i] && all;
        }
    }
}

static void commit_op(struct explore *explore, struct state *state, const struct tx *tx,
                      unsigned shard)
{
    struct shard *s = &state->shards[shard];

    if (tx->epoch[shard] != s->epoch) {
        explore_fail(explore, "K-5: a write of an old epoch of shard %u became visible", shard);
    }
    switch (tx->op[shard]) {
    case O_CLAIM:
        state->rows[tx->row - 1].attempt[shard] = tx->attempt[shard];
        state->rows[tx->row - 1].left[shard] = DEADLINE;
        break;
    case O_SETTLE:
        s->attempt = tx->attempt[shard];
        break;
    case O_END:
        s->has = 0;
        break;
    default:
        if (s->answer == A_UNAVAILABLE) {
            explore_fail(explore, "K-8: a call of shard %u answered UNAVAILABLE committed", shard);
        }
        s->called = s->committed = 1;
        break;
    }
}

static void commit(struct explore *explore, struct state *state, const struct tx *tx)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        if (tx->op[i] != O_NONE && tx->is_ours[i]) {
            commit_op(explore, state, tx, i);
        }
    }
}

/* The reply to an operation that passed the fence. */
static void reply_op(struct explore *explore, struct state *state, unsigned number, unsigned shard,
                     const struct tx *tx)
{
    struct broker *broker = &state->brokers[number];
    struct memory *memory = &broker->shards[shard];

    switch (tx->op[shard]) {
    case O_CLAIM:
        memory->claim = tx->attempt[shard];
        memory->left = DEADLINE;
        memory->start_by = START_BY;
        memory->is_armed = 1;
        memory->row = tx->row;
        broker->live[tx->row - 1] |= (u8)(1U << shard);
        break;
    case O_CALL:
        memory->called = 1;
        memory->is_waiting = 0;
        answer(explore, state, shard, A_OK);
        break;
    default:
        if (memory->row > 0) {
            broker->live[memory->row - 1] &= (u8) ~(1U << shard);
        }
        memory->has = tx->op[shard] == O_SETTLE;
        memory->attempt = tx->attempt[shard];
        memory->claim = memory->left = memory->start_by = memory->is_armed = memory->row = 0;
        break;
    }
}

static void reply(struct explore *explore, struct state *state, unsigned number)
{
    struct broker *broker = &state->brokers[number];
    struct tx tx = broker->tx;
    u8 first = tx.op[0] != O_NONE ? tx.is_ours[0] : tx.is_ours[1];

    memset(&broker->tx, 0, sizeof(broker->tx));
    for (unsigned i = 0; i < SHARDS; i++) {
        bool is_ours = batch.each_result ? tx.is_ours[i] != 0 : first != 0;

        if (tx.op[i] == O_NONE || broker->shards[i].epoch != tx.epoch[i]) {
            continue; // Dropped, or taken again, since it was sent.
        }
        if (is_ours) {
            reply_op(explore, state, number, i, &tx);
            continue;
        }
        if (batch.pauses && broker->shards[i].epoch == state->shards[i].epoch) {
            explore_fail(explore, "shard %u is dropped though nobody has taken it", i);
        }
        if (broker->shards[i].is_waiting) {
            answer(explore, state, i, A_UNAVAILABLE);
            broker->shards[i].is_waiting = 0;
        }
        lose(explore, state, number, i);
    }
}

/* Nobody knows what became of the batch. */
static void give_up(struct state *state, unsigned number)
{
    struct broker *broker = &state->brokers[number];
    bool is_first = true;

    if (!is_ended(&broker->tx)) {
        state->orphan = broker->tx;
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        struct memory *memory = &broker->shards[i];

        if (broker->tx.op[i] == O_NONE || memory->epoch != broker->tx.epoch[i]) {
            continue;
        }
        if (broker->tx.op[i] == O_CLAIM) {
            broker->is_tainted[broker->tx.row - 1] = 1;
        }
        memory->must_bump = batch.both || is_first;
        if (!memory->must_bump && memory->is_waiting) {
            state->shards[i].answer = A_UNAVAILABLE;
            memory->is_waiting = 0;
        }
        is_first = false;
    }
    memset(&broker->tx, 0, sizeof(broker->tx));
}

/* Steps. */

static void forget_dead(struct state *state)
{
    for (unsigned i = 0; i < ROWS; i++) {
        for (unsigned k = 0; k < SHARDS; k++) {
            if (!is_live(state, i, k)) {
                state->rows[i].attempt[k] = state->rows[i].left[k] = 0;
            }
        }
    }
    for (unsigned i = 0; i < ROWS; i++) {
        bool is_written = state->rows[i].attempt[0] > 0 || state->rows[i].attempt[1] > 0;

        for (unsigned k = 0; k < BROKERS && !is_written; k++) {
            struct broker *broker = &state->brokers[k];

            if (broker->live[i] == 0 && broker->tx.row != i + 1 && state->orphan.row != i + 1) {
                broker->is_tainted[i] = broker->is_writer[i] = 0;
            }
        }
    }
    for (unsigned k = 0; k < SHARDS; k++) {
        if (!state->shards[k].has) {
            state->shards[k].attempt = 0;
        }
    }
}

/* Whether an owner's memory of a shard is what the database says. */
static bool agrees(const struct state *state, const struct memory *memory, unsigned shard)
{
    const struct shard *s = &state->shards[shard];
    u8 row = live_row(state, shard);

    if (memory->has != s->has || !s->has) {
        return memory->has == s->has;
    }
    return memory->attempt == s->attempt && memory->called == s->called &&
           memory->claim == (row == 0 ? 0 : state->rows[row - 1].attempt[shard]);
}

static void end(struct explore *explore, struct state *state)
{
    forget_dead(state);
    for (unsigned i = 0; i < BROKERS; i++) {
        for (unsigned k = 0; k < SHARDS; k++) {
            const struct memory *memory = &state->brokers[i].shards[k];

            if (memory->epoch > 0 && memory->epoch == state->shards[k].epoch &&
                !memory->must_bump && state->brokers[i].tx.state == T_NONE &&
                !agrees(state, memory, k)) {
                explore_fail(explore, "memory of the owner of shard %u differs from the database",
                             k);
            }
        }
    }
    explore_end(explore);
}

static struct state *begin(struct explore *explore, const struct state *state, enum step step,
                           unsigned arg, bool is_fault)
{
    return explore_begin(explore, state, (uint32_t)step, arg, is_fault);
}

/* Whether an operation may be asked for now. */
static bool may(const struct state *state, const struct memory *memory, unsigned shard, unsigned op)
{
    bool is_free = memory->epoch > 0 && !memory->must_bump && !memory->is_waiting && memory->has;
    bool has_outcome = state->shards[shard].outcome > 0 &&
                       state->shards[shard].outcome_attempt == memory->claim && !memory->is_armed;
    bool is_over = memory->claim > 0 && memory->left == 0;

    switch (op) {
    case O_NONE:
        return true;
    case O_CLAIM:
        return is_free && memory->claim == 0 && memory->attempt < batch.attempts;
    case O_SETTLE:
        return is_free && memory->claim > 0 &&
               ((has_outcome && state->shards[shard].outcome == 2) || is_over ||
                (memory->is_armed && memory->start_by == 0));
    case O_END:
        return is_free && ((has_outcome && state->shards[shard].outcome == 1) ||
                           (memory->claim == 0 && memory->attempt >= batch.attempts));
    default:
        return is_free && batch.calls && state->shards[shard].answer == A_NOT_YET &&
               !memory->is_armed;
    }
}

/* A claim row that nobody counts and that is in no batch; 0: none. */
static u8 free_row(const struct state *state)
{
    for (unsigned i = 0; i < ROWS; i++) {
        bool is_free = state->orphan.row != i + 1;

        for (unsigned k = 0; k < BROKERS; k++) {
            is_free =
                is_free && state->brokers[k].live[i] == 0 && state->brokers[k].tx.row != i + 1;
        }
        for (unsigned k = 0; k < SHARDS; k++) {
            is_free = is_free && state->rows[i].attempt[k] == 0;
        }
        if (is_free) {
            return (u8)(i + 1);
        }
    }
    return 0;
}

static void fill(struct state *state, unsigned number, unsigned shard, unsigned op)
{
    struct broker *broker = &state->brokers[number];
    struct memory *memory = &broker->shards[shard];
    struct tx *tx = &broker->tx;

    tx->op[shard] = (u8)op;
    tx->epoch[shard] = memory->epoch;
    tx->attempt[shard] = op == O_CLAIM                      ? (u8)(memory->attempt + 1)
                         : op == O_SETTLE                   ? memory->claim
                         : op == O_END && memory->claim > 0 ? memory->claim
                                                            : memory->attempt;
    if (op == O_CLAIM && tx->row == 0) {
        tx->row = free_row(state);
        for (unsigned i = 0; i < BROKERS && tx->row > 0; i++) {
            state->brokers[i].is_tainted[tx->row - 1] = 0;
            state->brokers[i].is_writer[tx->row - 1] = i == number;
        }
    }
    if (op == O_CALL) {
        memory->is_waiting = 1;
        state->shards[shard].answer = A_PENDING;
    }
    if (memory->is_armed && op != O_NONE) {
        memory->is_armed = 0; // A claim that is given back does not start any more.
    }
}

static void add_batch(struct explore *explore, const struct state *state, unsigned number)
{
    const struct broker *broker = &state->brokers[number];

    for (unsigned first = O_NONE; broker->tx.state == T_NONE && first <= O_CALL; first++) {
        for (unsigned second = O_NONE; second <= O_CALL; second++) {
            struct state *next;

            if (first + second == 0 || !may(state, &broker->shards[0], 0, first) ||
                !may(state, &broker->shards[1], 1, second)) {
                continue;
            }
            next = begin(explore, state, S_SEND, number, false);
            next->brokers[number].tx.state = T_SENT;
            fill(next, number, 0, first);
            fill(next, number, 1, second);
            if ((first == O_CLAIM || second == O_CLAIM) && next->brokers[number].tx.row == 0) {
                continue; // A bound of the model.
            }
            end(explore, next);
        }
    }
}

static void add_transaction(struct explore *explore, const struct state *state, unsigned number)
{
    const struct tx *tx = &state->brokers[number].tx;
    struct state *next;

    if (tx->state == T_SENT && !is_ended(tx)) {
        next = begin(explore, state, S_EXECUTE, number, false);
        execute(next, &next->brokers[number].tx);
        end(explore, next);
    }
    if (tx->state == T_EXECUTED) {
        next = begin(explore, state, S_COMMIT, number, false);
        commit(explore, next, &next->brokers[number].tx);
        reply(explore, next, number);
        end(explore, next);
    }
    if (tx->state != T_NONE &&
        (is_ended(tx) || (state->unknowns < batch.unknowns && state->orphan.state == T_NONE))) {
        next = begin(explore, state, S_GIVE_UP, number, !is_ended(tx));
        next->unknowns = (u8)(next->unknowns + !is_ended(tx));
        give_up(next, number);
        end(explore, next);
    }
}

static void add_shard(struct explore *explore, const struct state *state, unsigned number,
                      unsigned shard)
{
    const struct memory *memory = &state->brokers[number].shards[shard];
    bool is_owner = memory->epoch == state->shards[shard].epoch;
    struct state *next;

    if (memory->epoch == 0 && state->takes < batch.takes) {
        next = begin(explore, state, S_TAKE, shard, true);
        next->takes++;
        bump(next, shard);
        load_shard(next, number, shard);
        end(explore, next);
    }
    if (memory->must_bump && is_owner) {
        next = begin(explore, state, S_REBUMP, shard, false);
        bump(next, shard);
        for (unsigned i = 0; i < ROWS;
             i++) { // Claims are read anew: the rows are left to the sweep.
            next->brokers[number].is_tainted[i] |= next->brokers[number].live[i] >> shard & 1;
            next->brokers[number].live[i] &= (u8) ~(1U << shard);
        }
        load_shard(next, number, shard);
        if (next->brokers[number].shards[shard].is_waiting) {
            next->brokers[number].shards[shard].is_waiting = 0;
            answer(explore, next, shard, next->shards[shard].called ? A_OK : A_UNAVAILABLE);
        }
        end(explore, next);
    }
    if (memory->epoch > 0 && !is_owner) {
        next = begin(explore, state, S_NOTICE, shard, false);
        lose(explore, next, number, shard);
        end(explore, next);
    }
    if (memory->is_armed && memory->start_by > 0 && !memory->must_bump) {
        next = begin(explore, state, S_CALL, shard, false);
        if (next->shards[shard].run > 0) {
            explore_fail(explore, "K-6: attempt %u of shard %u started while %u may be running",
                         memory->claim, shard, next->shards[shard].run);
        }
        next->shards[shard].run = memory->claim;
        next->shards[shard].run_left = memory->left;
        next->brokers[number].shards[shard].is_armed = 0;
        end(explore, next);
    }
}

static bool has_ended(const struct broker *broker, unsigned row)
{
    u8 live = broker->live[row];

    return !broker->is_tainted[row] && (batch.all_ended ? live == 0 : live != 3);
}

/* Claim rows whose members have all ended, for all that their writer knows. */
static void add_drops(struct explore *explore, const struct state *state, unsigned number)
{
    for (unsigned i = 0; i < ROWS; i++) {
        const struct claim_row *row = &state->rows[i];
        const struct broker *broker = &state->brokers[number];
        bool is_written = row->attempt[0] > 0 || row->attempt[1] > 0;

        if (!is_written || !broker->is_writer[i] || broker->tx.row == i + 1 ||
            !has_ended(broker, i)) {
            continue;
        }
        begin(explore, state, S_DROP, number, false);
        explore_fail(explore, "a claim row with a live claim is dropped");
    }
}

static void add_orphan(struct explore *explore, const struct state *state)
{
    struct state *next;

    if (state->orphan.state == T_NONE) {
        return;
    }
    if (state->orphan.state == T_SENT) {
        next = begin(explore, state, S_ORPHAN_EXECUTES, 0, true);
        execute(next, &next->orphan);
    } else {
        next = begin(explore, state, S_ORPHAN_COMMITS, 0, true);
        commit(explore, next, &next->orphan);
        memset(&next->orphan, 0, sizeof(next->orphan));
    }
    end(explore, next);
    next = begin(explore, state, S_ORPHAN_ABORTS, 0, true);
    memset(&next->orphan, 0, sizeof(next->orphan));
    end(explore, next);
}

static void tick(struct state *state)
{
    for (unsigned k = 0; k < SHARDS; k++) {
        for (unsigned i = 0; i < ROWS; i++) {
            dec(&state->rows[i].left[k]);
        }
        for (unsigned i = 0; i < BROKERS; i++) {
            dec(&state->brokers[i].shards[k].left);
            dec(&state->brokers[i].shards[k].start_by);
        }
        dec(&state->shards[k].run_left);
        if (state->shards[k].run_left == 0) {
            state->shards[k].run = 0; // The attempt's own time limit ends it.
        }
    }
}

static void next_states(struct explore *explore, const void *from)
{
    const struct state *state = from;
    struct state *next = begin(explore, state, S_TICK, 0, false);

    tick(next);
    end(explore, next);
    for (unsigned i = 0; i < BROKERS; i++) {
        add_batch(explore, state, i);
        add_transaction(explore, state, i);
        add_drops(explore, state, i);
        for (unsigned k = 0; k < SHARDS; k++) {
            add_shard(explore, state, i, k);
        }
    }
    add_orphan(explore, state);
    for (unsigned k = 0; k < SHARDS; k++) {
        for (u8 outcome = 1; state->shards[k].run > 0 && outcome <= 2; outcome++) {
            next = begin(explore, state, outcome == 1 ? S_DONE : S_FAILED, k, false);
            next->shards[k].outcome = outcome;
            next->shards[k].outcome_attempt = next->shards[k].run;
            next->shards[k].run = next->shards[k].run_left = 0;
            end(explore, next);
        }
    }
}

static void start(void *to)
{
    struct state *state = to;

    for (unsigned i = 0; i < SHARDS; i++) {
        state->shards[i].epoch = state->shards[i].has = 1;
        load_shard(state, 0, i);
    }
}

static bool is_goal(const void *of)
{
    const struct state *state = of;

    return !state->shards[0].has && !state->shards[1].has;
}

static void print_tx(const char *who, const struct tx *tx)
{
    static const char *const OPS[] = {"-", "claim", "settle", "end", "call"};

    if (tx->state != T_NONE) {
        printf(" %s batch%s: %s of epoch %u, %s of epoch %u", who,
               is_ended(tx)              ? " (ended)"
               : tx->state == T_EXECUTED ? " (executed)"
                                         : "",
               OPS[tx->op[0]], tx->epoch[0], OPS[tx->op[1]], tx->epoch[1]);
    }
}

static void print(const void *of)
{
    static const char *const ANSWERS[] = {"-", "pending", "OK", "UNAVAILABLE", "UNKNOWN"};
    const struct state *state = of;

    for (unsigned i = 0; i < SHARDS; i++) {
        const struct shard *s = &state->shards[i];
        u8 row = live_row(state, i);

        printf("      shard %u epoch %u: %s attempt %u, claim %u, call %s%s\n", i, s->epoch,
               s->has ? "pending" : "over", s->attempt,
               row == 0 ? 0U : state->rows[row - 1].attempt[i], ANSWERS[s->answer],
               s->run > 0 ? ", RUNS" : "");
    }
    for (unsigned i = 0; i < BROKERS; i++) {
        printf("      broker %u:", i);
        for (unsigned k = 0; k < SHARDS; k++) {
            const struct memory *memory = &state->brokers[i].shards[k];

            printf(" epoch %u attempt %u claim %u%s%s;", memory->epoch, memory->attempt,
                   memory->claim, memory->is_armed ? ", not started" : "",
                   memory->must_bump ? ", must bump" : "");
        }
        print_tx("its", &state->brokers[i].tx);
        printf("\n");
    }
    print_tx("      an orphaned", &state->orphan);
    printf("%s", state->orphan.state == T_NONE ? "" : "\n");
}

const struct model model_batch = {.name = "batch",
                                  .state_bytes = sizeof(struct state),
                                  .steps = STEPS,
                                  .options = OPTIONS,
                                  .start = start,
                                  .next = next_states,
                                  .is_goal = is_goal,
                                  .print = print};
