/* SPDX-License-Identifier: Apache-2.0
 *
 * Dead letters that get another chance, or are forgotten: a few at a time, so that a call of many
 * never fills the owner's next commits. A letter whose change came to nothing is met again, because
 * the walk goes on behind it only when it is done.
 */
#include "broker/service_dead.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Letters that are changed at once; their whole payloads are in memory. */
#define CHANGE_COUNT 32

/* Between two tasks at a rate of one thousandth a second. */
#define RATE_UNIT_MS INT64_C(1000000)

struct change_walk;

/* One letter. */
struct change {
    struct change_walk *owner;
    struct call call;
    void *bytes; /* what call.task points to */
};

/*
 * 1. id_count > 0: the next read brings these letters whole; the walk then goes on at `behind`. Of
 *    them group_handled are changed, in more than one try if a change came to nothing.
 * 2. With ids in the request they are in `wanted`, sorted as the walk goes.
 */
struct change_walk {
    struct walk walk;
    struct dead_request request;
    bool is_redrive;
    struct task_id *wanted; /* in the walk's arena */
    uint64_t before;        /* handled by the calls before this one */
    uint64_t handled;
    uint64_t skipped;
    struct task_id ids[CHANGE_COUNT];
    size_t id_count;
    uint32_t group_handled;
    struct page_mark behind;
    bool is_again;   /* a change came to nothing: the same letters once more */
    bool is_unknown; /* nobody knows what a change came to */
    size_t change_count;
    struct change changes[CHANGE_COUNT];
};

static struct change_walk *change_of(struct walk *walk)
{
    return CONTAINER_OF(walk, struct change_walk, walk);
}

static uint32_t shard_of(const struct change_walk *w, struct task_id id)
{
    return shard_of_slot(id.slot, walk_shard_count(&w->walk));
}

/* ---- which ones ---- */

/* Index of the first wanted letter behind the mark. */
static size_t first_wanted(const struct change_walk *w)
{
    size_t i = 0;

    while (i < w->request.id_count && (shard_of(w, w->wanted[i]) < w->walk.mark.shard ||
                                       (shard_of(w, w->wanted[i]) == w->walk.mark.shard &&
                                        w->wanted[i].seq <= w->walk.mark.seq))) {
        i++;
    }
    return i;
}

/* Go to the shard of the first wanted letter, or to the end. */
static void seek_wanted(struct change_walk *w)
{
    size_t i = first_wanted(w);

    if (i == w->request.id_count) {
        w->walk.mark = page_shard(w->walk.mark, walk_shard_count(&w->walk));
    } else if (shard_of(w, w->wanted[i]) != w->walk.mark.shard) {
        w->walk.mark = page_shard(w->walk.mark, shard_of(w, w->wanted[i]));
    }
}

/* The wanted letters of this shard, some of them. */
static void pick_wanted(struct change_walk *w)
{
    uint32_t shard = w->walk.mark.shard;

    w->behind = w->walk.mark;
    for (size_t i = first_wanted(w);
         i < w->request.id_count && w->id_count < CHANGE_COUNT && w->id_count < w->walk.left &&
         shard_of(w, w->wanted[i]) == shard;
         i++) {
        w->ids[w->id_count++] = w->wanted[i];
        w->behind.seq = w->wanted[i].seq;
    }
}

static void prepare(struct walk *walk, struct store_read *read)
{
    struct change_walk *w = change_of(walk);

    read->kind = STORE_READ_DEAD;
    if (w->request.id_count > 0 && w->id_count == 0) {
        pick_wanted(w);
    }
    if (w->id_count > 0) {
        read->ids = w->ids;
        read->id_count = w->id_count;
        return;
    }
    read->queue = walk->queue_id;
    read->after_seq = walk->mark.seq;
    read->limit = CHANGE_COUNT;
}

/* Ids of the queue's next letters that the request is about; they are read whole after this. */
static void pick_listed(struct change_walk *w, const struct store_read *read)
{
    w->behind = w->walk.mark;
    for (size_t i = 0; i < read->ended_count && w->id_count < w->walk.left; i++) {
        const struct ended_task *letter = &read->ended[i];

        w->behind.seq = letter->task.id.seq;
        if (dead_matches(&w->request, letter->error_text)) {
            w->ids[w->id_count++] = letter->task.id;
        }
    }
    if (w->id_count > 0) {
        return;
    }
    w->walk.mark = w->behind;
    if (read->ended_count < CHANGE_COUNT) {
        walk_next_shard(&w->walk);
    }
}

/* ---- the changes ---- */

