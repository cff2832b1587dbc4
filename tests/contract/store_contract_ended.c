/* SPDX-License-Identifier: Apache-2.0
 *
 * What is left of tasks: results that are kept, dead letters, and how those come back.
 */
#include "tests/contract/store_contract_help.h"

#include <stdio.h>

/* Any bytes at all. */
static const uint8_t odd[] = {0, 0xff, 0xfe, 0xc0, 0x80, '\\', '\'', 0};

static const struct slice odd_bytes = {odd, sizeof(odd)};

/* The end of a task that is kept until 5000. */
static struct store_op kept_op(uint32_t shard, int64_t counter)
{
    struct store_op op = other_op(STORE_DELETE, shard, counter);

    op.attempt = 1;
    op.now_ms = 2000;
    op.end = TASK_END_DONE;
    op.keep_until_ms = 5000;
    return op;
}

static struct store_op dead_op(uint32_t shard, int64_t counter)
{
    struct store_op op = other_op(STORE_DEAD, shard, counter);

    op.attempt = 1;
    op.now_ms = 2000;
    op.task.failures = 1;
    op.error_text = slice_of("because");
    return op;
}

/* A redrive of what dead_op has left of an insert_op. */
static struct store_op redrive_op(uint32_t shard, int64_t counter)
{
    struct store_op op = insert_op(shard, counter);

    op.kind = STORE_REDRIVE;
    op.task.attempt = 1;
    op.expected_attempt = 1;
    op.now_ms = 3000;
    return op;
}

/* Make a task and a dead letter of it. */
static void make_letter(struct store_op insert)
{
    struct store_op op = dead_op(insert.shard, 0);

    op.task.id = insert.task.id;
    op.key_until_ms = 4000;
    MUST_OK(write_op(insert));
    MUST_OK(write_op(op));
}

static size_t read_ended(uint32_t shard, int64_t counter, wall_ms now_ms)
{
    struct task_id id = make_id(shard, counter);
    struct store_read read = {
        .kind = STORE_READ_ENDED, .shard = shard, .ids = &id, .id_count = 1, .now_ms = now_ms};

    MUST_OK(read_now(&read));
    MUST_EQ(read.row_count, 0);
    return read.ended_count;
}

static size_t read_letter(uint32_t shard, int64_t counter)
{
    struct task_id id = make_id(shard, counter);
    struct store_read read = {.kind = STORE_READ_DEAD, .shard = shard, .ids = &id, .id_count = 1};

    MUST_OK(read_now(&read));
    return read.ended_count;
}

/* --- results ---------------------------------------------------------------------------------- */

void result_is_kept_until_its_time(void)
{
    struct store_op op = keyed_op(0, 1, "k");
    size_t row_count;

    begin();
    op.task.payload = slice_of("not kept");
    op.task.tags = odd_bytes;
    op.task.expire_ms = 7000;
    op.task.unknowns = 2;
    op.task.attempt = 3;
    MUST_OK(write_op(op));
    op = kept_op(0, 1);
    op.expected_attempt = 3;
    op.attempt = 4;
    op.task.failures = 6;
    op.end = TASK_END_OBSOLETE;
    op.response = odd_bytes;
    op.key_until_ms = 3000;
    MUST_OK(write_op(op));
    MUST_EQ(read_slice(0), 0);
    MUST_EQ(read_ended(0, 1, 5000), 0);
    MUST_EQ(read_letter(0, 1), 0);
    MUST_EQ(read_ended(0, 1, 4999), 1);
    MUST(same(seen.ended[0].task.id, make_id(0, 1)));
    MUST_EQ(seen.ended[0].task.queue, 3);
    MUST_EQ(seen.ended[0].task.due_ms, 1000);
    MUST_EQ(seen.ended[0].task.created_ms, 10);
    MUST_EQ(seen.ended[0].task.attempt, 4);
    MUST_EQ(seen.ended[0].task.failures, 6);
    MUST_EQ(seen.ended[0].task.unknowns, 2);
    MUST_EQ(seen.ended[0].task.expire_ms, 7000);
    MUST_EQ(seen.ended[0].task.payload.len, 0);
    MUST_EQ(seen.ended[0].task.payload_len, 0);
    MUST(slice_equal(seen.ended[0].task.key, slice_of("k")));
    MUST(slice_equal(seen.ended[0].task.tags, odd_bytes));
    MUST_EQ(seen.ended[0].end, TASK_END_OBSOLETE);
    MUST_EQ(seen.ended[0].ended_ms, 2000);
    MUST_EQ(seen.ended[0].until_ms, 5000);
    MUST(slice_equal(seen.ended[0].response, odd_bytes));
    MUST_EQ(seen.ended[0].error_text.len, 0);
    // The key has a memory of its own.
    MUST(read_key(0, "k", 2999, &row_count) != 0);
    MUST_EQ(read_key(0, "k", 3000, &row_count), 0);
    end();
}

