/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold all along: what brokers hold in memory is within its named limits, nothing is
 * counted that is not in the database, nor the other way round. At some moments every row is held
 * against the history.
 */
#include "broker/core/inspect.h"
#include "lib/base/check.h"
#include "lib/base/limits.h"
#include "tests/sim/check_parts.h"
#include "tests/sim/sim_node.h"

#include <string.h>

/* The limits of broker/core/state.h, which is its own: said here again, so that a change of one is
 * seen. */
#define CALLS_MAX   65536U
#define FLIGHTS_MAX 131072U
#define RECENTS_MAX 65536U
#define PARKS_MAX   131072U
#define OPS_MAX     (8192U + 2048U + 8192U + BATCH_OP_COUNT_MAX)

/* Lines are cut once a second; a process that is paused cuts nothing. */
#define LINE_GRACE_US (5 * US_PER_S)

/* A walk over a broker's memory comes this seldom, counts come with each look. */
#define LOOK_US    (US_PER_S / 2)
#define WALK_EVERY 20

static void over(const struct check *check, const struct sim_node *node, const char *what,
                 uint64_t count, uint64_t limit)
{
    if (count > limit) {
        sim_fail(check->sim, SIM_UNSAFE, "memory", "node %u holds %llu %s, the limit is %llu",
                 node->number, (unsigned long long)count, what, (unsigned long long)limit);
    }
}

/* A line may be too long for a moment: between two cuts, or because the process was paused. */
static void check_line(struct check *check, const struct sim_node *node, uint32_t longest)
{
    int64_t *since = &check->line_over[node->number];
    uint32_t max = check->sim->options.entry_count_max / 2;

    if (longest <= max || *since == 0 || node->life != check->line_life[node->number]) {
        *since = longest <= max ? 0 : check->sim->now;
        check->line_life[node->number] = node->life;
    } else if (check->sim->now - *since > LINE_GRACE_US) {
        over(check, node, "tasks in one line", longest, max);
    }
}

static void check_gauges(struct check *check, const struct sim_node *node)
{
    const struct sim_options *options = &check->sim->options;
    struct broker_stats stats;

    broker_inspect(node->broker, &stats);
    over(check, node, "tasks", stats.entries, options->entry_count_max);
    over(check, node, "attempts", stats.in_flight, FLIGHTS_MAX);
    over(check, node, "parked queues", stats.parks, PARKS_MAX);
    over(check, node, "operations", stats.ops_waiting, (uint64_t)OPS_MAX * options->database_count);
    check_line(check, node, stats.line_longest);
}

static void check_walk(struct check *check, const struct sim_node *node)
{
    const struct sim_options *options = &check->sim->options;
    struct memory_view view;

    broker_inspect_memory(node->broker, &view);
    over(check, node, "calls", view.calls, CALLS_MAX);
    over(check, node, "attempts without a task", view.adrift, FLIGHTS_MAX);
    over(check, node, "cancelled tasks", view.recents, RECENTS_MAX);
    over(check, node, "large payloads of tasks that wait", view.large_count, 0);
    over(check, node, "payloads being read", view.fetching, FLIGHTS_MAX);
    over(check, node, "bytes of payloads", view.payload_bytes,
         (uint64_t)options->entry_count_max * PAYLOAD_INLINE_BYTES_MAX +
             (uint64_t)FLIGHTS_MAX * PAYLOAD_BYTES_MAX);
}

/* Every task is in one place, and has come there by what was recorded. */
static void check_sums(const struct check *check)
{
    const struct check_figures *sum = &check->figures;
    uint64_t begun = check->task_count + sum->redriven;
    uint64_t ended = sum->done + sum->dead + sum->cancelled + sum->expired;
    uint64_t rows = 0;

    for (uint32_t i = 0; i < check->sim->options.shard_count; i++) {
        rows += store_mem_row_count(check->sim->mem, i);
    }
    if (begun != ended + check->pending_count || rows != check->pending_count) {
        sim_fail(check->sim, SIM_UNSAFE, "sum",
                 "%llu created, %llu redriven; %llu done, %llu dead, %llu cancelled, %llu expired, "
                 "%llu pending, %llu rows",
                 (unsigned long long)check->task_count, (unsigned long long)sum->redriven,
                 (unsigned long long)sum->done, (unsigned long long)sum->dead,
                 (unsigned long long)sum->cancelled, (unsigned long long)sum->expired,
                 (unsigned long long)check->pending_count, (unsigned long long)rows);
    }
    if (store_mem_dead_count(check->sim->mem) != sum->dead - sum->redriven - sum->purged) {
        sim_fail(check->sim, SIM_UNSAFE, "sum",
                 "%zu dead letters; %llu came, %llu were redriven, %llu purged",
                 store_mem_dead_count(check->sim->mem), (unsigned long long)sum->dead,
                 (unsigned long long)sum->redriven, (unsigned long long)sum->purged);
    }
}

static void on_look(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct check *check = CONTAINER_OF(event, struct check, look);
    bool is_walk;

    if (is_dropped) {
        return;
    }
    is_walk = check->look_count++ % WALK_EVERY == 0;
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        const struct sim_node *node = &sim->nodes[i];

        if (!node->is_up || node->is_paused) {
            check->line_over[i] = 0;
            continue;
        }
        check_gauges(check, node);
        check_audit_look(check, node);
        if (is_walk) {
            check_walk(check, node);
        }
    }
    check_sums(check);
    sim_after(sim, event, LOOK_US);
}

void check_start_looking(struct check *check)
{
    check->look = (struct sim_event){.fire = on_look};
    sim_after(check->sim, &check->look, LOOK_US);
}

/* A row of the database is what the history says. */
static void check_row(struct check *check, const struct check_task *task)
{
    const struct task *row = store_mem_row(check->sim->mem, task->shard, task->id);

    if ((row != NULL) != (task->end == CHECK_PENDING)) {
        sim_fail(check->sim, SIM_UNSAFE, "sum", "%s has %s row", check_name(task).text,
                 row != NULL ? "ended, and a" : "not ended, and no");
    } else if (row != NULL &&
               (row->due_ms != task->due_ms || row->attempt != task->attempt ||
                row->failures != task->failures || row->unknowns != task->unknowns ||
                row->queue != task->queue || row->expire_ms != task->expire_ms ||
                row->payload_len != task->payload_len || check_token(row->key) != task->key ||
                check_token(row->payload) != task->token)) {
        sim_fail(check->sim, SIM_UNSAFE, "sum",
                 "%s: its row is another than was written: due %lld of %lld, attempt %u of %u",
                 check_name(task).text, (long long)row->due_ms, (long long)task->due_ms,
                 row->attempt, task->attempt);
    }
}

void check_all_rows(struct check *check)
{
    list_foreach (link, &check->tasks) {
        check_row(check, CONTAINER_OF(link, struct check_task, link));
    }
    check_sums(check);
}
