/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire format of protobuf, field by field, for the few messages that lib/rpc reads and writes
 * without knowing their types: health, reflection, descriptors. Pure, allocates nothing by itself.
 */
#ifndef FOLIOT_LIB_RPC_PROTO_WIRE_H
#define FOLIOT_LIB_RPC_PROTO_WIRE_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdint.h>

enum proto_type {
    PROTO_VARINT = 0,
    PROTO_FIXED64 = 1,
    PROTO_BYTES = 2,
    PROTO_FIXED32 = 5
};

/* One field of a message, borrowed from its bytes. */
struct proto_field {
    uint32_t number;
    enum proto_type type;
    uint64_t value;     /* of a varint */
    struct slice bytes; /* of bytes, texts and messages; of fixed numbers their bytes */
};

/*
 * Take the next field off the front. shape: rest is not empty.
 *
 * errors: ERR_INVALID for what is no field, also for groups, which proto3 does not have.
 */
MUST_USE int proto_wire_next(struct slice *rest, struct proto_field *out);

/* The last field of this number that holds bytes; data is NULL if there is none, or the message is
 * damaged before it. */
struct slice proto_wire_find(struct slice message, uint32_t number);

/* Append a field. errors: as buf_append. */
int proto_wire_put_varint(struct buf *out, uint32_t number, uint64_t value);
int proto_wire_put_bytes(struct buf *out, uint32_t number, struct slice bytes);

/* Append the head of a field of `len` bytes, which the caller appends. errors: as buf_append. */
int proto_wire_put_head(struct buf *out, uint32_t number, size_t len);

/* Bytes that a field of `len` bytes takes with its head. */
size_t proto_wire_bytes_len(uint32_t number, size_t len);

#endif
