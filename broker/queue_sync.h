/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the core's queues as the home database has them: read at start, after each nudge, every few
 * seconds besides, and before anybody is told that a queue does not exist.
 */
#ifndef FOLIOT_BROKER_QUEUE_SYNC_H
#define FOLIOT_BROKER_QUEUE_SYNC_H

#include "broker/core/broker.h"

struct loop;
struct queue_sync;
struct queue_wait;

/* The read that a waiter asked for has ended. shape: err is 0 or ERR_UNAVAILABLE. */
typedef void (*queue_wait_cb)(struct queue_wait *wait, int err);

/* Embedded in the object that waits; must not move until the callback. */
struct queue_wait {
    struct list link; /* the sync's */
    queue_wait_cb cb;
};

struct queue_sync_options {
    struct loop *loop;
    struct store *store;
    struct broker *broker;
    const struct now *now; /* the time of the turn */
    int64_t beat_us;       /* what is looked after without any event waits for it */
};

/* errors: ERR_NO_MEMORY. The first read starts at once. */
MUST_USE int queue_sync_open(const struct queue_sync_options *options, struct queue_sync **out);

/* The coordinator says that queues have changed. */
void queue_sync_on_config(struct queue_sync *sync, int64_t version);

/*
 * Read home once more; calls that wait at the same time share a read.
 *
 * note: the read begins after this call; the callback runs later, when the core has its queues.
 */
void queue_sync_refresh(struct queue_sync *sync, struct queue_wait *wait);

/* Have the queues been read at least once? */
bool queue_sync_is_ready(const struct queue_sync *sync);

/* Ask the store for nothing any more: it is about to be closed. Whoever waits is told when all is
 * closed. */
void queue_sync_stop(struct queue_sync *sync);

/* Free. shape: the store is closed, so every callback has run; nobody waits. */
void queue_sync_close(struct queue_sync *sync);

#endif
