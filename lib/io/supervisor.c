/* SPDX-License-Identifier: Apache-2.0
 *
 * One datagram. Our own few lines instead of libsystemd, as its authors advise: the protocol is
 * stable, the library large.
 */
#define _GNU_SOURCE // SOCK_CLOEXEC, environ

#include "lib/io/supervisor.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Not by getenv(): a program's environment is read where it is, for threads' sake. */
static const char *find_socket(void)
{
    static const char name[] = "NOTIFY_SOCKET=";

    for (char **entry = environ; *entry != NULL; entry++) {
        if (strncmp(*entry, name, sizeof(name) - 1) == 0) {
            return *entry + sizeof(name) - 1;
        }
    }
    return NULL;
}

void supervisor_tell(const char *state)
{
    const char *path = find_socket();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = path == NULL ? 0 : strlen(path);
    int fd;

    if (len == 0 || len >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    memcpy(address.sun_path, path, len);
    if (path[0] == '@') {
        address.sun_path[0] = '\0';
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        // A manager that does not listen is no reason to do anything else.
        (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
        (void)close(fd);
    }
}