/* All are known: go on, or do them again. */
static void changes_done(struct change_walk *w)
{
    struct fault fault;

    if (w->is_unknown) {
        service_unknown_fault(&fault);
        walk_fail(&w->walk, &fault);
        return;
    }
    if (w->is_again) {
        w->is_again = false; // The same ones: what was done is no dead letter any more.
        return;
    }
    w->skipped += w->id_count - w->group_handled;
    w->walk.left -= (uint32_t)w->id_count;
    w->id_count = 0;
    w->group_handled = 0;
    w->behind.count = w->before + w->handled;
    w->walk.mark = w->behind;
    if (w->request.id_count > 0) {
        seek_wanted(w);
    }
}

static void on_change(struct call *call)
{
    struct change *change = call->owner;
    struct change_walk *w = change->owner;

    mem_free(change->bytes);
    switch (call->result) {
    case 0:
        w->handled++;
        w->group_handled++;
        break;
    case ERR_EXISTS:
    case ERR_NOT_FOUND:
        break; // Skipped.
    case ERR_OUTCOME_UNKNOWN:
        w->is_unknown = true;
        break;
    default:
        w->is_again = true;
        break;
    }
    REQUIRE(w->change_count > 0);
    if (--w->change_count == 0 && w->walk.rpc != NULL) {
        changes_done(w);
    }
    walk_done_one(&w->walk);
}

/* A copy of the bytes of a task; false if memory is short. */
static bool copy_task(const struct task *from, struct change *change)
{
    struct task *to = &change->call.task;
    uint8_t *bytes =
        mem_new(1, from->payload.len + from->key.len + from->order_key.len + from->tags.len + 1);
    struct slice *parts[] = {&to->payload, &to->key, &to->order_key, &to->tags};
    size_t used = 0;

    if (bytes == NULL) {
        return false;
    }
    *to = *from;
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        if (parts[i]->len > 0) {
            memcpy(bytes + used, parts[i]->data, parts[i]->len);
        }
        parts[i]->data = bytes + used;
        used += parts[i]->len;
    }
    change->bytes = bytes;
    return true;
}

/* The letter as the task that it becomes again: its time begins anew. */
static void revive(const struct change_walk *w, struct call *call, size_t index)
{
    const struct service_options *options = &w->walk.service->options;
    uint32_t database = options->cluster->database_of[call->shard];
    int64_t now_us = options->now->database[database].lower_us;
    uint64_t place = w->before + w->handled + index;

    call->task.failures = 0;
    call->task.unknowns = 0;
    if (call->task.expire_ms != 0 && call->task.expire_ms <= ms_floor(now_us)) {
        call->task.expire_ms = 0;
    }
    call->is_delay = true;
    if (w->request.rate_millis > 0) {
        call->delay_ms = time_mul((int64_t)place, RATE_UNIT_MS) / w->request.rate_millis;
    }
}

static void begin_change(struct change_walk *w, const struct ended_task *letter)
{
    struct change *change = &w->changes[w->change_count];

    *change = (struct change){.owner = w};
    change->call = (struct call){
        .kind = w->is_redrive ? CALL_REDRIVE : CALL_PURGE,
        .shard = w->walk.mark.shard,
        .cb = on_change,
        .owner = change,
    };
    if (!copy_task(&letter->task, change)) {
        w->is_again = true;
        return;
    }
    if (w->is_redrive) {
        revive(w, &change->call, w->change_count);
    }
    w->change_count++;
    w->walk.busy++;
}

static void take(struct walk *walk, const struct store_read *read)
{
    struct change_walk *w = change_of(walk);
    size_t count;

    if (w->id_count == 0) {
        pick_listed(w, read);
        return;
    }
    for (size_t i = 0; i < read->ended_count; i++) {
        const struct ended_task *letter = &read->ended[i];

        if (letter->task.queue == walk->queue_id && dead_matches(&w->request, letter->error_text)) {
            begin_change(w, letter);
        }
    }
    count = w->change_count;
    if (count == 0) {
        changes_done(w);
    }
    for (size_t i = 0; i < count; i++) { // The last callback comes later, never inside.
        broker_call(walk->service->options.broker, walk->service->options.now, &w->changes[i].call);
    }
}

/* ---- other brokers, and the answer ---- */

static int write_rest(struct walk *walk, struct buf *out)
{
    struct change_walk *w = change_of(walk);

    // The shard has moved: what is left of the group is the other broker's.
    walk->left -= w->group_handled;
    w->id_count = 0;
    w->group_handled = 0;
    w->request.count_max = walk->left;
    w->request.mark = walk->mark;
    return w->is_redrive ? codec_write_dead_redrive(&w->request, out)
                         : codec_write_dead_purge(&w->request, out);
}

