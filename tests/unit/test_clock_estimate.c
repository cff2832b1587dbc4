/* SPDX-License-Identifier: Apache-2.0
 *
 * What the estimate of a database's clock promises, against a simulated true clock with random
 * delays, drift and steps.
 */
#include "lib/base/clock_estimate.h"

#include "lib/base/prng.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define BASE   INT64_C(1767323045678901)
#define TRIP   200 /* shortest one-way trip, microseconds */
#define SECOND US_PER_S

/* What two clocks part by in the window, if they do as much as is allowed for. */
#define TWO_DRIFTS_US (2 * CLOCK_DRIFT_PPM * CLOCK_WINDOW_US / 1000000)

/* A database clock that drifts and can be stepped, and a network with delays. */
struct world {
    struct clock_estimate estimate;
    struct prng prng;
    boot_us now;
    int64_t drift_ppm;
    int64_t step_us;      /* sum of the steps so far */
    int64_t trip_us_max;  /* longest one-way trip */
    int64_t lower_before; /* last lower bound given out */
};

static void world_init(struct world *w, uint64_t seed, int64_t drift_ppm, int64_t trip_us_max)
{
    *w = (struct world){.now = 5 * SECOND, .drift_ppm = drift_ppm, .trip_us_max = trip_us_max};
    w->lower_before = INT64_MIN;
    clock_estimate_init(&w->estimate);
    prng_init_named(&w->prng, seed, "clock");
}

/* The database's clock at an instant. */
static int64_t truth(const struct world *w, boot_us at)
{
    return BASE + w->step_us + at + at / 1000000 * w->drift_ppm +
           at % 1000000 * w->drift_ppm / 1000000;
}

static int64_t draw_trip(struct world *w)
{
    return prng_chance(&w->prng, 100) ? TRIP : prng_between(&w->prng, TRIP, w->trip_us_max);
}

/* One request and its reply; time passes. */
static enum clock_verdict exchange(struct world *w)
{
    struct clock_sample sample = {.sent = w->now};

    w->now += draw_trip(w);
    sample.db_us = truth(w, w->now);
    w->now += draw_trip(w);
    sample.received = w->now;
    return clock_estimate_add(&w->estimate, &sample);
}

static struct clock_range look(struct world *w)
{
    struct clock_range range = clock_estimate_now(&w->estimate, w->now);

    cr_assert(range.lower_us >= w->lower_before, "lower went back");
    cr_assert(range.lower_us <= range.upper_us);
    w->lower_before = range.lower_us;
    return range;
}

/* A second of replies every few milliseconds; bounds checked between them. */
static void run(struct world *w, int64_t seconds, int64_t ahead_us_max, int64_t late_us_max)
{
    boot_us end = w->now + seconds * SECOND;

    while (w->now < end) {
        struct clock_range range;

        (void)exchange(w);
        w->now += prng_between(&w->prng, 0, 20000);
        range = look(w);
        cr_assert(range.lower_us <= truth(w, w->now) + ahead_us_max, "ahead by %ld",
                  (long)(range.lower_us - truth(w, w->now)));
        cr_assert(range.upper_us >= truth(w, w->now) - ahead_us_max, "upper is behind by %ld",
                  (long)(truth(w, w->now) - range.upper_us));
        cr_assert(range.lower_us >= truth(w, w->now) - late_us_max, "late by %ld",
                  (long)(truth(w, w->now) - range.lower_us));
    }
}

Test(clock_estimate, knows_nothing_before_the_first_reply)
{
    struct world w;
    struct clock_range range;

    world_init(&w, 1, 0, 500);
    range = look(&w);
    cr_assert_eq(range.lower_us, INT64_MIN);
    cr_assert_eq(range.upper_us, INT64_MAX);
    cr_assert_eq(clock_estimate_error(&w.estimate, w.now), INT64_MAX);
    cr_assert_eq(clock_estimate_age(&w.estimate, w.now), INT64_MAX);
    cr_assert_eq(exchange(&w), CLOCK_TAKEN);
    range = look(&w);
    cr_assert(range.lower_us <= truth(&w, w.now) && range.upper_us >= truth(&w, w.now));
}

