/* SPDX-License-Identifier: Apache-2.0
 *
 * A byte stream on the loop: reads when there is something, and writes what its owner has when it
 * asks for it, so that nothing is queued here beyond one gathered write. Knows no protocol. The
 * transport is a small table; TLS is one (tls.h).
 */
#ifndef FOLIOT_LIB_IO_CONN_H
#define FOLIOT_LIB_IO_CONN_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;
struct loop;

/* What the owner of a connection provides. None of them runs inside conn_open. */
struct conn_events {
    /* Bytes came in, borrowed. A negative code closes the connection with it. */
    int (*take)(void *ctx, struct slice bytes);
    /* Put up to `len` bytes that are to be sent into `space`; returns their number, 0 for nothing
     * now, or a negative code, which closes the connection. */
    int (*fill)(void *ctx, uint8_t *space, size_t len);
    /* All bytes that fill gave have gone to the kernel. May be NULL. */
    void (*written)(void *ctx);
    /* The last event, exactly once, never inside a call of the owner's: the connection is gone
     * when it returns. err: what conn_close was given, ERR_CLOSED when the peer ended the stream,
     * ERR_IO and the like when it broke. */
    void (*closed)(void *ctx, int err);
};

/* What a transport returns instead of a count when it has to wait for its socket. */
#define CONN_AGAIN (-1000)

/*
 * A transport over a non-blocking socket. What CONN_AGAIN waits for is said by wants_write. The
 * functions from `shake` on may be NULL.
 */
struct conn_transport {
    int64_t (*read)(void *state, uint8_t *space, size_t len); /* 0: end; < 0: code or CONN_AGAIN */
    int64_t (*write)(void *state, const uint8_t *bytes, size_t len); /* < 0: likewise */
    void (*free)(void *state);
    int (*shake)(void *state); /* a step of the handshake: 0 when it is done; CONN_AGAIN; or code */
    bool (*wants_write)(const void *state); /* to give bytes to the socket, not to get some */
    bool (*has_pending)(const void *state); /* bytes that a read would give without the socket */
    void (*part)(void *state);              /* nothing more will be written: tell the peer */
};

struct conn_options {
    int fd;                                 /* connected; made non-blocking here */
    const struct conn_transport *transport; /* NULL: plain bytes on fd */
    void *transport_state;                  /* the transport's, freed by it */
};

/*
 * Start to read from a connected socket.
 *
 * ownership: on success fd and transport state are the connection's; events live as long as it.
 * errors:    ERR_NO_MEMORY, ERR_IO.
 */
MUST_USE int conn_open(struct loop *loop, const struct conn_options *options,
                       const struct conn_events *events, void *ctx, struct conn **out);

/* The owner has something to send: `fill` is called before the loop sleeps. Cheap to repeat. */
void conn_flush(struct conn *conn);

/* Whether to read; true at first. Off, the kernel's window pushes back on the peer. */
void conn_set_reading(struct conn *conn, bool is_reading);

/* Does a gathered write wait for the peer to take bytes? */
bool conn_is_blocked(const struct conn *conn);

/*
 * End the connection: `closed` comes once, later, with this code.
 *
 * note: nothing more is read, filled or written. The first code given counts.
 */
void conn_close(struct conn *conn, int err);

/* End the connection as soon as `fill` gives nothing and all is written; reads go on till then. */
void conn_close_when_written(struct conn *conn, int err);

#endif
