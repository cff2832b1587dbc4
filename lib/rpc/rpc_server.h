/* SPDX-License-Identifier: Apache-2.0
 *
 * A gRPC server on one loop: accepts connections within limits, speaks unary gRPC to them, drains
 * without losing a call. It knows paths and bytes, no message types.
 */
#ifndef FOLIOT_LIB_RPC_RPC_SERVER_H
#define FOLIOT_LIB_RPC_RPC_SERVER_H

#include "lib/base/attr.h"
#include "lib/base/instant.h"
#include "lib/rpc/rpc_method.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct rpc_server;
struct tls;

/* A connection was refused, in words; peer is its address. Both borrowed. */
typedef void (*rpc_refused_fn)(const char *peer, const char *why, void *ctx);

/* Largest request_bytes_max and response_bytes_max. */
#define RPC_SERVER_MESSAGE_BYTES_MAX ((size_t)7 << 20)

/* Fill by rpc_server_options_init, then change what matters. */
struct rpc_server_options {
    const char *address;          /* numeric; "127.0.0.1", "::", "0.0.0.0" */
    uint16_t port;                /* 0: any free one, see rpc_server_port */
    const char *version;          /* for the "server" header: foliot/<version> */
    uint32_t connections_max;     /* in all */
    uint32_t address_connections; /* at most from one remote address */
    uint32_t streams_max;         /* MAX_CONCURRENT_STREAMS of a connection */
    size_t request_bytes_max;     /* one message in */
    size_t response_bytes_max;    /* one message out */
    size_t compress_bytes_min;    /* unary answers from here on are packed for clients that take
                                     gzip; 0: none */
    size_t header_bytes_max;      /* header list: name + value + 32 each */
    size_t buffered_bytes_max;    /* requests not yet answered, over all connections */
    size_t unread_bytes_max;      /* answers waiting for their readers, over all connections */
    span_ms handshake_ms;         /* preface and SETTINGS must arrive within */
    span_ms request_ms;           /* headers seen to whole request received */
    span_ms idle_ms;              /* a connection without calls is closed after */
    span_ms age_ms;               /* a connection is drained after, ± 10 % */
    span_ms age_grace_ms;         /* and closed this long after that */
    span_ms keepalive_ms;         /* PING a peer that was silent for */
    span_ms keepalive_timeout_ms; /* and close if no answer within */
    span_ms ping_interval_min_ms; /* pings that come faster are strikes */
    uint32_t ping_strikes_max;    /* strikes forgiven; the next one is too_many_pings */
    struct tls *tls;              /* NULL: cleartext; borrowed for the life of the server */
    rpc_refused_fn refused;       /* told why a TLS handshake failed; may be NULL */
    void *refused_ctx;
    uint64_t seed; /* for the jitter; 0 takes the kernel's entropy */
};

void rpc_server_options_init(struct rpc_server_options *options);

/*
 * Bind and listen; calls are accepted from the next turn on.
 *
 * ownership: options are copied.
 * errors:    ERR_INVALID for the address or a limit out of range, ERR_EXISTS if it is in use,
 * ERR_DENIED, ERR_IO, ERR_NO_MEMORY.
 */
MUST_USE int rpc_server_open(struct loop *loop, const struct rpc_server_options *options,
                             struct rpc_server **out);

/* The port in use. */
uint16_t rpc_server_port(const struct rpc_server *server);

/*
 * Serve a method. Add all of them in the turn in which the server was opened.
 *
 * shape:  method->path is "/package.Service/Method", or RPC_PATH_ANY.
 * errors: ERR_INVALID, ERR_EXISTS, ERR_NO_MEMORY.
 */
MUST_USE int rpc_server_add(struct rpc_server *server, const struct rpc_method *method);

/* Serve a table of methods; stops at the first error. */
MUST_USE int rpc_server_add_all(struct rpc_server *server, const struct rpc_method *methods,
                                size_t count);

/* Is any method of "package.Service" served? */
bool rpc_server_has_service(const struct rpc_server *server, struct slice service);

/* Figures for metrics; counters only rise. */
struct rpc_server_stats {
    uint64_t connections_accepted;
    uint64_t connections_refused; /* over a connection limit */
    uint64_t connections_open;
    uint64_t calls_started;
    uint64_t calls_open;
    uint64_t calls_by_status[17]; /* finished calls by gRPC status; cancelled ones under 1 */
    uint64_t protocol_errors;     /* connections closed for what the peer did */
    uint64_t handshakes_failed;   /* connections that ended in their TLS handshake */
    uint64_t buffered_bytes;      /* request bytes held now */
    uint64_t unread_bytes;        /* response bytes held now */
    uint64_t connections_cut;     /* hung up on because unread_bytes_max was met */
};

void rpc_server_get_stats(const struct rpc_server *server, struct rpc_server_stats *out);

typedef void (*rpc_server_cb)(void *ctx);

/*
 * Stop listening at once, tell every client to go elsewhere (GOAWAY in two steps), finish the calls
 * that are open, close connections as they empty, and cut off what is left after the grace.
 *
 * note: the callback runs once, later, when no connection is left. Once per server. Set the health
 *       to not serving some time before.
 */
void rpc_server_drain(struct rpc_server *server, span_ms grace_ms, rpc_server_cb cb, void *ctx);

/*
 * Cut every connection, cancel the calls, free the server when their handlers have finished them.
 *
 * shape: cb may be NULL; it runs once, later, after which the memory is gone.
 * note:  a drain that is under way ends: its callback comes first.
 */
void rpc_server_close(struct rpc_server *server, rpc_server_cb cb, void *ctx);

#endif
