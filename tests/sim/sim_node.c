/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a simulated process.
 */
#include "tests/sim/sim_node.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_coord.h"
#include "tests/sim/sim_edge.h"
#include "tests/sim/sim_load.h"
#include "tests/sim/sim_reads.h"
#include "tests/sim/sim_store.h"

#include <stdio.h>
#include <string.h>

#define PPM INT64_C(1000000)

/* Queues are read from home this often. source: DESIGN 6 */
#define POLL_US (500 * US_PER_MS)

/* A drain that takes longer than this is ended by the kill that follows SIGTERM. */
#define DRAIN_US (10 * US_PER_S)

/* How far the broken estimate of a mutant runs ahead. */
#define CLOCK_AHEAD_US (40 * US_PER_MS)

boot_us sim_node_boot(const struct sim_node *node)
{
    int64_t now = node->sim->now;

    return node->boot_offset + now + now / PPM * node->drift_ppm +
           now % PPM * node->drift_ppm / PPM;
}

int64_t sim_node_true_time(const struct sim_node *node, boot_us boot)
{
    int64_t left = time_clamp(boot - sim_node_boot(node), 0, US_PER_S * 1000000);

    return node->sim->now + (left == 0 ? 0 : left * PPM / (PPM + node->drift_ppm) + 2);
}

void sim_node_now(struct sim_node *node, struct now *now)
{
    node->sim->host = node;
    now->boot = sim_node_boot(node);
    for (uint32_t i = 0; i < node->sim->options.database_count; i++) {
        struct clock_range range = clock_estimate_now(&node->clocks[i], now->boot);

        now->database[i] = (struct clock_bounds){range.lower_us, range.upper_us, range.proven_us};
        if (node->sim->options.mutant == SIM_MUTANT_CLOCK && range.lower_us != INT64_MIN) {
            now->database[i].lower_us += CLOCK_AHEAD_US;
            now->database[i].upper_us += CLOCK_AHEAD_US;
        }
    }
}

void sim_node_set_now(struct sim_node *node)
{
    struct now now;

    if (node->broker != NULL) {
        sim_node_now(node, &now);
        broker_set_now(node->broker, &now);
    }
}

static void plan_turn(struct sim_node *node, int64_t at)
{
    if (node->turn.is_planned && node->turn.node.key <= at) {
        return;
    }
    sim_cancel(node->sim, &node->turn);
    sim_at(node->sim, &node->turn, at);
}

void sim_node_touch(struct sim_node *node)
{
    if (node->is_up && node->sim->options.edge != NULL) {
        node->sim->options.edge->touch(node);
    } else if (node->is_up && node->broker != NULL) {
        plan_turn(node, node->sim->now + prng_between(&node->prng, 0, node->sim->options.turn_us));
    }
}

static void on_turn(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_node *node = CONTAINER_OF(event, struct sim_node, turn);
    struct now now;
    boot_us wake;

    if (is_dropped) {
        return;
    }
    sim_node_now(node, &now);
    sim_enter_core(sim);
    broker_tick(node->broker, &now);
    sim_leave_core(sim);
    wake = broker_next_wake(node->broker, &now);
    if (wake != BOOT_NEVER) {
        // A loop that has nothing but its own haste still takes a moment for each turn.
        plan_turn(node, time_max(sim_node_true_time(node, wake), node->sim->now + 20));
    }
}

static void on_event(void *ctx, const struct core_event *event)
{
    struct sim_node *node = ctx;
    const int64_t values[] = {node->number, event->shard, event->epoch,
                              event->seq,   event->a,     event->b};

    trace_add(&node->sim->trace, event->what, values, ARRAY_COUNT(values));
    check_on_event(node->sim->check, node, event);
}

static void list_done(struct store_queue_list *list)
{
    struct sim_node *node = list->owner;
    struct now now;

    node->is_listing = false;
    if (list->result == 0) {
        sim_node_now(node, &now);
        sim_enter_core(node->sim);
        broker_on_queues(node->broker, &now, list->rows, list->row_count, 1);
        sim_leave_core(node->sim);
        check_queues_heard(node->sim->check, node, list->rows, list->row_count);
        sim_node_touch(node);
    }
}

/* The offset from the wall clock is a figure for people: nothing depends on it. */
static void look_at_wall(struct sim_node *node)
{
    int64_t most_us = node->sim->options.wall_us;

    for (uint32_t i = 0; i < node->sim->options.database_count; i++) {
        int64_t wall_us = sim_clock(node->sim, i) + prng_between(&node->wall, -most_us, most_us);

        (void)clock_estimate_offset(&node->clocks[i], sim_node_boot(node), wall_us);
    }
}

static void on_poll(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_node *node = CONTAINER_OF(event, struct sim_node, poll);

    if (is_dropped) {
        return;
    }
    look_at_wall(node);
    if (!node->is_listing) {
        node->list = (struct store_queue_list){.cb = list_done, .owner = node};
        node->is_listing = node->store->queue_list(node->store, &node->list) == 0;
    }
    sim_after(sim, &node->poll, POLL_US);
}

