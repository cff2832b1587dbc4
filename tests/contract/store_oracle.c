/* SPDX-License-Identifier: Apache-2.0
 *
 * Random batches for two stores, and what they made of them.
 */
#include "tests/contract/store_oracle.h"

#include "lib/base/err.h"
#include "lib/base/prng.h"
#include "lib/io/loop.h"
#include "storage/store_mem.h"
#include "tests/lib/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_COUNT   ORACLE_SHARD_COUNT
#define SEED_COUNT    3
#define BATCH_COUNT   60
#define OP_COUNT_MAX  40
#define KEY_COUNT     8
#define COMPARE_EVERY 6

/* Keys live in the year 2100, where no sweep finds them past their memory. */
#define NOW_MS INT64_C(4102444800000)

/* Ids are used again by mistake now and then; more tasks than this are not looked at. */
#define TASK_COUNT_MAX 4096

struct oracle {
    struct prng prng;
    uint64_t seed;
    struct loop *loop;
    struct store_mem *mem;
    struct store *expected; /* memory */
    struct store *actual;   /* the host's */
    int64_t epochs[SHARD_COUNT];
    int64_t counters[SHARD_COUNT];
    int64_t base[SHARD_COUNT]; /* seq before the first task: seeds share the database */
    int64_t batch_number;
    int64_t first_batch;
    struct store_op ops[2][OP_COUNT_MAX];
    size_t op_count;
    bool touched[SHARD_COUNT][TASK_COUNT_MAX]; /* tasks that the batch names already */
    bool keyed[SHARD_COUNT][KEY_COUNT];        /* keys that it names already */
    int outcomes[32];                          /* how often each result was seen, by −code */
    int redrives[32];                          /* the same for redrives */
};

static const struct oracle_host *host;

static const char *const keys[KEY_COUNT] = {"a", "b", "c", "d", "\x01\xff", "f", "g", "h"};

/* --- making batches --------------------------------------------------------------------------- */

static uint64_t below(struct oracle *o, uint64_t bound)
{
    return prng_below(&o->prng, bound);
}

static bool chance(struct oracle *o, uint32_t permille)
{
    return prng_chance(&o->prng, permille);
}

static struct task_id make_id(const struct oracle *o, uint32_t shard, int64_t counter)
{
    return (struct task_id){.seq = o->base[shard] + counter, .slot = (uint16_t)(shard + 4)};
}

/* The attempt that the row has, or a wrong guess. */
static uint32_t guess_attempt(struct oracle *o, uint32_t shard, struct task_id id)
{
    const struct task *row = store_mem_row(o->mem, shard, id);
    uint32_t attempt = row == NULL ? 0 : row->attempt;

    return chance(o, 120) ? attempt + 1 : attempt;
}

static struct store_op *add_op(struct oracle *o, enum store_op_kind kind, uint32_t shard,
                               int64_t counter)
{
    struct store_op *op = &o->ops[0][o->op_count++];

    *op = (struct store_op){
        .kind = kind,
        .shard = shard,
        .epoch = o->epochs[shard] - (chance(o, 30) ? 1 : 0),
        .task = {.id = make_id(o, shard, counter)},
        .now_ms = NOW_MS + (wall_ms)below(o, 100),
    };
    o->touched[shard][counter] = true;
    return op;
}

static struct slice any_payload(struct oracle *o)
{
    static const uint8_t bytes[3000];

    return (struct slice){bytes, chance(o, 100) ? 1025 + below(o, 1975) : below(o, 40)};
}

static struct slice any_tags(struct oracle *o)
{
    static const char *const tags[] = {"", "a=b\n", "a=\xc3\xb6\nc=\n"};

    return slice_of(tags[below(o, ARRAY_COUNT(tags))]);
}

static const char *const order_keys[] = {"a", "\xc3\xb6rder", "ab"};

static void give_order_key(struct oracle *o, struct store_op *op)
{
    op->task.order_key = slice_of(order_keys[below(o, ARRAY_COUNT(order_keys))]);
    op->task.order_ms = (wall_ms)below(o, 5);
}

static void give_key(struct oracle *o, struct store_op *op)
{
    size_t key = below(o, KEY_COUNT);

    if (o->keyed[op->shard][key]) {
        return;
    }
    o->keyed[op->shard][key] = true;
    op->task.key = slice_of(keys[key]);
    if (chance(o, 400) && o->counters[op->shard] > 1) {
        op->key_replaces =
            make_id(o, op->shard, 1 + (int64_t)below(o, (uint64_t)o->counters[op->shard] - 1));
    }
}

