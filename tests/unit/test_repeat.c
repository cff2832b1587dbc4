/* SPDX-License-Identifier: Apache-2.0
 *
 * What libfoliot may repeat and what it may say of it: nothing is repeated that could be done twice
 * against the caller's will, and nothing is called certain that is not (K-8).
 */
#include "client/lib/repeat.h"

#include "lib/base/prng.h"
#include "lib/rpc/rpc_client.h"

#include <criterion/criterion.h>
#include <string.h>

static struct fault fault_of(enum rpc_status status, const char *reason, span_ms retry_after_ms)
{
    struct fault fault;

    fault_set(&fault, status, reason, NULL, "as the test wants it");
    fault.retry_after_ms = retry_after_ms;
    return fault;
}

static struct repeat_verdict judge_peer(enum repeat_kind kind, enum rpc_status status,
                                        const char *reason, span_ms retry_after_ms)
{
    const struct rpc_reply reply = {.status = status, .from_peer = true, .was_sent = true};
    struct fault fault = fault_of(status, reason, retry_after_ms);

    return repeat_judge(kind, &reply, &fault);
}

static struct repeat_verdict judge_line(enum repeat_kind kind, enum rpc_status status,
                                        bool unprocessed)
{
    const struct rpc_reply reply = {
        .status = status, .unprocessed = unprocessed, .was_sent = !unprocessed};
    struct fault fault = fault_of(status, "", 0);

    return repeat_judge(kind, &reply, &fault);
}

static const enum repeat_kind KINDS[] = {REPEAT_NEVER, REPEAT_SAFELY, REPEAT_READ};

Test(repeat, what_did_not_happen_is_tried_again_whatever_it_is)
{
    for (size_t i = 0; i < ARRAY_COUNT(KINDS); i++) {
        struct repeat_verdict said = judge_peer(KINDS[i], RPC_UNAVAILABLE, "OWNER_UNKNOWN", 200);
        struct repeat_verdict busy = judge_peer(KINDS[i], RPC_RESOURCE_EXHAUSTED, "OVERLOADED", 50);
        struct repeat_verdict never = judge_line(KINDS[i], RPC_UNAVAILABLE, true);
        struct repeat_verdict late = judge_line(KINDS[i], RPC_DEADLINE_EXCEEDED, true);

        cr_assert(said.is_again && !said.is_unknown && said.wait_ms == 200);
        cr_assert(busy.is_again && !busy.is_unknown && busy.wait_ms == 50);
        cr_assert(never.is_again && !never.is_unknown);
        cr_assert(late.is_again && !late.is_unknown);
    }
}

Test(repeat, a_limit_that_stays_is_not_asked_again)
{
    cr_assert(!judge_peer(REPEAT_READ, RPC_RESOURCE_EXHAUSTED, "QUEUE_COUNT_MAX", 0).is_again);
}

Test(repeat, a_broker_that_says_no_more_is_left_alone)
{
    const struct rpc_reply reply = {
        .status = RPC_UNAVAILABLE, .from_peer = true, .has_pushback = true, .pushback_ms = -1};
    struct fault fault = fault_of(RPC_UNAVAILABLE, "UNAVAILABLE", 0);

    cr_assert(!repeat_judge(REPEAT_READ, &reply, &fault).is_again);
}

Test(repeat, the_longer_of_two_delays_counts)
{
    const struct rpc_reply reply = {
        .status = RPC_UNAVAILABLE, .from_peer = true, .has_pushback = true, .pushback_ms = 700};
    struct fault fault = fault_of(RPC_UNAVAILABLE, "UNAVAILABLE", 200);

    cr_assert_eq(repeat_judge(REPEAT_READ, &reply, &fault).wait_ms, 700);
}

Test(repeat, an_unknown_outcome_is_repeated_only_where_that_is_safe)
{
    static const enum rpc_status broken[] = {RPC_UNAVAILABLE, RPC_DEADLINE_EXCEEDED};

    for (size_t i = 0; i < ARRAY_COUNT(broken); i++) {
        cr_assert(!judge_line(REPEAT_NEVER, broken[i], false).is_again);
        cr_assert(judge_line(REPEAT_NEVER, broken[i], false).is_unknown);
        cr_assert(judge_line(REPEAT_SAFELY, broken[i], false).is_again);
        cr_assert(judge_line(REPEAT_SAFELY, broken[i], false).is_unknown);
        cr_assert(judge_line(REPEAT_READ, broken[i], false).is_again);
        cr_assert(!judge_line(REPEAT_READ, broken[i], false).is_unknown);
    }
    cr_assert(!judge_peer(REPEAT_NEVER, RPC_UNKNOWN, "OUTCOME_UNKNOWN", 0).is_again);
    cr_assert(judge_peer(REPEAT_NEVER, RPC_UNKNOWN, "OUTCOME_UNKNOWN", 0).is_unknown);
    cr_assert(judge_peer(REPEAT_SAFELY, RPC_UNKNOWN, "OUTCOME_UNKNOWN", 0).is_again);
}

