/* SPDX-License-Identifier: Apache-2.0
 *
 * Model of the loader: pages that are read while rows are inserted, moved and deleted, while a
 * queue is parked and while memory is short. One owner; what a take-over does is in own.c.
 * Promises: a row that a cursor has passed is in memory, what is in memory is as its row is, and
 * from everywhere everything comes into memory.
 */
#include "tests/model/load.h"

#include "tests/model/models.h"

#include <stdio.h>

struct load_options load = {.horizon = 1,
                            .gone = 1,
                            .newer = 1,
                            .rewound = 1,
                            .parked_since = 1,
                            .park_low = 1,
                            .park_part = 1,
                            .park_past = 1,
                            .unpark_at = 1,
                            .reread = 1,
                            .limit = 1,
                            .inserts = 1,
                            .moves = 1,
                            .deletes = 1};

static const struct model_option OPTIONS[] = {
    {"horizon", &load.horizon, "what a page in flight will bring counts as read",
     "broker/core/window.c window_has"},
    {"gone", &load.gone, "what has left memory meanwhile is dropped from a page",
     "broker/core/window.c window_forget"},
    {"newer", &load.newer, "what is in memory is newer than a page",
     "broker/core/window.c take_row"},
    {"rewound", &load.rewound, "a cursor that is set back stays so when its page comes",
     "broker/core/window.c advance"},
    {"parked_since", &load.parked_since, "what was parked since its page was asked for waits",
     "broker/core/window.c take_row"},
    {"park_low", &load.park_low, "a park begins no later than the shard has read",
     "broker/core/park.c park_new"},
    {"park_past", &load.park_past,
     "one that goes back into the past begins where that has been read",
     "broker/core/window.c rewind_to"},
    {"park_part", &load.park_part, "pages of what is past leave out what is parked there only",
     "broker/core/park.c park_numbers"},
    {"unpark_at", &load.unpark_at, "a park ends where the shard is, not before",
     "broker/core/window.c advance"},
    {"reread", &load.reread, "a row whose task has left memory since is read again",
     "broker/core/reading.c reading_leave"},
    {"split", &load.split, "1: the first bucket is past, and read behind the second", NULL},
    {"limit", &load.limit, "rows of a page", NULL},
    {"inserts", &load.inserts, "0: all rows are there from the start", NULL},
    {"moves", &load.moves, "changes of a due time", NULL},
    {"deletes", &load.deletes, "rows that end", NULL},
    {"parks", &load.parks, "times that a line is too long, or a queue crowds memory", NULL},
    {"shorts", &load.shorts, "times that there is no memory for an entry", NULL},
    {"evictions", &load.evictions, "times that what is far is let go", NULL},
    {"raises", &load.raises, "1: the window rises by a bucket under way", NULL},
    {NULL, NULL, NULL, NULL},
};

enum step {
    S_INSERT,
    S_MOVE,
    S_DELETE,
    S_COMMIT,
    S_ANSWER,
    S_ANSWER_SHORT,
    S_ANSWER_LEFT,
    S_VISIT,
    S_VISIT_READ,
    S_VISIT_DONE,
    S_RAISE,
    S_PAGE,
    S_PAST_PAGE,
    S_PARK_PAGE,
    S_PAGE_READ,
    S_PAGE_DONE,
    S_PAGE_SHORT,
    S_PAGE_FULL,
    S_PARK,
    S_PARK_FULL,
    S_EVICT
};

