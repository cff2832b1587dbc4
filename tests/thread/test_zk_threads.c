/* SPDX-License-Identifier: Apache-2.0
 *
 * The border between the ZooKeeper library's threads, our helper threads and the loop, for TSan:
 * connects, replies, watch events, disconnects, expiries and closes cross it at the same time. One
 * handle per process, as in the product: two would race inside the library (Z-17), so the broker
 * that we compete with is another process.
 */
#include "tests/contract/coord_world_zk.h"
#include "tests/lib/proxy.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUND_COUNT 8

static struct client us;
static struct client them;
static struct asked asked[WORLD_SHARD_COUNT];
static struct proxy *proxy;
static pid_t rival;

static void ask_all(struct client *client, enum coord_request_kind kind)
{
    for (uint32_t shard = 0; shard < WORLD_SHARD_COUNT; shard++) {
        asked[shard] =
            (struct asked){.request = {.kind = kind, .shard = shard, .member = &client->self}};
        ask(client, &asked[shard]);
    }
}

static void await_all(void)
{
    for (uint32_t shard = 0; shard < WORLD_SHARD_COUNT; shard++) {
        WORLD_UNTIL(asked[shard].answer_count == 1);
    }
}

/* Another broker: takes and frees every shard, publishes and nudges, until it is killed. */
static void run_rival(void)
{
    MUST_OK(loop_open(&world.loop));
    loop_timer_init(&world.timer, world.loop, world_on_timer, NULL);
    client_open(&them, "broker-b", 'b');
    for (;;) {
        ask_all(&them, COORD_ACQUIRE);
        await_all();
        them.self.config++;
        ask_all(&them, COORD_PUBLISH);
        await_all();
        ask_all(&them, COORD_RELEASE);
        await_all();
        ask_all(&them, COORD_NUDGE);
        await_all();
    }
}

static void open_both(const char *title, span_ms timeout_ms)
{
    world_open(title);
    rival = fork(); // While this process has one thread.
    MUST(rival >= 0);
    if (rival == 0) {
        run_rival();
    }
    world.session_timeout_ms = timeout_ms;
    proxy = proxy_open(world.fixture.zk_hosts);
    world.hosts = proxy_address(proxy);
    client_open(&us, "broker-a", 'a');
    WORLD_UNTIL(us.member_count == 2);
}

static void close_both(void)
{
    proxy_close(proxy);
    MUST_EQ(kill(rival, SIGKILL), 0);
    MUST_EQ(waitpid(rival, NULL, 0), rival);
    world_close();
}

static void replies_and_watches_cross_while_another_broker_competes(void)
{
    open_both("cross", 6000);
    for (int round = 0; round < 5 * ROUND_COUNT; round++) {
        ask_all(&us, COORD_ACQUIRE);
        await_all();
        ask_all(&us, COORD_PUBLISH);
        await_all();
        ask_all(&us, COORD_RELEASE);
        await_all();
    }
    client_close(&us);
    close_both();
}

static void connections_break_under_calls_in_flight(void)
{
    open_both("break", 6000);
    for (int round = 0; round < ROUND_COUNT; round++) {
        ask_all(&us, round % 2 == 0 ? COORD_ACQUIRE : COORD_RELEASE);
        proxy_set(proxy, PROXY_CUT);
        WORLD_UNTIL(client_is(&us, COORD_AWAY));
        us.session_count = 0;
        proxy_set(proxy, PROXY_PASS);
        WORLD_UNTIL(client_is(&us, COORD_CONNECTED));
        await_all();
    }
    client_close(&us);
    close_both();
}

static void a_session_expires_under_calls_in_flight(void)
{
    open_both("expire", 1000);
    ask_all(&us, COORD_ACQUIRE);
    await_all();
    us.session_count = 0;
    for (int64_t cut_ms = 3000; !client_is(&us, COORD_NEW); cut_ms *= 2) {
        MUST_LE(cut_ms, 12000);
        proxy_set(proxy, PROXY_CUT);
        ask_all(&us, COORD_STATE);
        for (int64_t end_ms = must_now_ms() + cut_ms; must_now_ms() < end_ms;) {
            world_turn();
        }
        await_all(); // By our own deadline.
        ask_all(&us, COORD_ACQUIRE);
        proxy_set(proxy, PROXY_PASS);
        // A server that has stalled may not have ended the session yet.
        WORLD_UNTIL(client_is(&us, COORD_NEW) || client_is(&us, COORD_CONNECTED));
        await_all();
    }
    client_close(&us);
    close_both();
}

static void a_close_meets_calls_watches_and_a_connect_on_their_way(void)
{
    open_both("close", 6000);
    for (int round = 0; round < ROUND_COUNT; round++) {
        ask_all(&us, COORD_ACQUIRE);
        client_close(&us);
        us.is_closed = false;
        world_add(&us); // And once more, closed before it has connected.
        client_close(&us);
        client_open(&us, "broker-a", (char)('0' + round % 10));
    }
    client_close(&us);
    close_both();
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(replies_and_watches_cross_while_another_broker_competes),
        MUST_CASE(connections_break_under_calls_in_flight),
        MUST_CASE(a_session_expires_under_calls_in_flight),
        MUST_CASE(a_close_meets_calls_watches_and_a_connect_on_their_way),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
