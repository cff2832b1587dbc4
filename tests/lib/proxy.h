/* SPDX-License-Identifier: Apache-2.0
 *
 * A TCP relay in a thread of the test's process that can lose, hold and cut what passes: how tests
 * hurt the network between us and a real server. Knows bytes, not protocols.
 */
#ifndef FOLIOT_TESTS_LIB_PROXY_H
#define FOLIOT_TESTS_LIB_PROXY_H

#include <stdint.h>

struct proxy;

enum proxy_mode {
    PROXY_PASS = 1,      /* relay everything */
    PROXY_DROP_REPLIES,  /* read what the server sends and throw it away */
    PROXY_DROP_REQUESTS, /* read what the client sends and throw it away */
    PROXY_HOLD,          /* read nothing from either side: a network that hangs */
    PROXY_CUT,           /* close every connection, and each new one at once */
    PROXY_GREET          /* relay a connection's first exchange, close it at its next request */
};

/*
 * Start to relay from a port of its own on loopback to `target`.
 *
 * shape:     target is "127.0.0.1:port". Ends the case on failure.
 * ownership: the result is freed by proxy_close().
 */
struct proxy *proxy_open(const char *target);

/* "127.0.0.1:port" of the listening side; borrowed until the close. */
const char *proxy_address(const struct proxy *proxy);

/* Change what happens from now on. Returns when the relay has taken it up. */
void proxy_set(struct proxy *proxy, enum proxy_mode mode);

/* Connections accepted so far. */
uint32_t proxy_accept_count(const struct proxy *proxy);

/* Close every connection, end the thread, free. */
void proxy_close(struct proxy *proxy);

#endif
