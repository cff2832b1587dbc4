/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that are read one by one, for calls and for visits. A reply may be older than what has been
 * done with its task since, by way of memory: a task that was in memory and left it again, ended,
 * changed or tried once more, is not what such a read says.
 */
#ifndef FOLIOT_BROKER_CORE_READING_H
#define FOLIOT_BROKER_CORE_READING_H

#include "broker/core/state.h"

/* Reads on behalf of calls, of rows that are visited and of payloads, at once. */
#define READS_MAX 16384U

/* A read on behalf of one call. */
struct call_read {
    struct store_read read;
    struct call *call;         /* NULL: a payload, or a row that is visited */
    struct queue_state *queue; /* of a payload */
    struct order_line *order;  /* whose head is asked for */
    struct shard *shard;
    struct task_id id;
    uint32_t serial;
    uint32_t attempt;         /* of a telling that is to be refused */
    struct call_read *beside; /* another read of the same row */
    bool is_old;              /* its task has left memory since it was sent */
    uint8_t fetches;          /* the entry's, when a payload was asked for */
};

/*
 * Fill in a read of one row, under the shard's present epoch.
 *
 * shape:     read is from broker->reads; its other members are the caller's.
 * ownership: cb gives it back to the pool.
 */
void reading_fill(struct call_read *read, struct shard *shard, struct task_id id,
                  void (*cb)(struct store_read *read));

/* A read of one row is about to be sent. shape: shard and id are set. errors: ERR_NO_MEMORY. */
MUST_USE int reading_begin(struct call_read *read);

/* It has been answered, or was not sent. True: its task has left memory since it began, so that the
 * row, or its absence, is to be read again. */
bool reading_end(struct call_read *read);

/* A task leaves memory. */
void reading_leave(struct shard *shard, int64_t seq);

#endif
