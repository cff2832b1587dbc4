/* SPDX-License-Identifier: Apache-2.0
 *
 * The one way from other threads into a loop: a bounded queue of nodes, and a wake-up. The sender
 * allocates and fills a node, the loop's callback takes and frees it.
 */
#ifndef FOLIOT_LIB_IO_MAILBOX_H
#define FOLIOT_LIB_IO_MAILBOX_H

#include "lib/base/attr.h"
#include "lib/base/list.h"

#include <stdint.h>

struct loop;
struct mailbox;

/* First member of the sender's message struct. */
struct mailbox_node {
    struct list node;
};

/* A message arrived. Runs on the loop; the node is the callee's from here on. */
typedef void (*mailbox_cb)(struct mailbox_node *node, void *ctx);

/*
 * Make a mailbox for this loop.
 *
 * shape:  count_max ≥ 1 messages may wait.
 * errors: ERR_NO_MEMORY, ERR_IO.
 */
MUST_USE int mailbox_open(struct loop *loop, uint32_t count_max, mailbox_cb cb, void *ctx,
                          struct mailbox **out);

/*
 * Send a message. Any thread; never blocks for long.
 *
 * ownership: on success the node is the receiver's; refused, it stays the sender's.
 * note:      messages of one thread arrive in their order.
 * errors:    ERR_FULL.
 */
MUST_USE int mailbox_send(struct mailbox *mailbox, struct mailbox_node *node);

/*
 * Deliver what waits, then free the mailbox.
 *
 * shape: on the loop; no thread sends any more.
 */
void mailbox_close(struct mailbox *mailbox);

#endif
