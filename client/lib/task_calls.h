/* SPDX-License-Identifier: Apache-2.0
 *
 * What the calls about single tasks and about batches share: the caller's structs as plain values.
 */
#ifndef FOLIOT_CLIENT_LIB_TASK_CALLS_H
#define FOLIOT_CLIENT_LIB_TASK_CALLS_H

#include "client/lib/repeat.h"
#include "lib/base/attr.h"
#include "proto/codec_task.h"

#include <foliot/task.h>

/* What a create needs besides its request. */
struct create_place {
    int32_t slot; /* of its key, or SLOT_ANY */
    enum repeat_kind kind;
};

/*
 * Take a create apart.
 *
 * ownership: out borrows from what given points to.
 * errors:    ERR_INVALID with fault filled in; what is not checked here the broker checks.
 */
MUST_USE int task_take_create(const struct foliot_create_request *given, struct create_request *out,
                              struct create_place *place, struct fault *fault);

/* Fill in what a caller is told of a task that was made. */
void task_fill_created(const struct create_reply *reply, struct foliot_created *out);

#endif
