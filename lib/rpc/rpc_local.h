/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that come by another door than gRPC: to the methods of a server, answered by a callback.
 * The handler cannot tell them from others.
 */
#ifndef FOLIOT_LIB_RPC_RPC_LOCAL_H
#define FOLIOT_LIB_RPC_RPC_LOCAL_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/instant.h"

#include <stddef.h>

struct rpc_server;

/* How a call ended; borrowed for the callback. */
struct rpc_answer {
    enum rpc_status status;
    struct slice response; /* RPC_OK: the serialized message */
    const char *message;   /* else for people; may be NULL */
    struct slice details;  /* google.rpc.Status, serialized; empty for none */
    span_ms retry_delay;   /* 0: none */
};

typedef void (*rpc_answer_cb)(const struct rpc_answer *answer, void *ctx);

struct rpc_local_field {
    struct slice name; /* lower case; values of names that end in "-bin" are base64 */
    struct slice value;
};

/* Everything is borrowed for rpc_server_call. */
struct rpc_local_options {
    struct slice path;
    struct slice request; /* serialized */
    const char *peer;     /* address, as text */
    const struct rpc_local_field *metadata;
    size_t metadata_count;
    boot_us deadline_us; /* BOOT_NEVER: the caller waits as long as it takes */
    rpc_answer_cb cb;
    void *ctx;
};

/*
 * Call a unary method.
 *
 * shape: the callback runs exactly once, on the loop, maybe before this returns. Streams, unknown
 *        paths, a server that drains, and metadata above header_bytes_max are answered like calls
 *        that the server refuses. When the deadline passes, or the server is closed, the call is
 *        answered then and its handler told; what was begun may have happened. A deadline that has
 *        passed already is answered at once, and nothing is begun.
 */
void rpc_server_call(struct rpc_server *server, const struct rpc_local_options *options);

#endif
