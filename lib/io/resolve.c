/* SPDX-License-Identifier: Apache-2.0
 *
 * The resolver over c-ares, whose sockets and timers hang on the loop: one name server that does
 * not answer holds up nobody else. One look-up serves everyone who asks for the same name; finished
 * ones are the cache.
 */
#include "lib/io/resolve.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"

#include <ares.h>

#include <string.h>

#include <sys/time.h>

/* Longest host name of the DNS, and its NUL. */
#define RESOLVE_HOST_BYTES 254U

/* Addresses kept of one name: more would be a load balancer's business, not ours. */
#define RESOLVE_ADDRESSES_MAX 32U

/* One query to one server, and how often it is sent: well below the time-out of a look-up. */
#define RESOLVE_QUERY_MS    1500
#define RESOLVE_QUERY_TRIES 2

/* An answer this young is fresh enough for those who want a fresh one, so that a dead target with
 * many callers is not a storm on the name server. */
#define RESOLVE_FRESH_MS 1000

/*
 * One name.
 *
 * 1. is_running: c-ares will call back once. waiting may be empty (they timed out or cancelled).
 * 2. Not running: err, count and addresses are the result, good until expires_us.
 */
struct lookup {
    struct list node;    /* in the resolver's lookups, latest result last */
    struct list waiting; /* requests */
    struct resolver *resolver;
    struct loop_timer timeout;
    struct address addresses[RESOLVE_ADDRESSES_MAX];
    size_t count;
    int err;
    boot_us asked_us;   /* when the last query was sent */
    boot_us expires_us; /* when the result is forgotten */
    bool is_running;
    bool is_answered; /* is_running is over for those who wait: deliver */
    bool is_pinned;   /* in delivery: must not be evicted */
    char host[RESOLVE_HOST_BYTES];
};

/* A socket of c-ares. */
struct query_socket {
    struct list node;
    struct resolver *resolver;
    struct loop_fd watcher;
};

struct resolver {
    struct loop *loop;
    struct resolver_options options;
    ares_channel channel;
    struct loop_timer query_timer;
    struct loop_task deliver;
    struct list lookups;
    struct list done; /* numeric and cancelled requests, to be delivered */
    struct list sockets;
    uint32_t running_count;
    uint32_t lookup_count;
    uint32_t request_count; /* whose callback has not begun */
    bool is_closing;
};

void resolver_options_init(struct resolver_options *options)
{
    *options = (struct resolver_options){
        .outstanding_max = 256,
        .cache_max = 1024,
        .timeout_ms = 5000,
        .positive_ms = 30000,
        .negative_ms = 3000,
        .servers = NULL,
    };
}

/* ---- delivery ---- */

static void give(struct resolver *resolver, struct resolve_request *request, int err,
                 const struct address *addresses, size_t count)
{
    struct address with_port[RESOLVE_ADDRESSES_MAX];

    for (size_t i = 0; i < count; i++) {
        with_port[i] = addresses[i];
        if (with_port[i].socket.any.sa_family == AF_INET6) {
            with_port[i].socket.v6.sin6_port = htons(request->port);
        } else {
            with_port[i].socket.v4.sin_port = htons(request->port);
        }
    }
    resolver->request_count--;
    request->cb(request, err, with_port, count, request->ctx);
}

static void give_done(struct resolver *resolver, struct resolve_request *request)
{
    struct address address;

    if (request->err == 0) { // Numeric: that it parses was seen when it was asked for.
        REQUIRE(address_parse(request->host, request->port, &address) == 0);
        give(resolver, request, 0, &address, 1);
    } else {
        give(resolver, request, request->err, NULL, 0);
    }
}

static void give_lookup(struct resolver *resolver, struct lookup *lookup)
{
    struct list batch;
    struct list *first;

    list_init(&batch);
    list_move_all(&batch, &lookup->waiting);
    lookup->is_answered = false;
    while ((first = list_take_first(&batch)) != NULL) {
        give(resolver, LIST_ENTRY(first, struct resolve_request, node), lookup->err,
             lookup->addresses, lookup->count);
    }
}

/* The next look-up with an answer for someone, or NULL. */
static struct lookup *next_answered(struct resolver *resolver)
{
    list_foreach (node, &resolver->lookups) {
        struct lookup *lookup = LIST_ENTRY(node, struct lookup, node);

        if (lookup->is_answered) {
            return lookup;
        }
    }
    return NULL;
}

