/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads of the memory store.
 */
#include "storage/mem_snapshot.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

static void move_slice(struct slice *slice, uint8_t **place)
{
    if (slice->len > 0) {
        memcpy(*place, slice->data, slice->len);
    }
    slice->data = *place;
    *place += slice->len;
}

static void move_task(struct task *task, uint8_t **place)
{
    move_slice(&task->payload, place);
    move_slice(&task->key, place);
    move_slice(&task->tags, place);
    move_slice(&task->order_key, place);
}

static size_t task_bytes(const struct task *task)
{
    return task->payload.len + task->key.len + task->tags.len + task->order_key.len;
}

/* Make payloads and the like ours; rows so far borrow those of the tables. */
static void own_bytes(struct mem_snapshot *snapshot)
{
    size_t total = 0;
    uint8_t *place;

    for (size_t i = 0; i < snapshot->row_count; i++) {
        total += task_bytes(&snapshot->rows[i]);
    }
    for (size_t i = 0; i < snapshot->ended_count; i++) {
        const struct ended_task *ended = &snapshot->ended[i];

        total += task_bytes(&ended->task) + ended->response.len + ended->error_text.len;
    }
    snapshot->bytes = mem_need(total, 1);
    place = snapshot->bytes;
    for (size_t i = 0; i < snapshot->row_count; i++) {
        move_task(&snapshot->rows[i], &place);
    }
    for (size_t i = 0; i < snapshot->ended_count; i++) {
        move_task(&snapshot->ended[i].task, &place);
        move_slice(&snapshot->ended[i].response, &place);
        move_slice(&snapshot->ended[i].error_text, &place);
    }
}

/* A page leaves long payloads out. */
static void shorten(struct task *task)
{
    if (task->payload_len > PAYLOAD_INLINE_BYTES_MAX) {
        task->payload = (struct slice){NULL, 0};
    }
}

/* Whether a slice is to have the rows of a queue. */
static bool is_wanted(const struct store_read *read, uint32_t queue)
{
    for (size_t i = 0; i < read->skip_count; i++) {
        if (read->skip[i] == queue) {
            return false;
        }
    }
    return read->queue == 0 || read->queue == queue;
}

static void take_slice(struct mem_snapshot *snapshot, struct mem_shard *shard,
                       const struct store_read *read)
{
    struct mem_index_node *node =
        mem_index_after(&shard->by_due, read->after_bucket, read->after_seq);

    for (; node != NULL && node->major <= read->to_bucket; node = node->next) {
        const struct task *row = &CONTAINER_OF(node, struct mem_row, by_due)->task;
        struct task *task;

        if (!is_wanted(read, row->queue)) {
            continue;
        }
        if (snapshot->row_count == read->limit) {
            snapshot->has_more = true;
            break;
        }
        snapshot->rows = mem_grow(snapshot->rows, snapshot->row_count, sizeof(*task));
        task = &snapshot->rows[snapshot->row_count++];
        *task = *row;
        shorten(task);
    }
}

static void take_tasks(struct mem_snapshot *snapshot, struct mem_shard *shard,
                       const struct store_read *read)
{
    snapshot->rows = mem_need(read->id_count, sizeof(*snapshot->rows));
    for (size_t i = 0; i < read->id_count; i++) {
        struct mem_row *row = mem_row_find(shard, read->ids[i]);

        if (row != NULL) {
            snapshot->rows[snapshot->row_count++] = row->task;
        }
    }
}

static void take_key(struct mem_snapshot *snapshot, struct mem_shard *shard,
                     const struct store_read *read)
{
    struct mem_key *key = mem_key_find(shard, read->queue, read->key);
    struct mem_row *row;

    snapshot->rows = mem_need(1, sizeof(*snapshot->rows));
    if (key == NULL || (key->until_ms != 0 && key->until_ms <= read->now_ms)) {
        return;
    }
    snapshot->existing = key->id;
    row = mem_row_find(shard, key->id);
    if (row != NULL) {
        snapshot->rows[snapshot->row_count++] = row->task;
    }
}

/* Whether a row comes before another one of its order key. */
static bool is_before(const struct task *a, const struct task *b)
{
    return a->order_ms < b->order_ms || (a->order_ms == b->order_ms && a->id.seq < b->id.seq);
}

/* Put a row in its place among the first ones of its order key; the last one goes if they are too
 * many. */
static void take_in_order(struct mem_snapshot *snapshot, const struct task *row, uint32_t limit)
{
    size_t i = snapshot->row_count;

    while (i > 0 && is_before(row, &snapshot->rows[i - 1])) {
        i--;
    }
    if (i == limit) {
        return;
    }
    snapshot->row_count += snapshot->row_count < limit;
    memmove(&snapshot->rows[i + 1], &snapshot->rows[i],
            (snapshot->row_count - i - 1) * sizeof(snapshot->rows[0]));
    snapshot->rows[i] = *row;
    shorten(&snapshot->rows[i]);
}

