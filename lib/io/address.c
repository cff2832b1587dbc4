/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP addresses: parse, print, compare.
 */
#include "lib/io/address.h"

#include "lib/base/err.h"

#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>

int address_parse(const char *host, uint16_t port, struct address *out)
{
    struct address parsed;

    memset(&parsed, 0, sizeof(parsed));
    if (inet_pton(AF_INET, host, &parsed.socket.v4.sin_addr) == 1) {
        parsed.socket.v4.sin_family = AF_INET;
        parsed.socket.v4.sin_port = htons(port);
        parsed.len = sizeof(parsed.socket.v4);
    } else if (inet_pton(AF_INET6, host, &parsed.socket.v6.sin6_addr) == 1) {
        parsed.socket.v6.sin6_family = AF_INET6;
        parsed.socket.v6.sin6_port = htons(port);
        parsed.len = sizeof(parsed.socket.v6);
    } else {
        return ERR_INVALID;
    }
    *out = parsed;
    return 0;
}

void address_format(const struct address *address, char *text)
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (address->socket.any.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &address->socket.v6.sin6_addr, host, sizeof(host));
        (void)snprintf(text, ADDRESS_TEXT_BYTES, "[%s]:%u", host, address_port(address));
        return;
    }
    (void)inet_ntop(AF_INET, &address->socket.v4.sin_addr, host, sizeof(host));
    (void)snprintf(text, ADDRESS_TEXT_BYTES, "%s:%u", host, address_port(address));
}

uint16_t address_port(const struct address *address)
{
    return ntohs(address->socket.any.sa_family == AF_INET6 ? address->socket.v6.sin6_port
                                                           : address->socket.v4.sin_port);
}

bool address_same_host(const struct address *a, const struct address *b)
{
    if (a->socket.any.sa_family != b->socket.any.sa_family) {
        return false;
    }
    if (a->socket.any.sa_family == AF_INET6) {
        return memcmp(&a->socket.v6.sin6_addr, &b->socket.v6.sin6_addr,
                      sizeof(a->socket.v6.sin6_addr)) == 0;
    }
    return a->socket.v4.sin_addr.s_addr == b->socket.v4.sin_addr.s_addr;
}

bool address_equal(const struct address *a, const struct address *b)
{
    return address_same_host(a, b) && address_port(a) == address_port(b);
}

int address_from_socket(const struct sockaddr *socket, socklen_t len, struct address *out)
{
    struct address copy;

    memset(&copy, 0, sizeof(copy));
    if (socket->sa_family == AF_INET && len >= sizeof(copy.socket.v4)) {
        memcpy(&copy.socket.v4, socket, sizeof(copy.socket.v4));
        copy.len = sizeof(copy.socket.v4);
    } else if (socket->sa_family == AF_INET6 && len >= sizeof(copy.socket.v6)) {
        memcpy(&copy.socket.v6, socket, sizeof(copy.socket.v6));
        copy.len = sizeof(copy.socket.v6);
    } else {
        return ERR_UNSUPPORTED;
    }
    *out = copy;
    return 0;
}
