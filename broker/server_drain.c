/* SPDX-License-Identifier: Apache-2.0
 *
 * The way down. Each part is closed when the one before has called back; a part that was never
 * opened is passed over, so that a start that fails half-way ends by the same steps.
 */
#include "broker/server_parts.h"

#include "lib/base/check.h"
#include "lib/io/clock.h"
#include "lib/io/supervisor.h"

static void close_service(void *ctx);
static void close_outbound(void *ctx);
static void close_coord(void *ctx);
static void close_store(void *ctx);
static void on_all_closed(void *ctx);

/* ---- closing, one after the other ---- */

static void close_rpc(struct server *server)
{
    if (server->rpc != NULL) {
        rpc_server_close(server->rpc, close_service, server);
    } else {
        close_service(server);
    }
}

static void close_service(void *ctx)
{
    struct server *server = ctx;

    server->rpc = NULL;
    if (server->json_api != NULL) {
        json_api_detach(server->json_api);
    }
    if (server->service != NULL) {
        service_close(server->service, close_outbound, server);
    } else {
        close_outbound(server);
    }
}

static void close_outbound(void *ctx)
{
    struct server *server = ctx;

    server->service = NULL;
    if (server->outbound != NULL) {
        outbound_close(server->outbound, close_coord, server);
    } else {
        close_coord(server);
    }
}

static void close_coord(void *ctx)
{
    struct server *server = ctx;

    server->outbound = NULL;
    if (server->coord != NULL) {
        server->coord->close(server->coord, close_store, server);
    } else {
        close_store(server);
    }
}

static void close_store(void *ctx)
{
    struct server *server = ctx;

    server->coord = NULL;
    if (server->queues != NULL) {
        queue_sync_stop(server->queues); // Its timer lives on until all is closed.
    }
    if (server->store != NULL) {
        server->store->close(server->store, on_all_closed, server);
    } else {
        on_all_closed(server);
    }
}

static void on_all_closed(void *ctx)
{
    struct server *server = ctx;

    server->store = NULL;
    server->is_closed = true;
    loop_timer_stop(&server->fuse); // The other brokers of the process have their own.
    if (--server->group->open_count == 0) {
        loop_stop(server->loop);
    }
}

/* ---- the fuse ---- */

/* What has not called back, in the order of closing. */
static const char *open_part(const struct server *server)
{
    if (server->rpc != NULL) {
        return "rpc";
    }
    if (server->service != NULL) {
        return "service";
    }
    if (server->outbound != NULL) {
        return "outbound";
    }
    return server->coord != NULL ? "coordinator" : "store";
}

static void on_fuse(struct loop_timer *timer, void *ctx)
{
    struct server *server = ctx;

    (void)timer;
    if (server->phase == SERVER_DRAINING) {
        struct broker_stats stats;

        broker_inspect(server->broker, &stats);
        SERVER_LOG(server, LOG_LEVEL_WARN, "the time to drain is over, what still runs is cut off",
                   log_uint("attempts", stats.in_flight), log_uint("shards", stats.shards_owned));
        server_close(server);
        return;
    }
    SERVER_LOG(server, LOG_LEVEL_ERROR, "the parts do not close in time, ending without them",
               log_text("part", open_part(server)), log_int("limit_ms", SERVER_CLOSE_MS));
    server->exit_status = SERVER_EXIT_FAILED;
    loop_stop(server->loop);
}

void server_close(struct server *server)
{
    if (server->phase == SERVER_CLOSING) {
        return;
    }
    server->phase = SERVER_CLOSING;
    loop_timer_init(&server->fuse, server->loop, on_fuse, server);
    loop_timer_start_in(&server->fuse, SERVER_CLOSE_MS);
    close_rpc(server);
}

/* ---- draining ---- */

static void on_rpc_drained(void *ctx)
{
    struct server *server = ctx;

    server->rpc_is_drained = true;
}

