/* SPDX-License-Identifier: Apache-2.0
 *
 * The read and write pump. A write is gathered in the loop's scratch region; only what the kernel
 * did not take is copied to a buffer of the connection.
 */
#include "lib/io/conn.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "lib/io/socket.h"

#include <errno.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Gathered writes of one connection in one turn, so that it cannot starve the others. */
#define CONN_WRITES_MAX 4

/* How long a connection that we end politely waits for the peer's end. Closing a socket with unread
 * bytes resets it, and a reset destroys what the peer has not read yet: our last words. */
#define CONN_LINGER_MS 1000

struct conn {
    struct loop *loop;
    const struct conn_events *events;
    void *ctx;
    const struct conn_transport *transport;
    void *transport_state;
    struct loop_fd watcher;
    struct loop_task flush; /* posted: fill and write */
    struct loop_task again; /* posted: read what the transport still holds */
    struct loop_task close; /* posted: closed() and free */
    struct buf rest;        /* gathered, not yet taken by the kernel */
    struct loop_timer linger;
    int err; /* what closed() will be told */
    int fd;
    bool is_reading;
    bool is_closing;     /* close is posted; no event but closed() any more */
    bool closes_written; /* close when nothing is left to write */
    bool is_lingering;   /* all written, our side is shut: what comes in is dropped */
    bool is_shaking;     /* the transport's handshake goes on: nothing is filled or taken */
    bool is_refused;     /* the handshake failed: lingering, without the transport */
    bool read_blocked;   /* a read waits until the socket takes bytes */
};

/* ---- the plain transport ---- */

static int64_t plain_result(ssize_t result)
{
    if (result >= 0) {
        return result;
    }
    if (errno == EAGAIN || errno == EINTR) {
        return CONN_AGAIN;
    }
    return errno == ECONNRESET || errno == EPIPE ? ERR_CLOSED : socket_error(errno);
}

static int64_t plain_read(void *state, uint8_t *space, size_t len)
{
    const struct conn *conn = state;

    return plain_result(recv(conn->fd, space, len, 0));
}

static int64_t plain_write(void *state, const uint8_t *bytes, size_t len)
{
    const struct conn *conn = state;

    return plain_result(send(conn->fd, bytes, len, MSG_NOSIGNAL));
}

static void plain_free(void *state)
{
    (void)state;
}

static const struct conn_transport plain_transport = {
    .read = plain_read, .write = plain_write, .free = plain_free};

/* ---- interest ---- */

/* Does the transport wait for its socket to take bytes? */
static bool wants_write(const struct conn *conn)
{
    return conn->transport->wants_write != NULL &&
           conn->transport->wants_write(conn->transport_state);
}

static void update_interest(struct conn *conn)
{
    unsigned interest = 0;

    if (conn->is_closing) {
        interest = 0;
    } else if (conn->is_shaking) {
        interest = wants_write(conn) ? LOOP_WRITE : LOOP_READ;
    } else {
        interest |= conn->is_reading ? LOOP_READ : 0;
        interest |= buf_len(&conn->rest) > 0 || conn->read_blocked ? LOOP_WRITE : 0;
    }
    loop_fd_set(&conn->watcher, interest);
}

void conn_close(struct conn *conn, int err)
{
    if (conn->is_closing) {
        return;
    }
    conn->is_closing = true;
    conn->err = err;
    loop_unpost(&conn->flush);
    loop_unpost(&conn->again);
    update_interest(conn);
    loop_post(conn->loop, &conn->close);
}

static void on_close(void *ctx)
{
    struct conn *conn = ctx;

    loop_unpost(&conn->flush);
    loop_unpost(&conn->again);
    loop_timer_stop(&conn->linger);
    loop_fd_fini(&conn->watcher);
    conn->transport->free(conn->transport_state);
    (void)close(conn->fd);
    buf_fini(&conn->rest);
    conn->events->closed(conn->ctx, conn->err);
    mem_free(conn);
}

