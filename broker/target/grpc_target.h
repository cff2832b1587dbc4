/* SPDX-License-Identifier: Apache-2.0
 *
 * Target kind 1, any gRPC method: the payload is the serialized request, byte for byte; what else
 * there is to know of the attempt travels as metadata. OK means done.
 */
#ifndef FOLIOT_BROKER_TARGET_GRPC_TARGET_H
#define FOLIOT_BROKER_TARGET_GRPC_TARGET_H

#include "broker/target/target.h"

/* Names of the metadata; docs/TARGETS.md. Times are milliseconds since 1970 UTC, in decimal. */
#define METADATA_TASK_ID   "foliot-task-id"
#define METADATA_ATTEMPT   "foliot-attempt"
#define METADATA_DUE_TIME  "foliot-due-time"
#define METADATA_DEADLINE  "foliot-deadline"
#define METADATA_NAMESPACE "foliot-namespace"
#define METADATA_QUEUE     "foliot-queue"
#define METADATA_KEY       "foliot-key-bin"       /* only if the task has a key */
#define METADATA_ORDER_KEY "foliot-order-key-bin" /* only if it has one */

/*
 * Start an attempt.
 *
 * errors: ERR_FULL no room, ERR_NO_MEMORY; others are the channel's refusals. Nothing follows then.
 */
MUST_USE int grpc_target_start(struct target *target, struct target_call *call);

#endif