Test(clock_estimate, is_never_ahead_and_at_most_a_fast_trip_late_within_the_drift)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct world w;
        int64_t drift = ((int64_t)(seed % 5) - 2) * CLOCK_DRIFT_PPM / 2; // All that is agreed.

        world_init(&w, seed, drift, seed % 2 == 0 ? 3000 : 200000);
        (void)exchange(&w);
        run(&w, 3, 0, 400000); // Practice, before it may be held to the fast trips.
        // One trip in ten is a fast one, and they are many; two drifts over two seconds.
        run(&w, 20, 0, seed % 2 == 0 ? TRIP + TWO_DRIFTS_US + 50 : 200000 + TWO_DRIFTS_US);
        if (seed % 2 == 0) {
            cr_assert(clock_estimate_error(&w.estimate, w.now) < 2 * TRIP + 2 * TWO_DRIFTS_US + 50);
        }
    }
}

Test(clock_estimate, with_steady_replies_is_late_by_the_fastest_trip_only)
{
    struct world w;

    world_init(&w, 3, 0, TRIP);
    run(&w, 10, 0, TRIP + 20);
}

/* What allowing for so much drift costs: a busy database is answered from all the time. */
Test(clock_estimate, with_replies_every_few_milliseconds_the_drift_allowed_for_costs_no_lateness)
{
    struct world w;
    int64_t late_us = 0;

    world_init(&w, 15, 0, TRIP);
    (void)exchange(&w);
    for (int i = 0; i < 10000; i++) {
        (void)exchange(&w);
        w.now += prng_between(&w.prng, 0, 4000);
        late_us += truth(&w, w.now) - look(&w).lower_us;
    }
    cr_assert(late_us / 10000 < TRIP + 5, "late by %ld on average", (long)(late_us / 10000));
}

/* Beyond the agreed drift the promise is not exact, but the harm is small and bounded. */
Test(clock_estimate, at_half_again_the_drift_is_ahead_by_about_a_millisecond)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct world w;

        world_init(&w, seed, seed % 2 == 0 ? 1500 : -1500, 3000);
        run(&w, 30, 1100, 6000);
    }
}

Test(clock_estimate, error_grows_slowly_without_replies)
{
    struct world w;
    struct clock_range range;

    world_init(&w, 4, 90, 1000);
    run(&w, 3, 0, 3000);
    w.now += 3600 * SECOND;
    range = look(&w);
    cr_assert(range.lower_us <= truth(&w, w.now) && range.upper_us >= truth(&w, w.now));
    cr_assert(clock_estimate_error(&w.estimate, w.now) < 3600 * 2 * CLOCK_DRIFT_PPM + 3000);
    cr_assert(clock_estimate_error(&w.estimate, w.now) > 3600 * 2 * CLOCK_DRIFT_PPM - 1000);
    cr_assert(clock_estimate_age(&w.estimate, w.now) >= 3600 * SECOND);
    cr_assert_neq(exchange(&w), CLOCK_IGNORED);
    cr_assert(clock_estimate_error(&w.estimate, w.now) < 3600 * 2 * CLOCK_DRIFT_PPM);
    run(&w, 5, 0, 8000000); // Back to the trips when the old reply has left the window.
    run(&w, 5, 0, 3000);
}

/* What a fast reply proves is worth two seconds, with and without replies that come meanwhile. */
Test(clock_estimate, a_reply_counts_for_two_seconds_and_no_longer)
{
    struct world w;
    struct clock_sample slow;
    boot_us fast;

    world_init(&w, 14, 0, TRIP);
    (void)exchange(&w);
    fast = w.now;
    w.now += SECOND;
    slow = (struct clock_sample){w.now - 50000, w.now, truth(&w, w.now - 25000)};
    cr_assert_eq(clock_estimate_add(&w.estimate, &slow), CLOCK_TAKEN);
    w.now = fast + 2 * SECOND;
    cr_assert(clock_estimate_error(&w.estimate, w.now) < 2 * TRIP + TWO_DRIFTS_US + 50);
    w.now = fast + 2 * SECOND + 1;
    cr_assert(look(&w).upper_us - truth(&w, w.now) > 25000);
    cr_assert(look(&w).upper_us - truth(&w, w.now) < 25000 + CLOCK_DRIFT_PPM + 500);
}

/* The samples that are known to prove the most are those that a look at all of them finds. */
Test(clock_estimate, what_is_kept_of_the_best_replies_is_what_all_of_them_prove)
{
    struct world w;

    world_init(&w, 15, 70, 40000);
    for (int i = 0; i < 20000; i++) {
        struct clock_estimate all;
        struct clock_range kept;
        struct clock_range found;

        if (prng_chance(&w.prng, 600)) {
            (void)exchange(&w);
        }
        w.step_us += prng_chance(&w.prng, 3) ? prng_between(&w.prng, -SECOND, SECOND) : 0;
        w.now += prng_between(&w.prng, 0, prng_chance(&w.prng, 20) ? 3 * SECOND : 200000);
        all = w.estimate;
        all.best.until = INT64_MIN;
        kept = clock_estimate_now(&w.estimate, w.now);
        found = clock_estimate_now(&all, w.now);
        cr_assert_leq(llabs(kept.lower_us - found.lower_us), 1);
        cr_assert_leq(llabs(kept.upper_us - found.upper_us), 1);
    }
}

