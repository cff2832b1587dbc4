/* SPDX-License-Identifier: Apache-2.0
 *
 * One walk over a serialized message, guided by its descriptor and without recursion: framing,
 * text, sub-messages that come twice, number of elements. Values of numeric fields are left to the
 * decoder.
 */
#include "proto/message.h"

#include "lib/base/check.h"
#include "lib/base/limits.h"
#include "lib/base/utf8.h"

#include <stdio.h>
#include <string.h>

/* Deepest message of ours is 3: request, item, time. */
#define DEPTH_MAX 6

/* Fields in all: twenty for each element. More would hold the loop up for tens of milliseconds. */
#define FIELD_COUNT_MAX ((size_t)20 * BATCH_ITEM_COUNT_MAX)

/* A message that is being walked. */
struct frame {
    const ProtobufCMessageDescriptor *descriptor;
    const uint8_t *end;
    const ProtobufCFieldDescriptor *field; /* the one being read, for the path */
    uint64_t seen;                         /* singular sub-messages that have come, by index */
    uint32_t count;                        /* elements of `repeated` so far */
    const ProtobufCFieldDescriptor *repeated;
};

struct walk {
    struct frame frames[DEPTH_MAX];
    size_t depth; /* frames in use */
    const uint8_t *at;
    size_t elements;
    size_t fields;
    struct fault *fault;
};

/* Path of the field being read: "items[3].delay". */
static void write_path(const struct walk *walk, char *path, size_t size)
{
    size_t len = 0;

    path[0] = '\0';
    for (size_t i = 0; i < walk->depth && len < size; i++) {
        const struct frame *frame = &walk->frames[i];
        int added = 0;

        if (frame->field == NULL) {
            break;
        }
        if (frame->field->label == PROTOBUF_C_LABEL_REPEATED) {
            added = snprintf(path + len, size - len, "%s%s[%u]", i == 0 ? "" : ".",
                             frame->field->name, frame->count == 0 ? 0 : frame->count - 1);
        } else {
            added = snprintf(path + len, size - len, "%s%s", i == 0 ? "" : ".", frame->field->name);
        }
        len += added < 0 ? 0 : (size_t)added;
    }
}

static int refuse(const struct walk *walk, const char *reason, const char *what)
{
    char path[FAULT_FIELD_BYTES];

    write_path(walk, path, sizeof(path));
    fault_set(walk->fault, RPC_INVALID_ARGUMENT, reason, path, "%s%s%s",
              path[0] == '\0' ? "the message" : path, path[0] == '\0' ? " " : ": ", what);
    return ERR_INVALID;
}

static int refuse_malformed(const struct walk *walk)
{
    return refuse(walk, "MESSAGE_MALFORMED",
                  "is cut short or is not a serialized protobuf message of the expected type");
}

static int read_varint(struct walk *walk, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte;

        if (walk->at == end) {
            return refuse_malformed(walk);
        }
        byte = *walk->at++;
        *value |= shift < 64 ? (uint64_t)(byte & 0x7fU) << shift : 0;
        if ((byte & 0x80U) == 0) {
            return 0;
        }
    }
    return refuse_malformed(walk);
}

static int skip_fixed(struct walk *walk, const uint8_t *end, size_t len)
{
    if ((size_t)(end - walk->at) < len) {
        return refuse_malformed(walk);
    }
    walk->at += len;
    return 0;
}

enum wire_type message_wire_type(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_BYTES;
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_FIXED32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_FIXED64;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
        return WIRE_VARINT;
    }
    UNREACHABLE();
}

/* Count one more element of a repeated field, or refuse a singular sub-message that comes twice:
 * merging them is what no client asks for and decoders get wrong. */
static int note_field(struct walk *walk, struct frame *frame)
{
    const ProtobufCFieldDescriptor *field = frame->field;
    ptrdiff_t index = field - frame->descriptor->fields;

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        frame->count = frame->repeated == field ? frame->count + 1 : 1;
        frame->repeated = field;
        if (++walk->elements > BATCH_ITEM_COUNT_MAX) {
            char what[96];

            (void)snprintf(what, sizeof(what),
                           "more than %d elements (BATCH_ITEM_COUNT_MAX); send them in parts",
                           BATCH_ITEM_COUNT_MAX);
            return refuse(walk, "BATCH_TOO_LARGE", what);
        }
        return 0;
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        if (index >= 64 || (frame->seen >> index & 1U) != 0) {
            return refuse(walk, "MESSAGE_MALFORMED", "comes twice");
        }
        frame->seen |= UINT64_C(1) << index;
    }
    return 0;
}

