/* SPDX-License-Identifier: Apache-2.0
 *
 * Unpacked messages to JSON, without recursion.
 */
#include "proto/protojson.h"

#include "lib/base/base64.h"
#include "lib/base/calendar.h"
#include "lib/base/check.h"
#include "lib/base/json_text.h"

#include <float.h>
#include <google/protobuf/duration.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NANOS_PER_S 1000000000

/* A message that is being written. */
struct frame {
    const ProtobufCMessage *message;
    unsigned field; /* index of the one being written, or the next one */
    size_t element; /* of it, if it is repeated */
    bool needs_comma;
    bool is_entry; /* an entry of a map: key and value without braces */
};

struct writer {
    struct frame frames[PROTOJSON_DEPTH_MAX];
    size_t depth;
    struct buf *out;
};

/* ---- where the values are ---- */

static const void *member_of(const ProtobufCMessage *message, unsigned offset)
{
    return (const char *)message + offset;
}

static size_t count_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    size_t count;

    memcpy(&count, member_of(message, field->quantifier_offset), sizeof(count));
    return count;
}

/* Bytes of one value inside its struct. */
static size_t width_of(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return sizeof(int64_t);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return sizeof(int32_t);
    case PROTOBUF_C_TYPE_FLOAT:
        return sizeof(float);
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(double);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    }
    UNREACHABLE();
}

/* Where element `index` of a field is; 0 of one that is not repeated. */
static const void *value_at(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                            size_t index)
{
    const void *member = member_of(message, field->offset);
    const char *elements;

    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        return member;
    }
    memcpy(&elements, member, sizeof(elements));
    return elements + index * width_of(field);
}

static const void *pointer_at(const void *value)
{
    const void *pointer;

    memcpy(&pointer, value, sizeof(pointer));
    return pointer;
}

/* Whether a field has anything to say: it is set, or it differs from its default. */
static bool is_present(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const void *value = member_of(message, field->offset);
    static const uint8_t zero[8];

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        return count_of(message, field) > 0;
    }
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        uint32_t chosen;

        memcpy(&chosen, member_of(message, field->quantifier_offset), sizeof(chosen));
        return chosen == field->id;
    }
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        const char *text = pointer_at(value);

        return text != NULL && text[0] != '\0';
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        return pointer_at(value) != NULL;
    }
    if (field->type == PROTOBUF_C_TYPE_BYTES) {
        ProtobufCBinaryData bytes;

        memcpy(&bytes, value, sizeof(bytes));
        return bytes.len > 0;
    }
    return memcmp(value, zero, width_of(field)) != 0;
}

/* ---- values ---- */

static void put_quoted(struct buf *out, struct slice text)
{
    (void)buf_append(out, "\"", 1);
    (void)json_text_put(out, text);
    (void)buf_append(out, "\"", 1);
}

/* Whether a text of `number` reads as the same, in the precision of its type. The largest number of
 * single precision is written exactly: other readers compare before they round. */
static bool is_exact(double number, double back, bool is_single)
{
    if (!is_single) {
        return back >= number && back <= number;
    }
    return fabs(back) <= (double)FLT_MAX && (float)back >= (float)number &&
           (float)back <= (float)number;
}

