/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets over real sockets: what an attempt carries, when it may start, what its end is taken for,
 * and that a bad address costs nobody but itself.
 */
#include "broker/target/target_pool.h"

#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"
#include "tests/lib/must.h"
#include "tests/lib/world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT_MS 10000

/* Longest time for many good attempts beside bad ones, and for those. */
#define GOOD_MS_MAX 800
#define BAD_MS_MAX  3000

/* One attempt of a test. */
struct
try {
    struct target_call call;
    bool has_ended;
    int64_t ended_ms;
    struct target_result result;
    char text[ERROR_TEXT_BYTES_MAX + 1];
    int allowed; /* times that may_start still says yes */
    struct world *world;
};

struct scene {
    struct world world;
    struct target_pool *pool;
};

static bool may_start(struct target_call *call, boot_us at_us)
{
    struct try *attempt = CONTAINER_OF(call, struct try, call);

    MUST_LE(at_us, clock_boot_us());
    return attempt->allowed-- > 0;
}

static void on_done(struct target_call *call, const struct target_result *result)
{
    struct try *attempt = CONTAINER_OF(call, struct try, call);

    MUST(!attempt->has_ended);
    attempt->has_ended = true;
    attempt->ended_ms = must_now_ms();
    attempt->result = *result;
    (void)snprintf(attempt->text, sizeof(attempt->text), "%.*s", (int)result->error_text.len,
                   result->error_text.len > 0 ? (const char *)result->error_text.data : "");
}

static void prepare(struct try *attempt, struct scene *scene, int64_t seq)
{
    boot_us now_us = loop_sample_us(scene->world.loop);

    memset(attempt, 0, sizeof(*attempt));
    attempt->allowed = 1000;
    attempt->world = &scene->world;
    attempt->call = (struct target_call){
        .id = {.seq = seq, .slot = 7},
        .attempt = 3,
        .tenant = "default",
        .queue = "q",
        .path = WORLD_METHOD,
        .key = slice_of("clé"),
        .payload = slice_of("payload"),
        .due_ms = 1000,
        .deadline_ms = 9000,
        .timeout_ms = 2000,
        .start_by_us = now_us + 1000 * US_PER_MS,
        .over_by_us = now_us + 4000 * US_PER_MS,
        .may_start = may_start,
        .done = on_done,
    };
}

static void open_scene(struct scene *scene, uint32_t target_count_max)
{
    struct target_pool_options options;

    world_open(&scene->world);
    options = (struct target_pool_options){
        .loop = scene->world.loop,
        .resolver = scene->world.resolver,
        .target_count_max = target_count_max,
        .concurrency_max = 50,
        .queue_max = 50,
        .batch_max = 20,
    };
    MUST_OK(target_pool_open(&options, &scene->pool));
}

static void on_closed(void *ctx)
{
    *(bool *)ctx = true;
}

static void close_scene(struct scene *scene)
{
    bool is_closed = false;

    target_pool_close(scene->pool, on_closed, &is_closed);
    MUST(!is_closed);
    WORLD_UNTIL(&scene->world, is_closed, LIMIT_MS);
    world_close(&scene->world);
}

static int go(struct scene *scene, enum target_kind kind, const char *address, struct try *attempt)
{
    const struct target_address where = {.kind = kind, .authority = slice_of(address)};
    int err = target_pool_start(scene->pool, &where, &attempt->call);

    MUST(!attempt->has_ended);
    return err;
}

/* ---- what travels ---- */

static void a_method_gets_the_payload_and_all_that_names_the_attempt(void)
{
    struct scene scene;
    struct try attempt;
    const struct arrival *arrival;

    open_scene(&scene, 10);
    prepare(&attempt, &scene, 99);
    attempt.call.payload = (struct slice){(const uint8_t *)"a\0b", 3};
    MUST_OK(go(&scene, TARGET_GRPC_METHOD, scene.world.target, &attempt));
    WORLD_UNTIL(&scene.world, attempt.has_ended, LIMIT_MS);
    MUST_EQ(attempt.result.verdict, TARGET_DONE);
    arrival = world_last(&scene.world, attempt.call.id);
    MUST_EQ(arrival->attempt, 3);
    MUST_EQ(arrival->due_ms, 1000);
    MUST_EQ(arrival->deadline_ms, 9000);
    MUST_EQ_TEXT(arrival->queue, "q");
    MUST_EQ_TEXT(arrival->key, "clé");
    MUST_EQ(arrival->payload_len, 3);
    MUST_EQ_BYTES(arrival->payload, "a\0b", 3);
    close_scene(&scene);
}

