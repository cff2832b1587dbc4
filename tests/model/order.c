/* SPDX-License-Identifier: Apache-2.0
 *
 * Model of order keys: up to three tasks of one key in one shard, two brokers that own it one after
 * the other. What is shown elsewhere is taken as one step here: a take-over (ownership.c), a batch.
 * Promises: of one key one attempt runs at a time; a task is claimed only when no task of its key
 * that was answered before and is due before is still pending, but for those that a policy sets
 * aside.
 */
#include "tests/model/order.h"
#include "tests/model/models.h"

#include <stdio.h>
#include <string.h>

enum step {
    S_TICK,
    S_TAKE_OVER,
    S_NOTICE,
    S_PAGE,
    S_VISIT,
    S_CLAIM,
    S_UNCLAIM,
    S_CALL,
    S_END_DONE,
    S_END_RETRY,
    S_LOSE,
    S_OUTCOME,
    S_OVERDUE,
    S_STOPPED,
    S_CANCEL,
    S_UPDATE,
    S_CREATE,
    S_CREATE_NEAR,
    S_REDRIVE,
    S_COMMIT,
    S_UNKNOWN,
    S_UNKNOWN_IN
};

static const struct model_step STEPS[] = {
    [S_TICK] = {"a tick passes", "world"},
    [S_TAKE_OVER] = {"takes the shard over, reads its claims: broker",
                     "broker/core/shard.c claims_done"},
    [S_NOTICE] = {"notices that the shard is lost: broker", "broker/core/shard.c shard_fenced"},
    [S_PAGE] = {"reads the next row: broker", "broker/core/window.c take_row"},
    [S_VISIT] = {"reads the row of an inherited claim, of task", "broker/core/visit.c meet_row"},
    [S_CLAIM] = {"sends a claim of task", "broker/core/claim.c claim_ask"},
    [S_UNCLAIM] = {"gives the claim back, too late to start task",
                   "broker/core/claim.c claim_withdraw"},
    [S_CALL] = {"STARTS task", "broker/core/dispatch.c start"},
    [S_END_DONE] = {"ends with success: task", "world"},
    [S_END_RETRY] = {"ends with failure: task", "world"},
    [S_LOSE] = {"the outcome gets lost, of task", "world"},
    [S_OUTCOME] = {"an outcome reaches the owner, of task",
                   "broker/core/dispatch.c dispatch_ended"},
    [S_OVERDUE] = {"the deadline has passed without an outcome, of task",
                   "broker/core/claim.c settle_as_unknown"},
    [S_STOPPED] = {"has ended since it was cancelled: task", "broker/core/claim.c flight_end"},
    [S_CANCEL] = {"a user cancels task", "broker/core/call_task.c act_cancel"},
    [S_UPDATE] = {"a user moves to a later due time task", "broker/core/call_task.c act_update"},
    [S_CREATE] = {"a user creates task", "broker/core/call_task.c call_create"},
    [S_CREATE_NEAR] = {"a user creates, with its claim, task",
                       "broker/core/call_task.c near_entry"},
    [S_REDRIVE] = {"a user redrives task", "broker/core/call_task.c call_dead"},
    [S_COMMIT] = {"the write commits and is answered, of task", "broker/core/writer.c batch_done"},
    [S_UNKNOWN] = {"the write does not commit, nobody knows, of task",
                   "broker/core/shard.c shard_unknown"},
    [S_UNKNOWN_IN] = {"the write commits, nobody knows, of task",
                      "broker/core/shard.c shard_unknown"},
    {NULL, NULL},
};

/* Steps. */

static void add_writes(struct explore *explore, const struct order_state *state, unsigned number)
{
    for (unsigned task = 0; task < (unsigned)order_option.tasks; task++) {
        struct order_state *next;

        if (state->brokers[number].entries[task].op == O_NONE) {
            continue;
        }
        next = explore_begin(explore, state, S_COMMIT, task, false);
        order_commit(explore, next, number, task, true);
        explore_end(explore);
        if (state->unknowns == order_option.unknowns ||
            state->brokers[number].epoch != state->epoch) {
            continue;
        }
        for (unsigned in = 0; in < 2; in++) {
            next = explore_begin(explore, state, in ? S_UNKNOWN_IN : S_UNKNOWN, task, true);
            next->unknowns++;
            if (in) {
                order_commit(explore, next, number, task, false);
            }
            next->answered |= next->rows[task].state != ABSENT ? (u8)(1U << task) : 0;
            order_take(next, number, (u8)(next->epoch + 1)); // The look after the bump answers.
            explore_end(explore);
        }
    }
}

