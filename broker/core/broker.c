/* SPDX-License-Identifier: Apache-2.0
 *
 * The composition: making and freeing a broker, one tick, and what others may look up.
 */
#include "broker/core/broker.h"

#include "broker/core/audit.h"
#include "broker/core/call_life.h"
#include "broker/core/claim.h"
#include "broker/core/dispatch.h"
#include "broker/core/entry.h"
#include "broker/core/membership.h"
#include "broker/core/order.h"
#include "broker/core/reading.h"
#include "broker/core/recent.h"
#include "broker/core/shard.h"
#include "broker/core/shed.h"
#include "broker/core/state.h"
#include "broker/core/window.h"
#include "broker/core/writer.h"
#include "lib/base/beat.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

/* Tasks without key that go to one shard before the next one is chosen. source: DESIGN 9, runs */
#define RUN_TASKS 256U

static int init_databases(struct broker *broker)
{
    uint32_t count = broker->options.database_count;

    broker->databases = mem_new(count, sizeof(*broker->databases));
    if (broker->databases == NULL) {
        return ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct database *database = &broker->databases[i];

        list_init(&database->unsettled);
        database->lead_ms = CLAIM_LEAD_MS_MIN;
        database->start_ms = START_BY_MS;
        database->checks = mem_new(broker->options.cluster.shard_count, sizeof(*database->checks));
        if (writer_init(&database->writer, broker, i) != 0 || database->checks == NULL) {
            return ERR_NO_MEMORY;
        }
    }
    return 0;
}

static void init_lists(struct broker *broker)
{
    const struct broker_options *options = &broker->options;

    list_init(&broker->all_flights);
    list_init(&broker->touched);
    list_init(&broker->answered);
    list_init(&broker->orders_asking);
    list_init(&broker->orders_idle);
    slabs_init(&broker->entries);
    pool_init(&broker->flights, sizeof(struct flight), FLIGHTS_MAX);
    pool_init(&broker->groups, sizeof(struct group), GROUPS_MAX);
    pool_init(&broker->reads, sizeof(struct call_read), READS_MAX);
    pool_init(&broker->parks, sizeof(struct park), PARKS_MAX);
    pool_init(&broker->orders, sizeof(struct order_line),
              (size_t)time_min(options->entry_count_max / ORDER_SHARE, ORDERS_MAX));
    map_init(&broker->queue_index, QUEUE_COUNT_MAX);
    prng_init_named(&broker->prng, broker->env.seed, "broker");
    broker->window_ms = options->window_ms;
    broker->held_until = BOOT_NEVER;
    broker->orders_wake = BOOT_NEVER;
    broker->shed_shard = options->cluster.shard_count;
    broker->self = options->self;
    broker->placement_at = BOOT_NEVER;
    broker->publish_at = BOOT_NEVER;
}

/* Limits that nobody has chosen. */
static void fill_limits(struct broker_options *options)
{
    options->batch_op_max = options->batch_op_max == 0 ? BATCH_OP_COUNT_MAX : options->batch_op_max;
    options->waiting_op_max = options->waiting_op_max == 0 ? CALL_OPS_MAX : options->waiting_op_max;
    options->split_op_min =
        options->split_op_min == 0 ? BROKER_SPLIT_OP_MIN : options->split_op_min;
    options->retry_us = options->retry_us == 0 ? RETRY_US : options->retry_us;
    REQUIRE(options->batch_op_max >= BROKER_BATCH_OP_MIN &&
            options->batch_op_max <= BATCH_OP_COUNT_MAX);
    REQUIRE(options->waiting_op_max >= BROKER_WAITING_OP_MIN && options->retry_us > 0);
    REQUIRE(options->settle_wait_us >= 0 && options->claim_wait_us >= 0);
}

int broker_new(const struct broker_env *env, const struct broker_options *options,
               struct broker **out)
{
    struct broker *broker = mem_new(1, sizeof(*broker));

