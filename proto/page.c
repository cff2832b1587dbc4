/* SPDX-License-Identifier: Apache-2.0
 *
 * Page tokens: four numbers in hex, with dots between them.
 */
#include "proto/page.h"

#include "lib/base/err.h"

#include <inttypes.h>
#include <stdio.h>

#define PART_COUNT      4
#define PART_DIGITS_MAX 16

struct page_mark page_start(void)
{
    return (struct page_mark){.shard = 0, .bucket = -1};
}

struct page_mark page_shard(struct page_mark mark, uint32_t shard)
{
    return (struct page_mark){.shard = shard, .bucket = -1, .count = mark.count};
}

char *page_format(struct page_mark mark, uint32_t shard_count, char *text)
{
    text[0] = '\0';
    if (mark.shard < shard_count) {
        (void)snprintf(text, PAGE_TOKEN_BYTES_MAX + 1,
                       "%" PRIx32 ".%" PRIx64 ".%" PRIx64 ".%" PRIx64, mark.shard,
                       (uint64_t)(mark.bucket + 1), (uint64_t)mark.seq, mark.count);
    }
    return text;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One number and what ends it. */
static int parse_part(const char **at, char end, uint64_t *value)
{
    const char *start = *at;

    *value = 0;
    while (digit_of(**at) >= 0 && *at - start < PART_DIGITS_MAX) {
        *value = *value << 4U | (uint64_t)digit_of(**at);
        (*at)++;
    }
    if (*at == start || **at != end) {
        return ERR_INVALID;
    }
    if (end != '\0') {
        (*at)++;
    }
    return 0;
}

int page_parse(const char *token, struct page_mark *out)
{
    uint64_t parts[PART_COUNT];
    const char *at = token;

    if (token[0] == '\0') {
        *out = page_start();
        return 0;
    }
    for (int i = 0; i < PART_COUNT; i++) {
        if (parse_part(&at, i + 1 < PART_COUNT ? '.' : '\0', &parts[i]) != 0) {
            return ERR_INVALID;
        }
    }
    if (parts[0] >= SHARD_COUNT_MAX || parts[1] > INT64_MAX || parts[2] > INT64_MAX) {
        return ERR_INVALID;
    }
    *out = (struct page_mark){
        .shard = (uint32_t)parts[0],
        .bucket = (int64_t)parts[1] - 1,
        .seq = (int64_t)parts[2],
        .count = parts[3],
    };
    return 0;
}
