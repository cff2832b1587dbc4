/* SPDX-License-Identifier: Apache-2.0
 *
 * Creating and reading a cluster's znodes: by several brokers at once, completed after a death
 * half-way, and with a clear word about everything that cannot be used.
 */
#define _GNU_SOURCE // pipe2
#include "tests/contract/coord_world_zk.h"
#include "tests/contract/zk_admin.h"
#include "tests/lib/proxy.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_MS 20000

static struct coord_zk_found found;

/* A world without a cluster. */
static void open_empty(const char *title)
{
    signals_ignore_pipe();
    memset(&world, 0, sizeof(world));
    world.session_timeout_ms = 4000;
    fixture_open(&world.fixture, title);
    MUST_OK(loop_open(&world.loop));
    loop_timer_init(&world.timer, world.loop, world_on_timer, NULL);
    admin_open();
}

static void close_empty(void)
{
    admin_close();
    world_close();
}

static int init(uint32_t shard_count, const char *fresh_id)
{
    struct coord_zk_place place = world_place();

    return coord_zk_init_cluster(&place, &world_databases, shard_count, fresh_id, LIMIT_MS, &found);
}

static int read_it(void)
{
    struct coord_zk_place place = world_place();

    return coord_zk_read_cluster(&place, &world_databases, LIMIT_MS, &found);
}

static void must_say(const char *part)
{
    if (strstr(found.message, part) == NULL) {
        must_fail(MUST_HERE, "'%s' does not say '%s'", found.message, part);
    }
}

static void a_new_cluster_is_laid_out_as_the_design_says(void)
{
    open_empty("fresh");
    MUST_OK(init(16, "c-1"));
    MUST_EQ_TEXT(found.cluster.id, "c-1");
    MUST_EQ(found.cluster.shard_count, 16);
    MUST_EQ(found.cluster.base, 0);
    MUST_EQ(found.session_timeout_ms, 4000);
    for (uint32_t shard = 0; shard < 16; shard++) {
        MUST_EQ(found.cluster.database_of[shard], shard % 2);
    }
    MUST_OK(admin_do(ZK_GET, "", NULL));
    MUST_EQ_TEXT(admin.data, "{\"cluster_id\":\"c-1\",\"format\":1,\"shards\":16,\"slots\":4096,"
                             "\"base\":0}");
    MUST_OK(admin_do(ZK_GET, "/shards/0015", NULL));
    MUST_EQ_TEXT(admin.data, "{\"database\":\"db1\"}");
    MUST_ERR(admin_do(ZK_EXISTS, "/shards/0016", NULL), ERR_NOT_FOUND);
    MUST_OK(admin_do(ZK_EXISTS, "/config-version", NULL));
    MUST_OK(admin_do(ZK_EXISTS, "/brokers", NULL));
    close_empty();
}

static void what_is_there_counts_and_is_not_touched(void)
{
    open_empty("again");
    MUST_OK(init(8, "c-1"));
    MUST_OK(init(64, "c-2"));
    MUST_EQ_TEXT(found.cluster.id, "c-1");
    MUST_EQ(found.cluster.shard_count, 8);
    MUST_OK(admin_do(ZK_EXISTS, "/shards/0007", NULL));
    MUST_EQ(admin.stat.version, 0); // Its version counts ownerships: not raised by a start.
    MUST_OK(read_it());
    MUST_EQ_TEXT(found.cluster.id, "c-1");
    close_empty();
}

