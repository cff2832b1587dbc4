/* SPDX-License-Identifier: Apache-2.0
 *
 * A broker's edge as broker/server.c puts it together, without what needs threads or files: server,
 * services, peers, outbound and targets, the turn, the drain, the way down.
 */
#include "broker/config.h"
#include "broker/outbound.h"
#include "broker/queue_sync.h"
#include "broker/service.h"
#include "lib/base/beat.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/rpc/rpc_server.h"
#include "tests/sim/check.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_report.h"
#include "tests/sim/wire.h"

#include <stdio.h>
#include <string.h>

/* As the drain of the simulator. */
#define DRAIN_MS 10000

/* Some of the crashes are of the machine: nobody tells its peers. */
#define SILENT_PERMILLE 300

struct wire_node {
    struct sim_node *node;
    struct wire_proc proc;
    struct config config;
    struct now now;
    struct rpc_server *rpc;
    struct edge_outbound *outbound;
    struct outbound tapped; /* what the core is given: the watch sees what it starts */
    struct queue_sync *queues;
    struct service *service;
    struct loop_hook first;
    struct loop_hook last;
    struct loop_timer wake;
    bool is_drained; /* the server is */
    bool is_closing;
    bool is_closed;
};

/* ---- the turn ---- */

static void set_now(struct wire_node *wire)
{
    sim_node_now(wire->node, &wire->now);
}

static void on_first(void *ctx)
{
    struct wire_node *wire = ctx;

    set_now(wire);
    broker_set_now(wire->node->broker, &wire->now);
}

/* Limits that hold at any time, by the server's own books. */
static void check_limits(const struct wire_node *wire)
{
    struct rpc_server_stats stats;
    struct rpc_server_options options;

    rpc_server_options_init(&options);
    rpc_server_get_stats(wire->rpc, &stats);
    if (stats.protocol_errors > 0 && wire->node->sim->options.no_memory_permille == 0) {
        sim_fail(wire->node->sim, SIM_UNSAFE, "N-2",
                 "broker %u closed a connection for what a peer of ours had sent",
                 wire->node->number);
    }
    if (stats.buffered_bytes > options.buffered_bytes_max ||
        stats.unread_bytes > options.unread_bytes_max + options.response_bytes_max) {
        sim_fail(wire->node->sim, SIM_UNSAFE, "N-4", "broker %u holds %llu and %llu bytes",
                 wire->node->number, (unsigned long long)stats.buffered_bytes,
                 (unsigned long long)stats.unread_bytes);
    }
}

static void on_last(void *ctx)
{
    struct wire_node *wire = ctx;
    struct sim_node *node = wire->node;

    if (wire->is_closed) {
        return;
    }
    set_now(wire);
    broker_tick(node->broker, &wire->now);
    loop_timer_start(&wire->wake, broker_next_wake(node->broker, &wire->now));
    if (wire->rpc != NULL) {
        check_limits(wire);
    }
}

static void on_wake(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    (void)ctx;
}

/* ---- the outbound's questions ---- */

static const struct queue *on_queue_find(void *ctx, uint32_t id)
{
    struct wire_node *wire = ctx;

    return broker_queue_find(wire->node->broker, id);
}

static struct clock_bounds on_bounds_at(void *ctx, uint32_t database, boot_us at_us)
{
    struct wire_node *wire = ctx;
    struct now now;

    (void)at_us; // It is always the present.
    sim_node_now(wire->node, &now);
    if (wire->node->sim->options.mutant == SIM_MUTANT_START_BY) {
        return (struct clock_bounds){0, 0, 0};
    }
    return now.database[database];
}

static void on_outcome(void *ctx, struct attempt *attempt)
{
    struct wire_node *wire = ctx;
    bool was_in_core = sim_enter_world(wire->node->sim);

    wire_watch_end(wire->node->sim->wire->watch, wire->node, attempt);
    sim_report_rumour(wire->node, attempt);
    sim_leave_world(wire->node->sim, was_in_core);
    broker_on_outcome(wire->node->broker, &wire->now, attempt);
}

static void on_failing(void *ctx, const char *queue, const char *target,
                       const struct failure_note *note)
{
    (void)ctx;
    (void)queue;
    (void)target;
    (void)note;
}

static void on_report(void *ctx, const struct report *report)
{
    struct wire_node *wire = ctx;

    if (wire->service != NULL) {
        service_tell(wire->service, report);
    }
}

/* ---- opening ---- */

