/* SPDX-License-Identifier: Apache-2.0
 *
 * The world of coord_client.h on a real ZooKeeper: one loop, every client with a session of its
 * own. Included by the programs that run cases on it.
 */
#ifndef FOLIOT_TESTS_CONTRACT_COORD_WORLD_ZK_H
#define FOLIOT_TESTS_CONTRACT_COORD_WORLD_ZK_H

#include "coordinator/coord_zk.h"
#include "lib/io/loop.h"
#include "lib/io/signals.h"
#include "tests/contract/coord_client.h"
#include "tests/lib/fixture.h"

#include <stdlib.h>

/* A turn without events takes this long. */
#define WORLD_TURN_MS 20

static struct world {
    struct fixture fixture;
    struct loop *loop;
    struct loop_timer timer;
    struct coord_zk_found found;
    span_ms session_timeout_ms;
    const char *hosts; /* of the clients that are opened next; NULL: the fixture's */
} world;

static const char *const world_database_names[] = {"db0", "db1"};
static const struct coord_zk_databases world_databases = {.names = world_database_names,
                                                          .count = 2};

static struct coord_zk_place world_place(void)
{
    return (struct coord_zk_place){
        .hosts = world.hosts != NULL ? world.hosts : world.fixture.zk_hosts,
        .root = "/foliot",
        .name = world.fixture.name,
        .session_timeout_ms = world.session_timeout_ms,
    };
}

static void world_on_timer(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    (void)ctx;
}

static UNUSED void world_open(const char *title)
{
    struct coord_zk_place place;
    int err;

    signals_ignore_pipe();
    memset(&world, 0, sizeof(world));
    world.session_timeout_ms = 4000;
    fixture_open(&world.fixture, title);
    place = world_place();
    err = coord_zk_init_cluster(&place, &world_databases, WORLD_SHARD_COUNT, "id-1", 20000,
                                &world.found);
    if (err != 0) {
        must_fail(MUST_HERE, "%s: %s", err_name(err), world.found.message);
    }
    MUST_OK(loop_open(&world.loop));
    loop_timer_init(&world.timer, world.loop, world_on_timer, NULL);
}

static void world_on_note(void *ctx, const char *line)
{
    const struct client *client = ctx;

    if (getenv("FOLIOT_TEST_NOTES") != NULL) {
        (void)fprintf(stderr, "%s: %s\n", client->self.name, line);
    }
}

static void world_add(struct client *client)
{
    struct coord_zk_options options = {
        .loop = world.loop,
        .place = world_place(),
        .databases = world_databases,
        .cluster = &world.found.cluster,
        .self = &client->self,
        .events = client_events(client),
        .on_note = world_on_note,
    };

    MUST_OK(coord_zk_open(&options, &client->coord));
}

static void world_turn(void)
{
    loop_timer_start_in(&world.timer, WORLD_TURN_MS);
    loop_turn(world.loop, true);
}

static int64_t world_now_ms(void)
{
    return must_now_ms();
}

static UNUSED void world_close(void)
{
    loop_timer_stop(&world.timer);
    loop_close(world.loop);
    fixture_close(&world.fixture);
}

#endif
