/* SPDX-License-Identifier: Apache-2.0
 *
 * Showing tasks.
 */
#include "client/cli/task_view.h"

#include "client/cli/moment.h"
#include "lib/base/utf8.h"
#include "lib/io/clock.h"
#include "lib/model/tags.h"

#include <inttypes.h>
#include <stdio.h>

#define COLUMNS(wide)                                                                      \
    {                                                                                      \
        {"ID", false}, {"QUEUE", false}, {"KEY", false}, {"STATE", false}, {"DUE", false}, \
            {"WHEN", wide}, {"ATTEMPT", false}, {"FAILURES", wide}, {"NAMESPACE", wide},   \
            {"CREATED", wide}, {"EXPIRES", wide}, {"TAGS", wide}, {"PAYLOAD", wide},       \
            {"ENDED", wide}, {"FORGOTTEN", wide}, {"RESPONSE", wide}, {"ERROR", wide},     \
            {"ORDER KEY", wide},                                                           \
    }

/* Payloads and responses that are shown as text, with a NUL. */
#define TEXT_SHOWN_BYTES 121

static const struct output_column LIST_COLUMNS[] = COLUMNS(true);
static const struct output_column ALL_COLUMNS[] = COLUMNS(false);

const struct output_layout TASK_LIST_LAYOUT = {LIST_COLUMNS, ARRAY_COUNT(LIST_COLUMNS), 0, "tasks"};
const struct output_layout TASK_LAYOUT = {ALL_COLUMNS, ARRAY_COUNT(ALL_COLUMNS), 0, NULL};

const char *task_view_state_name(enum task_view_state state)
{
    switch (state) {
    case TASK_VIEW_WAITING:
        return "WAITING";
    case TASK_VIEW_READY:
        return "READY";
    case TASK_VIEW_RUNNING:
        return "RUNNING";
    case TASK_VIEW_RETRYING:
        return "RETRYING";
    case TASK_VIEW_DONE:
        return "DONE";
    case TASK_VIEW_OBSOLETE:
        return "OBSOLETE";
    case TASK_VIEW_DEAD:
        return "DEAD";
    case TASK_VIEW_EXPIRED:
        return "EXPIRED";
    }
    return "UNSPECIFIED";
}

bool task_view_has_ended(enum task_view_state state)
{
    return state == TASK_VIEW_DONE || state == TASK_VIEW_OBSOLETE || state == TASK_VIEW_DEAD ||
           state == TASK_VIEW_EXPIRED;
}

void task_view_json(struct json *json, const char *name, const struct task_view *view)
{
    char id[TASK_ID_TEXT_LEN + 1];
    char state[40];

    task_id_format(view->id, id);
    (void)snprintf(state, sizeof(state), "TASK_STATE_%s", task_view_state_name(view->state));
    json_open(json, name, '{');
    json_text(json, "id", id);
    json_text(json, "namespace", view->queue.tenant);
    json_text(json, "queue", view->queue.name);
    json_slice(json, "key", view->key);
    if (view->order_key.len > 0) {
        json_slice(json, "orderKey", view->order_key);
    }
    json_time(json, "dueTime", view->due_ms);
    json_time(json, "createTime", view->created_ms);
    json_bytes(json, "payload", view->payload);
    json_text(json, "state", state);
    json_int(json, "attempt", view->attempt);
    json_int(json, "failures", view->failures);
    json_tags(json, "tags", view->tags);
    if (view->expire_ms != 0) {
        json_time(json, "expireTime", view->expire_ms);
    }
    if (task_view_has_ended(view->state)) {
        json_time(json, "endTime", view->ended_ms);
        json_time(json, "forgetTime", view->forget_ms);
        json_bytes(json, "response", view->response);
        json_slice(json, "error", view->error);
    }
    json_close(json, '}');
}

/* "colour=red,size=9" of the canonical text. */
static void write_tags(struct slice tags, char *out, size_t size)
{
    size_t len = tags.len < size ? tags.len : size - 1;

    for (size_t i = 0; i < len; i++) {
        out[i] = tags.data[i] == '\n' ? ',' : (char)tags.data[i];
    }
    out[len > 0 && len == tags.len ? len - 1 : len] = '\0';
}

static void write_time(wall_ms time, bool is_known, char *out)
{
    out[0] = '\0';
    if (is_known && time != WALL_NEVER) {
        moment_write(time, out);
    }
}

/* Short text as it is, the rest by its size. */
static void write_bytes(struct slice bytes, char *out, size_t size)
{
    bool is_text = bytes.len > 0 && bytes.len < size && utf8_is_valid(bytes);

    for (size_t i = 0; i < bytes.len && is_text; i++) {
        is_text = bytes.data[i] >= ' ' && bytes.data[i] != 0x7f;
    }
    if (is_text) {
        (void)snprintf(out, size, "%.*s", (int)bytes.len, (const char *)bytes.data);
    } else {
        (void)snprintf(out, size, "%zu bytes", bytes.len);
    }
}

static void add_cells(struct output *output, const struct task_view *view)
{
    bool has_ended = task_view_has_ended(view->state);
    bool has_payload = output->is_record || view->payload.len > 0; // a list may leave it out
    char id[TASK_ID_TEXT_LEN + 1];
    char key[KEY_BYTES_MAX + 1];
    char order_key[ORDER_KEY_BYTES_MAX + 1];
    char tags[TAGS_BYTES_MAX + 1];
    char error[ERROR_TEXT_BYTES_MAX + 1];
    char times[6][TIMETEXT_BYTES];
    char numbers[2][16];
    char payload[TEXT_SHOWN_BYTES];
    char response[TEXT_SHOWN_BYTES];

    task_id_format(view->id, id);
    (void)snprintf(key, sizeof(key), "%.*s", (int)view->key.len, (const char *)view->key.data);
    (void)snprintf(order_key, sizeof(order_key), "%.*s", (int)view->order_key.len,
                   (const char *)view->order_key.data);
    (void)snprintf(error, sizeof(error), "%.*s", (int)view->error.len,
                   (const char *)view->error.data);
    write_tags(view->tags, tags, sizeof(tags));
    moment_write(view->due_ms, times[0]);
    moment_write_relative(view->due_ms, clock_wall_ms(), times[1]);
    moment_write(view->created_ms, times[2]);
    write_time(view->expire_ms, view->expire_ms != 0, times[3]);
    write_time(view->ended_ms, has_ended, times[4]);
    write_time(view->forget_ms, has_ended, times[5]);
    (void)snprintf(numbers[0], sizeof(numbers[0]), "%" PRIu32, view->attempt);
    (void)snprintf(numbers[1], sizeof(numbers[1]), "%" PRIu32, view->failures);
    write_bytes(view->payload, payload, sizeof(payload));
    write_bytes(view->response, response, sizeof(response));
    output_row(output,
               (const char *const[]){id, view->queue.name, key, task_view_state_name(view->state),
                                     times[0], times[1], numbers[0], numbers[1], view->queue.tenant,
                                     times[2], times[3], tags, has_payload ? payload : "", times[4],
                                     times[5], has_ended ? response : "", error, order_key});
}

void task_view_add(struct output *output, const struct task_view *view)
{
    if (!output_wants_json(output)) {
        add_cells(output, view);
        return;
    }
    task_view_json(output_json(output), NULL, view);
    output_json_done(output);
}
