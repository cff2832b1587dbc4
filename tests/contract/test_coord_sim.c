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
#include "tests/sim/sim_zk_link.h"

/* Seeds with which every case is run behind servers that lag. */
#define LAG_SEED_COUNT 20

#define LAG_US (100 * US_PER_MS)

/* So that beats are short. */
#define SHORT_SESSION_MS 2000

/* A server that is this far behind shows an orphan late. */
#define FAR_BEHIND_US (3 * US_PER_S)

/* A beat, the read and the delete. */
#define FOUND_US US_PER_S

static struct sim *sim;
static uint32_t node_count;
static uint64_t seed = 1;
static int64_t lag_us;
static span_ms session_timeout_ms; /* 0: that of the quiet options */

static void world_open(const char *title)
{
    struct sim_options options;

    (void)title;
    sim_options_quiet(&options, seed);
    options.node_count = SIM_NODE_COUNT_MAX;
    options.shard_count = WORLD_SHARD_COUNT;
    options.coord_lag_us = lag_us;
    if (session_timeout_ms > 0) {
        options.session_timeout_ms = session_timeout_ms;
    }
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

/* The create of an acquire is held back in the network until long after it was done again, and the
 * shard was given back: what it makes then is found and deleted. behind_us: most that the server is
 * behind that it is found by. */
static void give_back_before_the_create_arrives(int64_t behind_us)
{
    static struct client a;
    int64_t orphan_at;

    world_open("late");
    client_open(&a, "broker-a", 'a');
    sim->zk_calls = (struct sim_nth){.count = 0, .doomed = 1, .fate = SIM_ZK_BREAK_LATE};
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 3, NULL));
    MUST_OK(ask_shard(&a, COORD_RELEASE, 3, NULL));
    MUST(sim_coord_owner(sim->coord, 3) == NULL);
    if (behind_us > 0) { // It goes to another server.
        sim->options.coord_lag_us = behind_us;
        sim->zk_calls = (struct sim_nth){.count = 0, .doomed = 1, .fate = SIM_ZK_BREAK_AFTER};
    }
    WORLD_UNTIL(sim_coord_owner(sim->coord, 3) == &sim->nodes[0]);
    orphan_at = sim->now;
    WORLD_UNTIL(sim_coord_owner(sim->coord, 3) == NULL);
    MUST_LE(sim->now - orphan_at, FOUND_US + behind_us);
    client_close(&a);
    world_close();
}

static void a_create_that_arrives_after_the_release_leaves_no_orphan(void)
{
    lag_us = 0;
    session_timeout_ms = SHORT_SESSION_MS;
    for (seed = 1; seed <= LAG_SEED_COUNT; seed++) {
        give_back_before_the_create_arrives(0);
        give_back_before_the_create_arrives(FAR_BEHIND_US);
    }
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        COORD_CONTRACT_CASES,
        MUST_CASE(all_of_it_holds_behind_a_server_that_lags),
        MUST_CASE(a_create_that_arrives_after_the_release_leaves_no_orphan),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
