/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's side of a connection: requests into streams, headers and bodies into replies.
 */
#include "lib/rpc/rpc_caller.h"

#include "lib/base/base64.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/rpc/grpc_header.h"
#include "lib/rpc/grpc_msg.h"
#include "lib/rpc/h2.h"
#include "lib/rpc/rpc_method.h"

#include <string.h>

/* Windows: a reply may come in one go; many replies at once share the connection's. */
#define CALLER_STREAM_WINDOW     (1U << 20)
#define CALLER_CONNECTION_WINDOW (4U << 20)

/* Suspicious frames of a server before we hang up on it. */
#define CALLER_GLITCHES_MAX 1000U

/* A header list this many times over the limit ends the connection, not only the call. */
#define CALLER_HEADER_ABUSE 4U

/* Pseudo headers, timeout, types, and the caller's metadata. */
#define CALLER_FIELDS_MAX (9U + RPC_METADATA_MAX)

/* Longest status text and details kept of a reply. */
#define CALLER_TEXT_BYTES_MAX    4096U
#define CALLER_DETAILS_BYTES_MAX 16384U

static const uint8_t ping_alive[H2_PING_BYTES] = "alive?";

/* A call in the connection. request is NULL once it has ended: the stream may close later. */
struct rpc_stream {
    struct list node;      /* in caller->streams */
    struct list unwritten; /* in caller->unwritten, from end_sent to written */
    struct rpc_caller *caller;
    struct rpc_request *request;
    int32_t id;
    size_t given;        /* bytes of prefix and payload given to the connection */
    bool is_out;         /* our side has ended */
    bool has_peer_ended; /* its whole answer has come */

    /* the response */
    int http_status; /* of the present block; 0: none yet */
    bool is_grpc;    /* by its content type */
    bool has_status;
    bool is_oversize;
    bool has_pushback;
    bool was_forwarded;
    enum rpc_status status;
    enum rpc_status fault; /* of the body; RPC_OK: none */
    const char *fault_text;
    size_t header_bytes;
    int64_t pushback_ms;
    struct buf text;
    struct buf details;
    struct grpc_reader reader;
};

struct rpc_caller {
    struct h2 *h2;
    struct rpc_caller_options options;
    const struct rpc_caller_events *events;
    void *ctx;
    struct list streams;   /* open on the wire, oldest first */
    struct list unwritten; /* wholly filled, not yet with the kernel */
    uint32_t stream_count; /* on the wire */
    uint32_t open_count;   /* with a request */
    bool is_ready;
    bool is_leaving;
    boot_us now_us;
    boot_us heard_us;
    boot_us ping_sent_us; /* BOOT_NEVER: none on its way */
    boot_us idle_since_us;
};

/* ---- streams ---- */

static struct rpc_stream *new_stream(struct rpc_caller *caller, struct rpc_request *request)
{
    struct rpc_stream *stream = mem_new(1, sizeof(*stream));

    if (stream == NULL) {
        return NULL;
    }
    list_init(&stream->node);
    list_init(&stream->unwritten);
    stream->caller = caller;
    stream->request = request;
    buf_init(&stream->text, CALLER_TEXT_BYTES_MAX);
    buf_init(&stream->details, CALLER_DETAILS_BYTES_MAX);
    grpc_reader_init(&stream->reader, caller->options.response_bytes_max);
    return stream;
}

static void free_stream(struct rpc_stream *stream)
{
    list_del(&stream->node);
    list_del(&stream->unwritten);
    buf_fini(&stream->text);
    buf_fini(&stream->details);
    grpc_reader_fini(&stream->reader);
    mem_free(stream);
}

/* Part from the request: the call has ended for its caller, whatever the stream still does. */
static struct rpc_request *forget_request(struct rpc_stream *stream)
{
    struct rpc_request *request = stream->request;
    struct rpc_caller *caller = stream->caller;

    REQUIRE(request != NULL && request->stream == stream);
    request->stream = NULL;
    stream->request = NULL;
    list_del(&stream->unwritten);
    if (--caller->open_count == 0) {
        caller->idle_since_us = caller->now_us;
        caller->ping_sent_us = BOOT_NEVER;
    }
    return request;
}

static void end_call(struct rpc_stream *stream, const struct rpc_reply *reply)
{
    struct rpc_caller *caller = stream->caller;

    caller->events->ended(caller->ctx, forget_request(stream), reply);
}

/* End a call by our own verdict. */
static void end_by(struct rpc_stream *stream, enum rpc_status status, const char *text,
                   bool is_unprocessed)
{
    struct rpc_reply reply = {.status = status,
                              .message = slice_of(text),
                              .unprocessed = is_unprocessed,
                              .from_peer = stream->has_peer_ended,
                              .was_sent = true};

    end_call(stream, &reply);
}

