/* SPDX-License-Identifier: Apache-2.0
 *
 * Dead letters.
 */
#include "proto/codec_dead.h"

#include "lib/base/check.h"
#include "proto/message.h"
#include "proto/task_message.h"
#include "proto/values.h"

#include <foliot/v1/queue.pb-c.h>
#include <stdio.h>
#include <string.h>

/* Numbers of the repeated fields that are written piecewise. source: queue.proto */
#define LIST_DEAD_NUMBER  1
#define GROUP_DEAD_NUMBER 1

/* A rate above this is as good as none. */
#define RATE_MAX 1e9

#define MILLIS 1000

_Static_assert((long long)LIST_PAGE_COUNT_MAX *(PAYLOAD_INLINE_BYTES_MAX + ERROR_TEXT_BYTES_MAX +
                                                TAGS_BYTES_MAX + KEY_BYTES_MAX + 256) <
                   RPC_MESSAGE_BYTES_MAX,
               "a full page fits a message");

/* Message of a request, or NULL with *err. */
static const void *open_message(const ProtobufCMessageDescriptor *descriptor, struct slice bytes,
                                struct arena *arena, struct fault *fault, int *err)
{
    ProtobufCMessage *message = NULL;

    *err = message_read(descriptor, bytes, arena, &message, fault);
    return *err == 0 ? message : NULL;
}

/* What all requests say: names and filter. */
static int read_filter(const char *tenant, const char *queue, const char *contains,
                       struct fault *fault, struct dead_request *out)
{
    struct place place = {"", "queue", fault};
    size_t len = strlen(contains);
    int err = read_queue_name(tenant, queue, false, place, &out->queue);

    if (err == 0 && len > DEAD_FILTER_BYTES_MAX) {
        place.field = "error_contains";
        err = refuse_value(&place, "FILTER_TOO_LONG",
                           "has %zu bytes, at most %d are allowed (DEAD_FILTER_BYTES_MAX); shorten "
                           "it",
                           len, DEAD_FILTER_BYTES_MAX);
    }
    out->error_contains = slice_of(contains);
    return err;
}

static int read_ids(char *const *texts, size_t count, struct arena *arena, struct fault *fault,
                    struct dead_request *out)
{
    struct task_id *ids;
    int err = 0;

    if (count == 0) {
        return 0;
    }
    if (count > DEAD_CALL_COUNT_MAX) {
        return refuse_value(&(struct place){"", "ids", fault}, "BATCH_TOO_LARGE",
                            "has %zu elements, at most %d are allowed (DEAD_CALL_COUNT_MAX); send "
                            "them in parts",
                            count, DEAD_CALL_COUNT_MAX);
    }
    arena_allow(arena, arena->used + count * sizeof(*ids) + ARENA_INLINE_BYTES);
    ids = arena_new(arena, count * sizeof(*ids));
    if (ids == NULL) {
        fault_set_err(fault, ERR_NO_MEMORY, "cannot read the ids");
        return ERR_NO_MEMORY;
    }
    for (size_t i = 0; err == 0 && i < count; i++) {
        char field[PREFIX_BYTES];

        (void)snprintf(field, sizeof(field), "ids[%zu]", i);
        err = read_task_id(texts[i], (struct place){"", field, fault}, &ids[i]);
    }
    out->ids = ids;
    out->id_count = count;
    return err;
}

static int read_rate(double rate, struct fault *fault, int64_t *millis)
{
    if (!(rate >= 0)) { // also what is not a number
        return refuse_value(&(struct place){"", "rate_per_second", fault}, "VALUE_OUT_OF_RANGE",
                            "must be 0 or more; 0 redrives all at once");
    }
    if (rate > 0 && rate * MILLIS < 1) {
        return refuse_value(&(struct place){"", "rate_per_second", fault}, "VALUE_OUT_OF_RANGE",
                            "is below 0.001; choose a higher rate");
    }
    *millis = rate > RATE_MAX ? 0 : (int64_t)(rate * MILLIS);
    return 0;
}

int codec_read_dead_list(struct slice bytes, struct arena *arena, struct dead_request *out,
                         struct fault *fault)
{
    int err;
    const Foliot__V1__ListDeadRequest *message =
        open_message(&foliot__v1__list_dead_request__descriptor, bytes, arena, fault, &err);

