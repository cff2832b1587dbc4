/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a shard on this broker.
 *
 *   IDLE ──▶ ACQUIRING ──▶ BUMPING ──▶ LOADING ──▶ ACTIVE ──▶ DRAINING ──▶ RELEASING ──▶ IDLE
 *                ▲            ▲           │           │           │
 *                │            └───────────┴───────────┴───────────┘  a write's outcome is unknown:
 *                └── no re-bump left: a new generation                raise the epoch, then look
 *
 *   and from everywhere to IDLE: fenced, znode lost, session lost.
 */
#include "broker/core/shard.h"

#include "broker/core/audit.h"
#include "broker/core/call_keep.h"
#include "broker/core/call_life.h"
#include "broker/core/claim.h"
#include "broker/core/entry.h"
#include "broker/core/order.h"
#include "broker/core/reading.h"
#include "broker/core/recent.h"
#include "broker/core/task_life.h"
#include "broker/core/window.h"
#include "broker/core/writer.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

/* Shards that one planned change of placement moves at a time. source: DESIGN 5 */
#define MOVES_MAX 8U

/* A shard that is released waits this long for its writes in flight. */
#define DRAIN_US (2 * US_PER_S)

/* Claims of one shard at take-over: bounded by what all brokers may have running. */
#define INHERITED_MAX ((size_t)FLIGHTS_MAX * 8)

#define BIT(state) (1U << (unsigned)(state))

struct life {
    const char *name;
    uint32_t next;
};

static const struct life LIFE[] = {
    [SHARD_IDLE] = {"idle", BIT(SHARD_ACQUIRING) | BIT(SHARD_RELEASING)},
    [SHARD_ACQUIRING] = {"acquiring", BIT(SHARD_BUMPING) | BIT(SHARD_IDLE)},
    [SHARD_BUMPING] = {"bumping", BIT(SHARD_LOADING) | BIT(SHARD_IDLE) | BIT(SHARD_ACQUIRING)},
    [SHARD_LOADING] = {"loading", BIT(SHARD_ACTIVE) | BIT(SHARD_IDLE) | BIT(SHARD_BUMPING) |
                                      BIT(SHARD_ACQUIRING)},
    [SHARD_ACTIVE] = {"active", BIT(SHARD_DRAINING) | BIT(SHARD_IDLE) | BIT(SHARD_BUMPING) |
                                    BIT(SHARD_ACQUIRING)},
    [SHARD_DRAINING] = {"draining", BIT(SHARD_RELEASING) | BIT(SHARD_IDLE) | BIT(SHARD_BUMPING) |
                                        BIT(SHARD_ACQUIRING)},
    [SHARD_RELEASING] = {"releasing", BIT(SHARD_IDLE)},
};

static const struct life *life_of(enum shard_state state)
{
    REQUIRE((size_t)state < ARRAY_COUNT(LIFE) && LIFE[state].name != NULL);
    return &LIFE[state];
}

bool shard_may_move(enum shard_state from, enum shard_state to)
{
    (void)life_of(to);
    return (life_of(from)->next & BIT(to)) != 0;
}

const char *shard_state_name(enum shard_state state)
{
    return life_of(state)->name;
}

static bool is_leaving(const struct shard *shard)
{
    return shard->state == SHARD_DRAINING || shard->state == SHARD_RELEASING;
}

/* One that was leaving has left: the next of those that are to move may go. */
static void touch_movers(struct broker *broker)
{
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        if (broker->shards[i].state == SHARD_ACTIVE && !broker->shards[i].is_desired) {
            shard_touch(&broker->shards[i]);
        }
    }
}

/* The only writer of shard.state. */
static void shard_move(struct shard *shard, enum shard_state state)
{
    REQUIRE(shard_may_move(shard->state, state));
    tell(shard->broker, life_of(state)->name, shard, 0, (int64_t)shard->state, 0);
    if (shard->state == SHARD_ACTIVE || state == SHARD_ACTIVE) {
        shard->broker->publish_at = shard->broker->now.boot;
    }
    if (is_leaving(shard) && state != SHARD_RELEASING) {
        touch_movers(shard->broker);
    }
    shard->broker->leaving_count -= is_leaving(shard) ? 1 : 0;
    shard->state = state;
    shard->broker->leaving_count += is_leaving(shard) ? 1 : 0;
    shard->is_told = false;
    shard_touch(shard);
}

