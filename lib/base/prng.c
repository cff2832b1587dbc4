/* SPDX-License-Identifier: Apache-2.0
 *
 * xoshiro256** by Blackman and Vigna, in the public domain as an algorithm.
 */
#include "lib/base/prng.h"

#include "lib/base/check.h"

static uint64_t rotate_left(uint64_t value, unsigned count)
{
    return (value << count) | (value >> (64U - count));
}

static uint64_t split_mix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void prng_init(struct prng *prng, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++) {
        prng->state[i] = split_mix(&seed);
    }
}

void prng_init_named(struct prng *prng, uint64_t seed, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a: spreads short names well enough.

    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash ^ (uint64_t)(unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    prng_init(prng, seed ^ hash);
}

uint64_t prng_next(struct prng *prng)
{
    uint64_t *s = prng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t prng_below(struct prng *prng, uint64_t bound)
{
    uint64_t floor;
    uint64_t draw;

    REQUIRE(bound >= 1);
    floor = (0 - bound) % bound; // Draws below this would favour small results.
    do {
        draw = prng_next(prng);
    } while (draw < floor);
    return draw % bound;
}

int64_t prng_between(struct prng *prng, int64_t low, int64_t high)
{
    uint64_t width;

    REQUIRE(low <= high);
    width = (uint64_t)high - (uint64_t)low;
    if (width == UINT64_MAX) {
        return (int64_t)prng_next(prng);
    }
    return (int64_t)((uint64_t)low + prng_below(prng, width + 1));
}

bool prng_chance(struct prng *prng, uint32_t permille)
{
    return prng_below(prng, 1000) < permille;
}
