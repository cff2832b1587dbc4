/* SPDX-License-Identifier: Apache-2.0
 *
 * Order and groups of a batch on its way to PostgreSQL.
 */
#include "storage/pg_plan.h"

#include "lib/base/prng.h"

#include <criterion/criterion.h>
#include <string.h>

static const uint8_t all_here[SHARD_COUNT_MAX];
static struct pg_plan plan;
static struct store_op ops[BATCH_OP_COUNT_MAX];

static struct store_op make_op(enum store_op_kind kind, uint32_t shard, int64_t seq)
{
    return (struct store_op){
        .kind = kind,
        .shard = shard,
        .epoch = 1,
        .task = {.id = {.seq = seq, .slot = (uint16_t)shard}},
    };
}

static void make_plan(size_t count)
{
    struct store_batch batch = {.ops = ops, .op_count = count};

    pg_plan_make(&plan, &batch, all_here, 0);
    plan.batch = NULL; // the batch ends here
}

Test(pg_plan, every_operation_is_in_one_group_of_its_kind_table_and_epoch)
{
    struct prng prng;
    size_t seen = 0;
    size_t next = 0;

    prng_init(&prng, 7);
    for (int i = 0; i < 1000; i++) {
        ops[i] = make_op((enum store_op_kind)prng_between(&prng, STORE_INSERT, STORE_PURGE),
                         (uint32_t)prng_below(&prng, 5), 1000 - i);
        ops[i].epoch = prng_between(&prng, 1, 2);
        ops[i].set_payload = prng_chance(&prng, 500);
        ops[i].keep_until_ms = prng_chance(&prng, 500);
        ops[i].raise_attempt = prng_chance(&prng, 500);
    }
    make_plan(1000);
    while (next < plan.slot_count) {
        struct pg_group group = pg_plan_group(&plan, next, plan.slot_count);
        const struct pg_slot *first = &plan.slots[group.first];

        cr_assert_eq(group.first, next);
        for (size_t i = 1; i < group.count; i++) {
            cr_assert_eq(first[i].stmt, first->stmt);
            cr_assert_eq(first[i].shard, first->shard);
            cr_assert_eq(first[i].epoch, first->epoch);
            cr_assert_gt(first[i].seq, first[i - 1].seq, "parameters are sorted");
        }
        seen += group.count;
        next += group.count;
    }
    cr_assert_eq(seen, 1000);
    cr_assert_eq(plan.fence_count, 10);
}

Test(pg_plan, a_claim_of_a_known_row_costs_a_fence_and_no_statement)
{
    ops[0] = make_op(STORE_CLAIM, 0, 1);
    ops[1] = make_op(STORE_CLAIM, 3, 2);
    ops[1].is_known = true;
    ops[2] = make_op(STORE_CLAIM, 4, 3);
    ops[2].is_known = true;
    ops[2].raise_attempt = true; // Changes the row: that is a statement.
    make_plan(3);
    cr_assert_eq(plan.slot_count, 2);
    cr_assert_eq(plan.slots[0].op, 2);
    cr_assert_eq(plan.slots[1].op, 0);
    cr_assert_eq(plan.fence_count, 3);
    cr_assert_eq(plan.claim_count, 3);
}

Test(pg_plan, only_what_the_fence_cannot_say_needs_a_look)
{
    ops[0] = make_op(STORE_INSERT, 0, 1);
    ops[1] = make_op(STORE_CLAIM, 0, 1);
    ops[2] = make_op(STORE_CLAIM, 3, 2);
    ops[2].is_known = true;
    make_plan(3);
    cr_assert(!plan.needs_look, "an insert without key, and a known row");
    ops[0].task.key = slice_of("k");
    make_plan(3);
    cr_assert(plan.needs_look, "the key may be taken");
    ops[0].task.key.len = 0;
    ops[2].is_known = false;
    make_plan(3);
    cr_assert(plan.needs_look, "the row may be gone");
    ops[2].is_known = true;
    ops[2].raise_attempt = true;
    make_plan(3);
    cr_assert(plan.needs_look, "the row changes");
}

