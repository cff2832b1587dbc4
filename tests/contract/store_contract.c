/* SPDX-License-Identifier: Apache-2.0
 *
 * The suite's helpers and its list of cases.
 */
#include "tests/contract/store_contract_help.h"

const struct contract_host *host;
struct store *store;

void on_batch(struct store_batch *batch)
{
    *(bool *)batch->owner = true;
}

static void on_bump(struct store_bump *bump)
{
    *(bool *)bump->owner = true;
}

void until(const bool *done)
{
    while (!*done) {
        host->turn();
    }
}

uint32_t database_of(uint32_t shard)
{
    return shard % CONTRACT_DATABASE_COUNT;
}

void write_batch(struct store *to, struct store_batch *batch)
{
    bool done = false;

    batch->cb = on_batch;
    batch->owner = &done;
    MUST_OK(to->write(to, batch));
    MUST(!done);
    until(&done);
}

/* One batch of the operations, all in the database of the first one's shard. */
void write_ops(struct store_op *ops, size_t count)
{
    struct store_batch batch = {
        .database = database_of(ops[0].shard),
        .ops = ops,
        .op_count = count,
        .claim_row = {.writer = 77, .seq = 1},
    };

    write_batch(store, &batch);
    MUST_OK(batch.result);
}

int write_op(struct store_op op)
{
    write_ops(&op, 1);
    return op.result;
}

int bump_as(struct store *as, uint32_t shard, int64_t epoch)
{
    bool done = false;
    struct store_bump bump = {
        .database = database_of(shard),
        .shard = shard,
        .epoch = epoch,
        .instance = "contract",
        .cb = on_bump,
        .owner = &done,
    };

    MUST_OK(as->bump(as, &bump));
    MUST(!done);
    until(&done);
    return bump.result;
}

struct task_id make_id(uint32_t shard, int64_t counter)
{
    return (struct task_id){.seq = task_seq(1, counter), .slot = (uint16_t)(shard + 8)};
}

struct store_op insert_op(uint32_t shard, int64_t counter)
{
    return (struct store_op){
        .kind = STORE_INSERT,
        .shard = shard,
        .epoch = 1,
        .task = {.id = make_id(shard, counter), .queue = 3, .due_ms = 1000, .created_ms = 10},
    };
}

struct store_op other_op(enum store_op_kind kind, uint32_t shard, int64_t counter)
{
    return (struct store_op){
        .kind = kind,
        .shard = shard,
        .epoch = 1,
        .task = {.id = make_id(shard, counter)},
    };
}

struct store_op keyed_op(uint32_t shard, int64_t counter, const char *key)
{
    struct store_op op = insert_op(shard, counter);

    op.task.key = slice_of(key);
    op.now_ms = 1000;
    return op;
}

struct store_op claim_op(uint32_t shard, int64_t counter, uint32_t attempt)
{
    struct store_op op = other_op(STORE_CLAIM, shard, counter);

    op.attempt = attempt;
    op.expected_attempt = attempt - 1;
    op.deadline_ms = 5000 + counter;
    return op;
}

struct seen seen;

static void keep_bytes(struct slice *slice, size_t *used)
{
    MUST_LE(*used + slice->len, sizeof(seen.bytes));
    if (slice->len > 0) {
        memcpy(seen.bytes + *used, slice->data, slice->len);
    }
    slice->data = seen.bytes + *used;
    *used += slice->len;
}

static void keep_task(struct task *task, size_t *used)
{
    keep_bytes(&task->payload, used);
    keep_bytes(&task->key, used);
    keep_bytes(&task->tags, used);
    keep_bytes(&task->order_key, used);
}

