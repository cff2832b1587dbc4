/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands between cores and world in wire mode. NULL in message mode, where calls and attempts
 * are structs that travel by themselves.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_EDGE_H
#define FOLIOT_TESTS_SIM_SIM_EDGE_H

#include "broker/core/call.h"
#include "broker/core/env.h"
#include "lib/base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct sim_node;

/* A user's call on its way; embedded in whatever waits. */
struct sim_errand {
    struct list link;
    struct call *call;   /* as it is asked; the answer goes into its results */
    uint64_t number;     /* of the call: the start of its payload */
    uint64_t key;        /* number of its key, 0: none */
    struct sim_node *to; /* the broker that is asked */
    void (*done)(struct sim_errand *errand, bool is_lost); /* lost: nobody will ever know */
};

struct sim_edge {
    void (*open)(struct sim *sim); /* the world is there, no broker is */
    void (*start)(struct sim *sim);
    void (*heal)(struct sim *sim);
    void (*finish)(struct sim *sim); /* all is over: every process ends in order */
    void (*free)(struct sim *sim);

    /* Somebody calls into a process, or is back. */
    void (*enter)(struct sim_node *node);
    void (*leave)(struct sim_node *node);

    /* The life of a broker: its address and its outbound before its core is made; then its start;
     * before its core is freed by a kill; and after. */
    const char *(*address)(struct sim_node *node);
    struct outbound *(*outbound)(struct sim_node *node);
    void (*begin)(struct sim_node *node);
    void (*crash)(struct sim_node *node);
    void (*bury)(struct sim_node *node);
    void (*touch)(struct sim_node *node);
    void (*drain)(struct sim_node *node);
    bool (*is_drained)(const struct sim_node *node);

    void (*carry)(struct sim *sim, struct sim_errand *errand);
};

#endif
