/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks, second looks, and what they come to.
 */
#include "broker/core/audit.h"

#include "broker/core/entry.h"
#include "broker/core/order.h"
#include "broker/core/park.h"
#include "broker/core/sleep.h"
#include "broker/core/window.h"
#include "broker/core/writer.h"
#include "lib/base/beat.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

/* Shards that one turn looks at: three small reads each. */
#define LOOKS_MAX 8U

/* Rows, claims and tasks in memory that one look reads; suspects that it remembers. */
#define ROWS_MAX     64U
#define CLAIMS_MAX   256U
#define SAMPLE_MAX   32U
#define SUSPECTS_MAX 32U

/* Payloads that come along with the sample: a few hundred small ones, or two of the largest. */
#define SAMPLE_BYTES_MAX ((size_t)2 * PAYLOAD_BYTES_MAX)

/* For so many turns the circles through the rows of a shard begin one bucket before the end of the
 * last one; the next begins at the very first row, as after a fault. To do so more often would be
 * to walk past all that has ended since somebody opened a snapshot. */
#define SHORT_CIRCLES_TURNS 150

/* So late is late: far above start_by and its margin, and what a busy commit takes. */
#define LATE_MS 10000

/* Pages that may come to nothing between two looks, and for how long one after the other. */
#define PAGES_FAILED_MAX 2
#define FAILING_US       (5 * US_PER_S)

/* A shard may be without an owner for the session timeout and this. source: DESIGN 1, K-7 */
#define UNOWNED_US (10 * US_PER_S)

enum stage {
    STAGE_FREE = 0,
    STAGE_FIRST,    /* the first reads are in flight */
    STAGE_SUSPECTS, /* something looks wrong: again at the next turn */
    STAGE_SECOND    /* the second reads are in flight */
};

enum fault {
    FAULT_ROW,   /* due, and in nobody's hands */
    FAULT_CLAIM, /* past its deadline, and nobody ends it */
    FAULT_ENTRY, /* in memory, and in no database */
    FAULT_COUNT
};

struct suspect {
    enum fault fault;
    struct task_id id;
    uint32_t attempt; /* of the claim */
    bool is_found;    /* at the second look, too */
};

/* One look at one shard. */
struct look {
    struct audit *audit;
    struct shard *shard;
    enum stage stage;
    uint32_t serial;     /* of the shard, when the look began */
    uint32_t pending;    /* reads in flight */
    boot_us first_at;    /* when the first look was over */
    bool is_failed;      /* a read was not answered */
    wall_ms late_ms;     /* what was due up to here is late */
    struct place cursor; /* the shard's own, when the look began */
    struct place past;
    bool had_room;          /* for a page, when the look began */
    uint32_t page_count[2]; /* of the shard's pages that had ended when the look began, by part */
    uint32_t past_pages;    /* the same, of what is past in its database */
    struct store_read rows;
    struct store_read sample; /* at the second look: the suspects */
    struct store_read claims;
    uint32_t *numbers; /* of queues, for `rows` */
    struct task_id ids[SAMPLE_MAX];
    struct suspect suspects[SUSPECTS_MAX];
    uint32_t suspect_count;
};

/* What is remembered of a shard. */
struct audited {
    uint32_t found[FAULT_COUNT]; /* at the last look */
    struct place place;          /* up to here its rows have been looked at, in this circle */
    uint32_t serial;             /* of the shard in that circle */
    boot_us whole_at;            /* when a circle began at the first row */
    uint32_t position;           /* the same for its tasks in memory */
    boot_us unowned_since;       /* 0: it has an owner */
};

struct audit {
    struct broker *broker;
    struct audited *shards;
    boot_us next_at;
    uint32_t next;  /* the next shard to look at */
    bool is_failed; /* a look of this round was not answered */
    uint32_t unowned;
    uint64_t look_count;
    uint64_t round_count;
    struct look looks[LOOKS_MAX];
};

_Static_assert(SUSPECTS_MAX <= SAMPLE_MAX, "the suspects are read by id, as the sample is");
_Static_assert(LATE_MS > START_BY_MS_MAX + DEADLINE_MARGIN_MS, "nothing that goes its way is late");

/* ---- what is wrong ---- */

