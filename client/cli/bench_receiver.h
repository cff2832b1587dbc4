/* SPDX-License-Identifier: Apache-2.0
 *
 * The receiver of a benchmark: serves foliot.v1.Receiver/Deliver in a thread of its own, so that
 * making the load delays no arrival, and answers every attempt at once. Says how late each came, by
 * this machine's clock.
 */
#ifndef FOLIOT_CLIENT_CLI_BENCH_RECEIVER_H
#define FOLIOT_CLIENT_CLI_BENCH_RECEIVER_H

#include "client/cli/bench_hist.h"
#include "lib/base/attr.h"
#include "lib/base/instant.h"

#include <stdint.h>

struct bench_receiver;

/* What came so far. */
struct arrivals {
    uint64_t attempts;
    uint64_t first;  /* tasks that came, each counted once */
    uint64_t early;  /* attempts that came before they were due */
    int64_t last_us; /* wall clock, when the last task came that had not come before; 0: none */
};

/* In the end. */
struct arrival_figures {
    struct arrivals arrivals;
    int64_t first_us;        /* wall clock, when the first one came */
    struct hist lateness_us; /* of tasks that are measured, when they first came */
};

/*
 * Listen, and serve from now on.
 *
 * shape:  address is numeric; port 0 takes any.
 * errors: an exit code after saying so on standard error.
 */
MUST_USE int bench_receiver_open(const char *address, uint16_t port, struct bench_receiver **out);

uint16_t bench_receiver_port(const struct bench_receiver *receiver);

/* Measure only attempts of tasks that are due from then on; the others are only counted. */
void bench_receiver_measure_from(struct bench_receiver *receiver, wall_ms due_ms);

void bench_receiver_peek(const struct bench_receiver *receiver, struct arrivals *out);

/* Stop and free. shape: out may be NULL. */
void bench_receiver_close(struct bench_receiver *receiver, struct arrival_figures *out);

#endif
