/* SPDX-License-Identifier: Apache-2.0
 *
 * The hot map. A resize opens a second table and each later change empties a few slots of the
 * first, by the same backward shift that deletes keys, so that both tables are sound at every
 * moment.
 */
#include "lib/base/map.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <stdbool.h>
#include <string.h>

#define MAP_CAPACITY_MIN ((size_t)16)
#define MAP_MAX_LIMIT    ((size_t)1 << 40)

/*
 * A change pays for the move under way: one step for each slot passed, some more for a key moved.
 * A growth from C slots takes 7 C steps and the next one is 3/4 C changes away; a shrink takes 2 C
 * and at least C/8 changes must follow before all keys are gone or the table grows: 16 would do.
 */
#define MAP_MOVE_STEPS 64U
#define MAP_KEY_STEPS  8U

/* Finalizer of MurmurHash3: spreads rising ids over all bits. */
static uint64_t spread(uint64_t key)
{
    key ^= key >> 33;
    key *= UINT64_C(0xff51afd7ed558ccd);
    key ^= key >> 33;
    key *= UINT64_C(0xc4ceb9fe1a85ec53);
    return key ^ (key >> 33);
}

static size_t home_of(const struct map_table *table, uint64_t key)
{
    return (size_t)spread(key) & (table->capacity - 1);
}

/* The slot that holds the key, or the empty slot where its probe ends; NULL without a table. */
static struct map_slot *probe(const struct map_table *table, uint64_t key)
{
    size_t i;

    if (table->capacity == 0) {
        return NULL;
    }
    i = home_of(table, key);
    while (table->slots[i].value != NULL && table->slots[i].key != key) {
        i = (i + 1) & (table->capacity - 1);
    }
    return &table->slots[i];
}

static struct map_slot *find_slot(const struct map_table *table, uint64_t key)
{
    struct map_slot *slot = probe(table, key);

    return slot != NULL && slot->value != NULL ? slot : NULL;
}

/* Empty one slot and pull back what its key had pushed on. */
static void empty_slot(struct map_table *table, struct map_slot *slot)
{
    size_t mask = table->capacity - 1;
    size_t hole = (size_t)(slot - table->slots);
    size_t i = hole;

    for (;;) {
        i = (i + 1) & mask;
        if (table->slots[i].value == NULL) {
            break;
        }
        // A key may fill the hole unless its home lies behind the hole, cyclically.
        if (((i - home_of(table, table->slots[i].key)) & mask) >= ((i - hole) & mask)) {
            table->slots[hole] = table->slots[i];
            hole = i;
        }
    }
    table->slots[hole] = (struct map_slot){0, NULL};
    table->count--;
}

static void insert(struct map_table *table, uint64_t key, void *value)
{
    struct map_slot *slot = probe(table, key);

    REQUIRE(slot != NULL && slot->value == NULL);
    *slot = (struct map_slot){key, value};
    table->count++;
}

static bool is_moving(const struct map *map)
{
    return map->old.capacity != 0;
}

static void free_table(struct map_table *table)
{
    mem_free(table->slots);
    *table = (struct map_table){NULL, 0, 0};
}

/* Empty the next slots of the old table into the new one. */
static void move_some(struct map *map)
{
    unsigned steps = 0;

    while (is_moving(map) && steps < MAP_MOVE_STEPS) {
        struct map_slot *slot = &map->old.slots[map->moved];

        steps++;
        if (slot->value != NULL) { // The slot may fill again by the shift: it is looked at again.
            struct map_slot taken = *slot;

            empty_slot(&map->old, slot);
            insert(&map->now, taken.key, taken.value);
            steps += MAP_KEY_STEPS - 1;
            continue;
        }
        map->moved++;
        if (map->old.count == 0) {
            free_table(&map->old);
            map->moved = 0;
        }
    }
}

