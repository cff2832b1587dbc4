/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON to the wire, without recursion and without generated structs. The text is looked over before
 * jansson makes a tree of it: the tree's memory is bounded by the number of values, and its depth
 * by the nesting. A message's length goes in front of its body when the body is complete.
 */
#include "proto/protojson.h"

#include "lib/base/check.h"
#include "lib/base/limits.h"
#include "proto/message.h"
#include "proto/protojson_value.h"

#include <stdio.h>
#include <string.h>

/* Fields of one message: one bit each says whether it came. */
#define FIELD_COUNT_MAX 64

/* A message that is being read. */
struct frame {
    const ProtobufCMessageDescriptor *descriptor;
    json_t *object;                        /* NULL: an entry of a map, whose value is being read */
    void *member;                          /* the next one; NULL when all are read */
    const ProtobufCFieldDescriptor *field; /* the one being read */
    json_t *list;                          /* its elements, if it is repeated */
    size_t index;                          /* the next one */
    json_t *map;                           /* its entries, if it is a map */
    void *entry;                           /* the next one */
    const char *key;                       /* of the one being read */
    uint64_t seen;                         /* fields that came, by index */
    size_t start;                          /* of the body in out */
};

struct reader {
    struct frame frames[PROTOJSON_DEPTH_MAX];
    size_t depth; /* frames in use */
    struct buf *out;
    struct fault *fault;
};

/* ---- complaints ---- */

/* Path of the field being read: "items[3].delay", "tags[colour]". */
static void write_path(const struct reader *reader, char *path, size_t size)
{
    size_t len = 0;

    path[0] = '\0';
    for (size_t i = 0; i < reader->depth && len < size; i++) {
        const struct frame *frame = &reader->frames[i];
        const char *dot = i == 0 ? "" : ".";
        int added = 0;

        if (frame->field == NULL || frame->object == NULL) {
            continue;
        }
        if (frame->list != NULL) {
            added = snprintf(path + len, size - len, "%s%s[%zu]", dot, frame->field->name,
                             frame->index == 0 ? 0 : frame->index - 1);
        } else if (frame->key != NULL) {
            added =
                snprintf(path + len, size - len, "%s%s[%s]", dot, frame->field->name, frame->key);
        } else {
            added = snprintf(path + len, size - len, "%s%s", dot, frame->field->name);
        }
        len += added < 0 ? 0 : (size_t)added;
    }
}

static int refuse(const struct reader *reader, const char *reason, const char *what)
{
    char path[FAULT_FIELD_BYTES];

    write_path(reader, path, sizeof(path));
    fault_set(reader->fault, RPC_INVALID_ARGUMENT, reason, path, "%s%s%s",
              path[0] == '\0' ? "the message" : path, path[0] == '\0' ? " " : ": ", what);
    return ERR_INVALID;
}

/* A member that no field has the name of: say which there are. */
static int refuse_unknown(const struct reader *reader, const char *name)
{
    const struct frame *frame = &reader->frames[reader->depth - 1];
    char path[FAULT_FIELD_BYTES];
    char names[FAULT_MESSAGE_BYTES / 2] = "";
    size_t len = 0;

    write_path(reader, path, sizeof(path));
    for (unsigned i = 0; i < frame->descriptor->n_fields && len < sizeof(names); i++) {
        char field[PROTOJSON_NAME_BYTES];
        int added;

        protojson_name(frame->descriptor->fields[i].name, field);
        added = snprintf(names + len, sizeof(names) - len, "%s%s", i == 0 ? "" : ", ", field);
        len += added < 0 ? 0 : (size_t)added;
    }
    len = strlen(path);
    (void)snprintf(path + len, sizeof(path) - len, "%s%s", len == 0 ? "" : ".", name);
    fault_set(reader->fault, RPC_INVALID_ARGUMENT, "FIELD_UNKNOWN", path,
              "%s: unknown field; %s has %s", path, frame->descriptor->short_name,
              names[0] == '\0' ? "none" : names);
    return ERR_INVALID;
}

static int refuse_twice(const struct reader *reader, const ProtobufCFieldDescriptor *other)
{
    const struct frame *frame = &reader->frames[reader->depth - 1];
    char what[2 * PROTOJSON_NAME_BYTES];

    if (other == frame->field) {
        return refuse(reader, "FIELD_TWICE", "is given twice");
    }
    (void)snprintf(what, sizeof(what), "excludes %s, which is given too", other->name);
    return refuse(reader, "FIELD_TWICE", what);
}

