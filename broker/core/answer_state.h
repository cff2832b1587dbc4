/* SPDX-License-Identifier: Apache-2.0
 *
 * What a broker remembers of what it has answered, and of what it is about to refuse. A part of
 * state.h.
 */
#ifndef FOLIOT_BROKER_CORE_ANSWER_STATE_H
#define FOLIOT_BROKER_CORE_ANSWER_STATE_H

#include "lib/model/task.h"

#include <stdbool.h>
#include <stdint.h>

/* Cancelled tasks that are remembered, to answer a repeat truly: half a minute at 2 000/s. */
#define RECENTS_MAX 65536U

/* A task that was cancelled here a short while ago. */
struct recent {
    struct task_id id;
    uint32_t shard;
    uint32_t attempt; /* may have been running, or had run; 0: none */
};

/* Tellings that are being refused, at once: one more displaces the oldest, which is asked for
 * again.
 */
#define REFUSALS_MAX 256U

/* An outcome that is of no live claim, as far as memory knows. */
struct refusal {
    int64_t seq; /* 0: none */
    uint32_t shard;
    uint32_t serial; /* of the shard when the read was sent that shows whether we are its owner */
    uint32_t attempt;
    bool is_sure; /* we were */
};

#endif
