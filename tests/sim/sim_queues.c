/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues by number.
 */
#include "tests/sim/sim_queues.h"

#include "lib/base/check.h"
#include "tests/sim/sim_policy.h"

#include <stdio.h>

/* Every third queue is at most once. */
#define QUEUE_IS_AT_MOST_ONCE(number) ((number) % 3 == 2)

/* Every second queue forgets a key with its task. */
#define QUEUE_KEY_MEMORY_MS(number) ((number) % 2 == 0 ? 0 : 3000)

/* Those keep results for a while. */
#define QUEUE_RESULT_MEMORY_MS(number) ((number) % 2 == 0 ? 5000 : 0)

/* A third of the queues each: block, skip after two bad ends, go on with a dead letter. */
#define QUEUE_ORDER_POLICY(number) ((enum order_policy)((number) % 3 + 1))
#define ORDER_FAILURES             2

span_ms sim_load_key_memory_ms(const struct sim_load *load, uint32_t queue)
{
    (void)load;
    return QUEUE_KEY_MEMORY_MS(queue);
}

bool sim_load_order_blocks(const struct sim_load *load, uint32_t queue)
{
    (void)load;
    return QUEUE_ORDER_POLICY(queue) == ORDER_BLOCK;
}

uint32_t sim_load_order_skip(const struct sim_load *load, uint32_t queue)
{
    (void)load;
    return QUEUE_ORDER_POLICY(queue) == ORDER_SKIP ? ORDER_FAILURES : 0;
}

/* Everything of a queue but its version, as it is made. */
static void fill(const struct sim_load *load, struct queue *queue, uint32_t number, uint32_t room)
{
    queue_init(queue);
    (void)snprintf(queue->tenant, sizeof(queue->tenant), "sim");
    (void)snprintf(queue->name, sizeof(queue->name), "queue-%u", number);
    (void)snprintf(queue->target, sizeof(queue->target), "receiver://127.0.0.1:1");
    queue->target_kind = TARGET_RECEIVER;
    queue->at_most_once = QUEUE_IS_AT_MOST_ONCE(number);
    queue->attempt_timeout_ms = 1500 + 500 * (number % 4);
    queue->key_memory_ms = QUEUE_KEY_MEMORY_MS(number);
    queue->result_memory_ms = QUEUE_RESULT_MEMORY_MS(number);
    queue->paused_until_ms = sim_load_paused_until(load, number);
    queue->is_paused = queue->paused_until_ms != 0;
    queue->expire_after_ms = sim_load_expires(load) && number % 6 == 3 ? 4000 : 0;
    queue->concurrency_max = QUEUE_HAS_OWN_ROOM(number) ? room : ROOM_USUAL;
    queue->order_policy = QUEUE_ORDER_POLICY(number);
    queue->order_failures = ORDER_FAILURES;
    queue->retry = (struct retry_policy){.initial_ms = 100,
                                         .multiplier_permille = 2000,
                                         .max_ms = 2000,
                                         .jitter_permille = 200,
                                         .failures_max = 6,
                                         .unknowns_max = 4};
}

static void put_done(struct store_queue_put *put)
{
    REQUIRE(put->result == 0);
}

void sim_queue_put(struct sim *sim, const struct sim_load *load, struct store *store,
                   uint32_t number, uint32_t room)
{
    struct store_queue_put put = {.cb = put_done};
    struct store_mem_request *request;
    int err;

    fill(load, &put.queue, number, room);
    put.expected_version = sim_policies_put(sim->policies, number, &put.queue);
    err = store->queue_put(store, &put);
    REQUIRE(err == 0);
    while ((request = store_mem_find(sim->mem, &put)) != NULL) {
        (void)store_mem_step(sim->mem, request); // Nobody else locks queues.
    }
    REQUIRE(put.queue.id == number);
}
