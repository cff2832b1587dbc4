/* SPDX-License-Identifier: Apache-2.0
 *
 * The call object of the server: what handlers do with it, and how answers become headers, bodies
 * and trailers.
 */
#include "lib/base/base64.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/rpc/grpc_gzip.h"
#include "lib/rpc/grpc_header.h"
#include "lib/rpc/rpc_serving.h"
#include "proto/fault.h"

#include <stdio.h>
#include <string.h>

/* Longest google.rpc.Status sent: with its base64 it must fit a peer's 8 KiB header list. */
#define DETAILS_BYTES_MAX 4096U

/* Most fields of an answer: status line, type, server, two encodings, forwarded; then status, text,
 * details, push-back. */
#define ANSWER_FIELDS_MAX 10U

/* An answer's header block in the making. */
struct block {
    struct h2_field fields[ANSWER_FIELDS_MAX];
    size_t count;
    char status[16];
    char pushback[24];
};

/* ---- life ---- */

struct rpc_call *rpc_call_new(struct rpc_serving *serving, struct rpc_session *session,
                              int32_t stream_id, const char *peer)
{
    struct rpc_call *call = mem_new(1, sizeof(*call));

    if (call == NULL) {
        return NULL;
    }
    list_init(&call->node);
    call->serving = serving;
    call->session = session;
    call->stream_id = stream_id;
    call->timeout_us = -1;
    call->deadline_us = BOOT_NEVER;
    // Records cost eight bytes each, the list's own count 32.
    rpc_fields_init(&call->metadata, serving->options.header_bytes_max);
    grpc_reader_init(&call->reader, serving->options.request_bytes_max);
    buf_init(&call->out, serving->options.response_bytes_max + GRPC_PREFIX_BYTES);
    buf_init(&call->status_text, 3 * (size_t)GRPC_MESSAGE_BYTES_MAX);
    buf_init(&call->status_details, 2 * (size_t)DETAILS_BYTES_MAX);
    (void)snprintf(call->peer, sizeof(call->peer), "%s", peer);
    serving->stats.calls_open++;
    return call;
}

void rpc_call_free(struct rpc_call *call)
{
    REQUIRE(!call->is_running && list_is_empty(&call->node) && !call->has_expiry);
    call->serving->stats.calls_open--;
    rpc_fields_fini(&call->metadata);
    grpc_reader_fini(&call->reader);
    buf_fini(&call->out);
    buf_fini(&call->status_text);
    buf_fini(&call->status_details);
    mem_free(call);
}

/* ---- header blocks ---- */

static void add(struct block *block, const char *name, struct slice value, bool is_volatile)
{
    REQUIRE(block->count < ANSWER_FIELDS_MAX);
    block->fields[block->count++] = (struct h2_field){slice_of(name), value, is_volatile};
}

static void add_head(struct block *block, const struct rpc_call *call)
{
    add(block, ":status", slice_of("200"), false);
    add(block, "content-type", slice_of("application/grpc"), false);
    add(block, "server", slice_of(call->serving->name), false);
    add(block, "grpc-accept-encoding", slice_of(GRPC_ACCEPT_ENCODING), false);
    if (call->is_packed) {
        add(block, "grpc-encoding", slice_of("gzip"), false);
    }
    if (call->is_forwarded) {
        add(block, RPC_HEADER_FORWARDED, slice_of("1"), false);
    }
}

void rpc_call_note_forwarded(struct rpc_call *call)
{
    call->is_forwarded = true;
}

static void add_status(struct block *block, const struct rpc_call *call)
{
    (void)snprintf(block->status, sizeof(block->status), "%d", (int)call->status);
    add(block, "grpc-status", slice_of(block->status), false);
    if (buf_len(&call->status_text) > 0) {
        add(block, "grpc-message", buf_slice(&call->status_text), true);
    }
    if (buf_len(&call->status_details) > 0) {
        add(block, "grpc-status-details-bin", buf_slice(&call->status_details), true);
    }
    if (call->retry_delay > 0) {
        (void)snprintf(block->pushback, sizeof(block->pushback), "%lld",
                       (long long)call->retry_delay);
        add(block, "grpc-retry-pushback-ms", slice_of(block->pushback), true);
    }
}

