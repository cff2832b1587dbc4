/* SPDX-License-Identifier: Apache-2.0
 *
 * Order keys.
 */
#include "broker/core/order.h"

#include "broker/core/entry.h"
#include "broker/core/reading.h"
#include "broker/core/shard.h"
#include "broker/core/window.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

/* Rows of one read: the head, and whether there are others. */
#define ROW_COUNT 2

/* Structs at rest that are looked at to find one that may be forgotten. */
#define TRIES_MAX 16

/* Order keys that are read for at once in a database. More would only lengthen the way of all other
 * reads, of pages and of calls: a store has a few in hand at a time. */
#define READING_MAX 512U

/* Order keys that one tick looks at: more wait for the next. */
#define LOOKS_PER_TICK 4096U

/* --- finding ---------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct broker *broker, uint32_t queue, struct slice key)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325) ^ broker->env.seed ^ queue;

    for (size_t i = 0; i < key.len; i++) {
        hash = (hash ^ key.data[i]) * UINT64_C(0x100000001B3);
    }
    return hash;
}

static struct slice key_of(const struct order_line *line)
{
    return (struct slice){line->key, line->key_len};
}

static struct order_line *find(const struct shard *shard, uint32_t queue, struct slice key)
{
    struct order_line *line = map_find(&shard->orders, hash_of(shard->broker, queue, key));

    while (line != NULL && (line->queue->queue.id != queue || !slice_equal(key_of(line), key))) {
        line = line->next;
    }
    return line;
}

static struct order_line *find_of(const struct shard *shard, const struct entry *entry)
{
    return find(shard, entry_queue(shard->broker, entry)->queue.id,
                block_order_key(entry_block(entry)));
}

/* Whether an attempt of the head is claimed, may run, or has not been settled yet. */
static bool is_out(const struct order_line *line)
{
    const struct entry *head = line->head == 0 ? NULL : entry_peek(line->shard, line->head);

    if (head == NULL) {
        return false;
    }
    switch ((enum entry_state)head->state) {
    case ENTRY_INSERTING:
    case ENTRY_CLAIMING:
    case ENTRY_CLAIMED:
    case ENTRY_RUNNING:
    case ENTRY_HELD:
    case ENTRY_SETTLING:
        return true;
    case ENTRY_CHANGING:
    case ENTRY_DELETING:
        return head->flying != 0; // The claim is over when that write is.
    case ENTRY_WAITING:
    case ENTRY_ASLEEP:
    case ENTRY_READY:
    case ENTRY_VISITING:
        break;
    }
    return false;
}

static bool is_before(wall_ms order_ms, int64_t seq, const struct order_line *line)
{
    return order_ms < line->head_ms || (order_ms == line->head_ms && seq < line->head);
}

/* --- making and forgetting -------------------------------------------------------------------- */

static void unlink_line(struct order_line *line)
{
    struct map *orders = &line->shard->orders;
    struct order_line *first = map_find(orders, line->hash);

    if (first != line) {
        while (first->next != line) {
            first = first->next;
        }
        first->next = line->next;
    } else if (line->next != NULL) {
        REQUIRE(map_change(orders, line->hash, line->next) == 0);
    } else {
        (void)map_del(orders, line->hash);
    }
}

/* Whether it is to be read for; at the end of its list. shape: it was not so before. */
static void set_asking(struct order_line *line, bool is_asking)
{
    struct broker *broker = line->shard->broker;

    line->is_asking = is_asking;
    if (is_asking) {
        broker->orders_asking_count++;
    } else {
        broker->orders_asking_count--;
    }
    list_del(&line->link);
    list_add(is_asking ? &broker->orders_asking : &broker->orders_idle, &line->link);
}

