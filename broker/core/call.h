/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of users as the core sees them: create, get, cancel, update of one task. A call is a struct
 * that belongs to the caller and lives until its callback; a batch is many of them.
 */
#ifndef FOLIOT_BROKER_CORE_CALL_H
#define FOLIOT_BROKER_CORE_CALL_H

#include "lib/base/list.h"
#include "lib/model/queue.h"
#include "lib/model/task.h"
#include "storage/store.h"

#include <stdbool.h>
#include <stdint.h>

struct call;
typedef void (*call_cb)(struct call *call);

enum call_kind {
    CALL_CREATE = 1,
    CALL_GET,
    CALL_CANCEL,
    CALL_UPDATE,
    CALL_SCAN,    /* a read of the shard that the edge has prepared */
    CALL_REDRIVE, /* a dead letter is pending again */
    CALL_PURGE    /* a dead letter is forgotten */
};

/* What cancelling came to. source: DESIGN 11 */
enum cancel_outcome {
    CANCEL_CANCELLED = 1, /* no attempt ran, none will */
    CANCEL_STOPPED,       /* `attempt` may be running, or has run; none after it */
    CANCEL_GONE,          /* was issued, is no longer pending */
    CANCEL_NOT_FOUND      /* never issued, or an unknown key */
};

/* Where a pending task stands. */
enum task_state {
    TASK_STATE_WAITING = 1, /* for its due time */
    TASK_STATE_READY,       /* due, waits for room at its target */
    TASK_STATE_RUNNING,     /* claimed; `attempt` may be running */
    TASK_STATE_RETRYING     /* failed at least once, waits for its next due time */
};

/*
 * One call.
 * 1. `shard` is the shard of task.id.slot; for a create the slot is chosen by the caller: from the
 *    key if there is one, else by broker_pick_slot().
 * 2. By id: task.id.seq ≠ 0. By key: task.id.seq == 0, task.queue and task.key given, and
 *    task.id.slot routed from them.
 */
struct call {
    struct list link; /* the core's while in flight */
    enum call_kind kind;
    uint32_t shard;
    struct task task;           /* CREATE: slot, queue, payload, key, due_ms, tags, expire_ms;
                                   UPDATE: new values; REDRIVE: the letter's task as it was read,
                                   whole; PURGE: id */
    bool is_delay;              /* CREATE, UPDATE: due is delay_ms from now, not task.due_ms */
    span_ms delay_ms;           /* ≥ 0 */
    enum key_policy key_policy; /* CREATE with key */
    wall_ms replace_latest_ms;  /* CREATE, KEY_REPLACE: due is held at or before it; 0: no bound */
    struct store_read *scan;    /* SCAN: kind and bounds; shard, epoch and clock are the core's to
                                   fill in. Its results are borrowed during the callback. */
    bool set_due;               /* UPDATE */
    bool set_payload;           /* UPDATE */
    call_cb cb;
    void *owner; /* the caller's */
    /* results */
    int result;                 /* 0; ERR_FENCED: not ours, find the owner; ERR_UNAVAILABLE;
                                   ERR_FULL: overload, see retry_after_ms; ERR_OUTCOME_UNKNOWN;
                                   ERR_CONFLICT (CREATE: its queue is draining);
                                   ERR_EXISTS (CREATE with KEY_REJECT, REDRIVE; `found` is who);
                                   ERR_NOT_FOUND, ERR_GONE (GET, UPDATE); ERR_NOT_FOUND (REDRIVE,
                                   PURGE: no such dead letter) */
    span_ms retry_after_ms;     /* ERR_FULL, ERR_UNAVAILABLE: when to try again */
    bool created;               /* CREATE: false if the key was held already */
    struct task_id found;       /* CREATE: the task that holds the key, or the new one */
    wall_ms found_due_ms;       /* CREATE, UPDATE: its due time; WALL_NEVER: not known; a task
                                   that holds a key and is over has none */
    enum cancel_outcome cancel; /* CANCEL */
    uint32_t attempt;      /* CANCEL STOPPED, UPDATE, GET: attempt that may be running, 0: none */
    struct task row;       /* GET: the row; payload and key borrowed during the callback */
    enum task_state state; /* GET */
    /* the core's own, between submission and callback */
    int64_t core_seq;
    uint32_t core_step;
    boot_us core_until;
};

#endif