/* What a row is made of. */
static void fill_row(struct oracle *o, struct store_op *op)
{
    op->task.queue = 1 + (uint32_t)below(o, 4);
    op->task.due_ms = (wall_ms)below(o, 400000) - 1000;
    op->task.created_ms = (wall_ms)below(o, 1000);
    op->task.failures = (uint32_t)below(o, 3);
    op->task.payload = any_payload(o);
    if (chance(o, 300)) {
        op->task.tags = any_tags(o);
        op->task.expire_ms = (wall_ms)below(o, 3);
    }
    if (chance(o, 300)) {
        give_order_key(o, op);
    }
    if (chance(o, 400)) {
        op->task.queue = 1;
        give_key(o, op);
    }
}

/* Sometimes claim what an operation makes. */
static void follow_with_claim(struct oracle *o, const struct store_op *maker, int64_t counter)
{
    struct store_op *claim;
    int64_t epoch = maker->epoch;
    bool can_raise = maker->kind == STORE_INSERT;
    uint32_t attempt = maker->task.attempt;

    if (!chance(o, 300) || o->op_count >= OP_COUNT_MAX) {
        return;
    }
    claim = add_op(o, STORE_CLAIM, maker->shard, counter);
    claim->epoch = epoch;
    claim->expected_attempt = attempt + (chance(o, 100) ? 1 : 0);
    claim->attempt = claim->expected_attempt + 1 + (uint32_t)below(o, 2);
    claim->raise_attempt = can_raise && chance(o, 300);
    claim->deadline_ms = (wall_ms)below(o, 5000);
}

/* Something with a dead letter, or with an id that has none. */
static void add_letter(struct oracle *o, uint32_t shard)
{
    int64_t counter = 1 + (int64_t)below(o, (uint64_t)o->counters[shard]);
    const struct ended_task *letter =
        store_mem_dead_after(o->mem, shard, o->base[shard] + counter - 1);
    struct store_op *op;
    uint32_t attempt = 0;

    if (letter != NULL && letter->task.id.seq - o->base[shard] <= o->counters[shard]) {
        counter = letter->task.id.seq - o->base[shard];
        attempt = letter->task.attempt;
    }
    if (o->touched[shard][counter]) {
        return;
    }
    op = add_op(o, chance(o, 300) ? STORE_PURGE : STORE_REDRIVE, shard, counter);
    if (chance(o, 50)) {
        op->task.id.slot += 4;
    }
    op->expected_attempt = attempt + (chance(o, 120) ? 1 : 0);
    op->task.attempt = op->expected_attempt;
    if (op->kind == STORE_REDRIVE) {
        fill_row(o, op);
        follow_with_claim(o, op, counter);
    }
}

static void add_insert(struct oracle *o, uint32_t shard)
{
    int64_t counter = ++o->counters[shard];
    struct store_op *op;

    MUST(counter < TASK_COUNT_MAX);
    if (o->touched[shard][counter]) {
        return; // Something was asked of it before it was there.
    }
    if (chance(o, 20) && counter > 1) {
        // An id that has been there, and may still be.
        int64_t old = 1 + (int64_t)below(o, (uint64_t)counter - 1);

        counter = o->touched[shard][old] ? counter : old;
    }
    op = add_op(o, STORE_INSERT, shard, counter);
    op->task.attempt = (uint32_t)below(o, 3);
    fill_row(o, op);
    if (counter == o->counters[shard]) {
        follow_with_claim(o, op, counter);
    }
}

