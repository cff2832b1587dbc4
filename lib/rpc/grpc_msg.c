/* SPDX-License-Identifier: Apache-2.0
 *
 * The framing of unary messages.
 */
#include "lib/rpc/grpc_msg.h"

#include "lib/base/check.h"

#include <string.h>

#define FLAG_COMPRESSED 1U

void grpc_write_prefix(uint8_t prefix[GRPC_PREFIX_BYTES], size_t len)
{
    REQUIRE(len <= UINT32_MAX);
    prefix[0] = 0;
    prefix[1] = (uint8_t)(len >> 24);
    prefix[2] = (uint8_t)(len >> 16);
    prefix[3] = (uint8_t)(len >> 8);
    prefix[4] = (uint8_t)len;
}

void grpc_reader_init(struct grpc_reader *reader, size_t max)
{
    memset(reader, 0, sizeof(*reader));
    reader->max = max;
    buf_init(&reader->body, max);
}

void grpc_reader_fini(struct grpc_reader *reader)
{
    buf_fini(&reader->body);
}

static enum rpc_status fail(struct grpc_reader *reader, enum rpc_status status, const char *text,
                            const char **why)
{
    reader->is_failed = true;
    buf_fini(&reader->body);
    *why = text;
    return status;
}

static enum rpc_status check_prefix(struct grpc_reader *reader, const char **why)
{
    const uint8_t *prefix = reader->prefix;

    if (prefix[0] == FLAG_COMPRESSED) {
        return fail(reader, RPC_INTERNAL, "the message is compressed, but no grpc-encoding was set",
                    why);
    }
    if (prefix[0] != 0) {
        return fail(reader, RPC_INTERNAL, "the message has an unknown flag", why);
    }
    reader->expected = (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 |
                       (size_t)prefix[4];
    if (reader->expected > reader->max) {
        return fail(reader, RPC_RESOURCE_EXHAUSTED, "the message is larger than the limit", why);
    }
    return RPC_OK;
}

enum rpc_status grpc_reader_take(struct grpc_reader *reader, struct slice bytes, const char **why)
{
    size_t missing;

    if (reader->is_failed) {
        return RPC_OK;
    }
    while (bytes.len > 0 && reader->prefix_len < GRPC_PREFIX_BYTES) {
        reader->prefix[reader->prefix_len++] = *bytes.data;
        bytes = (struct slice){bytes.data + 1, bytes.len - 1};
        if (reader->prefix_len == GRPC_PREFIX_BYTES) {
            enum rpc_status status = check_prefix(reader, why);

            if (status != RPC_OK) {
                return status;
            }
        }
    }
    if (bytes.len == 0) {
        return RPC_OK;
    }
    missing = reader->expected - buf_len(&reader->body);
    if (bytes.len > missing) {
        return fail(reader, RPC_UNIMPLEMENTED, "more than one message in a unary call", why);
    }
    if (buf_append(&reader->body, bytes.data, bytes.len) != 0) {
        return fail(reader, RPC_RESOURCE_EXHAUSTED, "out of memory for the message", why);
    }
    return RPC_OK;
}

enum rpc_status grpc_reader_end(const struct grpc_reader *reader, const char **why)
{
    if (reader->prefix_len == 0) {
        *why = "no message in a unary call";
        return RPC_UNIMPLEMENTED;
    }
    if (reader->prefix_len < GRPC_PREFIX_BYTES || buf_len(&reader->body) < reader->expected) {
        *why = "the message is cut off";
        return RPC_INTERNAL;
    }
    return RPC_OK;
}

struct slice grpc_reader_message(const struct grpc_reader *reader)
{
    return buf_slice(&reader->body);
}

bool grpc_reader_is_empty(const struct grpc_reader *reader)
{
    return reader->prefix_len == 0;
}
