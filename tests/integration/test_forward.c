/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that one broker passes on to another while the line between them breaks: what may have
 * happened is answered OUTCOME_UNKNOWN, what provably has not is tried again or UNAVAILABLE, never
 * the other way round (K-8).
 */
#include "tests/lib/daemon.h"
#include "tests/lib/fixture.h"
#include "tests/lib/must.h"
#include "tests/lib/proxy.h"
#include "tests/lib/world.h"

#include "lib/base/err.h"
#include "lib/io/clock.h"
#include "proto/codec_cluster.h"
#include "proto/codec_peer.h"
#include "proto/route.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SHARDS     8
#define HALF       4
#define SHARDS_ARG "--cluster-shards=8"
#define CREATE     "/foliot.v1.TaskService/Create"
#define BATCH      "/foliot.v1.TaskService/BatchCreate"
#define GET        "/foliot.v1.TaskService/Get"
#define TOPOLOGY   "/foliot.v1.ClusterService/GetTopology"

/* A refusal that waits for a read of the database. */
#define ANSWER_MS 10000

/* Brokers a and b; a reaches b only through the proxy, the test reaches both. */
struct scene {
    struct fixture fixture;
    struct world world;
    struct daemon a;
    struct daemon b;
    struct proxy *proxy;
    char direct[64];    /* b without the proxy */
    bool is_bs[SHARDS]; /* shards that b serves */
    wall_ms open_ms;    /* before the brokers were started */
};

static bool is_settled(const struct scene *scene)
{
    return daemon_metric(&scene->a, "foliot_shards_owned") == HALF &&
           daemon_metric(&scene->b, "foliot_shards_owned") == HALF &&
           daemon_metric(&scene->a, "foliot_shards_unowned") == 0 &&
           daemon_metric(&scene->b, "foliot_shards_unowned") == 0;
}

static struct create_request keyed(const char *key)
{
    return (struct create_request){
        .queue = {NAMESPACE_DEFAULT, "q"},
        .when = {.kind = WHEN_DELAY, .delay_ms = 3600000},
        .payload = slice_of("x"),
        .key = slice_of(key),
        .key_policy = KEY_KEEP,
    };
}

/* b serves a shard if it takes a call that claims to be passed on already. */
static void learn_owners(struct scene *scene)
{
    static const struct rpc_metadata forwarded = {"foliot-forwarded", {(const uint8_t *)"t", 1}};

    for (int i = 0, left = SHARDS; left > 0; i++) {
        static bool is_known[SHARDS];
        char key[32];
        struct create_request request;
        struct rpc_request call = {.path = CREATE, .metadata = &forwarded, .metadata_count = 1};
        struct answer answer;
        struct buf bytes;
        uint32_t shard;

        (void)snprintf(key, sizeof(key), "probe-%d", i);
        shard = shard_of_slot(route_key_slot(NAMESPACE_DEFAULT, "q", slice_of(key)), SHARDS);
        if (is_known[shard]) {
            continue;
        }
        request = keyed(key);
        buf_init(&bytes, 4096);
        MUST_OK(codec_write_create(&request, &bytes));
        call.payload = buf_slice(&bytes);
        world_start(&scene->world, scene->direct, &call, &answer);
        WORLD_UNTIL(&scene->world, answer.has_come, 10000);
        if (answer.status != RPC_OK) {
            MUST_EQ(answer.status, RPC_UNAVAILABLE);
            MUST_EQ_TEXT(answer.fault.reason, "NOT_OWNER");
        }
        scene->is_bs[shard] = answer.status == RPC_OK;
        is_known[shard] = true;
        left--;
        answer_fini(&answer);
        buf_fini(&bytes);
    }
}

static void open_scene(struct scene *scene, const char *title)
{
    static const char *const flags_of_a[] = {SHARDS_ARG, NULL};
    char listen[96];
    char advertise[96];
    const char *flags_of_b[] = {SHARDS_ARG, listen, advertise, NULL};
    char target[128];

    scene->open_ms = clock_wall_ms();
    fixture_open(&scene->fixture, title);
    world_open(&scene->world);
    (void)snprintf(scene->direct, sizeof(scene->direct), "127.0.0.1:%u", fixture_free_port());
    scene->proxy = proxy_open(scene->direct);
    (void)snprintf(listen, sizeof(listen), "--listen=%s", scene->direct);
    (void)snprintf(advertise, sizeof(advertise), "--advertise=%s", proxy_address(scene->proxy));
    daemon_start(&scene->a, &scene->fixture, "a", flags_of_a);
    daemon_wait_ready(&scene->a);
    daemon_start(&scene->b, &scene->fixture, "b", flags_of_b);
    daemon_wait_ready(&scene->b);
    WORLD_UNTIL(&scene->world, is_settled(scene), 30000);
    world_method_target(&scene->world, target, sizeof(target));
    world_create_queue(&scene->world, scene->a.address, "q", target);
    learn_owners(scene);
}