/* The peer's side has ended: what did it say? */
static void end_by_response(struct rpc_stream *stream)
{
    struct rpc_reply reply = {.was_sent = true,
                              .from_peer = true,
                              .status = stream->status,
                              .message = buf_slice(&stream->text),
                              .details = buf_slice(&stream->details),
                              .has_pushback = stream->has_pushback,
                              .was_forwarded = stream->was_forwarded,
                              .pushback_ms = stream->pushback_ms};
    const char *why = NULL;

    if (stream->is_oversize) {
        end_by(stream, RPC_RESOURCE_EXHAUSTED, "the response's header list is above our limit",
               false);
    } else if (!stream->has_status && stream->http_status != 200) {
        end_by(stream, grpc_status_of_http(stream->http_status),
               "the server answered with an HTTP status other than 200", false);
    } else if (!stream->is_grpc) {
        end_by(stream, RPC_UNKNOWN, "the server's answer is not gRPC", false);
    } else if (!stream->has_status) {
        end_by(stream, RPC_UNKNOWN, "the server's answer has no grpc-status", false);
    } else if (stream->status == RPC_OK && stream->fault != RPC_OK) {
        end_by(stream, stream->fault, stream->fault_text, false);
    } else if (stream->status == RPC_OK && grpc_reader_end(&stream->reader, &why) != RPC_OK) {
        end_by(stream, grpc_reader_end(&stream->reader, &why), why, false);
    } else {
        reply.payload = stream->status == RPC_OK ? grpc_reader_message(&stream->reader)
                                                 : (struct slice){NULL, 0};
        end_call(stream, &reply);
    }
}

/* ---- events: coming in ---- */

static void note_pushback(struct rpc_stream *stream, struct slice value)
{
    stream->has_pushback = true;
    if (grpc_number_parse(value, &stream->pushback_ms) != 0) {
        stream->pushback_ms = -1; // Unreadable means: do not repeat. source: gRPC retry design
    }
}

/* What cannot be kept (memory) or decoded is left away: the status counts. */
static void take_field(struct rpc_stream *stream, struct slice name, struct slice value)
{
    if (slice_equal(name, slice_of(":status"))) {
        int64_t number = 0;

        stream->http_status = grpc_number_parse(value, &number) == 0 ? (int)number : 0;
    } else if (slice_equal(name, slice_of("content-type"))) {
        stream->is_grpc = grpc_is_content_type(value);
    } else if (slice_equal(name, slice_of("grpc-encoding"))) {
        stream->reader.encoding = grpc_encoding_parse(value);
    } else if (slice_equal(name, slice_of("grpc-status"))) {
        stream->has_status = true;
        stream->status = grpc_status_parse(value);
    } else if (slice_equal(name, slice_of("grpc-message"))) {
        buf_clear(&stream->text);
        if (grpc_percent_decode(value, &stream->text) == ERR_NO_MEMORY) {
            buf_clear(&stream->text);
        }
    } else if (slice_equal(name, slice_of("grpc-status-details-bin"))) {
        buf_clear(&stream->details);
        if (base64_decode(value, &stream->details) != 0) {
            buf_clear(&stream->details);
        }
    } else if (slice_equal(name, slice_of("grpc-retry-pushback-ms"))) {
        note_pushback(stream, value);
    } else if (slice_equal(name, slice_of(RPC_HEADER_FORWARDED))) {
        stream->was_forwarded = true;
    }
}

static int on_field(void *ctx, void *stream_ctx, struct slice name, struct slice value)
{
    struct rpc_caller *caller = ctx;
    struct rpc_stream *stream = stream_ctx;

    stream->header_bytes += name.len + value.len + 32;
    if (stream->header_bytes > caller->options.header_bytes_max * CALLER_HEADER_ABUSE) {
        return ERR_PROTOCOL;
    }
    stream->is_oversize = stream->header_bytes > caller->options.header_bytes_max;
    if (!stream->is_oversize) {
        take_field(stream, name, value);
    }
    return 0;
}

/* The peer is through with a call. */
static void on_peer_end(struct rpc_stream *stream)
{
    stream->has_peer_ended = true;
    if (stream->request != NULL) {
        end_by_response(stream);
    }
    if (!stream->is_out) { // It does not want the rest of our request.
        h2_reset(stream->caller->h2, stream->id, H2_CANCEL);
    }
}

