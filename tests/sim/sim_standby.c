/* SPDX-License-Identifier: Apache-2.0
 *
 * When each commit reaches the standby, and what a promotion takes along.
 */
#include "tests/sim/sim_standby.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/sim_store.h"

/* What is too old to be lost is brought over this often. */
#define BRING_US (US_PER_S / 2)

/* A commit that the standby does not have. */
struct commit {
    struct list link;
    uint64_t number;
    int64_t at; /* true time */
};

struct sim_standby {
    struct sim *sim;
    struct sim_event event;
    struct list commits[DATABASE_COUNT_MAX];
    bool is_over; /* no promotion follows */
};

/* The standby has everything that was committed before a time. */
static void bring(struct sim_standby *standby, uint32_t database, int64_t until)
{
    uint64_t number = 0;

    list_foreach_safe (link, after, &standby->commits[database]) {
        struct commit *commit = CONTAINER_OF(link, struct commit, link);

        if (commit->at > until) {
            break;
        }
        number = commit->number;
        list_del(link);
        mem_free(commit);
    }
    if (number != 0) {
        store_mem_replicate(standby->sim->mem, database, number);
        check_on_replicated(standby->sim->check, database, number);
    }
}

static void on_bring(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_standby *standby = CONTAINER_OF(event, struct sim_standby, event);

    if (is_dropped) {
        return;
    }
    for (uint32_t i = 0; i < sim->options.database_count; i++) {
        bring(standby, i, sim->now - (standby->is_over ? 0 : sim->options.standby_lag_us));
    }
    sim_after(sim, event, BRING_US);
}

void sim_standby_start(struct sim_standby *standby)
{
    sim_after(standby->sim, &standby->event, BRING_US);
}

void sim_standby_on_commit(struct sim_standby *standby, const struct store_mem_commit *commit)
{
    struct commit *added;

    if (commit->number == 0) {
        return;
    }
    added = sim_need(1, sizeof(*added));
    added->number = commit->number;
    added->at = standby->sim->now;
    list_add(&standby->commits[commit->database], &added->link);
}

static void forget(struct sim_standby *standby, uint32_t database)
{
    struct list *link;

    while ((link = list_take_first(&standby->commits[database])) != NULL) {
        mem_free(CONTAINER_OF(link, struct commit, link));
    }
}

void sim_standby_promote(struct sim_standby *standby, uint32_t database, int64_t lost_us)
{
    struct sim *sim = standby->sim;
    uint64_t number;

    bring(standby, database, sim->now - time_min(lost_us, sim->options.standby_lag_us));
    forget(standby, database);
    number = sim_store_promote(sim->store, database);
    TRACE(&sim->trace, "promote", database, lost_us, (int64_t)number);
    check_on_promote(sim->check, database, number);
}

void sim_standby_heal(struct sim_standby *standby)
{
    standby->is_over = true;
}

struct sim_standby *sim_standby_new(struct sim *sim)
{
    struct sim_standby *standby = sim_need(1, sizeof(*standby));

    standby->sim = sim;
    standby->event = (struct sim_event){.fire = on_bring};
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        list_init(&standby->commits[i]);
    }
    return standby;
}

void sim_standby_free(struct sim_standby *standby)
{
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        forget(standby, i);
    }
    mem_free(standby);
}
