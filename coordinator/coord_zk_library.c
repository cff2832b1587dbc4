/* SPDX-License-Identifier: Apache-2.0
 *
 * The link: what the library's threads run, and the only file that sees zookeeper.h. They copy what
 * they are given into a message, send it to the mailbox and touch nothing else. A call is one
 * message that travels to the library and back.
 */
#include "coordinator/coord_zk_link_parts.h"

#include "coordinator/coord_zk_hosts.h"
#include "coordinator/zk_body.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <signal.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

/* The library has nothing to look up: it gets addresses. Without this it would ask the resolver
 * for each of them in every pass of its loop (Z-14). */
#define RESOLUTION_NEVER (-1)

/* Codes of the library as ours. */
static int reply_code(int rc)
{
    switch (rc) {
    case ZOK:
        return 0;
    case ZNONODE:
        return ERR_NOT_FOUND;
    case ZNODEEXISTS:
        return ERR_EXISTS;
    case ZBADVERSION:
        return ERR_CONFLICT;
    case ZNOAUTH:
        return ERR_DENIED;
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZCLOSING:
    case ZSESSIONEXPIRED:
    case ZSESSIONMOVED:
    case ZINVALIDSTATE:
    case ZTHROTTLEDOP:
        return ERR_OUTCOME_UNKNOWN;
    default:
        return ERR_IO;
    }
}

static struct zk_pending *reply_begin(const void *data, int rc, const struct Stat *stat)
{
    // The library hands our own pointer back as const.
    struct zk_pending *pending = (struct zk_pending *)(uintptr_t)data;

    pending->reply.code = reply_code(rc);
    if (rc == ZOK && stat != NULL) {
        pending->reply.stat.owner_session = stat->ephemeralOwner;
        pending->reply.stat.created_zxid = stat->czxid;
        pending->reply.stat.version = stat->version;
    }
    return pending;
}

static void reply_send(struct zk_pending *pending)
{
    // Always room: see zk_link_open.
    REQUIRE(mailbox_send(pending->link->mailbox, &pending->message.node) == 0);
}

static void on_void(int rc, const void *data)
{
    reply_send(reply_begin(data, rc, NULL));
}

static void on_string(int rc, const char *value, const void *data)
{
    (void)value;
    reply_send(reply_begin(data, rc, NULL));
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    reply_send(reply_begin(data, rc, stat));
}

static void on_data(int rc, const char *value, int value_len, const struct Stat *stat,
                    const void *data)
{
    struct zk_pending *pending = reply_begin(data, rc, stat);
    size_t len = rc == ZOK && value_len > 0 ? (size_t)value_len : 0;

    if (len > ZK_BODY_BYTES_MAX) {
        pending->reply.code = ERR_TOO_LARGE;
    } else if (len > 0) {
        pending->copy = mem_copy(value, len);
        pending->reply.data = (struct slice){pending->copy, len};
        if (pending->copy == NULL) {
            pending->reply.code = ERR_OUTCOME_UNKNOWN; // Asked again later.
        }
    }
    reply_send(pending);
}

/* One block: the array of pointers, then the texts. */
static int copy_names(struct zk_pending *pending, const struct String_vector *names)
{
    size_t count = (size_t)names->count;
    size_t bytes = count * sizeof(char *);
    const char **array;
    char *at;

    for (size_t i = 0; i < count; i++) {
        bytes += strlen(names->data[i]) + 1;
    }
    array = mem_new(1, bytes);
    if (array == NULL) {
        return ERR_OUTCOME_UNKNOWN;
    }
    at = (char *)(array + count);
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(names->data[i]) + 1;

        memcpy(at, names->data[i], size);
        array[i] = at;
        at += size;
    }
    pending->copy = array;
    pending->reply.child_names = array;
    pending->reply.child_count = count;
    return 0;
}

static void on_strings(int rc, const struct String_vector *names, const void *data)
{
    struct zk_pending *pending = reply_begin(data, rc, NULL);

    if (rc == ZOK && names != NULL && names->count > 0) {
        pending->reply.code = copy_names(pending, names);
    }
    reply_send(pending);
}