    REQUIRE(options->database_count >= 1 && options->database_count <= DATABASE_COUNT_MAX);
    REQUIRE(options->cluster.shard_count >= 1 && options->cluster.shard_count <= SHARD_COUNT_MAX);
    REQUIRE(options->writer > 0 && options->entry_count_max > SLICE_ROW_COUNT_MAX);
    if (broker == NULL) {
        return ERR_NO_MEMORY;
    }
    broker->env = *env;
    broker->options = *options;
    fill_limits(&broker->options);
    for (uint32_t i = 0; i < DATABASE_COUNT_MAX; i++) {
        broker->now.database[i] = (struct clock_bounds){INT64_MIN, INT64_MAX, INT64_MIN};
    }
    init_lists(broker);
    broker->queues = mem_new(QUEUE_COUNT_MAX, sizeof(*broker->queues));
    broker->shards = mem_new(options->cluster.shard_count, sizeof(*broker->shards));
    broker->members = mem_new(MEMBER_COUNT_MAX, sizeof(*broker->members));
    broker->owners = mem_new(options->cluster.shard_count, sizeof(*broker->owners));
    if (init_databases(broker) != 0 || recent_init(broker) != 0 || audit_init(broker) != 0 ||
        broker->queues == NULL || broker->shards == NULL || broker->members == NULL ||
        broker->owners == NULL) {
        broker_free(broker);
        return ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < options->cluster.shard_count; i++) {
        shard_init(&broker->shards[i], broker, i);
    }
    *out = broker;
    return 0;
}

void broker_free(struct broker *broker)
{
    struct list *link;

    for (uint32_t i = 0; broker->shards != NULL && i < broker->options.cluster.shard_count; i++) {
        shard_fini(&broker->shards[i]);
    }
    while ((link = list_take_first(&broker->all_flights)) != NULL) {
        struct flight *flight = CONTAINER_OF(link, struct flight, link);

        mem_free(flight->block);
        mem_free(flight->text);
    }
    for (uint32_t i = 0; broker->databases != NULL && i < broker->options.database_count; i++) {
        writer_fini(&broker->databases[i].writer);
        mem_free(broker->databases[i].checks);
    }
    for (uint32_t i = 0; i < broker->queue_count; i++) {
        mem_free(broker->queues[i]);
    }
    map_fini(&broker->queue_index);
    slabs_drop(&broker->entries);
    pool_drop(&broker->flights);
    pool_drop(&broker->groups);
    pool_drop(&broker->reads);
    pool_drop(&broker->parks);
    pool_drop(&broker->orders);
    recent_fini(broker);
    audit_fini(broker);
    mem_free(broker->queues);
    mem_free(broker->shards);
    mem_free(broker->databases);
    mem_free(broker->members);
    mem_free(broker->owners);
    mem_free(broker);
}

void broker_set_now(struct broker *broker, const struct now *now)
{
    REQUIRE(now->boot >= broker->now.boot);
    broker->now.boot = now->boot;
    for (uint32_t i = 0; i < broker->options.database_count; i++) {
        struct clock_bounds *held = &broker->now.database[i];

        // What was below the clock still is; an estimate that loses its best sample goes back a
        // little, and the wheel must not.
        held->lower_us = time_max(held->lower_us, now->database[i].lower_us);
        held->upper_us = time_max(held->lower_us, now->database[i].upper_us);
        held->proven_us = now->database[i].proven_us;
    }
}

static void step_touched(struct broker *broker)
{
    struct list touched;

    list_init(&touched);
    list_move_all(&touched, &broker->touched); // What is touched meanwhile waits for the next tick.
    for (struct list *link; (link = list_take_first(&touched)) != NULL;) {
        struct shard *shard = CONTAINER_OF(link, struct shard, touched);

        shard->is_touched = false;
        shard_step(shard);
    }
}

/* What no event announces: time that has passed, events that were lost. */
static void scan(struct broker *broker)
{
    broker->scan_at = beat_after(broker->now.boot, beat_us(broker->options.session_timeout_ms));
    membership_scan(broker);
    shed_adapt(broker);
    audit_step(broker);
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        if (!shard_is_at_rest(&broker->shards[i])) {
            shard_touch(&broker->shards[i]);
        }
    }
}

/* Look at a shard when a time of its, 0: none, has come; it is 0 then. */
static void take_time(struct shard *shard, boot_us *at)
{
    if (*at == 0) {
        return;
    }
    if (*at <= shard->broker->now.boot) {
        *at = 0;
        shard_touch(shard);
    } else {
        shard->broker->retry_at = time_min(shard->broker->retry_at, *at);
    }
}

/* The earliest time that a shard waits for; shards are looked at when touched, so a pending
 * retry touches its shard. */
