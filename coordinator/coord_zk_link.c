/* SPDX-License-Identifier: Apache-2.0
 *
 * The link: the half that runs on the loop.
 */
#define _GNU_SOURCE // close_range
#include "coordinator/coord_zk_link.h"

#include "coordinator/coord_zk_link_parts.h"
#include "coordinator/zk_body.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "lib/io/mailbox.h"

#include <linux/close_range.h>
#include <string.h>
#include <unistd.h>

/* Until the next try to start a thread for the close. */
#define CLOSE_RETRY_MS 100

/* While disconnected, names are looked up again this often: servers may have moved. */
#define RESOLVE_DELAY_MS 5000

/* ---- events on the loop ---- */

static void die(struct zk_link *link, const char *why)
{
    if (link->state != LINK_OPEN && link->state != LINK_OPENING) {
        return;
    }
    link->state = LINK_DEAD;
    link->is_connected = false;
    link->events.on_dead(link->events.ctx, why);
}

/* A server that accepts us and then drops us at the first request would be tried for ever (Z-10).
 */
static bool is_useless(struct zk_link *link, span_ms timeout_ms)
{
    int64_t silence_us = time_sub(loop_now_us(link->loop), link->completed_us);

    link->useless_connect_count++;
    return link->useless_connect_count >= ZK_USELESS_CONNECT_COUNT &&
           silence_us > timeout_ms * US_PER_MS;
}

/*
 * The library opens its pipe and sockets without close-on-exec (Z-16). All of ours have the flag
 * from birth, so it is set on everything, and a kernel before 5.11 that refuses is let be.
 */
static void set_close_on_exec(void)
{
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
}

static void on_session(struct zk_link *link, const struct zk_session *session)
{
    switch (session->state) {
    case SESSION_EXPIRED:
        die(link, "session expired");
        return;
    case SESSION_REFUSED:
        die(link, "authentication refused");
        return;
    case SESSION_AWAY:
        if (link->is_connected) {
            link->is_connected = false;
            loop_timer_start_in(&link->resolve_timer, RESOLVE_DELAY_MS);
            link->events.on_away(link->events.ctx);
        }
        return;
    case SESSION_CONNECTED:
        set_close_on_exec();
        if (is_useless(link, session->timeout_ms)) {
            die(link, "connects again and again without an answer to any request");
            return;
        }
        link->is_connected = true;
        loop_timer_stop(&link->resolve_timer);
        link->events.on_connected(link->events.ctx, session->id, session->timeout_ms);
        return;
    }
}

/* Events could not be sent: go by the last state, and by nothing that was known before. */
static void on_missed(struct zk_link *link)
{
    struct zk_session last;

    atomic_store(&link->is_missed_sent, false); // Before the read: a later event sends it again.
    REQUIRE(pthread_mutex_lock(&link->latch_lock) == 0);
    last = link->latch;
    REQUIRE(pthread_mutex_unlock(&link->latch_lock) == 0);
    if (link->state != LINK_OPEN) {
        link->is_missed_early = link->state == LINK_OPENING;
        return;
    }
    if (last.state == SESSION_CONNECTED) {
        on_session(link, &(struct zk_session){.state = SESSION_AWAY});
    }
    if (last.state != 0) {
        on_session(link, &last);
    }
    if (link->state == LINK_OPEN) {
        link->events.on_watch(link->events.ctx, NULL);
    }
}

static void on_event(struct zk_link *link, struct zk_event *event)
{
    if (link->state == LINK_OPENING) {
        list_add(&link->deferred, &event->message.node.node);
        return;
    }
    if (link->state == LINK_OPEN) {
        if (event->message.kind == MESSAGE_SESSION) {
            on_session(link, &event->session);
        } else {
            link->events.on_watch(link->events.ctx, event->path);
        }
    }
    mem_free(event);
}

static void pending_free(struct zk_pending *pending)
{
    list_del(&pending->node);
    pending->link->pending_count--;
    mem_free(pending->copy);
    mem_free(pending);
}

static void end_session(struct zk_link *link);

static void on_reply(struct zk_link *link, struct zk_pending *pending)
{
    if (pending->reply.code == ERR_OUTCOME_UNKNOWN) {
        link->unknown_count++;
    } else {
        link->useless_connect_count = 0;
        link->completed_us = loop_now_us(link->loop);
    }
    if (link->state == LINK_OPEN && !pending->is_zombie) {
        pending->cb(pending->ctx, pending->tag, &pending->reply);
    }
    pending_free(pending);
    if (link->state == LINK_DRAINING && link->pending_count == 0) {
        end_session(link);
    }
}

