/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of every type. source: protobuf's "ProtoJSON Format" and encoding guide
 */
#include "proto/protojson_value.h"

#include "lib/base/base64.h"
#include "lib/base/calendar.h"
#include "lib/base/check.h"
#include "proto/message.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Above it not every whole number is a double. */
#define DOUBLE_WHOLE_MAX 9007199254740992.0

/* What rounds to the largest number of single precision is below this: half a step above it. */
#define FLOAT_END 0x1.ffffffp127

/* A whole number of any width. */
struct whole {
    bool is_negative;
    uint64_t size;
};

static int PRINTF_LIKE(3, 4)
    complain(struct protojson_complaint *why, const char *reason, const char *format, ...)
{
    va_list args;

    why->reason = reason;
    va_start(args, format);
    (void)vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    return ERR_INVALID;
}

/* ---- the wire ---- */

void protojson_put_varint(uint64_t value, struct buf *out)
{
    uint8_t bytes[MESSAGE_VARINT_BYTES];

    (void)buf_append(out, bytes, message_put_varint(bytes, value));
}

void protojson_put_tag(const ProtobufCFieldDescriptor *field, struct buf *out)
{
    protojson_put_varint((uint64_t)field->id << 3U | message_wire_type(field->type), out);
}

/* The low bytes of a value, least first. */
static void put_fixed(uint64_t value, size_t len, struct buf *out)
{
    uint8_t bytes[8];

    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(value >> 8 * i);
    }
    (void)buf_append(out, bytes, len);
}

static void put_bytes(struct slice bytes, struct buf *out)
{
    protojson_put_varint(bytes.len, out);
    (void)buf_append(out, bytes.data, bytes.len);
}

/* ---- whole numbers ---- */

static int parse_whole(const char *text, struct whole *out)
{
    out->is_negative = *text == '-';
    out->size = 0;
    text += out->is_negative;
    if (*text == '\0') {
        return ERR_INVALID;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(out->size, 10U, &out->size) ||
            __builtin_add_overflow(out->size, (unsigned)(*text - '0'), &out->size)) {
            return ERR_INVALID;
        }
    }
    return 0;
}

/* A number, or a string of digits: 64-bit numbers do not survive other people's JSON otherwise. */
static int read_whole(const json_t *value, struct whole *out)
{
    if (json_is_integer(value)) {
        int64_t number = json_integer_value(value);

        out->is_negative = number < 0;
        out->size = number < 0 ? -(uint64_t)number : (uint64_t)number;
        return 0;
    }
    if (json_is_real(value)) {
        double number = json_real_value(value);
        double rest;

        if (fabs(number) > DOUBLE_WHOLE_MAX) {
            return ERR_INVALID;
        }
        rest = number - (double)(int64_t)number;
        if (rest < 0 || rest > 0) {
            return ERR_INVALID;
        }
        out->is_negative = number < 0;
        out->size = (uint64_t)fabs(number);
        return 0;
    }
    return json_is_string(value) ? parse_whole(json_string_value(value), out) : ERR_INVALID;
}

/* A signed number of a width in bits. */
static int read_signed(const json_t *value, unsigned bits, int64_t *out,
                       struct protojson_complaint *why)
{
    uint64_t size_max = (UINT64_C(1) << (bits - 1)) - 1;
    struct whole whole;

    if (read_whole(value, &whole) != 0) {
        return complain(why, "VALUE_INVALID", "must be a whole number of %u bits", bits);
    }
    if (whole.size > size_max + whole.is_negative) {
        return complain(why, "VALUE_OUT_OF_RANGE",
                        "must be -%" PRIu64 " to %" PRIu64 ", as a number of %u bits", size_max + 1,
                        size_max, bits);
    }
    *out = (int64_t)(whole.is_negative ? -whole.size : whole.size);
    return 0;
}

static int read_unsigned(const json_t *value, uint64_t max, uint64_t *out,
                         struct protojson_complaint *why)
{
    struct whole whole;

    if (read_whole(value, &whole) != 0) {
        return complain(why, "VALUE_INVALID", "must be a whole number");
    }
    if (whole.size > max || (whole.is_negative && whole.size > 0)) {
        return complain(why, "VALUE_OUT_OF_RANGE", "must be 0 to %" PRIu64, max);
    }
    *out = whole.size;
    return 0;
}

/* Small numbers of either sign become small ones without. */
static uint64_t zigzag(int64_t value)
{
    return (uint64_t)value << 1U ^ (value < 0 ? UINT64_MAX : 0);
}

/* Read by the type's range, and give back what its wire form holds. */
static int read_integer(ProtobufCType type, const json_t *value, uint64_t *out,
                        struct protojson_complaint *why)
{
    bool is_wide = type == PROTOBUF_C_TYPE_INT64 || type == PROTOBUF_C_TYPE_SINT64 ||
                   type == PROTOBUF_C_TYPE_SFIXED64;
    int64_t number = 0;
    int err;