Test(repeat, a_refusal_is_the_end)
{
    static const enum rpc_status refusals[] = {
        RPC_INVALID_ARGUMENT,    RPC_NOT_FOUND,     RPC_ALREADY_EXISTS, RPC_PERMISSION_DENIED,
        RPC_FAILED_PRECONDITION, RPC_UNIMPLEMENTED, RPC_UNAUTHENTICATED};

    for (size_t i = 0; i < ARRAY_COUNT(refusals); i++) {
        struct repeat_verdict verdict = judge_peer(REPEAT_SAFELY, refusals[i], "NO", 0);

        cr_assert(!verdict.is_again && !verdict.is_unknown && !verdict.is_broken);
    }
}

Test(repeat, a_foreign_peers_failure_is_not_called_certain)
{
    cr_assert(judge_peer(REPEAT_NEVER, RPC_INTERNAL, "", 0).is_unknown);
    cr_assert(judge_peer(REPEAT_NEVER, RPC_UNKNOWN, "", 0).is_unknown);
    cr_assert(judge_peer(REPEAT_NEVER, RPC_CANCELLED, "", 0).is_unknown);
    cr_assert(!judge_peer(REPEAT_READ, RPC_INTERNAL, "", 0).is_unknown);
}

Test(repeat, an_earlier_try_that_may_have_happened_is_not_forgotten)
{
    static const enum rpc_status silent[] = {RPC_UNAVAILABLE, RPC_RESOURCE_EXHAUSTED,
                                             RPC_DEADLINE_EXCEEDED, RPC_CANCELLED};

    for (size_t i = 0; i < ARRAY_COUNT(silent); i++) {
        struct fault fault = fault_of(silent[i], "UNAVAILABLE", 30);

        cr_assert(repeat_conclude(REPEAT_SAFELY, true, &fault));
        cr_assert_eq(fault.status, RPC_UNKNOWN);
        cr_assert_str_eq(fault.reason, "OUTCOME_UNKNOWN");
        cr_assert(strstr(fault.message, "as the test wants it") != NULL);
        cr_assert_eq(fault.retry_after_ms, 30);
    }
}

Test(repeat, what_is_certain_stays_as_it_was_said)
{
    struct fault never = fault_of(RPC_UNAVAILABLE, "UNAVAILABLE", 0);
    struct fault read = fault_of(RPC_DEADLINE_EXCEEDED, "TIMEOUT", 0);
    struct fault refused = fault_of(RPC_NOT_FOUND, "QUEUE_NOT_FOUND", 0);
    struct fault good = {.status = RPC_OK};

    cr_assert(!repeat_conclude(REPEAT_NEVER, false, &never));
    cr_assert_eq(never.status, RPC_UNAVAILABLE);
    cr_assert(!repeat_conclude(REPEAT_READ, true, &read));
    cr_assert_eq(read.status, RPC_DEADLINE_EXCEEDED);
    cr_assert(repeat_conclude(REPEAT_SAFELY, true, &refused)); // The first try may have …
    cr_assert_eq(refused.status, RPC_NOT_FOUND);               // … but this is what was said.
    cr_assert(!repeat_conclude(REPEAT_SAFELY, true, &good));
}

Test(repeat, another_broker_is_asked_at_once_a_few_times)
{
    struct prng prng;

    prng_init_named(&prng, 7, "test");
    for (uint32_t tries = 1; tries <= 3; tries++) {
        cr_assert_eq(repeat_wait(&prng, tries, true, 40), 0);
    }
    cr_assert(repeat_wait(&prng, 4, true, 4000) >= 4000);
    cr_assert(repeat_wait(&prng, 30, true, 0) >= 500); // Not in a circle for ever.
}

Test(repeat, waits_grow_are_drawn_and_never_undercut_what_was_asked)
{
    struct prng prng;

    prng_init_named(&prng, 7, "test");
    for (uint32_t tries = 1; tries <= 40; tries++) {
        span_ms wait_ms = repeat_wait(&prng, tries, false, 0);

        cr_assert(wait_ms >= 10 && wait_ms <= 1000);
        cr_assert(tries < 8 || wait_ms >= 500);
        cr_assert(repeat_wait(&prng, tries, false, 5000) >= 5000);
    }
}