static void touch_retries(struct broker *broker)
{
    broker->retry_at = BOOT_NEVER;
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        take_time(&broker->shards[i], &broker->shards[i].retry_at);
        take_time(&broker->shards[i], &broker->shards[i].past_at);
    }
}

void broker_tick(struct broker *broker, const struct now *now)
{
    broker_set_now(broker, now);
    broker->is_behind = false;
    if (now->boot >= broker->scan_at) {
        scan(broker);
    }
    if (now->boot >= broker->retry_at) {
        touch_retries(broker);
    }
    membership_step(broker);
    step_touched(broker);
    claim_step(broker);
    dispatch_step(broker);
    order_step(broker);
    window_refill(broker);
    shed_step(broker);
    for (uint32_t i = 0; i < broker->options.database_count; i++) {
        writer_step(&broker->databases[i].writer);
    }
    call_answer_all(broker);
}

boot_us broker_next_wake(const struct broker *broker, const struct now *now)
{
    boot_us wake = time_min(broker->scan_at, broker->retry_at);

    if (!list_is_empty(&broker->answered) || !list_is_empty(&broker->touched) ||
        broker->is_behind) {
        return now->boot;
    }
    wake = time_min(wake, membership_next_wake(broker));
    wake = time_min(wake, dispatch_next_wake(broker));
    for (uint32_t i = 0; i < broker->options.database_count; i++) {
        wake = time_min(wake, writer_next_wake(&broker->databases[i].writer));
    }
    return time_max(wake, now->boot);
}

/* Those that are not in a list are unknown from now on. First, so that the queues that are new in
 * it find the room of those that have gone. */
static void forget_queues(struct broker *broker, const struct queue *queues, size_t count)
{
    broker->queue_list++;
    for (size_t i = 0; i < count; i++) {
        struct queue_state *state = map_find(&broker->queue_index, queues[i].id);

        if (state != NULL) {
            state->list = broker->queue_list;
        }
    }
    for (uint32_t i = 0; i < broker->queue_count; i++) {
        struct queue_state *state = broker->queues[i];

        state->is_known = state->is_known && state->list == broker->queue_list;
    }
}

void broker_on_queues(struct broker *broker, const struct now *now, const struct queue *queues,
                      size_t count, int64_t config_version)
{
    broker_set_now(broker, now);
    forget_queues(broker, queues, count);
    for (size_t i = 0; i < count; i++) {
        struct queue_state *state = queue_state_get(broker, queues[i].id);

        if (state == NULL) {
            return; // Short of memory: the next poll brings them again; nothing is confirmed.
        }
        state->queue = queues[i];
        state->is_known = true;
    }
    dispatch_look_at_pauses(broker);
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        if (!list_is_empty(&broker->shards[i].waiting)) {
            shard_touch(&broker->shards[i]); // A call may wait for a queue.
        }
    }
    if (broker->self.config != config_version) {
        broker->self.config = config_version;
        broker->publish_at = now->boot;
    }
}

enum route broker_route(const struct broker *broker, uint32_t shard, const char **address)
{
    REQUIRE(shard < broker->options.cluster.shard_count);
    switch (broker->shards[shard].state) {
    case SHARD_ACTIVE:
    case SHARD_LOADING:
    case SHARD_BUMPING:
        return ROUTE_SELF;
    case SHARD_IDLE:
    case SHARD_ACQUIRING:
    case SHARD_DRAINING:
    case SHARD_RELEASING:
        break;
    }
    for (size_t i = 0; i < broker->member_count; i++) {
        const struct member *member = &broker->members[i];

        if (shard_set_has(&member->owns, shard) &&
            strcmp(member->instance, broker->self.instance) != 0) {
            *address = member->grpc;
            return ROUTE_OTHER;
        }
    }
    return broker->shards[shard].state == SHARD_ACQUIRING ? ROUTE_SELF : ROUTE_NOBODY;
}

/* Some shard that we serve, from a random place on; the place itself if we serve none. */
static uint32_t pick_shard(struct broker *broker)
{
    uint32_t count = broker->options.cluster.shard_count;
    uint32_t start = prng_below(&broker->prng, count) & UINT32_MAX;
    uint32_t shard = start;

    do {
        if (broker->shards[shard].state == SHARD_ACTIVE) {
            return shard;
        }
        shard = shard + 1 == count ? 0 : shard + 1;
    } while (shard != start);
    return start;
}

