/* SPDX-License-Identifier: Apache-2.0
 *
 * Back-off and give-up arithmetic: pure, saturating, without a clock or random source of its own.
 */
#ifndef FOLIOT_BROKER_CORE_RETRY_H
#define FOLIOT_BROKER_CORE_RETRY_H

#include "lib/base/instant.h"
#include "lib/model/queue.h"

#include <stdint.h>

/* A target that asks for a later time is heard up to this, and never longer than a day. */
#define RETRY_AFTER_MS_MAX QUEUE_BACKOFF_MS_MAX

/* What is known of the task when an attempt has ended badly; the counts include that attempt. */
struct retry_state {
    uint32_t failures;      /* attempts that failed */
    uint32_t unknowns;      /* attempts whose outcome is unknown */
    wall_ms first_due_ms;   /* when the task was first due: its age counts from here */
    span_ms retry_after_ms; /* what the target asked for; 0 or less: nothing */
};

enum retry_verdict {
    RETRY_AGAIN = 1,
    RETRY_FAILURES, /* give up: failures_max is reached */
    RETRY_UNKNOWNS, /* give up: unknowns_max is reached */
    RETRY_AGE       /* give up: the next attempt would be due above age_max_ms */
};

/*
 * Back-off after the count-th bad end in a row: initial · multiplier^(count − 1), at most max_ms,
 * less a random share of up to jitter_permille of it. The jitter only shortens, so that tasks which
 * have reached max_ms do not gather there.
 *
 * shape: any policy; what queue_check would refuse is bent to the nearest that makes sense. count 0
 *        counts as 1. draw is 64 random bits.
 * result: 0 … max_ms.
 */
span_ms retry_delay(const struct retry_policy *policy, uint32_t count, uint64_t draw);

/*
 * When to try again.
 *
 * shape:  due_ms is written for RETRY_AGAIN: now + the back-off or what the target asked for,
 *         whichever is later, saturating.
 * note:   the caller takes the later of due_ms and the task's own due time (an update in between
 *         holds, DESIGN 7) and of the claim's deadline if the outcome is unknown.
 */
enum retry_verdict retry_next(const struct retry_policy *policy, const struct retry_state *state,
                              wall_ms now, uint64_t draw, wall_ms *due_ms);

#endif