/* Details for a failure that brings none: reason, and when to try again. */
static int describe(const struct rpc_failure *failure, struct buf *out)
{
    struct fault fault;

    fault_set(&fault, failure->status,
              failure->reason == NULL ? err_status_name(failure->status) : failure->reason, NULL,
              "%s", failure->message == NULL ? "" : failure->message);
    fault.retry_after_ms = failure->retry_delay;
    return fault_encode(&fault, out);
}

static void keep_details(struct rpc_call *call, struct slice details)
{
    if (details.len > 0 && details.len <= DETAILS_BYTES_MAX &&
        base64_encode(details, false, &call->status_details) != 0) {
        buf_clear(&call->status_details);
    }
}

/* Keep a failure until its trailers go out. What does not fit is left away: the status counts. */
static void keep_failure(struct rpc_call *call, const struct rpc_failure *failure)
{
    call->status = failure->status;
    call->retry_delay = failure->retry_delay;
    if (failure->message != NULL &&
        grpc_percent_encode(slice_of(failure->message), &call->status_text) != 0) {
        buf_clear(&call->status_text);
    }
    if (failure->details.len > 0) {
        keep_details(call, failure->details);
    } else {
        struct buf made;

        buf_init(&made, DETAILS_BYTES_MAX);
        if (describe(failure, &made) == 0) {
            keep_details(call, buf_slice(&made));
        }
        buf_fini(&made);
    }
}

/* ---- answers ---- */

static void note_answer(struct rpc_call *call)
{
    call->is_answered = true;
    call->serving->stats.calls_by_status[call->status]++;
    rpc_session_flush(call->session);
}

static void check_submitted(struct rpc_call *call, int err)
{
    if (err != 0) {
        rpc_session_fail(call->session, err);
    }
}

/* Headers of a response with a body. */
static void submit_head(struct rpc_call *call)
{
    struct block block = {.count = 0};

    add_head(&block, call);
    call->has_response = true;
    check_submitted(call, h2_respond(rpc_session_h2(call->session), call->stream_id, block.fields,
                                     block.count, true));
}

/* One block that is the whole answer. */
static void submit_trailers_only(struct rpc_call *call)
{
    struct block block = {.count = 0};

    add_head(&block, call);
    add_status(&block, call);
    check_submitted(call, h2_respond(rpc_session_h2(call->session), call->stream_id, block.fields,
                                     block.count, false));
}

static void resume(struct rpc_call *call)
{
    if (call->is_waiting) {
        call->is_waiting = false;
        h2_resume(rpc_session_h2(call->session), call->stream_id);
    }
}

/* The final status, in call->status, on a stream that has none yet. */
static void submit_final(struct rpc_call *call)
{
    call->is_receiving = false;
    if (call->has_response) {
        call->is_final = true;
        resume(call);
    } else {
        submit_trailers_only(call);
    }
    note_answer(call);
}

void rpc_call_refuse(struct rpc_call *call, const struct rpc_failure *failure)
{
    REQUIRE(!call->is_answered);
    grpc_reader_fini(&call->reader);
    if (!call->is_running) {
        rpc_session_release(call->session, call);
    }
    keep_failure(call, failure);
    submit_final(call);
}

void rpc_call_refuse_http(struct rpc_call *call, const char *http_status)
{
    struct block block = {.count = 0};

    add(&block, ":status", slice_of(http_status), false);
    add(&block, "server", slice_of(call->serving->name), false);
    check_submitted(call, h2_respond(rpc_session_h2(call->session), call->stream_id, block.fields,
                                     block.count, false));
    call->status = RPC_INTERNAL;
    note_answer(call);
}

/* The whole frame or nothing of it: a prefix alone would promise bytes that do not come. */
static int frame(struct rpc_call *call, struct slice message, bool is_compressed)
{
    size_t len = GRPC_PREFIX_BYTES + message.len;
    uint8_t *space;

    if (len > call->out.max - buf_len(&call->out)) {
        return ERR_TOO_LARGE;
    }
    space = buf_reserve(&call->out, len);
    if (space == NULL) {
        return ERR_NO_MEMORY;
    }
    grpc_write_prefix(space, message.len, is_compressed);
    if (message.len > 0) {
        memcpy(space + GRPC_PREFIX_BYTES, message.data, message.len);
    }
    buf_commit(&call->out, len);
    rpc_session_count_out(call->session, (int64_t)len);
    return 0;
}

