/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a listing goes on: what a page token says. Listings walk shard after shard, and in a shard
 * by (bucket, seq).
 */
#ifndef FOLIOT_PROTO_PAGE_H
#define FOLIOT_PROTO_PAGE_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

/* Longest token: a mark's four numbers. */
#define PAGE_TOKEN_BYTES_MAX 64

struct page_mark {
    uint32_t shard; /* below SHARD_COUNT_MAX; SHARD_COUNT_MAX or more: the end */
    int64_t bucket; /* everything of the shard up to (bucket, seq) has been listed; ≥ −1 */
    int64_t seq;    /* ≥ 0 */
    uint64_t count; /* done by the pages before, for calls that spread their work */
};

/* The mark before everything. */
struct page_mark page_start(void);

/* The mark before everything of a shard; the count stays. */
struct page_mark page_shard(struct page_mark mark, uint32_t shard);

/* Write a token and a NUL; "" for the end. shape: text has PAGE_TOKEN_BYTES_MAX + 1 bytes. */
char *page_format(struct page_mark mark, uint32_t shard_count, char *text);

/* Read a token; "" is the start. errors: ERR_INVALID: no token of ours. */
MUST_USE int page_parse(const char *token, struct page_mark *out);

#endif
