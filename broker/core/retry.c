/* SPDX-License-Identifier: Apache-2.0
 *
 * Back-off arithmetic, in nanoseconds inside so that a slow growth from a small start is not lost
 * in rounding.
 */
#include "broker/core/retry.h"

#include "lib/base/limits.h"

#define PERMILLE  1000U
#define NS_PER_MS INT64_C(1000000)

/* Beyond this many steps a back-off no longer grows; above every sum of the two limits. */
#define RETRY_STEPS_MAX 2048U

_Static_assert(RETRY_STEPS_MAX >= 2 * QUEUE_FAILURES_MAX, "each allowed failure may grow it");

/* initial · multiplier^steps, at most max. */
static int64_t grow(int64_t initial_ns, uint32_t multiplier, uint32_t steps, int64_t max_ns)
{
    int64_t delay_ns = initial_ns;

    if (multiplier <= PERMILLE) { // A back-off does not shrink.
        return time_min(delay_ns, max_ns);
    }
    for (uint32_t i = 0; i < steps && i < RETRY_STEPS_MAX && delay_ns < max_ns; i++) {
        delay_ns = time_mul(delay_ns, multiplier) / PERMILLE;
    }
    return time_min(delay_ns, max_ns);
}

/* A random share of `delay`, 0 … delay · permille / 1000. */
static int64_t share_of(int64_t delay, uint32_t permille, uint64_t draw)
{
    uint64_t span =
        (uint64_t)delay / PERMILLE * permille + (uint64_t)delay % PERMILLE * permille / PERMILLE;

    return span == UINT64_MAX ? (int64_t)draw : (int64_t)(draw % (span + 1));
}

span_ms retry_delay(const struct retry_policy *policy, uint32_t count, uint64_t draw)
{
    int64_t max_ns = time_mul(time_max(policy->max_ms, 0), NS_PER_MS);
    int64_t initial_ns = time_mul(time_max(policy->initial_ms, 0), NS_PER_MS);
    uint32_t steps = count == 0 ? 0 : count - 1;
    uint32_t jitter = policy->jitter_permille < PERMILLE ? policy->jitter_permille : PERMILLE;
    span_ms delay_ms = grow(initial_ns, policy->multiplier_permille, steps, max_ns) / NS_PER_MS;

    return delay_ms - share_of(delay_ms, jitter, draw);
}

enum retry_verdict retry_next(const struct retry_policy *policy, const struct retry_state *state,
                              wall_ms now, uint64_t draw, wall_ms *due_ms)
{
    uint64_t count = (uint64_t)state->failures + state->unknowns;
    span_ms asked_ms = time_clamp(state->retry_after_ms, 0, RETRY_AFTER_MS_MAX);
    span_ms delay_ms;
    wall_ms due;

    if (state->failures > 0 && state->failures >= policy->failures_max) {
        return RETRY_FAILURES;
    }
    if (state->unknowns > 0 && state->unknowns >= policy->unknowns_max) {
        return RETRY_UNKNOWNS;
    }
    delay_ms = retry_delay(policy, count > UINT32_MAX ? UINT32_MAX : (uint32_t)count, draw);
    due = time_add(now, time_max(delay_ms, asked_ms));
    if (policy->age_max_ms > 0 && time_sub(due, state->first_due_ms) > policy->age_max_ms) {
        return RETRY_AGE;
    }
    *due_ms = due;
    return RETRY_AGAIN;
}
