/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls in JSON between the admin port's thread and the loop: answered at once, later, never, or by
 * nobody who still listens, and while everything is closed.
 */
#include "broker/json_api.h"

#include "broker/admin/admin.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"
#include "lib/rpc/rpc_server.h"
#include "tests/lib/must.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENT_COUNT  6
#define REQUEST_COUNT 200
#define HELD_MAX      64
#define ANSWER_MAX    4096

#define SOON  "/foliot.v1.TaskService/Create" /* answered at once */
#define LATER "/foliot.v1.TaskService/Get"    /* answered by a timer */
#define NEVER "/foliot.v1.TaskService/Cancel" /* answered when it is cancelled */

struct world {
    struct loop *loop;
    struct rpc_server *server;
    struct admin *admin;
    struct json_api *api;
    struct loop_timer tick;
    struct rpc_call *held[HELD_MAX]; /* of LATER */
    size_t held_count;
    uint32_t never_count; /* calls of NEVER that wait */
    bool is_closed;
    atomic_int clients; /* that are not done */
    uint16_t port;
};

struct client {
    struct world *world;
    pthread_t thread;
    uint64_t seed;
    int answered;
    int broken; /* lines that broke before the answer */
};

/* ---- the methods ---- */

static void on_soon(struct rpc_call *call, struct slice request, void *ctx)
{
    (void)ctx;
    MUST_EQ(request.len, 3); // {"queue":"q"}
    rpc_call_reply(call, (struct slice){(const uint8_t *)"\n\2id", 4});
    MUST_EQ(request.data[2], 'q'); // It is the handler's until it returns, answered or not.
}

static void on_later(struct rpc_call *call, struct slice request, void *ctx)
{
    struct world *world = ctx;

    (void)request;
    MUST(world->held_count < HELD_MAX);
    world->held[world->held_count++] = call;
}

static void on_cancelled(struct rpc_call *call, void *ctx)
{
    struct world *world = ctx;

    world->never_count--;
    rpc_call_fail(call, RPC_ABORTED, "cancelled", (struct slice){NULL, 0}, 0);
}

static void on_never(struct rpc_call *call, struct slice request, void *ctx)
{
    struct world *world = ctx;

    (void)request;
    world->never_count++;
    rpc_call_on_cancel(call, on_cancelled, world);
}

static void on_tick(struct loop_timer *timer, void *ctx)
{
    struct world *world = ctx;

    for (size_t i = 0; i < world->held_count; i++) {
        rpc_call_reply(world->held[i], (struct slice){NULL, 0});
    }
    world->held_count = 0;
    loop_timer_start_in(timer, 2);
}

/* ---- a world ---- */

static void open_world(struct world *world)
{
    static struct rpc_method methods[3];
    struct admin_options admin = {.host = "127.0.0.1", .clock_us = clock_boot_us};
    struct rpc_server_options server;

    memset(world, 0, sizeof(*world));
    methods[0] = (struct rpc_method){.path = SOON, .handler = on_soon, .ctx = world};
    methods[1] = (struct rpc_method){.path = LATER, .handler = on_later, .ctx = world};
    methods[2] = (struct rpc_method){.path = NEVER, .handler = on_never, .ctx = world};
    MUST_OK(loop_open(&world->loop));
    rpc_server_options_init(&server);
    MUST_OK(rpc_server_open(world->loop, &server, &world->server));
    MUST_OK(rpc_server_add_all(world->server, methods, ARRAY_COUNT(methods)));
    MUST_OK(admin_open(&admin, &world->admin));
    MUST_OK(json_api_open(world->loop, world->server, world->admin, &world->api));
    world->port = admin_port(world->admin);
    loop_timer_init(&world->tick, world->loop, on_tick, world);
    loop_timer_start_in(&world->tick, 2);
}

static void on_closed(void *ctx)
{
    struct world *world = ctx;

    world->is_closed = true;
    json_api_detach(world->api);
}

static void close_world(struct world *world)
{
    loop_timer_stop(&world->tick);
    on_tick(&world->tick, world); // What is held is answered; the timer is stopped again.
    loop_timer_stop(&world->tick);
    rpc_server_close(world->server, on_closed, world);
    while (!world->is_closed) {
        loop_turn(world->loop, true);
    }
    json_api_stop(world->api);
    admin_close(world->admin);
    json_api_free(world->api);
    loop_close(world->loop);
}

/* ---- clients ---- */

