/* SPDX-License-Identifier: Apache-2.0
 *
 * libfoliot against real brokers: each call does what it says, goes straight to the owner, is
 * repeated where that is safe and nowhere else, and says honestly what is not known (K-8), also
 * while a broker is killed.
 */
#include "tests/lib/daemon.h"
#include "tests/lib/fixture.h"
#include "tests/lib/must.h"
#include "tests/lib/proxy.h"

#include <foliot.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SHARDS_ARG "--cluster-shards=8"
#define HALF       4
#define HOUR_MS    3600000

/* One or two brokers, and a client. */
struct scene {
    struct fixture fixture;
    struct daemon a;
    struct daemon b; /* pid 0: there is only one */
    struct foliot_client *client;
};

static bool owns_half(const struct daemon *daemon)
{
    return daemon_metric(daemon, "foliot_shards_owned") == HALF &&
           daemon_metric(daemon, "foliot_shards_unowned") == 0;
}

static struct foliot_client *open_client(const char *servers, int64_t timeout_ms,
                                         int64_t try_timeout_ms, int servers_only)
{
    struct foliot_options options;
    struct foliot_client *client;
    struct foliot_error error;

    foliot_options_init(&options);
    options.servers = servers;
    options.timeout_ms = timeout_ms;
    options.try_timeout_ms = try_timeout_ms;
    options.servers_only = servers_only;
    if (foliot_client_open(&options, &client, &error) != FOLIOT_OK) {
        must_fail(MUST_HERE, "open: %s", error.message);
    }
    return client;
}

/* A call came to FOLIOT_OK; else the case ends with its message. */
static void must_succeed(int code, const struct foliot_error *error)
{
    MUST_EQ(code, error->code);
    if (code != FOLIOT_OK) {
        must_fail(MUST_HERE, "%s (%s): %s", foliot_code_name(code), error->reason, error->message);
    }
}

static void create_queue(struct foliot_client *client, const char *name)
{
    const struct foliot_queue_reply *reply;
    struct foliot_queue queue;
    struct foliot_error error;

    foliot_queue_init(&queue);
    queue.name = name;
    queue.target = "grpc://127.0.0.1:9/test.Sink/Take";
    must_succeed(foliot_queue_create(client, &queue, NULL, &reply, &error), &error);
    MUST_EQ_TEXT(reply->queue->name, name);
    foliot_queue_reply_free(reply);
}

static void open_scene(struct scene *scene, const char *title, bool has_two)
{
    static const char *const flags[] = {SHARDS_ARG, NULL};

    memset(scene, 0, sizeof(*scene));
    fixture_open(&scene->fixture, title);
    daemon_start(&scene->a, &scene->fixture, "a", flags);
    daemon_wait_ready(&scene->a);
    if (has_two) {
        daemon_start(&scene->b, &scene->fixture, "b", flags);
        daemon_wait_ready(&scene->b);
        MUST_SOON(owns_half(&scene->a) && owns_half(&scene->b), 30000);
    }
    scene->client = open_client(scene->a.address, 20000, 0, 0);
    create_queue(scene->client, "q");
}

static void close_scene(struct scene *scene)
{
    MUST_EQ(foliot_client_close(scene->client), FOLIOT_OK);
    daemon_stop(&scene->a);
    if (scene->b.pid != 0) {
        daemon_stop(&scene->b);
    }
    fixture_close(&scene->fixture);
}

/* ---- requests ---- */

static struct foliot_create_request keyed(const char *key)
{
    struct foliot_create_request request;

    foliot_create_request_init(&request);
    request.queue = "q";
    request.when = FOLIOT_WHEN_AFTER;
    request.when_ms = HOUR_MS;
    request.payload = "hello";
    request.payload_size = 5;
    request.key = key;
    return request;
}

static struct foliot_task_name named(const char *id, const char *key)
{
    struct foliot_task_name name;

    foliot_task_name_init(&name);
    name.queue = "q";
    name.id = id;
    name.key = key;
    return name;
}

/* ---- cases ---- */

