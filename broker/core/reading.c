/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads of one row, by the row; those of the same row are chained.
 */
#include "broker/core/reading.h"

#include "lib/base/check.h"

void reading_fill(struct call_read *read, struct shard *shard, struct task_id id,
                  void (*cb)(struct store_read *read))
{
    read->shard = shard;
    read->serial = shard->serial;
    read->id = id;
    read->read = (struct store_read){.kind = STORE_READ_TASKS,
                                     .database = shard->database,
                                     .shard = shard->id,
                                     .epoch = shard->epoch,
                                     .ids = &read->id,
                                     .id_count = 1,
                                     .cb = cb,
                                     .owner = read};
}

int reading_begin(struct call_read *read)
{
    struct map *reading = &read->shard->reading;
    uint64_t seq = (uint64_t)read->id.seq;

    read->is_old = false;
    read->beside = map_find(reading, seq);
    return read->beside == NULL ? map_put(reading, seq, read) : map_change(reading, seq, read);
}

bool reading_end(struct call_read *read)
{
    struct map *reading = &read->shard->reading;
    uint64_t seq = (uint64_t)read->id.seq;
    struct call_read *first = map_find(reading, seq);
    struct call_read *at = first;

    if (first == read && read->beside == NULL) {
        (void)map_del(reading, seq);
    } else if (first == read) {
        int err = map_change(reading, seq, read->beside);

        ENSURE(err == 0); // It takes the place of what was there.
    } else {
        while (at->beside != read) {
            at = at->beside;
        }
        at->beside = read->beside;
    }
    return read->is_old;
}

void reading_leave(struct shard *shard, int64_t seq)
{
    for (struct call_read *read = map_find(&shard->reading, (uint64_t)seq); read != NULL;
         read = read->beside) {
        read->is_old = true;
    }
}
