/* SPDX-License-Identifier: Apache-2.0
 *
 * One libfoliot client under many threads, with a broker played in this process: each call gets its
 * own answer, callbacks come once and on the client's thread, stop ends what waits, nothing leaks.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "proto/codec_task.h"
#include "proto/route.h"
#include "tests/lib/must.h"
#include "tests/lib/played.h"

#include <foliot.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREAD_COUNT 8
#define CALL_COUNT   400

/* ---- the broker ---- */

/* Calls of queue "hold", which are never answered. */
static atomic_int held_count;

static void on_cancel(struct rpc_call *call, void *ctx)
{
    (void)ctx;
    rpc_call_fail(call, RPC_CANCELLED, "gone", (struct slice){NULL, 0}, 0);
}

/* Answers with an id that has the number of the key in it; holds those of queue "hold". */
static void on_create(struct rpc_call *call, struct slice request, void *ctx)
{
    struct create_request create;
    struct create_reply reply = {.created = true, .due_ms = 1};
    struct arena arena;
    struct fault fault;
    struct buf bytes;

    (void)ctx;
    arena_init(&arena, 0);
    buf_init(&bytes, 4096);
    MUST_OK(codec_read_create(request, &arena, &create, &fault));
    if (strcmp(create.queue.name, "hold") == 0) {
        rpc_call_on_cancel(call, on_cancel, NULL);
        atomic_fetch_add(&held_count, 1);
    } else {
        reply.id.slot = route_key_slot("default", create.queue.name, create.key);
        reply.id.seq = strtol((const char *)create.key.data, NULL, 10) + 1;
        MUST_OK(codec_write_create_reply(&reply, &bytes));
        rpc_call_reply(call, buf_slice(&bytes));
    }
    buf_fini(&bytes);
    arena_fini(&arena);
}

static void start(struct played *played)
{
    static const struct rpc_method create = {.path = "/foliot.v1.TaskService/Create",
                                             .handler = on_create};

    played_start(played, &create, 1);
}

static struct foliot_client *open_client(const struct played *played, uint32_t calls_max)
{
    struct foliot_options options;
    struct foliot_client *client;

    foliot_options_init(&options);
    options.servers = played->address;
    options.timeout_ms = 50000;
    options.calls_max = calls_max;
    MUST_EQ(foliot_client_open(&options, &client, NULL), FOLIOT_OK);
    return client;
}

static struct foliot_create_request request_of(const char *queue, const char *key)
{
    struct foliot_create_request request;

    foliot_create_request_init(&request);
    request.queue = queue;
    request.key = key;
    return request;
}

/* The id that the broker gives for the key of that number. */
static void expect_id(const char *id, int number)
{
    char wanted[32];

    (void)snprintf(wanted, sizeof(wanted), "-%016x", (unsigned)number + 1);
    MUST_EQ_TEXT(id + 3, wanted);
}

/* ---- waiting calls ---- */

struct caller {
    struct foliot_client *client;
    int number;
    int code;
    atomic_int arrived;
    sem_t *all;
};

static void *create_all(void *ctx)
{
    struct caller *caller = ctx;

    for (int i = 0; i < CALL_COUNT; i++) {
        int number = caller->number * CALL_COUNT + i;
        struct foliot_create_request request;
        struct foliot_created created;
        struct foliot_error error;
        char key[16];

        (void)snprintf(key, sizeof(key), "%d", number);
        request = request_of("q", key);
        MUST_EQ(foliot_task_create(caller->client, &request, NULL, &created, &error), FOLIOT_OK);
        MUST_EQ(error.code, FOLIOT_OK);
        expect_id(created.id, number);
    }
    return NULL;
}

static void every_thread_gets_the_answers_of_its_own_calls(void)
{
    int64_t blocks = mem_block_count();
    struct caller callers[THREAD_COUNT];
    pthread_t threads[THREAD_COUNT];
    struct foliot_client_stats stats;
    struct foliot_client *client;
    struct played played;

    start(&played);
    client = open_client(&played, 0);
    for (int i = 0; i < THREAD_COUNT; i++) {
        callers[i] = (struct caller){.client = client, .number = i};
        MUST_EQ(pthread_create(&threads[i], NULL, create_all, &callers[i]), 0);
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        MUST_EQ(pthread_join(threads[i], NULL), 0);
    }
    foliot_client_get_stats(client, &stats);
    MUST_EQ(stats.calls, THREAD_COUNT * CALL_COUNT);
    MUST_EQ(stats.calls_waiting, 0);
    MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    played_stop(&played);
    MUST_EQ(mem_block_count(), blocks);
}