void results_of_a_batch_are_those_of_its_operations(void)
{
    static uint8_t response[RESPONSE_BYTES_MAX];
    static const enum task_end ends[] = {TASK_END_DONE, TASK_END_OBSOLETE, TASK_END_EXPIRED};
    static struct store_op ops[60];

    begin();
    for (size_t i = 0; i < sizeof(response); i++) {
        response[i] = (uint8_t)(i * 7 + i / 256);
    }
    for (int64_t i = 0; i < 60; i++) {
        ops[i] = insert_op(i % 2 == 0 ? 0 : 4, i + 1);
    }
    write_ops(ops, 60);
    for (int64_t i = 0; i < 60; i++) {
        // In another order; every third does not match, every fourth is not kept.
        int64_t n = 59 - i;

        ops[i] = kept_op(n % 2 == 0 ? 0 : 4, n + 1);
        ops[i].expected_attempt = n % 3 == 0;
        ops[i].attempt = (uint32_t)n + 100;
        ops[i].keep_until_ms = n % 4 == 0 ? 0 : 5000 + n;
        ops[i].end = ends[n % 3];
        ops[i].response = (struct slice){response + n, n == 5 ? sizeof(response) - 5 : (size_t)n};
    }
    write_ops(ops, 60);
    for (int64_t n = 0; n < 60; n++) {
        uint32_t shard = n % 2 == 0 ? 0 : 4;

        MUST_ERR(ops[59 - n].result, n % 3 == 0 ? ERR_NOT_FOUND : 0);
        MUST_EQ(read_ended(shard, n + 1, 5000), n % 3 != 0 && n % 4 != 0);
        if (n % 3 != 0 && n % 4 != 0) {
            MUST_EQ(seen.ended[0].task.attempt, n + 100);
            MUST_EQ(seen.ended[0].until_ms, 5000 + n);
            MUST_EQ(seen.ended[0].end, ends[n % 3]);
            MUST(slice_equal(seen.ended[0].response, ops[59 - n].response));
        }
        MUST_EQ(read_task(shard, n + 1), n % 3 == 0);
    }
    end();
}

void results_and_dead_letters_are_read_by_id(void)
{
    struct store_op ops[3] = {insert_op(0, 1), insert_op(0, 2), insert_op(0, 3)};
    struct task_id ids[5] = {make_id(0, 3), make_id(0, 9), make_id(0, 2), make_id(0, 1),
                             make_id(0, 4)};
    struct store_read read = {.kind = STORE_READ_ENDED, .ids = ids, .id_count = 5};
    uint32_t ends = 0;

    begin();
    write_ops(ops, 3);
    ops[0] = kept_op(0, 1);
    ops[1] = dead_op(0, 2);
    ops[2] = kept_op(0, 3);
    write_ops(ops, 3);
    MUST_OK(write_op(insert_op(0, 4)));
    MUST_OK(read_now(&read));
    MUST_EQ(read.ended_count, 3);
    for (size_t i = 0; i < read.ended_count; i++) {
        ends += (uint32_t)seen.ended[i].end;
        MUST_EQ(seen.ended[i].end == TASK_END_DEAD, same(seen.ended[i].task.id, make_id(0, 2)));
    }
    MUST_EQ(ends, 2 * TASK_END_DONE + TASK_END_DEAD);
    // Past the time of the results.
    read.now_ms = 5000;
    MUST_OK(read_now(&read));
    MUST_EQ(read.ended_count, 1);
    read.kind = STORE_READ_DEAD;
    MUST_OK(read_now(&read));
    MUST_EQ(read.ended_count, 1);
    // The right numbers in other slots are other tasks.
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        ids[i].slot += 8;
    }
    MUST_OK(read_now(&read));
    MUST_EQ(read.ended_count, 0);
    read.kind = STORE_READ_ENDED;
    read.now_ms = 0;
    MUST_OK(read_now(&read));
    MUST_EQ(read.ended_count, 0);
    end();
}