static void many_brokers_that_start_at_once_agree(void)
{
    enum {
        COUNT = 5
    };
    int ends[2];
    char first[64] = "";

    open_empty("at_once");
    admin_close(); // Threads do not survive a fork.
    MUST_EQ(pipe2(ends, O_CLOEXEC), 0);
    for (int i = 0; i < COUNT; i++) {
        pid_t pid = fork();

        MUST(pid >= 0);
        if (pid == 0) {
            char id[64] = "";

            (void)snprintf(id, sizeof(id), "c-%d", i);
            MUST_OK(init(128, id));
            MUST_EQ(found.cluster.shard_count, 128);
            MUST_EQ(write(ends[1], found.cluster.id, sizeof(id)), sizeof(id));
            _exit(0);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        char id[64];
        int status;

        MUST_EQ(read(ends[0], id, sizeof(id)), sizeof(id));
        if (i == 0) {
            memcpy(first, id, sizeof(first));
        }
        MUST_EQ_TEXT(id, first);
        MUST(wait(&status) > 0);
        MUST_EQ(status, 0);
    }
    world_close();
}

static void a_cluster_that_was_left_half_made_is_completed(void)
{
    open_empty("half");
    MUST_OK(init(8, "c-1"));
    MUST_OK(admin_do(ZK_DELETE, "/config-version", NULL));
    MUST_OK(admin_do(ZK_DELETE, "/brokers", NULL));
    MUST_OK(admin_do(ZK_DELETE, "/shards/0002", NULL));
    MUST_OK(admin_do(ZK_DELETE, "/shards/0005", NULL));
    MUST_ERR(read_it(), ERR_CONFLICT);
    must_say("shard 2");
    MUST_OK(init(8, "c-2"));
    MUST_EQ_TEXT(found.cluster.id, "c-1");
    MUST_OK(admin_do(ZK_EXISTS, "/shards/0005", NULL));
    MUST_OK(admin_do(ZK_EXISTS, "/config-version", NULL));
    close_empty();
}

static void what_cannot_be_used_is_named(void)
{
    open_empty("refused");
    MUST_ERR(read_it(), ERR_NOT_FOUND);
    must_say(world.fixture.name);
    MUST_OK(init(8, "c-1"));
    MUST_OK(admin_do(ZK_SET, "/shards/0003", "{\"database\":\"elsewhere\"}"));
    MUST_ERR(init(8, "c-1"), ERR_CONFLICT);
    must_say("'elsewhere', which is not configured here");
    MUST_OK(admin_do(ZK_SET, "/shards/0003", "{\"database\":7}"));
    MUST_ERR(init(8, "c-1"), ERR_CONFLICT);
    must_say("shard 3");
    MUST_OK(admin_do(ZK_SET, "", "{\"format\":2}"));
    MUST_ERR(init(8, "c-1"), ERR_UNSUPPORTED);
    must_say("does not know");
    MUST_OK(admin_do(ZK_SET, "", "hello"));
    MUST_ERR(init(8, "c-1"), ERR_CONFLICT);
    must_say("is not a Foliot cluster's");
    close_empty();
}

static void bad_options_are_named_before_any_connection(void)
{
    static const char *const odd_names[] = {"DB 1"};
    struct coord_zk_place place;
    const struct coord_zk_databases odd = {.names = odd_names, .count = 1};

    open_empty("options");
    place = world_place();
    place.hosts = "127.0.0.1:1/chroot";
    MUST_ERR(coord_zk_read_cluster(&place, &world_databases, LIMIT_MS, &found), ERR_INVALID);
    must_say("chroot");
    place = world_place();
    place.root = "foliot";
    MUST_ERR(coord_zk_read_cluster(&place, &world_databases, LIMIT_MS, &found), ERR_INVALID);
    place = world_place();
    place.name = "A/B";
    MUST_ERR(coord_zk_read_cluster(&place, &world_databases, LIMIT_MS, &found), ERR_INVALID);
    place = world_place();
    place.session_timeout_ms = 10;
    MUST_ERR(coord_zk_read_cluster(&place, &world_databases, LIMIT_MS, &found), ERR_INVALID);
    place = world_place();
    MUST_ERR(coord_zk_read_cluster(&place, &odd, LIMIT_MS, &found), ERR_INVALID);
    close_empty();
}

static void servers_that_do_not_answer_are_given_up_after_the_limit(void)
{
    struct coord_zk_place place;
    struct proxy *proxy;
    int64_t begin_ms;

    open_empty("silent");
    proxy = proxy_open(world.fixture.zk_hosts);
    place = world_place();
    place.hosts = proxy_address(proxy);
    for (int i = 0; i < 3; i++) {
        proxy_set(proxy, i == 0 ? PROXY_CUT : i == 1 ? PROXY_HOLD : PROXY_DROP_REPLIES);
        begin_ms = must_now_ms();
        MUST_ERR(coord_zk_read_cluster(&place, &world_databases, 1000, &found), ERR_UNAVAILABLE);
        must_say(place.hosts);
        MUST_LE(1000, must_now_ms() - begin_ms);
        MUST_LE(must_now_ms() - begin_ms, 1000 + 6000); // The library's close may wait (Z-12).
    }
    place.hosts = "no-such-host.invalid:2181";
    MUST_ERR(coord_zk_read_cluster(&place, &world_databases, 1000, &found), ERR_UNAVAILABLE);
    proxy_close(proxy);
    close_empty();
}

/* A connection that breaks in the middle costs a second try, not the start. */
static void a_start_survives_broken_connections(void)
{
    struct coord_zk_place place;
    struct proxy *proxy;

    open_empty("broken");
    proxy = proxy_open(world.fixture.zk_hosts);
    proxy_set(proxy, PROXY_GREET);
    place = world_place();
    place.hosts = proxy_address(proxy);
    MUST_ERR(coord_zk_init_cluster(&place, &world_databases, 8, "c-1", 3000, &found),
             ERR_UNAVAILABLE);
    MUST_LE(2, proxy_accept_count(proxy));
    proxy_set(proxy, PROXY_PASS);
    MUST_OK(coord_zk_init_cluster(&place, &world_databases, 8, "c-1", LIMIT_MS, &found));
    proxy_close(proxy);
    close_empty();
}

static void a_root_of_several_parts_is_made_part_by_part(void)
{
    struct coord_zk_place place;
    char root[ZK_ROOT_BYTES_MAX + 1];

    open_empty("deep");
    place = world_place();
    (void)snprintf(root, sizeof(root), "/teams/%s/foliot", world.fixture.name);
    place.root = root;
    MUST_OK(coord_zk_init_cluster(&place, &world_databases, 8, "c-1", LIMIT_MS, &found));
    MUST_OK(coord_zk_read_cluster(&place, &world_databases, LIMIT_MS, &found));
    close_empty();
}

static void the_largest_cluster_is_made_and_read(void)
{
    int64_t begin_ms;
    int64_t made_ms;

    open_empty("largest");
    begin_ms = must_now_ms();
    MUST_OK(init(SHARD_COUNT_MAX, "c-1"));
    made_ms = must_now_ms();
    MUST_OK(read_it());
    (void)printf("%d shards: made and read in %lld ms, read in %lld ms\n", SHARD_COUNT_MAX,
                 (long long)(made_ms - begin_ms), (long long)(must_now_ms() - made_ms));
    MUST_EQ(found.cluster.shard_count, SHARD_COUNT_MAX);
    MUST_EQ(found.cluster.database_of[SHARD_COUNT_MAX - 1], 1);
    close_empty();
}

/* A raised base lifts every generation: what `cluster adopt` does. */
static void the_base_is_added_to_every_generation_of_a_new_session(void)
{
    static struct client client;
    int64_t generation;

    world_open("base");
    admin_open();
    MUST_OK(admin_do(ZK_SET, "",
                     "{\"cluster_id\":\"id-1\",\"format\":1,\"shards\":8,\"slots\":4096,"
                     "\"base\":1000}"));
    client_open(&client, "broker-a", 'a');
    MUST_OK(ask_shard(&client, COORD_ACQUIRE, 0, &generation));
    MUST_EQ(generation, 1001);
    client_close(&client);
    MUST_OK(admin_do(ZK_SET, "",
                     "{\"cluster_id\":\"id-1\",\"format\":1,\"shards\":8,\"slots\":4096,"
                     "\"base\":16777215}"));
    client_open(&client, "broker-a", 'b');
    MUST_ERR(ask_shard(&client, COORD_ACQUIRE, 0, &generation), ERR_FULL);
    WORLD_UNTIL(admin_do(ZK_EXISTS, "/shards/0000/owner", NULL) == ERR_NOT_FOUND);
    client_close(&client);
    admin_close();
    world_close();
}

/* ZooKeeper was rebuilt for another cluster under our feet: stay out. */
static void a_broker_does_not_join_another_cluster(void)
{
    static struct client client;

    world_open("other");
    admin_open();
    MUST_OK(admin_do(ZK_SET, "",
                     "{\"cluster_id\":\"id-2\",\"format\":1,\"shards\":8,\"slots\":4096,"
                     "\"base\":0}"));
    memset(&client, 0, sizeof(client));
    (void)snprintf(client.self.name, sizeof(client.self.name), "broker-a");
    (void)snprintf(client.self.instance, sizeof(client.self.instance), "aaaaaaaaaaaaaaaa");
    world_add(&client);
    for (int64_t end_ms = must_now_ms() + 1500; must_now_ms() < end_ms;) {
        world_turn();
    }
    MUST_EQ(client.session_count, 0);
    MUST_OK(admin_do(ZK_SET, "",
                     "{\"cluster_id\":\"id-1\",\"format\":1,\"shards\":8,\"slots\":4096,"
                     "\"base\":0}"));
    WORLD_UNTIL(client_is(&client, COORD_NEW));
    client_close(&client);
    admin_close();
    world_close();
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_new_cluster_is_laid_out_as_the_design_says),
        MUST_CASE(what_is_there_counts_and_is_not_touched),
        MUST_CASE(many_brokers_that_start_at_once_agree),
        MUST_CASE(a_cluster_that_was_left_half_made_is_completed),
        MUST_CASE(what_cannot_be_used_is_named),
        MUST_CASE(bad_options_are_named_before_any_connection),
        MUST_CASE(servers_that_do_not_answer_are_given_up_after_the_limit),
        MUST_CASE(a_start_survives_broken_connections),
        MUST_CASE(a_root_of_several_parts_is_made_part_by_part),
        MUST_CASE(the_largest_cluster_is_made_and_read),
        MUST_CASE(the_base_is_added_to_every_generation_of_a_new_session),
        MUST_CASE(a_broker_does_not_join_another_cluster),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
