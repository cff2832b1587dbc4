/* SPDX-License-Identifier: Apache-2.0
 *
 * To be preloaded: every read of a socket comes late by 20 ms, as in a long turn of the event loop
 * whose other connections were served first.
 */
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define LATE_NS 20000000

ssize_t recv(int fd, void *space, size_t len, int flags); // The system's names are reserved ones.

ssize_t recv(int fd, void *space, size_t len, int flags)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
    return syscall(SYS_recvfrom, fd, space, len, flags, NULL, NULL);
}
