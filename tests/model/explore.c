/* SPDX-License-Identifier: Apache-2.0
 *
 * Breadth-first search over fingerprints. Only the states of two levels are kept whole; the way to
 * a state is found again by taking the same steps from the start.
 */
#include "tests/model/explore.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PATH_MAX_STEPS 4096
#define TABLE_BITS_MIN 12

/* Whole states of one level of the search. */
struct level {
    uint8_t *bytes;
    size_t count;
    size_t room;
};

struct explore {
    const struct model *model;
    size_t states_max;
    uint64_t *prints;   /* by number of state */
    uint32_t *before;   /* the state it was found from */
    uint16_t *acts;     /* and by what step: step * 16 + arg */
    uint8_t *marks;     /* goal, or one is reached from it */
    uint64_t *edges_of; /* where the edges of a state begin */
    uint32_t *edges;    /* steps that are no faults */
    uint64_t edge_count;
    uint64_t edge_room;
    uint32_t *table; /* fingerprint → number + 1 */
    uint32_t table_bits;
    uint32_t count;
    uint32_t current;
    uint64_t steps;
    struct level levels[2];
    unsigned filling; /* which of the two is being filled */
    /* the step that has begun */
    uint64_t scratch[MODEL_STATE_BYTES_MAX / 8];
    uint16_t act;
    bool is_fault;
    /* how it ended */
    bool is_full;
    bool is_violated;
    uint16_t bad_act;
    char text[200];
    /* looking for one successor of a state on the way to a violation */
    bool is_replaying;
    bool is_met;
    uint64_t wanted;
    uint64_t met[MODEL_STATE_BYTES_MAX / 8];
};

