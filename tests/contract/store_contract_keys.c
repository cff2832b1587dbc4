/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and claims.
 */
#include "tests/contract/store_contract_help.h"

void key_is_held_until_its_task_is_over_and_its_memory_has_passed(void)
{
    struct store_op op = keyed_op(0, 1, "order-17");
    size_t row_count;

    begin();
    MUST_OK(write_op(op));
    MUST_EQ(read_key(0, "order-17", INT64_MAX, &row_count), op.task.id.seq);
    MUST_EQ(row_count, 1);
    MUST(same(seen.rows[0].id, op.task.id));
    op = keyed_op(0, 2, "order-17");
    op.now_ms = INT64_MAX;
    write_ops(&op, 1);
    MUST_ERR(op.result, ERR_EXISTS);
    MUST(same(op.existing, make_id(0, 1)));
    MUST_EQ(read_slice(0), 1);
    op = other_op(STORE_DELETE, 0, 1);
    op.key_until_ms = 5000;
    MUST_OK(write_op(op));
    op = keyed_op(0, 3, "order-17");
    op.now_ms = 4999;
    write_ops(&op, 1);
    MUST_ERR(op.result, ERR_EXISTS);
    MUST(same(op.existing, make_id(0, 1)));
    MUST(read_key(0, "order-17", 4999, &row_count) != 0);
    MUST_EQ(row_count, 0);
    MUST_EQ(read_key(0, "order-17", 5000, &row_count), 0);
    op.now_ms = 5000;
    MUST_OK(write_op(op));
    MUST_EQ(read_key(0, "order-17", 5000, &row_count), make_id(0, 3).seq);
    end();
}

void key_without_memory_is_free_at_once(void)
{
    struct store_op op = other_op(STORE_DELETE, 0, 1);
    size_t row_count;

    begin();
    MUST_OK(write_op(keyed_op(0, 1, "k")));
    MUST_OK(write_op(op));
    MUST_EQ(read_key(0, "k", 1, &row_count), 0);
    MUST_OK(write_op(keyed_op(0, 2, "k")));
    end();
}

void key_is_unique_in_its_queue_only(void)
{
    struct store_op ops[3] = {keyed_op(0, 1, "k"), keyed_op(0, 2, "k"), keyed_op(0, 3, "K")};

    begin();
    ops[1].task.queue = 4;
    write_ops(ops, 3);
    MUST_OK(ops[0].result);
    MUST_OK(ops[1].result);
    MUST_OK(ops[2].result);
    end();
}

void key_is_replaced_only_from_the_task_that_is_named(void)
{
    struct store_op ops[2] = {keyed_op(0, 1, "k"), insert_op(0, 9)};
    size_t row_count;

    begin();
    write_ops(ops, 2);
    ops[0] = keyed_op(0, 2, "k");
    ops[0].key_replaces = make_id(0, 5);
    write_ops(ops, 1);
    MUST_ERR(ops[0].result, ERR_EXISTS);
    // The old task goes in the same batch, in whichever order, and leaves the key to the new one.
    ops[1] = keyed_op(0, 3, "k");
    ops[1].key_replaces = make_id(0, 1);
    ops[0] = other_op(STORE_DELETE, 0, 1);
    ops[0].key_until_ms = 9000;
    write_ops(ops, 2);
    MUST_OK(ops[0].result);
    MUST_OK(ops[1].result);
    MUST_EQ(read_key(0, "k", INT64_MAX, &row_count), make_id(0, 3).seq);
    MUST_EQ(row_count, 1);
    MUST_EQ(read_task(0, 1), 0);
    end();
}

void replaced_task_that_stays_keeps_no_hold_on_the_key(void)
{
    struct store_op op = keyed_op(0, 2, "k");
    size_t row_count;

    begin();
    MUST_OK(write_op(keyed_op(0, 1, "k")));
    op.key_replaces = make_id(0, 1);
    MUST_OK(write_op(op));
    op = other_op(STORE_DELETE, 0, 1);
    MUST_OK(write_op(op));
    MUST_EQ(read_key(0, "k", INT64_MAX, &row_count), make_id(0, 2).seq);
    end();
}

void insert_whose_key_is_taken_takes_its_claim_with_it(void)
{
    struct store_op ops[4];

    begin();
    MUST_OK(write_op(keyed_op(0, 1, "k")));
    ops[0] = keyed_op(0, 2, "k");
    ops[1] = claim_op(0, 2, 1);
    ops[2] = keyed_op(0, 3, "other");
    ops[3] = claim_op(0, 3, 1);
    write_ops(ops, 4);
    MUST_ERR(ops[0].result, ERR_EXISTS);
    MUST_ERR(ops[1].result, ERR_NOT_FOUND);
    MUST_OK(ops[2].result);
    MUST_OK(ops[3].result);
    MUST_EQ(read_claims(0), 1);
    MUST(same(seen.claims[0].id, make_id(0, 3)));
    end();
}