void sweep_forgets_results_past_their_time_and_no_other(void)
{
    static struct store_op ops[600];
    struct store_batch sweep = {.sweep = true};
    size_t left = 0;

    begin();
    for (int64_t i = 0; i < 600; i++) {
        ops[i] = insert_op(i % 2 == 0 ? 0 : 4, i + 1);
    }
    write_ops(ops, 600);
    for (int64_t i = 0; i < 600; i++) {
        ops[i] = kept_op(i % 2 == 0 ? 0 : 4, i + 1);
        ops[i].keep_until_ms = i % 100 < 50 ? 5000 : DUE_WALL_MS_MAX;
    }
    write_ops(ops, 600);
    MUST_EQ(read_ended(0, 1, 0), 1);
    // Perhaps not all at once.
    while (read_ended(0, 1, 0) + read_ended(4, 550, 0) > 0) {
        write_batch(store, &sweep);
        MUST_OK(sweep.result);
    }
    for (int64_t i = 0; i < 600; i++) {
        left += read_ended(i % 2 == 0 ? 0 : 4, i + 1, 0);
    }
    MUST_EQ(left, 300);
    end();
}

/* More than any store deletes at a time. */
#define MANY_COUNT 3000

static size_t count_ended(void)
{
    static struct task_id ids[SLICE_ROW_COUNT_MAX];
    size_t total = 0;

    for (int64_t i = 0; i < MANY_COUNT; i += SLICE_ROW_COUNT_MAX) {
        struct store_read read = {.kind = STORE_READ_ENDED, .ids = ids};

        while (i + (int64_t)read.id_count < MANY_COUNT && read.id_count < SLICE_ROW_COUNT_MAX) {
            ids[read.id_count] = make_id(0, i + (int64_t)read.id_count + 1);
            read.id_count++;
        }
        MUST_OK(read_now(&read));
        total += read.ended_count;
    }
    return total;
}

void what_a_sweep_has_left_goes_with_later_writes(void)
{
    static struct store_op ops[MANY_COUNT / 2];
    struct store_batch sweep = {.sweep = true};
    int64_t counter = MANY_COUNT;

    begin();
    for (int64_t first = 0; first < MANY_COUNT; first += MANY_COUNT / 2) {
        for (int64_t i = 0; i < MANY_COUNT / 2; i++) {
            ops[i] = insert_op(0, first + i + 1);
        }
        write_ops(ops, MANY_COUNT / 2);
        for (int64_t i = 0; i < MANY_COUNT / 2; i++) {
            ops[i] = kept_op(0, first + i + 1);
        }
        write_ops(ops, MANY_COUNT / 2);
    }
    MUST_EQ(count_ended(), MANY_COUNT);
    write_batch(store, &sweep);
    MUST_OK(sweep.result);
    while (count_ended() > 0) {
        MUST_OK(write_op(insert_op(0, ++counter)));
    }
    end();
}

/* --- dead letters ----------------------------------------------------------------------------- */

