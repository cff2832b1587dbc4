/* SPDX-License-Identifier: Apache-2.0
 *
 * A seeded generator (xoshiro256**, seeded by splitmix64) with named sub-streams, so that a new
 * draw in one component does not shift the others. Not for secrets.
 */
#ifndef FOLIOT_LIB_BASE_PRNG_H
#define FOLIOT_LIB_BASE_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct prng {
    uint64_t state[4];
};

/* Start a generator from a seed; equal seeds give equal sequences on every machine. */
void prng_init(struct prng *prng, uint64_t seed);

/*
 * Start an independent generator for one component, from a seed and the component's name.
 *
 * shape: name is a short constant string; equal (seed, name) give equal sequences.
 */
void prng_init_named(struct prng *prng, uint64_t seed, const char *name);

/* Next 64 random bits. */
uint64_t prng_next(struct prng *prng);

/* A number in 0 … bound − 1, without bias. shape: bound ≥ 1. */
uint64_t prng_below(struct prng *prng, uint64_t bound);

/* A number in low … high, both included. shape: low ≤ high. */
int64_t prng_between(struct prng *prng, int64_t low, int64_t high);

/* True in `permille` of 1000 draws. */
bool prng_chance(struct prng *prng, uint32_t permille);

#endif
