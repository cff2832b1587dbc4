/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a task in memory, as a table: which state may follow which. One function moves; an
 * illegal move stops the process. Knows nothing of wheels, writes or targets.
 */
#ifndef FOLIOT_BROKER_CORE_TASK_LIFE_H
#define FOLIOT_BROKER_CORE_TASK_LIFE_H

#include "broker/core/state.h"

/* Put an entry into a state that may follow its present one. Who makes an entry says in which state
 * it is born; nobody else writes entry.state. */
void entry_move(struct entry *entry, enum entry_state state);

/* Name of a state, as in "running". */
const char *entry_state_name(enum entry_state state);

/* Whether one state may follow another; pinned by the test of the whole matrix. */
bool entry_may_move(enum entry_state from, enum entry_state to);

/* A write of this entry waits or is in flight: a call for it has to wait until that is known. */
bool entry_is_busy(const struct entry *entry);

#endif