static void a_task_is_made_read_changed_and_cancelled(void)
{
    struct scene scene;
    struct foliot_create_request request = keyed("k\xc3\xa4y");
    struct foliot_update_request update;
    struct foliot_task_name name;
    const struct foliot_task *task;
    struct foliot_cancelled cancelled;
    struct foliot_created created;
    struct foliot_updated updated;
    struct foliot_error error;

    open_scene(&scene, "single", false);
    must_succeed(foliot_task_create(scene.client, &request, NULL, &created, &error), &error);
    MUST_EQ(created.created, 1);
    MUST_EQ(strlen(created.id), 20);
    MUST_EQ(error.tries, 1);
    name = named(NULL, "k\xc3\xa4y");
    must_succeed(foliot_task_get(scene.client, &name, NULL, &task, &error), &error);
    MUST_EQ_TEXT(task->id, created.id);
    MUST_EQ_TEXT(task->queue, "q");
    MUST_EQ_TEXT(task->name_space, "default");
    MUST_EQ_TEXT(task->key, "k\xc3\xa4y");
    MUST_EQ(task->due_ms, created.due_ms);
    MUST_EQ(task->state, FOLIOT_TASK_WAITING);
    MUST_EQ(task->payload_size, 5);
    MUST_EQ_BYTES(task->payload, "hello", 5);
    foliot_task_free(task);
    name = named(created.id, NULL);
    foliot_update_request_init(&update);
    update.name = &name;
    update.when = FOLIOT_WHEN_AT;
    update.when_ms = created.due_ms + 1000;
    update.set_payload = 1;
    must_succeed(foliot_task_update(scene.client, &update, NULL, &updated, &error), &error);
    MUST_EQ_TEXT(updated.id, created.id);
    MUST_EQ(updated.due_ms, created.due_ms + 1000);
    MUST_EQ(updated.may_be_running_attempt, 0);
    must_succeed(foliot_task_get(scene.client, &name, NULL, &task, &error), &error);
    MUST_EQ(task->payload_size, 0);
    foliot_task_free(task);
    must_succeed(foliot_task_cancel(scene.client, &name, NULL, &cancelled, &error), &error);
    MUST_EQ(cancelled.outcome, FOLIOT_CANCEL_CANCELLED);
    MUST_EQ_TEXT(cancelled.id, created.id);
    MUST_EQ(foliot_task_get(scene.client, &name, NULL, &task, &error), FOLIOT_NOT_FOUND);
    MUST_EQ_TEXT(error.reason, "TASK_GONE");
    MUST_EQ(error.may_have_happened, 0);
    close_scene(&scene);
}

static void every_item_of_a_batch_has_its_own_result(void)
{
    struct foliot_create_request items[4] = {keyed("a"), keyed("b"), keyed("a"), keyed(NULL)};
    const struct foliot_batch *batch;
    struct foliot_error error;
    struct scene scene;

    open_scene(&scene, "batch", false);
    items[1].queue = "nope";
    must_succeed(foliot_task_create_batch(scene.client, items, 4, NULL, &batch, &error), &error);
    MUST_EQ(batch->count, 4);
    MUST_EQ(batch->failed, 1);
    MUST_EQ(batch->results[0].created, 1);
    MUST_EQ(batch->results[1].code, FOLIOT_NOT_FOUND);
    MUST_EQ_TEXT(batch->results[1].reason, "QUEUE_NOT_FOUND");
    MUST(batch->results[1].message[0] != '\0');
    MUST_EQ_TEXT(batch->results[1].id, "");
    MUST_EQ(batch->results[2].created, 0);
    MUST_EQ_TEXT(batch->results[2].id, batch->results[0].id);
    MUST_EQ(batch->results[3].created, 1);
    MUST_EQ_TEXT(batch->results[3].reason, "");
    foliot_batch_free(batch);
    close_scene(&scene);
}

