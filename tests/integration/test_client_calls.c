/* SPDX-License-Identifier: Apache-2.0
 *
 * Every call of libfoliot, both forms, against a played broker: what the caller says arrives, what
 * the broker answers comes back field by field, and what makes no sense is refused before it is
 * sent.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "tests/integration/actor.h"
#include "tests/lib/must.h"

#include <foliot.h>

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define ID ACTOR_ID

static void must_be_slice(struct slice slice, const char *text)
{
    MUST_EQ(slice.len, strlen(text));
    MUST_EQ_BYTES(slice.data, text, slice.len);
}

static struct foliot_task_name by_id(void)
{
    struct foliot_task_name name;

    foliot_task_name_init(&name);
    name.id = ID;
    return name;
}

static struct foliot_task_name by_key(void)
{
    struct foliot_task_name name;

    foliot_task_name_init(&name);
    name.name_space = "shop";
    name.queue = "mail";
    name.key = "key 1";
    return name;
}

/* ---- tasks ---- */

static void check_created(const struct foliot_created *created)
{
    MUST_EQ_TEXT(created->id, ID);
    MUST_EQ(created->created, 1);
    MUST_EQ(created->due_ms, 4711);
}

static void on_created(const struct foliot_error *error, const struct foliot_created *created,
                       void *ctx)
{
    struct scene *scene = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    check_created(created);
    (void)sem_post(&scene->called);
}

static void a_create_says_all_that_it_was_told(void)
{
    static const struct foliot_tag tags[] = {{"size", NULL}, {"colour", "red"}};
    struct foliot_create_request request;
    struct foliot_created created;
    struct scene scene;

    open_scene(&scene);
    foliot_create_request_init(&request);
    request.name_space = "shop";
    request.queue = "mail";
    request.when = FOLIOT_WHEN_AT;
    request.when_ms = 1234567;
    request.payload = "pay\0load";
    request.payload_size = 8;
    request.key = "key 1";
    request.key_policy = FOLIOT_KEY_REPLACE;
    request.latest_ms = 7654321;
    request.expire_ms = 8765432;
    request.tags = tags;
    request.tag_count = 2;
    good(&scene, foliot_task_create(scene.client, &request, NULL, &created, &scene.error));
    check_created(&created);
    MUST_EQ_TEXT(seen_create.queue.tenant, "shop");
    MUST_EQ_TEXT(seen_create.queue.name, "mail");
    MUST_EQ(seen_create.when.kind, WHEN_DUE);
    MUST_EQ(seen_create.when.due_ms, 1234567);
    MUST_EQ(seen_create.payload.len, 8);
    MUST_EQ_BYTES(seen_create.payload.data, "pay\0load", 8);
    must_be_slice(seen_create.key, "key 1");
    MUST_EQ(seen_create.key_policy, KEY_REPLACE);
    MUST_EQ(seen_create.latest_ms, 7654321);
    MUST_EQ(seen_create.expire_ms, 8765432);
    must_be_slice(seen_create.tags, "colour=red\nsize=\n");
    foliot_create_request_init(&request);
    request.queue = "q";
    called_back(&scene, foliot_task_create_async(scene.client, &request, NULL, on_created, &scene,
                                                 &scene.error));
    MUST_EQ_TEXT(seen_create.queue.tenant, "default");
    MUST_EQ(seen_create.when.kind, WHEN_NONE);
    MUST_EQ(seen_create.key.len + seen_create.payload.len + seen_create.tags.len, 0);
    close_scene(&scene);
}

static void on_batch_done(const struct foliot_error *error, const struct foliot_batch *batch,
                          void *ctx)
{
    struct scene *scene = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    MUST_EQ(batch->count, 1000);
    MUST_EQ(batch->failed, 333);
    for (size_t i = 0; i < batch->count; i++) {
        char message[32];
        char id[32];

        (void)snprintf(message, sizeof(message), "no queue %zu", i);
        (void)snprintf(id, sizeof(id), "0a7-%016zx", i + 1);
        MUST_EQ(batch->results[i].code, i % 3 == 2 ? FOLIOT_NOT_FOUND : FOLIOT_OK);
        MUST_EQ_TEXT(batch->results[i].message, i % 3 == 2 ? message : "");
        MUST_EQ_TEXT(batch->results[i].reason, i % 3 == 2 ? "QUEUE_NOT_FOUND" : "");
        MUST_EQ_TEXT(batch->results[i].field, i % 3 == 2 ? "queue" : "");
        MUST_EQ_TEXT(batch->results[i].id, i % 3 == 2 ? "" : id);
        MUST_EQ(batch->results[i].created, i % 3 != 2 && i % 2 == 0);
    }
    (void)sem_post(&scene->called);
}