void task_that_died_is_a_dead_letter_and_no_row(void)
{
    static uint8_t payload[PAYLOAD_INLINE_BYTES_MAX + 1] = {0, 1, 2, 3};
    struct store_op op = keyed_op(0, 1, "k");
    struct store_read page = {.kind = STORE_READ_DEAD, .queue = 3, .limit = 10};
    size_t row_count;

    begin();
    op.task.payload = (struct slice){payload, sizeof(payload)};
    op.task.tags = odd_bytes;
    op.task.expire_ms = 7000;
    op.task.unknowns = 2;
    MUST_OK(write_op(op));
    op = dead_op(0, 1);
    op.attempt = 10;
    op.task.failures = 9;
    op.key_until_ms = 3000;
    op.error_text = odd_bytes;
    MUST_OK(write_op(op));
    MUST_EQ(read_slice(0), 0);
    for (int i = 0; i < 2; i++) {
        if (i == 0) {
            MUST_EQ(read_letter(0, 1), 1);
            MUST_EQ_BYTES(seen.ended[0].task.payload.data, payload, sizeof(payload));
        } else {
            MUST_OK(read_now(&page));
            MUST_EQ(page.ended_count, 1);
            MUST_EQ(seen.ended[0].task.payload.len, 0); // left out of a page
        }
        MUST(same(seen.ended[0].task.id, make_id(0, 1)));
        MUST_EQ(seen.ended[0].task.queue, 3);
        MUST_EQ(seen.ended[0].task.due_ms, 1000);
        MUST_EQ(seen.ended[0].task.created_ms, 10);
        MUST_EQ(seen.ended[0].task.attempt, 10);
        MUST_EQ(seen.ended[0].task.failures, 9);
        MUST_EQ(seen.ended[0].task.unknowns, 2);
        MUST_EQ(seen.ended[0].task.expire_ms, 7000);
        MUST_EQ(seen.ended[0].task.payload_len, sizeof(payload));
        MUST(slice_equal(seen.ended[0].task.key, slice_of("k")));
        MUST(slice_equal(seen.ended[0].task.tags, odd_bytes));
        MUST_EQ(seen.ended[0].end, TASK_END_DEAD);
        MUST_EQ(seen.ended[0].ended_ms, 2000);
        MUST_EQ(seen.ended[0].until_ms, WALL_NEVER);
        MUST_EQ(seen.ended[0].response.len, 0);
        MUST(slice_equal(seen.ended[0].error_text, odd_bytes));
    }
    MUST(read_key(0, "k", 2999, &row_count) != 0);
    MUST_EQ(row_count, 0);
    MUST_EQ(read_key(0, "k", 3000, &row_count), 0);
    end();
}

void pages_of_dead_letters_are_one_queue_by_id(void)
{
    static struct store_op ops[100];
    struct store_read page = {.kind = STORE_READ_DEAD, .shard = 2, .queue = 4, .limit = 7};
    size_t total = 0;

    begin();
    for (int64_t i = 0; i < 100; i++) {
        ops[i] = insert_op(i % 5 == 0 ? 0 : 2, i * 37 % 100 + 1);
        ops[i].task.queue = i % 2 == 0 ? 4 : 5;
    }
    write_ops(ops, 100);
    for (int64_t i = 0; i < 100; i++) {
        struct store_op op = dead_op(ops[i].shard, 0);

        op.task.id = ops[i].task.id;
        ops[i] = op;
    }
    write_ops(ops, 100);
    do {
        MUST_OK(read_now(&page));
        for (size_t i = 0; i < page.ended_count; i++) {
            MUST(seen.ended[i].task.id.seq > page.after_seq);
            MUST_EQ(seen.ended[i].task.queue, 4);
            page.after_seq = seen.ended[i].task.id.seq;
        }
        total += page.ended_count;
    } while (page.ended_count == page.limit);
    MUST_EQ(total, 40);
    end();
}

void letter_of_a_task_that_died_again_is_the_last(void)
{
    struct store_op op = dead_op(0, 1);

    begin();
    make_letter(insert_op(0, 1));
    MUST_OK(write_op(redrive_op(0, 1)));
    op.expected_attempt = 1;
    op.attempt = 2;
    op.error_text = slice_of("again");
    MUST_OK(write_op(op));
    MUST_EQ(read_letter(0, 1), 1);
    MUST_EQ(seen.ended[0].task.attempt, 2);
    MUST(slice_equal(seen.ended[0].error_text, slice_of("again")));
    end();
}

