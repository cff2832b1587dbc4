/* SPDX-License-Identifier: Apache-2.0
 *
 * One table of owners. A member's requests wait for its next turn on the loop, where they are done
 * in order; what other members have to hear of it waits for theirs.
 */
#include "coordinator/coord_standalone.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"

#include <string.h>

struct seat {
    struct coord coord; /* first: the interface */
    struct standalone *cluster;
    struct list link; /* in the cluster's seats */
    struct member self;
    struct coord_events events;
    struct loop_task turn;
    struct list requests;      /* not answered, in order */
    struct shard_set wants;    /* could not be acquired: tell when it is free */
    struct shard_set free_now; /* to be told */
    bool session_is_untold;
    bool members_are_untold;
    bool config_is_untold;
    bool is_closing;
    coord_close_cb close_cb;
    void *close_ctx;
};

struct place {
    struct seat *owner; /* NULL: nobody */
    int64_t generation; /* given last */
};

struct standalone {
    struct loop *loop;
    struct list seats; /* in order of joining */
    uint32_t seat_count;
    struct member *members; /* room for all seats, to tell them */
    int64_t config_version;
    uint32_t shard_count;
    struct place places[];
};

static struct seat *seat_of(struct coord *coord)
{
    return CONTAINER_OF(coord, struct seat, coord);
}

/* --- what others have to hear ----------------------------------------------------------------- */

static void wake(struct seat *seat)
{
    loop_post(seat->cluster->loop, &seat->turn);
}

static void members_changed(struct standalone *cluster)
{
    list_foreach (node, &cluster->seats) {
        struct seat *seat = LIST_ENTRY(node, struct seat, link);

        seat->members_are_untold = true;
        wake(seat);
    }
}

static void shard_is_free(struct standalone *cluster, uint32_t shard)
{
    cluster->places[shard].owner = NULL;
    list_foreach (node, &cluster->seats) {
        struct seat *seat = LIST_ENTRY(node, struct seat, link);

        if (shard_set_has(&seat->wants, shard)) {
            shard_set_del(&seat->wants, shard);
            shard_set_add(&seat->free_now, shard);
            wake(seat);
        }
    }
}

/* The place of a name in the sorted list so far: *found says that it is there. */
static size_t find_name(const struct member *members, size_t count, const char *name, bool *found)
{
    size_t place = 0;

    while (place < count && strcmp(members[place].name, name) < 0) {
        place++;
    }
    *found = place < count && strcmp(members[place].name, name) == 0;
    return place;
}

/* Sorted by name; of two with one name the one that joined later. */
static size_t gather_members(struct standalone *cluster)
{
    struct member *members = cluster->members;
    size_t count = 0;

    list_foreach (node, &cluster->seats) {
        const struct seat *seat = LIST_ENTRY(node, struct seat, link);
        bool found;
        size_t place = find_name(members, count, seat->self.name, &found);

        if (!found) {
            memmove(&members[place + 1], &members[place], (count - place) * sizeof(*members));
            count++;
        }
        members[place] = seat->self;
    }
    return count;
}

/* --- requests --------------------------------------------------------------------------------- */

static int acquire(struct seat *seat, struct coord_request *request)
{
    struct place *place = &seat->cluster->places[request->shard];

    if (place->owner != NULL && place->owner != seat) {
        shard_set_add(&seat->wants, request->shard);
        return ERR_EXISTS;
    }
    if (place->generation >= GENERATION_MAX) {
        return ERR_FULL;
    }
    place->owner = seat;
    request->generation = ++place->generation;
    return 0;
}

static int release(struct seat *seat, const struct coord_request *request)
{
    if (seat->cluster->places[request->shard].owner == seat) {
        shard_is_free(seat->cluster, request->shard);
    }
    return 0;
}

static int publish(struct seat *seat, const struct coord_request *request)
{
    seat->self = *request->member;
    members_changed(seat->cluster);
    return 0;
}

static int nudge(struct standalone *cluster, struct coord_request *request)
{
    request->generation = ++cluster->config_version;
    list_foreach (node, &cluster->seats) {
        struct seat *seat = LIST_ENTRY(node, struct seat, link);

        seat->config_is_untold = true;
        wake(seat);
    }
    return 0;
}

static int perform(struct seat *seat, struct coord_request *request)
{
    switch (request->kind) {
    case COORD_ACQUIRE:
        return acquire(seat, request);
    case COORD_RELEASE:
        return release(seat, request);
    case COORD_STATE:
        return seat->cluster->places[request->shard].owner == seat ? 0 : ERR_FENCED;
    case COORD_PUBLISH:
        return publish(seat, request);
    case COORD_NUDGE:
        return nudge(seat->cluster, request);
    }
    UNREACHABLE();
}

/* --- a member's turn -------------------------------------------------------------------------- */

static void answer(struct list *node, int result)
{
    struct coord_request *request = LIST_ENTRY(node, struct coord_request, link);

    request->result = result;
    request->cb(request);
}