/* Change, claim, end: something with a task that may be there. */
static void add_other(struct oracle *o, uint32_t shard)
{
    static const enum store_op_kind kinds[] = {STORE_DELETE, STORE_CHANGE, STORE_CHANGE,
                                               STORE_CLAIM,  STORE_CLAIM,  STORE_DEAD};
    int64_t counter = 1 + (int64_t)below(o, (uint64_t)o->counters[shard] + 1);
    struct store_op *op;

    if (o->touched[shard][counter]) {
        return;
    }
    op = add_op(o, kinds[below(o, ARRAY_COUNT(kinds))], shard, counter);
    if (chance(o, 20)) {
        op->task.id.slot += 4;
    }
    op->expected_attempt = guess_attempt(o, shard, op->task.id);
    op->attempt = op->expected_attempt + 1 + (uint32_t)below(o, 2);
    op->raise_attempt = chance(o, 300);
    op->deadline_ms = (wall_ms)below(o, 5000);
    op->key_until_ms = chance(o, 500) ? 0 : NOW_MS + (wall_ms)below(o, 200);
    op->set_due = chance(o, 500);
    op->set_counts = chance(o, 500);
    op->set_payload = chance(o, 300);
    op->task.due_ms = (wall_ms)below(o, 400000);
    op->task.failures = (uint32_t)below(o, 9);
    op->task.unknowns = (uint32_t)below(o, 9);
    op->task.payload = any_payload(o);
    op->error_text = slice_of("because");
    if (op->kind == STORE_CHANGE && chance(o, 300)) {
        const struct task *row = store_mem_row(o->mem, shard, op->task.id);

        op->set_order = row != NULL && row->order_key.len > 0;
        op->task.order_ms = (wall_ms)below(o, 5);
    }
    if (op->kind == STORE_DELETE && chance(o, 400)) {
        op->keep_until_ms = NOW_MS + (wall_ms)below(o, 200);
        op->end = TASK_END_DONE + (enum task_end)below(o, 3);
        op->response = slice_of(chance(o, 500) ? "answer" : "");
    } else if (op->kind == STORE_DELETE && chance(o, 500)) {
        const struct task *row = store_mem_row(o->mem, shard, op->task.id);

        op->is_keyless = row == NULL || row->key.len == 0;
    }
}

static void make_batch(struct oracle *o)
{
    size_t wanted = 1 + below(o, OP_COUNT_MAX - 1);

    o->op_count = 0;
    memset(o->touched, 0, sizeof(o->touched));
    memset(o->keyed, 0, sizeof(o->keyed));
    for (size_t i = 0; i < wanted && o->op_count < wanted; i++) {
        uint32_t shard = (uint32_t)below(o, SHARD_COUNT);

        if (chance(o, 400) || o->counters[shard] == 0) {
            add_insert(o, shard);
        } else if (chance(o, 150)) {
            add_letter(o, shard);
        } else {
            add_other(o, shard);
        }
    }
    memcpy(o->ops[1], o->ops[0], sizeof(o->ops[0]));
}

/* --- both stores ------------------------------------------------------------------------------ */

static void on_batch(struct store_batch *batch)
{
    *(bool *)batch->owner = true;
}

static void on_bump(struct store_bump *bump)
{
    *(bool *)bump->owner = true;
}

static void settle(struct oracle *o, const bool *done)
{
    store_mem_run(o->mem);
    while (!*done) {
        loop_turn(o->loop, true);
    }
}

static void write_both(struct oracle *o)
{
    struct store *stores[2] = {o->expected, o->actual};
    struct claim_row drops[2] = {
        {.writer = 9,
         .seq =
             o->first_batch + (int64_t)below(o, (uint64_t)(o->batch_number - o->first_batch) + 1)},
        {.writer = 9, .seq = o->batch_number + 1},
    };
    bool drop = chance(o, 150);
    bool sweep = chance(o, 150);

    o->batch_number++;
    for (int i = 0; i < 2; i++) {
        bool done = false;
        struct store_batch batch = {
            .ops = o->ops[i],
            .op_count = o->op_count,
            .claim_row = {.writer = 9, .seq = o->batch_number},
            .drop_rows = drops,
            .drop_count = drop,
            .sweep = sweep,
            .cb = on_batch,
            .owner = &done,
        };

        MUST_OK(stores[i]->write(stores[i], &batch));
        settle(o, &done);
        MUST_OK(batch.result);
    }
}

static void bump_both(struct oracle *o, uint32_t shard)
{
    struct store *stores[2] = {o->expected, o->actual};
    int results[2];
    int64_t epoch = o->epochs[shard] + (chance(o, 300) ? 0 : 1);

    for (int i = 0; i < 2; i++) {
        bool done = false;
        struct store_bump bump = {.shard = shard, .epoch = epoch, .cb = on_bump, .owner = &done};

        MUST_OK(stores[i]->bump(stores[i], &bump));
        settle(o, &done);
        results[i] = bump.result;
    }
    MUST_EQ(results[0], results[1]);
    o->epochs[shard] = epoch;
}

