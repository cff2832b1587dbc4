/* SPDX-License-Identifier: Apache-2.0
 *
 * A request on its way in: headers into facts, refusals, bodies into messages, expiry, and the
 * credit that a client gets back before its answer.
 */
#include "lib/base/err.h"
#include "lib/rpc/grpc_header.h"
#include "lib/rpc/rpc_session_parts.h"

#include <stdio.h>

/* A client with less credit than a frame's worth may be stuck. */
#define SESSION_CREDIT_MIN (16U << 10)

/* Request bytes buffered for one connection up to which a stuck client is helped along. */
#define SESSION_BUFFERED_MAX (32U << 20)

/* Response bytes waiting for one client above which it gets no new calls. */
#define SESSION_OUT_MAX (16U << 20)

/* A header list this many times over the limit is an attack, not a mistake. */
#define SESSION_HEADER_ABUSE 4U

/* What a client is told to wait when the server's memory is used up. */
#define RECEIVE_RETRY_MS 500

static void refuse(struct rpc_call *call, enum rpc_status status, const char *reason,
                   const char *message)
{
    rpc_call_refuse(call,
                    &(struct rpc_failure){.status = status, .reason = reason, .message = message});
}

/* Refuse for a limit of the options, by its name in lower case and as a reason. */
static void refuse_limit(struct rpc_call *call, const char *reason, const char *what,
                         const char *limit, size_t bytes)
{
    char message[256];

    (void)snprintf(message, sizeof(message), "%s: %s is %zu bytes, send less at a time", what,
                   limit, bytes);
    refuse(call, RPC_RESOURCE_EXHAUSTED, reason, message);
}

/* Refuse for what is wrong with a message. */
static void refuse_message(struct rpc_call *call, enum rpc_status status, const char *why)
{
    if (status == RPC_RESOURCE_EXHAUSTED) {
        refuse_limit(call, "REQUEST_BYTES_MAX", why, "request_bytes_max",
                     call->serving->options.request_bytes_max);
    } else {
        refuse(call, status, "MESSAGE_INVALID", why);
    }
}

/* ---- expiry of calls ---- */

void rpc_receive_set_expiry(struct rpc_session *session, struct rpc_call *call, boot_us at_us)
{
    if (call->has_expiry) {
        heap_del(&session->expiries, &call->expiry);
        call->has_expiry = false;
    }
    if (at_us != BOOT_NEVER) {
        heap_add(&session->expiries, &call->expiry, at_us);
        call->has_expiry = true;
        rpc_session_flush(session);
    }
}

/* The call's time is over. errors: ERR_TIMEOUT if not even its headers are complete. */
static int expire(struct rpc_session *session, struct rpc_call *call)
{
    call->has_expiry = false;
    if (!call->has_fields) {
        return ERR_TIMEOUT;
    }
    if (call->is_answered) { // The client does not take the answer.
        h2_reset(session->h2, call->stream_id, H2_CANCEL);
        return 0;
    }
    if (call->is_receiving && session->now_us < call->deadline_us) {
        refuse(call, RPC_DEADLINE_EXCEEDED, "REQUEST_INCOMPLETE",
               "the request was not complete in time (request_ms): nothing happened");
        return 0;
    }
    if (call->is_running) { // It may know better than that nothing happened.
        rpc_call_cancel(call);
    }
    if (!call->is_answered) {
        refuse(call, RPC_DEADLINE_EXCEEDED, NULL, "the deadline has passed");
    }
    return 0;
}

