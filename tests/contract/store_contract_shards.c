/* SPDX-License-Identifier: Apache-2.0
 *
 * Epochs, batches and the life of a store.
 */
#include "tests/contract/store_contract_help.h"

void shard_that_nobody_has_bumped_belongs_to_nobody(void)
{
    struct store_op op = insert_op(2, 1);
    struct store_read read = {.kind = STORE_READ_CLAIMS, .shard = 2, .epoch = -1};

    host->prepare();
    store = host->client();
    op.epoch = 0;
    MUST_ERR(write_op(op), ERR_FENCED);
    MUST_ERR(write_op(insert_op(2, 1)), ERR_FENCED);
    MUST_ERR(read_now(&read), ERR_FENCED);
    end();
}

void bump_only_raises(void)
{
    begin();
    MUST_OK(bump_as(store, 3, 7));
    MUST_ERR(bump_as(store, 3, 7), ERR_FENCED);
    MUST_ERR(bump_as(store, 3, 6), ERR_FENCED);
    MUST_OK(bump_as(store, 3, 8));
    end();
}

void write_under_an_older_or_newer_epoch_drops_out(void)
{
    struct store_op op = insert_op(1, 1);

    begin();
    MUST_OK(bump_as(store, 1, 5));
    MUST_ERR(write_op(op), ERR_FENCED);
    op.epoch = 6;
    MUST_ERR(write_op(op), ERR_FENCED);
    op.epoch = 5;
    MUST_OK(write_op(op));
    end();
}

void fenced_operations_drop_out_and_their_neighbours_commit(void)
{
    struct store_op ops[5];
    struct store *other;

    begin();
    other = host->client();
    MUST_OK(write_op(insert_op(4, 1)));
    MUST_OK(bump_as(other, 4, 2));
    ops[0] = insert_op(0, 1);
    ops[1] = insert_op(4, 2);
    ops[2] = claim_op(4, 1, 1);
    ops[3] = keyed_op(4, 3, "stale");
    ops[4] = keyed_op(6, 1, "kept");
    write_ops(ops, 5);
    MUST_OK(ops[0].result);
    MUST_ERR(ops[1].result, ERR_FENCED);
    MUST_ERR(ops[2].result, ERR_FENCED);
    MUST_ERR(ops[3].result, ERR_FENCED);
    MUST_OK(ops[4].result);
    MUST_EQ(read_slice(0), 1);
    MUST_EQ(read_slice(6), 1);
    close_store(store);
    store = other;
    struct store_read claims = {.kind = STORE_READ_CLAIMS, .shard = 4, .epoch = 2};
    struct store_read key = {.kind = STORE_READ_KEY, .shard = 4, .epoch = 2, .queue = 3};
    key.key = slice_of("stale");
    MUST_OK(read_now(&claims));
    MUST_EQ(claims.claim_count, 0);
    MUST_OK(read_now(&key));
    MUST_EQ(key.existing.seq, 0);
    end();
}

void two_epochs_of_one_shard_in_a_batch_are_told_apart(void)
{
    struct store_op ops[4] = {insert_op(0, 1), insert_op(0, 2), keyed_op(0, 3, "stale"),
                              keyed_op(0, 4, "ours")};
    size_t row_count;

    begin();
    ops[0].epoch = 2;
    ops[2].epoch = 2;
    write_ops(ops, 4);
    MUST_ERR(ops[0].result, ERR_FENCED);
    MUST_OK(ops[1].result);
    MUST_ERR(ops[2].result, ERR_FENCED);
    MUST_OK(ops[3].result);
    MUST_EQ(read_slice(0), 2);
    MUST_EQ(read_key(0, "stale", 1, &row_count), 0);
    MUST_EQ(read_key(0, "ours", 1, &row_count), make_id(0, 4).seq);
    end();
}