/* One that is being read for is given back by its reply. */
static void release(struct broker *broker, struct order_line *line)
{
    broker->orders_asking_count -= line->is_asking ? 1 : 0;
    list_del(&line->link);
    line->queue->orders--;
    if (line->is_reading) {
        list_init(&line->link);
        line->is_orphan = true;
    } else {
        pool_give(&broker->orders, line);
    }
}

static void line_free(struct order_line *line)
{
    unlink_line(line);
    release(line->shard->broker, line);
}

/* Whether all inherited claims that hold an order key are known: no head is read before. */
static bool has_seen_claims(const struct shard *shard)
{
    return shard->has_claims && shard->claims_seen == shard->claim_count;
}

/* Nothing depends on it: should the head end, or another one come up, it is made again. One that
 * waits for the claims of its shard to be seen must not keep out what they need: rows behind it are
 * read again after that. */
static bool may_forget(const struct order_line *line)
{
    return !line->is_reading && line->hold_ms == 0 && !is_out(line) &&
           (!line->is_asking || !has_seen_claims(line->shard));
}

/* Room for one more, in one of the two lists: those that have been there for longest are asked
 * first. */
static bool make_room(struct list *list)
{
    struct list *link = list->next;

    for (int i = 0; i < TRIES_MAX && link != list; i++) {
        struct order_line *line = CONTAINER_OF(link, struct order_line, link);

        link = link->next;
        if (may_forget(line)) {
            line->shard->is_order_short = line->shard->is_order_short || line->is_asking;
            line_free(line);
            return true;
        }
        list_del(&line->link);
        list_add(list, &line->link);
    }
    return false;
}

static struct order_line *line_new(struct shard *shard, struct queue_state *queue, struct slice key)
{
    struct broker *broker = shard->broker;
    uint64_t hash = hash_of(broker, queue->queue.id, key);
    struct order_line *line;
    struct order_line *first;

    REQUIRE(key.len > 0 && key.len <= sizeof(line->key));
    if (pool_left(&broker->orders) == 0 && !make_room(&broker->orders_idle) &&
        !make_room(&broker->orders_asking)) {
        return NULL;
    }
    line = pool_take(&broker->orders);
    if (line == NULL) {
        return NULL;
    }
    first = map_find(&shard->orders, hash); // Not before: room may have been made among them.
    if (first == NULL && map_put(&shard->orders, hash, line) != 0) {
        pool_give(&broker->orders, line);
        return NULL;
    }
    if (first != NULL) {
        line->next = first->next;
        first->next = line;
    }
    line->shard = shard;
    line->queue = queue;
    line->hash = hash;
    line->arrived_ms = WALL_NEVER;
    line->key_len = (uint8_t)key.len;
    memcpy(line->key, key.data, key.len);
    list_add(&broker->orders_idle, &line->link);
    queue->orders++;
    return line;
}

static struct order_line *line_get(struct shard *shard, const struct entry *entry)
{
    struct order_line *line = find_of(shard, entry);

    if (line == NULL) {
        line =
            line_new(shard, entry_queue(shard->broker, entry), block_order_key(entry_block(entry)));
    }
    return line;
}

void order_reset(struct shard *shard)
{
    struct map_iter iter = {0};
    struct order_line *line;

    while ((line = map_next(&shard->orders, &iter)) != NULL) {
        while (line != NULL) {
            struct order_line *next = line->next;

            release(shard->broker, line);
            line = next;
        }
    }
    map_fini(&shard->orders);
    shard->claims_seen = 0;
    shard->is_order_short = false;
}

/* --- what is known, and what makes it worth asking again -------------------------------------- */

/* Read the head, as soon as that may be. Until then nobody may be claimed. */
static void ask(struct order_line *line)
{
    line->head = 0;
    line->is_passed = false;
    if (!line->is_asking && !line->is_reading) {
        set_asking(line, true);
    }
}

/* Nobody's turn any more. */
static void head_over(struct order_line *line)
{
    if (line->has_more || line->hold_ms != 0) {
        ask(line);
    } else {
        line_free(line);
    }
}

