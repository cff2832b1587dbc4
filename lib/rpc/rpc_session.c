/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's side of a connection: h2 events into calls, limits, keepalive, age and drain.
 */
#include "lib/rpc/rpc_session.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/rpc/rpc_session_parts.h"

#include <stdio.h>
#include <string.h>

/* Windows. Credit for the connection is held until its call is answered, so that a slow database
 * pushes back on the client. */
#define SESSION_STREAM_WINDOW     (1U << 20)
#define SESSION_CONNECTION_WINDOW (16U << 20)

/* Suspicious frames at once, and forgiven for each second; as the library's rations of resets. */
#define SESSION_GLITCHES_MAX        1000U
#define SESSION_GLITCHES_PER_SECOND 33U

/* Streams a client may reset at once, and for each second after that. A busy client whose calls run
 * into their deadlines resets a few hundred a second. */
#define SESSION_RESET_BURST 1000U
#define SESSION_RESET_RATE  500U

/* Between the shutdown notice and the final GOAWAY, if the answer to our PING is missing. */
#define SESSION_NOTICE_US US_PER_S

/* What a client that is sent away is told to wait. */
#define SESSION_RETRY_MS 500

static const uint8_t ping_alive[H2_PING_BYTES] = "alive?";
static const uint8_t ping_drain[H2_PING_BYTES] = "drained";

/* ---- for the calls ---- */

struct h2 *rpc_session_h2(struct rpc_session *session)
{
    return session->h2;
}

void rpc_session_fail(struct rpc_session *session, int err)
{
    if (session->err == 0) {
        session->err = err;
    }
    rpc_session_flush(session);
}

void rpc_session_flush(struct rpc_session *session)
{
    if (session->events != NULL) {
        session->events->flush(session->ctx);
    }
}

void rpc_session_release(struct rpc_session *session, struct rpc_call *call)
{
    if (call->held_bytes > 0) {
        h2_consume_connection(session->h2, call->held_bytes);
        call->held_bytes = 0;
        rpc_session_flush(session);
    }
    session->buffered_bytes -= call->buffered_bytes;
    session->serving->stats.buffered_bytes -= call->buffered_bytes;
    call->buffered_bytes = 0;
}

void rpc_session_count_out(struct rpc_session *session, int64_t bytes)
{
    struct rpc_serving *serving = session->serving;

    session->out_bytes = (size_t)((int64_t)session->out_bytes + bytes);
    serving->stats.unread_bytes = (uint64_t)((int64_t)serving->stats.unread_bytes + bytes);
    if (bytes > 0 && serving->stats.unread_bytes > serving->options.unread_bytes_max &&
        serving->overfull != NULL) {
        serving->overfull(serving->ctx);
    }
}

/* ---- responses ---- */

static void note_response(struct rpc_session *session)
{
    session->ping_strikes = 0;
    session->ping_taken_us = INT64_MIN;
}

static size_t on_body(void *ctx, void *stream, uint8_t *space, size_t len, bool *is_end)
{
    note_response(ctx);
    return rpc_call_body(stream, space, len, is_end);
}

/*
 * Our side has ended. If the client's has not, nobody will take the rest of its request. This must
 * wait for the frame to be out: a reset submitted beside the answer would overtake it.
 */
static void on_end_sent(void *ctx, void *stream)
{
    struct rpc_session *session = ctx;
    struct rpc_call *call = stream;

    note_response(session);
    if (!call->peer_ended) {
        h2_reset(session->h2, call->stream_id, H2_NO_ERROR);
    }
}

/* Take a call out of the connection's books; its stream is gone. */
static void detach(struct rpc_session *session, struct rpc_call *call)
{
    rpc_session_release(session, call);
    rpc_session_count_out(session, -(int64_t)buf_len(&call->out));
    buf_fini(&call->out);
    rpc_receive_set_expiry(session, call, BOOT_NEVER);
    list_del(&call->node);
    session->call_count--;
    if (!call->is_answered) {
        session->serving->stats.calls_by_status[RPC_CANCELLED]++;
    }
    call->session = NULL;
    if (call->is_running) {
        if (!call->is_cancelled) {
            rpc_call_cancel(call);
        }
    } else {
        rpc_call_free(call);
    }
}

static void on_closed(void *ctx, void *stream, uint32_t code)
{
    struct rpc_session *session = ctx;

    (void)code;
    detach(session, stream);
    if (session->call_count == 0) {
        session->idle_since_us = session->now_us;
        rpc_session_flush(session);
    }
}

/* ---- pings, settings, leaving ---- */

static const struct rpc_failure leaving = {
    .status = RPC_UNAVAILABLE,
    .reason = "SERVER_LEAVING",
    .message = "the server is leaving: connect to another one, or to this one again",
    .retry_delay = SESSION_RETRY_MS,
};

