/* SPDX-License-Identifier: Apache-2.0
 *
 * Relay of PostgreSQL's protocol, version 3: a first message without type, then type, length, body.
 */
#include "tests/lib/pg_proxy.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "tests/lib/must.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE_BYTES_MAX (64 * 1024 * 1024)

struct relay {
    struct list link;
    struct pg_proxy *proxy;
    struct loop_fd client; /* fd −1 once closed */
    struct loop_fd server;
    struct buf input; /* from the client, not forwarded */
    bool is_started;  /* the startup message has passed */
    bool is_writing;  /* a write has begun */
    bool is_held;
    bool is_muted;
    bool has_greeted; /* the server has said which backend it is */
};

struct pg_proxy {
    struct loop *loop;
    struct sockaddr_in target;
    struct loop_fd listener;
    unsigned port;
    struct list relays;
    enum pg_proxy_hold hold;
    struct relay *held;
    bool is_deaf;
    bool is_pooling;
};

static void end_close(struct loop_fd *end)
{
    if (end->fd >= 0) {
        loop_fd_fini(end);
        (void)close(end->fd);
        end->fd = -1;
    }
}

static void relay_free(struct relay *relay)
{
    end_close(&relay->client);
    end_close(&relay->server);
    if (relay->proxy->held == relay) {
        relay->proxy->held = NULL;
    }
    list_del(&relay->link);
    buf_fini(&relay->input);
    mem_free(relay);
}

static void put(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);

        if (sent < 0) {
            return; // The other side's end is noticed when it is read.
        }
        bytes += sent;
        len -= (size_t)sent;
    }
}

/* Length of the first message in the buffer, 0 if it is not whole. */
static size_t message_len(const struct relay *relay)
{
    struct slice input = buf_slice(&relay->input);
    size_t type = relay->is_started ? 1 : 0;
    uint32_t len;

    if (input.len < type + 4) {
        return 0;
    }
    memcpy(&len, input.data + type, 4);
    len = ntohl(len);
    return input.len >= type + len ? type + len : 0;
}

/* True if the message binds the prepared statement of that name. */
static bool binds(const uint8_t *message, size_t len, const char *name)
{
    const uint8_t *portal = message + 5;
    size_t portal_len = message[0] == 'B' && len > 6 ? strnlen((const char *)portal, len - 5) : 0;

    return message[0] == 'B' && 5 + portal_len + 1 < len &&
           strcmp((const char *)portal + portal_len + 1, name) == 0;
}

/* Decide on one message of a write: true if it is where to stop. */
static bool is_place(struct relay *relay, const uint8_t *message, size_t len)
{
    enum pg_proxy_hold hold = relay->proxy->hold;

    if (binds(message, len, "begin")) {
        relay->is_writing = true;
    }
    if (!relay->is_writing) {
        return false;
    }
    if (binds(message, len, "commit")) {
        if (hold == PG_PROXY_MUTE_COMMIT) {
            relay->is_muted = true;
            relay->proxy->held = relay;
            relay->proxy->hold = PG_PROXY_PASS;
        }
        relay->is_writing = hold == PG_PROXY_HOLD_COMMIT;
        return hold == PG_PROXY_HOLD_COMMIT;
    }
    return message[0] == 'S' && hold == PG_PROXY_HOLD_SYNC;
}

static void forward(struct relay *relay)
{
    size_t len;

    while (!relay->is_held && (len = message_len(relay)) > 0) {
        const uint8_t *message = buf_slice(&relay->input).data;

        if (relay->is_started && is_place(relay, message, len)) {
            relay->is_held = true;
            relay->proxy->held = relay;
            relay->proxy->hold = PG_PROXY_PASS;
            return;
        }
        put(relay->server.fd, message, len);
        relay->is_started = true;
        buf_consume(&relay->input, len);
    }
}

static void on_client(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    struct relay *relay = ctx;
    static uint8_t bytes[65536];
    ssize_t len = recv(watcher->fd, bytes, sizeof(bytes), 0);

    (void)ready;
    if (len > 0) {
        MUST_OK(buf_append(&relay->input, bytes, (size_t)len));
        forward(relay);
    } else if (relay->is_held || relay->is_muted) {
        // Gone, but what it has sent may still arrive.
        end_close(watcher);
    } else {
        relay_free(relay);
    }
}

/* Another number for the backend, in the server's message BackendKeyData: key, 12, number, secret.
 */
static void hide_backend(struct relay *relay, uint8_t *bytes, size_t len)
{
    static const uint8_t key[] = {'K', 0, 0, 0, 12};

    for (size_t i = 0; !relay->has_greeted && i + 13 <= len; i++) {
        if (memcmp(bytes + i, key, sizeof(key)) == 0) {
            relay->has_greeted = true;
            bytes[i + 8] ^= 1;
        }
    }
}