/* The next row in the order of the loader, and rows of inherited claims. */
static void add_reads(struct explore *explore, const struct order_state *state, unsigned number)
{
    const struct order_broker *broker = &state->brokers[number];
    struct order_state *next;

    if (broker->epoch != state->epoch) {
        return; // The read would find the epoch gone: as good as noticing.
    }
    if (broker->cursor < PLACES) {
        next = explore_begin(explore, state, S_PAGE, number, false);
        for (unsigned i = 0; i < (unsigned)order_option.tasks; i++) {
            struct order_entry *entry = &next->brokers[number].entries[i];

            if (next->rows[i].state == PENDING && !entry->has && entry->op == O_NONE &&
                order_place(i, next->rows[i].rank) == broker->cursor) {
                order_read_row(entry, &next->rows[i]);
            }
        }
        next->brokers[number].cursor++;
        explore_end(explore);
    }
    for (unsigned i = 0; i < (unsigned)order_option.tasks; i++) {
        if (broker->entries[i].inherited > 0 && broker->entries[i].op == O_NONE) {
            struct order_entry *entry;

            next = explore_begin(explore, state, S_VISIT, i, false);
            entry = &next->brokers[number].entries[i];
            if (order_is_live(&next->rows[i])) {
                order_read_row(entry, &next->rows[i]);
            }
            entry->inherited = entry->inherited_left = 0;
            explore_end(explore);
        }
    }
}

/* An attempt: claim, call, give back. */
static void add_attempt(struct explore *explore, const struct order_state *state, unsigned number,
                        unsigned task)
{
    const struct order_broker *broker = &state->brokers[number];
    const struct order_entry *entry = &broker->entries[task];
    struct order_state *next;

    if (!entry->has || entry->op != O_NONE) {
        return;
    }
    if (entry->claim == 0 && entry->due == 0 && entry->hold == 0 &&
        order_is_first(broker, task, entry)) {
        bool is_used_up = entry->attempt >= order_option.attempts;

        next = explore_begin(explore, state, S_CLAIM, task, false);
        order_send(next, number, task, is_used_up ? O_DEAD : O_CLAIM);
        explore_end(explore);
    }
    if (entry->is_armed && entry->start_by > 0) {
        next = explore_begin(explore, state, S_CALL, task, false);
        for (unsigned i = 0; i < (unsigned)order_option.tasks; i++) {
            if (state->run[i] > 0) {
                explore_fail(explore, "overlap: task %u started while task %u of its key runs",
                             task, i);
            }
        }
        next->run[task] = entry->claim;
        next->run_left[task] = entry->left;
        next->brokers[number].entries[task].is_armed = 0;
        next->brokers[number].entries[task].is_running = 1;
        next->brokers[number].entries[task].start_by = 0;
        explore_end(explore);
    }
    if (entry->is_armed && entry->start_by == 0) {
        next = explore_begin(explore, state, S_UNCLAIM, task, false);
        next->brokers[number].entries[task].is_armed = 0;
        order_send(next, number, task, O_UNCLAIM);
        explore_end(explore);
    }
}

/* What was cancelled while it ran has ended. */
static void add_stopped(struct explore *explore, const struct order_state *state, unsigned number,
                        unsigned task)
{
    const struct order_entry *entry = &state->brokers[number].entries[task];
    struct order_state *next;

    if (!entry->has && entry->claim > 0 && entry->op == O_NONE &&
        ((state->outcome[task] > 0 && state->out_attempt[task] == entry->claim) ||
         entry->left == 0)) {
        next = explore_begin(explore, state, S_STOPPED, task, false);
        memset(&next->brokers[number].entries[task], 0, sizeof(*entry));
        explore_end(explore);
    }
}

static u8 op_of_failure(const struct order_entry *entry)
{
    return entry->claim >= order_option.attempts ? O_DEAD : O_RETRY;
}

