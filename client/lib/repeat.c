/* SPDX-License-Identifier: Apache-2.0
 *
 * When to try again.
 */
#include "client/lib/repeat.h"

#include "lib/base/check.h"
#include "lib/base/prng.h"
#include "lib/rpc/rpc_client.h"

#include <string.h>

#define REASON_UNKNOWN "OUTCOME_UNKNOWN"

/* Waits between tries: doubling from the first to the longest, drawn from the upper half. */
#define WAIT_FIRST_MS 20
#define WAIT_MAX_MS   1000

/* Other brokers that are asked without any wait, before we wait all the same. */
#define QUICK_TRY_COUNT_MAX 3

/* The broker has answered. */
static struct repeat_verdict judge_answer(enum repeat_kind kind, const struct rpc_reply *reply,
                                          const struct fault *fault)
{
    struct repeat_verdict verdict = {.wait_ms = fault->retry_after_ms};
    bool may_repeat = !(reply->has_pushback && reply->pushback_ms < 0);

    if (reply->has_pushback && reply->pushback_ms > verdict.wait_ms) {
        verdict.wait_ms = reply->pushback_ms;
    }
    if (reply->status == RPC_UNAVAILABLE || reply->status == RPC_DEADLINE_EXCEEDED) {
        verdict.is_again = may_repeat; // The deadline may have been this try's only.
        verdict.is_broken = true;
    } else if (reply->status == RPC_RESOURCE_EXHAUSTED) {
        verdict.is_again = may_repeat && verdict.wait_ms > 0; // Other limits stay as they are.
    } else if (reply->status == RPC_UNKNOWN || reply->status == RPC_INTERNAL ||
               reply->status == RPC_CANCELLED || reply->status == RPC_DATA_LOSS) {
        verdict.is_unknown = kind != REPEAT_READ;
        verdict.is_again = may_repeat && kind != REPEAT_NEVER && reply->status == RPC_UNKNOWN &&
                           strcmp(fault->reason, REASON_UNKNOWN) == 0;
    }
    return verdict;
}

struct repeat_verdict repeat_judge(enum repeat_kind kind, const struct rpc_reply *reply,
                                   const struct fault *fault)
{
    struct repeat_verdict verdict = {.wait_ms = 0};
    bool is_line = reply->status == RPC_UNAVAILABLE || reply->status == RPC_DEADLINE_EXCEEDED ||
                   reply->status == RPC_CANCELLED;

    if (reply->status == RPC_OK) {
        return verdict;
    }
    if (reply->from_peer && !reply->unprocessed) {
        return judge_answer(kind, reply, fault);
    }
    verdict.is_broken = true;
    if (reply->unprocessed) {
        verdict.is_again = is_line;
        return verdict;
    }
    verdict.is_unknown = kind != REPEAT_READ;
    verdict.is_again = kind != REPEAT_NEVER && is_line;
    return verdict;
}

/* Statuses that say nothing of what an earlier try has done. */
static bool is_silent(enum rpc_status status)
{
    return status == RPC_UNAVAILABLE || status == RPC_RESOURCE_EXHAUSTED ||
           status == RPC_DEADLINE_EXCEEDED || status == RPC_CANCELLED || status == RPC_INTERNAL ||
           status == RPC_DATA_LOSS || status == RPC_UNKNOWN;
}

bool repeat_conclude(enum repeat_kind kind, bool is_unknown, struct fault *fault)
{
    struct fault last = *fault;

    if (fault->status == RPC_OK || kind == REPEAT_READ || !is_unknown) {
        return false;
    }
    if (is_silent(fault->status) && strcmp(fault->reason, REASON_UNKNOWN) != 0) {
        fault_set(fault, RPC_UNKNOWN, REASON_UNKNOWN, NULL,
                  "it may have happened: %s; look, or repeat the call with the same key",
                  last.message);
        fault->retry_after_ms = last.retry_after_ms;
    }
    return true;
}

span_ms repeat_wait(struct prng *prng, uint32_t tries, bool has_other, span_ms asked_ms)
{
    span_ms wait_ms = WAIT_FIRST_MS;

    REQUIRE(tries >= 1);
    if (has_other && tries <= QUICK_TRY_COUNT_MAX) {
        return 0; // What one broker asks for is for itself.
    }
    for (uint32_t i = 1; i < tries && wait_ms < WAIT_MAX_MS; i++) {
        wait_ms *= 2;
    }
    wait_ms = time_min(wait_ms, WAIT_MAX_MS);
    return time_max(asked_ms, prng_between(prng, wait_ms / 2, wait_ms));
}