static void on_server(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    struct relay *relay = ctx;
    static uint8_t bytes[65536];
    ssize_t len = recv(watcher->fd, bytes, sizeof(bytes), 0);

    (void)ready;
    if (len > 0 && relay->proxy->is_pooling) {
        hide_backend(relay, bytes, (size_t)len);
    }
    if (len <= 0) {
        relay_free(relay);
    } else if (!relay->is_muted && relay->client.fd >= 0) {
        put(relay->client.fd, bytes, (size_t)len);
    }
}

static void on_accept(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    struct pg_proxy *proxy = ctx;
    struct relay *relay = mem_new(1, sizeof(*relay));
    int one = 1;
    int client = accept(watcher->fd, NULL, NULL);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)ready;
    MUST(relay != NULL && client >= 0 && server >= 0);
    // A server that a test starts must not keep the connection open.
    (void)fcntl(client, F_SETFD, FD_CLOEXEC);
    if (connect(server, (const struct sockaddr *)&proxy->target, sizeof(proxy->target)) != 0) {
        // The server is down, and so are we.
        (void)close(client);
        (void)close(server);
        mem_free(relay);
        return;
    }
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    relay->proxy = proxy;
    buf_init(&relay->input, MESSAGE_BYTES_MAX);
    list_add(&proxy->relays, &relay->link);
    MUST_OK(loop_fd_init(&relay->client, proxy->loop, client, on_client, relay));
    MUST_OK(loop_fd_init(&relay->server, proxy->loop, server, on_server, relay));
    loop_fd_set(&relay->client, proxy->is_deaf ? 0 : LOOP_READ);
    loop_fd_set(&relay->server, proxy->is_deaf ? 0 : LOOP_READ);
}

void pg_proxy_set_target(struct pg_proxy *proxy, const char *target)
{
    proxy->target = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)strtoul(strchr(target, ':') + 1, NULL, 10)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
}

struct pg_proxy *pg_proxy_open(struct loop *loop, const char *target)
{
    struct pg_proxy *proxy = mem_new(1, sizeof(*proxy));
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    MUST(proxy != NULL && fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUST(bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
    MUST(listen(fd, 64) == 0);
    MUST(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    proxy->loop = loop;
    proxy->port = ntohs(address.sin_port);
    pg_proxy_set_target(proxy, target);
    proxy->hold = PG_PROXY_PASS;
    list_init(&proxy->relays);
    MUST_OK(loop_fd_init(&proxy->listener, loop, fd, on_accept, proxy));
    loop_fd_set(&proxy->listener, LOOP_READ);
    return proxy;
}

unsigned pg_proxy_port(const struct pg_proxy *proxy)
{
    return proxy->port;
}

void pg_proxy_arm(struct pg_proxy *proxy, enum pg_proxy_hold hold)
{
    MUST(proxy->held == NULL);
    proxy->hold = hold;
}

bool pg_proxy_is_held(const struct pg_proxy *proxy)
{
    return proxy->held != NULL;
}

void pg_proxy_release(struct pg_proxy *proxy)
{
    struct relay *relay = proxy->held;

    if (relay == NULL) {
        return; // The server has ended it meanwhile.
    }
    proxy->held = NULL;
    relay->is_held = false;
    relay->is_writing = false;
    forward(relay);
}

void pg_proxy_cut(struct pg_proxy *proxy)
{
    if (proxy->held != NULL) {
        relay_free(proxy->held);
    }
}

void pg_proxy_set_up(struct pg_proxy *proxy, bool is_up)
{
    struct list *node;

    loop_fd_set(&proxy->listener, is_up ? LOOP_READ : 0);
    while (!is_up && (node = list_first(&proxy->relays)) != NULL) {
        relay_free(LIST_ENTRY(node, struct relay, link));
    }
}

void pg_proxy_set_deaf(struct pg_proxy *proxy, bool is_deaf)
{
    proxy->is_deaf = is_deaf;
    for (struct list *node = proxy->relays.next; node != &proxy->relays; node = node->next) {
        struct relay *relay = LIST_ENTRY(node, struct relay, link);

        MUST(relay->client.fd >= 0 && relay->server.fd >= 0);
        loop_fd_set(&relay->client, is_deaf ? 0 : LOOP_READ);
        loop_fd_set(&relay->server, is_deaf ? 0 : LOOP_READ);
    }
}

void pg_proxy_set_pooling(struct pg_proxy *proxy, bool is_pooling)
{
    proxy->is_pooling = is_pooling;
}

void pg_proxy_close(struct pg_proxy *proxy)
{
    pg_proxy_set_up(proxy, false);
    end_close(&proxy->listener);
    mem_free(proxy);
}