static void on_read(struct store_read *read)
{
    size_t used = 0;

    MUST_LE(read->row_count, SLICE_ROW_COUNT_MAX);
    MUST_LE(read->claim_count, ARRAY_COUNT(seen.claims));
    MUST_LE(read->ended_count, SLICE_ROW_COUNT_MAX);
    MUST_LE(read->count_count, ARRAY_COUNT(seen.counts));
    for (size_t i = 0; i < read->row_count; i++) {
        seen.rows[i] = read->rows[i];
        keep_task(&seen.rows[i], &used);
    }
    for (size_t i = 0; i < read->ended_count; i++) {
        seen.ended[i] = read->ended[i];
        keep_task(&seen.ended[i].task, &used);
        keep_bytes(&seen.ended[i].response, &used);
        keep_bytes(&seen.ended[i].error_text, &used);
    }
    for (size_t i = 0; i < read->count_count; i++) {
        seen.counts[i] = read->counts[i];
    }
    for (size_t i = 0; i < read->claim_count; i++) {
        seen.claims[i] = read->claims[i];
    }
    seen.done = true;
}

int read_now(struct store_read *read)
{
    seen.done = false;
    read->database = database_of(read->shard);
    read->epoch = read->epoch == 0 ? 1 : read->epoch;
    read->cb = on_read;
    MUST_OK(store->read(store, read));
    MUST(!seen.done);
    until(&seen.done);
    return read->result;
}

size_t read_slice(uint32_t shard)
{
    struct store_read read = {
        .kind = STORE_READ_SLICE,
        .shard = shard,
        .after_bucket = INT64_MIN,
        .to_bucket = INT64_MAX,
        .limit = SLICE_ROW_COUNT_MAX,
    };

    MUST_OK(read_now(&read));
    return read.row_count;
}

size_t read_task(uint32_t shard, int64_t counter)
{
    struct task_id id = make_id(shard, counter);
    struct store_read read = {.kind = STORE_READ_TASKS, .shard = shard, .ids = &id, .id_count = 1};

    MUST_OK(read_now(&read));
    return read.row_count;
}

size_t read_claims(uint32_t shard)
{
    struct store_read read = {.kind = STORE_READ_CLAIMS, .shard = shard};

    MUST_OK(read_now(&read));
    return read.claim_count;
}

/* Who holds a key at a time; 0 if nobody. */
int64_t read_key(uint32_t shard, const char *key, wall_ms now_ms, size_t *row_count)
{
    struct store_read read = {
        .kind = STORE_READ_KEY,
        .shard = shard,
        .queue = 3,
        .key = slice_of(key),
        .now_ms = now_ms,
    };

    MUST_OK(read_now(&read));
    *row_count = read.row_count;
    return read.existing.seq;
}

bool same(struct task_id a, struct task_id b)
{
    return a.seq == b.seq && a.slot == b.slot;
}

void on_close(void *ctx)
{
    *(bool *)ctx = true;
}

void close_store(struct store *which)
{
    bool done = false;

    which->close(which, on_close, &done);
    MUST(!done);
    until(&done);
}

/* Every shard at epoch 1. */
void begin(void)
{
    host->prepare();
    store = host->client();
    for (uint32_t shard = 0; shard < CONTRACT_SHARD_COUNT; shard++) {
        MUST_OK(bump_as(store, shard, 1));
    }
}

void end(void)
{
    close_store(store);
    host->finish();
}

