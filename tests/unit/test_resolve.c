/* SPDX-License-Identifier: Apache-2.0
 *
 * What the resolver promises, against a name server of our own on a UDP socket of this loop.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "lib/io/resolve.h"

#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define QUESTION_OFFSET 12
#define TYPE_A          1

enum server_mood {
    SERVER_ANSWERS, /* 10.0.0.1 and 10.0.0.2 */
    SERVER_DENIES,  /* no such name */
    SERVER_IS_SILENT
};

struct world {
    struct loop *loop;
    struct resolver *resolver;
    struct loop_fd server;
    enum server_mood mood;
    int query_count; /* for addresses of version 4 */
    int left;        /* callbacks until the loop stops */
    char servers[32];
};

struct asker {
    struct resolve_request request;
    struct world *world;
    int err;
    size_t count;
    char first[ADDRESS_TEXT_BYTES];
    boot_us at_us;
};

static size_t put_answers(uint8_t *packet, size_t len)
{
    for (uint8_t host = 1; host <= 2; host++) {
        const uint8_t record[] = {
            0xc0, QUESTION_OFFSET, 0, TYPE_A, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, host};

        memcpy(packet + len, record, sizeof(record));
        len += sizeof(record);
    }
    packet[7] = 2;
    return len;
}

static void on_query(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    struct world *world = ctx;
    struct sockaddr_in peer;
    socklen_t peer_len = sizeof(peer);
    uint8_t packet[1024];
    ssize_t got = recvfrom(watcher->fd, packet, 512, 0, (struct sockaddr *)&peer, &peer_len);
    size_t len = QUESTION_OFFSET;
    bool is_a;

    (void)ready;
    cr_assert_gt(got, QUESTION_OFFSET);
    while (packet[len] != 0) {
        len += packet[len] + 1U;
    }
    is_a = packet[len + 2] == TYPE_A;
    len += 5; // Root label, type and class.
    world->query_count += is_a;
    if (world->mood == SERVER_IS_SILENT) {
        return;
    }
    packet[2] = 0x81;
    packet[3] = world->mood == SERVER_DENIES ? 0x83 : 0x80;
    memset(packet + 6, 0, 6); // No answer, no authority, nothing additional.
    if (is_a && world->mood == SERVER_ANSWERS) {
        len = put_answers(packet, len);
    }
    cr_assert_eq(sendto(watcher->fd, packet, len, 0, (struct sockaddr *)&peer, peer_len),
                 (ssize_t)len);
}

static struct world *open_world(enum server_mood mood, void (*change)(struct resolver_options *))
{
    struct world *world = mem_new(1, sizeof(*world));
    struct sockaddr_in local = {.sin_family = AF_INET};
    socklen_t len = sizeof(local);
    struct resolver_options options;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    cr_assert_not_null(world);
    world->mood = mood;
    cr_assert_eq(loop_open(&world->loop), 0);
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(bind(fd, (struct sockaddr *)&local, sizeof(local)), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&local, &len), 0);
    cr_assert_eq(loop_fd_init(&world->server, world->loop, fd, on_query, world), 0);
    loop_fd_set(&world->server, LOOP_READ);
    (void)snprintf(world->servers, sizeof(world->servers), "127.0.0.1:%u", ntohs(local.sin_port));
    resolver_options_init(&options);
    options.servers = world->servers;
    if (change != NULL) {
        change(&options);
    }
    cr_assert_eq(resolver_open(world->loop, &options, &world->resolver), 0);
    return world;
}

static void close_world(struct world *world)
{
    int fd = world->server.fd;

    resolver_close(world->resolver);
    loop_fd_fini(&world->server);
    (void)close(fd);
    loop_close(world->loop);
    mem_free(world);
    cr_assert_eq(mem_block_count(), 0);
}

static void on_result(struct resolve_request *request, int err, const struct address *addresses,
                      size_t count, void *ctx)
{
    struct asker *asker = ctx;

    cr_assert_eq(request, &asker->request);
    cr_assert_eq(asker->err, 1, "called back twice");
    asker->err = err;
    asker->count = count;
    asker->at_us = loop_now_us(asker->world->loop);
    if (count > 0) {
        address_format(&addresses[0], asker->first);
    }
    if (--asker->world->left == 0) {
        loop_stop(asker->world->loop);
    }
}

