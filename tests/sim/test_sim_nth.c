/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-th call fails, for every n that a short life of a cluster reaches: calls to ZooKeeper,
 * requests to the coordinator, requests to the store, each in every way in which one can fail. All
 * checkers listen, and the cluster has to come to rest each time.
 */
#include "lib/base/list.h"
#include "tests/lib/must.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_coord.h"
#include "tests/sim/sim_load.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_store.h"
#include "tests/sim/sim_zk_link.h"

#include <stddef.h>
#include <stdlib.h>

/* A loop of fewer calls than this has not seen what it is for. */
#define REACHED_MIN 60

/* Steps of the life: something happens, and then this long nothing. */
#define STEP_US (1500 * US_PER_MS)

/* How far apart the calls are that fail; each way to fail has calls of its own. With NTH_ALL in the
 * environment every call fails in every way (test_sim_nth_all). */
#define STRIDE 3

/* Join, leave, crash, expiry, a znode that is deleted, the end of the ensemble. */
static void live(struct sim *sim)
{
    sim_node_start(&sim->nodes[0]);
    sim_node_start(&sim->nodes[1]);
    sim_load_start(sim->load);
    sim_until(sim, 2 * STEP_US);
    sim_node_start(&sim->nodes[2]);
    sim_until(sim, 3 * STEP_US);
    sim_node_drain(&sim->nodes[1]);
    sim_until(sim, 5 * STEP_US);
    sim_node_kill(&sim->nodes[0], US_PER_S);
    sim_until(sim, 8 * STEP_US);
    sim_coord_expire(sim->coord, &sim->nodes[2]);
    sim_until(sim, 9 * STEP_US);
    sim_coord_delete_owner(sim->coord, 1);
    sim_coord_stop(sim->coord);
    sim_until(sim, 10 * STEP_US);
    sim_coord_start(sim->coord);
    sim_until(sim, 11 * STEP_US);
}

/* One life. False: it has not come as far as this call. nth: where the member of struct sim is. */
static bool try(size_t nth, uint64_t number, uint32_t fate)
{
    struct sim_options options;
    struct sim_nth *doomed;
    struct sim *sim;
    bool is_reached;

    sim_options_quiet(&options, number);
    options.node_count = 3;
    options.session_timeout_ms = 2000;
    options.call_every_us = 40000;
    options.keyed_permille = 300;
    options.cancel_permille = 100;
    options.update_permille = 100;
    options.near_permille = 1000;
    options.target_retry_permille = 100;
    sim = sim_new(&options, NULL, NULL);
    doomed = (struct sim_nth *)(void *)((char *)sim + nth);
    doomed->doomed = number;
    doomed->fate = fate;
    live(sim);
    is_reached = doomed->count >= number;
    doomed->doomed = 0;
    if (sim->verdict == SIM_PASSED) {
        sim_finish(sim);
    }
    if (sim->verdict != SIM_PASSED) {
        must_fail(MUST_HERE, "call %llu, fate %u, %.3f s: %s: %s", (unsigned long long)number, fate,
                  (double)sim->now / 1e6, sim->promise, sim->message);
    }
    sim_free(sim);
    return is_reached;
}

static void fails_everywhere(size_t nth, uint32_t fate, uint64_t stride)
{
    uint64_t number;

    stride = getenv("NTH_ALL") == NULL ? stride : 1;
    number = 1 + fate % stride;

    while (try(nth, number, fate)) {
        number += stride;
    }
    MUST_LE(REACHED_MIN, number);
}

#define NTH(member) offsetof(struct sim, member)

static void any_request_to_the_coordinator_may_be_refused(void)
{
    fails_everywhere(NTH(coord_requests), 1, 1);
}

static void any_call_of_zookeeper_may_be_refused(void)
{
    fails_everywhere(NTH(zk_calls), SIM_ZK_REFUSED, STRIDE);
}

static void any_call_of_zookeeper_may_meet_an_error(void)
{
    fails_everywhere(NTH(zk_calls), SIM_ZK_ERROR, STRIDE);
}

static void the_connection_may_break_before_any_call_of_zookeeper(void)
{
    fails_everywhere(NTH(zk_calls), SIM_ZK_BREAK_BEFORE, STRIDE);
}

static void the_connection_may_break_after_any_call_of_zookeeper(void)
{
    fails_everywhere(NTH(zk_calls), SIM_ZK_BREAK_AFTER, STRIDE);
}

static void any_write_to_zookeeper_may_arrive_long_after_its_connection_broke(void)
{
    fails_everywhere(NTH(zk_calls), SIM_ZK_BREAK_LATE, STRIDE);
}

static void any_request_to_the_store_may_be_refused(void)
{
    fails_everywhere(NTH(store_requests), SIM_FATE_REFUSE, STRIDE);
}

static void any_request_to_the_store_may_be_given_up(void)
{
    fails_everywhere(NTH(store_requests), SIM_FATE_GIVE_UP, STRIDE);
}

static void any_reply_of_the_store_may_be_lost(void)
{
    fails_everywhere(NTH(store_requests), SIM_FATE_LOSE_COMMITTED, STRIDE);
}

static void any_write_may_be_cut_off_and_commit_later(void)
{
    fails_everywhere(NTH(store_requests), SIM_FATE_LOSE_OPEN, STRIDE);
}

static void any_write_may_be_cut_off_and_rolled_back(void)
{
    fails_everywhere(NTH(store_requests), SIM_FATE_LOSE_ABORTED, STRIDE);
}

#define LOOP(function) MUST_CASE_WITHIN(function, 600)

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        LOOP(any_request_to_the_coordinator_may_be_refused),
        LOOP(any_call_of_zookeeper_may_be_refused),
        LOOP(any_call_of_zookeeper_may_meet_an_error),
        LOOP(the_connection_may_break_before_any_call_of_zookeeper),
        LOOP(the_connection_may_break_after_any_call_of_zookeeper),
        LOOP(any_write_to_zookeeper_may_arrive_long_after_its_connection_broke),
        LOOP(any_request_to_the_store_may_be_refused),
        LOOP(any_request_to_the_store_may_be_given_up),
        LOOP(any_reply_of_the_store_may_be_lost),
        LOOP(any_write_may_be_cut_off_and_commit_later),
        LOOP(any_write_may_be_cut_off_and_rolled_back),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
