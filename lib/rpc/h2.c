/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol engine over nghttp2: callbacks into events, credit by hand, suspicious frames
 * counted. The only file that includes nghttp2.h.
 */
#include "lib/rpc/h2.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <nghttp2/nghttp2.h>

#include <string.h>

/* Most headers of one block of ours: the protocol's ten and the caller's metadata. */
#define H2_FIELDS_MAX 64U

/* Answers to PING and SETTINGS that may wait for a peer that does not read. */
#define H2_ACKS_MAX 1000U

struct h2 {
    nghttp2_session *session;
    const struct h2_events *events;
    void *ctx;
    int err;               /* of an event or of memory, to be returned by take or fill */
    uint32_t glitch_count; /* suspicious frames not forgiven yet */
    uint32_t glitches_max;
    bool is_server;
    bool has_settings; /* the peer's first SETTINGS have arrived */
    bool is_dying;     /* a GOAWAY with an error was queued: done when it is written */
    bool is_leaving;   /* a GOAWAY that names the last stream was queued: no more after that one */
};

static void *stream_of(const struct h2 *h2, int32_t id)
{
    return id == 0 ? NULL : nghttp2_session_get_stream_user_data(h2->session, id);
}

static void note_error(struct h2 *h2, int result)
{
    if (result == NGHTTP2_ERR_NOMEM && h2->err == 0) {
        h2->err = ERR_NO_MEMORY;
    }
}

/* A frame that a decent peer seldom sends. Too many end the connection. source: N-3 */
static void glitch(struct h2 *h2)
{
    if (++h2->glitch_count > h2->glitches_max && !h2->is_dying) {
        h2_goaway(h2, H2_ENHANCE_YOUR_CALM, "too_many_glitches");
    }
}

void h2_forgive(struct h2 *h2, uint32_t count)
{
    h2->glitch_count -= h2->glitch_count < count ? h2->glitch_count : count;
}

/* ---- callbacks: coming in ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct h2 *h2 = user_data;
    void *stream = NULL;
    int32_t id = frame->hd.stream_id;

    if (!h2->is_server || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0;
    }
    if (h2->is_leaving || !h2->events->opened(h2->ctx, id, &stream)) {
        h2_reset(h2, id, H2_REFUSED_STREAM);
        return 0;
    }
    return nghttp2_session_set_stream_user_data(session, id, stream);
}

static struct slice slice_of_shared(nghttp2_rcbuf *shared)
{
    nghttp2_vec bytes = nghttp2_rcbuf_get_buf(shared);

    return (struct slice){bytes.base, bytes.len};
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags, void *user_data)
{
    struct h2 *h2 = user_data;
    void *stream = stream_of(h2, frame->hd.stream_id);
    int err;

    (void)session;
    (void)flags;
    if (stream == NULL) {
        return 0;
    }
    err = h2->events->field(h2->ctx, stream, slice_of_shared(name), slice_of_shared(value));
    if (err != 0) {
        h2->err = err;
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *user_data)
{
    struct h2 *h2 = user_data;
    void *stream = stream_of(h2, id);

    (void)session;
    (void)flags;
    if (stream == NULL) { // Refused or being reset: nobody will take these bytes.
        h2_consume_connection(h2, len);
        return 0;
    }
    h2->events->data(h2->ctx, stream, (struct slice){data, len});
    return 0;
}

static void on_stream_frame(struct h2 *h2, const nghttp2_frame *frame)
{
    void *stream = stream_of(h2, frame->hd.stream_id);
    bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;

    if (frame->hd.type == NGHTTP2_DATA && frame->hd.length == 0 && !is_end) {
        glitch(h2);
    }
    if (stream == NULL) {
        return;
    }
    if (frame->hd.type == NGHTTP2_HEADERS) {
        h2->events->fields_end(h2->ctx, stream, is_end);
    } else if (is_end) {
        h2->events->end(h2->ctx, stream);
    }
}

static void on_settings_frame(struct h2 *h2, const nghttp2_frame *frame)
{
    if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
        return;
    }
    if (h2->has_settings) {
        glitch(h2);
        return;
    }
    h2->has_settings = true;
    h2->events->settings(h2->ctx);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct h2 *h2 = user_data;

    (void)session;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        on_stream_frame(h2, frame);
        break;
    case NGHTTP2_SETTINGS:
        on_settings_frame(h2, frame);
        break;
    case NGHTTP2_PING:
        h2->events->ping(h2->ctx, (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0,
                         frame->ping.opaque_data);
        break;
    case NGHTTP2_GOAWAY:
        h2->events->goaway(
            h2->ctx, frame->goaway.last_stream_id, frame->goaway.error_code,
            (struct slice){frame->goaway.opaque_data, frame->goaway.opaque_data_len});
        break;
    case NGHTTP2_WINDOW_UPDATE:
        if (frame->window_update.window_size_increment == 1) {
            glitch(h2);
        }
        break;
    case NGHTTP2_PRIORITY:
        glitch(h2);
        break;
    default:
        break;
    }
    return 0;
}

/* A frame that we answer with a reset: the peer can make us work for nothing by these. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int lib_error,
                            void *user_data)
{
    (void)session;
    (void)frame;
    (void)lib_error;
    glitch(user_data);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user_data)
{
    struct h2 *h2 = user_data;
    void *stream = stream_of(h2, id);

    if (stream != NULL) {
        (void)nghttp2_session_set_stream_user_data(session, id, NULL);
        h2->events->closed(h2->ctx, stream, code);
    }
    return 0;
}

/* ---- callbacks: going out ---- */

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct h2 *h2 = user_data;
    void *stream;

    (void)session;
    if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) {
        return 0;
    }
    stream = stream_of(h2, frame->hd.stream_id);
    if (stream != NULL) {
        h2->events->end_sent(h2->ctx, stream);
    }
    return 0;
}

