/* SPDX-License-Identifier: Apache-2.0
 *
 * Accepts TCP connections within limits: so many in all, so many from one remote host. What is over
 * a limit is closed at once, so that it does not sit in the kernel's queue before others.
 */
#ifndef FOLIOT_LIB_IO_LISTENER_H
#define FOLIOT_LIB_IO_LISTENER_H

#include "lib/base/attr.h"
#include "lib/io/address.h"

#include <stdint.h>

struct listener;
struct loop;

/*
 * A connection was accepted.
 *
 * ownership: fd is the callee's; it tells listener_done when it has closed it.
 */
typedef void (*listener_cb)(int fd, const struct address *peer, void *ctx);

struct listener_options {
    const char *host;              /* numeric */
    uint16_t port;                 /* 0: any free one */
    uint32_t connections_max;      /* open at a time, in all */
    uint32_t host_connections_max; /* and from one remote host */
};

/*
 * Bind and listen.
 *
 * errors: ERR_INVALID (host), ERR_EXISTS (in use), ERR_DENIED, ERR_FULL (descriptors),
 *         ERR_NO_MEMORY, ERR_IO.
 */
MUST_USE int listener_open(struct loop *loop, const struct listener_options *options,
                           listener_cb cb, void *ctx, struct listener **out);

uint16_t listener_port(const struct listener *listener);

/* A connection that was handed out has been closed. */
void listener_done(struct listener *listener, const struct address *peer);

/* Connections handed out and not done; and how many were closed for a limit, ever. */
uint32_t listener_open_count(const struct listener *listener);
uint64_t listener_refused_count(const struct listener *listener);

/* Close the listening socket; the port is free for others from here on. Harmless if repeated. */
void listener_stop(struct listener *listener);

/* Stop and free. shape: every connection is done. */
void listener_close(struct listener *listener);

#endif