static void close_scene(struct scene *scene)
{
    daemon_stop(&scene->a);
    daemon_stop(&scene->b);
    proxy_close(scene->proxy);
    world_close(&scene->world);
    fixture_close(&scene->fixture);
}

/* The n-th key whose shard b (or a) serves. */
static void key_of(const struct scene *scene, bool of_b, int n, char *key, size_t size)
{
    for (int i = 0;; i++) {
        uint16_t slot;

        (void)snprintf(key, size, "key-%d", i);
        slot = route_key_slot(NAMESPACE_DEFAULT, "q", slice_of(key));
        if (scene->is_bs[shard_of_slot(slot, SHARDS)] == of_b && n-- == 0) {
            return;
        }
    }
}

/* Is the key's task pending, asked at b itself? */
static bool b_has(struct scene *scene, const char *key)
{
    const struct task_name name = {.queue = {NAMESPACE_DEFAULT, "q"}, .key = slice_of(key)};
    struct answer answer;
    struct buf bytes;
    bool has;

    buf_init(&bytes, 4096);
    MUST_OK(codec_write_task_name(&name, &bytes));
    world_call(&scene->world, scene->direct, GET, buf_slice(&bytes), &answer);
    has = answer.status == RPC_OK;
    answer_fini(&answer);
    buf_fini(&bytes);
    return has;
}

/* A warm connection from a to b, so that what follows is a call on it. */
static void warm(struct scene *scene)
{
    struct create_request request;
    struct create_reply reply;
    struct fault fault;
    char key[32];

    key_of(scene, true, 1000, key, sizeof(key));
    request = keyed(key);
    MUST_EQ(world_create(&scene->world, scene->a.address, &request, &reply, &fault), RPC_OK);
}

static void a_create_whose_reply_is_lost_is_an_unknown_outcome(void)
{
    struct scene scene = {0};
    struct rpc_request call = {.path = CREATE};
    struct create_request request;
    struct create_reply reply;
    struct answer answer;
    struct fault fault;
    struct buf bytes;
    char key[32];

    open_scene(&scene, "lost");
    warm(&scene);
    key_of(&scene, true, 0, key, sizeof(key));
    request = keyed(key);
    buf_init(&bytes, 4096);
    MUST_OK(codec_write_create(&request, &bytes));
    call.payload = buf_slice(&bytes);
    proxy_set(scene.proxy, PROXY_DROP_REPLIES);
    world_start(&scene.world, scene.a.address, &call, &answer);
    WORLD_UNTIL(&scene.world, b_has(&scene, key), 10000);
    MUST(!answer.has_come);
    proxy_set(scene.proxy, PROXY_CUT);
    WORLD_UNTIL(&scene.world, answer.has_come, 10000);
    MUST_EQ(answer.status, RPC_UNKNOWN);
    MUST_EQ_TEXT(answer.fault.reason, "OUTCOME_UNKNOWN");
    proxy_set(scene.proxy, PROXY_PASS);
    WORLD_UNTIL(&scene.world,
                world_create(&scene.world, scene.a.address, &request, &reply, &fault) == RPC_OK,
                10000);
    MUST(!reply.created); // It had happened; repeating with the key was safe.
    answer_fini(&answer);
    buf_fini(&bytes);
    close_scene(&scene);
}

static void a_create_that_never_left_is_unavailable_and_did_not_happen(void)
{
    struct scene scene = {0};
    struct create_request request;
    struct create_reply reply;
    struct fault fault;
    char key[32];
    int64_t start_ms;

    open_scene(&scene, "refused");
    key_of(&scene, true, 0, key, sizeof(key));
    request = keyed(key);
    proxy_set(scene.proxy, PROXY_CUT);
    start_ms = must_now_ms();
    MUST_EQ(world_create(&scene.world, scene.a.address, &request, &reply, &fault), RPC_UNAVAILABLE);
    MUST_EQ_TEXT(fault.reason, "OWNER_UNKNOWN");
    MUST(fault.retry_after_ms > 0);
    MUST_LE(900, must_now_ms() - start_ms);
    MUST_LE(must_now_ms() - start_ms, 5000);
    MUST(!b_has(&scene, key));
    proxy_set(scene.proxy, PROXY_PASS);
    WORLD_UNTIL(&scene.world,
                world_create(&scene.world, scene.a.address, &request, &reply, &fault) == RPC_OK,
                10000);
    MUST(reply.created);
    close_scene(&scene);
}

