/* SPDX-License-Identifier: Apache-2.0
 *
 * Large payloads.
 */
#include "broker/core/fetch.h"

#include "broker/core/entry.h"
#include "broker/core/line.h"
#include "broker/core/reading.h"
#include "broker/core/shard.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

/* Give an entry its payload and its place in the line. block: taken; NULL if it was not read. */
static void supply(struct shard *shard, struct entry *entry, struct block *block)
{
    entry->flags &= (unsigned)~ENTRY_FETCHED & 7U;
    if (block != NULL) {
        mem_free(entry->body.block);
        entry->body.block = block;
        line_add_fetched(shard->broker, entry);
    } else {
        // Not in a hot loop.
        entry_wait(shard, entry, lower_ms(shard->broker, shard->database) + WITHDRAWN_MS);
    }
}

static void fetch_done(struct store_read *read)
{
    struct call_read *fetch = read->owner;
    struct shard *shard = fetch->shard;
    bool is_fresh = fetch->serial == shard->serial;
    struct entry *entry = is_fresh ? entry_find(shard, fetch->id.seq) : NULL;
    bool is_fenced = read->result == ERR_FENCED;
    struct block *block = NULL;

    if (read->result == 0 && read->row_count == 1) {
        block = block_new(&read->rows[0]);
    }
    if (entry != NULL && (entry->flags & ENTRY_FETCHED) != 0 && entry->fetches == fetch->fetches) {
        supply(shard, entry, block);
    } else {
        mem_free(block); // Cancelled, changed or dropped meanwhile.
    }
    fetch->queue->fetching--;
    pool_give(&shard->broker->reads, fetch);
    if (is_fresh && is_fenced) {
        shard_fenced(shard);
    }
}

int fetch_payload(struct shard *shard, struct entry *entry)
{
    struct broker *broker = shard->broker;
    struct call_read *fetch = pool_take(&broker->reads);
    int err;

    if (fetch == NULL) {
        return ERR_FULL;
    }
    reading_fill(fetch, shard, (struct task_id){.seq = entry->seq, .slot = entry->slot},
                 fetch_done);
    fetch->queue = entry_queue(broker, entry);
    fetch->fetches = ++entry->fetches;
    err = broker->env.store->read(broker->env.store, &fetch->read);
    if (err != 0) {
        pool_give(&broker->reads, fetch);
        return err;
    }
    entry->flags |= ENTRY_FETCHED;
    fetch->queue->fetching++;
    return 0;
}
