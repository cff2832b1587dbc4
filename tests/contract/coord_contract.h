/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of coordinator/coord.h as one suite for all implementations. A program includes this
 * header, defines the five functions that coord_client.h declares for its world, and runs
 * COORD_CONTRACT_CASES through must_main(). Each case makes a cluster of WORLD_SHARD_COUNT shards
 * and some clients in one process.
 */
#ifndef FOLIOT_TESTS_CONTRACT_COORD_CONTRACT_H
#define FOLIOT_TESTS_CONTRACT_COORD_CONTRACT_H

#include "tests/contract/coord_client.h"

static void one_of_two_gets_a_shard_and_the_other_hears_when_it_is_free(void)
{
    static struct client a;
    static struct client b;
    int64_t first;
    int64_t second;

    world_open("two");
    client_open(&a, "broker-a", 'a');
    client_open(&b, "broker-b", 'b');
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 3, &first));
    MUST_ERR(ask_shard(&b, COORD_ACQUIRE, 3, NULL), ERR_EXISTS);
    MUST_EQ(b.free_count[3], 0);
    MUST_OK(ask_shard(&a, COORD_RELEASE, 3, NULL));
    WORLD_UNTIL(b.free_count[3] == 1);
    MUST_OK(ask_shard(&b, COORD_ACQUIRE, 3, &second));
    MUST_LE(first + 1, second);
    MUST_EQ(a.lost_count[3], 0);
    client_close(&a);
    client_close(&b);
    world_close();
}

static void generations_only_rise_over_owners_and_restarts(void)
{
    static struct client a;
    static struct client b;
    int64_t last = 0;
    int64_t generation;

    world_open("generations");
    client_open(&b, "broker-b", 'b');
    for (int round = 0; round < 3; round++) {
        client_open(&a, "broker-a", (char)('1' + round)); // The same name, another instance.
        for (int i = 0; i < 2; i++) {
            MUST_OK(ask_shard(&a, COORD_ACQUIRE, 0, &generation));
            MUST_LE(last + 1, generation);
            last = generation;
        }
        client_close(&a);
        MUST_OK(ask_shard(&b, COORD_ACQUIRE, 0, &generation));
        MUST_LE(last + 1, generation);
        last = generation;
        MUST_OK(ask_shard(&b, COORD_RELEASE, 0, NULL));
    }
    MUST_OK(ask_shard(&b, COORD_ACQUIRE, 1, &generation));
    MUST_LE(1, generation); // 0 is no generation.
    client_close(&b);
    world_close();
}

static void asking_again_for_a_held_shard_gives_a_new_generation(void)
{
    static struct client a;
    int64_t first;
    int64_t second;

    world_open("again");
    client_open(&a, "broker-a", 'a');
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 2, &first));
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 2, &second));
    MUST_LE(first + 1, second);
    MUST_EQ(a.lost_count[2], 0);
    client_close(&a);
    world_close();
}

static void a_close_frees_every_shard_at_once(void)
{
    static struct client a;
    static struct client b;
    int64_t begin_ms;

    world_open("leave");
    client_open(&a, "broker-a", 'a');
    client_open(&b, "broker-b", 'b');
    for (uint32_t shard = 0; shard < WORLD_SHARD_COUNT; shard++) {
        MUST_OK(ask_shard(&a, COORD_ACQUIRE, shard, NULL));
        MUST_ERR(ask_shard(&b, COORD_ACQUIRE, shard, NULL), ERR_EXISTS);
    }
    begin_ms = world_now_ms();
    client_close(&a);
    for (uint32_t shard = 0; shard < WORLD_SHARD_COUNT; shard++) {
        WORLD_UNTIL(b.free_count[shard] == 1);
    }
    MUST_LE(world_now_ms() - begin_ms, 2000); // Sooner than by the end of its session.
    for (uint32_t shard = 0; shard < WORLD_SHARD_COUNT; shard++) {
        MUST_OK(ask_shard(&b, COORD_ACQUIRE, shard, NULL));
    }
    client_close(&b);
    world_close();
}

static void a_release_of_what_is_not_ours_succeeds_and_harms_nobody(void)
{
    static struct client a;
    static struct client b;

    world_open("foreign");
    client_open(&a, "broker-a", 'a');
    client_open(&b, "broker-b", 'b');
    MUST_OK(ask_shard(&b, COORD_RELEASE, 4, NULL));
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 4, NULL));
    MUST_ERR(ask_shard(&b, COORD_ACQUIRE, 4, NULL), ERR_EXISTS);
    MUST_OK(ask_shard(&b, COORD_RELEASE, 4, NULL));
    MUST_OK(ask_shard(&a, COORD_STATE, 4, NULL));
    MUST_ERR(ask_shard(&b, COORD_ACQUIRE, 4, NULL), ERR_EXISTS);
    client_close(&a);
    client_close(&b);
    world_close();
}