void purge_deletes_a_dead_letter_and_leaves_its_key(void)
{
    struct store_op ops[3];
    size_t row_count;

    begin();
    make_letter(keyed_op(0, 1, "k"));
    make_letter(insert_op(0, 2));
    MUST_OK(write_op(insert_op(0, 3)));
    ops[0] = other_op(STORE_PURGE, 0, 1);
    ops[1] = other_op(STORE_PURGE, 0, 2);
    ops[1].task.id.slot += 8;
    ops[2] = other_op(STORE_PURGE, 0, 3);
    write_ops(ops, 3);
    MUST_OK(ops[0].result);
    MUST_ERR(ops[1].result, ERR_NOT_FOUND); // another slot: another task
    MUST_ERR(ops[2].result, ERR_NOT_FOUND); // a task, no letter
    MUST_EQ(read_letter(0, 1), 0);
    MUST_EQ(read_letter(0, 2), 1);
    MUST_EQ(read_task(0, 3), 1);
    MUST_EQ(read_key(0, "k", 3999, &row_count), make_id(0, 1).seq);
    MUST_ERR(write_op(ops[0]), ERR_NOT_FOUND);
    end();
}

/* --- redrive ---------------------------------------------------------------------------------- */

void redrive_brings_a_dead_letter_back_as_it_says(void)
{
    struct store_op ops[2];
    size_t row_count;

    begin();
    make_letter(keyed_op(0, 1, "k"));
    ops[0] = redrive_op(0, 1);
    ops[0].task.key = slice_of("k");
    ops[0].task.queue = 3;
    ops[0].task.due_ms = 70000;
    ops[0].task.failures = 5;
    ops[0].task.unknowns = 6;
    ops[0].task.payload = odd_bytes;
    ops[0].task.tags = slice_of("a=b\n");
    ops[0].task.expire_ms = 90000;
    ops[1] = claim_op(0, 1, 2);
    write_ops(ops, 2);
    MUST_OK(ops[0].result);
    MUST_OK(ops[1].result);
    MUST_EQ(read_letter(0, 1), 0);
    MUST_EQ(read_claims(0), 1);
    MUST_EQ(seen.claims[0].attempt, 2);
    MUST_EQ(read_slice(0), 1);
    MUST(same(seen.rows[0].id, make_id(0, 1)));
    MUST_EQ(seen.rows[0].attempt, 1);
    MUST_EQ(seen.rows[0].due_ms, 70000);
    MUST_EQ(seen.rows[0].created_ms, 10);
    MUST_EQ(seen.rows[0].failures, 5);
    MUST_EQ(seen.rows[0].unknowns, 6);
    MUST_EQ(seen.rows[0].expire_ms, 90000);
    MUST(slice_equal(seen.rows[0].payload, odd_bytes));
    MUST(slice_equal(seen.rows[0].tags, slice_of("a=b\n")));
    MUST(slice_equal(seen.rows[0].key, slice_of("k")));
    // Its key is held again for as long as it lives.
    MUST_EQ(read_key(0, "k", INT64_MAX, &row_count), make_id(0, 1).seq);
    MUST_EQ(row_count, 1);
    MUST_ERR(write_op(redrive_op(0, 1)), ERR_NOT_FOUND);
    end();
}

void redrive_finds_only_the_letter_that_it_names(void)
{
    struct store_op ops[8];
    size_t row_count;

    begin();
    make_letter(insert_op(0, 1));
    make_letter(keyed_op(0, 2, "k"));
    MUST_OK(write_op(insert_op(0, 5)));
    ops[0] = redrive_op(0, 1);
    ops[0].expected_attempt = 2; // has died again since it was read
    ops[1] = redrive_op(0, 2);
    ops[1].expected_attempt = 0;
    ops[1].task.key = slice_of("other"); // and its key stays free
    ops[2] = redrive_op(0, 3);
    ops[2].task.key = slice_of("none");
    ops[3] = claim_op(0, 3, 2);
    ops[4] = redrive_op(2, 1);
    ops[5] = redrive_op(0, 4);
    ops[6] = redrive_op(0, 5); // back already, and nothing of this batch may be claimed
    ops[7] = claim_op(0, 5, 1);
    write_ops(ops, 8);
    for (int i = 0; i < 8; i++) {
        MUST_ERR(ops[i].result, ERR_NOT_FOUND);
    }
    ops[0] = redrive_op(0, 1);
    ops[0].task.id.slot += 8;
    MUST_ERR(write_op(ops[0]), ERR_NOT_FOUND);
    MUST_EQ(read_key(0, "other", 0, &row_count), 0);
    MUST_EQ(read_key(0, "none", 0, &row_count), 0);
    MUST_EQ(read_key(0, "k", 3999, &row_count), make_id(0, 2).seq);
    MUST_EQ(row_count, 0);
    MUST_EQ(read_slice(0), 1);
    MUST_EQ(read_slice(2), 0);
    MUST_EQ(read_claims(0), 0);
    MUST_EQ(read_letter(0, 1), 1);
    MUST_EQ(read_letter(0, 2), 1);
    end();
}

