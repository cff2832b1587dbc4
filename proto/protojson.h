/* SPDX-License-Identifier: Apache-2.0
 *
 * Any message as JSON and back, by its descriptor, in the JSON form of proto3: lowerCamelCase names
 * (the names of the .proto file are read too), 64-bit numbers as strings, bytes in base64, times as
 * RFC 3339, lengths of time as "1.5s", enums by name. Private to proto/.
 */
#ifndef FOLIOT_PROTO_PROTOJSON_H
#define FOLIOT_PROTO_PROTOJSON_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "proto/fault.h"

#include <google/protobuf-c/protobuf-c.h>

#include <stdbool.h>

/* Deepest nesting of brackets that is read, and of messages that is written. Deepest message of
 * ours is 3: request, item, time; each may stand in a list or a map. */
#define PROTOJSON_DEPTH_MAX 12

/* Values in one text: twenty for each item of the largest batch. Each costs the reader up to 220
 * bytes while the text is read. */
#define PROTOJSON_VALUE_COUNT_MAX ((size_t)20 * BATCH_ITEM_COUNT_MAX)

/*
 * Read a text as a message and append its serialized form.
 *
 * shape:  the whole text is one object; unknown fields, fields that come twice, two members of one
 *         oneof, and values of another type are errors; null is as if the field were not there.
 *         Names and numbers of enums are read; a number need not be known. The message fits out.
 * errors: ERR_INVALID, ERR_TOO_LARGE, ERR_NO_MEMORY, each with fault filled in, its field a path in
 *         the names of the .proto file; out is then undefined.
 * source: protobuf's "ProtoJSON Format"
 */
MUST_USE int protojson_read(const ProtobufCMessageDescriptor *descriptor, struct slice text,
                            struct buf *out, struct fault *fault);

/*
 * Append a message as JSON on one line. Fields that have their default are left out, in a oneof
 * only those that are not set.
 *
 * errors: ERR_INVALID for a time outside of the years 1 to 9999 or a length of time above 10 000
 *         years; ERR_TOO_LARGE above the depth, and as buf_append.
 */
MUST_USE int protojson_write(const ProtobufCMessage *message, struct buf *out);

/* ---- what both directions need to know of a field ---- */

/* The kinds of messages that have a form of their own. */
enum protojson_kind {
    PROTOJSON_OBJECT = 1,
    PROTOJSON_TIMESTAMP,
    PROTOJSON_DURATION
};

enum protojson_kind protojson_kind_of(const ProtobufCMessageDescriptor *descriptor);

/* Longest JSON name that is written. */
#define PROTOJSON_NAME_BYTES 64

/* The JSON name of a field of the .proto file: "due_time" is "dueTime". */
void protojson_name(const char *name, char out[PROTOJSON_NAME_BYTES]);

/* A field whose entries have a key and a value. protobuf-c does not tell maps from lists of
 * messages; the name that protoc gives the entry does. */
bool protojson_is_map(const ProtobufCMessageDescriptor *owner,
                      const ProtobufCFieldDescriptor *field);

/* Whole seconds and nanoseconds of a time or a length of time, both of one sign. */
struct protojson_span {
    int64_t seconds;
    int32_t nanos;
};

/* First and last second of a Timestamp (years 1 to 9999), and of a Duration either way. */
#define PROTOJSON_TIME_SECONDS_MIN INT64_C(-62135596800)
#define PROTOJSON_TIME_SECONDS_MAX INT64_C(253402300799)
#define PROTOJSON_SPAN_SECONDS_MAX INT64_C(315576000000)

/* "-1.5s": any number of whole digits, at most 9 behind the point. errors: ERR_INVALID. */
MUST_USE int protojson_parse_span(const char *text, struct protojson_span *out);

/* Longest text of a Duration, with its NUL. */
#define PROTOJSON_SPAN_BYTES 40

/* The text of a Duration with 0, 3, 6 or 9 digits of a second. shape: within the range. */
void protojson_format_span(struct protojson_span span, char out[PROTOJSON_SPAN_BYTES]);

#endif
