/* SPDX-License-Identifier: Apache-2.0
 *
 * Options from a seed. Each group of faults is off in a third of all runs and severe in another, so
 * that faults are seen alone as well as together.
 */
#include "tests/sim/sim_options.h"

#include "broker/core/broker.h"
#include "lib/base/check.h"
#include "lib/base/prng.h"

#include <stddef.h>
#include <string.h>

#define MINUTE_US (60 * US_PER_S)
#define HOUR_US   (60 * MINUTE_US)

/* Name, and the promises as which it may be caught: the one that it breaks, or where that comes out
 * in several ways, those. */
static const struct {
    const char *name;
    const char *checkers;
} MUTANTS[SIM_MUTANT_COUNT] = {
    [SIM_MUTANT_NONE] = {"none", ""},
    [SIM_MUTANT_FENCE] = {"fence", "K-5"},
    [SIM_MUTANT_CLOCK] = {"clock", "K-4"},
    [SIM_MUTANT_START_BY] = {"start-by", "K-6"},
    [SIM_MUTANT_GENERATION] = {"generation", "K-7 audit"},
    [SIM_MUTANT_UNKNOWN] = {"unknown", "K-1 K-2 K-3 K-6 K-8"},
    [SIM_MUTANT_LOST_WRITE] = {"lost-write", "K-1 K-2 K-6 K-7 audit"},
    [SIM_MUTANT_SEND_TWICE] = {"send-twice", "K-2"},
    [SIM_MUTANT_OUTCOME] = {"outcome", "K-1"},
    [SIM_MUTANT_CLAIMS] = {"claims", "K-2 K-6"},
    [SIM_MUTANT_SLICE] = {"slice", "K-7 audit"},
    [SIM_MUTANT_MEMBERS] = {"members", "K-7 audit"},
    [SIM_MUTANT_KEY_SHARE] = {"key-share", "K-5"},
    [SIM_MUTANT_EPOCH] = {"epoch", "K-3 K-5"},
    [SIM_MUTANT_WIRE_LOSE] = {"wire-lose", "wire N-2 K-8"},
    [SIM_MUTANT_WIRE_TWICE] = {"wire-twice", "wire N-2 K-8 assert"},
    [SIM_MUTANT_WIRE_EARLY] = {"wire-early", "K-8"},
    [SIM_MUTANT_WIRE_PROOF] = {"wire-proof", "K-8"},
    [SIM_MUTANT_WIRE_DELIVER] = {"wire-deliver", "wire"},
};

const char *sim_mutant_name(enum sim_mutant mutant)
{
    REQUIRE(mutant < SIM_MUTANT_COUNT);
    return MUTANTS[mutant].name;
}

const char *sim_mutant_checkers(enum sim_mutant mutant)
{
    REQUIRE(mutant < SIM_MUTANT_COUNT);
    return MUTANTS[mutant].checkers;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a narrow option is its lowest bytes");

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
        .room = 2000,
        .store_us = 500,
        .network_us = 200,
        .coord_us = 1000,
        .members_us = 5000,
        .turn_us = 100,
        .target_us = 2000,
        .wire_buffer = 100000,
        .wire_streams = 1000,
        .wire_target_streams = 1000,
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
    options->expire_permille = (uint32_t)PICK(prng, 0, 50, 300);
    options->redrive_permille = (uint32_t)PICK(prng, 0, 20, 100);
}