static void on_fields_end(void *ctx, void *stream_ctx, bool is_end)
{
    struct rpc_stream *stream = stream_ctx;

    (void)ctx;
    if (stream->http_status >= 100 && stream->http_status < 200) {
        stream->http_status = 0; // Informational: the real headers follow.
        return;
    }
    if (is_end) {
        on_peer_end(stream);
    }
}

static void on_data(void *ctx, void *stream_ctx, struct slice bytes)
{
    struct rpc_caller *caller = ctx;
    struct rpc_stream *stream = stream_ctx;
    bool is_message = stream->http_status == 200 && stream->is_grpc;

    // Replies are bounded one by one and in number, so credit goes back at once.
    h2_consume_stream(caller->h2, stream->id, bytes.len);
    h2_consume_connection(caller->h2, bytes.len);
    if (stream->request == NULL || !is_message || stream->fault != RPC_OK) {
        return;
    }
    stream->fault = grpc_reader_take(&stream->reader, bytes, &stream->fault_text);
    if (stream->fault == RPC_RESOURCE_EXHAUSTED) { // Do not wait for the rest of it.
        end_by(stream, stream->fault, stream->fault_text, false);
        h2_reset(caller->h2, stream->id, H2_CANCEL);
    }
}

static void on_end(void *ctx, void *stream_ctx)
{
    (void)ctx;
    on_peer_end(stream_ctx);
}

static void on_closed(void *ctx, void *stream_ctx, uint32_t code)
{
    struct rpc_caller *caller = ctx;
    struct rpc_stream *stream = stream_ctx;

    caller->stream_count--;
    if (stream->request != NULL) {
        end_by(stream, grpc_status_of_reset(code), "the server reset the call",
               code == H2_REFUSED_STREAM);
    }
    free_stream(stream);
}

static void on_goaway(void *ctx, int32_t last_id, uint32_t code, struct slice debug)
{
    struct rpc_caller *caller = ctx;
    bool was_leaving = caller->is_leaving;
    bool too_many_pings =
        code == H2_ENHANCE_YOUR_CALM && slice_equal(debug, slice_of("too_many_pings"));

    (void)last_id;
    caller->is_leaving = true;
    if (!was_leaving) {
        h2_goaway(caller->h2, H2_NO_ERROR, "");
        caller->events->leaving(caller->ctx, too_many_pings);
    }
}

static void on_ping(void *ctx, bool is_ack, const uint8_t *opaque)
{
    (void)ctx;
    (void)is_ack;
    (void)opaque;
}

static void on_settings(void *ctx)
{
    struct rpc_caller *caller = ctx;

    caller->is_ready = true;
    caller->events->ready(caller->ctx);
}

/* ---- events: going out ---- */

static size_t on_body(void *ctx, void *stream_ctx, uint8_t *space, size_t len, bool *is_end)
{
    struct rpc_stream *stream = stream_ctx;
    size_t filled = 0;
    uint8_t prefix[GRPC_PREFIX_BYTES];
    struct slice payload;
    size_t offset;
    size_t count;

    (void)ctx;
    if (stream->request == NULL) { // Dropped: the payload is not ours any more; the reset follows.
        return 0;
    }
    payload = stream->request->payload;
    if (stream->given < GRPC_PREFIX_BYTES) {
        count = GRPC_PREFIX_BYTES - stream->given < len ? GRPC_PREFIX_BYTES - stream->given : len;
        grpc_write_prefix(prefix, payload.len, false);
        memcpy(space, prefix + stream->given, count);
        stream->given += count;
        filled = count;
    }
    if (stream->given >= GRPC_PREFIX_BYTES) {
        offset = stream->given - GRPC_PREFIX_BYTES;
        count = payload.len - offset < len - filled ? payload.len - offset : len - filled;
        if (count > 0) {
            memcpy(space + filled, payload.data + offset, count);
        }
        stream->given += count;
        filled += count;
    }
    *is_end = stream->given == GRPC_PREFIX_BYTES + payload.len;
    return filled;
}

static void on_end_sent(void *ctx, void *stream_ctx)
{
    struct rpc_caller *caller = ctx;
    struct rpc_stream *stream = stream_ctx;

    stream->is_out = true;
    if (stream->request != NULL && stream->request->sent != NULL) {
        list_add(&caller->unwritten, &stream->unwritten);
    }
}

void rpc_caller_written(struct rpc_caller *caller, boot_us written_us)
{
    struct list *first;

    while ((first = list_take_first(&caller->unwritten)) != NULL) {
        struct rpc_request *request = LIST_ENTRY(first, struct rpc_stream, unwritten)->request;

        request->sent(request, written_us, request->ctx);
    }
}

