/* SPDX-License-Identifier: Apache-2.0
 *
 * One JSON value as one value on the wire. Private to protojson.
 */
#ifndef FOLIOT_PROTO_PROTOJSON_VALUE_H
#define FOLIOT_PROTO_PROTOJSON_VALUE_H

#include "proto/protojson.h"

#include <jansson.h>

/* What is wrong with a value: "must be …", without the path. */
struct protojson_complaint {
    const char *reason; /* for programs; static */
    char text[FAULT_MESSAGE_BYTES / 2];
};

/*
 * Append tag and value of any field that is not an object in JSON, one value of it if it is
 * repeated.
 *
 * errors: ERR_INVALID with the complaint filled in. Buffers say themselves when they are full.
 */
MUST_USE int protojson_put_value(const ProtobufCFieldDescriptor *field, const json_t *value,
                                 struct buf *out, struct protojson_complaint *why);

/* The text of a map's key as a value of its type. errors: as above. */
MUST_USE int protojson_put_key(const ProtobufCFieldDescriptor *field, const char *key,
                               struct buf *out, struct protojson_complaint *why);

/* Append a tag, and a varint. The buffer says itself when it is full. */
void protojson_put_tag(const ProtobufCFieldDescriptor *field, struct buf *out);
void protojson_put_varint(uint64_t value, struct buf *out);

#endif