static void load_config(struct wire_node *wire)
{
    char arguments[][64] = {"foliotd", "--databases=home=dbname=sim", "--name=sim",
                            "--targets-allow=*"};
    char *argv[] = {arguments[0], arguments[1], arguments[2], arguments[3]};
    char *environment[] = {NULL};
    struct config_input input = {ARRAY_COUNT(argv), argv, environment};
    enum config_action action;
    struct config_report report;
    int err;

    config_report_init(&report);
    err = config_load(&wire->config, &input, &action, &report);
    if (err != 0) {
        printf("config: %s", buf_text(&report.errors));
    }
    REQUIRE(err == 0);
    config_report_fini(&report);
}

static int tapped_start(struct outbound *outbound, struct attempt *attempt)
{
    struct wire_node *wire = CONTAINER_OF(outbound, struct wire_node, tapped);
    struct outbound *real = outbound_interface(wire->outbound);
    int err = real->start(real, attempt);

    if (err == 0) {
        bool was_in_core = sim_enter_world(wire->node->sim);

        wire_watch_start(wire->node->sim->wire->watch, wire->node, attempt);
        sim_leave_world(wire->node->sim, was_in_core);
    }
    return err;
}

static void tapped_report(struct outbound *outbound, const struct report *report)
{
    struct outbound *real =
        outbound_interface(CONTAINER_OF(outbound, struct wire_node, tapped)->outbound);

    real->report(real, report);
}

static void open_outbound(struct wire_node *wire)
{
    const struct config *config = &wire->config;
    const struct outbound_options options = {
        .loop = wire->proc.loop,
        .pool = {.loop = wire->proc.loop,
                 .target_count_max = (uint32_t)config->targets_max,
                 .concurrency_max = (uint32_t)config->target_concurrency,
                 .queue_max = (uint32_t)config->target_queue,
                 .batch_max = (uint32_t)config->target_batch},
        .allow = &config->targets_allow,
        .queue_find = on_queue_find,
        .bounds_at = on_bounds_at,
        .on_outcome = on_outcome,
        .on_failing = on_failing,
        .on_report = on_report,
        .ctx = wire,
    };

    REQUIRE(outbound_open(&options, &wire->outbound) == 0);
    wire->tapped = (struct outbound){.start = tapped_start, .report = tapped_report};
}

static void open_server(struct wire_node *wire)
{
    const struct sim_options *options = &wire->node->sim->options;
    struct rpc_server_options listening;

    rpc_server_options_init(&listening);
    listening.address = wire->proc.host;
    listening.port = WIRE_NODE_PORT;
    listening.streams_max = options->wire_streams;
    listening.age_ms = options->wire_age_ms == 0 ? SPAN_NEVER : options->wire_age_ms;
    listening.age_grace_ms = wire->config.connection_age_grace_ms;
    REQUIRE(rpc_server_open(wire->proc.loop, &listening, &wire->rpc) == 0);
}

struct wire_node *wire_node_new(struct sim_node *node)
{
    struct wire_node *wire = sim_need(1, sizeof(*wire));
    struct wire_visit former;
    char host[16];

    wire->node = node;
    (void)snprintf(host, sizeof(host), "10.0.0.%u", node->number + 1);
    wire_proc_init(&wire->proc, node->sim, node, host);
    prng_init(&wire->proc.prng, prng_next(&node->prng)); // Each life draws anew.
    former = wire_enter(&wire->proc);
    REQUIRE(loop_open(&wire->proc.loop) == 0);
    load_config(wire);
    open_outbound(wire);
    wire_leave(former);
    return wire;
}

struct outbound *wire_node_outbound(struct wire_node *wire)
{
    return &wire->tapped;
}

struct wire_proc *wire_node_proc(struct wire_node *wire)
{
    return &wire->proc;
}

static void open_services(struct wire_node *wire)
{
    struct sim_node *node = wire->node;
    const struct queue_sync_options queues = {
        .loop = wire->proc.loop,
        .store = node->store,
        .broker = node->broker,
        .now = &wire->now,
        .beat_us = beat_us(node->sim->options.session_timeout_ms),
    };
    struct service_options options = {
        .loop = wire->proc.loop,
        .broker = node->broker,
        .now = &wire->now,
        .store = node->store,
        .coord = node->coord,
        .config = &wire->config,
        .cluster = &node->sim->cluster,
        .name = node->name,
    };

    REQUIRE(queue_sync_open(&queues, &wire->queues) == 0);
    options.queues = wire->queues;
    REQUIRE(service_open(&options, &wire->service) == 0);
    REQUIRE(rpc_server_add_all(wire->rpc, service_methods(wire->service), SERVICE_METHOD_COUNT) ==
            0);
}