static uint64_t fingerprint(const uint64_t *words, size_t bytes)
{
    uint64_t hash = UINT64_C(0x9E3779B97F4A7C15) ^ bytes;

    for (size_t i = 0; i < (bytes + 7) / 8; i++) {
        hash = (hash ^ words[i]) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    hash *= UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ (hash >> 29);
}

static size_t slot_of(const struct explore *explore, uint64_t print)
{
    return (size_t)(print >> (64 - explore->table_bits));
}

/* The slot of a fingerprint, or the free one where it belongs. */
static size_t find_slot(const struct explore *explore, uint64_t print)
{
    size_t mask = ((size_t)1 << explore->table_bits) - 1;
    size_t slot = slot_of(explore, print);

    while (explore->table[slot] != 0 && explore->prints[explore->table[slot] - 1] != print) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

static bool grow_table(struct explore *explore)
{
    uint32_t *table = mem_new((size_t)2 << explore->table_bits, sizeof(*table));

    if (table == NULL) {
        return false;
    }
    mem_free(explore->table);
    explore->table = table;
    explore->table_bits++;
    for (uint32_t i = 0; i < explore->count; i++) {
        explore->table[find_slot(explore, explore->prints[i])] = i + 1;
    }
    return true;
}

static bool level_add(struct level *level, const void *state, size_t bytes)
{
    if (level->count == level->room) {
        size_t room = level->room == 0 ? 1024 : level->room * 3 / 2;
        uint8_t *grown = mem_resize(level->bytes, room * bytes);

        if (grown == NULL) {
            return false;
        }
        level->bytes = grown;
        level->room = room;
    }
    memcpy(level->bytes + level->count * bytes, state, bytes);
    level->count++;
    return true;
}

static bool add_edge(struct explore *explore, uint32_t to)
{
    if (explore->edge_count == explore->edge_room) {
        uint64_t room = explore->edge_room == 0 ? 4096 : explore->edge_room * 3 / 2;
        uint32_t *grown = mem_resize(explore->edges, room * sizeof(*grown));

        if (grown == NULL) {
            return false;
        }
        explore->edges = grown;
        explore->edge_room = room;
    }
    explore->edges[explore->edge_count++] = to;
    return true;
}

/* A state that was not known yet. */
static bool remember(struct explore *explore, uint64_t print, size_t slot)
{
    const struct model *model = explore->model;
    uint32_t number = explore->count;

    if (number == explore->states_max) {
        return false;
    }
    explore->prints[number] = print;
    explore->before[number] = explore->current;
    explore->acts[number] = explore->act;
    explore->marks[number] = model->is_goal == NULL || model->is_goal(explore->scratch);
    explore->table[slot] = ++explore->count;
    return level_add(&explore->levels[explore->filling], explore->scratch, model->state_bytes) &&
           ((explore->count >> (explore->table_bits - 1)) == 0 || grow_table(explore));
}

void *explore_begin(struct explore *explore, const void *state, uint32_t step, uint32_t arg,
                    bool is_fault)
{
    REQUIRE(arg < 16 && step < 4096);
    memcpy(explore->scratch, state, explore->model->state_bytes);
    explore->act = (uint16_t)(step << 4 | arg);
    explore->is_fault = is_fault;
    return explore->scratch;
}

void explore_end(struct explore *explore)
{
    uint64_t print = fingerprint(explore->scratch, explore->model->state_bytes);
    size_t slot;
    uint32_t number;

    if (explore->is_replaying) {
        if (!explore->is_met && print == explore->wanted) {
            explore->is_met = true;
            memcpy(explore->met, explore->scratch, sizeof(explore->met));
        }
        return;
    }
    if (explore->is_violated || explore->is_full) {
        return;
    }
    explore->steps++;
    slot = find_slot(explore, print);
    number = explore->table[slot] == 0 ? explore->count : explore->table[slot] - 1;
    if (number == explore->count && !remember(explore, print, slot)) {
        explore->is_full = true;
    } else if (!explore->is_fault && number != explore->current && explore->model->is_goal &&
               !add_edge(explore, number)) {
        explore->is_full = true;
    }
}

void explore_fail(struct explore *explore, const char *format, ...)
{
    va_list args;

    if (explore->is_violated || explore->is_replaying) {
        return;
    }
    explore->is_violated = true;
    explore->bad_act = explore->act;
    va_start(args, format);
    (void)vsnprintf(explore->text, sizeof(explore->text), format, args);
    va_end(args);
}

static void print_act(const struct model *model, uint32_t number, uint16_t act)
{
    printf(" %2u. %s %u\n", number, model->steps[act >> 4].text, act & 15U);
}

/* Say how a state was reached. Returns the number of steps. */
static uint32_t tell_way(struct explore *explore, uint32_t to, bool is_traced)
{
    static uint32_t path[PATH_MAX_STEPS];
    const struct model *model = explore->model;
    uint64_t state[MODEL_STATE_BYTES_MAX / 8];
    uint32_t length = 0;

    for (uint32_t at = to; at != 0 && length < PATH_MAX_STEPS; at = explore->before[at]) {
        path[length++] = at;
    }
    if (!is_traced) {
        return length;
    }
    memset(state, 0, sizeof(state));
    model->start(state);
    printf("  0. the start\n");
    model->print(state);
    explore->is_replaying = true;
    for (uint32_t i = 0; i < length; i++) {
        uint32_t at = path[length - 1 - i];

        explore->is_met = false;
        explore->wanted = explore->prints[at];
        model->next(explore, state);
        REQUIRE(explore->is_met);
        memcpy(state, explore->met, sizeof(state));
        print_act(model, i + 1, explore->acts[at]);
        model->print(state);
    }
    return length;
}

/* Mark what leads to a marked state. Later states tend to be nearer to the goal: backward. */
static bool spread(struct explore *explore)
{
    bool has_changed = false;

    for (uint32_t i = explore->count; i-- > 0;) {
        for (uint64_t k = explore->edges_of[i];
             explore->marks[i] == 0 && k < explore->edges_of[i + 1]; k++) {
            if (explore->marks[explore->edges[k]] != 0) {
                explore->marks[i] = 1;
                has_changed = true;
            }
        }
    }
    return has_changed;
}

/* The first state from which no path without faults leads to the goal; count: there is none. */
static uint32_t find_stuck(struct explore *explore)
{
    uint32_t at = 0;

    while (spread(explore)) {
    }
    while (at < explore->count && explore->marks[at] != 0) {
        at++;
    }
    return at;
}

static void search(struct explore *explore)
{
    const struct model *model = explore->model;

    memset(explore->scratch, 0, sizeof(explore->scratch));
    model->start(explore->scratch);
    explore->is_fault = true;
    explore_end(explore);
    while (explore->levels[explore->filling].count > 0) {
        struct level *level = &explore->levels[explore->filling];

        explore->filling ^= 1;
        explore->levels[explore->filling].count = 0;
        for (size_t i = 0; i < level->count; i++) {
            uint64_t state[MODEL_STATE_BYTES_MAX / 8] = {0};

            memcpy(state, level->bytes + i * model->state_bytes, model->state_bytes);
            explore->edges_of[explore->current] = explore->edge_count;
            model->next(explore, state);
            if (explore->is_violated || explore->is_full) {
                return;
            }
            explore->current++;
        }
    }
    explore->edges_of[explore->count] = explore->edge_count;
}

static bool open_search(struct explore *explore, const struct model *model, size_t states_max)
{
    memset(explore, 0, sizeof(*explore));
    explore->model = model;
    explore->states_max = states_max;
    explore->table_bits = TABLE_BITS_MIN;
    explore->prints = mem_new(states_max, sizeof(*explore->prints));
    explore->before = mem_new(states_max, sizeof(*explore->before));
    explore->acts = mem_new(states_max, sizeof(*explore->acts));
    explore->marks = mem_new(states_max, 1);
    explore->edges_of = mem_new(states_max + 1, sizeof(*explore->edges_of));
    explore->table = mem_new((size_t)1 << TABLE_BITS_MIN, sizeof(*explore->table));
    return explore->prints != NULL && explore->before != NULL && explore->acts != NULL &&
           explore->marks != NULL && explore->edges_of != NULL && explore->table != NULL;
}

static void close_search(struct explore *explore)
{
    mem_free(explore->prints);
    mem_free(explore->before);
    mem_free(explore->acts);
    mem_free(explore->marks);
    mem_free(explore->edges_of);
    mem_free(explore->edges);
    mem_free(explore->table);
    mem_free(explore->levels[0].bytes);
    mem_free(explore->levels[1].bytes);
}

/* Print what came of it. */
static enum explore_verdict judge(struct explore *explore, bool is_traced, uint32_t *length)
{
    uint32_t stuck;

    if (explore->is_violated) {
        *length = tell_way(explore, explore->current, is_traced) + 1;
        if (is_traced) {
            print_act(explore->model, *length, explore->bad_act);
        }
        printf("VIOLATED %s\n", explore->text);
        return EXPLORE_VIOLATED;
    }
    if (explore->is_full) {
        printf("NO ROOM after %u states\n", explore->count);
        return EXPLORE_NO_ROOM;
    }
    stuck = explore->model->is_goal == NULL ? explore->count : find_stuck(explore);
    if (stuck < explore->count) {
        *length = tell_way(explore, stuck, is_traced);
        printf("VIOLATED liveness: from here no path without faults leads to the goal\n");
        return EXPLORE_VIOLATED;
    }
    printf("HOLDS\n");
    return EXPLORE_HOLDS;
}

enum explore_verdict explore_run(const struct model *model, size_t states_max, bool is_traced)
{
    static struct explore explore;
    enum explore_verdict verdict = EXPLORE_NO_ROOM;
    struct timespec start;
    struct timespec end;
    uint32_t length = 0;

    REQUIRE(model->state_bytes <= MODEL_STATE_BYTES_MAX && states_max > 0);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    if (open_search(&explore, model, states_max)) {
        search(&explore);
        verdict = judge(&explore, is_traced, &length);
    } else {
        printf("NO ROOM for the search\n");
    }
    close_search(&explore);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    printf("states=%u transitions=%llu steps=%u time=%.1f\n", explore.count,
           (unsigned long long)explore.steps, length,
           (double)(end.tv_sec - start.tv_sec) +
               (double)(end.tv_nsec - start.tv_nsec) / 1000000000.0);
    return verdict;
}