/* ---- one message ---- */

static int push(struct reader *reader, const ProtobufCMessageDescriptor *descriptor, json_t *object)
{
    if (reader->depth == PROTOJSON_DEPTH_MAX) {
        return refuse(reader, "MESSAGE_TOO_COSTLY", "is nested too deep");
    }
    REQUIRE(descriptor->n_fields <= FIELD_COUNT_MAX);
    reader->frames[reader->depth++] = (struct frame){
        .descriptor = descriptor,
        .object = object,
        .member = object == NULL ? NULL : json_object_iter(object),
        .start = buf_len(reader->out),
    };
    return 0;
}

/* The body is complete: put its length in front of it. The outermost message has none. */
static void pop(struct reader *reader)
{
    size_t start = reader->frames[--reader->depth].start;
    size_t len = buf_len(reader->out) - start;
    uint8_t head[MESSAGE_VARINT_BYTES];
    size_t head_len = message_put_varint(head, len);
    uint8_t *body;

    if (reader->depth == 0 || buf_append(reader->out, head, head_len) != 0) {
        return;
    }
    body = reader->out->data + reader->out->start + start;
    memmove(body + head_len, body, len);
    memcpy(body, head, head_len);
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *descriptor,
                                                  const char *name)
{
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        char camel[PROTOJSON_NAME_BYTES];

        if (strcmp(field->name, name) == 0) {
            return field;
        }
        protojson_name(field->name, camel);
        if (strcmp(camel, name) == 0) {
            return field;
        }
    }
    return NULL;
}

