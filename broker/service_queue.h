/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of QueueService, and the way of a change: home is read, the queue as it is there is
 * changed and written back under its version, the coordinator wakes the brokers, and the answer
 * says who has not confirmed it. Private to broker/service*.
 */
#ifndef FOLIOT_BROKER_SERVICE_QUEUE_H
#define FOLIOT_BROKER_SERVICE_QUEUE_H

#include "broker/service_parts.h"
#include "proto/codec_queue_life.h"

struct queue_call;

/*
 * Turn the present queue into the one to be written.
 *
 * shape:  put.queue has what the caller said; present may be NULL if `is_new`, else it is what home
 * has. errors: any; the fault is then the answer.
 */
typedef int (*queue_apply_fn)(struct queue_call *q, const struct queue *present,
                              struct fault *fault);

/* Answer a change: the brokers named have not confirmed it. */
typedef int (*queue_answer_fn)(const struct queue_call *q, const char *const *names, size_t count,
                               struct buf *out);

/*
 * One call. Steps of a change, in order: read home → put → nudge → read home again → confirm.
 * 1. rpc is NULL once it has been answered; the struct lives on until what is out has come back.
 * 2. is_out: a request, a read or a wait is with somebody else.
 */
struct queue_call {
    struct service *service;
    struct rpc_call *rpc;
    bool is_out;
    bool was_sent;  /* the change may be in home */
    uint32_t tries; /* of the change: somebody else changes it, too */
    queue_apply_fn apply;
    queue_answer_fn answer;
    struct queue_name name; /* which one; borrows from the arena */
    uint32_t version;       /* it must have; 0: any */
    struct store_queue_put put;
    struct store_queue_drop drop;
    struct store_queue_list list;
    struct coord_request nudge;
    int64_t config; /* version of the configuration, after the nudge; 0: nobody was woken */
    struct queue_wait wait;
    struct loop_timer look;
    boot_us give_up_us;
    struct when pause;                 /* Pause */
    struct queue_list_request request; /* List */
    struct arena arena;
};

/* NULL: the call has been answered. */
MUST_USE struct queue_call *queue_call_new(struct service *service, struct rpc_call *rpc);

/* Answer, if nobody has yet, and free. shape: nothing is out. */
void queue_call_fail(struct queue_call *q, const struct fault *fault);
void queue_call_reply(struct queue_call *q, int err);

/* Read home anew; cb runs when the core has its queues. */
void queue_call_read_home(struct queue_call *q, queue_wait_cb cb);

/* In that callback: the queue `name` as home has it now. NULL: the call has been answered, or is
 * free.
 */
const struct queue *queue_call_present(struct queue_call *q, int err);

/* Read home, then change the queue `name` by `apply`, and answer by `answer`. */
void queue_call_change(struct queue_call *q, queue_apply_fn apply);

/* It has been changed in home: wake everybody and see who confirms. */
void queue_call_changed(struct queue_call *q);

#endif
