/* SPDX-License-Identifier: Apache-2.0
 *
 * foliotd as a process, with real PostgreSQL and ZooKeeper: what one and two brokers promise to
 * clients and targets, how they start, and how they end.
 */
#include "tests/lib/daemon.h"
#include "tests/lib/fixture.h"
#include "tests/lib/must.h"
#include "tests/lib/world.h"

#include "lib/base/err.h"
#include "lib/io/clock.h"

#include <dirent.h>
#include <libpq-fe.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHARDS "--cluster-shards=8"

/* Of an idle broker: wake-ups of its loop and of all threads in a span of so many seconds. */
#define IDLE_S        6
#define IDLE_SPANS    5
#define IDLE_LOOP_MAX (IDLE_S * 4L)
#define IDLE_ALL_MAX  (IDLE_S * 7L)

/* Latest that a task may come. */
#define LATE_MS_MAX 1000

static const char *const FLAGS[] = {SHARDS, NULL};

struct scene {
    struct fixture fixture;
    struct world world;
    struct daemon a;
    struct daemon b;
};

static void open_one(struct scene *scene, const char *title)
{
    fixture_open(&scene->fixture, title);
    world_open(&scene->world);
    daemon_start(&scene->a, &scene->fixture, "a", FLAGS);
    daemon_wait_ready(&scene->a);
}

/* Every shard has an owner, and each broker has its half. */
static bool is_settled(const struct scene *scene)
{
    return daemon_metric(&scene->a, "foliot_shards_owned") == 4 &&
           daemon_metric(&scene->b, "foliot_shards_owned") == 4 &&
           daemon_metric(&scene->a, "foliot_shards_unowned") == 0 &&
           daemon_metric(&scene->b, "foliot_shards_unowned") == 0;
}

static void open_two(struct scene *scene, const char *title)
{
    open_one(scene, title);
    daemon_start(&scene->b, &scene->fixture, "b", FLAGS);
    daemon_wait_ready(&scene->b);
    WORLD_UNTIL(&scene->world, is_settled(scene), 30000);
}

static void close_scene(struct scene *scene)
{
    daemon_stop(&scene->a);
    if (scene->b.pid != 0) {
        daemon_stop(&scene->b);
    }
    world_close(&scene->world);
    fixture_close(&scene->fixture);
}

/* How late it came. Never before its due time by the target's own clock. */
static int64_t late_ms(const struct arrival *arrival)
{
    MUST_LE(arrival->due_ms * 1000, arrival->at_us);
    return arrival->at_us / 1000 - arrival->due_ms;
}

/* ---- the way of one task ---- */

static int64_t one_late_ms(struct scene *scene)
{
    const struct arrival *arrival;
    struct task_id id;

    id = world_create_in(&scene->world, scene->a.address, "q", 300, "hello");
    WORLD_UNTIL(&scene->world, world_count(&scene->world, id) > 0, 5000);
    world_wait(&scene->world, 300);
    MUST_EQ(world_count(&scene->world, id), 1);
    arrival = world_last(&scene->world, id);
    MUST_EQ(arrival->attempt, 1);
    MUST_EQ_TEXT(arrival->queue, "q");
    MUST_EQ(arrival->payload_len, 5);
    MUST_EQ_BYTES(arrival->payload, "hello", 5);
    MUST_LE(arrival->due_ms + 1000, arrival->deadline_ms);
    MUST(arrival->by_method);
    return late_ms(arrival);
}

static void a_task_reaches_a_method_once_and_on_time(void)
{
    struct scene scene = {0};
    char target[128];

    open_one(&scene, "method");
    world_method_target(&scene.world, target, sizeof(target));
    world_create_queue(&scene.world, scene.a.address, "q", target);
    MUST_LE_ONCE(one_late_ms(&scene), LATE_MS_MAX);
    close_scene(&scene);
}

