/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader.
 */
#include "broker/core/window.h"

#include "broker/core/claim.h"
#include "broker/core/dispatch.h"
#include "broker/core/entry.h"
#include "broker/core/line.h"
#include "broker/core/order.h"
#include "broker/core/park.h"
#include "broker/core/shard.h"
#include "broker/core/shed.h"
#include "broker/core/sleep.h"
#include "broker/core/task_life.h"
#include "broker/core/writer.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

/* Most ids that may leave memory during one page: beyond it the page is thrown away and read anew.
 */
#define GONE_MAX 65536U

/* Least page: with less room in memory than this none is asked for. */
#define PAGE_ROW_COUNT_MIN 64U

/* Buckets before the present one that are near: what came due while nobody served the shard is. */
#define NEAR_BUCKETS 1

/* What is past waits so long, so that of shards that move together the near rows of all are read
 * first. */
#define PAST_WAIT_US US_PER_S

/* Places are whole numbers: the one before. */
static struct place before(struct place place)
{
    return (struct place){place.bucket, place.seq - 1};
}

void window_reset(struct shard *shard)
{
    shard->split = shard->cursor = shard->past = (struct place){INT64_MIN, 0};
    shard->target = INT64_MIN;
    shard->past_at = 0;
    shard->is_past_waiting = false;
    shard->failing_since[false] = shard->failing_since[true] = 0;
    shard->is_loaded = false;
    shard->is_rewound = false;
    shard->was_parked = false;
    park_free_all(shard);
    map_fini(&shard->gone);
}

/* Whether a place is in the shard's past, and whether a cursor is: what is right behind it. */
static bool lies_in_past(const struct shard *shard, struct place place)
{
    return !place_is_before(shard->split, place);
}

static bool reads_past(const struct shard *shard, struct place cursor)
{
    return place_is_before(cursor, shard->split);
}

const struct park *window_park_at(const struct shard *shard, uint32_t queue, struct place place)
{
    const struct park *park = park_find(shard, queue);

    return park != NULL && lies_in_past(shard, place) && !reads_past(shard, park->cursor) ? NULL
                                                                                          : park;
}

/* The shard's own cursor in one of its two parts. */
static struct place *own_cursor(struct shard *shard, bool of_past)
{
    return of_past ? &shard->past : &shard->cursor;
}

/* Whether the page in flight is for a park, or, NULL, for one of the shard's own parts. */
static bool is_read_for(const struct shard *shard, const struct park *park, bool of_past)
{
    return shard->is_paging && shard->page_serial == shard->serial && shard->page_park == park &&
           (park != NULL || shard->is_page_past == of_past);
}

bool window_is_ahead(const struct shard *shard, struct place place)
{
    return place_is_before(lies_in_past(shard, place) ? shard->past : shard->cursor, place);
}

bool window_has(const struct shard *shard, uint32_t queue, wall_ms due_ms, int64_t seq)
{
    struct place place = place_at(due_ms, seq);
    const struct park *park = window_park_at(shard, queue, place);

    if (is_read_for(shard, park, lies_in_past(shard, place)) &&
        place.bucket <= shard->page.to_bucket) {
        return true;
    }
    return park == NULL ? !window_is_ahead(shard, place) : !place_is_before(park->cursor, place);
}

/* Set a cursor back to a place if it is past it, also when a page in flight will bring it there. */
static void set_back(struct shard *shard, struct place *cursor, bool is_read, struct place place)
{
    if (place_is_before(place, *cursor)) {
        *cursor = place;
    }
    if (is_read && (!shard->is_rewound || place_is_before(place, shard->rewind))) {
        shard->is_rewound = true;
        shard->rewind = place;
    }
}

/* Set back the cursor of a park, or, NULL, of the shard's own part. */
static void rewind_to(struct shard *shard, struct park *park, struct place place)
{
    bool of_past = reads_past(shard, place);

    if (of_past && park != NULL && !reads_past(shard, park->cursor) &&
        place_is_before(shard->past, place)) {
        place = shard->past; // Behind it nothing of its queue need be in memory.
    }
    set_back(shard, park == NULL ? own_cursor(shard, of_past) : &park->cursor,
             is_read_for(shard, park, of_past), place);
    shard->is_loaded = shard->is_loaded && (park != NULL || of_past);
}