/* Note that a field came; two of the same oneof exclude each other. */
static int note_field(struct reader *reader, struct frame *frame)
{
    const ProtobufCFieldDescriptor *fields = frame->descriptor->fields;
    bool is_one = (frame->field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;

    for (unsigned i = 0; i < frame->descriptor->n_fields; i++) {
        bool is_rival = &fields[i] == frame->field ||
                        (is_one && (fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
                         fields[i].quantifier_offset == frame->field->quantifier_offset);

        if (is_rival && (frame->seen >> i & 1U) != 0) {
            return refuse_twice(reader, &fields[i]);
        }
    }
    frame->seen |= UINT64_C(1) << (frame->field - fields);
    return 0;
}

/* One value of a field: written, or begun if it is an object. */
static int read_value(struct reader *reader, const ProtobufCFieldDescriptor *field, json_t *value)
{
    struct protojson_complaint why;

    if (json_is_null(value)) {
        return refuse(reader, "VALUE_INVALID", "null has no place in a list or a map");
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE &&
        protojson_kind_of(field->descriptor) == PROTOJSON_OBJECT) {
        if (!json_is_object(value)) {
            return refuse(reader, "VALUE_INVALID", "must be an object");
        }
        protojson_put_tag(field, reader->out);
        return push(reader, field->descriptor, value);
    }
    if (protojson_put_value(field, value, reader->out, &why) != 0) {
        return refuse(reader, why.reason, why.text);
    }
    return 0;
}

static int read_element(struct reader *reader, struct frame *frame)
{
    if (frame->index == json_array_size(frame->list)) {
        frame->list = NULL;
        return 0;
    }
    return read_value(reader, frame->field, json_array_get(frame->list, frame->index++));
}

/* One entry of a map: a message of its key and its value. */
static int read_entry(struct reader *reader, struct frame *frame)
{
    const ProtobufCMessageDescriptor *entry = frame->field->descriptor;
    struct protojson_complaint why;
    json_t *value;
    int err;

    if (frame->entry == NULL) {
        frame->map = NULL;
        frame->key = NULL;
        return 0;
    }
    frame->key = json_object_iter_key(frame->entry);
    value = json_object_iter_value(frame->entry);
    frame->entry = json_object_iter_next(frame->map, frame->entry);
    protojson_put_tag(frame->field, reader->out);
    err = push(reader, entry, NULL);
    if (err != 0) {
        return err;
    }
    if (protojson_put_key(&entry->fields[0], frame->key, reader->out, &why) != 0) {
        return refuse(reader, why.reason, why.text);
    }
    return read_value(reader, &entry->fields[1], value);
}

/* The next member of an object. */
static int read_member(struct reader *reader, struct frame *frame)
{
    const char *name = json_object_iter_key(frame->member);
    json_t *value = json_object_iter_value(frame->member);
    int err;

    frame->member = json_object_iter_next(frame->object, frame->member);
    frame->field = NULL;
    frame->field = find_field(frame->descriptor, name);
    if (frame->field == NULL) {
        return refuse_unknown(reader, name);
    }
    if (json_is_null(value)) {
        return 0;
    }
    err = note_field(reader, frame);
    if (err != 0 || frame->field->label != PROTOBUF_C_LABEL_REPEATED) {
        return err != 0 ? err : read_value(reader, frame->field, value);
    }
    if (protojson_is_map(frame->descriptor, frame->field)) {
        if (!json_is_object(value)) {
            return refuse(reader, "VALUE_INVALID", "must be an object");
        }
        frame->map = value;
        frame->entry = json_object_iter(value);
        return 0;
    }
    if (!json_is_array(value)) {
        return refuse(reader, "VALUE_INVALID", "must be a list");
    }
    frame->list = value;
    frame->index = 0;
    return 0;
}

static int step(struct reader *reader)
{
    struct frame *frame = &reader->frames[reader->depth - 1];

    if (frame->list != NULL) {
        return read_element(reader, frame);
    }
    if (frame->map != NULL) {
        return read_entry(reader, frame);
    }
    if (frame->member != NULL) {
        return read_member(reader, frame);
    }
    pop(reader);
    return 0;
}

static int read_tree(const ProtobufCMessageDescriptor *descriptor, json_t *tree, struct buf *out,
                     struct fault *fault)
{
    struct reader reader = {.out = out, .fault = fault};
    int err;

    if (!json_is_object(tree)) {
        return refuse(&reader, "JSON_MALFORMED", "must be a JSON object");
    }
    err = push(&reader, descriptor, tree);
    while (err == 0 && reader.depth > 0 && !out->failed) {
        err = step(&reader);
    }
    if (err == 0 && out->failed) {
        fault_set(fault, RPC_RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE", NULL,
                  "the message is larger than %zu bytes, or there is no memory for it; send it in "
                  "parts",
                  out->max);
        return ERR_TOO_LARGE;
    }
    return err;
}

/* ---- the text ---- */

static int refuse_costly(struct fault *fault, const char *what, size_t limit)
{
    fault_set(fault, RPC_RESOURCE_EXHAUSTED, "MESSAGE_TOO_COSTLY", NULL,
              "the JSON text has %s %zu; send it in parts", what, limit);
    return ERR_TOO_LARGE;
}

/* Count values and nesting before memory is spent on them. Need not know what is valid: every value
 * but the first is behind a bracket or a comma, whatever else is wrong. */
static int look_over(struct slice text, struct fault *fault)
{
    bool is_quoted = false;
    size_t count = 1;
    size_t depth = 0;

    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];

        if (is_quoted) {
            i += c == '\\';
            is_quoted = c != '"';
        } else if (c == '"') {
            is_quoted = true;
        } else if (c == '[' || c == '{') {
            count++;
            if (++depth > PROTOJSON_DEPTH_MAX) {
                return refuse_costly(fault, "brackets nested deeper than",
                                     (size_t)PROTOJSON_DEPTH_MAX);
            }
        } else if (c == ']' || c == '}') {
            depth -= depth > 0;
        } else if (c == ',') {
            count++;
        }
    }
    return count > PROTOJSON_VALUE_COUNT_MAX
               ? refuse_costly(fault, "more values than", PROTOJSON_VALUE_COUNT_MAX)
               : 0;
}

int protojson_read(const ProtobufCMessageDescriptor *descriptor, struct slice text, struct buf *out,
                   struct fault *fault)
{
    json_error_t error;
    json_t *tree;
    int err = look_over(text, fault);

    if (err != 0) {
        return err;
    }
    tree = json_loadb(text.len == 0 ? "" : (const char *)text.data, text.len,
                      JSON_REJECT_DUPLICATES, &error);
    if (tree == NULL) {
        if (json_error_code(&error) == json_error_out_of_memory) {
            fault_set_err(fault, ERR_NO_MEMORY, "read the JSON text");
            return ERR_NO_MEMORY;
        }
        fault_set(fault, RPC_INVALID_ARGUMENT, "JSON_MALFORMED", NULL,
                  "the text is not JSON as it is needed here: line %d, column %d: %s", error.line,
                  error.column, error.text);
        return ERR_INVALID;
    }
    err = read_tree(descriptor, tree, out, fault);
    json_decref(tree);
    return err;
}