/* Whether an ACL lets anybody change something. */
static bool is_open(const struct ACL_vector *acl)
{
    for (int32_t i = 0; acl != NULL && i < acl->count; i++) {
        if (strcmp(acl->data[i].id.scheme, "world") == 0 &&
            (acl->data[i].perms & ~ZOO_PERM_READ) != 0) {
            return true;
        }
    }
    return false;
}

static void on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data)
{
    struct zk_pending *pending = reply_begin(data, rc, stat);

    pending->reply.is_open = rc == ZOK && is_open(acl);
    reply_send(pending);
}

/* An event was not sent: the loop is told by the spare message that there was one. */
static void send_missed(struct zk_link *link)
{
    if (!atomic_exchange(&link->is_missed_sent, true)) {
        REQUIRE(mailbox_send(link->mailbox, &link->missed_message.node) == 0);
    }
}

static struct zk_event *event_new(struct zk_link *link, enum zk_message_kind kind, const char *path)
{
    struct zk_event *event;

    if (atomic_fetch_add(&link->event_count, 1) >= EVENT_COUNT_MAX) {
        goto fail;
    }
    event = mem_new(1, sizeof(*event) + strlen(path) + 1);
    if (event == NULL) {
        goto fail;
    }
    event->message.kind = kind;
    memcpy(event->path, path, strlen(path) + 1);
    return event;

fail:
    (void)atomic_fetch_sub(&link->event_count, 1);
    send_missed(link);
    return NULL;
}

static enum zk_session_state session_state_of(int state)
{
    if (state == ZOO_CONNECTED_STATE) {
        return SESSION_CONNECTED;
    }
    if (state == ZOO_EXPIRED_SESSION_STATE) {
        return SESSION_EXPIRED;
    }
    return state == ZOO_AUTH_FAILED_STATE ? SESSION_REFUSED : SESSION_AWAY;
}

/* The default watcher, the only one that we register: its context is the link, which outlives the
 * handle (Z-9). */
static void on_watcher(zhandle_t *handle, int type, int state, const char *path, void *ctx)
{
    struct zk_link *link = ctx;
    bool is_session = type == ZOO_SESSION_EVENT;
    struct zk_session session = {.state = session_state_of(state)};
    struct zk_event *event;

    if (is_session) {
        session.id = zoo_client_id(handle)->client_id;
        session.timeout_ms = zoo_recv_timeout(handle);
        REQUIRE(pthread_mutex_lock(&link->latch_lock) == 0);
        link->latch = session;
        REQUIRE(pthread_mutex_unlock(&link->latch_lock) == 0);
    }
    event = event_new(link, is_session ? MESSAGE_SESSION : MESSAGE_WATCH,
                      is_session || path == NULL ? "" : path);
    if (event != NULL) {
        event->session = session;
        REQUIRE(mailbox_send(link->mailbox, &event->message.node) == 0);
    }
}

int zk_library_send(struct zk_link *link, const struct zk_call *call, struct zk_pending *pending)
{
    const char *bytes = call->data.len > 0 ? (const char *)call->data.data : "";
    int len = (int)call->data.len;
    int watch = call->is_watched ? 1 : 0;
    int rc = ZBADARGUMENTS;

    switch (call->kind) {
    case ZK_CREATE:
        rc = zoo_acreate(link->handle, call->path, bytes, len,
                         link->auth == NULL ? &ZOO_OPEN_ACL_UNSAFE : &ZOO_CREATOR_ALL_ACL,
                         call->is_ephemeral ? ZOO_EPHEMERAL : ZOO_PERSISTENT, on_string, pending);
        break;
    case ZK_DELETE:
        rc = zoo_adelete(link->handle, call->path, call->version, on_void, pending);
        break;
    case ZK_EXISTS:
        rc = zoo_aexists(link->handle, call->path, watch, on_stat, pending);
        break;
    case ZK_GET:
        rc = zoo_aget(link->handle, call->path, watch, on_data, pending);
        break;
    case ZK_SET:
        rc = zoo_aset(link->handle, call->path, bytes, len, call->version, on_stat, pending);
        break;
    case ZK_LIST:
        rc = zoo_aget_children(link->handle, call->path, watch, on_strings, pending);
        break;
    case ZK_ACL:
        rc = zoo_aget_acl(link->handle, call->path, on_acl, pending);
        break;
    }
    if (rc == ZOK) {
        return 0;
    }
    return rc == ZBADARGUMENTS || rc == ZINVALIDSTATE ? ERR_CLOSED : ERR_IO;
}