void wire_node_start(struct wire_node *wire)
{
    struct wire_visit former = wire_enter(&wire->proc);

    set_now(wire);
    open_server(wire);
    open_services(wire);
    loop_timer_init(&wire->wake, wire->proc.loop, on_wake, wire);
    loop_hook_add_first(wire->proc.loop, &wire->first, on_first, wire);
    loop_hook_add(wire->proc.loop, &wire->last, on_last, wire);
    broker_set_now(wire->node->broker, &wire->now);
    wire_leave(former);
    wire_loop_wake(wire->proc.loop);
}

void wire_node_wake_up(struct wire_node *wire)
{
    set_now(wire);
    (void)loop_sample_us(wire->proc.loop);
}

void wire_node_touch(struct wire_node *wire)
{
    wire_loop_wake(wire->proc.loop);
}

/* ---- draining ---- */

static void on_drained(void *ctx)
{
    struct wire_node *wire = ctx;

    wire->is_drained = true;
}

void wire_node_drain(struct wire_node *wire)
{
    struct wire_visit former = wire_enter(&wire->proc);

    rpc_server_drain(wire->rpc, DRAIN_MS, on_drained, wire);
    wire_leave(former);
}

bool wire_node_is_drained(const struct wire_node *wire)
{
    struct service_stats stats;

    service_get_stats(wire->service, &stats);
    return wire->is_drained && stats.reports_waiting == 0;
}

/* ---- a kill ---- */

void wire_node_crash(struct wire_node *wire)
{
    struct sim *sim = wire->node->sim;
    bool is_silent = !sim->is_healed && prng_chance(&wire->proc.prng, SILENT_PERMILLE);

    wire_net_crash(sim->wire->net, &wire->proc, is_silent);
    if (wire->proc.loop != NULL) { // Else it has ended in order.
        wire_loop_drop(wire->proc.loop);
    }
}

void wire_node_bury(struct wire_node *wire)
{
    if (wire->is_closed) {
        size_t left = wire_proc_owned(&wire->proc);

        if (left > 0) {
            sim_fail(wire->node->sim, SIM_UNSAFE, "leak",
                     "broker %u has ended and left %zu blocks of memory", wire->node->number, left);
        }
    }
    wire_proc_forget(&wire->proc);
    mem_free(wire);
}

/* ---- the way down ---- */

static void on_outbound_closed(void *ctx)
{
    struct wire_node *wire = ctx;

    wire->outbound = NULL;
    queue_sync_stop(wire->queues);
    loop_timer_stop(&wire->wake);
    loop_hook_del(&wire->first);
    loop_hook_del(&wire->last);
    wire->is_closed = true;
}

static void on_service_closed(void *ctx)
{
    struct wire_node *wire = ctx;

    wire->service = NULL;
    outbound_close(wire->outbound, on_outbound_closed, wire);
}

static void on_server_closed(void *ctx)
{
    struct wire_node *wire = ctx;

    wire->rpc = NULL;
    service_close(wire->service, on_service_closed, wire);
}

void wire_node_close(struct wire_node *wire)
{
    struct wire_visit former = wire_enter(&wire->proc);
    struct rpc_server_stats stats;

    rpc_server_get_stats(wire->rpc, &stats);
    if (stats.calls_open > 0 || stats.buffered_bytes > 0 || stats.unread_bytes > 0) {
        sim_fail(wire->node->sim, SIM_UNSAFE, "N-4",
                 "all is over, and broker %u has %llu calls, %llu and %llu bytes",
                 wire->node->number, (unsigned long long)stats.calls_open,
                 (unsigned long long)stats.buffered_bytes, (unsigned long long)stats.unread_bytes);
    }
    rpc_server_close(wire->rpc, on_server_closed, wire);
    wire_leave(former);
}

bool wire_node_is_closed(const struct wire_node *wire)
{
    return wire->is_closed;
}

/* What is left once every callback has come. */
void wire_node_end(struct wire_node *wire)
{
    struct wire_visit former = wire_enter(&wire->proc);

    queue_sync_close(wire->queues);
    config_fini(&wire->config);
    loop_close(wire->proc.loop);
    wire->proc.loop = NULL;
    wire_leave(former);
}
