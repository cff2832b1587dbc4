/* SPDX-License-Identifier: Apache-2.0
 *
 * Outcomes that are told, and rumours.
 */
#include "tests/sim/sim_report.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/sim_node.h"

/* Times that an outcome for another broker is told. */
#define TELL_MAX 5

#define TELL_AGAIN_US (100 * US_PER_MS)

/* A rumour takes up to this. */
#define RUMOUR_US (20 * US_PER_S)

/* An outcome on its way to the broker that owns the shard by now. */
struct telling {
    struct sim_event event;
    struct sim_node *node;
    struct sim_node *waits_at; /* where it is counted; NULL: nowhere */
    uint32_t from;             /* whose attempt it was */
    struct report report;
    uint32_t tries;
    bool is_owed; /* by the process that it waits at, which does not leave before */
};

/* It waits at a process from now on; NULL: at none. */
static void wait_at(struct telling *telling, struct sim_node *node)
{
    if (telling->waits_at != NULL) {
        telling->waits_at->tellings--;
    }
    telling->waits_at = telling->is_owed ? node : NULL;
    if (telling->waits_at != NULL) {
        node->tellings++;
    }
}

static void on_tell(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct telling *telling = CONTAINER_OF(event, struct telling, event);
    struct sim_node *node = telling->node;
    const char *address = NULL;
    struct now now;
    int result;

    wait_at(telling, NULL);
    if (is_dropped || telling->tries++ == TELL_MAX) {
        mem_free(telling);
        return;
    }
    if (!sim_link_is_whole(sim->links, telling->from, SIM_END_NODE(node->number))) {
        wait_at(telling, event->host);
        sim_after(sim, event, TELL_AGAIN_US);
        return;
    }
    sim_node_now(node, &now);
    sim_enter_core(sim);
    result = broker_on_report(node->broker, &now, &telling->report);
    sim_leave_core(sim);
    TRACE(&sim->trace, "told", node->number, telling->report.shard, telling->report.id.seq,
          telling->report.attempt, result);
    if (result == 0) {
        check_told(sim->check, node, &telling->report);
    } else if (result == ERR_NOT_FOUND) {
        check_refused(sim->check, node, &telling->report);
    }
    sim_node_touch(node);
    if (result != ERR_UNAVAILABLE && result != ERR_FENCED &&
        !prng_chance(&node->target.prng, 100)) { // Some are told twice.
        mem_free(telling);
        return;
    }
    if (broker_route(node->broker, telling->report.shard, &address) == ROUTE_OTHER) {
        struct sim_node *other = sim_node_find(sim, address);

        telling->node = other != NULL && other->is_up ? other : node;
    }
    telling->event.host = telling->node;
    wait_at(telling, telling->node);
    sim_after(sim, event, TELL_AGAIN_US);
}

static void tell(struct sim_node *node, const struct report *report, int64_t span_us, bool is_owed)
{
    struct telling *telling = sim_need(1, sizeof(*telling));

    telling->event = (struct sim_event){.fire = on_tell, .host = node};
    telling->node = node;
    telling->from = SIM_END_NODE(node->number);
    telling->report = *report;
    telling->report.error_text = (struct slice){(const uint8_t *)"told", 4};
    telling->report.response = slice_of(report->outcome == OUTCOME_DONE ? "well" : "");
    telling->is_owed = is_owed;
    wait_at(telling, node);
    sim_after(node->sim, &telling->event, span_us);
}

void sim_report(struct sim_node *node, const struct report *report, int64_t span_us)
{
    tell(node, report, span_us, true);
}

void sim_report_rumour(struct sim_node *node, const struct attempt *attempt)
{
    struct sim *sim = node->sim;
    struct sim_target *target = &node->target;
    struct report report = {.id = attempt->id,
                            .shard = attempt->shard,
                            .attempt = attempt->attempt,
                            .outcome = attempt->outcome,
                            .deadline_ms = attempt->deadline_ms};
    struct sim_node *listener;

    if (sim->is_healed || !prng_chance(&target->rumours, sim->options.rumour_permille) ||
        attempt->outcome == OUTCOME_NOT_STARTED) {
        return;
    }
    if (attempt->attempt > 1 && prng_chance(&target->rumours, 400)) { // Of one before it.
        report.attempt = (uint32_t)prng_between(&target->rumours, 1, attempt->attempt - 1);
        report.outcome =
            (enum outcome)prng_between(&target->rumours, OUTCOME_DONE, OUTCOME_OBSOLETE);
    } else if (attempt->outcome == OUTCOME_UNKNOWN) { // It has been heard after all.
        report.outcome = prng_chance(&target->rumours, 700) ? OUTCOME_DONE : OUTCOME_RETRY;
    }
    listener = &sim->nodes[prng_below(&target->rumours, sim->options.node_count)];
    if (listener->is_up) {
        tell(listener, &report,
             prng_between(&target->rumours, 0, RUMOUR_US / 4) *
                 prng_between(&target->rumours, 0, 4),
             false);
    }
}