/* ---- callbacks ---- */

struct answer {
    struct caller *caller;
    int number;
    atomic_int count;
    pthread_t thread;
};

static void on_second(const struct foliot_error *error, const struct foliot_created *created,
                      void *ctx)
{
    struct answer *answer = ctx;

    MUST_EQ(error->code, FOLIOT_OK);
    expect_id(created->id, answer->number);
    MUST(pthread_equal(answer->thread, pthread_self()));
    atomic_fetch_add(&answer->count, 1);
    (void)sem_post(answer->caller->all);
}

/* Starts the same call again, and tries to wait for one, which is refused. */
static void on_first(const struct foliot_error *error, const struct foliot_created *created,
                     void *ctx)
{
    struct answer *answer = ctx;
    struct foliot_create_request request;
    struct foliot_created other;
    struct foliot_error refused;
    char key[16];

    MUST_EQ(error->code, FOLIOT_OK);
    expect_id(created->id, answer->number);
    (void)snprintf(key, sizeof(key), "%d", answer->number);
    request = request_of("q", key);
    answer->thread = pthread_self();
    atomic_fetch_add(&answer->count, 1);
    MUST_EQ(foliot_task_create(answer->caller->client, &request, NULL, &other, &refused),
            FOLIOT_FAILED_PRECONDITION);
    MUST_EQ_TEXT(refused.reason, "IN_CALLBACK");
    MUST_EQ(foliot_client_close(answer->caller->client), FOLIOT_FAILED_PRECONDITION);
    MUST_EQ(foliot_task_create_async(answer->caller->client, &request, NULL, on_second, answer,
                                     &refused),
            FOLIOT_OK);
}

static void *start_all(void *ctx)
{
    struct caller *caller = ctx;
    struct answer *answers = mem_new(CALL_COUNT, sizeof(*answers));

    for (int i = 0; i < CALL_COUNT; i++) {
        struct foliot_create_request request;
        char key[16];

        answers[i].caller = caller;
        answers[i].number = caller->number * CALL_COUNT + i;
        (void)snprintf(key, sizeof(key), "%d", answers[i].number);
        request = request_of("q", key);
        MUST_EQ(
            foliot_task_create_async(caller->client, &request, NULL, on_first, &answers[i], NULL),
            FOLIOT_OK);
        memset(key, 'x', sizeof(key)); // The library has a copy.
    }
    for (int i = 0; i < CALL_COUNT; i++) {
        while (sem_wait(caller->all) != 0) {
        }
    }
    for (int i = 0; i < CALL_COUNT; i++) {
        MUST_EQ(atomic_load(&answers[i].count), 2);
    }
    mem_free(answers);
    return NULL;
}

static void callbacks_come_once_and_may_start_other_calls(void)
{
    int64_t blocks = mem_block_count();
    struct caller callers[THREAD_COUNT];
    pthread_t threads[THREAD_COUNT];
    sem_t all[THREAD_COUNT];
    struct foliot_client *client;
    struct played played;

    start(&played);
    client = open_client(&played, 0);
    for (int i = 0; i < THREAD_COUNT; i++) {
        MUST_EQ(sem_init(&all[i], 0, 0), 0);
        callers[i] = (struct caller){.client = client, .number = i, .all = &all[i]};
        MUST_EQ(pthread_create(&threads[i], NULL, start_all, &callers[i]), 0);
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        MUST_EQ(pthread_join(threads[i], NULL), 0);
        MUST_EQ(sem_destroy(&all[i]), 0);
    }
    MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    played_stop(&played);
    MUST_EQ(mem_block_count(), blocks);
}

/* ---- the end ---- */

static void *create_held(void *ctx)
{
    struct foliot_create_request request = request_of("hold", NULL);
    struct caller *caller = ctx;
    struct foliot_created created;

    caller->code = foliot_task_create(caller->client, &request, NULL, &created, NULL);
    return NULL;
}

