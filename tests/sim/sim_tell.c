/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of forms, and how their words are filled in.
 */
#include "tests/sim/sim_tell.h"

#include "broker/core/call.h"
#include "broker/core/env.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/model/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE (-1)

/* What a form is of. */
enum weight {
    PLAIN = 0,
    FAULT,  /* done to the cluster from outside; marked */
    CHATTER /* repeats itself: not in transcripts */
};

/*
 * How an event is told. Of its values: which is the node, shard, epoch and task (NONE: none is).
 * In the text, "{3:x}" is value 3 as x says: "e" error, "o" outcome, "k" kind of operation, "c"
 * kind of call, "q" kind of request to the coordinator, "s" session, "t" wall clock relative to
 * now, "u" span in microseconds, "p" epoch, "g" generation, if there is one, "" number.
 */
static const struct form {
    const char *what;
    int8_t node;
    int8_t shard;
    int8_t epoch;
    int8_t task;
    int8_t weight;
    const char *text;
} FORMS[] = {
    /* what is done to the cluster */
    {"boot", 0, NONE, NONE, NONE, FAULT, "is started, life {1}"},
    {"kill", 0, NONE, NONE, NONE, FAULT, "is killed, life {1}"},
    {"pause", 0, NONE, NONE, NONE, FAULT, "is paused for {1:u}"},
    {"resume", 0, NONE, NONE, NONE, FAULT, "goes on"},
    {"drain", 0, NONE, NONE, NONE, FAULT, "is told to leave"},
    {"leave", 0, NONE, NONE, NONE, FAULT, "leaves, drained: {1}"},
    {"session-over", 0, NONE, NONE, NONE, FAULT, "session {1} is over at the coordinator"},
    {"cut", NONE, NONE, NONE, NONE, FAULT,
     "what {0} sends does not reach {1} (8 coordinator, 9 users, 10 targets, 11 databases)"},
    {"mend", NONE, NONE, NONE, NONE, FAULT, "what {0} sends reaches {1} again"},
    {"hide", 0, NONE, NONE, NONE, FAULT, "is told of node {1} no more, or again"},
    {"rebuild", NONE, NONE, NONE, NONE, FAULT, "the coordinator is lost and made anew"},
    {"base", NONE, NONE, NONE, NONE, FAULT, "the base of all generations is {0}"},
    {"stray", NONE, NONE, NONE, NONE, FAULT, "a write of session {0} arrives after all"},
    {"coord-stop", NONE, NONE, NONE, NONE, FAULT, "the coordinator stops"},
    {"coord-start", NONE, NONE, NONE, NONE, FAULT, "the coordinator is back"},
    {"znode-deleted", NONE, 0, NONE, NONE, FAULT, "its owner znode is deleted by hand"},
    {"timeline", 0, NONE, NONE, NONE, FAULT, "hears of a new timeline of database {1}"},
    {"promote", NONE, NONE, NONE, NONE, FAULT,
     "the standby of database {0} takes over without the commits of the last {1:u}"},
    {"changed", 0, NONE, NONE, NONE, FAULT, "finds another server behind database {1}"},
    {"clock-step", NONE, NONE, NONE, NONE, FAULT, "the clock of database {0} steps by {1:u}"},
    {"database-down", NONE, NONE, NONE, NONE, FAULT, "database {0} is down"},
    {"database-up", NONE, NONE, NONE, NONE, FAULT, "database {0} is up"},
    /* the coordinator's clients */
    {"session", 0, NONE, NONE, NONE, PLAIN, "session: {1:s}"},
    {"members", 0, NONE, NONE, NONE, CHATTER, "hears of {1} members"},
    {"publish", 0, NONE, NONE, NONE, CHATTER, "coordinator: publish: {3:e}"},
    {"coord", 0, 2, NONE, NONE, PLAIN, "coordinator: {1:q}: {3:e}{4:g}"},
    {"znode-lost", 0, 1, NONE, NONE, PLAIN, "hears that its owner znode is gone"},
    {"znode-free", 0, 1, NONE, NONE, PLAIN, "hears that its owner znode is nobody's"},
    /* the database */
    {"epoch", NONE, 0, 1, NONE, PLAIN, "commit: the epoch is {1:p}"},
    {"commit", NONE, 1, NONE, 2, PLAIN, "commit: {0:k}, attempt {3}{5:d}"},
    {"write", 0, NONE, NONE, NONE, CHATTER, "write of {3} operations to database {1}: {2:e}"},
    {"bump", 0, 1, 2, NONE, PLAIN, "bump: {3:e}"},
    /* a broker's shard */
    {"idle", 0, 1, 2, NONE, PLAIN, "is idle"},
    {"acquiring", 0, 1, 2, NONE, PLAIN, "is acquiring"},
    {"bumping", 0, 1, 2, NONE, PLAIN, "is bumping"},
    {"loading", 0, 1, 2, NONE, PLAIN, "is loading"},
    {"active", 0, 1, 2, NONE, PLAIN, "is active"},
    {"draining", 0, 1, 2, NONE, PLAIN, "is draining"},
    {"releasing", 0, 1, 2, NONE, PLAIN, "is releasing"},
    {"fenced", 0, 1, 2, NONE, PLAIN, "finds that it is fenced"},
    {"superseded", 0, 1, 2, NONE, PLAIN, "finds a newer epoch than {4:p}"},
    {"unknown", 0, 1, 2, NONE, PLAIN, "does not know what became of a write"},
    {"rewind", 0, 1, 2, 3, PLAIN, "reads again from {4:t}"},
    {"page", 0, 1, 2, NONE, CHATTER, "has read {4} rows"},
    {"past", 0, 1, 2, NONE, CHATTER, "has read {4} rows of what is past"},
    {"unpark", 0, 1, 2, NONE, PLAIN, "reads queue {5} back"},
    /* a broker's tasks */
    {"insert", 0, 1, 2, 3, PLAIN, "is created, due {4:t}"},
    {"insert-failed", 0, 1, 2, 3, PLAIN, "insert: {4:e}"},
    {"stale-row", 0, 1, 2, 3, PLAIN, "is not as its row says"},
    {"park", 0, 1, 2, 3, PLAIN, "is left in the database"},
    {"claim", 0, 1, 2, 3, PLAIN, "attempt {4} is claimed, deadline {5:t}"},
    {"start", 0, 1, 2, 3, PLAIN, "attempt {4} starts, start_by {5:t}"},
    {"outcome", 0, 1, 2, 3, PLAIN, "attempt {4} ended: {5:o}"},
    {"report", 0, 1, 2, 3, PLAIN, "attempt {4}, another broker's, ended: {5:o}"},
    {"settle", 0, 1, 2, 3, PLAIN, "attempt {4} is settled: {5:k}"},
    {"mismatch", 0, 1, 2, 3, PLAIN, "the row is not as expected: {4:e}, {5:k}"},
    {"missed", 0, 1, 2, 3, PLAIN, "audit: it is due and in nobody's hands"},
    {"missed-claim", 0, 1, 2, 3, PLAIN, "audit: nobody ends the claim of attempt {4}"},
    {"missing-row", 0, 1, 2, 3, PLAIN, "audit: it is in memory and has no row"},
    {"expire", 0, 1, 2, 3, PLAIN, "has expired"},
    {"cancel", 0, 1, 2, 3, PLAIN, "is cancelled, attempt {4}"},
    {"update", 0, 1, 2, 3, PLAIN, "is updated, due {4:t}, attempt {5}"},
    {"redrive", 0, 1, 2, 3, PLAIN, "is redriven, due {4:t}"},
    {"purge", 0, 1, 2, 3, PLAIN, "is purged"},
    /* between brokers and targets */
    {"send", 0, 1, NONE, 2, PLAIN, "attempt {3} leaves for its target"},
    {"heard", 0, 1, NONE, 2, PLAIN, "attempt {3} is answered: {4:o}"},
    {"told", 0, 1, NONE, 2, PLAIN, "is told how attempt {3} ended: {4:e}"},
    /* users */
    {"ask", NONE, 2, NONE, 3, PLAIN, "call {0}: {1:c}"},
    {"answer", NONE, 5, NONE, 6, PLAIN, "call {0}: {1:c}: {2:e}, {3}, attempt {4}"},
    {"read", 0, 1, NONE, NONE, CHATTER, "answers a reader: {2:c}: {4:e}"},
    {"lost", NONE, NONE, NONE, NONE, PLAIN, "call {0} will never be answered"},
};