static const struct model_step STEPS[] = {
    [S_INSERT] = {"an insert is sent, of task", "broker/core/call_task.c call_create"},
    [S_MOVE] = {"a change of the due time is sent, of task", "broker/core/call_task.c act_update"},
    [S_DELETE] = {"the end is sent, of task", "broker/core/claim.c claim_settle"},
    [S_COMMIT] = {"the write commits, of task", "world"},
    [S_ANSWER] = {"the write is answered, of task", "broker/core/call_done.c call_op_done"},
    [S_ANSWER_SHORT] = {"the write is answered, without memory for an entry, of task",
                        "broker/core/call_done.c take_in"},
    [S_ANSWER_LEFT] = {"the write is answered, its queue crowds memory, of task",
                       "broker/core/window.c window_leave_early"},
    [S_VISIT] = {"a row is asked for by a call, of task", "broker/core/call_task.c call_read_task"},
    [S_VISIT_READ] = {"the database reads it, task", "world"},
    [S_VISIT_DONE] = {"the row comes, and its change is sent, of task",
                      "broker/core/call_task.c task_done"},
    [S_RAISE] = {"the window rises", "broker/core/window.c raise_target"},
    [S_PAGE] = {"the shard's next page is asked for", "broker/core/window.c send_page"},
    [S_PAST_PAGE] = {"the next page of what is past is asked for",
                     "broker/core/window.c read_past"},
    [S_PARK_PAGE] = {"the park's next page is asked for", "broker/core/window.c refill"},
    [S_PAGE_READ] = {"the database reads the page", "world"},
    [S_PAGE_DONE] = {"the page comes", "broker/core/window.c page_done"},
    [S_PAGE_SHORT] = {"the page comes, there is no memory for task",
                      "broker/core/window.c take_row"},
    [S_PAGE_FULL] = {"the page comes, the line is full for task", "broker/core/window.c take_row"},
    [S_PARK] = {"the line is too long for task", "broker/core/window.c window_park"},
    [S_PARK_FULL] = {"the queue is parked where the shard is", "broker/core/window.c park_full"},
    [S_EVICT] = {"memory is short: lets go what is after bucket",
                 "broker/core/window.c window_shrink"},
    {NULL, NULL},
};

enum how {
    ALL_FIT,
    NO_MEMORY,
    LINE_FULL
};

static u8 place_of(unsigned bucket, unsigned task)
{
    return (u8)(1 + bucket * TASKS + task);
}

static bool is_parked(const struct load_state *state, unsigned task)
{
    return task > 0 && state->park;
}

/* Which part of the shard's own rows a place is in: pages of it. */
static u8 part_of(const struct load_state *state, u8 place)
{
    return place <= state->split ? PAST_PAGE : OWN_PAGE;
}

/* Whether a park counts for a task at a place: one that begins behind what is past does not there.
 */
static bool is_parked_at(const struct load_state *state, unsigned task, u8 place)
{
    return is_parked(state, task) &&
           (part_of(state, place) == OWN_PAGE || state->park_cursor < state->split);
}

static u8 *cursor_of(struct load_state *state, unsigned task, u8 place)
{
    if (is_parked_at(state, task, place)) {
        return &state->park_cursor;
    }
    return part_of(state, place) == PAST_PAGE ? &state->past : &state->cursor;
}

/* Whether the page in flight is for the cursor that counts for a task at a place. */
static bool is_read_for(const struct load_state *state, unsigned task, u8 place)
{
    return state->page == (is_parked_at(state, task, place) ? PARK_PAGE : part_of(state, place));
}

static bool window_has(struct load_state *state, unsigned task, u8 place)
{
    return (load.horizon && is_read_for(state, task, place) && place <= state->to) ||
           place <= *cursor_of(state, task, place);
}

/* Set a cursor back to a place if it is past it, also when a page in flight will bring it there. */
static void rewind_to(struct load_state *state, bool of_park, u8 place)
{
    u8 part = of_park ? PARK_PAGE : part_of(state, (u8)(place + 1));
    u8 *cursor = of_park ? &state->park_cursor : part == PAST_PAGE ? &state->past : &state->cursor;

    if (load.park_past && of_park && place < state->split && state->park_cursor >= state->split &&
        state->past < place) {
        place = state->past; // Behind it nothing of its queue need be in memory.
    }
    if (place < *cursor) {
        *cursor = place;
    }
    if (state->page == part && (!state->is_rewound || place < state->rewind)) {
        state->is_rewound = 1;
        state->rewind = place;
    }
}

