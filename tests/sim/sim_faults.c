/* SPDX-License-Identifier: Apache-2.0
 *
 * One event per kind of fault, planned anew each time it comes.
 */
#include "tests/sim/sim_faults.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_coord.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_standby.h"
#include "tests/sim/sim_store.h"

/* Steps of a clock: one that no claim's margin minds, and one that it does. */
#define STEP_LITTLE_US  (400 * US_PER_MS)
#define STEP_SECONDS_US (3 * US_PER_S)

/* A clock that is far behind is set right after about this. */
#define STEP_SEEN_US (4 * US_PER_S)

enum fault_kind {
    FAULT_KILL = 0,
    FAULT_PAUSE,
    FAULT_DRAIN,
    FAULT_EXPIRE,
    FAULT_CUT,
    FAULT_ZNODE,
    FAULT_DATABASE,
    FAULT_COORD,
    FAULT_TIMELINE,
    FAULT_STEP,
    FAULT_HIDE,
    FAULT_REBUILD,
    FAULT_PROMOTE,
    FAULT_COUNT
};

struct fault {
    struct sim_event event;
    struct sim_faults *faults;
    enum fault_kind kind;
    int64_t every_us;
};

/* The end of something that lasts. */
struct mend {
    struct sim_event event;
    struct sim_faults *faults;
    uint32_t number; /* of a node or a database */
    int64_t step_us; /* of a clock */
};

struct sim_faults {
    struct sim *sim;
    struct prng prng;
    struct fault faults[FAULT_COUNT];
    struct mend cuts[SIM_NODE_COUNT_MAX];
    struct mend databases[DATABASE_COUNT_MAX];
    struct mend clocks[DATABASE_COUNT_MAX];
    struct mend coord;
    struct mend rebuild;
};

/* A process that runs undisturbed, or NULL. */
static struct sim_node *pick_node(struct sim_faults *faults)
{
    struct sim *sim = faults->sim;
    struct sim_node *node = &sim->nodes[prng_below(&faults->prng, sim->options.node_count)];

    return node->is_up && !node->is_paused ? node : NULL;
}

static void kill_node(struct sim_faults *faults)
{
    struct sim *sim = faults->sim;
    struct sim_node *node = &sim->nodes[prng_below(&faults->prng, sim->options.node_count)];

    if (node->is_up) {
        sim_node_kill(node, sim_span(&faults->prng, sim->options.down_us));
    }
}

static void cut_node(struct sim_faults *faults)
{
    struct sim_node *node = pick_node(faults);
    struct mend *mend = node == NULL ? NULL : &faults->cuts[node->number];

    if (mend != NULL && !mend->event.is_planned) {
        sim_coord_cut(faults->sim->coord, node);
        sim_after(faults->sim, &mend->event, sim_span(&faults->prng, faults->sim->options.cut_us));
    }
}

static void down_database(struct sim_faults *faults)
{
    struct sim *sim = faults->sim;
    struct mend *mend = &faults->databases[prng_below(&faults->prng, sim->options.database_count)];

    if (!mend->event.is_planned) {
        sim_store_down(sim->store, mend->number);
        sim_after(sim, &mend->event, sim_span(&faults->prng, sim->options.database_down_us));
    }
}

/* A broker hears that a database has another timeline; nothing was lost with it. */
static void fail_over(struct sim_faults *faults, struct sim_node *node)
{
    struct sim *sim = faults->sim;
    uint32_t database = (uint32_t)prng_below(&faults->prng, sim->options.database_count);
    struct now now;

    TRACE(&sim->trace, "timeline", node->number, database);
    sim_node_now(node, &now);
    sim_enter_core(sim);
    broker_on_timeline(node->broker, &now, database);
    sim_leave_core(sim);
    sim_node_touch(node);
}

/* A database's server is lost, and its standby takes over at once or after a while. */
static void promote(struct sim_faults *faults)
{
    struct sim *sim = faults->sim;
    struct mend *mend = &faults->databases[prng_below(&faults->prng, sim->options.database_count)];
    bool is_quick = prng_chance(&faults->prng, 300);

    sim_standby_promote(sim->standby, mend->number,
                        prng_between(&faults->prng, 0, sim->options.standby_lag_us));
    if (!mend->event.is_planned && !is_quick) {
        sim_store_down(sim->store, mend->number);
        sim_after(sim, &mend->event, sim_span(&faults->prng, sim->options.database_down_us));
    }
}