    if (message == NULL) {
        return err;
    }
    *out = (struct dead_request){
        .count_max = read_page_size(message->page_size),
        .with_payload = message->with_payload != 0,
    };
    err = read_filter(message->namespace_, message->queue, message->error_contains, fault, out);
    return err != 0 ? err : read_page_token(message->page_token, fault, &out->mark);
}

int codec_read_dead_group(struct slice bytes, struct arena *arena, struct dead_request *out,
                          struct fault *fault)
{
    int err;
    const Foliot__V1__GroupDeadRequest *message =
        open_message(&foliot__v1__group_dead_request__descriptor, bytes, arena, fault, &err);

    if (message == NULL) {
        return err;
    }
    *out = (struct dead_request){.count_max = LIST_PAGE_COUNT_MAX, .mark = page_start()};
    return read_filter(message->namespace_, message->queue, "", fault, out);
}

int codec_read_dead_redrive(struct slice bytes, struct arena *arena, struct dead_request *out,
                            struct fault *fault)
{
    int err;
    const Foliot__V1__RedriveDeadRequest *message =
        open_message(&foliot__v1__redrive_dead_request__descriptor, bytes, arena, fault, &err);

    if (message == NULL) {
        return err;
    }
    *out = (struct dead_request){.count_max = read_count_max(message->count_max)};
    err = read_filter(message->namespace_, message->queue, message->error_contains, fault, out);
    if (err == 0) {
        err = read_ids(message->ids, message->n_ids, arena, fault, out);
    }
    if (err == 0) {
        err = read_rate(message->rate_per_second, fault, &out->rate_millis);
    }
    return err != 0 ? err : read_page_token(message->page_token, fault, &out->mark);
}

int codec_read_dead_purge(struct slice bytes, struct arena *arena, struct dead_request *out,
                          struct fault *fault)
{
    int err;
    const Foliot__V1__PurgeDeadRequest *message =
        open_message(&foliot__v1__purge_dead_request__descriptor, bytes, arena, fault, &err);

    if (message == NULL) {
        return err;
    }
    *out = (struct dead_request){.count_max = read_count_max(message->count_max)};
    err = read_filter(message->namespace_, message->queue, message->error_contains, fault, out);
    if (err == 0) {
        err = read_ids(message->ids, message->n_ids, arena, fault, out);
    }
    return err != 0 ? err : read_page_token(message->page_token, fault, &out->mark);
}

/* Text forms of what a request points to, for generated structs. */
struct dead_wire {
    char contains[DEAD_FILTER_BYTES_MAX + 1];
    char token[PAGE_TOKEN_BYTES_MAX + 1];
    char id_texts[DEAD_CALL_COUNT_MAX][TASK_ID_TEXT_LEN + 1];
    char *ids[DEAD_CALL_COUNT_MAX];
};

static char *format_filter(struct slice contains, struct dead_wire *wire)
{
    REQUIRE(contains.len <= DEAD_FILTER_BYTES_MAX);
    if (contains.len > 0) {
        memcpy(wire->contains, contains.data, contains.len);
    }
    wire->contains[contains.len] = '\0';
    return wire->contains;
}

static void format_ids(const struct dead_request *request, struct dead_wire *wire)
{
    REQUIRE(request->id_count <= DEAD_CALL_COUNT_MAX);
    for (size_t i = 0; i < request->id_count; i++) {
        task_id_format(request->ids[i], wire->id_texts[i]);
        wire->ids[i] = wire->id_texts[i];
    }
}

int codec_write_dead_list(const struct dead_request *request, struct buf *out)
{
    Foliot__V1__ListDeadRequest message;
    struct dead_wire wire;

    foliot__v1__list_dead_request__init(&message);
    message.namespace_ = wire_text(request->queue.tenant);
    message.queue = wire_text(request->queue.name);
    message.error_contains = format_filter(request->error_contains, &wire);
    message.page_size = request->count_max;
    message.page_token = page_format(request->mark, SHARD_COUNT_MAX, wire.token);
    message.with_payload = request->with_payload;
    return message_write(&message.base, out);
}

int codec_write_dead_group(const struct dead_request *request, struct buf *out)
{
    Foliot__V1__GroupDeadRequest message;

    foliot__v1__group_dead_request__init(&message);
    message.namespace_ = wire_text(request->queue.tenant);
    message.queue = wire_text(request->queue.name);
    return message_write(&message.base, out);
}

