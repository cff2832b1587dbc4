/* SPDX-License-Identifier: Apache-2.0
 *
 * libfoliot when memory runs out: the n-th allocation of opening, calling and closing fails, for
 * every n. It is an error of the call or of the opening, or nothing that anybody notices; the
 * program goes on, and nothing is leaked.
 */
#include "lib/base/mem.h"
#include "tests/integration/actor.h"
#include "tests/lib/must.h"

#include <pthread.h>
#include <string.h>

/* More allocations than a walk has. */
#define WALK_MAX 2000

static struct played played;
static atomic_int left; /* allocations until the one that fails */

/* The played broker has memory enough. */
static bool on_allocation(size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    return pthread_equal(pthread_self(), played.thread) || atomic_fetch_sub(&left, 1) != 0;
}

static void check(int code, const struct foliot_error *error)
{
    MUST_EQ(code, error->code);
    MUST(code == FOLIOT_OK || error->message[0] != '\0');
    if (code != FOLIOT_OK && code != FOLIOT_RESOURCE_EXHAUSTED && code != FOLIOT_UNAVAILABLE &&
        code != FOLIOT_OUTCOME_UNKNOWN && code != FOLIOT_INTERNAL &&
        code != FOLIOT_DEADLINE_EXCEEDED) {
        must_fail(MUST_HERE, "%s (%s): %s", foliot_code_name(code), error->reason, error->message);
    }
}

static void call(struct foliot_client *client)
{
    struct foliot_create_request items[2];
    struct foliot_task_name name;
    const struct foliot_batch *batch;
    const struct foliot_task *task;
    struct foliot_created created;
    struct foliot_error error;
    int code;

    for (int i = 0; i < 2; i++) {
        foliot_create_request_init(&items[i]);
        items[i].queue = "q";
        items[i].key = "k";
    }
    check(foliot_task_create(client, &items[0], NULL, &created, &error), &error);
    foliot_task_name_init(&name);
    name.id = ACTOR_ID;
    code = foliot_task_get(client, &name, NULL, &task, &error);
    check(code, &error);
    if (code == FOLIOT_OK) {
        foliot_task_free(task);
    }
    code = foliot_task_create_batch(client, items, 2, NULL, &batch, &error);
    check(code, &error);
    if (code == FOLIOT_OK) {
        foliot_batch_free(batch);
    }
}

/* Open, call, close. */
static void walk(void)
{
    struct foliot_options options;
    struct foliot_client *client;
    struct foliot_error error;
    int code;

    foliot_options_init(&options);
    options.servers = played.address;
    options.servers_only = 1;
    options.timeout_ms = 3000;
    code = foliot_client_open(&options, &client, &error);
    check(code, &error);
    if (code == FOLIOT_OK) {
        call(client);
        MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    }
}

static void every_allocation_may_fail(void)
{
    int64_t blocks;
    int number;

    actor_start(&played);
    walk();
    for (number = 0; number < WALK_MAX; number++) {
        blocks = mem_block_count();
        atomic_store(&left, number);
        mem_set_hook(on_allocation, NULL);
        walk();
        mem_set_hook(NULL, NULL);
        if (atomic_load(&left) >= 0) {
            break; // The walk ended before its number came.
        }
        MUST_SOON(mem_block_count() <= blocks, 5000); // The broker frees in its own time.
    }
    MUST_LE(30, number); // The walk has so many at least.
    MUST(number < WALK_MAX);
    actor_stop(&played);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {MUST_CASE_WITHIN(every_allocation_may_fail, 200)};

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
