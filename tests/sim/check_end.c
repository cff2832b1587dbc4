/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold after the faults: K-7, K-1 over the whole run, and no waste left behind.
 */
#include "broker/core/inspect.h"
#include "lib/base/check.h"
#include "tests/sim/check_parts.h"
#include "tests/sim/sim_coord.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_reads.h"

#include <string.h>

/* ZooKeeper's tick in our samples, and the promise's own second. source: DESIGN 1 */
#define TICK_US (500 * US_PER_MS)

/* On top of the promise: a process starts, a lost request times out once, delays of this run. */
#define SLACK_US (4 * US_PER_S)

/* A task may be held by a claim for its timeout, start_by and margin, and be tried again after it;
 * a few times. */
#define LAST_US (180 * US_PER_S)

/* Those of an order key run one after the other: attempts whose outcome nobody learns, until the
 * next may go. */
#define ORDER_TURN_US (12 * US_PER_S)

int64_t check_converge_us(const struct check *check)
{
    const struct sim_options *options = &check->sim->options;

    return options->session_timeout_ms * US_PER_MS + TICK_US + US_PER_S + SLACK_US +
           options->members_us + 20 * options->turn_us +
           (20 + options->shard_count / 2) * (options->store_us + options->coord_us);
}

/* Nobody else's; one that was deleted by hand is missed at the next look at everything, which is
 * once a minute and harms nobody. */
static bool is_znode_right(const struct check *check, uint32_t shard, const struct sim_node *owner)
{
    const struct sim_node *holder = sim_coord_owner(check->sim->coord, shard);

    return holder == owner || (holder == NULL && !check->sim->is_over);
}

/* Who held the shard has just missed its znode, and it is taken again like any other. */
static bool is_being_missed(const struct check *check, uint32_t shard)
{
    return !check->sim->is_over &&
           sim_coord_is_missed(check->sim->coord, shard, check_converge_us(check));
}

void check_owners(struct check *check)
{
    struct sim *sim = check->sim;

    for (uint32_t i = 0; i < sim->options.shard_count; i++) {
        const struct sim_node *owner = NULL;
        struct shard_view view;
        uint32_t count = 0;

        for (uint32_t n = 0; n < sim->options.node_count; n++) {
            if (!sim->nodes[n].is_up) {
                continue;
            }
            broker_inspect_shard(sim->nodes[n].broker, i, &view);
            if (strcmp(view.state, "active") == 0) {
                owner = &sim->nodes[n];
                count++;
                if (view.epoch != check->epoch[i]) {
                    sim_fail(sim, SIM_STUCK, "K-7", "shard %u is active at epoch %lld of %lld", i,
                             (long long)view.epoch, (long long)check->epoch[i]);
                }
            }
        }
        if (count == 0 && is_being_missed(check, i)) {
            continue;
        }
        if (count != 1 || !is_znode_right(check, i, owner)) {
            sim_fail(sim, SIM_STUCK, "K-7",
                     "shard %u has %u active owners, %lld ms after the last fault", i, count,
                     (long long)(check_converge_us(check) / US_PER_MS));
        }
    }
}

int64_t check_last_end(const struct check *check, int64_t stopped)
{
    int64_t last = stopped;

    list_foreach (link, &check->tasks) {
        const struct check_task *task = CONTAINER_OF(link, struct check_task, link);
        int64_t ahead_us = task->due_ms * US_PER_MS - check_clock(check, task->shard);

        if (task->end == CHECK_PENDING) {
            last = time_max(last, check->sim->now + ahead_us);
        }
    }
    return last + LAST_US + check_order_longest(check) * ORDER_TURN_US;
}

/* The number of a call that was never answered; 0: none. */
static uint64_t find_open_call(const struct check *check)
{
    for (uint64_t i = 0; i < check->call_count; i++) {
        if (check->calls[i].state == CALL_STATE_OPEN) {
            return i + 1;
        }
    }
    return 0;
}

bool check_is_settled(const struct check *check)
{
    return check->pending_count == 0 && find_open_call(check) == 0;
}

static void check_tasks(struct check *check)
{
    bool is_audited = check->audit_note[0] != '\0';

    list_foreach (link, &check->tasks) {
        const struct check_task *task = CONTAINER_OF(link, struct check_task, link);

        if (task->end == CHECK_PENDING) {
            sim_fail(
                check->sim, SIM_STUCK, is_audited ? "audit" : "K-7",
                "%s is in nobody's hands: %lld ms late, attempt %u, claimed %u, %zu starts; %s",
                check_name(task).text,
                (long long)(check_clock(check, task->shard) / US_PER_MS - task->due_ms),
                task->attempt, task->claimed, task->attempt_count,
                is_audited ? check->audit_note : "no auditor saw it");
            return;
        }
    }
}

/* Two sweeps of everybody have passed since the last claim. */
static void check_claims(struct check *check)
{
    for (uint32_t i = 0; i < check->sim->options.database_count; i++) {
        size_t count = store_mem_claim_row_count(check->sim->mem, i);

        if (count != 0) {
            sim_fail(check->sim, SIM_STUCK, "waste",
                     "%zu claim rows without a live member are left in database %u", count, i);
        }
    }
}

/* Nothing of what has ended may be left in a broker's memory. */
static void check_memory(struct check *check)
{
    for (uint32_t i = 0; i < check->sim->options.node_count; i++) {
        struct broker_stats stats;

        if (!check->sim->nodes[i].is_up) {
            continue;
        }
        broker_inspect(check->sim->nodes[i].broker, &stats);
        if (stats.entries != 0 || stats.in_flight != 0 || stats.ops_waiting != 0 ||
            stats.orders != 0) {
            sim_fail(check->sim, SIM_STUCK, "waste",
                     "node %u holds %u tasks, %u attempts, %u operations, %u order keys of nothing",
                     i, stats.entries, stats.in_flight, stats.ops_waiting, stats.orders);
        }
    }
}

/* Calls under way have been answered long ago. */
static void check_calls(struct check *check)
{
    uint64_t number = find_open_call(check);

    if (sim_reads_open_count(check->sim->reads) > 0) {
        sim_fail(check->sim, SIM_STUCK, "K-8", "%zu reads were never answered",
                 sim_reads_open_count(check->sim->reads));
    }
    if (number != 0) {
        sim_fail(check->sim, SIM_STUCK, "K-8", "call %llu of kind %u was never answered",
                 (unsigned long long)number, check->calls[number - 1].kind);
    }
}

/* The node whom a call for a shard reaches from here. */
static const struct sim_node *route(const struct sim_node *node, uint32_t shard)
{
    const char *address = NULL;

    switch (broker_route(node->broker, shard, &address)) {
    case ROUTE_SELF:
        return node;
    case ROUTE_OTHER:
        return sim_node_find(node->sim, address);
    case ROUTE_NOBODY:
        return NULL;
    }
    return NULL;
}

/* Any broker takes any call: everybody knows who owns what by now. */
static void check_routes(struct check *check)
{
    struct sim *sim = check->sim;

    for (uint32_t n = 0; n < sim->options.node_count; n++) {
        for (uint32_t i = 0; i < sim->options.shard_count && sim->nodes[n].is_up; i++) {
            if (route(&sim->nodes[n], i) != sim_coord_owner(sim->coord, i)) {
                sim_fail(sim, SIM_STUCK, "K-7", "node %u does not know who owns shard %u", n, i);
            }
        }
    }
}

void check_end(struct check *check)
{
    check_all_rows(check);
    check_tasks(check);
    check_calls(check);
    check_owners(check);
    check_routes(check);
    check_claims(check);
    check_memory(check);
    check_audit_end(check);
}
