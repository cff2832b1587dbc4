/* SPDX-License-Identifier: Apache-2.0
 *
 * What the cases of the store contract share: a store under test, requests made and awaited in one
 * line. The cases are grouped by what they are about, one file each.
 */
#ifndef FOLIOT_TESTS_CONTRACT_STORE_CONTRACT_HELP_H
#define FOLIOT_TESTS_CONTRACT_STORE_CONTRACT_HELP_H

#include "lib/base/err.h"
#include "tests/contract/store_contract.h"

#include <string.h>

extern const struct contract_host *host;
extern struct store *store;

/* What a read has found, copied: rows are borrowed for the callback only. */
struct seen {
    bool done;
    struct task rows[SLICE_ROW_COUNT_MAX];
    struct claim claims[2 * BATCH_OP_COUNT_MAX];
    struct ended_task ended[SLICE_ROW_COUNT_MAX];
    struct queue_count counts[16];
    uint8_t bytes[4 * PAYLOAD_BYTES_MAX];
};

extern struct seen seen;

void on_batch(struct store_batch *batch);
void until(const bool *done);
uint32_t database_of(uint32_t shard);
void write_batch(struct store *to, struct store_batch *batch);
void write_ops(struct store_op *ops, size_t count);
int write_op(struct store_op op);
int bump_as(struct store *as, uint32_t shard, int64_t epoch);
struct task_id make_id(uint32_t shard, int64_t counter);
struct store_op insert_op(uint32_t shard, int64_t counter);
struct store_op other_op(enum store_op_kind kind, uint32_t shard, int64_t counter);
struct store_op keyed_op(uint32_t shard, int64_t counter, const char *key);
struct store_op claim_op(uint32_t shard, int64_t counter, uint32_t attempt);
int read_now(struct store_read *read);
size_t read_slice(uint32_t shard);
size_t read_task(uint32_t shard, int64_t counter);
size_t read_claims(uint32_t shard);
int64_t read_key(uint32_t shard, const char *key, wall_ms now_ms, size_t *row_count);
bool same(struct task_id a, struct task_id b);
void on_close(void *ctx);
void close_store(struct store *which);
void begin(void);
void end(void);

/* The cases. */
void shard_that_nobody_has_bumped_belongs_to_nobody(void);
void bump_only_raises(void);
void write_under_an_older_or_newer_epoch_drops_out(void);
void fenced_operations_drop_out_and_their_neighbours_commit(void);
void two_epochs_of_one_shard_in_a_batch_are_told_apart(void);
void shard_of_another_database_is_not_ours(void);
void read_checks_the_epoch(void);
void many_epochs_are_checked_at_once(void);
void row_comes_back_as_it_was_written(void);
void due_times_at_the_ends_of_the_range_are_kept_in_order(void);
void long_payload_is_left_out_of_slices_only(void);
void pages_meet_without_gap_or_overlap(void);
void pages_of_many_queues_meet_without_gap_or_overlap(void);
void slices_leave_out_the_queues_to_skip(void);
void slices_of_one_queue_have_its_rows_only(void);
void too_many_queues_to_skip_are_refused(void);
void tasks_are_read_by_id_and_absent_ones_left_out(void);
void row_that_does_not_match_is_left_alone(void);
void change_sets_what_it_says_and_nothing_else(void);
void changes_of_a_batch_reach_their_own_rows(void);
void tags_and_expiry_stay_as_they_were_inserted(void);
void first_rows_of_an_order_key_are_read_in_its_order(void);
void order_key_and_place_stay_unless_they_are_changed(void);
void order_key_goes_into_the_dead_letter_and_back(void);
void result_is_kept_until_its_time(void);
void results_of_a_batch_are_those_of_its_operations(void);
void results_and_dead_letters_are_read_by_id(void);
void sweep_forgets_results_past_their_time_and_no_other(void);
void what_a_sweep_has_left_goes_with_later_writes(void);
void task_that_died_is_a_dead_letter_and_no_row(void);
void pages_of_dead_letters_are_one_queue_by_id(void);
void letter_of_a_task_that_died_again_is_the_last(void);
void purge_deletes_a_dead_letter_and_leaves_its_key(void);
void redrive_brings_a_dead_letter_back_as_it_says(void);
void redrive_finds_only_the_letter_that_it_names(void);
void redrive_whose_key_is_taken_leaves_the_letter(void);
void redrives_of_a_batch_reach_their_own_letters(void);
void redrive_of_a_task_that_is_there_is_poison(void);
void ends_and_redrives_of_a_shard_that_is_not_ours_drop_out(void);
void tasks_and_dead_letters_are_counted_by_queue(void);
void count_that_meets_its_limit_says_so(void);
void key_is_held_until_its_task_is_over_and_its_memory_has_passed(void);
void key_without_memory_is_free_at_once(void);
void key_is_unique_in_its_queue_only(void);
void key_is_replaced_only_from_the_task_that_is_named(void);
void replaced_task_that_stays_keeps_no_hold_on_the_key(void);
void insert_whose_key_is_taken_takes_its_claim_with_it(void);
void claims_of_a_batch_are_one_row_read_by_shard(void);
void claims_past_their_deadline_are_read_by_shard(void);
void claim_may_end_the_one_before_it(void);
void claim_of_a_known_row_holds_under_the_fence_alone(void);
void near_task_is_inserted_and_claimed_in_one_batch(void);
void claim_rows_are_dropped_by_name(void);
void sweep_deletes_claim_rows_without_a_live_member_and_no_other(void);
void claims_are_read_whoever_wrote_them_and_whenever_was_swept(void);
void poison_is_answered_alone_and_the_rest_commits(void);
void batch_of_poison_only_leaves_everything_as_it_was(void);
void repeated_settlement_finds_nothing(void);
void largest_batch_over_all_shards_commits_whole(void);
void too_many_bytes_are_refused(void);
void writes_commit_in_the_order_of_submission(void);
void unknown_write_is_whole_or_void_once_the_epoch_has_risen(void);
void queues_are_created_replaced_and_listed(void);
void number_of_a_queue_that_was_dropped_is_not_given_again(void);
void close_waits_for_what_is_outstanding(void);
void requests_that_make_no_sense_are_refused(void);

#endif
