/* SPDX-License-Identifier: Apache-2.0
 *
 * What connections and the listener promise, over loopback in one loop.
 */
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/conn.h"
#include "lib/io/dial.h"
#include "lib/io/listener.h"
#include "lib/io/loop.h"

#include <criterion/criterion.h>

#include <string.h>
#include <unistd.h>

struct holder;

struct end {
    struct world *world;
    struct conn *conn;
    size_t to_send;  /* bytes fill will still give */
    size_t received; /* bytes taken */
    size_t pause_at; /* of these, when reading stops; 0: never */
    size_t filled;
    int written_count;
    int closed_err; /* 1: not closed */
};

struct world {
    struct loop *loop;
    struct listener *listener;
    struct dial dial;
    struct address address;
    struct address peer;
    struct end client;
    struct end server;
    int dial_err; /* 1: no callback yet */
    uint32_t accepted;
    struct holder *holder; /* the server's transport; NULL: plain */
};

static int on_take(void *ctx, struct slice bytes)
{
    struct end *end = ctx;

    end->received += bytes.len;
    if (end->pause_at > 0 && end->received >= end->pause_at) {
        conn_set_reading(end->conn, false);
    }
    return 0;
}

static int on_fill(void *ctx, uint8_t *space, size_t len)
{
    struct end *end = ctx;
    size_t count = end->to_send < len ? end->to_send : len;

    memset(space, 'x', count);
    end->to_send -= count;
    end->filled += count;
    return (int)count;
}

static void on_written(void *ctx)
{
    struct end *end = ctx;

    end->written_count++;
}

static void on_closed(void *ctx, int err)
{
    struct end *end = ctx;

    cr_assert_eq(end->closed_err, 1, "closed twice");
    end->closed_err = err;
    end->conn = NULL;
    if (end == &end->world->server) {
        listener_done(end->world->listener, &end->world->peer);
    }
}

static const struct conn_events events = {
    .take = on_take, .fill = on_fill, .written = on_written, .closed = on_closed};

/* A transport like TLS: steps before anything else, and bytes that it holds inside. */
struct holder {
    int fd;
    int steps_left;   /* of the handshake; −1: it fails */
    bool wants_write; /* alternates from step to step */
    uint8_t held[4096];
    size_t start;
    size_t end;
    int part_count;
    int free_count;
};

static int holder_shake(void *state)
{
    struct holder *holder = state;

    if (holder->steps_left < 0) {
        return ERR_PROTOCOL;
    }
    if (holder->steps_left == 0) {
        holder->wants_write = false;
        return 0;
    }
    holder->steps_left--;
    holder->wants_write = true;
    return CONN_AGAIN;
}

/* Takes all that the socket has, gives a hundred bytes of it. */
static int64_t holder_read(void *state, uint8_t *space, size_t len)
{
    struct holder *holder = state;
    size_t count;

    if (holder->start == holder->end) {
        ssize_t got = read(holder->fd, holder->held, sizeof(holder->held));

        if (got <= 0) {
            return got == 0 ? 0 : CONN_AGAIN;
        }
        holder->start = 0;
        holder->end = (size_t)got;
    }
    count = holder->end - holder->start < 100 ? holder->end - holder->start : 100;
    cr_assert_leq(count, len);
    memcpy(space, holder->held + holder->start, count);
    holder->start += count;
    return (int64_t)count;
}

static int64_t holder_write(void *state, const uint8_t *bytes, size_t len)
{
    const struct holder *holder = state;
    ssize_t written = write(holder->fd, bytes, len);

    cr_assert_eq(holder->steps_left, 0, "written before the handshake was over");
    return written < 0 ? CONN_AGAIN : written;
}

static bool holder_wants_write(const void *state)
{
    return ((const struct holder *)state)->wants_write;
}

static bool holder_has_pending(const void *state)
{
    const struct holder *holder = state;

    return holder->start < holder->end;
}

static void holder_part(void *state)
{
    ((struct holder *)state)->part_count++;
}

static void holder_free(void *state)
{
    ((struct holder *)state)->free_count++;
}

static const struct conn_transport holder_transport = {
    .read = holder_read,
    .write = holder_write,
    .free = holder_free,
    .shake = holder_shake,
    .wants_write = holder_wants_write,
    .has_pending = holder_has_pending,
    .part = holder_part,
};

