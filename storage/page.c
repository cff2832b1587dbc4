/* SPDX-License-Identifier: Apache-2.0
 *
 * A page from several queues.
 */
#include "storage/page.h"

#include <stdlib.h>

static int compare_places(int64_t bucket, int64_t seq, int64_t other_bucket, int64_t other_seq)
{
    int order = (bucket > other_bucket) - (bucket < other_bucket);

    return order != 0 ? order : (seq > other_seq) - (seq < other_seq);
}

static int compare_rows(const void *left, const void *right)
{
    const struct task *a = left;
    const struct task *b = right;

    return compare_places(due_bucket(a->due_ms), a->id.seq, due_bucket(b->due_ms), b->id.seq);
}

void page_end_at(struct page_end *end, const struct task *row)
{
    int64_t bucket = due_bucket(row->due_ms);

    if (!end->is_set || compare_places(bucket, row->id.seq, end->bucket, end->seq) < 0) {
        *end = (struct page_end){true, bucket, row->id.seq};
    }
}

size_t page_finish(struct task *rows, size_t count, const struct page_end *end, uint32_t limit,
                   bool *has_more)
{
    size_t kept = count;

    if (count > 0) {
        qsort(rows, count, sizeof(*rows), compare_rows);
    }
    while (kept > 0 && end->is_set &&
           compare_places(due_bucket(rows[kept - 1].due_ms), rows[kept - 1].id.seq, end->bucket,
                          end->seq) > 0) {
        kept--;
    }
    kept = kept < limit ? kept : limit;
    *has_more = end->is_set || kept < count;
    return kept;
}
