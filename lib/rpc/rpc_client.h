/* SPDX-License-Identifier: Apache-2.0
 *
 * Unary gRPC calls to one authority: a channel resolves the name off the loop, keeps a connection
 * to each address, spreads calls over them in turn, and queues what does not fit. A slow, dead,
 * hanging or unknown target costs its own calls and nothing else. Nothing is retried here.
 */
#ifndef FOLIOT_LIB_RPC_RPC_CLIENT_H
#define FOLIOT_LIB_RPC_RPC_CLIENT_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/heap.h"
#include "lib/base/instant.h"
#include "lib/base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct resolver;
struct rpc_channel;
struct rpc_request;
struct rpc_stream;
struct tls;

/* Most metadata of one call. */
#define RPC_METADATA_MAX 48U

/* Fill by rpc_channel_options_init, then change what matters. */
struct rpc_channel_options {
    const char *target;           /* "host:port", "dns:///host:port", "ipv4:1.2.3.4:80",
                                     "ipv6:[::1]:80", "[::1]:80"; copied */
    const char *authority;        /* :authority; NULL takes host:port of the target */
    const char *user_agent;       /* NULL: grpc-c-foliot/<version of the library> */
    struct tls *tls;              /* borrowed; NULL: cleartext */
    const char *tls_host;         /* whose certificate the server must have; NULL: the target's
                                     host; copied */
    struct resolver *resolver;    /* shared; NULL: only numeric addresses */
    uint32_t queue_max;           /* calls that wait for a connection or a stream */
    uint32_t concurrency_max;     /* calls sent and not answered, over all connections */
    uint32_t addresses_max;       /* connections: one for each address up to this number */
    size_t request_bytes_max;     /* one message out */
    size_t response_bytes_max;    /* one message in */
    size_t header_bytes_max;      /* header list accepted from the peer */
    span_ms connect_timeout_ms;   /* until the peer's SETTINGS have arrived */
    span_ms backoff_first_ms;     /* between attempts to connect: first, */
    span_ms backoff_max_ms;       /* and longest; × 1.6, ± 20 % */
    span_ms keepalive_ms;         /* PING when silent for, only with open calls; SPAN_NEVER: off */
    span_ms keepalive_timeout_ms; /* and close if no answer within */
    span_ms idle_ms;              /* connections without calls are closed after */
    uint64_t seed;                /* for the jitter; 0 takes the kernel's entropy */
};

void rpc_channel_options_init(struct rpc_channel_options *options);

/*
 * Make a channel. Connects with the first call.
 *
 * ownership: options and their strings are copied, the resolver is borrowed.
 * errors:    ERR_INVALID for the target, ERR_NO_MEMORY.
 */
MUST_USE int rpc_channel_open(struct loop *loop, const struct rpc_channel_options *options,
                              struct rpc_channel **out);

/* One name and value of request metadata. Values of names that end in "-bin" are raw bytes. */
struct rpc_metadata {
    const char *name; /* [0-9a-z_.-]+, not "grpc-…" */
    struct slice value;
};

/* How a call ended. Everything is borrowed for the callback. */
struct rpc_reply {
    enum rpc_status status;
    struct slice message; /* grpc-message, decoded; or our own words */
    struct slice payload; /* the response, serialized; only if status is RPC_OK */
    struct slice details; /* grpc-status-details-bin, decoded; may be empty */
    span_ms pushback_ms;  /* grpc-retry-pushback-ms: ≥ 0 wait, < 0 do not repeat */
    bool has_pushback;
    bool unprocessed;   /* proved: the peer did not act on it (never sent, refused, above GOAWAY) */
    bool was_sent;      /* its headers went into a connection */
    bool was_forwarded; /* the peer had it done by another one (RPC_HEADER_FORWARDED) */
    bool from_peer;     /* the status is the peer's own word (trailers, or an HTTP status), not
                           made here for a deadline, a reset or a broken connection: only then its
                           handler is known to be over */
};

typedef void (*rpc_reply_cb)(struct rpc_request *request, const struct rpc_reply *reply, void *ctx);

/*
 * Just before the call's headers go out; false withdraws it: the reply says UNAVAILABLE,
 * unprocessed.
 *
 * note: must not call into the channel.
 */
