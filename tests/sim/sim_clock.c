/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of the databases' clocks, and who has heard of them.
 */
#include "tests/sim/sim_clock.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"

/* The databases' clocks start about here: 2026. */
#define CLOCK_START_US INT64_C(1767225600000000)

#define PPM INT64_C(1000000)

/* What was known before a reply is displaced after this: the estimate's window, and a bucket. */
#define DISPLACED_US (CLOCK_WINDOW_US + 2 * CLOCK_BUCKET_US)

#define EVERYBODY UINT32_MAX

struct clock_step {
    int64_t at; /* true time */
    int64_t step_us;
    uint32_t node; /* whose boot clock stood still; EVERYBODY: the database's clock has stepped */
};

struct database_clock {
    int32_t drift_ppm;
    int64_t offset_us;  /* all steps */
    int64_t highest_us; /* before the last step */
    int64_t left_us;    /* believed by processes that are gone: what they wrote may still commit */
    struct clock_step *steps;
    size_t step_count;
};

/* What one node knows of one clock. */
struct view {
    int64_t seen_at;    /* true time: steps before it are known */
    int64_t covered_at; /* steps forward before it are in the upper bound */
    int64_t next_at;    /* executed: will be seen_at … */
    int64_t next_from;  /* … DISPLACED_US after this true time, if that is not 0 */
    int64_t latest_us;  /* highest that was rightly believed; it holds */
};

struct sim_clocks {
    struct sim *sim;
    struct database_clock databases[DATABASE_COUNT_MAX];
    struct view views[SIM_NODE_COUNT_MAX][DATABASE_COUNT_MAX];
};

/* What a clock shows of a span of true time. */
static int64_t ticked(const struct database_clock *clock, int64_t span_us)
{
    return span_us + span_us / PPM * clock->drift_ppm + span_us % PPM * clock->drift_ppm / PPM;
}

int64_t sim_clock(const struct sim *sim, uint32_t database)
{
    const struct database_clock *clock = &sim->clocks->databases[database];

    return CLOCK_START_US + (int64_t)database * 3 * US_PER_S + clock->offset_us +
           ticked(clock, sim->now);
}

int64_t sim_clock_highest(const struct sim *sim, uint32_t database)
{
    return time_max(sim->clocks->databases[database].highest_us, sim_clock(sim, database));
}

static void note_step(struct sim *sim, uint32_t database, int64_t step_us, uint32_t node)
{
    struct database_clock *clock = &sim->clocks->databases[database];

    clock->steps = mem_resize(clock->steps, (clock->step_count + 1) * sizeof(*clock->steps));
    REQUIRE(clock->steps != NULL);
    clock->steps[clock->step_count++] = (struct clock_step){sim->now, step_us, node};
}

void sim_clock_step(struct sim *sim, uint32_t database, int64_t step_us)
{
    // What was rightly believed until now may be held from now on.
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        (void)sim_clock_latest(sim, i, database);
    }
    sim->clocks->databases[database].highest_us = sim_clock_highest(sim, database);
    TRACE(&sim->trace, "clock-step", (int64_t)database, step_us);
    note_step(sim, database, step_us, EVERYBODY);
    sim->clocks->databases[database].offset_us += step_us;
}

void sim_clock_stall(struct sim *sim, uint32_t node, int64_t since)
{
    for (uint32_t i = 0; i < sim->options.database_count; i++) {
        note_step(sim, i, ticked(&sim->clocks->databases[i], sim->now - since), node);
        // The estimate ages by the boot clock: to that, what it has is as young as before.
        sim->clocks->views[node][i].next_from = 0;
    }
}

static bool concerns(const struct clock_step *step, uint32_t node)
{
    return step->node == EVERYBODY || step->node == node;
}

int64_t sim_clock_forward(const struct sim *sim, uint32_t node, uint32_t database, int64_t since)
{
    const struct database_clock *clock = &sim->clocks->databases[database];
    int64_t sum = 0;

    for (size_t i = clock->step_count; i > 0 && clock->steps[i - 1].at >= since; i--) {
        if (concerns(&clock->steps[i - 1], node)) {
            sum += time_max(clock->steps[i - 1].step_us, 0);
        }
    }
    return sum;
}