static void on_lingered(struct loop_timer *timer, void *ctx)
{
    struct conn *conn = ctx;

    (void)timer;
    conn_close(conn, conn->err);
}

static void start_linger(struct conn *conn)
{
    conn->is_lingering = true;
    if (conn->transport->part != NULL && !conn->is_refused) {
        conn->transport->part(conn->transport_state);
    }
    (void)shutdown(conn->fd, SHUT_WR);
    conn_set_reading(conn, true);
    loop_timer_start_in(&conn->linger, CONN_LINGER_MS);
}

/* ---- writing ---- */

/* Give bytes to the transport; returns how many it took, or a negative code. */
static int64_t write_some(struct conn *conn, const uint8_t *bytes, size_t len)
{
    int64_t taken = conn->transport->write(conn->transport_state, bytes, len);

    return taken == CONN_AGAIN ? 0 : taken;
}

/* True when the rest is gone; closes the connection on errors. */
static bool write_rest(struct conn *conn)
{
    struct slice rest = buf_slice(&conn->rest);
    int64_t taken;

    if (rest.len == 0) {
        return true;
    }
    taken = write_some(conn, rest.data, rest.len);
    if (taken < 0) {
        conn_close(conn, (int)taken);
        return false;
    }
    buf_consume(&conn->rest, (size_t)taken);
    if (buf_len(&conn->rest) > 0) {
        return false;
    }
    buf_fini(&conn->rest);
    return true;
}

/* One gathered write. True if the owner may have more and the kernel may take more. */
static bool write_once(struct conn *conn)
{
    uint8_t *space = loop_scratch(conn->loop);
    int filled = conn->events->fill(conn->ctx, space, LOOP_SCRATCH_BYTES);
    int64_t taken;

    if (filled <= 0 || conn->is_closing) {
        if (filled < 0) {
            conn_close(conn, filled);
        }
        return false;
    }
    taken = write_some(conn, space, (size_t)filled);
    if (taken < 0) {
        conn_close(conn, (int)taken);
        return false;
    }
    if (taken < filled) {
        int err = buf_append(&conn->rest, space + taken, (size_t)(filled - taken));

        if (err != 0) {
            conn_close(conn, err);
        }
        return false;
    }
    if (conn->events->written != NULL) {
        conn->events->written(conn->ctx);
    }
    return !conn->is_closing;
}

static void pump(struct conn *conn)
{
    bool has_more = true;

    if (buf_len(&conn->rest) > 0) {
        has_more = write_rest(conn);
        if (has_more && conn->events->written != NULL) {
            conn->events->written(conn->ctx);
        }
    }
    for (int i = 0; has_more && i < CONN_WRITES_MAX && !conn->is_closing; i++) {
        has_more = write_once(conn);
    }
    if (conn->is_closing) {
        return;
    }
    if (has_more) {
        loop_post(conn->loop, &conn->flush);
    } else if (conn->closes_written && buf_len(&conn->rest) == 0) {
        start_linger(conn);
        return;
    }
    update_interest(conn);
}

/* Go on with the handshake; when it is done the owner may begin. */
static void shake(struct conn *conn)
{
    int result = conn->transport->shake(conn->transport_state);

    if (result == 0) {
        conn->is_shaking = false;
        loop_post(conn->loop, &conn->flush);
        loop_post(conn->loop, &conn->again);
    } else if (result == ERR_PROTOCOL) { // The peer should be able to read why.
        conn->is_shaking = false;
        conn->is_refused = true;
        conn->err = result;
        start_linger(conn);
        return;
    } else if (result != CONN_AGAIN) {
        conn_close(conn, result);
        return;
    }
    update_interest(conn);
}

static void on_flush(void *ctx)
{
    struct conn *conn = ctx;

    if (conn->is_shaking) {
        if (!conn->is_closing) {
            shake(conn);
        }
        return;
    }
    if (!conn->is_closing && !conn->is_lingering && buf_len(&conn->rest) == 0) {
        pump(conn);
    }
}