static const char *const OUTCOMES[] = {"nothing",  "done",    "retry",      "dead",
                                       "obsolete", "unknown", "not started"};
static const char *const OPERATIONS[] = {"?",     "insert", "delete",  "change",
                                         "claim", "dead",   "redrive", "purge"};
static const char *const CALLS[] = {"?",      "create", "get",     "cancel",
                                    "update", "scan",   "redrive", "purge"};
static const char *const REQUESTS[] = {"?", "acquire", "release", "state", "publish"};
static const char *const SESSIONS[] = {"?", "away", "connected", "new", "lost"};

_Static_assert(OUTCOME_NOT_STARTED + 1 == ARRAY_COUNT(OUTCOMES), "a name for each outcome");
_Static_assert(STORE_PURGE + 1 == ARRAY_COUNT(OPERATIONS), "a name for each operation");
_Static_assert(CALL_PURGE + 1 == ARRAY_COUNT(CALLS), "a name for each kind of call");
_Static_assert(COORD_PUBLISH + 1 == ARRAY_COUNT(REQUESTS), "a name for each request");
_Static_assert(COORD_LOST + 1 == ARRAY_COUNT(SESSIONS), "a name for each state of a session");

bool sim_tell_want_task(struct sim_tell_filter *filter, const char *text, uint32_t shard_count)
{
    struct task_id id;
    char *end = NULL;
    unsigned long long seq;

    if (task_id_parse(slice_of(text), &id) == 0) {
        filter->has_shard = true;
        filter->shard = shard_of_slot(id.slot, shard_count);
        seq = (unsigned long long)id.seq;
    } else {
        seq = strtoull(text, &end, 16);
        if (end == text || *end != '\0' || seq > INT64_MAX) {
            return false;
        }
    }
    filter->has_task = true;
    filter->seq = (int64_t)seq;
    return true;
}