    if (type == PROTOBUF_C_TYPE_UINT32 || type == PROTOBUF_C_TYPE_FIXED32) {
        return read_unsigned(value, UINT32_MAX, out, why);
    }
    if (type == PROTOBUF_C_TYPE_UINT64 || type == PROTOBUF_C_TYPE_FIXED64) {
        return read_unsigned(value, UINT64_MAX, out, why);
    }
    err = read_signed(value, is_wide ? 64 : 32, &number, why);
    *out = type == PROTOBUF_C_TYPE_SINT32 || type == PROTOBUF_C_TYPE_SINT64 ? zigzag(number)
                                                                            : (uint64_t)number;
    return err;
}

/* ---- the other scalars ---- */

static int read_bool(const json_t *value, uint64_t *out, struct protojson_complaint *why)
{
    if (!json_is_boolean(value)) {
        return complain(why, "VALUE_INVALID", "must be true or false");
    }
    *out = json_is_true(value);
    return 0;
}

/* The names of an enum, as many as there is room for. */
static int complain_enum(const ProtobufCEnumDescriptor *type, struct protojson_complaint *why)
{
    size_t len = 0;

    (void)complain(why, "ENUM_UNKNOWN", "must be one of ");
    len = strlen(why->text);
    for (unsigned i = 0; i < type->n_values && len < sizeof(why->text); i++) {
        int added = snprintf(why->text + len, sizeof(why->text) - len, "%s%s", i == 0 ? "" : ", ",
                             type->values[i].name);

        len += added < 0 ? 0 : (size_t)added;
    }
    return ERR_INVALID;
}

static int read_enum(const ProtobufCEnumDescriptor *type, const json_t *value, uint64_t *out,
                     struct protojson_complaint *why)
{
    const ProtobufCEnumValue *found;
    int64_t number = 0;
    int err;

    if (!json_is_string(value)) {
        err = read_signed(value, 32, &number, why);
        *out = (uint64_t)number;
        return err == 0 ? 0 : complain_enum(type, why);
    }
    found = protobuf_c_enum_descriptor_get_value_by_name(type, json_string_value(value));
    if (found == NULL) {
        return complain_enum(type, why);
    }
    *out = (uint64_t)(int64_t)found->value;
    return 0;
}

/* A text that is a number, or one of the three names that JSON has no numbers for. */
static int parse_double(const char *text, double *out)
{
    char *end;

    if (strcmp(text, "NaN") == 0) {
        *out = (double)NAN;
    } else if (strcmp(text, "Infinity") == 0) {
        *out = (double)INFINITY;
    } else if (strcmp(text, "-Infinity") == 0) {
        *out = -(double)INFINITY;
    } else {
        if (strspn(text, "0123456789+-.eE") != strlen(text) || *text == '\0') {
            return ERR_INVALID;
        }
        *out = strtod(text, &end);
        if (*end != '\0' || !isfinite(*out)) {
            return ERR_INVALID;
        }
    }
    return 0;
}

static int put_float(const ProtobufCFieldDescriptor *field, const json_t *value, struct buf *out,
                     struct protojson_complaint *why)
{
    double number = json_number_value(value);
    uint64_t bits = 0;

    if (!json_is_number(value) &&
        (!json_is_string(value) || parse_double(json_string_value(value), &number) != 0)) {
        return complain(why, "VALUE_INVALID", "must be a number");
    }
    if (field->type == PROTOBUF_C_TYPE_DOUBLE) {
        memcpy(&bits, &number, sizeof(number));
        put_fixed(bits, sizeof(number), out);
        return 0;
    }
    if (isfinite(number) && fabs(number) >= FLOAT_END) {
        return complain(why, "VALUE_OUT_OF_RANGE", "must be a number of single precision");
    }
    {
        float narrow = (float)number;

        memcpy(&bits, &narrow, sizeof(narrow));
        put_fixed(bits, sizeof(narrow), out);
    }
    return 0;
}

static int put_text(const json_t *value, struct buf *out, struct protojson_complaint *why)
{
    if (!json_is_string(value)) {
        return complain(why, "VALUE_INVALID", "must be a string");
    }
    put_bytes((struct slice){(const uint8_t *)json_string_value(value), json_string_length(value)},
              out);
    return 0;
}

static int put_binary(const json_t *value, struct buf *out, struct protojson_complaint *why)
{
    struct buf bytes;
    int err = ERR_INVALID;

    buf_init(&bytes, out->max);
    if (json_is_string(value)) {
        err = base64_decode(
            (struct slice){(const uint8_t *)json_string_value(value), json_string_length(value)},
            &bytes);
    }
    if (err == 0) {
        put_bytes(buf_slice(&bytes), out);
    } else if (err == ERR_INVALID) {
        (void)complain(why, "VALUE_INVALID", "must be bytes in base64");
    } else {
        out->failed = true;
        err = 0;
    }
    buf_fini(&bytes);
    return err;
}

