/* SPDX-License-Identifier: Apache-2.0
 *
 * The table from status to verdict. What a peer itself said is over; what only we know of, a
 * deadline or a broken connection, may still be running.
 */
#include "broker/target/verdict.h"

#include "lib/base/limits.h"
#include "proto/fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Does the status itself say that the peer's handler may still be running? */
static bool may_be_running(enum rpc_status status)
{
    return status == RPC_CANCELLED || status == RPC_DEADLINE_EXCEEDED;
}

static span_ms wait_of(const struct rpc_reply *reply, const struct fault *fault)
{
    span_ms wait = fault->retry_after_ms;

    if (reply->has_pushback && reply->pushback_ms >= 0) {
        wait = reply->pushback_ms;
    }
    return time_clamp(wait, 0, RETRY_AFTER_MS_MAX);
}

static enum target_verdict verdict_of_fault(const struct fault *fault)
{
    if (strcmp(fault->reason, VERDICT_REASON_DEAD) == 0) {
        return TARGET_DEAD;
    }
    if (strcmp(fault->reason, VERDICT_REASON_OBSOLETE) == 0) {
        return TARGET_OBSOLETE;
    }
    /* A Foliot that is the target, or one behind it, does not know. */
    if (fault->status == RPC_UNKNOWN && strcmp(fault->reason, "OUTCOME_UNKNOWN") == 0) {
        return TARGET_UNKNOWN;
    }
    return may_be_running(fault->status) ? TARGET_UNKNOWN : TARGET_RETRY;
}

void verdict_of_reply(const struct rpc_reply *reply, const struct call_history *history, char *text,
                      size_t text_size, struct target_result *out)
{
    struct fault fault;

    memset(out, 0, sizeof(*out));
    if (reply->status == RPC_OK) {
        out->verdict = TARGET_DONE;
        out->response = reply->payload;
        return;
    }
    fault_decode(&fault, reply->status, reply->message, reply->details);
    (void)snprintf(text, text_size, "%s: %s", err_status_name(reply->status), fault.message);
    out->error_text = slice_of(text);
    out->status = err_status_name(reply->status);
    out->is_told = reply->from_peer;
    if (!reply->was_sent && (history->was_withdrawn || history->was_waiting)) {
        out->verdict = TARGET_NOT_STARTED;
    } else if (reply->unprocessed) {
        out->verdict = TARGET_RETRY;
        out->retry_after_ms = wait_of(reply, &fault);
    } else if (history->was_reset || !reply->from_peer) {
        out->verdict = TARGET_UNKNOWN;
    } else {
        out->verdict = verdict_of_fault(&fault);
        out->retry_after_ms = out->verdict == TARGET_RETRY ? wait_of(reply, &fault) : 0;
    }
}