static struct verdict_of by_number(struct world *world, const struct arrival *arrival)
{
    static const enum delivery_outcome outcomes[] = {DELIVERY_DONE, DELIVERY_RETRY, DELIVERY_DEAD,
                                                     DELIVERY_OBSOLETE};

    (void)world;
    return (struct verdict_of){.outcome = outcomes[arrival->id.seq % 4]};
}

static void attempts_of_one_turn_share_calls_and_have_their_own_results(void)
{
    static const enum target_verdict wanted[] = {TARGET_DONE, TARGET_RETRY, TARGET_DEAD,
                                                 TARGET_OBSOLETE};
    struct scene scene;
    static struct try attempts[50];

    open_scene(&scene, 10);
    scene.world.answer = by_number;
    for (int i = 0; i < 50; i++) {
        prepare(&attempts[i], &scene, i + 1);
        MUST_OK(go(&scene, TARGET_RECEIVER, scene.world.target, &attempts[i]));
    }
    for (int i = 0; i < 50; i++) {
        WORLD_UNTIL(&scene.world, attempts[i].has_ended, LIMIT_MS);
        MUST_EQ(attempts[i].result.verdict, wanted[(i + 1) % 4]);
    }
    MUST_EQ(scene.world.arrival_count, 50);
    MUST_EQ(scene.world.deliver_count, 3); // Twenty to a call.
    close_scene(&scene);
}

static void attempts_with_other_timeouts_never_share_a_call(void)
{
    struct scene scene;
    static struct try attempts[30];

    open_scene(&scene, 10);
    for (int i = 0; i < 30; i++) {
        prepare(&attempts[i], &scene, i + 1);
        attempts[i].call.timeout_ms = 1000 + i % 3;
        MUST_OK(go(&scene, TARGET_RECEIVER, scene.world.target, &attempts[i]));
    }
    WORLD_UNTIL(&scene.world, scene.world.arrival_count == 30, LIMIT_MS);
    MUST_EQ(scene.world.deliver_count, 3);
    for (int i = 0; i < 30; i++) {
        WORLD_UNTIL(&scene.world, attempts[i].has_ended, LIMIT_MS);
    }
    close_scene(&scene);
}

/* ---- when it may start ---- */

static void what_is_too_late_before_the_send_is_withdrawn(void)
{
    struct scene scene;
    struct try by_method;
    struct try late;
    struct try good[5];

    open_scene(&scene, 10);
    prepare(&by_method, &scene, 1);
    by_method.allowed = 0;
    MUST_OK(go(&scene, TARGET_GRPC_METHOD, scene.world.target, &by_method));
    prepare(&late, &scene, 2);
    late.allowed = 0;
    MUST_OK(go(&scene, TARGET_RECEIVER, scene.world.target, &late));
    for (int i = 0; i < 5; i++) { // In the same batch: they gather anew.
        prepare(&good[i], &scene, 10 + i);
        MUST_OK(go(&scene, TARGET_RECEIVER, scene.world.target, &good[i]));
    }
    WORLD_UNTIL(&scene.world, by_method.has_ended && late.has_ended, LIMIT_MS);
    MUST_EQ(by_method.result.verdict, TARGET_NOT_STARTED);
    MUST_EQ(late.result.verdict, TARGET_NOT_STARTED);
    for (int i = 0; i < 5; i++) {
        WORLD_UNTIL(&scene.world, good[i].has_ended, LIMIT_MS);
        MUST_EQ(good[i].result.verdict, TARGET_DONE);
    }
    MUST_EQ(world_count(&scene.world, by_method.call.id), 0);
    MUST_EQ(world_count(&scene.world, late.call.id), 0);
    MUST_EQ(scene.world.arrival_count, 5);
    close_scene(&scene);
}

static struct verdict_of never(struct world *world, const struct arrival *arrival)
{
    (void)world;
    (void)arrival;
    return (struct verdict_of){.is_silent = true};
}