static int dial(const struct world *world)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(world->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    MUST(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Write a request, or the first `part` bytes of it. */
static bool send_request(int fd, const char *path, int timeout_ms, size_t part)
{
    static const char body[] = "{\"queue\":\"q\"}";
    char request[512];
    int len = snprintf(request, sizeof(request),
                       "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                       "Connect-Timeout-Ms: %d\r\nX-Some: thing\r\nContent-Length: %zu\r\n"
                       "Connection: close\r\n\r\n%s",
                       path, timeout_ms, sizeof(body) - 1, body);
    size_t count = part < (size_t)len ? part : (size_t)len;

    return send(fd, request, count, MSG_NOSIGNAL) == (ssize_t)count;
}

/* The status of the answer; 0 if the line breaks before it. */
static long read_status(int fd, char *answer)
{
    size_t len = 0;
    ssize_t count;

    while ((count = recv(fd, answer + len, ANSWER_MAX - 1 - len, 0)) > 0) {
        len += (size_t)count;
    }
    answer[len] = '\0';
    return len > 9 && strncmp(answer, "HTTP/1.1 ", 9) == 0 ? strtol(answer + 9, NULL, 10) : 0;
}

/* One request and its answer; true if there was one, false if the port is closing. A short time may
 * be over before the loop has the call. */
static bool ask(const struct world *world, const char *path, int timeout_ms, long wanted,
                const char *words)
{
    char answer[ANSWER_MAX];
    int fd = dial(world);
    long status = 0;

    if (fd >= 0 && send_request(fd, path, timeout_ms, SIZE_MAX)) {
        status = read_status(fd, answer);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (status == 503) {
        return false;
    }
    if (status == 504 && wanted == 409) {
        MUST(strstr(answer, "\"deadline_exceeded\"") != NULL);
    } else if (status != 0) {
        MUST_EQ(status, wanted);
        MUST(strstr(answer, words) != NULL);
    }
    return status != 0;
}

/* A request whose client goes before its answer comes, or before it is whole. */
static void leave(const struct world *world, struct prng *prng)
{
    int fd = dial(world);

    if (fd >= 0) {
        (void)send_request(fd, prng_chance(prng, 500) ? LATER : SOON, 1000,
                           1 + (size_t)prng_below(prng, 300));
        (void)close(fd);
    }
}

static void *run_client(void *ctx)
{
    struct client *client = ctx;
    struct world *world = client->world;
    struct prng prng;

    prng_init(&prng, client->seed);
    for (int i = 0; i < REQUEST_COUNT; i++) {
        bool is_answered = true;

        switch (prng_below(&prng, 4)) {
        case 0:
            is_answered = ask(world, SOON, 10000, 200, "{\"id\":\"id\"}");
            break;
        case 1:
            is_answered = ask(world, LATER, 10000, 200, "{}");
            break;
        case 2:
            is_answered = ask(world, NEVER, 3, 409, "\"aborted\"");
            break;
        default:
            leave(world, &prng);
            break;
        }
        client->answered += is_answered;
        client->broken += !is_answered;
    }
    atomic_fetch_sub(&world->clients, 1);
    return NULL;
}

static void start_clients(struct world *world, struct client *clients, void *(*run)(void *))
{
    atomic_store(&world->clients, CLIENT_COUNT);
    for (int i = 0; i < CLIENT_COUNT; i++) {
        clients[i] = (struct client){.world = world, .seed = (uint64_t)i + 1};
        MUST_EQ(pthread_create(&clients[i].thread, NULL, run, &clients[i]), 0);
    }
}

static void join_clients(struct client *clients)
{
    for (int i = 0; i < CLIENT_COUNT; i++) {
        MUST_EQ(pthread_join(clients[i].thread, NULL), 0);
    }
}

/* ---- cases ---- */

static void every_call_gets_its_own_answer_whatever_others_do(void)
{
    static struct world world;
    struct client clients[CLIENT_COUNT];

    open_world(&world);
    start_clients(&world, clients, run_client);
    while (atomic_load(&world.clients) > 0) {
        loop_turn(world.loop, true);
    }
    join_clients(clients);
    for (int i = 0; i < CLIENT_COUNT; i++) {
        MUST_EQ(clients[i].answered, REQUEST_COUNT);
    }
    close_world(&world);
}

/* Asks for what is never answered, until the port is gone. */
static void *run_waiting(void *ctx)
{
    struct client *client = ctx;

    while (ask(client->world, NEVER, 60000, 409, "\"aborted\"")) {
        client->answered++;
    }
    atomic_fetch_sub(&client->world->clients, 1);
    return NULL;
}

static void calls_that_wait_are_answered_or_cut_at_the_end(void)
{
    for (int round = 0; round < 20; round++) {
        static struct world world;
        struct client clients[CLIENT_COUNT];

        open_world(&world);
        start_clients(&world, clients, run_waiting);
        while (world.never_count < (uint32_t)(round % CLIENT_COUNT) + 1) {
            loop_turn(world.loop, true);
        }
        atomic_store(&world.clients, 0);
        close_world(&world);
        MUST_EQ(world.never_count, 0);
        join_clients(clients);
    }
}

/* Asks for what is answered at once, over and over, until the port is gone. */
static void *run_busy(void *ctx)
{
    struct client *client = ctx;
    char answer[ANSWER_MAX];
    long status = 1;

    while (status != 0) {
        int fd = dial(client->world);

        status = 0;
        if (fd >= 0) {
            if (send_request(fd, SOON, 60000, SIZE_MAX)) {
                status = read_status(fd, answer);
                MUST(status == 0 || status == 200 || status == 503);
                client->answered += status == 200;
            }
            (void)close(fd);
        }
    }
    return NULL;
}

static void an_end_in_the_middle_of_the_traffic_is_clean(void)
{
    for (int round = 0; round < 20; round++) {
        static struct world world;
        struct client clients[CLIENT_COUNT];
        struct rpc_server_stats stats = {.calls_started = 0};

        open_world(&world);
        start_clients(&world, clients, run_busy);
        while (stats.calls_started < 10U * (unsigned)round) {
            loop_turn(world.loop, true);
            rpc_server_get_stats(world.server, &stats);
        }
        close_world(&world);
        join_clients(clients);
    }
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(every_call_gets_its_own_answer_whatever_others_do),
        MUST_CASE(calls_that_wait_are_answered_or_cut_at_the_end),
        MUST_CASE(an_end_in_the_middle_of_the_traffic_is_clean),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