static void queues_are_made_read_changed_and_listed(void)
{
    struct foliot_queue_list_request list;
    const struct foliot_queue_reply *reply;
    const struct foliot_queue_page *page;
    struct foliot_queue_name name;
    struct foliot_queue queue;
    struct foliot_error error;
    struct scene scene;

    open_scene(&scene, "queues", false);
    create_queue(scene.client, "r");
    foliot_queue_name_init(&name);
    name.name = "q";
    must_succeed(foliot_queue_get(scene.client, &name, NULL, &reply, &error), &error);
    MUST_EQ(reply->queue->version, 1);
    MUST_EQ(reply->queue->attempt_timeout_ms, 10000);
    MUST_EQ(reply->queue->backoff_growth_permille, 2000);
    MUST_EQ(foliot_queue_update(scene.client, reply->queue, NULL, &reply, &error),
            FOLIOT_INVALID_ARGUMENT); // One that was read is not one that was set up.
    foliot_queue_copy(&queue, reply->queue);
    queue.attempt_timeout_ms = 2500;
    queue.failures_max = 3;
    {
        const struct foliot_queue_reply *after;

        must_succeed(foliot_queue_update(scene.client, &queue, NULL, &after, &error), &error);
        MUST_EQ(after->queue->attempt_timeout_ms, 2500);
        MUST_EQ(after->queue->failures_max, 3);
        MUST_EQ(after->queue->version, 2);
        foliot_queue_reply_free(after);
    }
    MUST_EQ(foliot_queue_update(scene.client, &queue, NULL, &reply, &error),
            FOLIOT_FAILED_PRECONDITION);
    MUST_EQ_TEXT(error.reason, "QUEUE_CHANGED");
    foliot_queue_reply_free(reply);
    foliot_queue_list_request_init(&list);
    list.page_size = 1;
    must_succeed(foliot_queue_list(scene.client, &list, NULL, &page, &error), &error);
    MUST_EQ(page->count, 1);
    MUST_EQ_TEXT(page->queues[0]->name, "q");
    list.after_id = page->next_after_id;
    foliot_queue_page_free(page);
    must_succeed(foliot_queue_list(scene.client, &list, NULL, &page, &error), &error);
    MUST_EQ_TEXT(page->queues[0]->name, "r");
    MUST_EQ(page->next_after_id, 0);
    foliot_queue_page_free(page);
    close_scene(&scene);
}

/* Pages of a queue's tasks until the last one; returns how many there were. */
static size_t count_listed(struct foliot_client *client, uint32_t page_size)
{
    struct foliot_list_request request;
    char token[FOLIOT_TOKEN_SIZE] = "";
    size_t count = 0;

    do {
        const struct foliot_task_page *page;
        struct foliot_error error;

        foliot_list_request_init(&request);
        request.queue = "q";
        request.page_size = page_size;
        request.page_token = token;
        must_succeed(foliot_task_list(client, &request, NULL, &page, &error), &error);
        MUST(page->count <= page_size);
        for (size_t i = 0; i < page->count; i++) {
            MUST_EQ(page->tasks[i]->state, FOLIOT_TASK_WAITING);
        }
        count += page->count;
        (void)snprintf(token, sizeof(token), "%s", page->next_page_token);
        foliot_task_page_free(page);
    } while (token[0] != '\0');
    return count;
}

static void many_tasks_are_listed_and_cancelled(void)
{
    struct foliot_create_request items[60];
    struct foliot_task_name names[60];
    const struct foliot_cancel_batch *cancels;
    const struct foliot_batch *batch;
    struct foliot_error error;
    struct scene scene;

    open_scene(&scene, "many", true);
    for (size_t i = 0; i < ARRAY_COUNT(items); i++) {
        items[i] = keyed(NULL);
    }
    must_succeed(foliot_task_create_batch(scene.client, items, 60, NULL, &batch, &error), &error);
    MUST_EQ(batch->failed, 0);
    MUST_EQ(count_listed(scene.client, 7), 60);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        names[i] = named(batch->results[i].id, NULL);
    }
    must_succeed(foliot_task_cancel_batch(scene.client, names, 60, NULL, &cancels, &error), &error);
    MUST_EQ(cancels->count, 60);
    MUST_EQ(cancels->failed, 0);
    for (size_t i = 0; i < cancels->count; i++) {
        MUST_EQ(cancels->results[i].outcome, FOLIOT_CANCEL_CANCELLED);
        MUST_EQ_TEXT(cancels->results[i].id, batch->results[i].id);
    }
    foliot_cancel_batch_free(cancels);
    foliot_batch_free(batch);
    MUST_EQ(count_listed(scene.client, 500), 0);
    close_scene(&scene);
}

/* Shards whose owner did not tell its figures in time. */
static size_t count_missing(struct foliot_client *client, const struct foliot_queue_name *name)
{
    const struct foliot_queue_stats *stats;
    struct foliot_error error;
    size_t count;

    must_succeed(foliot_queue_stats_get(client, name, NULL, &stats, &error), &error);
    count = stats->missing_count;
    foliot_queue_stats_free(stats);
    return count;
}

