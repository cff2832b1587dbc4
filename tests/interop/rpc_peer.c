/* SPDX-License-Identifier: Apache-2.0
 *
 * A server for other implementations to call: prints "port N" and serves until SIGTERM, on which it
 * drains, prints "drained" and its counters, and ends. Limits are small enough to be met by tests:
 *
 *   rpc_peer [name=value …]   names of struct rpc_server_options, or drain_ms, tls_cert, tls_key,
 *                             tls_ca, tls_clients (0, 1, 2); SIGHUP reads these files again
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "lib/io/tls.h"
#include "lib/rpc/grpc_header.h"
#include "lib/rpc/rpc_health.h"
#include "lib/rpc/rpc_method.h"
#include "lib/rpc/rpc_reflection.h"
#include "lib/rpc/rpc_server.h"
#include "proto/descriptor_set.h"

#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_MS 5000

struct peer {
    struct loop *loop;
    struct rpc_server *server;
    struct rpc_health *health;
    struct rpc_reflection *reflection;
    struct tls_options tls_options;
    struct tls *tls;
    struct loop_timer end;
    span_ms drain_ms;
    uint64_t cancelled_count;
    uint64_t handled_count;
};

/* A call that is answered later. */
struct later {
    struct loop_timer timer;
    struct peer *peer;
    struct rpc_call *call;
    struct buf answer;
};

static void on_echo(struct rpc_call *call, struct slice request, void *ctx)
{
    struct peer *peer = ctx;

    peer->handled_count++;
    rpc_call_reply(call, request);
}

/* Answers with what it was told about the call. */
static void on_describe(struct rpc_call *call, struct slice request, void *ctx)
{
    struct peer *peer = ctx;
    struct slice text = rpc_call_metadata(call, "x-text");
    struct slice binary = rpc_call_metadata(call, "x-raw-bin");
    struct buf answer;

    (void)request;
    buf_init(&answer, 65536);
    (void)buf_printf(&answer,
                     "peer=%s path=%s deadline=%s x-text=%.*s x-raw-bin=", rpc_call_peer(call),
                     rpc_call_path(call),
                     rpc_call_deadline_us(call) == BOOT_NEVER               ? "none"
                     : rpc_call_deadline_us(call) > loop_now_us(peer->loop) ? "future"
                                                                            : "past",
                     (int)text.len, text.data == NULL ? "" : (const char *)text.data);
    for (size_t i = 0; i < binary.len; i++) {
        (void)buf_printf(&answer, "%02x", binary.data[i]);
    }
    rpc_call_reply(call, buf_slice(&answer));
    buf_fini(&answer);
}

/* Fails with the status in its first byte, the rest as message, and details. */
static void on_fail(struct rpc_call *call, struct slice request, void *ctx)
{
    static const uint8_t details[] = {0x08, 0x05, 0x12, 0x02, 'h', 'i'};
    char message[2048];

    (void)ctx;
    (void)snprintf(message, sizeof(message), "%.*s", (int)request.len - 1,
                   (const char *)request.data + 1);
    rpc_call_fail(call, (enum rpc_status)request.data[0], message,
                  (struct slice){details, sizeof(details)}, 250);
}

static void finish_later(struct later *later)
{
    struct rpc_call *call = later->call;

    loop_timer_stop(&later->timer);
    rpc_call_reply(call, buf_slice(&later->answer));
    buf_fini(&later->answer);
    mem_free(later);
}

static void on_later(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    finish_later(ctx);
}

static void on_cancel(struct rpc_call *call, void *ctx)
{
    struct later *later = ctx;

    (void)call;
    later->peer->cancelled_count++;
    finish_later(later);
}

/* Answers with its request after as many milliseconds as the request's text says. */
static void on_wait(struct rpc_call *call, struct slice request, void *ctx)
{
    struct later *later = mem_new(1, sizeof(*later));
    int64_t delay_ms = 0;

    if (later == NULL || grpc_number_parse(request, &delay_ms) != 0) {
        mem_free(later);
        rpc_call_fail(call, RPC_INVALID_ARGUMENT, "the request is no number",
                      (struct slice){NULL, 0}, 0);
        return;
    }
    later->peer = ctx;
    later->call = call;
    later->peer->handled_count++;
    buf_init(&later->answer, request.len);
    (void)buf_append(&later->answer, request.data, request.len);
    loop_timer_init(&later->timer, later->peer->loop, on_later, later);
    loop_timer_start_in(&later->timer, delay_ms);
    rpc_call_on_cancel(call, on_cancel, later);
}