/* Whether an entry is somewhere from where it goes on: in a wheel, in a line, in a write. */
static bool is_under_way(const struct shard *shard, const struct entry *entry)
{
    bool is_writing = shard->ops > 0;

    switch ((enum entry_state)entry->state) {
    case ENTRY_WAITING:
    case ENTRY_ASLEEP:
    case ENTRY_CLAIMED:
    case ENTRY_HELD:
        return wheel_has(&entry->node);
    case ENTRY_READY:
        return !list_is_empty(&entry->ready) || (entry->flags & ENTRY_FETCHED) != 0;
    case ENTRY_SETTLING:
        return !list_is_empty(&entry->ready) || is_writing;
    case ENTRY_INSERTING:
    case ENTRY_CLAIMING:
    case ENTRY_CHANGING:
    case ENTRY_DELETING:
        return is_writing;
    case ENTRY_RUNNING: // Until its deadline, and that is looked at by its claim.
    case ENTRY_VISITING:
        return true;
    }
    UNREACHABLE();
}

/* Whether what is past waits for its time, or for a turn: others have had theirs meanwhile. */
static bool is_turn_awaited(const struct look *look)
{
    const struct broker *broker = look->audit->broker;
    uint32_t database = look->shard->database;
    bool is_read = broker->databases[database].past_pages != look->past_pages;

    for (uint32_t i = 0; i < broker->options.cluster.shard_count && !is_read; i++) {
        is_read =
            broker->shards[i].database == database && window_is_paging(&broker->shards[i], true);
    }
    return look->shard->past_at != 0 || (look->shard->is_past_waiting && is_read);
}

/* Pages of a part that have ended since the first look. */
static uint32_t ended_since(const struct look *look, bool of_past)
{
    return window_pages_ended(look->shard, of_past) - look->page_count[of_past];
}

static bool have_few_failed(const struct look *look, bool of_past)
{
    boot_us since = look->shard->failing_since[of_past];
    bool for_long = since != 0 && look->shard->broker->now.boot - since >= FAILING_US;

    return ended_since(look, of_past) <= (for_long ? 1 : PAGES_FAILED_MAX);
}

/* Whether a page of this part has come to nothing, and the shard waits until the next. */
static bool is_retry_awaited(const struct look *look, bool of_past)
{
    return ended_since(look, of_past) > 0 && have_few_failed(look, of_past) &&
           look->shard->broker->now.boot < look->shard->retry_at;
}

/* Whether at the second look the loader still waits for the database: for a page, unless many have
 * come to nothing since the first, or some and for long. Pages of the other part hold it up. */
static bool is_page_awaited(const struct look *look, bool of_past)
{
    const struct shard *shard = look->shard;

    return look->stage == STAGE_SECOND && have_few_failed(look, of_past) &&
           ((shard->is_paging && shard->page_park == NULL) || (of_past && is_turn_awaited(look)) ||
            is_retry_awaited(look, of_past) || (of_past && is_retry_awaited(look, false)));
}

static bool has_room(const struct shard *shard)
{
    return entry_room(shard->broker) >= SLICE_ROW_COUNT_MAX;
}

/* Whether the loader stands still before a place though there is room, and was at the first look: a
 * shard that found none is not looked at as soon as there is. One that moves gets there. */
static bool is_loader_stuck(const struct look *look, bool of_past)
{
    const struct shard *shard = look->shard;

    return look->had_room && has_room(shard) && place_is_same(shard->cursor, look->cursor) &&
           place_is_same(shard->past, look->past) && !is_page_awaited(look, of_past);
}

/* Whether a row that is due is in nobody's hands. What is before its cursor is in memory. */
static bool is_unheld(const struct look *look, const struct task *row)
{
    const struct shard *shard = look->shard;
    const struct entry *entry = entry_peek(shard, row->id.seq);
    struct place place = place_at(row->due_ms, row->id.seq);
    const struct park *park = window_park_at(shard, row->queue, place);

    if (row->due_ms > look->late_ms) {
        return false;
    }
    if (entry != NULL) {
        return !is_under_way(shard, entry);
    }
    if (row->order_key.len > 0 && !order_is_head(shard, row)) {
        return false; // Behind others of its order key, it waits in the database.
    }
    if (park != NULL) {
        return !place_is_before(park->cursor, place);
    }
    return !window_is_ahead(shard, place) ||
           is_loader_stuck(look, place_is_before(place, shard->split));
}

/* Whether the owner has forgotten a claim past its deadline: it should have ended it by now. A
 * claim without a task in memory is dead, or its row is not due, or that is a fault of its own. */
