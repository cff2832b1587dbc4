/* SPDX-License-Identifier: Apache-2.0
 *
 * Slabs of one class each. A number is that of the slab and, in its last bits, the place of the
 * object in it, counted in granules.
 */
#include "lib/base/slabs.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"

#include <stdbool.h>
#include <string.h>

#define GRANULE_BYTES  8U
#define PLACE_BITS     12U /* granules of a slab: 32 KiB */
#define SLAB_BYTES     ((size_t)GRANULE_BYTES << PLACE_BITS)
#define SLAB_COUNT_MAX (UINT32_C(1) << (32 - PLACE_BITS)) /* 32 GiB */

/* Where even steps of 8 bytes end and sixteenths of each doubling begin. */
#define SMALL_BYTES    256U
#define SMALL_CLASSES  (SMALL_BYTES / GRANULE_BYTES)
#define STEPS          16U
#define SMALL_EXPONENT 8U

/* Slabs that lie in the heap before huge pages are used: a page that is not full costs a sixteenth
 * of these at most. */
#define HEAP_SLABS 1024U

/* Slabs of a huge page. */
#define REGION_SLABS 64U

/* The end of the chain of numbers that stand for no slab. */
#define NO_NUMBER UINT32_MAX

/* Numbers of slabs are had for so many more at a time. */
#define PLACES_STEP 64U

/* The objects follow. Those that are free have in them the place of the next. */
struct slab {
    struct list link;   /* in slabs.open, alone when it is full */
    uint32_t number;    /* its own */
    uint16_t class;     /* size of its objects */
    uint16_t used;      /* objects taken */
    uint16_t free;      /* place of the first that was given back; 0: none */
    uint16_t untouched; /* place of the first that was never taken */
    bool in_region;     /* of a huge page, not of the heap */
};

/* A huge page; its first slab is a little shorter. */
struct region {
    struct slab first;
    struct list link; /* in slabs.regions, alone when it is full */
    uint64_t used;    /* bit per slab */
};

_Static_assert(REGION_SLABS *SLAB_BYTES == MEM_HUGE_BYTES, "slabs fill a huge page");

_Static_assert(sizeof(struct slab) % GRANULE_BYTES == 0 &&
                   sizeof(struct region) % GRANULE_BYTES == 0,
               "objects begin at a granule");
_Static_assert(SLABS_OBJECT_BYTES_MAX == SMALL_BYTES << 3 &&
                   SLABS_CLASSES == SMALL_CLASSES + 3 * STEPS,
               "classes reach the largest object");

static uint16_t class_of(size_t bytes)
{
    unsigned exponent;

    if (bytes <= SMALL_BYTES) {
        return (uint16_t)((bytes + GRANULE_BYTES - 1) / GRANULE_BYTES - 1);
    }
    exponent = 63U - (unsigned)__builtin_clzll(bytes - 1); // 2^exponent < bytes ≤ twice that.
    return (uint16_t)(SMALL_CLASSES + (exponent - SMALL_EXPONENT) * STEPS +
                      ((bytes - 1 - ((size_t)1 << exponent)) >> (exponent - 4)));
}

static size_t bytes_of(uint16_t class)
{
    unsigned doubling;

    if (class < SMALL_CLASSES) {
        return (class + 1U) * (size_t)GRANULE_BYTES;
    }
    doubling = (class - SMALL_CLASSES) / STEPS;
    return (size_t)(STEPS + (class - SMALL_CLASSES) % STEPS + 1) << (SMALL_EXPONENT + doubling - 4);
}

static void *object_at(struct slab *slab, size_t place)
{
    return (char *)slab + place * GRANULE_BYTES;
}

void slabs_init(struct slabs *slabs)
{
    memset(slabs, 0, sizeof(*slabs));
    slabs->free = NO_NUMBER;
    list_init(&slabs->regions);
    for (size_t i = 0; i < SLABS_CLASSES; i++) {
        list_init(&slabs->open[i]);
    }
}

/* The huge page that a slab of one lies in. */
static struct region *region_of(struct slab *slab)
{
    return (struct region *)(void *)((char *)slab - ((uintptr_t)slab & (MEM_HUGE_BYTES - 1)));
}

/* A huge page that has room for a slab. */
static struct region *get_region(struct slabs *slabs)
{
    struct region *region;

    if (!list_is_empty(&slabs->regions)) {
        return CONTAINER_OF(list_first(&slabs->regions), struct region, link);
    }
    region = slabs->heap_count < HEAP_SLABS ? NULL : mem_new_huge();
    if (region != NULL) {
        list_add(&slabs->regions, &region->link);
        slabs->region_count++;
    }
    return region;
}

/* Memory for a slab, its head zeroed but for where its objects begin; NULL when memory is short. */
static struct slab *take_room(struct slabs *slabs)
{
    struct region *region = get_region(slabs);
    struct slab *slab;
    unsigned i;

    if (region == NULL) {
        slab = mem_new(1, SLAB_BYTES);
        if (slab != NULL) {
            slab->untouched = sizeof(*slab) / GRANULE_BYTES;
            slabs->heap_count++;
        }
        return slab;
    }
    i = (unsigned)__builtin_ctzll(~region->used);
    region->used |= UINT64_C(1) << i;
    if (region->used == UINT64_MAX) {
        list_del(&region->link);
    }
    slab = (struct slab *)(void *)((char *)region + i * SLAB_BYTES);
    memset(slab, 0, sizeof(*slab));
    slab->in_region = true;
    slab->untouched = (i == 0 ? sizeof(*region) : sizeof(*slab)) / GRANULE_BYTES;
    return slab;
}

