/* SPDX-License-Identifier: Apache-2.0
 *
 * Explicit-state search, breadth first, so that a counterexample is a shortest one. A model says
 * how a state begins and what may follow it; this file remembers which states there were, by a
 * 64-bit fingerprint each (two that share one, a chance below 1 in 10,000 at 30 million states,
 * would hide what follows the second), finds the way to a violation again, and shows that from
 * every state a path without faults leads to the goal.
 */
#ifndef FOLIOT_TESTS_MODEL_EXPLORE_H
#define FOLIOT_TESTS_MODEL_EXPLORE_H

#include "lib/base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What states are made of. */
typedef uint8_t u8;

struct explore;

/* One kind of step. `code` names what does it in the product: "file function", or "world" for what
 * the product does not do itself. The tables of steps end with a NULL text. */
struct model_step {
    const char *text;
    const char *code;
};

/* A number of a model that rows of rows.txt may set. With `code` it is a rule of the protocol: 1 is
 * what the product does, and some row must show what happens without it. The tables end with a NULL
 * name. */
struct model_option {
    const char *name;
    int *value;
    const char *text;
    const char *code; /* NULL: a bound, a fault's budget or a user's habit */
};

/* A model. States are plain bytes without pointers; two are the same if their bytes are. */
struct model {
    const char *name;
    size_t state_bytes; /* ≤ MODEL_STATE_BYTES_MAX */
    const struct model_step *steps;
    const struct model_option *options;
    void (*start)(void *state); /* state is zeroed */
    void (*next)(struct explore *explore, const void *state);
    bool (*is_goal)(const void *state); /* NULL: nothing has to be reached */
    void (*print)(const void *state);
};

#define MODEL_STATE_BYTES_MAX 512

/* Begin a step from `state`: a copy that the model changes until explore_end(). is_fault: the
 * world's doing, on which no recovery may count. */
void *explore_begin(struct explore *explore, const void *state, uint32_t step, uint32_t arg,
                    bool is_fault);

/* The step is complete: remember where it leads. */
void explore_end(struct explore *explore);

/* What the step that has begun does is against a promise. The first one ends the search. */
__attribute__((format(printf, 2, 3))) void explore_fail(struct explore *explore, const char *format,
                                                        ...);

enum explore_verdict {
    EXPLORE_HOLDS = 0,
    EXPLORE_VIOLATED = 1,
    EXPLORE_NO_ROOM = 2 /* more states than allowed, or no memory */
};

/* Search a model whose options are set. The verdict is printed, with the counterexample if
 * is_traced. states_max: at most so many are remembered. */
enum explore_verdict explore_run(const struct model *model, size_t states_max, bool is_traced);

#endif
