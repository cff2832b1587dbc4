/* SPDX-License-Identifier: Apache-2.0
 *
 * A TCP address as a plain value.
 */
#ifndef FOLIOT_LIB_IO_ADDRESS_H
#define FOLIOT_LIB_IO_ADDRESS_H

#include "lib/base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <netinet/in.h>
#include <sys/socket.h>

#define ADDRESS_TEXT_BYTES 64U /* "[…]:65535" of the longest IPv6 address, and its NUL */

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } socket;
    socklen_t len; /* bytes of the member in use */
};

/*
 * Parse a numeric IPv4 or IPv6 host, without brackets.
 *
 * errors: ERR_INVALID for anything else; out is not written.
 */
MUST_USE int address_parse(const char *host, uint16_t port, struct address *out);

/* Write "1.2.3.4:80" or "[::1]:80". shape: text has ADDRESS_TEXT_BYTES. */
void address_format(const struct address *address, char *text);

uint16_t address_port(const struct address *address);

/* Same host, whatever the port. */
bool address_same_host(const struct address *a, const struct address *b);

/* Same host and port. */
bool address_equal(const struct address *a, const struct address *b);

/* From what accept or getsockname gave. errors: ERR_UNSUPPORTED for other families. */
MUST_USE int address_from_socket(const struct sockaddr *socket, socklen_t len, struct address *out);

#endif
