/* SPDX-License-Identifier: Apache-2.0
 *
 * Options from a seed. Each group of faults is off in a third of all runs and severe in another, so
 * that faults are seen alone as well as together.
 */
#include "tests/sim/sim_options.h"

#include "lib/base/check.h"
#include "lib/base/prng.h"

#define MINUTE_US (60 * US_PER_S)

static const char *const MUTANTS[SIM_MUTANT_COUNT] = {
    [SIM_MUTANT_NONE] = "none",
    [SIM_MUTANT_FENCE] = "fence",
    [SIM_MUTANT_CLOCK] = "clock",
    [SIM_MUTANT_START_BY] = "start-by",
    [SIM_MUTANT_GENERATION] = "generation",
    [SIM_MUTANT_UNKNOWN] = "unknown",
    [SIM_MUTANT_LOST_WRITE] = "lost-write",
    [SIM_MUTANT_SEND_TWICE] = "send-twice",
    [SIM_MUTANT_OUTCOME] = "outcome",
    [SIM_MUTANT_CLAIMS] = "claims",
    [SIM_MUTANT_SLICE] = "slice",
    [SIM_MUTANT_MEMBERS] = "members",
};

const char *sim_mutant_name(enum sim_mutant mutant)
{
    REQUIRE(mutant < SIM_MUTANT_COUNT);
    return MUTANTS[mutant];
}

/* How bad a group of faults is in this run. */
static int64_t severity(struct prng *prng)
{
    return prng_between(prng, 0, 2);
}

/* A mean span between faults: never, rare or often. */
static int64_t every(struct prng *prng, int64_t rare_us)
{
    switch (severity(prng)) {
    case 0:
        return 0;
    case 1:
        return rare_us;
    default:
        return rare_us / 4;
    }
}

/* A share of faults: none, few or many. */
static uint32_t share(struct prng *prng, uint32_t few)
{
    switch (severity(prng)) {
    case 0:
        return 0;
    case 1:
        return few;
    default:
        return few * 6;
    }
}

static int64_t pick(struct prng *prng, const int64_t *values, size_t count)
{
    return values[prng_below(prng, count)];
}

#define PICK(prng, ...) \
    pick((prng), (const int64_t[]){__VA_ARGS__}, ARRAY_COUNT(((const int64_t[]){__VA_ARGS__})))

void sim_options_quiet(struct sim_options *options, uint64_t seed)
{
    *options = (struct sim_options){
        .seed = seed,
        .node_count = 2,
        .shard_count = 4,
        .database_count = 1,
        .queue_count = 1,
        .session_timeout_ms = 4000,
        .window_ms = 120000,
        .entry_count_max = 20000,
        .store_us = 500,
        .network_us = 200,
        .coord_us = 1000,
        .members_us = 5000,
        .turn_us = 100,
        .target_us = 2000,
    };
}

static void draw_cluster(struct sim_options *options, struct prng *prng)
{
    options->node_count = (uint32_t)PICK(prng, 1, 2, 2, 3, 3, 4, 5);
    options->shard_count = (uint32_t)PICK(prng, 1, 2, 4, 7, 16, 32, 128);
    options->database_count = (uint32_t)PICK(prng, 1, 1, 2, 3);
    options->queue_count = (uint32_t)PICK(prng, 1, 3, 6);
    options->session_timeout_ms = PICK(prng, 2000, 4000, 4000, 6000);
    options->window_ms = PICK(prng, 66000, 120000, 600000);
    options->entry_count_max = (uint32_t)PICK(prng, 2100, 20000, 100000);
}

static void draw_load(struct sim_options *options, struct prng *prng)
{
    options->call_every_us = PICK(prng, 5000, 20000, 50000, 100000);
    options->keyed_permille = (uint32_t)PICK(prng, 0, 200, 600, 1000);
    options->cancel_permille = (uint32_t)PICK(prng, 0, 50, 200);
    options->update_permille = (uint32_t)PICK(prng, 0, 50, 200);
    options->get_permille = (uint32_t)PICK(prng, 0, 50);
    options->near_permille = (uint32_t)PICK(prng, 200, 500, 900);
    options->far_permille = (uint32_t)PICK(prng, 0, 50);
    options->burst_permille = (uint32_t)PICK(prng, 0, 0, 2);
    options->large_permille = (uint32_t)PICK(prng, 0, 0, 100);
}

static void draw_delays(struct sim_options *options, struct prng *prng)
{
    options->store_us = PICK(prng, 200, 1000, 5000, 20000);
    options->network_us = PICK(prng, 100, 1000, 10000);
    options->coord_us = PICK(prng, 500, 2000, 20000);
    options->members_us = PICK(prng, 5000, 100000, 2000000);
    options->turn_us = PICK(prng, 0, 200, 5000);
    options->slow_permille = share(prng, 2);
    options->slow_us = PICK(prng, 200000, 1000000, 4000000);
    options->drift_ppm = (int32_t)PICK(prng, 0, 20, 95);
}