/* How far: a little, some seconds, or as far as clocks go wrong. */
static int64_t draw_step(struct sim_faults *faults)
{
    int64_t most_us = faults->sim->options.clock_step_us;
    const int64_t bounds[] = {STEP_LITTLE_US, STEP_SECONDS_US, most_us};
    int64_t bound_us = bounds[prng_below(&faults->prng, ARRAY_COUNT(bounds))];

    return prng_between(&faults->prng, 1, time_min(bound_us, most_us));
}

/* A step forward is for good, and so is a little one back. One that is far back would hold the
 * brokers' clocks for as long, and nothing would happen: somebody sees it and sets it right. */
static void step_clock(struct sim_faults *faults)
{
    struct sim *sim = faults->sim;
    uint32_t database = (uint32_t)prng_below(&faults->prng, sim->options.database_count);
    struct mend *mend = &faults->clocks[database];
    int64_t step_us = draw_step(faults);

    if (prng_chance(&faults->prng, 500)) {
        sim_clock_step(sim, database, step_us);
    } else if (step_us <= STEP_LITTLE_US) {
        sim_clock_step(sim, database, -step_us);
    } else if (!mend->event.is_planned) {
        sim_clock_step(sim, database, -step_us);
        mend->step_us = step_us;
        sim_after(sim, &mend->event, sim_span(&faults->prng, STEP_SEEN_US));
    }
}

static void on_mend_clock(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    const struct mend *mend = CONTAINER_OF(event, struct mend, event);

    if (!is_dropped) {
        sim_clock_step(sim, mend->number, mend->step_us);
    }
}

/* Somebody is not told of somebody else from now on. */
static void hide_node(struct sim_faults *faults)
{
    struct sim *sim = faults->sim;
    uint32_t from = (uint32_t)prng_below(&faults->prng, sim->options.node_count);
    uint32_t whom = (uint32_t)prng_below(&faults->prng, sim->options.node_count);

    if (from != whom) {
        sim_coord_hide(sim->coord, &sim->nodes[from], &sim->nodes[whom]);
    }
}

/* ZooKeeper is lost; somebody sees to it a while later. */
static void rebuild(struct sim_faults *faults)
{
    if (!faults->rebuild.event.is_planned) {
        sim_coord_rebuild(faults->sim->coord);
        sim_after(faults->sim, &faults->rebuild.event,
                  sim_span(&faults->prng, faults->sim->options.cut_us));
    }
}

static void strike(struct sim_faults *faults, enum fault_kind kind)
{
    struct sim *sim = faults->sim;
    struct sim_node *node;

    switch (kind) {
    case FAULT_KILL:
        kill_node(faults);
        break;
    case FAULT_PAUSE:
        node = pick_node(faults);
        if (node != NULL) {
            sim_node_pause(node, sim_span(&faults->prng, sim->options.pause_us));
            node->is_stalled = prng_chance(&faults->prng, sim->options.stall_permille);
        }
        break;
    case FAULT_DRAIN:
        node = pick_node(faults);
        if (node != NULL) {
            sim_node_drain(node);
        }
        break;
    case FAULT_EXPIRE:
        node = pick_node(faults);
        if (node != NULL) {
            sim_coord_expire(sim->coord, node);
        }
        break;
    case FAULT_CUT:
        cut_node(faults);
        break;
    case FAULT_ZNODE:
        sim_coord_delete_owner(sim->coord,
                               (uint32_t)prng_below(&faults->prng, sim->options.shard_count));
        break;
    case FAULT_DATABASE:
        down_database(faults);
        break;
    case FAULT_COORD:
        if (!faults->coord.event.is_planned) {
            sim_coord_stop(sim->coord);
            sim_after(sim, &faults->coord.event, sim_span(&faults->prng, sim->options.cut_us));
        }
        break;
    case FAULT_TIMELINE:
        node = pick_node(faults);
        if (node != NULL) {
            fail_over(faults, node);
        }
        break;
    case FAULT_STEP:
        step_clock(faults);
        break;
    case FAULT_HIDE:
        hide_node(faults);
        break;
    case FAULT_REBUILD:
        rebuild(faults);
        break;
    case FAULT_PROMOTE:
        promote(faults);
        break;
    case FAULT_COUNT:
        UNREACHABLE();
    }
}

static void on_fault(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct fault *fault = CONTAINER_OF(event, struct fault, event);

    if (!is_dropped) {
        strike(fault->faults, fault->kind);
        sim_after(sim, event, sim_span(&fault->faults->prng, fault->every_us));
    }
}