void shard_of_another_database_is_not_ours(void)
{
    struct store_op ops[2] = {insert_op(0, 1), insert_op(1, 1)};

    begin();
    write_ops(ops, 2);
    MUST_OK(ops[0].result);
    MUST_ERR(ops[1].result, ERR_FENCED);
    MUST_EQ(read_slice(1), 0);
    end();
}

void read_checks_the_epoch(void)
{
    struct task_id id = make_id(0, 1);
    struct store_read reads[] = {
        {.kind = STORE_READ_CLAIMS},
        {.kind = STORE_READ_SLICE, .to_bucket = INT64_MAX, .limit = 10},
        {.kind = STORE_READ_TASKS, .ids = &id, .id_count = 1},
        {.kind = STORE_READ_KEY, .queue = 3, .key = slice_of("k")},
        {.kind = STORE_READ_DEAD, .queue = 3, .limit = 10},
        {.kind = STORE_READ_DEAD, .ids = &id, .id_count = 1},
        {.kind = STORE_READ_ENDED, .ids = &id, .id_count = 1},
        {.kind = STORE_READ_COUNTS, .limit = 10},
        {.kind = STORE_READ_OVERDUE, .now_ms = INT64_MAX, .limit = 10},
    };

    begin();
    MUST_OK(write_op(insert_op(0, 1)));
    MUST_OK(bump_as(store, 0, 2));
    for (size_t i = 0; i < ARRAY_COUNT(reads); i++) {
        MUST_ERR(read_now(&reads[i]), ERR_FENCED);
        MUST_EQ(reads[i].row_count + reads[i].ended_count + reads[i].count_count, 0);
    }
    for (size_t i = 0; i < ARRAY_COUNT(reads); i++) {
        reads[i].epoch = 2;
        MUST_OK(read_now(&reads[i]));
    }
    end();
}

void many_epochs_are_checked_at_once(void)
{
    struct epoch_check checks[] = {{.shard = 0, .epoch = 1}, {.shard = 2, .epoch = 1},
                                   {.shard = 4, .epoch = 3}, {.shard = 1, .epoch = 1},
                                   {.shard = 6, .epoch = 0}, {.shard = 0, .epoch = 2}};
    struct store_read read = {.kind = STORE_READ_EPOCHS, .checks = checks, .check_count = 6};

    begin();
    MUST_OK(bump_as(store, 2, 2));
    MUST_OK(bump_as(store, 4, 3));
    MUST_OK(read_now(&read));
    MUST(checks[0].ours);
    MUST(!checks[1].ours);
    MUST(checks[2].ours);
    MUST(!checks[3].ours);
    MUST(!checks[4].ours);
    MUST(!checks[5].ours);
    end();
}

/* --- batches ---------------------------------------------------------------------------------- */

void poison_is_answered_alone_and_the_rest_commits(void)
{
    static struct store_op ops[300];

    begin();
    MUST_OK(write_op(insert_op(0, 50)));
    for (int64_t i = 0; i < 100; i++) {
        ops[3 * i] = insert_op(0, i + 1);
        ops[3 * i + 1] = claim_op(0, i + 1, 1);
        ops[3 * i + 2] = keyed_op(4, i + 1, i % 2 == 0 ? "a" : "b");
        ops[3 * i + 2].task.queue = (uint32_t)i;
    }
    // An id that exists already, as only a mistake can make it.
    ops[3 * 49 + 1] = insert_op(2, 1);
    ops[3 * 70 + 2] = insert_op(0, 50);
    ops[3 * 70 + 2].task.id = make_id(0, 50);
    ops[3 * 49] = insert_op(2, 2);
    write_ops(ops, 300);
    for (int i = 0; i < 300; i++) {
        MUST_ERR(ops[i].result, i == 3 * 70 + 2 ? ERR_INVALID : 0);
    }
    MUST_EQ(read_slice(0), 100);
    MUST_EQ(read_slice(2), 2);
    MUST_EQ(read_slice(4), 99);
    MUST_EQ(read_claims(0), 99);
    end();
}

