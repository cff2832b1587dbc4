/* SPDX-License-Identifier: Apache-2.0
 *
 * A run in words: one line for each traced event, with who it is about, the shard and its epoch,
 * the task, and times relative to the moment. For replays of failures and for golden transcripts.
 * An event that is not in its table is shown as plain numbers, so nothing is kept back.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_TELL_H
#define FOLIOT_TESTS_SIM_SIM_TELL_H

#include "lib/base/buf.h"
#include "tests/sim/sim.h"

#define SIM_TOLD_VALUES_MAX 8

/* A traced event. */
struct sim_told {
    const char *what;
    int64_t values[SIM_TOLD_VALUES_MAX];
    size_t count;
    int64_t at; /* true time since the start, microseconds */
};

/* Which events are told. Faults are always, for they explain the rest. */
struct sim_tell_filter {
    bool has_shard;
    uint32_t shard;
    bool has_task;
    int64_t seq;   /* of the task */
    int64_t from;  /* times are told from here, microseconds since the start */
    bool is_brief; /* for transcripts: milliseconds, and nothing that only repeats itself */
};

/*
 * Want a task only.
 *
 * shape:  text is an id as messages show it ("01c-0000008000000001", which also says the shard), or
 *         the part behind the dash, without leading zeros if one likes.
 * return: false: it is neither.
 */
bool sim_tell_want_task(struct sim_tell_filter *filter, const char *text, uint32_t shard_count);

/* Keep a traced event for later. */
void sim_told_set(struct sim_told *told, const struct sim *sim, const char *what,
                  const int64_t *values, size_t count);

/* Add the line of an event, with its end of line, to `out`. Nothing if the filter leaves it out. */
void sim_tell(const struct sim *sim, const struct sim_tell_filter *filter,
              const struct sim_told *told, struct buf *out);

#endif
