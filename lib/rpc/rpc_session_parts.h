/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to rpc_session.c (the connection, its time and its end) and rpc_receive.c (what becomes
 * of a request while it comes in): the connection's state.
 */
#ifndef FOLIOT_LIB_RPC_RPC_SESSION_PARTS_H
#define FOLIOT_LIB_RPC_RPC_SESSION_PARTS_H

#include "lib/rpc/rpc_serving.h"
#include "lib/rpc/rpc_session.h"

enum drain {
    DRAIN_NOT,     /* serving */
    DRAIN_NOTICED, /* the client knows; its calls on the way are still taken */
    DRAIN_FINAL    /* no new calls; done when the open ones are */
};

struct rpc_session {
    struct rpc_serving *serving;
    struct h2 *h2;
    const struct rpc_session_events *events;
    void *ctx;
    boot_us now_us; /* of the last take or tick */
    int err;        /* found outside take and fill; they return it */
    struct list calls;
    struct heap expiries;
    size_t buffered_bytes; /* of requests that are not answered */
    size_t out_bytes;      /* responses waiting for the peer */
    uint32_t call_count;
    uint32_t running_count;
    bool has_settings;
    boot_us opened_us;
    boot_us heard_us;      /* last bytes from the peer */
    boot_us ping_sent_us;  /* BOOT_NEVER: none on its way */
    boot_us ping_taken_us; /* last PING of the peer; INT64_MIN: none since we sent a response */
    uint32_t ping_strikes;
    boot_us idle_since_us; /* BOOT_NEVER while there are calls */
    boot_us aged_us;       /* when the connection is too old */
    boot_us forgiven_us;   /* up to when glitches were forgiven */
    enum drain drain;
    boot_us final_us; /* when the final GOAWAY goes out at the latest */
    boot_us cut_us;   /* when open calls are cut off; BOOT_NEVER */
    char peer[ADDRESS_TEXT_BYTES];
};

/* ---- rpc_receive.c: events of h2, and what they leave behind ---- */

bool rpc_receive_opened(void *ctx, int32_t id, void **stream_out);
int rpc_receive_field(void *ctx, void *stream, struct slice name, struct slice value);
void rpc_receive_fields_end(void *ctx, void *stream, bool is_end);
void rpc_receive_data(void *ctx, void *stream, struct slice bytes);
void rpc_receive_end(void *ctx, void *stream);

/* Let a call expire at a time; BOOT_NEVER: not at all. */
void rpc_receive_set_expiry(struct rpc_session *session, struct rpc_call *call, boot_us at_us);

/* End the calls whose time is over. errors: ERR_TIMEOUT: close the connection. */
MUST_USE int rpc_receive_expire(struct rpc_session *session);

#endif
