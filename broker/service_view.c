/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks as people are shown them: pending, ended, and what a pending one waits for.
 */
#include "broker/core/inspect.h"
#include "broker/service_parts.h"
#include "lib/base/check.h"
#include "proto/codec_list.h"

#include <inttypes.h>
#include <stdio.h>

/* Room for the words of an explanation. */
#define EXPLAIN_BYTES 256

_Static_assert((int)TASK_WAIT_DUE == (int)WAIT_DUE_TIME &&
                   (int)TASK_WAIT_ORDER == (int)WAIT_ORDER_KEY,
               "reasons have the same numbers on the wire");
_Static_assert((int)TASK_STATE_WAITING == (int)TASK_VIEW_WAITING &&
                   (int)TASK_STATE_RETRYING == (int)TASK_VIEW_RETRYING,
               "states have the same numbers on the wire");

void service_fill_view(const struct broker *broker, const struct task *row, struct task_view *view)
{
    const struct queue *queue = broker_queue_find(broker, row->queue);

    *view = (struct task_view){
        .id = row->id,
        .queue = {queue == NULL ? "" : queue->tenant, queue == NULL ? "" : queue->name},
        .key = task_key_own(row->key),
        .order_key = row->order_key,
        .payload = row->payload,
        .due_ms = row->due_ms,
        .created_ms = row->created_ms,
        .attempt = row->attempt,
        .failures = row->failures,
        .tags = row->tags,
        .expire_ms = row->expire_ms,
        .ended_ms = WALL_NEVER,
        .forget_ms = WALL_NEVER,
    };
}

static enum task_view_state state_of(enum task_end end)
{
    switch (end) {
    case TASK_END_DONE:
        return TASK_VIEW_DONE;
    case TASK_END_OBSOLETE:
        return TASK_VIEW_OBSOLETE;
    case TASK_END_EXPIRED:
        return TASK_VIEW_EXPIRED;
    case TASK_END_DEAD:
        return TASK_VIEW_DEAD;
    }
    UNREACHABLE();
}

int service_write_ended(const struct service *service, const struct ended_task *ended,
                        struct buf *out)
{
    struct task_view view;

    service_fill_view(service->options.broker, &ended->task, &view);
    view.state = state_of(ended->end);
    view.ended_ms = ended->ended_ms;
    view.forget_ms = ended->until_ms;
    view.response = ended->response;
    view.error = ended->error_text;
    return codec_write_get_reply(&view, out);
}

/* The reason in words, with its figures and what to do. */
static const char *explain_text(const struct task_wait *wait, const struct task_view *view,
                                char *text)
{
    const char *queue = view->queue.name;
    char id[TASK_ID_TEXT_LEN + 1];

    text[0] = '\0';
    switch (wait->reason) {
    case TASK_WAIT_DUE:
        return "it waits for its due time; RunNow makes it due at once";
    case TASK_WAIT_BACKOFF:
        (void)snprintf(text, EXPLAIN_BYTES,
                       "%" PRIu32
                       " attempts have failed, and it waits for its next due time; RunNow "
                       "makes it due at once",
                       view->failures);
        return text;
    case TASK_WAIT_PAUSED:
        (void)snprintf(text, EXPLAIN_BYTES,
                       "queue \"%s\" is paused; foliot.v1.QueueService/Resume ends that", queue);
        return text;
    case TASK_WAIT_CONCURRENCY:
        (void)snprintf(text, EXPLAIN_BYTES,
                       "%" PRIu32 " of %" PRIu32 " attempts of queue \"%s\" run at this broker "
                       "(concurrency_max); raise it, or make the target faster",
                       wait->running, wait->limit, queue);
        return text;
    case TASK_WAIT_TARGET:
        return "its target had no room a moment ago: too many calls are open there, or it cannot "
               "be "
               "reached";
    case TASK_WAIT_ATTEMPT:
        return "an attempt is claimed: it starts now, or may be running";
    case TASK_WAIT_OUTCOME:
        return "nobody knows how an attempt ended: until its deadline it may still be running";
    case TASK_WAIT_LOADING:
        return "its shard has just been taken over and is being read";
    case TASK_WAIT_WRITE:
        return "a write of it is on its way to the database";
    case TASK_WAIT_QUEUE_UNKNOWN:
        return "its queue is not in the home database any more; make it again under its name, or "
               "cancel the task";
    case TASK_WAIT_LINE:
        return "tasks of its queue that were due before it go first";
    case TASK_WAIT_ORDER:
        task_id_format(wait->behind, id);
        (void)snprintf(text, EXPLAIN_BYTES,
                       "task %s of its order key goes first; that ends, or is cancelled or given "
                       "another time, before this one runs",
                       id);
        return text;
    }
    UNREACHABLE();
}

int service_write_explain(const struct service *service, const struct call *call,
                          const struct task_view *view, struct buf *out)
{
    char text[EXPLAIN_BYTES];
    struct task_wait wait;
    struct explain_reply reply;

    broker_explain(service->options.broker, call->shard, &call->row, &wait);
    reply = (struct explain_reply){
        .task = *view,
        .reason = (enum wait_reason)wait.reason,
        .text = explain_text(&wait, view, text),
        .until_ms = wait.until_ms,
        .shard = call->shard,
        .broker = service->options.name,
        .behind = wait.behind,
    };
    return codec_write_explain_reply(&reply, out);
}