static void on_deliver(void *ctx)
{
    struct resolver *resolver = ctx;
    struct list batch;
    struct list *first;
    struct lookup *lookup;

    list_init(&batch);
    list_move_all(&batch, &resolver->done);
    while ((first = list_take_first(&batch)) != NULL) {
        give_done(resolver, LIST_ENTRY(first, struct resolve_request, node));
    }
    while ((lookup = next_answered(resolver)) != NULL) {
        lookup->is_pinned = true;
        give_lookup(resolver, lookup);
        lookup->is_pinned = false;
    }
}

static void answer(struct lookup *lookup)
{
    lookup->is_answered = true;
    loop_post(lookup->resolver->loop, &lookup->resolver->deliver);
}

static void finish(struct resolver *resolver, struct resolve_request *request, int err)
{
    request->err = err;
    list_add(&resolver->done, &request->node);
    loop_post(resolver->loop, &resolver->deliver);
}

/* ---- look-ups ---- */

static void free_lookup(struct lookup *lookup)
{
    REQUIRE(list_is_empty(&lookup->waiting) && !lookup->is_running);
    list_del(&lookup->node);
    loop_timer_stop(&lookup->timeout);
    lookup->resolver->lookup_count--;
    mem_free(lookup);
}

static struct lookup *find_lookup(struct resolver *resolver, const char *host)
{
    list_foreach (node, &resolver->lookups) {
        struct lookup *lookup = LIST_ENTRY(node, struct lookup, node);

        if (strcmp(lookup->host, host) == 0) {
            return lookup;
        }
    }
    return NULL;
}

/* Make room for one more name by forgetting the oldest that nobody needs. */
static bool make_room(struct resolver *resolver)
{
    if (resolver->lookup_count < resolver->options.cache_max) {
        return true;
    }
    list_foreach (node, &resolver->lookups) {
        struct lookup *lookup = LIST_ENTRY(node, struct lookup, node);

        if (!lookup->is_running && !lookup->is_pinned && list_is_empty(&lookup->waiting)) {
            free_lookup(lookup);
            return true;
        }
    }
    return false;
}

/* The name server is too slow: those who wait are told, the query runs out by itself. */
static void on_timeout(struct loop_timer *timer, void *ctx)
{
    struct lookup *lookup = ctx;

    (void)timer;
    lookup->err = ERR_TIMEOUT;
    lookup->count = 0;
    lookup->expires_us = time_add(loop_now_us(lookup->resolver->loop),
                                  time_mul(lookup->resolver->options.negative_ms, US_PER_MS));
    answer(lookup);
}

static int error_of(int status)
{
    switch (status) {
    case ARES_SUCCESS:
        return 0;
    case ARES_ENODATA:
    case ARES_ENOTFOUND:
    case ARES_EBADNAME:
    case ARES_ENONAME:
        return ERR_NOT_FOUND;
    case ARES_ETIMEOUT:
        return ERR_TIMEOUT;
    case ARES_ENOMEM:
        return ERR_NO_MEMORY;
    default:
        return ERR_UNAVAILABLE;
    }
}

static void keep_addresses(struct lookup *lookup, const struct ares_addrinfo *result)
{
    lookup->count = 0;
    for (const struct ares_addrinfo_node *node = result->nodes;
         node != NULL && lookup->count < RESOLVE_ADDRESSES_MAX; node = node->ai_next) {
        struct address address;

        if (address_from_socket(node->ai_addr, (socklen_t)node->ai_addrlen, &address) == 0) {
            lookup->addresses[lookup->count++] = address;
        }
    }
}

/* c-ares is done with a name; this may come from inside ares_getaddrinfo. */
static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *result)
{
    struct lookup *lookup = arg;
    struct resolver *resolver = lookup->resolver;
    span_ms kept_ms;

    (void)timeouts;
    lookup->is_running = false;
    resolver->running_count--;
    loop_timer_stop(&lookup->timeout);
    lookup->err = error_of(status);
    lookup->count = 0;
    if (result != NULL) {
        keep_addresses(lookup, result);
        ares_freeaddrinfo(result);
    }
    if (lookup->err == 0 && lookup->count == 0) {
        lookup->err = ERR_NOT_FOUND;
    }
    if (resolver->is_closing) {
        return;
    }
    kept_ms = lookup->err == 0 ? resolver->options.positive_ms : resolver->options.negative_ms;
    lookup->expires_us = time_add(loop_now_us(resolver->loop), time_mul(kept_ms, US_PER_MS));
    list_del(&lookup->node);
    list_add(&resolver->lookups, &lookup->node);
    answer(lookup);
}

