/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures and readiness for the admin port.
 */
#include "broker/server_parts.h"

#include "broker/readiness.h"
#include "lib/base/beat.h"
#include "lib/io/clock.h"
#include "lib/io/supervisor.h"
#include "lib/io/tls.h"

#include <string.h>

#define MISSING_BYTES_MAX 1024

struct clock_bounds server_bounds_at(void *ctx, uint32_t database, boot_us at_us)
{
    struct server *server = ctx;
    struct clock_range range = clock_estimate_now(&server->databases[database].clock, at_us);

    return (struct clock_bounds){range.lower_us, range.upper_us, range.proven_us};
}

/* Whether this broker should get calls now; a line for each thing that is missing. */
static bool judge(const struct server *server, struct buf *missing)
{
    struct readiness facts = {
        .is_draining = server->phase == SERVER_DRAINING || server->phase == SERVER_CLOSING,
        .has_session = server->session == COORD_NEW || server->session == COORD_CONNECTED,
        .has_queues = queue_sync_is_ready(server->queues),
        .has_started = server->has_been_ready,
        .database_count = server->database_count,
    };

    for (uint32_t i = 0; i < server->database_count; i++) {
        facts.databases[i].name = server->databases[i].name;
        facts.databases[i].is_writable = server->databases[i].is_writable;
    }
    return readiness_judge(&facts, missing);
}

static void gather_shards(const struct server *server, struct figures *figures)
{
    size_t member_count;
    const struct member *members = broker_members(server->broker, &member_count);
    struct shard_set owned = {{0}};
    struct shard_view view;

    figures->shard_count = broker_shard_count(server->broker);
    figures->members = (uint32_t)member_count;
    for (size_t i = 0; i < member_count; i++) {
        for (size_t word = 0; word < ARRAY_COUNT(owned.bits); word++) {
            owned.bits[word] |= members[i].owns.bits[word];
        }
    }
    for (uint32_t shard = 0; shard < figures->shard_count; shard++) {
        if (!shard_set_has(&owned, shard)) {
            broker_inspect_shard(server->broker, shard, &view);
            figures->shards_unowned += strcmp(view.state, "active") != 0;
        }
    }
}

static void gather(struct server *server, struct figures *figures)
{
    boot_us now_us = loop_now_us(server->loop);

    memset(figures, 0, sizeof(*figures));
    broker_inspect(server->broker, &figures->broker);
    outbound_get_stats(server->outbound, &figures->outbound);
    service_get_stats(server->service, &figures->service);
    rpc_server_get_stats(server->rpc, &figures->rpc);
    gather_shards(server, figures);
    figures->tls_expires_s =
        server->tls.calls == NULL ? 0 : (uint64_t)tls_expires_s(server->tls.calls);
    figures->database_count = server->database_count;
    for (uint32_t i = 0; i < server->database_count; i++) {
        struct server_database *database = &server->databases[i];
        struct database_figures *out = &figures->databases[i];

        out->name = database->name;
        out->is_writable = database->is_writable;
        out->clock_error_us = clock_estimate_error(&database->clock, now_us);
        out->clock_held_us = clock_estimate_held(&database->clock, now_us);
        out->clock_steps = database->clock_steps;
        out->clock_offset_us = clock_estimate_offset(&database->clock, now_us, clock_wall_us());
    }
    server->backend->gather(server, figures);
}

/* For the admin port; a change goes to the log. */
static void publish_readiness(struct server *server)
{
    struct buf missing;
    bool is_ready;

    buf_init(&missing, MISSING_BYTES_MAX);
    is_ready = judge(server, &missing);
    if (is_ready != server->is_ready) {
        bool is_meant = is_ready || server->phase != SERVER_SERVING; // A drain was asked for.

        SERVER_LOG(server, is_meant ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
                   is_ready ? "ready" : "not ready", log_text("why", buf_text(&missing)));
    }
    server->is_ready = is_ready;
    if (is_ready && !server->has_been_ready) {
        server->has_been_ready = true;
        supervisor_tell("READY=1");
        if (server->backend->on_ready != NULL) {
            server->backend->on_ready(server);
        }
    }
    if (server->admin != NULL) {
        admin_set_ready(server->admin, is_ready, buf_text(&missing));
    }
    buf_fini(&missing);
}

static void publish_figures(struct server *server)
{
    struct figures figures;

    gather(server, &figures);
    figures.is_ready = server->is_ready;
    buf_clear(&server->page);
    if (metrics_text(server->metrics, &figures, &server->page) == 0) {
        admin_publish(server->admin, buf_slice(&server->page));
    }
}

void server_publish(struct loop_timer *timer, void *ctx)
{
    struct server *server = ctx;

    log_report_repeats(&server->log, clock_wall_us());
    if (server->phase == SERVER_CLOSING) {
        return;
    }
    publish_readiness(server);
    if (server->admin != NULL) {
        publish_figures(server);
    }
    if (server->is_ready) {
        loop_timer_start(
            timer, beat_after(loop_now_us(server->loop), beat_us(server->session_timeout_ms)));
    } else {
        loop_timer_start_in(timer, SERVER_PUBLISH_EARLY_MS);
    }
}

void server_publish_soon(struct server *server)
{
    if (server->has_hooks && server->phase != SERVER_CLOSING) {
        loop_timer_start_in(&server->publish, 0);
    }
}