/* ---- starting calls ---- */

/* A request's header block in the making. */
struct block {
    struct h2_field fields[CALLER_FIELDS_MAX];
    size_t count;
    size_t list_bytes; /* as the peer counts them */
    char timeout[GRPC_TIMEOUT_BYTES];
    struct buf binary; /* base64 of "-bin" values; never grows once filled */
};

static void add(struct block *block, const char *name, struct slice value, bool is_volatile)
{
    struct slice name_bytes = slice_of(name);

    REQUIRE(block->count < CALLER_FIELDS_MAX);
    block->fields[block->count++] = (struct h2_field){name_bytes, value, is_volatile};
    block->list_bytes += name_bytes.len + value.len + 32;
}

static int add_metadata(struct block *block, const struct rpc_metadata *metadata, size_t count)
{
    size_t binary_bytes = 0;

    for (size_t i = 0; i < count; i++) {
        binary_bytes += metadata[i].value.len * 4 / 3 + 4;
    }
    buf_init(&block->binary, binary_bytes);
    if (buf_reserve(&block->binary, binary_bytes) == NULL) {
        return ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        struct slice value = metadata[i].value;

        if (grpc_is_binary_name(slice_of(metadata[i].name))) {
            size_t before = buf_len(&block->binary);
            int err = base64_encode(value, false, &block->binary);

            if (err != 0) {
                return err;
            }
            value = (struct slice){buf_slice(&block->binary).data + before,
                                   buf_len(&block->binary) - before};
        }
        add(block, metadata[i].name, value, true);
    }
    return 0;
}

static int build_block(struct block *block, const struct rpc_caller *caller,
                       const struct rpc_request *request)
{
    add(block, ":method", slice_of("POST"), false);
    add(block, ":scheme", slice_of(caller->options.scheme), false);
    add(block, ":path", slice_of(request->path), false);
    add(block, ":authority", slice_of(caller->options.authority), false);
    if (request->deadline_us != BOOT_NEVER) {
        grpc_timeout_format(time_sub(request->deadline_us, caller->now_us), block->timeout);
        add(block, "grpc-timeout", slice_of(block->timeout), true);
    }
    add(block, "content-type", slice_of("application/grpc"), false);
    add(block, "te", slice_of("trailers"), false);
    add(block, "user-agent", slice_of(caller->options.user_agent), false);
    add(block, "grpc-accept-encoding", slice_of(GRPC_ACCEPT_ENCODING), false);
    return add_metadata(block, request->metadata, request->metadata_count);
}

static int submit(struct rpc_caller *caller, struct rpc_stream *stream)
{
    struct block block = {.count = 0};
    int err = build_block(&block, caller, stream->request);

    if (err == 0 && block.list_bytes > h2_peer_header_bytes_max(caller->h2)) {
        err = ERR_TOO_LARGE;
    }
    if (err == 0) {
        err = h2_request(caller->h2, block.fields, block.count, true, stream, &stream->id);
    }
    buf_fini(&block.binary);
    return err;
}

int rpc_caller_start(struct rpc_caller *caller, boot_us now_us, struct rpc_request *request)
{
    struct rpc_stream *stream = new_stream(caller, request);
    int err;

    REQUIRE(caller->is_ready && !caller->is_leaving);
    if (stream == NULL) {
        return ERR_NO_MEMORY;
    }
    caller->now_us = time_max(caller->now_us, now_us);
    err = submit(caller, stream);
    if (err != 0) {
        free_stream(stream);
        return err;
    }
    request->stream = stream;
    list_add(&caller->streams, &stream->node);
    caller->stream_count++;
    if (caller->open_count++ == 0) {
        caller->heard_us = caller->now_us; // Silence before the first call says nothing.
    }
    caller->idle_since_us = BOOT_NEVER;
    return 0;
}

void rpc_caller_drop(struct rpc_caller *caller, struct rpc_request *request)
{
    struct rpc_stream *stream = request->stream;

    (void)forget_request(stream);
    h2_reset(caller->h2, stream->id, H2_CANCEL);
}

void rpc_caller_leave(struct rpc_caller *caller)
{
    if (!caller->is_leaving) {
        caller->is_leaving = true;
        h2_goaway(caller->h2, H2_NO_ERROR, "");
    }
}

/* ---- figures ---- */

struct rpc_request *rpc_caller_first(const struct rpc_caller *caller)
{
    list_foreach (node, &caller->streams) {
        const struct rpc_stream *stream = LIST_ENTRY(node, struct rpc_stream, node);

        if (stream->request != NULL) {
            return stream->request;
        }
    }
    return NULL;
}