static int resize(struct map *map, size_t capacity)
{
    struct map_slot *slots = mem_new(capacity, sizeof(*slots));

    if (slots == NULL) {
        return ERR_NO_MEMORY;
    }
    REQUIRE(!is_moving(map));
    map->old = map->now;
    map->now = (struct map_table){slots, capacity, 0};
    map->moved = 0;
    if (map->old.count == 0) {
        free_table(&map->old);
    }
    return 0;
}

static bool is_above(size_t count, size_t capacity, size_t eighths)
{
    return count > capacity / 8 * eighths;
}

/* Room for one more key, all keys of the old table included, since they will arrive. */
static int make_room(struct map *map)
{
    size_t needed = map_count(map) + 1;

    if (map->now.capacity == 0) {
        return resize(map, MAP_CAPACITY_MIN);
    }
    if (!is_above(needed, map->now.capacity, 6)) {
        return 0;
    }
    while (is_moving(map)) { // Only after a shrink that was followed by a burst.
        move_some(map);
    }
    if (resize(map, map->now.capacity * 2) == 0) {
        return 0;
    }
    return is_above(needed, map->now.capacity, 7) ? ERR_NO_MEMORY : 0;
}

/* Open a smaller table when few keys are left, and none at all when none is. */
static void shrink(struct map *map)
{
    size_t capacity = map->now.capacity;

    if (capacity <= MAP_CAPACITY_MIN) {
        return;
    }
    if (map_count(map) == 0) {
        map_fini(map);
        return;
    }
    if (is_moving(map) || map->now.count >= capacity / 8) {
        return;
    }
    while (capacity > MAP_CAPACITY_MIN && capacity / 2 >= map->now.count * 4) {
        capacity /= 2;
    }
    (void)resize(map, capacity); // Without memory it stays large.
}

void map_init(struct map *map, size_t max)
{
    REQUIRE(max >= 1 && max <= MAP_MAX_LIMIT);
    memset(map, 0, sizeof(*map));
    map->max = max;
}

void map_fini(struct map *map)
{
    free_table(&map->now);
    free_table(&map->old);
    map->moved = 0;
}

void *map_find(const struct map *map, uint64_t key)
{
    struct map_slot *slot = find_slot(&map->now, key);

    if (slot == NULL) {
        slot = find_slot(&map->old, key);
    }
    return slot == NULL ? NULL : slot->value;
}

int map_put(struct map *map, uint64_t key, void *value)
{
    int err;

    REQUIRE(value != NULL);
    if (map_find(map, key) != NULL) {
        return ERR_EXISTS;
    }
    if (map_count(map) >= map->max) {
        return ERR_FULL;
    }
    err = make_room(map);
    if (err != 0) {
        return err;
    }
    insert(&map->now, key, value);
    move_some(map);
    return 0;
}

void *map_del(struct map *map, uint64_t key)
{
    struct map_table *table = &map->now;
    struct map_slot *slot = find_slot(table, key);
    void *value;

    if (slot == NULL) {
        table = &map->old;
        slot = find_slot(table, key);
    }
    if (slot == NULL) {
        return NULL;
    }
    value = slot->value;
    empty_slot(table, slot);
    move_some(map);
    shrink(map);
    return value;
}

int map_change(struct map *map, uint64_t key, void *value)
{
    struct map_slot *slot = find_slot(&map->now, key);

    REQUIRE(value != NULL);
    if (slot == NULL) {
        slot = find_slot(&map->old, key);
    }
    if (slot == NULL) {
        return ERR_NOT_FOUND;
    }
    slot->value = value;
    return 0;
}

size_t map_count(const struct map *map)
{
    return map->now.count + map->old.count;
}

size_t map_bytes(const struct map *map)
{
    return (map->now.capacity + map->old.capacity) * sizeof(struct map_slot);
}

void *map_next(const struct map *map, struct map_iter *iter)
{
    while (iter->position < map->now.capacity + map->old.capacity) {
        size_t i = iter->position++;
        void *value = i < map->now.capacity ? map->now.slots[i].value
                                            : map->old.slots[i - map->now.capacity].value;

        if (value != NULL) {
            return value;
        }
    }
    return NULL;
}
