/* SPDX-License-Identifier: Apache-2.0
 *
 * The server: a listener, a socket for each connection's protocol engine, drain and close.
 */
#include "lib/rpc/rpc_server.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/io/conn.h"
#include "lib/io/entropy.h"
#include "lib/io/listener.h"
#include "lib/io/loop.h"
#include "lib/io/tls.h"
#include "lib/rpc/rpc_serving.h"
#include "lib/rpc/rpc_session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Responses waiting for a client that does not read, above which we do not read from it either. */
#define SERVER_BACKLOG_MAX (4U << 20)

/* A client's socket and its protocol engine. */
struct link {
    struct list node; /* in server->links */
    struct rpc_server *server;
    struct conn *conn;
    struct rpc_session *session;
    struct loop_timer timer; /* at or before the session's next wake */
    struct address peer;
    char *why;      /* of TLS_WHY_BYTES: how its TLS handshake failed; NULL in cleartext */
    bool is_paused; /* not reading */
    bool is_cut;    /* hung up on, for what it does not read */
};

struct rpc_server {
    struct loop *loop;
    struct listener *listener;
    struct rpc_serving serving;
    struct prng prng;
    struct list links;
    struct loop_task settle; /* posted when a drain or a close may be complete */
    struct loop_task relief; /* posted when too many answers wait for their readers */
    rpc_server_cb drain_cb;
    void *drain_ctx;
    rpc_server_cb close_cb;
    void *close_ctx;
    boot_us cut_us; /* of the drain */
    bool is_draining;
    bool is_drained; /* the drain's callback has been called */
    bool is_closing;
};

void rpc_server_options_init(struct rpc_server_options *options)
{
    *options = (struct rpc_server_options){
        .address = "127.0.0.1",
        .version = "0",
        .connections_max = 16384,
        .address_connections = 2048,
        .streams_max = 1000,
        .request_bytes_max = 4U << 20,
        .response_bytes_max = 4U << 20,
        .header_bytes_max = 16U << 10,
        .buffered_bytes_max = 256U << 20,
        .unread_bytes_max = 64U << 20,
        .handshake_ms = 10 * MS_PER_S,
        .request_ms = 60 * MS_PER_S,
        .idle_ms = 600 * MS_PER_S,
        .age_ms = 1800 * MS_PER_S,
        .age_grace_ms = 60 * MS_PER_S,
        .keepalive_ms = 60 * MS_PER_S,
        .keepalive_timeout_ms = 20 * MS_PER_S,
        .ping_interval_min_ms = 10 * MS_PER_S,
        .ping_strikes_max = 2,
    };
}

/* ---- one connection ---- */

static void settle_soon(struct rpc_server *server)
{
    loop_post(server->loop, &server->settle);
}

/* Have the timer run no later than the session's next wake. It may run early: ticks are cheap,
 * moving a timer with every call is not. */
static void arm(struct link *link)
{
    boot_us wake_us = rpc_session_next_wake(link->session);

    if (!link->timer.is_started || wake_us < link->timer.node.key) {
        loop_timer_start(&link->timer, wake_us);
    }
}

static void after_work(struct link *link)
{
    bool has_backlog =
        conn_is_blocked(link->conn) && rpc_session_backlog(link->session) > SERVER_BACKLOG_MAX;

    if (has_backlog != link->is_paused) {
        link->is_paused = has_backlog;
        conn_set_reading(link->conn, !has_backlog);
    }
    if (rpc_session_is_done(link->session)) {
        conn_close_when_written(link->conn, ERR_CLOSED);
    }
    arm(link);
}

static int on_take(void *ctx, struct slice bytes)
{
    struct link *link = ctx;
    int err = rpc_session_take(link->session, loop_now_us(link->server->loop), bytes);

    if (err == 0) {
        after_work(link);
    } else {
        link->server->serving.stats.protocol_errors++;
    }
    return err;
}

static int on_fill(void *ctx, uint8_t *space, size_t len)
{
    struct link *link = ctx;
    int filled = rpc_session_fill(link->session, space, len);

    if (filled == 0) {
        after_work(link);
    }
    return filled;
}

static void on_written(void *ctx)
{
    after_work(ctx);
}

/* A handshake that failed leaves its reason behind. */
static void note_refusal(struct link *link)
{
    struct rpc_serving *serving = &link->server->serving;
    char text[ADDRESS_TEXT_BYTES];

    if (link->why == NULL || link->why[0] == '\0') {
        return;
    }
    serving->stats.handshakes_failed++;
    if (serving->options.refused != NULL) {
        address_format(&link->peer, text);
        serving->options.refused(text, link->why, serving->options.refused_ctx);
    }
}