/* The clock, and what it would be had it not made the last step that is news to the node, the last
 * two, and so on: the lowest or the highest of them. */
static int64_t believed(const struct sim *sim, uint32_t node, uint32_t database, int64_t since,
                        bool is_highest)
{
    const struct database_clock *clock = &sim->clocks->databases[database];
    int64_t us = sim_clock(sim, database);
    int64_t found = us;

    for (size_t i = clock->step_count; i > 0 && clock->steps[i - 1].at >= since; i--) {
        if (concerns(&clock->steps[i - 1], node)) {
            us -= clock->steps[i - 1].step_us;
            found = is_highest ? time_max(found, us) : time_min(found, us);
        }
    }
    return found;
}

void sim_clock_forget(struct sim *sim, uint32_t node)
{
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        int64_t *left_us = &sim->clocks->databases[i].left_us;

        *left_us = time_max(*left_us, sim->clocks->views[node][i].latest_us);
        sim->clocks->views[node][i] =
            (struct view){.seen_at = sim->now, .covered_at = sim->now, .latest_us = INT64_MIN};
    }
}

/* The last reply but one has aged out of the estimate. */
static void age(const struct sim *sim, struct view *view)
{
    if (view->next_from != 0 && sim->now - view->next_from >= DISPLACED_US) {
        view->seen_at = time_max(view->seen_at, view->next_at);
        view->covered_at = time_max(view->covered_at, view->next_at);
        view->next_from = 0;
    }
}

void sim_clock_heard(struct sim *sim, uint32_t node, uint32_t database, int64_t executed_at,
                     enum clock_verdict verdict)
{
    struct view *view = &sim->clocks->views[node][database];

    (void)sim_clock_latest(sim, node, database);
    switch (verdict) {
    case CLOCK_IGNORED:
        return;
    case CLOCK_STEP_PENDING:
        view->covered_at = executed_at;
        return;
    case CLOCK_STEP_FORWARD:
    case CLOCK_STEP_BACKWARD:
        // Everything older is forgotten.
        view->seen_at = executed_at;
        view->covered_at = executed_at;
        view->next_from = 0;
        return;
    case CLOCK_TAKEN:
        break;
    }
    // It agrees with what is known; what it says counts beside that. One that was long on its way
    // may bring back what was forgotten.
    view->seen_at = time_min(view->seen_at, executed_at);
    view->covered_at = time_min(view->covered_at, executed_at);
    if (view->next_from == 0) {
        view->next_at = executed_at;
        view->next_from = sim->now;
    } else {
        view->next_at = time_min(view->next_at, executed_at);
    }
}

int64_t sim_clock_latest(struct sim *sim, uint32_t node, uint32_t database)
{
    struct view *view = &sim->clocks->views[node][database];

    age(sim, view);
    view->latest_us = time_max(view->latest_us, believed(sim, node, database, view->seen_at, true));
    return view->latest_us;
}

int64_t sim_clock_earliest(const struct sim *sim, uint32_t node, uint32_t database)
{
    struct view *view = &sim->clocks->views[node][database];

    age(sim, view);
    return believed(sim, node, database, view->covered_at, false);
}

int64_t sim_clock_latest_of_all(struct sim *sim, uint32_t database)
{
    int64_t latest = time_max(sim_clock(sim, database), sim->clocks->databases[database].left_us);

    for (uint32_t i = 0;
         sim->clocks->databases[database].step_count > 0 && i < sim->options.node_count; i++) {
        latest = time_max(latest, sim_clock_latest(sim, i, database));
    }
    return latest;
}

struct sim_clocks *sim_clocks_new(struct sim *sim)
{
    struct sim_clocks *clocks = sim_need(1, sizeof(*clocks));
    int32_t drift_ppm = sim->options.database_drift_ppm;
    struct prng prng;

    clocks->sim = sim;
    prng_init_named(&prng, sim->options.seed, "clocks");
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        clocks->databases[i].drift_ppm = (int32_t)prng_between(&prng, -drift_ppm, drift_ppm);
    }
    return clocks;
}

void sim_clocks_free(struct sim_clocks *clocks)
{
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        mem_free(clocks->databases[i].steps);
    }
    mem_free(clocks);
}