static void a_queue_is_paused_resumed_drained_and_deleted(void)
{
    struct foliot_create_request request = keyed("last");
    struct foliot_queue_delete_request gone;
    struct foliot_queue_pause_request pause;
    const struct foliot_queue_reply *reply;
    struct foliot_task_name name = named(NULL, "last");
    struct foliot_queue_name queue;
    struct foliot_cancelled cancelled;
    struct foliot_created created;
    struct foliot_error error;
    struct scene scene;

    open_scene(&scene, "life", false);
    foliot_queue_name_init(&queue);
    queue.name = "q";
    foliot_queue_pause_request_init(&pause);
    pause.name = "q";
    must_succeed(foliot_queue_pause(scene.client, &pause, NULL, &reply, &error), &error);
    MUST_EQ(reply->queue->is_paused, 1);
    foliot_queue_reply_free(reply);
    must_succeed(foliot_queue_resume(scene.client, &queue, NULL, &reply, &error), &error);
    MUST_EQ(reply->queue->is_paused, 0);
    foliot_queue_reply_free(reply);
    must_succeed(foliot_task_create(scene.client, &request, NULL, &created, &error), &error);
    must_succeed(foliot_queue_drain(scene.client, &queue, NULL, &reply, &error), &error);
    MUST_EQ(reply->queue->is_draining, 1);
    foliot_queue_reply_free(reply);
    MUST_SOON(count_missing(scene.client, &queue) == 0, 20000);
    request.key = "later";
    MUST_EQ(foliot_task_create(scene.client, &request, NULL, &created, &error),
            FOLIOT_FAILED_PRECONDITION);
    MUST_EQ_TEXT(error.reason, "QUEUE_DRAINING");
    foliot_queue_delete_request_init(&gone);
    gone.name = "q";
    MUST_EQ(foliot_queue_delete(scene.client, &gone, NULL, &reply, &error),
            FOLIOT_FAILED_PRECONDITION);
    must_succeed(foliot_task_cancel(scene.client, &name, NULL, &cancelled, &error), &error);
    MUST_SOON(foliot_queue_delete(scene.client, &gone, NULL, &reply, &error) == FOLIOT_OK, 20000);
    foliot_queue_reply_free(reply);
    MUST_EQ(foliot_queue_delete(scene.client, &gone, NULL, &reply, &error), FOLIOT_NOT_FOUND);
    close_scene(&scene);
}

static size_t count_dead(struct foliot_client *client)
{
    struct foliot_dead_request request;
    const struct foliot_task_page *page;
    struct foliot_error error;
    size_t count;

    foliot_dead_request_init(&request);
    request.queue = "dies";
    must_succeed(foliot_dead_list(client, &request, NULL, &page, &error), &error);
    count = page->count;
    foliot_task_page_free(page);
    return count;
}

static void a_task_is_explained_run_and_dies_and_is_given_another_chance(void)
{
    struct foliot_create_request request = keyed("k");
    const struct foliot_explanation *why;
    const struct foliot_queue_reply *reply;
    struct foliot_dead_request dead;
    struct foliot_dead_done done;
    struct foliot_task_name name;
    struct foliot_created created;
    struct foliot_updated updated;
    struct foliot_queue queue;
    struct foliot_error error;
    struct scene scene;

    open_scene(&scene, "dies", false);
    foliot_queue_init(&queue);
    queue.name = "dies";
    queue.target = "grpc://127.0.0.1:9/test.Sink/Take"; // Nobody is there.
    queue.failures_max = 1;
    must_succeed(foliot_queue_create(scene.client, &queue, NULL, &reply, &error), &error);
    foliot_queue_reply_free(reply);
    request.queue = "dies";
    must_succeed(foliot_task_create(scene.client, &request, NULL, &created, &error), &error);
    name = named(created.id, NULL);
    must_succeed(foliot_task_explain(scene.client, &name, NULL, &why, &error), &error);
    MUST_EQ(why->reason, FOLIOT_WAIT_DUE_TIME);
    MUST_EQ_TEXT(why->task->id, created.id);
    MUST_EQ_TEXT(why->broker, "a");
    foliot_explanation_free(why);
    must_succeed(foliot_task_run_now(scene.client, &name, NULL, &updated, &error), &error);
    MUST_SOON(count_dead(scene.client) == 1, 20000);
    foliot_dead_request_init(&dead);
    dead.queue = "dies";
    must_succeed(foliot_dead_redrive(scene.client, &dead, NULL, &done, &error), &error);
    MUST_EQ(done.handled, 1);
    MUST_SOON(count_dead(scene.client) == 1, 20000); // It died once more.
    must_succeed(foliot_dead_purge(scene.client, &dead, NULL, &done, &error), &error);
    MUST_EQ(done.handled, 1);
    MUST_EQ(count_dead(scene.client), 0);
    close_scene(&scene);
}