void sim_told_set(struct sim_told *told, const struct sim *sim, const char *what,
                  const int64_t *values, size_t count)
{
    told->what = what;
    told->count = count < SIM_TOLD_VALUES_MAX ? count : SIM_TOLD_VALUES_MAX;
    memcpy(told->values, values, told->count * sizeof(values[0]));
    told->at = sim == NULL ? 0 : sim->now;
}

static const struct form *find_form(const char *what)
{
    for (size_t i = 0; i < ARRAY_COUNT(FORMS); i++) {
        if (strcmp(FORMS[i].what, what) == 0) {
            return &FORMS[i];
        }
    }
    return NULL;
}

/* The value that a form has for a place; false: it has none. */
static bool value_at(const struct sim_told *told, int place, int64_t *value)
{
    if (place < 0 || (size_t)place >= told->count) {
        return false;
    }
    *value = told->values[place];
    return true;
}

static bool is_wanted(const struct sim_tell_filter *filter, const struct form *form,
                      const struct sim_told *told)
{
    int64_t value = 0;

    if (form == NULL) {
        return !filter->has_shard && !filter->has_task;
    }
    if (form->weight == CHATTER && filter->is_brief) {
        return false;
    }
    if (form->weight == FAULT) {
        return true;
    }
    if (filter->has_shard && (!value_at(told, form->shard, &value) || value != filter->shard)) {
        return false;
    }
    // What happens to the whole shard happens to the task.
    return !filter->has_task ||
           (value_at(told, form->task, &value) ? value == filter->seq
                                               : value_at(told, form->shard, &value));
}

static const char *name_of(const char *const *names, size_t count, int64_t value)
{
    return value >= 0 && (uint64_t)value < count ? names[value] : "?";
}

/* A wall clock as the database of the event's shard has it, relative to the event. */
static void add_clock(const struct sim *sim, const struct sim_told *told, int shard_place,
                      wall_ms time_ms, struct buf *out)
{
    int64_t shard = 0;
    uint32_t database = 0;
    int64_t left_ms;

    if (time_ms >= WALL_NEVER / US_PER_MS) {
        (void)buf_append_text(out, "never");
        return;
    }
    if (value_at(told, shard_place, &shard) && shard < sim->cluster.shard_count) {
        database = sim->cluster.database_of[shard];
    }
    left_ms = time_ms - (sim_clock(sim, database) - sim->now + told->at) / US_PER_MS;
    (void)buf_printf(out, left_ms < 0 ? "%.3f s ago" : "in %.3f s",
                     (double)(left_ms < 0 ? -left_ms : left_ms) / 1e3);
}

