/* SPDX-License-Identifier: Apache-2.0
 *
 * Attempts on their way. What a queue says about its target is copied once per version, because the
 * core's queues may change while attempts are out.
 */
#include "broker/outbound.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"

#include <stdio.h>
#include <string.h>

/* An outcome is reported this long before the claim's deadline at the latest. */
#define OVER_BY_MARGIN_US (50 * US_PER_MS)

/* How often a queue whose attempts fail is told. */
#define LOOK_MS 60000

/* Where the attempts of one queue go. Kept while it is in the map or an attempt uses it. */
struct queue_route {
    uint32_t queue; /* its number */
    uint32_t version;
    uint32_t uses; /* attempts, and one for the map */
    bool is_allowed;
    char tenant[NAME_BYTES_MAX + 1];
    char name[NAME_BYTES_MAX + 1];
    char target[TARGET_BYTES_MAX + 1];
    struct target_address address; /* borrows from target */
    struct failure_note failing;
};

struct edge_outbound {
    struct outbound interface;
    struct outbound_options options;
    struct target_pool *pool;
    struct map routes;   /* struct queue_route by number of the queue */
    struct list refused; /* struct flight: ended before they left, to be reported */
    struct failure_notes failing;
    struct loop_timer look;
    bool is_looking; /* `look` runs: `failing` has something to look for */
    struct loop_task report;
    struct outbound_stats stats;
    outbound_cb cb;
    void *cb_ctx;
};

/* One attempt. call.link is ours while it is in `refused`. */
struct flight {
    struct target_call call;
    struct edge_outbound *outbound;
    struct attempt *attempt;
    struct queue_route *route;
    const char *refusal; /* static */
};

/* ---- routes ---- */

static void release_route(struct edge_outbound *o, struct queue_route *route)
{
    REQUIRE(route->uses > 0);
    if (--route->uses == 0) {
        failure_drop(&o->failing, &route->failing);
        mem_free(route);
    }
}

static void forget_route(struct edge_outbound *o, struct queue_route *route)
{
    (void)map_del(&o->routes, route->queue);
    release_route(o, route);
}

bool outbound_allows(const struct config_list *allow, const char *target)
{
    struct target_address address;
    char errmsg[256];

    if (target_parse(target, &address, errmsg, sizeof(errmsg)) != 0) {
        return false;
    }
    for (size_t i = 0; i < allow->count; i++) {
        if (config_pattern_matches(allow->items[i], address.authority)) {
            return true;
        }
    }
    return false;
}

/* Room for one more: those of queues that were deleted go when there are as many as may be. */
static void make_room_for_route(struct edge_outbound *o)
{
    struct queue_route *gone[64];
    struct map_iter iter = {0};
    struct queue_route *route;
    size_t count = 0;

    if (map_count(&o->routes) < QUEUE_COUNT_MAX) {
        return;
    }
    while (count < ARRAY_COUNT(gone) && (route = map_next(&o->routes, &iter)) != NULL) {
        if (o->options.queue_find(o->options.ctx, route->queue) == NULL) {
            gone[count++] = route;
        }
    }
    for (size_t i = 0; i < count; i++) {
        forget_route(o, gone[i]);
    }
}

static struct queue_route *new_route(struct edge_outbound *o, const struct queue *queue)
{
    struct queue_route *route = mem_new(1, sizeof(*route));
    char errmsg[256];

    if (route == NULL) {
        return NULL;
    }
    route->queue = queue->id;
    route->version = queue->version;
    memcpy(route->tenant, queue->tenant, sizeof(route->tenant));
    memcpy(route->name, queue->name, sizeof(route->name));
    memcpy(route->target, queue->target, sizeof(route->target));
    route->is_allowed = outbound_allows(o->options.allow, route->target);
    if (target_parse(route->target, &route->address, errmsg, sizeof(errmsg)) != 0) {
        route->is_allowed = false;
    }
    route->uses = 1;
    failure_init(&route->failing);
    make_room_for_route(o);
    if (map_put(&o->routes, route->queue, route) != 0) {
        mem_free(route);
        return NULL;
    }
    return route;
}

static struct queue_route *take_route(struct edge_outbound *o, uint32_t id)
{
    const struct queue *queue = o->options.queue_find(o->options.ctx, id);
    struct queue_route *route = map_find(&o->routes, id);

    if (route != NULL && (queue == NULL || queue->version != route->version)) {
        forget_route(o, route);
        route = NULL;
    }
    if (route == NULL && queue != NULL) {
        route = new_route(o, queue);
    }
    if (route != NULL) {
        route->uses++;
    }
    return route;
}

/* ---- the end of an attempt ---- */