/* Create n tasks with keys of their own, and require that each is new. */
static void create_keyed(struct foliot_client *client, const char *prefix, int count)
{
    for (int i = 0; i < count; i++) {
        struct foliot_create_request request;
        struct foliot_created created;
        struct foliot_error error;
        char key[64];

        (void)snprintf(key, sizeof(key), "%s-%d", prefix, i);
        request = keyed(key);
        must_succeed(foliot_task_create(client, &request, NULL, &created, &error), &error);
        MUST(created.created || error.tries > 1);
    }
}

/* Tasks made so far, as both brokers say. */
static double count_made(const struct scene *scene)
{
    return daemon_metric(&scene->a, "foliot_tasks_scheduled_total") +
           daemon_metric(&scene->b, "foliot_tasks_scheduled_total");
}

static double count_forwarded(const struct scene *scene)
{
    return daemon_metric(&scene->a, "foliot_calls_forwarded_total") +
           daemon_metric(&scene->b, "foliot_calls_forwarded_total");
}

static void calls_go_straight_to_the_owner(void)
{
    struct foliot_create_request items[40];
    char keys[ARRAY_COUNT(items)][16];
    const struct foliot_batch *batch;
    const struct foliot_topology *topology;
    struct foliot_client_stats before;
    struct foliot_client_stats after;
    struct foliot_error error;
    struct scene scene;
    double forwarded;

    open_scene(&scene, "direct", true);
    do {
        must_succeed(foliot_topology_get(scene.client, NULL, &topology, &error), &error);
        MUST_EQ(topology->broker_count, 2);
        MUST_EQ(topology->shard_count, 8);
        foliot_topology_free(topology);
        foliot_client_get_stats(scene.client, &before);
    } while (before.brokers < 2);           // It learns by itself, beside the calls.
    create_keyed(scene.client, "first", 8); // Some at either, so that both pages are of now.
    MUST_SOON(count_made(&scene) == 8, 10000);
    forwarded = count_forwarded(&scene);
    foliot_client_get_stats(scene.client, &before);
    create_keyed(scene.client, "direct", 50);
    foliot_client_get_stats(scene.client, &after);
    MUST_EQ(after.direct - before.direct, 50);
    MUST_EQ(after.tries - before.tries, 50);
    for (size_t i = 0; i < ARRAY_COUNT(items); i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "batch-%zu", i);
        items[i] = keyed(keys[i]);
    }
    must_succeed(foliot_task_create_batch(scene.client, items, 40, NULL, &batch, &error), &error);
    MUST_EQ(batch->failed, 0);
    foliot_batch_free(batch);
    foliot_client_get_stats(scene.client, &after);
    MUST_EQ(after.direct - before.direct, 52); // The batch went in two parts.
    MUST_SOON(count_made(&scene) == 98, 10000);
    MUST(count_forwarded(&scene) == forwarded);
    close_scene(&scene);
}

static bool owns_some(const struct daemon *daemon)
{
    return daemon_metric(daemon, "foliot_shards_owned") > 0 &&
           daemon_metric(daemon, "foliot_shards_unowned") == 0;
}

static void an_answer_from_elsewhere_makes_the_client_look_again(void)
{
    static const char *const flags[] = {SHARDS_ARG, NULL};
    const struct foliot_topology *topology;
    struct foliot_client_stats stats;
    struct foliot_error error;
    struct scene scene;
    int64_t end_ms;

    open_scene(&scene, "moved", false);
    must_succeed(foliot_topology_get(scene.client, NULL, &topology, &error), &error);
    MUST_EQ(topology->broker_count, 1); // It knows itself, however young it is.
    foliot_topology_free(topology);
    create_keyed(scene.client, "before", 8);
    MUST_SOON((foliot_client_get_stats(scene.client, &stats), stats.brokers == 1), 10000);
    daemon_start(&scene.b, &scene.fixture, "b", flags); // Shards move there, and a lives on.
    daemon_wait_ready(&scene.b);
    MUST_SOON(owns_some(&scene.a) && owns_some(&scene.b), 30000);
    end_ms = must_now_ms() + 15000; // By itself it would look after 30 s.
    for (int i = 0; stats.brokers < 2; i++) {
        char prefix[32];

        (void)snprintf(prefix, sizeof(prefix), "after-%d", i);
        create_keyed(scene.client, prefix, 1);
        foliot_client_get_stats(scene.client, &stats);
        MUST_LE(must_now_ms(), end_ms);
    }
    close_scene(&scene);
}