Test(pg_plan, a_redrive_needs_a_look_and_a_claim_behind_it_no_statement)
{
    ops[0] = make_op(STORE_CLAIM, 0, 1);
    ops[1] = make_op(STORE_REDRIVE, 0, 1);
    make_plan(2);
    cr_assert(plan.needs_look, "there may be no letter");
    cr_assert_eq(plan.slot_count, 1);
    cr_assert_eq(plan.slots[0].stmt, PG_STMT_REDRIVE);
    cr_assert_eq(plan.insert_of[0], 1);
}

Test(pg_plan, tags_cost_no_second_statement)
{
    ops[0] = make_op(STORE_INSERT, 0, 1);
    ops[1] = make_op(STORE_INSERT, 0, 2);
    ops[2] = make_op(STORE_INSERT, 0, 3);
    ops[2].task.key = slice_of("k");
    make_plan(3);
    cr_assert_eq(plan.slots[0].stmt, PG_STMT_INSERT);
    cr_assert_eq(plan.slots[1].stmt, PG_STMT_INSERT);
    ops[1].task.expire_ms = 1;
    make_plan(3);
    cr_assert_eq(plan.slots[0].stmt, PG_STMT_INSERT_TAGGED);
    cr_assert_eq(plan.slots[1].stmt, PG_STMT_INSERT_TAGGED);
    cr_assert_eq(plan.slots[2].stmt, PG_STMT_INSERT_KEYED);
    ops[1].task.expire_ms = 0;
    ops[1].task.tags = slice_of("a=b\n");
    make_plan(3);
    cr_assert_eq(plan.slots[0].stmt, PG_STMT_INSERT_TAGGED);
}

Test(pg_plan, inserts_come_before_what_ends_or_claims)
{
    ops[0] = make_op(STORE_DELETE, 0, 1);
    ops[1] = make_op(STORE_CLAIM, 0, 2);
    ops[2] = make_op(STORE_INSERT, 3, 3);
    ops[3] = make_op(STORE_INSERT, 0, 4);
    ops[3].task.key = slice_of("k");
    make_plan(4);
    cr_assert_eq(plan.slots[0].stmt, PG_STMT_INSERT);
    cr_assert_eq(plan.slots[1].stmt, PG_STMT_INSERT_KEYED);
    cr_assert_eq(plan.slots[2].stmt, PG_STMT_DELETE);
    cr_assert_eq(plan.slots[3].stmt, PG_STMT_CHECK);
}

Test(pg_plan, claim_of_a_task_that_the_batch_inserts_needs_no_statement)
{
    for (int i = 0; i < 300; i++) {
        ops[2 * i] = make_op(STORE_INSERT, (uint32_t)i % 3, i + 1);
        ops[2 * i].task.key = slice_of(i % 2 == 0 ? "" : "k");
        ops[2 * i + 1] = make_op(STORE_CLAIM, (uint32_t)i % 3, i + 1);
        ops[2 * i + 1].raise_attempt = i % 7 == 0;
    }
    ops[600] = make_op(STORE_CLAIM, 0, 999);
    make_plan(601);
    cr_assert_eq(plan.claim_count, 301);
    // 300 inserts, the claims that raise, and the one of a task that was there before.
    cr_assert_eq(plan.slot_count, 300 + 43 + 1);
    for (uint32_t i = 0; i < 300; i++) {
        cr_assert_eq(plan.insert_of[2 * i + 1], 2 * i);
        cr_assert_eq(plan.insert_of[2 * i], PG_NO_OP);
    }
    cr_assert_eq(plan.insert_of[600], PG_NO_OP);
}

Test(pg_plan, what_cannot_be_ours_has_no_statement)
{
    uint8_t database_of[4] = {0, 1, 0, 0};
    struct store_batch batch = {.ops = ops, .op_count = 3};

    ops[0] = make_op(STORE_INSERT, 1, 1);
    ops[1] = make_op(STORE_INSERT, 2, 1);
    ops[2] = make_op(STORE_INSERT, 3, 1);
    ops[2].epoch = 0;
    pg_plan_make(&plan, &batch, database_of, 0);
    cr_assert_eq(plan.slot_count, 1);
    cr_assert_eq(plan.slots[0].op, 1);
    cr_assert_eq(plan.fence_count, 1);
    cr_assert_eq(plan.fences[0].shard, 2);
}
