/* SPDX-License-Identifier: Apache-2.0
 *
 * One handle of ZooKeeper's client library, brought onto the loop: calls whose replies, watch
 * events and session changes arrive in order on the loop's thread. Its .c is the only file that
 * sees zookeeper.h. Knows nothing of brokers and shards, and never opens a second session: a dead
 * link is closed and a new one opened by its owner (Z-7).
 */
#ifndef FOLIOT_COORDINATOR_COORD_ZK_LINK_H
#define FOLIOT_COORDINATOR_COORD_ZK_LINK_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct zk_link;

/* Calls in flight: one per shard, one per member, and a few. */
#define ZK_CALL_COUNT_MAX 8192

/* What a node's stat says, as far as we care. */
struct zk_stat {
    int64_t owner_session; /* the session of an ephemeral; 0: not one */
    int64_t created_zxid;  /* order of creation */
    int32_t version;       /* of the data */
};

/* A reply. All pointers are borrowed during the callback. */
struct zk_reply {
    /* 0; ERR_NOT_FOUND no such node (or no parent); ERR_EXISTS; ERR_CONFLICT another version;
     * ERR_DENIED by an ACL; ERR_TOO_LARGE the reply; ERR_OUTCOME_UNKNOWN connection or session
     * lost, it may or may not have happened (Z-3); ERR_IO anything else that the server said. */
    int code;
    struct zk_stat stat;            /* EXISTS, GET, SET; zero else */
    struct slice data;              /* GET */
    const char *const *child_names; /* LIST */
    size_t child_count;
    bool is_open; /* ACL: anybody may change the node or what is below it */
};

enum zk_call_kind {
    ZK_CREATE = 1, /* data; is_ephemeral */
    ZK_DELETE,     /* version, or -1 */
    ZK_EXISTS,     /* is_watched */
    ZK_GET,        /* is_watched */
    ZK_SET,        /* data; version, or -1 */
    ZK_LIST,       /* is_watched */
    ZK_ACL         /* who may write */
};

typedef void (*zk_reply_cb)(void *ctx, uint64_t tag, const struct zk_reply *reply);

struct zk_call {
    enum zk_call_kind kind;
    const char *path;  /* copied */
    struct slice data; /* copied; at most ZK_BODY_BYTES_MAX (Z-15) */
    int32_t version;
    bool is_ephemeral;
    bool is_watched;
    zk_reply_cb cb;
    void *ctx;
    uint64_t tag; /* handed back */
};

struct zk_link_events {
    /* Connected, for the first time or again. The session may be another one than before (Z-6). */
    void (*on_connected)(void *ctx, int64_t session_id, span_ms timeout_ms);
    /* Disconnected: not expired. Calls in flight are answered with ERR_OUTCOME_UNKNOWN. */
    void (*on_away)(void *ctx);
    /* Finished: expired, refused, not openable, or useless (Z-10). Comes once; no connect or reply
     * after it. The owner closes the link, later or now. why: constant text. */
    void (*on_dead)(void *ctx, const char *why);
    /* Something about a watched path changed; NULL: events were missed, anything may have. */
    void (*on_watch)(void *ctx, const char *path);
    void *ctx;
};

struct zk_link_options {
    struct loop *loop;
    const char *hosts;          /* copied */
    span_ms session_timeout_ms; /* asked for */
    const char *auth;           /* copied; USER:PASSWORD, whose alone is what is created; or NULL */
    struct zk_link_events events;
};

/*
 * Start to connect. Names are resolved and threads started on a helper thread, because both block.
 *
 * errors: ERR_NO_MEMORY, ERR_IO no mailbox or no thread.
 */
MUST_USE int zk_link_open(const struct zk_link_options *options, struct zk_link **out);

/*
 * Send a call. Before the first connection it waits in the library.
 *
 * errors: refused, the callback will not run: ERR_NO_MEMORY, ERR_FULL above ZK_CALL_COUNT_MAX,
 *         ERR_TOO_LARGE, ERR_CLOSED the link is dead or closing, or not open yet.
 */
MUST_USE int zk_link_call(struct zk_link *link, const struct zk_call *call);

typedef void (*zk_link_close_cb)(void *ctx);

/*
 * End the session and free the link; then the callback. From this call on there are no events, and
 * no callbacks of calls in flight. Takes up to ZK_CLOSE_DRAIN_MS plus what zookeeper_close needs,
 * on a helper thread (Z-12).
 */
void zk_link_close(struct zk_link *link, zk_link_close_cb cb, void *ctx);

/* Replies that are awaited before the handle is closed, so that the library has nothing left to
 * leak: it drops queued completions at close. */
#define ZK_CLOSE_DRAIN_MS 500

/* Connections without one completed call in between, over at least a session timeout, after which
 * the link gives itself up (Z-10). */
#define ZK_USELESS_CONNECT_COUNT 10

/* Calls sent, and calls whose outcome stayed unknown. */
uint64_t zk_link_call_count(const struct zk_link *link);
uint64_t zk_link_unknown_count(const struct zk_link *link);

/*
 * Take the last line that the library logged, if there is one since the last take. Its log has no
 * context, so the line may be of another handle of this process.
 */
bool zk_link_take_log(char *out, size_t size);

#endif