int contract_main(int argc, char **argv, const struct contract_host *with)
{
    static const struct must_case cases[] = {
        MUST_CASE(shard_that_nobody_has_bumped_belongs_to_nobody),
        MUST_CASE(bump_only_raises),
        MUST_CASE(write_under_an_older_or_newer_epoch_drops_out),
        MUST_CASE(fenced_operations_drop_out_and_their_neighbours_commit),
        MUST_CASE(two_epochs_of_one_shard_in_a_batch_are_told_apart),
        MUST_CASE(shard_of_another_database_is_not_ours),
        MUST_CASE(read_checks_the_epoch),
        MUST_CASE(many_epochs_are_checked_at_once),
        MUST_CASE(row_comes_back_as_it_was_written),
        MUST_CASE(due_times_at_the_ends_of_the_range_are_kept_in_order),
        MUST_CASE(long_payload_is_left_out_of_slices_only),
        MUST_CASE(pages_meet_without_gap_or_overlap),
        MUST_CASE(pages_of_many_queues_meet_without_gap_or_overlap),
        MUST_CASE(slices_leave_out_the_queues_to_skip),
        MUST_CASE(slices_of_one_queue_have_its_rows_only),
        MUST_CASE(too_many_queues_to_skip_are_refused),
        MUST_CASE(tasks_are_read_by_id_and_absent_ones_left_out),
        MUST_CASE(row_that_does_not_match_is_left_alone),
        MUST_CASE(change_sets_what_it_says_and_nothing_else),
        MUST_CASE(changes_of_a_batch_reach_their_own_rows),
        MUST_CASE(tags_and_expiry_stay_as_they_were_inserted),
        MUST_CASE(first_rows_of_an_order_key_are_read_in_its_order),
        MUST_CASE(order_key_and_place_stay_unless_they_are_changed),
        MUST_CASE(order_key_goes_into_the_dead_letter_and_back),
        MUST_CASE(result_is_kept_until_its_time),
        MUST_CASE(results_of_a_batch_are_those_of_its_operations),
        MUST_CASE(results_and_dead_letters_are_read_by_id),
        MUST_CASE(sweep_forgets_results_past_their_time_and_no_other),
        MUST_CASE(what_a_sweep_has_left_goes_with_later_writes),
        MUST_CASE(task_that_died_is_a_dead_letter_and_no_row),
        MUST_CASE(pages_of_dead_letters_are_one_queue_by_id),
        MUST_CASE(letter_of_a_task_that_died_again_is_the_last),
        MUST_CASE(purge_deletes_a_dead_letter_and_leaves_its_key),
        MUST_CASE(redrive_brings_a_dead_letter_back_as_it_says),
        MUST_CASE(redrive_finds_only_the_letter_that_it_names),
        MUST_CASE(redrive_whose_key_is_taken_leaves_the_letter),
        MUST_CASE(redrives_of_a_batch_reach_their_own_letters),
        MUST_CASE(redrive_of_a_task_that_is_there_is_poison),
        MUST_CASE(ends_and_redrives_of_a_shard_that_is_not_ours_drop_out),
        MUST_CASE(tasks_and_dead_letters_are_counted_by_queue),
        MUST_CASE(count_that_meets_its_limit_says_so),
        MUST_CASE(key_is_held_until_its_task_is_over_and_its_memory_has_passed),
        MUST_CASE(key_without_memory_is_free_at_once),
        MUST_CASE(key_is_unique_in_its_queue_only),
        MUST_CASE(key_is_replaced_only_from_the_task_that_is_named),
        MUST_CASE(replaced_task_that_stays_keeps_no_hold_on_the_key),
        MUST_CASE(insert_whose_key_is_taken_takes_its_claim_with_it),
        MUST_CASE(claims_of_a_batch_are_one_row_read_by_shard),
        MUST_CASE(claims_past_their_deadline_are_read_by_shard),
        MUST_CASE(claim_may_end_the_one_before_it),
        MUST_CASE(claim_of_a_known_row_holds_under_the_fence_alone),
        MUST_CASE(near_task_is_inserted_and_claimed_in_one_batch),
        MUST_CASE(claim_rows_are_dropped_by_name),
        MUST_CASE(sweep_deletes_claim_rows_without_a_live_member_and_no_other),
        MUST_CASE(claims_are_read_whoever_wrote_them_and_whenever_was_swept),
        MUST_CASE(poison_is_answered_alone_and_the_rest_commits),
        MUST_CASE(batch_of_poison_only_leaves_everything_as_it_was),
        MUST_CASE(repeated_settlement_finds_nothing),
        MUST_CASE(largest_batch_over_all_shards_commits_whole),
        MUST_CASE(too_many_bytes_are_refused),
        MUST_CASE(writes_commit_in_the_order_of_submission),
        MUST_CASE(unknown_write_is_whole_or_void_once_the_epoch_has_risen),
        MUST_CASE(queues_are_created_replaced_and_listed),
        MUST_CASE(number_of_a_queue_that_was_dropped_is_not_given_again),
        MUST_CASE(close_waits_for_what_is_outstanding),
        MUST_CASE(requests_that_make_no_sense_are_refused),
    };

    host = with;
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