static enum outcome outcome_of(enum target_verdict verdict)
{
    switch (verdict) {
    case TARGET_DONE:
        return OUTCOME_DONE;
    case TARGET_RETRY:
        return OUTCOME_RETRY;
    case TARGET_DEAD:
        return OUTCOME_DEAD;
    case TARGET_OBSOLETE:
        return OUTCOME_OBSOLETE;
    case TARGET_UNKNOWN:
        return OUTCOME_UNKNOWN;
    case TARGET_NOT_STARTED:
        return OUTCOME_NOT_STARTED;
    }
    return OUTCOME_UNKNOWN;
}

/* "Not before" is by the receiver's clock, read as the database's. */
static span_ms retry_wait(const struct flight *flight, const struct target_result *result)
{
    const struct outbound_options *options = &flight->outbound->options;
    struct clock_bounds bounds;

    if (result->retry_at_ms == 0) {
        return result->retry_after_ms;
    }
    bounds = options->bounds_at(options->ctx, flight->attempt->database, clock_boot_us());
    return time_max(time_sub(result->retry_at_ms, ms_floor(bounds.lower_us)), 0);
}

/* Why an attempt failed, as far as it may stand in a log: no words of the target. */
static struct slice cause_of(const struct target_result *result)
{
    if (!result->is_told) {
        return result->error_text;
    }
    return slice_of(result->status != NULL ? result->status : "the target says so");
}

static void note_end(struct flight *flight, const struct target_result *result)
{
    struct edge_outbound *o = flight->outbound;

    failure_add(&o->failing, &flight->route->failing, flight->attempt->outcome, cause_of(result));
    if (!list_is_empty(&flight->route->failing.link) && !o->is_looking) {
        o->is_looking = true;
        loop_timer_start_in(&o->look, LOOK_MS);
    }
}

static void on_look(struct loop_timer *timer, void *ctx)
{
    struct edge_outbound *o = ctx;

    o->is_looking = failure_look(&o->failing);
    if (o->is_looking) {
        loop_timer_start_in(timer, LOOK_MS);
    }
}

static void on_failing(void *ctx, struct failure_note *note)
{
    struct edge_outbound *o = ctx;
    struct queue_route *route = CONTAINER_OF(note, struct queue_route, failing);

    o->options.on_failing(o->options.ctx, route->name, route->target, note);
}

static void end_flight(struct flight *flight, const struct target_result *result)
{
    struct edge_outbound *o = flight->outbound;
    struct attempt *attempt = flight->attempt;

    attempt->outcome = outcome_of(result->verdict);
    attempt->retry_after_ms = retry_wait(flight, result);
    attempt->error_text = result->error_text;
    attempt->response = result->response;
    attempt->outbound_ctx = NULL;
    o->stats.outcomes[attempt->outcome]++;
    if (flight->route != NULL) {
        note_end(flight, result);
        release_route(o, flight->route);
    }
    mem_free(flight);
    o->options.on_outcome(o->options.ctx, attempt);
}

static void on_done(struct target_call *call, const struct target_result *result)
{
    end_flight(CONTAINER_OF(call, struct flight, call), result);
}

/* Report what was refused before it left, outside of start. */
static void on_report(void *ctx)
{
    struct edge_outbound *o = ctx;
    struct list ended;
    struct list *node;

    list_init(&ended);
    list_move_all(&ended, &o->refused);
    while ((node = list_take_first(&ended)) != NULL) {
        struct target_call *call = LIST_ENTRY(node, struct target_call, link);
        struct flight *flight = CONTAINER_OF(call, struct flight, call);
        struct target_result result = {.verdict = TARGET_RETRY,
                                       .error_text = slice_of(flight->refusal)};

        end_flight(flight, &result);
    }
}

static void refuse(struct flight *flight, const char *why)
{
    struct edge_outbound *o = flight->outbound;

    flight->refusal = why;
    list_init(&flight->call.link);
    list_add(&o->refused, &flight->call.link);
    loop_post(o->options.loop, &o->report);
}

/* ---- the start ---- */

static bool may_start(struct target_call *call, boot_us at_us)
{
    const struct flight *flight = CONTAINER_OF(call, struct flight, call);
    const struct outbound_options *options = &flight->outbound->options;
    struct clock_bounds bounds = options->bounds_at(options->ctx, flight->attempt->database, at_us);

    return bounds.upper_us <= time_mul(flight->attempt->start_by_ms, US_PER_MS);
}

/* Our moment at which the database's clock, at the earliest, shows a time. Above 0. */
static boot_us moment_of(const struct clock_bounds *bounds, boot_us now_us, wall_ms time)
{
    int64_t wait_us = time_sub(time_mul(time, US_PER_MS), bounds->upper_us);

    return time_max(time_add(now_us, wait_us), 1);
}