static void on_mend_cut(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    const struct mend *mend = CONTAINER_OF(event, struct mend, event);

    if (!is_dropped) {
        sim_coord_mend(sim->coord, &sim->nodes[mend->number]);
    }
}

static void on_mend_database(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    const struct mend *mend = CONTAINER_OF(event, struct mend, event);

    if (!is_dropped) {
        sim_store_up(sim->store, mend->number);
    }
}

static void on_mend_coord(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    (void)event;
    if (!is_dropped) {
        sim_coord_start(sim->coord);
    }
}

static void on_mend_rebuild(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    (void)event;
    if (!is_dropped) {
        sim_coord_adopt(sim->coord);
    }
}

struct sim_faults *sim_faults_new(struct sim *sim)
{
    struct sim_faults *faults = sim_need(1, sizeof(*faults));
    const struct sim_options *options = &sim->options;
    const int64_t every_us[FAULT_COUNT] = {
        [FAULT_KILL] = options->kill_every_us,
        [FAULT_PAUSE] = options->pause_every_us,
        [FAULT_DRAIN] = options->drain_every_us,
        [FAULT_EXPIRE] = options->expire_every_us,
        [FAULT_CUT] = options->cut_every_us,
        [FAULT_ZNODE] = options->znode_lost_every_us,
        [FAULT_DATABASE] = options->database_down_every_us,
        [FAULT_COORD] = options->coord_stop_every_us,
        [FAULT_TIMELINE] = options->timeline_every_us,
        [FAULT_STEP] = options->clock_step_every_us,
        [FAULT_HIDE] = options->hide_every_us,
        [FAULT_REBUILD] = options->rebuild_every_us,
        [FAULT_PROMOTE] = options->promote_every_us,
    };

    faults->sim = sim;
    prng_init_named(&faults->prng, options->seed, "faults");
    for (uint32_t i = 0; i < FAULT_COUNT; i++) {
        faults->faults[i] = (struct fault){.event = {.fire = on_fault},
                                           .faults = faults,
                                           .kind = (enum fault_kind)i,
                                           .every_us = every_us[i]};
    }
    for (uint32_t i = 0; i < SIM_NODE_COUNT_MAX; i++) {
        faults->cuts[i] = (struct mend){{.fire = on_mend_cut}, faults, i, 0};
    }
    faults->coord = (struct mend){{.fire = on_mend_coord}, faults, 0, 0};
    faults->rebuild = (struct mend){{.fire = on_mend_rebuild}, faults, 0, 0};
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        faults->databases[i] = (struct mend){{.fire = on_mend_database}, faults, i, 0};
        faults->clocks[i] = (struct mend){{.fire = on_mend_clock}, faults, i, 0};
    }
    return faults;
}

void sim_faults_start(struct sim_faults *faults)
{
    for (uint32_t i = 0; i < FAULT_COUNT; i++) {
        struct fault *fault = &faults->faults[i];

        if (fault->every_us > 0) {
            sim_after(faults->sim, &fault->event, sim_span(&faults->prng, fault->every_us));
        }
    }
}

void sim_faults_heal(struct sim_faults *faults)
{
    struct sim *sim = faults->sim;

    for (uint32_t i = 0; i < FAULT_COUNT; i++) {
        sim_cancel(sim, &faults->faults[i].event);
    }
    sim_cancel(sim, &faults->coord.event);
    sim_coord_start(sim->coord);
    if (faults->rebuild.event.is_planned) {
        sim_cancel(sim, &faults->rebuild.event);
        sim_coord_adopt(sim->coord);
    }
    for (uint32_t i = 0; i < sim->options.database_count; i++) {
        sim_cancel(sim, &faults->databases[i].event);
        if (faults->clocks[i].event.is_planned) {
            sim_cancel(sim, &faults->clocks[i].event);
            sim_clock_step(sim, i, faults->clocks[i].step_us);
        }
        sim_store_up(sim->store, i);
    }
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        struct sim_node *node = &sim->nodes[i];

        sim_cancel(sim, &faults->cuts[i].event);
        if (node->is_up && (node->is_draining || (i == 0 && sim->options.is_one_gone))) {
            sim_node_kill(node, 0);
        }
        if (i == 0 && sim->options.is_one_gone) {
            sim_cancel(sim, &node->change);
        } else if (!node->is_up) {
            sim_cancel(sim, &node->change);
            sim_node_start(node);
        } else if (node->is_paused) {
            sim_node_resume(node);
        }
        sim_coord_mend(sim->coord, node);
    }
}

void sim_faults_free(struct sim_faults *faults)
{
    mem_free(faults);
}