Test(clock_estimate, follows_a_small_step_forward_at_once)
{
    struct world w;

    world_init(&w, 5, 0, 1000);
    run(&w, 5, 0, 3000);
    w.step_us += 400000;
    cr_assert_eq(exchange(&w), CLOCK_STEP_FORWARD);
    run(&w, 5, 0, 3000);
}

Test(clock_estimate, follows_a_large_step_forward_after_two_seconds_and_three_replies)
{
    struct world w;
    boot_us stepped;
    int replies = 0;

    world_init(&w, 6, 0, 1000);
    run(&w, 5, 0, 3000);
    w.step_us += 3600 * SECOND;
    stepped = w.now;
    for (;;) {
        enum clock_verdict verdict = exchange(&w);
        struct clock_range range = look(&w);

        replies++;
        cr_assert(range.upper_us >= truth(&w, w.now), "upper covers the step at once");
        cr_assert(range.lower_us <= truth(&w, w.now));
        if (verdict == CLOCK_STEP_FORWARD) {
            break;
        }
        cr_assert_eq(verdict, CLOCK_STEP_PENDING);
        cr_assert(range.lower_us < truth(&w, w.now) - 3000 * SECOND, "believed too early");
        w.now += 100000;
    }
    cr_assert(w.now - stepped >= 2 * SECOND && w.now - stepped < 2300000);
    cr_assert(replies >= 3);
    run(&w, 5, 0, 3000);
}

Test(clock_estimate, two_replies_far_apart_do_not_prove_a_step)
{
    struct world w;

    world_init(&w, 7, 0, 1000);
    run(&w, 5, 0, 3000);
    w.step_us += 60 * SECOND;
    cr_assert_eq(exchange(&w), CLOCK_STEP_PENDING);
    w.now += 10 * SECOND;
    cr_assert_eq(exchange(&w), CLOCK_STEP_PENDING);
    w.now += 10000;
    cr_assert_eq(exchange(&w), CLOCK_STEP_FORWARD);
}

Test(clock_estimate, one_wrong_reply_moves_nothing_and_steps_do_not_add_up)
{
    struct world w;

    world_init(&w, 8, 0, 1000);
    run(&w, 5, 0, 3000);
    for (int i = 0; i < 50; i++) { // A wrong one every second, true ones between.
        w.step_us = (i % 2 + 1) * 10 * SECOND;
        cr_assert_eq(exchange(&w), CLOCK_STEP_PENDING);
        w.step_us = 0;
        run(&w, 1, 0, 3000);
    }
    for (int i = 1; i < 40; i++) { // Wrong in another way each time, rising and then falling.
        w.step_us = (i < 20 ? i : 41 - i) * 10 * SECOND;
        cr_assert_eq(exchange(&w), CLOCK_STEP_PENDING);
        w.now += SECOND;
    }
}

Test(clock_estimate, holds_after_a_step_backward_until_the_database_catches_up)
{
    struct world w;
    struct clock_range before;
    boot_us stepped;

    world_init(&w, 9, 0, 1000);
    run(&w, 5, 0, 3000);
    before = look(&w);
    w.step_us -= 3 * SECOND;
    stepped = w.now;
    cr_assert_eq(exchange(&w), CLOCK_STEP_BACKWARD);
    while (w.now < stepped + 2900000) {
        struct clock_range range = look(&w);

        cr_assert_eq(range.lower_us, before.lower_us, "the clock is held");
        cr_assert_leq(range.proven_us, truth(&w, w.now), "and what is proven is not");
        cr_assert_geq(range.proven_us, truth(&w, w.now) - SECOND);
        cr_assert(clock_estimate_held(&w.estimate, w.now) > 0);
        cr_assert_eq(exchange(&w), CLOCK_TAKEN);
        w.now += 50000;
    }
    w.now += 200000;
    cr_assert_eq(exchange(&w), CLOCK_TAKEN);
    cr_assert_eq(clock_estimate_held(&w.estimate, w.now), 0);
    run(&w, 5, 0, 3000);
}

/* A reply that took so long that it agrees with the clock before and after a step denies neither:
 * what has been seen of the step still counts, above all in the upper bound. */
