/* SPDX-License-Identifier: Apache-2.0
 *
 * The ZooKeeper coordinator against what RELIABILITY Z-1 to Z-16 say that the library, the server
 * and the network do to it.
 */
#define _GNU_SOURCE // pipe2
#include "tests/contract/coord_world_zk.h"
#include "tests/contract/zk_admin.h"
#include "tests/lib/proxy.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* tickTime of the test servers: expiry comes up to one tick late (Z-2). */
#define TICK_MS 500

/* A loaded machine may be this late. */
#define SLACK_MS 1500

static struct client a;
static struct client b;
static struct proxy *proxy;

/* Client a behind a proxy, client b straight at the server: what is done to a is not to cost b its
 * session, which is long. */
static void open_two(const char *title, span_ms timeout_ms)
{
    world_open(title);
    world.session_timeout_ms = timeout_ms;
    proxy = proxy_open(world.fixture.zk_hosts);
    world.hosts = proxy_address(proxy);
    client_open(&a, "broker-a", 'a');
    world.hosts = NULL;
    world.session_timeout_ms = 20000;
    client_open(&b, "broker-b", 'b');
    admin_open();
}

static void close_two(void)
{
    client_close(&a);
    client_close(&b);
    admin_close();
    proxy_close(proxy);
    world_close();
}

static bool was_told(const struct client *client, enum coord_session session)
{
    for (size_t i = 0; i < client->session_count; i++) {
        if (client->sessions[i] == session) {
            return true;
        }
    }
    return false;
}

/* ---- processes ---- */

/* Fork a process that opens a client, takes shards 0 to 3, says so and turns until it is killed.
 * Called while this process has one thread. */
static pid_t fork_holder(const char *name, char instance, int *ready)
{
    int ends[2];
    pid_t pid;

    MUST_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    MUST(pid >= 0);
    *ready = ends[0];
    if (pid > 0) {
        (void)close(ends[1]);
        return pid;
    }
    MUST_OK(loop_open(&world.loop)); // The parent's epoll descriptor is not ours to use.
    loop_timer_init(&world.timer, world.loop, world_on_timer, NULL);
    client_open(&a, name, instance);
    for (uint32_t shard = 0; shard < 4; shard++) {
        MUST_OK(ask_shard(&a, COORD_ACQUIRE, shard, NULL));
    }
    MUST_EQ(write(ends[1], "+", 1), 1);
    for (;;) {
        world_turn();
    }
}

static void await_holder(int ready)
{
    char byte;

    MUST_EQ(read(ready, &byte, 1), 1);
    (void)close(ready);
}

static void kill_holder(pid_t pid)
{
    MUST_EQ(kill(pid, SIGKILL), 0);
    MUST_EQ(waitpid(pid, NULL, 0), pid);
}

/* How long after its kill -9 another broker has the shards of one. */
static int64_t taken_after_ms(void)
{
    int ready;
    pid_t pid;
    int64_t begin_ms;
    int64_t taken_ms;

    world_open("killed");
    world.session_timeout_ms = 2000;
    pid = fork_holder("broker-a", 'a', &ready);
    await_holder(ready);
    client_open(&b, "broker-b", 'b');
    MUST_EQ(coord_zk_session_timeout_ms(b.coord), 2000);
    for (uint32_t shard = 0; shard < 4; shard++) {
        MUST_ERR(ask_shard(&b, COORD_ACQUIRE, shard, NULL), ERR_EXISTS);
    }
    begin_ms = must_now_ms();
    kill_holder(pid);
    for (uint32_t shard = 0; shard < 4; shard++) {
        WORLD_UNTIL(b.free_count[shard] == 1);
        MUST_OK(ask_shard(&b, COORD_ACQUIRE, shard, NULL));
    }
    taken_ms = must_now_ms() - begin_ms;
    (void)printf("free and taken %lld ms after kill -9\n", (long long)taken_ms);
    client_close(&b);
    world_close();
    return taken_ms;
}

static void a_killed_brokers_shards_are_free_within_timeout_and_tick(void)
{
    MUST_LE_ONCE(taken_after_ms(), 2000 + TICK_MS + SLACK_MS);
}