static void region_free(struct slabs *slabs, struct region *region)
{
    list_del(&region->link);
    slabs->region_count--;
    mem_free_huge(region);
}

/* Give the memory of a slab back. */
static void give_room(struct slabs *slabs, struct slab *slab)
{
    struct region *region = region_of(slab);

    if (!slab->in_region) {
        slabs->heap_count--;
        mem_free(slab);
        return;
    }
    if (region->used == UINT64_MAX) {
        list_add_first(&slabs->regions, &region->link);
    }
    region->used &= ~(UINT64_C(1) << ((size_t)((char *)slab - (char *)region) / SLAB_BYTES));
    // One without slabs is kept, so that no take and give in turn go to the kernel.
    if (region->used == 0 && slabs->regions.next != slabs->regions.previous) {
        region_free(slabs, region);
    }
}

void slabs_drop(struct slabs *slabs)
{
    // Numbers in the chain stand for no slab.
    while (slabs->free != NO_NUMBER) {
        uintptr_t next = slabs->places[slabs->free].next_free;

        slabs->places[slabs->free].slab = NULL;
        slabs->free = (uint32_t)next;
    }
    for (uint32_t i = 0; i < slabs->count; i++) {
        if (slabs->places[i].slab != NULL) {
            give_room(slabs, slabs->places[i].slab);
        }
    }
    mem_free(slabs->places);
    if (!list_is_empty(&slabs->regions)) { // The one that is kept.
        region_free(slabs, CONTAINER_OF(list_first(&slabs->regions), struct region, link));
    }
    slabs_init(slabs);
}

/* Room for one more number. */
static bool has_place(struct slabs *slabs)
{
    uint32_t room = slabs->room + slabs->room / 8 + PLACES_STEP;
    union slab_place *places;

    if (slabs->free != NO_NUMBER || slabs->count < slabs->room) {
        return true;
    }
    if (slabs->count == SLAB_COUNT_MAX) {
        return false;
    }
    room = room < SLAB_COUNT_MAX ? room : SLAB_COUNT_MAX;
    places = mem_resize(slabs->places, room * sizeof(*places));
    if (places == NULL) {
        return false;
    }
    slabs->places = places;
    slabs->room = room;
    return true;
}

static uint32_t take_number(struct slabs *slabs)
{
    uint32_t number = slabs->free;

    if (number == NO_NUMBER) {
        return slabs->count++;
    }
    slabs->free = (uint32_t)slabs->places[number].next_free;
    return number;
}

static struct slab *slab_new(struct slabs *slabs, uint16_t class)
{
    struct slab *slab = has_place(slabs) ? take_room(slabs) : NULL;

    if (slab == NULL) {
        return NULL;
    }
    slab->number = take_number(slabs);
    slab->class = class;
    slabs->places[slab->number].slab = slab;
    slabs->slab_count++;
    list_add(&slabs->open[class], &slab->link);
    return slab;
}

static void slab_free(struct slabs *slabs, struct slab *slab)
{
    uint32_t number = slab->number;

    list_del(&slab->link);
    give_room(slabs, slab);
    slabs->slab_count--;
    slabs->places[number].next_free = slabs->free;
    slabs->free = number;
}

/* Whether one more object fits. */
static bool has_room(const struct slab *slab)
{
    return slab->free != 0 ||
           slab->untouched * (size_t)GRANULE_BYTES + bytes_of(slab->class) <= SLAB_BYTES;
}

uint32_t slabs_take(struct slabs *slabs, size_t bytes)
{
    uint16_t class = class_of(bytes);
    struct slab *slab;
    uint16_t place;

    REQUIRE(bytes >= 1 && bytes <= SLABS_OBJECT_BYTES_MAX);
    if (list_is_empty(&slabs->open[class])) {
        slab = slab_new(slabs, class);
    } else {
        slab = CONTAINER_OF(list_first(&slabs->open[class]), struct slab, link);
    }
    if (slab == NULL) {
        return 0;
    }
    place = slab->free;
    if (place != 0) {
        memcpy(&slab->free, object_at(slab, place), sizeof(slab->free));
    } else {
        place = slab->untouched;
        slab->untouched = (uint16_t)(place + bytes_of(class) / GRANULE_BYTES);
    }
    slab->used++;
    slabs->used++;
    if (!has_room(slab)) {
        list_del(&slab->link);
    }
    return slab->number << PLACE_BITS | place;
}

static struct slab *slab_of(const struct slabs *slabs, uint32_t number)
{
    REQUIRE(number >> PLACE_BITS < slabs->count);
    return slabs->places[number >> PLACE_BITS].slab;
}

void slabs_give(struct slabs *slabs, uint32_t number)
{
    struct slab *slab = slab_of(slabs, number);
    uint16_t place = number & ((1U << PLACE_BITS) - 1U);
    struct list *open = &slabs->open[slab->class];

    REQUIRE(slab->used > 0 && slabs->used > 0);
    if (!has_room(slab)) {
        list_add_first(open, &slab->link);
    }
    memcpy(object_at(slab, place), &slab->free, sizeof(slab->free));
    slab->free = place;
    slab->used--;
    slabs->used--;
    // A class keeps a slab that has room, but not for that a huge page.
    if (slab->used == 0 && (open->next != open->previous || slab->in_region)) {
        slab_free(slabs, slab);
    }
}

void *slabs_at(const struct slabs *slabs, uint32_t number)
{
    return object_at(slab_of(slabs, number), number & ((1U << PLACE_BITS) - 1U));
}

size_t slabs_bytes(const struct slabs *slabs)
{
    return slabs->heap_count * SLAB_BYTES + slabs->region_count * MEM_HUGE_BYTES +
           slabs->room * sizeof(*slabs->places);
}
