/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts and the turn: what is opened in which order, and how the core is driven.
 */
#include "broker/server.h"

#include "broker/server_parts.h"
#include "lib/base/beat.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/entropy.h"
#include "lib/io/signals.h"
#include "lib/io/tls.h"
#include "lib/rpc/h2.h"
#include "proto/descriptor_set.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A page of metrics is some tens of KiB; the number of databases is bounded. */
#define PAGE_BYTES_MAX 1048576

/* A loop that is silent for so many session timeouts fails /livez; the watchdog is earlier. */
#define STUCK_TIMEOUTS 3

/* For the log lines of a failed assertion, which have no context. One server per process. */
static struct server *the_server;

/* ---- the turn ---- */

static void set_now(struct server *server, boot_us now_us)
{
    server->now.boot = now_us;
    for (uint32_t i = 0; i < server->database_count; i++) {
        server->now.database[i] = server_bounds_at(server, i, now_us);
    }
}

/* Before any event: callbacks of the store come to the core without the time. */
static void on_first(void *ctx)
{
    struct server *server = ctx;

    server->turn_us = loop_now_us(server->loop);
    set_now(server, server->turn_us);
    broker_set_now(server->broker, &server->now);
    if (server->admin != NULL) {
        admin_beat(server->admin, server->turn_us);
    }
}

/* After all events. The time is sampled again: a long turn must not make due tasks wait for the
 * next one. */
static void on_last(void *ctx)
{
    struct server *server = ctx;

    if (server->coord != NULL) {
        set_now(server, loop_sample_us(server->loop));
        broker_tick(server->broker, &server->now);
        loop_timer_start(&server->wake, broker_next_wake(server->broker, &server->now));
    }
    server_step_drain(server);
    metrics_turn(server->metrics, clock_boot_us() - server->turn_us);
}

/* The tick at the end of the turn is what it wakes for. */
static void on_wake(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    (void)ctx;
}

/* A call that was read at the end of a long turn asks for a delay from then, not from the turn's
 * beginning: it would be early by the turn's length. */
static void on_sample(void *ctx)
{
    struct server *server = ctx;

    set_now(server, loop_sample_us(server->loop));
}

/* ---- the outbound's questions ---- */

static const struct queue *on_queue_find(void *ctx, uint32_t id)
{
    struct server *server = ctx;

    return broker_queue_find(server->broker, id);
}

static void on_outcome(void *ctx, struct attempt *attempt)
{
    struct server *server = ctx;

    broker_on_outcome(server->broker, &server->now, attempt);
}

static void on_report(void *ctx, const struct report *report)
{
    struct server *server = ctx;

    if (server->service != NULL) { // Else we are closing, and the owner waits for the deadline.
        service_tell(server->service, report);
    }
}

/* ---- opening ---- */

static void fill_member(const struct server *server, struct member *member)
{
    memset(member, 0, sizeof(*member));
    memcpy(member->name, server->name, sizeof(member->name));
    memcpy(member->instance, server->instance, sizeof(member->instance));
    memcpy(member->grpc, server->advertise, sizeof(member->grpc));
    memcpy(member->admin, server->admin_address, sizeof(member->admin));
    (void)snprintf(member->version, sizeof(member->version), "%s", FOLIOT_VERSION);
    member->started_ms = clock_wall_ms();
}

static int open_outbound(struct server *server)
{
    const struct config *config = server->config;
    const struct outbound_options options = {
        .loop = server->loop,
        .pool = {.loop = server->loop,
                 .resolver = server->resolver,
                 .tls = server->tls.targets,
                 .keepalive_ms = server->config->targets_keepalive_ms,
                 .target_count_max = (uint32_t)config->targets_max,
                 .concurrency_max = (uint32_t)config->target_concurrency,
                 .queue_max = (uint32_t)config->target_queue,
                 .batch_max = (uint32_t)config->target_batch},
        .allow = &config->targets_allow,
        .queue_find = on_queue_find,
        .bounds_at = server_bounds_at,
        .on_outcome = on_outcome,
        .on_failing = server_on_failing,
        .on_report = on_report,
        .ctx = server,
    };

    return outbound_open(&options, &server->outbound);
}

