/* SPDX-License-Identifier: Apache-2.0
 *
 * One attempt as a target sees it: what to send, until when it may start, and what came of it. The
 * way of an attempt is the same for every kind of target: started, checked just before the send,
 * checked again after it, reported once.
 */
#ifndef FOLIOT_BROKER_TARGET_TARGET_CALL_H
#define FOLIOT_BROKER_TARGET_TARGET_CALL_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"
#include "lib/base/list.h"
#include "lib/model/queue.h"
#include "lib/model/task.h"

#include <stdbool.h>
#include <stdint.h>

/* How an attempt ended; as the core's outcomes. */
enum target_verdict {
    TARGET_DONE = 1,
    TARGET_RETRY,      /* the target said no, or was provably not reached */
    TARGET_DEAD,       /* the target said never */
    TARGET_OBSOLETE,   /* the target said that it is no longer wanted */
    TARGET_UNKNOWN,    /* sent, and no answer */
    TARGET_NOT_STARTED /* withdrawn before the send: too late, or no room */
};

/* What came of an attempt. */
struct target_result {
    enum target_verdict verdict;
    span_ms retry_after_ms;  /* RETRY: not before this long from now; 0 if nothing was said */
    wall_ms retry_at_ms;     /* RETRY: not before this moment; 0 if nothing was said */
    struct slice error_text; /* RETRY, DEAD, UNKNOWN: why, for people; borrowed for the callback */
    const char *status;      /* name of the status of the call; NULL if the call itself was well */
    bool is_told;            /* error_text has words of the target: not for the log */
    struct slice response;   /* DONE: what the target answered; borrowed for the callback */
};

struct target_call;

/* May the attempt start at this moment of CLOCK_BOOTTIME? Any number of times. */
typedef bool (*target_may_start_fn)(struct target_call *call, boot_us at_us);

/* The end, exactly once, never inside the call that started it; may free the call. */
typedef void (*target_done_fn)(struct target_call *call, const struct target_result *result);

/*
 * Embedded in the object that waits; zeroed, then filled in. Must not move, and what it points to
 * stays, until `done` begins.
 */
struct target_call {
    struct task_id id;
    uint32_t attempt;       /* 1 for the first */
    const char *tenant;     /* namespace of the queue */
    const char *queue;      /* its name */
    const char *path;       /* "/package.Service/Method"; of a receiver NULL */
    struct slice key;       /* empty if none */
    struct slice order_key; /* empty if none */
    struct slice payload;
    struct slice tags; /* canonical text (lib/model/tags.h) */
    wall_ms due_ms;
    wall_ms expire_ms;   /* 0: never */
    wall_ms deadline_ms; /* of the claim: travels with the attempt */
    span_ms timeout_ms;  /* for one call, from its send */
    boot_us start_by_us; /* about when may_start turns false; to give up waiting in time */
    boot_us over_by_us;  /* whatever happens the end is reported before */
    target_may_start_fn may_start;
    target_done_fn done;
    /* the target's, from start to done */
    struct list link;
    void *private;
};

#endif
