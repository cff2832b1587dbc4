/* SPDX-License-Identifier: Apache-2.0
 *
 * The estimate of a database's clock. A new sample is first held against what the older ones prove;
 * a contradiction means that the database's clock has stepped, and then the older ones say nothing
 * about it any more.
 */
#include "lib/base/clock_estimate.h"

#include "lib/base/limits.h"

#include <string.h>

#define PPM INT64_C(1000000)

static const struct clock_range UNKNOWN = {INT64_MIN, INT64_MAX, INT64_MIN};

/* Most that the clocks drift apart in a time, rounded up. */
static int64_t drift_of(int64_t span_us)
{
    return time_add(span_us / PPM * CLOCK_DRIFT_PPM,
                    (span_us % PPM * CLOCK_DRIFT_PPM + PPM - 1) / PPM);
}

/* What a sample proves at an instant. An instant before it was received counts as that. */
static int64_t lower_at(const struct clock_sample *sample, boot_us now)
{
    int64_t age = time_max(time_sub(now, sample->received), 0);

    return time_add(sample->db_us, age - drift_of(age));
}

static int64_t upper_at(const struct clock_sample *sample, boot_us now)
{
    int64_t age = time_max(time_sub(now, sample->sent), 0);

    return time_add(sample->db_us, time_add(age, drift_of(age)));
}

static struct clock_range range_at(const struct clock_sample *sample, boot_us now)
{
    return (struct clock_range){.lower_us = lower_at(sample, now),
                                .upper_us = upper_at(sample, now)};
}

/* Whether a bucket counts: it is of the last window, or there is nothing newer. */
static bool is_current(const struct clock_estimate *estimate, const struct clock_bucket *bucket,
                       boot_us now)
{
    int64_t from = time_sub(now, CLOCK_WINDOW_US);

    if (!bucket->is_used) {
        return false;
    }
    return bucket->lower.received >= from || bucket->upper.received >= from ||
           bucket->number == estimate->newest;
}

/* When a bucket counts no more, unless it is the newest. */
static boot_us aged_at(const struct clock_bucket *bucket)
{
    return time_add(time_max(bucket->lower.received, bucket->upper.received), CLOCK_WINDOW_US + 1);
}

/* Find the best samples as of an instant. shape: there are samples. */
static struct clock_best find_best(const struct clock_estimate *estimate, boot_us now)
{
    struct clock_best best = {.from = now, .until = BOOT_NEVER};
    struct clock_range range = UNKNOWN;

    for (unsigned i = 0; i < CLOCK_BUCKET_COUNT; i++) {
        const struct clock_bucket *bucket = &estimate->buckets[i];
        int64_t lower_us;
        int64_t upper_us;

        if (!is_current(estimate, bucket, now)) {
            continue;
        }
        lower_us = lower_at(&bucket->lower, now);
        upper_us = upper_at(&bucket->upper, now);
        if (lower_us >= range.lower_us) {
            range.lower_us = lower_us;
            best.lower = bucket->lower;
        }
        if (upper_us <= range.upper_us) {
            range.upper_us = upper_us;
            best.upper = bucket->upper;
        }
        if (bucket->number != estimate->newest) {
            best.until = time_min(best.until, aged_at(bucket));
        }
    }
    return best;
}

/*
 * What the samples prove, without the held clock and a pending step. All of them drift apart at one
 * rate, so the best one stays the best (to a microsecond, by rounding) while the same ones count.
 */
static struct clock_range proven_at(const struct clock_estimate *estimate, boot_us now)
{
    const struct clock_best *best = &estimate->best;
    struct clock_best found;

    if (now < best->from || now >= best->until) {
        found = find_best(estimate, now);
        best = &found;
    }
    return (struct clock_range){.lower_us = lower_at(&best->lower, now),
                                .upper_us = upper_at(&best->upper, now)};
}

/* The best samples with one that has come, if they are known; before it is in its bucket. A bucket
 * that is written over has aged long ago. */
static void keep_best(struct clock_estimate *estimate, const struct clock_sample *sample)
{
    struct clock_best *best = &estimate->best;
    const struct clock_bucket *newest =
        &estimate->buckets[(uint64_t)estimate->newest % CLOCK_BUCKET_COUNT];
    boot_us now = sample->received;

    if (now / CLOCK_BUCKET_US != estimate->newest) { // From now on the newest one ages.
        best->until = time_min(best->until, aged_at(newest));
    }
    if (now < best->from || now >= best->until) {
        best->until = INT64_MIN;
        return;
    }
    best->from = now;
    if (sample->db_us >= lower_at(&best->lower, now)) {
        best->lower = *sample;
    }
    if (upper_at(sample, now) <= upper_at(&best->upper, now)) {
        best->upper = *sample;
    }
}

static void keep(struct clock_estimate *estimate, const struct clock_sample *sample)
{
    int64_t number = sample->received / CLOCK_BUCKET_US;
    struct clock_bucket *bucket = &estimate->buckets[(uint64_t)number % CLOCK_BUCKET_COUNT];

    keep_best(estimate, sample);
    estimate->newest = number;
    if (!bucket->is_used || bucket->number != number) {
        *bucket = (struct clock_bucket){number, true, *sample, *sample};
        return;
    }
    if (sample->db_us >= lower_at(&bucket->lower, sample->received)) {
        bucket->lower = *sample;
    }
    if (upper_at(sample, sample->received) <= upper_at(&bucket->upper, sample->received)) {
        bucket->upper = *sample;
    }
}