/* A row is there, at a place. */
static void line_on_place(struct order_line *line, wall_ms order_ms, int64_t seq)
{
    line->has_more = true;
    if (line->is_reading) {
        if (order_ms < line->arrived_ms ||
            (order_ms == line->arrived_ms && seq < line->arrived_seq)) {
            line->arrived_ms = order_ms;
            line->arrived_seq = seq;
        }
    } else if (line->head != 0 && is_before(order_ms, seq, line)) {
        if (is_out(line)) {
            line->is_passed = true;
        } else {
            ask(line);
        }
    }
}

enum order_verdict order_ask(struct shard *shard, const struct entry *entry)
{
    const struct block *block = entry_block(entry);
    struct order_line *line;

    if (block->order_len == 0) {
        return ORDER_GO;
    }
    line = line_get(shard, entry);
    if (line == NULL && !has_seen_claims(shard)) {
        shard->is_order_short = true; // It must not fill the memory that those claims need.
        return ORDER_BEHIND;
    }
    if (line == NULL) {
        return ORDER_NO_MEMORY;
    }
    if (line->head == entry->seq && !line->is_passed) {
        return ORDER_GO;
    }
    line->has_more = true;
    if (line->head == 0 || line->head == entry->seq) {
        ask(line);
    } else {
        line_on_place(line, block_order_ms(block), entry->seq);
    }
    return ORDER_BEHIND;
}

bool order_is_overtaken(const struct shard *shard, const struct entry *entry)
{
    const struct order_line *line;

    if (entry_block(entry)->order_len == 0) {
        return false;
    }
    line = find_of(shard, entry);
    return line == NULL || line->head != entry->seq || line->is_passed;
}

void order_on_added(struct shard *shard, const struct task *task)
{
    struct order_line *line =
        task->order_key.len == 0 ? NULL : find(shard, task->queue, task->order_key);

    if (line != NULL) {
        line_on_place(line, task->order_ms, task->id.seq);
    }
}

/* Until when an attempt of a task that is gone may be running; 0: none may. */
static wall_ms running_until(const struct shard *shard, const struct entry *entry)
{
    const struct flight *flight = entry->flying ? entry->body.flight : NULL;
    const struct claim *claim;

    if (entry->state == ENTRY_HELD) {
        claim = map_find(&shard->inherited, (uint64_t)entry->seq);
        return claim == NULL ? entry->node.due_ms
                             : time_max(claim->deadline_ms, entry->node.due_ms);
    }
    if (flight != NULL && flight->is_started &&
        (!flight->is_ended || flight->attempt.outcome == OUTCOME_UNKNOWN)) {
        return time_max(flight->attempt.deadline_ms, flight->until_ms);
    }
    return 0;
}

/* Nobody goes before an attempt of a task that is gone is over. */
static void hold_for(struct order_line *line, const struct entry *entry)
{
    wall_ms until_ms = running_until(line->shard, entry);

    if (until_ms != 0) {
        line->hold_ms = until_ms;
        line->ghost = entry->seq;
    }
}

void order_on_gone(struct shard *shard, const struct entry *entry)
{
    struct order_line *line;

    if (entry_block(entry)->order_len == 0) {
        return;
    }
    line = line_get(shard, entry);
    if (line == NULL) {
        window_reload(shard); // Whoever is behind it comes up again.
        return;
    }
    if (line->is_reading) {
        line->is_stale = true; // If it was found with a claim meanwhile, that may still run.
        hold_for(line, entry);
        return;
    }
    if (line->head != entry->seq && (line->head != 0 || line->is_asking)) {
        return; // Others are before it: they still are.
    }
    line->has_more = line->has_more || line->head == 0; // New: who is behind is not known.
    hold_for(line, entry);
    head_over(line);
}