static void a_batch_has_a_result_for_each_item(void)
{
    static struct foliot_create_request items[1000];
    const struct foliot_batch *batch;
    struct scene scene;

    open_scene(&scene);
    for (size_t i = 0; i < ARRAY_COUNT(items); i++) {
        foliot_create_request_init(&items[i]);
        items[i].queue = "q";
    }
    good(&scene, foliot_task_create_batch(scene.client, items, 1000, NULL, &batch, &scene.error));
    on_batch_done(&scene.error, batch, &scene);
    called_back(&scene, 0);
    foliot_batch_free(batch);
    called_back(&scene, foliot_task_create_batch_async(
                            scene.client, items, 1000, NULL,
                            (struct foliot_batch_callback){on_batch_done, &scene}, &scene.error));
    close_scene(&scene);
}

static void on_cancels_done(const struct foliot_error *error,
                            const struct foliot_cancel_batch *batch, void *ctx)
{
    struct scene *scene = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    MUST_EQ(batch->count, 3);
    MUST_EQ(batch->failed, 1);
    MUST_EQ(batch->results[0].outcome, FOLIOT_CANCEL_STOPPED);
    MUST_EQ_TEXT(batch->results[0].reason, "");
    MUST_EQ(batch->results[1].code, FOLIOT_OUTCOME_UNKNOWN);
    MUST_EQ_TEXT(batch->results[1].message, "who knows");
    MUST_EQ(batch->results[2].attempt, 2);
    MUST_EQ_TEXT(batch->results[2].id, ID);
    (void)sem_post(&scene->called);
}

static void many_are_cancelled_in_one_call(void)
{
    struct foliot_task_name names[3] = {by_id(), by_key(), by_key()};
    const struct foliot_cancel_batch *batch;
    struct scene scene;

    open_scene(&scene);
    good(&scene, foliot_task_cancel_batch(scene.client, names, 3, NULL, &batch, &scene.error));
    on_cancels_done(&scene.error, batch, &scene);
    called_back(&scene, 0);
    foliot_cancel_batch_free(batch);
    must_be_slice(seen_name.key, "key 1");
    called_back(&scene,
                foliot_task_cancel_batch_async(
                    scene.client, names, 3, NULL,
                    (struct foliot_cancel_batch_callback){on_cancels_done, &scene}, &scene.error));
    close_scene(&scene);
}

/* The made task; what dead letters leave out is not looked at. */
static void check_task(const struct foliot_task *task)
{
    MUST_EQ_TEXT(task->id, ID);
    MUST_EQ_TEXT(task->key, "k\xc3\xa4y");
    MUST_EQ(task->payload_size, 12);
    MUST_EQ_BYTES(task->payload, "what it says", 12);
    MUST_EQ(task->due_ms, 1000);
    MUST_EQ(task->created_ms, 900);
    MUST_EQ(task->state, FOLIOT_TASK_DEAD);
    MUST_EQ(task->attempt, 5);
    MUST_EQ(task->failures, 4);
    MUST_EQ(task->tag_count, 2);
    MUST_EQ_TEXT(task->tags[0].name, "colour");
    MUST_EQ_TEXT(task->tags[0].value, "red");
    MUST_EQ_TEXT(task->tags[1].name, "size");
    MUST_EQ_TEXT(task->tags[1].value, "");
    MUST_EQ(task->ended_ms, 1500);
    MUST_EQ_TEXT(task->error, "no such mailbox");
}

static void on_task(const struct foliot_error *error, const struct foliot_task *task, void *ctx)
{
    struct scene *scene = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    check_task(task);
    MUST_EQ_TEXT(task->name_space, "shop");
    MUST_EQ_TEXT(task->queue, "mail");
    MUST_EQ(task->expire_ms, 2000);
    MUST_EQ(task->forget_ms, 3000);
    MUST_EQ(task->response_size, 6);
    MUST_EQ_BYTES(task->response, "answer", 6);
    (void)sem_post(&scene->called);
}

