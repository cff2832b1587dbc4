/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a call goes: to the owner of its slot when that is known, else to the brokers in turn; and
 * what is believed after each answer. Channels are real and idle: no connection is made.
 */
#include "client/lib/brokers.h"

#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "lib/io/resolve.h"
#include "proto/codec_cluster.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define SHARDS 4

static struct loop *loop;
static struct resolver *resolver;
static struct brokers *brokers;
static bool says_instance = true; /* of owners */
static int64_t blocks_before;

static int open_brokers(const char *servers, struct fault *fault)
{
    const struct brokers_options options = {
        .loop = loop, .resolver = resolver, .servers = servers, .calls_max = 10};

    return brokers_open(&options, &brokers, fault);
}

static void on_closed(void *ctx)
{
    bool *is_closed = ctx;

    *is_closed = true;
}

static void close_brokers(void)
{
    bool is_closed = false;

    brokers_close(brokers, on_closed, &is_closed);
    while (!is_closed) {
        loop_turn(loop, true);
    }
}

static void setup(void)
{
    struct resolver_options options;

    blocks_before = mem_block_count();
    resolver_options_init(&options);
    cr_assert_eq(loop_open(&loop), 0);
    cr_assert_eq(resolver_open(loop, &options, &resolver), 0);
}

static void teardown(void)
{
    close_brokers();
    resolver_close(resolver);
    loop_close(loop);
    cr_assert_eq(mem_block_count(), blocks_before);
}

TestSuite(brokers, .init = setup, .fini = teardown);

/* A topology of `count` brokers b0 … at ports 7001 …; owners[i] is the broker of shard i, −1: none.
 */
static int learn(int count, const int *owners)
{
    struct buf bytes;
    char names[8][16];
    char addresses[8][32];
    int err;

    buf_init(&bytes, 65536);
    cr_assert_eq(
        codec_write_topology_head(&(struct topology_head){"c", "b0", SHARDS, SLOT_COUNT}, &bytes),
        0);
    for (int i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "b%d", i);
        (void)snprintf(addresses[i], sizeof(addresses[i]), "127.0.0.1:%d", 7001 + i);
        cr_assert_eq(codec_write_topology_broker(&(struct broker_view){.name = names[i],
                                                                       .instance = names[i],
                                                                       .grpc_address = addresses[i],
                                                                       .admin_address = "",
                                                                       .version = "",
                                                                       .started_ms = WALL_NEVER},
                                                 &bytes),
                     0);
    }
    for (uint32_t i = 0; i < SHARDS; i++) {
        const char *owner = owners[i] < 0 ? "" : names[owners[i]];

        cr_assert_eq(codec_write_topology_shard(
                         &(struct shard_owner_view){.shard = i,
                                                    .database = "db0",
                                                    .owner = owner,
                                                    .instance = says_instance ? owner : "",
                                                    .since_ms = WALL_NEVER},
                         &bytes),
                     0);
    }
    err = brokers_learn(brokers, buf_slice(&bytes));
    buf_fini(&bytes);
    return err;
}

static const char *pick(int32_t slot, const struct broker_link *avoid)
{
    struct broker_link *link = brokers_pick(brokers, slot, avoid);

    return link == NULL ? "none" : broker_link_target(link);
}

Test(brokers, seeds_are_asked_in_turn_before_anything_is_known)
{
    struct fault fault;

    cr_assert_eq(open_brokers("127.0.0.1:7001, 127.0.0.1:7002,,127.0.0.1:7001", &fault), 0);
    cr_assert_str_eq(pick(5, NULL), "127.0.0.1:7001");
    cr_assert_str_eq(pick(5, NULL), "127.0.0.1:7002");
    cr_assert_str_eq(pick(5, NULL), "127.0.0.1:7001");
}

Test(brokers, a_slot_goes_to_its_owner)
{
    static const int owners[SHARDS] = {0, 1, 2, 0};
    struct fault fault;

    cr_assert_eq(open_brokers("127.0.0.1:7001", &fault), 0);
    cr_assert_eq(learn(3, owners), 0);
    for (int i = 0; i < 3; i++) {
        cr_assert_str_eq(pick(0, NULL), "127.0.0.1:7001");
        cr_assert_str_eq(pick(1, NULL), "127.0.0.1:7002");
        cr_assert_str_eq(pick(4 * 100 + 2, NULL), "127.0.0.1:7003");
    }
}