static void update_query_timer(struct resolver *resolver)
{
    struct timeval wait;

    if (ares_timeout(resolver->channel, NULL, &wait) == NULL) {
        loop_timer_stop(&resolver->query_timer);
        return;
    }
    loop_timer_start(&resolver->query_timer,
                     loop_now_us(resolver->loop) + wait.tv_sec * US_PER_S + wait.tv_usec);
}

static void start_timeout(struct resolver *resolver, struct lookup *lookup)
{
    if (!lookup->timeout.is_started) {
        loop_timer_start_in(&lookup->timeout, resolver->options.timeout_ms);
    }
}

static void start_query(struct resolver *resolver, struct lookup *lookup)
{
    struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_flags = ARES_AI_NOSORT};

    lookup->is_running = true;
    lookup->asked_us = loop_now_us(resolver->loop);
    resolver->running_count++;
    start_timeout(resolver, lookup);
    ares_getaddrinfo(resolver->channel, lookup->host, NULL, &hints, on_answer, lookup);
    update_query_timer(resolver);
}

static struct lookup *new_lookup(struct resolver *resolver, const char *host)
{
    struct lookup *lookup = make_room(resolver) ? mem_new(1, sizeof(*lookup)) : NULL;

    if (lookup == NULL) {
        return NULL;
    }
    memcpy(lookup->host, host, strlen(host) + 1);
    lookup->resolver = resolver;
    list_init(&lookup->waiting);
    list_init(&lookup->node);
    list_add(&resolver->lookups, &lookup->node);
    loop_timer_init(&lookup->timeout, resolver->loop, on_timeout, lookup);
    resolver->lookup_count++;
    return lookup;
}

/* Can this result answer a request now? */
static bool is_good(const struct lookup *lookup, bool is_fresh, boot_us now_us)
{
    if (now_us >= lookup->expires_us) {
        return false;
    }
    return !is_fresh || lookup->err != 0 ||
           now_us < time_add(lookup->asked_us, RESOLVE_FRESH_MS * US_PER_MS);
}

int resolver_find(struct resolver *resolver, struct resolve_request *request)
{
    struct address numeric;
    struct lookup *lookup;

    if (request->host[0] == '\0' || strlen(request->host) >= RESOLVE_HOST_BYTES) {
        return ERR_INVALID;
    }
    list_init(&request->node);
    request->lookup = NULL;
    if (address_parse(request->host, request->port, &numeric) == 0) {
        resolver->request_count++;
        finish(resolver, request, 0);
        return 0;
    }
    lookup = find_lookup(resolver, request->host);
    if (lookup != NULL && is_good(lookup, request->is_fresh, loop_now_us(resolver->loop))) {
        answer(lookup);
    } else if (lookup == NULL || !lookup->is_running) {
        if (resolver->running_count >= resolver->options.outstanding_max) {
            return ERR_FULL;
        }
        lookup = lookup == NULL ? new_lookup(resolver, request->host) : lookup;
        if (lookup == NULL) {
            return ERR_FULL;
        }
        start_query(resolver, lookup);
    } else { // Its query runs, perhaps on behalf of requests that have timed out.
        start_timeout(resolver, lookup);
    }
    request->lookup = lookup;
    list_add(&lookup->waiting, &request->node);
    resolver->request_count++;
    return 0;
}

void resolver_cancel(struct resolver *resolver, struct resolve_request *request)
{
    if (request->lookup == NULL) { // Numeric or cancelled: on its way already.
        return;
    }
    list_del(&request->node);
    request->lookup = NULL;
    finish(resolver, request, ERR_CANCELLED);
}

/* ---- c-ares on the loop ---- */

