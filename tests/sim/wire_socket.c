/* SPDX-License-Identifier: Apache-2.0
 *
 * The system calls of lib/io, by the linker's --wrap: of our own descriptors they ask wire_net, of
 * all others Linux.
 */
#include "lib/base/check.h"
#include "tests/sim/wire.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include <fcntl.h>
#include <sys/socket.h>

int wire_socket(int family, int type, int protocol) __asm__("__wrap_socket");
int wire_bind(int fd, const struct sockaddr *address, socklen_t len) __asm__("__wrap_bind");
int wire_listen(int fd, int backlog) __asm__("__wrap_listen");
int wire_accept(int fd, struct sockaddr *peer, socklen_t *len, int flags) __asm__("__wrap_accept4");
int wire_connect(int fd, const struct sockaddr *to, socklen_t len) __asm__("__wrap_connect");
int wire_getsockopt(int fd, int level, int option, void *value,
                    socklen_t *len) __asm__("__wrap_getsockopt");
int wire_setsockopt(int fd, int level, int option, const void *value,
                    socklen_t len) __asm__("__wrap_setsockopt");
int wire_getsockname(int fd, struct sockaddr *address,
                     socklen_t *len) __asm__("__wrap_getsockname");
int wire_shutdown(int fd, int how) __asm__("__wrap_shutdown");
int wire_close(int fd) __asm__("__wrap_close");
int wire_fcntl(int fd, int command, ...) __asm__("__wrap_fcntl");
ssize_t wire_recv(int fd, void *space, size_t len, int flags) __asm__("__wrap_recv");
ssize_t wire_send(int fd, const void *bytes, size_t len, int flags) __asm__("__wrap_send");
int real_close(int fd) __asm__("__real_close");

/* Calls from a process into the kernel: what is allocated there is not the process's. */
static struct wire_net *enter(bool *was_in_core)
{
    struct sim *sim = wire_current()->sim;

    *was_in_core = sim_enter_world(sim);
    return sim->wire->net;
}

static void leave(bool was_in_core)
{
    sim_leave_world(wire_current()->sim, was_in_core);
}

static struct sockaddr_in ipv4_of(const struct sockaddr *address, socklen_t len)
{
    struct sockaddr_in own;

    REQUIRE(len >= sizeof(own) && address->sa_family == AF_INET);
    memcpy(&own, address, sizeof(own));
    return own;
}

static void give_address(const struct sockaddr_in *own, struct sockaddr *address, socklen_t *len)
{
    struct sockaddr_in full = *own;

    full.sin_family = AF_INET;
    REQUIRE(*len >= sizeof(full));
    memcpy(address, &full, sizeof(full));
    *len = sizeof(full);
}

int wire_socket(int family, int type, int protocol)
{
    bool was_in_core;
    int fd;

    (void)protocol;
    REQUIRE(family == AF_INET && (type & SOCK_STREAM) != 0);
    fd = wire_net_socket(enter(&was_in_core));
    leave(was_in_core);
    return fd;
}

int wire_bind(int fd, const struct sockaddr *address, socklen_t len)
{
    struct sockaddr_in own = ipv4_of(address, len);
    bool was_in_core;
    int result = wire_net_bind(enter(&was_in_core), fd, &own);

    leave(was_in_core);
    return result;
}

int wire_listen(int fd, int backlog)
{
    bool was_in_core;
    int result = wire_net_listen(enter(&was_in_core), fd);

    (void)backlog;
    leave(was_in_core);
    return result;
}

int wire_accept(int fd, struct sockaddr *peer, socklen_t *len, int flags)
{
    struct sockaddr_in own;
    bool was_in_core;
    int result = wire_net_accept(enter(&was_in_core), fd, &own);

    (void)flags;
    leave(was_in_core);
    if (result >= 0) {
        give_address(&own, peer, len);
    }
    return result;
}

int wire_connect(int fd, const struct sockaddr *to, socklen_t len)
{
    struct sockaddr_in own = ipv4_of(to, len);
    bool was_in_core;
    int result = wire_net_connect(enter(&was_in_core), fd, &own);

    leave(was_in_core);
    return result;
}

int wire_getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
    bool was_in_core;
    int number;

    REQUIRE(level == SOL_SOCKET && option == SO_ERROR && *len == sizeof(number));
    number = wire_net_error(enter(&was_in_core), fd);
    leave(was_in_core);
    memcpy(value, &number, sizeof(number));
    *len = sizeof(number);
    return 0;
}

int wire_setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    (void)level;
    (void)option;
    (void)value;
    (void)len;
    REQUIRE(wire_net_has(fd));
    return 0;
}

int wire_getsockname(int fd, struct sockaddr *address, socklen_t *len)
{
    struct sockaddr_in own;
    bool was_in_core;
    int result = wire_net_name(enter(&was_in_core), fd, &own);

    leave(was_in_core);
    give_address(&own, address, len);
    return result;
}

int wire_shutdown(int fd, int how)
{
    bool was_in_core;
    int result;

    REQUIRE(how == SHUT_WR);
    result = wire_net_shutdown(enter(&was_in_core), fd);
    leave(was_in_core);
    return result;
}

int wire_close(int fd)
{
    bool was_in_core;
    int result;

    if (!wire_net_has(fd)) {
        return real_close(fd);
    }
    result = wire_net_close(enter(&was_in_core), fd);
    leave(was_in_core);
    return result;
}

int wire_fcntl(int fd, int command, ...)
{
    REQUIRE(wire_net_has(fd) && (command == F_GETFL || command == F_SETFL));
    return 0;
}

ssize_t wire_recv(int fd, void *space, size_t len, int flags)
{
    bool was_in_core;
    ssize_t result;

    (void)flags;
    result = wire_net_recv(enter(&was_in_core), fd, space, len);
    leave(was_in_core);
    return result;
}

ssize_t wire_send(int fd, const void *bytes, size_t len, int flags)
{
    bool was_in_core;
    ssize_t result;

    (void)flags;
    result = wire_net_send(enter(&was_in_core), fd, bytes, len);
    leave(was_in_core);
    return result;
}