/* Those that are there now; what a callback asks for waits for the next turn. */
static void answer_requests(struct seat *seat)
{
    struct list now;
    struct list *node;

    list_init(&now);
    list_move_all(&now, &seat->requests);
    while ((node = list_take_first(&now)) != NULL) {
        struct coord_request *request = LIST_ENTRY(node, struct coord_request, link);

        answer(node, seat->is_closing ? ERR_UNAVAILABLE : perform(seat, request));
    }
}

static void tell_free(struct seat *seat)
{
    struct shard_set free_now = seat->free_now;

    memset(&seat->free_now, 0, sizeof(seat->free_now));
    for (uint32_t shard = 0; shard < seat->cluster->shard_count; shard++) {
        if (shard_set_has(&free_now, shard) && !seat->is_closing) {
            seat->events.on_shard_free(seat->events.ctx, shard);
        }
    }
}

static void tell(struct seat *seat)
{
    const struct coord_events *events = &seat->events;

    if (seat->session_is_untold && !seat->is_closing) {
        seat->session_is_untold = false;
        events->on_session(events->ctx, COORD_NEW);
    }
    if (seat->members_are_untold && !seat->is_closing) {
        seat->members_are_untold = false;
        events->on_members(events->ctx, seat->cluster->members, gather_members(seat->cluster));
    }
    if (seat->config_is_untold && !seat->is_closing) {
        seat->config_is_untold = false;
        events->on_config(events->ctx, seat->cluster->config_version);
    }
    tell_free(seat);
}

/* Everything of a member that leaves is free at once. */
static void leave(struct seat *seat)
{
    struct standalone *cluster = seat->cluster;
    coord_close_cb cb = seat->close_cb;
    void *ctx = seat->close_ctx;

    list_del(&seat->link);
    cluster->seat_count--;
    for (uint32_t shard = 0; shard < cluster->shard_count; shard++) {
        if (cluster->places[shard].owner == seat) {
            shard_is_free(cluster, shard);
        }
    }
    members_changed(cluster);
    loop_unpost(&seat->turn);
    mem_free(seat);
    if (cb != NULL) {
        cb(ctx);
    }
}

static void on_turn(void *ctx)
{
    struct seat *seat = ctx;

    tell(seat);
    answer_requests(seat);
    if (!seat->is_closing) {
        return;
    }
    answer_requests(seat); // None is refused before the close, and none comes after it.
    leave(seat);
}

/* --- the interface ---------------------------------------------------------------------------- */

static int submit(struct coord *coord, struct coord_request *request)
{
    struct seat *seat = seat_of(coord);

    if (seat->is_closing) {
        return ERR_CLOSED;
    }
    if (request->shard >= seat->cluster->shard_count) {
        return ERR_INVALID;
    }
    list_add(&seat->requests, &request->link);
    wake(seat);
    return 0;
}

static void close_seat(struct coord *coord, coord_close_cb cb, void *ctx)
{
    struct seat *seat = seat_of(coord);

    REQUIRE(!seat->is_closing);
    seat->is_closing = true;
    seat->close_cb = cb;
    seat->close_ctx = ctx;
    wake(seat);
}

int standalone_join(struct standalone *cluster, const struct member *self,
                    const struct coord_events *events, struct coord **out)
{
    size_t room = (size_t)cluster->seat_count + 1;
    struct seat *seat;
    void *members;

    if (room > MEMBER_COUNT_MAX) {
        return ERR_FULL;
    }
    members = mem_resize(cluster->members, room * sizeof(*cluster->members));
    if (members == NULL) {
        return ERR_NO_MEMORY;
    }
    cluster->members = members;
    seat = mem_new(1, sizeof(*seat));
    if (seat == NULL) {
        return ERR_NO_MEMORY;
    }
    seat->coord = (struct coord){.submit = submit, .close = close_seat};
    seat->cluster = cluster;
    seat->self = *self;
    seat->events = *events;
    seat->session_is_untold = true;
    seat->config_is_untold = true;
    list_init(&seat->requests);
    loop_task_init(&seat->turn, on_turn, seat);
    list_add(&cluster->seats, &seat->link);
    cluster->seat_count++;
    members_changed(cluster);
    *out = &seat->coord;
    return 0;
}

int standalone_open(const struct standalone_options *options, struct standalone **out)
{
    struct standalone *cluster;

    REQUIRE(options->shard_count >= 1 && options->shard_count <= SHARD_COUNT_MAX);
    REQUIRE(options->generation_last >= 0 && options->generation_last <= GENERATION_MAX);
    cluster = mem_new(1, sizeof(*cluster) + options->shard_count * sizeof(cluster->places[0]));
    if (cluster == NULL) {
        return ERR_NO_MEMORY;
    }
    cluster->loop = options->loop;
    cluster->shard_count = options->shard_count;
    list_init(&cluster->seats);
    for (uint32_t shard = 0; shard < cluster->shard_count; shard++) {
        cluster->places[shard].generation = options->generation_last;
    }
    *out = cluster;
    return 0;
}

void standalone_close(struct standalone *cluster)
{
    if (cluster == NULL) {
        return;
    }
    REQUIRE(cluster->seat_count == 0);
    mem_free(cluster->members);
    mem_free(cluster);
}
