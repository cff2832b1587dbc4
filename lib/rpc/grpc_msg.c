/* SPDX-License-Identifier: Apache-2.0
 *
 * The framing of messages.
 */
#include "lib/rpc/grpc_msg.h"

#include "lib/base/check.h"
#include "lib/rpc/grpc_gzip.h"

#include <string.h>

#define FLAG_COMPRESSED 1U

enum grpc_encoding grpc_encoding_parse(struct slice value)
{
    if (slice_equal(value, slice_of("identity"))) {
        return GRPC_ENCODING_IDENTITY;
    }
    return slice_equal(value, slice_of("gzip")) ? GRPC_ENCODING_GZIP : GRPC_ENCODING_UNKNOWN;
}

bool grpc_accepts_gzip(struct slice list)
{
    const struct slice gzip = slice_of("gzip");

    while (list.len > 0) {
        const uint8_t *comma = memchr(list.data, ',', list.len);
        size_t len = comma == NULL ? list.len : (size_t)(comma - list.data);
        struct slice item = {list.data, len};

        while (item.len > 0 && *item.data == ' ') {
            item = (struct slice){item.data + 1, item.len - 1};
        }
        while (item.len > 0 && item.data[item.len - 1] == ' ') {
            item.len--;
        }
        if (slice_equal(item, gzip)) {
            return true;
        }
        len += comma != NULL;
        list = (struct slice){list.data + len, list.len - len};
    }
    return false;
}

void grpc_write_prefix(uint8_t prefix[GRPC_PREFIX_BYTES], size_t len, bool is_compressed)
{
    REQUIRE(len <= UINT32_MAX);
    prefix[0] = is_compressed ? FLAG_COMPRESSED : 0;
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
    reader->is_whole = false;
    buf_fini(&reader->body);
    *why = text;
    return status;
}

static enum rpc_status check_prefix(struct grpc_reader *reader, const char **why)
{
    const uint8_t *prefix = reader->prefix;

    if (prefix[0] == FLAG_COMPRESSED && reader->encoding != GRPC_ENCODING_GZIP) {
        return fail(reader, RPC_INTERNAL,
                    reader->encoding == GRPC_ENCODING_UNKNOWN
                        ? "the message is compressed by a grpc-encoding that was not offered"
                        : "the message is compressed, but no grpc-encoding was set",
                    why);
    }
    if (prefix[0] > FLAG_COMPRESSED) {
        return fail(reader, RPC_INTERNAL, "the message has an unknown flag", why);
    }
    reader->expected = (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 |
                       (size_t)prefix[4];
    if (reader->expected > reader->max) {
        return fail(reader, RPC_RESOURCE_EXHAUSTED, "the message is larger than the limit", why);
    }
    return RPC_OK;
}

/* Take bytes of the prefix off the front, and check it when it is complete. */
static enum rpc_status take_prefix(struct grpc_reader *reader, struct slice *bytes,
                                   const char **why)
{
    while (bytes->len > 0 && reader->prefix_len < GRPC_PREFIX_BYTES) {
        reader->prefix[reader->prefix_len++] = *bytes->data;
        *bytes = (struct slice){bytes->data + 1, bytes->len - 1};
        if (reader->prefix_len == GRPC_PREFIX_BYTES) {
            return check_prefix(reader, why);
        }
    }
    return RPC_OK;
}

/* Put the unpacked message in the place of the packed one. */
static enum rpc_status unpack(struct grpc_reader *reader, const char **why)
{
    struct buf plain;
    int err;

    buf_init(&plain, reader->max);
    err = grpc_gzip_inflate(buf_slice(&reader->body), &plain);
    if (err == 0) {
        buf_fini(&reader->body);
        reader->body = plain;
        return RPC_OK;
    }
    buf_fini(&plain);
    switch (err) {
    case ERR_TOO_LARGE:
        return fail(reader, RPC_RESOURCE_EXHAUSTED,
                    "the message is larger than the limit when it is unpacked", why);
    case ERR_NO_MEMORY:
        return fail(reader, RPC_RESOURCE_EXHAUSTED, "out of memory for the message", why);
    default:
        return fail(reader, RPC_INTERNAL, "the message is not one whole gzip", why);
    }
}

enum rpc_status grpc_reader_take_one(struct grpc_reader *reader, struct slice *bytes,
                                     const char **why)
{
    enum rpc_status status;
    size_t len;

    if (reader->is_failed) {
        bytes->len = 0;
    }
    if (bytes->len == 0 || reader->is_whole) {
        return RPC_OK;
    }
    status = take_prefix(reader, bytes, why);
    if (status != RPC_OK || reader->prefix_len < GRPC_PREFIX_BYTES) {
        return status;
    }
    len = reader->expected - buf_len(&reader->body);
    len = len < bytes->len ? len : bytes->len;
    if (buf_append(&reader->body, bytes->data, len) != 0) {
        return fail(reader, RPC_RESOURCE_EXHAUSTED, "out of memory for the message", why);
    }
    *bytes = (struct slice){bytes->data + len, bytes->len - len};
    if (buf_len(&reader->body) < reader->expected) {
        return RPC_OK;
    }
    reader->is_whole = true;
    return reader->prefix[0] == FLAG_COMPRESSED ? unpack(reader, why) : RPC_OK;
}

enum rpc_status grpc_reader_take(struct grpc_reader *reader, struct slice bytes, const char **why)
{
    enum rpc_status status = grpc_reader_take_one(reader, &bytes, why);

    if (status == RPC_OK && bytes.len > 0) {
        return fail(reader, RPC_UNIMPLEMENTED, "more than one message in a unary call", why);
    }
    return status;
}

void grpc_reader_next(struct grpc_reader *reader)
{
    REQUIRE(reader->is_whole);
    buf_fini(&reader->body);
    reader->prefix_len = 0;
    reader->is_whole = false;
}

enum rpc_status grpc_reader_end(const struct grpc_reader *reader, const char **why)
{
    if (reader->prefix_len == 0) {
        *why = "no message in a unary call";
        return RPC_UNIMPLEMENTED;
    }
    if (!reader->is_whole) {
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
