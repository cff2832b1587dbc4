/* SPDX-License-Identifier: Apache-2.0
 *
 * A relay between the store and PostgreSQL that knows where one message ends and the next begins,
 * so that a test can stop a write exactly before its commit, or in the middle of a pipeline, and
 * let the rest go much later or never. Runs on the test's own loop: nothing moves between turns.
 */
#ifndef FOLIOT_TESTS_LIB_PG_PROXY_H
#define FOLIOT_TESTS_LIB_PG_PROXY_H

#include "lib/io/loop.h"

struct pg_proxy;

/* Where the next write is held. Reads, bumps and polls pass. */
enum pg_proxy_hold {
    PG_PROXY_PASS = 1,
    PG_PROXY_HOLD_COMMIT, /* everything from its commit on stays here */
    PG_PROXY_HOLD_SYNC,   /* the server has executed everything but sees no end of the pipeline */
    PG_PROXY_MUTE_COMMIT  /* its commit passes, replies from then on are thrown away */
};

/* Listen on loopback and relay to "127.0.0.1:port". Ends the case on failure. */
struct pg_proxy *pg_proxy_open(struct loop *loop, const char *target);

/* Port on which it listens. */
unsigned pg_proxy_port(const struct pg_proxy *proxy);

/* Choose what happens to the next write that gets to the place; it happens once. */
void pg_proxy_arm(struct pg_proxy *proxy, enum pg_proxy_hold hold);

/* True once a write has been held or muted. */
bool pg_proxy_is_held(const struct pg_proxy *proxy);

/* Let go of what is held. Whether the client is still there does not matter. */
void pg_proxy_release(struct pg_proxy *proxy);

/* Close both sides of the connection that is held. */
void pg_proxy_cut(struct pg_proxy *proxy);

/* Refuse new connections and close all that there are (false), or work again (true). */
void pg_proxy_set_up(struct pg_proxy *proxy, bool is_up);

/* Relay new connections to another server, "127.0.0.1:port". */
void pg_proxy_set_target(struct pg_proxy *proxy, const char *target);

/* Move nothing in either direction, of new connections neither, and close nothing (true): a line
 * that swallows every packet; or go on, with what has piled up first (false). */
void pg_proxy_set_deaf(struct pg_proxy *proxy, bool is_deaf);

/* Tell the clients of new connections of another backend than the one that serves them, as a pooler
 * does. */
void pg_proxy_set_pooling(struct pg_proxy *proxy, bool is_pooling);

/* Close everything and free. */
void pg_proxy_close(struct pg_proxy *proxy);

#endif