/* Z-4: the fast restart sees its own old ephemeral, of another instance and session. */
static void a_fast_restart_waits_for_its_own_old_session(void)
{
    int ready;
    pid_t pid;
    int64_t generation;

    world_open("restart");
    world.session_timeout_ms = 5000; // It is there still when the new one asks.
    pid = fork_holder("broker-a", 'a', &ready);
    await_holder(ready);
    kill_holder(pid);
    client_open(&b, "broker-a", 'b');
    MUST_ERR(ask_shard(&b, COORD_ACQUIRE, 0, NULL), ERR_EXISTS);
    WORLD_UNTIL(b.member_count == 1); // One entry per name, and it is the younger one.
    MUST_EQ_TEXT(b.members[0].instance, b.self.instance);
    WORLD_UNTIL(b.free_count[0] == 1);
    MUST_OK(ask_shard(&b, COORD_ACQUIRE, 0, &generation));
    MUST_LE(2, generation);
    client_close(&b);
    world_close();
}

/* ---- the server ---- */

static void a_server_stopped_for_a_moment_costs_nothing(void)
{
    open_two("pause", 15000); // The commands that stop and wake the server take their time too.
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 0, NULL));
    fixture_servers(&world.fixture, "stop-zk");
    for (int64_t end_ms = must_now_ms() + 2000; must_now_ms() < end_ms;) {
        world_turn();
    }
    fixture_servers(&world.fixture, "cont-zk");
    MUST_OK(ask_shard(&a, COORD_STATE, 0, NULL));
    MUST_ERR(ask_shard(&b, COORD_ACQUIRE, 0, NULL), ERR_EXISTS);
    MUST(!was_told(&a, COORD_LOST));
    MUST_EQ(a.lost_count[0], 0);
    close_two();
}

/* Z-1: no expiry is told while the server is away; what comes after is told by the server. */
static void a_server_stopped_for_long_ends_in_connected_or_in_a_new_session(void)
{
    bool is_same;

    open_two("long", 2000);
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 0, NULL));
    fixture_servers(&world.fixture, "stop-zk");
    for (int64_t end_ms = must_now_ms() + 6000; must_now_ms() < end_ms;) {
        world_turn();
    }
    MUST(client_is(&a, COORD_AWAY)); // Not LOST: the shard is still worked on.
    MUST_EQ(a.lost_count[0], 0);
    fixture_servers(&world.fixture, "cont-zk");
    WORLD_UNTIL(client_is(&a, COORD_CONNECTED) || client_is(&a, COORD_NEW));
    is_same = client_is(&a, COORD_CONNECTED);
    MUST(is_same != was_told(&a, COORD_LOST));
    (void)printf("6 s stop of a 2 s session: %s\n", is_same ? "the same session" : "a new session");
    if (is_same) {
        MUST_OK(ask_shard(&a, COORD_STATE, 0, NULL));
    } else {
        MUST_ERR(ask_shard(&a, COORD_STATE, 0, NULL), ERR_FENCED);
    }
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 1, NULL));
    close_two();
}

static void a_server_killed_and_started_again_keeps_sessions_and_owners(void)
{
    int64_t first;
    int64_t second;

    open_two("crash", 6000);
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 0, &first));
    fixture_servers(&world.fixture, "kill-zk");
    WORLD_UNTIL(client_is(&a, COORD_AWAY));
    fixture_servers(&world.fixture, "start-zk");
    WORLD_UNTIL(client_is(&a, COORD_CONNECTED));
    MUST(!was_told(&a, COORD_LOST));
    MUST_ERR(ask_shard(&b, COORD_ACQUIRE, 0, NULL), ERR_EXISTS);
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 0, &second));
    MUST_LE(first + 1, second);
    close_two();
}

/* ---- the network ---- */

static void a_broker_cut_off_for_long_loses_its_session_and_registers_again(void)
{
    int64_t first;
    int64_t second;

    open_two("cut", 2000);
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 0, &first));
    MUST_ERR(ask_shard(&b, COORD_ACQUIRE, 0, NULL), ERR_EXISTS);
    proxy_set(proxy, PROXY_CUT);
    WORLD_UNTIL(b.free_count[0] == 1);
    MUST(client_is(&a, COORD_AWAY)); // The other side knows, we do not.
    MUST_OK(ask_shard(&b, COORD_ACQUIRE, 0, &second));
    MUST_LE(first + 1, second);
    WORLD_UNTIL(b.member_count == 1);
    proxy_set(proxy, PROXY_PASS);
    WORLD_UNTIL(client_is(&a, COORD_NEW));
    MUST(was_told(&a, COORD_LOST));
    MUST(a.sessions[a.session_count - 2] == COORD_LOST);
    WORLD_UNTIL(b.member_count == 2);
    MUST_ERR(ask_shard(&a, COORD_STATE, 0, NULL), ERR_FENCED);
    MUST_ERR(ask_shard(&a, COORD_ACQUIRE, 0, NULL), ERR_EXISTS);
    MUST_OK(ask_shard(&a, COORD_RELEASE, 0, NULL)); // Not over the new owner's head.
    MUST_OK(ask_shard(&b, COORD_STATE, 0, NULL));
    close_two();
}