static void on_closed(void *ctx, int err)
{
    struct link *link = ctx;
    struct rpc_server *server = link->server;

    (void)err;
    note_refusal(link);
    loop_timer_stop(&link->timer);
    list_del(&link->node);
    server->serving.stats.connections_open--;
    rpc_session_close(link->session);
    listener_done(server->listener, &link->peer);
    mem_free(link->why);
    mem_free(link);
    settle_soon(server);
}

static const struct conn_events link_events = {
    .take = on_take, .fill = on_fill, .written = on_written, .closed = on_closed};

static void on_flush(void *ctx)
{
    struct link *link = ctx;

    conn_flush(link->conn);
}

static const struct rpc_session_events session_events = {.flush = on_flush};

static void on_timer(struct loop_timer *timer, void *ctx)
{
    struct link *link = ctx;
    int err = rpc_session_tick(link->session, loop_now_us(link->server->loop));

    (void)timer;
    if (err != 0) {
        conn_close(link->conn, err);
        return;
    }
    after_work(link);
}

/* Open the connection, with TLS if that is wanted. errors: as conn_open; fd is the caller's then.
 */
MUST_USE static int open_conn(struct rpc_server *server, struct link *link, int fd)
{
    struct tls *tls = server->serving.options.tls;
    struct conn_options options = {.fd = fd};
    struct tls_conn_options shaking = {.loop = server->loop, .fd = fd};
    int err = 0;

    if (tls != NULL) {
        link->why = mem_new(1, TLS_WHY_BYTES);
        shaking.why = link->why;
        err = link->why == NULL ? ERR_NO_MEMORY : tls_wrap(tls, &shaking, &options);
    }
    if (err != 0) {
        return err;
    }
    err = conn_open(server->loop, &options, &link_events, link, &link->conn);
    if (err != 0 && options.transport != NULL) {
        options.transport->free(options.transport_state);
    }
    return err;
}

static struct link *new_link(struct rpc_server *server, int fd, const struct address *peer)
{
    struct link *link = mem_new(1, sizeof(*link));
    char text[ADDRESS_TEXT_BYTES];

    if (link == NULL) {
        return NULL;
    }
    address_format(peer, text);
    if (rpc_session_open(&server->serving, text, loop_now_us(server->loop), &server->prng,
                         &link->session) != 0) {
        mem_free(link);
        return NULL;
    }
    if (open_conn(server, link, fd) != 0) {
        rpc_session_close(link->session);
        mem_free(link->why);
        mem_free(link);
        return NULL;
    }
    link->server = server;
    link->peer = *peer;
    list_init(&link->node);
    loop_timer_init(&link->timer, server->loop, on_timer, link);
    rpc_session_set_events(link->session, &session_events, link);
    return link;
}

static void on_accept(int fd, const struct address *peer, void *ctx)
{
    struct rpc_server *server = ctx;
    struct link *link = new_link(server, fd, peer);

    if (link == NULL) {
        listener_done(server->listener, peer);
        (void)close(fd);
        return;
    }
    list_add(&server->links, &link->node);
    server->serving.stats.connections_accepted++;
    server->serving.stats.connections_open++;
    conn_flush(link->conn); // Our SETTINGS go first, before the client has said a word.
    arm(link);
}

/* ---- answers that nobody reads ---- */

static void on_overfull(void *ctx)
{
    struct rpc_server *server = ctx;

    loop_post(server->loop, &server->relief);
}

/* The connection that owes its reading most, of those that are not cut yet; NULL if none does. */
static struct link *find_deafest(struct rpc_server *server)
{
    struct link *deafest = NULL;
    size_t most = 0;

    list_foreach (node, &server->links) {
        struct link *link = LIST_ENTRY(node, struct link, node);
        size_t backlog = rpc_session_backlog(link->session);

        if (!link->is_cut && backlog > most) {
            deafest = link;
            most = backlog;
        }
    }
    return deafest;
}

/* Hang up on as many as it takes: their answers would cost the memory of everybody else. */
static void on_relief(void *ctx)
{
    struct rpc_server *server = ctx;
    uint64_t left = server->serving.stats.unread_bytes;
    struct link *link;

    while (left > server->serving.options.unread_bytes_max &&
           (link = find_deafest(server)) != NULL) {
        left -= rpc_session_backlog(link->session);
        link->is_cut = true;
        server->serving.stats.connections_cut++;
        conn_close(link->conn, ERR_FULL);
    }
}

/* ---- drain and close ---- */

static void finish_drain(struct rpc_server *server)
{
    if (server->is_draining && !server->is_drained) {
        server->is_drained = true;
        if (server->drain_cb != NULL) {
            server->drain_cb(server->drain_ctx);
        }
    }
}

