/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts in gRPC's headers: timeouts, percent-coded messages, base64 values, paths, names, and
 * what a plain HTTP status or a stream reset means. Pure.
 */
#ifndef FOLIOT_LIB_RPC_GRPC_HEADER_H
#define FOLIOT_LIB_RPC_GRPC_HEADER_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/instant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Eight digits, a unit, a NUL. */
#define GRPC_TIMEOUT_BYTES 10U

/* Longest status message sent, so that trailers stay small. */
#define GRPC_MESSAGE_BYTES_MAX 1024U

/*
 * Read a grpc-timeout: 1 to 8 digits and one of H M S m u n.
 *
 * units:  out in microseconds, nanoseconds rounded up.
 * errors: ERR_INVALID.
 */
MUST_USE int grpc_timeout_parse(struct slice text, int64_t *out_us);

/*
 * Write a grpc-timeout in the finest unit that fits eight digits, rounded down so that the peer
 * does not work past our deadline; at least "1n".
 *
 * shape: us may be anything; text has GRPC_TIMEOUT_BYTES.
 */
void grpc_timeout_format(int64_t us, char *text);

/*
 * Percent-encode a status message: everything outside 0x20 … 0x7e, and "%", in upper-case hex.
 *
 * shape:  appended to out; text is cut to GRPC_MESSAGE_BYTES_MAX, not inside a UTF-8 sequence.
 * errors: as buf_append.
 */
MUST_USE int grpc_percent_encode(struct slice text, struct buf *out);

/*
 * Undo it. Never fails on content: what is not a valid escape stays as it is.
 *
 * errors: as buf_append.
 */
MUST_USE int grpc_percent_decode(struct slice text, struct buf *out);

/* A status in decimal without sign, 0 … 16; anything else is RPC_UNKNOWN. */
enum rpc_status grpc_status_parse(struct slice text);

/* A signed decimal number. errors: ERR_INVALID also when out of range. */
MUST_USE int grpc_number_parse(struct slice text, int64_t *out);

/* "application/grpc", alone, or followed by "+proto" and by ";…": the only messages we read. */
bool grpc_is_content_type(struct slice text);

/* "/package.Service/Method": two non-empty parts. */
bool grpc_is_path(struct slice path);

/* The service of such a path, "package.Service". */
struct slice grpc_path_service(struct slice path);

/* A name for user metadata: [0-9a-z_.-]+, not reserved ("grpc-…", and what HTTP/2 or we set). */
bool grpc_is_metadata_name(struct slice name);

/* Does the name end in "-bin"? */
bool grpc_is_binary_name(struct slice name);

/* Text metadata values: 0x20 … 0x7e, no blanks at the ends. */
bool grpc_is_metadata_value(struct slice value);

/* gRPC status for a response without grpc-status. source: http-grpc-status-mapping.md */
enum rpc_status grpc_status_of_http(int http_status);

/* gRPC status for a stream reset with an HTTP/2 error code. source: gRPC over HTTP/2, Errors */
enum rpc_status grpc_status_of_reset(uint32_t code);

#endif