// NOLINTNEXTLINE(readability-function-size): nghttp2 gives the parameters
static ssize_t on_read_body(nghttp2_session *session, int32_t id, uint8_t *space, size_t len,
                            uint32_t *data_flags, nghttp2_data_source *source, void *user_data)
{
    struct h2 *h2 = user_data;
    void *stream = stream_of(h2, id);
    bool is_end = false;
    size_t count;

    (void)session;
    (void)source;
    if (stream == NULL) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    count = h2->events->body(h2->ctx, stream, space, len, &is_end);
    if (is_end) {
        // A server's trailers end its side, a client's body does.
        *data_flags |= NGHTTP2_DATA_FLAG_EOF;
        *data_flags |= h2->is_server ? NGHTTP2_DATA_FLAG_NO_END_STREAM : 0;
    } else if (count == 0) {
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)count;
}

/* ---- life ---- */

static nghttp2_session_callbacks *new_callbacks(void)
{
    nghttp2_session_callbacks *callbacks;

    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        return NULL;
    }
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    return callbacks;
}

static nghttp2_option *new_option(const struct h2_options *options)
{
    nghttp2_option *option;

    if (nghttp2_option_new(&option) != 0) {
        return NULL;
    }
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_max_outbound_ack(option, H2_ACKS_MAX);
    nghttp2_option_set_peer_max_concurrent_streams(option, H2_STREAMS_ASSUMED);
    nghttp2_option_set_no_closed_streams(option, 1);
    if (options->is_server) {
        nghttp2_option_set_stream_reset_rate_limit(option, options->reset_burst,
                                                   options->reset_rate);
    }
    return option;
}

