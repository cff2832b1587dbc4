/* SPDX-License-Identifier: Apache-2.0
 *
 * A call whose messages the caller reads and writes itself: for programs of ours that are nearer to
 * the wire than <foliot.h>, and want the same rules of repetition.
 */
#ifndef FOLIOT_CLIENT_LIB_RAW_CALL_H
#define FOLIOT_CLIENT_LIB_RAW_CALL_H

#include "client/lib/repeat.h"
#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <foliot/client.h>

#include <stdint.h>

struct raw_call {
    const char *path; /* "/foliot.v1.TaskService/Get" */
    const char *what; /* "cannot get the task" */
    struct slice request;
    enum repeat_kind kind;
    int32_t slot; /* that it is about, or SLOT_ANY */
};

/*
 * Call and wait.
 *
 * shape:  error is not NULL.
 * return: a code, with error filled in; FOLIOT_OK: the response is appended to reply.
 */
MUST_USE int raw_call(struct foliot_client *client, const struct raw_call *raw, struct buf *reply,
                      struct foliot_error *error);

#endif