static bool is_forgotten(const struct look *look, const struct claim *claim)
{
    const struct entry *entry = entry_peek(look->shard, claim->id.seq);
    const struct flight *flight;

    if (entry == NULL || entry->slot != claim->id.slot || entry_due_ms(entry) > look->late_ms ||
        (entry->flags & ENTRY_TOUCHED) != 0) {
        return false;
    }
    if (entry->state != ENTRY_ASLEEP && entry->attempt >= claim->attempt) {
        return false; // Who sleeps has never been attempted.
    }
    switch ((enum entry_state)entry->state) {
    case ENTRY_CLAIMED:
    case ENTRY_RUNNING:
        flight = entry->body.flight;
        return flight->attempt.attempt != claim->attempt ||
               time_max(flight->attempt.deadline_ms, flight->until_ms) <= look->late_ms;
    case ENTRY_HELD: // Of several claims of one attempt the latest deadline counts.
        return !wheel_has(&entry->node) || entry->node.due_ms <= look->late_ms;
    case ENTRY_WAITING:
    case ENTRY_ASLEEP:
    case ENTRY_READY:
        return true; // It does not know of it.
    case ENTRY_INSERTING:
    case ENTRY_CLAIMING:
    case ENTRY_SETTLING:
    case ENTRY_CHANGING:
    case ENTRY_DELETING:
        return !is_under_way(look->shard, entry);
    case ENTRY_VISITING:
        return false;
    }
    UNREACHABLE();
}

/* Whether the database must have an entry's row: it is there, and nothing is being written. */
static bool has_row(const struct entry *entry)
{
    switch ((enum entry_state)entry->state) {
    case ENTRY_WAITING:
    case ENTRY_ASLEEP:
    case ENTRY_READY:
    case ENTRY_CLAIMED:
    case ENTRY_RUNNING:
    case ENTRY_HELD:
        return (entry->flags & ENTRY_TOUCHED) == 0;
    case ENTRY_INSERTING:
    case ENTRY_CLAIMING:
    case ENTRY_SETTLING:
    case ENTRY_CHANGING:
    case ENTRY_DELETING:
    case ENTRY_VISITING:
        return false;
    }
    UNREACHABLE();
}

/* ---- suspects ---- */

/* At the first look one more, at the second the same one again. */
static void suspect(struct look *look, enum fault fault, struct task_id id, uint32_t attempt)
{
    for (uint32_t i = 0; i < look->suspect_count; i++) {
        struct suspect *other = &look->suspects[i];

        if (other->id.seq == id.seq) {
            other->is_found =
                other->is_found ||
                (look->stage == STAGE_SECOND && other->fault == fault && other->attempt == attempt);
            return;
        }
    }
    if (look->stage == STAGE_FIRST && look->suspect_count < SUSPECTS_MAX) {
        look->suspects[look->suspect_count++] = (struct suspect){fault, id, attempt, false};
    }
}

static bool is_in(const struct store_read *read, struct task_id id)
{
    for (size_t i = 0; i < read->row_count; i++) {
        if (read->rows[i].id.seq == id.seq) {
            return true;
        }
    }
    return false;
}

/* Rows that are due, of a page or of the suspects. */
static void judge_rows(struct look *look, const struct store_read *read)
{
    for (size_t i = 0; i < read->row_count; i++) {
        if (is_unheld(look, &read->rows[i])) {
            suspect(look, FAULT_ROW, read->rows[i].id, 0);
        }
    }
}

/* Tasks in memory whose rows were asked for. */
static void judge_entries(struct look *look, const struct store_read *read)
{
    for (size_t i = 0; i < read->id_count; i++) {
        const struct entry *entry = entry_peek(look->shard, read->ids[i].seq);

        if (!is_in(read, read->ids[i]) && entry != NULL && has_row(entry)) {
            suspect(look, FAULT_ENTRY, read->ids[i], 0);
        }
    }
}

static void judge_claims(struct look *look, const struct store_read *read)
{
    for (size_t i = 0; i < read->claim_count; i++) {
        if (is_forgotten(look, &read->claims[i])) {
            suspect(look, FAULT_CLAIM, read->claims[i].id, read->claims[i].attempt);
        }
    }
}

/* ---- looks ---- */

static bool is_any_open(const struct audit *audit)
{
    for (uint32_t i = 0; i < LOOKS_MAX; i++) {
        if (audit->looks[i].stage != STAGE_FREE) {
            return true;
        }
    }
    return false;
}