static void open_end(struct end *end, struct world *world, int fd)
{
    struct conn_options options = {.fd = fd};

    if (end == &world->server && world->holder != NULL) {
        world->holder->fd = fd;
        options.transport = &holder_transport;
        options.transport_state = world->holder;
    }
    *end = (struct end){.world = world, .closed_err = 1};
    cr_assert_eq(conn_open(world->loop, &options, &events, end, &end->conn), 0);
}

static void on_accept(int fd, const struct address *peer, void *ctx)
{
    struct world *world = ctx;

    world->accepted++;
    world->peer = *peer;
    open_end(&world->server, world, fd);
}

static void on_dialled(int err, int fd, void *ctx)
{
    struct world *world = ctx;

    world->dial_err = err;
    if (err == 0) {
        open_end(&world->client, world, fd);
    }
}

static struct world *open_world(uint32_t connections_max)
{
    struct world *world = mem_new(1, sizeof(*world));
    struct listener_options options = {.host = "127.0.0.1",
                                       .connections_max = connections_max,
                                       .host_connections_max = connections_max};

    cr_assert_not_null(world);
    world->dial_err = 1;
    cr_assert_eq(loop_open(&world->loop), 0);
    cr_assert_eq(listener_open(world->loop, &options, on_accept, world, &world->listener), 0);
    cr_assert_eq(address_parse("127.0.0.1", listener_port(world->listener), &world->address), 0);
    dial_init(&world->dial, world->loop, on_dialled, world);
    return world;
}

static void connect_ends(struct world *world)
{
    dial_start(&world->dial, &world->address);
    while (world->client.conn == NULL || world->server.conn == NULL) {
        loop_turn(world->loop, true);
    }
}

static void close_world(struct world *world)
{
    if (world->client.conn != NULL) {
        conn_close(world->client.conn, 0);
    }
    while (listener_open_count(world->listener) > 0 || world->client.conn != NULL) {
        loop_turn(world->loop, true);
    }
    listener_close(world->listener);
    loop_close(world->loop);
    mem_free(world);
    cr_assert_eq(mem_block_count(), 0);
}

Test(conn, everything_filled_arrives_and_the_last_word_before_the_end)
{
    struct world *world = open_world(10);

    connect_ends(world);
    world->server.to_send = 3000000;
    conn_close_when_written(world->server.conn, ERR_CANCELLED);
    world->client.to_send = 1000; // Unread by a server that closes: must not reset the stream.
    conn_flush(world->client.conn);
    while (world->server.conn != NULL || world->client.conn != NULL) {
        loop_turn(world->loop, true);
    }
    cr_assert_eq(world->client.received, 3000000);
    cr_assert_eq(world->client.closed_err, ERR_CLOSED);
    cr_assert_eq(world->server.closed_err, ERR_CANCELLED);
    cr_assert_gt(world->server.written_count, 0);
    close_world(world);
}

Test(conn, a_peer_that_does_not_read_blocks_only_what_was_gathered)
{
    struct world *world = open_world(10);
    size_t before;

    connect_ends(world);
    conn_set_reading(world->client.conn, false);
    world->server.to_send = 100000000;
    conn_flush(world->server.conn);
    while (!conn_is_blocked(world->server.conn)) {
        loop_turn(world->loop, true);
    }
    before = world->server.filled;
    conn_flush(world->server.conn);
    loop_turn(world->loop, false);
    loop_turn(world->loop, false);
    cr_assert_eq(world->server.filled, before, "nothing more is gathered while blocked");
    world->server.to_send = 0;
    conn_set_reading(world->client.conn, true);
    while (world->client.received < before) {
        loop_turn(world->loop, true);
    }
    cr_assert_eq(world->client.received, before);
    cr_assert_not(conn_is_blocked(world->server.conn));
    close_world(world);
}

Test(conn, closing_is_told_once_and_later)
{
    struct world *world = open_world(10);

    connect_ends(world);
    conn_close(world->client.conn, ERR_TIMEOUT);
    conn_close(world->client.conn, ERR_IO);
    cr_assert_eq(world->client.closed_err, 1);
    while (world->server.conn != NULL) {
        loop_turn(world->loop, true);
    }
    cr_assert_eq(world->client.closed_err, ERR_TIMEOUT);
    cr_assert_eq(world->server.closed_err, ERR_CLOSED);
    close_world(world);
}