static int open_broker(struct server *server, const struct member *self)
{
    const struct broker_env env = {
        .seed = entropy_u64(),
        .coord = server->coord,
        .store = server->store,
        .outbound = outbound_interface(server->outbound),
        .on_event = server_on_core_event,
        .on_event_ctx = server,
    };
    struct broker_options *options = mem_new(1, sizeof(*options));
    int err;

    if (options == NULL) {
        return ERR_NO_MEMORY;
    }
    options->cluster = server->cluster;
    options->database_count = server->database_count;
    options->self = *self;
    options->writer = (int64_t)(entropy_u64() >> 2) | 1; // The next number is ours, too.
    options->session_timeout_ms = server->session_timeout_ms;
    options->entry_count_max = (uint32_t)server->config->memory_tasks;
    options->window_ms = server->config->memory_window_ms;
    options->audit_ms = server->config->audit_every_ms;
    options->settle_wait_us = BROKER_SETTLE_WAIT_US;
    options->claim_wait_us = BROKER_CLAIM_WAIT_US;
    err = broker_new(&env, options, &server->broker);
    mem_free(options);
    return err;
}

/* The API without a password: for this machine only, and not where clients must show a certificate,
 * unless the operator says otherwise. */
static bool wants_json(const struct server *server)
{
    if (server->config->admin_json != CONFIG_JSON_AUTO) {
        return server->config->admin_json == CONFIG_JSON_ON;
    }
    return server->config->tls_clients != TLS_CLIENTS_KNOWN &&
           (strncmp(server->admin_address, "127.", 4) == 0 ||
            strncmp(server->admin_address, "[::1]:", 6) == 0);
}

static int open_services(struct server *server)
{
    const struct queue_sync_options queues = {
        .loop = server->loop,
        .store = server->store,
        .broker = server->broker,
        .now = &server->now,
        .beat_us = beat_us(server->session_timeout_ms),
    };
    struct service_options options = {
        .loop = server->loop,
        .resolver = server->resolver,
        .tls = server->tls.peers,
        .broker = server->broker,
        .now = &server->now,
        .sample = on_sample,
        .sample_ctx = server,
        .store = server->store,
        .coord = server->coord,
        .config = server->config,
        .cluster = &server->cluster,
        .name = server->name,
        .on_drain = server_drain_soon,
        .server_of = server->backend->server_of,
        .ctx = server,
    };
    int err = queue_sync_open(&queues, &server->queues);

    if (err == 0) {
        options.queues = server->queues;
        err = service_open(&options, &server->service);
    }
    if (err == 0) {
        err =
            rpc_server_add_all(server->rpc, service_methods(server->service), SERVICE_METHOD_COUNT);
    }
    if (err == 0 && server->backend->add_methods != NULL) {
        err = server->backend->add_methods(server);
    }
    if (err == 0) {
        err = rpc_health_open(server->rpc, &server->health);
    }
    if (err == 0 && server->config->reflection == CONFIG_ON) {
        err = rpc_reflection_open(server->rpc, descriptor_set(), &server->reflection);
    }
    if (err == 0 && server->admin != NULL && wants_json(server)) {
        err = json_api_open(server->loop, server->rpc, server->admin, &server->json_api);
    }
    return err;
}

static int open_signals(struct server *server)
{
    sigset_t set;
    int err = loop_signal_open(server->loop, SIGTERM, server_on_signal, server, &server->terminate);

    if (err == 0) {
        err = loop_signal_open(server->loop, SIGINT, server_on_signal, server, &server->interrupt);
    }
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    return err;
}