static void compare_results(struct oracle *o)
{
    for (size_t i = 0; i < o->op_count; i++) {
        const struct store_op *e = &o->ops[0][i];
        const struct store_op *a = &o->ops[1][i];

        if (e->result != a->result ||
            (e->result == ERR_EXISTS &&
             (e->existing.seq != a->existing.seq || e->existing.slot != a->existing.slot))) {
            must_fail(MUST_HERE,
                      "seed %llu, batch %lld, operation %zu of kind %d on task %lld: %s, and in "
                      "%s %s",
                      (unsigned long long)o->seed, (long long)o->batch_number, i, (int)e->kind,
                      (long long)(e->task.id.seq - o->base[e->shard]), err_name(e->result),
                      host->name, err_name(a->result));
        }
        o->outcomes[-e->result]++;
        o->redrives[-e->result] += e->kind == STORE_REDRIVE;
    }
}

/* --- what is there ---------------------------------------------------------------------------- */

/* What a read found, as text: rows sorted as they come, claims sorted here. */
struct found {
    struct buf text;
    struct claim claims[4096];
    int64_t last_bucket; /* place of the last row */
    int64_t last_seq;
    struct ended_task ended[TASK_COUNT_MAX];
    bool done;
};

static struct found founds[2];

static int compare_claims(const void *left, const void *right)
{
    const struct claim *a = left;
    const struct claim *b = right;
    const int64_t pairs[][2] = {{a->row.seq, b->row.seq},
                                {a->id.seq, b->id.seq},
                                {a->attempt, b->attempt},
                                {a->deadline_ms, b->deadline_ms}};

    for (size_t i = 0; i < ARRAY_COUNT(pairs); i++) {
        if (pairs[i][0] != pairs[i][1]) {
            return pairs[i][0] < pairs[i][1] ? -1 : 1;
        }
    }
    return 0;
}

static void say_row(struct buf *text, const struct task *row)
{
    (void)buf_printf(text,
                     "row %lld/%d queue %u attempt %u failures %u unknowns %u due %lld created "
                     "%lld expires %lld payload %u/%zu key %zu ",
                     (long long)row->id.seq, row->id.slot, row->queue, row->attempt, row->failures,
                     row->unknowns, (long long)row->due_ms, (long long)row->created_ms,
                     (long long)row->expire_ms, row->payload_len, row->payload.len, row->key.len);
    (void)buf_append(text, row->key.data, row->key.len);
    (void)buf_printf(text, " tags %zu ", row->tags.len);
    (void)buf_append(text, row->tags.data, row->tags.len);
    (void)buf_printf(text, " order %lld ", (long long)row->order_ms);
    (void)buf_append(text, row->order_key.data, row->order_key.len);
    (void)buf_append_text(text, "\n");
}

static int compare_ended(const void *left, const void *right)
{
    const struct ended_task *a = left;
    const struct ended_task *b = right;

    if (a->task.id.seq != b->task.id.seq) {
        return a->task.id.seq < b->task.id.seq ? -1 : 1;
    }
    return (int)a->end - (int)b->end;
}

/* Pages have an order, which must not be touched; what is read by id has none. */
static void say_ended(struct found *found, const struct store_read *read)
{
    MUST_LE(read->ended_count, ARRAY_COUNT(found->ended));
    if (read->ended_count > 0) {
        memcpy(found->ended, read->ended, read->ended_count * sizeof(found->ended[0]));
    }
    if (read->id_count > 0) {
        qsort(found->ended, read->ended_count, sizeof(found->ended[0]), compare_ended);
    }
    for (size_t i = 0; i < read->ended_count; i++) {
        const struct ended_task *ended = &found->ended[i];

        (void)buf_printf(&found->text, "end %d at %lld until %lld response %zu error %zu ",
                         (int)ended->end, (long long)ended->ended_ms, (long long)ended->until_ms,
                         ended->response.len, ended->error_text.len);
        say_row(&found->text, &ended->task);
    }
}

static void say_counts(struct found *found, const struct store_read *read)
{
    for (size_t i = 0; i < read->count_count; i++) {
        const struct queue_count *count = &read->counts[i];

        (void)buf_printf(&found->text, "queue %u: %llu, overdue %llu, dead %llu, first %lld\n",
                         count->queue, (unsigned long long)count->pending,
                         (unsigned long long)count->overdue, (unsigned long long)count->dead,
                         (long long)count->first_due_ms);
    }
}

