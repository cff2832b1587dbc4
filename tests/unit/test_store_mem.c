/* SPDX-License-Identifier: Apache-2.0
 *
 * What the memory store promises to those who choose its interleavings. The rules that every store
 * keeps are in tests/contract.
 */
#include "storage/store_mem.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <criterion/criterion.h>
#include <string.h>

#define SHARD_A 0
#define SHARD_B 1

struct rig {
    struct store_mem *mem;
    struct store *old;
    struct store *young;
    int stale_commits; /* operations that committed under an epoch that was not the shard's */
    int replies;
    int result;
};

static void count_stale(void *ctx, const struct store_mem_commit *commit)
{
    struct rig *rig = ctx;

    for (size_t i = 0; commit->batch != NULL && i < commit->batch->op_count; i++) {
        const struct store_op *op = &commit->batch->ops[i];

        if (op->result == 0 && op->epoch != store_mem_epoch(rig->mem, op->shard)) {
            rig->stale_commits++;
        }
    }
}

static void on_batch(struct store_batch *batch)
{
    struct rig *rig = batch->owner;

    rig->replies++;
    rig->result = batch->result;
}

static void on_bump(struct store_bump *bump)
{
    struct rig *rig = bump->owner;

    rig->replies++;
    rig->result = bump->result;
}

static void rig_open(struct rig *rig, enum store_mem_fence fence)
{
    struct store_mem_options options = {
        .shard_count = 4,
        .database_count = 1,
        .fence = fence,
        .has_standby = true,
        .on_commit = count_stale,
        .ctx = rig,
    };

    memset(rig, 0, sizeof(*rig));
    rig->mem = store_mem_new(&options);
    cr_assert_not_null(rig->mem);
    rig->old = store_mem_client(rig->mem, NULL);
    rig->young = store_mem_client(rig->mem, NULL);
}

static struct store_op insert_op(uint32_t shard, int64_t epoch, int64_t seq)
{
    return (struct store_op){
        .kind = STORE_INSERT,
        .shard = shard,
        .epoch = epoch,
        .task = {.id = {.seq = seq, .slot = (uint16_t)shard}, .queue = 1, .due_ms = 1000},
    };
}

static struct store_mem_request *submit(struct rig *rig, struct store *store,
                                        struct store_batch *batch)
{
    batch->cb = on_batch;
    batch->owner = rig;
    cr_assert_eq(store->write(store, batch), 0);
    return store_mem_find(rig->mem, batch);
}

static struct store_mem_request *bump(struct rig *rig, struct store *store, struct store_bump *bump)
{
    bump->cb = on_bump;
    bump->owner = rig;
    cr_assert_eq(store->bump(store, bump), 0);
    return store_mem_find(rig->mem, bump);
}

/* Raise an epoch with nothing in between. */
static void bump_now(struct rig *rig, struct store *store, uint32_t shard, int64_t epoch)
{
    struct store_bump request = {.shard = shard, .epoch = epoch};
    struct store_mem_request *handle = bump(rig, store, &request);

    for (int i = 0; i < 3; i++) {
        store_mem_step(rig->mem, handle);
    }
    cr_assert_eq(request.result, 0);
}

Test(store_mem, bump_waits_for_an_open_write)
{
    struct rig rig;
    struct store_mem_request *write;
    struct store_mem_request *raise;
    struct store_op op = insert_op(SHARD_A, 1, 10);
    struct store_batch batch = {.ops = &op, .op_count = 1};
    struct store_bump request = {.shard = SHARD_A, .epoch = 2};

    rig_open(&rig, STORE_MEM_FENCE_SHARE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    write = submit(&rig, rig.old, &batch);
    raise = bump(&rig, rig.young, &request);
    cr_assert_eq(store_mem_step(rig.mem, write), STORE_MEM_MOVED);
    cr_assert(store_mem_waits(raise));
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 0, "an open write is invisible");
    cr_assert_eq(store_mem_step(rig.mem, write), STORE_MEM_MOVED);
    cr_assert(!store_mem_waits(raise));
    store_mem_run(rig.mem);
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 1);
    cr_assert_eq(store_mem_epoch(rig.mem, SHARD_A), 2);
    cr_assert_eq(rig.stale_commits, 0);
    store_mem_free(rig.mem);
}

