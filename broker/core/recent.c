/* SPDX-License-Identifier: Apache-2.0
 *
 * One ring for the whole broker, and a map per shard into it.
 */
#include "broker/core/recent.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"

int recent_init(struct broker *broker)
{
    broker->recents = mem_new(RECENTS_MAX, sizeof(*broker->recents));
    return broker->recents == NULL ? ERR_NO_MEMORY : 0;
}

void recent_fini(struct broker *broker)
{
    mem_free(broker->recents);
}

void recent_add(struct shard *shard, struct task_id id, uint32_t attempt)
{
    struct broker *broker = shard->broker;
    struct recent *recent = &broker->recents[broker->recent_next];
    struct shard *before = &broker->shards[recent->shard];

    broker->recent_next = (broker->recent_next + 1) % RECENTS_MAX;
    if (map_find(&before->recent, (uint64_t)recent->id.seq) == recent) {
        (void)map_del(&before->recent, (uint64_t)recent->id.seq);
    }
    *recent = (struct recent){.id = id, .shard = shard->id, .attempt = attempt};
    (void)!map_put(&shard->recent, (uint64_t)id.seq, recent); // Without memory: not remembered.
}

const struct recent *recent_find(const struct shard *shard, struct task_id id)
{
    const struct recent *recent = map_find(&shard->recent, (uint64_t)id.seq);

    return recent != NULL && recent->id.slot == id.slot ? recent : NULL;
}

void recent_forget(struct shard *shard)
{
    map_fini(&shard->recent);
}