/* Z-5: same session is not still owner. */
static void a_reconnect_finds_which_shards_are_no_longer_ours(void)
{
    open_two("verify", 6000);
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 1, NULL));
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 2, NULL));
    proxy_set(proxy, PROXY_CUT);
    WORLD_UNTIL(client_is(&a, COORD_AWAY));
    MUST_OK(admin_do(ZK_DELETE, "/shards/0001/owner", NULL));
    proxy_set(proxy, PROXY_PASS);
    WORLD_UNTIL(client_is(&a, COORD_CONNECTED));
    MUST_EQ(a.lost_count[1], 1); // Told before COORD_CONNECTED.
    MUST_EQ(a.lost_count[2], 0);
    MUST(!was_told(&a, COORD_LOST));
    MUST_OK(ask_shard(&a, COORD_STATE, 2, NULL));
    MUST_ERR(ask_shard(&a, COORD_STATE, 1, NULL), ERR_FENCED);
    close_two();
}

static void a_deleted_member_znode_is_written_again(void)
{
    char path[ZK_PATH_SIZE];

    open_two("deleted", 6000);
    WORLD_UNTIL(b.member_count == 2);
    (void)snprintf(path, sizeof(path), "/brokers/%s@%s", a.self.name, a.self.instance);
    MUST_OK(admin_do(ZK_DELETE, path, NULL));
    WORLD_UNTIL(admin_do(ZK_EXISTS, path, NULL) == 0);
    WORLD_UNTIL(b.member_count == 2);
    close_two();
}

/* Z-3: the server makes the node, the reply is lost, the session lives on. */
static void a_create_whose_reply_is_lost_is_found_to_be_ours(void)
{
    struct asked asked = {.request = {.kind = COORD_ACQUIRE, .shard = 3}};

    open_two("reply", 6000);
    proxy_set(proxy, PROXY_DROP_REPLIES);
    ask(&a, &asked);
    WORLD_UNTIL(admin_do(ZK_EXISTS, "/shards/0003/owner", NULL) == 0);
    MUST_EQ(asked.answer_count, 0);
    proxy_set(proxy, PROXY_CUT); // The library gives up; the session goes on.
    WORLD_UNTIL(client_is(&a, COORD_AWAY));
    proxy_set(proxy, PROXY_PASS);
    WORLD_UNTIL(asked.answer_count == 1);
    MUST_OK(asked.request.result);
    MUST_LE(1, asked.request.generation);
    MUST_OK(ask_shard(&a, COORD_STATE, 3, NULL));
    MUST(!was_told(&a, COORD_LOST));
    close_two();
}

static void a_create_that_nobody_waits_for_any_more_leaves_no_orphan(void)
{
    struct asked asked = {.request = {.kind = COORD_ACQUIRE, .shard = 3}};
    int64_t begin_ms;

    open_two("orphan", 6000);
    proxy_set(proxy, PROXY_DROP_REPLIES);
    ask(&a, &asked);
    WORLD_UNTIL(admin_do(ZK_EXISTS, "/shards/0003/owner", NULL) == 0);
    WORLD_UNTIL(asked.answer_count == 1); // By our own deadline.
    MUST_ERR(asked.request.result, ERR_UNAVAILABLE);
    MUST_ERR(ask_shard(&b, COORD_ACQUIRE, 3, NULL), ERR_EXISTS);
    proxy_set(proxy, PROXY_PASS);
    begin_ms = must_now_ms();
    WORLD_UNTIL(b.free_count[3] == 1); // Deleted by a, not by an expiry.
    MUST_OK(ask_shard(&b, COORD_ACQUIRE, 3, NULL));
    MUST(!was_told(&a, COORD_LOST));
    (void)printf("orphan gone %lld ms after the network came back\n",
                 (long long)(must_now_ms() - begin_ms));
    close_two();
}

