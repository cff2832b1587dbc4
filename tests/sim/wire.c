/* SPDX-License-Identifier: Apache-2.0
 *
 * Wire mode as the simulator sees it: struct sim_edge over its parts.
 */
#include "tests/sim/wire.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "tests/sim/sim_node.h"

#include <stdio.h>

/* Closing takes no longer. */
#define CLOSE_US (10 * US_PER_S)

static struct wire_node *of(const struct sim_node *node)
{
    struct wire_node *wire = node->sim->wire->nodes[node->number];

    REQUIRE(wire != NULL);
    return wire;
}

static void edge_open(struct sim *sim)
{
    struct wire *wire = sim_need(1, sizeof(*wire));

    sim->wire = wire;
    wire->sim = sim;
    wire->net = wire_net_new(sim);
    wire->watch = wire_watch_new(sim);
    wire->receiver = wire_receiver_new(sim);
    wire->users = wire_users_new(sim);
}

static void edge_start(struct sim *sim)
{
    wire_net_start(sim->wire->net);
    wire_receiver_start(sim->wire->receiver);
}

static void edge_heal(struct sim *sim)
{
    wire_net_heal(sim->wire->net);
    wire_receiver_heal(sim->wire->receiver);
}

/* Every broker ends as after SIGTERM, and nothing of it may be left. */
static void edge_finish(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        if (sim->nodes[i].is_up) {
            wire_node_close(of(&sim->nodes[i]));
        }
    }
    sim_until(sim, sim->now + CLOSE_US);
    for (uint32_t i = 0; i < sim->options.node_count && sim->verdict == SIM_PASSED; i++) {
        struct sim_node *node = &sim->nodes[i];

        if (!node->is_up) {
            continue;
        }
        if (!wire_node_is_closed(of(node))) {
            sim_fail(sim, SIM_STUCK, "wire", "broker %u does not come to its end", i);
            return;
        }
        wire_node_end(of(node));
        sim_node_kill(node, -1);
    }
}

static void edge_free(struct sim *sim)
{
    struct wire *wire = sim->wire;

    wire_users_free(wire->users);
    wire_receiver_free(wire->receiver);
    wire_net_free(wire->net);
    wire_watch_free(wire->watch);
    mem_free(wire);
}

static void edge_enter(struct sim_node *node)
{
    wire_node_wake_up(of(node));
    (void)wire_enter(wire_node_proc(of(node)));
}

static void edge_leave(struct sim_node *node)
{
    (void)node;
    wire_leave((struct wire_visit){NULL, NULL});
}

static const char *edge_address(struct sim_node *node)
{
    static char text[32];

    (void)snprintf(text, sizeof(text), "10.0.0.%u:%d", node->number + 1, WIRE_NODE_PORT);
    return text;
}

static struct outbound *edge_outbound(struct sim_node *node)
{
    struct wire_node *wire = wire_node_new(node);

    node->sim->wire->nodes[node->number] = wire;
    return wire_node_outbound(wire);
}

static void edge_begin(struct sim_node *node)
{
    wire_node_start(of(node));
}

static void edge_crash(struct sim_node *node)
{
    wire_node_crash(of(node));
}

static void edge_bury(struct sim_node *node)
{
    wire_node_bury(of(node));
    node->sim->wire->nodes[node->number] = NULL;
}

static void edge_touch(struct sim_node *node)
{
    wire_node_touch(of(node));
}

static void edge_drain(struct sim_node *node)
{
    wire_node_drain(of(node));
}

static bool edge_is_drained(const struct sim_node *node)
{
    return wire_node_is_drained(of(node));
}

static void edge_carry(struct sim *sim, struct sim_errand *errand)
{
    wire_users_carry(sim->wire->users, errand);
}

const struct sim_edge wire_edge = {
    .open = edge_open,
    .start = edge_start,
    .heal = edge_heal,
    .finish = edge_finish,
    .free = edge_free,
    .enter = edge_enter,
    .leave = edge_leave,
    .address = edge_address,
    .outbound = edge_outbound,
    .begin = edge_begin,
    .crash = edge_crash,
    .bury = edge_bury,
    .touch = edge_touch,
    .drain = edge_drain,
    .is_drained = edge_is_drained,
    .carry = edge_carry,
};
