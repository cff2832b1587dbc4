/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of answers.
 */
#include "storage/sqlite_job.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

#define FIRST_CAPACITY 16

struct block {
    struct list link;
    uint8_t bytes[];
};

void sqlite_lent_init(struct sqlite_lent *lent)
{
    memset(lent, 0, sizeof(*lent));
    list_init(&lent->blocks);
}

void sqlite_lent_fini(struct sqlite_lent *lent)
{
    struct list *link;

    while ((link = list_take_first(&lent->blocks)) != NULL) {
        mem_free(LIST_ENTRY(link, struct block, link));
    }
    mem_free(lent->items);
    lent->items = NULL;
    lent->count = 0;
}

void *sqlite_lent_add(struct sqlite_lent *lent, size_t size)
{
    void *item;

    if (lent->count == lent->capacity) {
        size_t capacity = lent->capacity == 0 ? FIRST_CAPACITY : 2 * lent->capacity;
        void *items = mem_resize(lent->items, capacity * size);

        if (items == NULL) {
            return NULL;
        }
        lent->items = items;
        lent->capacity = capacity;
    }
    item = (uint8_t *)lent->items + lent->count++ * size;
    memset(item, 0, size);
    return item;
}

int sqlite_lent_copy(struct sqlite_lent *lent, struct slice from, struct slice *out)
{
    struct block *block;

    *out = (struct slice){NULL, 0};
    if (from.len == 0) {
        return 0;
    }
    block = mem_new(1, sizeof(*block) + from.len);
    if (block == NULL) {
        return ERR_UNAVAILABLE;
    }
    list_add(&lent->blocks, &block->link);
    memcpy(block->bytes, from.data, from.len);
    lent->bytes += from.len;
    *out = (struct slice){block->bytes, from.len};
    return 0;
}