static void a_state_needs_a_held_shard(void)
{
    static struct client a;
    static struct client b;

    world_open("state");
    client_open(&a, "broker-a", 'a');
    client_open(&b, "broker-b", 'b');
    MUST_ERR(ask_shard(&a, COORD_STATE, 5, NULL), ERR_FENCED);
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 5, NULL));
    MUST_OK(ask_shard(&a, COORD_STATE, 5, NULL));
    MUST_OK(ask_shard(&a, COORD_STATE, 5, NULL));
    MUST_ERR(ask_shard(&b, COORD_STATE, 5, NULL), ERR_FENCED);
    MUST_OK(ask_shard(&a, COORD_RELEASE, 5, NULL));
    MUST_ERR(ask_shard(&a, COORD_STATE, 5, NULL), ERR_FENCED);
    client_close(&a);
    client_close(&b);
    world_close();
}

static void queued_requests_of_one_shard_run_in_order(void)
{
    static struct client a;
    struct asked asked[4] = {
        {.request = {.kind = COORD_ACQUIRE, .shard = 6}},
        {.request = {.kind = COORD_STATE, .shard = 6, .epoch = 1, .state = COORD_ACTIVE}},
        {.request = {.kind = COORD_RELEASE, .shard = 6}},
        {.request = {.kind = COORD_STATE, .shard = 6, .epoch = 1, .state = COORD_ACTIVE}},
    };

    world_open("order");
    client_open(&a, "broker-a", 'a');
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++) {
        ask(&a, &asked[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++) {
        WORLD_UNTIL(asked[i].answer_count > 0);
    }
    MUST_OK(asked[0].request.result);
    MUST_OK(asked[1].request.result);
    MUST_OK(asked[2].request.result);
    MUST_ERR(asked[3].request.result, ERR_FENCED);
    client_close(&a);
    world_close();
}

static bool sees(const struct client *client, const struct client *other)
{
    for (size_t i = 0; i < client->member_count; i++) {
        if (strcmp(client->members[i].name, other->self.name) == 0) {
            return strcmp(client->members[i].instance, other->self.instance) == 0 &&
                   strcmp(client->members[i].grpc, other->self.grpc) == 0 &&
                   client->members[i].config == other->self.config &&
                   client->members[i].cannot == other->self.cannot &&
                   memcmp(&client->members[i].owns, &other->self.owns, sizeof(other->self.owns)) ==
                       0;
        }
    }
    return false;
}

static void members_see_each_other_come_change_and_go(void)
{
    static struct client a;
    static struct client b;

    world_open("members");
    client_open(&a, "broker-a", 'a');
    WORLD_UNTIL(a.member_count == 1 && sees(&a, &a));
    client_open(&b, "broker-b", 'b');
    WORLD_UNTIL(a.member_count == 2 && sees(&a, &a) && sees(&a, &b));
    WORLD_UNTIL(b.member_count == 2 && sees(&b, &a) && sees(&b, &b));
    shard_set_add(&b.self.owns, 0);
    shard_set_add(&b.self.owns, 7);
    b.self.cannot = 1;
    b.self.config = 12;
    MUST_OK(ask_shard(&b, COORD_PUBLISH, 0, NULL));
    WORLD_UNTIL(sees(&a, &b) && sees(&b, &b));
    client_close(&b);
    WORLD_UNTIL(a.member_count == 1 && sees(&a, &a));
    client_close(&a);
    world_close();
}

static void of_many_publishes_the_last_one_stands(void)
{
    static struct client a;
    static struct member members[20];
    struct asked asked[20];

    world_open("publishes");
    client_open(&a, "broker-a", 'a');
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++) {
        members[i] = a.self;
        members[i].config = (int64_t)i + 1;
        asked[i] = (struct asked){.request = {.kind = COORD_PUBLISH, .member = &members[i]}};
        ask(&a, &asked[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++) {
        WORLD_UNTIL(asked[i].answer_count == 1);
        MUST_OK(asked[i].request.result);
    }
    a.self.config = ARRAY_COUNT(asked);
    WORLD_UNTIL(sees(&a, &a));
    client_close(&a);
    world_close();
}

static void a_nudge_reaches_every_broker_with_a_rising_version(void)
{
    static struct client a;
    static struct client b;
    int64_t first;
    int64_t second;

    world_open("nudge");
    client_open(&a, "broker-a", 'a');
    client_open(&b, "broker-b", 'b');
    MUST_OK(ask_shard(&a, COORD_NUDGE, 0, &first));
    WORLD_UNTIL(a.config_version == first && b.config_version == first);
    MUST_OK(ask_shard(&b, COORD_NUDGE, 0, &second));
    MUST_LE(first + 1, second);
    WORLD_UNTIL(a.config_version == second && b.config_version == second);
    client_close(&a);
    client_close(&b);
    world_close();
}

static void close_answers_what_is_in_flight_before_its_callback(void)
{
    static struct client a;
    struct asked asked[WORLD_SHARD_COUNT + 2];
    struct coord_request late = {.kind = COORD_ACQUIRE, .cb = asked_cb};

    world_open("close");
    client_open(&a, "broker-a", 'a');
    for (uint32_t i = 0; i < WORLD_SHARD_COUNT; i++) {
        asked[i] = (struct asked){.request = {.kind = COORD_ACQUIRE, .shard = i}};
        ask(&a, &asked[i]);
    }
    asked[WORLD_SHARD_COUNT] =
        (struct asked){.request = {.kind = COORD_PUBLISH, .member = &a.self}};
    ask(&a, &asked[WORLD_SHARD_COUNT]);
    asked[WORLD_SHARD_COUNT + 1] = (struct asked){.request = {.kind = COORD_NUDGE}};
    ask(&a, &asked[WORLD_SHARD_COUNT + 1]);
    a.coord->close(a.coord, client_on_close, &a);
    MUST_ERR(a.coord->submit(a.coord, &late), ERR_CLOSED);
    WORLD_UNTIL(a.is_closed); // asked_cb() checks that no answer comes after it.
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++) {
        MUST_EQ(asked[i].answer_count, 1);
    }
    world_close();
}

static void many_clients_share_the_shards_without_overlap(void)
{
    enum {
        CLIENT_COUNT = 4
    };
    static struct client clients[CLIENT_COUNT];
    struct asked asked[CLIENT_COUNT][WORLD_SHARD_COUNT];

    world_open("race");
    for (int i = 0; i < CLIENT_COUNT; i++) {
        char name[] = "broker-0";

        name[7] = (char)('0' + i);
        client_open(&clients[i], name, (char)('0' + i));
    }
    for (int i = 0; i < CLIENT_COUNT; i++) {
        for (uint32_t shard = 0; shard < WORLD_SHARD_COUNT; shard++) {
            asked[i][shard] = (struct asked){.request = {.kind = COORD_ACQUIRE, .shard = shard}};
            ask(&clients[i], &asked[i][shard]);
        }
    }
    for (uint32_t shard = 0; shard < WORLD_SHARD_COUNT; shard++) {
        unsigned owner_count = 0;

        for (int i = 0; i < CLIENT_COUNT; i++) {
            WORLD_UNTIL(asked[i][shard].answer_count == 1);
            owner_count += asked[i][shard].request.result == 0 ? 1U : 0U;
            MUST(asked[i][shard].request.result == 0 ||
                 asked[i][shard].request.result == ERR_EXISTS);
        }
        MUST_EQ(owner_count, 1);
    }
    for (int i = 0; i < CLIENT_COUNT; i++) {
        client_close(&clients[i]);
    }
    world_close();
}

#define COORD_CONTRACT_CASES                                                \
    MUST_CASE(one_of_two_gets_a_shard_and_the_other_hears_when_it_is_free), \
        MUST_CASE(generations_only_rise_over_owners_and_restarts),          \
        MUST_CASE(asking_again_for_a_held_shard_gives_a_new_generation),    \
        MUST_CASE(a_close_frees_every_shard_at_once),                       \
        MUST_CASE(a_release_of_what_is_not_ours_succeeds_and_harms_nobody), \
        MUST_CASE(a_state_needs_a_held_shard),                              \
        MUST_CASE(queued_requests_of_one_shard_run_in_order),               \
        MUST_CASE(members_see_each_other_come_change_and_go),               \
        MUST_CASE(of_many_publishes_the_last_one_stands),                   \
        MUST_CASE(a_nudge_reaches_every_broker_with_a_rising_version),      \
        MUST_CASE(close_answers_what_is_in_flight_before_its_callback),     \
        MUST_CASE(many_clients_share_the_shards_without_overlap)

#endif