/* Answers with as many bytes as the request's text says. */
static void on_produce(struct rpc_call *call, struct slice request, void *ctx)
{
    struct buf answer;
    int64_t len = 0;
    uint8_t *space;

    (void)ctx;
    if (grpc_number_parse(request, &len) != 0) {
        len = 0;
    }
    buf_init(&answer, (size_t)len);
    space = buf_reserve(&answer, (size_t)len);
    if (space != NULL) {
        memset(space, 'p', (size_t)len);
        buf_commit(&answer, (size_t)len);
    }
    rpc_call_reply(call, buf_slice(&answer));
    buf_fini(&answer);
}

static void on_closed(void *ctx)
{
    struct peer *peer = ctx;

    loop_stop(peer->loop);
}

static void print_stats(const struct peer *peer)
{
    struct rpc_server_stats stats;

    rpc_server_get_stats(peer->server, &stats);
    (void)printf("stats accepted=%" PRIu64 " refused=%" PRIu64 " connections=%" PRIu64
                 " calls=%" PRIu64 " open=%" PRIu64 " buffered=%" PRIu64 " cancelled=%" PRIu64
                 " handled=%" PRIu64 "\n",
                 stats.connections_accepted, stats.connections_refused, stats.connections_open,
                 stats.calls_started, stats.calls_open, stats.buffered_bytes, peer->cancelled_count,
                 peer->handled_count);
    (void)fflush(stdout);
}

static void on_drained(void *ctx)
{
    struct peer *peer = ctx;

    (void)printf("drained\n");
    print_stats(peer);
    rpc_server_close(peer->server, on_closed, peer);
}

static void on_refused(const char *who, const char *why, void *ctx)
{
    (void)who;
    (void)ctx;
    (void)printf("refused %s\n", why);
    (void)fflush(stdout);
}

/* Says whether the files had changed, and how their reading went. */
static void reload(struct peer *peer)
{
    char why[TLS_WHY_BYTES] = "fine";
    bool has_changed = tls_has_changed(peer->tls);
    int err = tls_reload(peer->tls, why);

    (void)printf("reload changed=%d err=%d %s\n", has_changed, err, why);
    (void)fflush(stdout);
}

static void on_signal(int signal_number, void *ctx)
{
    struct peer *peer = ctx;

    if (signal_number == SIGHUP) {
        reload(peer);
        return;
    }

    if (signal_number == SIGUSR1) {
        rpc_health_set(peer->health, false);
        print_stats(peer);
        return;
    }
    rpc_server_drain(peer->server, peer->drain_ms, on_drained, peer);
}

/* Set a text option from "name=value". */
static bool set_text(struct peer *peer, const char *text)
{
    const struct {
        const char *name;
        const char **value;
    } known[] = {
        {"tls_ca=", &peer->tls_options.ca_file},
        {"tls_cert=", &peer->tls_options.cert_file},
        {"tls_key=", &peer->tls_options.key_file},
    };

    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        if (strncmp(text, known[i].name, strlen(known[i].name)) == 0) {
            *known[i].value = text + strlen(known[i].name);
            peer->tls_options.is_server = true;
            return true;
        }
    }
    if (strncmp(text, "tls_clients=", 12) == 0) {
        peer->tls_options.clients = (enum tls_clients)(text[12] - '0');
        return true;
    }
    return false;
}

