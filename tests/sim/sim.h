/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole cluster in one process: several brokers' cores, a fake coordinator, the memory store, the
 * users and the receivers, on a virtual clock. One heap of events ordered by (time, sequence); each
 * step takes one event, calls one input and lets the checkers look. Same options, same digest.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_H
#define FOLIOT_TESTS_SIM_SIM_H

#include "coordinator/coord.h"
#include "lib/base/attr.h"
#include "lib/base/heap.h"
#include "lib/base/list.h"
#include "lib/base/prng.h"
#include "lib/base/trace.h"
#include "storage/store_mem.h"
#include "tests/sim/sim_options.h"

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct sim_event;
struct sim_node;
struct sim_store;
struct sim_coord;
struct sim_load;
struct sim_policies;
struct sim_reads;
struct sim_faults;
struct sim_links;
struct sim_standby;
struct sim_clocks;
struct check;
struct wire;

/* How a run ended; also the exit status of the program. */
enum sim_verdict {
    SIM_PASSED = 0,
    SIM_UNSAFE = 2,  /* a promise was broken */
    SIM_STUCK = 3,   /* no progress after the faults had stopped */
    SIM_CRASHED = 4, /* an assertion or a signal: seen from outside */
    SIM_UNSTEADY = 5 /* two runs of one seed differed: seen from outside */
};

/* shape: is_dropped: the host died first; nothing is to happen but giving memory back. */
typedef void (*sim_event_fn)(struct sim *sim, struct sim_event *event, bool is_dropped);

/*
 * Something that happens at a time. Embedded in whatever it is for.
 * 1. With a host: it is dropped if the host dies first, and waits while the host is paused.
 */
struct sim_event {
    struct heap_node node;
    struct list link; /* in the host's `waiting` while it is paused */
    sim_event_fn fire;
    struct sim_node *host; /* NULL: nobody's process */
    uint32_t life;         /* of the host, when it was added */
    bool is_planned;       /* in the heap, or waiting */
};

/* One call of many that fails, for loops over every one of them (test_sim_nth.c). */
struct sim_nth {
    uint64_t count;  /* made so far */
    uint64_t doomed; /* the one that fails; 0: none does */
    uint32_t fate;   /* how */
};

/* Count one. The fate of the call, 0 if it has none. */
static inline uint32_t sim_nth_next(struct sim_nth *nth)
{
    nth->count++;
    return nth->count == nth->doomed ? nth->fate : 0;
}

#define SIM_MESSAGE_LEN 512

/* Calls out of a process, one in the other. */
#define SIM_WORLD_DEPTH 8U

/* Of wire mode: who owns what is allocated now, a list of blocks; NULL: the world. */
extern struct list *sim_owner;

struct sim {
    struct sim_options options;
    struct heap events;
    int64_t now; /* true time since the start, microseconds */
    bool is_healed;
    bool is_in_core;                      /* allocations are the core's: some fail */
    struct list *owners[SIM_WORLD_DEPTH]; /* sim_owner before each sim_enter_world() */
    uint32_t owner_count;
    struct sim_node *host; /* whose process runs, or asked for the time last */
    struct wire *wire;     /* NULL in message mode */
    struct prng memory;    /* which */
    bool is_over;
    struct trace trace;
    struct store_mem *mem;
    struct cluster cluster;
    uint32_t queue_count;
    struct sim_node *nodes; /* options.node_count of them */
    struct sim_store *store;
    struct sim_coord *coord;
    struct sim_load *load;
    struct sim_policies *policies;
    struct sim_reads *reads;
    struct sim_faults *faults;
    struct sim_links *links;
    struct sim_standby *standby;
    struct sim_clocks *clocks;
    struct check *check;
    struct sim_nth coord_requests; /* of cores to their coordinator; fate: 1 refused */
    struct sim_nth zk_calls;       /* fate: enum sim_zk_fate */
    struct sim_nth store_requests; /* fate: enum sim_store_fate */
    enum sim_verdict verdict;
    char promise[16]; /* which one was broken: "K-4" */
    char message[SIM_MESSAGE_LEN];
    uint64_t event_count;
};

/* Build a cluster; nothing has happened yet. fn sees every traced event. Never NULL. */
struct sim *sim_new(const struct sim_options *options, trace_fn fn, void *ctx);
void sim_free(struct sim *sim);

/* Both phases and the last look. */
enum sim_verdict sim_run(struct sim *sim);

/* Start every process. */
void sim_start(struct sim *sim);

/* The second phase: the faults end, and everything has to find its place. */
void sim_finish(struct sim *sim);

/* For stories: go on until a time, or until something is broken. */
void sim_until(struct sim *sim, int64_t at);

/* For stories: take one event. False if there is none or something is broken. */
bool sim_step(struct sim *sim);

/* End all faults: start what is down, wake what is paused, mend what is cut. */
void sim_heal(struct sim *sim);

/* Plan an event. shape: not planned yet; at ≥ sim->now is bent to now. */
void sim_at(struct sim *sim, struct sim_event *event, int64_t at);
void sim_after(struct sim *sim, struct sim_event *event, int64_t span);

/* Take back; harmless if not planned. */
void sim_cancel(struct sim *sim, struct sim_event *event);

/* A promise is broken: the run ends. The first one counts. */
void sim_fail(struct sim *sim, enum sim_verdict verdict, const char *promise, const char *format,
              ...) __attribute__((format(printf, 4, 5)));

/* The database's clock, microseconds since 1970; sim_clock.h has what else there is to it. */
int64_t sim_clock(const struct sim *sim, uint32_t database);

/* A span around a mean: mostly near it, sometimes far above. shape: mean ≥ 0. */
int64_t sim_span(struct prng *prng, int64_t mean);

/* Everything that is called in a core is between these two, except what the core calls back: that
 * is between the other two. */
void sim_enter_core(struct sim *sim);
void sim_enter_core_of(struct sim_node *node);
void sim_leave_core(struct sim *sim);
bool sim_enter_world(struct sim *sim);
void sim_leave_world(struct sim *sim, bool was_in_core);

/* Memory for the simulator itself: there is enough, or the run stops. Zeroed. */
void *sim_need(size_t count, size_t size);

#endif
