/* SPDX-License-Identifier: Apache-2.0
 *
 * The core hears the time, then its callback runs, then its loop turns.
 */
#include "tests/sim/sim_store_reply.h"

#include "lib/base/err.h"
#include "tests/sim/sim_node.h"

static void enter(struct sim_node *node)
{
    struct now now;

    sim_node_now(node, &now);
    broker_set_now(node->broker, &now);
    sim_enter_core(node->sim);
}

static void leave(struct sim_node *node)
{
    sim_leave_core(node->sim);
    sim_node_touch(node);
}

void sim_reply_batch(struct sim_node *node, struct store_batch *batch)
{
    enum sim_mutant mutant = node->sim->options.mutant;

    if (mutant == SIM_MUTANT_UNKNOWN && batch->result == ERR_OUTCOME_UNKNOWN) {
        batch->result = ERR_UNAVAILABLE;
    }
    if (mutant == SIM_MUTANT_LOST_WRITE && batch->result == ERR_UNAVAILABLE) {
        batch->result = 0;
        for (size_t i = 0; i < batch->op_count; i++) {
            batch->ops[i].result = 0;
        }
    }
    TRACE(&node->sim->trace, "write", node->number, batch->database, batch->result,
          (int64_t)batch->op_count);
    enter(node);
    batch->cb(batch);
    leave(node);
}

void sim_reply_read(struct sim_node *node, struct prng *prng, struct store_read *read)
{
    enum sim_mutant mutant = node->sim->options.mutant;

    if (mutant == SIM_MUTANT_CLAIMS && read->kind == STORE_READ_CLAIMS) {
        read->claim_count = 0;
    }
    if (mutant == SIM_MUTANT_SLICE && read->kind == STORE_READ_SLICE &&
        read->to_bucket < INT64_MAX && read->row_count > 1 && read->row_count < read->limit) {
        read->row_count--;
    }
    if (read->kind == STORE_READ_SLICE && read->row_count > 1 &&
        prng_chance(prng, node->sim->options.short_permille)) {
        read->row_count = 1 + prng_below(prng, read->row_count);
        read->has_more = true;
    }
    enter(node);
    read->cb(read);
    leave(node);
}

void sim_reply_bump(struct sim_node *node, struct store_bump *bump)
{
    TRACE(&node->sim->trace, "bump", node->number, bump->shard, bump->epoch, bump->result);
    enter(node);
    bump->cb(bump);
    leave(node);
}

void sim_reply_list(struct sim_node *node, struct store_queue_list *list)
{
    enter(node);
    list->cb(list);
    leave(node);
}