void order_on_moved(struct shard *shard, const struct entry *entry)
{
    const struct block *block = entry_block(entry);
    struct order_line *line;
    bool is_running = entry->state == ENTRY_RUNNING || entry->state == ENTRY_HELD;

    if (block->order_len == 0) {
        return;
    }
    line = line_get(shard, entry);
    if (line == NULL) {
        window_reload(shard);
    } else if (line->is_reading) {
        line->is_stale = true;
    } else if (line->head == entry->seq) {
        bool has_moved = line->head_ms != block_order_ms(block);

        line->head_ms = block_order_ms(block);
        line->is_passed = line->is_passed || (has_moved && line->has_more);
        if (line->is_passed && !is_running) {
            ask(line);
        }
    } else if (line->head == 0) {
        ask(line);
    } else {
        line_on_place(line, block_order_ms(block), entry->seq);
    }
}

void order_on_flight_end(struct broker *broker, const struct flight *flight)
{
    struct shard *shard = &broker->shards[flight->attempt.shard];
    struct order_line *line;

    if (flight->block == NULL || flight->block->order_len == 0 ||
        flight->attempt.outcome == OUTCOME_UNKNOWN) {
        return; // What nobody knows the end of may be running until its deadline.
    }
    line = find(shard, flight->attempt.queue, block_order_key(flight->block));
    if (line != NULL && line->ghost == flight->attempt.id.seq) {
        line->hold_ms = 0;
        line->ghost = 0;
    }
}

bool order_hold(struct shard *shard, const struct entry *entry)
{
    const struct block *block = entry_block(entry);
    struct order_line *line = block->order_len == 0 ? NULL : line_get(shard, entry);

    if (line == NULL) {
        return block->order_len == 0;
    }
    if (line->is_asking) {
        set_asking(line, false);
    }
    line->is_stale = line->is_reading;
    line->head = entry->seq;
    line->head_ms = block_order_ms(block);
    line->has_more = true;
    line->is_passed = true; // Where its place is, is seen when it has ended.
    return true;
}

struct task_id order_head(const struct shard *shard, const struct task *row)
{
    const struct order_line *line =
        row->order_key.len == 0 ? NULL : find(shard, row->queue, row->order_key);

    if (line == NULL || line->head == row->id.seq) {
        return (struct task_id){0};
    }
    return (struct task_id){.seq = line->head == 0 ? line->ghost : line->head,
                            .slot = row->id.slot};
}

bool order_is_head(const struct shard *shard, const struct task *row)
{
    const struct order_line *line = find(shard, row->queue, row->order_key);

    return line != NULL && line->head == row->id.seq;
}

/* --- bad ends --------------------------------------------------------------------------------- */

struct retry_policy order_retry_policy(const struct queue *queue, const struct block *block)
{
    struct retry_policy policy = queue->retry;

    if (block->order_len > 0 && queue->order_policy == ORDER_BLOCK) {
        policy.failures_max = UINT32_MAX;
        policy.unknowns_max = UINT32_MAX;
        policy.age_max_ms = 0;
    }
    return policy;
}

