/* SPDX-License-Identifier: Apache-2.0
 *
 * The relay: one thread, one poll, blocking writes (peers in tests read).
 */
#define _GNU_SOURCE // accept4
#include "tests/lib/proxy.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "tests/lib/must.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIR_COUNT_MAX 64
#define CHUNK_BYTES    8192

/* A client's connection and ours to the server. */
struct pair {
    int client; /* −1: free */
    int server;
    bool has_replied; /* the server has sent something */
};

struct proxy {
    char address[32];
    struct sockaddr_in target;
    int listener;
    int wake; /* eventfd: the mode has changed */
    pthread_t thread;
    struct pair pairs[PAIR_COUNT_MAX];
    atomic_int wanted_mode;
    atomic_int mode; /* taken up */
    atomic_bool is_ended;
    atomic_uint accept_count;
};

static void parse_address(const char *text, struct sockaddr_in *out)
{
    const char *colon = strrchr(text, ':');
    char host[32];

    MUST(colon != NULL && (size_t)(colon - text) < sizeof(host));
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    *out = (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10))};
    MUST_EQ(inet_pton(AF_INET, host, &out->sin_addr), 1);
}

static void close_pair(struct pair *pair)
{
    if (pair->client >= 0) {
        (void)close(pair->client);
        (void)close(pair->server);
        pair->client = -1;
    }
}

static void close_pairs(struct proxy *proxy)
{
    for (int i = 0; i < PAIR_COUNT_MAX; i++) {
        close_pair(&proxy->pairs[i]);
    }
}

static struct pair *free_pair(struct proxy *proxy)
{
    for (int i = 0; i < PAIR_COUNT_MAX; i++) {
        if (proxy->pairs[i].client < 0) {
            return &proxy->pairs[i];
        }
    }
    return NULL;
}

static void accept_one(struct proxy *proxy, enum proxy_mode mode)
{
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    struct pair *pair = free_pair(proxy);
    int server;
    int one = 1;

    if (client < 0) {
        return;
    }
    (void)atomic_fetch_add(&proxy->accept_count, 1);
    server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (mode == PROXY_CUT || pair == NULL || server < 0 ||
        connect(server, (struct sockaddr *)&proxy->target, sizeof(proxy->target)) != 0) {
        (void)close(client);
        (void)close(server);
        return;
    }
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    *pair = (struct pair){.client = client, .server = server};
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);

        if (sent <= 0) {
            return false;
        }
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

/* Move one chunk; false: the connection is to be closed. */
static bool relay(struct pair *pair, bool is_reply, enum proxy_mode mode)
{
    char chunk[CHUNK_BYTES];
    ssize_t len = recv(is_reply ? pair->server : pair->client, chunk, sizeof(chunk), 0);

    if (len <= 0) {
        return false;
    }
    if (mode == PROXY_GREET && !is_reply && pair->has_replied) {
        return false;
    }
    pair->has_replied = pair->has_replied || is_reply;
    if (mode == (is_reply ? PROXY_DROP_REPLIES : PROXY_DROP_REQUESTS)) {
        return true;
    }
    return write_all(is_reply ? pair->client : pair->server, chunk, (size_t)len);
}

static void serve(struct proxy *proxy, const struct pollfd *polls, enum proxy_mode mode)
{
    for (int i = 0; i < PAIR_COUNT_MAX; i++) {
        struct pair *pair = &proxy->pairs[i];
        bool is_fine = true;

        if (pair->client < 0) {
            continue;
        }
        if (polls[2 * i].revents != 0) {
            is_fine = relay(pair, false, mode);
        }
        if (is_fine && polls[2 * i + 1].revents != 0) {
            is_fine = relay(pair, true, mode);
        }
        if (!is_fine) {
            close_pair(pair);
        }
    }
}

static void *run(void *ctx)
{
    struct proxy *proxy = ctx;
    struct pollfd polls[2 * PAIR_COUNT_MAX + 2];

    while (!atomic_load(&proxy->is_ended)) {
        enum proxy_mode mode = (enum proxy_mode)atomic_load(&proxy->wanted_mode);
        short interest = mode == PROXY_HOLD ? 0 : POLLIN;
        uint64_t count;

        if (mode == PROXY_CUT) {
            close_pairs(proxy);
        }
        atomic_store(&proxy->mode, mode);
        for (int i = 0; i < PAIR_COUNT_MAX; i++) { // A negative descriptor is skipped.
            const struct pair *pair = &proxy->pairs[i];
            bool is_watched = pair->client >= 0 && interest != 0;

            polls[2 * i] = (struct pollfd){.fd = is_watched ? pair->client : -1, .events = POLLIN};
            polls[2 * i + 1] =
                (struct pollfd){.fd = is_watched ? pair->server : -1, .events = POLLIN};
        }
        polls[2 * PAIR_COUNT_MAX] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
        polls[2 * PAIR_COUNT_MAX + 1] =
            (struct pollfd){.fd = interest != 0 ? proxy->listener : -1, .events = POLLIN};
        (void)poll(polls, 2 * PAIR_COUNT_MAX + 2, -1);
        if (polls[2 * PAIR_COUNT_MAX].revents != 0) { // A new mode: look at everything again.
            (void)!read(proxy->wake, &count, sizeof(count));
            continue;
        }
        serve(proxy, polls, mode);
        if (polls[2 * PAIR_COUNT_MAX + 1].revents != 0) {
            accept_one(proxy, mode);
        }
    }
    close_pairs(proxy);
    return NULL;
}

struct proxy *proxy_open(const char *target)
{
    struct proxy *proxy = mem_new(1, sizeof(*proxy));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    MUST(proxy != NULL);
    parse_address(target, &proxy->target);
    for (int i = 0; i < PAIR_COUNT_MAX; i++) {
        proxy->pairs[i].client = -1;
    }
    atomic_store(&proxy->wanted_mode, PROXY_PASS);
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    proxy->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    MUST(proxy->listener >= 0 && proxy->wake >= 0);
    MUST_EQ(bind(proxy->listener, (struct sockaddr *)&address, len), 0);
    MUST_EQ(listen(proxy->listener, PAIR_COUNT_MAX), 0);
    MUST_EQ(getsockname(proxy->listener, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(proxy->address, sizeof(proxy->address), "127.0.0.1:%u",
                   (unsigned)ntohs(address.sin_port));
    MUST_EQ(pthread_create(&proxy->thread, NULL, run, proxy), 0);
    return proxy;
}

const char *proxy_address(const struct proxy *proxy)
{
    return proxy->address;
}

static void wake(struct proxy *proxy)
{
    uint64_t one = 1;

    MUST_EQ(write(proxy->wake, &one, sizeof(one)), sizeof(one));
}

void proxy_set(struct proxy *proxy, enum proxy_mode mode)
{
    atomic_store(&proxy->wanted_mode, mode);
    wake(proxy);
    MUST_SOON(atomic_load(&proxy->mode) == (int)mode, 10000);
}

uint32_t proxy_accept_count(const struct proxy *proxy)
{
    return atomic_load(&proxy->accept_count);
}

void proxy_close(struct proxy *proxy)
{
    atomic_store(&proxy->is_ended, true);
    wake(proxy);
    MUST_EQ(pthread_join(proxy->thread, NULL), 0);
    (void)close(proxy->listener);
    (void)close(proxy->wake);
    mem_free(proxy);
}