static void what_is_found_late_after_the_send_is_reset_and_unknown(void)
{
    static const enum target_kind kinds[] = {TARGET_GRPC_METHOD, TARGET_RECEIVER};
    struct scene scene;
    struct try attempts[2];

    open_scene(&scene, 10);
    scene.world.answer = never;
    for (int i = 0; i < 2; i++) {
        int64_t start_ms = must_now_ms();

        prepare(&attempts[i], &scene, i + 1);
        attempts[i].allowed = 1; // Yes before the send, no after it.
        MUST_OK(go(&scene, kinds[i], scene.world.target, &attempts[i]));
        WORLD_UNTIL(&scene.world, attempts[i].has_ended, LIMIT_MS);
        MUST_EQ(attempts[i].result.verdict, TARGET_UNKNOWN);
        MUST_LE(must_now_ms() - start_ms, 1500); // Not by its timeout.
    }
    close_scene(&scene);
}

/* When the later of two attempts at a silent target ends, by their timeout of 300 ms. */
static int64_t silent_end_ms(void)
{
    struct scene scene;
    struct try attempts[2];
    int64_t start_ms = must_now_ms();

    open_scene(&scene, 10);
    scene.world.answer = never;
    for (int i = 0; i < 2; i++) {
        prepare(&attempts[i], &scene, i + 1);
        attempts[i].call.timeout_ms = 300;
        MUST_OK(go(&scene, i == 0 ? TARGET_GRPC_METHOD : TARGET_RECEIVER, scene.world.target,
                   &attempts[i]));
    }
    WORLD_UNTIL(&scene.world, attempts[0].has_ended && attempts[1].has_ended, LIMIT_MS);
    for (int i = 0; i < 2; i++) {
        MUST_EQ(attempts[i].result.verdict, TARGET_UNKNOWN);
        MUST_LE(start_ms + 300, attempts[i].ended_ms);
    }
    close_scene(&scene);
    return time_max(attempts[0].ended_ms, attempts[1].ended_ms) - start_ms;
}

static void a_silent_target_is_unknown_after_the_attempt_timeout(void)
{
    MUST_LE_ONCE(silent_end_ms(), 900);
}

/* ---- bad addresses ---- */

/* A port that is bound and takes connections, but nobody answers on it. */
static int open_hanging(char *address, size_t size)
{
    struct sockaddr_in bound = {.sin_family = AF_INET};
    socklen_t len = sizeof(bound);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUST_EQ(bind(fd, (const struct sockaddr *)&bound, sizeof(bound)), 0);
    MUST_EQ(listen(fd, 128), 0);
    MUST_EQ(getsockname(fd, (struct sockaddr *)&bound, &len), 0);
    (void)snprintf(address, size, "127.0.0.1:%u", (unsigned)ntohs(bound.sin_port));
    return fd;
}

/* How many milliseconds the slower of good and bad attempts beside each other are too late. */
static int64_t too_late_ms(void)
{
    static struct try bad[240];
    struct scene scene;
    static struct try good[50];
    char hanging[64];
    int hanging_fd = open_hanging(hanging, sizeof(hanging));
    const char *addresses[] = {hanging, "127.0.0.1:1", "no-such-host.invalid:80"};
    bool are_done = true;
    int64_t start_ms;
    int64_t good_ms;
    int64_t bad_ms;

    open_scene(&scene, 10);
    for (int i = 0; i < 240; i++) {
        prepare(&bad[i], &scene, 1000 + i);
        MUST_OK(go(&scene, i % 2 == 0 ? TARGET_GRPC_METHOD : TARGET_RECEIVER, addresses[i % 3],
                   &bad[i]));
    }
    start_ms = must_now_ms();
    for (int i = 0; i < 50; i++) {
        prepare(&good[i], &scene, 1 + i);
        MUST_OK(go(&scene, TARGET_GRPC_METHOD, scene.world.target, &good[i]));
    }
    for (int i = 0; i < 50; i++) {
        WORLD_UNTIL(&scene.world, good[i].has_ended, LIMIT_MS);
        are_done = are_done && good[i].result.verdict == TARGET_DONE;
    }
    good_ms = must_now_ms() - start_ms;
    MUST(are_done || good_ms > GOOD_MS_MAX); // Too late for some to be started.
    for (int i = 0; i < 240; i++) {          // Each ends by start_by at the latest, as not reached.
        WORLD_UNTIL(&scene.world, bad[i].has_ended, LIMIT_MS);
        MUST_EQ(bad[i].result.verdict, TARGET_RETRY);
    }
    bad_ms = must_now_ms() - start_ms;
    (void)close(hanging_fd);
    close_scene(&scene);
    return time_max(good_ms - GOOD_MS_MAX, bad_ms - BAD_MS_MAX);
}

