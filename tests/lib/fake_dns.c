/* SPDX-License-Identifier: Apache-2.0
 *
 * The name server of the tests: reads one question, writes the answers behind it.
 */
#include "tests/lib/fake_dns.h"

#include "lib/base/err.h"

#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEADER_BYTES 12U
#define PACKET_BYTES 512U
#define TYPE_A       1

static size_t put_answers(const struct fake_dns *dns, uint8_t *packet, size_t len)
{
    for (size_t i = 0; i < dns->host_count; i++) {
        uint32_t host = htonl(dns->hosts[i]);
        const uint8_t record[] = {0xc0, HEADER_BYTES, 0, TYPE_A, 0, 1, 0, 0, 0, 60, 0, 4};

        memcpy(packet + len, record, sizeof(record));
        memcpy(packet + len + sizeof(record), &host, sizeof(host));
        len += sizeof(record) + sizeof(host);
    }
    packet[7] = (uint8_t)dns->host_count;
    return len;
}

/* Length of header and question, 0 if the packet is no query. */
static size_t question_len(const uint8_t *packet, size_t got)
{
    size_t len = HEADER_BYTES;

    while (len < got && packet[len] != 0) {
        len += packet[len] + 1U;
    }
    return len + 5 <= got ? len + 5 : 0; // Root label, type and class.
}

static void on_query(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    struct fake_dns *dns = ctx;
    struct sockaddr_in peer;
    socklen_t peer_len = sizeof(peer);
    uint8_t packet[2 * PACKET_BYTES];
    ssize_t got =
        recvfrom(watcher->fd, packet, PACKET_BYTES, 0, (struct sockaddr *)&peer, &peer_len);
    size_t len = got > 0 ? question_len(packet, (size_t)got) : 0;
    bool is_a;

    (void)ready;
    if (len == 0) {
        return;
    }
    is_a = packet[len - 3] == TYPE_A;
    dns->query_count += is_a;
    if (dns->mood == FAKE_DNS_IS_SILENT) {
        return;
    }
    packet[2] = 0x81;
    packet[3] = dns->mood == FAKE_DNS_DENIES ? 0x83 : 0x80;
    memset(packet + 6, 0, 6); // No answer, no authority, nothing additional.
    if (is_a && dns->mood == FAKE_DNS_ANSWERS) {
        len = put_answers(dns, packet, len);
    }
    (void)sendto(watcher->fd, packet, len, 0, (struct sockaddr *)&peer, peer_len);
}

int fake_dns_open(struct fake_dns *dns, struct loop *loop, enum fake_dns_mood mood)
{
    struct sockaddr_in local = {.sin_family = AF_INET,
                                .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(local);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return ERR_IO;
    }
    *dns = (struct fake_dns){.mood = mood};
    if (bind(fd, (struct sockaddr *)&local, sizeof(local)) != 0 ||
        getsockname(fd, (struct sockaddr *)&local, &len) != 0 ||
        loop_fd_init(&dns->watcher, loop, fd, on_query, dns) != 0) {
        (void)close(fd);
        return ERR_IO;
    }
    loop_fd_set(&dns->watcher, LOOP_READ);
    (void)snprintf(dns->servers, sizeof(dns->servers), "127.0.0.1:%u", ntohs(local.sin_port));
    return 0;
}

void fake_dns_close(struct fake_dns *dns)
{
    int fd = dns->watcher.fd;

    loop_fd_fini(&dns->watcher);
    (void)close(fd);
}
