/* SPDX-License-Identifier: Apache-2.0
 *
 * The link's two halves know each other by this file: coord_zk_link.c runs on the loop,
 * coord_zk_library.c is what the library's and the helper threads run. Nobody else includes it.
 */
#ifndef FOLIOT_COORDINATOR_COORD_ZK_LINK_PARTS_H
#define FOLIOT_COORDINATOR_COORD_ZK_LINK_PARTS_H

#include "coordinator/coord_zk_link.h"
#include "lib/base/list.h"
#include "lib/io/loop.h"
#include "lib/io/mailbox.h"

#include <pthread.h>
#include <stdatomic.h>

/* Watch and session events that may wait for the loop. More means that the loop is stuck or that
 * somebody makes a storm: what is above is told as "anything may have changed". */
#define EVENT_COUNT_MAX 1024

enum zk_message_kind {
    MESSAGE_REPLY = 1, /* struct zk_pending */
    MESSAGE_SESSION,   /* struct zk_event */
    MESSAGE_WATCH,     /* struct zk_event */
    MESSAGE_MISSED,    /* the link's spare: events could not be sent */
    MESSAGE_OPENED,    /* the helper thread is done */
    MESSAGE_RESOLVED,  /* the helper thread is done */
    MESSAGE_CLOSED     /* the helper thread is done */
};

struct zk_message {
    struct mailbox_node node;
    enum zk_message_kind kind;
};

enum zk_session_state {
    SESSION_AWAY = 1,
    SESSION_CONNECTED,
    SESSION_EXPIRED,
    SESSION_REFUSED
};

struct zk_session {
    enum zk_session_state state;
    int64_t id;
    span_ms timeout_ms;
};

/* What a watcher was told. */
struct zk_event {
    struct zk_message message;
    struct zk_session session; /* MESSAGE_SESSION */
    char path[];               /* MESSAGE_WATCH */
};

/* A call in flight. Fields below the line are the library thread's until the reply is sent. */
struct zk_pending {
    struct zk_message message;
    struct list node; /* in link->pending */
    struct zk_link *link;
    zk_reply_cb cb;
    void *ctx;
    uint64_t tag;
    bool is_zombie; /* refused in a way that may yet call back: freed with the link */
    /* ---- */
    struct zk_reply reply;
    void *copy; /* what reply points to; freed with this */
};

enum zk_link_state {
    LINK_OPENING = 1, /* the helper thread makes the handle */
    LINK_OPEN,
    LINK_DEAD,     /* on_dead has been told; waits for zk_link_close */
    LINK_DRAINING, /* closing: waits for replies */
    LINK_CLOSING   /* closing: the helper thread ends the session */
};

struct zk_link {
    struct loop *loop;
    struct zk_link_events events;
    span_ms session_timeout_ms;
    enum zk_link_state state;
    bool is_close_wanted;    /* closed while it was being opened */
    bool is_connected;       /* as last told to the owner */
    bool is_missed_early;    /* events were missed before MESSAGE_OPENED */
    bool is_resolving;       /* the helper thread looks names up again */
    bool is_end_wanted;      /* the session is to be ended once it is done */
    struct _zhandle *handle; /* NULL: not made; the helper thread's while one runs */
    struct list pending;     /* calls in flight */
    uint32_t pending_count;
    struct list deferred; /* events that overtook MESSAGE_OPENED */
    uint64_t call_count;
    uint64_t unknown_count;
    uint32_t useless_connect_count; /* since the last completed call */
    boot_us completed_us;           /* time of the last completed call */
    zk_link_close_cb close_cb;
    void *close_ctx;
    struct loop_timer drain_timer;
    struct loop_timer resolve_timer; /* while disconnected */
    struct loop_task end_task;
    struct mailbox *mailbox;
    pthread_t helper;
    struct zk_message helper_message;
    char *hosts;
    char *auth;      /* NULL: none */
    char *addresses; /* what the hosts resolved to; the helper thread's while one runs */
    /* shared with the library's threads */
    atomic_int event_count;           /* events in the mailbox */
    atomic_bool is_missed_sent;       /* the spare is in the mailbox */
    pthread_mutex_t latch_lock;       /* guards latch */
    struct zk_session latch;          /* the last session event, for when it could not be sent */
    struct zk_message missed_message; /* the spare */
};

/* Make the handle, on the helper thread; then MESSAGE_OPENED. ctx: the link. */
void *zk_library_open(void *ctx);

/* Look the names up again and tell the library if their addresses have changed, on the helper
 * thread; then MESSAGE_RESOLVED. */
void *zk_library_resolve(void *ctx);

/* End the session, on the helper thread; then MESSAGE_CLOSED. */
void *zk_library_close(void *ctx);

/*
 * Hand a call to the library, on the loop.
 *
 * errors: ERR_CLOSED refused, no reply will come; ERR_IO it failed half-way, a reply may come.
 */
MUST_USE int zk_library_send(struct zk_link *link, const struct zk_call *call,
                             struct zk_pending *pending);

#endif
