/* SPDX-License-Identifier: Apache-2.0
 *
 * Due times for creates that keep.
 */
#include "broker/core/call_keep.h"

#include "broker/core/call_life.h"
#include "broker/core/entry.h"
#include "broker/core/shard.h"
#include "lib/base/err.h"

/* Answer with the task that holds the key. row: as read under the fence, NULL if it is over; memory
 * is newer than that. */
static void answer_kept(struct shard *shard, struct call *call, const struct task *row)
{
    const struct entry *entry = entry_peek(shard, call->found.seq);

    if (entry != NULL) {
        call->found_due_ms = entry_due_ms(entry);
    } else if (row != NULL) {
        call->found_due_ms = row->due_ms;
    }
    call_answer(shard->broker, call, 0);
}

void call_keep(struct shard *shard, struct call *call)
{
    if (entry_peek(shard, call->found.seq) != NULL) {
        answer_kept(shard, call, NULL);
        return;
    }
    list_add(&shard->keeping, &call->link);
    shard_touch(shard);
}

static const struct task *find_row(const struct store_read *read, int64_t seq)
{
    for (size_t i = 0; i < read->row_count; i++) {
        if (read->rows[i].id.seq == seq) {
            return &read->rows[i];
        }
    }
    return NULL;
}

static void keep_done(struct store_read *read)
{
    struct shard *shard = read->owner;
    size_t left = read->id_count;
    struct list *link;

    shard->is_keeping = false;
    shard_touch(shard); // There may be more by now.
    if (shard->keep_serial != shard->serial) {
        return; // Those who asked have been sent on.
    }
    while (left > 0 && (link = list_take_first(&shard->keeping)) != NULL) {
        struct call *call = CONTAINER_OF(link, struct call, link);

        if (read->result == 0) {
            answer_kept(shard, call, find_row(read, call->found.seq));
        } else {
            call_answer(shard->broker, call, read->result);
        }
        left--;
    }
    if (read->result == ERR_FENCED) {
        shard_fenced(shard);
    }
}

void call_keep_step(struct shard *shard)
{
    size_t count = 0;

    if (shard->is_keeping || list_is_empty(&shard->keeping)) {
        return;
    }
    list_foreach (link, &shard->keeping) {
        if (count < KEEP_IDS_MAX) {
            shard->keep_ids[count++] = CONTAINER_OF(link, struct call, link)->found;
        }
    }
    shard->keep = (struct store_read){
        .kind = STORE_READ_TASKS, .ids = shard->keep_ids, .id_count = count, .cb = keep_done};
    shard->is_keeping = shard_read(shard, &shard->keep, &shard->keep_serial);
}

void call_keep_drop(struct shard *shard, bool again)
{
    struct list *link;

    while ((link = list_take_first(&shard->keeping)) != NULL) {
        call_cut(shard, CONTAINER_OF(link, struct call, link), again);
    }
}
