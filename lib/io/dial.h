/* SPDX-License-Identifier: Apache-2.0
 *
 * An outgoing TCP connection in the making. The caller has the time-out.
 */
#ifndef FOLIOT_LIB_IO_DIAL_H
#define FOLIOT_LIB_IO_DIAL_H

#include "lib/base/attr.h"
#include "lib/io/address.h"
#include "lib/io/loop.h"

/* err 0: fd is connected and the callee's. Else fd is −1; ERR_UNAVAILABLE (refused, no route),
 * ERR_TIMEOUT, ERR_IO. */
typedef void (*dial_cb)(int err, int fd, void *ctx);

/* Owned by the caller; must not move while it is started. */
struct dial {
    struct loop *loop;
    struct loop_fd watcher;
    struct loop_task failed; /* posted when the kernel refused at once */
    dial_cb cb;
    void *ctx; /* the owner's */
    int fd;    /* −1: not started */
    int err;
};

void dial_init(struct dial *dial, struct loop *loop, dial_cb cb, void *ctx);

/*
 * Connect. The callback runs exactly once, later, unless dial_stop comes first.
 *
 * shape: not started.
 */
void dial_start(struct dial *dial, const struct address *address);

/* Give up: no callback any more. Harmless if not started. */
void dial_stop(struct dial *dial);

#endif