static void a_task_comes_with_every_field(void)
{
    struct foliot_task_name name = by_key();
    const struct foliot_task *task;
    struct scene scene;

    open_scene(&scene);
    good(&scene, foliot_task_get(scene.client, &name, NULL, &task, &scene.error));
    on_task(&scene.error, task, &scene);
    called_back(&scene, 0);
    foliot_task_free(task);
    MUST_EQ_TEXT(seen_name.queue.tenant, "shop");
    MUST_EQ_TEXT(seen_name.queue.name, "mail");
    must_be_slice(seen_name.key, "key 1");
    name = by_id();
    called_back(&scene,
                foliot_task_get_async(scene.client, &name, NULL, on_task, &scene, &scene.error));
    MUST_EQ(seen_name.id.seq, made_task().id.seq);
    close_scene(&scene);
}

static void on_explanation(const struct foliot_error *error,
                           const struct foliot_explanation *explanation, void *ctx)
{
    struct scene *scene = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    check_task(explanation->task);
    MUST_EQ(explanation->reason, FOLIOT_WAIT_QUEUE_PAUSED);
    MUST_EQ_TEXT(explanation->text, "it is paused");
    MUST_EQ(explanation->until_ms, 99);
    MUST_EQ(explanation->shard, 3);
    MUST_EQ_TEXT(explanation->broker, "b7");
    (void)sem_post(&scene->called);
}

static void a_wait_is_explained(void)
{
    const struct foliot_explanation *explanation;
    struct foliot_task_name name = by_id();
    struct scene scene;

    open_scene(&scene);
    good(&scene, foliot_task_explain(scene.client, &name, NULL, &explanation, &scene.error));
    on_explanation(&scene.error, explanation, &scene);
    called_back(&scene, 0);
    foliot_explanation_free(explanation);
    called_back(&scene, foliot_task_explain_async(scene.client, &name, NULL, on_explanation, &scene,
                                                  &scene.error));
    close_scene(&scene);
}

static void on_cancelled(const struct foliot_error *error, const struct foliot_cancelled *cancelled,
                         void *ctx)
{
    struct scene *scene = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    MUST_EQ(cancelled->outcome, FOLIOT_CANCEL_STOPPED);
    MUST_EQ(cancelled->attempt, 9);
    MUST_EQ_TEXT(cancelled->id, ID);
    (void)sem_post(&scene->called);
}

static void on_updated(const struct foliot_error *error, const struct foliot_updated *updated,
                       void *ctx)
{
    struct scene *scene = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    MUST_EQ_TEXT(updated->id, ID);
    MUST(updated->due_ms == 4712 ? updated->may_be_running_attempt == 6
                                 : updated->due_ms == FOLIOT_TIME_UNKNOWN);
    (void)sem_post(&scene->called);
}

static void a_task_is_cancelled_updated_and_run(void)
{
    struct foliot_task_name name = by_id();
    struct foliot_update_request update;
    struct foliot_cancelled cancelled;
    struct foliot_updated updated;
    struct scene scene;

    open_scene(&scene);
    good(&scene, foliot_task_cancel(scene.client, &name, NULL, &cancelled, &scene.error));
    on_cancelled(&scene.error, &cancelled, &scene);
    called_back(&scene, 0);
    called_back(&scene, foliot_task_cancel_async(scene.client, &name, NULL, on_cancelled, &scene,
                                                 &scene.error));
    good(&scene, foliot_task_run_now(scene.client, &name, NULL, &updated, &scene.error));
    MUST_EQ(updated.due_ms, 4712);
    called_back(&scene, foliot_task_run_now_async(scene.client, &name, NULL, on_updated, &scene,
                                                  &scene.error));
    foliot_update_request_init(&update);
    update.name = &name;
    update.when = FOLIOT_WHEN_AFTER;
    update.when_ms = 77;
    good(&scene, foliot_task_update(scene.client, &update, NULL, &updated, &scene.error));
    MUST_EQ(seen_update.when.delay_ms, 77);
    MUST(!seen_update.set_payload);
    update.set_payload = 1;
    update.payload = "new";
    update.payload_size = 3;
    called_back(&scene, foliot_task_update_async(scene.client, &update, NULL, on_updated, &scene,
                                                 &scene.error));
    must_be_slice(seen_update.payload, "new");
    close_scene(&scene);
}