struct load {
    struct foliot_client *client;
    const char *prefix;
    int count;
    atomic_int done;
    atomic_bool is_over;
};

static void *run_load(void *ctx)
{
    struct load *load = ctx;

    for (int i = 0; !atomic_load(&load->is_over); i++) {
        struct foliot_create_request request;
        struct foliot_created created;
        struct foliot_error error;
        char key[64];

        (void)snprintf(key, sizeof(key), "%s-%d", load->prefix, i);
        request = keyed(key);
        must_succeed(foliot_task_create(load->client, &request, NULL, &created, &error), &error);
        atomic_store(&load->done, i + 1);
    }
    return NULL;
}

static void calls_go_on_while_a_broker_is_killed(void)
{
    struct load loads[4] = {{.prefix = "w"}, {.prefix = "x"}, {.prefix = "y"}, {.prefix = "z"}};
    pthread_t threads[4];
    struct scene scene;

    open_scene(&scene, "kill", true);
    for (int i = 0; i < 4; i++) {
        loads[i].client = scene.client;
        MUST_EQ(pthread_create(&threads[i], NULL, run_load, &loads[i]), 0);
    }
    MUST_SOON(atomic_load(&loads[0].done) >= 20, 20000);
    daemon_signal(&scene.b, SIGKILL);
    MUST_EQ(daemon_wait_end(&scene.b, 5000), 128 + SIGKILL);
    scene.b.pid = 0;
    for (int i = 0; i < 4; i++) {
        int before = atomic_load(&loads[i].done);

        MUST_SOON(atomic_load(&loads[i].done) >= before + 20, 30000);
        atomic_store(&loads[i].is_over, true);
        MUST_EQ(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < atomic_load(&loads[0].done); i++) { // What was answered is there.
        const struct foliot_task *task;
        struct foliot_task_name name;
        struct foliot_error error;
        char key[64];

        (void)snprintf(key, sizeof(key), "w-%d", i);
        name = named(NULL, key);
        must_succeed(foliot_task_get(scene.client, &name, NULL, &task, &error), &error);
        foliot_task_free(task);
    }
    close_scene(&scene);
}

static void a_lost_answer_is_an_unknown_outcome_and_repeated_only_with_a_key(void)
{
    struct foliot_create_request with_key = keyed("lost");
    struct foliot_create_request without = keyed(NULL);
    struct foliot_create_request reject = keyed("strict");
    struct foliot_call_options patient;
    struct foliot_client *client;
    struct foliot_created created;
    struct foliot_error error;
    struct proxy *proxy;
    struct scene scene;

    foliot_call_options_init(&patient);
    patient.timeout_ms = 20000;
    open_scene(&scene, "lost", false);
    proxy = proxy_open(scene.a.address);
    client = open_client(proxy_address(proxy), 4000, 300, 1);
    must_succeed(foliot_task_create(client, &without, &patient, &created, &error), &error);
    proxy_set(proxy, PROXY_DROP_REPLIES);
    MUST_EQ(foliot_task_create(client, &without, NULL, &created, &error), FOLIOT_OUTCOME_UNKNOWN);
    MUST_EQ_TEXT(error.reason, "OUTCOME_UNKNOWN");
    MUST_EQ(error.may_have_happened, 1);
    MUST_EQ(error.tries, 1);
    reject.key_policy = FOLIOT_KEY_REJECT;
    MUST_EQ(foliot_task_create(client, &reject, NULL, &created, &error), FOLIOT_OUTCOME_UNKNOWN);
    MUST_EQ(error.tries, 1);
    MUST_EQ(foliot_task_create(client, &with_key, NULL, &created, &error), FOLIOT_OUTCOME_UNKNOWN);
    MUST_EQ(error.may_have_happened, 1);
    MUST_LE(2, error.tries);
    proxy_set(proxy, PROXY_CUT);
    proxy_set(proxy, PROXY_PASS);
    must_succeed(foliot_task_create(client, &with_key, &patient, &created, &error), &error);
    MUST_EQ(created.created, 0); // It had happened, and the repetitions made no second one.
    MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    proxy_close(proxy);
    close_scene(&scene);
}

static void what_never_left_did_not_happen(void)
{
    struct foliot_create_request request = keyed(NULL);
    struct foliot_client *client;
    struct foliot_created created;
    struct foliot_error error;
    int64_t start_ms;
    int code;

    client = open_client("127.0.0.1:1", 700, 0, 0);
    start_ms = must_now_ms();
    code = foliot_task_create(client, &request, NULL, &created, &error);
    MUST(code == FOLIOT_UNAVAILABLE || code == FOLIOT_DEADLINE_EXCEEDED);
    MUST_EQ(error.may_have_happened, 0);
    MUST(error.message[0] != '\0');
    MUST_LE(must_now_ms() - start_ms, 3000);
    MUST_EQ(foliot_client_close(client), FOLIOT_OK);
}

static void an_impatient_client_asks_the_others_and_waits_for_nothing(void)
{
    struct foliot_create_request request = keyed("k");
    struct foliot_options options;
    struct foliot_client *client;
    struct foliot_created created;
    struct foliot_error error;
    struct scene scene;
    char servers[128];

    open_scene(&scene, "impatient", false);
    foliot_options_init(&options);
    options.servers = "127.0.0.1:1,127.0.0.1:2";
    options.timeout_ms = 20000;
    options.servers_only = 1;
    options.impatient = 1;
    MUST_EQ(foliot_client_open(&options, &client, &error), FOLIOT_OK);
    MUST_EQ(foliot_task_create(client, &request, NULL, &created, &error), FOLIOT_UNAVAILABLE);
    MUST_EQ(error.tries, 2);
    MUST_EQ_TEXT(error.broker, "127.0.0.1:2");
    MUST_EQ(error.may_have_happened, 0);
    MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    (void)snprintf(servers, sizeof(servers), "127.0.0.1:1,%s", scene.a.address);
    options.servers = servers;
    MUST_EQ(foliot_client_open(&options, &client, &error), FOLIOT_OK);
    must_succeed(foliot_task_create(client, &request, NULL, &created, &error), &error);
    MUST_EQ(error.tries, 2);
    MUST_EQ_TEXT(error.broker, scene.a.address);
    MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    close_scene(&scene);
}

static void several_servers_may_be_named_and_dead_ones_are_passed_over(void)
{
    struct foliot_client *client;
    struct foliot_client_stats stats;
    struct scene scene;
    char servers[256];
    const char *port;

    open_scene(&scene, "seeds", true);
    port = strchr(scene.a.address, ':');
    (void)snprintf(servers, sizeof(servers), "127.0.0.1:1, localhost%s,127.0.0.1:2", port);
    client = open_client(servers, 20000, 0, 0);
    create_keyed(client, "seeds", 30);
    MUST_SOON((foliot_client_get_stats(client, &stats), stats.brokers == 2), 10000);
    daemon_stop(&scene.a); // The only server that was named and lives.
    create_keyed(client, "later", 30);
    MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    MUST_EQ(foliot_client_close(scene.client), FOLIOT_OK);
    daemon_stop(&scene.b);
    fixture_close(&scene.fixture);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_task_is_made_read_changed_and_cancelled),
        MUST_CASE(every_item_of_a_batch_has_its_own_result),
        MUST_CASE(queues_are_made_read_changed_and_listed),
        MUST_CASE(many_tasks_are_listed_and_cancelled),
        MUST_CASE(a_queue_is_paused_resumed_drained_and_deleted),
        MUST_CASE(a_task_is_explained_run_and_dies_and_is_given_another_chance),
        MUST_CASE(calls_go_straight_to_the_owner),
        MUST_CASE(an_answer_from_elsewhere_makes_the_client_look_again),
        MUST_CASE(calls_go_on_while_a_broker_is_killed),
        MUST_CASE(a_lost_answer_is_an_unknown_outcome_and_repeated_only_with_a_key),
        MUST_CASE(what_never_left_did_not_happen),
        MUST_CASE(an_impatient_client_asks_the_others_and_waits_for_nothing),
        MUST_CASE(several_servers_may_be_named_and_dead_ones_are_passed_over),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