/* --- claims ----------------------------------------------------------------------------------- */

void claims_of_a_batch_are_one_row_read_by_shard(void)
{
    struct store_op ops[4] = {insert_op(0, 1), insert_op(2, 1), insert_op(2, 2), insert_op(4, 1)};

    begin();
    write_ops(ops, 4);
    ops[0] = claim_op(0, 1, 1);
    ops[1] = claim_op(2, 1, 1);
    ops[2] = claim_op(2, 2, 1);
    ops[3] = claim_op(4, 9, 1);
    write_ops(ops, 4);
    MUST_ERR(ops[3].result, ERR_NOT_FOUND);
    MUST_EQ(read_claims(4), 0);
    MUST_EQ(read_claims(0), 1);
    MUST_EQ(seen.claims[0].row.writer, 77);
    MUST_EQ(seen.claims[0].row.seq, 1);
    MUST_EQ(seen.claims[0].attempt, 1);
    MUST_EQ(seen.claims[0].deadline_ms, 5001);
    MUST(same(seen.claims[0].id, make_id(0, 1)));
    MUST_EQ(read_claims(2), 2);
    MUST_EQ(read_task(2, 1), 1);
    MUST_EQ(seen.rows[0].attempt, 0); // a claim alone does not touch the task
    end();
}

/* How many claims of a shard have a deadline up to a time. */
static size_t read_overdue(uint32_t shard, wall_ms now_ms, uint32_t limit)
{
    struct store_read read = {
        .kind = STORE_READ_OVERDUE, .shard = shard, .now_ms = now_ms, .limit = limit};

    MUST_OK(read_now(&read));
    for (size_t i = 0; i < read.claim_count; i++) {
        MUST(seen.claims[i].deadline_ms <= now_ms);
        MUST_EQ(seen.claims[i].id.slot % CONTRACT_SHARD_COUNT, shard);
    }
    return read.claim_count;
}

void claims_past_their_deadline_are_read_by_shard(void)
{
    struct store_op ops[5] = {insert_op(2, 1), insert_op(2, 2), insert_op(2, 3), insert_op(2, 4),
                              insert_op(4, 1)};

    begin();
    write_ops(ops, 5);
    for (int64_t i = 0; i < 4; i++) {
        ops[i] = claim_op(2, i + 1, 1);
        ops[i].deadline_ms = 1000 * (i + 1);
    }
    ops[4] = claim_op(4, 1, 1);
    ops[4].deadline_ms = 1;
    write_ops(ops, 5);
    MUST_EQ(read_overdue(2, 999, 10), 0);
    MUST_EQ(read_overdue(2, 1000, 10), 1);
    MUST(same(seen.claims[0].id, make_id(2, 1)));
    MUST_EQ(seen.claims[0].attempt, 1);
    MUST_EQ(seen.claims[0].row.writer, 77);
    MUST_EQ(read_overdue(2, INT64_MAX, 10), 4);
    MUST_EQ(read_overdue(2, INT64_MAX, 3), 3);
    MUST_EQ(read_overdue(4, INT64_MAX, 10), 1);
    MUST_EQ(read_overdue(0, INT64_MAX, 10), 0);
    end();
}

void claim_may_end_the_one_before_it(void)
{
    struct store_op op = insert_op(0, 1);

    begin();
    MUST_OK(write_op(op));
    op = claim_op(0, 1, 4);
    op.expected_attempt = 0;
    op.raise_attempt = true;
    MUST_OK(write_op(op));
    MUST_EQ(read_task(0, 1), 1);
    MUST_EQ(seen.rows[0].attempt, 3);
    MUST_EQ(read_claims(0), 1);
    end();
}

void claim_of_a_known_row_holds_under_the_fence_alone(void)
{
    struct store_op ops[2] = {claim_op(0, 1, 1), claim_op(2, 1, 1)};

    begin();
    MUST_OK(write_op(insert_op(0, 1)));
    MUST_OK(write_op(insert_op(2, 1)));
    ops[0].is_known = true;
    ops[1].is_known = true;
    ops[1].epoch--;
    write_ops(ops, 2);
    MUST_OK(ops[0].result);
    MUST_ERR(ops[1].result, ERR_FENCED);
    MUST_EQ(read_claims(0), 1);
    MUST(same(seen.claims[0].id, make_id(0, 1)));
    MUST_EQ(read_claims(2), 0);
    end();
}

void near_task_is_inserted_and_claimed_in_one_batch(void)
{
    struct store_op ops[4] = {insert_op(0, 1), claim_op(0, 1, 1), insert_op(0, 2),
                              claim_op(0, 2, 2)};

    begin();
    ops[3].expected_attempt = 0;
    ops[3].raise_attempt = true;
    write_ops(ops, 4);
    for (int i = 0; i < 4; i++) {
        MUST_OK(ops[i].result);
    }
    MUST_EQ(read_claims(0), 2);
    MUST_EQ(read_task(0, 2), 1);
    MUST_EQ(seen.rows[0].attempt, 1);
    end();
}