static int open_parts(struct server *server)
{
    struct resolver_options resolver;
    struct member self;
    int err;

    resolver_options_init(&resolver);
    err = resolver_open(server->loop, &resolver, &server->resolver);
    if (err == 0) {
        err = server_tls_open(server);
    }
    if (err == 0) {
        err = server_listen(server);
    }
    if (err == 0) {
        err = server->backend->open_store(server);
    }
    if (err == 0) {
        fill_member(server, &self);
        err = server->backend->open_coord(server, &self);
    }
    if (err == 0) {
        err = open_outbound(server);
    }
    if (err == 0) {
        err = open_broker(server, &self);
    }
    if (err == 0) {
        err = open_services(server);
    }
    if (err == 0) {
        err = open_signals(server);
    }
    if (err == 0) {
        err = server_tls_watch(server);
    }
    return err != 0 ? err
                    : watchdog_open(server->loop, server->session_timeout_ms, NULL, NULL,
                                    &server->watchdog);
}

static void start_turns(struct server *server)
{
    server->has_hooks = true;
    loop_timer_init(&server->wake, server->loop, on_wake, server);
    loop_timer_init(&server->publish, server->loop, server_publish, server);
    loop_hook_add_first(server->loop, &server->first, on_first, server);
    loop_hook_add(server->loop, &server->last, on_last, server);
    loop_timer_start_in(&server->publish, 0);
    server->turn_us = loop_sample_us(server->loop);
    set_now(server, server->turn_us);
    broker_set_now(server->broker, &server->now);
    server->phase = SERVER_SERVING;
    rpc_health_set(server->health, true);
    if (server->admin != NULL) {
        admin_watch(server->admin, STUCK_TIMEOUTS * server->session_timeout_ms);
    }
    SERVER_LOG(server, LOG_LEVEL_INFO, "serving", log_text("listen", server->advertise),
               log_uint("port", rpc_server_port(server->rpc)),
               log_text("admin", server->admin_address), log_text("instance", server->instance),
               log_text("version", FOLIOT_VERSION), log_text("nghttp2", h2_library_version()));
}

/* ---- the log ---- */

/* One write per line, so that lines of several processes on one terminal do not mix. */
static void on_line(void *ctx, enum log_level level, struct slice line)
{
    ssize_t written;

    (void)ctx;
    (void)level;
    do {
        written = write(STDERR_FILENO, line.data, line.len);
        if (written > 0) {
            line.data += written;
            line.len -= (size_t)written;
        }
    } while (line.len > 0 && written > 0);
}

static void open_log(struct server *server)
{
    const struct config *config = server->config;
    bool is_human = config->log_format == CONFIG_LOG_TEXT ||
                    (config->log_format == CONFIG_LOG_AUTO && isatty(STDERR_FILENO) == 1);

    log_init(&server->log, is_human ? LOG_FORMAT_HUMAN : LOG_FORMAT_JSON,
             (enum log_level)(LOG_LEVEL_DEBUG + config->log_level), on_line, NULL);
    server->log.broker = config->name;
    server->logger = (struct logger){&server->log, "server"};
}

static void on_failed_check(const char *condition, const char *file, int line)
{
    if (the_server != NULL) {
        SERVER_LOG(the_server, LOG_LEVEL_ERROR, "an invariant is broken, the process ends",
                   log_text("condition", condition), log_text("file", file), log_int("line", line));
    }
}

static void log_warnings(struct server *server, const char *warnings)
{
    while (*warnings != '\0') {
        size_t len = strcspn(warnings, "\n");

        SERVER_LOG(server, LOG_LEVEL_WARN, "settings",
                   log_slice("note", (struct slice){(const uint8_t *)warnings, len}));
        warnings += len + (warnings[len] == '\n');
    }
}

/* ---- life ---- */

