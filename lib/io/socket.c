/* SPDX-License-Identifier: Apache-2.0
 *
 * Socket options and errors.
 */
#include "lib/io/socket.h"

#include "lib/base/err.h"

#include <errno.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

void socket_tune(int fd)
{
    int on = 1;
    unsigned timeout_ms = (unsigned)SOCKET_USER_TIMEOUT_MS;

    // Best effort: a socket that refuses these still works, only worse.
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

int socket_error(int number)
{
    switch (number) {
    case EADDRINUSE:
        return ERR_EXISTS;
    case EACCES:
    case EPERM:
        return ERR_DENIED;
    case EINVAL:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
        return ERR_INVALID;
    case EMFILE:
    case ENFILE:
        return ERR_FULL;
    case ENOMEM:
    case ENOBUFS:
        return ERR_NO_MEMORY;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case ECONNREFUSED:
    case ENETUNREACH:
    case EHOSTUNREACH:
        return ERR_UNAVAILABLE;
    default:
        return ERR_IO;
    }
}