/* All shards have had their turn, and the last look is over. */
static void end_round(struct audit *audit)
{
    if (audit->next < audit->broker->options.cluster.shard_count || is_any_open(audit)) {
        return;
    }
    audit->round_count += audit->is_failed ? 0 : 1;
    audit->is_failed = false;
    audit->next = 0;
}

static void end_look(struct look *look)
{
    static const char *const names[FAULT_COUNT] = {"missed", "missed-claim", "missing-row"};
    struct audit *audit = look->audit;
    struct audited *audited = &audit->shards[look->shard->id];
    uint32_t found[FAULT_COUNT] = {0};

    for (uint32_t i = 0; i < look->suspect_count; i++) {
        const struct suspect *one = &look->suspects[i];

        if (one->is_found) {
            found[one->fault]++;
            tell(audit->broker, names[one->fault], look->shard, one->id.seq, one->attempt, 0);
        }
    }
    for (uint32_t i = 0; i < FAULT_COUNT; i++) {
        audited->found[i] = found[i];
    }
    audit->look_count++;
    look->stage = STAGE_FREE;
}

/* A look that has come to nothing; is_failed: it must be made again for the round to count. */
static void void_look(struct look *look, bool is_failed)
{
    look->audit->is_failed = look->audit->is_failed || is_failed;
    look->stage = STAGE_FREE;
}

static bool is_fresh(const struct look *look)
{
    return look->shard->state == SHARD_ACTIVE && look->shard->serial == look->serial;
}

/* The next look begins at the very first row. */
static void begin_whole_circle(struct audited *audited, boot_us now)
{
    audited->whole_at = now;
    audited->place = (struct place){INT64_MIN, 0};
}

/* Where the next look goes on. Past rows come first, whatever the present bucket holds. */
static void move_on(const struct look *look, const struct store_read *rows)
{
    struct audited *audited = &look->audit->shards[look->shard->id];
    const struct broker *broker = look->audit->broker;
    boot_us whole_us = broker->options.audit_ms * US_PER_MS * SHORT_CIRCLES_TURNS;
    const struct task *last = rows->row_count == 0 ? NULL : &rows->rows[rows->row_count - 1];

    if (rows->has_more && last != NULL && due_bucket(last->due_ms) < rows->to_bucket) {
        audited->place = place_at(last->due_ms, last->id.seq);
        return;
    }
    if (broker->now.boot - audited->whole_at >= whole_us) {
        begin_whole_circle(audited, broker->now.boot);
        return;
    }
    audited->place = (struct place){rows->to_bucket - 2, INT64_MAX};
}

static void judge(struct look *look, const struct store_read *read)
{
    if (read == &look->rows) {
        judge_rows(look, read);
        move_on(look, read);
    } else if (read == &look->claims) {
        judge_claims(look, read);
    } else {
        judge_entries(look, read);
        if (look->stage == STAGE_SECOND) {
            judge_rows(look, read);
        }
    }
}

static void look_done(struct store_read *read)
{
    struct look *look = read->owner;
    struct audit *audit = look->audit;

    look->pending--;
    if (read == &look->rows) {
        mem_free(look->numbers);
        look->numbers = NULL;
    }
    look->is_failed = look->is_failed || read->result != 0;
    if (!look->is_failed && is_fresh(look)) {
        judge(look, read);
    }
    if (look->pending > 0) {
        return;
    }
    if (look->is_failed || !is_fresh(look)) {
        void_look(look, is_fresh(look));
    } else if (look->stage == STAGE_FIRST && look->suspect_count > 0) {
        look->stage = STAGE_SUSPECTS;
        look->first_at = audit->broker->now.boot;
    } else {
        end_look(look);
    }
    end_round(audit);
}

static void send(struct look *look, struct store_read *read)
{
    struct broker *broker = look->audit->broker;

    read->database = look->shard->database;
    read->shard = look->shard->id;
    read->epoch = look->shard->epoch;
    read->cb = look_done;
    read->owner = look;
    if (broker->env.store->read(broker->env.store, read) == 0) {
        look->pending++;
    } else {
        look->is_failed = true;
    }
}

static void send_rows(struct look *look)
{
    struct audited *audited = &look->audit->shards[look->shard->id];

    if (audited->serial != look->serial || audited->found[FAULT_ROW] > 0) {
        audited->serial = look->serial;
        begin_whole_circle(audited, look->audit->broker->now.boot);
    }
    look->rows = (struct store_read){.kind = STORE_READ_SLICE,
                                     .after_bucket = audited->place.bucket,
                                     .after_seq = audited->place.seq,
                                     .to_bucket = due_bucket(look->late_ms),
                                     .limit = ROWS_MAX};
    if (park_numbers(look->shard, place_end, &look->rows, &look->numbers) != 0) {
        look->is_failed = true;
        return;
    }
    send(look, &look->rows);
    if (look->pending == 0) {
        mem_free(look->numbers);
        look->numbers = NULL;
    }
}