static void init_server(struct server *server, const struct server_setup *setup)
{
    const struct config *config = setup->config;

    server->config = config;
    server->backend = setup->backend;
    server->backend_ctx = setup->backend_ctx;
    server->phase = SERVER_STARTING;
    server->session = COORD_AWAY;
    server->exit_status = SERVER_EXIT_FAILED;
    server->database_count = (uint32_t)config_database_count(config);
    buf_init(&server->page, PAGE_BYTES_MAX);
    (void)snprintf(server->instance, sizeof(server->instance), "%016" PRIx64, entropy_u64());
    for (uint32_t i = 0; i < server->database_count; i++) {
        struct server_database *database = &server->databases[i];

        database->conninfo = config_database(config, i, database->name);
        clock_estimate_init(&database->clock);
    }
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        server->now.database[i] = (struct clock_bounds){INT64_MIN, INT64_MAX, INT64_MIN};
    }
    open_log(server);
}

/* Signals wait until the loop can take them, or server_prepare() asks. */
static void block_signals(void)
{
    sigset_t set;

    signals_ignore_pipe();
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* Open what needs the loop. False if it cannot be done: then it is being closed. */
static bool open_server(struct server *server)
{
    int err = open_parts(server);

    if (err == 0) {
        server->exit_status = SERVER_EXIT_OK;
        start_turns(server);
        return true;
    }
    if (server->backend->on_refused == NULL) {
        SERVER_LOG(server, LOG_LEVEL_ERROR, "cannot start", log_err(err));
    }
    server_close(server);
    return false;
}

/* All of them or none: if one cannot start, those before it end. */
static void run_group(struct server_group *group)
{
    bool is_open = true;

    group->open_count = group->count;
    for (size_t i = 0; i < group->count; i++) {
        group->servers[i]->loop = group->loop;
        loop_task_init(&group->servers[i]->leaving, server_leave, group->servers[i]);
    }
    for (size_t i = 0; i < group->count; i++) {
        if (is_open) {
            is_open = open_server(group->servers[i]);
        } else {
            server_close(group->servers[i]);
        }
    }
    for (size_t i = 0; !is_open && i < group->count; i++) {
        group->servers[i]->exit_status = SERVER_EXIT_FAILED;
        server_close(group->servers[i]);
    }
    if (group->open_count > 0) {
        loop_run(group->loop);
    }
}

static struct server *make_server(const struct server_setup *setup, struct server_group *group)
{
    struct server *server = mem_new(1, sizeof(*server));

    if (server == NULL) {
        return NULL;
    }
    init_server(server, setup);
    server->group = group;
    log_warnings(server, setup->warnings);
    return server;
}

static void end_server(struct server *server, int *status)
{
    if (server->exit_status != SERVER_EXIT_OK) {
        *status = server->exit_status;
    }
    server_free(server);
    SERVER_LOG(server, LOG_LEVEL_INFO, "ended", log_int("status", server->exit_status));
    log_fini(&server->log);
    mem_free(server);
}

/* Make and prepare every server; false if one cannot be. */
static bool prepare_group(struct server_group *group, const struct server_setup *setups,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct server *server = make_server(&setups[i], group);

        if (server == NULL) {
            return false;
        }
        group->servers[group->count++] = server;
        the_server = group->servers[0];
        if (metrics_open(FOLIOT_VERSION, setups[i].config->name, &server->metrics) != 0 ||
            !server_prepare(server)) {
            return false;
        }
    }
    return true;
}

/* A server that a signal ended before it was open has said how it ended. */
int server_run(const struct server_setup *setups, size_t count)
{
    struct server_group group = {0};
    int status = SERVER_EXIT_OK;

    REQUIRE(count >= 1 && count <= SERVER_COUNT_MAX);
    block_signals();
    check_set_hook(on_failed_check);
    if (prepare_group(&group, setups, count) && loop_open(&group.loop) == 0) {
        run_group(&group);
    } else if (group.count < count) {
        status = SERVER_EXIT_FAILED;
    }
    if (group.open_count > 0) {
        return SERVER_EXIT_FAILED; // What did not close in time ends with the process.
    }
    for (size_t i = 0; i < group.count; i++) {
        end_server(group.servers[i], &status);
    }
    if (group.loop != NULL) {
        loop_close(group.loop);
    }
    the_server = NULL;
    check_set_hook(NULL);
    return status;
}
