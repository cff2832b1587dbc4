/* SPDX-License-Identifier: Apache-2.0
 *
 * The coordinator of a cluster that lives in one process: no server, no session that could be lost.
 * The members share one loop. It still gives every ownership a generation, and never one that it
 * has given before: whoever opens it says where the last process had got to.
 */
#ifndef FOLIOT_COORDINATOR_COORD_STANDALONE_H
#define FOLIOT_COORDINATOR_COORD_STANDALONE_H

#include "coordinator/coord.h"

struct loop;
struct standalone;

struct standalone_options {
    struct loop *loop; /* borrowed until standalone_close */
    uint32_t shard_count;
    int64_t generation_last; /* 0 … GENERATION_MAX: those given from now on are higher */
};

/*
 * Make a cluster without members, in which nobody owns anything.
 *
 * errors: ERR_NO_MEMORY.
 */
MUST_USE int standalone_open(const struct standalone_options *options, struct standalone **out);

/* Free it. shape: every member has been closed. NULL is fine. */
void standalone_close(struct standalone *cluster);

/*
 * Join: the member is in the list soon, and hears COORD_NEW.
 *
 * shape:  `self` and `events` are copied. At most MEMBER_COUNT_MAX members.
 * errors: ERR_NO_MEMORY, ERR_FULL.
 */
MUST_USE int standalone_join(struct standalone *cluster, const struct member *self,
                             const struct coord_events *events, struct coord **out);

#endif