static int new_session(struct h2 *h2, const struct h2_options *options)
{
    nghttp2_session_callbacks *callbacks = new_callbacks();
    nghttp2_option *option = new_option(options);
    int result = NGHTTP2_ERR_NOMEM;

    if (callbacks != NULL && option != NULL) {
        result = options->is_server
                     ? nghttp2_session_server_new2(&h2->session, callbacks, h2, option)
                     : nghttp2_session_client_new2(&h2->session, callbacks, h2, option);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return result == 0 ? 0 : ERR_NO_MEMORY;
}

static int submit_settings(struct h2 *h2, const struct h2_options *options)
{
    const nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, options->stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, options->header_bytes_max},
        options->is_server ? (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                                                      options->streams_max}
                           : (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
    };

    if (nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, entries, ARRAY_COUNT(entries)) !=
            0 ||
        nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
                                              (int32_t)options->connection_window) != 0) {
        return ERR_NO_MEMORY;
    }
    return 0;
}

int h2_open(const struct h2_options *options, const struct h2_events *events, void *ctx,
            struct h2 **out)
{
    struct h2 *h2 = mem_new(1, sizeof(*h2));
    int err;

    REQUIRE(options->connection_window <= INT32_MAX && options->stream_window <= INT32_MAX);
    if (h2 == NULL) {
        return ERR_NO_MEMORY;
    }
    h2->events = events;
    h2->ctx = ctx;
    h2->is_server = options->is_server;
    h2->glitches_max = options->glitches_max;
    err = new_session(h2, options);
    if (err == 0) {
        err = submit_settings(h2, options);
    }
    if (err != 0) {
        h2_close(h2);
        return err;
    }
    *out = h2;
    return 0;
}

void h2_close(struct h2 *h2)
{
    nghttp2_session_del(h2->session);
    mem_free(h2);
}

/* ---- bytes ---- */

/* Our code for a fatal result of the library. */
static int fatal(const struct h2 *h2, int result)
{
    if (h2->err != 0) {
        return h2->err;
    }
    return result == NGHTTP2_ERR_NOMEM ? ERR_NO_MEMORY : ERR_PROTOCOL;
}

int h2_take(struct h2 *h2, struct slice bytes)
{
    ssize_t taken = nghttp2_session_mem_recv(h2->session, bytes.data, bytes.len);

    if (taken < 0) {
        return fatal(h2, (int)taken);
    }
    return h2->err;
}

int h2_fill(struct h2 *h2, uint8_t *space, size_t len)
{
    size_t filled = 0;

    REQUIRE(len >= H2_FILL_BYTES_MIN && len <= INT32_MAX);
    while (len - filled >= H2_FILL_BYTES_MIN) {
        const uint8_t *data;
        ssize_t count = nghttp2_session_mem_send(h2->session, &data);

        if (count < 0) {
            return fatal(h2, (int)count);
        }
        if (count == 0) {
            break;
        }
        REQUIRE((size_t)count <= len - filled);
        memcpy(space + filled, data, (size_t)count);
        filled += (size_t)count;
    }
    return h2->err != 0 ? h2->err : (int)filled;
}

bool h2_wants_write(const struct h2 *h2)
{
    return nghttp2_session_want_write(h2->session) != 0;
}

bool h2_is_done(const struct h2 *h2)
{
    if (h2_wants_write(h2)) {
        return false;
    }
    return h2->is_dying || nghttp2_session_want_read(h2->session) == 0;
}

bool h2_is_dying(const struct h2 *h2)
{
    return h2->is_dying;
}

/* ---- streams ---- */

/* errors: ERR_INVALID if there are too many. */
static int to_pairs(const struct h2_field *fields, size_t count, nghttp2_nv *pairs)
{
    if (count > H2_FIELDS_MAX) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < count; i++) {
        // The library copies; its pointers are not const for historical reasons only.
        pairs[i] = (nghttp2_nv){
            .name = (uint8_t *)(uintptr_t)fields[i].name.data,
            .value = (uint8_t *)(uintptr_t)fields[i].value.data,
            .namelen = fields[i].name.len,
            .valuelen = fields[i].value.len,
            .flags = fields[i].is_volatile ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE,
        };
    }
    return 0;
}

