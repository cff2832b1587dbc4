/* SPDX-License-Identifier: Apache-2.0
 *
 * gRPC message framing of unary calls: one flag byte, four bytes of length, the message. Pure:
 * bytes in any cut, no stream, no memory beyond what has arrived.
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

/* Write the prefix of an uncompressed message. shape: len ≤ UINT32_MAX. */
void grpc_write_prefix(uint8_t prefix[GRPC_PREFIX_BYTES], size_t len);

/*
 * Collects the one message of a unary call.
 *
 * 1. The body holds at most the bytes that have arrived: a length alone allocates nothing.
 * 2. Once failed, everything further is dropped.
 */
struct grpc_reader {
    struct buf body;
    size_t max;      /* largest message accepted */
    size_t expected; /* length by the prefix */
    uint8_t prefix[GRPC_PREFIX_BYTES];
    uint8_t prefix_len;
    bool is_failed;
};

void grpc_reader_init(struct grpc_reader *reader, size_t max);

/* Free the body. */
void grpc_reader_fini(struct grpc_reader *reader);

/*
 * Take bytes, in any cut.
 *
 * shape:  *why is set to a constant text when the result is not RPC_OK.
 * errors: RPC_RESOURCE_EXHAUSTED for a message above max, before a byte of it is kept, or out of
 *         memory; RPC_INTERNAL for a compressed message (no compression was agreed) or an unknown
 *         flag; RPC_UNIMPLEMENTED for a second message.
 */
enum rpc_status grpc_reader_take(struct grpc_reader *reader, struct slice bytes, const char **why);

/*
 * The stream ended: is there exactly one whole message?
 *
 * errors: RPC_INTERNAL if it was cut off, RPC_UNIMPLEMENTED if there is none.
 */
enum rpc_status grpc_reader_end(const struct grpc_reader *reader, const char **why);

/* The message, borrowed until fini. shape: grpc_reader_end gave RPC_OK. */
struct slice grpc_reader_message(const struct grpc_reader *reader);

/* Was any byte taken? */
bool grpc_reader_is_empty(const struct grpc_reader *reader);

#endif
