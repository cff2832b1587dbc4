/* SPDX-License-Identifier: Apache-2.0
 *
 * libmicrohttpd in its own thread. Between it and the loop there is one mutex, held for a copy of
 * pointers and small texts only. POSTs are taken in admin_desk.c.
 */
#include "broker/admin/admin.h"

#include "broker/admin/admin_desk.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <microhttpd.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define CONNECTIONS_MAX      256
#define CONNECTION_BYTES_MAX 16384
#define MISSING_BYTES_MAX    1024

#define OK_LINE "ok\n"

#define TYPE_TEXT    "text/plain; charset=utf-8"
#define TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8"

/* A text that answers may still be reading: freed by the last one. */
struct page {
    atomic_int uses;
    size_t len;
    char text[];
};

struct admin {
    struct admin_options options;
    struct MHD_Daemon *daemon;
    struct admin_desk desk;
    _Atomic boot_us beat_us; /* when the loop last turned */
    span_ms stuck_ms;        /* written before is_watched, read behind it */
    atomic_bool is_watched;
    pthread_mutex_t mutex; /* for what is below */
    struct page *metrics;
    bool has_started; /* has been ready */
    bool is_ready;
    char missing[MISSING_BYTES_MAX];
};

/* ---- pages ---- */

static void release_page(void *ctx)
{
    struct page *page = ctx;

    if (atomic_fetch_sub(&page->uses, 1) == 1) {
        mem_free(page);
    }
}

static struct page *new_page(struct slice text)
{
    struct page *page = mem_new(1, sizeof(*page) + text.len + 1);

    if (page != NULL) {
        atomic_init(&page->uses, 1);
        page->len = text.len;
        if (text.len > 0) {
            memcpy(page->text, text.data, text.len);
        }
    }
    return page;
}

/* ---- the loop's side ---- */

void admin_beat(struct admin *admin, boot_us now_us)
{
    atomic_store_explicit(&admin->beat_us, now_us, memory_order_relaxed);
}

void admin_watch(struct admin *admin, span_ms stuck_ms)
{
    admin->stuck_ms = stuck_ms;
    admin_beat(admin, admin->options.clock_us());
    atomic_store(&admin->is_watched, true);
}

void admin_set_ready(struct admin *admin, bool is_ready, const char *missing)
{
    (void)pthread_mutex_lock(&admin->mutex);
    admin->has_started = admin->has_started || is_ready;
    admin->is_ready = is_ready;
    (void)snprintf(admin->missing, sizeof(admin->missing), "%s", missing);
    (void)pthread_mutex_unlock(&admin->mutex);
}

void admin_publish(struct admin *admin, struct slice metrics)
{
    struct page *page = new_page(metrics);
    struct page *old;

    if (page == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&admin->mutex);
    old = admin->metrics;
    admin->metrics = page;
    (void)pthread_mutex_unlock(&admin->mutex);
    release_page(old);
}

void admin_set_posts(struct admin *admin, const struct admin_posts *posts)
{
    atomic_store(&admin->desk.posts, posts);
}

/* ---- the thread's side ---- */

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status, const char *type,
                               struct MHD_Response *response)
{
    enum MHD_Result result;