static void drain_final(struct rpc_session *session, const char *debug)
{
    if (session->drain == DRAIN_FINAL) {
        return;
    }
    session->drain = DRAIN_FINAL;
    h2_goaway(session->h2, H2_NO_ERROR, debug);
    list_foreach_safe (node, after, &session->calls) {
        struct rpc_call *call = LIST_ENTRY(node, struct rpc_call, node);

        if (call->is_running && !call->is_answered && call->method->is_endless) {
            rpc_call_refuse(call, &leaving);
            rpc_call_cancel(call);
        }
    }
    rpc_session_flush(session);
}

static void on_ping(void *ctx, bool is_ack, const uint8_t *opaque)
{
    struct rpc_session *session = ctx;
    const struct rpc_server_options *options = &session->serving->options;
    boot_us allowed_us =
        time_add(session->ping_taken_us, options->ping_interval_min_ms * US_PER_MS);

    if (is_ack) {
        if (memcmp(opaque, ping_drain, H2_PING_BYTES) == 0 && session->drain == DRAIN_NOTICED) {
            drain_final(session, "draining");
        }
        return;
    }
    if (session->now_us < allowed_us && ++session->ping_strikes > options->ping_strikes_max) {
        h2_goaway(session->h2, H2_ENHANCE_YOUR_CALM, "too_many_pings");
    }
    session->ping_taken_us = session->now_us;
}

static void on_settings(void *ctx)
{
    struct rpc_session *session = ctx;

    session->has_settings = true;
}

static void on_goaway(void *ctx, int32_t last_id, uint32_t code, struct slice debug)
{
    (void)last_id;
    (void)code;
    (void)debug;
    drain_final(ctx, "bye");
}

void rpc_session_drain(struct rpc_session *session, boot_us now_us, boot_us cut_us)
{
    session->now_us = time_max(session->now_us, now_us);
    session->cut_us = time_min(session->cut_us, cut_us);
    if (session->drain == DRAIN_NOT) {
        session->drain = DRAIN_NOTICED;
        session->final_us = time_add(session->now_us, SESSION_NOTICE_US);
        h2_shutdown_notice(session->h2);
        h2_ping(session->h2, ping_drain);
    }
    rpc_session_flush(session);
}

/* ---- time ---- */

/* When silence becomes suspicious: time to ping, or to give up. */
static boot_us keepalive_us(const struct rpc_session *session)
{
    const struct rpc_server_options *options = &session->serving->options;

    if (session->ping_sent_us != BOOT_NEVER) {
        return time_add(session->ping_sent_us, options->keepalive_timeout_ms * US_PER_MS);
    }
    return time_add(session->heard_us, time_mul(options->keepalive_ms, US_PER_MS));
}

/* When the connection itself has to go: not greeted, idle, old. */
static boot_us leave_us(const struct rpc_session *session)
{
    const struct rpc_server_options *options = &session->serving->options;
    boot_us idle_us = session->idle_since_us == BOOT_NEVER
                          ? BOOT_NEVER
                          : time_add(session->idle_since_us, time_mul(options->idle_ms, US_PER_MS));

    if (!session->has_settings) {
        return time_add(session->opened_us, time_mul(options->handshake_ms, US_PER_MS));
    }
    return session->drain == DRAIN_NOT ? time_min(idle_us, session->aged_us) : BOOT_NEVER;
}

boot_us rpc_session_next_wake(const struct rpc_session *session)
{
    struct heap_node *first = heap_first(&session->expiries);
    boot_us wake_us = first == NULL ? BOOT_NEVER : first->key;

    wake_us = time_min(wake_us, keepalive_us(session));
    wake_us = time_min(wake_us, leave_us(session));
    wake_us = time_min(wake_us, session->cut_us);
    if (session->drain == DRAIN_NOTICED) {
        wake_us = time_min(wake_us, session->final_us);
    }
    return wake_us;
}

static int tick_keepalive(struct rpc_session *session)
{
    if (session->now_us < keepalive_us(session)) {
        return 0;
    }
    if (session->ping_sent_us != BOOT_NEVER) {
        return ERR_TIMEOUT;
    }
    session->ping_sent_us = session->now_us;
    h2_ping(session->h2, ping_alive);
    rpc_session_flush(session);
    return 0;
}

static int tick_leave(struct rpc_session *session)
{
    if (session->now_us >= session->cut_us) {
        return ERR_CANCELLED;
    }
    if (session->drain == DRAIN_NOTICED && session->now_us >= session->final_us) {
        drain_final(session, "draining");
    }
    if (session->now_us < leave_us(session)) {
        return 0;
    }
    if (!session->has_settings) {
        return ERR_TIMEOUT;
    }
    rpc_session_drain(
        session, session->now_us,
        time_add(session->now_us, session->serving->options.age_grace_ms * US_PER_MS));
    return 0;
}