void batch_of_poison_only_leaves_everything_as_it_was(void)
{
    struct store_op ops[3] = {insert_op(0, 1), insert_op(0, 2), insert_op(0, 3)};

    begin();
    write_ops(ops, 3);
    for (int i = 0; i < 3; i++) {
        ops[i].task.payload = slice_of("twice");
    }
    write_ops(ops, 3);
    for (int i = 0; i < 3; i++) {
        MUST_ERR(ops[i].result, ERR_INVALID);
    }
    MUST_EQ(read_slice(0), 3);
    MUST_EQ(seen.rows[0].payload_len, 0);
    end();
}

void repeated_settlement_finds_nothing(void)
{
    struct store_op op = other_op(STORE_DELETE, 0, 1);

    begin();
    MUST_OK(write_op(insert_op(0, 1)));
    MUST_OK(write_op(op));
    MUST_ERR(write_op(op), ERR_NOT_FOUND);
    end();
}

void largest_batch_over_all_shards_commits_whole(void)
{
    static struct store_op ops[BATCH_OP_COUNT_MAX + 1];
    static uint8_t payload[PAYLOAD_INLINE_BYTES_MAX];
    struct store_batch too_large = {.ops = ops, .op_count = BATCH_OP_COUNT_MAX + 1};
    size_t total = 0;

    begin();
    for (int64_t i = 0; i < BATCH_OP_COUNT_MAX; i++) {
        ops[i] = insert_op((uint32_t)(i % 4) * 2, i + 1);
        ops[i].task.payload = (struct slice){payload, sizeof(payload)};
    }
    write_ops(ops, BATCH_OP_COUNT_MAX);
    for (uint32_t shard = 0; shard < CONTRACT_SHARD_COUNT; shard += 2) {
        struct store_read read = {
            .kind = STORE_READ_SLICE,
            .shard = shard,
            .after_bucket = INT64_MIN,
            .to_bucket = INT64_MAX,
            .limit = 100,
        };

        do {
            MUST_OK(read_now(&read));
            total += read.row_count;
            if (read.row_count > 0) {
                read.after_bucket = due_bucket(seen.rows[read.row_count - 1].due_ms);
                read.after_seq = seen.rows[read.row_count - 1].id.seq;
            }
        } while (read.row_count > 0);
    }
    MUST_EQ(total, BATCH_OP_COUNT_MAX);
    MUST_ERR(store->write(store, &too_large), ERR_TOO_LARGE);
    end();
}

void too_many_bytes_are_refused(void)
{
    static struct store_op ops[BATCH_BYTES_MAX / PAYLOAD_BYTES_MAX + 1];
    static uint8_t payload[PAYLOAD_BYTES_MAX];
    struct store_batch batch = {.ops = ops, .op_count = ARRAY_COUNT(ops)};

    begin();
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        ops[i] = insert_op(0, (int64_t)i + 1);
        ops[i].task.payload = (struct slice){payload, sizeof(payload)};
    }
    MUST_ERR(store->write(store, &batch), ERR_TOO_LARGE);
    // All that an operation carries counts.
    batch.op_count--;
    ops[0].task.tags = slice_of("t");
    MUST_ERR(store->write(store, &batch), ERR_TOO_LARGE);
    ops[0].task.tags.len = 0;
    ops[0].response = slice_of("r");
    MUST_ERR(store->write(store, &batch), ERR_TOO_LARGE);
    ops[0].response.len = 0;
    write_ops(ops, ARRAY_COUNT(ops) - 1);
    MUST_OK(ops[0].result);
    end();
}