static void park(struct load_state *state, u8 place)
{
    if (!state->park) {
        state->park = 1;
        state->park_cursor = load.park_low ? state->cursor : PLACES;
    }
    rewind_to(state, true, place);
}

/* An entry leaves memory. */
static void forget(struct load_state *state, unsigned task)
{
    struct load_task *t = &state->tasks[task];

    t->entry = (struct load_row){0};
    t->is_gone = state->page != 0 && load.gone ? 1 : t->is_gone;
    t->is_old = t->visit > 0;
}

/* Take one row of a page. False: the page ends before it. */
static bool take_row(struct load_state *state, unsigned task, enum how how)
{
    struct load_task *t = &state->tasks[task];
    const struct load_row *row = &t->snapshot;

    if ((load.newer && t->entry.has) || t->is_gone) {
        return true;
    }
    if (load.parked_since && state->page != PARK_PAGE && is_parked(state, task) &&
        state->park_cursor < row->place) {
        return true;
    }
    if (how == LINE_FULL) {
        park(state, (u8)(row->place - 1));
        return state->page != PARK_PAGE;
    }
    if (how == NO_MEMORY) {
        rewind_to(state, is_parked(state, task), (u8)(row->place - 1));
        return false;
    }
    t->entry = *row;
    return true;
}

static void advance(struct load_state *state)
{
    u8 end = state->end;

    if (load.rewound && state->is_rewound && state->rewind < end) {
        end = state->rewind;
    }
    if (state->page == OWN_PAGE) {
        state->cursor = end;
    } else if (state->page == PAST_PAGE) {
        state->past = end;
    } else if (load.unpark_at && end < state->cursor) {
        state->park_cursor = end;
    } else {
        state->park = state->park_cursor = 0;
    }
}

/* Put a page away; `how` is what happens to the rows of one task. */
static void page_done(struct load_state *state, unsigned odd, enum how how)
{
    bool goes_on = true;

    for (u8 place = 1; goes_on && place <= PLACES; place++) {
        for (unsigned i = 0; goes_on && i < TASKS; i++) {
            if (state->tasks[i].snapshot.has && state->tasks[i].snapshot.place == place) {
                goes_on = take_row(state, i, i == odd ? how : ALL_FIT);
            }
        }
    }
    advance(state);
    for (unsigned i = 0; i < TASKS; i++) {
        state->tasks[i].is_gone = 0;
        state->tasks[i].snapshot = (struct load_row){0};
    }
    state->page = state->page_read = state->from = state->to = state->end = 0;
    state->is_rewound = state->rewind = state->skips_park = 0;
}

/* What the database gives for the page in flight. */
static void page_read(struct load_state *state)
{
    int left = load.limit;

    state->page_read = 1;
    state->end = state->to;
    for (u8 place = (u8)(state->from + 1); place <= state->to; place++) {
        for (unsigned i = 0; i < TASKS; i++) {
            struct load_task *t = &state->tasks[i];
            bool is_of = state->page != PARK_PAGE ? i == 0 || !state->skips_park : i > 0;

            if (!t->row.has || t->row.place != place || !is_of) {
                continue;
            }
            if (left == 0) {
                return; // There are more: the page ends at its last row.
            }
            t->snapshot = t->row;
            left--;
            if (left == 0) {
                state->end = place;
            }
        }
    }
    state->end = state->to;
}

static void send_page(struct load_state *state, u8 of)
{
    state->page = of;
    state->from = of == OWN_PAGE    ? state->cursor
                  : of == PAST_PAGE ? state->past
                                    : state->park_cursor;
    state->to = of == PAST_PAGE ? state->split : state->target;
    state->skips_park = of != PARK_PAGE && state->park &&
                        (of == OWN_PAGE || !load.park_part || state->park_cursor < state->split);
}

