/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of a queue's policy: pauses, attempts at once, when tasks are given up. A policy
 * holds at a broker from when it has heard of it, for what it claims from then on.
 */
#include "broker/core/inspect.h"
#include "lib/base/check.h"
#include "tests/sim/check_parts.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_load.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_policy.h"

#include <string.h>

/* What was claimed, or was about to be, when a broker heard of a pause may still start: within
 * start_by, or two leads and that if it was not due yet. */
#define PAUSE_GRACE_US (20 * US_PER_S)

static struct check_queue_view *view_of(struct check *check, const struct sim_node *node,
                                        uint32_t queue)
{
    return queue < CHECK_QUEUES_MAX ? &check->queue_views[node->number][queue] : NULL;
}

static uint32_t flights_of(const struct sim_node *node, uint32_t queue)
{
    struct queue_counts counts;
    uint32_t flights = 0;

    return broker_inspect_queue(node->broker, queue, &counts, &flights) ? flights : 0;
}

void check_queues_boot(struct check *check, const struct sim_node *node)
{
    memset(check->queue_views[node->number], 0, sizeof(check->queue_views[node->number]));
}

void check_queues_heard(struct check *check, const struct sim_node *node,
                        const struct queue *queues, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct queue *queue = &queues[i];
        struct check_queue_view *view = view_of(check, node, queue->id);

        if (view == NULL) {
            continue;
        }
        if (!queue->is_paused) {
            view->held_since = 0;
        } else if (view->held_since == 0 || view->held_until_ms != queue->paused_until_ms) {
            view->held_since = check->sim->now;
        }
        view->held_until_ms = queue->paused_until_ms;
        view->limit = queue->concurrency_max;
        view->most = (uint32_t)time_max(queue->concurrency_max, flights_of(node, queue->id));
    }
}

void check_queues_started(struct check *check, const struct sim_node *node,
                          const struct attempt *attempt)
{
    struct check_queue_view *view = view_of(check, node, attempt->queue);
    int64_t latest_us = sim_clock_latest(check->sim, node->number, attempt->database);

    if (view == NULL) {
        return;
    }
    if (++view->running > view->most) {
        sim_fail(check->sim, SIM_UNSAFE, "limit",
                 "node %u runs %u attempts of queue %u at once, it may run %u", node->number,
                 view->running, attempt->queue, view->most);
    }
    if (view->held_since != 0 && check->sim->now - view->held_since > PAUSE_GRACE_US &&
        (view->held_until_ms == 0 || latest_us < view->held_until_ms * US_PER_MS)) {
        sim_fail(check->sim, SIM_UNSAFE, "limit",
                 "attempt %u of task %llx of shard %u started %lld ms after node %u had heard of "
                 "the pause of its queue",
                 attempt->attempt, (unsigned long long)attempt->id.seq, attempt->shard,
                 (long long)((check->sim->now - view->held_since) / US_PER_MS), node->number);
    }
}

void check_queues_ended(struct check *check, const struct sim_node *node,
                        const struct attempt *attempt)
{
    struct check_queue_view *view = view_of(check, node, attempt->queue);

    if (view != NULL) {
        view->running -= view->running > 0;
        view->most = (uint32_t)time_max(view->limit, flights_of(node, attempt->queue));
    }
}

void check_queues_retried(struct check *check, const struct check_task *task)
{
    const struct sim_policy_bounds *bounds = sim_policies_bounds(check->sim->policies, task->queue);

    // What blocks its order key is tried for as long as it takes: check_order_dead.
    if (task->order != 0 && sim_load_order_blocks(check->sim->load, task->queue)) {
        return;
    }
    if (task->failures >= bounds->failures_max || task->unknowns >= bounds->unknowns_max) {
        sim_fail(check->sim, SIM_UNSAFE, "K-2",
                 "%s is tried again after %u failures and %u unknown outcomes",
                 check_name(task).text, task->failures, task->unknowns);
    }
}

void check_queues_given_up(struct check *check, const struct check_task *task, bool is_refused)
{
    const struct sim_policy_bounds *bounds = sim_policies_bounds(check->sim->policies, task->queue);

    if (task->failures < bounds->failures_min && task->unknowns < bounds->unknowns_min &&
        !bounds->was_at_most_once && !is_refused) {
        sim_fail(check->sim, SIM_UNSAFE, "K-2",
                 "%s is given up after %u failures and %u unknown outcomes", check_name(task).text,
                 task->failures, task->unknowns);
    }
}