static void on_page(const struct foliot_error *error, const struct foliot_task_page *page,
                    void *ctx)
{
    struct scene *scene = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    MUST_LE(1, page->count);
    for (size_t i = 0; i < page->count; i++) {
        check_task(page->tasks[i]);
    }
    (void)sem_post(&scene->called);
}

static void a_list_says_its_filters_and_goes_on_where_it_was(void)
{
    static const struct foliot_tag tags[] = {{"colour", "red"}};
    struct foliot_list_request request;
    const struct foliot_task_page *page;
    struct scene scene;
    char token[FOLIOT_TOKEN_SIZE];

    open_scene(&scene);
    foliot_list_request_init(&request);
    good(&scene, foliot_task_list(scene.client, &request, NULL, &page, &scene.error));
    MUST_EQ(page->count, 2);
    on_page(&scene.error, page, &scene);
    called_back(&scene, 0);
    (void)snprintf(token, sizeof(token), "%s", page->next_page_token);
    foliot_task_page_free(page);
    MUST_EQ_TEXT(seen_list.queue.name, "");
    MUST_EQ(seen_list.due_before_ms, WALL_NEVER);
    MUST_EQ(seen_list.page_size, LIST_PAGE_COUNT_DEFAULT);
    request.queue = "mail";
    request.states = FOLIOT_STATE_BIT(FOLIOT_TASK_READY) | FOLIOT_STATE_BIT(FOLIOT_TASK_RETRYING);
    request.due_from_ms = 10;
    request.due_before_ms = 20;
    request.tags = tags;
    request.tag_count = 1;
    request.page_size = 7;
    request.page_token = token;
    request.with_payload = 1;
    called_back(&scene, foliot_task_list_async(scene.client, &request, NULL, on_page, &scene,
                                               &scene.error));
    MUST_EQ_TEXT(seen_list.queue.name, "mail");
    MUST_EQ(seen_list.states, 1U << TASK_VIEW_READY | 1U << TASK_VIEW_RETRYING);
    MUST_EQ(seen_list.due_from_ms, 10);
    MUST_EQ(seen_list.due_before_ms, 20);
    must_be_slice(seen_list.tags, "colour=red\n");
    MUST_EQ(seen_list.page_size, 7);
    MUST(seen_list.with_payload && seen_list.mark.shard == 2 && seen_list.mark.bucket == 3 &&
         seen_list.mark.seq == 4 && seen_list.mark.count == 5);
    close_scene(&scene);
}

/* ---- queues ---- */

static void check_queue(const struct foliot_queue *queue)
{
    MUST_EQ_TEXT(queue->name_space, "shop");
    MUST_EQ_TEXT(queue->name, "mail");
    MUST_EQ_TEXT(queue->target, "receiver://127.0.0.1:9");
    MUST_EQ(queue->delivery, FOLIOT_AT_MOST_ONCE);
    MUST_EQ(queue->attempt_timeout_ms, 1234);
    MUST_EQ(queue->key_memory_ms, 5678);
    MUST_EQ(queue->concurrency_max, 7);
    MUST_EQ(queue->backoff_initial_ms, 11);
    MUST_EQ(queue->backoff_max_ms, 1200);
    MUST_EQ(queue->backoff_growth_permille, 1300);
    MUST_EQ(queue->backoff_jitter_permille, 14);
    MUST_EQ(queue->failures_max, 15);
    MUST_EQ(queue->unknowns_max, 16);
    MUST_EQ(queue->age_max_ms, 17000);
    MUST_EQ(queue->result_memory_ms, 18000);
    MUST_EQ(queue->expire_after_ms, 19000);
    MUST_EQ(queue->is_paused, 1);
    MUST_EQ(queue->paused_until_ms, 20000);
    MUST_EQ(queue->is_draining, 1);
    MUST_EQ(queue->version, 3);
    MUST_EQ(queue->id, 42);
}

static void on_queue_reply(const struct foliot_error *error,
                           const struct foliot_queue_reply *answer, void *ctx)
{
    struct scene *scene = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    if (answer->queue != NULL) {
        check_queue(answer->queue);
        MUST_EQ(answer->unconfirmed_count, 2);
        MUST_EQ_TEXT(answer->unconfirmed[1], "b2");
    } else {
        MUST_EQ(answer->unconfirmed_count, 1);
    }
    (void)sem_post(&scene->called);
}

