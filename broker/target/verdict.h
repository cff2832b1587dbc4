/* SPDX-License-Identifier: Apache-2.0
 *
 * From how a call ended to what that means for the attempt. Pure. The table is in docs/TARGETS.md.
 */
#ifndef FOLIOT_BROKER_TARGET_VERDICT_H
#define FOLIOT_BROKER_TARGET_VERDICT_H

#include "broker/target/target_call.h"
#include "lib/rpc/rpc_client.h"

/* Reasons of ErrorInfo, domain "foliot", by which a method says more than yes or try again. */
#define VERDICT_REASON_DEAD     "TASK_DEAD"
#define VERDICT_REASON_OBSOLETE "TASK_OBSOLETE"

/* Longest wait that a target can ask for; more is cut to it. */
#define RETRY_AFTER_MS_MAX 86400000

/* What the end of a call may have been caused by on our side. */
struct call_history {
    bool was_withdrawn; /* may_start said no before the send */
    bool was_reset;     /* may_start said no after it, and we reset the call */
    bool was_waiting;   /* the channel had a connection and no room, and time ran out */
};

/*
 * Judge a reply.
 *
 * shape:     text has room for text_size bytes; it holds what out->error_text points to.
 * ownership: out->error_text borrows from text, out->response from the reply.
 */
void verdict_of_reply(const struct rpc_reply *reply, const struct call_history *history, char *text,
                      size_t text_size, struct target_result *out);

#endif