static int merge(struct walk *walk, struct slice payload, struct arena *arena, const char **token)
{
    struct change_walk *w = change_of(walk);
    struct dead_done done = {.next_token = ""};
    struct fault fault;
    int err = w->is_redrive ? codec_read_redrive_reply(payload, arena, &done, &fault)
                            : codec_read_purge_reply(payload, arena, &done, &fault);

    if (err == 0) {
        uint64_t both = done.handled + done.skipped;

        w->handled += done.handled;
        w->skipped += done.skipped;
        walk->left -= both < walk->left ? (uint32_t)both : walk->left;
    }
    *token = done.next_token;
    return err;
}

static int answer(struct walk *walk, struct buf *out)
{
    struct change_walk *w = change_of(walk);
    char token[PAGE_TOKEN_BYTES_MAX + 1];
    struct dead_done done = {
        .handled = w->handled,
        .skipped = w->skipped,
        .next_token = page_format(walk->mark, walk_shard_count(walk), token),
    };

    return w->is_redrive ? codec_write_redrive_reply(&done, out)
                         : codec_write_purge_reply(&done, out);
}

static const struct walk_verbs REDRIVE_VERBS = {
    .what = "cannot redrive the dead letters",
    .path = "/foliot.v1.QueueService/RedriveDead",
    .prepare = prepare,
    .take = take,
    .write = write_rest,
    .merge = merge,
    .answer = answer,
};

static const struct walk_verbs PURGE_VERBS = {
    .what = "cannot purge the dead letters",
    .path = "/foliot.v1.QueueService/PurgeDead",
    .prepare = prepare,
    .take = take,
    .write = write_rest,
    .merge = merge,
    .answer = answer,
};

/* ---- the start ---- */

/* Sorted as the walk goes: by shard, and in it by seq. */
struct wanted_id {
    uint32_t shard;
    struct task_id id;
};

static int compare_wanted(const void *a, const void *b)
{
    const struct wanted_id *left = a;
    const struct wanted_id *right = b;

    if (left->shard != right->shard) {
        return left->shard < right->shard ? -1 : 1;
    }
    return (left->id.seq > right->id.seq) - (left->id.seq < right->id.seq);
}

/* Sort the ids of the request; one that comes twice is one. errors: ERR_NO_MEMORY. */
static int sort_wanted(struct change_walk *w)
{
    size_t count = w->request.id_count;
    struct wanted_id *sorted = mem_new(count + 1, sizeof(*sorted));
    size_t kept = 0;

    if (sorted == NULL) {
        return ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (struct wanted_id){shard_of(w, w->request.ids[i]), w->request.ids[i]};
    }
    if (count > 1) {
        qsort(sorted, count, sizeof(sorted[0]), compare_wanted);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || sorted[i].id.seq != w->wanted[kept - 1].seq ||
            sorted[i].shard != shard_of(w, w->wanted[kept - 1])) {
            w->wanted[kept++] = sorted[i].id;
        }
    }
    mem_free(sorted);
    w->request.ids = w->wanted;
    w->request.id_count = kept;
    return 0;
}

static void start_change(struct rpc_call *rpc, struct slice request, struct service *service,
                         bool is_redrive)
{
    struct walk *walk = walk_new(sizeof(struct change_walk), service, rpc,
                                 is_redrive ? &REDRIVE_VERBS : &PURGE_VERBS);
    struct change_walk *w;
    struct fault fault;
    int err;

    if (walk == NULL) {
        return;
    }
    w = change_of(walk);
    w->is_redrive = is_redrive;
    w->walk.changes_something = true;
    err = is_redrive ? codec_read_dead_redrive(request, &w->walk.arena, &w->request, &fault)
                     : codec_read_dead_purge(request, &w->walk.arena, &w->request, &fault);
    if (err == 0 && w->request.id_count > 0) {
        arena_allow(&w->walk.arena, w->walk.arena.used + sizeof(*w->wanted) * DEAD_CALL_COUNT_MAX +
                                        ARENA_INLINE_BYTES);
        w->wanted = arena_new(&w->walk.arena, w->request.id_count * sizeof(*w->wanted));
        err = w->wanted == NULL ? ERR_NO_MEMORY : sort_wanted(w);
        if (err != 0) {
            fault_set_err(&fault, err, w->walk.verbs->what);
        }
    }
    if (err != 0) {
        walk_fail(&w->walk, &fault);
        return;
    }
    // A token may be made up by hand: no sum of it and what is handled is above INT64_MAX.
    w->before = w->request.mark.count < INT64_MAX / 2 ? w->request.mark.count : INT64_MAX / 2;
    if (w->request.id_count > 0) {
        w->walk.mark = w->request.mark;
        seek_wanted(w);
        w->request.mark = w->walk.mark;
    }
    dead_start(&w->walk, &w->request);
}

void service_dead_redrive(struct rpc_call *rpc, struct slice request, void *ctx)
{
    start_change(rpc, request, ctx, true);
}

void service_dead_purge(struct rpc_call *rpc, struct slice request, void *ctx)
{
    start_change(rpc, request, ctx, false);
}