void window_rewind(struct shard *shard, uint32_t queue, wall_ms due_ms, int64_t seq)
{
    rewind_to(shard, park_find(shard, queue), before(place_at(due_ms, seq)));
    tell(shard->broker, "rewind", shard, seq, due_ms, 0);
}

/* Leave a queue's rows behind a place to the database. False: no memory to remember that. */
static bool park(struct shard *shard, struct queue_state *queue, struct place place)
{
    struct park *park = park_find(shard, queue->queue.id);

    if (park == NULL) {
        // Never past the shard's own: what is behind that has not been read.
        park = park_new(shard, queue, shard->cursor);
    }
    if (park == NULL) {
        return false;
    }
    rewind_to(shard, park, place);
    return true;
}

bool window_park(struct shard *shard, struct entry *entry)
{
    wall_ms due_ms = entry_due_ms(entry);

    if (!park(shard, entry_queue(shard->broker, entry), before(place_at(due_ms, entry->seq)))) {
        return false;
    }
    tell(shard->broker, "park", shard, entry->seq, due_ms, 0);
    entry_free(shard, entry);
    return true;
}

void window_forget(struct shard *shard, int64_t seq)
{
    if (!shard->is_paging || shard->page_serial != shard->serial ||
        map_find(&shard->gone, (uint64_t)seq) != NULL) {
        return;
    }
    if (map_put(&shard->gone, (uint64_t)seq, shard) != 0) {
        shard->page_serial = shard->serial - 1; // Cannot remember: the page in flight is void.
    }
}

/* A flight of ours has lost its entry to a drop and finds its task again. */
static void rejoin(struct shard *shard, struct entry *entry, struct flight *flight)
{
    (void)map_del(&shard->adrift, (uint64_t)entry->seq);
    flight->is_adrift = false;
    claim_join(shard, entry, flight);
    if (!flight->is_started) {
        // Claimed by us and never handed out: nobody else can have started it.
        flight->is_ended = true;
        flight->attempt.outcome = OUTCOME_NOT_STARTED;
        entry_move(entry, ENTRY_HELD);
        claim_settle(shard, entry);
        return;
    }
    entry_move(entry, ENTRY_RUNNING);
    if (flight->is_ended) {
        dispatch_ended(shard, entry); // An unknown outcome holds the claim until its deadline.
    }
}

struct entry *window_take(struct shard *shard, const struct task *row)
{
    struct entry *entry = entry_new(shard, row);
    const struct claim *claim;
    struct flight *flight;
    bool is_live;

    if (entry == NULL) {
        return NULL;
    }
    claim = map_find(&shard->inherited, (uint64_t)row->id.seq);
    flight = map_find(&shard->adrift, (uint64_t)row->id.seq);
    is_live = claim != NULL && claim->attempt > row->attempt;
    if (flight != NULL && !(is_live && flight->attempt.attempt == claim->attempt)) {
        // Of an attempt that is over: a later one with its number must not find it here.
        (void)map_del(&shard->adrift, (uint64_t)row->id.seq);
        flight->is_adrift = false;
        flight_check(shard->broker, flight);
        flight = NULL;
    }
    if (!is_live) {
        return entry;
    }
    if (!order_hold(shard, entry)) {
        entry_free(shard, entry);
        return NULL;
    }
    // What we claimed and did not start is ours to give back; the claim of another, with the same
    // number, is not.
    if (flight != NULL && !flight->is_sent &&
        (flight->is_started || writer_wrote(shard->broker, claim->row))) {
        rejoin(shard, entry, flight);
        return entry;
    }
    entry_move(entry, ENTRY_HELD);
    entry_wake_at(shard, entry, claim->deadline_ms);
    return entry;
}

/* Whether something of a row is under way, so that it must not wait for its queue's turn. */
static bool is_claimed(const struct shard *shard, const struct task *row)
{
    const struct claim *claim = map_find(&shard->inherited, (uint64_t)row->id.seq);

    return (claim != NULL && claim->attempt > row->attempt) ||
           map_find(&shard->adrift, (uint64_t)row->id.seq) != NULL;
}

