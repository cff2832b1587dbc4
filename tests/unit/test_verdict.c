/* SPDX-License-Identifier: Apache-2.0
 *
 * What the end of a call means for its attempt: the table of docs/TARGETS.md.
 */
#include "broker/target/verdict.h"

#include "lib/base/limits.h"
#include "proto/fault.h"

#include <criterion/criterion.h>
#include <string.h>

static struct target_result judge(const struct rpc_reply *reply, const struct call_history *history)
{
    static char text[ERROR_TEXT_BYTES_MAX];
    struct target_result result;

    verdict_of_reply(reply, history, text, sizeof(text), &result);
    return result;
}

static const struct call_history NOTHING;

Test(verdict, ok_is_done)
{
    const struct rpc_reply reply = {.status = RPC_OK, .was_sent = true, .from_peer = true};

    cr_assert_eq(judge(&reply, &NOTHING).verdict, TARGET_DONE);
}

Test(verdict, what_the_peer_said_is_over_but_for_two_statuses)
{
    for (int status = RPC_CANCELLED; status <= RPC_UNAUTHENTICATED; status++) {
        const struct rpc_reply reply = {
            .status = (enum rpc_status)status, .was_sent = true, .from_peer = true};
        bool may_run = status == RPC_CANCELLED || status == RPC_DEADLINE_EXCEEDED;

        cr_assert_eq(judge(&reply, &NOTHING).verdict, may_run ? TARGET_UNKNOWN : TARGET_RETRY,
                     "status %d", status);
    }
}

Test(verdict, what_only_we_say_of_a_sent_call_is_unknown)
{
    for (int status = RPC_CANCELLED; status <= RPC_UNAUTHENTICATED; status++) {
        const struct rpc_reply reply = {.status = (enum rpc_status)status, .was_sent = true};

        cr_assert_eq(judge(&reply, &NOTHING).verdict, TARGET_UNKNOWN, "status %d", status);
    }
}

Test(verdict, a_target_that_was_not_reached_is_tried_again)
{
    const struct rpc_reply reply = {.status = RPC_UNAVAILABLE, .unprocessed = true};
    const struct rpc_reply refused = {
        .status = RPC_UNAVAILABLE, .unprocessed = true, .was_sent = true};

    cr_assert_eq(judge(&reply, &NOTHING).verdict, TARGET_RETRY);
    cr_assert_eq(judge(&refused, &NOTHING).verdict, TARGET_RETRY);
}

Test(verdict, what_was_withdrawn_has_not_started)
{
    const struct rpc_reply reply = {.status = RPC_UNAVAILABLE, .unprocessed = true};
    const struct call_history withdrawn = {.was_withdrawn = true};
    const struct call_history waiting = {.was_waiting = true};

    cr_assert_eq(judge(&reply, &withdrawn).verdict, TARGET_NOT_STARTED);
    cr_assert_eq(judge(&reply, &waiting).verdict, TARGET_NOT_STARTED);
}

Test(verdict, a_call_that_was_reset_late_is_unknown_unless_it_is_done)
{
    const struct call_history reset = {.was_reset = true};
    const struct rpc_reply cancelled = {.status = RPC_CANCELLED, .was_sent = true};
    const struct rpc_reply failed = {.status = RPC_INTERNAL, .was_sent = true, .from_peer = true};
    const struct rpc_reply done = {.status = RPC_OK, .was_sent = true, .from_peer = true};

    cr_assert_eq(judge(&cancelled, &reset).verdict, TARGET_UNKNOWN);
    cr_assert_eq(judge(&failed, &reset).verdict, TARGET_UNKNOWN);
    cr_assert_eq(judge(&done, &reset).verdict, TARGET_DONE);
}

/* A peer's answer with an ErrorInfo of ours. */
static struct target_result judge_reason(enum rpc_status status, const char *reason,
                                         span_ms retry_after_ms)
{
    struct fault fault;
    struct buf details;
    struct rpc_reply reply = {.status = status, .was_sent = true, .from_peer = true};
    struct target_result result;

    fault_set(&fault, status, reason, NULL, "because");
    fault.retry_after_ms = retry_after_ms;
    buf_init(&details, 65536);
    cr_assert_eq(fault_encode(&fault, &details), 0);
    reply.details = buf_slice(&details);
    reply.message = slice_of(fault.message);
    result = judge(&reply, &NOTHING);
    buf_fini(&details);
    return result;
}

Test(verdict, a_method_can_say_dead_obsolete_or_unknown_by_reason)
{
    cr_assert_eq(judge_reason(RPC_FAILED_PRECONDITION, "TASK_DEAD", 0).verdict, TARGET_DEAD);
    cr_assert_eq(judge_reason(RPC_ABORTED, "TASK_OBSOLETE", 0).verdict, TARGET_OBSOLETE);
    cr_assert_eq(judge_reason(RPC_UNKNOWN, "OUTCOME_UNKNOWN", 0).verdict, TARGET_UNKNOWN);
    cr_assert_eq(judge_reason(RPC_UNKNOWN, "SOMETHING_ELSE", 0).verdict, TARGET_RETRY);
}

Test(verdict, the_wait_that_a_target_asks_for_is_kept_and_bounded)
{
    struct rpc_reply reply = {.status = RPC_RESOURCE_EXHAUSTED,
                              .was_sent = true,
                              .from_peer = true,
                              .has_pushback = true,
                              .pushback_ms = 1500};

    cr_assert_eq(judge_reason(RPC_RESOURCE_EXHAUSTED, "BUSY", 2500).retry_after_ms, 2500);
    cr_assert_eq(judge_reason(RPC_RESOURCE_EXHAUSTED, "BUSY", INT64_C(999999999)).retry_after_ms,
                 RETRY_AFTER_MS_MAX);
    cr_assert_eq(judge(&reply, &NOTHING).retry_after_ms, 1500);
    reply.pushback_ms = -1;
    cr_assert_eq(judge(&reply, &NOTHING).retry_after_ms, 0);
    cr_assert_eq(judge(&reply, &NOTHING).verdict, TARGET_RETRY);
}

Test(verdict, the_text_names_status_and_message)
{
    const struct rpc_reply reply = {.status = RPC_INTERNAL,
                                    .message = slice_of("disk is full"),
                                    .was_sent = true,
                                    .from_peer = true};
    struct target_result result = judge(&reply, &NOTHING);

    cr_assert(slice_equal(result.error_text, slice_of("INTERNAL: disk is full")));
}
