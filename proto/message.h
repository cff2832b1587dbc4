/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes to generated protobuf-c structs and back, with what protobuf-c leaves out: a memory budget,
 * UTF-8, NULs in strings, sub-messages that come twice, and the number of elements. Private to
 * proto/.
 */
#ifndef FOLIOT_PROTO_MESSAGE_H
#define FOLIOT_PROTO_MESSAGE_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "proto/arena.h"
#include "proto/fault.h"

#include <google/protobuf-c/protobuf-c.h>

/* A message may unfold to this many times its size, */
#define MESSAGE_BUDGET_FACTOR 16U
/* counting each element of a repeated field as this many bytes more, */
#define MESSAGE_ELEMENT_BYTES 16U
/* or to this much, if that is more. */
#define MESSAGE_BUDGET_BYTES_MIN 65536U

/* Numbers of wire types. source: protobuf encoding guide */
enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5
};

/* Longest varint. */
#define MESSAGE_VARINT_BYTES 10

/* Wire type that one value of a type is written with. */
enum wire_type message_wire_type(ProtobufCType type);

/* Write a varint of at most MESSAGE_VARINT_BYTES; returns their number. */
size_t message_put_varint(uint8_t *bytes, uint64_t value);

/*
 * Check and unpack a message.
 *
 * ownership: *out lives in the arena, which is given its budget here.
 * errors:    ERR_INVALID (malformed, bad text, too many elements), ERR_TOO_LARGE (budget),
 *            ERR_NO_MEMORY, each with fault filled in.
 */
MUST_USE int message_read(const ProtobufCMessageDescriptor *descriptor, struct slice bytes,
                          struct arena *arena, ProtobufCMessage **out, struct fault *fault);

/* Append a message. errors: ERR_TOO_LARGE, ERR_NO_MEMORY, as buf_append. */
MUST_USE int message_write(const ProtobufCMessage *message, struct buf *out);

/*
 * Append a message as an element of field `number` of an outer message that is written piecewise.
 *
 * errors: ERR_TOO_LARGE, ERR_NO_MEMORY, as buf_append.
 */
MUST_USE int message_write_element(uint32_t number, const ProtobufCMessage *message,
                                   struct buf *out);

/*
 * Check a serialized message against its descriptor without unpacking it.
 *
 * shape:  *elements is the number of elements of repeated fields, at every depth.
 * errors: ERR_INVALID with fault filled in: the field by its path, and what is wrong;
 *         ERR_TOO_LARGE: more fields than any message of ours can have.
 * source: docs/adr/0007-check-messages-before-unpacking.md
 */
MUST_USE int message_check(const ProtobufCMessageDescriptor *descriptor, struct slice bytes,
                           size_t *elements, struct fault *fault);

/* Is it UTF-8 (no surrogates, no overlong forms, up to U+10FFFF) without NUL? */
bool text_is_clean(struct slice text);

/* Replace what is not UTF-8 in a NUL-terminated text by question marks, byte for byte. */
void text_scrub(char *text);

#endif