int rpc_session_tick(struct rpc_session *session, boot_us now_us)
{
    int err;

    session->now_us = time_max(session->now_us, now_us);
    err = rpc_receive_expire(session);
    if (err == 0) {
        err = tick_keepalive(session);
    }
    return err == 0 ? tick_leave(session) : err;
}

/* ---- bytes ---- */

static void forgive(struct rpc_session *session)
{
    int64_t seconds = (session->now_us - session->forgiven_us) / US_PER_S;

    if (seconds > 0) {
        h2_forgive(session->h2, (uint32_t)time_min(seconds, 3600) * SESSION_GLITCHES_PER_SECOND);
        session->forgiven_us += seconds * US_PER_S;
    }
}

int rpc_session_take(struct rpc_session *session, boot_us now_us, struct slice bytes)
{
    int err;

    session->now_us = time_max(session->now_us, now_us);
    session->heard_us = session->now_us;
    session->ping_sent_us = BOOT_NEVER;
    forgive(session);
    err = h2_take(session->h2, bytes);
    if (err != 0) {
        return err;
    }
    if (h2_is_dying(session->h2)) { // It may not read our last words.
        session->cut_us = time_min(session->cut_us, time_add(session->now_us, SESSION_NOTICE_US));
    }
    if (h2_wants_write(session->h2)) {
        rpc_session_flush(session);
    }
    return session->err;
}

int rpc_session_fill(struct rpc_session *session, uint8_t *space, size_t len)
{
    return session->err != 0 ? session->err : h2_fill(session->h2, space, len);
}

bool rpc_session_is_done(const struct rpc_session *session)
{
    return h2_is_done(session->h2);
}

size_t rpc_session_backlog(const struct rpc_session *session)
{
    return session->out_bytes;
}

/* ---- life ---- */

static const struct h2_events session_h2_events = {
    .opened = rpc_receive_opened,
    .field = rpc_receive_field,
    .fields_end = rpc_receive_fields_end,
    .data = rpc_receive_data,
    .end = rpc_receive_end,
    .body = on_body,
    .end_sent = on_end_sent,
    .closed = on_closed,
    .goaway = on_goaway,
    .ping = on_ping,
    .settings = on_settings,
};

/* The age at which this connection is drained: ± 10 %, so that clients do not return together. */
static boot_us draw_age(const struct rpc_server_options *options, boot_us now_us, struct prng *prng)
{
    int64_t age_us = time_mul(options->age_ms, US_PER_MS);

    if (options->age_ms == SPAN_NEVER) {
        return BOOT_NEVER;
    }
    return time_add(now_us, time_add(age_us, prng_between(prng, -age_us / 10, age_us / 10)));
}

static void start_clocks(struct rpc_session *session, boot_us now_us, struct prng *prng)
{
    session->now_us = now_us;
    session->opened_us = now_us;
    session->heard_us = now_us;
    session->forgiven_us = now_us;
    session->ping_sent_us = BOOT_NEVER;
    session->ping_taken_us = INT64_MIN;
    session->idle_since_us = now_us;
    session->cut_us = BOOT_NEVER;
    session->aged_us = draw_age(&session->serving->options, now_us, prng);
}

int rpc_session_open(struct rpc_serving *serving, const char *peer, boot_us now_us,
                     struct prng *prng, struct rpc_session **out)
{
    const struct h2_options options = {
        .is_server = true,
        .streams_max = serving->options.streams_max,
        .header_bytes_max = (uint32_t)serving->options.header_bytes_max,
        .stream_window = SESSION_STREAM_WINDOW,
        .connection_window = SESSION_CONNECTION_WINDOW,
        .glitches_max = SESSION_GLITCHES_MAX,
        .reset_burst = SESSION_RESET_BURST,
        .reset_rate = SESSION_RESET_RATE,
    };
    struct rpc_session *session = mem_new(1, sizeof(*session));
    int err;

    if (session == NULL) {
        return ERR_NO_MEMORY;
    }
    err = h2_open(&options, &session_h2_events, session, &session->h2);
    if (err != 0) {
        mem_free(session);
        return err;
    }
    session->serving = serving;
    list_init(&session->calls);
    heap_init(&session->expiries);
    start_clocks(session, now_us, prng);
    (void)snprintf(session->peer, sizeof(session->peer), "%s", peer);
    *out = session;
    return 0;
}

void rpc_session_set_events(struct rpc_session *session, const struct rpc_session_events *events,
                            void *ctx)
{
    session->events = events;
    session->ctx = ctx;
}

void rpc_session_close(struct rpc_session *session)
{
    struct list *first;

    session->events = NULL;
    while ((first = list_first(&session->calls)) != NULL) {
        detach(session, LIST_ENTRY(first, struct rpc_call, node));
    }
    h2_close(session->h2);
    mem_free(session);
}
