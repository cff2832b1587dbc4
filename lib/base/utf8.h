/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 as RFC 3629 has it: shortest form, no surrogates, nothing above U+10FFFF.
 */
#ifndef FOLIOT_LIB_BASE_UTF8_H
#define FOLIOT_LIB_BASE_UTF8_H

#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that starts at `bytes`: 1 … 4, or 0 if there is no whole, valid one. */
size_t utf8_char_len(const uint8_t *bytes, size_t len);

/* Whether all of it is UTF-8. NUL is a valid character here. */
bool utf8_is_valid(struct slice text);

/*
 * Longest cut of at most `max` bytes that does not split a character.
 *
 * shape: at least max + 1 bytes are there. Text that is not UTF-8 may be cut anywhere.
 */
size_t utf8_cut(const uint8_t *bytes, size_t max);

#endif