/* Tasks of one moment, made before it: how late the latest of them comes. */
static int64_t many_late_ms(struct scene *scene)
{
    struct task_id ids[50];
    size_t arrivals = scene->world.arrival_count;
    size_t delivers = scene->world.deliver_count;
    wall_ms due_ms = clock_wall_ms() + 4000;
    wall_ms made_ms;
    int64_t latest_ms = 0;

    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        const struct create_request request = {
            .queue = {NAMESPACE_DEFAULT, "q"},
            .when = {.kind = WHEN_DUE, .due_ms = due_ms},
            .payload = slice_of("p"),
            .key_policy = KEY_KEEP,
        };
        struct create_reply reply;
        struct fault fault;

        MUST_EQ(world_create(&scene->world, scene->a.address, &request, &reply, &fault), RPC_OK);
        ids[i] = reply.id;
    }
    made_ms = clock_wall_ms();
    WORLD_UNTIL(&scene->world, scene->world.arrival_count - arrivals >= ARRAY_COUNT(ids), 8000);
    world_wait(&scene->world, 200);
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        MUST_EQ(world_count(&scene->world, ids[i]), 1);
        latest_ms = time_max(latest_ms, late_ms(world_last(&scene->world, ids[i])));
    }
    if (made_ms >= due_ms || latest_ms > LATE_MS_MAX) {
        return LATE_MS_MAX + latest_ms + 1; // Made too late, they tell nothing.
    }
    MUST_LE(scene->world.deliver_count - delivers, 10);
    return latest_ms;
}

static void tasks_reach_a_receiver_in_batches(void)
{
    struct scene scene = {0};
    char target[128];

    open_one(&scene, "receiver");
    world_receiver_target(&scene.world, target, sizeof(target));
    world_create_queue(&scene.world, scene.a.address, "q", target);
    MUST_LE_ONCE(many_late_ms(&scene), LATE_MS_MAX);
    close_scene(&scene);
}

static struct verdict_of fail_twice(struct world *world, const struct arrival *arrival)
{
    (void)world;
    if (arrival->attempt < 3) {
        return (struct verdict_of){.status = RPC_UNAVAILABLE, .outcome = DELIVERY_RETRY};
    }
    return (struct verdict_of){.status = RPC_OK, .outcome = DELIVERY_DONE};
}

static void a_failed_attempt_is_repeated_with_a_higher_number(void)
{
    struct scene scene = {0};
    char target[128];
    struct task_id by_method;
    struct task_id by_receiver;

    open_one(&scene, "retry");
    scene.world.answer = fail_twice;
    world_method_target(&scene.world, target, sizeof(target));
    world_create_queue(&scene.world, scene.a.address, "m", target);
    world_receiver_target(&scene.world, target, sizeof(target));
    world_create_queue(&scene.world, scene.a.address, "r", target);
    by_method = world_create_in(&scene.world, scene.a.address, "m", 0, "x");
    by_receiver = world_create_in(&scene.world, scene.a.address, "r", 0, "x");
    WORLD_UNTIL(&scene.world, world_count(&scene.world, by_method) == 3, 10000);
    WORLD_UNTIL(&scene.world, world_count(&scene.world, by_receiver) == 3, 10000);
    world_wait(&scene.world, 500);
    MUST_EQ(world_count(&scene.world, by_method), 3);
    MUST_EQ(world_count(&scene.world, by_receiver), 3);
    MUST_EQ(world_last(&scene.world, by_method)->attempt, 3);
    close_scene(&scene);
}

/* ---- two brokers ---- */

static struct create_request keyed(const char *key, span_ms delay_ms)
{
    return (struct create_request){
        .queue = {NAMESPACE_DEFAULT, "q"},
        .when = {.kind = WHEN_DELAY, .delay_ms = delay_ms},
        .payload = slice_of("x"),
        .key = slice_of(key),
        .key_policy = KEY_KEEP,
    };
}

static void either_broker_takes_any_call(void)
{
    struct scene scene = {0};
    const char *addresses[2];
    char target[128];
    struct create_reply reply;
    struct create_reply again;
    struct cancel_reply cancel;
    struct fault fault;

    open_two(&scene, "either");
    addresses[0] = scene.a.address;
    addresses[1] = scene.b.address;
    world_method_target(&scene.world, target, sizeof(target));
    world_create_queue(&scene.world, scene.a.address, "q", target);
    for (int i = 0; i < 40; i++) {
        char key[16];
        struct create_request request;
        struct task_name name = {.queue = {NAMESPACE_DEFAULT, "q"}};

        (void)snprintf(key, sizeof(key), "key-%d", i);
        request = keyed(key, 3600000);
        MUST_EQ(world_create(&scene.world, addresses[i % 2], &request, &reply, &fault), RPC_OK);
        MUST(reply.created);
        MUST_EQ(world_create(&scene.world, addresses[(i + 1) % 2], &request, &again, &fault),
                RPC_OK);
        MUST(!again.created);
        MUST_EQ(again.id.seq, reply.id.seq);
        MUST_EQ(again.due_ms, reply.due_ms);
        if (i % 4 < 2) {
            name.key = slice_of(key);
        } else {
            name.id = reply.id;
        }
        MUST_EQ(world_cancel(&scene.world, addresses[(i + 1) % 2], &name, &cancel, &fault), RPC_OK);
        MUST_EQ(cancel.outcome, CANCEL_ANSWER_CANCELLED);
        MUST_EQ(world_cancel(&scene.world, addresses[i % 2], &name, &cancel, &fault), RPC_OK);
        MUST_EQ(cancel.outcome, CANCEL_ANSWER_CANCELLED); // Remembered: a repeat is true.
    }
    WORLD_UNTIL(&scene.world, daemon_metric(&scene.a, "foliot_calls_forwarded_total") > 0, 5000);
    WORLD_UNTIL(&scene.world, daemon_metric(&scene.b, "foliot_calls_forwarded_total") > 0, 5000);
    MUST_EQ(scene.world.arrival_count, 0);
    close_scene(&scene);
}

