/* SPDX-License-Identifier: Apache-2.0
 *
 * A page of a shard's rows from an index by queue: each queue is read up to its share of the page,
 * and the page ends where the first of them has more. So a page costs twice its rows at most,
 * however many rows a queue has that is left out. Private to storage. source: docs/adr/0016
 */
#ifndef FOLIOT_STORAGE_PAGE_H
#define FOLIOT_STORAGE_PAGE_H

#include "lib/model/task.h"

/* Least share of a queue: with more queues than a quarter of the page's rows, a page costs more. */
#define PAGE_SHARE_MIN 8

/* Where a page has to end. Zeroed: nowhere. */
struct page_end {
    bool is_set;
    int64_t bucket;
    int64_t seq;
};

/* Rows to read of each queue for a page of `limit` rows. */
static inline uint32_t page_share(uint32_t limit, size_t queue_count)
{
    size_t even = queue_count < 2 ? limit : 2 * (size_t)limit / queue_count;
    size_t share = even < limit ? even : limit;

    return share < PAGE_SHARE_MIN ? PAGE_SHARE_MIN : (uint32_t)share;
}

/* A queue has given its share: what is behind this row, the last of the share, was not read. */
void page_end_at(struct page_end *end, const struct task *row);

/*
 * Put rows in the order of (bucket, seq) and leave out what is behind the end or the limit.
 *
 * result: how many are left; has_more: some were left out, or not read.
 */
size_t page_finish(struct task *rows, size_t count, const struct page_end *end, uint32_t limit,
                   bool *has_more);

#endif