static void a_release_whose_reply_is_lost_is_done_once_and_harms_no_successor(void)
{
    struct asked asked = {.request = {.kind = COORD_RELEASE, .shard = 4}};

    open_two("release", 6000);
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 4, NULL));
    MUST_ERR(ask_shard(&b, COORD_ACQUIRE, 4, NULL), ERR_EXISTS);
    ask(&a, &asked);
    // The read that comes before the delete is answered, the delete's own reply is not, as a rule.
    WORLD_UNTIL(admin_do(ZK_EXISTS, "/shards/0004/owner", NULL) == ERR_NOT_FOUND);
    proxy_set(proxy, PROXY_CUT);
    WORLD_UNTIL(b.free_count[4] == 1);
    MUST_OK(ask_shard(&b, COORD_ACQUIRE, 4, NULL));
    proxy_set(proxy, PROXY_PASS);
    WORLD_UNTIL(asked.answer_count == 1);
    MUST_OK(asked.request.result);
    MUST_OK(ask_shard(&b, COORD_STATE, 4, NULL));
    close_two();
}

/* When the last of requests to a server that is silent is answered: by their deadline of 4 s. */
static int64_t answered_after_ms(void)
{
    struct asked asked[] = {
        {.request = {.kind = COORD_ACQUIRE, .shard = 0}},
        {.request = {.kind = COORD_RELEASE, .shard = 1}},
        {.request = {.kind = COORD_STATE, .shard = 2, .state = COORD_ACTIVE}},
        {.request = {.kind = COORD_PUBLISH, .member = &a.self}},
        {.request = {.kind = COORD_NUDGE}},
    };
    int64_t begin_ms;
    int64_t answered_ms;

    open_two("deadline", 4000);
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 1, NULL));
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 2, NULL));
    proxy_set(proxy, PROXY_HOLD);
    begin_ms = must_now_ms();
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++) {
        ask(&a, &asked[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(asked); i++) {
        WORLD_UNTIL(asked[i].answer_count == 1);
        MUST_ERR(asked[i].request.result, ERR_UNAVAILABLE);
    }
    answered_ms = must_now_ms() - begin_ms;
    MUST_LE(3900, answered_ms);
    proxy_set(proxy, PROXY_PASS);
    close_two();
    return answered_ms;
}

static void a_request_is_answered_by_its_own_deadline(void)
{
    MUST_LE_ONCE(answered_after_ms(), 4000 + SLACK_MS);
}

/* Z-10: a server that greets us and drops us at the first request keeps our session alive. */
static void a_connection_that_is_of_no_use_is_given_up(void)
{
    open_two("useless", 2000);
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 0, NULL));
    proxy_set(proxy, PROXY_CUT);
    WORLD_UNTIL(client_is(&a, COORD_AWAY));
    proxy_set(proxy, PROXY_GREET);
    WORLD_UNTIL(was_told(&a, COORD_LOST));
    proxy_set(proxy, PROXY_PASS);
    WORLD_UNTIL(client_is(&a, COORD_NEW));
    WORLD_UNTIL(ask_shard(&a, COORD_ACQUIRE, 0, NULL) == 0);
    close_two();
}

static void unreachable_servers_are_tried_for_ever(void)
{
    world_open("late");
    proxy = proxy_open(world.fixture.zk_hosts);
    proxy_set(proxy, PROXY_CUT);
    world.hosts = proxy_address(proxy);
    memset(&a, 0, sizeof(a));
    (void)snprintf(a.self.name, sizeof(a.self.name), "broker-a");
    (void)snprintf(a.self.instance, sizeof(a.self.instance), "aaaaaaaaaaaaaaaa");
    world_add(&a);
    while (proxy_accept_count(proxy) < 20) {
        world_turn();
    }
    MUST_EQ(a.session_count, 0);
    proxy_set(proxy, PROXY_PASS);
    WORLD_UNTIL(client_is(&a, COORD_NEW));
    client_close(&a);
    proxy_close(proxy);
    world_close();
}

static void a_name_that_does_not_resolve_is_tried_for_ever_and_closes_cleanly(void)
{
    world_open("names");
    world.hosts = "no-such-host.invalid:2181";
    memset(&a, 0, sizeof(a));
    (void)snprintf(a.self.name, sizeof(a.self.name), "broker-a");
    (void)snprintf(a.self.instance, sizeof(a.self.instance), "aaaaaaaaaaaaaaaa");
    world_add(&a);
    for (int64_t end_ms = must_now_ms() + 1000; must_now_ms() < end_ms;) {
        world_turn();
    }
    MUST_EQ(a.session_count, 0);
    client_close(&a);
    world_close();
}

