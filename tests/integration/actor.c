/* SPDX-License-Identifier: Apache-2.0
 *
 * The broker of the tests of client calls.
 */
#include "tests/integration/actor.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/lib/must.h"

#include <stdio.h>
#include <string.h>

/* What is in the queue that the played broker answers with. */
struct queue made_queue(void)
{
    struct queue queue;

    queue_init(&queue);
    (void)snprintf(queue.tenant, sizeof(queue.tenant), "shop");
    (void)snprintf(queue.name, sizeof(queue.name), "mail");
    (void)snprintf(queue.target, sizeof(queue.target), "receiver://127.0.0.1:9");
    queue.at_most_once = true;
    queue.attempt_timeout_ms = 1234;
    queue.key_memory_ms = 5678;
    queue.concurrency_max = 7;
    queue.retry.initial_ms = 11;
    queue.retry.max_ms = 1200;
    queue.retry.multiplier_permille = 1300;
    queue.retry.jitter_permille = 14;
    queue.retry.failures_max = 15;
    queue.retry.unknowns_max = 16;
    queue.retry.age_max_ms = 17000;
    queue.result_memory_ms = 18000;
    queue.expire_after_ms = 19000;
    queue.is_paused = true;
    queue.paused_until_ms = 20000;
    queue.is_draining = true;
    queue.version = 3;
    queue.id = 42;
    return queue;
}

struct task_view made_task(void)
{
    struct task_view view = {
        .queue = {"shop", "mail"},
        .key = slice_of("k\xc3\xa4y"),
        .payload = slice_of("what it says"),
        .due_ms = 1000,
        .created_ms = 900,
        .state = TASK_VIEW_DEAD,
        .attempt = 5,
        .failures = 4,
        .tags = slice_of("colour=red\nsize=\n"),
        .expire_ms = 2000,
        .ended_ms = 1500,
        .forget_ms = 3000,
        .response = slice_of("answer"),
        .error = slice_of("no such mailbox"),
    };

    MUST_OK(task_id_parse(slice_of(ACTOR_ID), &view.id));
    return view;
}

/* ---- the played broker: reads with the codec, remembers, answers ---- */

struct create_request seen_create;
struct task_name seen_name;
struct update_request seen_update;
struct list_request seen_list;
struct dead_request seen_dead;
struct queue seen_queue;
struct queue_name seen_queue_name;
struct pause_request seen_pause;
struct queue_delete_request seen_delete;
static struct arena seen; /* what they borrow; one call at a time */
atomic_int seen_count;

/* Forget the call before. */
static void begin(void)
{
    atomic_fetch_add(&seen_count, 1);
    arena_fini(&seen);
    arena_init(&seen, 0);
}

static void reply(struct rpc_call *call, struct buf *out)
{
    rpc_call_reply(call, buf_slice(out));
    buf_fini(out);
}

static void on_create(struct rpc_call *call, struct slice request, void *ctx)
{
    const struct create_reply answer = {.id = made_task().id, .created = true, .due_ms = 4711};
    struct fault fault;
    struct buf out;

    (void)ctx;
    begin();
    buf_init(&out, 4096);
    MUST_OK(codec_read_create(request, &seen, &seen_create, &fault));
    MUST_OK(codec_write_create_reply(&answer, &out));
    reply(call, &out);
}

static void on_batch(struct rpc_call *call, struct slice request, void *ctx)
{
    struct create_batch batch;
    struct fault fault;
    struct buf out;

    (void)ctx;
    begin();
    buf_init(&out, RPC_MESSAGE_BYTES_MAX);
    MUST_OK(codec_read_batch(request, &seen, &batch, &fault));
    for (size_t i = 0; i < batch.count; i++) {
        struct create_reply answer = {.id = made_task().id, .created = i % 2 == 0, .due_ms = 1};

        MUST_OK(codec_read_batch_item(&batch, i, &seen_create, &fault));
        answer.id.seq = (int64_t)i + 1;
        fault_set(&fault, RPC_NOT_FOUND, "QUEUE_NOT_FOUND", "queue", "no queue %zu", i);
        MUST_OK(codec_write_batch_result(&answer, i % 3 == 2 ? &fault : NULL, &out));
    }
    reply(call, &out);
}

static void on_cancels(struct rpc_call *call, struct slice request, void *ctx)
{
    struct create_batch batch;
    struct fault fault;
    struct buf out;

    (void)ctx;
    begin();
    buf_init(&out, RPC_MESSAGE_BYTES_MAX);
    MUST_OK(codec_read_batch(request, &seen, &batch, &fault));
    for (size_t i = 0; i < batch.count; i++) {
        const struct cancel_reply answer = {CANCEL_ANSWER_STOPPED, (uint32_t)i, made_task().id};

        MUST_OK(codec_read_cancel_item(&batch, i, &seen_name, &fault));
        fault_set(&fault, RPC_UNKNOWN, "OUTCOME_UNKNOWN", NULL, "who knows");
        MUST_OK(codec_write_cancel_result(&answer, i == 1 ? &fault : NULL, &out));
    }
    reply(call, &out);
}

