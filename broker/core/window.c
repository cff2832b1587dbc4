/* SPDX-License-Identifier: Apache-2.0
 *
 * The loader.
 */
#include "broker/core/window.h"

#include "broker/core/claim.h"
#include "broker/core/dispatch.h"
#include "broker/core/entry.h"
#include "broker/core/shard.h"
#include "broker/core/task_life.h"
#include "lib/base/check.h"
#include "lib/base/err.h"

/* Least window when memory is short: one bucket of due times and what is left of this one. */
#define WINDOW_MS_MIN (INT64_C(1) << DUE_BUCKET_SHIFT)

/* Most ids that may leave memory during one page: beyond it the page is thrown away and read anew.
 */
#define GONE_MAX 65536U

/* Least page: with less room in memory than this none is asked for. */
#define PAGE_ROW_COUNT_MIN 64U

/* Order of places: bucket, then seq. */
static bool is_before(int64_t bucket, int64_t seq, int64_t other_bucket, int64_t other_seq)
{
    return bucket < other_bucket || (bucket == other_bucket && seq < other_seq);
}

void window_reset(struct shard *shard)
{
    shard->cursor_bucket = INT64_MIN;
    shard->cursor_seq = 0;
    shard->target = INT64_MIN;
    shard->is_loaded = false;
    shard->is_rewound = false;
    map_fini(&shard->gone);
}

bool window_has(const struct shard *shard, wall_ms due_ms, int64_t seq)
{
    int64_t bucket = due_bucket(due_ms);

    if (shard->is_paging && shard->page_serial == shard->serial &&
        bucket <= shard->page.to_bucket) {
        return true;
    }
    return !is_before(shard->cursor_bucket, shard->cursor_seq, bucket, seq);
}

/* Set the cursor back to a place if it is past it, also the one that a page in flight will bring.
 */
static void rewind_to(struct shard *shard, int64_t bucket, int64_t seq)
{
    if (is_before(bucket, seq, shard->cursor_bucket, shard->cursor_seq)) {
        shard->cursor_bucket = bucket;
        shard->cursor_seq = seq;
    }
    if (shard->is_paging &&
        (!shard->is_rewound || is_before(bucket, seq, shard->rewind_bucket, shard->rewind_seq))) {
        shard->is_rewound = true;
        shard->rewind_bucket = bucket;
        shard->rewind_seq = seq;
    }
    shard->is_loaded = false;
}

void window_rewind(struct shard *shard, wall_ms due_ms, int64_t seq)
{
    rewind_to(shard, due_bucket(due_ms), seq - 1);
    tell(shard->broker, "rewind", shard, seq, due_ms, 0);
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
    claim_join(entry, flight);
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
    // What we claimed and did not start is ours to give back; the claim of another, with the same
    // number, is not.
    if (flight != NULL && !flight->is_sent &&
        (flight->is_started || claim->row.writer == shard->broker->options.writer)) {
        rejoin(shard, entry, flight);
        return entry;
    }
    entry_move(entry, ENTRY_HELD);
    entry_wake_at(shard, entry, claim->deadline_ms);
    return entry;
}

/* Put one page away. False if memory ended; the cursor has then been set back. */
static bool take_rows(struct shard *shard, const struct store_read *page)
{
    for (size_t i = 0; i < page->row_count; i++) {
        const struct task *row = &page->rows[i];
        struct entry *entry;

        if (entry_find(shard, row->id.seq) != NULL ||
            map_find(&shard->gone, (uint64_t)row->id.seq) != NULL) {
            continue; // Memory is newer than the snapshot.
        }
        entry = window_take(shard, row);
        if (entry == NULL) {
            window_rewind(shard, row->due_ms, row->id.seq);
            return false;
        }
        if (entry->state == ENTRY_VISITING) {
            entry_place(shard, entry);
        }
    }
    return true;
}

static void advance_cursor(struct shard *shard, const struct store_read *page)
{
    shard->cursor_bucket = page->to_bucket;
    shard->cursor_seq = INT64_MAX;
    if (page->has_more) {
        const struct task *last = &page->rows[page->row_count - 1];

        shard->cursor_bucket = due_bucket(last->due_ms);
        shard->cursor_seq = last->id.seq;
    }
}

