/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices of due times: what a page holds, and how pages meet when queues are left out.
 */
#include "tests/contract/store_contract_help.h"

#define QUEUES 30U
#define ROWS   1200U

/* The i-th of many rows: half of them in queue 1, the rest spread, ids in another order than due
 * times, many in one bucket. */
static struct store_op many_op(uint32_t i)
{
    struct store_op op = insert_op(2, (int64_t)i * 7 % ROWS + 1);

    op.task.queue = i % 2 == 0 ? 1 : 2 + i % QUEUES;
    op.task.due_ms = (wall_ms)(i * 31 % ROWS) / 50 * 65536;
    return op;
}

static void write_many(void)
{
    static struct store_op ops[ROWS];

    for (uint32_t i = 0; i < ROWS; i++) {
        ops[i] = many_op(i);
    }
    write_ops(ops, ROWS);
}

static bool is_wanted(const struct store_read *read, const struct task *row)
{
    for (size_t i = 0; i < read->skip_count; i++) {
        if (read->skip[i] == row->queue) {
            return false;
        }
    }
    return (read->queue == 0 || read->queue == row->queue) &&
           due_bucket(row->due_ms) <= read->to_bucket;
}

/* Read page by page to the end: all rows that are wanted, once, in order. */
static void walk(struct store_read read)
{
    size_t total = 0;
    size_t wanted = 0;
    int64_t last_bucket = INT64_MIN;
    int64_t last_seq = 0;

    read.kind = STORE_READ_SLICE;
    read.shard = 2;
    do {
        read.after_bucket = last_bucket;
        read.after_seq = last_seq;
        MUST_OK(read_now(&read));
        MUST(read.row_count <= read.limit);
        MUST(read.row_count > 0 || !read.has_more);
        for (size_t i = 0; i < read.row_count; i++) {
            int64_t bucket = due_bucket(seen.rows[i].due_ms);

            MUST(is_wanted(&read, &seen.rows[i]));
            MUST(bucket > last_bucket || (bucket == last_bucket && seen.rows[i].id.seq > last_seq));
            last_bucket = bucket;
            last_seq = seen.rows[i].id.seq;
        }
        total += read.row_count;
    } while (read.has_more);
    for (uint32_t i = 0; i < ROWS; i++) {
        struct store_op op = many_op(i);

        wanted += is_wanted(&read, &op.task) ? 1 : 0;
    }
    MUST_EQ(total, wanted);
}

void pages_of_many_queues_meet_without_gap_or_overlap(void)
{
    static const uint32_t limits[] = {1, 7, 64, 500, SLICE_ROW_COUNT_MAX};

    begin();
    write_many();
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        walk((struct store_read){.to_bucket = INT64_MAX, .limit = limits[i]});
        walk((struct store_read){.to_bucket = 11, .limit = limits[i]});
    }
    end();
}

void slices_leave_out_the_queues_to_skip(void)
{
    static const uint32_t all_but_three[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,   10,
                                             11, 12, 13, 14, 15, 16, 17, 18, 19,  20,
                                             21, 22, 23, 24, 25, 26, 27, 28, 4000};
    static const uint32_t limits[] = {3, 64, SLICE_ROW_COUNT_MAX};

    begin();
    write_many();
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        struct store_read read = {
            .to_bucket = INT64_MAX, .limit = limits[i], .skip = all_but_three, .skip_count = 1};

        walk(read);
        read.skip_count = ARRAY_COUNT(all_but_three);
        walk(read);
    }
    end();
}

void slices_of_one_queue_have_its_rows_only(void)
{
    begin();
    write_many();
    for (uint32_t queue = 1; queue <= QUEUES + 2; queue += 3) {
        walk((struct store_read){.queue = queue, .to_bucket = 15, .limit = 9});
        walk((struct store_read){.queue = queue, .to_bucket = INT64_MAX, .limit = 600});
    }
    end();
}

void too_many_queues_to_skip_are_refused(void)
{
    static uint32_t skip[QUEUE_COUNT_MAX + 1];
    struct store_read read = {.kind = STORE_READ_SLICE,
                              .to_bucket = INT64_MAX,
                              .limit = 1,
                              .skip = skip,
                              .skip_count = QUEUE_COUNT_MAX + 1};

    begin();
    MUST_ERR(store->read(store, &read), ERR_TOO_LARGE);
    read.skip_count = QUEUE_COUNT_MAX;
    MUST_OK(read_now(&read));
    end();
}
