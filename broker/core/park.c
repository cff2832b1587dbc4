/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues whose rows wait in the database.
 */
#include "broker/core/park.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

struct park *park_find(const struct shard *shard, uint32_t queue)
{
    return map_find(&shard->parks, queue);
}

struct park *park_new(struct shard *shard, struct queue_state *queue, struct place cursor)
{
    struct park *park = pool_take(&shard->broker->parks);

    if (park == NULL) {
        return NULL;
    }
    if (map_put(&shard->parks, queue->queue.id, park) != 0) {
        pool_give(&shard->broker->parks, park);
        return NULL;
    }
    park->shard = shard;
    park->queue = queue;
    park->cursor = cursor;
    list_add(&queue->parks, &park->link);
    return park;
}

static void give(struct park *park)
{
    list_del(&park->link);
    pool_give(&park->shard->broker->parks, park);
}

void park_free(struct park *park)
{
    struct park *found = map_del(&park->shard->parks, park->queue->queue.id);

    REQUIRE(found == park);
    give(park);
}

void park_free_all(struct shard *shard)
{
    struct map_iter iter = {0};
    struct park *park;

    while ((park = map_next(&shard->parks, &iter)) != NULL) {
        give(park);
    }
    map_fini(&shard->parks);
}

int park_numbers(const struct shard *shard, struct place end, struct store_read *read,
                 uint32_t **numbers)
{
    const struct broker *broker = shard->broker;
    struct map_iter iter = {0};
    const struct park *park;
    uint32_t *skip;

    read->known_count = 0;
    read->skip_count = 0;
    *numbers = mem_new(broker->queue_count + map_count(&shard->parks) + 1, sizeof(**numbers));
    if (*numbers == NULL) {
        return ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < broker->queue_count; i++) {
        if (broker->queues[i]->queue.id != 0) {
            (*numbers)[read->known_count++] = broker->queues[i]->queue.id;
        }
    }
    skip = *numbers + read->known_count;
    while ((park = map_next(&shard->parks, &iter)) != NULL) {
        if (place_is_before(park->cursor, end)) {
            skip[read->skip_count++] = park->queue->queue.id;
        }
    }
    read->known = *numbers;
    read->skip = skip;
    return 0;
}

struct park *park_first(const struct queue_state *queue, bool (*may_read)(const struct shard *))
{
    struct park *first = NULL;

    list_foreach (link, &queue->parks) {
        struct park *park = CONTAINER_OF(link, struct park, link);

        if (may_read(park->shard) &&
            (first == NULL || place_is_before(park->cursor, first->cursor))) {
            first = park;
        }
    }
    return first;
}