/* A row that would only lengthen a line that is long enough. */
static bool is_superfluous(const struct shard *shard, const struct task *row)
{
    const struct broker *broker = shard->broker;
    const struct queue_state *queue = map_find(&broker->queue_index, row->queue);

    return queue != NULL && queue->line_len >= line_load_max(broker, queue) &&
           row->due_ms <= lower_ms(broker, shard->database) && !is_claimed(shard, row);
}

/* Leave a row that is not in memory, and those of its queue behind it, to the database. */
static bool leave(struct shard *shard, const struct task *row)
{
    return park(shard, map_find(&shard->broker->queue_index, row->queue),
                before(place_at(row->due_ms, row->id.seq)));
}

bool window_leave_early(struct shard *shard, const struct task *row)
{
    const struct broker *broker = shard->broker;
    wall_ms now_ms = lower_ms(broker, shard->database);
    const struct queue_state *queue;

    if (row->due_ms <= now_ms) {
        return false;
    }
    queue = map_find(&broker->queue_index, row->queue);
    return queue != NULL &&
           shed_room(broker, queue, due_bucket(row->due_ms) > due_bucket(now_ms)) == 0 &&
           leave(shard, row);
}

/* A row that is due goes into its line at once: that is what the line is measured by. */
static void put_away(struct shard *shard, struct entry *entry)
{
    struct broker *broker = shard->broker;
    uint32_t queue = entry_queue(broker, entry)->queue.id;

    if (entry->due_ms > lower_ms(broker, shard->database) || shard->state == SHARD_DRAINING ||
        !window_has(shard, queue, entry->due_ms, entry->seq)) {
        entry_place(shard, entry);
        return;
    }
    entry_move(entry, ENTRY_WAITING);
    entry_move(entry, ENTRY_READY);
    list_init(&entry->ready);
    line_add(broker, entry);
}

/* Whether a row has only to wait for its time. */
static bool may_come_asleep(const struct shard *shard, const struct task *row)
{
    return shard->state != SHARD_DRAINING && !is_claimed(shard, row) &&
           window_has(shard, row->queue, row->due_ms, row->id.seq);
}

/* Put one row of a page away. False: the page ends before it, and the page's own cursor has been
 * set back, so that none of its other rows is lost. */
static bool take_row(struct shard *shard, const struct store_read *page, const struct task *row)
{
    struct place place = place_at(row->due_ms, row->id.seq);
    const struct park *parked = park_find(shard, row->queue);
    struct entry *entry;

    if (entry_peek(shard, row->id.seq) != NULL ||
        map_find(&shard->gone, (uint64_t)row->id.seq) != NULL) {
        return true; // Memory is newer than the snapshot.
    }
    if (page->queue == 0 && parked != NULL && place_is_before(parked->cursor, place) &&
        !is_claimed(shard, row)) {
        return true; // It waits in the database: parked since the page was asked for.
    }
    if ((is_superfluous(shard, row) && leave(shard, row)) ||
        (shed_is_short(shard->broker) && !is_claimed(shard, row) &&
         window_leave_early(shard, row))) {
        return page->queue == 0;
    }
    if (may_come_asleep(shard, row) && sleep_new(shard, row)) {
        return true;
    }
    entry = window_take(shard, row);
    if (entry == NULL) {
        // Both, for its queue may have been parked since the page was asked for.
        window_rewind(shard, row->queue, row->due_ms, row->id.seq);
        rewind_to(shard, shard->page_park, before(place));
        if (entry_room(shard->broker) > 0) {
            shard_retry_later(shard); // What is short is not what the next page waits for.
        }
        return false;
    }
    if (entry->state == ENTRY_VISITING) {
        put_away(shard, entry);
    }
    return true;
}

/* Whether the page in flight is of what the shard is now, and nothing of it was forgotten. */
static bool is_page_fresh(const struct shard *shard)
{
    return shard->page_serial == shard->serial;
}

/* False: what was let go of meanwhile could not be remembered, and the page is void from there on.
 */
