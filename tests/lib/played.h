/* SPDX-License-Identifier: Apache-2.0
 *
 * A broker that a test plays: a gRPC server in a thread of the test's process whose methods are the
 * test's own. For clients that wait.
 */
#ifndef FOLIOT_TESTS_LIB_PLAYED_H
#define FOLIOT_TESTS_LIB_PLAYED_H

#include "lib/rpc/rpc_method.h"

#include <pthread.h>

#define PLAYED_METHODS_MAX 32

struct played {
    struct loop *loop;
    struct loop_waker *ender;
    struct rpc_server *server;
    struct rpc_method methods[PLAYED_METHODS_MAX];
    pthread_t thread;
    char address[32]; /* "127.0.0.1:port" */
};

/* Serve the methods, on the played broker's thread; ends the case on failure. */
void played_start(struct played *played, const struct rpc_method *methods, size_t count);

/* The same over TLS; tls is borrowed until the stop. */
struct tls;
void played_start_tls(struct played *played, const struct rpc_method *methods, size_t count,
                      struct tls *tls);

/* Cut every connection, end the thread, free. */
void played_stop(struct played *played);

#endif
