/* SPDX-License-Identifier: Apache-2.0
 *
 * The store contract: order keys.
 */
#include "tests/contract/store_contract_help.h"
#include "tests/lib/must.h"

/* Of insert_op(). */
#define QUEUE 3

static struct store_op ordered_op(uint32_t shard, int64_t counter, const char *order_key,
                                  wall_ms order_ms)
{
    struct store_op op = insert_op(shard, counter);

    op.task.order_key = slice_of(order_key);
    op.task.order_ms = order_ms;
    return op;
}

static size_t read_order(uint32_t queue, const char *order_key, uint32_t limit)
{
    struct store_read read = {.kind = STORE_READ_ORDER,
                              .shard = 1,
                              .queue = queue,
                              .key = slice_of(order_key),
                              .limit = limit};

    MUST_OK(read_now(&read));
    return read.row_count;
}

/* With keys and without, with order keys and without, in one batch. */
void first_rows_of_an_order_key_are_read_in_its_order(void)
{
    struct store_op ops[] = {
        ordered_op(1, 1, "a", 30), ordered_op(1, 2, "a", -5), ordered_op(1, 3, "ab", 0),
        ordered_op(1, 4, "a", 30), ordered_op(1, 5, "a", 10), insert_op(1, 6),
        keyed_op(1, 7, "k"),       ordered_op(1, 8, "a", 1),
    };
    static const int64_t expected[] = {2, 5, 1, 4};

    begin();
    ops[4].task.key = slice_of("own");
    ops[4].now_ms = 1000;
    ops[7].task.queue++;
    write_ops(ops, ARRAY_COUNT(ops));
    MUST_EQ(read_order(ops[0].task.queue, "a", 10), ARRAY_COUNT(expected));
    for (size_t i = 0; i < ARRAY_COUNT(expected); i++) {
        MUST(same(seen.rows[i].id, make_id(1, expected[i])));
        MUST(slice_equal(seen.rows[i].order_key, slice_of("a")));
    }
    MUST_EQ(seen.rows[0].order_ms, -5);
    MUST_EQ(read_order(ops[0].task.queue, "a", 2), 2);
    MUST(same(seen.rows[1].id, make_id(1, 5)));
    MUST_EQ(read_order(ops[0].task.queue, "ab", 2), 1);
    MUST_EQ(read_order(ops[0].task.queue, "b", 2), 0);
    MUST_EQ(read_order(ops[7].task.queue, "a", 2), 1);
    end();
}

void order_key_and_place_stay_unless_they_are_changed(void)
{
    struct store_op op = ordered_op(1, 1, "a", 30);
    struct store_op change = other_op(STORE_CHANGE, 1, 1);

    begin();
    op.task.payload = slice_of("work");
    MUST_OK(write_op(op));
    MUST_OK(write_op(ordered_op(1, 2, "a", 40)));
    change.set_due = true;
    change.task.due_ms = 900000;
    change.attempt = 1;
    MUST_OK(write_op(change));
    MUST_EQ(read_order(QUEUE, "a", 1), 1);
    MUST(same(seen.rows[0].id, make_id(1, 1)));
    MUST_EQ(seen.rows[0].due_ms, 900000);
    MUST_EQ(seen.rows[0].order_ms, 30);
    change.expected_attempt = 1;
    change.set_due = false;
    change.set_order = true;
    change.task.order_ms = 50;
    MUST_OK(write_op(change));
    MUST_EQ(read_order(QUEUE, "a", 9), 2);
    MUST(same(seen.rows[1].id, make_id(1, 1)));
    MUST_EQ(seen.rows[1].order_ms, 50);
    MUST_EQ(seen.rows[1].due_ms, 900000);
    MUST_EQ(seen.rows[1].payload.len, 4); // Not set: it stays.
    change.set_payload = true;
    MUST_OK(write_op(change));
    MUST_EQ(read_task(1, 1), 1);
    MUST_EQ(seen.rows[0].payload.len, 0);
    MUST(slice_equal(seen.rows[0].order_key, slice_of("a")));
    end();
}

void order_key_goes_into_the_dead_letter_and_back(void)
{
    struct store_op dead = other_op(STORE_DEAD, 1, 1);
    struct store_op redrive = insert_op(1, 1);
    struct store_read read = {.kind = STORE_READ_DEAD, .shard = 1, .queue = QUEUE, .limit = 9};

    begin();
    MUST_OK(write_op(ordered_op(1, 1, "a", 30)));
    dead.attempt = 1;
    dead.error_text = slice_of("no");
    MUST_OK(write_op(dead));
    MUST_EQ(read_order(QUEUE, "a", 1), 0);
    MUST_OK(read_now(&read));
    MUST_EQ(read.ended_count, 1);
    MUST(slice_equal(seen.ended[0].task.order_key, slice_of("a")));
    redrive.kind = STORE_REDRIVE;
    redrive.task.attempt = 1;
    redrive.expected_attempt = 1;
    redrive.task.order_key = slice_of("a");
    redrive.task.order_ms = 77;
    MUST_OK(write_op(redrive));
    MUST_EQ(read_order(QUEUE, "a", 9), 1);
    MUST_EQ(seen.rows[0].order_ms, 77);
    end();
}
