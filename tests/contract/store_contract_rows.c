/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of tasks and how they change.
 */
#include "tests/contract/store_contract_help.h"

void row_comes_back_as_it_was_written(void)
{
    static const uint8_t odd[] = {0, 0xff, 0xfe, 0xc0, 0x80, '\\', '\'', 0};
    struct store_op op = insert_op(1, 1);

    begin();
    op.task.queue = 4096;
    op.task.due_ms = DUE_WALL_MS_MAX;
    op.task.created_ms = 1700000000123;
    op.task.attempt = 3;
    op.task.failures = 2;
    op.task.unknowns = 1;
    op.task.payload = (struct slice){odd, sizeof(odd)};
    op.task.key = (struct slice){odd, sizeof(odd) - 1};
    MUST_OK(write_op(op));
    MUST_EQ(read_slice(1), 1);
    for (int i = 0; i < 2; i++) {
        MUST(same(seen.rows[0].id, op.task.id));
        MUST_EQ(seen.rows[0].queue, 4096);
        MUST_EQ(seen.rows[0].due_ms, DUE_WALL_MS_MAX);
        MUST_EQ(seen.rows[0].created_ms, 1700000000123);
        MUST_EQ(seen.rows[0].attempt, 3);
        MUST_EQ(seen.rows[0].failures, 2);
        MUST_EQ(seen.rows[0].unknowns, 1);
        MUST_EQ(seen.rows[0].payload_len, sizeof(odd));
        MUST(slice_equal(seen.rows[0].payload, op.task.payload));
        MUST(slice_equal(seen.rows[0].key, op.task.key));
        MUST_EQ(read_task(1, 1), 1);
    }
    end();
}

void due_times_at_the_ends_of_the_range_are_kept_in_order(void)
{
    static const wall_ms dues[] = {INT64_MIN + 1, -1, 0, 1, 65535, 65536, INT64_MAX};

    begin();
    for (size_t i = 0; i < ARRAY_COUNT(dues); i++) {
        struct store_op op = insert_op(0, 100 - (int64_t)i);

        op.task.due_ms = dues[i];
        MUST_OK(write_op(op));
    }
    MUST_EQ(read_slice(0), ARRAY_COUNT(dues));
    MUST_EQ(seen.rows[0].due_ms, INT64_MIN + 1);
    MUST_EQ(seen.rows[1].due_ms, -1);
    MUST_EQ(seen.rows[5].due_ms, 65536);
    MUST_EQ(seen.rows[6].due_ms, INT64_MAX);
    end();
}

void long_payload_is_left_out_of_slices_only(void)
{
    static uint8_t payload[PAYLOAD_BYTES_MAX];
    struct store_op ops[3] = {insert_op(0, 1), insert_op(0, 2), insert_op(0, 3)};

    begin();
    for (size_t i = 0; i < sizeof(payload); i++) {
        payload[i] = (uint8_t)(i * 7 + i / 256);
    }
    ops[0].task.payload = (struct slice){payload, PAYLOAD_INLINE_BYTES_MAX};
    ops[1].task.payload = (struct slice){payload, PAYLOAD_INLINE_BYTES_MAX + 1};
    ops[2].task.payload = (struct slice){payload, PAYLOAD_BYTES_MAX};
    write_ops(ops, 3);
    MUST_EQ(read_slice(0), 3);
    MUST(slice_equal(seen.rows[0].payload, ops[0].task.payload));
    MUST_EQ(seen.rows[1].payload.len, 0);
    MUST_EQ(seen.rows[1].payload_len, PAYLOAD_INLINE_BYTES_MAX + 1);
    MUST_EQ(seen.rows[2].payload_len, PAYLOAD_BYTES_MAX);
    MUST_EQ(read_task(0, 3), 1);
    MUST(slice_equal(seen.rows[0].payload, ops[2].task.payload));
    end();
}

