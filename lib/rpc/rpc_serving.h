/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the server half of lib/rpc: what its connections share, and the call object that the
 * connection (rpc_session.c) fills and the handler (through rpc_method.h, rpc_call.c) finishes.
 */
#ifndef FOLIOT_LIB_RPC_RPC_SERVING_H
#define FOLIOT_LIB_RPC_RPC_SERVING_H

#include "lib/base/heap.h"
#include "lib/base/list.h"
#include "lib/io/address.h"
#include "lib/rpc/grpc_msg.h"
#include "lib/rpc/h2.h"
#include "lib/rpc/rpc_fields.h"
#include "lib/rpc/rpc_local.h"
#include "lib/rpc/rpc_methods.h"
#include "lib/rpc/rpc_server.h"

/* "foliot/<version>" */
#define RPC_SERVER_NAME_BYTES 64U

struct loop;
struct rpc_local;
struct rpc_session;

/* What all connections of a server share. */
struct rpc_serving {
    struct rpc_server_options options;
    struct rpc_methods methods;
    struct rpc_server_stats stats;
    char name[RPC_SERVER_NAME_BYTES];
    struct list locals;               /* calls that came by another door */
    bool is_leaving;                  /* no new ones */
    uint64_t running_count;           /* calls whose handler owes an answer, orphans included */
    void (*call_finished)(void *ctx); /* after running_count fell; may be NULL */
    void (*overfull)(void *ctx);      /* unread_bytes is above unread_bytes_max; may be NULL */
    void *ctx;
};

/*
 * A call on the server.
 *
 *   fields ──▶ receiving ──▶ running ──▶ answered ──▶ stream closed: freed
 *      └──────────┴── refused: answered     │
 *                            └── stream closed first: orphan, freed when the handler finishes
 *
 * 1. is_running: the handler has it and owes an answer. Not freed before. With is_receiving only
 *    if the request is a stream.
 * 2. is_answered: the stream has its final answer queued; later answers are dropped.
 * 3. session is NULL when the stream is gone (orphan): only with is_running.
 * 4. held_bytes ≤ buffered_bytes: credit is returned when the call is finished, sometimes before.
 */
struct rpc_call {
    struct list node;        /* in session->calls, oldest first */
    struct heap_node expiry; /* in session->expiries while has_expiry */
    struct rpc_serving *serving;
    struct rpc_session *session;
    struct rpc_local *local; /* of a call by another door, till it is answered; session is NULL */
    const struct rpc_method *method; /* NULL: unknown path */
    int32_t stream_id;
    bool has_expiry;
    bool is_receiving; /* headers were good, the body is being collected */
    bool is_running;
    bool is_answered;
    bool is_cancelled;
    bool is_taking_stream; /* running, and the client's stream of requests has not ended */
    bool peer_ended;       /* END_STREAM has come */

    /* facts of the request's headers */
    bool has_fields; /* the block is complete; a second one is trailers and dropped */
    bool is_post;
    bool is_grpc;
    bool is_oversize; /* above header_bytes_max, or out of memory */
    bool is_bad_timeout;
    bool accepts_gzip;           /* the client unpacks gzip */
    enum grpc_encoding encoding; /* of the request's messages */
    size_t header_bytes;
    int64_t timeout_us; /* −1: none */
    struct rpc_fields metadata;

    boot_us deadline_us;
    struct grpc_reader reader;
    size_t held_bytes;     /* connection credit not returned yet */
    size_t buffered_bytes; /* request bytes on the books until the call is finished */

    /* the response */
    bool has_response; /* its headers are queued; out follows */
    bool is_waiting;   /* the stream waits for rpc_call_send: it must be resumed */
    bool is_final;     /* after out come the trailers */
    bool is_packed;    /* grpc-encoding is gzip */
    bool is_forwarded; /* another broker gave the answer */
    struct buf out;    /* framed messages not given to the stream yet */
    enum rpc_status status;
    struct buf status_text;    /* grpc-message, encoded */
    struct buf status_details; /* grpc-status-details-bin, encoded */
    span_ms retry_delay;       /* 0: none */

    rpc_cancel_cb on_cancel;
    void *cancel_ctx;
    void *ctx; /* the handler's */
    char peer[ADDRESS_TEXT_BYTES];
};

/* A new call on a stream. NULL when out of memory. */
MUST_USE struct rpc_call *rpc_call_new(struct rpc_serving *serving, struct rpc_session *session,
                                       int32_t stream_id, const char *peer);

/* Free. shape: not running, in no list. */
void rpc_call_free(struct rpc_call *call);

/*
 * Queue the final status on the stream and drop the rest of the request. For refusals by the
 * connection; handlers come through rpc_method.h.
 *
 * shape: not answered yet.
 */
void rpc_call_refuse(struct rpc_call *call, const struct rpc_failure *failure);

/* Answer with a plain HTTP status and nothing else: it is no gRPC request. */
void rpc_call_refuse_http(struct rpc_call *call, const char *http_status);

/* From here on the handler owes an answer. */
void rpc_call_begin(struct rpc_call *call);

/* Hand the whole request to the handler. shape: not answered, has a method. */
void rpc_call_run(struct rpc_call *call);

/* Hand over the message that the reader has, and then the end. shape: begun, still receiving. */
void rpc_call_take_message(struct rpc_call *call);
void rpc_call_take_end(struct rpc_call *call);

/* Tell the handler that nobody waits any more. It may finish, and so free, the call. */
void rpc_call_cancel(struct rpc_call *call);

/* Next bytes of the response, as h2_events.body. */
size_t rpc_call_body(struct rpc_call *call, uint8_t *space, size_t len, bool *is_end);

/* ---- calls by another door; implemented in rpc_local.c ---- */

/* rpc_server_call, once the server's parts are known. */
void rpc_local_start(struct rpc_serving *serving, struct loop *loop,
                     const struct rpc_local_options *options);

/* The handler has finished the call: give the answer, free the call. */
void rpc_local_answer(struct rpc_local *local, const struct rpc_answer *answer);

/* The server is closed: answer all that are open, tell their handlers. */
void rpc_local_end_all(struct rpc_serving *serving);

/* ---- what a call needs of its connection; implemented in rpc_session.c ---- */

struct h2 *rpc_session_h2(struct rpc_session *session);

/* The connection is out of memory: it is closed at the next occasion. */
void rpc_session_fail(struct rpc_session *session, int err);

/* There is something to send. */
void rpc_session_flush(struct rpc_session *session);

/* The call's request needs no memory any more: return its credit, strike it off the books. */
void rpc_session_release(struct rpc_session *session, struct rpc_call *call);

/* Bytes of responses that wait for the peer rose or fell. */
void rpc_session_count_out(struct rpc_session *session, int64_t bytes);

#endif