uint32_t rpc_caller_open_count(const struct rpc_caller *caller)
{
    return caller->open_count;
}

uint32_t rpc_caller_free_count(const struct rpc_caller *caller)
{
    uint32_t max = h2_peer_streams_max(caller->h2);

    if (!caller->is_ready || caller->is_leaving || caller->stream_count >= max) {
        return 0;
    }
    return max - caller->stream_count;
}

bool rpc_caller_is_ready(const struct rpc_caller *caller)
{
    return caller->is_ready;
}

bool rpc_caller_is_leaving(const struct rpc_caller *caller)
{
    return caller->is_leaving;
}

bool rpc_caller_is_done(const struct rpc_caller *caller)
{
    return h2_is_done(caller->h2);
}

bool rpc_caller_wants_write(const struct rpc_caller *caller)
{
    return h2_wants_write(caller->h2);
}

boot_us rpc_caller_idle_since_us(const struct rpc_caller *caller)
{
    return caller->idle_since_us;
}

/* ---- time and bytes ---- */

boot_us rpc_caller_next_wake(const struct rpc_caller *caller)
{
    if (caller->open_count == 0 || caller->options.keepalive_ms == SPAN_NEVER) {
        return BOOT_NEVER;
    }
    if (caller->ping_sent_us != BOOT_NEVER) {
        return time_add(caller->ping_sent_us, caller->options.keepalive_timeout_ms * US_PER_MS);
    }
    return time_add(caller->heard_us, caller->options.keepalive_ms * US_PER_MS);
}

int rpc_caller_tick(struct rpc_caller *caller, boot_us now_us)
{
    caller->now_us = time_max(caller->now_us, now_us);
    if (caller->now_us < rpc_caller_next_wake(caller)) {
        return 0;
    }
    if (caller->ping_sent_us != BOOT_NEVER) {
        return ERR_TIMEOUT;
    }
    caller->ping_sent_us = caller->now_us;
    h2_ping(caller->h2, ping_alive);
    return 0;
}

int rpc_caller_take(struct rpc_caller *caller, boot_us now_us, struct slice bytes)
{
    int err;

    caller->now_us = time_max(caller->now_us, now_us);
    caller->heard_us = caller->now_us;
    caller->ping_sent_us = BOOT_NEVER;
    err = h2_take(caller->h2, bytes);
    return err == 0 && h2_is_dying(caller->h2) ? ERR_PROTOCOL : err;
}

int rpc_caller_fill(struct rpc_caller *caller, uint8_t *space, size_t len)
{
    return h2_fill(caller->h2, space, len);
}

/* ---- life ---- */

static const struct h2_events caller_h2_events = {
    .field = on_field,
    .fields_end = on_fields_end,
    .data = on_data,
    .end = on_end,
    .body = on_body,
    .end_sent = on_end_sent,
    .closed = on_closed,
    .goaway = on_goaway,
    .ping = on_ping,
    .settings = on_settings,
};

int rpc_caller_open(const struct rpc_caller_options *options,
                    const struct rpc_caller_events *events, void *ctx, boot_us now_us,
                    struct rpc_caller **out)
{
    const struct h2_options h2_options = {
        .header_bytes_max = (uint32_t)options->header_bytes_max,
        .stream_window = CALLER_STREAM_WINDOW,
        .connection_window = CALLER_CONNECTION_WINDOW,
        .glitches_max = CALLER_GLITCHES_MAX,
    };
    struct rpc_caller *caller = mem_new(1, sizeof(*caller));
    int err;

    if (caller == NULL) {
        return ERR_NO_MEMORY;
    }
    err = h2_open(&h2_options, &caller_h2_events, caller, &caller->h2);
    if (err != 0) {
        mem_free(caller);
        return err;
    }
    caller->options = *options;
    caller->events = events;
    caller->ctx = ctx;
    list_init(&caller->streams);
    list_init(&caller->unwritten);
    caller->now_us = now_us;
    caller->heard_us = now_us;
    caller->ping_sent_us = BOOT_NEVER;
    caller->idle_since_us = now_us;
    *out = caller;
    return 0;
}

void rpc_caller_close(struct rpc_caller *caller)
{
    struct list *first;

    while ((first = list_first(&caller->streams)) != NULL) {
        struct rpc_stream *stream = LIST_ENTRY(first, struct rpc_stream, node);

        if (stream->request != NULL) {
            end_by(stream, RPC_UNAVAILABLE, "the connection broke", false);
        }
        free_stream(stream);
    }
    h2_close(caller->h2);
    mem_free(caller);
}