static void take_order(struct mem_snapshot *snapshot, struct mem_shard *shard,
                       const struct store_read *read)
{
    int64_t hash = mem_key_hash(read->queue, read->key);

    snapshot->rows = mem_need(read->limit, sizeof(*snapshot->rows));
    for (struct mem_index_node *node = mem_index_after(&shard->by_order, hash, -1);
         node != NULL && node->major == hash; node = node->next) {
        const struct task *row = &CONTAINER_OF(node, struct mem_row, by_order)->task;

        if (row->queue == read->queue && slice_equal(row->order_key, read->key)) {
            take_in_order(snapshot, row, read->limit);
        }
    }
}

/* A page of a queue's dead letters. */
static void take_dead(struct mem_snapshot *snapshot, struct mem_shard *shard,
                      const struct store_read *read)
{
    struct mem_index_node *node = mem_index_after(&shard->dead, read->after_seq, 0);

    for (; node != NULL && snapshot->ended_count < read->limit; node = node->next) {
        const struct ended_task *letter = &CONTAINER_OF(node, struct mem_ended, node)->ended;

        if (letter->task.queue == read->queue) {
            snapshot->ended = mem_grow(snapshot->ended, snapshot->ended_count, sizeof(*letter));
            snapshot->ended[snapshot->ended_count] = *letter;
            shorten(&snapshot->ended[snapshot->ended_count++].task);
        }
    }
}

/* What is left of the given tasks, whole. */
static void take_ended(struct mem_snapshot *snapshot, struct mem_shard *shard,
                       const struct store_read *read)
{
    snapshot->ended = mem_need(2 * read->id_count, sizeof(*snapshot->ended));
    for (size_t i = 0; i < read->id_count; i++) {
        const struct mem_ended *result = mem_ended_find(&shard->ended, read->ids[i]);
        const struct mem_ended *letter = mem_ended_find(&shard->dead, read->ids[i]);

        if (read->kind == STORE_READ_ENDED && result != NULL &&
            result->ended.until_ms > read->now_ms) {
            snapshot->ended[snapshot->ended_count++] = result->ended;
        }
        if (letter != NULL) {
            snapshot->ended[snapshot->ended_count++] = letter->ended;
        }
    }
}

/* The count of a queue, made in its place if need be; NULL when there are too many. */
static struct queue_count *count_of(struct mem_snapshot *snapshot, uint32_t queue)
{
    size_t i = 0;

    while (i < snapshot->count_count && snapshot->counts[i].queue < queue) {
        i++;
    }
    if (i < snapshot->count_count && snapshot->counts[i].queue == queue) {
        return &snapshot->counts[i];
    }
    memmove(&snapshot->counts[i + 1], &snapshot->counts[i],
            (snapshot->count_count - i) * sizeof(snapshot->counts[0]));
    snapshot->counts[i] = (struct queue_count){.queue = queue, .first_due_ms = WALL_NEVER};
    snapshot->count_count++;
    if (snapshot->count_count <= QUEUE_COUNT_MAX) {
        return &snapshot->counts[i];
    }
    snapshot->count_count--;
    return i < QUEUE_COUNT_MAX ? &snapshot->counts[i] : NULL;
}

static void count_task(struct mem_snapshot *snapshot, const struct task *task, wall_ms now_ms)
{
    struct queue_count *count = count_of(snapshot, task->queue);

    if (count != NULL) {
        count->pending++;
        count->overdue += task->due_ms <= now_ms;
        count->first_due_ms = time_min(count->first_due_ms, task->due_ms);
    }
}

static void take_counts(struct mem_snapshot *snapshot, struct mem_shard *shard,
                        const struct store_read *read)
{
    struct mem_index_node *node = mem_index_first(&shard->by_seq);
    uint32_t looked = 0;

    snapshot->counts = mem_need(QUEUE_COUNT_MAX + 1, sizeof(*snapshot->counts));
    for (; node != NULL && looked < read->limit; node = node->next) {
        const struct task *task = &CONTAINER_OF(node, struct mem_row, by_seq)->task;

        if (read->queue == 0 || read->queue == task->queue) {
            count_task(snapshot, task, read->now_ms);
            looked++;
        }
    }
    snapshot->is_cut = looked == read->limit;
    looked = 0;
    for (node = mem_index_first(&shard->dead); node != NULL && looked < read->limit;
         node = node->next) {
        uint32_t queue = CONTAINER_OF(node, struct mem_ended, node)->ended.task.queue;
        struct queue_count *count;

        if (read->queue != 0 && read->queue != queue) {
            continue;
        }
        count = count_of(snapshot, queue);
        if (count != NULL) {
            count->dead++;
        }
        looked++;
    }
    snapshot->is_cut = snapshot->is_cut || looked == read->limit;
}