static int frame_message(struct rpc_call *call, struct slice message)
{
    return message.len > call->serving->options.response_bytes_max ? ERR_TOO_LARGE
                                                                   : frame(call, message, false);
}

/* As frame_message, but packed if that is wanted, understood and of any use. */
static int frame_response(struct rpc_call *call, struct slice message)
{
    const struct rpc_server_options *options = &call->serving->options;
    struct buf packed;
    int err;

    if (!call->accepts_gzip || options->compress_bytes_min == 0 ||
        message.len < options->compress_bytes_min || message.len > options->response_bytes_max) {
        return frame_message(call, message);
    }
    buf_init(&packed, message.len - 1);
    call->is_packed = grpc_gzip_deflate(message, &packed) == 0;
    err = call->is_packed ? frame(call, buf_slice(&packed), true) : frame_message(call, message);
    buf_fini(&packed);
    return err;
}

size_t rpc_call_body(struct rpc_call *call, uint8_t *space, size_t len, bool *is_end)
{
    struct slice out = buf_slice(&call->out);
    size_t count = out.len < len ? out.len : len;

    if (count > 0) {
        memcpy(space, out.data, count);
        buf_consume(&call->out, count);
        rpc_session_count_out(call->session, -(int64_t)count);
    }
    if (buf_len(&call->out) > 0) {
        return count;
    }
    if (call->is_final) {
        struct block block = {.count = 0};

        add_status(&block, call);
        check_submitted(call, h2_trailers(rpc_session_h2(call->session), call->stream_id,
                                          block.fields, block.count));
        *is_end = true;
    } else {
        call->is_waiting = count == 0;
    }
    return count;
}

/* ---- the handler's side ---- */

/* Take the message out of the reader: the handler may finish the call, this outlives it. */
static struct buf take_request(struct rpc_call *call)
{
    struct buf request = call->reader.body;

    buf_init(&call->reader.body, call->reader.max);
    return request;
}

void rpc_call_begin(struct rpc_call *call)
{
    call->is_running = true;
    call->serving->running_count++;
    call->serving->stats.calls_started++;
    call->is_taking_stream = call->method->on_message != NULL;
}

void rpc_call_run(struct rpc_call *call)
{
    struct buf request = take_request(call);

    call->is_receiving = false;
    rpc_call_begin(call);
    call->method->handler(call, buf_slice(&request), call->method->ctx);
    buf_fini(&request);
}

void rpc_call_take_message(struct rpc_call *call)
{
    struct buf request = take_request(call);

    grpc_reader_next(&call->reader);
    call->method->on_message(call, buf_slice(&request), call->method->ctx);
    buf_fini(&request);
}

void rpc_call_take_end(struct rpc_call *call)
{
    call->is_receiving = false;
    call->is_taking_stream = false;
    call->method->handler(call, (struct slice){NULL, 0}, call->method->ctx);
}

/* The handler has answered. True if the answer is still wanted; else the call may be gone. */
static bool finish(struct rpc_call *call)
{
    struct rpc_serving *serving = call->serving;
    bool is_wanted = (call->session != NULL || call->local != NULL) && !call->is_answered;

    REQUIRE(call->is_running);
    call->is_running = false;
    call->is_taking_stream = false;
    call->on_cancel = NULL;
    serving->running_count--;
    if (call->session != NULL) {
        rpc_session_release(call->session, call);
    } else if (call->local == NULL) {
        rpc_call_free(call);
    }
    if (!is_wanted && serving->call_finished != NULL) {
        serving->call_finished(serving->ctx);
    }
    return is_wanted;
}

void rpc_call_cancel(struct rpc_call *call)
{
    rpc_cancel_cb cb = call->on_cancel;

    call->is_cancelled = true;
    call->on_cancel = NULL;
    if (cb != NULL) {
        cb(call, call->cancel_ctx);
    } else if (call->is_taking_stream) { // The handler would hear nothing of it any more.
        (void)finish(call);
    }
}

