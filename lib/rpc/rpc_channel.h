/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the client half of lib/rpc: what a channel is made of. rpc_client.c has the calls
 * (queue, expiry, cancel, results), rpc_link.c the addresses and connections.
 */
#ifndef FOLIOT_LIB_RPC_RPC_CHANNEL_H
#define FOLIOT_LIB_RPC_RPC_CHANNEL_H

#include "lib/base/heap.h"
#include "lib/base/list.h"
#include "lib/base/prng.h"
#include "lib/io/address.h"
#include "lib/io/conn.h"
#include "lib/io/dial.h"
#include "lib/io/loop.h"
#include "lib/io/resolve.h"
#include "lib/io/tls.h"
#include "lib/rpc/rpc_caller.h"
#include "lib/rpc/rpc_client.h"
#include "lib/rpc/rpc_target.h"

#define RPC_USER_AGENT_BYTES 128U

/* Calls that a connection in the making is assumed to take. source: RELIABILITY N-6 */
#define RPC_CAPACITY_ASSUMED 100U

/*
 * State of an address.
 *
 *   idle ─▶ dialling ─▶ greeting ─▶ ready ─▶ idle (connection ended or is leaving)
 *    ▲         │            │
 *    └─────────┴─ waiting ◀─┘  (back-off)
 */
enum slot_state {
    SLOT_IDLE,
    SLOT_DIALLING,
    SLOT_GREETING, /* connected; the peer's SETTINGS are missing */
    SLOT_READY,
    SLOT_WAITING
};

/* One address of the target, and the connection to it. */
struct rpc_slot {
    struct list node; /* in channel->slots, in the order of turns */
    struct rpc_channel *channel;
    struct address address;
    enum slot_state state;
    struct dial dial;
    struct rpc_wire *wire;   /* NULL unless greeting or ready */
    struct loop_timer timer; /* connect time-out, or end of the back-off */
    span_ms backoff_ms;      /* of the next failure */
    bool is_known;           /* by the latest look-up of the name */
};

/* A connection. It may outlive its slot: then it only finishes its calls. */
struct rpc_wire {
    struct list node; /* in channel->wires */
    struct rpc_channel *channel;
    struct rpc_slot *slot; /* NULL: leaving */
    struct conn *conn;
    struct rpc_caller *caller;
    struct loop_timer timer;
    struct list ready; /* requests given to this connection, not sent yet */
    uint32_t ready_count;
    uint64_t started_count; /* calls sent, ever */
    boot_us opened_us;
    bool is_useful; /* a call has ended here */
    char *why;      /* of TLS_WHY_BYTES: how its TLS handshake failed; NULL in cleartext */
};

struct rpc_channel {
    struct loop *loop;
    struct rpc_channel_options options; /* its strings are not used: see below */
    struct rpc_target target;
    char authority[RPC_AUTHORITY_BYTES];
    char user_agent[RPC_USER_AGENT_BYTES];
    char tls_host[RPC_HOST_BYTES];
    struct prng prng;

    struct list queue;    /* requests that wait for a connection */
    struct list finished; /* requests that ended on our side, to be told */
    struct heap expiries; /* of all requests that are not finished */
    struct loop_timer expiry_timer;
    struct loop_task work;
    uint32_t queue_count;
    uint32_t active_count; /* requests given to connections */
    uint32_t call_count;   /* requests whose callback has not begun */

    struct list slots;
    struct list wires;
    struct resolve_request resolving;
    bool is_resolving;
    const char *failure; /* how the last address failed: constant text, or the next */
    char failure_text[TLS_WHY_BYTES + 64];
    bool wants_resolve; /* an address failed or is leaving: look the name up again */
    span_ms keepalive_ms;

    bool is_closing;
    rpc_channel_cb close_cb;
    void *close_ctx;
};

/* ---- rpc_client.c ---- */

/* Look after the channel soon: queue, results, close. */
void rpc_channel_work_soon(struct rpc_channel *channel);

/* A request in a connection ended there: tell its caller. */
void rpc_channel_ended(struct rpc_channel *channel, struct rpc_request *request,
                       const struct rpc_reply *reply);

/* End a request that is in no list and no connection, on our side; told later. */
void rpc_channel_finish(struct rpc_request *request, enum rpc_status status, const char *text,
                        bool is_unprocessed);

/* A request is on the wire: from here on only its deadline counts, which may be nearer now. */
void rpc_channel_sent(struct rpc_request *request);

/* End all requests in the queue as unprocessed. */
void rpc_channel_fail_queue(struct rpc_channel *channel, const char *text);

/* ---- rpc_link.c ---- */

/* Give a numeric target its one address. errors: ERR_NO_MEMORY. */
MUST_USE int rpc_link_open(struct rpc_channel *channel);

/* The connection whose turn it is and that has room for a call now, or NULL. */
struct rpc_wire *rpc_link_pick(struct rpc_channel *channel);

/* Give a request to a connection; it goes out at the end of the turn. */
void rpc_link_give(struct rpc_wire *wire, struct rpc_request *request);

/* Take a request back from its connection, sent or not. */
void rpc_link_take_back(struct rpc_request *request);

/* Requests wait: look up, dial. False if there is nothing to hope for now. */
bool rpc_link_connect(struct rpc_channel *channel);

/* Streams that are free now over all connections; *is_hopeful: some address may become ready. */
uint32_t rpc_link_free_count(const struct rpc_channel *channel, bool *is_hopeful);

enum rpc_channel_state rpc_link_state(const struct rpc_channel *channel);

/* The figures of the connections. */
void rpc_link_count(const struct rpc_channel *channel, struct rpc_channel_stats *out);

/* Cancel every call that the connection has. */
void rpc_link_cancel_all(struct rpc_wire *wire);

/* Close all connections, give up the rest. True when nothing is left. */
bool rpc_link_close(struct rpc_channel *channel);

#endif