static void page_done(struct store_read *page)
{
    struct shard *shard = page->owner;
    bool is_fresh = shard->page_serial == shard->serial;
    int result = page->result;

    if (is_fresh && result == 0) {
        (void)take_rows(shard, page);
        advance_cursor(shard, page);
    }
    shard->is_paging = false;
    map_fini(&shard->gone);
    if (is_fresh && result == 0) {
        if (shard->is_rewound) {
            shard->is_rewound = false;
            rewind_to(shard, shard->rewind_bucket, shard->rewind_seq);
        }
        tell(shard->broker, "page", shard, shard->cursor_seq, (int64_t)page->row_count,
             shard->cursor_bucket);
        shard_on_page(shard);
    } else if (is_fresh && result == ERR_FENCED) {
        shard_fenced(shard);
    } else if (is_fresh) {
        shard_retry_later(shard);
    }
    window_step(shard);
}

static bool wants_page(const struct shard *shard)
{
    // Callers whose write is unknown are answered by what the rows say before any of them moves on.
    bool may_load = shard->state == SHARD_ACTIVE ||
                    (shard->state == SHARD_LOADING && list_is_empty(&shard->unknown));

    return may_load && !shard->is_paging && shard->has_claims &&
           shard->broker->now.boot >= shard->retry_at;
}

void window_step(struct shard *shard)
{
    struct broker *broker = shard->broker;
    struct store_read *page = &shard->page;
    size_t room = pool_left(&broker->entries);

    if (broker->now.database[shard->database].lower_us == INT64_MIN || !wants_page(shard)) {
        return; // Without a clock nobody knows what is near.
    }
    shard->target = time_max(
        shard->target, due_bucket(time_add(lower_ms(broker, shard->database), broker->window_ms)));
    shard->is_loaded =
        !is_before(shard->cursor_bucket, shard->cursor_seq, shard->target, INT64_MAX);
    if (shard->is_loaded) {
        return;
    }
    if (room < PAGE_ROW_COUNT_MIN) {
        if (shard->state == SHARD_LOADING) {
            shard_on_page(shard); // Others fill the memory: it serves calls meanwhile.
        }
        return;
    }
    *page = (struct store_read){.kind = STORE_READ_SLICE,
                                .database = shard->database,
                                .shard = shard->id,
                                .epoch = shard->epoch,
                                .after_bucket = shard->cursor_bucket,
                                .after_seq = shard->cursor_seq,
                                .to_bucket = shard->target,
                                .limit = (uint32_t)time_min((int64_t)room, SLICE_ROW_COUNT_MAX),
                                .cb = page_done,
                                .owner = shard};
    shard->page_serial = shard->serial;
    shard->is_rewound = false;
    map_init(&shard->gone, GONE_MAX);
    // The horizon rises now, when the read is sent, not when it is answered.
    shard->is_paging = broker->env.store->read(broker->env.store, page) == 0;
    if (!shard->is_paging) {
        shard_retry_later(shard);
    }
}

/* Let go of what is due after a bucket. Only quiet entries: a claim is never forgotten. */
static void evict_after(struct shard *shard, int64_t bucket)
{
    struct broker *broker = shard->broker;
    size_t count;

    do {
        struct map_iter iter = {0};
        struct entry *entry;

        count = 0;
        while (count < ARRAY_COUNT(broker->evicted) &&
               (entry = map_next(&shard->entries, &iter)) != NULL) {
            if (entry->state == ENTRY_WAITING && due_bucket(entry->due_ms) > bucket) {
                broker->evicted[count++] = entry;
            }
        }
        for (size_t i = 0; i < count; i++) {
            entry_free(shard, broker->evicted[i]);
        }
    } while (count == ARRAY_COUNT(broker->evicted));
    rewind_to(shard, bucket, INT64_MAX);
    shard->target = time_min(shard->target, bucket);
}

void window_adapt(struct broker *broker)
{
    uint32_t max = broker->options.entry_count_max;
    size_t used = pool_used(&broker->entries);

    if (used < max / 2 && broker->window_ms < broker->options.window_ms) {
        broker->window_ms = time_min(broker->window_ms * 2, broker->options.window_ms);
        return;
    }
    if (used < max - max / 8 || broker->window_ms <= WINDOW_MS_MIN) {
        return;
    }
    broker->window_ms = time_max(broker->window_ms / 2, WINDOW_MS_MIN);
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        struct shard *shard = &broker->shards[i];

        if (shard->state == SHARD_LOADING || shard->state == SHARD_ACTIVE) {
            evict_after(shard,
                        due_bucket(time_add(lower_ms(broker, shard->database), broker->window_ms)));
        }
    }
}