void pages_meet_without_gap_or_overlap(void)
{
    static struct store_op ops[100];
    struct store_read read = {.kind = STORE_READ_SLICE, .limit = 7, .after_bucket = INT64_MIN};
    size_t total = 0;
    int64_t last_bucket = INT64_MIN;
    int64_t last_seq = 0;

    begin();
    for (int64_t i = 0; i < 100; i++) {
        // Three buckets with many ties, ids in another order than due times.
        ops[i] = insert_op(2, i * 37 % 100 + 1);
        ops[i].task.due_ms = i % 3 * 65536 + 5;
    }
    write_ops(ops, 100);
    read.shard = 2;
    read.to_bucket = 1;
    do {
        MUST_OK(read_now(&read));
        for (size_t i = 0; i < read.row_count; i++) {
            int64_t bucket = due_bucket(seen.rows[i].due_ms);

            MUST(bucket > last_bucket || (bucket == last_bucket && seen.rows[i].id.seq > last_seq));
            last_bucket = bucket;
            last_seq = seen.rows[i].id.seq;
        }
        total += read.row_count;
        read.after_bucket = last_bucket;
        read.after_seq = last_seq;
    } while (read.has_more);
    MUST_EQ(total, 67);
    MUST_EQ(last_bucket, 1);
    end();
}

void tasks_are_read_by_id_and_absent_ones_left_out(void)
{
    struct store_op ops[3] = {insert_op(0, 1), insert_op(0, 2), insert_op(0, 3)};
    struct task_id ids[4] = {make_id(0, 3), make_id(0, 9), make_id(0, 1), make_id(0, 2)};
    struct store_read read = {.kind = STORE_READ_TASKS, .ids = ids, .id_count = 4};

    begin();
    write_ops(ops, 3);
    ids[3].slot += 8; // right number, another slot: another task
    MUST_OK(read_now(&read));
    MUST_EQ(read.row_count, 2);
    MUST_EQ(seen.rows[0].id.seq + seen.rows[1].id.seq, ids[0].seq + ids[2].seq);
    end();
}

void row_that_does_not_match_is_left_alone(void)
{
    static const enum store_op_kind kinds[] = {STORE_DELETE, STORE_CHANGE, STORE_CLAIM, STORE_DEAD};
    struct store_op first = insert_op(0, 1);

    begin();
    first.task.attempt = 2;
    MUST_OK(write_op(first));
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct store_op op = other_op(kinds[i], 0, 1);

        op.attempt = 9;
        op.expected_attempt = 1;
        MUST_ERR(write_op(op), ERR_NOT_FOUND);
        op.expected_attempt = 2;
        op.task.id.slot += 8;
        MUST_ERR(write_op(op), ERR_NOT_FOUND);
        op.task.id = make_id(0, 2);
        MUST_ERR(write_op(op), ERR_NOT_FOUND);
    }
    MUST_EQ(read_task(0, 1), 1);
    MUST_EQ(seen.rows[0].attempt, 2);
    MUST_EQ(read_claims(0), 0);
    end();
}

void change_sets_what_it_says_and_nothing_else(void)
{
    struct store_op op = insert_op(0, 1);

    begin();
    op.task.payload = slice_of("first");
    op.task.failures = 1;
    MUST_OK(write_op(op));
    op = other_op(STORE_CHANGE, 0, 1);
    op.task.due_ms = 99;
    op.task.failures = 99;
    op.task.unknowns = 99;
    op.task.payload = slice_of("ignored");
    op.attempt = 4;
    MUST_OK(write_op(op));
    MUST_EQ(read_task(0, 1), 1);
    MUST_EQ(seen.rows[0].attempt, 4);
    MUST_EQ(seen.rows[0].due_ms, 1000);
    MUST_EQ(seen.rows[0].failures, 1);
    MUST_EQ(seen.rows[0].unknowns, 0);
    MUST(slice_equal(seen.rows[0].payload, slice_of("first")));
    op.expected_attempt = 4;
    op.set_due = true;
    op.set_counts = true;
    op.task.due_ms = 70000;
    MUST_OK(write_op(op));
    op.set_due = false;
    op.set_counts = false;
    op.set_payload = true;
    op.task.payload = slice_of("");
    op.attempt = 5;
    MUST_OK(write_op(op));
    MUST_EQ(read_slice(0), 1);
    MUST_EQ(seen.rows[0].attempt, 5);
    MUST_EQ(seen.rows[0].due_ms, 70000);
    MUST_EQ(seen.rows[0].failures, 99);
    MUST_EQ(seen.rows[0].unknowns, 99);
    MUST_EQ(seen.rows[0].payload_len, 0);
    end();
}