/* ---- storms and descriptors ---- */

static void a_storm_of_changes_ends_in_the_right_picture(void)
{
    struct coord_zk_stats stats;

    open_two("storm", 6000);
    for (int i = 1; i <= 300; i++) {
        char path[ZK_PATH_SIZE];
        char body[256];

        (void)snprintf(path, sizeof(path), "/brokers/%s@%s", b.self.name, b.self.instance);
        (void)snprintf(body, sizeof(body),
                       "{\"name\":\"broker-b\",\"grpc\":\"x:%d\",\"admin\":\"\",\"version\":\"\","
                       "\"started\":0,\"owns\":\"0-%d\",\"cannot\":[],\"config\":%d}",
                       i, i % 8, i);
        MUST_OK(admin_do(ZK_SET, path, body));
    }
    WORLD_UNTIL(a.member_count == 2 && a.members[1].config == 300);
    MUST_EQ_TEXT(a.members[1].grpc, "x:300");
    MUST_EQ_UNSIGNED(a.members[1].owns.bits[0], 0x1f); // 300 % 8 = 4.
    coord_zk_stats(a.coord, &stats);
    (void)printf("300 changes: %llu watch events, list told %zu times, %u bytes watched\n",
                 (unsigned long long)stats.watch_count, a.members_told_count, stats.watched_bytes);
    MUST_LE(stats.watched_bytes, 1000);
    close_two();
}

static void garbage_below_brokers_is_left_out(void)
{
    open_two("garbage", 6000);
    MUST_OK(admin_do(ZK_CREATE, "/brokers/garbage", "x"));
    MUST_OK(admin_do(ZK_CREATE, "/brokers/c@cccccccccccccccc", "{"));
    MUST_OK(admin_do(ZK_CREATE, "/brokers/d@dddddddddddddddd", "{\"name\":\"e\"}"));
    MUST_OK(admin_do(ZK_CREATE, "/shards/9999", "x"));
    WORLD_UNTIL(a.members_told_count >= 3);
    MUST_EQ(a.member_count, 2);
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 0, NULL));
    close_two();
}

/* Z-16 */
static void no_descriptor_outlives_an_exec(void)
{
    open_two("cloexec", 6000);
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 0, NULL));
    proxy_set(proxy, PROXY_CUT);
    WORLD_UNTIL(client_is(&a, COORD_AWAY));
    proxy_set(proxy, PROXY_PASS);
    WORLD_UNTIL(client_is(&a, COORD_CONNECTED)); // Another socket.
    for (int fd = STDERR_FILENO + 1; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);

        MUST(flags < 0 || (flags & FD_CLOEXEC) != 0);
    }
    close_two();
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_killed_brokers_shards_are_free_within_timeout_and_tick),
        MUST_CASE(a_fast_restart_waits_for_its_own_old_session),
        MUST_CASE(a_server_stopped_for_a_moment_costs_nothing),
        MUST_CASE(a_server_stopped_for_long_ends_in_connected_or_in_a_new_session),
        MUST_CASE(a_server_killed_and_started_again_keeps_sessions_and_owners),
        MUST_CASE(a_broker_cut_off_for_long_loses_its_session_and_registers_again),
        MUST_CASE(a_reconnect_finds_which_shards_are_no_longer_ours),
        MUST_CASE(a_deleted_member_znode_is_written_again),
        MUST_CASE(a_create_whose_reply_is_lost_is_found_to_be_ours),
        MUST_CASE(a_create_that_nobody_waits_for_any_more_leaves_no_orphan),
        MUST_CASE(a_release_whose_reply_is_lost_is_done_once_and_harms_no_successor),
        MUST_CASE(a_request_is_answered_by_its_own_deadline),
        MUST_CASE(a_connection_that_is_of_no_use_is_given_up),
        MUST_CASE(unreachable_servers_are_tried_for_ever),
        MUST_CASE(a_name_that_does_not_resolve_is_tried_for_ever_and_closes_cleanly),
        MUST_CASE(a_storm_of_changes_ends_in_the_right_picture),
        MUST_CASE(garbage_below_brokers_is_left_out),
        MUST_CASE(no_descriptor_outlives_an_exec),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