static void a_batch_is_split_over_owners_and_harms_no_good_item(void)
{
    struct scene scene = {0};
    char target[128];
    struct answer answer;
    struct create_results results;
    struct arena arena;
    struct fault fault;
    struct buf bytes;

    open_two(&scene, "batch");
    world_method_target(&scene.world, target, sizeof(target));
    world_create_queue(&scene.world, scene.b.address, "q", target);
    buf_init(&bytes, RPC_MESSAGE_BYTES_MAX);
    for (int i = 0; i < 200; i++) {
        char key[16];
        struct create_request request;

        (void)snprintf(key, sizeof(key), "b-%d", i);
        request = keyed(i % 3 == 0 ? "" : key, 3600000);
        if (i == 77) {
            request.queue.name = "no-such-queue";
        }
        MUST_OK(codec_write_batch_item(&request, &bytes));
    }
    world_call(&scene.world, scene.a.address, "/foliot.v1.TaskService/BatchCreate",
               buf_slice(&bytes), &answer);
    MUST_EQ(answer.status, RPC_OK);
    arena_init(&arena, 0);
    MUST_OK(codec_read_batch_reply(buf_slice(&answer.payload), &arena, &results, &fault));
    MUST_EQ(results.count, 200);
    for (size_t i = 0; i < 200; i++) {
        struct create_reply reply;
        bool failed;

        MUST_OK(codec_read_batch_result(&results, i, &reply, &failed, &fault));
        MUST_EQ(failed, i == 77);
        if (failed) {
            MUST_EQ(fault.status, RPC_NOT_FOUND);
            MUST_EQ_TEXT(fault.reason, "QUEUE_NOT_FOUND");
        } else {
            MUST(reply.created);
        }
    }
    arena_fini(&arena);
    answer_fini(&answer);
    buf_fini(&bytes);
    close_scene(&scene);
}

static void a_queue_made_at_one_broker_is_known_at_the_other(void)
{
    struct scene scene = {0};
    char target[128];

    open_two(&scene, "queues");
    world_method_target(&scene.world, target, sizeof(target));
    for (int i = 0; i < 10; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "q%d", i);
        world_create_queue(&scene.world, scene.a.address, name, target);
        (void)world_create_in(&scene.world, scene.b.address, name, 0, "x");
    }
    WORLD_UNTIL(&scene.world, scene.world.arrival_count == 10, 5000);
    close_scene(&scene);
}

static void a_killed_broker_leaves_its_tasks_to_the_other(void)
{
    struct scene scene = {0};
    char target[128];
    struct task_id ids[60];

    open_two(&scene, "killed");
    world_method_target(&scene.world, target, sizeof(target));
    world_create_queue(&scene.world, scene.a.address, "q", target);
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        ids[i] = world_create_in(&scene.world, i % 2 == 0 ? scene.a.address : scene.b.address, "q",
                                 2000, "x");
    }
    daemon_signal(&scene.b, SIGKILL);
    MUST_EQ(daemon_wait_end(&scene.b, 5000), 128 + SIGKILL);
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        WORLD_UNTIL(&scene.world, world_count(&scene.world, ids[i]) > 0, 20000);
        MUST_LE(world_last(&scene.world, ids[i])->due_ms * 1000,
                world_last(&scene.world, ids[i])->at_us);
    }
    close_scene(&scene);
}

