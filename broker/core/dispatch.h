/* SPDX-License-Identifier: Apache-2.0
 *
 * From due times to attempts: what the wheel hands out is claimed a little before it is due,
 * started when it is, and settled when its outcome comes. Each queue has its own room and its own
 * line, so that a slow target delays nobody else.
 */
#ifndef FOLIOT_BROKER_CORE_DISPATCH_H
#define FOLIOT_BROKER_CORE_DISPATCH_H

#include "broker/core/state.h"

/* Once per tick: turn the wheels, start what is due, claim what may be. */
void dispatch_step(struct broker *broker);

/* Which queues are paused now. A pause lasts until the slowest clock says that it is over. */
void dispatch_look_at_pauses(struct broker *broker);

/* A RUNNING entry's outcome is known and no call's write is in its way: settle it, or hold it. */
void dispatch_ended(struct shard *shard, struct entry *entry);

/* When a wheel has work next, in boot time. */
boot_us dispatch_next_wake(const struct broker *broker);

#endif