void redrive_whose_key_is_taken_leaves_the_letter(void)
{
    struct store_op ops[4];
    size_t row_count;

    begin();
    make_letter(keyed_op(0, 1, "k"));
    make_letter(keyed_op(0, 2, "free"));
    ops[0] = keyed_op(0, 3, "k");
    ops[0].now_ms = 4000;
    MUST_OK(write_op(ops[0]));
    ops[0] = redrive_op(0, 1);
    ops[0].task.key = slice_of("k");
    ops[0].key_replaces = make_id(0, 3); // says nothing here
    ops[1] = claim_op(0, 1, 2);
    ops[2] = redrive_op(0, 2);
    ops[2].task.key = slice_of("free");
    ops[3] = claim_op(0, 2, 2);
    write_ops(ops, 4);
    MUST_ERR(ops[0].result, ERR_EXISTS);
    MUST(same(ops[0].existing, make_id(0, 3)));
    MUST_ERR(ops[1].result, ERR_NOT_FOUND);
    MUST_OK(ops[2].result);
    MUST_OK(ops[3].result);
    MUST_EQ(read_letter(0, 1), 1);
    MUST_EQ(read_task(0, 1), 0);
    MUST_EQ(read_key(0, "k", 0, &row_count), make_id(0, 3).seq);
    // Free again, though the key's row names a third task.
    ops[0] = other_op(STORE_DELETE, 0, 3);
    ops[0].key_until_ms = 5000;
    MUST_OK(write_op(ops[0]));
    ops[0] = redrive_op(0, 1);
    ops[0].task.key = slice_of("k");
    ops[0].now_ms = 4999;
    MUST_ERR(write_op(ops[0]), ERR_EXISTS);
    ops[0].now_ms = 5000;
    MUST_OK(write_op(ops[0]));
    MUST_EQ(read_key(0, "k", INT64_MAX, &row_count), make_id(0, 1).seq);
    MUST_EQ(row_count, 1);
    end();
}

/* Every third has a key, every fifth no letter; two shards, in one batch with other work. */
void redrives_of_a_batch_reach_their_own_letters(void)
{
    static char keys[60][16];
    static struct store_op ops[180];

    begin();
    for (int64_t i = 0; i < 60; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "key %lld", (long long)i);
        ops[i] = insert_op(i % 2 == 0 ? 0 : 4, i + 1);
        ops[i].task.key = slice_of(i % 3 == 0 ? keys[i] : "");
    }
    write_ops(ops, 60);
    for (int64_t i = 0; i < 60; i++) {
        ops[i] = dead_op(i % 2 == 0 ? 0 : 4, i + 1);
        ops[i].kind = i % 5 == 0 ? STORE_DELETE : STORE_DEAD;
        ops[i].key_until_ms = 9000;
    }
    write_ops(ops, 60);
    for (int64_t i = 0; i < 60; i++) {
        int64_t n = 59 - i;

        ops[3 * i] = redrive_op(n % 2 == 0 ? 0 : 4, n + 1);
        ops[3 * i].task.due_ms = n * 10;
        ops[3 * i].task.key = slice_of(n % 3 == 0 ? keys[n] : "");
        ops[3 * i + 1] = claim_op(n % 2 == 0 ? 0 : 4, n + 1, 2);
        ops[3 * i + 2] = insert_op(2, n + 1);
    }
    write_ops(ops, 180);
    for (int64_t n = 0; n < 60; n++) {
        size_t i = (size_t)(59 - n);
        uint32_t shard = n % 2 == 0 ? 0 : 4;

        MUST_ERR(ops[3 * i].result, n % 5 == 0 ? ERR_NOT_FOUND : 0);
        MUST_ERR(ops[3 * i + 1].result, n % 5 == 0 ? ERR_NOT_FOUND : 0);
        MUST_OK(ops[3 * i + 2].result);
        MUST_EQ(read_letter(shard, n + 1), 0);
        MUST_EQ(read_task(shard, n + 1), n % 5 != 0);
        if (n % 5 != 0) {
            MUST_EQ(seen.rows[0].due_ms, n * 10);
            MUST(slice_equal(seen.rows[0].key, slice_of(n % 3 == 0 ? keys[n] : "")));
        }
    }
    MUST_EQ(read_claims(0) + read_claims(4), 48);
    end();
}