static void drain(struct server *server)
{
    SERVER_LOG(server, LOG_LEVEL_INFO, "draining: shards are released, clients are sent elsewhere",
               log_int("limit_ms", server->config->drain_timeout_ms));
    server->phase = SERVER_DRAINING;
    supervisor_tell("STOPPING=1");
    rpc_health_set(server->health, false);
    if (server->admin != NULL) {
        admin_set_ready(server->admin, false, "draining\n");
    }
    broker_drain(server->broker, &server->now);
    rpc_server_drain(server->rpc, server->config->drain_timeout_ms, on_rpc_drained, server);
    loop_timer_init(&server->fuse, server->loop, on_fuse, server);
    loop_timer_start_in(&server->fuse, server->config->drain_timeout_ms);
}

void server_leave(void *ctx)
{
    struct server *server = ctx;

    if (server->phase == SERVER_SERVING) {
        drain(server);
    }
}

/* Not at once: the call that asks for it is being answered. */
void server_drain_soon(void *ctx)
{
    struct server *server = ctx;

    loop_post(server->loop, &server->leaving);
}

void server_on_signal(int number, void *ctx)
{
    struct server *server = ctx;

    SERVER_LOG(server, LOG_LEVEL_INFO, "signal", log_int("number", number));
    switch (server->phase) {
    case SERVER_SERVING:
        drain(server);
        break;
    case SERVER_DRAINING:
        loop_timer_stop(&server->fuse);
        server_close(server);
        break;
    case SERVER_STARTING:
    case SERVER_CLOSING:
        break;
    }
}

/* Nothing is ours, nothing runs, and the outcomes of what ran are where they belong, or nobody is
 * there to take them. */
static bool is_released(const struct server *server)
{
    bool has_heir = false;
    struct service_stats stats;

    service_get_stats(server->service, &stats);
    for (uint32_t i = 0; i < server->database_count; i++) {
        has_heir |= broker_has_heir(server->broker, i);
    }
    return broker_is_drained(server->broker) && (stats.reports_waiting == 0 || !has_heir);
}

void server_step_drain(struct server *server)
{
    if (server->phase == SERVER_DRAINING && server->rpc_is_drained && is_released(server)) {
        SERVER_LOG(server, LOG_LEVEL_INFO, "drained", log_text("instance", server->instance));
        loop_timer_stop(&server->fuse);
        server_close(server);
    }
}

/* ---- what needs no callback ---- */

static void free_loop(struct server *server)
{
    if (server->watchdog != NULL) {
        watchdog_close(server->watchdog);
    }
    loop_timer_stop(&server->fuse);
    loop_unpost(&server->leaving);
    if (server->has_hooks) {
        loop_timer_stop(&server->wake);
        loop_timer_stop(&server->publish);
        loop_hook_del(&server->first);
        loop_hook_del(&server->last);
    }
    server_tls_unwatch(server);
    if (server->terminate != NULL) {
        loop_signal_close(server->terminate);
    }
    if (server->interrupt != NULL) {
        loop_signal_close(server->interrupt);
    }
}

void server_free(struct server *server)
{
    REQUIRE(server->rpc == NULL && server->store == NULL && server->coord == NULL);
    if (server->json_api != NULL) {
        json_api_stop(server->json_api);
    }
    if (server->admin != NULL) {
        admin_close(server->admin);
    }
    if (server->json_api != NULL) {
        json_api_free(server->json_api);
    }
    if (server->health != NULL) {
        rpc_health_close(server->health);
    }
    if (server->reflection != NULL) {
        rpc_reflection_close(server->reflection);
    }
    if (server->queues != NULL) {
        queue_sync_close(server->queues);
    }
    if (server->broker != NULL) {
        broker_free(server->broker);
    }
    if (server->resolver != NULL) {
        resolver_close(server->resolver);
    }
    if (server->metrics != NULL) {
        metrics_close(server->metrics);
    }
    if (server->backend->free != NULL) {
        server->backend->free(server);
    }
    if (server->loop != NULL) {
        free_loop(server);
    }
    server_tls_close(&server->tls);
    buf_fini(&server->page);
}
