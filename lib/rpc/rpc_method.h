/* SPDX-License-Identifier: Apache-2.0
 *
 * What a service gives the server, and what a handler may do with a call. A handler is called once
 * per call with the whole request, and finishes the call exactly once, at once or later, by
 * rpc_call_reply or rpc_call_fail. Of a stream of requests it gets one message after the other.
 */
#ifndef FOLIOT_LIB_RPC_RPC_METHOD_H
#define FOLIOT_LIB_RPC_RPC_METHOD_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/instant.h"

#include <stdbool.h>

struct rpc_call;

/*
 * Handle a call.
 *
 * ownership: request is borrowed for this call of the handler; the call object lives until it is
 *            finished, also when the client has gone.
 */
typedef void (*rpc_handler_fn)(struct rpc_call *call, struct slice request, void *ctx);

/* Path of a row that serves every well-formed path without a row of its own; rpc_call_path gives
 * this one. For tools that play any service; a product names its methods. */
#define RPC_PATH_ANY "*"

/* Header of an answer that another broker gave; of a request that one passes on. */
#define RPC_HEADER_FORWARDED "foliot-forwarded"

/* One row of a service's method table; the row and its path live as long as the server. */
struct rpc_method {
    const char *path; /* "/foliot.v1.TaskService/Create", case matters */
    rpc_handler_fn handler;
    /* Set if the request is a stream: called with each message of it, and `handler` with an empty
     * one when the client has ended the stream. Both may send and finish; once finished, no more
     * messages come. If the call is cancelled before its end and nobody has asked for that by
     * rpc_call_on_cancel, it is finished without a word. NULL: the request is one message. */
    rpc_handler_fn on_message;
    void *ctx;       /* the service's */
    bool is_endless; /* a stream that does not end by itself: ended when its connection drains */
};

/* The client went away, reset the call, or its deadline has passed. */
typedef void (*rpc_cancel_cb)(struct rpc_call *call, void *ctx);

/*
 * Finish with OK and a serialized response.
 *
 * ownership: response is copied; the call is gone after this.
 * note:      dropped silently if the call has been cancelled. Larger than the server's limit: the
 *            client gets RESOURCE_EXHAUSTED.
 */
void rpc_call_reply(struct rpc_call *call, struct slice response);

/*
 * Send one message of a streaming response; the call goes on until rpc_call_fail or rpc_call_end.
 *
 * ownership: message is copied.
 * note:      dropped silently if the call has been cancelled.
 * errors:    ERR_TOO_LARGE when the client does not take what was sent before.
 */
MUST_USE int rpc_call_send(struct rpc_call *call, struct slice message);

/* Finish a streaming response with OK. The call is gone after this. */
void rpc_call_end(struct rpc_call *call);

/* How a call failed; everything is copied. */
struct rpc_failure {
    enum rpc_status status; /* not RPC_OK */
    const char *message;    /* UTF-8, may be NULL; cut to 1 KiB */
    const char *reason;     /* UPPER_CASE, for programs; NULL: the name of the status */
    struct slice details;   /* google.rpc.Status, serialized; empty: made of the others */
    span_ms retry_delay;    /* > 0 is sent as grpc-retry-pushback-ms; 0 for none */
};

/* Finish with a status other than OK. The call is gone after this. */
void rpc_call_fail_with(struct rpc_call *call, const struct rpc_failure *failure);

/* rpc_call_fail_with, spelled out. */
void rpc_call_fail(struct rpc_call *call, enum rpc_status status, const char *message,
                   struct slice details, span_ms retry_delay);

/* When the client stops waiting, by CLOCK_BOOTTIME; BOOT_NEVER if it set no deadline. */
boot_us rpc_call_deadline_us(const struct rpc_call *call);

/*
 * Ask to be told, at most once, that nobody waits for the answer any more.
 *
 * note: after it the handler still finishes the call exactly once; the answer is dropped. Not
 *       called from inside this function; ask rpc_call_is_cancelled for what was before. The
 *       callback may finish the call: if the deadline has passed and it fails the call, a client
 *       that still listens gets that status, else DEADLINE_EXCEEDED.
 */
void rpc_call_on_cancel(struct rpc_call *call, rpc_cancel_cb cb, void *ctx);

bool rpc_call_is_cancelled(const struct rpc_call *call);

/*
 * Tell the client, by a header of the answer, that another broker gave it: what it believes of
 * owners is old. shape: before the answer.
 */
void rpc_call_note_forwarded(struct rpc_call *call);

/* The peer's address as text "127.0.0.1:4711". Valid while the call lives. */
const char *rpc_call_peer(const struct rpc_call *call);

/* The path called. Valid while the call lives. */
const char *rpc_call_path(const struct rpc_call *call);

/*
 * First value of a metadata key.
 *
 * shape:     name in lower case; values of names that end in "-bin" are decoded bytes.
 * ownership: valid while the call lives.
 * note:      data is NULL if the client did not send it.
 */
struct slice rpc_call_metadata(const struct rpc_call *call, const char *name);

/* A pointer for the handler's own use, NULL at first. */
void rpc_call_set_ctx(struct rpc_call *call, void *ctx);
void *rpc_call_ctx(const struct rpc_call *call);

#endif
