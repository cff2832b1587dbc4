/* SPDX-License-Identifier: Apache-2.0
 *
 * The auditor of every broker: it says nothing as long as nothing is lost, whatever the faults, and
 * has looked at everything when they are over. source: DESIGN 14, ADR 0027
 */
#include "broker/core/inspect.h"
#include "tests/sim/check_parts.h"
#include "tests/sim/sim_node.h"

#include <stdio.h>

static struct audit_figures figures_of(const struct sim_node *node)
{
    struct broker_stats stats;

    broker_inspect(node->broker, &stats);
    return stats.audit;
}

void check_audit_look(struct check *check, const struct sim_node *node)
{
    struct audit_figures seen = figures_of(node);

    if (check->audit_note[0] == '\0' &&
        seen.rows_unheld + seen.claims_overdue + seen.entries_rowless > 0) {
        (void)snprintf(check->audit_note, sizeof(check->audit_note),
                       "at %lld ms the auditor of node %u found %u rows, %u claims, %u entries",
                       (long long)(check->sim->now / US_PER_MS), node->number, seen.rows_unheld,
                       seen.claims_overdue, seen.entries_rowless);
    }
}

void check_audit_end(struct check *check)
{
    struct sim *sim = check->sim;

    if (check->audit_note[0] != '\0') {
        sim_fail(sim, SIM_UNSAFE, "audit", "%s, and nothing was lost", check->audit_note);
    }
    for (uint32_t i = 0; i < sim->options.node_count && sim->options.audit_ms > 0; i++) {
        struct audit_figures seen;

        if (!sim->nodes[i].is_up) {
            continue;
        }
        seen = figures_of(&sim->nodes[i]);
        if (seen.shards_unowned > 0 || seen.rounds == 0) {
            sim_fail(sim, SIM_STUCK, "audit", "node %u says %u shards unowned, %llu rounds", i,
                     seen.shards_unowned, (unsigned long long)seen.rounds);
        }
    }
}