void writes_commit_in_the_order_of_submission(void)
{
    static struct store_op ops[20];
    static struct store_batch batches[20];
    bool done[20] = {false};

    begin();
    for (uint32_t i = 0; i < 20; i++) {
        ops[i] = i == 0 ? insert_op(0, 1) : other_op(STORE_CHANGE, 0, 1);
        ops[i].expected_attempt = i == 0 ? 0 : i - 1;
        ops[i].attempt = i;
        batches[i] =
            (struct store_batch){.ops = &ops[i], .op_count = 1, .cb = on_batch, .owner = &done[i]};
        MUST_OK(store->write(store, &batches[i]));
    }
    until(&done[19]);
    for (int i = 0; i < 20; i++) {
        MUST(done[i]);
        MUST_OK(batches[i].result);
        MUST_OK(ops[i].result);
    }
    end();
}

void unknown_write_is_whole_or_void_once_the_epoch_has_risen(void)
{
    struct store_op ops[3] = {insert_op(0, 1), keyed_op(2, 1, "k"), claim_op(0, 1, 1)};
    bool done = false;
    struct store_batch batch = {
        .ops = ops, .op_count = 3, .claim_row = {1, 1}, .cb = on_batch, .owner = &done};
    struct store_read read = {.kind = STORE_READ_SLICE, .to_bucket = INT64_MAX, .limit = 9};
    size_t rows[2];

    begin();
    MUST_OK(store->write(store, &batch));
    host->lose(store, &done);
    MUST(done);
    MUST(batch.result == ERR_OUTCOME_UNKNOWN || batch.result == ERR_UNAVAILABLE);
    MUST_OK(bump_as(store, 0, 2));
    MUST_OK(bump_as(store, 2, 2));
    read.epoch = 2;
    MUST_OK(read_now(&read));
    rows[0] = read.row_count;
    read.shard = 2;
    MUST_OK(read_now(&read));
    rows[1] = read.row_count;
    MUST_EQ(rows[0], rows[1]);
    MUST(batch.result == ERR_OUTCOME_UNKNOWN || rows[0] == 0);
    // And the store goes on.
    ops[0].epoch = 2;
    ops[0].task.id = make_id(0, 7);
    MUST_OK(write_op(ops[0]));
    end();
}

/* --- life ------------------------------------------------------------------------------------- */

void close_waits_for_what_is_outstanding(void)
{
    struct store_op op = insert_op(0, 1);
    bool written = false;
    bool closed = false;
    struct store_batch batch = {.ops = &op, .op_count = 1, .cb = on_batch, .owner = &written};

    begin();
    MUST_OK(store->write(store, &batch));
    store->close(store, on_close, &closed);
    MUST_ERR(store->write(store, &batch), ERR_CLOSED);
    MUST(!written && !closed);
    while (!closed) {
        MUST(!closed);
        host->turn();
        MUST(!closed || written);
    }
    MUST_OK(batch.result);
    store = host->client();
    MUST_EQ(read_slice(0), 1);
    end();
}

void requests_that_make_no_sense_are_refused(void)
{
    struct store_op op = insert_op(0, 1);
    struct store_batch batch = {.ops = &op, .op_count = 1, .database = CONTRACT_DATABASE_COUNT};
    struct store_read read = {.kind = STORE_READ_CLAIMS, .shard = CONTRACT_SHARD_COUNT};
    struct store_bump bump = {.shard = CONTRACT_SHARD_COUNT};

    begin();
    MUST_ERR(store->write(store, &batch), ERR_INVALID);
    batch.database = 0;
    op.shard = CONTRACT_SHARD_COUNT;
    MUST_ERR(store->write(store, &batch), ERR_INVALID);
    MUST_ERR(store->read(store, &read), ERR_INVALID);
    read.shard = 0;
    read.limit = SLICE_ROW_COUNT_MAX + 1;
    MUST_ERR(store->read(store, &read), ERR_TOO_LARGE);
    read.kind = STORE_READ_DEAD;
    MUST_ERR(store->read(store, &read), ERR_TOO_LARGE);
    read.kind = STORE_READ_COUNTS;
    read.limit = COUNTED_ROW_COUNT_MAX + 1;
    MUST_ERR(store->read(store, &read), ERR_TOO_LARGE);
    MUST_ERR(store->bump(store, &bump), ERR_INVALID);
    end();
}
