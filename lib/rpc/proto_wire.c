/* SPDX-License-Identifier: Apache-2.0
 *
 * Varints, tags and lengths.
 */
#include "lib/rpc/proto_wire.h"

#include "lib/base/err.h"

/* Seven bits a byte for 64 bits. */
#define VARINT_BYTES_MAX 10U

#define NUMBER_MAX 0x1fffffffU

/* errors: ERR_INVALID. */
static int take_varint(struct slice *rest, uint64_t *out)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && rest->len > 0; shift += 7) {
        uint8_t byte = *rest->data;

        *rest = (struct slice){rest->data + 1, rest->len - 1};
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *out = value;
            return 0;
        }
    }
    return ERR_INVALID;
}

/* errors: ERR_INVALID. */
static int take_bytes(struct slice *rest, uint64_t len, struct slice *out)
{
    if (len > rest->len) {
        return ERR_INVALID;
    }
    *out = (struct slice){rest->data, (size_t)len};
    *rest = (struct slice){rest->data + len, rest->len - (size_t)len};
    return 0;
}

int proto_wire_next(struct slice *rest, struct proto_field *out)
{
    struct proto_field field = {.value = 0};
    uint64_t tag;
    uint64_t len;
    int err = take_varint(rest, &tag);

    if (err != 0 || tag >> 3 == 0 || tag >> 3 > NUMBER_MAX) {
        return ERR_INVALID;
    }
    field.number = (uint32_t)(tag >> 3);
    switch (tag & 7) {
    case PROTO_VARINT:
        field.type = PROTO_VARINT;
        err = take_varint(rest, &field.value);
        break;
    case PROTO_FIXED64:
        field.type = PROTO_FIXED64;
        err = take_bytes(rest, 8, &field.bytes);
        break;
    case PROTO_BYTES:
        field.type = PROTO_BYTES;
        err = take_varint(rest, &len);
        if (err == 0) {
            err = take_bytes(rest, len, &field.bytes);
        }
        break;
    case PROTO_FIXED32:
        field.type = PROTO_FIXED32;
        err = take_bytes(rest, 4, &field.bytes);
        break;
    default:
        return ERR_INVALID;
    }
    if (err == 0) {
        *out = field;
    }
    return err;
}

struct slice proto_wire_find(struct slice message, uint32_t number)
{
    struct slice found = {NULL, 0};
    struct proto_field field;

    while (message.len > 0 && proto_wire_next(&message, &field) == 0) {
        if (field.number == number && field.type == PROTO_BYTES) {
            found = field.bytes;
        }
    }
    return found;
}

static size_t write_varint(uint8_t space[VARINT_BYTES_MAX], uint64_t value)
{
    size_t len = 0;

    while (value >= 0x80) {
        space[len++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    space[len++] = (uint8_t)value;
    return len;
}

static int put_two(struct buf *out, uint64_t first, uint64_t second)
{
    uint8_t space[2 * VARINT_BYTES_MAX];
    size_t len = write_varint(space, first);

    len += write_varint(space + len, second);
    return buf_append(out, space, len);
}

int proto_wire_put_varint(struct buf *out, uint32_t number, uint64_t value)
{
    return put_two(out, (uint64_t)number << 3 | PROTO_VARINT, value);
}

int proto_wire_put_head(struct buf *out, uint32_t number, size_t len)
{
    return put_two(out, (uint64_t)number << 3 | PROTO_BYTES, len);
}

int proto_wire_put_bytes(struct buf *out, uint32_t number, struct slice bytes)
{
    int err = proto_wire_put_head(out, number, bytes.len);

    return err != 0 ? err : buf_append(out, bytes.data, bytes.len);
}

size_t proto_wire_bytes_len(uint32_t number, size_t len)
{
    uint8_t space[VARINT_BYTES_MAX];

    return write_varint(space, (uint64_t)number << 3 | PROTO_BYTES) + write_varint(space, len) +
           len;
}