/* The shortest text that reads as the same number. */
static void put_double(struct buf *out, double number, bool is_single)
{
    char text[40];

    if (!isfinite(number)) {
        put_quoted(out, slice_of(isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity"));
        return;
    }
    if (fpclassify(number) == FP_ZERO) { // "-0" would be read as a whole number, without its sign.
        (void)buf_append_text(out, signbit(number) != 0 ? "-0.0" : "0");
        return;
    }
    for (int digits = is_single ? 6 : 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, number);
        if (is_exact(number, strtod(text, NULL), is_single)) {
            break;
        }
    }
    (void)buf_append_text(out, text);
}

static int put_timestamp(struct buf *out, const void *message)
{
    const Google__Protobuf__Timestamp *time = message;
    struct calendar_moment moment = {time->seconds, time->nanos};
    char text[CALENDAR_MOMENT_LEN + 1];

    if (time->seconds < PROTOJSON_TIME_SECONDS_MIN || time->seconds > PROTOJSON_TIME_SECONDS_MAX ||
        time->nanos < 0 || time->nanos >= NANOS_PER_S) {
        return ERR_INVALID;
    }
    calendar_write(&moment, text);
    return buf_printf(out, "\"%s\"", text);
}

static int put_duration(struct buf *out, const void *message)
{
    const Google__Protobuf__Duration *span = message;
    bool is_mixed =
        (span->seconds > 0 && span->nanos < 0) || (span->seconds < 0 && span->nanos > 0);
    char text[PROTOJSON_SPAN_BYTES];

    if (span->seconds < -PROTOJSON_SPAN_SECONDS_MAX || span->seconds > PROTOJSON_SPAN_SECONDS_MAX ||
        span->nanos <= -NANOS_PER_S || span->nanos >= NANOS_PER_S || is_mixed) {
        return ERR_INVALID;
    }
    protojson_format_span((struct protojson_span){span->seconds, span->nanos}, text);
    return buf_printf(out, "\"%s\"", text);
}

static int put_enum(struct buf *out, const ProtobufCEnumDescriptor *type, int number)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(type, number);

    return value == NULL ? buf_printf(out, "%d", number) : buf_printf(out, "\"%s\"", value->name);
}

/* A whole number; `quote` is "\"" where JSON wants a string. */
static int put_integer(struct buf *out, ProtobufCType type, const void *value, const char *quote)
{
    int64_t wide = 0;
    int32_t narrow = 0;

    switch ((int)type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        memcpy(&wide, value, sizeof(wide));
        return buf_printf(out, "\"%" PRId64 "\"", wide);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        memcpy(&wide, value, sizeof(wide));
        return buf_printf(out, "\"%" PRIu64 "\"", (uint64_t)wide);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        memcpy(&narrow, value, sizeof(narrow));
        return buf_printf(out, "%s%" PRIu32 "%s", quote, (uint32_t)narrow, quote);
    case PROTOBUF_C_TYPE_BOOL:
        memcpy(&narrow, value, sizeof(narrow));
        return buf_printf(out, "%s%s%s", quote, narrow != 0 ? "true" : "false", quote);
    default:
        memcpy(&narrow, value, sizeof(narrow));
        return buf_printf(out, "%s%" PRId32 "%s", quote, narrow, quote);
    }
}

static int put_text(struct buf *out, const void *value)
{
    const char *text = pointer_at(value);

    put_quoted(out, slice_of(text == NULL ? "" : text));
    return 0;
}

static int put_binary(struct buf *out, const void *value)
{
    ProtobufCBinaryData bytes;

    memcpy(&bytes, value, sizeof(bytes));
    (void)buf_append(out, "\"", 1);
    (void)base64_encode((struct slice){bytes.data, bytes.len}, true, out);
    return buf_append(out, "\"", 1);
}

/* Any value that is not an object. */
static int put_value(struct buf *out, const ProtobufCFieldDescriptor *field, const void *value)
{
    double number;
    float single;
    int choice;

    switch ((int)field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return put_text(out, value);
    case PROTOBUF_C_TYPE_BYTES:
        return put_binary(out, value);
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(&number, value, sizeof(number));
        put_double(out, number, false);
        return 0;
    case PROTOBUF_C_TYPE_FLOAT:
        memcpy(&single, value, sizeof(single));
        put_double(out, (double)single, true);
        return 0;
    case PROTOBUF_C_TYPE_ENUM:
        memcpy(&choice, value, sizeof(choice));
        return put_enum(out, field->descriptor, choice);
    case PROTOBUF_C_TYPE_MESSAGE:
        return protojson_kind_of(field->descriptor) == PROTOJSON_TIMESTAMP
                   ? put_timestamp(out, pointer_at(value))
                   : put_duration(out, pointer_at(value));
    default:
        return put_integer(out, field->type, value, "");
    }
}

/* ---- messages ---- */

