/* SPDX-License-Identifier: Apache-2.0
 *
 * What readers are told, held against the history. A read is of one moment between its beginning
 * and its answer: what has not changed since it began has to be in it as it is, and nothing that
 * was over by then may be.
 */
#ifndef FOLIOT_TESTS_SIM_CHECK_READS_H
#define FOLIOT_TESTS_SIM_CHECK_READS_H

#include "broker/core/inspect.h"
#include "tests/sim/check.h"

/* A scan was answered with 0. begun: true time at which it was given to a core. */
void check_read_page(struct check *check, const struct store_read *read, int64_t begun);
void check_read_counts(struct check *check, const struct store_read *read, int64_t begun);
void check_read_letters(struct check *check, const struct store_read *read, int64_t begun);
void check_read_results(struct check *check, const struct store_read *read, int64_t begun);

/* A GET was answered with 0, and the broker has explained the task. */
void check_read_task(struct check *check, const struct sim_node *node, const struct call *call,
                     const struct task_wait *wait, int64_t begun);

/* A dead letter to be purged or read, whoever else wants it. False: there is none. */
bool check_pick_letter(struct check *check, struct prng *prng, uint32_t *shard, struct task_id *id);

/* A purge begins; it was answered; nobody will ever answer. */
void check_purge_begin(struct check *check, uint32_t shard, struct task_id id);
void check_purge_answer(struct check *check, const struct call *call, int64_t begun);

/* A purge is in effect. task: NULL, there is none of its id. */
struct check_task;
void check_purged(struct check *check, struct check_task *task);

#endif
