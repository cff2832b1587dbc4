/* SPDX-License-Identifier: Apache-2.0
 *
 * The Task message and the names of tasks.
 */
#include "proto/task_message.h"

#include "lib/base/check.h"
#include "proto/message.h"

#include <string.h>

_Static_assert((int)TASK_VIEW_WAITING == (int)FOLIOT__V1__TASK_STATE__TASK_STATE_WAITING &&
                   (int)TASK_VIEW_EXPIRED == (int)FOLIOT__V1__TASK_STATE__TASK_STATE_EXPIRED,
               "task states have the same numbers on the wire");

/* An order key goes with a key: together they name a task. */
static int read_name_order(const struct name_fields *fields, struct arena *arena,
                           struct place place, struct task_name *name)
{
    int err;

    if (fields->order_key == NULL || fields->order_key[0] == '\0') {
        name->stored_key = name->key;
        return 0;
    }
    place.field = "order_key";
    if (name->key.len == 0) {
        return refuse_value(&place, "FIELD_UNUSED",
                            "goes with key only; an id needs no order key, so leave it out");
    }
    err = read_order_key(fields->order_key, place, &name->order_key);
    return err != 0 ? err
                    : read_stored_key(name->order_key, name->key, arena, place, &name->stored_key);
}

int read_name_fields(const struct name_fields *fields, struct arena *arena, struct fault *fault,
                     struct task_name *out)
{
    struct place place = {"", "queue", fault};
    struct task_name name = {.id = {0, 0}};
    int err =
        read_queue_name(fields->tenant, fields->queue, fields->id != NULL, place, &name.queue);

    if (err != 0) {
        return err;
    }
    if (fields->id != NULL) {
        place.field = "id";
        err = read_task_id(fields->id, place, &name.id);
    } else if (fields->key != NULL && fields->key[0] != '\0') {
        place.field = "key";
        err = read_key(fields->key, place, &name.key);
    } else {
        place.field = fields->key != NULL ? "key" : "task";
        err = refuse_value(&place, "KEY_MISSING",
                           "is empty; name the task by its id, or by queue "
                           "and key");
    }
    if (err == 0) {
        err = read_name_order(fields, arena, place, &name);
    }
    if (err == 0) {
        *out = name;
    }
    return err;
}

struct name_fields name_fields_of(const Foliot__V1__GetTaskRequest *message,
                                  const struct queue_name *batch)
{
    struct name_fields fields = {
        .tenant = message->namespace_[0] == '\0' ? batch->tenant : message->namespace_,
        .queue = message->queue[0] == '\0' ? batch->name : message->queue,
        .order_key = message->order_key,
    };

    if (message->task_case == FOLIOT__V1__GET_TASK_REQUEST__TASK_ID) {
        fields.id = message->id;
    } else if (message->task_case == FOLIOT__V1__GET_TASK_REQUEST__TASK_KEY) {
        fields.key = message->key;
    }
    return fields;
}

void format_name(const struct task_name *name, struct name_text *text)
{
    text->id[0] = '\0';
    if (name->id.seq != 0) {
        task_id_format(name->id, text->id);
    }
    REQUIRE(name->key.len <= KEY_BYTES_MAX && name->order_key.len <= ORDER_KEY_BYTES_MAX);
    if (name->key.len > 0) {
        memcpy(text->key, name->key.data, name->key.len);
    }
    text->key[name->key.len] = '\0';
    if (name->order_key.len > 0) {
        memcpy(text->order_key, name->order_key.data, name->order_key.len);
    }
    text->order_key[name->order_key.len] = '\0';
}

void init_task_name(Foliot__V1__GetTaskRequest *message, const struct task_name *name,
                    struct name_text *text)
{
    format_name(name, text);
    foliot__v1__get_task_request__init(message);
    message->namespace_ = wire_text(name->queue.tenant);
    message->queue = wire_text(name->queue.name);
    if (name->id.seq != 0) {
        message->task_case = FOLIOT__V1__GET_TASK_REQUEST__TASK_ID;
        message->id = text->id;
    } else {
        message->task_case = FOLIOT__V1__GET_TASK_REQUEST__TASK_KEY;
        message->key = text->key;
        message->order_key = text->order_key;
    }
}

