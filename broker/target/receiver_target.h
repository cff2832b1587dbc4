/* SPDX-License-Identifier: Apache-2.0
 *
 * Target kind 2, foliot.v1.Receiver/Deliver: the attempts of one loop turn travel together, each
 * with a result of its own. Attempts with different timeouts never share a call.
 */
#ifndef FOLIOT_BROKER_TARGET_RECEIVER_TARGET_H
#define FOLIOT_BROKER_TARGET_RECEIVER_TARGET_H

#include "broker/target/target.h"

/* Most bytes of one Deliver: below the 4 MiB that gRPC servers take by default. */
#define DELIVER_BYTES_MAX 3145728

/*
 * Start an attempt: it leaves at the end of this turn of the loop, or when its batch is full.
 *
 * errors: ERR_FULL no room, ERR_NO_MEMORY. Nothing follows then.
 */
MUST_USE int receiver_target_start(struct target *target, struct target_call *call);

/* Hand over what has gathered, now. For the pool. */
void receiver_target_flush(struct target *target);

#endif