static void on_change(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_node *node = CONTAINER_OF(event, struct sim_node, change);

    (void)sim;
    if (is_dropped) {
        return;
    }
    if (!node->is_up) {
        sim_node_start(node);
    } else if (node->is_paused) {
        sim_node_resume(node);
    }
}

static bool is_drained(const struct sim_node *node)
{
    const struct sim_edge *edge = node->sim->options.edge;

    return broker_is_drained(node->broker) && (edge == NULL || edge->is_drained(node));
}

static void on_drain(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_node *node = CONTAINER_OF(event, struct sim_node, drain);

    if (is_dropped) {
        return;
    }
    // As at the edge: who leaves has told how its attempts have ended.
    if ((!is_drained(node) || node->tellings > 0) && sim->now < node->drain_until) {
        sim_after(sim, &node->drain, 50 * US_PER_MS);
        return;
    }
    TRACE(&sim->trace, "leave", node->number, broker_is_drained(node->broker));
    if (broker_is_drained(node->broker)) {
        sim_coord_leave(sim->coord, node);
    }
    sim_node_kill(node, US_PER_S);
}

void sim_node_init(struct sim_node *node, struct sim *sim, uint32_t number)
{
    int32_t drift_ppm = sim->options.drift_ppm;

    node->sim = sim;
    node->number = number;
    (void)snprintf(node->name, sizeof(node->name), "node-%u", number);
    prng_init_named(&node->prng, sim->options.seed, node->name);
    prng_init_named(&node->wall, sim->options.seed, "wall");
    node->boot_offset = prng_between(&node->prng, US_PER_S, 1000 * US_PER_S);
    node->drift_ppm = (int32_t)prng_between(&node->prng, -drift_ppm, drift_ppm);
    list_init(&node->waiting);
    list_init(&node->calls);
    list_init(&node->reads);
    node->turn = (struct sim_event){.fire = on_turn, .host = node};
    node->poll = (struct sim_event){.fire = on_poll, .host = node};
    node->drain = (struct sim_event){.fire = on_drain, .host = node};
    node->change = (struct sim_event){.fire = on_change};
    sim_target_init(&node->target, node);
}

static void fill_options(struct sim_node *node, struct broker_options *options)
{
    const struct sim_options *sim_options = &node->sim->options;

    *options = (struct broker_options){
        .cluster = node->sim->cluster,
        .database_count = sim_options->database_count,
        .writer = (int64_t)(prng_next(&node->prng) >> 2) + 1,
        .session_timeout_ms = sim_options->session_timeout_ms,
        .entry_count_max = sim_options->entry_count_max,
        .window_ms = sim_options->window_ms,
        .audit_ms = sim_options->audit_ms,
        .batch_op_max = sim_options->batch_op_max,
        .waiting_op_max = sim_options->waiting_op_max,
        .retry_us = sim_options->retry_us,
        .split_op_min = sim_options->split_op_min,
        .settle_wait_us = sim_options->settle_wait_us,
        .claim_wait_us = sim_options->claim_wait_us,
    };
    (void)snprintf(node->instance, sizeof(node->instance), "%016llx",
                   (unsigned long long)prng_next(&node->prng));
    (void)snprintf(options->self.name, sizeof(options->self.name), "%s", node->name);
    (void)snprintf(options->self.grpc, sizeof(options->self.grpc), "%s",
                   sim_options->edge == NULL ? node->name : sim_options->edge->address(node));
    memcpy(options->self.instance, node->instance, sizeof(node->instance));
    options->self.started_ms = sim_clock(node->sim, 0) / US_PER_MS;
}

static void on_session(void *ctx, enum coord_session session)
{
    struct sim_node *node = ctx;
    struct now now;

    sim_node_now(node, &now);
    broker_on_session(node->broker, &now, session);
}

static void on_members(void *ctx, const struct member *members, size_t count)
{
    struct sim_node *node = ctx;
    struct now now;

    sim_node_now(node, &now);
    broker_on_members(node->broker, &now, members, count);
}

static void on_shard_free(void *ctx, uint32_t shard)
{
    struct sim_node *node = ctx;
    struct now now;

    sim_node_now(node, &now);
    broker_on_shard_free(node->broker, &now, shard);
}

static void on_shard_lost(void *ctx, uint32_t shard)
{
    struct sim_node *node = ctx;
    struct now now;

    sim_node_now(node, &now);
    broker_on_shard_lost(node->broker, &now, shard);
}

