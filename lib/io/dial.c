/* SPDX-License-Identifier: Apache-2.0
 *
 * Non-blocking connect.
 */
#include "lib/io/dial.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/io/socket.h"

#include <errno.h>
#include <string.h>

#include <unistd.h>

static void on_failed(void *ctx)
{
    struct dial *dial = ctx;

    dial->cb(dial->err, -1, dial->ctx);
}

static void on_ready(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    struct dial *dial = ctx;
    int fd = dial->fd;
    int number = 0;
    socklen_t len = sizeof(number);

    (void)ready;
    loop_fd_fini(watcher);
    dial->fd = -1;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &len) != 0) {
        number = errno;
    }
    if (number != 0) {
        (void)close(fd);
        dial->cb(socket_error(number), -1, dial->ctx);
        return;
    }
    dial->cb(0, fd, dial->ctx);
}

void dial_init(struct dial *dial, struct loop *loop, dial_cb cb, void *ctx)
{
    memset(dial, 0, sizeof(*dial));
    dial->loop = loop;
    dial->cb = cb;
    dial->ctx = ctx;
    dial->fd = -1;
    loop_task_init(&dial->failed, on_failed, dial);
}

/* errors: the kernel's refusal; the socket is closed then. */
static int start(struct dial *dial, const struct address *address)
{
    int err;
    int fd = socket(address->socket.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return socket_error(errno);
    }
    socket_tune(fd);
    if (connect(fd, &address->socket.any, address->len) != 0 && errno != EINPROGRESS) {
        err = socket_error(errno);
        (void)close(fd);
        return err;
    }
    err = loop_fd_init(&dial->watcher, dial->loop, fd, on_ready, dial);
    if (err != 0) {
        (void)close(fd);
        return err;
    }
    dial->fd = fd;
    loop_fd_set(&dial->watcher, LOOP_WRITE);
    return 0;
}

void dial_start(struct dial *dial, const struct address *address)
{
    REQUIRE(dial->fd == -1);
    dial->err = start(dial, address);
    if (dial->err != 0) {
        loop_post(dial->loop, &dial->failed);
    }
}

void dial_stop(struct dial *dial)
{
    loop_unpost(&dial->failed);
    if (dial->fd >= 0) {
        loop_fd_fini(&dial->watcher);
        (void)close(dial->fd);
        dial->fd = -1;
    }
}