static void on_read(struct store_read *read)
{
    struct found *found = read->owner;

    if (buf_slice(&found->text).len == 0) {
        (void)buf_printf(&found->text, "result %s existing %lld/%d\n", err_name(read->result),
                         (long long)read->existing.seq, read->existing.slot);
    }
    for (size_t i = 0; i < read->row_count; i++) {
        say_row(&found->text, &read->rows[i]);
        found->last_bucket = due_bucket(read->rows[i].due_ms);
        found->last_seq = read->rows[i].id.seq;
    }
    MUST_LE(read->claim_count, ARRAY_COUNT(found->claims));
    if (read->claim_count > 0) {
        memcpy(found->claims, read->claims, read->claim_count * sizeof(found->claims[0]));
    }
    qsort(found->claims, read->claim_count, sizeof(found->claims[0]), compare_claims);
    for (size_t i = 0; i < read->claim_count; i++) {
        const struct claim *claim = &found->claims[i];

        (void)buf_printf(&found->text, "claim %lld: %lld/%d attempt %u until %lld\n",
                         (long long)claim->row.seq, (long long)claim->id.seq, claim->id.slot,
                         claim->attempt, (long long)claim->deadline_ms);
    }
    say_ended(found, read);
    say_counts(found, read);
    found->done = true;
}

static void read_both(struct oracle *o, struct store_read read)
{
    struct store *stores[2] = {o->expected, o->actual};

    for (int i = 0; i < 2; i++) {
        struct store_read own = read;

        buf_clear(&founds[i].text);
        own.cb = on_read;
        own.owner = &founds[i];
        do { // Stores may cut pages at other places.
            founds[i].done = false;
            MUST_OK(stores[i]->read(stores[i], &own));
            settle(o, &founds[i].done);
            MUST(!founds[i].text.failed);
            own.after_bucket = founds[i].last_bucket;
            own.after_seq = founds[i].last_seq;
        } while (own.kind == STORE_READ_SLICE && own.result == 0 && own.has_more);
    }
    if (!slice_equal(buf_slice(&founds[0].text), buf_slice(&founds[1].text))) {
        must_fail(MUST_HERE, "seed %llu, batch %lld, read %d of shard %u:\n%s\nand in %s:\n%s",
                  (unsigned long long)o->seed, (long long)o->batch_number, (int)read.kind,
                  read.shard, buf_text(&founds[0].text), host->name, buf_text(&founds[1].text));
    }
}

/* What is left of the last tasks of a shard, in all the ways there are to ask. */
static void compare_ended_tasks(struct oracle *o, struct store_read read)
{
    static struct task_id ids[SLICE_ROW_COUNT_MAX];
    int64_t counter = o->counters[read.shard];

    read.kind = STORE_READ_DEAD;
    read.after_seq = o->base[read.shard] + (int64_t)below(o, (uint64_t)counter + 1);
    read_both(o, read);
    read.kind = STORE_READ_ORDER;
    read.queue = 1 + (uint32_t)below(o, 4);
    read.key = slice_of(order_keys[below(o, ARRAY_COUNT(order_keys))]);
    read.limit = 1 + (uint32_t)below(o, 4);
    read_both(o, read);
    read.queue = 1;
    read.kind = STORE_READ_COUNTS;
    read.now_ms = (wall_ms)below(o, 400000);
    read.limit = COUNTED_ROW_COUNT_MAX;
    read_both(o, read);
    read.queue = 0;
    read_both(o, read);
    read.queue = 1;
    while (counter > 0 && read.id_count < ARRAY_COUNT(ids)) {
        ids[read.id_count++] = make_id(o, read.shard, counter--);
    }
    if (read.id_count == 0) {
        return;
    }
    read.ids = ids;
    read.limit = 0;
    read.kind = STORE_READ_DEAD;
    read_both(o, read);
    read.kind = STORE_READ_ENDED;
    read.now_ms = NOW_MS + (wall_ms)below(o, 200);
    read_both(o, read);
}