/* ---- life ---- */

static int start_helper(struct zk_link *link, enum zk_message_kind kind, void *(*run)(void *))
{
    link->helper_message.kind = kind;
    return pthread_create(&link->helper, NULL, run, link) == 0 ? 0 : ERR_IO;
}

/* The last step of a close, on a turn of its own: no callback of the mailbox is running. */
static void end(void *ctx)
{
    struct zk_link *link = ctx;
    zk_link_close_cb close_cb = link->close_cb;
    void *close_ctx = link->close_ctx;

    mailbox_close(link->mailbox); // Delivers what waits; the state keeps it from the owner.
    while (!list_is_empty(&link->pending)) {
        pending_free(LIST_ENTRY(list_first(&link->pending), struct zk_pending, node));
    }
    loop_timer_stop(&link->drain_timer);
    REQUIRE(pthread_mutex_destroy(&link->latch_lock) == 0);
    mem_free(link->addresses);
    mem_free(link->auth);
    mem_free(link->hosts);
    mem_free(link);
    close_cb(close_ctx);
}

static void end_session(struct zk_link *link)
{
    link->state = LINK_CLOSING;
    loop_timer_stop(&link->drain_timer);
    if (link->is_resolving) {
        link->is_end_wanted = true;
    } else if (link->handle == NULL) {
        loop_post(link->loop, &link->end_task);
    } else if (start_helper(link, MESSAGE_CLOSED, zk_library_close) != 0) {
        loop_timer_start_in(&link->drain_timer, CLOSE_RETRY_MS);
    }
}

static void on_drain_timer(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    end_session(ctx);
}

static void on_resolve_timer(struct loop_timer *timer, void *ctx)
{
    struct zk_link *link = ctx;

    (void)timer;
    if (link->state != LINK_OPEN || link->is_connected) {
        return;
    }
    link->is_resolving = start_helper(link, MESSAGE_RESOLVED, zk_library_resolve) == 0;
    if (!link->is_resolving) {
        loop_timer_start_in(&link->resolve_timer, RESOLVE_DELAY_MS);
    }
}

static void on_resolved(struct zk_link *link)
{
    REQUIRE(pthread_join(link->helper, NULL) == 0);
    link->is_resolving = false;
    if (link->is_end_wanted) {
        end_session(link);
    } else if (link->state == LINK_OPEN && !link->is_connected) {
        loop_timer_start_in(&link->resolve_timer, RESOLVE_DELAY_MS);
    }
}

static void drain(struct zk_link *link)
{
    link->state = LINK_DRAINING;
    loop_timer_stop(&link->resolve_timer);
    if (link->pending_count == 0 || link->handle == NULL) {
        end_session(link);
        return;
    }
    loop_timer_start_in(&link->drain_timer, ZK_CLOSE_DRAIN_MS);
}

/* The handle is made, or not; now what overtook it. */
static void on_opened(struct zk_link *link)
{
    struct list *node;

    REQUIRE(pthread_join(link->helper, NULL) == 0);
    if (link->handle == NULL && !link->is_close_wanted) {
        die(link, "cannot make a handle: no server's name resolves, or the list is not "
                  "host:port,host:port");
    } else {
        link->state = LINK_OPEN;
        loop_timer_start_in(&link->resolve_timer, RESOLVE_DELAY_MS);
    }
    link->completed_us = loop_now_us(link->loop);
    if (link->is_close_wanted) {
        drain(link);
    }
    while ((node = list_take_first(&link->deferred)) != NULL) {
        on_event(link, CONTAINER_OF(node, struct zk_event, message.node.node));
    }
    if (link->is_missed_early) {
        on_missed(link);
    }
}