void shard_init(struct shard *shard, struct broker *broker, uint32_t id)
{
    memset(shard, 0, sizeof(*shard));
    shard->broker = broker;
    shard->id = id;
    shard->part = (uint8_t)(id / broker->options.database_count % SETTLE_PARTS);
    shard->database = broker->options.cluster.database_of[id];
    shard->state = SHARD_IDLE;
    shard->serial = 1;
    entry_index_init(&shard->entries);
    map_init(&shard->adrift, FLIGHTS_MAX);
    map_init(&shard->inherited, INHERITED_MAX);
    map_init(&shard->gone, 1);
    map_init(&shard->orders, (size_t)ORDERS_MAX);
    map_init(&shard->parks, QUEUE_COUNT_MAX);
    map_init(&shard->recent, RECENTS_MAX);
    map_init(&shard->reading, READS_MAX);
    list_init(&shard->waiting);
    list_init(&shard->unknown);
    list_init(&shard->keeping);
    list_init(&shard->touched);
    window_reset(shard);
}

void shard_touch(struct shard *shard)
{
    if (!shard->is_touched) {
        shard->is_touched = true;
        list_add(&shard->broker->touched, &shard->touched);
    }
}

bool shard_is_at_rest(const struct shard *shard)
{
    return shard->state == SHARD_IDLE && !shard->is_desired && !shard->has_znode &&
           list_is_empty(&shard->waiting);
}

bool shard_is_held(const struct shard *shard)
{
    return shard->state != SHARD_IDLE;
}

void shard_retry_at(struct shard *shard, boot_us at)
{
    shard->retry_at = at;
    shard->broker->retry_at = time_min(shard->broker->retry_at, at);
}

void shard_read_past_at(struct shard *shard, boot_us at)
{
    shard->past_at = at;
    shard->broker->retry_at = time_min(shard->broker->retry_at, at);
}

void shard_retry_later(struct shard *shard)
{
    shard_retry_at(shard, shard->broker->now.boot + shard->broker->options.retry_us);
}

bool shard_read(struct shard *shard, struct store_read *read, uint32_t *serial)
{
    struct store *store = shard->broker->env.store;

    read->database = shard->database;
    read->shard = shard->id;
    read->epoch = shard->epoch;
    read->owner = shard;
    *serial = shard->serial;
    if (store->read(store, read) == 0) {
        return true;
    }
    shard_retry_later(shard);
    return false;
}

static bool is_any(const struct shard *shard, const struct entry *entry)
{
    (void)shard;
    (void)entry;
    return true;
}

/* Free every entry; flights go adrift or end. */
static void drop_entries(struct shard *shard, bool keep)
{
    struct entry_walk walk = {UINT32_MAX, UINT32_MAX};
    size_t count; // 0 also if the shard was never initialised.

    while ((count = entry_collect(shard, &walk, is_any)) > 0) {
        for (size_t i = 0; i < count; i++) {
            struct entry *entry = shard->broker->collected[i];

            if (entry->flying) {
                claim_part(shard, entry, keep);
            }
            entry_free(shard, entry);
        }
        walk.looks = UINT32_MAX;
    }
    entry_index_fini(&shard->entries);
}

static void forget_claims(struct shard *shard)
{
    map_fini(&shard->inherited);
    mem_free(shard->claims);
    shard->claims = NULL;
    shard->claim_count = 0;
    shard->has_claims = false;
}

/* Forget everything that was true under this epoch. keep: we take it again ourselves. */
static void drop(struct shard *shard, bool keep)
{
    writer_cut(shard, keep);
    call_keep_drop(shard, keep);
    shard->serial++; // Replies that are still to come are stale.
    drop_entries(shard, keep);
    order_reset(shard);
    forget_claims(shard);
    window_reset(shard);
    audit_forget(shard);
    if (!keep) {
        recent_forget(shard);
        claim_clear_adrift(shard);
        call_abandon(shard);
    }
}

void shard_fini(struct shard *shard)
{
    list_init(&shard->waiting);
    list_init(&shard->unknown);
    list_init(&shard->keeping);
    drop_entries(shard, true);
    order_reset(shard);
    map_fini(&shard->adrift);
    forget_claims(shard);
    map_fini(&shard->gone);
    map_fini(&shard->reading);
    recent_forget(shard);
    mem_free(shard->look_ids);
    mem_free(shard->page_numbers);
    map_fini(&shard->parks);
}

/* To IDLE from wherever it is. */
static void let_go(struct shard *shard)
{
    if (shard->state == SHARD_IDLE) {
        return;
    }
    shard_move(shard, SHARD_IDLE);
    drop(shard, false);
    shard->epoch = 0;
    shard_retry_later(shard);
}

