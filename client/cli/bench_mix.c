/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawing tasks.
 */
#include "client/cli/bench_mix.h"

#include "client/cli/timetext.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/prng.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define DELAY_TEXT_BYTES 256

/* An exponential draw from 64 bits is at most this many times its mean. */
#define EXPONENTIAL_MAX 45

/* "5s", "1s..5s", "exp:10s"; changes the text. */
static int read_part(char *text, struct delay_part *out)
{
    static const char word[] = "exp:";
    char *dots = strstr(text, "..");

    out->is_exponential = strncmp(text, word, strlen(word)) == 0;
    if (out->is_exponential) {
        text += strlen(word);
    } else if (dots != NULL) {
        *dots = '\0';
        if (timetext_read_span(dots + 2, &out->max_ms) != 0) {
            return ERR_INVALID;
        }
    }
    if (timetext_read_span(text, &out->min_ms) != 0) {
        return ERR_INVALID;
    }
    if (out->is_exponential) {
        out->max_ms = time_mul(out->min_ms, EXPONENTIAL_MAX);
    } else if (dots == NULL) {
        out->max_ms = out->min_ms;
    }
    return out->max_ms < out->min_ms || out->max_ms > DELAY_MS_MAX ? ERR_INVALID : 0;
}

int delays_parse(const char *text, struct delays *out)
{
    struct delays delays = {.count = 0};
    char copy[DELAY_TEXT_BYTES];
    char *part = copy;

    if (strlen(text) >= sizeof(copy)) {
        return ERR_INVALID;
    }
    (void)snprintf(copy, sizeof(copy), "%s", text);
    while (part != NULL) {
        char *comma = strchr(part, ',');

        if (comma != NULL) {
            *comma++ = '\0';
        }
        if (delays.count == DELAY_PART_COUNT_MAX ||
            read_part(part, &delays.parts[delays.count++]) != 0) {
            return ERR_INVALID;
        }
        part = comma;
    }
    *out = delays;
    return 0;
}

span_ms delays_max(const struct delays *delays)
{
    span_ms max_ms = 0;

    for (size_t i = 0; i < delays->count; i++) {
        max_ms = time_max(max_ms, delays->parts[i].max_ms);
    }
    return max_ms;
}

static span_ms draw_delay(const struct delays *delays, struct prng *prng)
{
    const struct delay_part *part;

    if (delays->count == 0) {
        return 0;
    }
    part = &delays->parts[delays->count == 1 ? 0 : prng_below(prng, delays->count)];
    if (part->is_exponential) {
        double even = ((double)prng_next(prng) + 1.0) / 18446744073709551616.0; // 2^64

        return time_min((span_ms)(-log(even) * (double)part->min_ms), part->max_ms);
    }
    return prng_between(prng, part->min_ms, part->max_ms);
}

bool mix_is_keyed(const struct mix *mix, uint32_t number)
{
    struct prng prng;

    if (mix->keyed_permille == 0 || mix->keyed_permille == 1000) {
        return mix->keyed_permille != 0;
    }
    prng_init(&prng, mix->seed ^ ((uint64_t)number << 32U | 1U));
    return prng_chance(&prng, mix->keyed_permille);
}

void mix_describe(const struct mix *mix, uint32_t number, char *key, struct create_request *out)
{
    struct prng prng;

    memset(out, 0, sizeof(*out));
    out->queue = mix->queue;
    out->key_policy = KEY_KEEP;
    out->payload = mix->payload;
    if (mix->at.kind == WHEN_DUE) {
        out->when = mix->at;
    } else {
        prng_init(&prng, mix->seed + number);
        out->when.kind = WHEN_DELAY;
        out->when.delay_ms = draw_delay(&mix->delays, &prng);
    }
    if (mix_is_keyed(mix, number)) {
        (void)snprintf(key, MIX_KEY_BYTES, "bench-%016" PRIx64 "-%" PRIu32, mix->seed, number);
        out->key = slice_of(key);
    }
}