static void draw_delays(struct sim_options *options, struct prng *prng)
{
    options->store_us = PICK(prng, 200, 1000, 5000, 20000);
    options->network_us = PICK(prng, 100, 1000, 10000);
    options->coord_us = PICK(prng, 500, 2000, 20000);
    options->members_us = PICK(prng, 5000, 100000, 2000000);
    options->turn_us = PICK(prng, 0, 200, 200, 5000, 5000, 200000);
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
    options->clock_step_every_us = prng_chance(prng, 200) ? every(prng, 2 * MINUTE_US) : 0;
    options->timeline_every_us = every(prng, 2 * MINUTE_US);
    options->no_room_permille = share(prng, 2);
    options->no_memory_permille = prng_chance(prng, 300) ? share(prng, 1) : 0;
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

/* Each option by name: where it is and how wide. */
static const struct option {
    const char *name;
    size_t offset;
    size_t size;
} OPTIONS[] = {
#define OPTION(name, field)                                                                      \
    {                                                                                            \
        (name), offsetof(struct sim_options, field), sizeof(((struct sim_options *)NULL)->field) \
    }
    OPTION("nodes", node_count),
    OPTION("late", late_count),
    OPTION("shards", shard_count),
    OPTION("databases", database_count),
    OPTION("queues", queue_count),
    OPTION("session_ms", session_timeout_ms),
    OPTION("window_ms", window_ms),
    OPTION("entries", entry_count_max),
    OPTION("audit_ms", audit_ms),
    OPTION("batch_ops", batch_op_max),
    OPTION("waiting_ops", waiting_op_max),
    OPTION("retry_us", retry_us),
    OPTION("split_ops", split_op_min),
    OPTION("settle_wait_us", settle_wait_us),
    OPTION("claim_wait_us", claim_wait_us),
    OPTION("faults_us", faults_us),
    OPTION("call_every_us", call_every_us),
    OPTION("keyed", keyed_permille),
    OPTION("cancel", cancel_permille),
    OPTION("update", update_permille),
    OPTION("get", get_permille),
    OPTION("near", near_permille),
    OPTION("far", far_permille),
    OPTION("burst", burst_permille),
    OPTION("large", large_permille),
    OPTION("order", order_permille),
    OPTION("order_keys", order_count),
    OPTION("room", room),
    OPTION("room_every_us", room_every_us),
    OPTION("store_us", store_us),
    OPTION("network_us", network_us),
    OPTION("coord_us", coord_us),
    OPTION("members_us", members_us),
    OPTION("turn_us", turn_us),
    OPTION("slow", slow_permille),
    OPTION("slow_us", slow_us),
    OPTION("drift_ppm", drift_ppm),
    OPTION("database_drift_ppm", database_drift_ppm),
    OPTION("wall_us", wall_us),
    OPTION("give_up", give_up_permille),
    OPTION("refuse", refuse_permille),
    OPTION("short", short_permille),
    OPTION("orphan_us", orphan_us),
    OPTION("database_down_every_us", database_down_every_us),
    OPTION("database_down_us", database_down_us),
    OPTION("clock_step_every_us", clock_step_every_us),
    OPTION("clock_step_us", clock_step_us),
    OPTION("timeline_every_us", timeline_every_us),
    OPTION("promote_every_us", promote_every_us),
    OPTION("standby_lag_us", standby_lag_us),
    OPTION("no_room", no_room_permille),
    OPTION("no_memory", no_memory_permille),
    OPTION("coord_lost", coord_lost_permille),
    OPTION("coord_lag_us", coord_lag_us),
    OPTION("hear", hear_permille),
    OPTION("hide_every_us", hide_every_us),
    OPTION("rebuild_every_us", rebuild_every_us),
    OPTION("expire_every_us", expire_every_us),
    OPTION("znode_lost_every_us", znode_lost_every_us),
    OPTION("cut_every_us", cut_every_us),
    OPTION("cut_us", cut_us),
    OPTION("coord_stop_every_us", coord_stop_every_us),
    OPTION("kill_every_us", kill_every_us),
    OPTION("down_us", down_us),
    OPTION("pause_every_us", pause_every_us),
    OPTION("pause_us", pause_us),
    OPTION("stall", stall_permille),
    OPTION("drain_every_us", drain_every_us),
    OPTION("one_gone", is_one_gone),
    OPTION("call_lost", call_lost_permille),
    OPTION("link_twice", link_twice_permille),
    OPTION("link_late", link_late_permille),
    OPTION("link_cut_every_us", link_cut_every_us),
    OPTION("swizzle_every_us", swizzle_every_us),
    OPTION("target_us", target_us),
    OPTION("target_retry", target_retry_permille),
    OPTION("target_dead", target_dead_permille),
    OPTION("target_never", target_never_permille),
    OPTION("target_late", target_late_permille),
    OPTION("target_slow_send", target_slow_send_permille),
    OPTION("target_full", target_full_permille),
    OPTION("rumour", rumour_permille),
    OPTION("read_every_us", read_every_us),
    OPTION("wire_chop", wire_chop_permille),
    OPTION("wire_buffer", wire_buffer),
    OPTION("wire_streams", wire_streams),
    OPTION("wire_target_streams", wire_target_streams),
    OPTION("wire_age_ms", wire_age_ms),
    OPTION("wire_cut_every_us", wire_cut_every_us),
    OPTION("wire_half_every_us", wire_half_every_us),
    OPTION("wire_still_every_us", wire_still_every_us),
    OPTION("wire_still_us", wire_still_us),
    OPTION("wire_restart_every_us", wire_restart_every_us),
    OPTION("policy_every_us", policy_every_us),
#undef OPTION
};

static int64_t get(const struct sim_options *options, const struct option *option)
{
    const char *place = (const char *)options + option->offset;
    int64_t wide = 0;
    int32_t narrow = 0;

    if (option->size == sizeof(wide)) {
        memcpy(&wide, place, sizeof(wide));
        return wide;
    }
    memcpy(&narrow, place, option->size); // A bool is one byte of it.
    return narrow;
}

static void set(struct sim_options *options, const struct option *option, int64_t value)
{
    char *place = (char *)options + option->offset;
    int32_t narrow = (int32_t)value;

    if (option->size == sizeof(value)) {
        memcpy(place, &value, sizeof(value));
    } else {
        memcpy(place, &narrow, option->size);
    }
}

size_t sim_options_count(void)
{
    return ARRAY_COUNT(OPTIONS);
}

const char *sim_options_name(size_t option)
{
    REQUIRE(option < ARRAY_COUNT(OPTIONS));
    return OPTIONS[option].name;
}

int64_t sim_options_get(const struct sim_options *options, size_t option)
{
    REQUIRE(option < ARRAY_COUNT(OPTIONS));
    return get(options, &OPTIONS[option]);
}

size_t sim_options_find(const char *name)
{
    size_t option = 0;

    while (strcmp(sim_options_name(option), name) != 0) {
        option++;
    }
    return option;
}

bool sim_options_set(struct sim_options *options, const char *name, size_t name_len, int64_t value)
{
    for (size_t i = 0; i < ARRAY_COUNT(OPTIONS); i++) {
        if (strlen(OPTIONS[i].name) == name_len && memcmp(OPTIONS[i].name, name, name_len) == 0) {
            set(options, &OPTIONS[i], value);
            return true;
        }
    }
    return false;
}

/* One thing that is far beyond anything sane. */
static void draw_storm(struct sim_options *options, struct prng *prng)
{
    static const struct {
        const char *name;
        int64_t value;
    } STORMS[] = {
        {"give_up", 40},
        {"refuse", 150},
        {"slow", 60},
        {"target_never", 300},
        {"members_us", 5 * US_PER_S},
        {"turn_us", US_PER_S / 2},
        {"kill_every_us", 4 * US_PER_S},
        {"pause_every_us", 4 * US_PER_S},
        {"coord_lost", 200},
        {"expire_every_us", 3 * US_PER_S},
        {"timeline_every_us", 3 * US_PER_S},
        {"drain_every_us", 5 * US_PER_S},
        {"znode_lost_every_us", US_PER_S},
        {"no_memory", 50},
        {"no_room", 100},
    };
    size_t i = prng_below(prng, ARRAY_COUNT(STORMS));

    if (prng_chance(prng, 200)) {
        (void)sim_options_set(options, STORMS[i].name, strlen(STORMS[i].name), STORMS[i].value);
    }
}

/* Queues that cannot keep up, and pages that end where the store likes. */
static void draw_room(struct sim_options *options, struct prng *prng)
{
    options->room = (uint32_t)PICK(prng, 0, 3, 20, 300, 2000);
    options->room_every_us = every(prng, MINUTE_US / 2);
    options->short_permille = (uint32_t)PICK(prng, 0, 0, 300);
    if (prng_chance(prng, 250)) { // One that is blocked for long, beside others that are busy.
        options->room = (uint32_t)PICK(prng, 0, 1);
        options->queue_count = 3;
        options->call_every_us = 5000;
        options->entry_count_max = (uint32_t)PICK(prng, 2100, 5000);
    }
}

/* Order keys: from a stream of their own, for they came later than the others. */
static void draw_order(struct sim_options *options)
{
    struct prng prng;

    prng_init_named(&prng, options->seed, "order-options");
    options->order_permille = (uint32_t)PICK(&prng, 0, 0, 100, 500);
    options->order_count = (uint32_t)PICK(&prng, 3, 30, 300);
}

/* Limits of brokers, most often those of a server: a stream of its own. */
static void draw_limits(struct sim_options *options)
{
    struct prng prng;

    prng_init_named(&prng, options->seed, "limits");
    // With 16 a database that takes 20 ms for each commit does not keep up with 200 calls a second,
    // and shards that wait for their writes are handed over late.
    options->batch_op_max = (uint32_t)PICK(&prng, 0, 0, 0, 64, 300);
    options->waiting_op_max = (uint32_t)PICK(&prng, 0, 0, 0, 64, 512);
    options->retry_us = PICK(&prng, 0, 0, 0, 10000, 400000);
    options->settle_wait_us =
        PICK(&prng, BROKER_SETTLE_WAIT_US, BROKER_SETTLE_WAIT_US, BROKER_SETTLE_WAIT_US, 0, 400000);
    options->claim_wait_us =
        PICK(&prng, BROKER_CLAIM_WAIT_US, BROKER_CLAIM_WAIT_US, BROKER_CLAIM_WAIT_US, 0, 50000);
}

/* What the coordinator and the links do besides: a stream of its own. */
static void draw_links(struct sim_options *options, uint64_t seed)
{
    struct prng prng;

    prng_init_named(&prng, seed, "options of links");
    options->coord_lag_us = PICK(&prng, 0, 0, 200000, 3000000);
    options->hear_permille = share(&prng, 20);
    options->hide_every_us = every(&prng, MINUTE_US);
    options->link_twice_permille = share(&prng, 10);
    options->link_late_permille = share(&prng, 10);
    options->link_cut_every_us = every(&prng, MINUTE_US);
    options->swizzle_every_us = every(&prng, 2 * MINUTE_US);
    options->rebuild_every_us = prng_chance(&prng, 150) ? every(&prng, 2 * MINUTE_US) : 0;
    if (prng_chance(&prng, 200)) {
        options->node_count = (uint32_t)prng_between(&prng, 1, SIM_NODE_COUNT_MAX);
        options->is_one_gone = options->is_one_gone && options->node_count > 1;
    }
    if (prng_chance(&prng, 300)) {
        options->late_count = (uint32_t)prng_below(&prng, options->node_count);
    }
}

/* Faults of the databases that came later: draws of their own, so that those before them stay. */
static void draw_databases(struct sim_options *options, uint64_t seed)
{
    struct prng prng;

    prng_init_named(&prng, seed, "databases");
    options->promote_every_us = every(&prng, 2 * MINUTE_US);
    if (options->rebuild_every_us > 0) {
        options->promote_every_us = 0; // Both lose their memory: nobody knows what was given.
    }
    options->standby_lag_us = PICK(&prng, 50000, 1000000, 5000000);
    options->clock_step_every_us = every(&prng, MINUTE_US);
    options->clock_step_us = PICK(&prng, 400000, 3 * US_PER_S, HOUR_US, 24 * HOUR_US);
    options->drift_ppm = (int32_t)PICK(&prng, options->drift_ppm, 500);
    options->database_drift_ppm = (int32_t)PICK(&prng, 0, 50, 500);
    options->wall_us = PICK(&prng, 0, HOUR_US, 24 * HOUR_US);
    options->stall_permille = share(&prng, 100);
}

void sim_options_mutate(struct sim_options *options, enum sim_mutant mutant)
{
    options->mutant = mutant;
    if (mutant == SIM_MUTANT_EPOCH) {
        options->promote_every_us = 10 * US_PER_S;
        options->standby_lag_us = 5 * US_PER_S;
    }
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
    draw_storm(options, &prng);
    draw_room(options, &prng);
    draw_links(options, seed);
    prng_init_named(&prng, seed, "rumour options");
    options->rumour_permille = share(&prng, 20);
    draw_databases(options, seed);
    prng_init_named(&prng, seed, "reader options");
    options->read_every_us = PICK(&prng, 0, 50000, 200000, 1000000);
    prng_init_named(&prng, seed, "policy options");
    options->policy_every_us = PICK(&prng, 0, 0, 2000000, 20000000);
    draw_order(options);
    draw_limits(options);
    prng_init_named(&prng, seed, "split options");
    options->split_op_min = (uint32_t)PICK(&prng, 0, 2, 16, 64);
    prng_init_named(&prng, seed, "auditor options");
    options->audit_ms = PICK(&prng, 0, 2000);
}

void sim_options_draw_wire(struct sim_options *options)
{
    struct prng prng;

    prng_init_named(&prng, options->seed, "wire");
    options->wire_chop_permille = (uint32_t)PICK(&prng, 0, 50, 500, 1000);
    options->wire_buffer = (uint32_t)PICK(&prng, 3000, 20000, 100000, 1000000);
    options->wire_streams = (uint32_t)PICK(&prng, 1, 5, 100, 1000);
    options->wire_target_streams = (uint32_t)PICK(&prng, 10, 100, 1000);
    options->wire_age_ms = PICK(&prng, 0, 2000, 20000);
    options->wire_cut_every_us = every(&prng, 10 * US_PER_S);
    options->wire_half_every_us = every(&prng, 20 * US_PER_S);
    options->wire_still_every_us = every(&prng, 10 * US_PER_S);
    options->wire_still_us = PICK(&prng, 100000, 2000000, 20000000);
    options->wire_restart_every_us = every(&prng, MINUTE_US);
}

void sim_options_print(const struct sim_options *options, struct buf *out)
{
    for (size_t i = 0; i < ARRAY_COUNT(OPTIONS); i++) {
        int64_t value = get(options, &OPTIONS[i]);

        if (value != 0) {
            (void)buf_printf(out, " %s=%lld", OPTIONS[i].name, (long long)value);
        }
    }
}