Test(conn, bytes_inside_the_transport_are_read_though_the_socket_is_silent)
{
    struct world *world = open_world(10);
    struct holder holder = {.steps_left = 3};

    world->holder = &holder;
    connect_ends(world);
    world->client.to_send = 4000;
    world->server.pause_at = 1000; // What is inside has to wait too.
    conn_flush(world->client.conn);
    conn_flush(world->server.conn);
    while (world->server.received < 1000) {
        loop_turn(world->loop, true);
    }
    for (int i = 0; i < 5; i++) {
        loop_turn(world->loop, false);
    }
    cr_assert_eq(world->server.received, 1000);
    world->server.pause_at = 0;
    conn_set_reading(world->server.conn, true);
    while (world->server.received < 4000) {
        loop_turn(world->loop, true);
    }
    close_world(world);
    cr_assert_eq(holder.free_count, 1);
}

Test(conn, nothing_is_filled_before_the_handshake_is_over)
{
    struct world *world = open_world(10);
    struct holder holder = {.steps_left = 5};

    world->holder = &holder;
    connect_ends(world);
    world->server.to_send = 1000;
    conn_flush(world->server.conn);
    while (world->client.received < 1000) {
        loop_turn(world->loop, true);
    }
    conn_close_when_written(world->server.conn, ERR_CANCELLED);
    while (world->client.conn != NULL) {
        loop_turn(world->loop, true);
    }
    close_world(world);
    cr_assert_eq(holder.part_count, 1, "the peer is told that nothing more comes");
}

Test(conn, a_failed_handshake_ends_the_connection_without_a_word_of_the_owner)
{
    struct world *world = open_world(10);
    struct holder holder = {.steps_left = -1};

    world->holder = &holder;
    connect_ends(world);
    world->server.to_send = world->client.to_send = 1000;
    conn_flush(world->server.conn);
    conn_flush(world->client.conn);
    while (world->server.conn != NULL) {
        loop_turn(world->loop, true);
    }
    cr_assert_eq(world->server.closed_err, ERR_PROTOCOL);
    cr_assert_eq(world->server.filled + world->server.received, 0);
    cr_assert_eq(world->client.closed_err, ERR_CLOSED, "an end, not a reset");
    close_world(world);
    cr_assert_eq(holder.part_count, 0);
}

Test(listener, a_connection_over_the_limit_is_closed_at_once)
{
    struct world *world = open_world(1);
    struct end first;

    connect_ends(world);
    first = world->client;
    world->client.conn = NULL;
    dial_start(&world->dial, &world->address);
    while (world->client.conn == NULL || world->client.closed_err == 1) {
        loop_turn(world->loop, true);
        if (world->client.closed_err == ERR_CLOSED) {
            break;
        }
    }
    cr_assert_eq(world->accepted, 1);
    cr_assert_eq(listener_refused_count(world->listener), 1);
    world->client = first;
    conn_close(world->client.conn, 0);
    close_world(world);
}

Test(listener, stopping_frees_the_port_while_connections_live)
{
    struct world *world = open_world(10);
    struct listener_options options = {.host = "127.0.0.1",
                                       .port = listener_port(world->listener),
                                       .connections_max = 1,
                                       .host_connections_max = 1};
    struct listener *second = NULL;

    connect_ends(world);
    cr_assert_eq(listener_open(world->loop, &options, on_accept, world, &second), ERR_EXISTS);
    listener_stop(world->listener);
    cr_assert_eq(listener_open(world->loop, &options, on_accept, world, &second), 0);
    listener_close(second);
    close_world(world);
}

Test(dial, a_closed_port_is_unavailable_and_told_later)
{
    struct world *world = open_world(10);

    listener_stop(world->listener);
    dial_start(&world->dial, &world->address);
    cr_assert_eq(world->dial_err, 1);
    while (world->dial_err == 1) {
        loop_turn(world->loop, true);
    }
    cr_assert_eq(world->dial_err, ERR_UNAVAILABLE);
    dial_start(&world->dial, &world->address);
    dial_stop(&world->dial);
    close_world(world);
}
