/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tasks of a load look like. Key and delay of a task follow from its number and the seed,
 * so that a second try asks for the same task, and a run can be repeated.
 */
#ifndef FOLIOT_CLIENT_CLI_BENCH_MIX_H
#define FOLIOT_CLIENT_CLI_BENCH_MIX_H

#include "lib/base/attr.h"
#include "proto/codec_task.h"

#include <stdbool.h>
#include <stdint.h>

/* Parts of a delay, each drawn equally often. */
#define DELAY_PART_COUNT_MAX 8

struct delay_part {
    bool is_exponential; /* mean min_ms; else even between the two */
    span_ms min_ms;
    span_ms max_ms;
};

struct delays {
    struct delay_part parts[DELAY_PART_COUNT_MAX];
    size_t count; /* 0: no delay */
};

/*
 * Read "5s", "1s..5s", "exp:10s", or several of them with commas.
 *
 * errors: ERR_INVALID; out is then untouched.
 */
MUST_USE int delays_parse(const char *text, struct delays *out);

/* Longest delay that can come; of an exponential part the one that is drawn once in 10^19. */
span_ms delays_max(const struct delays *delays);

struct mix {
    struct queue_name queue;
    uint64_t seed;
    uint32_t keyed_permille; /* share of tasks with a key */
    struct delays delays;
    struct when at;       /* WHEN_DUE: all due then, instead of delays */
    struct slice payload; /* of each task */
};

/* Room for a key and its NUL. */
#define MIX_KEY_BYTES 48

/* Describe a task. shape: key has MIX_KEY_BYTES; out borrows it, and from mix. */
void mix_describe(const struct mix *mix, uint32_t number, char *key, struct create_request *out);

/* Does this task have a key? Then an unknown outcome may be tried again. */
bool mix_is_keyed(const struct mix *mix, uint32_t number);

#endif
