/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds of a database's clock, from its replies: lower is never ahead of it, upper never behind
 * it, while both clocks run within CLOCK_DRIFT_PPM of each other. Pure: time is an argument. The
 * lower bound is what tasks are due by, so it never goes back.
 *
 * A reply proves two things. At the instant it was received the database's clock was at or past the
 * value in it; at the instant the request was sent it was not past it. Both are run forward on
 * CLOCK_BOOTTIME and widened by the drift; the best of the last two seconds count.
 *
 * source: DESIGN 8
 */
#ifndef FOLIOT_LIB_BASE_CLOCK_ESTIMATE_H
#define FOLIOT_LIB_BASE_CLOCK_ESTIMATE_H

#include "lib/base/instant.h"

#include <stdbool.h>
#include <stdint.h>

/* Most that the two clocks may drift apart, with room: each of two machines may be slewed by 500.
 * source: docs/adr/0024 */
#define CLOCK_DRIFT_PPM 1000

#define CLOCK_WINDOW_US    (2 * US_PER_S) /* replies that count */
#define CLOCK_BUCKET_COUNT 17U            /* 16 make a window, one more is being filled */
#define CLOCK_BUCKET_US    (CLOCK_WINDOW_US / (CLOCK_BUCKET_COUNT - 1))
#define CLOCK_STEP_US      (US_PER_S / 2) /* a larger step forward has to prove itself … */
#define CLOCK_STEP_SAMPLES 3U             /* … by so many replies … */
#define CLOCK_STEP_US_MIN  (2 * US_PER_S) /* … over this time */

/* One reply. */
struct clock_sample {
    boot_us sent;     /* before the request left */
    boot_us received; /* after the reply came */
    int64_t db_us;    /* the database's clock_timestamp(), microseconds since 1970 UTC */
};

/* What a sample did. */
enum clock_verdict {
    CLOCK_TAKEN = 1,
    CLOCK_IGNORED,      /* received before it was sent or before the last one, an absurd time, or
                           on its way when the clock stepped */
    CLOCK_STEP_PENDING, /* a step forward that has to prove itself; the clock runs on without it */
    CLOCK_STEP_FORWARD, /* the database's clock has stepped forward, and we follow */
    CLOCK_STEP_BACKWARD /* it has stepped backward: lower stands still until it catches up */
};

/* The best replies of one span of time. */
struct clock_bucket {
    int64_t number; /* of the span: received / CLOCK_BUCKET_US */
    bool is_used;
    struct clock_sample lower; /* proves the highest lower bound */
    struct clock_sample upper; /* proves the lowest upper bound */
};

/* The samples that prove the most: the same ones until a better one comes or a bucket ages. */
struct clock_best {
    boot_us from;  /* they are known to be the best from here … */
    boot_us until; /* … to just before this; from ≥ until: not known */
    struct clock_sample lower;
    struct clock_sample upper;
};

/*
 * 1. The samples in buckets agree with each other: all of them are on one side of every step seen.
 * 2. held_us never goes back.
 */
struct clock_estimate {
    struct clock_bucket buckets[CLOCK_BUCKET_COUNT];
    struct clock_best best;
    int64_t newest;        /* number of the bucket that was filled last */
    boot_us last_received; /* of the last sample that was not ignored */
    bool has_samples;
    boot_us stepped;          /* received, of the last sample that a step was believed by */
    int64_t held_us;          /* highest lower bound given out; INT64_MIN before the first */
    struct clock_sample step; /* the last sample of a step that is pending */
    boot_us step_since;       /* received, of its first sample */
    uint32_t step_count;      /* its samples; 0: no step is pending */
};

struct clock_range {
    int64_t lower_us;  /* the true clock is not behind this */
    int64_t upper_us;  /* the true clock is not ahead of this */
    int64_t proven_us; /* lower_us, but for a clock that is held: what the replies prove */
};

void clock_estimate_init(struct clock_estimate *estimate);

/* Learn from a reply. */
enum clock_verdict clock_estimate_add(struct clock_estimate *estimate,
                                      const struct clock_sample *sample);

/*
 * The bounds at an instant.
 *
 * shape:  {INT64_MIN, INT64_MAX, INT64_MIN} before the first sample. lower never goes back from
 *         call to call and is never above upper; proven goes back with the clock.
 * note:   without new samples the last ones are run on and the bounds part by 2 ms per second.
 *         While the clock is held after a backward step, lower is ahead of the database, by
 *         clock_estimate_held(). While a forward step is pending, upper covers both clocks.
 */
struct clock_range clock_estimate_now(struct clock_estimate *estimate, boot_us now);

/* How far lower is kept ahead of what the replies prove, after a backward step; 0 otherwise. */
int64_t clock_estimate_held(const struct clock_estimate *estimate, boot_us now);

/* Middle of the bounds minus a local wall clock: the metric that has the alarm. 0 if unknown. */
int64_t clock_estimate_offset(struct clock_estimate *estimate, boot_us now, int64_t local_wall_us);

/* Width of the bounds, the error of the estimate; INT64_MAX if unknown. */
int64_t clock_estimate_error(struct clock_estimate *estimate, boot_us now);

/* Time since the last sample; INT64_MAX before the first. */
int64_t clock_estimate_age(const struct clock_estimate *estimate, boot_us now);

#endif
