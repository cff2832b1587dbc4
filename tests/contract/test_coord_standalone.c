/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of every coordinator, on the one in the process; and what only that one promises.
 */
#include "coordinator/coord_standalone.h"
#include "lib/io/loop.h"
#include "tests/contract/coord_contract.h"

static struct loop *loop;
static struct standalone *cluster;

static void open_after(int64_t generation_last)
{
    const struct standalone_options options = {
        .loop = loop, .shard_count = WORLD_SHARD_COUNT, .generation_last = generation_last};

    MUST_OK(standalone_open(&options, &cluster));
}

static void world_open(const char *title)
{
    (void)title;
    MUST_OK(loop_open(&loop));
    open_after(0);
}

static void world_add(struct client *client)
{
    const struct coord_events events = client_events(client);

    MUST_OK(standalone_join(cluster, &client->self, &events, &client->coord));
}

static void world_turn(void)
{
    loop_turn(loop, false);
}

static int64_t world_now_ms(void)
{
    return must_now_ms();
}

static void world_close(void)
{
    standalone_close(cluster);
    loop_close(loop);
}

static void generations_begin_above_those_of_the_process_before(void)
{
    static struct client a;
    int64_t generation;

    MUST_OK(loop_open(&loop));
    open_after(41);
    client_open(&a, "broker-a", 'a');
    for (uint32_t shard = 0; shard < WORLD_SHARD_COUNT; shard++) {
        MUST_OK(ask_shard(&a, COORD_ACQUIRE, shard, &generation));
        MUST_EQ(generation, 42);
    }
    client_close(&a);
    world_close();
}

static void generations_that_are_used_up_are_an_answer(void)
{
    static struct client a;

    MUST_OK(loop_open(&loop));
    open_after(GENERATION_MAX - 1);
    client_open(&a, "broker-a", 'a');
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 1, NULL));
    MUST_ERR(ask_shard(&a, COORD_ACQUIRE, 1, NULL), ERR_FULL);
    client_close(&a);
    world_close();
}

static void of_two_members_with_one_name_the_younger_is_told(void)
{
    static struct client a;
    static struct client b;

    world_open("name");
    client_open(&a, "broker", 'a');
    client_open(&b, "broker", 'b');
    WORLD_UNTIL(a.member_count == 1 && a.members[0].instance[0] == 'b');
    client_close(&b);
    WORLD_UNTIL(a.member_count == 1 && a.members[0].instance[0] == 'a');
    client_close(&a);
    world_close();
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        COORD_CONTRACT_CASES,
        MUST_CASE(generations_begin_above_those_of_the_process_before),
        MUST_CASE(generations_that_are_used_up_are_an_answer),
        MUST_CASE(of_two_members_with_one_name_the_younger_is_told),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
