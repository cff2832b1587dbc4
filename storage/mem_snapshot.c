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

/* Make payloads and keys ours; rows so far borrow those of the tables. */
static void own_bytes(struct mem_snapshot *snapshot)
{
    size_t total = 0;
    uint8_t *place;

    for (size_t i = 0; i < snapshot->row_count; i++) {
        total += snapshot->rows[i].payload.len + snapshot->rows[i].key.len;
    }
    snapshot->bytes = mem_need(total, 1);
    place = snapshot->bytes;
    for (size_t i = 0; i < snapshot->row_count; i++) {
        move_slice(&snapshot->rows[i].payload, &place);
        move_slice(&snapshot->rows[i].key, &place);
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

    snapshot->rows = mem_need(read->limit, sizeof(*snapshot->rows));
    for (; node != NULL && node->major <= read->to_bucket; node = node->next[0]) {
        const struct task *row = &CONTAINER_OF(node, struct mem_row, by_due)->task;
        struct task *task;

        if (!is_wanted(read, row->queue)) {
            continue;
        }
        if (snapshot->row_count == read->limit) {
            snapshot->has_more = true;
            break;
        }
        task = &snapshot->rows[snapshot->row_count++];
        *task = *row;
        if (task->payload_len > PAYLOAD_INLINE_BYTES_MAX) {
            task->payload = (struct slice){NULL, 0};
        }
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

/* The claims of the shard in one claim row: counted, and copied if there is a place for them. */
static size_t pick_claims(const struct mem_claim_row *row, uint32_t shard, struct claim *out)
{
    size_t count = 0;

    for (size_t i = 0; i < row->count; i++) {
        const struct mem_claim *claim = &row->members[i];

        if (claim->shard != shard) {
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

static void take_claims(struct mem_snapshot *snapshot, struct mem_index *claims, uint32_t shard)
{
    size_t total = 0;

    for (struct mem_index_node *node = mem_index_first(claims); node != NULL;
         node = node->next[0]) {
        total += pick_claims(CONTAINER_OF(node, struct mem_claim_row, node), shard, NULL);
    }
    snapshot->claims = mem_need(total, sizeof(*snapshot->claims));
    for (struct mem_index_node *node = mem_index_first(claims); node != NULL;
         node = node->next[0]) {
        snapshot->claim_count += pick_claims(CONTAINER_OF(node, struct mem_claim_row, node), shard,
                                             snapshot->claims + snapshot->claim_count);
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
        take_claims(snapshot, &tables->databases[read->database].claims, read->shard);
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
    }
    own_bytes(snapshot);
}

void mem_snapshot_fini(struct mem_snapshot *snapshot)
{
    mem_free(snapshot->rows);
    mem_free(snapshot->claims);
    mem_free(snapshot->ours);
    mem_free(snapshot->bytes);
    memset(snapshot, 0, sizeof(*snapshot));
}