/* Get, Cancel, RunNow, Explain: ctx is the word for which. */
static void on_named(struct rpc_call *call, struct slice request, void *ctx)
{
    const struct task_view view = made_task();
    const struct cancel_reply cancel = {CANCEL_ANSWER_STOPPED, 9, view.id};
    const struct update_reply update = {view.id, 4712, 6};
    const struct explain_reply explain = {view, WAIT_QUEUE_PAUSED, "it is paused", 99, 3, "b7",
                                          {0}};
    const char *which = ctx;
    struct fault fault;
    struct buf out;

    begin();
    buf_init(&out, 65536);
    MUST_OK(codec_read_task_name(request, &seen, &seen_name, &fault));
    if (strcmp(which, "get") == 0) {
        MUST_OK(codec_write_get_reply(&view, &out));
    } else if (strcmp(which, "cancel") == 0) {
        MUST_OK(codec_write_cancel_reply(&cancel, &out));
    } else if (strcmp(which, "run") == 0) {
        MUST_OK(codec_write_update_reply(&update, &out));
    } else {
        MUST_OK(codec_write_explain_reply(&explain, &out));
    }
    reply(call, &out);
}

static void on_update(struct rpc_call *call, struct slice request, void *ctx)
{
    const struct update_reply answer = {made_task().id, WALL_NEVER, 0};
    struct fault fault;
    struct buf out;

    (void)ctx;
    begin();
    buf_init(&out, 4096);
    MUST_OK(codec_read_update(request, &seen, &seen_update, &fault));
    MUST_OK(codec_write_update_reply(&answer, &out));
    reply(call, &out);
}

static void on_list(struct rpc_call *call, struct slice request, void *ctx)
{
    const struct task_view view = made_task();
    struct fault fault;
    struct buf out;

    (void)ctx;
    begin();
    buf_init(&out, 65536);
    MUST_OK(codec_read_list(request, &seen, &seen_list, &fault));
    MUST_OK(codec_write_list_item(&view, &out));
    MUST_OK(codec_write_list_item(&view, &out));
    MUST_OK(codec_write_list_end((struct page_mark){2, 3, 4, 5}, 8, &out));
    reply(call, &out);
}

/* ListDead, RedriveDead, PurgeDead: ctx is the word for which. */
static void on_dead(struct rpc_call *call, struct slice request, void *ctx)
{
    const struct task_view view = made_task();
    const struct dead_done done = {12, 3, "1.2.3.4"};
    const char *which = ctx;
    struct fault fault;
    struct buf out;

    begin();
    buf_init(&out, 65536);
    if (strcmp(which, "list") == 0) {
        MUST_OK(codec_read_dead_list(request, &seen, &seen_dead, &fault));
        MUST_OK(codec_write_dead_item(&view, &out));
        MUST_OK(codec_write_dead_end((struct page_mark){8, 0, 0, 0}, 8, &out));
    } else if (strcmp(which, "redrive") == 0) {
        MUST_OK(codec_read_dead_redrive(request, &seen, &seen_dead, &fault));
        MUST_OK(codec_write_redrive_reply(&done, &out));
    } else {
        MUST_OK(codec_read_dead_purge(request, &seen, &seen_dead, &fault));
        MUST_OK(codec_write_purge_reply(&done, &out));
    }
    reply(call, &out);
}

static void on_group(struct rpc_call *call, struct slice request, void *ctx)
{
    const struct dead_group group = {slice_of("code #"), 8, made_task().id, 100, 200};
    struct fault fault;
    struct buf out;

    (void)ctx;
    begin();
    buf_init(&out, 65536);
    MUST_OK(codec_read_dead_group(request, &seen, &seen_dead, &fault));
    MUST_OK(codec_write_dead_group_item(&group, &out));
    MUST_OK(codec_write_dead_group_end(77, true, &out));
    reply(call, &out);
}

static const char *const UNCONFIRMED[] = {"b1", "b2"};

/* Calls that say a whole queue, and those that name one; the answer is a queue. */
static void on_queue(struct rpc_call *call, struct slice request, void *ctx)
{
    const struct queue_reply answer = {made_queue(), UNCONFIRMED, 2};
    const char *which = ctx;
    struct fault fault;
    struct buf out;

    begin();
    buf_init(&out, 65536);
    if (strcmp(which, "whole") == 0) {
        MUST_OK(codec_read_queue(request, &seen, &seen_queue, &fault));
    } else if (strcmp(which, "pause") == 0) {
        MUST_OK(codec_read_pause(request, &seen, &seen_pause, &fault));
    } else {
        MUST_OK(codec_read_queue_name(request, &seen, &seen_queue_name, &fault));
    }
    MUST_OK(codec_write_queue_reply(&answer, &out));
    reply(call, &out);
}

