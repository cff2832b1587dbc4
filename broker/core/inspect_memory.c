/* SPDX-License-Identifier: Apache-2.0
 *
 * What a broker holds in memory, counted by a walk over all of it: for those who ask seldom.
 */
#include "broker/core/inspect.h"

#include "broker/core/entry.h"
#include "broker/core/sleep.h"
#include "broker/core/state.h"

static void add_entry(const struct entry *entry, struct memory_view *out)
{
    const struct block *block = entry->state == ENTRY_ASLEEP ? NULL : entry_block(entry);

    if (entry->state == ENTRY_ASLEEP) {
        out->payload_bytes += sleep_payload_len(entry);
        out->asleep++;
    }
    if (block == NULL) {
        return;
    }
    out->payload_bytes += block_payload(block).len;
    out->large_count +=
        entry->state == ENTRY_WAITING && block_payload(block).len > PAYLOAD_INLINE_BYTES_MAX;
}

void broker_inspect_memory(const struct broker *broker, struct memory_view *out)
{
    *out = (struct memory_view){.calls = broker->call_count};
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        const struct shard *shard = &broker->shards[i];
        struct entry_iter iter = {0};
        const struct entry *entry;

        while ((entry = entry_next(shard, &iter)) != NULL) {
            add_entry(entry, out);
        }
        out->adrift += (uint32_t)map_count(&shard->adrift);
        out->recents += (uint32_t)map_count(&shard->recent);
    }
    for (uint32_t i = 0; i < broker->queue_count; i++) {
        out->fetching += broker->queues[i]->fetching;
    }
}