void redrive_of_a_task_that_is_there_is_poison(void)
{
    struct store_op ops[3] = {redrive_op(0, 1), redrive_op(0, 2), insert_op(0, 9)};

    begin();
    make_letter(insert_op(0, 1));
    make_letter(insert_op(0, 2));
    MUST_OK(write_op(insert_op(0, 1))); // as only a mistake can make it
    write_ops(ops, 3);
    MUST_ERR(ops[0].result, ERR_INVALID);
    MUST_OK(ops[1].result);
    MUST_OK(ops[2].result);
    MUST_EQ(read_letter(0, 1), 1);
    MUST_EQ(read_letter(0, 2), 0);
    MUST_EQ(read_slice(0), 3);
    end();
}

/* --- the fence -------------------------------------------------------------------------------- */

void ends_and_redrives_of_a_shard_that_is_not_ours_drop_out(void)
{
    struct store_op ops[4];
    struct store_read page = {
        .kind = STORE_READ_DEAD, .shard = 4, .epoch = 2, .queue = 3, .limit = 9};
    struct store_read tasks = {.kind = STORE_READ_SLICE,
                               .shard = 4,
                               .epoch = 2,
                               .after_bucket = INT64_MIN,
                               .to_bucket = INT64_MAX,
                               .limit = 9};

    begin();
    make_letter(insert_op(4, 1));
    make_letter(keyed_op(4, 2, "k"));
    make_letter(insert_op(0, 1));
    MUST_OK(write_op(insert_op(4, 3)));
    MUST_OK(bump_as(store, 4, 2));
    ops[0] = other_op(STORE_PURGE, 4, 1);
    ops[1] = redrive_op(4, 2);
    ops[1].task.key = slice_of("k");
    ops[2] = kept_op(4, 3);
    ops[3] = redrive_op(0, 1);
    write_ops(ops, 4);
    MUST_ERR(ops[0].result, ERR_FENCED);
    MUST_ERR(ops[1].result, ERR_FENCED);
    MUST_ERR(ops[2].result, ERR_FENCED);
    MUST_OK(ops[3].result);
    MUST_OK(read_now(&page));
    MUST_EQ(page.ended_count, 2);
    MUST_OK(read_now(&tasks));
    MUST_EQ(tasks.row_count, 1);
    end();
}

/* --- counts ----------------------------------------------------------------------------------- */