/* A length-delimited value of a field that we know. */
static int enter_value(struct walk *walk, struct slice value)
{
    const struct frame *frame = &walk->frames[walk->depth - 1];
    const ProtobufCFieldDescriptor *field = frame->field;

    if (field->type == PROTOBUF_C_TYPE_STRING && !text_is_clean(value)) {
        return refuse(walk, "TEXT_INVALID", "must be UTF-8 without NUL");
    }
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
        walk->at += value.len;
        return 0;
    }
    if (walk->depth == DEPTH_MAX) {
        return refuse_malformed(walk);
    }
    walk->frames[walk->depth] = (struct frame){
        .descriptor = field->descriptor,
        .end = value.data + value.len,
    };
    walk->depth++;
    return 0;
}

static int skip_value(struct walk *walk, const uint8_t *end, unsigned type)
{
    uint64_t ignored;

    switch (type) {
    case WIRE_VARINT:
        return read_varint(walk, end, &ignored);
    case WIRE_FIXED64:
        return skip_fixed(walk, end, 8);
    case WIRE_FIXED32:
        return skip_fixed(walk, end, 4);
    default:
        return refuse_malformed(walk);
    }
}

/* One tag and its value, or the head of a sub-message. */
static int step(struct walk *walk)
{
    struct frame *frame = &walk->frames[walk->depth - 1];
    uint64_t tag;
    uint64_t len;
    unsigned type;
    int err;

    frame->field = NULL;
    if (++walk->fields > FIELD_COUNT_MAX) {
        fault_set(walk->fault, RPC_RESOURCE_EXHAUSTED, "MESSAGE_TOO_COSTLY", NULL,
                  "the message has more than %zu fields; send it in parts", FIELD_COUNT_MAX);
        return ERR_TOO_LARGE;
    }
    err = read_varint(walk, frame->end, &tag);
    if (err != 0) {
        return err;
    }
    if (tag >> 3U == 0 || tag >> 3U > 0x1fffffff) {
        return refuse_malformed(walk);
    }
    type = (unsigned)(tag & 7U);
    frame->field =
        protobuf_c_message_descriptor_get_field(frame->descriptor, (unsigned)(tag >> 3U));
    if (frame->field != NULL) {
        bool is_packed = frame->field->label == PROTOBUF_C_LABEL_REPEATED && type == WIRE_BYTES;

        if (type != (unsigned)message_wire_type(frame->field->type) && !is_packed) {
            return refuse_malformed(walk);
        }
        err = note_field(walk, frame);
    }
    if (err != 0 || type != WIRE_BYTES) {
        return err != 0 ? err : skip_value(walk, frame->end, type);
    }
    err = read_varint(walk, frame->end, &len);
    if (err != 0) {
        return err;
    }
    if (len > (uint64_t)(frame->end - walk->at)) {
        return refuse_malformed(walk);
    }
    if (frame->field == NULL) {
        walk->at += len;
        return 0;
    }
    return enter_value(walk, (struct slice){walk->at, (size_t)len});
}

int message_check(const ProtobufCMessageDescriptor *descriptor, struct slice bytes,
                  size_t *elements, struct fault *fault)
{
    struct walk walk = {.at = bytes.data, .depth = 1, .fault = fault};
    int err = 0;

    walk.frames[0] = (struct frame){
        .descriptor = descriptor,
        .end = bytes.len == 0 ? bytes.data : bytes.data + bytes.len,
    };
    while (err == 0 && walk.depth > 0) {
        if (walk.at == walk.frames[walk.depth - 1].end) {
            walk.depth--;
        } else {
            err = step(&walk);
        }
    }
    if (err == 0) {
        *elements = walk.elements;
    }
    return err;
}

bool text_is_clean(struct slice text)
{
    return text.len == 0 || (memchr(text.data, 0, text.len) == NULL && utf8_is_valid(text));
}

void text_scrub(char *text)
{
    size_t len = strlen(text);
    size_t i = 0;

    while (i < len) {
        size_t char_len = utf8_char_len((const uint8_t *)text + i, len - i);

        if (char_len == 0) {
            text[i] = '?';
            char_len = 1;
        }
        i += char_len;
    }
}
