/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a pending task stands, from its row and from what memory knows of it: for Get, for lists,
 * and for whoever asks why it has not run.
 */
#ifndef FOLIOT_BROKER_CORE_EXPLAIN_H
#define FOLIOT_BROKER_CORE_EXPLAIN_H

#include "broker/core/state.h"

/* The state of a task. shape: entry is the task's, or NULL. */
enum task_state explain_state(const struct entry *entry, const struct task *row);

#endif