void tasks_and_dead_letters_are_counted_by_queue(void)
{
    static struct store_op ops[60];
    struct store_read read = {
        .kind = STORE_READ_COUNTS, .shard = 2, .now_ms = 30, .limit = COUNTED_ROW_COUNT_MAX};

    begin();
    MUST_OK(read_now(&read));
    MUST_EQ(read.count_count, 0);
    MUST(!read.is_cut);
    for (int64_t i = 0; i < 60; i++) {
        ops[i] = insert_op(i < 10 ? 0 : 2, i + 1);
        ops[i].task.queue = 7 - (uint32_t)i % 3;
        ops[i].task.due_ms = 59 - i;
    }
    write_ops(ops, 60);
    for (int64_t i = 0; i < 3; i++) {
        ops[i] = dead_op(2, 19 + i * 3); // of queue 7, due in 41, 38 and 35
    }
    write_ops(ops, 3);
    ops[0] = insert_op(2, 100);
    ops[0].task.queue = 1;
    make_letter(ops[0]);
    MUST_OK(read_now(&read));
    MUST(!read.is_cut);
    MUST_EQ(read.count_count, 4);
    MUST_EQ(seen.counts[0].queue, 1);
    MUST_EQ(seen.counts[0].pending, 0);
    MUST_EQ(seen.counts[0].overdue, 0);
    MUST_EQ(seen.counts[0].dead, 1);
    MUST_EQ(seen.counts[0].first_due_ms, WALL_NEVER);
    MUST_EQ(seen.counts[1].queue, 5);
    MUST_EQ(seen.counts[1].pending, 17);
    MUST_EQ(seen.counts[1].overdue, 11);
    MUST_EQ(seen.counts[1].dead, 0);
    MUST_EQ(seen.counts[1].first_due_ms, 0);
    MUST_EQ(seen.counts[2].queue, 6);
    MUST_EQ(seen.counts[2].pending, 17);
    MUST_EQ(seen.counts[2].first_due_ms, 1);
    MUST_EQ(seen.counts[3].queue, 7);
    MUST_EQ(seen.counts[3].pending, 13);
    MUST_EQ(seen.counts[3].overdue, 10);
    MUST_EQ(seen.counts[3].dead, 3);
    MUST_EQ(seen.counts[3].first_due_ms, 2);
    // One alone; in all of time.
    for (size_t i = 0; i < 4; i++) {
        static const uint64_t pending[] = {0, 17, 17, 13};

        read.queue = (uint32_t)(i == 0 ? 1 : 4 + i);
        read.now_ms = INT64_MAX;
        MUST_OK(read_now(&read));
        MUST_EQ(read.count_count, 1);
        MUST_EQ(seen.counts[0].queue, read.queue);
        MUST_EQ(seen.counts[0].pending, pending[i]);
        MUST_EQ(seen.counts[0].overdue, pending[i]);
        MUST_EQ(seen.counts[0].dead, i == 0 ? 1 : i == 3 ? 3 : 0);
        MUST_EQ(seen.counts[0].first_due_ms, i == 0 ? WALL_NEVER : (int64_t)i - 1);
    }
    read.queue = 2;
    MUST_OK(read_now(&read));
    MUST_EQ(read.count_count, 0);
    end();
}

void count_that_meets_its_limit_says_so(void)
{
    struct store_read read = {.kind = STORE_READ_COUNTS, .now_ms = 30, .limit = 4};

    begin();
    for (int64_t i = 0; i < 3; i++) {
        MUST_OK(write_op(insert_op(0, i + 1)));
        make_letter(insert_op(0, i + 11));
    }
    MUST_OK(read_now(&read));
    MUST(!read.is_cut);
    read.limit = 2;
    MUST_OK(read_now(&read));
    MUST(read.is_cut);
    MUST_EQ(read.count_count, 1);
    MUST_EQ(seen.counts[0].pending, 2);
    MUST_EQ(seen.counts[0].dead, 2);
    // Of either kind.
    MUST_OK(write_op(insert_op(0, 4)));
    read.limit = 4;
    MUST_OK(read_now(&read));
    MUST(read.is_cut);
    MUST_EQ(seen.counts[0].pending, 4);
    MUST_EQ(seen.counts[0].dead, 3);
    read.queue = 3;
    MUST_OK(read_now(&read));
    MUST(read.is_cut);
    MUST_EQ(seen.counts[0].pending, 4);
    MUST_EQ(seen.counts[0].dead, 3);
    read.limit = 5;
    MUST_OK(read_now(&read));
    MUST(!read.is_cut);
    // What is of other queues does not count.
    read.queue = 4;
    read.limit = 1;
    MUST_OK(read_now(&read));
    MUST(!read.is_cut);
    MUST_EQ(read.count_count, 0);
    end();
}