void shard_fenced(struct shard *shard)
{
    tell(shard->broker, "fenced", shard, 0, 0, 0);
    let_go(shard);
}

void shard_lost(struct shard *shard)
{
    shard->has_znode = false;
    let_go(shard);
    shard_retry_at(shard, shard->broker->now.boot);
    shard->serial++; // Whatever is in flight belongs to a life before this.
}

/* A new generation for what we hold. Somebody else may have owned it in between, so that the rows
 * tell nothing about our own writes any more. */
static void reacquire(struct shard *shard)
{
    shard_move(shard, SHARD_ACQUIRING);
    call_abandon_unknown(shard);
}

void shard_unknown(struct shard *shard)
{
    if (shard->state != SHARD_LOADING && shard->state != SHARD_ACTIVE &&
        shard->state != SHARD_DRAINING) {
        return; // A new epoch is on its way already, or nothing is ours.
    }
    tell(shard->broker, "unknown", shard, 0, 0, 0);
    if (shard->bump_count + 1 < EPOCH_BUMP_COUNT) {
        shard->bump_count++;
        shard_move(shard, SHARD_BUMPING);
    } else {
        reacquire(shard);
    }
    drop(shard, true);
}

/* Requests to the coordinator. */

static void acquired(struct shard *shard, const struct coord_request *request)
{
    struct broker *broker = shard->broker;

    if (request->result != 0 || request->generation < 1 || request->generation > GENERATION_MAX) {
        let_go(shard);
        // Somebody else's znode: its end is an event; the scan is for the event that gets lost.
        shard_retry_at(shard,
                       broker->now.boot +
                           (request->result == ERR_EXISTS ? SCAN_US : broker->options.retry_us));
        return;
    }
    shard->has_znode = true;
    shard->generation = request->generation;
    shard->since = broker->now.boot;
    shard->bump_count = 0;
    shard_move(shard, SHARD_BUMPING);
}

static void coord_done(struct coord_request *request)
{
    struct shard *shard = request->owner;
    bool is_fresh = shard->busy_serial == shard->serial;

    shard->is_busy = false;
    shard_touch(shard);
    if (request->kind == COORD_ACQUIRE && request->result == 0) {
        shard->has_znode = shard->broker->is_session;
    }
    if (request->kind == COORD_RELEASE && request->result == 0) {
        shard->has_znode = false;
    }
    if (!is_fresh) {
        return;
    }
    switch (shard->state) {
    case SHARD_ACQUIRING:
        acquired(shard, request);
        break;
    case SHARD_RELEASING:
        shard_move(shard, SHARD_IDLE);
        if (request->result != 0) {
            shard_retry_later(shard);
        }
        break;
    case SHARD_IDLE:
    case SHARD_BUMPING:
    case SHARD_LOADING:
    case SHARD_ACTIVE:
    case SHARD_DRAINING:
        UNREACHABLE(); // They ask for nothing, and a drop makes a request stale.
    }
}

static void note_done(struct coord_request *request)
{
    struct shard *shard = request->owner;

    shard->is_telling = false; // For people: whether it got there does not matter.
}

/* Write the present state into the owner znode. */
static void tell_state(struct shard *shard)
{
    struct broker *broker = shard->broker;

    if (shard->is_told || shard->is_telling || !broker->is_session) {
        return;
    }
    shard->is_told = true;
    shard->note = (struct coord_request){.kind = COORD_STATE,
                                         .shard = shard->id,
                                         .epoch = shard->epoch,
                                         .state = shard->state == SHARD_DRAINING ? COORD_DRAINING
                                                                                 : COORD_ACTIVE,
                                         .cb = note_done,
                                         .owner = shard};
    shard->is_telling = broker->env.coord->submit(broker->env.coord, &shard->note) == 0;
}

static void ask_coord(struct shard *shard, enum coord_request_kind kind)
{
    struct broker *broker = shard->broker;

    shard->coord =
        (struct coord_request){.kind = kind, .shard = shard->id, .cb = coord_done, .owner = shard};
    shard->busy_serial = shard->serial;
    shard->is_busy = broker->env.coord->submit(broker->env.coord, &shard->coord) == 0;
    if (!shard->is_busy) {
        shard_retry_later(shard);
    }
}

/* Requests to the store. */