Test(store_mem, bump_terminates_a_frozen_owner_whose_write_is_then_unknown_and_void)
{
    struct rig rig;
    struct store_mem_request *write;
    struct store_mem_request *raise;
    struct store_op op = insert_op(SHARD_A, 1, 10);
    struct store_batch batch = {.ops = &op, .op_count = 1};
    struct store_bump request = {.shard = SHARD_A, .epoch = 2};

    rig_open(&rig, STORE_MEM_FENCE_SHARE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    write = submit(&rig, rig.old, &batch);
    raise = bump(&rig, rig.young, &request);
    store_mem_step(rig.mem, write);
    cr_assert_eq(store_mem_step(rig.mem, raise), STORE_MEM_TERMINATED);
    cr_assert_eq(store_mem_step(rig.mem, raise), STORE_MEM_MOVED);
    store_mem_run(rig.mem);
    cr_assert_eq(batch.result, ERR_OUTCOME_UNKNOWN);
    cr_assert_eq(request.result, 0);
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 0);
    store_mem_free(rig.mem);
}

Test(store_mem, superseded_bump_terminates_nobody)
{
    struct rig rig;
    struct store_mem_request *write;
    struct store_mem_request *raise;
    struct store_op op = insert_op(SHARD_A, 5, 10);
    struct store_batch batch = {.ops = &op, .op_count = 1};
    struct store_bump request = {.shard = SHARD_A, .epoch = 4};

    rig_open(&rig, STORE_MEM_FENCE_SHARE);
    bump_now(&rig, rig.young, SHARD_A, 5);
    write = submit(&rig, rig.young, &batch);
    raise = bump(&rig, rig.old, &request);
    store_mem_step(rig.mem, write);
    cr_assert_eq(store_mem_step(rig.mem, raise), STORE_MEM_MOVED);
    store_mem_run(rig.mem);
    cr_assert_eq(request.result, ERR_FENCED);
    cr_assert_eq(batch.result, 0);
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 1);
    store_mem_free(rig.mem);
}

Test(store_mem, write_that_meets_an_open_bump_waits_and_then_drops_out_alone)
{
    struct rig rig;
    struct store_mem_request *write;
    struct store_mem_request *raise;
    struct store_op ops[2] = {insert_op(SHARD_A, 1, 10), insert_op(SHARD_B, 1, 11)};
    struct store_batch batch = {.ops = ops, .op_count = 2};
    struct store_bump request = {.shard = SHARD_A, .epoch = 2};

    rig_open(&rig, STORE_MEM_FENCE_SHARE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    bump_now(&rig, rig.old, SHARD_B, 1);
    raise = bump(&rig, rig.young, &request);
    store_mem_step(rig.mem, raise);
    write = submit(&rig, rig.old, &batch);
    cr_assert_eq(store_mem_step(rig.mem, write), STORE_MEM_WAITS);
    store_mem_run(rig.mem);
    cr_assert_eq(batch.result, 0);
    cr_assert_eq(ops[0].result, ERR_FENCED);
    cr_assert_eq(ops[1].result, 0);
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 0);
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_B), 1);
    store_mem_free(rig.mem);
}