static int push(struct writer *writer, const ProtobufCMessage *message, bool is_entry)
{
    if (writer->depth == PROTOJSON_DEPTH_MAX) {
        return ERR_TOO_LARGE;
    }
    writer->frames[writer->depth++] = (struct frame){.message = message, .is_entry = is_entry};
    return is_entry ? 0 : buf_append(writer->out, "{", 1);
}

/* One value of a field: written, or begun if it is an object. */
static int begin_value(struct writer *writer, const ProtobufCFieldDescriptor *field,
                       const void *value)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE &&
        protojson_kind_of(field->descriptor) == PROTOJSON_OBJECT) {
        return push(writer, pointer_at(value), false);
    }
    return put_value(writer->out, field, value);
}

/* A map's entry: the key as a string, then the value. */
static int write_entry(struct writer *writer, struct frame *frame)
{
    const ProtobufCMessageDescriptor *entry = frame->message->descriptor;
    const ProtobufCFieldDescriptor *key = &entry->fields[0];
    const ProtobufCFieldDescriptor *value = &entry->fields[1];

    if (frame->field++ > 0) {
        writer->depth--;
        return 0;
    }
    if (key->type == PROTOBUF_C_TYPE_STRING) {
        (void)put_text(writer->out, value_at(frame->message, key, 0));
    } else {
        bool is_wide = width_of(key) == sizeof(int64_t);

        (void)put_integer(writer->out, key->type, value_at(frame->message, key, 0),
                          is_wide ? "" : "\"");
    }
    (void)buf_append(writer->out, ":", 1);
    if (value->type == PROTOBUF_C_TYPE_MESSAGE &&
        pointer_at(value_at(frame->message, value, 0)) == NULL) {
        return protojson_kind_of(value->descriptor) == PROTOJSON_OBJECT
                   ? buf_append_text(writer->out, "{}")
                   : ERR_INVALID;
    }
    return begin_value(writer, value, value_at(frame->message, value, 0));
}

static void put_name(struct writer *writer, struct frame *frame, const char *name)
{
    char camel[PROTOJSON_NAME_BYTES];

    protojson_name(name, camel);
    (void)buf_printf(writer->out, "%s\"%s\":", frame->needs_comma ? "," : "", camel);
    frame->needs_comma = true;
}

/* The next element of a repeated field, with the brackets around them all. */
static int write_element(struct writer *writer, struct frame *frame,
                         const ProtobufCFieldDescriptor *field)
{
    bool is_map = protojson_is_map(frame->message->descriptor, field);
    size_t index = frame->element++;

    if (index == count_of(frame->message, field)) {
        frame->field++;
        frame->element = 0;
        return buf_append(writer->out, is_map ? "}" : "]", 1);
    }
    if (index == 0) {
        put_name(writer, frame, field->name);
        (void)buf_append(writer->out, is_map ? "{" : "[", 1);
    } else {
        (void)buf_append(writer->out, ",", 1);
    }
    if (is_map) {
        return push(writer, pointer_at(value_at(frame->message, field, index)), true);
    }
    return begin_value(writer, field, value_at(frame->message, field, index));
}

static int step(struct writer *writer)
{
    struct frame *frame = &writer->frames[writer->depth - 1];
    const ProtobufCMessageDescriptor *descriptor = frame->message->descriptor;
    const ProtobufCFieldDescriptor *field;

    if (frame->is_entry) {
        return write_entry(writer, frame);
    }
    if (frame->field == descriptor->n_fields) {
        writer->depth--;
        return buf_append(writer->out, "}", 1);
    }
    field = &descriptor->fields[frame->field];
    if (!is_present(frame->message, field)) {
        frame->field++;
        return 0;
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        return write_element(writer, frame, field);
    }
    frame->field++;
    put_name(writer, frame, field->name);
    return begin_value(writer, field, value_at(frame->message, field, 0));
}

int protojson_write(const ProtobufCMessage *message, struct buf *out)
{
    struct writer writer = {.out = out};
    int err = push(&writer, message, false);

    while (err == 0 && writer.depth > 0) {
        err = step(&writer);
    }
    return err == 0 && out->failed ? ERR_TOO_LARGE : err;
}