void changes_of_a_batch_reach_their_own_rows(void)
{
    static struct store_op ops[60];

    begin();
    for (int64_t i = 0; i < 60; i++) {
        ops[i] = insert_op(i % 2 == 0 ? 0 : 4, i + 1);
        ops[i].task.attempt = (uint32_t)i;
    }
    write_ops(ops, 60);
    for (int64_t i = 0; i < 60; i++) {
        // In another order, every third one does not match, every fourth has a payload.
        int64_t n = 59 - i;

        ops[i] = other_op(STORE_CHANGE, n % 2 == 0 ? 0 : 4, n + 1);
        ops[i].expected_attempt = (uint32_t)(n % 3 == 0 ? n + 1 : n);
        ops[i].attempt = (uint32_t)n + 100;
        ops[i].set_due = true;
        ops[i].task.due_ms = n * 10;
        ops[i].set_payload = n % 4 == 0;
        ops[i].task.payload = slice_of("p");
    }
    write_ops(ops, 60);
    for (int64_t n = 0; n < 60; n++) {
        MUST_ERR(ops[59 - n].result, n % 3 == 0 ? ERR_NOT_FOUND : 0);
        MUST_EQ(read_task(n % 2 == 0 ? 0 : 4, n + 1), 1);
        MUST_EQ(seen.rows[0].attempt, n % 3 == 0 ? n : n + 100);
        MUST_EQ(seen.rows[0].due_ms, n % 3 == 0 ? 1000 : n * 10);
        MUST_EQ(seen.rows[0].payload_len, n % 3 != 0 && n % 4 == 0 ? 1 : 0);
    }
    end();
}

/* Tasks with tags and without, with keys and without, in one batch and one shard. */
void tags_and_expiry_stay_as_they_were_inserted(void)
{
    static const uint8_t odd[] = {0, 0xff, '\n', '='};
    struct store_op ops[4] = {insert_op(0, 1), insert_op(0, 2), keyed_op(0, 3, "a"),
                              keyed_op(0, 4, "b")};
    size_t row_count;

    begin();
    ops[1].task.tags = (struct slice){odd, sizeof(odd)};
    ops[1].task.expire_ms = DUE_WALL_MS_MAX;
    ops[3].task.tags = slice_of("x=y\n");
    write_ops(ops, 4);
    for (int64_t i = 0; i < 4; i++) {
        struct store_op op = other_op(STORE_CHANGE, 0, i + 1);

        op.set_due = true;
        op.set_payload = i % 2 == 0;
        op.task.due_ms = 2000;
        op.task.tags = slice_of("ignored=1\n");
        op.task.expire_ms = 1;
        MUST_OK(ops[i].result);
        MUST_OK(write_op(op));
    }
    MUST_EQ(read_slice(0), 4);
    for (int i = 0; i < 4; i++) {
        MUST(slice_equal(seen.rows[i].tags, ops[i].task.tags));
        MUST_EQ(seen.rows[i].expire_ms, ops[i].task.expire_ms);
    }
    MUST_EQ(read_task(0, 2), 1);
    MUST(slice_equal(seen.rows[0].tags, ops[1].task.tags));
    MUST_EQ(seen.rows[0].expire_ms, DUE_WALL_MS_MAX);
    MUST(read_key(0, "b", 0, &row_count) != 0);
    MUST_EQ(row_count, 1);
    MUST(slice_equal(seen.rows[0].tags, ops[3].task.tags));
    end();
}