static void compare_shard(struct oracle *o, uint32_t shard)
{
    static const uint32_t skip[] = {3, 1};
    struct store_read read = {
        .shard = shard,
        .epoch = o->epochs[shard] - (chance(o, 50) ? 1 : 0),
        .after_bucket = INT64_MIN,
        .to_bucket = (int64_t)below(o, 10),
        .limit = 1 + (uint32_t)below(o, SLICE_ROW_COUNT_MAX),
        .queue = 1,
        .now_ms = NOW_MS + (wall_ms)below(o, 200),
    };

    read.kind = STORE_READ_SLICE;
    read.queue = (uint32_t)below(o, 3);
    read.skip = skip;
    read.skip_count = read.queue == 0 ? below(o, ARRAY_COUNT(skip) + 1) : 0;
    read_both(o, read);
    read.queue = 1;
    read.kind = STORE_READ_CLAIMS;
    read_both(o, read);
    read.kind = STORE_READ_OVERDUE;
    read.now_ms = (wall_ms)below(o, 5000);
    read_both(o, read);
    read.kind = STORE_READ_KEY;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        read.key = slice_of(keys[i]);
        read.now_ms = NOW_MS + (wall_ms)below(o, 200);
        read_both(o, read);
    }
    compare_ended_tasks(o, read);
}

/* --- runs ------------------------------------------------------------------------------------- */

static void open_stores(struct oracle *o)
{
    struct store_mem_options mem = {.shard_count = SHARD_COUNT, .database_count = 1};

    o->mem = store_mem_new(&mem);
    MUST(o->mem != NULL);
    o->expected = store_mem_client(o->mem, NULL);
    o->actual = host->open(o->loop);
}

static void run(struct oracle *o)
{
    for (int i = 0; i < BATCH_COUNT; i++) {
        make_batch(o);
        write_both(o);
        compare_results(o);
        if (chance(o, 150)) {
            bump_both(o, (uint32_t)below(o, SHARD_COUNT));
        }
        for (uint32_t shard = 0; i % COMPARE_EVERY == 0 && shard < SHARD_COUNT; shard++) {
            compare_shard(o, shard);
        }
        if (i % COMPARE_EVERY == 0 && host->look != NULL) {
            host->look(o->mem);
        }
    }
}

static void on_close(void *ctx)
{
    *(bool *)ctx = true;
}

static void random_batches_do_the_same_to_both_stores(void)
{
    static struct oracle o;
    const char *given = getenv("ORACLE_SEED");
    uint64_t seed = given == NULL ? 1 : strtoull(given, NULL, 10);
    bool done = false;

    prng_init(&o.prng, seed);
    MUST_OK(loop_open(&o.loop));
    open_stores(&o);
    for (int i = 0; i < 2; i++) {
        buf_init(&founds[i].text, 1 << 22);
    }
    for (uint32_t shard = 0; shard < SHARD_COUNT; shard++) {
        o.epochs[shard] = 1;
        bump_both(&o, shard);
        while (store_mem_epoch(o.mem, shard) < o.epochs[shard]) {
            bump_both(&o, shard);
        }
    }
    for (uint64_t n = 0; n < SEED_COUNT; n++) {
        o.seed = seed + n;
        prng_init_named(&o.prng, o.seed, "oracle");
        o.first_batch = o.batch_number;
        for (uint32_t shard = 0; shard < SHARD_COUNT; shard++) {
            o.base[shard] = task_seq((int64_t)n + 1, 0);
            o.counters[shard] = 0;
        }
        run(&o);
    }
    (void)fprintf(stderr, "%d done, %d not found, %d exist, %d fenced, %d invalid\n", o.outcomes[0],
                  o.outcomes[-ERR_NOT_FOUND], o.outcomes[-ERR_EXISTS], o.outcomes[-ERR_FENCED],
                  o.outcomes[-ERR_INVALID]);
    MUST(o.outcomes[0] > 0 && o.outcomes[-ERR_NOT_FOUND] > 0 && o.outcomes[-ERR_EXISTS] > 0 &&
         o.outcomes[-ERR_FENCED] > 0 && o.outcomes[-ERR_INVALID] > 0);
    MUST(o.redrives[0] > 0 && o.redrives[-ERR_NOT_FOUND] > 0 && o.redrives[-ERR_EXISTS] > 0);
    o.actual->close(o.actual, on_close, &done);
    settle(&o, &done);
    store_mem_free(o.mem);
    host->close();
    loop_close(o.loop);
    for (int i = 0; i < 2; i++) {
        buf_fini(&founds[i].text);
    }
}

int oracle_main(int argc, char **argv, const struct oracle_host *with)
{
    static const struct must_case cases[] = {
        MUST_CASE_WITHIN(random_batches_do_the_same_to_both_stores, 200),
    };

    host = with;
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
