/* SPDX-License-Identifier: Apache-2.0
 *
 * The digest: each 64-bit word is mixed into the state by the finalizer of splitmix64, so that
 * order and boundaries count.
 */
#include "lib/base/trace.h"

#include <string.h>

#define TRACE_START UINT64_C(0x666f6c696f740001)

static uint64_t mix(uint64_t digest, uint64_t word)
{
    uint64_t z = digest * UINT64_C(0x9e3779b97f4a7c15) + word + 1;

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A word that was read from bytes, the first of them lowest on any machine. */
static uint64_t little(uint64_t word)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? word : __builtin_bswap64(word);
}

/* Eight bytes of the text in a word; the length is what keeps "ab" and "ab\0" apart. */
static uint64_t mix_text(uint64_t digest, const char *text)
{
    uint64_t len = strlen(text);
    uint64_t word = 0;
    size_t i = 0;

    for (; i + 8 <= len; i += 8) {
        memcpy(&word, text + i, 8);
        digest = mix(digest, little(word));
    }
    word = 0;
    memcpy(&word, text + i, len - i);
    return mix(mix(digest, little(word)), len);
}

void trace_init(struct trace *trace, trace_fn fn, void *ctx)
{
    *trace = (struct trace){TRACE_START, 0, fn, ctx};
}

void trace_add(struct trace *trace, const char *what, const int64_t *values, size_t count)
{
    uint64_t digest;

    if (trace == NULL) {
        return;
    }
    digest = mix_text(trace->digest, what);
    for (size_t i = 0; i < count; i++) {
        digest = mix(digest, (uint64_t)values[i]);
    }
    trace->digest = mix(digest, count);
    trace->count++;
    if (trace->fn != NULL) {
        trace->fn(trace->ctx, what, values, count);
    }
}