/* A write is answered: what it means for memory. */
static void answer(struct load_state *state, unsigned task, enum how how)
{
    struct load_task *t = &state->tasks[task];
    u8 op = t->op;

    t->op = t->is_committed = t->to = 0;
    if (op == O_DELETE) {
        forget(state, task);
        return;
    }
    if (op == O_MOVE) {
        t->entry.place = t->row.place; // The rest is as memory had it.
        t->entry.version++;
        if (!window_has(state, task, t->entry.place)) {
            forget(state, task);
        }
        return;
    }
    if (!window_has(state, task, t->row.place)) {
        return;
    }
    if (how == LINE_FULL) {
        park(state, (u8)(t->row.place - 1));
    } else if (how == NO_MEMORY) {
        rewind_to(state, is_parked(state, task), (u8)(t->row.place - 1));
    } else {
        t->entry = t->row;
    }
}

static void commit(struct load_task *t)
{
    t->is_committed = 1;
    switch (t->op) {
    case O_INSERT:
        t->row = (struct load_row){.has = 1, .place = t->to, .version = 1};
        break;
    case O_MOVE:
        t->row.place = t->to;
        t->row.version++;
        break;
    default:
        t->row = (struct load_row){0};
        break;
    }
}

/* The promises, wherever a task has no write in flight. */
static void look(struct explore *explore, struct load_state *state)
{
    for (unsigned i = 0; i < TASKS; i++) {
        const struct load_task *t = &state->tasks[i];

        if (t->op != O_NONE) {
            continue;
        }
        if (t->row.has && !t->entry.has && t->row.place <= *cursor_of(state, i, t->row.place)) {
            explore_fail(explore, "lost: task %u lies before the cursor and not in memory", i);
        }
        if (t->entry.has && !t->row.has) {
            explore_fail(explore, "ghost: task %u is in memory and has no row", i);
        }
        if (t->entry.has &&
            (t->entry.place != t->row.place || t->entry.version != t->row.version)) {
            explore_fail(explore, "stale: task %u is in memory as its row was before", i);
        }
    }
    explore_end(explore);
}

static struct load_state *begin(struct explore *explore, const struct load_state *state,
                                enum step step, unsigned arg, bool is_fault)
{
    return explore_begin(explore, state, (uint32_t)step, arg, is_fault);
}

static void add_moves(struct explore *explore, const struct load_state *state, unsigned task,
                      enum step step)
{
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        struct load_state *next = begin(explore, state, step, task, true);
        struct load_task *t = &next->tasks[task];

        if (step == S_VISIT_DONE) {
            t->entry = t->visited;
            t->visit = t->is_old = 0;
            t->visited = (struct load_row){0};
        } else {
            next->moves++;
        }
        t->op = O_MOVE;
        t->to = place_of(bucket, task);
        look(explore, next);
    }
}

/* What users and attempts do to one task that is in memory, or not yet there. */
static void add_writes(struct explore *explore, const struct load_state *state, unsigned task)
{
    const struct load_task *t = &state->tasks[task];
    struct load_state *next;

    for (unsigned bucket = 0;
         t->op == O_NONE && !t->row.has && t->row.version == 0 && state->inserts < load.inserts &&
         task >= TASKS - (unsigned)load.inserts && bucket < BUCKETS;
         bucket++) {
        next = begin(explore, state, S_INSERT, task, true);
        next->inserts++;
        next->tasks[task].op = O_INSERT;
        next->tasks[task].to = place_of(bucket, task);
        look(explore, next);
    }
    if (t->op == O_NONE && t->entry.has) {
        if (state->moves < load.moves) {
            add_moves(explore, state, task, S_MOVE);
        }
        if (state->deletes < load.deletes) {
            next = begin(explore, state, S_DELETE, task, true);
            next->deletes++;
            next->tasks[task].op = O_DELETE;
            look(explore, next);
        }
    }
    if (t->op != O_NONE && !t->is_committed) {
        next = begin(explore, state, S_COMMIT, task, false);
        commit(&next->tasks[task]);
        look(explore, next);
    }
    if (t->is_committed) {
        next = begin(explore, state, S_ANSWER, task, false);
        answer(next, task, ALL_FIT);
        look(explore, next);
    }
    if (t->is_committed && t->op == O_INSERT && state->shorts < load.shorts) {
        next = begin(explore, state, S_ANSWER_SHORT, task, true);
        next->shorts++;
        answer(next, task, NO_MEMORY);
        look(explore, next);
    }
    if (t->is_committed && t->op == O_INSERT && task > 0 && state->parks < load.parks) {
        next = begin(explore, state, S_ANSWER_LEFT, task, true);
        next->parks++;
        answer(next, task, LINE_FULL);
        look(explore, next);
    }
}