static void send_claims(struct look *look)
{
    look->claims = (struct store_read){
        .kind = STORE_READ_OVERDUE, .now_ms = look->late_ms, .limit = CLAIMS_MAX};
    send(look, &look->claims);
}

static void send_ids(struct look *look, size_t count)
{
    look->sample =
        (struct store_read){.kind = STORE_READ_TASKS, .ids = look->ids, .id_count = count};
    send(look, &look->sample);
}

static size_t payload_len(const struct entry *entry)
{
    return entry->state == ENTRY_ASLEEP ? sleep_payload_len(entry)
                                        : entry_block(entry)->payload_len;
}

/* Some tasks that are in memory, others at every look. */
static size_t pick_sample(struct look *look)
{
    struct audited *audited = &look->audit->shards[look->shard->id];
    struct entry_iter iter = {0};
    const struct entry *entry = NULL;
    size_t bytes = 0;
    size_t count = 0;

    if (audited->position < look->shard->entries.size) { // It may have shrunk.
        iter.chain = audited->position;
    }
    while (count < SAMPLE_MAX && bytes < SAMPLE_BYTES_MAX &&
           (entry = entry_next(look->shard, &iter)) != NULL) {
        if (has_row(entry)) {
            look->ids[count++] = (struct task_id){.seq = entry->seq, .slot = entry->slot};
            bytes += payload_len(entry);
        }
    }
    audited->position = entry == NULL ? 0 : iter.chain;
    return count;
}

/* The reads are on their way, or none is. */
static void await(struct look *look, enum stage stage)
{
    look->stage = stage;
    if (look->pending == 0) {
        void_look(look, true);
    }
}

static void begin_look(struct look *look, struct shard *shard)
{
    size_t count;

    look->shard = shard;
    look->serial = shard->serial;
    look->is_failed = false;
    look->suspect_count = 0;
    look->late_ms = time_sub(lower_ms(shard->broker, shard->database), LATE_MS);
    look->cursor = shard->cursor;
    look->past = shard->past;
    look->had_room = has_room(shard);
    look->page_count[false] = window_pages_ended(shard, false);
    look->page_count[true] = window_pages_ended(shard, true);
    look->past_pages = shard->broker->databases[shard->database].past_pages;
    count = pick_sample(look);
    send_rows(look);
    send_claims(look);
    if (count > 0) {
        send_ids(look, count);
    }
    await(look, STAGE_FIRST);
}

/* A row that memory has got hold of since is in its hands; it may end before the reply. */
static void drop_held(struct look *look)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < look->suspect_count; i++) {
        const struct suspect *suspect = &look->suspects[i];
        const struct entry *entry = entry_peek(look->shard, suspect->id.seq);

        if (suspect->fault != FAULT_ROW || entry == NULL || !is_under_way(look->shard, entry)) {
            look->suspects[count++] = *suspect;
        }
    }
    look->suspect_count = count;
}

static void look_again(struct look *look)
{
    if (!is_fresh(look)) {
        void_look(look, false);
        return;
    }
    // What a batch has written may be in the database and, until its reply, not in memory.
    if (writer_is_awaited(look->shard, look->first_at)) {
        return; // At the next turn.
    }
    drop_held(look);
    if (look->suspect_count == 0) {
        end_look(look);
        return;
    }
    for (uint32_t i = 0; i < look->suspect_count; i++) {
        look->ids[i] = look->suspects[i].id;
    }
    send_ids(look, look->suspect_count);
    send_claims(look);
    await(look, STAGE_SECOND);
}

/* The next shard that is served here; NULL: all have had their turn. */
static struct shard *next_shard(struct audit *audit)
{
    struct broker *broker = audit->broker;

    while (audit->next < broker->options.cluster.shard_count) {
        struct shard *shard = &broker->shards[audit->next++];

        if (shard->state != SHARD_ACTIVE) {
            continue;
        }
        if (broker->now.database[shard->database].lower_us != INT64_MIN) {
            return shard;
        }
        audit->is_failed = true;
    }
    return NULL;
}