int rpc_receive_expire(struct rpc_session *session)
{
    struct heap_node *first;

    while ((first = heap_first(&session->expiries)) != NULL && first->key <= session->now_us) {
        int err;

        heap_del(&session->expiries, first);
        err = expire(session, CONTAINER_OF(first, struct rpc_call, expiry));
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

/* ---- requests ---- */

bool rpc_receive_opened(void *ctx, int32_t id, void **stream_out)
{
    struct rpc_session *session = ctx;
    struct rpc_call *call = rpc_call_new(session->serving, session, id, session->peer);

    if (call == NULL) {
        return false;
    }
    list_add(&session->calls, &call->node);
    session->call_count++;
    session->idle_since_us = BOOT_NEVER;
    rpc_receive_set_expiry(
        session, call, time_add(session->now_us, session->serving->options.request_ms * US_PER_MS));
    *stream_out = call;
    return true;
}

static void note_timeout(struct rpc_call *call, struct slice value)
{
    call->is_bad_timeout = grpc_timeout_parse(value, &call->timeout_us) != 0;
}

/* Facts that steer the call; everything else is metadata. */
static bool take_known_field(struct rpc_call *call, struct slice name, struct slice value)
{
    if (slice_equal(name, slice_of(":method"))) {
        call->is_post = slice_equal(value, slice_of("POST"));
    } else if (slice_equal(name, slice_of(":path"))) {
        call->method = rpc_methods_find(&call->serving->methods, value);
    } else if (slice_equal(name, slice_of("content-type"))) {
        call->is_grpc = grpc_is_content_type(value);
    } else if (slice_equal(name, slice_of("grpc-timeout"))) {
        note_timeout(call, value);
    } else if (slice_equal(name, slice_of("grpc-encoding"))) {
        call->encoding = grpc_encoding_parse(value);
    } else if (slice_equal(name, slice_of("grpc-accept-encoding"))) {
        call->accepts_gzip = call->accepts_gzip || grpc_accepts_gzip(value);
    } else {
        return slice_equal(name, slice_of("te")) || slice_equal(name, slice_of(":scheme"));
    }
    return true;
}

int rpc_receive_field(void *ctx, void *stream, struct slice name, struct slice value)
{
    struct rpc_session *session = ctx;
    struct rpc_call *call = stream;
    size_t max = session->serving->options.header_bytes_max;

    call->header_bytes += name.len + value.len + 32;
    if (call->header_bytes > max * SESSION_HEADER_ABUSE) {
        return ERR_PROTOCOL;
    }
    if (call->has_fields || call->is_oversize || call->is_answered) {
        return 0;
    }
    if (call->header_bytes > max) {
        call->is_oversize = true;
        return 0;
    }
    if (!take_known_field(call, name, value) && rpc_fields_add(&call->metadata, name, value) != 0) {
        call->is_oversize = true;
    }
    return 0;
}

/* Refuse a request by its headers. False: go on and receive its body. */
static bool refuse_by_fields(struct rpc_session *session, struct rpc_call *call)
{
    if (call->is_oversize) {
        refuse_limit(call, "HEADER_BYTES_MAX", "the header list is larger than the limit",
                     "header_bytes_max", session->serving->options.header_bytes_max);
    } else if (!call->is_post) {
        rpc_call_refuse_http(call, "405");
    } else if (!call->is_grpc) {
        rpc_call_refuse_http(call, "415");
    } else if (call->is_bad_timeout) {
        refuse(call, RPC_INTERNAL, "TIMEOUT_INVALID",
               "grpc-timeout must be 1 to 8 digits and one of H M S m u n");
    } else if (call->encoding == GRPC_ENCODING_UNKNOWN) {
        refuse(call, RPC_UNIMPLEMENTED, "ENCODING_UNKNOWN",
               "the grpc-encoding is not supported: use one of " GRPC_ACCEPT_ENCODING);
    } else if (call->method == NULL) {
        refuse(call, RPC_UNIMPLEMENTED, "METHOD_UNKNOWN",
               "there is no such service or method: look at its name, which is case-sensitive, and "
               "at the server's version");
    } else if (session->out_bytes > SESSION_OUT_MAX) {
        refuse(call, RPC_RESOURCE_EXHAUSTED, "UNREAD_BYTES",
               "too many response bytes wait for this client to read them: read them first");
    } else {
        return false;
    }
    return true;
}

/* A stream of requests went wrong: the handler is told, and may have its own word for it. */
static void fail_stream(struct rpc_call *call, enum rpc_status status, const char *why)
{
    call->is_receiving = false;
    rpc_call_cancel(call);
    if (!call->is_answered) {
        refuse_message(call, status, why);
    }
}

/* The client has ended the stream of requests: what is left of it is an end, or half a message. */
static void end_stream(struct rpc_call *call)
{
    if (!grpc_reader_is_empty(&call->reader)) {
        fail_stream(call, RPC_INTERNAL, "the message is cut off");
        return;
    }
    rpc_call_take_end(call);
}

/* All of the request has come. */
static void run(struct rpc_session *session, struct rpc_call *call)
{
    const char *why = NULL;
    enum rpc_status status;

    if (call->is_running) {
        end_stream(call);
        return;
    }
    status = grpc_reader_end(&call->reader, &why);
    if (status != RPC_OK) {
        refuse_message(call, status, why);
        return;
    }
    if (call->deadline_us <= session->now_us) { // Its timeout is zero, or it came too slowly.
        refuse(call, RPC_DEADLINE_EXCEEDED, NULL, "the deadline has passed: nothing happened");
        return;
    }
    rpc_receive_set_expiry(session, call, call->deadline_us);
    rpc_call_run(call);
}

/* The headers are good: collect the body. A stream is the handler's from here on, and only its
 * deadline ends it. */
static void start(struct rpc_session *session, struct rpc_call *call)
{
    boot_us expiry_us = call->expiry.key;

    call->is_receiving = true;
    call->reader.encoding = call->encoding;
    if (call->timeout_us >= 0) {
        call->deadline_us = time_add(session->now_us, call->timeout_us);
    }
    if (call->method->on_message != NULL) {
        rpc_call_begin(call);
        expiry_us = BOOT_NEVER;
    }
    rpc_receive_set_expiry(session, call, time_min(call->deadline_us, expiry_us));
}

void rpc_receive_fields_end(void *ctx, void *stream, bool is_end)
{
    struct rpc_session *session = ctx;
    struct rpc_call *call = stream;
    bool is_first = !call->has_fields;

    call->has_fields = true;
    call->peer_ended = call->peer_ended || is_end;
    if (call->is_answered) {
        return;
    }
    if (is_first) {
        if (refuse_by_fields(session, call)) {
            return;
        }
        start(session, call);
    }
    if (is_end && call->is_receiving) {
        run(session, call);
    }
}

/* The newest call that still collects its request and holds credit, or NULL. */
static struct rpc_call *newest_holding(struct rpc_session *session)
{
    struct list *last = session->calls.previous;

    while (last != &session->calls) {
        struct rpc_call *call = LIST_ENTRY(last, struct rpc_call, node);

        if (call->is_receiving && call->held_bytes > 0) {
            return call;
        }
        last = last->previous;
    }
    return NULL;
}

/* Return a call's credit at once: the library waits until half a window has gathered. */
static void grant(struct rpc_session *session, struct rpc_call *call)
{
    if (call->held_bytes > 0) {
        h2_grant_connection(session->h2, call->held_bytes);
        call->held_bytes = 0;
        rpc_session_flush(session);
    }
}

/*
 * The client has used up the connection's window with requests of which none is complete, so that
 * nothing will be answered and no credit returned. Return some early; beyond the limit of buffered
 * bytes refuse the newest request.
 */
static void make_progress(struct rpc_session *session)
{
    if (h2_credit_left(session->h2) >= SESSION_CREDIT_MIN) {
        return;
    }
    list_foreach (node, &session->calls) {
        const struct rpc_call *call = LIST_ENTRY(node, struct rpc_call, node);

        if (call->is_running && !call->is_receiving) { // Its answer will return its credit.
            return;
        }
    }
    if (session->buffered_bytes > SESSION_BUFFERED_MAX) {
        struct rpc_call *call = newest_holding(session);

        if (call != NULL) {
            grant(session, call);
            refuse(call, RPC_RESOURCE_EXHAUSTED, "INCOMPLETE_REQUESTS",
                   "too many incomplete requests on this connection: end some first");
        }
        return;
    }
    list_foreach (node, &session->calls) {
        grant(session, LIST_ENTRY(node, struct rpc_call, node));
    }
}

/* Put bytes into the call's reader, and give the handler each message of a stream. */
static enum rpc_status read_body(struct rpc_call *call, struct slice bytes, const char **why)
{
    if (!call->is_running) {
        return grpc_reader_take(&call->reader, bytes, why);
    }
    while (bytes.len > 0 && call->is_receiving) {
        enum rpc_status status = grpc_reader_take_one(&call->reader, &bytes, why);

        if (status != RPC_OK) {
            return status;
        }
        if (call->reader.is_whole) {
            rpc_call_take_message(call);
        }
    }
    if (call->is_receiving && grpc_reader_is_empty(&call->reader)) {
        rpc_session_release(call->session, call);
    }
    return RPC_OK;
}

/* The server holds as many bytes of requests as it may. */
static void refuse_buffered(struct rpc_call *call)
{
    if (call->is_running) { // A stream.
        call->is_receiving = false;
        rpc_call_cancel(call);
    }
    if (!call->is_answered) {
        rpc_call_refuse(call, &(struct rpc_failure){
                                  .status = RPC_RESOURCE_EXHAUSTED,
                                  .reason = "BUFFERED_BYTES_MAX",
                                  .message = "the server's memory for requests "
                                             "(buffered_bytes_max) is used up: nothing happened",
                                  .retry_delay = RECEIVE_RETRY_MS});
    }
}

void rpc_receive_data(void *ctx, void *stream, struct slice bytes)
{
    struct rpc_session *session = ctx;
    struct rpc_call *call = stream;
    struct rpc_serving *serving = session->serving;
    const char *why = NULL;
    enum rpc_status status;

    h2_consume_stream(session->h2, call->stream_id, bytes.len);
    if (!call->is_receiving) { // Refused: the rest of the request goes to nobody.
        h2_consume_connection(session->h2, bytes.len);
        return;
    }
    call->held_bytes += bytes.len;
    call->buffered_bytes += bytes.len;
    session->buffered_bytes += bytes.len;
    serving->stats.buffered_bytes += bytes.len;
    status = read_body(call, bytes, &why);
    if (!call->is_receiving) { // A stream that its handler has finished.
        return;
    }
    if (status != RPC_OK && call->is_running) {
        fail_stream(call, status, why);
    } else if (status != RPC_OK) {
        refuse_message(call, status, why);
    } else if (serving->stats.buffered_bytes > serving->options.buffered_bytes_max) {
        refuse_buffered(call);
    } else {
        make_progress(session);
    }
}

void rpc_receive_end(void *ctx, void *stream)
{
    struct rpc_session *session = ctx;
    struct rpc_call *call = stream;

    call->peer_ended = true;
    if (call->is_receiving) {
        run(session, call);
    }
}