/* ---- the end ---- */

static void a_drained_broker_hands_over_and_ends_with_0(void)
{
    struct scene scene = {0};
    char target[128];
    char body[1024];
    struct task_id id;

    open_two(&scene, "drain");
    world_method_target(&scene.world, target, sizeof(target));
    world_create_queue(&scene.world, scene.a.address, "q", target);
    daemon_signal(&scene.b, SIGTERM);
    MUST_EQ(daemon_wait_end(&scene.b, 10000), 0);
    MUST(daemon_has_logged(&scene.b, "\"msg\":\"drained\""));
    WORLD_UNTIL(&scene.world, daemon_metric(&scene.a, "foliot_shards_owned") == 8, 5000);
    id = world_create_in(&scene.world, scene.a.address, "q", 0, "x");
    WORLD_UNTIL(&scene.world, world_count(&scene.world, id) == 1, 5000);
    MUST_EQ(daemon_get(&scene.b, "/livez", body, sizeof(body)), 0);
    close_scene(&scene);
}

static struct verdict_of never(struct world *world, const struct arrival *arrival)
{
    (void)world;
    (void)arrival;
    return (struct verdict_of){.is_silent = true};
}

static void a_running_attempt_holds_a_drain_only_for_the_stated_time(void)
{
    static const char *const flags[] = {SHARDS, "--drain-timeout=1500ms", NULL};
    struct scene scene = {0};
    char target[128];
    struct task_id id;
    int64_t start_ms;

    fixture_open(&scene.fixture, "held");
    world_open(&scene.world);
    scene.world.answer = never;
    daemon_start(&scene.a, &scene.fixture, "a", flags);
    daemon_wait_ready(&scene.a);
    world_method_target(&scene.world, target, sizeof(target));
    world_create_queue(&scene.world, scene.a.address, "q", target);
    id = world_create_in(&scene.world, scene.a.address, "q", 0, "x");
    WORLD_UNTIL(&scene.world, world_count(&scene.world, id) == 1, 5000);
    start_ms = must_now_ms();
    daemon_signal(&scene.a, SIGTERM);
    MUST_EQ(daemon_wait_end(&scene.a, 10000), 0);
    MUST_LE(must_now_ms() - start_ms, 6000);
    world_close(&scene.world);
    fixture_close(&scene.fixture);
}

/* ---- the start ---- */

/* ---- rest ---- */

/* Times that a thread of a process has gone to sleep. */
static long sleeps_of(const char *status_path)
{
    static const char name[] = "voluntary_ctxt_switches:";
    FILE *file = fopen(status_path, "re");
    char line[256];
    long count = -1;

    MUST(file != NULL);
    while (count < 0 && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, name, sizeof(name) - 1) == 0) {
            count = strtol(line + sizeof(name) - 1, NULL, 10);
        }
    }
    (void)fclose(file);
    MUST_LE(0, count);
    return count;
}

/* All threads of a process; *loop is the first thread alone. */
static long count_sleeps(pid_t pid, long *loop)
{
    char path[300];
    DIR *folder;
    long count = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    folder = opendir(path);
    MUST(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof(path), "/proc/%d/task/%.16s/status", (int)pid,
                           entry->d_name);
            count += sleeps_of(path);
        }
    }
    (void)closedir(folder);
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    *loop = sleeps_of(path);
    return count;
}

/* docs/adr/0014: 4.7 wake-ups a second, half of them the event loop's. A wait for a page or a lock
 * counts as one, too, and comes from what else the machine does: one of a few spans has to be
 * quiet, which a broker that wakes too often never is. */
static void an_idle_broker_sleeps(void)
{
    static const char *const flags[] = {SHARDS, "--audit-every=8s", NULL}; // As without a flag.
    struct scene scene = {0};
    long all = LONG_MAX;
    long loop = LONG_MAX;

    fixture_open(&scene.fixture, "idle");
    world_open(&scene.world);
    daemon_start(&scene.a, &scene.fixture, "a", flags);
    daemon_wait_ready(&scene.a);
    world_wait(&scene.world, 8000); // Nothing may happen, so there is nothing to wait for.
    for (int span = 0; span < IDLE_SPANS && (loop > IDLE_LOOP_MAX || all > IDLE_ALL_MAX); span++) {
        long loop_before;
        long before = count_sleeps(scene.a.pid, &loop_before);

        world_wait(&scene.world, IDLE_S * 1000);
        all = count_sleeps(scene.a.pid, &loop) - before;
        loop -= loop_before;
    }
    MUST_LE(loop, IDLE_LOOP_MAX);
    MUST_LE(all, IDLE_ALL_MAX);
    close_scene(&scene);
}

