/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip of single messages: each has a context of its own, as gRPC wants it. Pure; the only file
 * that knows zlib.
 */
#ifndef FOLIOT_LIB_RPC_GRPC_GZIP_H
#define FOLIOT_LIB_RPC_GRPC_GZIP_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

/*
 * Append what a gzip member holds.
 *
 * errors: ERR_TOO_LARGE if it holds more than out has room for, found before more than that is
 *         written; ERR_PROTOCOL if it is no gzip, is damaged, cut off, or followed by anything;
 *         ERR_NO_MEMORY. out has then some of it.
 */
MUST_USE int grpc_gzip_inflate(struct slice packed, struct buf *out);

/*
 * Append the gzip of some bytes, made quickly rather than well.
 *
 * errors: ERR_TOO_LARGE, ERR_NO_MEMORY. out has then some of it.
 */
MUST_USE int grpc_gzip_deflate(struct slice bytes, struct buf *out);

#endif