Test(clock_estimate, a_slow_reply_does_not_deny_a_step_that_is_pending)
{
    struct world w;
    struct clock_sample slow;

    world_init(&w, 16, 0, 1000);
    run(&w, 5, 0, 3000);
    w.step_us += SECOND;
    cr_assert_eq(exchange(&w), CLOCK_STEP_PENDING);
    slow = (struct clock_sample){.sent = w.now, .db_us = truth(&w, w.now + 10000)};
    w.now += 1200000;
    slow.received = w.now;
    cr_assert_eq(clock_estimate_add(&w.estimate, &slow), CLOCK_TAKEN);
    cr_assert(look(&w).upper_us >= truth(&w, w.now));
    cr_assert(look(&w).lower_us < truth(&w, w.now) - 900000, "believed too early");
    w.now += 900000; // What was known before the step is too old by now.
    (void)exchange(&w);
    cr_assert(look(&w).lower_us > truth(&w, w.now) - 3000);
}

/* One that was answered before the step was seen says what the clock was then. */
Test(clock_estimate, an_old_reply_that_comes_late_denies_no_step_and_is_none_itself)
{
    struct world w;
    struct clock_sample old;

    world_init(&w, 17, 0, 1000);
    run(&w, 5, 0, 3000);
    old = (struct clock_sample){.sent = w.now, .db_us = truth(&w, w.now + 1000)};
    w.now += 2000;
    w.step_us += 700000;
    cr_assert_eq(exchange(&w), CLOCK_STEP_PENDING);
    old.received = w.now;
    cr_assert_eq(clock_estimate_add(&w.estimate, &old), CLOCK_TAKEN);
    cr_assert(look(&w).upper_us >= truth(&w, w.now));
    old = (struct clock_sample){.sent = w.now, .db_us = truth(&w, w.now + 1000) + 300000};
    w.step_us -= 10 * SECOND;
    w.now += 2000;
    cr_assert_eq(exchange(&w), CLOCK_STEP_BACKWARD);
    old.received = w.now;
    cr_assert_eq(clock_estimate_add(&w.estimate, &old), CLOCK_IGNORED);
    cr_assert(clock_estimate_held(&w.estimate, w.now) > 9 * SECOND);
}

Test(clock_estimate, a_wrong_local_clock_shows_in_the_offset_only)
{
    struct world w;
    struct clock_range before;
    int64_t offset;

    world_init(&w, 10, 0, 500);
    run(&w, 3, 0, 3000);
    before = look(&w);
    offset = clock_estimate_offset(&w.estimate, w.now, truth(&w, w.now) - 30 * SECOND);
    cr_assert(offset > 30 * SECOND - 50000 && offset < 30 * SECOND + 50000);
    cr_assert_eq(look(&w).lower_us, before.lower_us);
}

Test(clock_estimate, absurd_samples_are_ignored)
{
    struct world w;
    const struct clock_sample absurd[] = {
        {100, 99, BASE},     {-5, 99, BASE},      {10, 20, -1},
        {10, 20, INT64_MAX}, {10, 20, INT64_MIN}, {INT64_MAX, INT64_MIN, BASE},
    };

    world_init(&w, 11, 0, 500);
    for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
        cr_assert_eq(clock_estimate_add(&w.estimate, &absurd[i]), CLOCK_IGNORED);
    }
    run(&w, 2, 0, 3000);
    cr_assert_eq(clock_estimate_add(&w.estimate, &(struct clock_sample){10, 20, BASE}),
                 CLOCK_IGNORED, "received before the last one");
    (void)clock_estimate_now(&w.estimate, INT64_MAX);
    (void)clock_estimate_now(&w.estimate, 0);
}

/* Any mix of small and large steps both ways: lower never goes back, and two seconds after the last
 * step forward the bounds hold again. */
Test(clock_estimate, recovers_from_any_sequence_of_steps)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct world w;

        world_init(&w, seed, 0, 3000);
        run(&w, 2, 0, 6000);
        for (int i = 0; i < 40; i++) {
            w.step_us += prng_between(&w.prng, -2 * SECOND, 2 * SECOND);
            for (int k = 0; k < 20; k++) {
                (void)exchange(&w);
                (void)look(&w);
                w.now += prng_between(&w.prng, 0, 100000);
            }
        }
        w.step_us += 100 * SECOND; // Ahead of whatever is held.
        for (int k = 0; k < 60; k++) {
            (void)exchange(&w);
            (void)look(&w);
            w.now += 50000;
        }
        run(&w, 5, 0, 6000);
    }
}