static void draw_faults(struct sim_options *options, struct prng *prng)
{
    options->give_up_permille = share(prng, 1);
    options->refuse_permille = share(prng, 2);
    options->orphan_us = PICK(prng, 5000, 500000, 6000000);
    options->database_down_every_us = every(prng, 2 * MINUTE_US);
    options->database_down_us = PICK(prng, 1000000, 10000000);
    options->coord_lost_permille = share(prng, 10);
    options->expire_every_us = every(prng, MINUTE_US);
    options->znode_lost_every_us = every(prng, 2 * MINUTE_US);
    options->cut_every_us = every(prng, MINUTE_US);
    options->cut_us = PICK(prng, 500000, 3000000, 20000000);
    options->kill_every_us = every(prng, MINUTE_US);
    options->down_us = PICK(prng, 100000, 2000000, 10000000);
    options->pause_every_us = every(prng, MINUTE_US);
    options->pause_us = PICK(prng, 100000, 2000000, 10000000);
    options->drain_every_us = every(prng, 2 * MINUTE_US);
    options->call_lost_permille = share(prng, 10);
    options->coord_stop_every_us = every(prng, 4 * MINUTE_US);
    options->is_one_gone = options->node_count > 1 && prng_chance(prng, 300);
}

static void draw_target(struct sim_options *options, struct prng *prng)
{
    options->target_us = PICK(prng, 500, 5000, 100000, 1000000);
    options->target_retry_permille = share(prng, 50);
    options->target_dead_permille = share(prng, 10);
    options->target_never_permille = share(prng, 10);
    options->target_late_permille = share(prng, 10);
    options->target_slow_send_permille = share(prng, 5);
    options->target_full_permille = share(prng, 5);
}

void sim_options_draw(struct sim_options *options, uint64_t seed, uint32_t minutes)
{
    struct prng prng;

    prng_init_named(&prng, seed, "options");
    *options = (struct sim_options){.seed = seed};
    options->faults_us = minutes > 0 ? minutes * MINUTE_US : PICK(&prng, 30, 90, 180) * US_PER_S;
    draw_cluster(options, &prng);
    draw_load(options, &prng);
    draw_delays(options, &prng);
    draw_faults(options, &prng);
    draw_target(options, &prng);
}

static void add(struct buf *out, const char *name, int64_t value)
{
    if (value != 0) {
        (void)buf_printf(out, " %s=%lld", name, (long long)value);
    }
}

void sim_options_print(const struct sim_options *options, struct buf *out)
{
    add(out, "nodes", options->node_count);
    add(out, "shards", options->shard_count);
    add(out, "databases", options->database_count);
    add(out, "queues", options->queue_count);
    add(out, "session_ms", options->session_timeout_ms);
    add(out, "window_ms", options->window_ms);
    add(out, "entries", options->entry_count_max);
    add(out, "faults_us", options->faults_us);
    add(out, "call_every_us", options->call_every_us);
    add(out, "keyed", options->keyed_permille);
    add(out, "cancel", options->cancel_permille);
    add(out, "update", options->update_permille);
    add(out, "get", options->get_permille);
    add(out, "near", options->near_permille);
    add(out, "far", options->far_permille);
    add(out, "burst", options->burst_permille);
    add(out, "large", options->large_permille);
    add(out, "store_us", options->store_us);
    add(out, "network_us", options->network_us);
    add(out, "coord_us", options->coord_us);
    add(out, "members_us", options->members_us);
    add(out, "turn_us", options->turn_us);
    add(out, "slow", options->slow_permille);
    add(out, "slow_us", options->slow_us);
    add(out, "drift_ppm", options->drift_ppm);
    add(out, "give_up", options->give_up_permille);
    add(out, "refuse", options->refuse_permille);
    add(out, "orphan_us", options->orphan_us);
    add(out, "database_down_every_us", options->database_down_every_us);
    add(out, "database_down_us", options->database_down_us);
    add(out, "coord_lost", options->coord_lost_permille);
    add(out, "expire_every_us", options->expire_every_us);
    add(out, "znode_lost_every_us", options->znode_lost_every_us);
    add(out, "cut_every_us", options->cut_every_us);
    add(out, "cut_us", options->cut_us);
    add(out, "coord_stop_every_us", options->coord_stop_every_us);
    add(out, "kill_every_us", options->kill_every_us);
    add(out, "down_us", options->down_us);
    add(out, "pause_every_us", options->pause_every_us);
    add(out, "pause_us", options->pause_us);
    add(out, "drain_every_us", options->drain_every_us);
    add(out, "one_gone", options->is_one_gone);
    add(out, "call_lost", options->call_lost_permille);
    add(out, "target_us", options->target_us);
    add(out, "target_retry", options->target_retry_permille);
    add(out, "target_dead", options->target_dead_permille);
    add(out, "target_never", options->target_never_permille);
    add(out, "target_late", options->target_late_permille);
    add(out, "target_slow_send", options->target_slow_send_permille);
    add(out, "target_full", options->target_full_permille);
}