static void bump_done(struct store_bump *bump)
{
    struct shard *shard = bump->owner;
    struct broker *broker = shard->broker;
    struct writer *writer = writer_of(shard);

    shard->is_busy = false;
    shard_touch(shard);
    if (shard->busy_serial != shard->serial || shard->state != SHARD_BUMPING) {
        return;
    }
    if (bump->result == 0) {
        writer->failing_since = 0;
        broker->stats.bumps++;
        shard->epoch = bump->epoch;
        shard->counter = 0;
        shard_move(shard, SHARD_LOADING);
    } else if (bump->result == ERR_FENCED) {
        tell(broker, "superseded", shard, 0, bump->epoch, 0);
        shard_fenced(shard);
        // Somebody newer, who has the znode too, or ZooKeeper has lost its versions: no hurry.
        shard_retry_at(shard, broker->now.boot + SCAN_US);
    } else {
        if (writer->failing_since == 0) {
            writer->failing_since = broker->now.boot;
        }
        // It may have committed, and then the same epoch would be refused: take the next one.
        shard->bump_count += bump->result == ERR_OUTCOME_UNKNOWN ? 1U : 0U;
        shard_retry_later(shard);
    }
}

static void ask_bump(struct shard *shard)
{
    struct broker *broker = shard->broker;

    if (shard->bump_count >= EPOCH_BUMP_COUNT) {
        reacquire(shard);
        return;
    }
    shard->bump =
        (struct store_bump){.database = shard->database,
                            .shard = shard->id,
                            .epoch = shard->generation * EPOCH_BUMP_COUNT + shard->bump_count,
                            .instance = broker->self.instance,
                            .cb = bump_done,
                            .owner = shard};
    shard->busy_serial = shard->serial;
    shard->is_busy = broker->env.store->bump(broker->env.store, &shard->bump) == 0;
    if (!shard->is_busy) {
        shard_retry_later(shard);
    }
}

/* Of several claims of one task the highest attempt counts, and of that the latest deadline. */
static int inherit(struct shard *shard, struct claim *claim)
{
    struct claim *other = map_find(&shard->inherited, (uint64_t)claim->id.seq);

    if (other == NULL) {
        return map_put(&shard->inherited, (uint64_t)claim->id.seq, claim);
    }
    if (claim->attempt > other->attempt) {
        *other = *claim;
    } else if (claim->attempt == other->attempt) {
        other->deadline_ms = time_max(other->deadline_ms, claim->deadline_ms);
    }
    return 0;
}

static int inherit_all(struct shard *shard, const struct store_read *read)
{
    shard->claims = mem_new(read->claim_count, sizeof(*shard->claims));
    if (shard->claims == NULL) {
        return ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < read->claim_count; i++) {
        shard->claims[i] = read->claims[i];
        shard->claim_count = i + 1;
        if (inherit(shard, &shard->claims[i]) != 0) {
            return ERR_NO_MEMORY;
        }
    }
    return 0;
}

static void claims_done(struct store_read *read)
{
    struct shard *shard = read->owner;

    shard->is_busy = false;
    shard_touch(shard);
    if (shard->busy_serial != shard->serial || shard->state != SHARD_LOADING) {
        return;
    }
    if (read->result == ERR_FENCED) {
        shard_fenced(shard);
    } else if (read->result != 0 || inherit_all(shard, read) != 0) {
        forget_claims(shard);
        shard_retry_later(shard);
    } else {
        shard->has_claims = true;
    }
}

static void ask_claims(struct shard *shard)
{
    shard->read = (struct store_read){.kind = STORE_READ_CLAIMS, .cb = claims_done};
    shard->is_busy = shard_read(shard, &shard->read, &shard->busy_serial);
}

void shard_on_page(struct shard *shard)
{
    if (shard->state == SHARD_LOADING) {
        shard_move(shard, SHARD_ACTIVE);
    }
    shard_touch(shard);
}

/* Draining. */

static bool may_leave(const struct shard *shard, const struct entry *entry)
{
    (void)shard;
    return entry->state == ENTRY_WAITING || entry->state == ENTRY_ASLEEP ||
           entry->state == ENTRY_READY || entry->state == ENTRY_CLAIMED;
}

/* Claims that have not started are given back; what is not claimed leaves memory. */
static void begin_drain(struct shard *shard)
{
    struct broker *broker = shard->broker;
    struct entry_walk walk = {UINT32_MAX, UINT32_MAX};
    size_t count;

    shard_move(shard, SHARD_DRAINING);
    shard->drain_until = broker->now.boot + DRAIN_US;
    writer_hurry(shard);
    while ((count = entry_collect(shard, &walk, may_leave)) > 0) {
        for (size_t i = 0; i < count; i++) {
            if (broker->collected[i]->state == ENTRY_CLAIMED) {
                claim_withdraw(shard, broker->collected[i]);
            } else {
                entry_free(shard, broker->collected[i]);
            }
        }
        walk.looks = UINT32_MAX;
    }
}