static void a_queue_goes_out_and_comes_back_whole(void)
{
    struct queue wanted = made_queue();
    const struct foliot_queue_reply *answer;
    struct foliot_queue_name name;
    struct foliot_queue queue;
    struct scene scene;

    open_scene(&scene);
    foliot_queue_init(&queue);
    queue.name = "plain";
    queue.target = "receiver://127.0.0.1:9";
    good(&scene, foliot_queue_create(scene.client, &queue, NULL, &answer, &scene.error));
    on_queue_reply(&scene.error, answer, &scene);
    called_back(&scene, 0);
    MUST_EQ_TEXT(seen_queue.tenant, "default");
    MUST_EQ(seen_queue.attempt_timeout_ms, ATTEMPT_TIMEOUT_MS_DEFAULT);
    MUST_EQ(seen_queue.retry.failures_max, QUEUE_FAILURES_DEFAULT);
    foliot_queue_copy(&queue, answer->queue);
    called_back(&scene, foliot_queue_update_async(scene.client, &queue, NULL, on_queue_reply,
                                                  &scene, &scene.error));
    foliot_queue_reply_free(answer);
    MUST_EQ_TEXT(seen_queue.name, wanted.name);
    MUST_EQ(seen_queue.at_most_once, true);
    MUST_EQ(seen_queue.concurrency_max, wanted.concurrency_max);
    MUST_EQ(seen_queue.key_memory_ms, wanted.key_memory_ms);
    MUST_EQ(seen_queue.retry.initial_ms, wanted.retry.initial_ms);
    MUST_EQ(seen_queue.retry.jitter_permille, wanted.retry.jitter_permille);
    MUST_EQ(seen_queue.retry.age_max_ms, wanted.retry.age_max_ms);
    MUST_EQ(seen_queue.result_memory_ms, wanted.result_memory_ms);
    MUST_EQ(seen_queue.expire_after_ms, wanted.expire_after_ms);
    MUST_EQ(seen_queue.version, 3);
    foliot_queue_name_init(&name);
    name.name_space = "shop";
    name.name = "mail";
    called_back(&scene, foliot_queue_get_async(scene.client, &name, NULL, on_queue_reply, &scene,
                                               &scene.error));
    MUST_EQ_TEXT(seen_queue_name.tenant, "shop");
    MUST_EQ_TEXT(seen_queue_name.name, "mail");
    close_scene(&scene);
}

static void on_stats_read(const struct foliot_error *error, const struct foliot_queue_stats *stats,
                          void *ctx)
{
    struct scene *scene = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    check_queue(stats->queue);
    MUST(stats->pending == 1 && stats->overdue == 2 && stats->dead == 3);
    MUST(stats->first_due_ms == 4 && stats->counted_ms == 5 && stats->running == 6);
    MUST(stats->done == 7 && stats->retried == 8 && stats->died == 9 && stats->expired == 10);
    MUST_EQ(stats->is_at_least, 1);
    MUST(stats->unknown == 11 && stats->missing_count == 2 && stats->missing[1] == 6);
    (void)sem_post(&scene->called);
}

static void the_life_of_a_queue(void)
{
    struct foliot_queue_delete_request gone;
    struct foliot_queue_pause_request pause;
    const struct foliot_queue_reply *answer;
    const struct foliot_queue_stats *stats;
    struct foliot_queue_name name;
    struct scene scene;

    open_scene(&scene);
    foliot_queue_pause_request_init(&pause);
    pause.name = "mail";
    pause.end = FOLIOT_WHEN_AFTER;
    pause.end_ms = 5000;
    called_back(&scene, foliot_queue_pause_async(scene.client, &pause, NULL, on_queue_reply, &scene,
                                                 &scene.error));
    MUST_EQ(seen_pause.end.kind, WHEN_DELAY);
    MUST_EQ(seen_pause.end.delay_ms, 5000);
    foliot_queue_name_init(&name);
    name.name = "mail";
    good(&scene, foliot_queue_resume(scene.client, &name, NULL, &answer, &scene.error));
    foliot_queue_reply_free(answer);
    called_back(&scene, foliot_queue_drain_async(scene.client, &name, NULL, on_queue_reply, &scene,
                                                 &scene.error));
    foliot_queue_delete_request_init(&gone);
    gone.name = "mail";
    gone.version = 9;
    good(&scene, foliot_queue_delete(scene.client, &gone, NULL, &answer, &scene.error));
    MUST(answer->queue == NULL && answer->unconfirmed_count == 1);
    foliot_queue_reply_free(answer);
    MUST_EQ(seen_delete.version, 9);
    good(&scene, foliot_queue_stats_get(scene.client, &name, NULL, &stats, &scene.error));
    on_stats_read(&scene.error, stats, &scene);
    called_back(&scene, 0);
    foliot_queue_stats_free(stats);
    called_back(&scene, foliot_queue_stats_get_async(scene.client, &name, NULL, on_stats_read,
                                                     &scene, &scene.error));
    close_scene(&scene);
}