/* The claims of the shard in one claim row, those with a deadline up to a time: counted, and copied
 * if there is a place for them. */
static size_t pick_claims(const struct mem_claim_row *row, uint32_t shard, wall_ms until_ms,
                          struct claim *out)
{
    size_t count = 0;

    for (size_t i = 0; i < row->count; i++) {
        const struct mem_claim *claim = &row->members[i];

        if (claim->shard != shard || claim->deadline_ms > until_ms) {
            continue;
        }
        if (out != NULL) {
            out[count] = (struct claim){
                .row = {row->node.major, row->node.minor},
                .id = claim->id,
                .attempt = claim->attempt,
                .deadline_ms = claim->deadline_ms,
            };
        }
        count++;
    }
    return count;
}

static void take_claims(struct mem_snapshot *snapshot, struct mem_index *claims,
                        const struct store_read *read)
{
    wall_ms until_ms = read->kind == STORE_READ_OVERDUE ? read->now_ms : WALL_NEVER;
    size_t total = 0;

    for (struct mem_index_node *node = mem_index_first(claims); node != NULL; node = node->next) {
        total += pick_claims(CONTAINER_OF(node, struct mem_claim_row, node), read->shard, until_ms,
                             NULL);
    }
    snapshot->claims = mem_need(total, sizeof(*snapshot->claims));
    for (struct mem_index_node *node = mem_index_first(claims); node != NULL; node = node->next) {
        snapshot->claim_count +=
            pick_claims(CONTAINER_OF(node, struct mem_claim_row, node), read->shard, until_ms,
                        snapshot->claims + snapshot->claim_count);
    }
    if (read->kind == STORE_READ_OVERDUE && snapshot->claim_count > read->limit) {
        snapshot->claim_count = read->limit;
    }
}

static bool is_ours(const struct mem_tables *tables, uint32_t database, uint32_t shard,
                    int64_t epoch)
{
    return shard < tables->shard_count && tables->shards[shard].database == database && epoch > 0 &&
           tables->shards[shard].epoch == epoch;
}

static void take_epochs(struct mem_snapshot *snapshot, const struct mem_tables *tables,
                        const struct store_read *read)
{
    snapshot->ours = mem_need(read->check_count, sizeof(*snapshot->ours));
    for (size_t i = 0; i < read->check_count; i++) {
        snapshot->ours[i] =
            is_ours(tables, read->database, read->checks[i].shard, read->checks[i].epoch);
    }
}

void mem_snapshot_take(struct mem_snapshot *snapshot, struct mem_tables *tables,
                       const struct store_read *read)
{
    struct mem_shard *shard = NULL;

    memset(snapshot, 0, sizeof(*snapshot));
    if (read->kind != STORE_READ_EPOCHS &&
        !is_ours(tables, read->database, read->shard, read->epoch)) {
        snapshot->result = ERR_FENCED;
        return;
    }
    shard = read->kind == STORE_READ_EPOCHS ? NULL : &tables->shards[read->shard];
    switch (read->kind) {
    case STORE_READ_CLAIMS:
    case STORE_READ_OVERDUE:
        take_claims(snapshot, &tables->databases[read->database].claims, read);
        break;
    case STORE_READ_SLICE:
        take_slice(snapshot, shard, read);
        break;
    case STORE_READ_TASKS:
        take_tasks(snapshot, shard, read);
        break;
    case STORE_READ_EPOCHS:
        take_epochs(snapshot, tables, read);
        break;
    case STORE_READ_KEY:
        take_key(snapshot, shard, read);
        break;
    case STORE_READ_DEAD:
        if (read->id_count == 0) {
            take_dead(snapshot, shard, read);
            break;
        }
        take_ended(snapshot, shard, read);
        break;
    case STORE_READ_ENDED:
        take_ended(snapshot, shard, read);
        break;
    case STORE_READ_ORDER:
        take_order(snapshot, shard, read);
        break;
    case STORE_READ_COUNTS:
        take_counts(snapshot, shard, read);
        break;
    }
    own_bytes(snapshot);
}

void mem_snapshot_fini(struct mem_snapshot *snapshot)
{
    mem_free(snapshot->rows);
    mem_free(snapshot->claims);
    mem_free(snapshot->ended);
    mem_free(snapshot->counts);
    mem_free(snapshot->ours);
    mem_free(snapshot->bytes);
    memset(snapshot, 0, sizeof(*snapshot));
}
