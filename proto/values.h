/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion of the field types that messages share: times, names, keys, payloads. Private to
 * proto/.
 */
#ifndef FOLIOT_PROTO_VALUES_H
#define FOLIOT_PROTO_VALUES_H

#include "lib/model/tags.h"
#include "proto/codec_task.h"
#include "proto/page.h"

#include <foliot/v1/task.pb-c.h>
#include <google/protobuf/duration.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>

#include <stdbool.h>

/* Field path prefix of an element, "items[3]."; "" for the message itself. */
#define PREFIX_BYTES 32

/* Where in the message a value stands, and where to complain. */
struct place {
    const char *prefix; /* "" or "items[3]." */
    const char *field;
    struct fault *fault;
};

/* Refuse the value at a place with INVALID_ARGUMENT; returns ERR_INVALID. */
int refuse_value(const struct place *place, const char *reason, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Namespace and queue name. shape: an empty namespace is "default"; an empty name is refused unless
 * may_be_empty. errors: ERR_INVALID. */
MUST_USE int read_queue_name(const char *tenant, const char *name, bool may_be_empty,
                             struct place place, struct queue_name *out);

/* Key, if there is one. errors: ERR_INVALID. */
MUST_USE int read_key(const char *key, struct place place, struct slice *out);

/* Order key, if there is one. errors: ERR_INVALID. */
MUST_USE int read_order_key(const char *key, struct place place, struct slice *out);

/* A key as it is stored: see task_key_join(). Of the arena, or the key itself. errors:
 * ERR_NO_MEMORY. */
MUST_USE int read_stored_key(struct slice order_key, struct slice key, struct arena *arena,
                             struct place place, struct slice *out);

/* Payload. errors: ERR_INVALID above PAYLOAD_BYTES_MAX. */
MUST_USE int read_payload(ProtobufCBinaryData payload, struct place place, struct slice *out);

/* Text form of a task id. errors: ERR_INVALID. */
MUST_USE int read_task_id(const char *text, struct place place, struct task_id *out);

/* A due time: rounded up, 0 … DUE_WALL_MS_MAX. errors: ERR_INVALID. */
MUST_USE int read_due(const Google__Protobuf__Timestamp *time, struct place place, wall_ms *out);

/* A delay: rounded up, 0 … DELAY_MS_MAX. errors: ERR_INVALID. */
MUST_USE int read_delay(const Google__Protobuf__Duration *delay, struct place place, span_ms *out);

/* Any length of time, rounded up to milliseconds, also negative. errors: ERR_INVALID outside of
 * what protobuf allows. */
MUST_USE int read_duration(const Google__Protobuf__Duration *duration, struct place place,
                           span_ms *out);

/* Fill in a wire time, and return it; NULL for WALL_NEVER, which is absent on the wire. */
Google__Protobuf__Timestamp *write_time(wall_ms time, Google__Protobuf__Timestamp *out);

/* Fill in a wire duration, and return it. */
Google__Protobuf__Duration *write_duration(span_ms span, Google__Protobuf__Duration *out);

/* Milliseconds of a wire time that a peer of ours wrote; WALL_NEVER if absent or absurd. */
wall_ms read_reply_time(const Google__Protobuf__Timestamp *time);

/* Tasks or dead letters of a page: 0 is the default, more than the most is the most. */
uint32_t read_page_size(uint32_t asked);

/* What a call that handles many may handle: 0 or more than the most is the most. */
uint32_t read_count_max(uint32_t asked);

/* The mark of a page token. errors: ERR_INVALID with reason TOKEN_INVALID. */
MUST_USE int read_page_token(const char *token, struct fault *fault, struct page_mark *out);

/* Put the path of a batch's item before the field that a fault names. */
void prefix_item_field(struct fault *fault, size_t index);

/* The error of an item as a generated struct. */
struct item_error_wire {
    Foliot__V1__ItemError message;
    char text[ITEM_MESSAGE_BYTES_MAX + 1];
};

/* Fill in the error of an item, its message cut at ITEM_MESSAGE_BYTES_MAX, and return it. */
Foliot__V1__ItemError *init_item_error(struct item_error_wire *wire, const struct fault *fault);

void read_item_error(const Foliot__V1__ItemError *error, struct fault *fault);

/* The entries of a map of tags: protobuf-c has a type for each map, all of the same shape. */
typedef Foliot__V1__Task__TagsEntry tag_entry;

/*
 * Canonical text of a map of tags.
 *
 * shape:  entries are those of any message of ours with such a map.
 * errors: ERR_INVALID with reason TAGS_INVALID; ERR_NO_MEMORY.
 */
MUST_USE int read_tags(tag_entry *const *entries, size_t count, struct arena *arena,
                       struct place place, struct slice *out);

/* Canonical text of a map of tags that a peer of ours wrote; empty if it is wrong. */
struct slice read_reply_tags(tag_entry *const *entries, size_t count, struct arena *arena);

/* Tags as generated structs. */
struct tags_wire {
    size_t count;
    tag_entry entries[TAG_COUNT_MAX];
    tag_entry *list[TAG_COUNT_MAX];
    char text[TAGS_BYTES_MAX];
};

/* Fill in a map of tags whose entries have this descriptor. shape: text is canonical. */
void write_tags(struct slice text, const ProtobufCMessageDescriptor *descriptor,
                struct tags_wire *wire);

/* View of a wire string as the mutable pointer that generated structs want; never written to. */
char *wire_text(const char *text);

/* View of bytes for a generated struct; never written to. */
ProtobufCBinaryData wire_bytes(struct slice bytes);

#endif