/* How an attempt ends for its owner. */
static void add_settle(struct explore *explore, const struct order_state *state, unsigned number,
                       unsigned task)
{
    const struct order_entry *entry = &state->brokers[number].entries[task];
    struct order_state *next;

    if (!entry->has || entry->op != O_NONE || entry->claim == 0) {
        return;
    }
    if (state->outcome[task] > 0 && state->out_attempt[task] == entry->claim && !entry->is_armed) {
        next = explore_begin(explore, state, S_OUTCOME, task, false);
        order_send(next, number, task,
                   state->outcome[task] == OUT_DONE ? O_DONE : op_of_failure(entry));
        explore_end(explore);
    }
    if (entry->left == 0 && !entry->is_armed) {
        next = explore_begin(explore, state, S_OVERDUE, task, false);
        order_send(next, number, task, op_of_failure(entry));
        explore_end(explore);
    }
}

/* A user's calls on one task. */
static void add_calls(struct explore *explore, const struct order_state *state, unsigned number,
                      unsigned task)
{
    const struct order_entry *entry = &state->brokers[number].entries[task];
    struct order_state *next;

    if (entry->op != O_NONE) {
        return;
    }
    if (entry->has && state->cancels < order_option.cancels) {
        next = explore_begin(explore, state, S_CANCEL, task, false);
        next->cancels++;
        order_send(next, number, task, O_CANCEL);
        explore_end(explore);
    }
    if (entry->has && !entry->is_armed && state->updates < order_option.updates) {
        next = explore_begin(explore, state, S_UPDATE, task, false);
        next->updates++;
        order_send(next, number, task, O_UPDATE);
        explore_end(explore);
    }
    if (state->rows[task].state == DEAD && state->redrives < order_option.redrives) {
        next = explore_begin(explore, state, S_REDRIVE, task, false);
        next->redrives++;
        order_send(next, number, task, O_REDRIVE);
        explore_end(explore);
    }
}

/* A create that is due before all that is there. */
static void add_create(struct explore *explore, const struct order_state *state, unsigned number)
{
    unsigned task = (unsigned)order_option.tasks - 1;
    const struct order_broker *broker = &state->brokers[number];
    struct order_entry fresh = {0};
    struct order_state *next;

    if (!order_option.creates || state->rows[task].state != ABSENT ||
        state->brokers[0].entries[task].op != O_NONE ||
        state->brokers[1].entries[task].op != O_NONE) {
        return;
    }
    next = explore_begin(explore, state, S_CREATE, task, false);
    order_send(next, number, task, O_INSERT);
    explore_end(explore);
    if (!order_option.near_asks || order_is_first(broker, task, &fresh)) {
        next = explore_begin(explore, state, S_CREATE_NEAR, task, false);
        order_send(next, number, task, O_INSERT);
        next->brokers[number].entries[task].op_claim = 1;
        explore_end(explore);
    }
}

static void add_broker(struct explore *explore, const struct order_state *state, unsigned number)
{
    struct order_state *next;

    if (state->brokers[number].epoch == 0) {
        if (state->handovers < order_option.handovers) {
            next = explore_begin(explore, state, S_TAKE_OVER, number, true);
            next->handovers++;
            order_take(next, number, (u8)(next->epoch + 1));
            explore_end(explore);
        }
        return;
    }
    if (state->brokers[number].epoch != state->epoch) {
        next = explore_begin(explore, state, S_NOTICE, number, false);
        order_drop(&next->brokers[number]);
        explore_end(explore);
    }
    add_reads(explore, state, number);
    add_create(explore, state, number);
    for (unsigned task = 0; task < (unsigned)order_option.tasks; task++) {
        add_attempt(explore, state, number, task);
        add_settle(explore, state, number, task);
        add_stopped(explore, state, number, task);
        add_calls(explore, state, number, task);
    }
    add_writes(explore, state, number);
}

/* The receivers. */
static void add_world(struct explore *explore, const struct order_state *state, unsigned task)
{
    for (u8 outcome = OUT_DONE; state->run[task] > 0 && outcome <= OUT_RETRY; outcome++) {
        struct order_state *next = explore_begin(
            explore, state, outcome == OUT_DONE ? S_END_DONE : S_END_RETRY, task, false);

        next->outcome[task] = outcome;
        next->out_attempt[task] = next->run[task];
        next->run[task] = next->run_left[task] = 0;
        explore_end(explore);
    }
    if (state->run[task] > 0 && state->losses < order_option.losses) {
        struct order_state *next = explore_begin(explore, state, S_LOSE, task, true);

        next->losses++;
        next->run[task] = next->run_left[task] = 0;
        explore_end(explore);
    }
}