    if (response == NULL) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    (void)MHD_add_response_header(response, "Keep-Alive", ADMIN_KEEP_ALIVE);
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result respond_text(struct MHD_Connection *connection, unsigned status,
                                    const char *text)
{
    char copy[MISSING_BYTES_MAX + sizeof(OK_LINE)];

    (void)snprintf(copy, sizeof(copy), "%s", text);
    return respond(connection, status, TYPE_TEXT,
                   MHD_create_response_from_buffer(strlen(copy), copy, MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result show_metrics(struct admin *admin, struct MHD_Connection *connection)
{
    struct page *page;
    struct MHD_Response *response;

    (void)pthread_mutex_lock(&admin->mutex);
    page = admin->metrics;
    (void)atomic_fetch_add(&page->uses, 1);
    (void)pthread_mutex_unlock(&admin->mutex);
    response = MHD_create_response_from_buffer_with_free_callback_cls(page->len, page->text,
                                                                      release_page, page);
    if (response == NULL) {
        release_page(page);
        return MHD_NO;
    }
    return respond(connection, MHD_HTTP_OK, TYPE_METRICS, response);
}

static enum MHD_Result show_live(struct admin *admin, struct MHD_Connection *connection)
{
    boot_us silent_us =
        admin->options.clock_us() - atomic_load_explicit(&admin->beat_us, memory_order_relaxed);

    if (atomic_load(&admin->is_watched) && silent_us > admin->stuck_ms * US_PER_MS) {
        return respond_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                            "the event loop does not turn\n");
    }
    return respond_text(connection, MHD_HTTP_OK, OK_LINE);
}

static enum MHD_Result show_ready(struct admin *admin, struct MHD_Connection *connection)
{
    char text[sizeof(OK_LINE) + MISSING_BYTES_MAX];
    bool is_ready;

    (void)pthread_mutex_lock(&admin->mutex);
    is_ready = admin->is_ready;
    (void)snprintf(text, sizeof(text), "%s%s", is_ready ? OK_LINE : "", admin->missing);
    (void)pthread_mutex_unlock(&admin->mutex);
    return respond_text(connection, is_ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, text);
}

static enum MHD_Result show_started(struct admin *admin, struct MHD_Connection *connection)
{
    char text[MISSING_BYTES_MAX];
    bool has_started;

    (void)pthread_mutex_lock(&admin->mutex);
    has_started = admin->has_started;
    (void)snprintf(text, sizeof(text), "%s", has_started ? OK_LINE : admin->missing);
    (void)pthread_mutex_unlock(&admin->mutex);
    return respond_text(connection, has_started ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, text);
}

struct page_row {
    const char *path;
    enum MHD_Result (*show)(struct admin *admin, struct MHD_Connection *connection);
};

static const struct page_row PAGES[] = {
    {"/metrics", show_metrics},
    {"/livez", show_live},
    {"/readyz", show_ready},
    {"/startupz", show_started},
};

static const struct page_row *find_page(const char *path)
{
    for (size_t i = 0; i < ARRAY_COUNT(PAGES); i++) {
        if (strcmp(path, PAGES[i].path) == 0) {
            return &PAGES[i];
        }
    }
    return NULL;
}

static enum MHD_Result take_post(struct admin *admin, struct MHD_Connection *connection,
                                 const char *path, struct slice chunk, void **state)
{
    if (*state == NULL && atomic_load(&admin->desk.posts) == NULL) {
        return respond_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                            "calls are not taken here, or not yet: see /readyz and the setting "
                            "admin.json\n");
    }
    return admin_desk_take(&admin->desk, connection, path, chunk, state);
}

/* All but POSTs are answered at the first call; their bodies are refused by not being read. */
// NOLINTNEXTLINE(readability-function-size): microhttpd gives the parameters
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_len, void **state)
{
    struct slice chunk = {(const uint8_t *)body, *body_len};

    bool is_post = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
    const struct page_row *page = find_page(url);

    (void)version;
    *body_len = 0; // It is taken, or dropped.
    if (is_post && page == NULL) {
        return take_post(ctx, connection, url, chunk, state);
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return respond_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                            "pages are read by GET or HEAD; methods like "
                            "/foliot.v1.TaskService/Create are called by POST\n");
    }
    if (page != NULL) {
        return page->show(ctx, connection);
    }
    return respond_text(connection, MHD_HTTP_NOT_FOUND,
                        "not found; there are /metrics, /livez, /readyz, /startupz; methods like "
                        "/foliot.v1.TaskService/Create are called by POST\n");
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct admin *admin = ctx;

    (void)connection;
    (void)code;
    if (*state != NULL) {
        admin_desk_end(&admin->desk, *state);
        *state = NULL;
    }
}

/* ---- life ---- */

static int listen_error(int number)
{
    switch (number) {
    case EADDRINUSE:
        return ERR_EXISTS;
    case EACCES:
        return ERR_DENIED;
    case EADDRNOTAVAIL:
        return ERR_INVALID;
    default:
        return ERR_IO;
    }
}

static int start_daemon(struct admin *admin)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.any = {0}};
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    unsigned v6_flag = 0;

    if (inet_pton(AF_INET, admin->options.host, &address.v4.sin_addr) == 1) {
        address.v4.sin_family = AF_INET;
        address.v4.sin_port = htons(admin->options.port);
    } else if (inet_pton(AF_INET6, admin->options.host, &address.v6.sin6_addr) == 1) {
        address.v6.sin6_family = AF_INET6;
        address.v6.sin6_port = htons(admin->options.port);
        v6_flag = MHD_USE_IPv6;
    } else {
        return ERR_INVALID;
    }
    admin->daemon = MHD_start_daemon(
        flags | v6_flag, 0, NULL, NULL, on_request, admin, MHD_OPTION_SOCK_ADDR, &address.any,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)ADMIN_TIMEOUT_S, MHD_OPTION_NOTIFY_COMPLETED, on_completed, admin,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES_MAX, MHD_OPTION_END);
    return admin->daemon == NULL ? listen_error(errno) : 0;
}

int admin_open(const struct admin_options *options, struct admin **out)
{
    struct admin *admin = mem_new(1, sizeof(*admin));
    int err = ERR_NO_MEMORY;

    if (admin == NULL) {
        return ERR_NO_MEMORY;
    }
    admin->options = *options;
    admin->desk.clock_us = options->clock_us;
    (void)snprintf(admin->missing, sizeof(admin->missing), "starting\n");
    if (pthread_mutex_init(&admin->mutex, NULL) != 0) {
        goto fail;
    }
    admin->metrics = new_page(slice_of(""));
    if (admin->metrics == NULL) {
        goto fail_after_mutex;
    }
    err = start_daemon(admin);
    if (err != 0) {
        goto fail_after_page;
    }
    *out = admin;
    return 0;

fail_after_page:
    release_page(admin->metrics);
fail_after_mutex:
    (void)pthread_mutex_destroy(&admin->mutex);
fail:
    mem_free(admin);
    return err;
}

uint16_t admin_port(const struct admin *admin)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(admin->daemon, MHD_DAEMON_INFO_BIND_PORT);

    REQUIRE(info != NULL);
    return info->port;
}

void admin_close(struct admin *admin)
{
    MHD_stop_daemon(admin->daemon);
    release_page(admin->metrics);
    (void)pthread_mutex_destroy(&admin->mutex);
    mem_free(admin);
}