Test(brokers, an_owner_is_known_by_its_name_if_no_instance_is_said)
{
    static const int owners[SHARDS] = {0, 1, 2, 0};
    struct fault fault;

    cr_assert_eq(open_brokers("127.0.0.1:7001", &fault), 0);
    says_instance = false;
    cr_assert_eq(learn(3, owners), 0);
    cr_assert_str_eq(pick(2, NULL), "127.0.0.1:7003");
    cr_assert_str_eq(pick(2, NULL), "127.0.0.1:7003");
}

Test(brokers, what_has_no_owner_or_no_slot_goes_to_all_in_turn)
{
    static const int owners[SHARDS] = {0, -1, 2, 0};
    struct fault fault;
    int count[3] = {0};

    cr_assert_eq(open_brokers("127.0.0.1:7001", &fault), 0);
    cr_assert_eq(learn(3, owners), 0);
    for (int i = 0; i < 30; i++) {
        count[pick(i % 2 == 0 ? 1 : SLOT_ANY, NULL)[13] - '1']++;
    }
    cr_assert(count[0] == 10 && count[1] == 10 && count[2] == 10);
}

Test(brokers, the_one_that_failed_is_avoided_while_there_is_another)
{
    static const int owners[SHARDS] = {0, 1, 0, 1};
    struct broker_link *first;
    struct fault fault;

    cr_assert_eq(open_brokers("127.0.0.1:7001", &fault), 0);
    cr_assert_str_eq(pick(SLOT_ANY, brokers_pick(brokers, SLOT_ANY, NULL)), "127.0.0.1:7001");
    cr_assert_eq(learn(2, owners), 0);
    first = brokers_pick(brokers, 0, NULL);
    cr_assert(brokers_is_owner(brokers, first, 0));
    cr_assert(brokers_has_other(brokers, first));
    cr_assert_str_eq(pick(0, first), "127.0.0.1:7002");
    cr_assert_str_eq(pick(0, first), "127.0.0.1:7002");
}

Test(brokers, those_that_left_are_forgotten_and_seeds_are_kept)
{
    static const int before[SHARDS] = {0, 1, 2, 0};
    static const int after[SHARDS] = {0, 0, 0, 0};
    struct brokers_stats stats;
    struct fault fault;

    cr_assert_eq(open_brokers("localhost:7009", &fault), 0);
    cr_assert_eq(learn(3, before), 0);
    brokers_get_stats(brokers, &stats);
    cr_assert(stats.member_count == 3 && stats.link_count == 4);
    cr_assert_eq(learn(1, after), 0);
    brokers_get_stats(brokers, &stats);
    cr_assert(stats.member_count == 1 && stats.link_count == 2 && stats.learned_count == 2);
    for (int i = 0; i < 4; i++) {
        cr_assert_str_eq(pick(2, NULL), "127.0.0.1:7001");
        cr_assert_str_eq(pick(SLOT_ANY, NULL), "127.0.0.1:7001"); // Members come before seeds.
    }
}

Test(brokers, an_answer_that_makes_no_sense_changes_nothing)
{
    static const int owners[SHARDS] = {0, 1, 2, 0};
    const struct topology_head heads[] = {{"c", "b", 0, SLOT_COUNT},
                                          {"c", "b", SHARD_COUNT_MAX + 1, SLOT_COUNT},
                                          {"c", "b", SHARDS, SLOT_COUNT / 2}};
    struct fault fault;

    cr_assert_eq(open_brokers("127.0.0.1:7001", &fault), 0);
    cr_assert_eq(learn(3, owners), 0);
    cr_assert_neq(brokers_learn(brokers, slice_of("garbage")), 0);
    for (size_t i = 0; i < ARRAY_COUNT(heads); i++) {
        struct buf bytes;

        buf_init(&bytes, 4096);
        cr_assert_eq(codec_write_topology_head(&heads[i], &bytes), 0);
        cr_assert_neq(brokers_learn(brokers, buf_slice(&bytes)), 0);
        buf_fini(&bytes);
    }
    cr_assert_str_eq(pick(2, NULL), "127.0.0.1:7003");
}

Test(brokers, servers_that_cannot_be_read_are_named)
{
    struct fault fault;

    cr_assert_eq(open_brokers("127.0.0.1:7001,nonsense", &fault), ERR_INVALID);
    cr_assert_str_eq(fault.reason, "SERVERS_INVALID");
    cr_assert(strstr(fault.message, "nonsense") != NULL);
    cr_assert(strstr(fault.message, "host:port") != NULL);
}

Test(brokers, no_servers_are_too_few)
{
    struct fault fault;

    cr_assert_eq(open_brokers(" , ", &fault), ERR_INVALID);
    cr_assert(strstr(fault.message, "names none") != NULL);
}