/* A far row is read, and changed, for a call. */
static void add_visit(struct explore *explore, const struct load_state *state, unsigned task)
{
    const struct load_task *t = &state->tasks[task];
    struct load_state *next;

    if (t->visit == 0 && t->op == O_NONE && t->row.has && !t->entry.has &&
        state->moves < load.moves) {
        next = begin(explore, state, S_VISIT, task, true);
        next->moves++;
        next->tasks[task].visit = 1;
        look(explore, next);
    }
    if (t->visit == 1) {
        next = begin(explore, state, S_VISIT_READ, task, false);
        next->tasks[task].visit = 2;
        next->tasks[task].visited = next->tasks[task].row;
        look(explore, next);
    }
    if (t->visit != 2 || t->op != O_NONE) {
        return;
    }
    if (t->entry.has || !t->visited.has || (load.reread && t->is_old)) {
        // Memory has it by now, it has gone, or it may be old: from the beginning.
        next = begin(explore, state, S_VISIT_DONE, task, false);
        next->tasks[task].visit = next->tasks[task].is_old = 0;
        next->tasks[task].visited = (struct load_row){0};
        look(explore, next);
    } else {
        add_moves(explore, state, task, S_VISIT_DONE);
    }
}

static void add_page_ends(struct explore *explore, const struct load_state *state)
{
    struct load_state *next = begin(explore, state, S_PAGE_DONE, 0, false);

    page_done(next, TASKS, ALL_FIT);
    look(explore, next);
    for (unsigned i = 0; i < TASKS; i++) {
        if (!state->tasks[i].snapshot.has) {
            continue;
        }
        if (state->shorts < load.shorts) {
            next = begin(explore, state, S_PAGE_SHORT, i, true);
            next->shorts++;
            page_done(next, i, NO_MEMORY);
            look(explore, next);
        }
        if (i > 0 && state->parks < load.parks) {
            next = begin(explore, state, S_PAGE_FULL, i, true);
            next->parks++;
            page_done(next, i, LINE_FULL);
            look(explore, next);
        }
    }
}

static void add_pages(struct explore *explore, const struct load_state *state)
{
    struct load_state *next;

    if (state->page == 0 && state->cursor < state->target) {
        next = begin(explore, state, S_PAGE, 0, false);
        send_page(next, OWN_PAGE);
        look(explore, next);
    }
    if (state->page == 0 && state->past < state->split) {
        next = begin(explore, state, S_PAST_PAGE, 0, false);
        send_page(next, PAST_PAGE);
        look(explore, next);
    }
    if (state->page == 0 && state->park) {
        next = begin(explore, state, S_PARK_PAGE, 0, false);
        send_page(next, PARK_PAGE);
        look(explore, next);
    }
    if (state->page != 0 && !state->page_read) {
        next = begin(explore, state, S_PAGE_READ, 0, false);
        page_read(next);
        look(explore, next);
    }
    if (state->page_read) {
        add_page_ends(explore, state);
    }
}