static void stop_ends_what_waits_and_refuses_what_comes(void)
{
    int64_t blocks = mem_block_count();
    struct foliot_create_request request = request_of("q", "1");
    struct caller callers[THREAD_COUNT];
    pthread_t threads[THREAD_COUNT];
    struct foliot_client *client;
    struct foliot_created created;
    struct foliot_error error;
    struct played played;

    start(&played);
    client = open_client(&played, 0);
    for (int i = 0; i < THREAD_COUNT; i++) {
        callers[i] = (struct caller){.client = client};
        MUST_EQ(pthread_create(&threads[i], NULL, create_held, &callers[i]), 0);
    }
    MUST_SOON(atomic_load(&held_count) == THREAD_COUNT, 20000);
    foliot_client_stop(client);
    for (int i = 0; i < THREAD_COUNT; i++) {
        MUST_EQ(pthread_join(threads[i], NULL), 0);
        MUST_EQ(callers[i].code, FOLIOT_OUTCOME_UNKNOWN); // It was with the broker.
    }
    MUST_EQ(foliot_task_create(client, &request, NULL, &created, &error), FOLIOT_CANCELLED);
    MUST_EQ_TEXT(error.reason, "STOPPED");
    MUST_EQ(error.may_have_happened, 0);
    MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    played_stop(&played);
    MUST_EQ(mem_block_count(), blocks);
}

static void on_ended(const struct foliot_error *error, const struct foliot_created *created,
                     void *ctx)
{
    atomic_int *count = ctx;

    MUST(created == NULL);
    MUST_EQ(error->code, FOLIOT_OUTCOME_UNKNOWN);
    atomic_fetch_add(count, 1);
}

static void calls_max_is_held_and_close_ends_the_rest(void)
{
    struct foliot_create_request request = request_of("hold", NULL);
    struct foliot_client *client;
    struct foliot_error error;
    struct played played;
    atomic_int ended = 0;

    start(&played);
    client = open_client(&played, 4);
    for (int i = 0; i < 4; i++) {
        MUST_EQ(foliot_task_create_async(client, &request, NULL, on_ended, &ended, NULL),
                FOLIOT_OK);
    }
    MUST_SOON(atomic_load(&held_count) == 4, 20000); // None waits in the mailbox any more.
    MUST_EQ(foliot_task_create_async(client, &request, NULL, on_ended, &ended, &error),
            FOLIOT_RESOURCE_EXHAUSTED);
    MUST_EQ_TEXT(error.reason, "CALLS_MAX");
    MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    MUST_EQ(atomic_load(&ended), 4);
    played_stop(&played);
}

static void *open_and_close(void *ctx)
{
    for (int i = 0; i < 30; i++) {
        struct foliot_client *client = open_client(ctx, 0);
        struct foliot_create_request request = request_of("q", "7");
        struct foliot_created created;

        if (i % 2 == 0) {
            MUST_EQ(foliot_task_create(client, &request, NULL, &created, NULL), FOLIOT_OK);
        }
        MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    }
    return NULL;
}

static void clients_come_and_go_in_several_threads(void)
{
    int64_t blocks = mem_block_count();
    pthread_t threads[4];
    struct played played;

    start(&played);
    for (int i = 0; i < 4; i++) {
        MUST_EQ(pthread_create(&threads[i], NULL, open_and_close, &played), 0);
    }
    for (int i = 0; i < 4; i++) {
        MUST_EQ(pthread_join(threads[i], NULL), 0);
    }
    played_stop(&played);
    MUST_EQ(mem_block_count(), blocks);
}

static void a_deadline_ends_a_call_that_no_broker_answers(void)
{
    struct foliot_create_request first = request_of("q", "7");
    struct foliot_create_request request = request_of("hold", NULL);
    struct foliot_call_options options;
    struct foliot_client *client;
    struct foliot_created created;
    struct foliot_error error;
    struct played played;
    int64_t start_ms;
    int code;

    start(&played);
    client = open_client(&played, 0);
    MUST_EQ(foliot_task_create(client, &first, NULL, &created, NULL), FOLIOT_OK);
    foliot_call_options_init(&options);
    options.timeout_ms = 100;
    do { // Until it gets as far as the broker, on a slow machine too.
        options.timeout_ms *= 2;
        MUST_LE(options.timeout_ms, 10000);
        start_ms = must_now_ms();
        code = foliot_task_create(client, &request, &options, &created, &error);
        MUST_LE(options.timeout_ms, must_now_ms() - start_ms);
        MUST_LE(must_now_ms() - start_ms, options.timeout_ms + 5000);
        MUST_EQ(code, error.may_have_happened ? FOLIOT_OUTCOME_UNKNOWN : FOLIOT_DEADLINE_EXCEEDED);
    } while (!error.may_have_happened);
    MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    played_stop(&played);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(every_thread_gets_the_answers_of_its_own_calls),
        MUST_CASE(callbacks_come_once_and_may_start_other_calls),
        MUST_CASE(stop_ends_what_waits_and_refuses_what_comes),
        MUST_CASE(calls_max_is_held_and_close_ends_the_rest),
        MUST_CASE(clients_come_and_go_in_several_threads),
        MUST_CASE(a_deadline_ends_a_call_that_no_broker_answers),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
