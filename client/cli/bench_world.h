/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run of a benchmark works with: the queue of its own, and the calls that make and remove
 * it.
 */
#ifndef FOLIOT_CLIENT_CLI_BENCH_WORLD_H
#define FOLIOT_CLIENT_CLI_BENCH_WORLD_H

#include "client/cli/bench_plan.h"
#include "client/cli/session.h"
#include "lib/model/queue.h"

struct bench_world {
    struct session session;
    struct queue queue;
};

/*
 * Open a session and make the queue, with the receiver at `port` as its target.
 *
 * errors: an exit code after saying so; then there is nothing to close.
 */
MUST_USE int bench_world_open(struct bench_world *world, const struct plan *plan,
                              const struct args *args, uint16_t port);

/*
 * Delete the queue, when it has become empty; says so if it does not.
 *
 * errors: an exit code.
 */
MUST_USE int bench_world_remove(struct bench_world *world);

void bench_world_close(struct bench_world *world);

#endif
