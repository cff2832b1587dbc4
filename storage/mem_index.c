/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorted runs: a search halves the list of runs, then the run. A run that is full is cut in two,
 * one that has become empty goes.
 */
#include "storage/mem_index.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"

#include <stdbool.h>
#include <string.h>

/* Entries of a run: moving half of them costs as little as looking for the place. */
#define RUN_MAX 64U

/* Room of a new run; most indexes of most shards stay small. */
#define RUN_FIRST 4U

struct entry {
    int64_t major;
    int64_t minor;
    struct mem_index_node *node;
};

struct mem_index_run {
    uint32_t count;
    uint32_t capacity;
    struct entry entries[]; /* capacity of them */
};

/* A place between two entries: the one at `at` is the first that is not below what was looked for.
 * at == count of the last run: there is none. */
struct place {
    size_t run;
    uint32_t at;
};

static bool is_below(const struct entry *entry, int64_t major, int64_t minor)
{
    return entry->major < major || (entry->major == major && entry->minor < minor);
}

/* The last run whose first entry is below the keys, or the first run. shape: there are runs. */
static size_t find_run(const struct mem_index *index, int64_t major, int64_t minor)
{
    size_t low = 0;
    size_t high = index->run_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (is_below(&index->runs[middle]->entries[0], major, minor)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct place find_place(const struct mem_index *index, int64_t major, int64_t minor)
{
    size_t run = find_run(index, major, minor);
    const struct entry *entries = index->runs[run]->entries;
    uint32_t low = 0;
    uint32_t high = index->runs[run]->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (is_below(&entries[middle], major, minor)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == index->runs[run]->count && run + 1 < index->run_count) {
        return (struct place){run + 1, 0};
    }
    return (struct place){run, low};
}

/* The entry at a place, or NULL. */
static const struct entry *entry_at(const struct mem_index *index, struct place place)
{
    const struct mem_index_run *run = index->runs[place.run];

    return place.at < run->count ? &run->entries[place.at] : NULL;
}

/* The node before a place, or NULL. */
static struct mem_index_node *node_before(const struct mem_index *index, struct place place)
{
    const struct mem_index_run *run = index->runs[place.run];

    if (place.at > 0) {
        return run->entries[place.at - 1].node;
    }
    if (place.run == 0) {
        return NULL;
    }
    run = index->runs[place.run - 1];
    return run->entries[run->count - 1].node;
}

static void *need(void *block, size_t size)
{
    void *resized = mem_resize(block, size);

    REQUIRE(resized != NULL); // A reference: it stops when there is no memory.
    return resized;
}

static struct mem_index_run *run_resize(struct mem_index_run *run, uint32_t capacity)
{
    bool is_new = run == NULL;

    run = need(run, sizeof(*run) + capacity * sizeof(run->entries[0]));
    run->count = is_new ? 0 : run->count;
    run->capacity = capacity;
    return run;
}

/* Put an empty run before the one that is the i-th now. */
static struct mem_index_run *run_insert(struct mem_index *index, size_t i, uint32_t capacity)
{
    index->runs = need(index->runs, (index->run_count + 1) * sizeof(struct mem_index_run *));
    memmove(&index->runs[i + 1], &index->runs[i],
            (index->run_count - i) * sizeof(struct mem_index_run *));
    index->run_count++;
    index->runs[i] = run_resize(NULL, capacity);
    return index->runs[i];
}

static void run_remove(struct mem_index *index, size_t i)
{
    mem_free(index->runs[i]);
    index->run_count--;
    memmove(&index->runs[i], &index->runs[i + 1],
            (index->run_count - i) * sizeof(struct mem_index_run *));
}

/* Room for one entry more in the run of a place, which may be in another run afterwards. */
static void make_room(struct mem_index *index, struct place *place)
{
    struct mem_index_run *run = index->runs[place->run];
    struct mem_index_run *upper;
    uint32_t half = RUN_MAX / 2;

    if (run->count < run->capacity) {
        return;
    }
    if (run->capacity < RUN_MAX) {
        index->runs[place->run] = run_resize(run, 2 * run->capacity);
        return;
    }
    if (place->at == run->count) { // Keys mostly grow: the run stays full, a new one begins.
        run_insert(index, place->run + 1, RUN_MAX);
        *place = (struct place){place->run + 1, 0};
        return;
    }
    upper = run_insert(index, place->run + 1, RUN_MAX);
    upper->count = RUN_MAX - half;
    memcpy(upper->entries, &run->entries[half], upper->count * sizeof(run->entries[0]));
    run->count = half;
    if (place->at > half) {
        *place = (struct place){place->run + 1, place->at - half};
    }
}

void mem_index_init(struct mem_index *index)
{
    memset(index, 0, sizeof(*index));
}

void mem_index_fini(struct mem_index *index)
{
    for (size_t i = 0; i < index->run_count; i++) {
        mem_free(index->runs[i]);
    }
    mem_free(index->runs);
    mem_index_init(index);
}

void mem_index_add(struct mem_index *index, struct mem_index_node *node)
{
    struct place place = {0, 0};
    struct mem_index_node *before;
    const struct entry *after = NULL;
    struct mem_index_run *run;

    if (index->run_count == 0) {
        run_insert(index, 0, RUN_FIRST);
    } else {
        place = find_place(index, node->major, node->minor);
        after = entry_at(index, place);
        REQUIRE(after == NULL || after->major != node->major || after->minor != node->minor);
    }
    before = node_before(index, place);
    node->next = after == NULL ? NULL : after->node;
    if (before != NULL) {
        before->next = node;
    }
    make_room(index, &place);
    run = index->runs[place.run];
    memmove(&run->entries[place.at + 1], &run->entries[place.at],
            (run->count - place.at) * sizeof(run->entries[0]));
    run->entries[place.at] = (struct entry){node->major, node->minor, node};
    run->count++;
    index->count++;
}

void mem_index_del(struct mem_index *index, struct mem_index_node *node)
{
    struct place place = {0, 0};
    struct mem_index_node *before;
    const struct entry *entry;
    struct mem_index_run *run;

    REQUIRE(index->run_count > 0);
    place = find_place(index, node->major, node->minor);
    entry = entry_at(index, place);
    REQUIRE(entry != NULL && entry->node == node);
    before = node_before(index, place);
    if (before != NULL) {
        before->next = node->next;
    }
    run = index->runs[place.run];
    run->count--;
    memmove(&run->entries[place.at], &run->entries[place.at + 1],
            (run->count - place.at) * sizeof(run->entries[0]));
    if (run->count == 0) {
        run_remove(index, place.run);
    }
    index->count--;
}

struct mem_index_node *mem_index_find(struct mem_index *index, int64_t major, int64_t minor)
{
    const struct entry *entry =
        index->run_count == 0 ? NULL : entry_at(index, find_place(index, major, minor));

    return entry != NULL && entry->major == major && entry->minor == minor ? entry->node : NULL;
}

struct mem_index_node *mem_index_after(struct mem_index *index, int64_t major, int64_t minor)
{
    const struct entry *entry =
        index->run_count == 0 ? NULL : entry_at(index, find_place(index, major, minor));

    if (entry != NULL && entry->major == major && entry->minor == minor) {
        return entry->node->next;
    }
    return entry == NULL ? NULL : entry->node;
}

struct mem_index_node *mem_index_first(struct mem_index *index)
{
    return index->run_count == 0 ? NULL : index->runs[0]->entries[0].node;
}
