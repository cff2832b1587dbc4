/* SPDX-License-Identifier: Apache-2.0
 *
 * A cluster for a story: quiet, with known owners, until the story itself disturbs it. All checkers
 * listen; story_close() mends everything, lets the cluster settle and fails if anything was broken.
 */
#ifndef FOLIOT_TESTS_SIM_STORY_H
#define FOLIOT_TESTS_SIM_STORY_H

#include "tests/lib/must.h"
#include "tests/sim/check.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_coord.h"
#include "tests/sim/sim_load.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_store.h"

#include "lib/base/err.h"

/* Session timeout of the quiet options, ZooKeeper's tick, one second, and what a quiet take-over
 * takes beyond that. source: DESIGN 1, K-7 */
#define STORY_GAP_US ((4000 + 500 + 1000) * US_PER_MS)

/* Start a cluster and wait until every shard is served. */
struct sim *story_open(const struct sim_options *options);

/* The same; fn sees every event. */
struct sim *story_open_traced(const struct sim_options *options, trace_fn fn, void *ctx);

/* The same with the quiet options. */
struct sim *story_open_quiet(uint64_t seed);

/* Mend, settle, look at everything; ends the case if a promise was broken. */
void story_close(struct sim *sim);

/* Let time pass; ends the case if a promise was broken. */
void story_pass(struct sim *sim, int64_t span_us);

/* The node that serves a shard; ends the case if there is none. */
struct sim_node *story_owner(struct sim *sim, uint32_t shard);

/* Whether a node serves a shard. */
bool story_serves(struct sim *sim, const struct sim_node *node, uint32_t shard);

/* Wait until a node other than `not_this` (NULL: any) serves a shard; the time that took. */
int64_t story_wait_owner(struct sim *sim, uint32_t shard, const struct sim_node *not_this,
                         int64_t limit_us);

/* Ask the shard's owner and wait for the answer. */
struct call story_ask(struct sim *sim, const struct sim_ask *ask);

/* Wait for an answer that was asked for before. */
struct call story_wait(struct sim *sim, const struct sim_answer *answer);

/* A task due after a delay, answered. */
struct check_known story_create(struct sim *sim, uint32_t shard, span_ms delay_ms);

/* Wait until the task has been started so many times. */
void story_wait_starts(struct sim *sim, const struct check_known *task, uint32_t count);

/* Wait until it has ended. */
void story_wait_end(struct sim *sim, const struct check_known *task);

uint32_t story_shard(const struct sim *sim, const struct check_known *task);

#endif