int codec_write_dead_redrive(const struct dead_request *request, struct buf *out)
{
    Foliot__V1__RedriveDeadRequest message;
    struct dead_wire wire;

    format_ids(request, &wire);
    foliot__v1__redrive_dead_request__init(&message);
    message.namespace_ = wire_text(request->queue.tenant);
    message.queue = wire_text(request->queue.name);
    message.error_contains = format_filter(request->error_contains, &wire);
    message.n_ids = request->id_count;
    message.ids = wire.ids;
    message.rate_per_second = (double)request->rate_millis / MILLIS;
    message.count_max = request->count_max;
    message.page_token = page_format(request->mark, SHARD_COUNT_MAX, wire.token);
    return message_write(&message.base, out);
}

int codec_write_dead_purge(const struct dead_request *request, struct buf *out)
{
    Foliot__V1__PurgeDeadRequest message;
    struct dead_wire wire;

    format_ids(request, &wire);
    foliot__v1__purge_dead_request__init(&message);
    message.namespace_ = wire_text(request->queue.tenant);
    message.queue = wire_text(request->queue.name);
    message.error_contains = format_filter(request->error_contains, &wire);
    message.n_ids = request->id_count;
    message.ids = wire.ids;
    message.count_max = request->count_max;
    message.page_token = page_format(request->mark, SHARD_COUNT_MAX, wire.token);
    return message_write(&message.base, out);
}

int codec_write_dead_item(const struct task_view *view, struct buf *out)
{
    Foliot__V1__DeadLetter message;
    Google__Protobuf__Timestamp times[3];
    struct name_text text;
    struct tags_wire tags;
    char error[ERROR_TEXT_BYTES_MAX + 1];

    format_name(&(struct task_name){.id = view->id, .key = view->key, .order_key = view->order_key},
                &text);
    foliot__v1__dead_letter__init(&message);
    message.id = text.id;
    message.key = text.key;
    message.order_key = text.order_key;
    message.due_time = write_time(view->due_ms, &times[0]);
    message.create_time = write_time(view->created_ms, &times[1]);
    message.dead_time = write_time(view->ended_ms, &times[2]);
    message.attempt = view->attempt;
    message.failures = view->failures;
    message.error = format_error(view->error, error);
    message.payload = wire_bytes(view->payload);
    write_tags(view->tags, &foliot__v1__dead_letter__tags_entry__descriptor, &tags);
    message.n_tags = tags.count;
    message.tags = (Foliot__V1__DeadLetter__TagsEntry **)(void *)tags.list;
    return message_write_element(LIST_DEAD_NUMBER, &message.base, out);
}

int codec_write_dead_end(struct page_mark mark, uint32_t shard_count, struct buf *out)
{
    Foliot__V1__ListDeadResponse message;
    char token[PAGE_TOKEN_BYTES_MAX + 1];

    foliot__v1__list_dead_response__init(&message);
    message.next_page_token = page_format(mark, shard_count, token);
    return message_write(&message.base, out);
}

int codec_read_dead_reply(struct slice bytes, struct arena *arena, struct list_reply *out,
                          struct fault *fault)
{
    int err;
    const Foliot__V1__ListDeadResponse *message =
        open_message(&foliot__v1__list_dead_response__descriptor, bytes, arena, fault, &err);

    if (message == NULL) {
        return err;
    }
    out->count = message->n_dead;
    out->next_token = message->next_page_token;
    out->message = message;
    out->arena = arena;
    return 0;
}

int codec_read_dead_item(const struct list_reply *reply, size_t index, struct task_view *out,
                         struct fault *fault)
{
    const Foliot__V1__ListDeadResponse *message = reply->message;
    const Foliot__V1__DeadLetter *letter;
    char prefix[PREFIX_BYTES];

    REQUIRE(index < reply->count);
    letter = message->dead[index];
    (void)snprintf(prefix, sizeof(prefix), "dead[%zu].", index);
    *out = (struct task_view){
        .queue = {"", ""},
        .key = slice_of(letter->key),
        .order_key = slice_of(letter->order_key),
        .payload = {letter->payload.data, letter->payload.len},
        .due_ms = read_reply_time(letter->due_time),
        .created_ms = read_reply_time(letter->create_time),
        .state = TASK_VIEW_DEAD,
        .attempt = letter->attempt,
        .failures = letter->failures,
        .tags = read_reply_tags((tag_entry *const *)letter->tags, letter->n_tags, reply->arena),
        .ended_ms = read_reply_time(letter->dead_time),
        .forget_ms = WALL_NEVER,
        .error = slice_of(letter->error),
    };
    return read_task_id(letter->id, (struct place){prefix, "id", fault}, &out->id);
}