static void on_message(struct mailbox_node *node, void *ctx)
{
    struct zk_message *message = CONTAINER_OF(node, struct zk_message, node);
    struct zk_link *link = ctx;

    switch (message->kind) {
    case MESSAGE_REPLY:
        on_reply(link, CONTAINER_OF(message, struct zk_pending, message));
        return;
    case MESSAGE_SESSION:
    case MESSAGE_WATCH:
        (void)atomic_fetch_sub(&link->event_count, 1);
        on_event(link, CONTAINER_OF(message, struct zk_event, message));
        return;
    case MESSAGE_MISSED:
        on_missed(link);
        return;
    case MESSAGE_OPENED:
        on_opened(link);
        return;
    case MESSAGE_RESOLVED:
        on_resolved(link);
        return;
    case MESSAGE_CLOSED:
        REQUIRE(pthread_join(link->helper, NULL) == 0);
        link->handle = NULL;
        loop_post(link->loop, &link->end_task);
        return;
    }
}

static struct zk_link *link_new(const struct zk_link_options *options)
{
    struct zk_link *link = mem_new(1, sizeof(*link));

    if (link == NULL) {
        return NULL;
    }
    link->hosts = mem_copy(options->hosts, strlen(options->hosts));
    link->auth = options->auth == NULL || options->auth[0] == '\0'
                     ? NULL
                     : mem_copy(options->auth, strlen(options->auth));
    if (link->hosts == NULL ||
        (link->auth == NULL && options->auth != NULL && options->auth[0] != '\0')) {
        mem_free(link->auth);
        mem_free(link->hosts);
        mem_free(link);
        return NULL;
    }
    link->loop = options->loop;
    link->events = options->events;
    link->session_timeout_ms = options->session_timeout_ms;
    link->state = LINK_OPENING;
    list_init(&link->pending);
    list_init(&link->deferred);
    loop_timer_init(&link->drain_timer, link->loop, on_drain_timer, link);
    loop_timer_init(&link->resolve_timer, link->loop, on_resolve_timer, link);
    loop_task_init(&link->end_task, end, link);
    link->missed_message.kind = MESSAGE_MISSED;
    REQUIRE(pthread_mutex_init(&link->latch_lock, NULL) == 0);
    return link;
}

int zk_link_open(const struct zk_link_options *options, struct zk_link **out)
{
    struct zk_link *link = link_new(options);
    int err;

    if (link == NULL) {
        return ERR_NO_MEMORY;
    }
    // Room for all that can be in it at once: no reply is ever refused.
    err = mailbox_open(link->loop, ZK_CALL_COUNT_MAX + EVENT_COUNT_MAX + 2, on_message, link,
                       &link->mailbox);
    if (err != 0) {
        goto fail_after_new;
    }
    err = start_helper(link, MESSAGE_OPENED, zk_library_open);
    if (err != 0) {
        goto fail_after_mailbox;
    }
    *out = link;
    return 0;

fail_after_mailbox:
    mailbox_close(link->mailbox);
fail_after_new:
    REQUIRE(pthread_mutex_destroy(&link->latch_lock) == 0);
    mem_free(link->auth);
    mem_free(link->hosts);
    mem_free(link);
    return err;
}

void zk_link_close(struct zk_link *link, zk_link_close_cb cb, void *ctx)
{
    REQUIRE(link->close_cb == NULL && cb != NULL);
    link->close_cb = cb;
    link->close_ctx = ctx;
    if (link->state == LINK_OPENING) {
        link->is_close_wanted = true;
        return;
    }
    drain(link);
}

int zk_link_call(struct zk_link *link, const struct zk_call *call)
{
    struct zk_pending *pending;
    int err;

    if (link->state != LINK_OPEN) {
        return ERR_CLOSED;
    }
    if (call->data.len > ZK_BODY_BYTES_MAX) {
        return ERR_TOO_LARGE;
    }
    if (link->pending_count == ZK_CALL_COUNT_MAX) {
        return ERR_FULL;
    }
    pending = mem_new(1, sizeof(*pending));
    if (pending == NULL) {
        return ERR_NO_MEMORY;
    }
    pending->message.kind = MESSAGE_REPLY;
    pending->link = link;
    pending->cb = call->cb;
    pending->ctx = call->ctx;
    pending->tag = call->tag;
    list_add(&link->pending, &pending->node);
    link->pending_count++;
    err = zk_library_send(link, call, pending);
    if (err == ERR_IO) { // Half-way: the library may still call back.
        pending->is_zombie = true;
        return ERR_IO;
    }
    if (err != 0) {
        pending_free(pending);
        return err;
    }
    link->call_count++;
    return 0;
}

uint64_t zk_link_call_count(const struct zk_link *link)
{
    return link->call_count;
}

uint64_t zk_link_unknown_count(const struct zk_link *link)
{
    return link->unknown_count;
}
