/* SPDX-License-Identifier: Apache-2.0
 *
 * foliotd and difficult targets: silent, unreachable, forbidden; queues that repeat and queues that
 * must not; several databases; a restart in between.
 */
#include "tests/lib/daemon.h"
#include "tests/lib/fixture.h"
#include "tests/lib/must.h"
#include "tests/lib/world.h"

#include "lib/base/err.h"
#include "lib/io/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *const FLAGS[] = {"--cluster-shards=8", NULL};

struct scene {
    struct fixture fixture;
    struct world world;
    struct daemon a;
};

static void open_scene(struct scene *scene, const char *title)
{
    fixture_open(&scene->fixture, title);
    world_open(&scene->world);
    daemon_start(&scene->a, &scene->fixture, "a", FLAGS);
    daemon_wait_ready(&scene->a);
}

static void close_scene(struct scene *scene)
{
    daemon_stop(&scene->a);
    world_close(&scene->world);
    fixture_close(&scene->fixture);
}

static struct verdict_of never(struct world *world, const struct arrival *arrival)
{
    (void)world;
    (void)arrival;
    return (struct verdict_of){.is_silent = true};
}

static void put_queue(struct scene *scene, const char *name, bool at_most_once)
{
    struct queue queue;
    char target[128];

    world_method_target(&scene->world, target, sizeof(target));
    queue_init(&queue);
    (void)snprintf(queue.tenant, sizeof(queue.tenant), NAMESPACE_DEFAULT);
    (void)snprintf(queue.name, sizeof(queue.name), "%s", name);
    (void)snprintf(queue.target, sizeof(queue.target), "%s", target);
    queue.attempt_timeout_ms = 200;
    queue.at_most_once = at_most_once;
    world_put_queue(&scene->world, scene->a.address, &queue);
}

static void an_unknown_outcome_is_repeated_after_the_deadline_or_not_at_all(void)
{
    struct scene scene = {0};
    struct task_id again;
    struct task_id once;
    wall_ms deadline_ms;

    open_scene(&scene, "unknown");
    scene.world.answer = never;
    put_queue(&scene, "again", false);
    put_queue(&scene, "once", true);
    again = world_create_in(&scene.world, scene.a.address, "again", 0, "x");
    once = world_create_in(&scene.world, scene.a.address, "once", 0, "x");
    WORLD_UNTIL(&scene.world, world_count(&scene.world, again) == 1, 5000);
    deadline_ms = world_last(&scene.world, again)->deadline_ms;
    WORLD_UNTIL(&scene.world, world_count(&scene.world, again) == 2, 15000);
    MUST_LE(2, world_last(&scene.world, again)->attempt);
    MUST_LE(deadline_ms * 1000, world_last(&scene.world, again)->at_us); // Never an overlap.
    MUST_EQ(world_count(&scene.world, once), 1);
    world_wait(&scene.world, 1000);
    MUST_EQ(world_count(&scene.world, once), 1);
    close_scene(&scene);
}

/* A port that takes connections, with nobody behind it. */
static int open_hanging(char *target, size_t size)
{
    struct sockaddr_in bound = {.sin_family = AF_INET};
    socklen_t len = sizeof(bound);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUST_EQ(bind(fd, (const struct sockaddr *)&bound, sizeof(bound)), 0);
    MUST_EQ(listen(fd, 128), 0);
    MUST_EQ(getsockname(fd, (struct sockaddr *)&bound, &len), 0);
    (void)snprintf(target, size, "grpc://127.0.0.1:%u/a.B/C", (unsigned)ntohs(bound.sin_port));
    return fd;
}

static struct verdict_of never_in_silent(struct world *world, const struct arrival *arrival)
{
    (void)world;
    return (struct verdict_of){.is_silent = strcmp(arrival->queue, "silent") == 0,
                               .outcome = DELIVERY_DONE};
}

static const char *const BAD[] = {"hanging", "dead", "nowhere", "silent"};

/* How late the latest of some good tasks comes beside bad ones; none before its due time. */
static int64_t latest_ms(struct scene *scene)
{
    struct task_id good[30];
    int64_t latest_us = 0;

    for (int i = 0; i < 400; i++) {
        (void)world_create_in(&scene->world, scene->a.address, BAD[i % 4], 1500, "x");
    }
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        good[i] = world_create_in(&scene->world, scene->a.address, "good", 2000, "x");
    }
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        const struct arrival *arrival;

        WORLD_UNTIL(&scene->world, world_count(&scene->world, good[i]) > 0, 10000);
        arrival = world_last(&scene->world, good[i]);
        MUST_LE(arrival->due_ms * 1000, arrival->at_us);
        latest_us = time_max(latest_us, arrival->at_us - arrival->due_ms * 1000);
    }
    return latest_us / 1000;
}

