/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop and the two phases.
 */
#include "tests/sim/sim.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_coord.h"
#include "tests/sim/sim_edge.h"
#include "tests/sim/sim_faults.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/sim_load.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_policy.h"
#include "tests/sim/sim_reads.h"
#include "tests/sim/sim_standby.h"
#include "tests/sim/sim_store.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Users go on for this long after the faults have stopped. */
#define HEALED_LOAD_US (5 * US_PER_S)

/* After the last task has ended, two sweeps of every broker have to have passed. */
#define QUIET_US (65 * US_PER_S)

struct list *sim_owner;

void *sim_need(size_t count, size_t size)
{
    struct list *owner = sim_owner;
    void *block;

    sim_owner = NULL;
    block = mem_new(count, size);
    sim_owner = owner;
    REQUIRE(block != NULL);
    return block;
}

static bool may_allocate(size_t size, void *ctx)
{
    struct sim *sim = ctx;

    (void)size;
    return !sim->is_in_core || sim->is_healed ||
           !prng_chance(&sim->memory, sim->options.no_memory_permille);
}

void sim_enter_core(struct sim *sim)
{
    REQUIRE(!sim->is_in_core);
    sim->is_in_core = true;
    if (sim->options.edge != NULL) {
        sim->options.edge->enter(sim->host);
    }
}

void sim_enter_core_of(struct sim_node *node)
{
    node->sim->host = node;
    sim_enter_core(node->sim);
}

void sim_leave_core(struct sim *sim)
{
    REQUIRE(sim->is_in_core);
    sim->is_in_core = false;
    if (sim->options.edge != NULL) {
        sim->options.edge->leave(sim->host);
    }
}

bool sim_enter_world(struct sim *sim)
{
    bool was_in_core = sim->is_in_core;

    sim->is_in_core = false;
    REQUIRE(sim->owner_count < SIM_WORLD_DEPTH);
    sim->owners[sim->owner_count++] = sim_owner;
    sim_owner = NULL;
    return was_in_core;
}

void sim_leave_world(struct sim *sim, bool was_in_core)
{
    sim->is_in_core = was_in_core;
    REQUIRE(sim->owner_count > 0);
    sim_owner = sim->owners[--sim->owner_count];
}

int64_t sim_span(struct prng *prng, int64_t mean)
{
    if (mean <= 1) {
        return mean;
    }
    if (prng_chance(prng, 30)) {
        return prng_between(prng, mean, 10 * mean);
    }
    return prng_between(prng, mean / 4, mean + mean / 2);
}

void sim_at(struct sim *sim, struct sim_event *event, int64_t at)
{
    REQUIRE(!event->is_planned);
    event->life = event->host == NULL ? 0 : event->host->life;
    event->is_planned = true;
    list_init(&event->link);
    heap_add(&sim->events, &event->node, time_max(at, sim->now));
}

void sim_after(struct sim *sim, struct sim_event *event, int64_t span)
{
    sim_at(sim, event, sim->now + span);
}

void sim_cancel(struct sim *sim, struct sim_event *event)
{
    if (!event->is_planned) {
        return;
    }
    event->is_planned = false;
    if (list_is_empty(&event->link)) {
        heap_del(&sim->events, &event->node);
    } else {
        list_del(&event->link);
    }
}

void sim_fail(struct sim *sim, enum sim_verdict verdict, const char *promise, const char *format,
              ...)
{
    va_list list;

    if (sim->verdict != SIM_PASSED) {
        return;
    }
    sim->verdict = verdict;
    (void)snprintf(sim->promise, sizeof(sim->promise), "%s", promise);
    va_start(list, format);
    (void)vsnprintf(sim->message, sizeof(sim->message), format, list);
    va_end(list);
}

bool sim_step(struct sim *sim)
{
    struct heap_node *node = heap_first(&sim->events);
    struct sim_event *event;
    bool is_dropped;

    if (node == NULL || sim->verdict != SIM_PASSED) {
        return false;
    }
    heap_del(&sim->events, node);
    event = CONTAINER_OF(node, struct sim_event, node);
    REQUIRE(node->key >= sim->now);
    sim->now = node->key;
    is_dropped = event->host != NULL && (!event->host->is_up || event->life != event->host->life);
    if (!is_dropped && event->host != NULL && event->host->is_paused) {
        list_add(&event->host->waiting, &event->link);
        return true;
    }
    event->is_planned = false;
    sim->event_count++;
    sim->host = event->host;
    event->fire(sim, event, is_dropped);
    return sim->verdict == SIM_PASSED;
}

void sim_until(struct sim *sim, int64_t at)
{
    for (;;) {
        const struct heap_node *first = heap_first(&sim->events);

        if (first == NULL || first->key > at || !sim_step(sim)) {
            break;
        }
    }
    if (sim->verdict == SIM_PASSED) {
        sim->now = time_max(sim->now, at);
    }
}

void sim_heal(struct sim *sim)
{
    sim->is_healed = true;
    sim_links_heal(sim->links);
    sim_faults_heal(sim->faults);
    sim_coord_heal(sim->coord);
    sim_standby_heal(sim->standby);
    sim_load_heal(sim->load);
    sim_policies_heal(sim->policies);
    if (sim->options.edge != NULL) {
        sim->options.edge->heal(sim);
    }
}

static void on_commit(void *ctx, const struct store_mem_commit *commit)
{
    struct sim *sim = ctx;

    check_on_commit(sim->check, commit);
    sim_standby_on_commit(sim->standby, commit);
}

