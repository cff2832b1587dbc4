/* SPDX-License-Identifier: Apache-2.0
 *
 * What the end of one try means for its call: is it the end of the call, may it be tried again, and
 * may it have happened. Pure. The promise behind it is K-8: UNAVAILABLE and RESOURCE_EXHAUSTED mean
 * that nothing happened, OUTCOME_UNKNOWN that it may have, never the other way round.
 */
#ifndef FOLIOT_CLIENT_LIB_REPEAT_H
#define FOLIOT_CLIENT_LIB_REPEAT_H

#include "lib/base/instant.h"
#include "proto/fault.h"

#include <stdbool.h>
#include <stdint.h>

struct prng;
struct rpc_reply;

/* What may be done about a call whose outcome is not known. */
enum repeat_kind {
    REPEAT_NEVER = 1, /* it changes something, and doing it twice is not the same */
    REPEAT_SAFELY,    /* it changes something, and doing it twice is the same */
    REPEAT_READ       /* it changes nothing */
};

/* What one try came to. */
struct repeat_verdict {
    bool is_again;   /* try again */
    bool is_unknown; /* it may have happened */
    bool is_broken;  /* it is the line or the broker that failed: try another one */
    span_ms wait_ms; /* what the broker asks to wait before the next try; 0: nothing */
};

/*
 * Judge one try.
 *
 * shape: fault is what the reply says, decoded; only read if the status is not RPC_OK.
 * source: docs/adr/0012-whose-word-a-status-is.md
 */
struct repeat_verdict repeat_judge(enum repeat_kind kind, const struct rpc_reply *reply,
                                   const struct fault *fault);

/*
 * The end of a call that was tried at least once, or never: make its fault say what is known of all
 * tries together.
 *
 * shape:  is_unknown: some try may have happened. fault->status may be RPC_OK: nothing is changed.
 * return: may the call have happened, as struct foliot_error says it?
 */
bool repeat_conclude(enum repeat_kind kind, bool is_unknown, struct fault *fault);

/*
 * How long to wait before the next try.
 *
 * shape: tries ≥ 1, those made; has_other: another broker can be asked, which is done at once a few
 *        times; asked_ms: what the broker asked for, which is not undercut before it is asked
 * again.
 */
span_ms repeat_wait(struct prng *prng, uint32_t tries, bool has_other, span_ms asked_ms);

#endif