/* ---- times ---- */

static void put_span(struct protojson_span span, struct buf *out)
{
    uint8_t bytes[2 + 2 * MESSAGE_VARINT_BYTES];
    size_t len = 0;

    bytes[len++] = 1U << 3U | WIRE_VARINT; // seconds
    len += message_put_varint(bytes + len, (uint64_t)span.seconds);
    bytes[len++] = 2U << 3U | WIRE_VARINT; // nanos
    len += message_put_varint(bytes + len, (uint64_t)(int64_t)span.nanos);
    put_bytes((struct slice){bytes, len}, out);
}

static int put_timestamp(const json_t *value, struct buf *out, struct protojson_complaint *why)
{
    struct calendar_moment moment;

    if (!json_is_string(value) || calendar_parse(json_string_value(value), &moment) != 0) {
        return complain(why, "VALUE_INVALID",
                        "must be a time like \"2026-01-02T03:04:05.678Z\" or with \"+01:00\"");
    }
    if (moment.seconds < PROTOJSON_TIME_SECONDS_MIN ||
        moment.seconds > PROTOJSON_TIME_SECONDS_MAX) {
        return complain(why, "TIME_OUT_OF_RANGE", "must be a time of the years 1 to 9999");
    }
    put_span((struct protojson_span){moment.seconds, moment.nanos}, out);
    return 0;
}

static int put_duration(const json_t *value, struct buf *out, struct protojson_complaint *why)
{
    struct protojson_span span;

    if (!json_is_string(value) || protojson_parse_span(json_string_value(value), &span) != 0) {
        return complain(why, "VALUE_INVALID", "must be seconds like \"90s\" or \"1.5s\"");
    }
    if (span.seconds < -PROTOJSON_SPAN_SECONDS_MAX || span.seconds > PROTOJSON_SPAN_SECONDS_MAX) {
        return complain(why, "TIME_OUT_OF_RANGE", "must be -%" PRId64 "s to %" PRId64 "s",
                        PROTOJSON_SPAN_SECONDS_MAX, PROTOJSON_SPAN_SECONDS_MAX);
    }
    put_span(span, out);
    return 0;
}

/* ---- all of them ---- */

/* What is a varint or of a fixed width. */
static int put_number(const ProtobufCFieldDescriptor *field, const json_t *value, struct buf *out,
                      struct protojson_complaint *why)
{
    uint64_t bits = 0;
    int err;

    if (field->type == PROTOBUF_C_TYPE_BOOL) {
        err = read_bool(value, &bits, why);
    } else if (field->type == PROTOBUF_C_TYPE_ENUM) {
        err = read_enum(field->descriptor, value, &bits, why);
    } else {
        err = read_integer(field->type, value, &bits, why);
    }
    if (err != 0) {
        return err;
    }
    switch (message_wire_type(field->type)) {
    case WIRE_FIXED32:
        put_fixed(bits, 4, out);
        break;
    case WIRE_FIXED64:
        put_fixed(bits, 8, out);
        break;
    case WIRE_VARINT:
    case WIRE_BYTES:
        protojson_put_varint(bits, out);
        break;
    }
    return 0;
}

int protojson_put_value(const ProtobufCFieldDescriptor *field, const json_t *value, struct buf *out,
                        struct protojson_complaint *why)
{
    protojson_put_tag(field, out);
    switch ((int)field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return put_text(value, out, why);
    case PROTOBUF_C_TYPE_BYTES:
        return put_binary(value, out, why);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        return put_float(field, value, out, why);
    case PROTOBUF_C_TYPE_MESSAGE:
        REQUIRE(protojson_kind_of(field->descriptor) != PROTOJSON_OBJECT);
        return protojson_kind_of(field->descriptor) == PROTOJSON_TIMESTAMP
                   ? put_timestamp(value, out, why)
                   : put_duration(value, out, why);
    default:
        return put_number(field, value, out, why);
    }
}

int protojson_put_key(const ProtobufCFieldDescriptor *field, const char *key, struct buf *out,
                      struct protojson_complaint *why)
{
    bool is_true = strcmp(key, "true") == 0;
    json_t *value;
    int err;

    if (field->type == PROTOBUF_C_TYPE_BOOL && (is_true || strcmp(key, "false") == 0)) {
        value = json_boolean(is_true);
    } else {
        value = json_string(key);
    }
    if (value == NULL) {
        out->failed = true;
        return 0;
    }
    err = protojson_put_value(field, value, out, why);
    json_decref(value);
    return err;
}