void order_set_place(const struct queue *queue, const struct block *block, struct store_op *op)
{
    if (block->order_len > 0 && queue->order_policy == ORDER_SKIP &&
        op->task.failures + op->task.unknowns >= queue->order_failures) {
        op->set_order = true;
        op->task.order_ms = op->task.due_ms;
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Whose turn it is now: into memory with it if its time is near. Without memory for it the loader
 * brings it when there is some: what fills the memory may be waiting for this struct. */
static void take_head(struct order_line *line, const struct task *row)
{
    struct shard *shard = line->shard;
    struct entry *entry;

    line->head = row->id.seq;
    line->head_ms = row->order_ms;
    if (entry_peek(shard, row->id.seq) != NULL ||
        !window_has(shard, row->queue, row->due_ms, row->id.seq)) {
        return;
    }
    entry = window_take(shard, row);
    if (entry == NULL) {
        window_rewind(shard, row->queue, row->due_ms, row->id.seq);
    } else if (entry->state == ENTRY_VISITING) {
        entry_place(shard, entry);
    }
}

/* What was read, unless something has happened since. */
static void take_reply(struct order_line *line, const struct store_read *read)
{
    const struct task *row = read->row_count == 0 ? NULL : &read->rows[0];
    bool is_old = line->is_stale;

    if (is_out(line)) {
        return; // Somebody's claim was found meanwhile.
    }
    if (line->arrived_ms != WALL_NEVER) {
        is_old = is_old || row == NULL || line->arrived_ms < row->order_ms ||
                 (line->arrived_ms == row->order_ms && line->arrived_seq < row->id.seq);
        line->has_more = true;
    } else {
        line->has_more = read->row_count > 1;
    }
    if (is_old) {
        ask(line);
    } else if (row == NULL) {
        line_free(line);
    } else {
        take_head(line, row);
    }
}

static void read_done(struct store_read *store_read)
{
    struct call_read *read = store_read->owner;
    struct order_line *line = read->order;
    struct shard *shard = read->shard;
    struct broker *broker = shard->broker;

    broker->databases[shard->database].orders_reading--;
    line->is_reading = false;
    if (line->is_orphan) {
        pool_give(&broker->orders, line);
    } else if (store_read->result == 0) {
        take_reply(line, store_read);
    } else if (store_read->result == ERR_FENCED) {
        shard_fenced(shard); // The line goes with it.
    } else {
        ask(line);
        shard_retry_later(shard);
    }
    pool_give(&broker->reads, read);
}

static void send_read(struct order_line *line)
{
    struct shard *shard = line->shard;
    struct broker *broker = shard->broker;
    struct call_read *read = pool_take(&broker->reads);

    if (read == NULL) {
        return;
    }
    read->shard = shard;
    read->order = line;
    read->read = (struct store_read){.kind = STORE_READ_ORDER,
                                     .database = shard->database,
                                     .shard = shard->id,
                                     .epoch = shard->epoch,
                                     .queue = line->queue->queue.id,
                                     .key = key_of(line),
                                     .limit = ROW_COUNT,
                                     .cb = read_done,
                                     .owner = read};
    if (broker->env.store->read(broker->env.store, &read->read) != 0) {
        pool_give(&broker->reads, read);
        shard_retry_later(shard);
        return;
    }
    set_asking(line, false);
    broker->databases[shard->database].orders_reading++;
    line->is_reading = true;
    line->is_stale = false;
    line->arrived_ms = WALL_NEVER;
}

/* --- take-over -------------------------------------------------------------------------------- */

/* The rows of some inherited claims: those that are live and have an order key hold it. */
static void claims_done(struct store_read *store_read)
{
    struct shard *shard = store_read->owner;
    bool is_fresh = shard->claims_serial == shard->serial;

    shard->is_seeing = false;
    if (!is_fresh) {
        return;
    }
    if (store_read->result == ERR_FENCED) {
        shard_fenced(shard);
        return;
    }
    if (store_read->result != 0) {
        shard_retry_later(shard);
        return;
    }
    // Rows with a live claim do not leave memory: what is not there now has not changed since.
    for (size_t i = 0; i < store_read->row_count; i++) {
        const struct task *row = &store_read->rows[i];
        const struct claim *claim = map_find(&shard->inherited, (uint64_t)row->id.seq);

        if (row->order_key.len > 0 && claim != NULL && claim->attempt > row->attempt &&
            entry_peek(shard, row->id.seq) == NULL && window_take(shard, row) == NULL) {
            shard_retry_later(shard);
            return;
        }
    }
    shard->claims_seen = shard->claims_next;
    shard_touch(shard); // For order_shard_step().
}

/* Ask for the rows of the next inherited claims that are not in memory. True: there are none. */
static bool see_claims(struct shard *shard)
{
    size_t count = 0;

    if (shard->is_seeing) {
        return false;
    }
    shard->claims_next = shard->claims_seen;
    while (shard->claims_next < shard->claim_count && count < KEEP_IDS_MAX) {
        const struct claim *claim = &shard->claims[shard->claims_next++];

        // One of each task, and only what nobody has ended since.
        if (map_find(&shard->inherited, (uint64_t)claim->id.seq) == claim &&
            entry_peek(shard, claim->id.seq) == NULL) {
            shard->claim_ids[count++] = claim->id;
        }
    }
    if (count == 0) {
        shard->claims_seen = shard->claims_next;
        return true;
    }
    shard->see = (struct store_read){
        .kind = STORE_READ_TASKS, .ids = shard->claim_ids, .id_count = count, .cb = claims_done};
    shard->is_seeing = shard_read(shard, &shard->see, &shard->claims_serial);
    return false;
}

/* --- the tick --------------------------------------------------------------------------------- */

static bool may_read(struct shard *shard)
{
    return (shard->state == SHARD_ACTIVE ||
            (shard->state == SHARD_LOADING && list_is_empty(&shard->unknown))) &&
           shard->has_claims && shard->broker->now.boot >= shard->retry_at && see_claims(shard);
}

void order_shard_step(struct shard *shard)
{
    if (shard->is_order_short && may_read(shard)) {
        shard->is_order_short = false;
        window_reload(shard);
    }
}

/* Whether an attempt of a task that is gone may still be running. */
static bool is_held(struct broker *broker, struct order_line *line)
{
    uint32_t database = line->shard->database;
    wall_ms now_ms = lower_ms(broker, database);
    wall_ms until_ms;

    if (line->hold_ms == 0) {
        return false;
    }
    if (proven_ms(broker, database) > line->hold_ms) {
        line->hold_ms = 0;
        line->ghost = 0;
        return false;
    }
    // A clock that is held may be past it: then nobody knows when it goes on.
    until_ms = line->hold_ms < now_ms ? now_ms + WITHDRAWN_MS : time_add(line->hold_ms, 1);
    broker->orders_wake = time_min(broker->orders_wake, boot_when(broker, database, until_ms));
    return true;
}

static bool is_full(const struct broker *broker, uint32_t database)
{
    return broker->databases[database].orders_reading == READING_MAX;
}

/* Whether nothing more is read for order keys now, whatever waits. */
static bool is_all_full(const struct broker *broker)
{
    for (uint32_t i = 0; i < broker->options.database_count; i++) {
        if (!is_full(broker, i)) {
            return pool_left(&broker->reads) == 0;
        }
    }
    return true;
}

/* Read for one that waits for it, or put it behind the others. */
static void try_read(struct broker *broker, struct order_line *line)
{
    list_del(&line->link);
    list_add(&broker->orders_asking, &line->link);
    if (!is_held(broker, line) && !is_full(broker, line->shard->database) &&
        may_read(line->shard)) {
        send_read(line);
    }
}

/* Begin to look at all that wait, once the round before is over, however many ticks it takes. */
static void begin_round(struct broker *broker)
{
    if (broker->orders_unseen == 0 || broker->orders_unseen > broker->orders_asking_count) {
        broker->orders_unseen = broker->orders_asking_count;
        broker->orders_wake = BOOT_NEVER;
    }
}

void order_step(struct broker *broker)
{
    uint32_t looks = 0;
    struct list *link;

    begin_round(broker);
    while (broker->orders_unseen > 0 && (link = list_first(&broker->orders_asking)) != NULL) {
        if (is_all_full(broker)) {
            broker->orders_wake = BOOT_NEVER; // Replies come, and it goes on.
            return;
        }
        if (looks++ == LOOKS_PER_TICK) {
            broker->is_behind = true;
            return;
        }
        broker->orders_unseen--;
        try_read(broker, CONTAINER_OF(link, struct order_line, link));
    }
}
