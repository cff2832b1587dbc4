/* SPDX-License-Identifier: Apache-2.0
 *
 * Order keys: the rule by which a task is claimed, and what writes do to rows and memory.
 */
#include "tests/model/order.h"

#include <string.h>

/* Rules of the protocol: 1 as it is to be. */
struct order_options order_option = {.one = 1,
                                     .held = 1,
                                     .inherit = 1,
                                     .stopped = 1,
                                     .head = 1,
                                     .busy = 1,
                                     .bucket = 1,
                                     .keep = 1,
                                     .keep_row = 1,
                                     .near_asks = 1,
                                     .tasks = 2,
                                     .attempts = 2,
                                     .handovers = 1};

const struct model_option order_rules[] = {
    {"one", &order_option.one, "none is claimed while another of its key is",
     "broker/core/claim.c claim_ask"},
    {"held", &order_option.held, "a claim whose outcome is unknown counts until it is settled",
     "broker/core/claim.c claim_ask"},
    {"inherit", &order_option.inherit,
     "inherited claims count also while their rows are not in memory",
     "broker/core/visit.c visit_forget"},
    {"stopped", &order_option.stopped,
     "one that was cancelled while it ran counts until it has ended",
     "broker/core/call_done.c remove_entry"},
    {"head", &order_option.head, "the first in due order goes first",
     "broker/core/claim.c claim_ask"},
    {"busy", &order_option.busy, "one with a write in flight keeps its place until that is known",
     "broker/core/claim.c claim_ask"},
    {"bucket", &order_option.bucket, "its whole bucket has been read",
     "broker/core/window.c window_has"},
    {"keep", &order_option.keep, "a retry keeps its place in due order",
     "broker/core/claim.c claim_settle"},
    {"keep_row", &order_option.keep_row, "and does so in its row",
     "broker/core/claim.c claim_settle"},
    {"near_asks", &order_option.near_asks,
     "a create takes its claim along only if it would be the first",
     "broker/core/claim.c claim_prepare"},
    {"tasks", &order_option.tasks, "of the key, 2 or 3", NULL},
    {"attempts", &order_option.attempts, "after so many a task is dead", NULL},
    {"skip_after", &order_option.skip_after, "set aside after so many failures; 0: never", NULL},
    {"handovers", &order_option.handovers, "the other broker takes the shard, at most", NULL},
    {"unknowns", &order_option.unknowns, "commits with unknown outcome", NULL},
    {"losses", &order_option.losses, "outcomes that get lost", NULL},
    {"cancels", &order_option.cancels, "cancels of any task", NULL},
    {"updates", &order_option.updates, "changes of a due time, to a later one", NULL},
    {"creates", &order_option.creates,
     "1: the last task is created under way, due before all others", NULL},
    {"redrives", &order_option.redrives, "dead letters that come back", NULL},
    {NULL, NULL, NULL, NULL},
};

/* Two early tasks lie in one bucket, in the order of their ids, which is not that of their due
 * times; what was moved lies in a later one. */
u8 order_place(unsigned task, u8 rank)
{
    if (rank >= LATE_RANK) {
        return (u8)(EARLY_PLACES + task);
    }
    return task == 0 ? 1 : task == 1 ? 0 : 2;
}

bool order_is_live(const struct order_row *row)
{
    return row->state == PENDING && row->claim > row->attempt;
}

static bool is_aside(u8 failures)
{
    return order_option.skip_after > 0 && failures >= order_option.skip_after;
}

/* Tasks that are to come before `task` by what the database says. */
static u8 before_in_truth(const struct order_state *state, unsigned task)
{
    u8 mask = 0;

    for (unsigned i = 0; i < (unsigned)order_option.tasks; i++) {
        const struct order_row *row = &state->rows[i];

        if (i != task && row->state == PENDING && row->given < state->rows[task].given &&
            !is_aside(row->failures) && (state->answered >> i & 1) != 0) {
            mask |= (u8)(1U << i);
        }
    }
    return mask;
}

/* The broker. */

void order_drop(struct order_broker *broker)
{
    memset(broker, 0, sizeof(*broker));
}

void order_read_row(struct order_entry *entry, const struct order_row *row)
{
    entry->has = 1;
    entry->rank = row->rank;
    entry->due = row->due;
    entry->hold = row->hold;
    entry->failures = row->failures;
    entry->attempt = row->attempt;
    entry->claim = order_is_live(row) ? row->claim : 0;
    entry->left = entry->claim > 0 ? row->left : 0;
    entry->inherited = entry->inherited_left = 0;
}

void order_take(struct order_state *state, unsigned number, u8 epoch)
{
    struct order_broker *broker = &state->brokers[number];

    order_drop(broker);
    broker->epoch = state->epoch = epoch;
    for (unsigned i = 0; i < TASKS; i++) {
        if (order_is_live(&state->rows[i])) { // A dead claim that is read is forgotten by a visit.
            broker->entries[i].inherited = state->rows[i].claim;
            broker->entries[i].inherited_left = state->rows[i].left;
        }
    }
}

