/* SPDX-License-Identifier: Apache-2.0
 *
 * gRPC message framing: one flag byte, four bytes of length, the message, perhaps compressed. Pure:
 * bytes in any cut, no memory beyond what has arrived or its unpacked form.
 */
#ifndef FOLIOT_LIB_RPC_GRPC_MSG_H
#define FOLIOT_LIB_RPC_GRPC_MSG_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Flag and length before each message. source: gRPC over HTTP/2, Length-Prefixed-Message */
#define GRPC_PREFIX_BYTES 5U

/* Write the prefix of a message. shape: len ≤ UINT32_MAX, packed if it is compressed. */
void grpc_write_prefix(uint8_t prefix[GRPC_PREFIX_BYTES], size_t len, bool is_compressed);

/* How messages with the compressed flag are packed: what grpc-encoding says. */
enum grpc_encoding {
    GRPC_ENCODING_IDENTITY, /* not at all: the flag is an error */
    GRPC_ENCODING_GZIP,
    GRPC_ENCODING_UNKNOWN /* one that we do not have */
};

/* What grpc-accept-encoding says of us. */
#define GRPC_ACCEPT_ENCODING "identity,gzip"

/* Read a grpc-encoding. */
enum grpc_encoding grpc_encoding_parse(struct slice value);

/* Does a grpc-accept-encoding list gzip? */
bool grpc_accepts_gzip(struct slice list);

/*
 * Collects messages, one at a time.
 *
 * 1. The body holds at most the bytes that have arrived: a length alone allocates nothing.
 * 2. Once failed, everything further is dropped.
 * 3. is_whole: the body is the message, unpacked.
 */
struct grpc_reader {
    struct buf body;
    size_t max;      /* largest message accepted, packed and unpacked */
    size_t expected; /* length by the prefix */
    enum grpc_encoding encoding;
    uint8_t prefix[GRPC_PREFIX_BYTES];
    uint8_t prefix_len;
    bool is_whole;
    bool is_failed;
};

/* Start empty, with GRPC_ENCODING_IDENTITY. */
void grpc_reader_init(struct grpc_reader *reader, size_t max);

/* Free the body. */
void grpc_reader_fini(struct grpc_reader *reader);

/*
 * Take bytes of the one message of a unary call, in any cut.
 *
 * shape:  *why is set to a constant text when the result is not RPC_OK.
 * errors: RPC_RESOURCE_EXHAUSTED for a message above max, before a byte of it is kept, for one that
 *         unpacks to more, or out of memory; RPC_INTERNAL for a compressed message without
 *         encoding, one that is damaged, or an unknown flag; RPC_UNIMPLEMENTED for a second
 *         message.
 */
enum rpc_status grpc_reader_take(struct grpc_reader *reader, struct slice bytes, const char **why);

/*
 * Take bytes of a stream of messages up to the end of one; *bytes is then what is left.
 *
 * note:   when is_whole comes true, use the message and call grpc_reader_next.
 * errors: as grpc_reader_take, without RPC_UNIMPLEMENTED.
 */
enum rpc_status grpc_reader_take_one(struct grpc_reader *reader, struct slice *bytes,
                                     const char **why);

/* Drop the message that is whole, be ready for the next. */
void grpc_reader_next(struct grpc_reader *reader);

/*
 * The stream of a unary call ended: is there exactly one whole message?
 *
 * errors: RPC_INTERNAL if it was cut off, RPC_UNIMPLEMENTED if there is none.
 */
enum rpc_status grpc_reader_end(const struct grpc_reader *reader, const char **why);

/* The message, borrowed until next or fini. shape: it is whole. */
struct slice grpc_reader_message(const struct grpc_reader *reader);

/* Was no byte taken, of this message? */
bool grpc_reader_is_empty(const struct grpc_reader *reader);

#endif