static void dec(u8 *value)
{
    *value = *value > 0 ? (u8)(*value - 1) : 0;
}

static void tick(struct order_state *state)
{
    for (unsigned i = 0; i < TASKS; i++) {
        dec(&state->rows[i].due);
        dec(&state->rows[i].hold);
        dec(&state->rows[i].left);
        dec(&state->run_left[i]);
        if (state->run_left[i] == 0) {
            state->run[i] = 0; // The attempt's own time limit ends it before the deadline.
        }
        for (unsigned k = 0; k < BROKERS; k++) {
            struct order_entry *entry = &state->brokers[k].entries[i];

            dec(&entry->due);
            dec(&entry->hold);
            dec(&entry->left);
            dec(&entry->start_by);
            dec(&entry->inherited_left);
            if (entry->inherited_left == 0) {
                entry->inherited = 0; // Over by its deadline, whatever became of it.
            }
        }
    }
}

static void next_states(struct explore *explore, const void *from)
{
    const struct order_state *state = from;
    struct order_state *next = explore_begin(explore, state, S_TICK, 0, false);

    tick(next);
    explore_end(explore);
    for (unsigned number = 0; number < BROKERS; number++) {
        add_broker(explore, state, number);
    }
    for (unsigned task = 0; task < (unsigned)order_option.tasks; task++) {
        add_world(explore, state, task);
    }
}

static void start(void *to)
{
    struct order_state *state = to;

    state->epoch = 1;
    for (unsigned i = 0; i < (unsigned)order_option.tasks; i++) {
        bool is_created = order_option.creates && i == (unsigned)order_option.tasks - 1;

        state->rows[i].state = is_created ? ABSENT : PENDING;
        state->rows[i].rank = state->rows[i].given = (u8)(is_created ? 0 : i + 1);
        state->answered |= (u8)(is_created ? 0 : 1U << i);
    }
    order_take(state, 0, 1);
}

static bool is_goal(const void *of)
{
    const struct order_state *state = of;

    for (unsigned i = 0; i < (unsigned)order_option.tasks; i++) {
        if (state->rows[i].state == PENDING) {
            return false;
        }
    }
    return true;
}

static void print_entry(const struct order_entry *entry, unsigned task)
{
    static const char *const OPS[] = {"-",     "insert", "claim",  "un-claim", "done",
                                      "retry", "dead",   "cancel", "update",   "redrive"};

    if (entry->has) {
        printf(" [%u: rank %u, due in %u, back-off %u, attempt %u", task, entry->rank, entry->due,
               entry->hold, entry->attempt);
        if (entry->claim > 0) {
            printf(", claim %u until %u%s", entry->claim, entry->left,
                   entry->is_armed ? ", not started" : "");
        }
        printf("]");
    }
    if (entry->op != O_NONE) {
        printf(" %s of %u in flight", OPS[entry->op], task);
    }
    if (entry->inherited > 0) {
        printf(" inherited claim %u of %u", entry->inherited, task);
    }
}

static void print(const void *of)
{
    static const char *const STATES[] = {"absent", "pending", "dead", "over"};
    const struct order_state *state = of;

    printf("      epoch %u:", state->epoch);
    for (unsigned i = 0; i < (unsigned)order_option.tasks; i++) {
        const struct order_row *row = &state->rows[i];

        printf(" [%u %s: rank %u, due in %u, back-off %u, failures %u, attempt %u", i,
               STATES[row->state], row->rank, row->due, row->hold, row->failures, row->attempt);
        if (order_is_live(row)) {
            printf(", claim %u until %u", row->claim, row->left);
        }
        printf("]%s", state->run[i] > 0 ? " RUNS" : "");
    }
    printf("\n");
    for (unsigned k = 0; k < BROKERS; k++) {
        printf("      broker %u: epoch %u, read to %u", k, state->brokers[k].epoch,
               state->brokers[k].cursor);
        for (unsigned i = 0; i < (unsigned)order_option.tasks; i++) {
            print_entry(&state->brokers[k].entries[i], i);
        }
        printf("\n");
    }
}

const struct model model_order = {.name = "order",
                                  .state_bytes = sizeof(struct order_state),
                                  .steps = STEPS,
                                  .options = order_rules,
                                  .start = start,
                                  .next = next_states,
                                  .is_goal = is_goal,
                                  .print = print};