int read_cancel_fields(int outcome, uint32_t attempt, const char *id, struct place place,
                       struct cancel_reply *out)
{
    place.field = "outcome";
    if (outcome < (int)CANCEL_ANSWER_CANCELLED || outcome > (int)CANCEL_ANSWER_NOT_FOUND) {
        return refuse_value(&place, "REPLY_INVALID", "is %d, which is not known", outcome);
    }
    out->outcome = (enum cancel_answer)outcome;
    out->attempt = attempt;
    out->id = (struct task_id){0, 0};
    place.field = "id";
    return id[0] == '\0' ? 0 : read_task_id(id, place, &out->id);
}

char *format_error(struct slice bytes, char *text)
{
    size_t len = bytes.len < ERROR_TEXT_BYTES_MAX ? bytes.len : ERROR_TEXT_BYTES_MAX;

    for (size_t i = 0; i < len; i++) {
        text[i] = bytes.data[i] == 0 ? '?' : (char)bytes.data[i];
    }
    text[len] = '\0';
    text_scrub(text);
    return text;
}

static void init_end(struct task_wire *wire, const struct task_view *view)
{
    wire->message.end_time = write_time(view->ended_ms, &wire->times[3]);
    wire->message.forget_time = write_time(view->forget_ms, &wire->times[4]);
    wire->message.response = wire_bytes(view->response);
    wire->message.error = format_error(view->error, wire->error);
}

void init_task(struct task_wire *wire, const struct task_view *view)
{
    Foliot__V1__Task *message = &wire->message;

    format_name(&(struct task_name){.id = view->id, .key = view->key, .order_key = view->order_key},
                &wire->text);
    foliot__v1__task__init(message);
    message->id = wire->text.id;
    message->namespace_ = wire_text(view->queue.tenant);
    message->queue = wire_text(view->queue.name);
    message->key = wire->text.key;
    message->order_key = wire->text.order_key;
    message->due_time = write_time(view->due_ms, &wire->times[0]);
    message->create_time = write_time(view->created_ms, &wire->times[1]);
    message->payload = wire_bytes(view->payload);
    message->state = (Foliot__V1__TaskState)view->state;
    message->attempt = view->attempt;
    message->failures = view->failures;
    if (view->expire_ms != 0) {
        message->expire_time = write_time(view->expire_ms, &wire->times[2]);
    }
    write_tags(view->tags, &foliot__v1__task__tags_entry__descriptor, &wire->tags);
    message->n_tags = wire->tags.count;
    message->tags = wire->tags.list;
    if (view->state >= TASK_VIEW_DONE) {
        init_end(wire, view);
    }
}

int read_task(const Foliot__V1__Task *task, struct arena *arena, struct place place,
              struct task_view *out)
{
    wall_ms expire_ms = read_reply_time(task->expire_time);
    int err;

    place.field = "id";
    err = read_task_id(task->id, place, &out->id);
    if (err == 0) {
        place.field = "queue";
        err = read_queue_name(task->namespace_, task->queue, true, place, &out->queue);
    }
    out->key = slice_of(task->key);
    out->order_key = slice_of(task->order_key);
    out->payload = (struct slice){task->payload.data, task->payload.len};
    out->due_ms = read_reply_time(task->due_time);
    out->created_ms = read_reply_time(task->create_time);
    out->state = (enum task_view_state)task->state;
    out->attempt = task->attempt;
    out->failures = task->failures;
    out->tags = read_reply_tags(task->tags, task->n_tags, arena);
    out->expire_ms = expire_ms == WALL_NEVER ? 0 : expire_ms;
    out->ended_ms = read_reply_time(task->end_time);
    out->forget_ms = read_reply_time(task->forget_time);
    out->response = (struct slice){task->response.data, task->response.len};
    out->error = slice_of(task->error);
    return err;
}
