/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of every coordinator, on the simulator's: the one on ZooKeeper, over a fake one. The
 * same cases pass on a real server (test_coord_zk), so the fake is like it as far as they look; and
 * here they hold behind a server that lags, too.
 */
#include "tests/contract/coord_contract.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_coord.h"
#include "tests/sim/sim_node.h"

/* Seeds with which every case is run behind servers that lag. */
#define LAG_SEED_COUNT 20

#define LAG_US (100 * US_PER_MS)

static struct sim *sim;
static uint32_t node_count;
static uint64_t seed = 1;
static int64_t lag_us;

static void world_open(const char *title)
{
    struct sim_options options;

    (void)title;
    sim_options_quiet(&options, seed);
    options.node_count = SIM_NODE_COUNT_MAX;
    options.shard_count = WORLD_SHARD_COUNT;
    options.coord_lag_us = lag_us;
    sim = sim_new(&options, NULL, NULL);
    node_count = 0;
}

/* A process that is nothing but its coordinator. */
static void world_add(struct client *client)
{
    const struct coord_events events = client_events(client);
    struct sim_node *node = &sim->nodes[node_count++];

    MUST(node_count <= SIM_NODE_COUNT_MAX);
    node->is_up = true;
    node->life++;
    client->coord = sim_coord_open(sim->coord, node, &client->self, &events);
}

static void world_turn(void)
{
    sim_until(sim, sim->now + 10 * US_PER_MS);
}

static int64_t world_now_ms(void)
{
    return sim->now / US_PER_MS;
}

static void world_close(void)
{
    for (uint32_t i = 0; i < node_count; i++) {
        sim_coord_crash(sim->coord, &sim->nodes[i]);
        sim->nodes[i].is_up = false;
    }
    MUST_EQ(sim->verdict, SIM_PASSED);
    sim_free(sim);
}

static void all_of_it_holds_behind_a_server_that_lags(void)
{
    static const struct must_case cases[] = {COORD_CONTRACT_CASES};

    lag_us = LAG_US;
    for (seed = 1; seed <= LAG_SEED_COUNT; seed++) {
        for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
            cases[i].run();
        }
    }
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        COORD_CONTRACT_CASES,
        MUST_CASE(all_of_it_holds_behind_a_server_that_lags),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