static void without_zookeeper_it_lives_and_is_not_ready(void)
{
    static const char *const flags[] = {"--zookeeper-hosts=127.0.0.1:1", NULL};
    struct fixture fixture;
    struct daemon daemon;
    char body[1024];

    fixture_open(&fixture, "nozk");
    daemon_start(&daemon, &fixture, "a", flags);
    MUST_SOON(daemon_has_logged(&daemon, "ZooKeeper; it must run where zookeeper.hosts says"),
              15000);
    daemon_find_admin(&daemon);
    MUST_EQ(daemon_get(&daemon, "/livez", body, sizeof(body)), 200);
    MUST_EQ(daemon_get(&daemon, "/startupz", body, sizeof(body)), 503);
    MUST_EQ(daemon_get(&daemon, "/readyz", body, sizeof(body)), 503);
    MUST(strstr(body, "ZooKeeper") != NULL);
    daemon_stop(&daemon);
    fixture_close(&fixture);
}

static void without_postgres_it_lives_and_is_not_ready(void)
{
    static const char *const flags[] = {"--databases=db0=host=127.0.0.1 port=1 dbname=none", NULL};
    struct fixture fixture;
    struct daemon daemon;
    char body[1024];

    fixture_open(&fixture, "nopg");
    daemon_start(&daemon, &fixture, "a", flags);
    MUST_SOON(daemon_has_logged(&daemon, "cannot bring the database up to date"), 15000);
    daemon_find_admin(&daemon);
    MUST_EQ(daemon_get(&daemon, "/livez", body, sizeof(body)), 200);
    MUST_EQ(daemon_get(&daemon, "/readyz", body, sizeof(body)), 503);
    MUST(strstr(body, "database") != NULL);
    (void)poll(NULL, 0, 2500); // Two more tries: what has been told is not told again.
    MUST_EQ(daemon_count_logged(&daemon, "cannot bring the database up to date"), 1);
    MUST(daemon_has_logged(&daemon, "Connection refused"));
    MUST(!daemon_has_logged(&daemon, "\\n"));
    daemon_stop(&daemon);
    fixture_close(&fixture);
}

static long ask(PGconn *link, const char *sql)
{
    PGresult *result = PQexec(link, sql);
    long value = PQntuples(result) > 0 ? strtol(PQgetvalue(result, 0, 0), NULL, 10) : 0;

    MUST_EQ(PQresultStatus(result), PGRES_TUPLES_OK);
    PQclear(result);
    return value;
}

static void a_start_that_waits_for_the_schema_can_be_ended(void)
{
    struct fixture fixture;
    struct daemon daemon;
    PGconn *other;

    fixture_open(&fixture, "schema");
    other = PQconnectdb(fixture.pg_admin);
    // As another broker does while it makes the tables.
    ask(other, "SELECT pg_advisory_lock(8027411502369182821)");
    daemon_start(&daemon, &fixture, "a", FLAGS);
    MUST_SOON(ask(other, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'"
                         " AND datname = current_database()") == 1,
              15000);
    daemon_signal(&daemon, SIGTERM);
    MUST_EQ(daemon_wait_end(&daemon, 10000), 0);
    PQfinish(other);
    fixture_close(&fixture);
}

static void a_port_in_use_is_a_clear_error(void)
{
    struct scene scene = {0};
    struct daemon second;
    char flag[128];
    const char *flags[] = {SHARDS, flag, NULL};

    open_one(&scene, "port");
    (void)snprintf(flag, sizeof(flag), "--listen=%s", scene.a.address);
    daemon_start(&second, &scene.fixture, "b", flags);
    MUST_EQ(daemon_wait_end(&second, 20000), 1);
    MUST(daemon_has_logged(&second, "cannot listen for calls"));
    MUST(daemon_has_logged(&second, "the port is taken"));
    (void)snprintf(flag, sizeof(flag), "--admin-listen=%s", scene.a.admin);
    daemon_start(&second, &scene.fixture, "c", flags);
    MUST_EQ(daemon_wait_end(&second, 20000), 1);
    MUST(daemon_has_logged(&second, "cannot open the admin port"));
    MUST(daemon_has_logged(&second, "the port is taken"));
    close_scene(&scene);
}