int h2_request(struct h2 *h2, const struct h2_field *fields, size_t count, bool has_body,
               void *stream, int32_t *id_out)
{
    nghttp2_data_provider provider = {.read_callback = on_read_body};
    nghttp2_nv pairs[H2_FIELDS_MAX];
    int err = to_pairs(fields, count, pairs);
    int32_t id;

    if (err != 0) {
        return err;
    }
    id = nghttp2_submit_request(h2->session, NULL, pairs, count, has_body ? &provider : NULL,
                                stream);
    if (id < 0) {
        return id == NGHTTP2_ERR_NOMEM ? ERR_NO_MEMORY : ERR_CLOSED;
    }
    *id_out = id;
    return 0;
}

/* A stream that is gone already is no error: its closed event has been or will be. */
static int answer_result(int result)
{
    return result == NGHTTP2_ERR_NOMEM ? ERR_NO_MEMORY : 0;
}

int h2_respond(struct h2 *h2, int32_t id, const struct h2_field *fields, size_t count,
               bool has_body)
{
    nghttp2_data_provider provider = {.read_callback = on_read_body};
    nghttp2_nv pairs[H2_FIELDS_MAX];
    int err = to_pairs(fields, count, pairs);

    if (err != 0) {
        return err;
    }
    return answer_result(
        nghttp2_submit_response(h2->session, id, pairs, count, has_body ? &provider : NULL));
}

int h2_trailers(struct h2 *h2, int32_t id, const struct h2_field *fields, size_t count)
{
    nghttp2_nv pairs[H2_FIELDS_MAX];
    int err = to_pairs(fields, count, pairs);

    if (err != 0) {
        return err;
    }
    return answer_result(nghttp2_submit_trailer(h2->session, id, pairs, count));
}

void h2_resume(struct h2 *h2, int32_t id)
{
    note_error(h2, nghttp2_session_resume_data(h2->session, id));
}

void h2_reset(struct h2 *h2, int32_t id, enum h2_code code)
{
    note_error(h2, nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, id, code));
}

void h2_shutdown_notice(struct h2 *h2)
{
    note_error(h2, nghttp2_submit_shutdown_notice(h2->session));
}

void h2_goaway(struct h2 *h2, enum h2_code code, const char *debug)
{
    const uint8_t *bytes = (const uint8_t *)debug;

    note_error(h2, nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE,
                                         nghttp2_session_get_last_proc_stream_id(h2->session), code,
                                         bytes, strlen(debug)));
    h2->is_leaving = true; // What comes before it is out is above its number: not to be begun.
    if (code != H2_NO_ERROR) {
        h2->is_dying = true;
    }
}

void h2_ping(struct h2 *h2, const uint8_t *opaque)
{
    note_error(h2, nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, opaque));
}

void h2_consume_stream(struct h2 *h2, int32_t id, size_t len)
{
    note_error(h2, nghttp2_session_consume_stream(h2->session, id, len));
}

void h2_consume_connection(struct h2 *h2, size_t len)
{
    note_error(h2, nghttp2_session_consume_connection(h2->session, len));
}

void h2_grant_connection(struct h2 *h2, size_t len)
{
    note_error(h2, nghttp2_submit_window_update(h2->session, NGHTTP2_FLAG_NONE, 0, (int32_t)len));
}

size_t h2_credit_left(const struct h2 *h2)
{
    int32_t window = nghttp2_session_get_effective_local_window_size(h2->session);
    int32_t used = nghttp2_session_get_effective_recv_data_length(h2->session);

    return used < window ? (size_t)(window - used) : 0;
}

uint32_t h2_peer_streams_max(const struct h2 *h2)
{
    return nghttp2_session_get_remote_settings(h2->session,
                                               NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

uint32_t h2_peer_header_bytes_max(const struct h2 *h2)
{
    return nghttp2_session_get_remote_settings(h2->session, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE);
}

const char *h2_library_version(void)
{
    return nghttp2_version(0)->version_str;
}
