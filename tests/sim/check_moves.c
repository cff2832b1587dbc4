/* SPDX-License-Identifier: Apache-2.0
 *
 * What a planned move leaves behind. Whoever gives a shard away in good order has given back the
 * claims that have not started and written the outcomes that it has heard: else they would wait
 * for deadlines, and an attempt that is not to be repeated would count as unknown though it never
 * left. And how those end that run on, its heir hears: nobody else refuses it. source: DESIGN 7,
 * release
 */
#include "broker/core/inspect.h"
#include "tests/sim/check_parts.h"
#include "tests/sim/sim_node.h"

#include <string.h>

#define PROMISE "hand-off"

/* It waits for its writes about so long, and then goes all the same: a database that does not
 * answer holds no move up. */
#define PATIENCE_US (1900 * US_PER_MS)

static void check_left(struct check *check, const struct check_task *task, int64_t epoch)
{
    const struct check_attempt *attempt = check_attempt_find(task, task->claimed);

    if (task->end != CHECK_PENDING || task->claimed <= task->attempt ||
        task->claim_epoch != epoch) {
        return;
    }
    if (task->handed != task->claimed) {
        sim_fail(
            check->sim, SIM_UNSAFE, PROMISE,
            "%s: its owner has left, and attempt %u, which it had claimed and never begun, was "
            "not given back",
            check_name(task).text, task->claimed);
    } else if (attempt != NULL && attempt->reported != 0 && attempt->reported != OUTCOME_UNKNOWN) {
        sim_fail(check->sim, SIM_UNSAFE, PROMISE,
                 "%s: its owner has left, and how attempt %u ended, which it had heard, was not "
                 "written",
                 check_name(task).text, task->claimed);
    }
}

static void on_releasing(struct check *check, const struct sim_node *node, uint32_t shard,
                         int64_t epoch)
{
    int64_t since = check->draining_at[node->number][shard];
    struct map_iter iter = {0};
    const struct check_task *task;

    check->draining_at[node->number][shard] = 0;
    if (since == 0 || epoch != check->epoch[shard] || check_is_shaken(check, shard)) {
        return; // It holds nothing, or somebody else does, or it has not heard what it holds.
    }
    check->figures.releases++;
    if (check->sim->now - since >= PATIENCE_US) {
        check->figures.hasty_releases++;
        return;
    }
    while ((task = map_next(&check->tasks_by_seq[shard], &iter)) != NULL) {
        check_left(check, task, epoch);
    }
}

void check_on_event(struct check *check, const struct sim_node *node,
                    const struct core_event *event)
{
    if (strcmp(event->what, "start") == 0) {
        struct check_task *task =
            map_find(&check->tasks_by_seq[event->shard], (uint64_t)event->seq);

        // One who is not the owner any more and does not know it begins what it had claimed: not
        // what was claimed since.
        if (task != NULL && task->claimed == (uint32_t)event->a) {
            task->handed = task->claimed;
        }
    } else if (strcmp(event->what, "draining") == 0) {
        check->draining_at[node->number][event->shard] = check->sim->now;
    } else if (strcmp(event->what, "releasing") == 0) {
        on_releasing(check, node, event->shard, event->epoch);
    } else if (strcmp(event->what, "idle") == 0) {
        check->draining_at[node->number][event->shard] = 0;
    }
}

void check_refused(struct check *check, const struct sim_node *node, const struct report *report)
{
    const struct check_task *task = check_task_find(check, report->shard, report->id);
    struct shard_view view;

    if (task == NULL || task->end != CHECK_PENDING || task->claimed != report->attempt ||
        task->attempt >= report->attempt || check_is_shaken(check, report->shard)) {
        return; // It is of no use, or was of none in the history that is lost.
    }
    broker_inspect_shard(node->broker, report->shard, &view);
    if (view.epoch != check->epoch[report->shard]) {
        sim_fail(check->sim, SIM_UNSAFE, PROMISE,
                 "%s: how attempt %u ended was refused by node %u, which is not its owner any more",
                 check_name(task).text, report->attempt, node->number);
    }
}

bool check_is_shaken(const struct check *check, uint32_t shard)
{
    return check->promoted_at[check->sim->cluster.database_of[shard]] >= check->epoch_at[shard];
}