/* ---- dead letters ---- */

static void on_groups(const struct foliot_error *error, const struct foliot_dead_groups *groups,
                      void *ctx)
{
    struct scene *scene = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    MUST_EQ(groups->count, 1);
    MUST_EQ(groups->looked_at, 77);
    MUST_EQ(groups->is_partial, 1);
    MUST_EQ_TEXT(groups->groups[0].error, "code #");
    MUST_EQ(groups->groups[0].count, 8);
    MUST_EQ_TEXT(groups->groups[0].example_id, ID);
    MUST(groups->groups[0].first_ms == 100 && groups->groups[0].last_ms == 200);
    (void)sem_post(&scene->called);
}

static void on_done(const struct foliot_error *error, const struct foliot_dead_done *done,
                    void *ctx)
{
    struct scene *scene = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    MUST_EQ(done->handled, 12);
    MUST_EQ_TEXT(done->next_page_token, "1.2.3.4");
    (void)sem_post(&scene->called);
}

static void dead_letters_are_listed_counted_redriven_and_purged(void)
{
    static const char *const ids[] = {ID, ID};
    struct foliot_dead_request request;
    const struct foliot_dead_groups *groups;
    const struct foliot_task_page *page;
    struct foliot_dead_done done;
    struct foliot_queue_name name;
    struct scene scene;

    open_scene(&scene);
    foliot_dead_request_init(&request);
    request.queue = "mail";
    request.error_contains = "mailbox";
    request.count_max = 6;
    request.with_payload = 1;
    good(&scene, foliot_dead_list(scene.client, &request, NULL, &page, &scene.error));
    MUST_EQ_TEXT(page->next_page_token, "");
    on_page(&scene.error, page, &scene);
    called_back(&scene, 0);
    foliot_task_page_free(page);
    must_be_slice(seen_dead.error_contains, "mailbox");
    MUST(seen_dead.count_max == 6 && seen_dead.with_payload);
    request.with_payload = 0;
    request.ids = ids;
    request.id_count = 2;
    request.rate_per_second = 2.5;
    request.page_token = "1.2.3.4";
    good(&scene, foliot_dead_redrive(scene.client, &request, NULL, &done, &scene.error));
    MUST_EQ(done.skipped, 3);
    MUST(seen_dead.id_count == 2 && seen_dead.rate_millis == 2500 && seen_dead.mark.shard == 1);
    called_back(&scene, foliot_dead_purge_async(scene.client, &request, NULL, on_done, &scene,
                                                &scene.error));
    foliot_queue_name_init(&name);
    name.name = "mail";
    good(&scene, foliot_dead_group(scene.client, &name, NULL, &groups, &scene.error));
    on_groups(&scene.error, groups, &scene);
    called_back(&scene, 0);
    foliot_dead_groups_free(groups);
    called_back(&scene, foliot_dead_group_async(scene.client, &name, NULL, on_groups, &scene,
                                                &scene.error));
    close_scene(&scene);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_create_says_all_that_it_was_told),
        MUST_CASE(a_batch_has_a_result_for_each_item),
        MUST_CASE(many_are_cancelled_in_one_call),
        MUST_CASE(a_task_comes_with_every_field),
        MUST_CASE(a_wait_is_explained),
        MUST_CASE(a_task_is_cancelled_updated_and_run),
        MUST_CASE(a_list_says_its_filters_and_goes_on_where_it_was),
        MUST_CASE(a_queue_goes_out_and_comes_back_whole),
        MUST_CASE(the_life_of_a_queue),
        MUST_CASE(dead_letters_are_listed_counted_redriven_and_purged),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