/* Set an option from "name=value". */
static bool set_option(struct rpc_server_options *options, struct peer *peer, const char *text)
{
    struct {
        const char *name;
        span_ms *span;
        uint32_t *count;
        size_t *size;
    } const known[] = {
        {"drain_ms", &peer->drain_ms, NULL, NULL},
        {"connections_max", NULL, &options->connections_max, NULL},
        {"address_connections", NULL, &options->address_connections, NULL},
        {"streams_max", NULL, &options->streams_max, NULL},
        {"request_bytes_max", NULL, NULL, &options->request_bytes_max},
        {"response_bytes_max", NULL, NULL, &options->response_bytes_max},
        {"header_bytes_max", NULL, NULL, &options->header_bytes_max},
        {"buffered_bytes_max", NULL, NULL, &options->buffered_bytes_max},
        {"handshake_ms", &options->handshake_ms, NULL, NULL},
        {"request_ms", &options->request_ms, NULL, NULL},
        {"idle_ms", &options->idle_ms, NULL, NULL},
        {"age_ms", &options->age_ms, NULL, NULL},
        {"age_grace_ms", &options->age_grace_ms, NULL, NULL},
        {"keepalive_ms", &options->keepalive_ms, NULL, NULL},
        {"keepalive_timeout_ms", &options->keepalive_timeout_ms, NULL, NULL},
        {"compress_bytes_min", NULL, NULL, &options->compress_bytes_min},
        {"ping_interval_min_ms", &options->ping_interval_min_ms, NULL, NULL},
    };
    const char *equals = strchr(text, '=');
    int64_t value;

    if (set_text(peer, text)) {
        return true;
    }
    if (equals == NULL || grpc_number_parse(slice_of(equals + 1), &value) != 0) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        if (strlen(known[i].name) != (size_t)(equals - text) ||
            strncmp(known[i].name, text, (size_t)(equals - text)) != 0) {
            continue;
        }
        if (known[i].span != NULL) {
            *known[i].span = value;
        } else if (known[i].count != NULL) {
            *known[i].count = (uint32_t)value;
        } else {
            *known[i].size = (size_t)value;
        }
        return true;
    }
    return false;
}

static int serve(struct peer *peer, struct rpc_server_options *options)
{
    char why[TLS_WHY_BYTES];
    const struct rpc_method methods[] = {
        {.path = "/foliot.test.Peer/Echo", .handler = on_echo, .ctx = peer},
        {.path = "/foliot.test.Peer/Describe", .handler = on_describe, .ctx = peer},
        {.path = "/foliot.test.Peer/Fail", .handler = on_fail, .ctx = peer},
        {.path = "/foliot.test.Peer/Wait", .handler = on_wait, .ctx = peer},
        {.path = "/foliot.test.Peer/Produce", .handler = on_produce, .ctx = peer},
    };
    struct loop_signal *signals[4];
    const int numbers[4] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};

    if (peer->tls_options.is_server) {
        if (tls_open(&peer->tls_options, &peer->tls, why) != 0) {
            (void)fprintf(stderr, "rpc_peer: %s\n", why);
            return EXIT_FAILURE;
        }
        options->tls = peer->tls;
        options->refused = on_refused;
    }

    if (loop_open(&peer->loop) != 0 || rpc_server_open(peer->loop, options, &peer->server) != 0 ||
        rpc_server_add_all(peer->server, methods, ARRAY_COUNT(methods)) != 0 ||
        rpc_health_open(peer->server, &peer->health) != 0 ||
        rpc_reflection_open(peer->server, descriptor_set(), &peer->reflection) != 0) {
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        if (loop_signal_open(peer->loop, numbers[i], on_signal, peer, &signals[i]) != 0) {
            return EXIT_FAILURE;
        }
    }
    rpc_health_set(peer->health, true);
    (void)printf("port %u\n", rpc_server_port(peer->server));
    (void)fflush(stdout);
    loop_run(peer->loop);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        loop_signal_close(signals[i]);
    }
    rpc_health_close(peer->health);
    rpc_reflection_close(peer->reflection);
    if (peer->tls != NULL) {
        tls_close(peer->tls);
    }
    loop_close(peer->loop);
    (void)printf("blocks %" PRId64 "\n", mem_block_count());
    return mem_block_count() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct peer peer = {.drain_ms = DRAIN_MS};
    struct rpc_server_options options;

    rpc_server_options_init(&options);
    options.version = "test";
    for (int i = 1; i < argc; i++) {
        if (!set_option(&options, &peer, argv[i])) {
            (void)fprintf(stderr, "rpc_peer: what is \"%s\"?\n", argv[i]);
            return EXIT_FAILURE;
        }
    }
    return serve(&peer, &options);
}