static bool take_rows(struct shard *shard, const struct store_read *page)
{
    bool goes_on = true;

    for (size_t i = 0; i < page->row_count && goes_on; i++) {
        goes_on = take_row(shard, page, &page->rows[i]) && is_page_fresh(shard);
    }
    return is_page_fresh(shard);
}

/* Where a page has brought its cursor. */
static struct place page_end(const struct store_read *page)
{
    const struct task *last = page->row_count == 0 ? NULL : &page->rows[page->row_count - 1];

    REQUIRE(last != NULL || !page->has_more);
    return page->has_more ? place_at(last->due_ms, last->id.seq)
                          : (struct place){page->to_bucket, INT64_MAX};
}

/* All rows of a page have been put away, or the cursor was set back. */
static void advance(struct shard *shard, struct park *park, const struct store_read *page)
{
    struct place end = page_end(page);

    if (shard->is_rewound && place_is_before(shard->rewind, end)) {
        end = shard->rewind;
    }
    if (park == NULL) {
        *own_cursor(shard, shard->is_page_past) = end;
    } else if (place_is_before(end, shard->cursor)) {
        park->cursor = end;
    } else {
        tell(shard->broker, "unpark", shard, 0, end.bucket, park->queue->queue.id);
        park_free(park); // It is where the shard is.
    }
}

/* A page of what is past has ended: it is another shard's turn, if one waits. */
static void pass_past_on(struct shard *shard)
{
    struct broker *broker = shard->broker;
    uint32_t count = broker->options.cluster.shard_count;

    broker->databases[shard->database].is_reading_past = false;
    broker->databases[shard->database].past_pages++;
    for (uint32_t i = 1; i <= count; i++) {
        struct shard *next = &broker->shards[(shard->id + i) % count];

        if (next->database == shard->database && next->is_past_waiting) {
            shard_touch(next); // It waits until it has asked for its page.
            return;
        }
    }
}

static void page_done(struct store_read *page)
{
    struct shard *shard = page->owner;
    struct park *park = shard->page_park;
    bool is_fresh = is_page_fresh(shard);
    int result = page->result;

    if (is_fresh && result == 0) {
        if (take_rows(shard, page)) {
            advance(shard, park, page);
        } else {
            result = ERR_NO_MEMORY; // The cursor stays, and the page is asked for again.
        }
    }
    shard->is_paging = false;
    if (shard->is_page_past) {
        pass_past_on(shard);
    }
    shard->is_rewound = false;
    shard->was_parked = park != NULL;
    shard->page_park = NULL;
    mem_free(shard->page_numbers);
    shard->page_numbers = NULL;
    if (shard->page_queue != NULL) {
        shard->page_queue->reading -= page->limit;
    }
    map_fini(&shard->gone);
    if (is_fresh && result == 0) {
        const struct place *cursor = own_cursor(shard, shard->is_page_past);

        tell(shard->broker, shard->is_page_past ? "past" : "page", shard, cursor->seq,
             (int64_t)page->row_count, cursor->bucket);
        if (park == NULL) {
            shard->failing_since[shard->is_page_past] = 0;
        }
        shard_on_page(shard);
    } else if (is_fresh && result == ERR_FENCED) {
        shard_fenced(shard);
    } else if (is_fresh) {
        if (park == NULL && shard->failing_since[shard->is_page_past] == 0) {
            shard->failing_since[shard->is_page_past] = shard->broker->now.boot;
        }
        shard_retry_later(shard);
        if (shard->is_page_past) {
            // Behind a page of its parks, which wait as long.
            shard_read_past_at(shard,
                               shard->broker->now.boot + 2 * shard->broker->options.retry_us);
        }
    }
    shard_touch(shard); // The next page.
}

static bool wants_page(const struct shard *shard)
{
    // Callers whose write is unknown are answered by what the rows say before any of them moves on.
    bool may_load = shard->state == SHARD_ACTIVE ||
                    (shard->state == SHARD_LOADING && list_is_empty(&shard->unknown));

    return may_load && !shard->is_paging && shard->has_claims &&
           shard->broker->now.boot >= shard->retry_at &&
           shard->broker->now.database[shard->database].lower_us != INT64_MIN;
}