int codec_write_dead_group_item(const struct dead_group *group, struct buf *out)
{
    Foliot__V1__DeadGroup message;
    Google__Protobuf__Timestamp first;
    Google__Protobuf__Timestamp last;
    char error[ERROR_TEXT_BYTES_MAX + 1];
    char id[TASK_ID_TEXT_LEN + 1];

    task_id_format(group->example, id);
    foliot__v1__dead_group__init(&message);
    message.error = format_error(group->error, error);
    message.count = group->count;
    message.example_id = id;
    message.first_dead_time = write_time(group->first_ms, &first);
    message.last_dead_time = write_time(group->last_ms, &last);
    return message_write_element(GROUP_DEAD_NUMBER, &message.base, out);
}

int codec_write_dead_group_end(uint64_t looked_at, bool is_partial, struct buf *out)
{
    Foliot__V1__GroupDeadResponse message;

    foliot__v1__group_dead_response__init(&message);
    message.looked_at = looked_at;
    message.is_partial = is_partial;
    return message_write(&message.base, out);
}

int codec_read_dead_groups(struct slice bytes, struct arena *arena, struct dead_groups *out,
                           struct fault *fault)
{
    int err;
    const Foliot__V1__GroupDeadResponse *message =
        open_message(&foliot__v1__group_dead_response__descriptor, bytes, arena, fault, &err);

    if (message == NULL) {
        return err;
    }
    *out = (struct dead_groups){
        .count = message->n_groups,
        .looked_at = message->looked_at,
        .is_partial = message->is_partial != 0,
        .message = message,
    };
    return 0;
}

int codec_read_dead_group_item(const struct dead_groups *groups, size_t index,
                               struct dead_group *out, struct fault *fault)
{
    const Foliot__V1__GroupDeadResponse *message = groups->message;
    const Foliot__V1__DeadGroup *group;
    char prefix[PREFIX_BYTES];

    REQUIRE(index < groups->count);
    group = message->groups[index];
    (void)snprintf(prefix, sizeof(prefix), "groups[%zu].", index);
    out->error = slice_of(group->error);
    out->count = group->count;
    out->first_ms = read_reply_time(group->first_dead_time);
    out->last_ms = read_reply_time(group->last_dead_time);
    return read_task_id(group->example_id, (struct place){prefix, "example_id", fault},
                        &out->example);
}

int codec_write_redrive_reply(const struct dead_done *done, struct buf *out)
{
    Foliot__V1__RedriveDeadResponse message;

    foliot__v1__redrive_dead_response__init(&message);
    message.redriven = done->handled;
    message.skipped = done->skipped;
    message.next_page_token = wire_text(done->next_token);
    return message_write(&message.base, out);
}

int codec_write_purge_reply(const struct dead_done *done, struct buf *out)
{
    Foliot__V1__PurgeDeadResponse message;

    foliot__v1__purge_dead_response__init(&message);
    message.purged = done->handled;
    message.next_page_token = wire_text(done->next_token);
    return message_write(&message.base, out);
}

int codec_read_redrive_reply(struct slice bytes, struct arena *arena, struct dead_done *out,
                             struct fault *fault)
{
    int err;
    const Foliot__V1__RedriveDeadResponse *message =
        open_message(&foliot__v1__redrive_dead_response__descriptor, bytes, arena, fault, &err);

    if (message == NULL) {
        return err;
    }
    *out = (struct dead_done){message->redriven, message->skipped, message->next_page_token};
    return 0;
}

int codec_read_purge_reply(struct slice bytes, struct arena *arena, struct dead_done *out,
                           struct fault *fault)
{
    int err;
    const Foliot__V1__PurgeDeadResponse *message =
        open_message(&foliot__v1__purge_dead_response__descriptor, bytes, arena, fault, &err);

    if (message == NULL) {
        return err;
    }
    *out = (struct dead_done){message->purged, 0, message->next_page_token};
    return 0;
}
