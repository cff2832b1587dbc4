/* SPDX-License-Identifier: Apache-2.0
 *
 * What back-off and give-up promise, over random and absurd policies.
 */
#include "broker/core/retry.h"

#include "lib/base/prng.h"

#include <criterion/criterion.h>

static const struct retry_policy PLAIN = {
    .initial_ms = 1000,
    .multiplier_permille = 2000,
    .max_ms = 60000,
    .jitter_permille = 0,
    .failures_max = 10,
    .unknowns_max = 5,
};

static struct retry_policy draw_policy(struct prng *prng)
{
    struct retry_policy policy = PLAIN;

    policy.initial_ms = prng_between(prng, 1, 5000);
    policy.multiplier_permille = (uint32_t)prng_between(prng, 1000, 10000);
    policy.max_ms = prng_between(prng, 1, QUEUE_BACKOFF_MS_MAX);
    policy.jitter_permille = (uint32_t)prng_between(prng, 0, 1000);
    return policy;
}

Test(retry, doubles_from_the_initial_delay_to_the_largest)
{
    const span_ms expected[] = {1000, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};

    for (uint32_t count = 0; count < ARRAY_COUNT(expected); count++) {
        cr_assert_eq(retry_delay(&PLAIN, count, UINT64_MAX), expected[count]);
    }
    cr_assert_eq(retry_delay(&PLAIN, UINT32_MAX, 0), 60000);
}

Test(retry, a_slow_growth_from_a_millisecond_still_grows)
{
    struct retry_policy policy = PLAIN;

    policy.initial_ms = 1;
    policy.multiplier_permille = 1500;
    cr_assert_eq(retry_delay(&policy, 3, 0), 2);
    cr_assert_eq(retry_delay(&policy, 20, 0), 2216); // 1.5^19 = 2216.8
    policy.multiplier_permille = 1001;
    cr_assert(retry_delay(&policy, 1000, 0) >= 2);
}

Test(retry, stays_inside_its_bounds_and_never_shrinks_without_jitter)
{
    struct prng prng;

    prng_init_named(&prng, 1, "retry");
    for (int round = 0; round < 20000; round++) {
        struct retry_policy policy = draw_policy(&prng);
        uint32_t count = (uint32_t)prng_between(&prng, 1, 100);
        span_ms jittered = retry_delay(&policy, count, prng_next(&prng));
        span_ms low;
        span_ms full;

        policy.jitter_permille = policy.jitter_permille > 1000 ? 1000 : policy.jitter_permille;
        low = 1000 - policy.jitter_permille;
        policy.jitter_permille = 0;
        full = retry_delay(&policy, count, prng_next(&prng));
        cr_assert(full <= policy.max_ms && full >= time_min(policy.initial_ms, policy.max_ms));
        cr_assert(jittered <= full && jittered >= full * low / 1000);
        cr_assert(retry_delay(&policy, count + 1, 0) >= full);
    }
}

Test(retry, jitter_reaches_both_ends_and_spreads)
{
    struct retry_policy policy = PLAIN;
    struct prng prng;
    int below = 0;

    policy.jitter_permille = 200;
    cr_assert_eq(retry_delay(&policy, 1, 0), 1000);
    cr_assert_eq(retry_delay(&policy, 1, 200), 800);
    prng_init_named(&prng, 2, "retry");
    for (int i = 0; i < 10000; i++) {
        below += retry_delay(&policy, 30, prng_next(&prng)) < 54000;
    }
    cr_assert(below > 4500 && below < 5500, "%d of 10000 in the lower half", below);
}

static enum retry_verdict next(struct retry_state state, wall_ms now, wall_ms *due)
{
    struct retry_policy policy = PLAIN;

    policy.age_max_ms = 100000;
    *due = -1;
    return retry_next(&policy, &state, now, 7, due);
}

Test(retry, gives_up_at_each_limit_and_not_before)
{
    wall_ms due;

    cr_assert_eq(next((struct retry_state){9, 0, 0, 0}, 0, &due), RETRY_AGAIN);
    cr_assert_eq(due, 60000);
    cr_assert_eq(next((struct retry_state){10, 0, 0, 0}, 0, &due), RETRY_FAILURES);
    cr_assert_eq(due, -1);
    cr_assert_eq(next((struct retry_state){0, 4, 0, 0}, 0, &due), RETRY_AGAIN);
    cr_assert_eq(next((struct retry_state){0, 5, 0, 0}, 0, &due), RETRY_UNKNOWNS);
    cr_assert_eq(next((struct retry_state){1, 0, 0, 0}, 99000, &due), RETRY_AGAIN);
    cr_assert_eq(next((struct retry_state){1, 0, 0, 0}, 99001, &due), RETRY_AGE);
}

Test(retry, hears_a_target_that_asks_for_later_up_to_a_day)
{
    struct retry_state state = {1, 0, 0, 5000};
    wall_ms due;

    cr_assert_eq(retry_next(&PLAIN, &state, 100, 0, &due), RETRY_AGAIN);
    cr_assert_eq(due, 5100);
    state.retry_after_ms = 10;
    cr_assert_eq(retry_next(&PLAIN, &state, 100, 0, &due), RETRY_AGAIN);
    cr_assert_eq(due, 1100);
    state.retry_after_ms = INT64_MAX;
    cr_assert_eq(retry_next(&PLAIN, &state, 100, 0, &due), RETRY_AGAIN);
    cr_assert_eq(due, 100 + RETRY_AFTER_MS_MAX);
    state.retry_after_ms = INT64_MIN;
    cr_assert_eq(retry_next(&PLAIN, &state, 100, 0, &due), RETRY_AGAIN);
    cr_assert_eq(due, 1100);
}

/* Any bits at all: no overflow (the sanitizers look), never due before now. */
Test(retry, survives_absurd_numbers)
{
    struct prng prng;

    prng_init_named(&prng, 3, "retry");
    for (int round = 0; round < 100000; round++) {
        unsigned shift = (unsigned)prng_below(&prng, 64);
        struct retry_policy policy = {
            .initial_ms = (int64_t)(prng_next(&prng) >> shift),
            .multiplier_permille = (uint32_t)(prng_next(&prng) >> (32 + shift / 2)),
            .max_ms = (int64_t)(prng_next(&prng) >> prng_below(&prng, 64)),
            .jitter_permille = (uint32_t)(prng_next(&prng) >> (32 + shift / 2)),
            .failures_max = UINT32_MAX,
            .unknowns_max = UINT32_MAX,
            .age_max_ms = (int64_t)(prng_next(&prng) >> prng_below(&prng, 64)),
        };
        struct retry_state state = {(uint32_t)prng_next(&prng), (uint32_t)prng_next(&prng),
                                    (int64_t)prng_next(&prng), (int64_t)prng_next(&prng)};
        wall_ms now = (int64_t)prng_next(&prng);
        wall_ms due = now;
        span_ms delay = retry_delay(&policy, state.failures, prng_next(&prng));

        cr_assert(delay >= 0 && delay <= time_max(policy.max_ms, 0));
        (void)retry_next(&policy, &state, now, prng_next(&prng), &due);
        cr_assert(due >= now);
    }
}