Test(store_mem, without_the_lock_a_stale_write_commits_after_the_bump)
{
    struct rig rig;
    struct store_mem_request *write;
    struct store_mem_request *raise;
    struct store_op op = insert_op(SHARD_A, 1, 10);
    struct store_batch batch = {.ops = &op, .op_count = 1};
    struct store_bump request = {.shard = SHARD_A, .epoch = 2};

    rig_open(&rig, STORE_MEM_FENCE_NONE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    write = submit(&rig, rig.old, &batch);
    store_mem_step(rig.mem, write);
    raise = bump(&rig, rig.young, &request);
    store_mem_step(rig.mem, raise);
    store_mem_step(rig.mem, raise);
    store_mem_run(rig.mem);
    cr_assert_eq(rig.stale_commits, 1, "the checker must see what the weak fence lets through");
    store_mem_free(rig.mem);
}

Test(store_mem, a_key_share_lock_does_not_stop_a_bump)
{
    struct rig rig;
    struct store_mem_request *write;
    struct store_op op = insert_op(SHARD_A, 1, 10);
    struct store_batch batch = {.ops = &op, .op_count = 1};

    rig_open(&rig, STORE_MEM_FENCE_KEY_SHARE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    write = submit(&rig, rig.old, &batch);
    store_mem_step(rig.mem, write);
    bump_now(&rig, rig.young, SHARD_A, 2);
    store_mem_run(rig.mem);
    cr_assert_eq(rig.stale_commits, 1);
    store_mem_free(rig.mem);
}

Test(store_mem, a_statement_without_lock_believes_what_it_saw_before_it_waited)
{
    struct rig rig;
    struct store_mem_request *first;
    struct store_mem_request *second;
    struct store_op insert = insert_op(SHARD_A, 1, 10);
    struct store_batch batch = {.ops = &insert, .op_count = 1};
    struct store_op delete = {.kind = STORE_DELETE, .epoch = 1, .task = {.id = {.seq = 10}}};
    struct store_batch change = {.ops = &delete, .op_count = 1};

    rig_open(&rig, STORE_MEM_FENCE_NONE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    first = submit(&rig, rig.old, &batch);
    store_mem_step(rig.mem, first);
    second = submit(&rig, rig.young, &change);
    cr_assert_eq(store_mem_step(rig.mem, second), STORE_MEM_WAITS, "for the row");
    store_mem_step(rig.mem, first);
    bump_now(&rig, rig.young, SHARD_A, 2);
    store_mem_run(rig.mem);
    cr_assert_eq(delete.result, 0);
    cr_assert_eq(rig.stale_commits, 1);
    store_mem_free(rig.mem);
}

static void write_now(struct rig *rig, struct store *store, const struct store_op *op)
{
    struct store_op copy = *op;
    struct store_batch batch = {.ops = &copy, .op_count = 1, .claim_row = {7, op->task.id.seq}};
    struct store_mem_request *handle = submit(rig, store, &batch);

    for (int i = 0; i < 3; i++) {
        store_mem_step(rig->mem, handle);
    }
    cr_assert_eq(copy.result, 0);
}

static struct store_op claim_op(int64_t seq)
{
    return (struct store_op){
        .kind = STORE_CLAIM, .epoch = 1, .attempt = 1, .task = {.id = {.seq = seq}}};
}

Test(store_mem, a_promotion_loses_what_was_not_replicated_and_only_that)
{
    struct rig rig;
    struct store_op first = insert_op(SHARD_A, 1, 10);
    struct store_op claim = claim_op(10);
    struct store_op second = insert_op(SHARD_A, 1, 11);
    struct store_op delete = {.kind = STORE_DELETE, .epoch = 1, .task = {.id = {.seq = 10}}};
    struct store_op key = insert_op(SHARD_A, 1, 12);

    rig_open(&rig, STORE_MEM_FENCE_SHARE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    first.task.key = slice_of("kept");
    first.task.payload = slice_of("bytes");
    write_now(&rig, rig.old, &first);
    write_now(&rig, rig.old, &claim);
    store_mem_replicate(rig.mem, 0, 3);
    write_now(&rig, rig.old, &second);
    write_now(&rig, rig.old, &delete);
    bump_now(&rig, rig.young, SHARD_A, 2);
    cr_assert_eq(store_mem_promote(rig.mem, 0), 3);
    cr_assert_eq(store_mem_epoch(rig.mem, SHARD_A), 1);
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 1);
    cr_assert_eq(store_mem_claim_row_count(rig.mem, 0), 1);
    cr_assert(
        slice_equal(store_mem_row(rig.mem, SHARD_A, first.task.id)->payload, slice_of("bytes")));
    // The new primary is one like any other: the key is held, and it may be lost in turn.
    key.task.key = slice_of("other");
    write_now(&rig, rig.old, &key);
    cr_assert_eq(store_mem_promote(rig.mem, 0), 3);
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 1);
    write_now(&rig, rig.old, &second);
    store_mem_replicate(rig.mem, 0, 4);
    cr_assert_eq(store_mem_promote(rig.mem, 0), 4);
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 2);
    store_mem_free(rig.mem);
}

Test(store_mem, a_promotion_ends_what_is_open)
{
    struct rig rig;
    struct store_op op = insert_op(SHARD_A, 1, 10);
    struct store_batch batch = {.ops = &op, .op_count = 1};
    struct store_op orphan_op = insert_op(SHARD_A, 1, 11);
    struct store_batch orphan = {.ops = &orphan_op, .op_count = 1};
    struct store_mem_request *write;

    rig_open(&rig, STORE_MEM_FENCE_SHARE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    store_mem_replicate(rig.mem, 0, 1);
    write = submit(&rig, rig.young, &orphan);
    store_mem_step(rig.mem, write);
    store_mem_give_up(rig.mem, write);
    write = submit(&rig, rig.old, &batch);
    store_mem_step(rig.mem, write);
    (void)store_mem_promote(rig.mem, 0);
    store_mem_run(rig.mem);
    cr_assert_eq(batch.result, ERR_OUTCOME_UNKNOWN);
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 0);
    store_mem_free(rig.mem);
}

Test(store_mem, unknown_write_commits_later_without_its_client)
{
    struct rig rig;
    struct store_mem_request *write;
    struct store_mem_info info;
    char payload[] = "kept";
    struct store_op op = insert_op(SHARD_A, 1, 10);
    struct store_batch batch = {.ops = &op, .op_count = 1};

    rig_open(&rig, STORE_MEM_FENCE_SHARE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    rig.replies = 0;
    op.task.payload = slice_of(payload);
    write = submit(&rig, rig.old, &batch);
    store_mem_give_up(rig.mem, write);
    cr_assert_eq(rig.replies, 1);
    cr_assert_eq(batch.result, ERR_OUTCOME_UNKNOWN);
    memset(&op, 0, sizeof(op));
    memset(payload, 'x', 4);
    store_mem_info(write, &info);
    cr_assert(info.orphan);
    store_mem_run(rig.mem);
    cr_assert_eq(rig.replies, 1);
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 1);
    cr_assert(slice_equal(store_mem_row_after(rig.mem, SHARD_A, INT64_MIN, 0)->payload,
                          slice_of("kept")));
    store_mem_free(rig.mem);
}

Test(store_mem, orphan_that_executes_after_the_bump_changes_nothing)
{
    struct rig rig;
    struct store_mem_request *write;
    struct store_op op = insert_op(SHARD_A, 1, 10);
    struct store_batch batch = {.ops = &op, .op_count = 1};

    rig_open(&rig, STORE_MEM_FENCE_SHARE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    write = submit(&rig, rig.old, &batch);
    store_mem_give_up(rig.mem, write);
    bump_now(&rig, rig.old, SHARD_A, 2);
    store_mem_run(rig.mem);
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 0);
    store_mem_free(rig.mem);
}

Test(store_mem, crash_runs_no_callback_and_leaves_open_transactions_behind)
{
    struct rig rig;
    struct store_mem_request *write;
    struct store_op op = insert_op(SHARD_A, 1, 10);
    struct store_batch batch = {.ops = &op, .op_count = 1};
    struct store_op later_op = insert_op(SHARD_A, 1, 11);
    struct store_batch later = {.ops = &later_op, .op_count = 1};

    rig_open(&rig, STORE_MEM_FENCE_SHARE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    rig.replies = 0;
    write = submit(&rig, rig.old, &batch);
    submit(&rig, rig.old, &later);
    store_mem_step(rig.mem, write);
    store_mem_crash(rig.mem, rig.old);
    cr_assert_eq(store_mem_pending_count(rig.mem), 2);
    store_mem_abort(rig.mem, store_mem_pending(rig.mem, 0));
    store_mem_run(rig.mem);
    cr_assert_eq(rig.replies, 0);
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 1);
    cr_assert_eq(store_mem_row_after(rig.mem, SHARD_A, INT64_MIN, 0)->id.seq, 11);
    store_mem_free(rig.mem);
}

Test(store_mem, writes_of_one_client_execute_in_order)
{
    struct rig rig;
    struct store_mem_request *first;
    struct store_mem_request *second;
    struct store_op op = insert_op(SHARD_A, 1, 10);
    struct store_batch batch = {.ops = &op, .op_count = 1};
    struct store_op change_op = {.kind = STORE_DELETE, .epoch = 1, .task = {.id = {.seq = 10}}};
    struct store_batch change = {.ops = &change_op, .op_count = 1};

    rig_open(&rig, STORE_MEM_FENCE_SHARE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    first = submit(&rig, rig.old, &batch);
    second = submit(&rig, rig.old, &change);
    cr_assert_eq(store_mem_step(rig.mem, second), STORE_MEM_WAITS);
    store_mem_step(rig.mem, first);
    cr_assert_eq(store_mem_step(rig.mem, second), STORE_MEM_WAITS);
    store_mem_run(rig.mem);
    cr_assert_eq(change_op.result, 0);
    store_mem_free(rig.mem);
}

static size_t seen_rows;
static bool seen_payload;

static void on_read(struct store_read *read)
{
    seen_rows = read->row_count;
    seen_payload = read->row_count > 0 && slice_equal(read->rows[0].payload, slice_of("then"));
}

Test(store_mem, read_sees_what_was_committed_when_it_ran_however_late_its_reply)
{
    struct rig rig;
    struct store_mem_request *look;
    struct store_op op = insert_op(SHARD_A, 1, 10);
    struct store_batch batch = {.ops = &op, .op_count = 1};
    struct store_op drop_op = {.kind = STORE_DELETE, .epoch = 1, .task = {.id = {.seq = 10}}};
    struct store_batch drop = {.ops = &drop_op, .op_count = 1};
    struct store_read read = {
        .kind = STORE_READ_SLICE,
        .epoch = 1,
        .after_bucket = INT64_MIN,
        .to_bucket = INT64_MAX,
        .limit = 10,
        .cb = on_read,
    };

    rig_open(&rig, STORE_MEM_FENCE_SHARE);
    bump_now(&rig, rig.old, SHARD_A, 1);
    op.task.payload = slice_of("then");
    submit(&rig, rig.old, &batch);
    store_mem_run(rig.mem);
    cr_assert_eq(rig.old->read(rig.old, &read), 0);
    look = store_mem_find(rig.mem, &read);
    store_mem_step(rig.mem, look);
    for (struct store_mem_request *write = submit(&rig, rig.old, &drop); write != NULL;
         write = store_mem_find(rig.mem, &drop)) {
        store_mem_step(rig.mem, write);
    }
    cr_assert_eq(store_mem_row_count(rig.mem, SHARD_A), 0);
    store_mem_step(rig.mem, look);
    cr_assert_eq(seen_rows, 1);
    cr_assert(seen_payload);
    store_mem_free(rig.mem);
}

static int closes;

static void on_close(void *ctx)
{
    closes += *(int *)ctx;
}

Test(store_mem, close_drains_and_frees_everything)
{
    struct rig rig;
    int one = 1;
    int64_t blocks = mem_block_count();
    struct store_op op = insert_op(SHARD_A, 1, 10);
    struct store_batch batch = {.ops = &op, .op_count = 1};

    rig_open(&rig, STORE_MEM_FENCE_SHARE);
    submit(&rig, rig.old, &batch);
    rig.old->close(rig.old, on_close, &one);
    cr_assert_eq(rig.old->write(rig.old, &batch), ERR_CLOSED);
    cr_assert_eq(store_mem_step(rig.mem, store_mem_pending(rig.mem, 1)), STORE_MEM_WAITS);
    cr_assert_eq(closes, 0);
    store_mem_run(rig.mem);
    cr_assert_eq(rig.replies, 1);
    cr_assert_eq(op.result, ERR_FENCED, "a shard that nobody has bumped belongs to nobody");
    cr_assert_eq(closes, 1);
    store_mem_free(rig.mem);
    cr_assert_eq(mem_block_count(), blocks);
}