static int ask(struct asker *asker, struct world *world, const char *host)
{
    *asker = (struct asker){.world = world, .err = 1};
    asker->request.host = host;
    asker->request.port = 80;
    asker->request.cb = on_result;
    asker->request.ctx = asker;
    return resolver_find(world->resolver, &asker->request);
}

static void run(struct world *world, int callbacks)
{
    world->left = callbacks;
    loop_run(world->loop);
}

Test(resolve, numeric_addresses_need_no_server)
{
    struct world *world = open_world(SERVER_IS_SILENT, NULL);
    struct asker askers[2];

    cr_assert_eq(ask(&askers[0], world, "127.0.0.1"), 0);
    cr_assert_eq(ask(&askers[1], world, "::1"), 0);
    cr_assert_eq(askers[0].err, 1, "never inside the submitting call");
    run(world, 2);
    cr_assert_str_eq(askers[0].first, "127.0.0.1:80");
    cr_assert_str_eq(askers[1].first, "[::1]:80");
    cr_assert_eq(world->query_count, 0);
    close_world(world);
}

Test(resolve, a_name_gives_all_its_addresses_and_is_remembered)
{
    struct world *world = open_world(SERVER_ANSWERS, NULL);
    struct asker askers[3];

    cr_assert_eq(ask(&askers[0], world, "two.example.com"), 0);
    cr_assert_eq(ask(&askers[1], world, "two.example.com"), 0);
    run(world, 2);
    cr_assert_eq(askers[0].err, 0);
    cr_assert_eq(askers[0].count, 2);
    cr_assert_str_eq(askers[1].first, askers[0].first);
    cr_assert_eq(ask(&askers[2], world, "two.example.com"), 0);
    run(world, 1);
    cr_assert_eq(askers[2].count, 2);
    cr_assert_eq(world->query_count, 1, "one query serves all");
    close_world(world);
}

Test(resolve, an_unknown_name_is_an_error_and_is_remembered_as_one)
{
    struct world *world = open_world(SERVER_DENIES, NULL);
    struct asker asker;

    cr_assert_eq(ask(&asker, world, "none.example.com"), 0);
    run(world, 1);
    cr_assert_eq(asker.err, ERR_NOT_FOUND);
    world->query_count = 0;
    cr_assert_eq(ask(&asker, world, "none.example.com"), 0);
    run(world, 1);
    cr_assert_eq(asker.err, ERR_NOT_FOUND);
    cr_assert_eq(world->query_count, 0);
    cr_assert_eq(ask(&asker, world, ""), ERR_INVALID);
    close_world(world);
}

static void be_impatient(struct resolver_options *options)
{
    options->timeout_ms = 50;
    options->outstanding_max = 2;
}

Test(resolve, a_silent_server_costs_a_time_out_and_nobody_else)
{
    struct world *world = open_world(SERVER_IS_SILENT, be_impatient);
    struct asker askers[4];

    cr_assert_eq(ask(&askers[0], world, "slow.example.com"), 0);
    cr_assert_eq(ask(&askers[1], world, "slow2.example.com"), 0);
    cr_assert_eq(ask(&askers[2], world, "slow3.example.com"), ERR_FULL);
    cr_assert_eq(ask(&askers[3], world, "127.0.0.1"), 0);
    run(world, 3);
    cr_assert_eq(askers[0].err, ERR_TIMEOUT);
    cr_assert_eq(askers[1].err, ERR_TIMEOUT);
    cr_assert_eq(askers[3].err, 0);
    cr_assert_lt(askers[3].at_us, askers[0].at_us);
    close_world(world);
}

Test(resolve, a_cancelled_request_is_still_called_back_once)
{
    struct world *world = open_world(SERVER_IS_SILENT, NULL);
    struct asker asker;

    cr_assert_eq(ask(&asker, world, "slow.example.com"), 0);
    resolver_cancel(world->resolver, &asker.request);
    resolver_cancel(world->resolver, &asker.request);
    run(world, 1);
    cr_assert_eq(asker.err, ERR_CANCELLED);
    close_world(world);
}