static void look_on(struct audit *audit)
{
    for (uint32_t i = 0; i < LOOKS_MAX; i++) {
        struct look *look = &audit->looks[i];
        struct shard *shard;

        if (look->stage == STAGE_SUSPECTS) {
            look_again(look);
        }
        if (look->stage != STAGE_FREE) {
            continue;
        }
        shard = next_shard(audit);
        if (shard == NULL) {
            continue;
        }
        begin_look(look, shard);
    }
    end_round(audit);
}

/* ---- owners ---- */

static bool is_owned(const struct broker *broker, const struct shard_set *owned, uint32_t shard)
{
    enum shard_state state = broker->shards[shard].state;

    return shard_set_has(owned, shard) || state == SHARD_ACTIVE || state == SHARD_DRAINING;
}

/* Shards that nobody serves, as far as the members say. While the coordinator is away nothing is
 * known of the others. */
static void look_for_owners(struct audit *audit)
{
    const struct broker *broker = audit->broker;
    boot_us limit_us = broker->options.session_timeout_ms * US_PER_MS + UNOWNED_US;
    bool is_known = broker->is_session && !broker->is_away && broker->member_count > 0;
    struct shard_set owned = {{0}};

    for (size_t i = 0; i < broker->member_count; i++) {
        for (size_t word = 0; word < ARRAY_COUNT(owned.bits); word++) {
            owned.bits[word] |= broker->members[i].owns.bits[word];
        }
    }
    audit->unowned = 0;
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        struct audited *audited = &audit->shards[i];

        if (!is_known || is_owned(broker, &owned, i)) {
            audited->unowned_since = 0;
        } else if (audited->unowned_since == 0) {
            audited->unowned_since = broker->now.boot;
        } else if (broker->now.boot - audited->unowned_since >= limit_us) {
            audit->unowned++;
        }
    }
}

/* ---- life ---- */

void audit_step(struct broker *broker)
{
    struct audit *audit = broker->audit;
    int64_t beat = beat_us(broker->options.session_timeout_ms);
    int64_t beats = time_max(broker->options.audit_ms * US_PER_MS / beat, 1);

    if (audit == NULL || broker->now.boot < audit->next_at) {
        return;
    }
    audit->next_at = beat_after(broker->now.boot, beats * beat);
    look_for_owners(audit);
    look_on(audit);
}

void audit_forget(const struct shard *shard)
{
    struct audit *audit = shard->broker->audit;

    for (uint32_t i = 0; audit != NULL && i < FAULT_COUNT; i++) {
        audit->shards[shard->id].found[i] = 0;
    }
}

uint32_t audit_found(const struct broker *broker, uint32_t shard)
{
    const struct audit *audit = broker->audit;
    uint32_t count = 0;

    for (uint32_t i = 0; audit != NULL && i < FAULT_COUNT; i++) {
        count += audit->shards[shard].found[i];
    }
    return count;
}

void audit_sum(const struct broker *broker, struct audit_figures *out)
{
    const struct audit *audit = broker->audit;

    *out = (struct audit_figures){0};
    if (audit == NULL) {
        return;
    }
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        out->rows_unheld += audit->shards[i].found[FAULT_ROW];
        out->claims_overdue += audit->shards[i].found[FAULT_CLAIM];
        out->entries_rowless += audit->shards[i].found[FAULT_ENTRY];
    }
    out->shards_unowned = audit->unowned;
    out->looks = audit->look_count;
    out->rounds = audit->round_count;
}

int audit_init(struct broker *broker)
{
    struct audit *audit;

    if (broker->options.audit_ms == 0) {
        return 0;
    }
    audit = mem_new(1, sizeof(*audit));
    broker->audit = audit;
    if (audit == NULL) {
        return ERR_NO_MEMORY;
    }
    audit->broker = broker;
    audit->shards = mem_new(broker->options.cluster.shard_count, sizeof(*audit->shards));
    if (audit->shards == NULL) {
        return ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        audit->shards[i].place.bucket = INT64_MIN;
    }
    for (uint32_t i = 0; i < LOOKS_MAX; i++) {
        audit->looks[i].audit = audit;
    }
    return 0;
}

void audit_fini(struct broker *broker)
{
    struct audit *audit = broker->audit;

    if (audit == NULL) {
        return;
    }
    for (uint32_t i = 0; i < LOOKS_MAX; i++) {
        mem_free(audit->looks[i].numbers);
    }
    mem_free(audit->shards);
    mem_free(audit);
}