void conn_flush(struct conn *conn)
{
    if (!conn->is_closing) {
        loop_post(conn->loop, &conn->flush);
    }
}

void conn_close_when_written(struct conn *conn, int err)
{
    if (!conn->is_closing) {
        conn->closes_written = true;
        conn->err = err;
        conn_flush(conn);
    }
}

/* ---- reading ---- */

static void read_once(struct conn *conn)
{
    uint8_t *space = loop_scratch(conn->loop);
    int64_t got = conn->is_refused
                      ? plain_read(conn, space, LOOP_SCRATCH_BYTES)
                      : conn->transport->read(conn->transport_state, space, LOOP_SCRATCH_BYTES);
    int err;

    conn->read_blocked = got == CONN_AGAIN && wants_write(conn);
    if (got == CONN_AGAIN) {
        update_interest(conn);
        return;
    }
    if (got <= 0) {
        conn_close(conn, got < 0 ? (int)got : conn->is_lingering ? conn->err : ERR_CLOSED);
        return;
    }
    if (conn->transport->has_pending != NULL && !conn->is_refused &&
        conn->transport->has_pending(conn->transport_state)) {
        loop_post(conn->loop, &conn->again); // The socket will not tell us of these.
    }
    if (conn->is_lingering) {
        return;
    }
    err = conn->events->take(conn->ctx, (struct slice){space, (size_t)got});
    if (err != 0) {
        conn_close(conn, err);
    }
}

static void on_again(void *ctx)
{
    struct conn *conn = ctx;

    if (!conn->is_closing && conn->is_reading) {
        read_once(conn);
    }
}

static void on_ready(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    struct conn *conn = ctx;

    (void)watcher;
    if (conn->is_shaking) {
        shake(conn);
        return;
    }
    if ((ready & LOOP_READ) != 0 || conn->read_blocked) {
        read_once(conn);
    }
    if ((ready & LOOP_WRITE) != 0 && !conn->is_closing) {
        pump(conn);
    }
}

void conn_set_reading(struct conn *conn, bool is_reading)
{
    conn->is_reading = is_reading;
    if (is_reading && !conn->is_shaking && conn->transport->has_pending != NULL) {
        loop_post(conn->loop, &conn->again);
    }
    update_interest(conn);
}

bool conn_is_blocked(const struct conn *conn)
{
    return buf_len(&conn->rest) > 0;
}

int conn_open(struct loop *loop, const struct conn_options *options,
              const struct conn_events *events, void *ctx, struct conn **out)
{
    struct conn *conn = mem_new(1, sizeof(*conn));
    int flags = fcntl(options->fd, F_GETFL);
    int err;

    if (conn == NULL) {
        return ERR_NO_MEMORY;
    }
    if (flags < 0 || fcntl(options->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        mem_free(conn);
        return ERR_IO;
    }
    err = loop_fd_init(&conn->watcher, loop, options->fd, on_ready, conn);
    if (err != 0) {
        mem_free(conn);
        return err;
    }
    conn->loop = loop;
    conn->events = events;
    conn->ctx = ctx;
    conn->fd = options->fd;
    conn->transport = options->transport == NULL ? &plain_transport : options->transport;
    conn->transport_state = options->transport == NULL ? conn : options->transport_state;
    conn->is_reading = true;
    conn->is_shaking = conn->transport->shake != NULL;
    buf_init(&conn->rest, LOOP_SCRATCH_BYTES);
    loop_timer_init(&conn->linger, loop, on_lingered, conn);
    loop_task_init(&conn->flush, on_flush, conn);
    loop_task_init(&conn->again, on_again, conn);
    loop_task_init(&conn->close, on_close, conn);
    update_interest(conn);
    *out = conn;
    return 0;
}
