/* SPDX-License-Identifier: Apache-2.0
 *
 * What a read of the memory store saw when it was executed: copies, so that the reply may come
 * after the rows have changed.
 */
#ifndef FOLIOT_STORAGE_MEM_SNAPSHOT_H
#define FOLIOT_STORAGE_MEM_SNAPSHOT_H

#include "storage/mem_table.h"

struct mem_snapshot {
    int result; /* 0 or ERR_FENCED */
    struct task *rows;
    size_t row_count;
    bool has_more;
    struct claim *claims;
    size_t claim_count;
    struct task_id existing;
    struct ended_task *ended;
    size_t ended_count;
    struct queue_count *counts;
    size_t count_count;
    bool is_cut;
    bool *ours;     /* one per epoch check */
    uint8_t *bytes; /* what the rows point to */
};

/* Look. The snapshot is filled in whole; mem_snapshot_fini frees what it holds. */
void mem_snapshot_take(struct mem_snapshot *snapshot, struct mem_tables *tables,
                       const struct store_read *read);
void mem_snapshot_fini(struct mem_snapshot *snapshot);

#endif
