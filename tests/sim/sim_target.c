/* SPDX-License-Identifier: Apache-2.0
 *
 * Attempts on their way, and what their receivers do.
 */
#include "tests/sim/sim_target.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/sim/check.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_report.h"

/* A send that is held up, by a connection that has to be made first, takes up to this. */
#define SLOW_SEND_US (3 * US_PER_S)

/* An attempt on its way. */
struct send {
    struct sim_event event;
    struct sim_node *node;
    struct attempt *attempt;
    bool is_sent;
    enum outcome outcome;
};

static void report(struct send *send, enum outcome outcome)
{
    struct sim_node *node = send->node;
    struct attempt *attempt = send->attempt;
    bool is_sent = send->is_sent;
    struct now now;

    mem_free(send);
    attempt->outcome = outcome;
    attempt->retry_after_ms = 0;
    attempt->error_text = (struct slice){NULL, 0};
    attempt->response = slice_of(outcome == OUTCOME_DONE ? "well" : "");
    if (outcome == OUTCOME_DEAD || outcome == OUTCOME_RETRY) {
        attempt->error_text = (struct slice){(const uint8_t *)"no\0thanks", 9};
    }
    check_reported(node->sim->check, node, attempt, outcome);
    if (is_sent) {
        check_queues_ended(node->sim->check, node, attempt);
    }
    sim_report_rumour(node, attempt);
    sim_node_now(node, &now);
    sim_enter_core(node->sim);
    broker_on_outcome(node->broker, &now, attempt);
    sim_leave_core(node->sim);
    sim_node_touch(node);
}

/* What the receiver will say, and when it is heard. */
static int64_t receive(struct send *send)
{
    struct sim_target *target = &send->node->target;
    const struct sim_options *options = &send->node->sim->options;
    int64_t timeout_us = send->attempt->timeout_ms * US_PER_MS;
    int64_t span_us = sim_span(&target->prng, options->target_us);

    span_us += 2 * sim_span(&target->prng, options->network_us); // Draws stay in this order.
    send->outcome = OUTCOME_DONE;
    if (prng_chance(&target->prng, options->target_retry_permille)) {
        send->outcome = OUTCOME_RETRY;
    } else if (prng_chance(&target->prng, options->target_dead_permille)) {
        send->outcome = prng_chance(&target->prng, 500) ? OUTCOME_DEAD : OUTCOME_OBSOLETE;
    } else if (prng_chance(&target->prng, options->target_never_permille)) {
        span_us = INT64_MAX / 2;
    } else if (prng_chance(&target->prng, options->target_late_permille)) {
        span_us += timeout_us * 9 / 10;
    }
    if (!sim_link_is_whole(send->node->sim->links, SIM_END_NODE(send->node->number),
                           SIM_END_TARGETS)) {
        span_us = timeout_us; // It has heard of it or not; nobody will know.
    }
    if (span_us >= timeout_us) {
        span_us = timeout_us;
        send->outcome = options->mutant == SIM_MUTANT_OUTCOME ? OUTCOME_DONE : OUTCOME_UNKNOWN;
        check_receiver(send->node->sim->check, send->attempt, OUTCOME_UNKNOWN);
    } else {
        check_receiver(send->node->sim->check, send->attempt, send->outcome);
    }
    return span_us;
}

static void on_send(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct send *send = CONTAINER_OF(event, struct send, event);
    struct now now;

    if (is_dropped) {
        mem_free(send);
        return;
    }
    if (send->is_sent) {
        report(send, send->outcome);
        return;
    }
    sim_node_now(send->node, &now);
    if (now.database[send->attempt->database].upper_us > send->attempt->start_by_ms * US_PER_MS &&
        sim->options.mutant != SIM_MUTANT_START_BY) {
        report(send, OUTCOME_NOT_STARTED);
        return;
    }
    send->is_sent = true;
    check_queues_started(sim->check, send->node, send->attempt);
    check_start(sim->check, send->node, send->attempt);
    if (sim->options.mutant == SIM_MUTANT_SEND_TWICE && send->attempt->id.seq % 16 == 0) {
        check_start(sim->check, send->node, send->attempt);
    }
    sim_after(sim, event, receive(send));
}

static void target_report(struct outbound *outbound, const struct report *report)
{
    struct sim_target *target = CONTAINER_OF(outbound, struct sim_target, outbound);
    struct sim *sim = target->node->sim;
    bool was_in_core = sim_enter_world(sim);

    sim_report(target->node, report, sim_span(&target->prng, sim->options.network_us));
    sim_leave_world(sim, was_in_core);
}

static int target_start(struct outbound *outbound, struct attempt *attempt)
{
    struct sim_target *target = CONTAINER_OF(outbound, struct sim_target, outbound);
    struct sim_node *node = target->node;
    const struct sim_options *options = &node->sim->options;
    struct send *send;
    bool was_in_core;
    int64_t span_us = prng_between(&target->prng, 0, 200);

    if (!node->sim->is_healed && prng_chance(&target->prng, options->target_full_permille)) {
        return ERR_FULL;
    }
    check_handed(node->sim->check, attempt);
    if (prng_chance(&target->prng, options->target_slow_send_permille)) {
        span_us = prng_between(&target->prng, 0, SLOW_SEND_US);
    }
    was_in_core = sim_enter_world(node->sim);
    send = sim_need(1, sizeof(*send));
    sim_leave_world(node->sim, was_in_core);
    send->event = (struct sim_event){.fire = on_send, .host = node};
    send->node = node;
    send->attempt = attempt;
    sim_after(node->sim, &send->event, span_us);
    return 0;
}

void sim_target_init(struct sim_target *target, struct sim_node *node)
{
    target->outbound.start = target_start;
    target->outbound.report = target_report;
    target->node = node;
    prng_init_named(&target->prng, node->sim->options.seed ^ node->number, "target");
    prng_init_named(&target->rumours, node->sim->options.seed ^ node->number, "rumours");
}