static void add_pressure(struct explore *explore, const struct load_state *state)
{
    struct load_state *next;

    for (unsigned i = 1; i < TASKS && state->parks < load.parks; i++) {
        if (state->tasks[i].entry.has && state->tasks[i].op == O_NONE) {
            next = begin(explore, state, S_PARK, i, true);
            next->parks++;
            park(next, (u8)(next->tasks[i].entry.place - 1));
            forget(next, i);
            look(explore, next);
        }
    }
    if (state->parks < load.parks && state->page == 0) {
        next = begin(explore, state, S_PARK_FULL, 0, true);
        next->parks++;
        park(next, next->cursor);
        look(explore, next);
        next = begin(explore, state, S_PARK_FULL, 1, true);
        next->parks++;
        park(next, next->past < next->split ? next->past : next->cursor);
        look(explore, next);
    }
    if (state->evictions < load.evictions) {
        next = begin(explore, state, S_EVICT, 0, true);
        next->evictions++;
        for (unsigned i = 0; i < TASKS; i++) {
            if (next->tasks[i].op == O_NONE && next->tasks[i].entry.place > TASKS) {
                forget(next, i);
            }
        }
        rewind_to(next, false, TASKS);
        if (next->park) {
            rewind_to(next, true, TASKS);
        }
        look(explore, next);
    }
    if (state->target < PLACES) {
        next = begin(explore, state, S_RAISE, 0, false);
        next->target = PLACES;
        look(explore, next);
    }
}

static void next_states(struct explore *explore, const void *from)
{
    const struct load_state *state = from;

    for (unsigned i = 0; i < TASKS; i++) {
        add_writes(explore, state, i);
        add_visit(explore, state, i);
    }
    add_pages(explore, state);
    add_pressure(explore, state);
}

static void start(void *to)
{
    struct load_state *state = to;

    state->target = load.raises ? TASKS : PLACES;
    state->split = load.split ? TASKS : 0;
    state->cursor = state->split;
    for (unsigned i = 0; i + (unsigned)load.inserts < TASKS; i++) {
        state->tasks[i].row =
            (struct load_row){.has = 1, .place = place_of(i % BUCKETS, i), .version = 1};
    }
}

static bool is_goal(const void *of)
{
    const struct load_state *state = of;
    bool is =
        state->page == 0 && !state->park && state->cursor == PLACES && state->past == state->split;

    for (unsigned i = 0; i < TASKS; i++) {
        const struct load_task *t = &state->tasks[i];

        is = is && t->op == O_NONE && t->visit == 0 && t->row.has == t->entry.has;
    }
    return is;
}

static void print_row(const char *what, const struct load_row *row)
{
    if (row->has) {
        printf(", %s at %u, version %u", what, row->place, row->version);
    }
}

static void print(const void *of)
{
    static const char *const OPS[] = {"", ", insert", ", change", ", end"};
    static const char *const PAGES[] = {"", "shard", "park", "past"};
    const struct load_state *state = of;

    printf("      cursor %u of %u", state->cursor, state->target);
    if (state->split > 0) {
        printf(", past %u of %u", state->past, state->split);
    }
    if (state->park) {
        printf(", park at %u", state->park_cursor);
    }
    if (state->page != 0) {
        printf(", page of the %s after %u to %u%s", PAGES[state->page], state->from, state->to,
               state->page_read ? ", read" : "");
        if (state->is_rewound) {
            printf(", set back to %u", state->rewind);
        }
    }
    printf("\n");
    for (unsigned i = 0; i < TASKS; i++) {
        const struct load_task *t = &state->tasks[i];

        printf("      task %u", i);
        print_row("row", &t->row);
        print_row("in memory", &t->entry);
        print_row("in the page", &t->snapshot);
        print_row("visited", &t->visited);
        printf("%s%s%s\n", OPS[t->op], t->is_committed ? " has committed" : "",
               t->is_gone ? ", gone" : "");
    }
}

const struct model model_load = {.name = "load",
                                 .state_bytes = sizeof(struct load_state),
                                 .steps = STEPS,
                                 .options = OPTIONS,
                                 .start = start,
                                 .next = next_states,
                                 .is_goal = is_goal,
                                 .print = print};