/* Ask for a page of a park's queue, or, NULL, of one part of all that are not parked. */
static void send_page(struct shard *shard, struct park *park, bool of_past, uint32_t limit)
{
    struct store_read *page = &shard->page;
    struct place from = park == NULL ? *own_cursor(shard, of_past) : park->cursor;

    *page = (struct store_read){.kind = STORE_READ_SLICE,
                                .after_bucket = from.bucket,
                                .after_seq = from.seq,
                                .to_bucket = of_past ? shard->split.bucket : shard->target,
                                .limit = limit,
                                .queue = park == NULL ? 0 : park->queue->queue.id,
                                .cb = page_done};
    // Also if it is refused: then it has come to nothing.
    shard->page_count[of_past] += park == NULL ? 1 : 0;
    if (park == NULL &&
        park_numbers(shard, of_past ? shard->split : place_end, page, &shard->page_numbers) != 0) {
        shard_retry_later(shard);
        return;
    }
    shard->page_park = park;
    shard->page_queue = park == NULL ? NULL : park->queue;
    shard->is_page_past = of_past;
    shard->is_rewound = false;
    map_init(&shard->gone, GONE_MAX);
    // The horizon rises now, when the read is sent, not when it is answered.
    shard->is_paging = shard_read(shard, page, &shard->page_serial);
    if (!shard->is_paging) {
        mem_free(shard->page_numbers);
        shard->page_numbers = NULL;
        return;
    }
    if (park != NULL) {
        park->queue->reading += limit;
    }
}

/* How many rows of a queue a page from a place on may bring. What lies before the present bucket is
 * due, and leaves memory as soon as its line allows: it may have what is kept for others, too. */
static size_t room_behind(const struct shard *shard, const struct queue_state *queue,
                          struct place place)
{
    const struct broker *broker = shard->broker;
    int64_t present = due_bucket(lower_ms(broker, shard->database));

    if (place_is_before(place, (struct place){present - 1, INT64_MAX})) {
        return entry_room(broker);
    }
    return shed_room(broker, queue, !place_is_before(place, (struct place){present, INT64_MAX}));
}

/* Whether rows of a queue from a place on need not be read. */
static bool is_full(const struct shard *shard, const struct queue_state *queue, struct place place)
{
    return (queue->line_len > 0 && queue->line_len >= line_load_max(shard->broker, queue)) ||
           (shed_is_short(shard->broker) && room_behind(shard, queue, place) == 0);
}

/* Park here, where the shard stands in one part, the queues whose lines are full, or that crowd
 * memory: their rows would only be read to be left out. */
static void park_full(struct shard *shard, bool of_past)
{
    struct broker *broker = shard->broker;

    for (uint32_t i = 0; i < broker->queue_count; i++) {
        struct queue_state *queue = broker->queues[i];

        if (is_full(shard, queue, *own_cursor(shard, of_past)) &&
            !park(shard, queue, *own_cursor(shard, of_past))) {
            return;
        }
    }
}

static void raise_target(struct shard *shard)
{
    struct broker *broker = shard->broker;

    shard->target = time_max(
        shard->target, due_bucket(time_add(lower_ms(broker, shard->database), broker->window_ms)));
}

/* Nothing has been read: what is near comes first. Rows that have ended since the oldest snapshot
 * stand before it in the index, perhaps millions, and nobody must wait for a walk past them. */
static void split_off_past(struct shard *shard)
{
    struct broker *broker = shard->broker;

    if (shard->split.bucket == INT64_MIN) {
        shard->split = (struct place){
            due_bucket(lower_ms(broker, shard->database)) - NEAR_BUCKETS - 1, INT64_MAX};
        shard->cursor = shard->split;
        if (shard->bump_count == 0) { // Else it was ours all along, and moves with no other.
            shard_read_past_at(shard, broker->now.boot + PAST_WAIT_US);
        }
    }
}

/* Whether it is the turn of what is past: when what is near is in memory, or, while memory is too
 * short for that, what is due until the present bucket ends, by turns. */
