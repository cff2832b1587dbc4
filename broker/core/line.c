/* SPDX-License-Identifier: Apache-2.0
 *
 * A queue's line.
 */
#include "broker/core/line.h"

#include "broker/core/entry.h"
#include "lib/base/check.h"

/* Rows that are read for a line: enough for so many times what may run at once, since reading the
 * next ones takes a few commits, and within these bounds. */
#define LOAD_TIMES 4
#define LOAD_MIN   256
#define LOAD_MAX   16384

static void added(struct broker *broker, struct queue_state *queue)
{
    broker->line_count += queue->line_len == 0;
    queue->line_len++;
}

static void taken(struct broker *broker, struct queue_state *queue)
{
    REQUIRE(queue->line_len > 0);
    queue->line_len--;
    broker->line_count -= queue->line_len == 0;
}

void line_add(struct broker *broker, struct entry *entry)
{
    struct queue_state *queue = entry_queue(broker, entry);

    REQUIRE(entry->state == ENTRY_READY);
    list_add(&queue->ready, &entry->ready);
    added(broker, queue);
}

void line_add_fetched(struct broker *broker, struct entry *entry)
{
    struct queue_state *queue = entry_queue(broker, entry);

    REQUIRE(entry->state == ENTRY_READY);
    list_add(&queue->fetched, &entry->ready);
    added(broker, queue);
}

struct entry *line_take(struct broker *broker, struct queue_state *queue, struct list *list)
{
    struct list *link = list_take_first(list);
    struct entry *entry;

    if (link == NULL) {
        return NULL;
    }
    entry = CONTAINER_OF(link, struct entry, ready);
    wheel_node_init(&entry->node);
    taken(broker, queue);
    return entry;
}

void line_put_back(struct broker *broker, struct entry *entry, struct list *list)
{
    REQUIRE(entry->state == ENTRY_READY);
    list_init(&entry->ready);
    list_add_first(list, &entry->ready);
    added(broker, entry_queue(broker, entry));
}

void line_del(struct broker *broker, struct entry *entry)
{
    REQUIRE(entry->state == ENTRY_READY);
    if (!list_is_empty(&entry->ready)) {
        list_del(&entry->ready);
        taken(broker, entry_queue(broker, entry));
    }
}

bool line_is_free(const struct queue_state *queue)
{
    return queue->line_len == 0 && list_is_empty(&queue->parks);
}

uint32_t line_max(const struct broker *broker)
{
    int64_t share = broker->options.entry_count_max / 2 / time_max(broker->line_count, 1);

    return (uint32_t)time_min(share, (int64_t)entry_room(broker));
}

uint32_t line_load_max(const struct broker *broker, const struct queue_state *queue)
{
    int64_t running = queue->is_held ? 0 : queue->queue.concurrency_max;
    int64_t wanted = time_clamp(running * LOAD_TIMES, LOAD_MIN, LOAD_MAX);

    return (uint32_t)time_min(wanted, line_max(broker));
}