static void fail_wanted(struct rpc_call *call, const struct rpc_failure *failure)
{
    if (call->local != NULL) {
        rpc_local_answer(call->local, &(struct rpc_answer){.status = failure->status,
                                                           .message = failure->message,
                                                           .details = failure->details,
                                                           .retry_delay = failure->retry_delay});
        return;
    }
    keep_failure(call, failure);
    submit_final(call);
}

void rpc_call_fail_with(struct rpc_call *call, const struct rpc_failure *failure)
{
    REQUIRE(failure->status != RPC_OK);
    if (finish(call)) {
        fail_wanted(call, failure);
    }
}

void rpc_call_fail(struct rpc_call *call, enum rpc_status status, const char *message,
                   struct slice details, span_ms retry_delay)
{
    struct rpc_failure failure = {
        .status = status, .message = message, .details = details, .retry_delay = retry_delay};

    rpc_call_fail_with(call, &failure);
}

void rpc_call_reply(struct rpc_call *call, struct slice response)
{
    static const struct rpc_failure too_large = {
        .status = RPC_RESOURCE_EXHAUSTED,
        .reason = "RESPONSE_BYTES_MAX",
        .message = "the response is larger than response_bytes_max: ask for less at a time"};
    // Not RESOURCE_EXHAUSTED, which says that nothing was done.
    static const struct rpc_failure short_of_memory = {
        .status = RPC_UNKNOWN,
        .reason = "OUTCOME_UNKNOWN",
        .message = "out of memory for the response: what was asked for may have been done; repeat "
                   "it with its key, or look with Get"};
    bool is_late = call->is_cancelled;
    int err;

    if (!finish(call) || is_late) {
        return;
    }
    REQUIRE(!call->has_response);
    if (call->local != NULL && response.len <= call->serving->options.response_bytes_max) {
        rpc_local_answer(call->local, &(struct rpc_answer){.status = RPC_OK, .response = response});
        return;
    }
    err = call->local != NULL ? ERR_TOO_LARGE : frame_response(call, response);
    if (err != 0) {
        fail_wanted(call, err == ERR_NO_MEMORY ? &short_of_memory : &too_large);
        return;
    }
    submit_head(call);
    submit_final(call);
}

int rpc_call_send(struct rpc_call *call, struct slice message)
{
    int err;

    REQUIRE(call->is_running);
    if (call->session == NULL || call->is_answered) {
        return 0;
    }
    err = frame_message(call, message);
    if (err != 0) {
        return err;
    }
    if (!call->has_response) {
        submit_head(call);
    }
    resume(call);
    rpc_session_flush(call->session);
    return 0;
}

void rpc_call_end(struct rpc_call *call)
{
    struct rpc_failure failure = {.status = RPC_UNIMPLEMENTED,
                                  .message = "streams are served over gRPC only"};

    if (!finish(call)) {
        return;
    }
    if (call->local != NULL) {
        fail_wanted(call, &failure);
        return;
    }
    if (!call->has_response) {
        submit_head(call);
    }
    submit_final(call);
}

boot_us rpc_call_deadline_us(const struct rpc_call *call)
{
    return call->deadline_us;
}

void rpc_call_on_cancel(struct rpc_call *call, rpc_cancel_cb cb, void *ctx)
{
    REQUIRE(call->is_running);
    if (!call->is_cancelled) {
        call->on_cancel = cb;
        call->cancel_ctx = ctx;
    }
}

bool rpc_call_is_cancelled(const struct rpc_call *call)
{
    return call->is_cancelled;
}

const char *rpc_call_peer(const struct rpc_call *call)
{
    return call->peer;
}

const char *rpc_call_path(const struct rpc_call *call)
{
    return call->method->path;
}

struct slice rpc_call_metadata(const struct rpc_call *call, const char *name)
{
    return rpc_fields_find(&call->metadata, slice_of(name));
}

void rpc_call_set_ctx(struct rpc_call *call, void *ctx)
{
    call->ctx = ctx;
}

void *rpc_call_ctx(const struct rpc_call *call)
{
    return call->ctx;
}
