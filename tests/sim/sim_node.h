/* SPDX-License-Identifier: Apache-2.0
 *
 * One broker process: the core with its outbound, its boot clock, its estimate of each database's
 * clock. A kill takes its memory and leaves what the store and the coordinator have; a pause makes
 * everything for it wait, and it wakes up believing that nothing has happened.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_NODE_H
#define FOLIOT_TESTS_SIM_SIM_NODE_H

#include "broker/core/broker.h"
#include "lib/base/clock_estimate.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_target.h"

struct sim_node {
    struct sim *sim;
    uint32_t number;
    uint32_t life; /* counts the starts */
    bool is_up;
    bool is_paused;
    bool is_stalled; /* and its boot clock stands still: a virtual machine that is stopped */
    boot_us paused_at;
    int64_t paused_since; /* the same as true time */
    bool is_draining;
    char name[16];
    char instance[INSTANCE_TEXT_LEN + 1];
    int64_t boot_offset; /* of its boot clock, microseconds */
    int32_t drift_ppm;   /* of its boot clock */
    struct prng prng;
    struct broker *broker; /* NULL: down */
    struct store *store;   /* the core's door, made by sim_store */
    struct coord *coord;   /* the core's door, made by sim_coord */
    struct sim_target target;
    struct clock_estimate clocks[DATABASE_COUNT_MAX];
    struct list waiting; /* events, in order, until the pause ends */
    struct list reads;   /* struct sim_read.link: the same of readers */
    struct list calls;   /* struct sim_call.link: users' calls inside the core */
    struct sim_event turn;
    struct sim_event poll;   /* for queues */
    struct sim_event change; /* start, or end of a pause */
    struct sim_event drain;
    int64_t drain_until;
    uint32_t tellings; /* outcomes that wait here to be told to others */
    struct store_queue_list list;
    bool is_listing;
    struct prng wall; /* how far its wall clock is off */
};

/* shape: sim is built far enough to start processes. The node is down. */
void sim_node_init(struct sim_node *node, struct sim *sim, uint32_t number);

void sim_node_start(struct sim_node *node);

/* A process that is not there yet starts by itself later. */
void sim_node_start_in(struct sim_node *node, int64_t span_us);

/* The process is gone at once; it starts again after `down_us`, or never if that is negative. */
void sim_node_kill(struct sim_node *node, int64_t down_us);

/* SIGSTOP, and SIGCONT after a span. */
void sim_node_pause(struct sim_node *node, int64_t span_us);
void sim_node_resume(struct sim_node *node);

/* SIGTERM: release everything, leave, and start again after a while. */
void sim_node_drain(struct sim_node *node);

/* Its boot clock now. */
boot_us sim_node_boot(const struct sim_node *node);

/* True time at which its boot clock will not be before `boot`. */
int64_t sim_node_true_time(const struct sim_node *node, boot_us boot);

/* The core, if there is one, hears what time it is: before a callback that comes without. */
void sim_node_set_now(struct sim_node *node);

/* What the loop would sample now. Who asks is about to call its core. */
void sim_node_now(struct sim_node *node, struct now *now);

/* Something has been told to the core: a loop turn follows. */
void sim_node_touch(struct sim_node *node);

/* The node behind an address of a member, or NULL. */
struct sim_node *sim_node_find(struct sim *sim, const char *address);

#endif
