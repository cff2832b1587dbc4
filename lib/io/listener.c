/* SPDX-License-Identifier: Apache-2.0
 *
 * The accept loop and its books.
 */
#define _GNU_SOURCE /* accept4 */

#include "lib/io/listener.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/list.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "lib/io/socket.h"

#include <errno.h>
#include <string.h>

#include <unistd.h>

/* Connections waiting in the kernel: a thundering herd of clients after a restart. */
#define LISTENER_BACKLOG 1024

/* Connections accepted in one turn, so that a flood leaves time for the others. */
#define LISTENER_ACCEPTS_MAX 64

/* Pause when the process has no descriptors left, instead of spinning on the same event. */
#define LISTENER_PAUSE_MS 100

/* One remote host with open connections. */
struct host {
    struct list node;
    struct address address; /* the port does not count */
    uint32_t count;
};

struct listener {
    struct loop *loop;
    listener_cb cb;
    void *ctx;
    struct loop_fd watcher;
    struct loop_timer pause;
    struct list hosts;
    int fd; /* −1: stopped */
    uint16_t port;
    uint32_t connections_max;
    uint32_t host_connections_max;
    uint32_t open_count;
    uint64_t refused_count;
};

static struct host *find_host(struct listener *listener, const struct address *peer)
{
    list_foreach (node, &listener->hosts) {
        struct host *host = LIST_ENTRY(node, struct host, node);

        if (address_same_host(&host->address, peer)) {
            return host;
        }
    }
    return NULL;
}

/* Write a new connection into the books. errors: ERR_FULL, ERR_NO_MEMORY. */
MUST_USE static int admit(struct listener *listener, const struct address *peer)
{
    struct host *host;

    if (listener->open_count >= listener->connections_max) {
        return ERR_FULL;
    }
    host = find_host(listener, peer);
    if (host != NULL && host->count >= listener->host_connections_max) {
        return ERR_FULL;
    }
    if (host == NULL) {
        host = mem_new(1, sizeof(*host));
        if (host == NULL) {
            return ERR_NO_MEMORY;
        }
        host->address = *peer;
        list_init(&host->node);
        list_add(&listener->hosts, &host->node);
    }
    host->count++;
    listener->open_count++;
    return 0;
}

void listener_done(struct listener *listener, const struct address *peer)
{
    struct host *host = find_host(listener, peer);

    REQUIRE(host != NULL && host->count > 0 && listener->open_count > 0);
    listener->open_count--;
    if (--host->count == 0) {
        list_del(&host->node);
        mem_free(host);
    }
}

/* Accept one. False when there is none, or no descriptor for it. */
static bool accept_one(struct listener *listener)
{
    struct sockaddr_storage socket;
    socklen_t len = sizeof(socket);
    struct address peer;
    int fd = accept4(listener->fd, (struct sockaddr *)&socket, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            loop_fd_set(&listener->watcher, 0);
            loop_timer_start_in(&listener->pause, LISTENER_PAUSE_MS);
            return false;
        }
        return errno != EAGAIN; // The others concern one connection only.
    }
    if (address_from_socket((struct sockaddr *)&socket, len, &peer) != 0 ||
        admit(listener, &peer) != 0) {
        listener->refused_count++;
        (void)close(fd);
        return true;
    }
    socket_tune(fd);
    listener->cb(fd, &peer, listener->ctx);
    return true;
}

static void on_ready(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    struct listener *listener = ctx;

    (void)watcher;
    (void)ready;
    for (int i = 0; i < LISTENER_ACCEPTS_MAX && listener->fd >= 0; i++) {
        if (!accept_one(listener)) {
            return;
        }
    }
}

static void on_pause_over(struct loop_timer *timer, void *ctx)
{
    struct listener *listener = ctx;

    (void)timer;
    loop_fd_set(&listener->watcher, LOOP_READ);
}

/* A bound, listening socket and its port. */
static int open_socket(const struct address *address, int *fd_out, uint16_t *port_out)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);
    struct address local;
    int on = 1;
    int err;
    int fd = socket(address->socket.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return socket_error(errno);
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, &address->socket.any, address->len) != 0 || listen(fd, LISTENER_BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &len) != 0) {
        err = socket_error(errno);
        (void)close(fd);
        return err;
    }
    err = address_from_socket((struct sockaddr *)&bound, len, &local);
    if (err != 0) {
        (void)close(fd);
        return err;
    }
    *fd_out = fd;
    *port_out = address_port(&local);
    return 0;
}

int listener_open(struct loop *loop, const struct listener_options *options, listener_cb cb,
                  void *ctx, struct listener **out)
{
    struct listener *listener = mem_new(1, sizeof(*listener));
    struct address address;
    int err;

    if (listener == NULL) {
        return ERR_NO_MEMORY;
    }
    err = address_parse(options->host, options->port, &address);
    if (err != 0) {
        goto fail;
    }
    err = open_socket(&address, &listener->fd, &listener->port);
    if (err != 0) {
        goto fail;
    }
    err = loop_fd_init(&listener->watcher, loop, listener->fd, on_ready, listener);
    if (err != 0) {
        goto fail_after_socket;
    }
    listener->loop = loop;
    listener->cb = cb;
    listener->ctx = ctx;
    listener->connections_max = options->connections_max;
    listener->host_connections_max = options->host_connections_max;
    list_init(&listener->hosts);
    loop_timer_init(&listener->pause, loop, on_pause_over, listener);
    loop_fd_set(&listener->watcher, LOOP_READ);
    *out = listener;
    return 0;

fail_after_socket:
    (void)close(listener->fd);
fail:
    mem_free(listener);
    return err;
}

uint16_t listener_port(const struct listener *listener)
{
    return listener->port;
}

uint32_t listener_open_count(const struct listener *listener)
{
    return listener->open_count;
}

uint64_t listener_refused_count(const struct listener *listener)
{
    return listener->refused_count;
}

void listener_stop(struct listener *listener)
{
    if (listener->fd < 0) {
        return;
    }
    loop_timer_stop(&listener->pause);
    loop_fd_fini(&listener->watcher);
    (void)close(listener->fd);
    listener->fd = -1;
}

void listener_close(struct listener *listener)
{
    REQUIRE(listener->open_count == 0);
    listener_stop(listener);
    mem_free(listener);
}