static bool may_read_past(const struct shard *shard)
{
    bool has_present = shard->cursor.bucket > due_bucket(lower_ms(shard->broker, shard->database));

    return shard->state == SHARD_ACTIVE && shard->broker->now.boot >= shard->past_at &&
           reads_past(shard, shard->past) &&
           (shard->is_loaded || (has_present && !shard->is_page_past));
}

/* Read on in what is past. False: it has to wait. */
static bool read_past(struct shard *shard, uint32_t limit)
{
    struct database *database = &shard->broker->databases[shard->database];
    bool may_read = may_read_past(shard);

    shard->is_past_waiting = may_read && database->is_reading_past;
    if (!may_read || shard->is_past_waiting) {
        return false;
    }
    park_full(shard, true);
    send_page(shard, NULL, true, limit);
    database->is_reading_past = shard->is_paging;
    return true;
}

void window_step(struct shard *shard)
{
    size_t room = entry_room(shard->broker);
    uint32_t limit = (uint32_t)time_min((int64_t)room, SLICE_ROW_COUNT_MAX);

    if (!wants_page(shard)) {
        return; // Without a clock nobody knows what is near.
    }
    raise_target(shard);
    split_off_past(shard);
    shard->is_loaded = !place_is_before(shard->cursor, (struct place){shard->target, INT64_MAX});
    if (room < PAGE_ROW_COUNT_MIN) {
        if (shard->state == SHARD_LOADING && !shard->is_loaded) {
            shard_on_page(shard); // Others fill the memory: it serves calls meanwhile.
        }
        return;
    }
    if (read_past(shard, limit) || shard->is_loaded) {
        return;
    }
    park_full(shard, false);
    send_page(shard, NULL, false, limit);
}

/* A shard's own pages and those of its parks take turns. */
static bool may_refill(const struct shard *shard)
{
    return wants_page(shard) && (shard->is_loaded || !shard->was_parked);
}

/* Read on for a queue whose line has become short. */
static void refill(struct broker *broker, struct queue_state *queue)
{
    int64_t max = line_load_max(broker, queue);

    while (queue->line_len + queue->reading <= max / 2) {
        struct park *park = park_first(queue, may_refill);
        int64_t room =
            park == NULL ? 0
                         : (int64_t)room_behind(park->shard, queue, park->cursor) - queue->reading;
        int64_t wanted = max - queue->line_len - queue->reading;

        if (room < PAGE_ROW_COUNT_MIN) {
            return; // Parks that come behind it have no more, in the same database.
        }
        raise_target(park->shard);
        send_page(
            park->shard, park, false,
            (uint32_t)time_min(room, time_clamp(wanted, PAGE_ROW_COUNT_MIN, SLICE_ROW_COUNT_MAX)));
    }
}

void window_refill(struct broker *broker)
{
    if (pool_used(&broker->parks) == 0) {
        return;
    }
    for (uint32_t i = 0; i < broker->queue_count; i++) {
        if (!list_is_empty(&broker->queues[i]->parks)) {
            refill(broker, broker->queues[i]);
        }
    }
}

/* Set all cursors back. */
static void rewind_all(struct shard *shard, struct place place)
{
    struct map_iter iter = {0};
    struct park *parked;

    rewind_to(shard, NULL, place);
    if (reads_past(shard, place)) {
        rewind_to(shard, NULL, shard->split);
    }
    while ((parked = map_next(&shard->parks, &iter)) != NULL) {
        rewind_to(shard, parked, place);
    }
}

void window_reload(struct shard *shard)
{
    rewind_all(shard, (struct place){INT64_MIN, 0});
    tell(shard->broker, "reload", shard, 0, 0, 0);
    shard_retry_later(shard); // Memory is short.
}

void window_shrink(struct shard *shard, int64_t bucket)
{
    rewind_all(shard, (struct place){bucket, INT64_MAX});
    shard->target = time_min(shard->target, bucket);
}

bool window_is_paging(const struct shard *shard, bool of_past)
{
    return shard->is_paging && shard->page_park == NULL && shard->is_page_past == of_past;
}

uint32_t window_pages_ended(const struct shard *shard, bool of_past)
{
    return shard->page_count[of_past] - (window_is_paging(shard, of_past) ? 1 : 0);
}
