/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounded ring.
 */
#include "lib/base/ring.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

int ring_init(struct ring *ring, size_t capacity)
{
    REQUIRE(capacity >= 1);
    memset(ring, 0, sizeof(*ring));
    ring->items = mem_new(capacity, sizeof(void *));
    if (ring->items == NULL) {
        return ERR_NO_MEMORY;
    }
    ring->capacity = capacity;
    return 0;
}

void ring_fini(struct ring *ring)
{
    mem_free(ring->items);
    memset(ring, 0, sizeof(*ring));
}

/* Index of the i-th item from the oldest. shape: i ≤ capacity. */
static size_t place_of(const struct ring *ring, size_t i)
{
    size_t place = ring->first + i;

    return place >= ring->capacity ? place - ring->capacity : place;
}

int ring_put(struct ring *ring, void *item)
{
    REQUIRE(item != NULL);
    if (ring_is_full(ring)) {
        return ERR_FULL;
    }
    ring->items[place_of(ring, ring->count)] = item;
    ring->count++;
    return 0;
}

void *ring_take(struct ring *ring)
{
    void *item = ring_peek(ring, 0);

    if (item != NULL) {
        ring->first = place_of(ring, 1);
        ring->count--;
    }
    return item;
}

void *ring_peek(const struct ring *ring, size_t i)
{
    return i < ring->count ? ring->items[place_of(ring, i)] : NULL;
}
