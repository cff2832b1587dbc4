/* SPDX-License-Identifier: Apache-2.0
 *
 * What the resolver promises, against a name server of our own on a UDP socket of this loop.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "lib/io/resolve.h"
#include "tests/lib/fake_dns.h"

#include <criterion/criterion.h>

struct world {
    struct loop *loop;
    struct resolver *resolver;
    struct fake_dns dns;
    int left; /* callbacks until the loop stops */
};

struct asker {
    struct resolve_request request;
    struct world *world;
    int err;
    size_t count;
    char first[ADDRESS_TEXT_BYTES];
    boot_us at_us;
};

static struct world *open_world(enum fake_dns_mood mood, void (*change)(struct resolver_options *))
{
    struct world *world = mem_new(1, sizeof(*world));
    struct resolver_options options;

    cr_assert_not_null(world);
    cr_assert_eq(loop_open(&world->loop), 0);
    cr_assert_eq(fake_dns_open(&world->dns, world->loop, mood), 0);
    world->dns.hosts[0] = 0x0a000001;
    world->dns.hosts[1] = 0x0a000002;
    world->dns.host_count = 2;
    resolver_options_init(&options);
    options.servers = world->dns.servers;
    if (change != NULL) {
        change(&options);
    }
    cr_assert_eq(resolver_open(world->loop, &options, &world->resolver), 0);
    return world;
}

static void close_world(struct world *world)
{
    resolver_close(world->resolver);
    fake_dns_close(&world->dns);
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
    struct world *world = open_world(FAKE_DNS_IS_SILENT, NULL);
    struct asker askers[2];

    cr_assert_eq(ask(&askers[0], world, "127.0.0.1"), 0);
    cr_assert_eq(ask(&askers[1], world, "::1"), 0);
    cr_assert_eq(askers[0].err, 1, "never inside the submitting call");
    run(world, 2);
    cr_assert_str_eq(askers[0].first, "127.0.0.1:80");
    cr_assert_str_eq(askers[1].first, "[::1]:80");
    cr_assert_eq(world->dns.query_count, 0);
    close_world(world);
}

Test(resolve, a_name_gives_all_its_addresses_and_is_remembered)
{
    struct world *world = open_world(FAKE_DNS_ANSWERS, NULL);
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
    cr_assert_eq(world->dns.query_count, 1, "one query serves all");
    close_world(world);
}

Test(resolve, an_unknown_name_is_an_error_and_is_remembered_as_one)
{
    struct world *world = open_world(FAKE_DNS_DENIES, NULL);
    struct asker asker;

    cr_assert_eq(ask(&asker, world, "none.example.com"), 0);
    run(world, 1);
    cr_assert_eq(asker.err, ERR_NOT_FOUND);
    world->dns.query_count = 0;
    cr_assert_eq(ask(&asker, world, "none.example.com"), 0);
    run(world, 1);
    cr_assert_eq(asker.err, ERR_NOT_FOUND);
    cr_assert_eq(world->dns.query_count, 0);
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
    struct world *world = open_world(FAKE_DNS_IS_SILENT, be_impatient);
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
    struct world *world = open_world(FAKE_DNS_IS_SILENT, NULL);
    struct asker asker;

    cr_assert_eq(ask(&asker, world, "slow.example.com"), 0);
    resolver_cancel(world->resolver, &asker.request);
    resolver_cancel(world->resolver, &asker.request);
    run(world, 1);
    cr_assert_eq(asker.err, ERR_CANCELLED);
    close_world(world);
}