static void bad_addresses_delay_nobody_else(void)
{
    MUST_LE_ONCE(too_late_ms(), 0);
}

static void a_full_address_refuses_and_the_next_one_does_not(void)
{
    static struct try attempts[101];
    struct scene scene;
    struct try other;
    char hanging[64];
    int hanging_fd = open_hanging(hanging, sizeof(hanging));

    open_scene(&scene, 10);
    for (int i = 0; i < 101; i++) {
        prepare(&attempts[i], &scene, 1 + i);
        MUST_EQ(
            go(&scene, i % 2 == 0 ? TARGET_GRPC_METHOD : TARGET_RECEIVER, hanging, &attempts[i]),
            i < 100 ? 0 : ERR_FULL);
    }
    prepare(&other, &scene, 1000);
    MUST_OK(go(&scene, TARGET_GRPC_METHOD, scene.world.target, &other));
    WORLD_UNTIL(&scene.world, other.has_ended, LIMIT_MS);
    MUST_EQ(other.result.verdict, TARGET_DONE);
    close_scene(&scene); // Ends the hundred.
    for (int i = 0; i < 100; i++) {
        MUST(attempts[i].has_ended);
    }
    MUST(!attempts[100].has_ended);
    (void)close(hanging_fd);
}

static void an_idle_address_makes_room_for_a_new_one(void)
{
    struct scene scene;
    struct try attempts[4];
    struct target_pool_stats stats;
    char hanging[64];
    int hanging_fd = open_hanging(hanging, sizeof(hanging));

    open_scene(&scene, 2);
    prepare(&attempts[0], &scene, 1);
    MUST_OK(go(&scene, TARGET_GRPC_METHOD, scene.world.target, &attempts[0]));
    WORLD_UNTIL(&scene.world, attempts[0].has_ended, LIMIT_MS);
    for (int i = 1; i < 3; i++) {
        prepare(&attempts[i], &scene, 1 + i);
        MUST_OK(go(&scene, TARGET_GRPC_METHOD, i == 1 ? hanging : "127.0.0.1:1", &attempts[i]));
    }
    prepare(&attempts[3], &scene, 4); // Both are in use now.
    MUST_ERR(go(&scene, TARGET_GRPC_METHOD, scene.world.target, &attempts[3]), ERR_FULL);
    target_pool_stats(scene.pool, &stats);
    MUST_EQ(stats.targets, 2);
    MUST_EQ(stats.attempts, 2);
    WORLD_UNTIL(&scene.world, attempts[1].has_ended && attempts[2].has_ended, LIMIT_MS);
    prepare(&attempts[3], &scene, 4);
    MUST_OK(go(&scene, TARGET_GRPC_METHOD, scene.world.target, &attempts[3]));
    WORLD_UNTIL(&scene.world, attempts[3].has_ended, LIMIT_MS);
    MUST_EQ(attempts[3].result.verdict, TARGET_DONE);
    (void)close(hanging_fd);
    close_scene(&scene);
}

static void nothing_is_left_behind(void)
{
    int64_t blocks = mem_block_count();

    what_is_too_late_before_the_send_is_withdrawn();
    attempts_of_one_turn_share_calls_and_have_their_own_results();
    an_idle_address_makes_room_for_a_new_one();
    MUST_EQ(mem_block_count(), blocks);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_method_gets_the_payload_and_all_that_names_the_attempt),
        MUST_CASE(attempts_of_one_turn_share_calls_and_have_their_own_results),
        MUST_CASE(attempts_with_other_timeouts_never_share_a_call),
        MUST_CASE(what_is_too_late_before_the_send_is_withdrawn),
        MUST_CASE(what_is_found_late_after_the_send_is_reset_and_unknown),
        MUST_CASE(a_silent_target_is_unknown_after_the_attempt_timeout),
        MUST_CASE(bad_addresses_delay_nobody_else),
        MUST_CASE(a_full_address_refuses_and_the_next_one_does_not),
        MUST_CASE(an_idle_address_makes_room_for_a_new_one),
        MUST_CASE(nothing_is_left_behind),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