static void add_value(const struct sim *sim, const struct form *form, const struct sim_told *told,
                      size_t place, char as, struct buf *out)
{
    int64_t value = place < told->count ? told->values[place] : 0;

#define NAME(names) (void)buf_append_text(out, name_of((names), ARRAY_COUNT(names), value))
    switch (as) {
    case 'e':
        (void)buf_append_text(out, value == 0 ? "done" : err_name((int)value));
        break;
    case 'o':
        NAME(OUTCOMES);
        break;
    case 'k':
        NAME(OPERATIONS);
        break;
    case 'c':
        NAME(CALLS);
        break;
    case 'q':
        NAME(REQUESTS);
        break;
    case 's':
        NAME(SESSIONS);
        break;
    case 't':
        add_clock(sim, told, form->shard, value, out);
        break;
    case 'd':
        if (value != 0) {
            (void)buf_append_text(out, ", due ");
            add_clock(sim, told, form->shard, value, out);
        }
        break;
    case 'g':
        if (value != 0) {
            (void)buf_printf(out, ", generation %lld", (long long)value);
        }
        break;
    case 'u':
        (void)buf_printf(out, "%.3f s", (double)value / 1e6);
        break;
    case 'p':
        (void)buf_printf(out, "%lld.%lld", (long long)(value / EPOCH_BUMP_COUNT),
                         (long long)(value % EPOCH_BUMP_COUNT));
        break;
    default:
        (void)buf_printf(out, "%lld", (long long)value);
    }
#undef NAME
}

/* The text of a form with its values in place: "{3:e}". */
static void add_text(const struct sim *sim, const struct form *form, const struct sim_told *told,
                     struct buf *out)
{
    for (const char *place = form->text; *place != '\0'; place++) {
        if (*place != '{') {
            (void)buf_append(out, place, 1);
            continue;
        }
        add_value(sim, form, told, (size_t)(place[1] - '0'), place[2] == ':' ? place[3] : ' ', out);
        place = strchr(place, '}');
        REQUIRE(place != NULL);
    }
}

/* Who and where, in columns. */
static void add_subject(const struct form *form, const struct sim_told *told, bool is_brief,
                        struct buf *out)
{
    char node[24] = "";
    char shard[24] = "";
    char epoch[24] = "";
    int64_t value = 0;

    if (value_at(told, form->node, &value)) {
        (void)snprintf(node, sizeof(node), "node-%lld", (long long)value);
    }
    if (value_at(told, form->shard, &value)) {
        (void)snprintf(shard, sizeof(shard), "shard %lld", (long long)value);
    }
    if (value_at(told, form->epoch, &value) && value != 0) {
        (void)snprintf(epoch, sizeof(epoch), "%lld.%lld", (long long)(value / EPOCH_BUMP_COUNT),
                       (long long)(value % EPOCH_BUMP_COUNT));
    }
    (void)buf_printf(out, "%-7s %-9s %-5s ", node, shard, epoch);
    if (!value_at(told, form->task, &value) || value == 0) {
        return;
    }
    if (is_brief) { // By the epoch that made it, and its number there.
        int64_t made = value >> TASK_COUNTER_BITS;

        (void)buf_printf(out, "task %lld.%lld#%lld: ", (long long)(made / EPOCH_BUMP_COUNT),
                         (long long)(made % EPOCH_BUMP_COUNT),
                         (long long)(value & TASK_COUNTER_MAX));
    } else {
        (void)buf_printf(out, "task %llx: ", (unsigned long long)value);
    }
}

void sim_tell(const struct sim *sim, const struct sim_tell_filter *filter,
              const struct sim_told *told, struct buf *out)
{
    const struct form *form = find_form(told->what);

    if (!is_wanted(filter, form, told)) {
        return;
    }
    if (filter->is_brief) {
        (void)buf_printf(out, "%8.3f ", (double)(told->at - filter->from) / 1e6);
    } else {
        (void)buf_printf(out, "%12.6f ", (double)(told->at - filter->from) / 1e6);
    }
    (void)buf_append_text(out, form != NULL && form->weight == FAULT ? "* " : "  ");
    if (form != NULL) {
        add_subject(form, told, filter->is_brief, out);
        add_text(sim, form, told, out);
    } else {
        (void)buf_append_text(out, told->what);
        for (size_t i = 0; i < told->count; i++) {
            (void)buf_printf(out, " %lld", (long long)told->values[i]);
        }
    }
    (void)buf_append_text(out, "\n");
}
