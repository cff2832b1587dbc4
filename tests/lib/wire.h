/* SPDX-License-Identifier: Apache-2.0
 *
 * Protobuf bytes by hand, for tests that send what no generated code would write.
 */
#ifndef FOLIOT_TESTS_LIB_WIRE_H
#define FOLIOT_TESTS_LIB_WIRE_H

#include "lib/base/buf.h"

#include <stdint.h>

/* A varint without a tag. */
static inline void wire_raw_varint(struct buf *out, uint64_t value)
{
    while (value >= 0x80) {
        uint8_t byte = (uint8_t)(value | 0x80U);

        (void)buf_append(out, &byte, 1);
        value >>= 7U;
    }
    (void)buf_append(out, &(uint8_t){(uint8_t)value}, 1);
}

/* A varint field: number, bool, enum. */
static inline void wire_varint(struct buf *out, uint32_t number, uint64_t value)
{
    wire_raw_varint(out, (uint64_t)number << 3U);
    wire_raw_varint(out, value);
}

/* A length-delimited field: bytes, text, sub-message. */
static inline void wire_field(struct buf *out, uint32_t number, const void *bytes, size_t len)
{
    wire_raw_varint(out, (uint64_t)number << 3U | 2U);
    wire_raw_varint(out, len);
    (void)buf_append(out, bytes, len);
}

/* A text field. */
static inline void wire_string(struct buf *out, uint32_t number, const char *text)
{
    struct slice slice = slice_of(text);

    wire_field(out, number, slice.data, slice.len);
}

/* A Timestamp or Duration field, zeros included. */
static inline void wire_time(struct buf *out, uint32_t number, int64_t seconds, int32_t nanos)
{
    struct buf time;

    buf_init(&time, 64);
    wire_varint(&time, 1, (uint64_t)seconds);
    wire_varint(&time, 2, (uint64_t)(int64_t)nanos);
    wire_field(out, number, buf_slice(&time).data, buf_len(&time));
    buf_fini(&time);
}

#endif
