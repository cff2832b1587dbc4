/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as base64 text and back. source: RFC 4648
 */
#ifndef FOLIOT_LIB_BASE_BASE64_H
#define FOLIOT_LIB_BASE_BASE64_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdbool.h>

/* Append bytes in the standard alphabet, with or without padding. errors: as buf_append. */
int base64_encode(struct slice bytes, bool is_padded, struct buf *out);

/*
 * Append the bytes of a text.
 *
 * shape:  the standard or the URL-safe alphabet, with padding or without.
 * errors: ERR_INVALID, with part of the bytes appended; and as buf_append.
 */
MUST_USE int base64_decode(struct slice text, struct buf *out);

#endif