static void fill_call(struct flight *flight)
{
    const struct outbound_options *options = &flight->outbound->options;
    const struct attempt *attempt = flight->attempt;
    const struct queue_route *route = flight->route;
    boot_us now_us = clock_boot_us();
    struct clock_bounds bounds = options->bounds_at(options->ctx, attempt->database, now_us);

    flight->call = (struct target_call){
        .id = attempt->id,
        .attempt = attempt->attempt,
        .tenant = route->tenant,
        .queue = route->name,
        .path = route->address.path.len > 0 ? (const char *)route->address.path.data : NULL,
        .key = task_key_own(attempt->key),
        .order_key = attempt->order_key,
        .payload = attempt->payload,
        .tags = attempt->tags,
        .expire_ms = attempt->expire_ms,
        .due_ms = attempt->due_ms,
        .deadline_ms = attempt->deadline_ms,
        .timeout_ms = attempt->timeout_ms,
        .start_by_us = moment_of(&bounds, now_us, attempt->start_by_ms),
        .over_by_us = moment_of(&bounds, now_us, attempt->deadline_ms) - OVER_BY_MARGIN_US,
        .may_start = may_start,
        .done = on_done,
    };
}

static int start_flight(struct flight *flight)
{
    struct edge_outbound *o = flight->outbound;
    const struct target_address *address;
    int err;

    if (flight->route == NULL) {
        refuse(flight, "the queue is not known to this broker yet");
        return 0;
    }
    if (!flight->route->is_allowed) {
        refuse(flight, "the target is not on the operator's list: see targets.allow");
        return 0;
    }
    address = &flight->route->address;
    fill_call(flight);
    err = target_pool_start(o->pool, address, &flight->call);
    if (err == ERR_INVALID || err == ERR_TOO_LARGE) {
        refuse(flight, "the target's address or request cannot be used");
        return 0;
    }
    return err;
}

static int start(struct outbound *interface, struct attempt *attempt)
{
    struct edge_outbound *o = CONTAINER_OF(interface, struct edge_outbound, interface);
    struct flight *flight = mem_new(1, sizeof(*flight));

    if (flight == NULL) {
        o->stats.refused_full++;
        return ERR_FULL;
    }
    flight->outbound = o;
    flight->attempt = attempt;
    flight->route = take_route(o, attempt->queue);
    attempt->outbound_ctx = flight;
    if (start_flight(flight) != 0) {
        if (flight->route != NULL) {
            release_route(o, flight->route);
        }
        attempt->outbound_ctx = NULL;
        mem_free(flight);
        o->stats.refused_full++;
        return ERR_FULL;
    }
    return 0;
}

static void tell_owner(struct outbound *interface, const struct report *report)
{
    struct edge_outbound *o = CONTAINER_OF(interface, struct edge_outbound, interface);

    o->options.on_report(o->options.ctx, report);
}

/* ---- life ---- */

int outbound_open(const struct outbound_options *options, struct edge_outbound **out)
{
    struct edge_outbound *o = mem_new(1, sizeof(*o));
    int err;

    if (o == NULL) {
        return ERR_NO_MEMORY;
    }
    o->interface.start = start;
    o->interface.report = tell_owner;
    o->options = *options;
    map_init(&o->routes, QUEUE_COUNT_MAX);
    list_init(&o->refused);
    loop_task_init(&o->report, on_report, o);
    failure_notes_init(&o->failing, on_failing, o);
    loop_timer_init(&o->look, options->loop, on_look, o);
    err = target_pool_open(&options->pool, &o->pool);
    if (err != 0) {
        map_fini(&o->routes);
        mem_free(o);
        return err;
    }
    *out = o;
    return 0;
}

struct outbound *outbound_interface(struct edge_outbound *outbound)
{
    return &outbound->interface;
}

void outbound_get_stats(const struct edge_outbound *outbound, struct outbound_stats *out)
{
    *out = outbound->stats;
    target_pool_stats(outbound->pool, &out->targets);
}

static void on_pool_closed(void *ctx)
{
    struct edge_outbound *o = ctx;
    outbound_cb cb = o->cb;
    void *cb_ctx = o->cb_ctx;
    struct map_iter iter = {0};
    struct queue_route *route;

    on_report(o);
    loop_unpost(&o->report);
    loop_timer_stop(&o->look);
    while ((route = map_next(&o->routes, &iter)) != NULL) {
        release_route(o, route);
    }
    map_fini(&o->routes);
    mem_free(o);
    cb(cb_ctx);
}

void outbound_close(struct edge_outbound *outbound, outbound_cb cb, void *ctx)
{
    outbound->cb = cb;
    outbound->cb_ctx = ctx;
    target_pool_close(outbound->pool, on_pool_closed, outbound);
}