typedef bool (*rpc_before_send_fn)(struct rpc_request *request, void *ctx);

/*
 * The last byte of the call has been given to the kernel, at sent_us by CLOCK_BOOTTIME.
 *
 * note: may cancel the call. Not called if the reply was faster.
 */
typedef void (*rpc_sent_fn)(struct rpc_request *request, boot_us sent_us, void *ctx);

/*
 * A call, embedded in the object that waits for it. Zero it, fill the first part; it must not move
 * and its pointers must stay valid until the callback begins.
 */
struct rpc_request {
    const char *path;                    /* "/package.Service/Method" */
    struct slice payload;                /* serialized request; may be empty */
    const struct rpc_metadata *metadata; /* may be NULL if the count is 0 */
    size_t metadata_count;
    boot_us deadline_us; /* BOOT_NEVER for none; sent as grpc-timeout */
    boot_us start_by_us; /* not sent by then: UNAVAILABLE, unprocessed; 0 or BOOT_NEVER for none */
    rpc_before_send_fn before_send; /* may be NULL */
    rpc_sent_fn sent;               /* may be NULL */
    rpc_reply_cb cb;
    void *ctx; /* the caller's */

    /* private to lib/rpc from here on */
    struct list node;        /* in the queue, a connection's list, or the finished list */
    struct heap_node expiry; /* key: the deadline, or start_by while not sent */
    struct rpc_channel *channel;
    void *connection;          /* that it was given to; NULL while it waits in the queue */
    struct rpc_stream *stream; /* NULL while it is not sent */
    const char *verdict_text;  /* of a call that ended on our side */
    enum rpc_status verdict;
    bool is_unprocessed;
    bool was_sent;
    bool has_expiry;
    bool is_finished; /* in the finished list */
};

/*
 * Start a call.
 *
 * note:   asynchronous contract (STYLE 3.9): a non-zero return is a refusal without callback; zero
 *         means that the callback runs exactly once, later, never inside this call. The callback
 *         may free the request, start others, or close the channel.
 * errors: ERR_FULL (queue_max), ERR_TOO_LARGE (request_bytes_max), ERR_INVALID (path or metadata),
 *         ERR_CLOSED.
 */
MUST_USE int rpc_channel_call(struct rpc_channel *channel, struct rpc_request *request);

/*
 * Wish for the end of a call: the callback still comes, later, with RPC_CANCELLED or, if it was on
 * its way, with the true result. shape: a request whose callback has not begun.
 */
void rpc_channel_cancel(struct rpc_request *request);

/*
 * Calls that could be started now and be sent at once, without waiting for a stream.
 *
 * note: before the peer's first SETTINGS 100 streams are assumed; 0 while the last attempts to
 *       connect have all failed.
 */
uint32_t rpc_channel_capacity(const struct rpc_channel *channel);

/* Calls whose callback has not begun. */
uint32_t rpc_channel_call_count(const struct rpc_channel *channel);

enum rpc_channel_state {
    RPC_CHANNEL_IDLE,       /* nothing asked yet, or idle for long */
    RPC_CHANNEL_CONNECTING, /* no connection yet, none failed since the last success */
    RPC_CHANNEL_READY,      /* at least one connection */
    RPC_CHANNEL_FAILED      /* all attempts failed; the next one waits for its back-off */
};

enum rpc_channel_state rpc_channel_get_state(const struct rpc_channel *channel);

/* Figures for metrics and tests. */
struct rpc_channel_stats {
    uint32_t connection_count; /* ready ones */
    uint32_t queue_count;      /* calls that wait for a connection or a stream */
    uint32_t active_count;     /* calls given to connections */
    uint64_t started_count;    /* calls sent on the connections that are ready */
    uint64_t least_started;    /* by the connection that has sent the fewest */
};

void rpc_channel_get_stats(const struct rpc_channel *channel, struct rpc_channel_stats *out);

typedef void (*rpc_channel_cb)(void *ctx);

/*
 * End every call with RPC_CANCELLED, close the connections, free the channel.
 *
 * shape: cb may be NULL; it runs once, later, after the callbacks of all calls.
 */
void rpc_channel_close(struct rpc_channel *channel, rpc_channel_cb cb, void *ctx);

#endif