/* Insert 600 tasks and claim them under one name: more than a row of PostgreSQL holds. */
static void claim_many(int64_t first, struct claim_row name)
{
    static struct store_op ops[1200];
    struct store_batch batch = {.ops = ops, .op_count = 1200, .claim_row = name};

    for (int64_t i = 0; i < 600; i++) {
        ops[i] = insert_op(i % 2 == 0 ? 0 : 4, first + i);
        ops[600 + i] = claim_op(i % 2 == 0 ? 0 : 4, first + i, 1);
    }
    write_batch(store, &batch);
    MUST_OK(batch.result);
    MUST_OK(ops[1199].result);
}

void claim_rows_are_dropped_by_name(void)
{
    struct claim_row names[2] = {{.writer = 5, .seq = 1}, {.writer = 5, .seq = 9}};
    struct store_batch drop = {.drop_rows = names, .drop_count = 2};

    begin();
    claim_many(1, names[0]);
    claim_many(1001, (struct claim_row){.writer = 5, .seq = 2});
    MUST_EQ(read_claims(0), 600);
    write_batch(store, &drop);
    MUST_OK(drop.result);
    MUST_EQ(read_claims(0), 300);
    MUST_EQ(seen.claims[0].row.seq, 2);
    MUST_EQ(read_claims(4), 300);
    end();
}

void sweep_deletes_claim_rows_without_a_live_member_and_no_other(void)
{
    struct store_batch sweep = {.sweep = true};
    struct store_op op;

    begin();
    claim_many(1, (struct claim_row){.writer = 5, .seq = 1});
    claim_many(1001, (struct claim_row){.writer = 5, .seq = 2});
    // Of the first row every task ends but one; of the second all, in two ways.
    for (int64_t i = 0; i < 600; i++) {
        op = other_op(i % 5 == 0 ? STORE_CHANGE : STORE_DELETE, i % 2 == 0 ? 0 : 4, 1001 + i);
        op.attempt = 1;
        MUST_OK(write_op(op));
        if (i > 0) {
            op.task.id = make_id(i % 2 == 0 ? 0 : 4, 1 + i);
            MUST_OK(write_op(op));
        }
    }
    MUST_EQ(read_claims(0), 600);
    write_batch(store, &sweep);
    MUST_OK(sweep.result);
    MUST_EQ(read_claims(0), 300);
    MUST_EQ(seen.claims[0].row.seq, 1);
    op = other_op(STORE_DELETE, 0, 1);
    write_ops(&op, 1);
    write_batch(store, &sweep);
    MUST_EQ(read_claims(0), 0);
    MUST_EQ(read_claims(4), 0);
    end();
}

/* Insert a task and claim it under a name. */
static void claim_one(int64_t counter, int64_t writer, int64_t seq)
{
    struct store_op ops[2] = {insert_op(0, counter), claim_op(0, counter, 1)};
    struct store_batch batch = {
        .ops = ops, .op_count = 2, .claim_row = {.writer = writer, .seq = seq}};

    write_batch(store, &batch);
    MUST_OK(batch.result);
    MUST_OK(ops[1].result);
}

void claims_are_read_whoever_wrote_them_and_whenever_was_swept(void)
{
    static const int64_t others[] = {-9, 3, 4, 6, INT64_MAX - 1};
    struct store_batch sweep = {.sweep = true};
    struct store_op op;

    begin();
    for (int64_t i = 1; i <= 3; i++) {
        claim_one(i, 5, 10 * i);
    }
    write_batch(store, &sweep);
    MUST_EQ(read_claims(0), 3);
    op = other_op(STORE_DELETE, 0, 1);
    write_ops(&op, 1);
    write_batch(store, &sweep); // The first row of this writer is gone,
    write_batch(store, &sweep);
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        claim_one(10 + (int64_t)i, others[i], 1); // others begin below it,
    }
    claim_one(4, 5, 31);
    MUST_EQ(read_claims(0), 2 + ARRAY_COUNT(others) + 1);
    write_batch(store, &sweep); // and are no longer new.
    MUST_EQ(read_claims(0), 2 + ARRAY_COUNT(others) + 1);
    for (int64_t i = 2; i <= 4; i++) { // A writer with nothing left goes on as one that has.
        op = other_op(STORE_DELETE, 0, i);
        MUST_OK(write_op(op));
    }
    write_batch(store, &sweep);
    write_batch(store, &sweep);
    MUST_EQ(read_claims(0), ARRAY_COUNT(others));
    claim_one(5, 5, 32);
    MUST_EQ(read_claims(0), ARRAY_COUNT(others) + 1);
    end();
}