static void a_read_is_made_again_when_the_line_breaks(void)
{
    struct scene scene = {0};
    struct rpc_request call = {.path = GET};
    struct task_name name = {.queue = {NAMESPACE_DEFAULT, "q"}};
    struct create_request request;
    struct create_reply reply;
    struct answer answer;
    struct fault fault;
    struct buf bytes;
    char key[32];

    open_scene(&scene, "read");
    key_of(&scene, true, 0, key, sizeof(key));
    request = keyed(key);
    MUST_EQ(world_create(&scene.world, scene.a.address, &request, &reply, &fault), RPC_OK);
    name.key = slice_of(key);
    buf_init(&bytes, 4096);
    MUST_OK(codec_write_task_name(&name, &bytes));
    call.payload = buf_slice(&bytes);
    proxy_set(scene.proxy, PROXY_DROP_REPLIES);
    world_start(&scene.world, scene.a.address, &call, &answer);
    world_wait(&scene.world, 200);
    MUST(!answer.has_come);
    proxy_set(scene.proxy, PROXY_CUT);
    proxy_set(scene.proxy, PROXY_PASS);
    WORLD_UNTIL(&scene.world, answer.has_come, 10000);
    MUST(answer.status == RPC_OK || answer.status == RPC_UNAVAILABLE); // Never UNKNOWN.
    answer_fini(&answer);
    buf_fini(&bytes);
    close_scene(&scene);
}

static void a_batch_tells_unknown_items_from_done_ones(void)
{
    struct scene scene = {0};
    struct rpc_request call = {.path = BATCH};
    struct create_results results;
    struct answer answer;
    struct arena arena;
    struct fault fault;
    struct buf bytes;
    char key[32];

    open_scene(&scene, "parts");
    warm(&scene);
    buf_init(&bytes, RPC_MESSAGE_BYTES_MAX);
    for (int i = 0; i < 100; i++) {
        struct create_request request;

        key_of(&scene, i % 2 == 0, i, key, sizeof(key));
        request = keyed(key);
        MUST_OK(codec_write_batch_item(&request, &bytes));
    }
    call.payload = buf_slice(&bytes);
    proxy_set(scene.proxy, PROXY_DROP_REPLIES);
    world_start(&scene.world, scene.a.address, &call, &answer);
    key_of(&scene, true, 98, key, sizeof(key));
    WORLD_UNTIL(&scene.world, b_has(&scene, key), 10000);
    proxy_set(scene.proxy, PROXY_CUT);
    WORLD_UNTIL(&scene.world, answer.has_come, 10000);
    MUST_EQ(answer.status, RPC_OK);
    arena_init(&arena, 0);
    MUST_OK(codec_read_batch_reply(buf_slice(&answer.payload), &arena, &results, &fault));
    MUST_EQ(results.count, 100);
    for (size_t i = 0; i < 100; i++) {
        struct create_reply reply;
        bool failed;

        MUST_OK(codec_read_batch_result(&results, i, &reply, &failed, &fault));
        MUST_EQ(failed, i % 2 == 0);
        if (failed) {
            MUST_EQ(fault.status, RPC_UNKNOWN);
            MUST_EQ_TEXT(fault.reason, "OUTCOME_UNKNOWN");
        } else {
            MUST(reply.created);
        }
    }
    arena_fini(&arena);
    answer_fini(&answer);
    buf_fini(&bytes);
    close_scene(&scene);
}

/* What b answers to an outcome. */
static enum rpc_status report(struct scene *scene, struct task_id id, struct fault *fault)
{
    const struct peer_report told = {.id = id, .attempt = 1, .outcome = DELIVERY_DONE};
    enum rpc_status status;
    struct answer answer;
    struct buf bytes;

    buf_init(&bytes, 4096);
    MUST_OK(codec_write_report(&told, &bytes));
    world_call(&scene->world, scene->direct, PEER_REPORT_PATH, buf_slice(&bytes), &answer);
    status = answer.status;
    *fault = answer.fault;
    answer_fini(&answer);
    buf_fini(&bytes);
    return status;
}