uint16_t broker_pick_slot(struct broker *broker)
{
    uint32_t count = broker->options.cluster.shard_count;
    uint32_t slots;

    if (broker->run_left == 0 || broker->shards[broker->run_shard].state != SHARD_ACTIVE) {
        broker->run_shard = pick_shard(broker);
        broker->run_left = RUN_TASKS;
    }
    broker->run_left--;
    slots = (SLOT_COUNT - 1 - broker->run_shard) / count + 1; // Slots of this shard.
    return (uint16_t)(broker->run_shard + count * (broker->run_left % slots));
}

uint32_t broker_shard_count(const struct broker *broker)
{
    return broker->options.cluster.shard_count;
}

const struct queue *broker_queue_find(const struct broker *broker, uint32_t id)
{
    const struct queue_state *state = map_find(&broker->queue_index, id);

    return state == NULL || !state->is_known ? NULL : &state->queue;
}

const struct queue *broker_queue_by_name(const struct broker *broker, const char *tenant,
                                         const char *name)
{
    for (uint32_t i = 0; i < broker->queue_count; i++) {
        const struct queue_state *state = broker->queues[i];

        if (state->is_known && strcmp(state->queue.name, name) == 0 &&
            strcmp(state->queue.tenant, tenant) == 0) {
            return &state->queue;
        }
    }
    return NULL;
}

const struct member *broker_members(const struct broker *broker, size_t *count)
{
    *count = broker->member_count;
    return broker->members;
}

bool broker_has_heir(const struct broker *broker, uint32_t database)
{
    for (size_t i = 0; i < broker->member_count; i++) {
        const struct member *member = &broker->members[i];

        if (strcmp(member->instance, broker->self.instance) != 0 &&
            (member->cannot >> database & 1U) == 0) {
            return true;
        }
    }
    return false;
}

const struct member *broker_self(const struct broker *broker)
{
    return &broker->self;
}

void broker_drain(struct broker *broker, const struct now *now)
{
    broker_set_now(broker, now);
    broker->is_draining = true;
    broker->publish_at = now->boot;
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        broker->shards[i].is_desired = false;
        shard_touch(&broker->shards[i]);
    }
}

bool broker_is_drained(const struct broker *broker)
{
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        if (shard_is_held(&broker->shards[i]) || broker->shards[i].has_znode) {
            return false;
        }
    }
    return pool_used(&broker->flights) == 0;
}

void broker_inspect(const struct broker *broker, struct broker_stats *out)
{
    *out = broker->stats;
    out->shards_owned = 0;
    out->shards_moving = 0;
    out->ops_waiting = 0;
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        out->shards_owned += broker->shards[i].state == SHARD_ACTIVE;
        out->shards_moving +=
            broker->shards[i].state != SHARD_ACTIVE && broker->shards[i].state != SHARD_IDLE;
    }
    for (uint32_t i = 0; i < broker->options.database_count; i++) {
        const struct database *database = &broker->databases[i];

        out->ops_waiting += writer_count(&database->writer);
        out->claim_lead_ms = time_max(out->claim_lead_ms, database->lead_ms);
        out->commit_us = time_max(out->commit_us, database->writer.commit_us);
    }
    out->orders = (uint32_t)pool_used(&broker->orders);
    out->entries = (uint32_t)entry_count(broker);
    out->parks = (uint32_t)pool_used(&broker->parks);
    out->in_flight = (uint32_t)pool_used(&broker->flights);
    for (uint32_t i = 0; i < broker->queue_count; i++) {
        out->line_longest = (uint32_t)time_max(out->line_longest, broker->queues[i]->line_len);
    }
    audit_sum(broker, &out->audit);
}

bool broker_inspect_queue(const struct broker *broker, uint32_t queue, struct queue_counts *counts,
                          uint32_t *running)
{
    const struct queue_state *state = map_find(&broker->queue_index, queue);

    if (state == NULL) {
        return false;
    }
    *counts = state->counts;
    *running = state->flights;
    return true;
}

void broker_inspect_shard(const struct broker *broker, uint32_t shard, struct shard_view *out)
{
    const struct shard *view = &broker->shards[shard];

    out->state = shard_state_name(view->state);
    out->epoch = view->epoch;
    out->since = view->since;
    out->database = view->database;
    out->entries = view->entries.count;
    out->loaded = view->is_loaded;
    out->audit_faults = audit_found(broker, shard);
}
