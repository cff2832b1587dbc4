/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of stories.
 */
#include "tests/sim/story.h"

#include "broker/core/inspect.h"

#include <string.h>

/* Nothing in a story takes longer. */
#define LIMIT_US (120 * US_PER_S)

static void must_hold(const struct sim *sim)
{
    if (sim->verdict != SIM_PASSED) {
        must_fail(MUST_HERE, "%.3f s: %s: %s", (double)sim->now / 1e6, sim->promise, sim->message);
    }
}

static void step(struct sim *sim, int64_t until)
{
    bool has_stepped = sim_step(sim);

    must_hold(sim);
    MUST(has_stepped);
    MUST_LE(sim->now, until);
}

struct sim *story_open_traced(const struct sim_options *options, trace_fn fn, void *ctx)
{
    struct sim *sim = sim_new(options, fn, ctx);

    sim_start(sim);
    for (uint32_t i = 0; i < options->shard_count; i++) {
        (void)story_wait_owner(sim, i, NULL, LIMIT_US);
    }
    story_pass(sim, US_PER_S);
    return sim;
}

struct sim *story_open(const struct sim_options *options)
{
    return story_open_traced(options, NULL, NULL);
}

struct sim *story_open_quiet(uint64_t seed)
{
    struct sim_options options;

    sim_options_quiet(&options, seed);
    return story_open(&options);
}

void story_close(struct sim *sim)
{
    sim_finish(sim);
    must_hold(sim);
    sim_free(sim);
}

void story_pass(struct sim *sim, int64_t span_us)
{
    sim_until(sim, sim->now + span_us);
    must_hold(sim);
}

bool story_serves(struct sim *sim, const struct sim_node *node, uint32_t shard)
{
    struct shard_view view;

    if (!node->is_up || node->is_paused) {
        return false;
    }
    broker_inspect_shard(sim->nodes[node->number].broker, shard, &view);
    return strcmp(view.state, "active") == 0;
}

static struct sim_node *find_owner(struct sim *sim, uint32_t shard, const struct sim_node *not_this)
{
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        if (&sim->nodes[i] != not_this && story_serves(sim, &sim->nodes[i], shard)) {
            return &sim->nodes[i];
        }
    }
    return NULL;
}

struct sim_node *story_owner(struct sim *sim, uint32_t shard)
{
    struct sim_node *owner = find_owner(sim, shard, NULL);

    MUST(owner != NULL);
    return owner;
}

int64_t story_wait_owner(struct sim *sim, uint32_t shard, const struct sim_node *not_this,
                         int64_t limit_us)
{
    int64_t begin = sim->now;

    while (find_owner(sim, shard, not_this) == NULL) {
        step(sim, begin + limit_us);
    }
    return sim->now - begin;
}

struct call story_wait(struct sim *sim, const struct sim_answer *answer)
{
    int64_t begin = sim->now;

    while (!answer->is_there) {
        step(sim, begin + LIMIT_US);
    }
    return answer->call;
}

uint32_t story_shard(const struct sim *sim, const struct check_known *task)
{
    return shard_of_slot(task->id.slot, sim->options.shard_count);
}

struct call story_ask(struct sim *sim, const struct sim_ask *ask)
{
    uint32_t shard = ask->kind == CALL_CREATE ? ask->shard : story_shard(sim, &ask->task);

    (void)story_wait_owner(sim, shard, NULL, LIMIT_US);
    return story_wait(sim, sim_load_ask(sim->load, story_owner(sim, shard), ask));
}

struct check_known story_create(struct sim *sim, uint32_t shard, span_ms delay_ms)
{
    struct sim_ask ask = {.kind = CALL_CREATE, .shard = shard, .delay_ms = delay_ms};
    struct call call = story_ask(sim, &ask);

    MUST_OK(call.result);
    MUST(call.created);
    return (struct check_known){call.found, call.task.queue, call.found_due_ms, 0};
}

void story_wait_starts(struct sim *sim, const struct check_known *task, uint32_t count)
{
    int64_t begin = sim->now;

    while (check_start_count(sim->check, story_shard(sim, task), task->id) < count) {
        step(sim, begin + LIMIT_US);
    }
}

void story_wait_end(struct sim *sim, const struct check_known *task)
{
    int64_t begin = sim->now;

    while (!check_has_ended(sim->check, story_shard(sim, task), task->id)) {
        step(sim, begin + LIMIT_US);
    }
}
