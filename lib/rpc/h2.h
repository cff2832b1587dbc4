/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP/2 connection as a protocol engine: bytes in, bytes out, events in between. No sockets,
 * no threads, no clock (the library below rations stream resets by its own clock; see
 * reset_burst). Both sides, server and client. Knows headers and bodies, not gRPC.
 */
#ifndef FOLIOT_LIB_RPC_H2_H
#define FOLIOT_LIB_RPC_H2_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct h2;

/* A header, borrowed. */
struct h2_field {
    struct slice name;
    struct slice value;
    bool is_volatile; /* differs with each call: keep it out of the compression table */
};

/* Error codes of RFC 9113 section 7 that we use by name. */
enum h2_code {
    H2_NO_ERROR = 0,
    H2_PROTOCOL_ERROR = 1,
    H2_INTERNAL_ERROR = 2,
    H2_REFUSED_STREAM = 7,
    H2_CANCEL = 8,
    H2_ENHANCE_YOUR_CALM = 11
};

#define H2_PING_BYTES 8U

/* Streams of our own that may be open before the peer's SETTINGS say how many. source: N-6 */
#define H2_STREAMS_ASSUMED 100U

/* Smallest space for h2_fill: the largest frame that is sent, with its head. */
#define H2_FILL_BYTES_MIN 16500U

/*
 * What happens on a connection. All run inside h2_take or h2_fill; from inside them everything may
 * be called but h2_take, h2_fill and h2_close. `stream` is what opened or h2_request gave.
 */
struct h2_events {
    /* Server: the peer opened a stream. False refuses it (REFUSED_STREAM). */
    bool (*opened)(void *ctx, int32_t id, void **stream_out);
    /* One header of a block. A negative code ends the connection with it. */
    int (*field)(void *ctx, void *stream, struct slice name, struct slice value);
    /* The block is complete. is_end: the peer has ended its side. */
    void (*fields_end)(void *ctx, void *stream, bool is_end);
    /* Body bytes. Give the credit back by h2_consume. */
    void (*data)(void *ctx, void *stream, struct slice bytes);
    /* The peer ended its side after the body. */
    void (*end)(void *ctx, void *stream);
    /* Copy up to `len` bytes of our body into space; 0 without is_end waits for h2_resume. */
    size_t (*body)(void *ctx, void *stream, uint8_t *space, size_t len, bool *is_end);
    /* The frame that ends our side has been given out. */
    void (*end_sent)(void *ctx, void *stream);
    /* Last event of a stream. */
    void (*closed)(void *ctx, void *stream, uint32_t code);
    /* The peer is leaving; streams above last_id were not processed and close with
     * H2_REFUSED_STREAM. */
    void (*goaway)(void *ctx, int32_t last_id, uint32_t code, struct slice debug);
    void (*ping)(void *ctx, bool is_ack, const uint8_t *opaque);
    void (*settings)(void *ctx);
};

struct h2_options {
    bool is_server;
    uint32_t streams_max;       /* server: MAX_CONCURRENT_STREAMS */
    uint32_t header_bytes_max;  /* MAX_HEADER_LIST_SIZE; advisory: count yourself */
    uint32_t stream_window;     /* bytes */
    uint32_t connection_window; /* bytes */
    uint32_t glitches_max;      /* suspicious frames, see h2_forgive, before we hang up */
    uint64_t reset_burst;       /* server: streams the peer may reset at once, */
    uint64_t reset_rate;        /* and for each second after that */
};

/*
 * Start a connection; our SETTINGS are queued.
 *
 * ownership: events are borrowed for the life of the connection.
 * errors:    ERR_NO_MEMORY.
 */
MUST_USE int h2_open(const struct h2_options *options, const struct h2_events *events, void *ctx,
                     struct h2 **out);

/* Free. No events. */
void h2_close(struct h2 *h2);

/*
 * Bytes from the peer.
 *
 * errors: ERR_PROTOCOL, ERR_NO_MEMORY, or what an event gave: close the connection. After an error
 *         of the peer that can still be told to it, the result is 0 and h2_is_done comes true when
 *         h2_fill has given the GOAWAY.
 */
MUST_USE int h2_take(struct h2 *h2, struct slice bytes);

/*
 * Bytes for the peer: their number, 0 for nothing now, or a negative code.
 *
 * shape: len ≥ H2_FILL_BYTES_MIN.
 */
int h2_fill(struct h2 *h2, uint8_t *space, size_t len);

/* Would h2_fill give something? */
bool h2_wants_write(const struct h2 *h2);

/* Nothing will be read or written any more: close the connection. */
bool h2_is_done(const struct h2 *h2);

/* A GOAWAY with an error of the peer's is on its way out: hang up soon, also if it does not read.
 */
bool h2_is_dying(const struct h2 *h2);

/* Client: open a stream. has_body: the body event follows; else our side ends with the headers.
 * errors: ERR_NO_MEMORY, ERR_CLOSED (no stream ids left, or the connection is leaving). */
MUST_USE int h2_request(struct h2 *h2, const struct h2_field *fields, size_t count, bool has_body,
                        void *stream, int32_t *id_out);

/* Server: answer. Errors mean that the connection is out of memory: close it. A stream that has
 * gone meanwhile is no error. */
MUST_USE int h2_respond(struct h2 *h2, int32_t id, const struct h2_field *fields, size_t count,
                        bool has_body);

/* Headers after the body; called once, before or in the body event that says is_end. */
MUST_USE int h2_trailers(struct h2 *h2, int32_t id, const struct h2_field *fields, size_t count);

/* There is a body to be sent again. */
void h2_resume(struct h2 *h2, int32_t id);

void h2_reset(struct h2 *h2, int32_t id, enum h2_code code);

/* Tell the peer that we shall leave: GOAWAY with the highest stream id, nothing is refused yet. */
void h2_shutdown_notice(struct h2 *h2);

/* Leave: streams up to the last one seen go on, later ones are ignored. */
void h2_goaway(struct h2 *h2, enum h2_code code, const char *debug);

void h2_ping(struct h2 *h2, const uint8_t *opaque);

/* Give credit back to the peer: for a stream alone, or for the connection alone. */
void h2_consume_stream(struct h2 *h2, int32_t id, size_t len);
void h2_consume_connection(struct h2 *h2, size_t len);

/* As h2_consume_connection, but told to the peer at once instead of when half a window is free. */
void h2_grant_connection(struct h2 *h2, size_t len);

/* Bytes that the peer may still send on the connection. */
size_t h2_credit_left(const struct h2 *h2);

/* Take `count` suspicious frames off the account; the owner does so as time passes. */
void h2_forgive(struct h2 *h2, uint32_t count);

/* How many streams of ours the peer allows; H2_STREAMS_ASSUMED before it has said. */
uint32_t h2_peer_streams_max(const struct h2 *h2);

/* Largest header list the peer takes (name + value + 32 each); UINT32_MAX if it did not say. */
uint32_t h2_peer_header_bytes_max(const struct h2 *h2);

/* Version of the library below, for the start-up log. */
const char *h2_library_version(void);

#endif
