/* SPDX-License-Identifier: Apache-2.0
 *
 * Unpacking inside a budget, and packing into our buffers.
 */
#include "proto/message.h"

#include "lib/base/check.h"

#include <string.h>

static void *allocate(void *ctx, size_t size)
{
    return arena_new(ctx, size);
}

static void release(void *ctx, void *block)
{
    arena_del(ctx, block);
}

static int refuse_unpack(const struct arena *arena, struct fault *fault)
{
    if (arena->no_memory) {
        fault_set_err(fault, ERR_NO_MEMORY, "decode the message");
        return ERR_NO_MEMORY;
    }
    if (arena->over) {
        fault_set(fault, RPC_RESOURCE_EXHAUSTED, "MESSAGE_TOO_COSTLY", NULL,
                  "the message would unfold to more than %zu bytes of memory, %u times its size; "
                  "send fewer or fuller elements",
                  arena->budget, MESSAGE_BUDGET_FACTOR);
        return ERR_TOO_LARGE;
    }
    fault_set(
        fault, RPC_INVALID_ARGUMENT, "MESSAGE_MALFORMED", NULL,
        "the message is not a serialized protobuf message of the type that this method takes");
    return ERR_INVALID;
}

int message_read(const ProtobufCMessageDescriptor *descriptor, struct slice bytes,
                 struct arena *arena, ProtobufCMessage **out, struct fault *fault)
{
    static const uint8_t nothing[1];
    ProtobufCAllocator allocator = {allocate, release, arena};
    ProtobufCMessage *message;
    size_t elements;
    int err = message_check(descriptor, bytes, &elements, fault);

    if (err != 0) {
        return err;
    }
    arena->over = false;
    arena_allow(arena, MESSAGE_BUDGET_BYTES_MIN);
    arena_allow(arena, MESSAGE_BUDGET_FACTOR * (bytes.len + MESSAGE_ELEMENT_BYTES * elements));
    message = protobuf_c_message_unpack(descriptor, &allocator, bytes.len,
                                        bytes.len == 0 ? nothing : bytes.data);
    if (message == NULL) {
        return refuse_unpack(arena, fault);
    }
    *out = message;
    return 0;
}

size_t message_put_varint(uint8_t *bytes, uint64_t value)
{
    size_t len = 0;

    while (value >= 0x80) {
        bytes[len++] = (uint8_t)(value | 0x80U);
        value >>= 7U;
    }
    bytes[len++] = (uint8_t)value;
    return len;
}

/* Head and message go in together or not at all. */
static int write_whole(const uint8_t *head, size_t head_len, const ProtobufCMessage *message,
                       size_t size, struct buf *out)
{
    uint8_t *room;

    if (head_len + size == 0) {
        return 0;
    }
    if (head_len + size > out->max - buf_len(out)) {
        return ERR_TOO_LARGE;
    }
    room = buf_reserve(out, head_len + size);
    if (room == NULL) {
        return ERR_NO_MEMORY;
    }
    memcpy(room, head, head_len);
    ENSURE(protobuf_c_message_pack(message, room + head_len) == size);
    buf_commit(out, head_len + size);
    return 0;
}

int message_write(const ProtobufCMessage *message, struct buf *out)
{
    static const uint8_t no_head[1];

    return write_whole(no_head, 0, message, protobuf_c_message_get_packed_size(message), out);
}

int message_write_element(uint32_t number, const ProtobufCMessage *message, struct buf *out)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t head[20];
    size_t len = message_put_varint(head, (uint64_t)number << 3U | 2U);

    len += message_put_varint(head + len, size);
    return write_whole(head, len, message, size, out);
}