static void on_delete(struct rpc_call *call, struct slice request, void *ctx)
{
    const struct queue_reply answer = {.unconfirmed = UNCONFIRMED, .unconfirmed_count = 1};
    struct fault fault;
    struct buf out;

    (void)ctx;
    begin();
    buf_init(&out, 65536);
    MUST_OK(codec_read_queue_delete(request, &seen, &seen_delete, &fault));
    MUST_OK(codec_write_queue_delete_reply(&answer, &out));
    reply(call, &out);
}

static void on_stats(struct rpc_call *call, struct slice request, void *ctx)
{
    static const uint32_t missing[] = {4, 6};
    const struct queue queue = made_queue();
    const struct queue_stats stats = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, true, missing, 2};
    struct fault fault;
    struct buf out;

    (void)ctx;
    begin();
    buf_init(&out, 65536);
    MUST_OK(codec_read_queue_name(request, &seen, &seen_queue_name, &fault));
    MUST_OK(codec_write_stats_reply(&queue, &stats, &out));
    reply(call, &out);
}

static char word_get[] = "get", word_cancel[] = "cancel", word_run[] = "run", word_why[] = "why";
static char word_list[] = "list", word_redrive[] = "redrive", word_purge[] = "purge";
static char word_whole[] = "whole", word_pause[] = "pause", word_name[] = "name";

static const struct rpc_method METHODS[] = {
    {.path = "/foliot.v1.TaskService/Create", .handler = on_create},
    {.path = "/foliot.v1.TaskService/BatchCreate", .handler = on_batch},
    {.path = "/foliot.v1.TaskService/BatchCancel", .handler = on_cancels},
    {.path = "/foliot.v1.TaskService/Get", .handler = on_named, .ctx = word_get},
    {.path = "/foliot.v1.TaskService/Cancel", .handler = on_named, .ctx = word_cancel},
    {.path = "/foliot.v1.TaskService/RunNow", .handler = on_named, .ctx = word_run},
    {.path = "/foliot.v1.TaskService/Explain", .handler = on_named, .ctx = word_why},
    {.path = "/foliot.v1.TaskService/Update", .handler = on_update},
    {.path = "/foliot.v1.TaskService/List", .handler = on_list},
    {.path = "/foliot.v1.QueueService/ListDead", .handler = on_dead, .ctx = word_list},
    {.path = "/foliot.v1.QueueService/RedriveDead", .handler = on_dead, .ctx = word_redrive},
    {.path = "/foliot.v1.QueueService/PurgeDead", .handler = on_dead, .ctx = word_purge},
    {.path = "/foliot.v1.QueueService/GroupDead", .handler = on_group},
    {.path = "/foliot.v1.QueueService/Create", .handler = on_queue, .ctx = word_whole},
    {.path = "/foliot.v1.QueueService/Update", .handler = on_queue, .ctx = word_whole},
    {.path = "/foliot.v1.QueueService/Get", .handler = on_queue, .ctx = word_name},
    {.path = "/foliot.v1.QueueService/Pause", .handler = on_queue, .ctx = word_pause},
    {.path = "/foliot.v1.QueueService/Resume", .handler = on_queue, .ctx = word_name},
    {.path = "/foliot.v1.QueueService/Drain", .handler = on_queue, .ctx = word_name},
    {.path = "/foliot.v1.QueueService/Delete", .handler = on_delete},
    {.path = "/foliot.v1.QueueService/GetStats", .handler = on_stats},
};

/* ---- the scene ---- */

void actor_start(struct played *played)
{
    arena_init(&seen, 0);
    played_start(played, METHODS, ARRAY_COUNT(METHODS));
}

void actor_stop(struct played *played)
{
    played_stop(played);
    arena_fini(&seen);
}

void open_scene(struct scene *scene)
{
    struct foliot_options options;

    scene->blocks = mem_block_count();
    MUST_EQ(sem_init(&scene->called, 0, 0), 0);
    actor_start(&scene->played);
    foliot_options_init(&options);
    options.servers = scene->played.address;
    options.servers_only = 1;
    MUST_EQ(foliot_client_open(&options, &scene->client, &scene->error), FOLIOT_OK);
}

void close_scene(struct scene *scene)
{
    MUST_EQ(foliot_client_close(scene->client), FOLIOT_OK);
    actor_stop(&scene->played);
    MUST_EQ(mem_block_count(), scene->blocks);
}

void good(const struct scene *scene, int code)
{
    if (code != FOLIOT_OK) {
        must_fail(MUST_HERE, "%s: %s", foliot_code_name(code), scene->error.message);
    }
    MUST_EQ(scene->error.code, FOLIOT_OK);
}

void called_back(struct scene *scene, int code)
{
    good(scene, code);
    while (sem_wait(&scene->called) != 0) {
    }
}
