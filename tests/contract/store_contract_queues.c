/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues.
 */
#include "tests/contract/store_contract_help.h"

static void on_put(struct store_queue_put *put)
{
    *(bool *)put->owner = true;
}

static int put_queue(const char *tenant, const char *name, uint32_t expected, struct queue *out)
{
    bool done = false;
    struct store_queue_put put = {.expected_version = expected, .cb = on_put, .owner = &done};

    queue_init(&put.queue);
    memcpy(put.queue.tenant, tenant, strlen(tenant) + 1);
    memcpy(put.queue.name, name, strlen(name) + 1);
    memcpy(put.queue.target, "receiver://host:1", 18);
    put.queue.target_kind = TARGET_RECEIVER;
    put.queue.at_most_once = expected != 0;
    put.queue.retry.failures_max = 10 + expected;
    put.queue.is_paused = expected != 0;
    put.queue.paused_until_ms = 1700000000123 * expected;
    put.queue.is_draining = expected != 0;
    put.queue.result_memory_ms = 11 * expected;
    put.queue.expire_after_ms = 12 * expected;
    put.queue.order_policy = expected == 0 ? ORDER_BLOCK : ORDER_SKIP;
    put.queue.order_failures = 1 + expected;
    MUST_OK(store->queue_put(store, &put));
    MUST(!done);
    until(&done);
    *out = put.queue;
    return put.result;
}

static struct queue listed[8];
static size_t listed_count;

static void on_list(struct store_queue_list *list)
{
    MUST_OK(list->result);
    listed_count = list->row_count;
    MUST_LE(listed_count, ARRAY_COUNT(listed));
    for (size_t i = 0; i < listed_count; i++) {
        listed[i] = list->rows[i];
    }
    *(bool *)list->owner = true;
}

static void list_queues(void)
{
    bool done = false;
    struct store_queue_list list = {.cb = on_list, .owner = &done};

    MUST_OK(store->queue_list(store, &list));
    MUST(!done);
    until(&done);
}

void queues_are_created_replaced_and_listed(void)
{
    struct queue queue;

    begin();
    list_queues();
    MUST_EQ(listed_count, 0);
    MUST_OK(put_queue("a", "mail", 0, &queue));
    MUST_EQ(queue.id, 1);
    MUST_EQ(queue.version, 1);
    MUST_ERR(put_queue("a", "mail", 0, &queue), ERR_EXISTS);
    MUST_OK(put_queue("b", "mail", 0, &queue));
    MUST_EQ(queue.id, 2);
    MUST_ERR(put_queue("a", "none", 1, &queue), ERR_NOT_FOUND);
    MUST_OK(put_queue("a", "mail", 1, &queue));
    MUST_EQ(queue.id, 1);
    MUST_EQ(queue.version, 2);
    MUST_ERR(put_queue("a", "mail", 1, &queue), ERR_CONFLICT);
    list_queues();
    MUST_EQ(listed_count, 2);
    MUST_EQ(listed[0].id, 1);
    MUST_EQ(listed[0].version, 2);
    MUST_EQ_TEXT(listed[0].tenant, "a");
    MUST_EQ_TEXT(listed[0].name, "mail");
    MUST_EQ_TEXT(listed[0].target, "receiver://host:1");
    MUST_EQ(listed[0].target_kind, TARGET_RECEIVER);
    MUST(listed[0].at_most_once);
    MUST_EQ(listed[0].retry.failures_max, 11);
    MUST_EQ(listed[0].attempt_timeout_ms, ATTEMPT_TIMEOUT_MS_DEFAULT);
    MUST_EQ(listed[0].key_memory_ms, QUEUE_KEY_MEMORY_MS_DEFAULT);
    MUST(listed[0].is_paused);
    MUST_EQ(listed[0].paused_until_ms, 1700000000123);
    MUST(listed[0].is_draining);
    MUST_EQ(listed[0].result_memory_ms, 11);
    MUST_EQ(listed[0].expire_after_ms, 12);
    MUST_EQ((int)listed[0].order_policy, (int)ORDER_SKIP);
    MUST_EQ(listed[0].order_failures, 2);
    MUST_EQ((int)listed[1].order_policy, (int)ORDER_BLOCK);
    MUST(!listed[1].at_most_once);
    MUST(!listed[1].is_paused);
    MUST_EQ(listed[1].paused_until_ms, 0);
    MUST(!listed[1].is_draining);
    MUST_EQ(listed[1].result_memory_ms, 0);
    MUST_EQ(listed[1].expire_after_ms, 0);
    end();
}

static void on_drop(struct store_queue_drop *drop)
{
    *(bool *)drop->owner = true;
}

static int drop_queue(uint32_t id, uint32_t version)
{
    bool done = false;
    struct store_queue_drop drop = {
        .id = id, .expected_version = version, .cb = on_drop, .owner = &done};

    MUST_OK(store->queue_drop(store, &drop));
    MUST(!done);
    until(&done);
    return drop.result;
}

void number_of_a_queue_that_was_dropped_is_not_given_again(void)
{
    struct queue queue;

    begin();
    MUST_OK(put_queue("a", "one", 0, &queue));
    MUST_OK(put_queue("a", "two", 0, &queue));
    MUST_OK(put_queue("a", "three", 0, &queue));
    MUST_ERR(drop_queue(4, 1), ERR_NOT_FOUND);
    MUST_ERR(drop_queue(3, 2), ERR_CONFLICT);
    MUST_OK(drop_queue(3, 1));
    MUST_ERR(drop_queue(3, 1), ERR_NOT_FOUND);
    MUST_OK(drop_queue(1, 1));
    list_queues();
    MUST_EQ(listed_count, 1);
    MUST_EQ(listed[0].id, 2);
    // The name is free, with a policy and a version of its own.
    MUST_OK(put_queue("a", "three", 0, &queue));
    MUST_EQ(queue.id, 4);
    MUST_EQ(queue.version, 1);
    MUST_OK(drop_queue(4, 1));
    MUST_OK(drop_queue(2, 1));
    MUST_OK(put_queue("a", "one", 0, &queue));
    MUST_EQ(queue.id, 5);
    MUST_ERR(put_queue("a", "two", 1, &queue), ERR_NOT_FOUND);
    list_queues();
    MUST_EQ(listed_count, 1);
    end();
}
