/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is there and what that means for us: from the member list follows, by the pure function of
 * coordinator/assign.h, which shards this broker should have. Also what we tell the others, and the
 * watch over databases that we cannot write to. source: DESIGN 5, 6
 */
#ifndef FOLIOT_BROKER_CORE_MEMBERSHIP_H
#define FOLIOT_BROKER_CORE_MEMBERSHIP_H

#include "broker/core/state.h"

/* Act on a member list that has been quiet, publish, check epochs. Once per tick. */
void membership_step(struct broker *broker);

/* Look at the databases: which of them we cannot write to. Once per scan. */
void membership_scan(struct broker *broker);

/* When membership_step has work next. */
boot_us membership_next_wake(const struct broker *broker);

#endif