/* Whether an outcome still waits for room in the writer. */
static bool has_unsettled(const struct shard *shard)
{
    list_foreach (link, &shard->broker->databases[shard->database].unsettled) {
        if (CONTAINER_OF(link, struct entry, ready)->shard == shard->id) {
            return true;
        }
    }
    return false;
}

/* Who leaves last has nobody to tell how its attempts end: it keeps their shard until it knows. The
 * edge bounds how long that may take. */
static bool must_stay(const struct shard *shard)
{
    struct entry_iter iter = {0};
    const struct entry *entry;

    if (!shard->broker->is_draining || broker_has_heir(shard->broker, shard->database)) {
        return false;
    }
    while ((entry = entry_next(shard, &iter)) != NULL) {
        if (entry->state == ENTRY_RUNNING) {
            return true;
        }
    }
    return false;
}

/* Nothing moves while ZooKeeper is away: nobody could take what is let go. A process that ends has
 * no choice. */
static bool must_wait(const struct broker *broker)
{
    return broker->is_away && !broker->is_draining;
}

static void step_draining(struct shard *shard)
{
    bool is_waiting = shard->ops > 0 || has_unsettled(shard);

    if (must_wait(shard->broker)) {
        shard_unknown(shard); // It stays ours, under an epoch that counts nothing as given back.
        return;
    }
    if (shard->is_busy || (is_waiting && shard->broker->now.boot < shard->drain_until) ||
        must_stay(shard)) {
        return;
    }
    shard_move(shard, SHARD_RELEASING);
    drop(shard, false);
    shard->epoch = 0;
    ask_coord(shard, COORD_RELEASE);
}

static void step_active(struct shard *shard)
{
    struct broker *broker = shard->broker;

    if (!shard->is_desired && !must_wait(broker) &&
        (broker->is_draining || broker->leaving_count < MOVES_MAX)) {
        begin_drain(shard);
        return;
    }
    order_shard_step(shard);
    window_step(shard);
    if (!list_is_empty(&shard->waiting)) {
        call_wake(shard);
    }
    call_keep_step(shard);
    if (shard->is_loaded && map_count(&shard->adrift) > 0) {
        claim_clear_adrift(shard);
    }
}

static void step_idle(struct shard *shard)
{
    struct broker *broker = shard->broker;
    bool may_try = broker->now.boot >= shard->retry_at;

    if (!broker->is_session || shard->is_busy) {
        return;
    }
    if (shard->is_desired && may_try) {
        shard_move(shard, SHARD_ACQUIRING);
        ask_coord(shard, COORD_ACQUIRE);
    } else if (shard->has_znode &&
               (!shard->is_desired || (broker->cannot >> shard->database & 1U) != 0)) {
        shard_move(shard, SHARD_RELEASING);
        ask_coord(shard, COORD_RELEASE);
    }
}

/* The requests that the states before ACTIVE are waiting for, tried again when they failed. */
static void step_requests(struct shard *shard)
{
    if (shard->is_busy || shard->broker->now.boot < shard->retry_at) {
        return;
    }
    switch (shard->state) {
    case SHARD_ACQUIRING:
        ask_coord(shard, COORD_ACQUIRE);
        break;
    case SHARD_BUMPING:
        ask_bump(shard);
        break;
    case SHARD_LOADING:
        if (!shard->has_claims) {
            ask_claims(shard);
        }
        break;
    case SHARD_RELEASING:
        ask_coord(shard, COORD_RELEASE);
        break;
    case SHARD_ACTIVE:
    case SHARD_DRAINING:
        tell_state(shard);
        break;
    case SHARD_IDLE:
        break;
    }
}

void shard_step(struct shard *shard)
{
    call_expire(shard);
    switch (shard->state) {
    case SHARD_IDLE:
        step_idle(shard);
        break;
    case SHARD_LOADING:
        call_look(shard);
        order_shard_step(shard);
        window_step(shard);
        break;
    case SHARD_ACTIVE:
        step_active(shard);
        break;
    case SHARD_DRAINING:
        step_draining(shard);
        break;
    case SHARD_ACQUIRING:
    case SHARD_BUMPING:
    case SHARD_RELEASING:
        break;
    }
    step_requests(shard);
}