static enum store_mem_fence fence_of(enum sim_mutant mutant)
{
    if (mutant == SIM_MUTANT_FENCE) {
        return STORE_MEM_FENCE_NONE;
    }
    return mutant == SIM_MUTANT_KEY_SHARE ? STORE_MEM_FENCE_KEY_SHARE : STORE_MEM_FENCE_SHARE;
}

static void make_cluster(struct sim *sim)
{
    struct store_mem_options options = {
        .shard_count = sim->options.shard_count,
        .database_count = sim->options.database_count,
        .database_of = sim->cluster.database_of,
        .fence = fence_of(sim->options.mutant),
        .has_standby = sim->options.promote_every_us > 0 || sim->options.has_standby,
        .on_commit = on_commit,
        .ctx = sim,
    };

    (void)snprintf(sim->cluster.id, sizeof(sim->cluster.id), "sim");
    sim->cluster.shard_count = sim->options.shard_count;
    for (uint32_t i = 0; i < sim->options.shard_count; i++) {
        sim->cluster.database_of[i] = (uint8_t)(i % sim->options.database_count);
    }
    sim->check = check_new(sim);
    sim->mem = store_mem_new(&options);
    REQUIRE(sim->mem != NULL);
}

struct sim *sim_new(const struct sim_options *options, trace_fn fn, void *ctx)
{
    struct sim *sim = sim_need(1, sizeof(*sim));

    REQUIRE(options->node_count >= 1 && options->node_count <= SIM_NODE_COUNT_MAX);
    sim->options = *options;
    heap_init(&sim->events);
    trace_init(&sim->trace, fn, ctx);
    prng_init_named(&sim->memory, options->seed, "memory");
    mem_set_hook(may_allocate, sim);
    sim->clocks = sim_clocks_new(sim);
    sim->standby = sim_standby_new(sim);
    make_cluster(sim);
    sim->links = sim_links_new(sim);
    sim->store = sim_store_new(sim);
    sim->coord = sim_coord_new(sim);
    sim->policies = sim_policies_new(sim);
    sim->load = sim_load_new(sim);
    sim->reads = sim_reads_new(sim);
    sim->nodes = sim_need(options->node_count, sizeof(*sim->nodes));
    sim->faults = sim_faults_new(sim);
    for (uint32_t i = 0; i < options->node_count; i++) {
        sim_node_init(&sim->nodes[i], sim, i);
    }
    if (options->edge != NULL) {
        options->edge->open(sim);
    }
    return sim;
}

void sim_free(struct sim *sim)
{
    struct heap_node *node;

    mem_set_hook(NULL, NULL);

    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        if (sim->nodes[i].is_up) {
            sim_node_kill(&sim->nodes[i], -1);
        }
    }
    if (sim->options.edge != NULL) {
        sim->options.edge->free(sim);
    }
    while ((node = heap_take_first(&sim->events)) != NULL) {
        struct sim_event *event = CONTAINER_OF(node, struct sim_event, node);

        event->is_planned = false;
        event->fire(sim, event, true);
    }
    sim_faults_free(sim->faults);
    sim_reads_free(sim->reads);
    sim_load_free(sim->load);
    sim_policies_free(sim->policies);
    sim_coord_free(sim->coord);
    sim_links_free(sim->links);
    sim_store_free(sim->store);
    sim_standby_free(sim->standby);
    sim_clocks_free(sim->clocks);
    store_mem_free(sim->mem);
    check_free(sim->check);
    mem_free(sim->nodes);
    mem_free(sim);
}

void sim_start(struct sim *sim)
{
    if (sim->options.promote_every_us > 0 || sim->options.has_standby) {
        sim_standby_start(sim->standby);
    }
    for (uint32_t i = 0; i < sim->options.node_count - sim->options.late_count; i++) {
        sim_node_start(&sim->nodes[i]);
    }
    for (uint32_t i = sim->options.node_count - sim->options.late_count;
         i < sim->options.node_count; i++) {
        sim_node_start_in(&sim->nodes[i],
                          prng_between(&sim->nodes[i].prng, 0, sim->options.faults_us));
    }
}

void sim_finish(struct sim *sim)
{
    int64_t healed = sim->now;
    int64_t stopped;
    int64_t end;

    sim_heal(sim);
    sim_until(sim, healed + check_converge_us(sim->check));
    check_owners(sim->check);
    sim_until(sim, time_max(sim->now, healed + HEALED_LOAD_US));
    sim_load_stop(sim->load);
    sim_reads_stop(sim->reads);
    stopped = sim->now;
    end = check_last_end(sim->check, stopped);
    while (sim->verdict == SIM_PASSED && sim->now < end && !check_is_settled(sim->check)) {
        sim_until(sim, sim->now + US_PER_S);
        if (sim->now >= end) { // It walks all tasks: not each second of a long end.
            end = check_last_end(sim->check, stopped); // Creates under way may be late.
        }
    }
    sim_until(sim, sim->now + QUIET_US);
    sim->is_over = true;
    check_end(sim->check);
    if (sim->options.edge != NULL && sim->verdict == SIM_PASSED) {
        sim->options.edge->finish(sim);
    }
}

enum sim_verdict sim_run(struct sim *sim)
{
    sim_start(sim);
    sim_load_start(sim->load);
    sim_policies_start(sim->policies);
    sim_reads_start(sim->reads);
    sim_faults_start(sim->faults);
    check_start_looking(sim->check);
    sim_links_start(sim->links);
    if (sim->options.edge != NULL) {
        sim->options.edge->start(sim);
    }
    sim_until(sim, sim->options.faults_us);
    check_all_rows(sim->check);
    if (sim->verdict == SIM_PASSED) {
        sim_finish(sim);
    }
    return sim->verdict;
}