static void a_number_of_shards_that_is_not_the_clusters_is_told(void)
{
    static const char *const flags[] = {"--cluster-shards=16", NULL};
    struct scene scene = {0};

    open_one(&scene, "shards");
    MUST(!daemon_has_logged(&scene.a, "cluster.shards is ignored"));
    daemon_start(&scene.b, &scene.fixture, "b", flags);
    daemon_wait_ready(&scene.b);
    MUST(daemon_has_logged(&scene.b, "cluster.shards is ignored"));
    close_scene(&scene);
}

static void a_name_that_two_brokers_use_is_told_and_harms_nothing(void)
{
    struct scene scene = {0};

    open_one(&scene, "twins");
    WORLD_UNTIL(&scene.world, daemon_metric(&scene.a, "foliot_shards_owned") == 8, 20000);
    daemon_start(&scene.b, &scene.fixture, "a", FLAGS);
    daemon_wait_ready(&scene.b);
    WORLD_UNTIL(&scene.world, daemon_has_logged(&scene.a, "another broker runs under our name"),
                10000);
    WORLD_UNTIL(&scene.world,
                daemon_metric(&scene.a, "foliot_shards_owned") +
                        daemon_metric(&scene.b, "foliot_shards_owned") ==
                    8,
                20000);
    MUST(!daemon_has_logged(&scene.b, "no longer served")); // Never had one.
    close_scene(&scene);
}

static void settings_are_checked_by_the_program(void)
{
    static const char *const bad[] = {"--nane=x", "--memory-tasks=1", NULL};
    static const char *const good[] = {"--check-config", "--databases=db0=dbname=a", NULL};
    static const char *const sample[] = {
        "--check-config", "--config=" FOLIOT_SOURCE_DIR "/deploy/foliotd.yaml", NULL};
    static const char *const print[] = {"--print-config", "--databases=db0=password=hush", NULL};
    static const char *const help[] = {"--help", NULL};
    static const char *const version[] = {"--version", NULL};
    static char output[65536];

    MUST_EQ(daemon_run(bad, output, sizeof(output)), 2);
    MUST(strstr(output, "--nane: unknown flag; did you mean --name?") != NULL);
    MUST(strstr(output, "--memory-tasks: memory.tasks must be") != NULL);
    MUST_EQ(daemon_run(good, output, sizeof(output)), 0);
    MUST_EQ(daemon_run(sample, output, sizeof(output)), 0);
    MUST_EQ(daemon_run(print, output, sizeof(output)), 0);
    MUST(strstr(output, "databases: [\"db0=(hidden)\"] # --databases") != NULL);
    MUST(strstr(output, "hush") == NULL);
    MUST_EQ(daemon_run(help, output, sizeof(output)), 0);
    MUST(strstr(output, "--zookeeper-session-timeout TIME") != NULL);
    MUST_EQ(daemon_run(version, output, sizeof(output)), 0);
    MUST(strncmp(output, "foliotd ", 8) == 0);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(settings_are_checked_by_the_program),
        MUST_CASE(a_task_reaches_a_method_once_and_on_time),
        MUST_CASE(tasks_reach_a_receiver_in_batches),
        MUST_CASE(a_failed_attempt_is_repeated_with_a_higher_number),
        MUST_CASE(either_broker_takes_any_call),
        MUST_CASE(a_batch_is_split_over_owners_and_harms_no_good_item),
        MUST_CASE(a_queue_made_at_one_broker_is_known_at_the_other),
        MUST_CASE(a_killed_broker_leaves_its_tasks_to_the_other),
        MUST_CASE(a_drained_broker_hands_over_and_ends_with_0),
        MUST_CASE(a_running_attempt_holds_a_drain_only_for_the_stated_time),
        // Its database is dropped late where a test beside has stopped a backend for a while.
        MUST_CASE_WITHIN(an_idle_broker_sleeps, 120),
        MUST_CASE(without_zookeeper_it_lives_and_is_not_ready),
        MUST_CASE(without_postgres_it_lives_and_is_not_ready),
        MUST_CASE(a_start_that_waits_for_the_schema_can_be_ended),
        MUST_CASE(a_port_in_use_is_a_clear_error),
        MUST_CASE(a_number_of_shards_that_is_not_the_clusters_is_told),
        MUST_CASE(a_name_that_two_brokers_use_is_told_and_harms_nothing),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