static void on_socket_ready(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    struct query_socket *socket = ctx;
    struct resolver *resolver = socket->resolver;
    ares_socket_t fd = watcher->fd;

    ares_process_fd(resolver->channel, (ready & LOOP_READ) != 0 ? fd : ARES_SOCKET_BAD,
                    (ready & LOOP_WRITE) != 0 ? fd : ARES_SOCKET_BAD);
    update_query_timer(resolver);
}

static void on_query_timer(struct loop_timer *timer, void *ctx)
{
    struct resolver *resolver = ctx;

    (void)timer;
    ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    update_query_timer(resolver);
}

static struct query_socket *find_socket(struct resolver *resolver, ares_socket_t fd)
{
    list_foreach (node, &resolver->sockets) {
        struct query_socket *socket = LIST_ENTRY(node, struct query_socket, node);

        if (socket->watcher.fd == fd) {
            return socket;
        }
    }
    return NULL;
}

static struct query_socket *new_socket(struct resolver *resolver, ares_socket_t fd)
{
    struct query_socket *socket = mem_new(1, sizeof(*socket));

    if (socket == NULL) {
        return NULL;
    }
    if (loop_fd_init(&socket->watcher, resolver->loop, fd, on_socket_ready, socket) != 0) {
        mem_free(socket);
        return NULL;
    }
    socket->resolver = resolver;
    list_init(&socket->node);
    list_add(&resolver->sockets, &socket->node);
    return socket;
}

/* c-ares says what it wants to know of a socket; nothing: it is about to close it. */
static void on_socket_state(void *data, ares_socket_t fd, int readable, int writable)
{
    struct resolver *resolver = data;
    struct query_socket *socket = find_socket(resolver, fd);

    if (!readable && !writable) {
        if (socket != NULL) {
            loop_fd_fini(&socket->watcher);
            list_del(&socket->node);
            mem_free(socket);
        }
        return;
    }
    if (socket == NULL) {
        socket = new_socket(resolver, fd);
    }
    if (socket != NULL) { // Out of memory: the query times out.
        loop_fd_set(&socket->watcher, (readable ? LOOP_READ : 0) | (writable ? LOOP_WRITE : 0));
    }
}

static int open_channel(struct resolver *resolver)
{
    struct ares_options options;
    int mask = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;

    memset(&options, 0, sizeof(options));
    options.timeout = RESOLVE_QUERY_MS;
    options.tries = RESOLVE_QUERY_TRIES;
    options.sock_state_cb = on_socket_state;
    options.sock_state_cb_data = resolver;
    if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
        return ERR_IO;
    }
    if (ares_init_options(&resolver->channel, &options, mask) != ARES_SUCCESS) {
        ares_library_cleanup();
        return ERR_IO;
    }
    if (resolver->options.servers != NULL &&
        ares_set_servers_ports_csv(resolver->channel, resolver->options.servers) != ARES_SUCCESS) {
        ares_destroy(resolver->channel);
        ares_library_cleanup();
        return ERR_INVALID;
    }
    return 0;
}

int resolver_open(struct loop *loop, const struct resolver_options *options, struct resolver **out)
{
    struct resolver *resolver = mem_new(1, sizeof(*resolver));
    int err;

    if (resolver == NULL) {
        return ERR_NO_MEMORY;
    }
    resolver->loop = loop;
    resolver->options = *options;
    list_init(&resolver->lookups);
    list_init(&resolver->done);
    list_init(&resolver->sockets);
    loop_task_init(&resolver->deliver, on_deliver, resolver);
    loop_timer_init(&resolver->query_timer, loop, on_query_timer, resolver);
    err = open_channel(resolver);
    if (err != 0) {
        mem_free(resolver);
        return err;
    }
    resolver->options.servers = NULL; // Borrowed for this call only.
    *out = resolver;
    return 0;
}

void resolver_close(struct resolver *resolver)
{
    struct list *first;

    REQUIRE(resolver->request_count == 0);
    resolver->is_closing = true;
    ares_destroy(resolver->channel); // Calls back for what still runs.
    ares_library_cleanup();
    while ((first = list_first(&resolver->lookups)) != NULL) {
        free_lookup(LIST_ENTRY(first, struct lookup, node));
    }
    loop_timer_stop(&resolver->query_timer);
    loop_unpost(&resolver->deliver);
    mem_free(resolver);
}