static void bad_targets_make_no_other_queue_late(void)
{
    static const char *const flags[] = {"--cluster-shards=8", "--targets-allow=*", NULL};
    struct scene scene = {0};
    char target[128];
    int fd;

    fixture_open(&scene.fixture, "bad");
    world_open(&scene.world);
    scene.world.answer = never_in_silent;
    daemon_start(&scene.a, &scene.fixture, "a", flags);
    daemon_wait_ready(&scene.a);
    world_method_target(&scene.world, target, sizeof(target));
    world_create_queue(&scene.world, scene.a.address, "good", target);
    world_create_queue(&scene.world, scene.a.address, "silent", target); // At the same address.
    fd = open_hanging(target, sizeof(target));
    world_create_queue(&scene.world, scene.a.address, "hanging", target);
    world_create_queue(&scene.world, scene.a.address, "dead", "grpc://127.0.0.1:1/a.B/C");
    world_create_queue(&scene.world, scene.a.address, "nowhere",
                       "receiver://no-such-host.invalid:1");
    MUST_LE_ONCE(latest_ms(&scene), 400);
    // Figures are about a second old.
    WORLD_UNTIL(&scene.world, daemon_metric(&scene.a, "foliot_targets_unreachable") >= 1, 10000);
    for (size_t i = 0; i < ARRAY_COUNT(BAD); i++) {
        (void)snprintf(target, sizeof(target), "\"queue\":\"%s\",\"target\":", BAD[i]);
        WORLD_UNTIL(&scene.world, daemon_count_logged(&scene.a, target) == 1, 20000);
    }
    (void)close(fd);
    close_scene(&scene);
}

static void a_target_that_is_forbidden_later_gets_nothing_until_it_is_allowed(void)
{
    static const char *const strict[] = {"--targets-allow=10.0.0.1:*", NULL};
    struct scene scene = {0};
    char target[128];
    struct task_id id;

    open_scene(&scene, "forbidden");
    world_method_target(&scene.world, target, sizeof(target));
    world_create_queue(&scene.world, scene.a.address, "q", target);
    id = world_create_in(&scene.world, scene.a.address, "q", 5000, "x");
    daemon_stop(&scene.a);
    daemon_start(&scene.a, &scene.fixture, "a", strict);
    daemon_wait_ready(&scene.a);
    WORLD_UNTIL(&scene.world, daemon_metric(&scene.a, "foliot_retries_total") >= 1, 10000);
    MUST_EQ(scene.world.arrival_count, 0);
    daemon_stop(&scene.a);
    daemon_start(&scene.a, &scene.fixture, "a", FLAGS);
    daemon_wait_ready(&scene.a);
    WORLD_UNTIL(&scene.world, world_count(&scene.world, id) == 1, 10000);
    MUST_LE(2, world_last(&scene.world, id)->attempt);
    close_scene(&scene);
}

static void a_cluster_of_two_databases_uses_both(void)
{
    struct scene scene = {0};
    char second[FIXTURE_TEXT_MAX];
    char flag[2 * FIXTURE_TEXT_MAX + 64];
    const char *flags[] = {"--cluster-shards=8", flag, NULL};
    struct task_id ids[60];
    char target[128];

    fixture_open(&scene.fixture, "two");
    world_open(&scene.world);
    fixture_add_database(&scene.fixture, "second", second);
    (void)snprintf(flag, sizeof(flag), "--databases=db0=%s;db1=%s", scene.fixture.pg_conninfo,
                   second);
    daemon_start(&scene.a, &scene.fixture, "a", flags);
    daemon_wait_ready(&scene.a);
    WORLD_UNTIL(&scene.world, daemon_metric(&scene.a, "foliot_shards_owned") == 8, 10000);
    world_method_target(&scene.world, target, sizeof(target));
    world_create_queue(&scene.world, scene.a.address, "q", target);
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        char key[16];
        const struct create_request request = {
            .queue = {NAMESPACE_DEFAULT, "q"},
            .when = {.kind = WHEN_DELAY, .delay_ms = 500},
            .payload = slice_of("x"),
            .key = {(const uint8_t *)key, (size_t)snprintf(key, sizeof(key), "key-%zu", i)},
            .key_policy = KEY_KEEP,
        };
        struct create_reply reply;
        struct fault fault;

        MUST_EQ(world_create(&scene.world, scene.a.address, &request, &reply, &fault), RPC_OK);
        ids[i] = reply.id;
    }
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        WORLD_UNTIL(&scene.world, world_count(&scene.world, ids[i]) == 1, 10000);
    }
    WORLD_UNTIL(&scene.world,
                daemon_metric(&scene.a, "foliot_db_write_batches_total{database=\"db0\"}") > 0 &&
                    daemon_metric(&scene.a, "foliot_db_write_batches_total{database=\"db1\"}") > 0,
                5000);
    close_scene(&scene);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(an_unknown_outcome_is_repeated_after_the_deadline_or_not_at_all),
        MUST_CASE(bad_targets_make_no_other_queue_late),
        MUST_CASE(a_target_that_is_forbidden_later_gets_nothing_until_it_is_allowed),
        MUST_CASE(a_cluster_of_two_databases_uses_both),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
