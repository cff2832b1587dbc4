/* SPDX-License-Identifier: Apache-2.0
 *
 * The mailbox: a list under a mutex, and one wake-up for each time it fills from empty.
 */
#include "lib/io/mailbox.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"

#include <pthread.h>
#include <stddef.h>

/* Nodes handed out in one wake-up, so that a busy sender cannot starve the rest of the loop. */
#define MAILBOX_BATCH_MAX 1024U

struct mailbox {
    pthread_mutex_t lock; /* guards list and count */
    struct list list;
    uint32_t count;
    uint32_t count_max;
    struct loop_waker *waker;
    mailbox_cb cb;
    void *ctx;
    bool is_delivering; /* inside a callback of deliver */
    bool is_closed;     /* closed by a callback: deliver frees */
};

static struct mailbox_node *take_node(struct mailbox *mailbox)
{
    struct list *first;

    REQUIRE(pthread_mutex_lock(&mailbox->lock) == 0);
    first = list_take_first(&mailbox->list);
    if (first != NULL) {
        mailbox->count--;
    }
    REQUIRE(pthread_mutex_unlock(&mailbox->lock) == 0);
    return first == NULL ? NULL : LIST_ENTRY(first, struct mailbox_node, node);
}

static void release(struct mailbox *mailbox)
{
    struct mailbox_node *node;

    while ((node = take_node(mailbox)) != NULL) {
        mailbox->cb(node, mailbox->ctx);
    }
    loop_waker_close(mailbox->waker);
    REQUIRE(pthread_mutex_destroy(&mailbox->lock) == 0);
    mem_free(mailbox);
}

static void deliver(void *ctx)
{
    struct mailbox *mailbox = ctx;
    struct mailbox_node *node = NULL;

    mailbox->is_delivering = true;
    for (uint32_t i = 0; i < MAILBOX_BATCH_MAX && !mailbox->is_closed; i++) {
        node = take_node(mailbox);
        if (node == NULL) {
            break;
        }
        mailbox->cb(node, mailbox->ctx);
    }
    mailbox->is_delivering = false;
    if (mailbox->is_closed) {
        release(mailbox);
    } else if (node != NULL) {
        loop_waker_wake(mailbox->waker); // The batch was full: the rest comes in the next turn.
    }
}

int mailbox_open(struct loop *loop, uint32_t count_max, mailbox_cb cb, void *ctx,
                 struct mailbox **out)
{
    struct mailbox *mailbox = mem_new(1, sizeof(*mailbox));
    int err;

    REQUIRE(count_max >= 1);
    if (mailbox == NULL) {
        return ERR_NO_MEMORY;
    }
    list_init(&mailbox->list);
    mailbox->count_max = count_max;
    mailbox->cb = cb;
    mailbox->ctx = ctx;
    err = loop_waker_open(loop, deliver, mailbox, &mailbox->waker);
    if (err != 0) {
        mem_free(mailbox);
        return err;
    }
    REQUIRE(pthread_mutex_init(&mailbox->lock, NULL) == 0);
    *out = mailbox;
    return 0;
}

int mailbox_send(struct mailbox *mailbox, struct mailbox_node *node)
{
    bool was_empty;

    REQUIRE(pthread_mutex_lock(&mailbox->lock) == 0);
    if (mailbox->count == mailbox->count_max) {
        REQUIRE(pthread_mutex_unlock(&mailbox->lock) == 0);
        return ERR_FULL;
    }
    was_empty = mailbox->count == 0;
    mailbox->count++;
    list_init(&node->node);
    list_add(&mailbox->list, &node->node);
    REQUIRE(pthread_mutex_unlock(&mailbox->lock) == 0);
    if (was_empty) {
        loop_waker_wake(mailbox->waker);
    }
    return 0;
}

void mailbox_close(struct mailbox *mailbox)
{
    if (mailbox->is_delivering) {
        mailbox->is_closed = true;
        return;
    }
    release(mailbox);
}