/* Whether the task `other` of the same key lets `entry` be claimed. */
static bool lets_go(const struct order_entry *other, const struct order_entry *entry)
{
    bool is_claimed =
        other->claim > 0 && (order_option.held || other->is_armed || other->is_running);

    if (order_option.one && (is_claimed || other->op == O_CLAIM || other->op_claim > 0)) {
        return false;
    }
    if (order_option.inherit && other->inherited > 0) {
        return false;
    }
    if (!other->has || (!order_option.busy && other->op != O_NONE)) {
        return true;
    }
    return !order_option.head || is_aside(other->failures) || entry->rank < other->rank;
}

/* The order rule, for a task that is in memory or about to be. */
bool order_is_first(const struct order_broker *broker, unsigned task,
                    const struct order_entry *entry)
{
    u8 place = order_place(task, entry->rank);

    if (order_option.bucket ? broker->cursor < (place < EARLY_PLACES ? EARLY_PLACES : PLACES)
                            : broker->cursor <= place) {
        return false;
    }
    for (unsigned i = 0; i < (unsigned)order_option.tasks; i++) {
        if (i != task && !lets_go(&broker->entries[i], entry)) {
            return false;
        }
    }
    return true;
}

void order_send(struct order_state *state, unsigned number, unsigned task, u8 op)
{
    struct order_entry *entry = &state->brokers[number].entries[task];

    entry->op = op;
    entry->op_before = before_in_truth(state, task);
}

/* The database. */

static void put_claim(struct explore *explore, struct order_state *state, unsigned task, u8 attempt,
                      u8 before)
{
    struct order_row *row = &state->rows[task];

    row->claim = attempt;
    row->left = DEADLINE;
    if ((before & before_in_truth(state, task)) != 0) {
        explore_fail(explore, "order: task %u claimed while one that is due before it is pending",
                     task);
    }
}

static void retry_row(struct order_row *row, unsigned task, const struct order_entry *entry)
{
    row->attempt = entry->claim;
    row->failures++;
    if (order_option.keep && order_option.keep_row) {
        row->hold = BACKOFF;
    } else {
        row->rank = (u8)(LATE_RANK + task);
        row->due = BACKOFF;
    }
}

/* What a write does to its row. */
static void apply(struct explore *explore, struct order_state *state, unsigned number,
                  unsigned task)
{
    struct order_entry *entry = &state->brokers[number].entries[task];
    struct order_row *row = &state->rows[task];

    switch (entry->op) {
    case O_INSERT:
        row->state = PENDING;
        if (entry->op_claim > 0) {
            put_claim(explore, state, task, entry->op_claim, entry->op_before);
        }
        break;
    case O_CLAIM:
        put_claim(explore, state, task, (u8)(row->attempt + 1), entry->op_before);
        break;
    case O_UNCLAIM:
        row->attempt = entry->claim;
        break;
    case O_DONE:
    case O_CANCEL:
        row->state = OVER;
        break;
    case O_DEAD:
        row->state = DEAD;
        row->attempt = entry->claim;
        break;
    case O_RETRY:
        retry_row(row, task, entry);
        break;
    case O_UPDATE:
        row->rank = row->given = (u8)(LATE_RANK + task);
        row->due = 1;
        break;
    case O_REDRIVE:
        row->state = PENDING;
        row->rank = row->given = (u8)(LATE_RANK + task);
        row->due = row->hold = row->failures = 0;
        break;
    default:
        break;
    }
}

/* What the reply does to memory. */
static void applied(struct order_state *state, unsigned number, unsigned task)
{
    struct order_broker *broker = &state->brokers[number];
    struct order_entry *entry = &broker->entries[task];
    const struct order_row *row = &state->rows[task];
    u8 op = entry->op;
    u8 rank = entry->rank;
    bool is_claimed = op == O_CLAIM || entry->op_claim > 0;
    struct order_entry stopped;

    entry->op = entry->op_claim = entry->op_before = 0;
    if (op == O_INSERT) {
        state->answered |= (u8)(1U << task);
    }
    if (row->state != PENDING) {
        stopped = (struct order_entry){.claim = entry->claim, .left = entry->left, .is_running = 1};
        *entry = op == O_CANCEL && order_option.stopped && entry->claim > 0 && !entry->is_armed
                     ? stopped
                     : (struct order_entry){0};
        return;
    }
    if (!entry->has && !is_claimed && broker->cursor <= order_place(task, row->rank)) {
        return; // Not read yet: it waits in the database.
    }
    order_read_row(entry, row);
    if (op == O_RETRY && order_option.keep && !order_option.keep_row) {
        entry->rank = rank;
    }
    if (is_claimed) {
        entry->is_armed = 1;
        entry->start_by = START_BY;
    } else if (entry->claim == 0) {
        entry->is_armed = entry->is_running = entry->start_by = 0;
    }
}

/* A write reaches the database: `known`: and its reply the broker. */
void order_commit(struct explore *explore, struct order_state *state, unsigned number,
                  unsigned task, bool known)
{
    struct order_broker *broker = &state->brokers[number];

    if (broker->epoch != state->epoch) {
        order_drop(broker); // Fenced.
        return;
    }
    apply(explore, state, number, task);
    if (known) {
        applied(state, number, task);
    }
}