static void on_settle(void *ctx)
{
    struct rpc_server *server = ctx;
    rpc_server_cb cb;
    void *cb_ctx;

    if (!list_is_empty(&server->links) || !list_is_empty(&server->serving.locals)) {
        return;
    }
    finish_drain(server); // May close the server, which posts this task again.
    if (!server->is_closing || server->serving.running_count > 0) {
        return;
    }
    cb = server->close_cb;
    cb_ctx = server->close_ctx;
    loop_unpost(&server->settle);
    loop_unpost(&server->relief);
    listener_close(server->listener);
    mem_free(server);
    if (cb != NULL) {
        cb(cb_ctx);
    }
}

static void on_call_finished(void *ctx)
{
    struct rpc_server *server = ctx;

    if (server->is_closing || server->is_draining) {
        settle_soon(server);
    }
}

void rpc_server_drain(struct rpc_server *server, span_ms grace_ms, rpc_server_cb cb, void *ctx)
{
    boot_us now_us = loop_now_us(server->loop);

    REQUIRE(!server->is_draining);
    server->is_draining = true;
    server->serving.is_leaving = true;
    server->drain_cb = cb;
    server->drain_ctx = ctx;
    server->cut_us = time_add(now_us, time_mul(grace_ms, US_PER_MS));
    listener_stop(server->listener);
    list_foreach (node, &server->links) {
        struct link *link = LIST_ENTRY(node, struct link, node);

        rpc_session_drain(link->session, now_us, server->cut_us);
        arm(link);
    }
    settle_soon(server);
}

void rpc_server_close(struct rpc_server *server, rpc_server_cb cb, void *ctx)
{
    REQUIRE(!server->is_closing);
    server->is_closing = true;
    server->serving.is_leaving = true;
    server->close_cb = cb;
    server->close_ctx = ctx;
    listener_stop(server->listener);
    rpc_local_end_all(&server->serving);
    list_foreach (node, &server->links) {
        conn_close(LIST_ENTRY(node, struct link, node)->conn, ERR_CANCELLED);
    }
    settle_soon(server);
}

/* ---- life ---- */

static bool are_valid(const struct rpc_server_options *options)
{
    return options->request_bytes_max <= RPC_SERVER_MESSAGE_BYTES_MAX &&
           options->response_bytes_max <= RPC_SERVER_MESSAGE_BYTES_MAX &&
           options->streams_max > 0 && options->header_bytes_max <= UINT32_MAX;
}

int rpc_server_open(struct loop *loop, const struct rpc_server_options *options,
                    struct rpc_server **out)
{
    struct listener_options listening = {.host = options->address,
                                         .port = options->port,
                                         .connections_max = options->connections_max,
                                         .host_connections_max = options->address_connections};
    struct rpc_server *server;
    int err;

    if (!are_valid(options)) {
        return ERR_INVALID;
    }
    server = mem_new(1, sizeof(*server));
    if (server == NULL) {
        return ERR_NO_MEMORY;
    }
    err = listener_open(loop, &listening, on_accept, server, &server->listener);
    if (err != 0) {
        mem_free(server);
        return err;
    }
    server->loop = loop;
    server->serving.options = *options;
    server->serving.options.address = NULL; // Borrowed for this call only.
    server->serving.options.version = NULL;
    (void)snprintf(server->serving.name, sizeof(server->serving.name), "foliot/%s",
                   options->version);
    server->serving.call_finished = on_call_finished;
    server->serving.overfull = on_overfull;
    server->serving.ctx = server;
    prng_init_named(&server->prng, options->seed != 0 ? options->seed : entropy_u64(),
                    "rpc_server");
    list_init(&server->links);
    list_init(&server->serving.locals);
    loop_task_init(&server->settle, on_settle, server);
    loop_task_init(&server->relief, on_relief, server);
    *out = server;
    return 0;
}

uint16_t rpc_server_port(const struct rpc_server *server)
{
    return listener_port(server->listener);
}

int rpc_server_add(struct rpc_server *server, const struct rpc_method *method)
{
    return rpc_methods_add(&server->serving.methods, method);
}

int rpc_server_add_all(struct rpc_server *server, const struct rpc_method *methods, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int err = rpc_server_add(server, &methods[i]);

        if (err != 0) {
            return err;
        }
    }
    return 0;
}

void rpc_server_call(struct rpc_server *server, const struct rpc_local_options *options)
{
    rpc_local_start(&server->serving, server->loop, options);
}

bool rpc_server_has_service(const struct rpc_server *server, struct slice service)
{
    return rpc_methods_has_service(&server->serving.methods, service);
}

void rpc_server_get_stats(const struct rpc_server *server, struct rpc_server_stats *out)
{
    *out = server->serving.stats;
    out->connections_refused = listener_refused_count(server->listener);
}