static void an_outcome_of_no_live_claim_is_refused_and_harms_nothing(void)
{
    struct scene scene = {0};
    struct create_request request;
    struct create_reply reply;
    struct answer answer;
    struct fault fault;
    char key[32];

    open_scene(&scene, "report");
    key_of(&scene, false, 0, key, sizeof(key));
    request = keyed(key);
    MUST_EQ(world_create(&scene.world, scene.a.address, &request, &reply, &fault), RPC_OK);
    MUST_EQ(report(&scene, reply.id, &fault), RPC_UNAVAILABLE);
    MUST_EQ_TEXT(fault.reason, "NOT_OWNER");
    key_of(&scene, true, 0, key, sizeof(key));
    request = keyed(key);
    MUST_EQ(world_create(&scene.world, scene.a.address, &request, &reply, &fault), RPC_OK);
    // Not known before b has asked the database whether it is still the owner: tell it again.
    MUST_EQ(report(&scene, reply.id, &fault), RPC_UNAVAILABLE);
    MUST_SOON(report(&scene, reply.id, &fault) == RPC_NOT_FOUND, ANSWER_MS);
    MUST_EQ_TEXT(fault.reason, "CLAIM_NOT_LIVE");
    reply.id.seq += 1000;
    MUST_SOON(report(&scene, reply.id, &fault) == RPC_NOT_FOUND, ANSWER_MS);
    MUST(b_has(&scene, key));
    world_call(&scene.world, scene.direct, PEER_REPORT_PATH, slice_of("garbage"), &answer);
    MUST_EQ(answer.status, RPC_INVALID_ARGUMENT);
    answer_fini(&answer);
    close_scene(&scene);
}

/* Shards whose epoch a tells, all and its own; since when they are owned is told with it. */
static size_t count_epochs(struct scene *scene, size_t *own)
{
    struct topology topology;
    struct answer answer;
    struct arena arena;
    struct fault fault;
    size_t count = 0;

    *own = 0;
    world_call(&scene->world, scene->a.address, TOPOLOGY, (struct slice){NULL, 0}, &answer);
    MUST_EQ(answer.status, RPC_OK);
    arena_init(&arena, 0);
    MUST_OK(codec_read_topology(buf_slice(&answer.payload), &arena, &topology, &fault));
    MUST_EQ(topology.shard_count, SHARDS);
    for (size_t i = 0; i < topology.shard_count; i++) {
        struct shard_owner_view shard;

        codec_read_topology_shard(&topology, i, &shard);
        count += shard.epoch > 0;
        MUST_EQ(shard.epoch > 0, shard.since_ms != WALL_NEVER);
        MUST(shard.epoch == 0 ||
             (shard.since_ms >= scene->open_ms && shard.since_ms <= clock_wall_ms()));
        *own += shard.epoch > 0 && strcmp(shard.owner, "a") == 0;
    }
    arena_fini(&arena);
    answer_fini(&answer);
    return count;
}

static void the_topology_has_the_epochs_of_owners_that_can_be_reached(void)
{
    struct scene scene = {0};
    int64_t start_ms;
    size_t own;

    open_scene(&scene, "topology");
    MUST_EQ(count_epochs(&scene, &own), SHARDS);
    proxy_set(scene.proxy, PROXY_DROP_REPLIES);
    start_ms = must_now_ms();
    MUST_EQ(count_epochs(&scene, &own), SHARDS / 2);
    MUST_EQ(own, SHARDS / 2);
    MUST_LE(must_now_ms() - start_ms, 5000);
    proxy_set(scene.proxy, PROXY_PASS);
    close_scene(&scene);
}

static void a_killed_owner_makes_callers_wait_and_then_be_served(void)
{
    struct scene scene = {0};
    struct create_request request;
    struct create_reply reply;
    struct fault fault;
    enum rpc_status status;
    char key[32];

    open_scene(&scene, "owner");
    daemon_signal(&scene.b, SIGKILL);
    MUST_EQ(daemon_wait_end(&scene.b, 5000), 128 + SIGKILL);
    for (int i = 0; i < 20; i++) {
        int64_t end_ms = must_now_ms() + 20000;

        key_of(&scene, true, i, key, sizeof(key));
        request = keyed(key);
        do {
            status = world_create(&scene.world, scene.a.address, &request, &reply, &fault);
            MUST(status == RPC_OK || status == RPC_UNAVAILABLE);
            MUST_LE(must_now_ms(), end_ms);
        } while (status != RPC_OK);
        MUST(reply.created);
    }
    daemon_stop(&scene.a);
    proxy_close(scene.proxy);
    world_close(&scene.world);
    fixture_close(&scene.fixture);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_create_whose_reply_is_lost_is_an_unknown_outcome),
        MUST_CASE(a_create_that_never_left_is_unavailable_and_did_not_happen),
        MUST_CASE(a_read_is_made_again_when_the_line_breaks),
        MUST_CASE(a_batch_tells_unknown_items_from_done_ones),
        MUST_CASE(an_outcome_of_no_live_claim_is_refused_and_harms_nothing),
        MUST_CASE(the_topology_has_the_epochs_of_owners_that_can_be_reached),
        MUST_CASE(a_killed_owner_makes_callers_wait_and_then_be_served),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