/*
 * The library's last words. Its log callback has no context, so this is one buffer per process
 * (Z-17: there should be one handle per process as well).
 */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_line[256];

static void on_log(const char *line)
{
    // "2026-01-01 00:00:00,000:12(0x34):ZOO_ERROR@function@3022: text": people want the text.
    const char *place = strstr(line, "ZOO_");
    const char *end = place == NULL ? NULL : strstr(place, ": ");
    const char *text = end == NULL ? place : end + 2;
    size_t len = strcspn(text == NULL ? line : text, "\n");

    if (len >= sizeof(log_line)) {
        len = sizeof(log_line) - 1;
    }
    REQUIRE(pthread_mutex_lock(&log_lock) == 0);
    memcpy(log_line, text == NULL ? line : text, len);
    log_line[len] = '\0';
    REQUIRE(pthread_mutex_unlock(&log_lock) == 0);
}

bool zk_link_take_log(char *out, size_t size)
{
    size_t len;

    REQUIRE(size >= 1);
    REQUIRE(pthread_mutex_lock(&log_lock) == 0);
    len = strnlen(log_line, size - 1);
    memcpy(out, log_line, len);
    out[len] = '\0';
    log_line[0] = '\0';
    REQUIRE(pthread_mutex_unlock(&log_lock) == 0);
    return len > 0;
}

/* The library says it anew to each server that it connects to, before anything else. The digest
 * scheme takes any password: a wrong one shows when an ACL refuses it. */
static void add_auth(struct zk_link *link)
{
    if (link->auth != NULL && zoo_add_auth(link->handle, "digest", link->auth,
                                           (int)strlen(link->auth), NULL, NULL) != ZOK) {
        (void)zookeeper_close(link->handle); // As one that could not be made: tried again later.
        link->handle = NULL;
    }
}

static void make_handle(struct zk_link *link)
{
    if (zk_hosts_resolve(link->hosts, &link->addresses) != 0) {
        return;
    }
    zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
    link->handle = zookeeper_init2(link->addresses, on_watcher, (int)link->session_timeout_ms, NULL,
                                   link, ZOO_NO_LOG_CLIENTENV, on_log);
    if (link->handle != NULL) {
        (void)zoo_set_servers_resolution_delay(link->handle, RESOLUTION_NEVER);
        add_auth(link);
    }
}

void *zk_library_open(void *ctx)
{
    struct zk_link *link = ctx;
    sigset_t all;

    // Inherited by the library's threads: signals are for the loop's thread.
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
    make_handle(link);
    REQUIRE(mailbox_send(link->mailbox, &link->helper_message.node) == 0);
    return NULL;
}

void *zk_library_resolve(void *ctx)
{
    struct zk_link *link = ctx;
    char *addresses;

    if (zk_hosts_resolve(link->hosts, &addresses) == 0) {
        if (strcmp(addresses, link->addresses) != 0) {
            (void)zoo_set_servers(link->handle, addresses);
        }
        mem_free(link->addresses);
        link->addresses = addresses;
    }
    REQUIRE(mailbox_send(link->mailbox, &link->helper_message.node) == 0);
    return NULL;
}

void *zk_library_close(void *ctx)
{
    struct zk_link *link = ctx;

    (void)zookeeper_close(link->handle); // Frees the handle whatever it returns.
    REQUIRE(mailbox_send(link->mailbox, &link->helper_message.node) == 0);
    return NULL;
}