void sim_node_start(struct sim_node *node)
{
    struct sim *sim = node->sim;
    struct broker_options options;
    struct broker_env env = {.seed = prng_next(&node->prng),
                             .outbound = &node->target.outbound,
                             .on_event = on_event,
                             .on_event_ctx = node};
    const struct coord_events events = {.on_session = on_session,
                                        .on_members = on_members,
                                        .on_shard_free = on_shard_free,
                                        .on_shard_lost = on_shard_lost,
                                        .ctx = node};
    const struct sim_edge *edge = sim->options.edge;
    int err;

    REQUIRE(!node->is_up);
    node->is_up = true;
    node->is_draining = false;
    node->life++;
    TRACE(&sim->trace, "boot", node->number, node->life);
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        clock_estimate_init(&node->clocks[i]);
    }
    sim_clock_forget(sim, node->number);
    fill_options(node, &options);
    node->store = sim_store_open(sim->store, node);
    node->coord = sim_coord_open(sim->coord, node, &options.self, &events);
    env.store = node->store;
    env.coord = node->coord;
    if (edge != NULL) {
        env.outbound = edge->outbound(node);
    }
    err = broker_new(&env, &options, &node->broker);
    REQUIRE(err == 0);
    if (edge != NULL) {
        edge->begin(node);
        return;
    }
    node->is_listing = false;
    check_queues_boot(sim->check, node);
    sim_after(sim, &node->poll, 0);
    sim_node_touch(node);
}

void sim_node_start_in(struct sim_node *node, int64_t span_us)
{
    REQUIRE(!node->is_up && !node->change.is_planned);
    sim_after(node->sim, &node->change, span_us);
}

static void drop_waiting(struct sim_node *node)
{
    struct list *link;

    while ((link = list_take_first(&node->waiting)) != NULL) {
        struct sim_event *event = CONTAINER_OF(link, struct sim_event, link);

        event->is_planned = false;
        event->fire(node->sim, event, true);
    }
}

void sim_node_kill(struct sim_node *node, int64_t down_us)
{
    struct sim *sim = node->sim;

    REQUIRE(node->is_up);
    TRACE(&sim->trace, "kill", node->number, node->life);
    if (sim->options.edge != NULL) {
        sim->options.edge->crash(node);
    }
    sim_store_crash(sim->store, node);
    sim_coord_crash(sim->coord, node);
    node->is_up = false;
    node->is_paused = false;
    drop_waiting(node);
    sim_cancel(sim, &node->turn);
    sim_cancel(sim, &node->poll);
    sim_cancel(sim, &node->drain);
    sim_cancel(sim, &node->change);
    broker_free(node->broker);
    node->broker = NULL;
    if (sim->options.edge != NULL) {
        sim->options.edge->bury(node);
    }
    sim_load_crash(sim->load, node);
    sim_reads_crash(sim->reads, node);
    if (down_us >= 0) {
        sim_after(sim, &node->change, down_us);
    }
}

void sim_node_pause(struct sim_node *node, int64_t span_us)
{
    REQUIRE(node->is_up && !node->is_paused);
    TRACE(&node->sim->trace, "pause", node->number, span_us);
    node->is_paused = true;
    node->is_stalled = false;
    node->paused_at = sim_node_boot(node);
    node->paused_since = node->sim->now;
    sim_coord_set_paused(node->sim->coord, node);
    sim_cancel(node->sim, &node->change);
    sim_after(node->sim, &node->change, span_us);
}

void sim_node_resume(struct sim_node *node)
{
    struct list waiting;
    struct list *link;

    REQUIRE(node->is_up && node->is_paused);
    TRACE(&node->sim->trace, "resume", node->number);
    node->is_paused = false;
    if (node->is_stalled) {
        node->boot_offset -= sim_node_boot(node) - node->paused_at;
        sim_clock_stall(node->sim, node->number, node->paused_since);
    }
    sim_cancel(node->sim, &node->change);
    sim_coord_set_paused(node->sim->coord, node);
    list_init(&waiting);
    list_move_all(&waiting, &node->waiting);
    while ((link = list_take_first(&waiting)) != NULL) {
        struct sim_event *event = CONTAINER_OF(link, struct sim_event, link);

        event->is_planned = false;
        sim_after(node->sim, event, 0);
    }
}

void sim_node_drain(struct sim_node *node)
{
    struct now now;

    if (node->is_draining) {
        return;
    }
    TRACE(&node->sim->trace, "drain", node->number);
    node->is_draining = true;
    node->drain_until = node->sim->now + DRAIN_US;
    sim_node_now(node, &now);
    sim_enter_core(node->sim);
    broker_drain(node->broker, &now);
    sim_leave_core(node->sim);
    if (node->sim->options.edge != NULL) {
        node->sim->options.edge->drain(node);
    }
    sim_node_touch(node);
    sim_after(node->sim, &node->drain, 50 * US_PER_MS);
}

struct sim_node *sim_node_find(struct sim *sim, const char *address)
{
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        struct sim_node *node = &sim->nodes[i];

        if (strcmp(node->name, address) == 0 ||
            (sim->options.edge != NULL && strcmp(sim->options.edge->address(node), address) == 0)) {
            return node;
        }
    }
    return NULL;
}
