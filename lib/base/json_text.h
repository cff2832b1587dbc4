/* SPDX-License-Identifier: Apache-2.0
 *
 * Text inside the quotes of a JSON string.
 */
#ifndef FOLIOT_LIB_BASE_JSON_TEXT_H
#define FOLIOT_LIB_BASE_JSON_TEXT_H

#include "lib/base/buf.h"

/* Append text as the inside of a JSON string; a byte that is not UTF-8 becomes U+FFFD. errors: as
 * buf_append. */
int json_text_put(struct buf *out, struct slice text);

#endif