/* The clock has stepped: the sample alone says what it is now. */
static void begin_anew(struct clock_estimate *estimate, const struct clock_sample *sample)
{
    memset(estimate->buckets, 0, sizeof(estimate->buckets));
    estimate->best.until = INT64_MIN;
    estimate->step_count = 0;
    estimate->stepped = sample->received;
    keep(estimate, sample);
}

/* Whether a sample that agrees with the clock as it was says that a step that is pending is none:
 * it was surely taken after the step had been seen, and contradicts it. One that was on its way
 * for so long that it agrees with both, or that may be from before, says nothing about that. */
static bool denies_step(const struct clock_estimate *estimate, const struct clock_sample *sample,
                        int64_t upper_us)
{
    return sample->sent >= estimate->step.received &&
           upper_us < lower_at(&estimate->step, sample->received);
}

/* A step forward above CLOCK_STEP_US: believe it when it has been seen often and long enough. */
static enum clock_verdict add_step(struct clock_estimate *estimate,
                                   const struct clock_sample *sample)
{
    struct clock_range new_range = range_at(sample, sample->received);
    struct clock_range step = range_at(&estimate->step, sample->received);

    if (estimate->step_count == 0 || time_sub(new_range.lower_us, step.upper_us) > CLOCK_STEP_US ||
        new_range.upper_us < step.lower_us) { // The first one, or yet another step.
        estimate->step_since = sample->received;
        estimate->step_count = 0;
    }
    estimate->step = *sample;
    estimate->step_count++;
    if (estimate->step_count < CLOCK_STEP_SAMPLES ||
        sample->received - estimate->step_since < CLOCK_STEP_US_MIN) {
        return CLOCK_STEP_PENDING;
    }
    begin_anew(estimate, sample);
    return CLOCK_STEP_FORWARD;
}

static bool is_sane(const struct clock_estimate *estimate, const struct clock_sample *sample)
{
    if (sample->sent < 0 || sample->received < sample->sent) {
        return false;
    }
    if (estimate->has_samples && sample->received < estimate->last_received) {
        return false;
    }
    // A first sample from the far future would hold the clock until then.
    return sample->db_us >= 0 && sample->db_us <= DUE_WALL_MS_MAX * US_PER_MS;
}

void clock_estimate_init(struct clock_estimate *estimate)
{
    memset(estimate, 0, sizeof(*estimate));
    estimate->held_us = INT64_MIN;
    estimate->stepped = INT64_MIN;
}

enum clock_verdict clock_estimate_add(struct clock_estimate *estimate,
                                      const struct clock_sample *sample)
{
    struct clock_range new_range = range_at(sample, sample->received);
    struct clock_range old;

    if (!is_sane(estimate, sample)) {
        return CLOCK_IGNORED;
    }
    if (!estimate->has_samples) {
        estimate->last_received = sample->received;
        estimate->has_samples = true;
        keep(estimate, sample);
        return CLOCK_TAKEN;
    }
    old = proven_at(estimate, sample->received);
    if ((new_range.lower_us > old.upper_us || new_range.upper_us < old.lower_us) &&
        sample->sent < estimate->stepped) {
        return CLOCK_IGNORED; // It was on its way when the clock stepped.
    }
    estimate->last_received = sample->received;
    if (time_sub(new_range.lower_us, old.upper_us) > CLOCK_STEP_US) {
        return add_step(estimate, sample);
    }
    if (new_range.lower_us > old.upper_us) {
        begin_anew(estimate, sample);
        return CLOCK_STEP_FORWARD;
    }
    if (new_range.upper_us < old.lower_us) {
        begin_anew(estimate, sample); // The lower bound that was given out last stays the floor.
        return CLOCK_STEP_BACKWARD;
    }
    if (estimate->step_count > 0 && denies_step(estimate, sample, new_range.upper_us)) {
        estimate->step_count = 0;
    }
    keep(estimate, sample);
    return CLOCK_TAKEN;
}

struct clock_range clock_estimate_now(struct clock_estimate *estimate, boot_us now)
{
    struct clock_range range;

    if (!estimate->has_samples) {
        return UNKNOWN;
    }
    if (now < estimate->best.from || now >= estimate->best.until) {
        estimate->best = find_best(estimate, now);
    }
    range = proven_at(estimate, now);
    if (estimate->step_count > 0) {
        range.upper_us = time_max(range.upper_us, upper_at(&estimate->step, now));
    }
    range.proven_us = range.lower_us;
    estimate->held_us = time_max(estimate->held_us, range.lower_us);
    range.lower_us = estimate->held_us;
    range.upper_us = time_max(range.upper_us, range.lower_us);
    return range;
}

int64_t clock_estimate_held(const struct clock_estimate *estimate, boot_us now)
{
    if (!estimate->has_samples) {
        return 0;
    }
    return time_max(time_sub(estimate->held_us, proven_at(estimate, now).upper_us), 0);
}

int64_t clock_estimate_offset(struct clock_estimate *estimate, boot_us now, int64_t local_wall_us)
{
    struct clock_range range;

    if (!estimate->has_samples) {
        return 0;
    }
    range = clock_estimate_now(estimate, now);
    return time_sub(range.lower_us + time_sub(range.upper_us, range.lower_us) / 2, local_wall_us);
}

int64_t clock_estimate_error(struct clock_estimate *estimate, boot_us now)
{
    struct clock_range range = clock_estimate_now(estimate, now);

    return estimate->has_samples ? time_sub(range.upper_us, range.lower_us) : INT64_MAX;
}

int64_t clock_estimate_age(const struct clock_estimate *estimate, boot_us now)
{
    return estimate->has_samples ? time_max(time_sub(now, estimate->last_received), 0) : INT64_MAX;
}
