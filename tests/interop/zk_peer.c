/* SPDX-License-Identifier: Apache-2.0
 *
 * A coordinator for foreign readers of its znodes: zk_peer HOSTS CLUSTER. It creates the cluster,
 * takes shards 0 to 2 and 5, publishes and nudges, prints "ready", and leaves when its standard
 * input ends.
 */
#include "tests/contract/coord_world_zk.h"

#include <unistd.h>

static struct client client;

static void take(uint32_t shard)
{
    MUST_OK(ask_shard(&client, COORD_ACQUIRE, shard, NULL));
    MUST_OK(ask_shard(&client, COORD_STATE, shard, NULL));
    shard_set_add(&client.self.owns, shard);
}

static void on_input(struct loop_fd *watcher, unsigned ready, void *ctx)
{
    char byte;
    bool *is_ended = ctx;

    (void)ready;
    *is_ended = read(watcher->fd, &byte, 1) <= 0;
}

int main(int argc, char **argv)
{
    struct coord_zk_place place;
    struct loop_fd input;
    bool is_ended = false;

    MUST_EQ(argc, 3);
    signals_ignore_pipe();
    (void)snprintf(world.fixture.zk_hosts, sizeof(world.fixture.zk_hosts), "%s", argv[1]);
    (void)snprintf(world.fixture.name, sizeof(world.fixture.name), "%s", argv[2]);
    world.session_timeout_ms = 4000;
    place = world_place();
    MUST_OK(coord_zk_init_cluster(&place, &world_databases, WORLD_SHARD_COUNT, "id-1", 20000,
                                  &world.found));
    MUST_OK(loop_open(&world.loop));
    loop_timer_init(&world.timer, world.loop, world_on_timer, NULL);
    client_open(&client, "broker-a", 'a');
    take(0);
    take(1);
    take(2);
    take(5);
    client.self.config = 3;
    client.self.cannot = 2;
    MUST_OK(ask_shard(&client, COORD_PUBLISH, 0, NULL));
    MUST_OK(ask_shard(&client, COORD_NUDGE, 0, NULL));
    (void)printf("ready\n");
    (void)fflush(stdout);
    MUST_OK(loop_fd_init(&input, world.loop, STDIN_FILENO, on_input, &is_ended));
    loop_fd_set(&input, LOOP_READ);
    WORLD_UNTIL(is_ended);
    loop_fd_fini(&input);
    client_close(&client);
    loop_timer_stop(&world.timer);
    loop_close(world.loop);
    return 0;
}
